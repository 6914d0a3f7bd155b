//! Open and close of a file in one directory that all tasks share.
//!
//! Each task has a file of its own there, or with `file=shared` all open the same one.
//! Own files with `mode=read` or `write` leave the directory untouched and should do as
//! well as open_close_own. With `mode=create` the kernel may lock the directory or take a
//! reference on it, though the file exists, and the tasks meet there. With `file=shared`
//! they meet in the file's dentry and inode: each open and close changes the dentry's
//! reference count, and with `write` the inode's count of writers.

use crate::open_close::{self, Place};
use crate::{Family, Forms, Kind, Need, Parameter, Spec};

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
            about: "own: each task opens a file of its own; shared: all open one \
                    (will-it-scale's open3)",
            default: "own",
            kind: Kind::Choice(&["own", "shared"]),
        },
    ],
    needs: &[Need::OpenFiles(3)],
    prepare: |load| {
        let place = match load.values.choice("file") {
            "shared" => Place::SharedFile,
            _ => Place::SharedDirectory,
        };
        open_close::prepare(load, place)
    },
};
