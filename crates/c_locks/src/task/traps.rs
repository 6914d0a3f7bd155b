//! Instructions that the processor refuses: a division by zero, memory that is not aligned, a call of what is no function, a stack that
//! is used up. Their signal ends the call into C code with a sentence and a line, instead of ending knee. So does a clock, if the code
//! computes without an end.
//!
//!     C code ──trap──> signal handler, on a stack of its own: notes what and where
//!        base of the task's stack <──┘ as if what is called there first had called the stub of Hook::Trapped: all other frames
//!                                      are left, for lack of room, or because what they return to was overwritten

use std::cell::Cell;
use std::ptr;
use std::sync::{Once, OnceLock};

use machine::Machine;

use super::access::STACK;
use super::{RUNNING, Task};
use crate::entry::{knee_c_returned, knee_c_returned_apart};

const SIGNALS: [i32; 5] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGVTALRM];

/// The signal of a clock that runs while the thread does.
const CLOCK: i32 = libc::SIGVTALRM;
/// Between two signals of the clock.
const TICK_S: i64 = 1;
/// Ticks in a row, between which the code has come to no access, until it is said to have no end.
const TICKS_MAX: u32 = 5;

/// Bytes of the handler's stack, where a thread has none.
const HANDLER_STACK: usize = 64 << 10;

/// Why code that uses up its stack is not checked, and what to do.
pub const TOO_DEEP: &str = "the functions that a task is in need more than 64 KiB of stack";
pub const NOT_SO_DEEP: &str =
    "leave recursion out, and make large local variables static _Thread_local";

/// Why a loop that comes to no step is not checked, and what to do.
pub const WITHOUT_END: &str = "it goes on and on without an access to what tasks share: a loop without an end, or a wait for a plain \
                               variable that the compiler reads only once";
pub const HAS_END: &str =
    "wait for an atomic or volatile variable, and let loops that only take time be short";

/// How far below its stack the code may reach at once: a local array that has no room.
const REACH: usize = 64 << 20;

/// Where the code was when the processor refused to go on.
#[derive(Clone, Copy)]
pub struct Trap {
    signal: i32,
    /// The instruction.
    at: usize,
    /// The stack pointer.
    stack: usize,
    /// The memory that it wanted, if that is known.
    address: Option<usize>,
    /// Where the function returns to that has jumped to no code.
    caller: usize,
}

thread_local! {
    static TRAP: Cell<Option<Trap>> = const { Cell::new(None) };
    /// The code that this thread has called last, from its start to its end.
    static CODE: Cell<[usize; 2]> = const { Cell::new([0; 2]) };
    /// How many calls of hooks there were at the last tick, and how many ticks with as many there were.
    static TICKS: Cell<(u64, u32)> = const { Cell::new((0, 0)) };
    /// Whether this thread has a stack for the handler.
    static IS_READY: Cell<bool> = const { Cell::new(false) };
}

/// What was done about the signals before.
static BEFORE: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();

/// Traps of C code that this thread calls from now on end the call.
pub fn expect_traps(code: [usize; 2]) {
    CODE.set(code);
    if IS_READY.replace(true) {
        return;
    }
    static ONCE: Once = Once::new();
    ONCE.call_once(handle_signals);
    // SAFETY: plain calls on live data; the stack is never freed.
    unsafe {
        let mut stack: libc::stack_t = std::mem::zeroed();
        libc::sigaltstack(ptr::null(), &mut stack);
        if stack.ss_flags & libc::SS_DISABLE != 0 {
            let own: &'static mut [u8] = Vec::leak(vec![0; HANDLER_STACK]);
            stack.ss_sp = own.as_mut_ptr().cast();
            (stack.ss_size, stack.ss_flags) = (HANDLER_STACK, 0);
            libc::sigaltstack(&stack, ptr::null_mut());
        }
    }
    start_clock();
}

/// A clock of the time that this thread computes. Without one, code that has no end keeps its user waiting.
fn start_clock() {
    // SAFETY: plain calls on live data, of which zero is valid; the clock ends with its thread.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_THREAD_ID;
        event.sigev_signo = CLOCK;
        event.sigev_notify_thread_id = libc::gettid();
        let mut timer: libc::timer_t = std::mem::zeroed();
        if libc::timer_create(libc::CLOCK_THREAD_CPUTIME_ID, &mut event, &mut timer) != 0 {
            return;
        }
        let tick = libc::timespec { tv_sec: TICK_S, tv_nsec: 0 };
        let times = libc::itimerspec { it_interval: tick, it_value: tick };
        libc::timer_settime(timer, 0, &times, ptr::null_mut());
    }
}

fn handle_signals() {
    let handle = |signal| {
        // SAFETY: plain data, of which zero is the default, and plain calls on it; the handler does only what one may.
        unsafe {
            let (mut action, mut before): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
            libc::sigaction(signal, ptr::null(), &mut before);
            action.sa_sigaction = trapped as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            (action, before)
        }
    };
    let actions = SIGNALS.map(handle);
    // Known before the first signal comes.
    let _ = BEFORE.set(actions.map(|(_, before)| before));
    for (signal, (action, _)) in SIGNALS.into_iter().zip(&actions) {
        // SAFETY: as above.
        unsafe { libc::sigaction(signal, action, ptr::null_mut()) };
    }
}

