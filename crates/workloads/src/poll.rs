//! A non-blocking poll of many files.
//!
//! One operation copies the list in, asks each file whether it is ready, and copies the
//! answers out; with timeout 0 nothing is put into wait queues. The time grows with
//! `files`; divide by it for the cost of one file: a file-table lookup and a call of the
//! file's poll function. The files are eventfds of the task's own, so processes share
//! nothing. Threads share one file table and take a reference on each file, as does any
//! process with more than one thread. `kind=regular` is will-it-scale's poll2, and with
//! `files=1` its poll1: regular files have no poll function to call.

use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::eventfd::eventfd;
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, files, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Scheduling,
    operation: "one poll() call over all files of the task, with timeout 0",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "files",
            about: "files in the list of one call; each task has that many open",
            default: "128",
            kind: ParameterKind::Number { min: 1, max: 65536 },
        },
        Parameter {
            name: "ready",
            about: "none: no file is ready; one: the last file is",
            default: "none",
            kind: ParameterKind::Choice(&["none", "one"]),
        },
        Parameter {
            name: "kind",
            about: "eventfd: files with a poll function to call; regular: regular files, which are always ready, \
                    asked whether they can be written",
            default: "eventfd",
            kind: ParameterKind::Choice(&["eventfd", "regular"]),
        },
    ],
    // The number of open files is a parameter: `prepare` checks it.
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let files = load.values.number("files");
    Need::OpenFiles(files).check(load).map_err(Failure::new)?;
    let ready = match load.values.choice("ready") {
        "one" => 1,
        _ => 0,
    };
    match load.values.choice("kind") {
        "eventfd" => Ok(Box::new(Setup { files: files as usize, ready, regular: None })),
        _ if ready == 1 => Err(Failure::new("ready=one: regular files are always ready; leave it out")),
        _ => Ok(Box::new(Setup {
            files: files as usize,
            ready: files as usize,
            regular: Some(load.task_paths()),
        })),
    }
}

struct Setup {
    files: usize,
    /// How many files at the end of the list are ready.
    ready: usize,
    /// The regular files, one for each task; `None` for eventfds.
    regular: Option<Vec<PathBuf>>,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let first_ready = self.files - self.ready;
        let files = match &self.regular {
            None => (0..self.files)
                .map(|file| eventfd(u32::from(file >= first_ready)))
                .collect::<Result<Vec<_>, _>>()?,
            Some(paths) => opened(&paths[index], self.files)?,
        };
        let events = if self.regular.is_some() { libc::POLLOUT } else { libc::POLLIN };
        let entry = |file: &OwnedFd| libc::pollfd { fd: file.as_raw_fd(), events, revents: 0 };
        let list = files.iter().map(entry).collect();
        Ok(Box::new(Poller { list, first_ready, ready: self.ready as i32, _files: files }))
    }
}

/// One new file, opened this many times.
fn opened(path: &Path, times: usize) -> Result<Vec<OwnedFd>, Failure> {
    let first = files::create(path)?;
    let others = (1..times).map(|_| files::open(path)).collect::<Result<Vec<_>, _>>()?;
    Ok(std::iter::once(first).chain(others).map(OwnedFd::from).collect())
}

struct Poller {
    list: Vec<libc::pollfd>,
    first_ready: usize,
    /// What poll() must return.
    ready: i32,
    /// Keeps the files in the list open.
    _files: Vec<OwnedFd>,
}

impl Task for Poller {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: the kernel reads and writes the live list.
        let ready = sys("poll", unsafe {
            libc::poll(self.list.as_mut_ptr(), self.list.len() as libc::nfds_t, 0)
        })?;
        if ready != self.ready {
            return Err(Failure::new(format!(
                "poll() returned {ready} ready files, not {}",
                self.ready
            )));
        }
        Ok(())
    }

    /// The last call gave the right answer for each file.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        for (index, entry) in self.list.iter().enumerate() {
            let is_ready = entry.revents == entry.events;
            if operations > 0 && is_ready != (index >= self.first_ready) {
                return Err(Failure::new(format!(
                    "poll answered {:#x} for file {index} of {}",
                    entry.revents,
                    self.list.len()
                )));
            }
        }
        Ok(())
    }
}
