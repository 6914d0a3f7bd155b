//! POSIX lock and unlock of one file by all tasks, each of a byte range of its own.
//!
//! No two ranges touch, so no task waits for another: what bends this curve is what the
//! kernel keeps per file. All locks of a file are in one list under one spinlock, and
//! each new lock is compared with every lock held at that moment, so the more tasks hold
//! theirs, the more an operation costs (raise `hold_ns` to see it). Compare with
//! posix_lock_own, where only the kernel-wide bookkeeping is shared. Databases that lock
//! records this way have this curve.
//!
//! A gap as long as a range lies behind each range: threads of one process own POSIX
//! locks together, and neighbouring ranges of one owner would be merged into one lock.

use crate::file_lock::{self, Exclusion, HOLD, LockMode, LockOwner, MODE, RecordLock};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Parameter, ParameterKind, Spec, TaskForm};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::FileLocks,
    operation: "one fcntl write lock and one unlock of the task's byte range",
    forms: Forms::Both,
    parameters: &[
        MODE,
        HOLD,
        Parameter {
            name: "range_bytes",
            about: "length of each task's range",
            default: "4k",
            kind: ParameterKind::Number { min: 1, max: 1 << 30 },
        },
    ],
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        let length = load.values.number("range_bytes") as i64;
        let exclusion = match load.form {
            TaskForm::Processes => Exclusion::Independent,
            TaskForm::Threads => Exclusion::CommonOwner,
        };
        file_lock::prepare(load, FileSharing::Shared, exclusion, move |path, index| {
            let start = index as i64 * 2 * length;
            let range = file_lock::range(libc::F_WRLCK, start, length);
            RecordLock::open(path, LockOwner::Process, mode, range)
        })
    },
};
