//! POSIX lock and unlock of one file by all tasks.
//!
//! Tasks take turns on one whole-file write lock, so operations per second cannot grow
//! with CPUs; what matters is how far they fall. Each release wakes the waiters (all of
//! them before Linux 5.0, a tree of them since), each wait runs deadlock detection.
//! lockperf calls it posix01 and quotes the sum over tasks of the time in lock and
//! unlock (`task_time_s`). Read fairness too: a fast unfair lock starves somebody.

use crate::file_lock::{self, Excludes, Mode, Owner, RecordLock, Whose};
use crate::{Family, Form, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["posix01", "lock2"],
    family: Family::FileLocks,
    operation: "one fcntl write lock and one unlock of the whole file",
    forms: Forms::Noted(
        Form::Threads,
        "threads of one process own POSIX locks together: they never wait for each other, \
         and each unlock unlocks for all",
    ),
    parameters: file_lock::PARAMETERS,
    needs: &[Need::OpenFiles(2)],
    prepare: |load| {
        let mode = Mode::of(load);
        let excludes = match load.form {
            Form::Processes => Excludes::Others,
            Form::Threads => Excludes::NotEvenItself,
        };
        file_lock::prepare(load, Whose::Shared, excludes, move |path, _| {
            RecordLock::whole(path, Owner::Process, mode)
        })
    },
};
