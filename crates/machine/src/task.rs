//! The trait: what one task can do on a machine.

use std::sync::atomic::Ordering;

use crate::{Atom, CodeSite, Field, Op, Until, Value};

/// What one task of an algorithm may do. Algorithms take `m: &M`.
///
/// Waiting is an operation, never a loop over loads: a native task spins politely, a simulated
/// one sleeps on the cache line, and the checker disables the task. A loop that retries contains
/// a wait, a bound, or a [`Machine::forget_history`] at its head.
pub trait Machine {
    /// Does one access; returns the word's previous value.
    #[track_caller]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T;

    /// Writes `new` if the word holds `old`. Returns the word's previous value, as an error if it
    /// was not `old`. The access is an [`Op::CompareExchange`]. A machine whose hardware reports
    /// success overrides this method to save the comparison.
    #[inline(always)]
    #[track_caller]
    fn compare_exchange<T: Value>(
        &self,
        atom: &Atom<T>,
        old: T,
        new: T,
        ordering: Ordering,
    ) -> Result<T, T> {
        let previous = self.op(atom, Op::CompareExchange(old, new), ordering);
        if previous == old { Ok(previous) } else { Err(previous) }
    }

    /// Waits until the word fulfils the condition; returns the word. The only unbounded wait.
    #[track_caller]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T;

    /// Waits for the condition for about `tries` loads of the word; returns `None` if it did not
    /// come true.
    #[track_caller]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T>;

    /// Reads a plain field.
    #[track_caller]
    fn get<T: Value>(&self, field: &Field<T>) -> T;

    /// Requests the cache line of a plain field that the task is about to read. An out-of-order CPU requests at once
    /// all lines whose addresses it knows, so a native task needs no such call; in virtual time reads wait for one
    /// line after the other unless they were requested before.
    #[inline(always)]
    fn prefetch<T: Value>(&self, field: &Field<T>) {
        let _ = field;
    }

    /// Writes a plain field.
    #[track_caller]
    fn set<T: Value>(&self, field: &Field<T>, value: T);

    /// Writes a word that no other task can reach now, as if it were a plain field.
    #[track_caller]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T);

