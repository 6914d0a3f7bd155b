//! Two threads on one CPU that wake each other in turn.
//!
//! Each task starts a partner thread on its own CPU. One operation is one round trip, a
//! byte there and a byte back through two pipes: two context switches, four system calls
//! and two wake-ups, so half its time is the price of one switch, pipes included.
//! Run queues are per CPU and no CPU waits for another, so a bend means that CPUs share
//! something in the scheduler, or in the page tables and mitigations a switch pays for.
//! Partners are threads in both forms: no switch changes the address space. So as threads
//! this is will-it-scale's context_switch1, which counts each round trip twice; as
//! processes that has two processes switch, which costs more. Partners are not tasks and
//! are not counted. A task that the runner did not pin pins itself to the CPU on
//! which it started.

use std::os::fd::{AsRawFd, OwnedFd};
use std::thread::{self, JoinHandle};
use std::{io, mem};

use crate::pipe::pipe;
use crate::{Failure, Family, Forms, Load, Need, Prepared, Spec, Task, each_task, sys};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Scheduling,
    operation: "one round trip to a partner on the same CPU: two context switches",
    forms: Forms::Both,
    parameters: &[],
    needs: &[Need::OpenFiles(4)],
    prepare,
};

fn prepare(_: &Load) -> Result<Box<dyn Prepared>, Failure> {
    each_task(|_| {
        stay_on_this_cpu()?;
        let (request_reader, requests) = pipe(0)?;
        let (answers, answer_writer) = pipe(0)?;
        let partner = thread::Builder::new()
            .name("partner".to_string())
            .spawn(move || be_partner(&request_reader, &answer_writer))
            .map_err(|e| Failure::from_error("starting the partner thread", e))?;
        Ok(Asker {
            requests,
            answers,
            waiting: false,
            partner: Some(partner),
            switches_before: switches()?,
        })
    })
}

/// Asks the partner for an answer, and is the answer.
const GO: u8 = 1;
/// Ends the partner. Closing the pipe might not: a process forked in between could hold
/// it open.
const END: u8 = 0;

/// Answers each [`GO`] until [`END`]; returns the number of answers.
fn be_partner(requests: &OwnedFd, answers: &OwnedFd) -> Result<u64, Failure> {
    let mut answered = 0;
    loop {
        match receive(requests) {
            Ok(GO) => {
                send(answers, GO)?;
                answered += 1;
            }
            Ok(_) => return Ok(answered),
            // The signal was for the task, which stops by itself.
            Err(failure) if failure.interrupted() => continue,
            Err(failure) => return Err(failure),
        }
    }
}

struct Asker {
    requests: OwnedFd,
    answers: OwnedFd,
    /// Whether a round trip was interrupted: requested, but not yet answered.
    waiting: bool,
    partner: Option<JoinHandle<Result<u64, Failure>>>,
    switches_before: u64,
}

impl Task for Asker {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if !self.waiting {
            send(&self.requests, GO)?;
            self.waiting = true;
        }
        receive(&self.answers)?;
        self.waiting = false;
        Ok(())
    }

    /// The partner has answered every request, and for each answer this thread has left the
    /// CPU: on one CPU the partner cannot run otherwise.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let switched = switches()? - self.switches_before;
        let unfinished = u64::from(self.waiting);
        while self.waiting {
            match receive(&self.answers) {
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
                "{operations} round trips, but the task was switched out only {switched} times: \
                 it and its partner did not share a CPU"
            )));
        }
        Ok(())
    }
}

impl Asker {
    /// Ends the partner; returns how often it answered.
    fn end(&mut self) -> Result<u64, Failure> {
        let Some(partner) = self.partner.take() else { return Ok(0) };
        // Fails only if the partner has ended already; the join then says why.
        let _ = send(&self.requests, END);
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
        0 => Err(Failure::from_error("reading from the pipe", io::ErrorKind::UnexpectedEof.into())),
        _ => Ok(byte),
    }
}

/// Pins the calling thread, and so the partner that it starts, to its current CPU.
fn stay_on_this_cpu() -> Result<(), Failure> {
    // SAFETY: no preconditions.
    let cpu = sys("sched_getcpu", unsafe { libc::sched_getcpu() })? as usize;
    let bits = u64::BITS as usize;
    let mut mask = vec![0u64; cpu / bits + 1];
    mask[cpu / bits] |= 1 << (cpu % bits);
    // SAFETY: the mask is live and its length given in bytes.
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