extern "C" fn trapped(signal: i32, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    // SAFETY: what the kernel gives a handler of this kind. The call that is running is on this thread, and stands still.
    unsafe {
        let [at, stack] = pointers(context).map(|pointer| *pointer as usize);
        /// Sent by the kernel for an address.
        const OF_ADDRESS: [i32; 2] = [1, 2];
        let is_of_address = signal == libc::SIGSEGV && OF_ADDRESS.contains(&(*info).si_code);
        let address = is_of_address.then(|| (*info).si_addr() as usize);
        if signal == CLOCK && !is_without_end(at) {
            return;
        }
        let mut trap = Trap { signal, at, stack, address, caller: 0 };
        let way_out = RUNNING.get().and_then(|running| running.as_ref().way_out(&mut trap));
        let Some(way_out) = way_out else {
            let number = SIGNALS.iter().position(|one| *one == signal && signal != CLOCK);
            if let Some((before, number)) = BEFORE.get().zip(number) {
                // The instruction is tried again, and meets whoever handles it.
                libc::sigaction(signal, &before[number], ptr::null_mut());
            }
            return;
        };
        TRAP.set(Some(trap));
        for (pointer, goes_on) in pointers(context).into_iter().zip(way_out) {
            *pointer = goes_on as i64;
        }
    }
}

/// At a tick: whether the code has come to no hook for many.
///
/// # Safety
/// In the handler of a signal.
unsafe fn is_without_end(at: usize) -> bool {
    let [start, end] = CODE.get();
    let Some(running) = RUNNING.get().filter(|_| (start..end).contains(&at)) else {
        TICKS.set((0, 0));
        return false;
    };
    // SAFETY: this thread is in the code, so that its call is running.
    let calls = unsafe { running.as_ref() }.hooks_called();
    let (before, ticks) = TICKS.get();
    TICKS.set((calls, if calls == before { ticks + 1 } else { 0 }));
    calls == before && ticks >= TICKS_MAX
}

/// The instruction pointer and the stack pointer that the code goes on with.
///
/// # Safety
/// The context of a signal handler that is running.
unsafe fn pointers<'a>(context: *mut libc::c_void) -> [&'a mut i64; 2] {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as the caller says; these are two of its registers.
    unsafe {
        let registers = &raw mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs;
        let register = |which: i32| &mut *registers.cast::<i64>().add(which as usize);
        [register(libc::REG_RIP), register(libc::REG_RSP)]
    }
    #[cfg(not(target_arch = "x86_64"))]
    unreachable!("no lock in C is compiled on this architecture: {context:?}")
}

impl<M: Machine> Task<'_, M> {
    /// Where the handler of a trap goes on: an instruction and a stack pointer. `None` if the trap is none of the code's.
    pub(super) fn ends_at(&self, trap: &mut Trap) -> Option<[usize; 2]> {
        let base = self.base.get();
        // A jump that leads nowhere wants to read an instruction there.
        let is_jump = trap.address == Some(trap.at) && (base - STACK..base).contains(&trap.stack);
        if !is_jump && self.instance.text_at(trap.at).is_none() {
            return None;
        }
        let returned = match self.instance.apart {
            None => knee_c_returned as *const () as usize,
            Some(_) => knee_c_returned_apart as *const () as usize,
        };
        let stack = base - size_of::<usize>();
        // SAFETY: the first word of the task's stack, where the way into the code put its return address, and one that the code has
        // used: it may have overwritten both.
        unsafe {
            if is_jump {
                trap.caller = (trap.stack as *const usize).read_unaligned();
            }
            *(stack as *mut usize) = returned;
        }
        Some([self.instance.trapped(), stack])
    }

    /// The code has come to an instruction that the processor refuses.
    pub(super) fn ends_by_trap(&self) -> ! {
        let trap = TRAP.take().expect("a trap was noted before its stub is called");
        self.settle();
        let is_in_code = self.instance.text_at(trap.at).is_some();
        let known = if is_in_code { trap.at } else { trap.caller };
        if self.instance.text_at(known).is_some() {
            self.site.set(self.instance.site_of_instruction(known));
        }
        let base = self.base.get();
        let is_below = |address: usize| address < base && base - address < REACH;
        match (trap.signal, trap.address) {
            (CLOCK, _) => self.refuse(WITHOUT_END, HAS_END),
            (libc::SIGFPE, _) => {
                self.fail("it divides by zero, or the quotient has no room".to_string())
            }
            (libc::SIGILL, _) => self.fail(
                "it comes to bytes that are no instruction, where the compiler expected nobody"
                    .to_string(),
            ),
            (_, Some(address)) if !is_in_code => {
                self.fail(format!("it jumps to {address:#x}, where no code is"))
            }
            (_, Some(address)) if is_below(address) => self.refuse(TOO_DEEP, NOT_SO_DEEP),
            (_, Some(address)) => {
                self.fail(format!("it accesses memory at {address:#x}, where its stack should be"))
            }
            (..) => {
                self.fail("it accesses memory that is not aligned as its type says".to_string())
            }
        }
    }
}
