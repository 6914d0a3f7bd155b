//! One call into C code on a machine: what its hooks do there.
//!
//! A plain access happens after the call for it, and so does a volatile one. So the call notes what memory held, and the next one gives
//! the machine what was written, at the line where it was: until then no other task has run.

mod access;
mod bytes;
mod compiled;
mod depends;
mod flow;
mod futex;
mod heap;
mod instruction;
mod traps;
mod tries;
mod wide;

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;
use std::sync::atomic::Ordering::Relaxed;

use engines::Unsupported;
use machine::{Annotation, CodeSite, Machine, Op, Ordering, Sleep};

pub use access::STACK;
use access::{Announced, PENDING_MAX, Pending, Place, mix, ones, ordering};

use crate::entry::{
    Frame, InstructionFrame, STACK_ALIGN, STACK_GUARD, knee_c_enter, knee_c_enter_apart,
};
use crate::hooks::Hook;
use crate::instance::Instance;
use flow::{Flow, Head};
use traps::Trap;
use tries::{Rounds, Try};

/// Choices of one `knee_choose` at most.
const CHOICES_MAX: u32 = 16;

/// Calls of hooks between two steps: more than of a loop that takes time on purpose.
const HOOKS_MAX: u64 = 1 << 25;

/// Bytes of the stack for the code's own functions: the rest is for knee's, and for the message of a fault.
const CALLS_MAX: usize = 64 << 10;

/// A call into C code.
struct Task<'a, M: Machine> {
    m: &'a M,
    instance: &'a Instance,
    /// Where its history began.
    mark: M::HistoryMark,
    /// Where its stack began, and where it ends now.
    base: Cell<usize>,
    end: Cell<usize>,
    /// The sixth argument of the last hook's call, if it had one.
    sixth: Cell<u64>,
    /// The registers that functions keep, at the last hook's call.
    registers: Cell<[u64; 6]>,
    pending: Cell<[Pending; PENDING_MAX]>,
    /// The word that the last hook was about, if the code accesses it itself.
    announced: Cell<Option<Announced>>,
    /// The state of the last load and what it read, if nothing else came since.
    last_load: Cell<Option<(u64, u64)>>,
    /// The last access that left memory as it was, if nothing else came since.
    last_try: Cell<Option<Try>>,
    /// The last accesses that left memory as it was, and how often they were the same.
    rounds: Cell<Rounds>,
    /// Where the last call returns to.
    returns_to: Cell<u64>,
    /// Where the hook stands that is running, or was last.
    site: Cell<CodeSite>,
    errno: Cell<i32>,
    /// How often a hook was called since the call began, or since the last step of the search.
    hooks_called: Cell<u64>,
    /// What registers and the stack depend on, where that matters.
    flow: Option<&'a RefCell<Flow>>,
    /// Where it may be in a loop that only reads.
    head: Option<&'a RefCell<Head>>,
}

trait Called {
    fn called(&self, arguments: &[u64; 5], frame: &Frame) -> u64;
    fn instructed(&self, frame: &mut InstructionFrame);
    fn way_out(&self, trap: &mut Trap) -> Option<[usize; 2]>;
    fn hooks_called(&self) -> u64;
}

thread_local! {
    /// The call that is running on this thread. Tasks take turns on one thread, so each sets it again after every step.
    static RUNNING: Cell<Option<NonNull<dyn Called>>> = const { Cell::new(None) };
}

/// Calls a function of the program, given by its offset, with one argument.
pub fn call<M: Machine>(m: &M, instance: &Instance, function: usize, argument: usize) -> u64 {
    if m.names_dependencies() {
        return call_following(m, instance, function, argument);
    }
    enter(m, instance, (function, argument), None)
}

/// Calls a function, and follows what its accesses depend on. Only then is that on the stack, which a search copies.
#[inline(never)]
fn call_following<M: Machine>(m: &M, instance: &Instance, function: usize, argument: usize) -> u64 {
    let flow = RefCell::new(Flow::new(instance.function(function)));
    let head = RefCell::new(Head::new(&flow.borrow()));
    enter(m, instance, (function, argument), Some((&flow, &head)))
}

