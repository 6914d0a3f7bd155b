//! POSIX read lock and unlock of one whole file by all tasks.
//!
//! Readers do not exclude each other, so nobody ever waits for a lock; operations per
//! second should grow with CPUs, and what stops them is the kernel: the list of the
//! file's locks and the spinlock that guards it. Compare with posix_lock_shared, where
//! tasks take turns by intent: a curve as flat as that one means that readers are
//! readers in name only.

use crate::file_lock::{self, Excludes, Mode, Owner, RecordLock, Whose};
use crate::{Family, Form, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::FileLocks,
    operation: "one fcntl read lock and one unlock of the whole file",
    forms: Forms::Noted(
        Form::Threads,
        "threads of one process own POSIX locks together: there is one read lock, not one \
         a task, and each unlock unlocks for all",
    ),
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = Mode::of(load);
        let excludes = match load.form {
            Form::Processes => Excludes::Nobody,
            Form::Threads => Excludes::NotEvenItself,
        };
        file_lock::prepare(load, Whose::Shared, excludes, move |path, _| {
            let range = file_lock::range(libc::F_RDLCK, 0, 0);
            RecordLock::open(path, Owner::Process, mode, range)
        })
    },
};
