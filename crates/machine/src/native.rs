//! The native machine: plain atomics, futexes, signals, and the CPU's own pause instruction.

use std::cell::Cell;
use std::hint::spin_loop;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{self, Relaxed};
use std::thread;

use crate::{
    Atom, Field, IpiTarget, Machine, Op, Pace, Peers, Requeue, Sleep, SleepEnd, Sleepers, Until,
    Value, interrupts,
};

/// A task on this computer. `W` says what an unbounded wait does: it spins, or it spins for a
/// while and then yields the CPU.
#[derive(Debug)]
pub struct Native<W = Spinning> {
    cpu: usize,
    node: usize,
    pace: Pace,
    random: Cell<u32>,
    peers: Option<Peers>,
    wait_policy: PhantomData<W>,
}

/// What a native task does while it waits.
pub trait WaitPolicy {
    /// Loads of the word after which an unbounded wait yields the CPU; `None`: it never does.
    const LOADS_BEFORE_YIELD: Option<u32>;
}

/// Waits by spinning alone, as a kernel does.
#[derive(Debug)]
pub struct Spinning;

/// Yields the CPU when a wait lasts: the lock holder, or the next waiter in line, may need that
/// very CPU.
#[derive(Debug)]
pub struct Yielding;

impl WaitPolicy for Spinning {
    const LOADS_BEFORE_YIELD: Option<u32> = None;
}

impl WaitPolicy for Yielding {
    /// Some tens of microseconds: longer than any wait for a task that runs.
    const LOADS_BEFORE_YIELD: Option<u32> = Some(2000);
}

impl Native {
    /// A task on this CPU of this memory node. It spins while it waits.
    #[inline]
    pub fn new(cpu: usize, node: usize) -> Native {
        // Odd, so that xorshift never sees zero.
        let seed = (cpu as u32).wrapping_mul(0x9E37_79B9) | 1;
        Native {
            cpu,
            node,
            pace: Pace::NOMINAL,
            random: Cell::new(seed),
            peers: None,
            wait_policy: PhantomData,
        }
    }

    /// Makes long waits yield the CPU.
    pub fn yielding(self) -> Native<Yielding> {
        let Native { cpu, node, pace, random, peers, .. } = self;
        Native { cpu, node, pace, random, peers, wait_policy: PhantomData }
    }
}

impl<W> Native<W> {
    /// Sets how long work takes, as measured on this host. The default is 1 turn per ns.
    pub fn with_pace(self, pace: Pace) -> Self {
        Native { pace, ..self }
    }

    /// Sets the threads that this task can interrupt.
    pub fn with_peers(self, peers: &Peers) -> Self {
        Native { peers: Some(peers.clone()), ..self }
    }
}

impl<W: WaitPolicy> Machine for Native<W> {
    type HistoryMark = ();

