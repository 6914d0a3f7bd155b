//! Open-file-description lock and unlock of a file of the task's own.
//!
//! The same calls as posix_lock_own, but the lock belongs to the open file description
//! (`F_OFD_SETLK`, Linux 3.15) and not to the process, so threads exclude each other
//! too. Inside the kernel only the owner differs: expect the curve of posix_lock_own; a
//! difference is the cost of the owner.

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
        file_lock::prepare(load, FileSharing::Own, Exclusion::Independent, move |path, _| {
            RecordLock::whole(path, LockOwner::Description, mode)
        })
    },
};