fn enter<M: Machine>(
    m: &M,
    instance: &Instance,
    (function, argument): (usize, usize),
    following: Option<(&RefCell<Flow>, &RefCell<Head>)>,
) -> u64 {
    let task = Task {
        m,
        instance,
        mark: m.history_mark(),
        base: Cell::new(0),
        end: Cell::new(0),
        sixth: Cell::new(0),
        registers: Cell::new([0; 6]),
        pending: Cell::new([Pending::None; PENDING_MAX]),
        announced: Cell::new(None),
        last_load: Cell::new(None),
        last_try: Cell::new(None),
        rounds: Cell::new(Rounds::default()),
        returns_to: Cell::new(0),
        site: Cell::new(CodeSite { file: "", line: 0, column: 0 }),
        errno: Cell::new(0),
        hooks_called: Cell::new(0),
        flow: following.map(|(flow, _)| flow),
        head: following.map(|(_, head)| head),
    };
    traps::expect_traps(instance.code_range());
    task.runs();
    instance.uses_stack(m.task(), std::ptr::from_ref(&task) as usize);
    let (function, base) = (instance.function(function), task.base.as_ptr());
    // SAFETY: a function of the program, which takes one pointer; and the stack of this task, on which nothing runs.
    let result = unsafe {
        match &instance.apart {
            None => knee_c_enter(function, argument, base),
            Some(stacks) => knee_c_enter_apart(function, argument, base, stacks.top(m.task())),
        }
    };
    task.ends_flow();
    task.settle();
    m.at(None);
    result
}

/// The call that is running on this thread.
fn running() -> NonNull<dyn Called> {
    RUNNING.get().expect("C code runs only within a call")
}

/// Where the way out of C code leads: called by the code of `entry`, by this name.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn knee_c_called(
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    frame: *const Frame,
) -> u64 {
    // SAFETY: the call that is running is on this very stack; the frame is, too.
    unsafe { running().as_ref().called(&[a, b, c, d, e], &*frame) }
}

/// Where an instruction of inline assembly leads: called by the code of `entry`, by this name.
#[unsafe(no_mangle)]
pub extern "C-unwind" fn knee_c_instructed(frame: *mut InstructionFrame) {
    // SAFETY: as in `knee_c_called`; nobody else has the frame.
    unsafe { running().as_ref().instructed(&mut *frame) }
}

impl<M: Machine> Called for Task<'_, M> {
    fn called(&self, arguments: &[u64; 5], frame: &Frame) -> u64 {
        let hook = self.instance.program.hooks[frame.hook as usize];
        self.counts_hook();
        if let Some(value) = self.finds_quickly(hook, arguments[0], frame) {
            return value;
        }
        self.returns_to.set(frame.return_address);
        self.sixth.set(frame.sixth);
        self.registers.set(frame.registers);
        self.stops(std::ptr::from_ref(frame) as usize, size_of::<Frame>());
        let arguments_used = arguments[..hook.arguments()].iter().copied();
        let state =
            self.state(frame.registers.into_iter().chain(arguments_used), frame.return_address);
        self.flows_to(frame.return_address);
        self.comes_to(frame.return_address);
        self.depends_by_call(hook, arguments);
        let result = self.act(hook, arguments, state);
        self.flows_from_call();
        self.runs();
        result
    }

    fn instructed(&self, frame: &mut InstructionFrame) {
        self.counts_hook();
        self.stops(std::ptr::from_ref(frame) as usize, size_of::<InstructionFrame>());
        let number = match self.instance.program.hooks[frame.hook as usize] {
            Hook::Instruction(number) => number,
            Hook::Trap => self.fail("it ends with an instruction that traps".to_string()),
            Hook::Trapped => self.ends_by_trap(),
            Hook::PointerCall => {
                self.flows_to(frame.return_address);
                self.site.set(self.instance.site(frame.return_address as usize));
                return self.calls_by_pointer(frame.registers[instruction::R11] as usize);
            }
            _ => {
                self.flows_to(frame.return_address);
                self.accesses(frame);
                return;
            }
        };
        self.flows_to(frame.return_address);
        frame.registers[instruction::RSP] = self.end.get() as u64;
        let state = self.state(frame.registers.into_iter(), frame.return_address);
        self.comes_to(frame.return_address);
        self.instruction(number, frame, state);
        self.runs();
    }

    fn way_out(&self, trap: &mut Trap) -> Option<[usize; 2]> {
        self.ends_at(trap)
    }

    fn hooks_called(&self) -> u64 {
        self.hooks_called.get()
    }
}

