//! Steppable threads: coroutines that stop with a request, continue with a reply, and can be
//! set back to where they stopped before.
//!
//! Setting back copies the live part of the stack. Without that, a search would have to run
//! each path again from its start to try another turn: some forty steps for each new one.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{fmt, io};

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult};

use crate::Unsupported;

/// With this a thread stops itself.
pub use corosensei::Yielder;

/// Enough for an algorithm, and for the message of a panic.
const STACK_BYTES: usize = 128 << 10;

/// A thread that its owner runs step by step, each up to the thread's next request.
///
/// Its body must own nothing that needs to be dropped across a request, because the thread may
/// be set back or never continue: no heap memory, no guard of a lock.
pub struct Steppable<'a, Reply, Request> {
    coroutine: ManuallyDrop<Coroutine<Reply, Request, (), StaggeredStack>>,
    /// The highest address of the stack.
    base: usize,
    /// Which word of `coroutine` holds the stack pointer while the thread is stopped.
    pointer_word: usize,
    body: PhantomData<&'a ()>,
}

/// A stack whose used part begins at another offset within its page than those of other
/// threads: otherwise all of them would compete for the same few sets of the L1 cache.
pub struct StaggeredStack {
    stack: DefaultStack,
    unused: usize,
}

impl StaggeredStack {
    pub fn new() -> io::Result<StaggeredStack> {
        static STACKS: AtomicUsize = AtomicUsize::new(0);
        let line = STACKS.fetch_add(1, Ordering::Relaxed) * 11 % 64;
        Ok(StaggeredStack { stack: DefaultStack::new(STACK_BYTES)?, unused: line * 64 })
    }
}

// SAFETY: the base is lowered by whole cache lines, so it stays aligned to 16 and far above
// the limit.
unsafe impl Stack for StaggeredStack {
    fn base(&self) -> StackPointer {
        let base = self.stack.base().get() - self.unused;
        StackPointer::new(base).expect("a stack is not at address 0")
    }

    fn limit(&self) -> StackPointer {
        self.stack.limit()
    }
}

/// Why a thread has stopped.
#[derive(Debug)]
pub enum StopReason<Request> {
    /// It waits for the reply to a request.
    Requests(Request),
    /// Its body has returned.
    Ended,
    /// It panicked.
    Panicked(Panic),
}

/// What a panic says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Panic {
    /// Something is wrong.
    Message(String),
    /// The machine cannot do what the thread asks for.
    Unsupported(Unsupported),
}

impl fmt::Display for Panic {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Panic::Message(message) => f.write_str(message),
            Panic::Unsupported(unsupported) => unsupported.fmt(f),
        }
    }
}

/// Where a thread was stopped: its stack pointer and the live part of its stack.
#[derive(Clone, Debug, Default)]
pub struct SavedStack {
    pointer: usize,
    stack: Vec<u8>,
}

impl<'a, Reply: Copy, Request: Copy> Steppable<'a, Reply, Request> {
    /// Starts a thread and runs it up to its first request. The body never sees the reply
    /// `first`.
    pub fn start(
        body: impl FnOnce(&Yielder<Reply, Request>) + Copy + 'a,
        first: Reply,
    ) -> io::Result<(Self, StopReason<Request>)> {
        keep_panics_quiet();
        let stack = StaggeredStack::new()?;
        let base = stack.base().get();
        // SAFETY: the thread is dropped before `'a` ends, because `Steppable` has that lifetime.
        // It may be dropped without running, because a `Copy` closure owns nothing.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, |y, _| body(y)) };
        let coroutine = ManuallyDrop::new(coroutine);
        let mut thread = Steppable { coroutine, base, pointer_word: 0, body: PhantomData };
        let before = thread.words();
        let stop = thread.step(first);
        if matches!(stop, StopReason::Requests(_)) {
            // The first step changes no other word of the object than the stack pointer.
            let changed = before.iter().zip(thread.words()).position(|(was, is)| *was != is);
            thread.pointer_word = changed.expect("a thread that ran has another stack pointer");
            let pointer = thread.words()[thread.pointer_word];
            assert!((base - STACK_BYTES..base).contains(&pointer), "that is no stack pointer");
        }
        Ok((thread, stop))
    }

    /// Continues the thread up to its next request.
    pub fn step(&mut self, reply: Reply) -> StopReason<Request> {
        match catch_panics(|| self.resume(reply)) {
            Ok(Some(request)) => StopReason::Requests(request),
            Ok(None) => StopReason::Ended,
            Err(why) => StopReason::Panicked(why),
        }
    }

