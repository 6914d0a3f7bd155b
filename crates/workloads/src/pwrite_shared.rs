//! Overwriting disjoint blocks of one file that all tasks share.
//!
//! Each task has a region of its own, whole pages long, and its own file description, so
//! no two tasks touch the same byte or page. Still they take turns on most file systems:
//! a buffered write holds the inode lock exclusively. Operations per second then cannot
//! grow, and the curve shows how far they fall; compare with pwrite_own.

use crate::file_write;
use crate::files::FileSharing;
use crate::{Family, Forms, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pwrite3"],
    family: Family::Files,
    operation: "one pwrite over the next block of the task's region of the file",
    forms: Forms::Both,
    parameters: file_write::PARAMETERS,
    needs: file_write::NEEDS,
    prepare: |load| file_write::prepare(load, FileSharing::Shared),
};
