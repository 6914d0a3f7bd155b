//! Steppable threads: coroutines that stop with a request and go on with a reply, and that
//! can be set back to where they stopped before.
//!
//! Setting back copies the live part of the stack. A search would otherwise have to run
//! each path again from its start to try another way, some forty steps for each one.

use std::any::Any;
use std::cell::Cell;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};

use corosensei::stack::{DefaultStack, Stack, StackPointer};
use corosensei::{Coroutine, CoroutineResult};

/// What stops a thread, seen from inside.
pub use corosensei::Yielder;

/// Enough for an algorithm, and for the message of a panic.
const STACK_BYTES: usize = 128 << 10;

/// A thread that runs only when told to, up to its next request.
///
/// What it runs must own nothing that needs to be dropped across a request, for it may be
/// set back or never go on: no heap memory, no guard of a lock.
pub struct Steppable<'a, Reply, Request> {
    coroutine: ManuallyDrop<Coroutine<Reply, Request, (), Staggered>>,
    /// The highest address of its stack.
    base: usize,
    /// Which word of `coroutine` holds the stack pointer while the thread is stopped.
    pointer_at: usize,
    body: PhantomData<&'a ()>,
}

/// A stack whose used part does not begin at the same place of a page as those of other threads:
/// or else all of them would compete for the same few sets of the first cache.
struct Staggered {
    stack: DefaultStack,
    unused: usize,
}

impl Staggered {
    fn new() -> io::Result<Staggered> {
        static STACKS: AtomicUsize = AtomicUsize::new(0);
        let line = STACKS.fetch_add(1, Ordering::Relaxed) * 11 % 64;
        Ok(Staggered { stack: DefaultStack::new(STACK_BYTES)?, unused: line * 64 })
    }
}

// SAFETY: a stack with a smaller base, still aligned to 16 and far above the limit, is one.
unsafe impl Stack for Staggered {
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
pub enum Step<Request> {
    /// It asks for something.
    Asks(Request),
    /// It has come to its end.
    Ends,
    /// It panicked, with this message.
    Panics(String),
}

/// Where a thread was stopped.
#[derive(Clone, Debug, Default)]
pub struct Saved {
    pointer: usize,
    stack: Vec<u8>,
}

impl<'a, Reply: Copy, Request: Copy> Steppable<'a, Reply, Request> {
    /// Starts a thread and runs it up to its first request; `first` is a reply that nobody
    /// sees.
    pub fn start(
        body: impl FnOnce(&Yielder<Reply, Request>) + Copy + 'a,
        first: Reply,
    ) -> io::Result<(Self, Step<Request>)> {
        keep_panics_quiet();
        let stack = Staggered::new()?;
        let base = stack.base().get();
        // SAFETY: the thread is gone before `'a` ends, for `Steppable` has that lifetime;
        // dropped without running, for a `Copy` closure owns nothing.
        let coroutine = unsafe { Coroutine::with_stack_unchecked(stack, |y, _| body(y)) };
        let coroutine = ManuallyDrop::new(coroutine);
        let mut thread = Steppable { coroutine, base, pointer_at: 0, body: PhantomData };
        let before = thread.words();
        let step = thread.step(first);
        if matches!(step, Step::Asks(_)) {
            // The first step changes nothing of the object but the stack pointer.
            let changed = before.iter().zip(thread.words()).position(|(was, is)| *was != is);
            thread.pointer_at = changed.expect("a thread that ran has another stack pointer");
            let pointer = thread.words()[thread.pointer_at];
            assert!((base - STACK_BYTES..base).contains(&pointer), "that is no stack pointer");
        }
        Ok((thread, step))
    }

    /// Goes on, up to the next request.
    pub fn step(&mut self, reply: Reply) -> Step<Request> {
        match caught(|| self.resume(reply)) {
            Ok(Some(request)) => Step::Asks(request),
            Ok(None) => Step::Ends,
            Err(why) => Step::Panics(why),
        }
    }

    /// The same, of which panics go on in the caller: cheaper, for many steps within `caught`.
    /// Nothing where it has ended.
    #[inline]
    pub fn resume(&mut self, reply: Reply) -> Option<Request> {
        match self.coroutine.resume(reply) {
            CoroutineResult::Yield(request) => Some(request),
            CoroutineResult::Return(()) => None,
        }
    }

    /// Remembers where the thread is stopped at a request.
    pub fn save(&self, into: &mut Saved) {
        // SAFETY: a word of the object, as `start` found.
        into.pointer = unsafe { self.object().add(self.pointer_at).read() };
        let length = self.base - into.pointer;
        into.stack.clear();
        into.stack.reserve(length);
        // SAFETY: the live part of a stack that stands still; the vector has the room.
        unsafe {
            ptr::copy_nonoverlapping(into.pointer as *const u8, into.stack.as_mut_ptr(), length);
            into.stack.set_len(length);
        }
    }

    /// Puts the thread back to where it was saved, also when it has ended since.
    pub fn restore(&mut self, from: &Saved) {
        // SAFETY: this part of the stack was live at that request, and the thread is not
        // running. Everything it knew then is in it: the switch had saved the registers
        // there, and by the contract of `Steppable` there was nothing else. To the thread,
        // going on from here looks as going on did the first time.
        unsafe {
            ptr::copy_nonoverlapping(
                from.stack.as_ptr(),
                from.pointer as *mut u8,
                from.stack.len(),
            );
            self.object_mut().add(self.pointer_at).write(from.pointer);
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
        // SAFETY: nothing on the stack needs to be dropped, as the contract says; the
        // object is dropped once, here.
        unsafe {
            self.coroutine.force_reset();
            ManuallyDrop::drop(&mut self.coroutine);
        }
    }
}

thread_local! {
    /// Whether a steppable thread runs on this thread: its panics are results, not news.
    static STEPPING: Cell<bool> = const { Cell::new(false) };
}

/// Does something whose panics are results, as those of a thread are.
pub fn caught<R>(body: impl FnOnce() -> R) -> Result<R, String> {
    STEPPING.set(true);
    let done = catch_unwind(AssertUnwindSafe(body));
    STEPPING.set(false);
    done.map_err(|payload| message(&*payload))
}

fn keep_panics_quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let news = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            if !STEPPING.get() {
                news(panic);
            }
        }));
    });
}

fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or("panicked".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread that adds up its replies and asks with the sum.
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

    fn asks(step: Step<u64>) -> u64 {
        match step {
            Step::Asks(sum) => sum,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_thread_set_back_goes_on_as_before() {
        let (mut thread, first) = Steppable::start(adder, 0).unwrap();
        assert_eq!(asks(first), 0);
        assert_eq!(asks(thread.step(5)), 5);
        let mut saved = Saved::default();
        thread.save(&mut saved);
        assert_eq!(asks(thread.step(7)), 12);
        thread.restore(&saved);
        assert_eq!(asks(thread.step(1)), 6);
        assert!(matches!(thread.step(44), Step::Ends));
        thread.restore(&saved);
        assert_eq!(asks(thread.step(2)), 7);
        thread.restore(&saved);
        assert!(matches!(thread.step(95), Step::Panics(why) if why == "too much"));
        thread.restore(&saved);
        assert_eq!(asks(thread.step(3)), 8);
    }
}