impl<M: Machine> Task<'_, M> {
    fn runs(&self) {
        let called: NonNull<dyn Called + '_> = NonNull::from(self);
        // SAFETY: only the lifetime changes. The call is over before this value is dropped, and while it is not running
        // others have set theirs.
        RUNNING.set(Some(unsafe {
            std::mem::transmute::<NonNull<dyn Called + '_>, NonNull<dyn Called>>(called)
        }));
    }

    fn calls_by_pointer(&self, address: usize) {
        if address == 0 {
            self.fail("it calls a function by a null pointer".to_string());
        }
        if (self.end.get()..self.base.get()).contains(&address) {
            self.refuse(
                "it calls a nested function by a pointer, whose code the compiler puts on the stack",
                "make it a function of the file, and pass what it needs",
            );
        }
        if !self.instance.is_function(address) {
            self.fail("it calls a function by a pointer to no function".to_string());
        }
    }

    /// The code comes to one hook after the other: some time to a step, too.
    fn counts_hook(&self) {
        self.hooks_called.set(self.hooks_called.get() + 1);
        if self.hooks_called.get() > HOOKS_MAX {
            self.refuse(traps::WITHOUT_END, traps::HAS_END);
        }
    }

    /// The code has stopped in a call, whose frame of this many bytes ends its stack.
    fn stops(&self, frame: usize, bytes: usize) {
        self.end.set(frame + bytes);
        if self.base.get() - self.end.get() > CALLS_MAX {
            self.refuse(traps::TOO_DEEP, traps::NOT_SO_DEEP);
        }
        if let Some(stacks) = &self.instance.apart {
            stacks.set_end(self.m.task(), frame + bytes);
            if frame % STACK_ALIGN < STACK_GUARD {
                self.refuse(
                    "tasks share local variables, and the functions that a task is in have more of them than fit on the stack \
                     of a search",
                    "make large ones static _Thread_local, and leave out recursion",
                );
            }
        }
    }

    /// A hash of all that decides what the task does next: registers with the hook's arguments, and its stack.
    fn state(&self, registers: impl Iterator<Item = u64>, return_address: u64) -> u64 {
        let from = self.end.get();
        let words = (self.base.get() - from) / 8;
        // SAFETY: the live stack of the C code, from the hook's frame to where it began.
        let stack = unsafe { std::slice::from_raw_parts(from as *const u64, words) };
        let errno = self.errno.get() as u64;
        let known = [return_address, words as u64, errno].into_iter().chain(registers);
        known.chain(stack.iter().copied()).fold(0x51ED_270B, mix)
    }

    /// The code has come to the call that returns to this address.
    fn comes_to(&self, return_address: u64) {
        self.settle();
        let site = self.instance.site(return_address as usize);
        self.site.set(site);
        self.m.at(Some(site));
    }

    fn act(&self, hook: Hook, arguments: &[u64; 5], state: u64) -> u64 {
        let [a, b, c, d, e] = *arguments;
        let address = a as usize;
        let modify =
            |size, op: Op<u64>, order| self.modify(Place { address, size }, op, order, state);
        match hook {
            Hook::Nothing => {}
            Hook::VolatileRead(size) => self.volatile(Place { address, size }, false, state),
            Hook::VolatileWrite(size) => self.volatile(Place { address, size }, true, state),
            Hook::Load(size) => {
                let value = self.load(Place { address, size }, ordering(b), state);
                // clang leaves the load itself, whose value nobody uses.
                self.announce(Place { address, size }, false);
                return value;
            }
            Hook::Store(size) => return modify(size, Op::Store(b), c),
            Hook::Swap(size) => return modify(size, Op::Swap(b), c),
            Hook::Add(size) => return modify(size, Op::Add(b), c),
            Hook::Sub(size) => return modify(size, Op::Add(b.wrapping_neg()), c),
            Hook::Or(size) => return modify(size, Op::Or(b), c),
            Hook::And(size) => return modify(size, Op::And(b), c),
            Hook::Xor(size) => return modify(size, Op::Xor(b), c),
            Hook::CompareExchange(size) => {
                let word = Place { address: b as usize, size };
                let expected = self.expected(word);
                self.m.fails_with(ordering(e));
                let old = modify(size, Op::CompareExchange(expected, c), d);
                if old != expected {
                    self.set_expected(word, old);
                    self.flows_to_stack(word);
                }
                return u64::from(old == expected);
            }
            Hook::CompareExchangeValue(size) => {
                let (expected, new) = (b & ones(size), c);
                self.m.fails_with(ordering(e));
                return modify(size, Op::CompareExchange(expected, new), d);
            }
            Hook::Fence => {
                self.forget(state);
                self.ends_wait();
                if ordering(a) != Ordering::Relaxed {
                    self.m.fence(ordering(a));
                }
            }
            Hook::FenceLoads | Hook::FenceStores => {
                self.forget(state);
                self.ends_wait();
                match hook {
                    Hook::FenceLoads => self.m.fence_loads(),
                    _ => self.m.fence_stores(),
                }
            }
            _ => return self.other(hook, arguments, state),
        }
        0
    }

    /// What is no access of the code's own.
    fn other(&self, hook: Hook, arguments: &[u64; 5], state: u64) -> u64 {
        let [a, b, c, ..] = *arguments;
        match hook {
            Hook::ThreadLocal => {
                // SAFETY: a pair that `Instance` made: nothing, and the offset.
                let offset = unsafe { *(a as *const u64).add(1) };
                return self.instance.thread_local(self.m.task()) as u64 + offset;
            }
            Hook::OfCpu => return self.of_cpu(a as usize, b as usize),
            Hook::Cpu => return self.m.task() as u64,
            Hook::Node => return self.m.node() as u64,
            Hook::Cpus => return self.instance.cpus as u64,
            Hook::Thread => return self.m.task() as u64 + 1,
            Hook::Errno => return self.errno.as_ptr() as u64,
            Hook::Operations => return self.instance.operations.load(Relaxed),
            Hook::Arrive => self.m.annotate(Annotation::Arrive),
            Hook::Choose => return self.choose(a as u32, state),
            Hook::BeginWide => self.begin_wide(a as usize, state),
            Hook::EndWide => self.end_wide(state),
            Hook::Park => {
                self.park(a as usize, b as u32, Sleep::UNTIL_WOKEN, state);
            }
            Hook::Wake => {
                self.wake(a as usize, b as u32, u32::MAX, state);
            }
            Hook::Syscall => return self.syscall(arguments, state),
            Hook::Bytes(function) => return self.bytes(function, a, b, c),
            Hook::Heap(function) => return self.heap_function(function, a, b, c),
            Hook::Exception => self.refuse(
                "it throws an exception, whose way a search does not follow",
                "let it do without, or give it input for which it throws none",
            ),
            Hook::AssertFail => {
                // SAFETY: __assert_fail gets the condition as a C string.
                let condition = unsafe { std::ffi::CStr::from_ptr(a as *const _) };
                self.fail(format!("assertion failed: {}", condition.to_string_lossy()))
            }
            Hook::Exit => self.fail("it ends the program".to_string()),
            _ => self.fail("it aborts".to_string()),
        }
        a
    }

    /// A number below this one, of which a search tries all.
    fn choose(&self, below: u32, state: u64) -> u64 {
        if !(1..=CHOICES_MAX).contains(&below) {
            self.refuse(&format!("knee_choose({below})"), "choose below 1 to 16");
        }
        self.forget(state);
        self.ends_wait();
        self.has_effect();
        if below == 1 { 0 } else { self.m.random(below).into() }
    }

    /// The address of a thread-local variable in another task.
    fn of_cpu(&self, address: usize, cpu: usize) -> u64 {
        let instance = self.instance;
        let Some(owner) = instance.owner(address) else {
            self.fail(format!("knee_of_cpu: {address:#x} is not in a _Thread_local variable"))
        };
        if cpu >= instance.cpus {
            self.fail(format!("knee_of_cpu: there is no CPU {cpu}, only {}", instance.cpus));
        }
        (address - instance.thread_local(owner) + instance.thread_local(cpu)) as u64
    }

    fn fail(&self, why: String) -> ! {
        panic!("{why}, at {}", self.site.get())
    }

    /// Ends the check: what the code does may be right, and no machine does it.
    fn refuse(&self, why: &str, way_out: &str) -> ! {
        Unsupported::new(format!("{why}, at {}", self.site.get()), way_out).stop()
    }
}
