//! POSIX lock and unlock of one file by all tasks.
//!
//! Tasks take turns on one whole-file write lock, so operations per second cannot grow
//! with CPUs; what matters is how far they fall. Each release wakes the waiters (all of
//! them before Linux 5.0, a tree of them since), each wait runs deadlock detection.
//! lockperf calls it posix01 and quotes the sum over tasks of the time in lock and
//! unlock (`task_time_s`). Check fairness too: a fast unfair lock starves some tasks.
//! will-it-scale's lock2 locks one byte, whose unlock costs more (see posix_lock_own).

use crate::file_lock::{self, Exclusion, LockMode, LockOwner, RecordLock};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec, TaskForm};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["posix01"],
    family: Family::FileLocks,
    operation: "one fcntl write lock and one unlock of the whole file",
    forms: Forms::Noted(
        TaskForm::Threads,
        "threads of one process own POSIX locks together: they never wait for each other, \
         and each unlock unlocks for all",
    ),
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        let exclusion = match load.form {
            TaskForm::Processes => Exclusion::Exclusive,
            TaskForm::Threads => Exclusion::CommonOwner,
        };
        file_lock::prepare(load, FileSharing::Shared, exclusion, move |path, _| {
            RecordLock::whole(path, LockOwner::Process, mode)
        })
    },
};
