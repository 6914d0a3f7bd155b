//! The threads of tasks: each has a stack of its own, all run on one thread of the system, one at a time, and a thread
//! that stops continues another one directly.
//!
//!     caller ── run ──> thread ── switch ──> thread ── … ──> thread ── switch ──> caller
//!
//! Coroutines of a library return to their caller whenever they stop, who then continues the next one: two switches
//! instead of one, for each of millions of stops.

use std::any::Any;
use std::arch::asm;
use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::abort;
use std::ptr;

use corosensei::stack::Stack;

use crate::steppable::StaggeredStack;

/// What a thread does; returns the thread that continues when it has ended, or `None` for the caller.
type Body<'a> = dyn Fn(u16) -> Option<u16> + 'a;

/// The threads, by number. They own nothing that has to be dropped when they stop: they may never continue.
pub struct Threads {
    threads: Vec<Thread>,
    /// The stack pointer of the caller of `run`, while threads run.
    caller: Cell<*mut usize>,
    /// What the threads do, while they run.
    body: Cell<Option<ptr::NonNull<Body<'static>>>>,
    /// The panic of a thread, which ends the run.
    panic: Cell<Option<Box<dyn Any + Send>>>,
}

struct Thread {
    /// Its stack pointer while it is stopped.
    pointer: Cell<*mut usize>,
    stack: StaggeredStack,
    number: u16,
    all: Cell<*const Threads>,
}

impl Threads {
    /// Threads that have not begun.
    pub fn new(count: usize) -> io::Result<Threads> {
        let thread = |number: usize| {
            let (pointer, all) = (Cell::new(ptr::null_mut()), Cell::new(ptr::null()));
            Ok(Thread { pointer, stack: StaggeredStack::new()?, number: number as u16, all })
        };
        Ok(Threads {
            threads: (0..count).map(thread).collect::<io::Result<_>>()?,
            caller: Cell::new(ptr::null_mut()),
            body: Cell::new(None),
            panic: Cell::new(None),
        })
    }

