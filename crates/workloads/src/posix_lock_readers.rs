//! POSIX read lock and unlock of one whole file by all tasks.
//!
//! Readers do not exclude each other, so no task ever waits for a lock; operations per
//! second should grow with CPUs, and what stops them is the kernel: the list of the
//! file's locks and the spinlock that guards it. Compare with posix_lock_shared, where
//! tasks must take turns: a curve as flat as that one means that readers are readers in
//! name only.

use crate::file_lock::{self, Exclusion, LockMode, LockOwner, RecordLock};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec, TaskForm};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::FileLocks,
    operation: "one fcntl read lock and one unlock of the whole file",
    forms: Forms::Noted(
        TaskForm::Threads,
        "threads of one process own POSIX locks together: there is one read lock, not one \
         per task, and each unlock unlocks for all",
    ),
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        let exclusion = match load.form {
            TaskForm::Processes => Exclusion::Independent,
            TaskForm::Threads => Exclusion::CommonOwner,
        };
        file_lock::prepare(load, FileSharing::Shared, exclusion, move |path, _| {
            let range = file_lock::range(libc::F_RDLCK, 0, 0);
            RecordLock::open(path, LockOwner::Process, mode, range)
        })
    },
};
