//! flock(2) and unlock of one file by all tasks.
//!
//! Each task opens the file for itself, and the lock belongs to that open file
//! description, so tasks take turns in both forms. Operations per second cannot grow
//! with CPUs; what matters is how far they fall: each release wakes waiters, each waiter
//! costs a sleep and a wake-up. Compare with posix_lock_shared, which adds deadlock
//! detection. lockperf calls it flock01 and quotes the sum over tasks of the time in lock
//! and unlock (`task_time_s`). Check fairness too: a fast unfair lock starves some tasks.

use crate::file_lock::{self, Exclusion, Flock, LockMode};
use crate::files::FileSharing;
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["flock01"],
    family: Family::FileLocks,
    operation: "one flock(LOCK_EX) and one flock(LOCK_UN)",
    forms: Forms::Both,
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = LockMode::from_load(load);
        file_lock::prepare(load, FileSharing::Shared, Exclusion::Exclusive, move |path, _| {
            Flock::open(path, mode)
        })
    },
};
