//! POSIX lock and unlock of a file of the task's own.
//!
//! No two tasks want the same lock, so every bend in this curve is the kernel's
//! bookkeeping: before Linux 3.11 one global spinlock, since then per-CPU lists that
//! keep /proc/locks. lockperf calls it posix02 and quotes the sum over tasks of the time
//! in lock and unlock (`task_time_s`). Waiting for a lock nobody holds is the same call
//! as trying, so `mode` should make no difference here.

use crate::file_lock::{self, Excludes, Mode, Owner, RecordLock, Whose};
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["posix02", "lock1"],
    family: Family::FileLocks,
    operation: "one fcntl write lock and one unlock of the whole file",
    forms: Forms::Both,
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = Mode::of(load);
        file_lock::prepare(load, Whose::Own, Excludes::Nobody, move |path, _| {
            RecordLock::whole(path, Owner::Process, mode)
        })
    },
};
