//! A futex call that returns at once: a wake of nobody, or a wait that is refused.
//!
//! It shows what futexes cost before anybody sleeps. call=wake finds the word's bucket in
//! the kernel's hash table and, since Linux 3.14, leaves without its lock when the bucket
//! is empty; call=wait takes the lock, sees that the word is not the value waited for,
//! and fails with EAGAIN. key=shared (the default) names the word by its page, which
//! costs a look at the page table and a reference on the page: with word=shared all tasks
//! write that one reference count, and call=wait adds the lock of one bucket. key=private
//! names it by its address and touches no page. All words of the machine meet in one hash
//! table, where buckets may collide; kernels with CONFIG_FUTEX_PRIVATE_HASH give the
//! private words of a process with threads a table of their own. Own words under
//! key=shared are will-it-scale's futex1 and futex2, under key=private futex3 and futex4.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::{io, ptr};

use crate::{Failure, Family, Forms, Kind, Line, Load, Parameter, Prepared, Shared, Spec, Task};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["futex1"],
    family: Family::Scheduling,
    operation: "one futex() call that neither wakes nor sleeps",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "call",
            about: "wake: FUTEX_WAKE where nobody waits; wait: FUTEX_WAIT for a value that \
                    the word does not have",
            default: "wake",
            kind: Kind::Choice(&["wake", "wait"]),
        },
        Parameter {
            name: "word",
            about: "own: each task has a word on a page of its own; shared: all use one word",
            default: "own",
            kind: Kind::Choice(&["own", "shared"]),
        },
        Parameter {
            name: "key",
            about: "shared: the word may be seen by several processes; private: by threads of \
                    one only (FUTEX_PRIVATE_FLAG)",
            default: "shared",
            kind: Kind::Choice(&["shared", "private"]),
        },
    ],
    needs: &[],
    prepare,
};

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let (command, answer) = match load.values.choice("call") {
        "wake" => (libc::FUTEX_WAKE, 0),
        _ => (libc::FUTEX_WAIT, -1),
    };
    let flag = match load.values.choice("key") {
        "private" => libc::FUTEX_PRIVATE_FLAG,
        _ => 0,
    };
    let shared = match load.values.choice("word") {
        "shared" => Some(word()?),
        _ => None,
    };
    Ok(Box::new(Prepare { command: command | flag, answer, shared }))
}

struct Prepare {
    command: libc::c_int,
    answer: libc::c_long,
    shared: Option<Shared<Line<AtomicU32>>>,
}

impl Prepared for Prepare {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let word = match &self.shared {
            Some(shared) => Word::Shared(&shared[0]),
            None => Word::Own(word()?),
        };
        // The page is there before the first operation.
        word.store(0, Relaxed);
        Ok(Box::new(Caller { word, command: self.command, answer: self.answer }))
    }
}

fn word() -> Result<Shared<Line<AtomicU32>>, Failure> {
    // SAFETY: an atomic of zero bytes is 0.
    unsafe { Shared::zeroed(1) }
}

enum Word<'a> {
    Shared(&'a AtomicU32),
    Own(Shared<Line<AtomicU32>>),
}

impl Deref for Word<'_> {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        match self {
            Word::Shared(word) => word,
            Word::Own(mapping) => &mapping[0],
        }
    }
}

struct Caller<'a> {
    word: Word<'a>,
    command: libc::c_int,
    /// What the call returns: nobody woken, or not waited.
    answer: libc::c_long,
}

impl Task for Caller<'_> {
    /// Both calls take the 1: as the number of waiters to wake, as the value waited for.
    /// Their answers are all the effect they have.
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // SAFETY: the word is live, and the kernel only reads it.
        let answer = unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.word.as_ptr(),
                self.command,
                1,
                ptr::null::<libc::timespec>(),
            )
        };
        if answer != self.answer {
            return Err(unexpected(answer));
        }
        if answer == -1 && io::Error::last_os_error().raw_os_error() != Some(libc::EAGAIN) {
            return Err(unexpected(answer));
        }
        Ok(())
    }
}

#[cold]
fn unexpected(answer: libc::c_long) -> Failure {
    match answer {
        -1 => Failure::last_os_error("futex"),
        _ => Failure::new(format!("futex() returned {answer}, but nobody uses the word to sleep")),
    }
}
