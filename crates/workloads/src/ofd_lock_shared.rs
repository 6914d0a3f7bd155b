//! Open-file-description lock and unlock of one file by all tasks.
//!
//! Tasks take turns on one whole-file write lock, as in posix_lock_shared, but each task
//! owns its lock through a description of its own (`F_OFD_SETLK`, Linux 3.15): threads
//! exclude each other as processes do, and the kernel runs no deadlock detection for
//! waiters. The difference from posix_lock_shared as processes is the cost of that
//! detection. Check fairness too: a fast unfair lock starves some tasks.

use crate::file_lock::{self, Exclusion, LockMode, LockOwner, RecordLock};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::FileLocks,
    operation: "one fcntl OFD write lock and one unlock of the whole file",
    forms: Forms::Both,
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        file_lock::prepare(load, FileSharing::Shared, Exclusion::Exclusive, move |path, _| {
            RecordLock::whole(path, LockOwner::Description, mode)
        })
    },
};
