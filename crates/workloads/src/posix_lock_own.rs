//! POSIX lock and unlock of a file of the task's own.
//!
//! No two tasks want the same lock, so every bend in this curve is the kernel's
//! bookkeeping: before Linux 3.11 one global spinlock, since then per-CPU lists that
//! keep /proc/locks. lockperf calls it posix02 and quotes the sum over tasks of the time
//! in lock and unlock (`task_time_s`). Taking a free lock costs the same whether the call
//! may wait or not, so `mode` should make no difference here. The lock is of the whole
//! file: will-it-scale's lock1 locks one byte, and to unlock a part of a file the kernel
//! first allocates two more locks, in case it must split one.

use crate::file_lock::{self, Exclusion, LockMode, LockOwner, RecordLock};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["posix02"],
    family: Family::FileLocks,
    operation: "one fcntl write lock and one unlock of the whole file",
    forms: Forms::Both,
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        file_lock::prepare(load, FileSharing::Own, Exclusion::Independent, move |path, _| {
            RecordLock::whole(path, LockOwner::Process, mode)
        })
    },
};
