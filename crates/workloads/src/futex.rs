//! A futex call that does not sleep: a wake without waiters, or a wait that is refused.
//!
//! It shows what futexes cost before any task sleeps. call=wake finds the word's bucket in
//! the kernel's hash table and, since Linux 3.14, returns without the bucket's lock if the
//! bucket is empty; call=wait takes the lock, sees that the word does not have the expected
//! value, and fails with EAGAIN. key=shared (the default) identifies the word by its page,
//! which costs a page-table walk and a reference on the page: with word=shared all tasks
//! write that one reference count, and call=wait adds the lock of one bucket. key=private
//! identifies it by its address and touches no page. All words of the host share one hash
//! table, where buckets may collide; kernels with CONFIG_FUTEX_PRIVATE_HASH give the
//! private words of a multi-threaded process a table of their own.
//!
//! An own word lies in private memory, so that key=shared finds a page that no other
//! process can have, and takes the address for the key after all. A shared word lies in a
//! shared mapping, whose inode is the key. With own words, call=wake and call=wait are
//! will-it-scale's futex1 and futex2, and with key=private futex3 and futex4.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::ptr;

use crate::{
    CacheLine, Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Shared, Spec, Task,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 2,
    aliases: &["futex1"],
    family: Family::Scheduling,
    operation: "one futex() call that neither wakes nor sleeps",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "call",
            about: "wake: FUTEX_WAKE without waiters; wait: FUTEX_WAIT for a value that the \
                    word does not have",
            default: "wake",
            kind: ParameterKind::Choice(&["wake", "wait"]),
        },
        Parameter {
            name: "word",
            about: "own: each task has a word on a page of its own; shared: all tasks use one \
                    word",
            default: "own",
            kind: ParameterKind::Choice(&["own", "shared"]),
        },
        Parameter {
            name: "key",
            about: "shared: processes may share the word; private: only threads of one process \
                    may (FUTEX_PRIVATE_FLAG)",
            default: "shared",
            kind: ParameterKind::Choice(&["shared", "private"]),
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
    Ok(Box::new(Setup { command: command | flag, answer, shared }))
}

struct Setup {
    command: libc::c_int,
    answer: libc::c_long,
    shared: Option<Shared<CacheLine<AtomicU32>>>,
}

impl Prepared for Setup {
    fn task(&self, _: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let word = match &self.shared {
            Some(shared) => FutexWord::Shared(&shared[0]),
            None => FutexWord::Own(Box::default()),
        };
        // Faults the page in before the first operation.
        word.store(0, Relaxed);
        Ok(Box::new(Caller { word, command: self.command, answer: self.answer }))
    }
}

/// A word alone on its page.
#[derive(Default)]
#[repr(align(4096))]
struct OwnPage(AtomicU32);

fn word() -> Result<Shared<CacheLine<AtomicU32>>, Failure> {
    // SAFETY: an atomic of zero bytes is 0.
    unsafe { Shared::zeroed(1) }
}

enum FutexWord<'a> {
    Shared(&'a AtomicU32),
    Own(Box<OwnPage>),
}

impl Deref for FutexWord<'_> {
    type Target = AtomicU32;

    #[inline(always)]
    fn deref(&self) -> &AtomicU32 {
        match self {
            FutexWord::Shared(word) => word,
            FutexWord::Own(page) => &page.0,
        }
    }
}

struct Caller<'a> {
    word: FutexWord<'a>,
    command: libc::c_int,
    /// What the call must return: no task woken, or the wait refused.
    answer: libc::c_long,
}

impl Task for Caller<'_> {
    /// The 1 is the number of waiters to wake, or the value to wait for. The return value
    /// is the call's only effect.
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
        // SAFETY: errno of this thread. `io::Error::last_os_error` would take 6 ns of 320.
        if answer != self.answer || answer == -1 && unsafe { *libc::__errno_location() } != libc::EAGAIN {
            return Err(unexpected(answer));
        }
        Ok(())
    }
}

#[cold]
fn unexpected(answer: libc::c_long) -> Failure {
    match answer {
        -1 => Failure::last_os_error("futex"),
        _ => Failure::new(format!("futex() returned {answer}, but no task sleeps on the word")),
    }
}
