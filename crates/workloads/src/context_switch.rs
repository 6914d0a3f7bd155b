//! Two threads on one CPU that wake each other in turn.
//!
//! Each task starts a partner thread on its own CPU. One operation is one round trip, a
//! byte there and a byte back through two pipes: two context switches, four system calls
//! and two wake-ups, so half its time is the price of one switch, pipes included. (The
//! same load as will-it-scale's context_switch1, which counts each round trip twice.)
//! Run queues are per CPU and no CPU waits for another, so a bend means that the
//! scheduler, or the page tables and mitigations a switch pays for, share something.
//! Partners are threads in both forms: no switch changes the address space. They are not
//! tasks and are not counted. Where the runner left the task free to move, it stays on
//! the CPU on which it started.

use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::pipe::pipe;
use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["context_switch1"],
    family: Family::Scheduling,
    operation: "one round trip to a partner on the same CPU: two context switches",
    forms: Forms::Both,
    parameters: &[],
    needs: &[Need::OpenFiles(4)],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Prepare))
}

struct Prepare;

impl Prepared for Prepare {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        stay_on_this_cpu()?;
        let (asked, ask) = pipe(0)?;
        let (answer, answered) = pipe(0)?;
        let partner = thread::Builder::new()
            .name("partner".to_string())
            .spawn(move || be_partner(&asked, &answered))
            .map_err(|e| Failure::of("starting the partner thread", e))?;
        Ok(Box::new(Asker {
            ask,
            answer,
            waiting: false,
            partner: Some(partner),
            switches_before: switches()?,
        }))
    }
}

/// What the bytes to the partner mean. The end is a byte too, not the closing of the
/// pipe: a process forked meanwhile could hold that open.
const GO: u8 = 1;
const END: u8 = 0;

/// Answers each byte until told to end; the number of answers.
fn be_partner(asked: &OwnedFd, answered: &OwnedFd) -> Result<u64, Failure> {
    let mut answers = 0;
    loop {
        match receive(asked) {
            Ok(GO) => {
                send(answered, GO)?;
                answers += 1;
            }
            Ok(_) => return Ok(answers),
            // Meant for the task, which sees to its own stopping.
            Err(failure) if failure.interrupted() => continue,
            Err(failure) => return Err(failure),
        }
    }
}

struct Asker {
    ask: OwnedFd,
    answer: OwnedFd,
    /// A round trip was interrupted: asked, but not yet answered.
    waiting: bool,
    partner: Option<JoinHandle<Result<u64, Failure>>>,
    switches_before: u64,
}

impl Task for Asker {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if !self.waiting {
            send(&self.ask, GO)?;
            self.waiting = true;
        }
        receive(&self.answer)?;
        self.waiting = false;
        Ok(())
    }

    /// The partner has answered as often as we asked, and for each answer this thread has
    /// left the CPU: on one CPU there is no other way for the partner to run.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let switched = switches()? - self.switches_before;
        let unfinished = u64::from(self.waiting);
        while self.waiting {
            match receive(&self.answer) {
                Ok(_) => self.waiting = false,
                Err(failure) if failure.interrupted() => continue,
                Err(failure) => return Err(failure),
            }
        }
        let answers = self.end()?;
        if answers != operations + unfinished {
            return Err(Failure::new(format!(
                "{operations} round trips counted and {unfinished} not finished, but the partner \
                 has answered {answers} times"
            )));
        }
        if switched < operations {
            return Err(Failure::new(format!(
                "{operations} round trips, but the task was switched out {switched} times only: \
                 it and its partner did not share a CPU"
            )));
        }
        Ok(())
    }
}

impl Asker {
    /// Ends the partner; how often it has answered.
    fn end(&mut self) -> Result<u64, Failure> {
        let Some(partner) = self.partner.take() else { return Ok(0) };
        // Fails only if the partner is gone already; why, the join tells.
        let _ = send(&self.ask, END);
        partner.join().map_err(|_| Failure::new("the partner thread panicked"))?
    }
}

impl Drop for Asker {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

#[inline(always)]
fn send(pipe: &OwnedFd, byte: u8) -> Result<(), Failure> {
    // SAFETY: the descriptor is open and the kernel reads one live byte.
    sys("writing to the pipe", unsafe {
        libc::write(pipe.as_raw_fd(), (&raw const byte).cast(), 1)
    })
    .map(drop)
}

#[inline(always)]
fn receive(pipe: &OwnedFd) -> Result<u8, Failure> {
    let mut byte = END;
    // SAFETY: the descriptor is open and the kernel writes one live byte.
    match sys("reading from the pipe", unsafe {
        libc::read(pipe.as_raw_fd(), (&raw mut byte).cast(), 1)
    })? {
        0 => Err(Failure::of("reading from the pipe", io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(byte),
    }
}

/// Pins the calling thread, and so the partner that it starts, to the CPU it is on.
fn stay_on_this_cpu() -> Result<(), Failure> {
    // SAFETY: no preconditions.
    let cpu = sys("sched_getcpu", unsafe { libc::sched_getcpu() })? as usize;
    let bits = u64::BITS as usize;
    let mut mask = vec![0u64; cpu / bits + 1];
    mask[cpu / bits] |= 1 << (cpu % bits);
    // SAFETY: the kernel reads the live mask, whose length in bytes it is told.
    sys("sched_setaffinity", unsafe {
        libc::sched_setaffinity(0, mem::size_of_val(&mask[..]), mask.as_ptr().cast())
    })
    .map(drop)
}

/// How often the calling thread has been switched out.
fn switches() -> Result<u64, Failure> {
    // SAFETY: rusage is plain data; zero is valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: the kernel writes the live struct.
    sys("getrusage", unsafe { libc::getrusage(libc::RUSAGE_THREAD, &mut usage) })?;
    Ok((usage.ru_nvcsw + usage.ru_nivcsw) as u64)
}