    /// Declares the word dead: no task reads it before `init` writes it again. The checker
    /// overwrites it, so that a task which breaks the promise is caught.
    #[inline(always)]
    #[track_caller]
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        let _ = atom;
    }

    /// Declares a plain field dead: no task reads it before `set` writes it again.
    #[inline(always)]
    #[track_caller]
    fn poison_field<T: Value>(&self, field: &Field<T>) {
        let _ = field;
    }

    /// Sleeps until a [`Machine::wake`] of the word, but only if the word holds `expected`. May
    /// also return without a wake-up.
    #[track_caller]
    fn park(&self, atom: &Atom<u32>, expected: u32);

    /// Wakes tasks that sleep on the word.
    #[track_caller]
    fn wake(&self, atom: &Atom<u32>, sleepers: Sleepers);

    /// Sleeps as [`Machine::park`] does, in a way of its own; returns how that ended.
    #[track_caller]
    fn park_as(&self, atom: &Atom<u32>, expected: u32, sleep: Sleep) -> SleepEnd;

    /// Wakes tasks that sleep on the word for one of these bits; returns how many.
    #[track_caller]
    fn wake_bits(&self, atom: &Atom<u32>, sleepers: Sleepers, bits: u32) -> u32;

    /// Wakes tasks that sleep on the word, and lets others sleep on another word instead. Returns how many tasks were woken, and
    /// how many moved; `None` if the word was not what was expected.
    #[track_caller]
    fn requeue(&self, atom: &Atom<u32>, to: &Atom<u32>, how: Requeue) -> Option<[u32; 2]>;

    /// Halts the virtual CPU that the task stands for, until a [`Machine::kick`] of the word, but
    /// only if the word holds `expected`. May also return without a kick.
    #[inline(always)]
    #[track_caller]
    fn halt(&self, atom: &Atom<u32>, expected: u32) {
        self.park(atom, expected);
    }

    /// Wakes one virtual CPU that is halted on the word.
    #[inline(always)]
    #[track_caller]
    fn kick(&self, atom: &Atom<u32>) {
        self.wake(atom, Sleepers::One);
    }

    /// Interrupts other CPUs. Each target runs its interrupt handler before it continues, even in
    /// the middle of a wait. Interrupts that arrive before the handler runs are merged into one.
    #[track_caller]
    fn send_ipi(&self, target: IpiTarget);

    /// Runs `body` with interrupts masked on this CPU. An interrupt that arrives during `body` is
    /// handled right after it.
    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R;

    /// Relaxes the CPU for about this many turns of a spin loop.
    fn cpu_relax(&self, turns: u32);

    /// Relaxes the CPU for a random number of turns below the bound. Nothing else may depend on
    /// that number, so the checker need not try them all.
    fn random_backoff(&self, below: u32);

    /// Computes for this long. Interrupts may arrive in that time.
    fn work(&self, ns: u64);

    /// Marks the end of a system call, where the task holds no kernel lock. A task whose time
    /// slice is used up may lose its CPU here, even while it holds something that outlives the
    /// call.
    #[inline(always)]
    fn preemption_point(&self) {}

    /// The number of the task's CPU, from 0.
    fn cpu(&self) -> usize;

    /// The memory node of the task's CPU, from 0.
    fn node(&self) -> usize;

    /// The number of the task, from 0. A task that sleeps keeps it, but may wake up on another CPU, and others run on
    /// its CPU meanwhile. By default each task has a CPU of its own.
    #[inline(always)]
    fn task(&self) -> usize {
        self.cpu()
    }

    /// A random number below the bound. The checker tries all of them.
    #[track_caller]
    fn random(&self, below: u32) -> u32;

    /// True once in `one_in` calls on average. The checker tries both answers.
    #[track_caller]
    fn chance(&self, one_in: u32) -> bool;

    /// A position in the history of what the task has read.
    type HistoryMark: Copy;

    /// The current position in the task's history.
    fn history_mark(&self) -> Self::HistoryMark;

    /// Declares dead state: of everything the task has read since the mark, only `live` affects
    /// what it does next. This keeps the search of a retry loop finite. A wrong claim would merge
    /// states that differ; the checker can be told to look for such claims.
    #[track_caller]
    fn forget_history(&self, since: Self::HistoryMark, live: u64);

    /// Says how the next compare-exchange orders if it fails, in algorithms of other languages. Without this, not at all.
    #[inline(always)]
    fn fails_with(&self, ordering: Ordering) {
        let _ = ordering;
    }

    /// Orders all earlier accesses of the task before all later ones, as far as the ordering says.
    #[track_caller]
    fn fence(&self, ordering: Ordering);

    /// Orders earlier loads before later ones, as the kernel's `smp_rmb()`.
    #[inline(always)]
    #[track_caller]
    fn fence_loads(&self) {
        self.fence(Ordering::Acquire);
    }

    /// Orders earlier stores before later ones, as the kernel's `smp_wmb()`.
    #[inline(always)]
    #[track_caller]
    fn fence_stores(&self) {
        self.fence(Ordering::Release);
    }

    /// Whether dependencies between accesses matter, so that the task shall name them.
    #[inline(always)]
    fn names_dependencies(&self) -> bool {
        false
    }

    /// What a load of the word would find now, where it can find only one value and looking is no step. Machines that do not say
    /// so return `None`.
    #[inline(always)]
    fn peek<T: Value>(&self, atom: &Atom<T>) -> Option<T> {
        let _ = atom;
        None
    }

    /// Whether time stands still: what a task does again without others running finds nothing new, and costs nothing.
    #[inline(always)]
    fn is_timeless(&self) -> bool {
        false
    }

    /// Whether a load may see older values than the last: then what several accesses do as one must be one.
    #[inline(always)]
    fn reads_old_values(&self) -> bool {
        false
    }

    /// The number of the task's last read, by which later accesses say that they depend on it.
    #[inline(always)]
    fn last_read(&self) -> Option<u8> {
        None
    }

    /// The reads, as bits, on which a later access may depend: something else orders all others before whatever follows.
    #[inline(always)]
    fn open_reads(&self) -> u128 {
        u128::MAX
    }

    /// A mark behind the task's last access.
    #[inline(always)]
    fn access_mark(&self) -> u8 {
        0
    }

    /// Declares that the task has come back to where it was at this mark, and has only read since: it goes on as if it had not.
    #[inline(always)]
    fn forget_accesses(&self, since: u8) {
        let _ = since;
    }

    /// Says what the task's next access depends on.
    #[inline(always)]
    fn depends_on(&self, dependencies: Dependencies) {
        let _ = dependencies;
    }

    /// Declares that the address of the word depends on values that the task has read. As in the kernel's memory model,
    /// its next access to the word comes after what led to those values.
    #[inline(always)]
    fn depend<T: Value>(&self, atom: &Atom<T>) {
        let _ = atom;
    }

    /// Says where the next accesses stand in the source code, for algorithms in other languages. `None`: where the
    /// machine is called.
    #[inline(always)]
    fn at(&self, site: Option<CodeSite>) {
        let _ = site;
    }

    /// Reports an event of the algorithm to a machine that checks its claims.
    #[inline(always)]
    fn annotate(&self, annotation: Annotation) {
        let _ = annotation;
    }
}

