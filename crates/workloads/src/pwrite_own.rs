//! Overwriting blocks of a file of the task's own.
//!
//! All blocks exist and are in the page cache before the start: an operation copies
//! `write_bytes` there and marks the page dirty. The file's inode lock is the task's own,
//! so what bends the curve lies below: memory bandwidth when `size_bytes` exceeds the
//! caches, dirty-page counters, and the flusher that writes the pages back.

use crate::file_write;
use crate::files::FileSharing;
use crate::{Family, Forms, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pwrite1"],
    family: Family::Files,
    operation: "one pwrite over the next block of the task's file",
    forms: Forms::Both,
    parameters: file_write::PARAMETERS,
    needs: file_write::NEEDS,
    prepare: |load| file_write::prepare(load, FileSharing::Own),
};
