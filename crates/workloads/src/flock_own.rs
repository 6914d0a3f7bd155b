//! flock(2) and unlock of a file of the task's own.
//!
//! No two tasks want the same lock, so every bend in this curve is the kernel's
//! bookkeeping: before Linux 3.11 one global spinlock, since then per-CPU lists that
//! keep /proc/locks. A flock lock covers the whole file and belongs to the open file
//! description: no ranges to compare, no deadlock detection, so it should be the leanest
//! of the lock calls. lockperf calls it flock02 and quotes the sum over tasks of the time in
//! lock and unlock (`task_time_s`).

use crate::file_lock::{self, Exclusion, Flock, LockMode};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["flock02"],
    family: Family::FileLocks,
    operation: "one flock(LOCK_EX) and one flock(LOCK_UN)",
    forms: Forms::Both,
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        file_lock::prepare(load, FileSharing::Own, Exclusion::Independent, move |path, _| {
            Flock::open(path, mode)
        })
    },
};
