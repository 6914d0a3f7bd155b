//! Reading a block of a file of the task's own, from the page cache.
//!
//! Nothing is shared but the kernel's code: the page of each task is its own, and so is the open file. What an
//! operation costs beyond getppid is the way through the VFS, the lookup in the page cache, and the copy of
//! `read_bytes`. Compare with pread_shared, where tasks share the inode.

use crate::file_read;
use crate::files::FileSharing;
use crate::{Family, Forms, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pread1"],
    family: Family::Files,
    operation: "one pread of the next block of the task's file",
    forms: Forms::Both,
    parameters: file_read::PARAMETERS,
    needs: file_read::NEEDS,
    prepare: |load| file_read::prepare(load, FileSharing::Own),
};
