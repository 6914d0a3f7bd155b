//! Write lease taken on a file of the task's own and given back.
//!
//! A lease (`F_SETLEASE`) notifies its holder when another process opens the file; file
//! servers hold many. No process opens these files, so no lease is ever broken, and every
//! bend in this curve is bookkeeping that all tasks share: the per-CPU lists that keep
//! /proc/locks, as for flock_own, and one kernel-wide spinlock under which each lease
//! registers for its signal and unregisters. Expect it to scale worse than flock_own.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;

use crate::file_lock::{self, Exclusion, HOLD, Locking};
use crate::files::{self, FileSharing};
use crate::{Failure, Family, Forms, Need, Spec, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::FileLocks,
    operation: "one fcntl(F_SETLEASE) to take a write lease and one to give it back",
    forms: Forms::Both,
    parameters: &[HOLD],
    needs: &[Need::OpenFiles(1), Need::Feature("file leases (F_SETLEASE)", trial)],
    prepare: |load| {
        file_lock::prepare(load, FileSharing::Own, Exclusion::Independent, |path, _| {
            Lease::open(path)
        })
    },
};

/// A write lease. It is granted only while no other description of the file is open, so
/// the query is another call on the same description.
struct Lease {
    file: File,
}

impl Lease {
    fn open(path: &Path) -> Result<Lease, Failure> {
        Ok(Lease { file: files::open(path)? })
    }
}

impl Locking for Lease {
    #[inline(always)]
    fn acquire(&self) -> Result<bool, Failure> {
        sys("fcntl(F_SETLEASE) of a write lease", set(&self.file, libc::F_WRLCK)).map(|_| true)
    }

    #[inline(always)]
    fn release(&self) -> Result<(), Failure> {
        sys("fcntl(F_SETLEASE) to give a lease back", set(&self.file, libc::F_UNLCK)).map(drop)
    }

    fn is_held(&self) -> Result<bool, Failure> {
        // SAFETY: the descriptor is open.
        let kind = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_GETLEASE) };
        Ok(sys("fcntl(F_GETLEASE)", kind)? != libc::F_UNLCK)
    }
}

#[inline(always)]
fn set(file: &File, kind: i32) -> i32 {
    // SAFETY: the descriptor is open; the third argument is a number.
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) }
}

fn trial(file: &File) -> io::Result<()> {
    for kind in [libc::F_WRLCK, libc::F_UNLCK] {
        if set(file, kind) < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}
