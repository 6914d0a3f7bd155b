//! Waiting with epoll for one of many files.
//!
//! One operation makes the next of the task's eventfds ready, waits for it and reads it. The write finds the epoll
//! instance through the file's wait queue and puts the file on its list of ready files; epoll_wait takes it from there. So
//! the time hardly depends on `files`, unlike that of poll. The instance and its files are the task's own, and nothing
//! sleeps, as a file is always ready when the task waits. With `trigger=edge` epoll_wait does not put the file back on the list.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::eventfd::eventfd;
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
    sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Scheduling,
    operation: "one write to the next eventfd, one epoll_wait that reports it and one read of it",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "files",
            about: "files that the task's epoll instance watches; each task has that many open",
            default: "1",
            kind: ParameterKind::Number { min: 1, max: 65536 },
        },
        Parameter {
            name: "trigger",
            about: "level: report while a file is ready; edge: report once when it becomes ready (EPOLLET)",
            default: "level",
            kind: ParameterKind::Choice(&["level", "edge"]),
        },
    ],
    // The number of open files is a parameter: `prepare` checks it.
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let files = load.values.number("files");
    Need::OpenFiles(files + 1).check(load).map_err(Failure::new)?;
    let edge = if load.values.choice("trigger") == "edge" { libc::EPOLLET } else { 0 };
    let files = files as usize;
    let events = (libc::EPOLLIN | edge) as u32;
    each_task(move |_| {
        // SAFETY: no preconditions.
        let epoll = sys("epoll_create1", unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: just opened, owned by nothing else.
        let epoll = unsafe { OwnedFd::from_raw_fd(epoll) };
        let files = (0..files).map(|_| eventfd(0)).collect::<Result<Vec<_>, _>>()?;
        for (index, file) in files.iter().enumerate() {
            let mut event = libc::epoll_event { events, u64: index as u64 };
            // SAFETY: both descriptors are open and `event` is live.
            sys("EPOLL_CTL_ADD", unsafe {
                libc::epoll_ctl(
                    epoll.as_raw_fd(),
                    libc::EPOLL_CTL_ADD,
                    file.as_raw_fd(),
                    &mut event,
                )
            })?;
        }
        Ok(Waiter { epoll, files, next: 0, taken: 0 })
    })
}

struct Waiter {
    epoll: OwnedFd,
    files: Vec<OwnedFd>,
    /// The index of the next file.
    next: usize,
    /// The sum of the values read.
    taken: u64,
}

impl Task for Waiter {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let file = self.files[self.next].as_raw_fd();
        let one: u64 = 1;
        // SAFETY: the descriptor is open and the kernel reads eight live bytes.
        sys("adding to the eventfd", unsafe { libc::write(file, (&raw const one).cast(), 8) })?;
        let mut event = libc::epoll_event { events: 0, u64: 0 };
        // SAFETY: the descriptor is open and there is room for one event. Timeout 0: the file is ready.
        let ready = sys("epoll_wait", unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), &mut event, 1, 0)
        })?;
        let reported = event.u64;
        if (ready, reported) != (1, self.next as u64) {
            return Err(Failure::new(format!(
                "epoll_wait reported {ready} files, the last {reported}, and not file {}",
                self.next
            )));
        }
        let mut value: u64 = 0;
        // SAFETY: the descriptor is open and the kernel writes eight live bytes.
        sys("reading the eventfd", unsafe { libc::read(file, (&raw mut value).cast(), 8) })?;
        self.taken += value;
        self.next = if self.next + 1 == self.files.len() { 0 } else { self.next + 1 };
        Ok(())
    }

    /// What was read adds up to what was written.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.taken == operations {
            return Ok(());
        }
        Err(Failure::new(format!(
            "{operations} added to eventfds, but {} read from them",
            self.taken
        )))
    }
}
