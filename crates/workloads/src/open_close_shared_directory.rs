//! Open and close of a file in one directory that all tasks share.
//!
//! Each task has a file of its own there, or with `file=shared` all open the same one.
//! Own files with `mode=read` or `write` leave the directory untouched and should do as
//! well as open_close_own. With `mode=create` the kernel may lock the directory or take a
//! reference on it, though the file exists, and tasks contend there. With `file=shared`
//! they contend for the file's dentry and inode: each open and close changes the dentry's
//! reference count, and with `write` the inode's count of writers.

use crate::open_close::{self, FileLocation};
use crate::{Family, Forms, Need, Parameter, ParameterKind, Spec};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["open1"],
    family: Family::Files,
    operation: "one open and one close of the task's file",
    forms: Forms::Both,
    parameters: &[
        open_close::MODE,
        Parameter {
            name: "file",
            about: "own: each task opens its own file; shared: all tasks open one \
                    (will-it-scale's open3)",
            default: "own",
            kind: ParameterKind::Choice(&["own", "shared"]),
        },
    ],
    needs: &[Need::OpenFiles(3)],
    prepare: |load| {
        let location = match load.values.choice("file") {
            "shared" => FileLocation::SharedFile,
            _ => FileLocation::SharedDirectory,
        };
        open_close::prepare(load, location)
    },
};