    /// Continues the thread up to its next request; `None` when it has ended. Its panics unwind
    /// into the caller, which is cheaper for many steps within one `catch_panics`.
    #[inline]
    pub fn resume(&mut self, reply: Reply) -> Option<Request> {
        match self.coroutine.resume(reply) {
            CoroutineResult::Yield(request) => Some(request),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Saves where the thread is stopped at a request.
    pub fn save(&self, into: &mut SavedStack) {
        // SAFETY: `start` found this word within the object.
        into.pointer = unsafe { self.object().add(self.pointer_word).read() };
        let length = self.base - into.pointer;
        into.stack.clear();
        into.stack.reserve(length);
        // SAFETY: the live part of a stack that stands still; the vector has the room.
        unsafe {
            ptr::copy_nonoverlapping(into.pointer as *const u8, into.stack.as_mut_ptr(), length);
            into.stack.set_len(length);
        }
    }

    /// Sets the thread back to where it was saved, even if it has ended since.
    pub fn restore(&mut self, from: &SavedStack) {
        // SAFETY: this part of the stack was live at that request, and the thread is not
        // running. It holds the thread's whole state: the switch had saved the registers
        // there, and by the contract of `Steppable` there was nothing else. To the thread,
        // continuing from here is the same as continuing the first time.
        unsafe {
            ptr::copy_nonoverlapping(
                from.stack.as_ptr(),
                from.pointer as *mut u8,
                from.stack.len(),
            );
            self.object_mut().add(self.pointer_word).write(from.pointer);
        }
    }

    /// The words of the coroutine object: pointers and lengths, nothing else.
    fn words(&self) -> Vec<usize> {
        let words = size_of_val(&*self.coroutine) / size_of::<usize>();
        // SAFETY: the object has this many words.
        (0..words).map(|i| unsafe { self.object().add(i).read() }).collect()
    }

    fn object(&self) -> *const usize {
        ptr::from_ref(&*self.coroutine).cast()
    }

    fn object_mut(&mut self) -> *mut usize {
        ptr::from_mut(&mut *self.coroutine).cast()
    }
}

impl<Reply, Request> Drop for Steppable<'_, Reply, Request> {
    fn drop(&mut self) {
        // SAFETY: by the contract nothing on the stack needs to be dropped; the object is
        // dropped once, here.
        unsafe {
            self.coroutine.force_reset();
            ManuallyDrop::drop(&mut self.coroutine);
        }
    }
}

thread_local! {
    /// Whether a steppable thread runs on this one: its panics are results and not printed.
    static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `body`; a panic becomes an error, and is not printed.
pub fn catch_panics<R>(body: impl FnOnce() -> R) -> Result<R, Panic> {
    keep_panics_quiet();
    STEPPING.set(true);
    let result = catch_unwind(AssertUnwindSafe(body));
    STEPPING.set(false);
    result.map_err(|payload| said(&*payload))
}

fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !STEPPING.get() {
                print(panic);
            }
        }));
    });
}

fn said(payload: &(dyn Any + Send)) -> Panic {
    if let Some(unsupported) = payload.downcast_ref::<Unsupported>() {
        return Panic::Unsupported(unsupported.clone());
    }
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
    Panic::Message(text.unwrap_or("panicked".to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that adds up its replies and requests with the sum.
    fn adder(yielder: &Yielder<u64, u64>) {
        let mut sum = 0;
        loop {
            sum += yielder.suspend(sum);
            assert!(sum < 100, "too much");
            if sum == 50 {
                return;
            }
        }
    }

    fn requested(stop: StopReason<u64>) -> u64 {
        match stop {
            StopReason::Requests(sum) => sum,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_thread_set_back_continues_as_before() {
        let (mut thread, first) = Steppable::start(adder, 0).unwrap();
        assert_eq!(requested(first), 0);
        assert_eq!(requested(thread.step(5)), 5);
        let mut saved = SavedStack::default();
        thread.save(&mut saved);
        assert_eq!(requested(thread.step(7)), 12);
        thread.restore(&saved);
        assert_eq!(requested(thread.step(1)), 6);
        assert!(matches!(thread.step(44), StopReason::Ended));
        thread.restore(&saved);
        assert_eq!(requested(thread.step(2)), 7);
        thread.restore(&saved);
        assert!(
            matches!(thread.step(95), StopReason::Panicked(why) if why.to_string() == "too much")
        );
        thread.restore(&saved);
        assert_eq!(requested(thread.step(3)), 8);
    }
}
