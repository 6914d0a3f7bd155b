//! Open and close of a file of the task's own, in a directory of its own.
//!
//! Tasks share neither file nor directory, and with `mode=read` or `write` the path walk
//! takes no reference on the directory: processes should scale nearly like getppid.
//! Threads share one table of file descriptors, whose lock each open and each close takes;
//! the difference between the two forms is the cost of that lock.

use crate::open_close::{self, FileLocation};
use crate::{Family, Forms, Need, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["open2"],
    family: Family::Files,
    operation: "one open and one close of the task's file",
    forms: Forms::Both,
    parameters: &[open_close::MODE],
    needs: &[Need::OpenFiles(3)],
    prepare: |load| open_close::prepare(load, FileLocation::OwnDirectory),
};