    /// Runs the threads, beginning with this one, until one continues the caller. A panic of a thread goes on here.
    pub fn run(&self, first: u16, body: &Body) {
        for thread in &self.threads {
            thread.prepare(self);
        }
        // SAFETY: threads use it only until this function returns; none continues afterwards.
        let body = unsafe { std::mem::transmute::<&Body, &Body<'static>>(body) };
        self.body.set(Some(ptr::NonNull::from(body)));
        // SAFETY: the thread is prepared, and the caller stops here.
        unsafe { switch(&self.caller, &self.threads[usize::from(first)].pointer) };
        self.body.set(None);
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    /// Stops thread `from`, which calls this, and continues thread `to`, or the caller of `run`.
    #[inline(always)]
    pub fn switch(&self, from: u16, to: Option<u16>) {
        let to = to.map_or(&self.caller, |to| &self.threads[usize::from(to)].pointer);
        // SAFETY: all others are stopped, or prepared, and `from` stops here.
        unsafe { switch(&self.threads[usize::from(from)].pointer, to) };
    }
}

impl Thread {
    /// Lets the thread begin when it is continued.
    fn prepare(&self, all: &Threads) {
        self.all.set(all);
        let base = self.stack.base().get() as *mut usize;
        // SAFETY: words at the base of the stack, which is aligned to 16 bytes. `switch` pops the first one and jumps
        // there. The next stands where a function finds its return address: 0, where backtraces end.
        unsafe {
            let top = base.sub(4);
            top.write(begin as *const () as usize);
            top.add(1).write(0);
            self.pointer.set(top);
        }
    }
}

/// The first function of a thread; it gets the address of the thread's stack pointer.
extern "C" fn begin(pointer: *const Cell<*mut usize>) -> ! {
    // SAFETY: `pointer` is the field of a thread, which lives as long as it may run.
    let thread =
        unsafe { &*pointer.byte_sub(std::mem::offset_of!(Thread, pointer)).cast::<Thread>() };
    // SAFETY: threads run within `Threads::run`, which has set both.
    let all = unsafe { &*thread.all.get() };
    let result = catch_unwind(AssertUnwindSafe(|| {
        let body = all.body.get().expect("threads run within `run`");
        // SAFETY: as above.
        let body = unsafe { body.as_ref() };
        body(thread.number)
    }));
    let next = result.unwrap_or_else(|panic| {
        all.panic.set(Some(panic));
        None
    });
    all.switch(thread.number, next);
    // Nobody continues a thread that has ended.
    abort();
}

/// Saves the stack pointer, and continues where another one was saved.
///
/// # Safety
/// `to` is where a thread has stopped in this function or will begin.
#[cfg(target_arch = "aarch64")]
#[inline(always)]
unsafe fn switch(from: &Cell<*mut usize>, to: &Cell<*mut usize>) {
    // SAFETY: by the contract. All registers that `asm` may declare as changed are; it saves the two others itself. The
    // stack pointer stays aligned to 16 bytes. A thread that begins has no return address, where backtraces end.
    unsafe {
        asm!(
            "stp x19, x29, [sp, #-16]!",
            "adr x9, 2f",
            "str x9, [sp, #-16]!",
            "mov x10, sp",
            "str x10, [x1]",
            "ldr x10, [x0]",
            "mov sp, x10",
            "ldr x9, [sp], #16",
            "mov x30, xzr",
            "br x9",
            "2:",
            "ldp x19, x29, [sp], #16",
            inout("x0") to.as_ptr() => _,
            inout("x1") from.as_ptr() => _,
            out("x20") _,
            out("x21") _,
            out("x22") _,
            out("x23") _,
            out("x24") _,
            out("x25") _,
            out("x26") _,
            out("x27") _,
            out("x28") _,
            clobber_abi("C"),
        );
    }
}

/// Saves the stack pointer, and continues where another one was saved.
///
/// # Safety
/// `to` is where a thread has stopped in this function or will begin.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn switch(from: &Cell<*mut usize>, to: &Cell<*mut usize>) {
    // SAFETY: by the contract. All registers that `asm` may declare as changed are; it saves the two others itself. The
    // jump, unlike a return, leaves the processor's prediction of returns alone.
    unsafe {
        asm!(
            "push rbx",
            "push rbp",
            "lea rax, [rip + 2f]",
            "push rax",
            "mov [rsi], rsp",
            "mov rsp, [rdi]",
            "pop rax",
            "jmp rax",
            "2:",
            "pop rbp",
            "pop rbx",
            inout("rsi") from.as_ptr() => _,
            inout("rdi") to.as_ptr() => _,
            out("r12") _,
            out("r13") _,
            out("r14") _,
            out("r15") _,
            clobber_abi("C"),
        );
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::steppable::catch_panics;

    #[test]
    fn threads_continue_each_other_and_keep_what_they_know() {
        let threads = Threads::new(3).unwrap();
        let order = RefCell::new(Vec::new());
        threads.run(1, &|number| {
            for turn in 0..4_u64 {
                let text = format!("{number}.{}", std::hint::black_box(turn * 10));
                order.borrow_mut().push(text);
                threads.switch(number, Some((number + 1) % 3));
            }
            (number != 0).then_some((number + 1) % 3)
        });
        let turns = |turn| [1, 2, 0].map(|number| format!("{number}.{}", turn * 10));
        assert_eq!(order.into_inner(), [0, 1, 2, 3].map(turns).concat());
    }

    #[test]
    fn a_panic_of_a_thread_reaches_the_caller() {
        let threads = Threads::new(2).unwrap();
        let why = catch_panics(|| {
            threads.run(0, &|number| {
                assert!(number == 0, "thread {number} has had enough");
                Some(1)
            });
        });
        let why = why.map_err(|why| why.to_string());
        assert_eq!(why, Err("thread 1 has had enough".to_string()));
    }
}