    #[inline(always)]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        T::apply(atom.cell(), op, ordering)
    }

    #[inline(always)]
    fn compare_exchange<T: Value>(
        &self,
        atom: &Atom<T>,
        old: T,
        new: T,
        ordering: Ordering,
    ) -> Result<T, T> {
        T::compare_exchange(atom.cell(), old, new, ordering)
    }

    #[inline(always)]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        if let Some(loads) = W::LOADS_BEFORE_YIELD {
            loop {
                if let Some(word) = self.await_for(atom, until, ordering, loads) {
                    return word;
                }
                thread::yield_now();
            }
        }
        loop {
            let word = T::apply(atom.cell(), Op::Load, ordering);
            if until.holds(word) {
                return word;
            }
            spin_loop();
        }
    }

    #[inline(always)]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T> {
        for _ in 0..tries {
            let word = T::apply(atom.cell(), Op::Load, ordering);
            if until.holds(word) {
                return Some(word);
            }
            spin_loop();
        }
        None
    }

    #[inline(always)]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        T::apply(field.cell(), Op::Load, Relaxed)
    }

    #[inline(always)]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        T::apply(field.cell(), Op::Store(value), Relaxed);
    }

    #[inline(always)]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        T::apply(atom.cell(), Op::Store(value), Relaxed);
    }

    #[inline(always)]
    fn park(&self, atom: &Atom<u32>, expected: u32) {
        futex(atom, libc::FUTEX_WAIT, expected, 0);
    }

    #[inline(always)]
    fn wake(&self, atom: &Atom<u32>, sleepers: Sleepers) {
        futex(atom, libc::FUTEX_WAKE, max_woken(sleepers), 0);
    }

    /// Never times out: no time is given.
    fn park_as(&self, atom: &Atom<u32>, expected: u32, sleep: Sleep) -> SleepEnd {
        match futex(atom, libc::FUTEX_WAIT_BITSET, expected, sleep.bits) {
            -1 => SleepEnd::Differed,
            _ => SleepEnd::Woken,
        }
    }

    fn wake_bits(&self, atom: &Atom<u32>, sleepers: Sleepers, bits: u32) -> u32 {
        futex(atom, libc::FUTEX_WAKE_BITSET, max_woken(sleepers), bits).try_into().unwrap_or(0)
    }

    /// How many tasks moved is a part of the first number, as in the result of the system call.
    fn requeue(&self, atom: &Atom<u32>, to: &Atom<u32>, how: Requeue) -> Option<[u32; 2]> {
        let (word, other) = (ptr::from_ref(atom.cell()), ptr::from_ref(to.cell()));
        let [woken, moved] = [how.woken, how.moved].map(|many| many.min(i32::MAX as u32) as usize);
        let operation =
            if how.expected.is_some() { libc::FUTEX_CMP_REQUEUE } else { libc::FUTEX_REQUEUE };
        let expected = how.expected.unwrap_or_default();
        // SAFETY: both words are live, and the kernel only reads the first.
        let done = unsafe {
            libc::syscall(libc::SYS_futex, word, operation, woken, moved, other, expected)
        };
        u32::try_from(done).ok().map(|woken| [woken, 0])
    }

    /// Sends a signal to each target.
    ///
    /// # Panics
    ///
    /// If the machine was made without peers.
    fn send_ipi(&self, target: IpiTarget) {
        let peers = self.peers.as_ref().expect("a machine that sends interrupts has peers");
        peers.send_ipi(self.cpu, target);
    }

    #[inline(always)]
    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        interrupts::masked(body)
    }

    #[inline(always)]
    fn cpu_relax(&self, turns: u32) {
        for _ in 0..turns {
            spin_loop();
        }
    }

    #[inline(always)]
    fn random_backoff(&self, below: u32) {
        self.cpu_relax(self.random(below));
    }

    #[inline(always)]
    fn work(&self, ns: u64) {
        crate::work(self.pace.turns(ns));
    }

    #[inline(always)]
    fn cpu(&self) -> usize {
        self.cpu
    }

    #[inline(always)]
    fn node(&self) -> usize {
        self.node
    }

    /// Xorshift (Marsaglia 2003), with a sequence of its own for each CPU.
    #[inline(always)]
    fn random(&self, below: u32) -> u32 {
        let mut x = self.random.get();
        x ^= x << 13;
        x ^= x >> 17;
        x ^= x << 5;
        self.random.set(x);
        ((u64::from(x) * u64::from(below)) >> 32) as u32
    }

    #[inline(always)]
    fn chance(&self, one_in: u32) -> bool {
        self.random(one_in) == 0
    }

    #[inline(always)]
    fn fence(&self, ordering: Ordering) {
        std::sync::atomic::fence(ordering);
    }

    #[inline(always)]
    fn history_mark(&self) {}

    #[inline(always)]
    fn forget_history(&self, (): (), _: u64) {}
}

/// A futex call without a timeout. Its errors are ignored: they say that the word has changed or
/// that a signal arrived, and parking may return at any time anyway. Not FUTEX_PRIVATE_FLAG: tasks
/// may be processes. Inline, because the compiler moves code out of the way only if it sees that the
/// code is cold.
#[cold]
#[inline]
fn futex(atom: &Atom<u32>, operation: libc::c_int, value: u32, bits: u32) -> libc::c_long {
    let word = ptr::from_ref(atom.cell());
    let (no_time, no_word) = (ptr::null::<libc::timespec>(), ptr::null::<u32>());
    // SAFETY: the word is live, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word, operation, value, no_time, no_word, bits) }
}

fn max_woken(sleepers: Sleepers) -> u32 {
    match sleepers {
        Sleepers::One => 1,
        Sleepers::All => i32::MAX as u32,
    }
}
