//! Reading blocks of one file that all tasks share, from the page cache.
//!
//! With `region=own`, no two tasks read the same page; with `region=same` they do, and each read takes and drops
//! a reference on that page's folio, a cache line that all CPUs then write. A buffered read takes no inode lock
//! on ext4 and btrfs, but a shared one on XFS: there even disjoint reads write one cache line.

use crate::file_read;
use crate::files::FileSharing;
use crate::{Family, Forms, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pread3"],
    family: Family::Files,
    operation: "one pread of the next block of the task's region of the file",
    forms: Forms::Both,
    parameters: file_read::PARAMETERS_OF_SHARED,
    needs: file_read::NEEDS,
    prepare: |load| file_read::prepare(load, FileSharing::Shared),
};