/// What an access depends on: reads of its task, by their numbers, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dependencies {
    /// Reads from which its address was computed.
    pub address: u128,
    /// Reads from which the value that it writes was computed.
    pub data: u128,
    /// Reads that decided whether it happens.
    pub control: u128,
    /// Whether it takes or releases a spinlock of the kernel: what stands before the release comes before what follows the next
    /// taking, for all tasks.
    pub of_spinlock: bool,
}

/// The CPUs that [`Machine::send_ipi`] interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IpiTarget {
    /// The CPU of this number, which is not the sender's own.
    One(usize),
    /// All CPUs but the sender's own, by one command.
    Others,
}

/// Which of the tasks that sleep on a word are woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sleepers {
    /// Any one of them, if there is one.
    One,
    /// All of them.
    All,
}

/// How a task sleeps on a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sleep {
    /// A wake-up ends the sleep if it is for one of these bits.
    pub bits: u32,
    /// Whether the sleep also ends after some time.
    pub timed: bool,
}

impl Sleep {
    /// Any wake-up ends the sleep, and nothing else does.
    pub const UNTIL_WOKEN: Sleep = Sleep { bits: u32::MAX, timed: false };
}

/// What becomes of tasks that sleep on a word: some are woken, others sleep on another word from then on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Requeue {
    /// Nothing happens unless the word holds this.
    pub expected: Option<u32>,
    /// How many are woken, at most.
    pub woken: u32,
    /// How many of the others sleep on the other word, at most.
    pub moved: u32,
}

/// How a sleep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SleepEnd {
    /// By a wake-up.
    Woken,
    /// It did not begin: the word was not what the task expected.
    Differed,
    /// By its time-out.
    TimedOut,
}

/// An event that an algorithm reports, for machines that check mutual exclusion and fairness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Annotation {
    /// The task begins to take the lock, for itself alone.
    Want,
    /// The task begins to take the lock, to share it with other readers.
    WantShared,
    /// The task has its position in the queue: a task that arrives later enters later.
    Arrive,
    /// The task has entered the critical section, alone.
    Enter,
    /// The task leaves the critical section.
    Leave,
    /// The task has entered the critical section, which it shares with other readers.
    EnterShared,
    /// The task leaves the critical section that it shared.
    LeaveShared,
}
