//! Tasks, CPUs, and which task has which CPU.

use std::collections::VecDeque;

use machine::{Annotation, Until};

use super::Time;
use super::coherence::{LineUse, WordAddress};
use super::idle::IdleTime;
use super::invariants::Invariants;
use super::ledger::{Account, TimeRow};
use super::queue::EventQueue;
use super::store_buffer::StoreBuffer;

/// What a task is doing.
///
///     Running ──has to wait for its turn──> Requesting ──the line comes──> Running
///     Running ──waits──> Waiting ──condition holds──> Running
///        │ ^ └─parks──> FallingAsleep ──> Asleep ──woken──┐
///        │ ├──woken already───┘                           │
///        │ └──gets a CPU── Ready <──────┬─────────────────┘
///        └──loses its CPU───> Ready <───┘   (so does a waiting task, which then rechecks)
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TaskState {
    /// Continues at its time.
    Running,
    /// Requests a line at its time.
    Requesting(LineRequest),
    /// Has a CPU and waits for a word to change.
    Waiting(WordWait),
    /// Has got a CPU again, and reads its word at its time.
    Rechecking(WordWait),
    /// Is among the sleepers of a word, and leaves its CPU at its time.
    FallingAsleep { offset: u32 },
    /// Sleeps on a word.
    Asleep { offset: u32 },
    /// Waits for a CPU.
    Ready(Resume),
    /// Has nothing left to do.
    Ended,
}

/// What a task does once it has a CPU.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Resume {
    /// Continues what it was doing, which takes this long still and counts in this row.
    Continue(Time, TimeRow),
    /// Reads its word again.
    Recheck(WordWait),
    /// Handles an interrupt for a CPU without a task, and ends.
    HandleInterrupt,
}

/// Continues immediately.
pub const NOW: Resume = Resume::Continue(0, TimeRow::Local);

/// A request for a line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LineRequest {
    pub line: u32,
    pub how: LineUse,
    /// Whether all earlier stores must have left the store buffer.
    pub after_stores: bool,
}

/// A line that was requested.
#[derive(Clone, Copy, Debug)]
pub struct LineGrant {
    /// When the task requested it.
    pub at: Time,
    /// When the CPUs that have it lose it.
    pub leaves: Time,
    /// Whether the task's CPU had it already.
    pub hit: bool,
}

/// A wait for a word to change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WordWait {
    pub word: WordAddress,
    pub until: Until<u64>,
    /// When the task gives up.
    pub deadline: Time,
}

/// One task.
#[derive(Clone, Debug)]
pub struct SimulatedTask {
    /// The simulated time up to which the task has run.
    pub time: Time,
    pub cpu: u16,
    pub state: TaskState,
    /// The sequence number of its one valid event; 0: none.
    pub event: u64,
    /// Its stores that other tasks do not see yet, in order.
    pub stores: StoreBuffer,
    /// When these stores should all have left the buffer.
    pub drained: Time,
    /// Lines that it requested before it reads them, and when each arrives.
    pub prefetched: Vec<(u32, Time)>,
    /// The line that it waited for; `None` where an interrupt came first.
    pub granted: Option<LineGrant>,
    /// The task leaves its critical section at its time.
    pub leaving: Option<Annotation>,
    /// The value that ended its wait; `None` if the task gave up.
    pub seen: Option<u64>,
    pub inside: bool,
    /// How long it has had a CPU, without the current slice.
    pub vruntime: Time,
    /// How many sections deep its interrupts are off.
    pub irqs_off_depth: u32,
    /// An interrupt has come that was not handled yet.
    pub interrupt_pending: bool,
    /// The task is handling an interrupt, and does this afterwards.
    pub interrupted: Option<Resume>,
    /// The task continues because an interrupt has just come, not because its event is due.
    pub interrupt_arrived: bool,
    pub operations: u64,
    pub random: u64,
    pub account: Account,
}

impl SimulatedTask {
    /// A task that waits for this CPU, with this start of its random numbers.
    pub fn new(cpu: u16, random: u64, window: (Time, Time)) -> SimulatedTask {
        SimulatedTask {
            time: 0,
            cpu,
            state: TaskState::Ready(NOW),
            event: 0,
            drained: 0,
            stores: StoreBuffer::default(),
            prefetched: Vec::new(),
            granted: None,
            leaving: None,
            seen: None,
            inside: false,
            vruntime: 0,
            irqs_off_depth: 0,
            interrupt_pending: false,
            interrupted: None,
            interrupt_arrived: false,
            operations: 0,
            random,
            account: Account::new(window),
        }
    }

    /// Whether the task only waits, and leaves its core to the other thread.
    pub fn pauses(&self) -> bool {
        matches!(self.state, TaskState::Waiting(_)) || self.account.last() == TimeRow::Spinning
    }

    /// Whether the task has to wait for its buffered stores before this request. A locked
    /// instruction waits for all of them, as on x86; no access sees a line that one of them is
    /// about to change.
    #[inline(always)]
    pub fn waits_for_stores(&self, request: LineRequest) -> bool {
        !self.stores.is_empty() && (request.after_stores || self.stores.has_line(request.line))
    }

    /// Leaves the critical section, if the task was about to: its work inside is done now.
    #[inline]
    pub fn leave(&mut self, invariants: &mut Invariants) {
        if let Some(annotation) = self.leaving.take() {
            invariants.leaves(annotation);
        }
    }

    /// Ends the wait of the task when it sees this value.
    pub fn end_wait(&mut self, number: u16, time: Time, seen: u64, queue: &mut EventQueue) {
        (self.seen, self.state, self.time) = (Some(seen), TaskState::Running, time);
        self.book(TimeRow::Spinning, self.time);
        self.event = queue.push(self.time, number);
    }

    /// Interrupts what the task does at `now`; returns what is left of it.
    pub fn stop(&mut self, now: Time) -> Resume {
        let (now, remaining, row) = self.account.take_back(now);
        (self.time, self.event) = (now, 0);
        Resume::Continue(remaining, row)
    }

    /// Books all time up to `until` that is in no row yet.
    #[inline]
    pub fn book(&mut self, row: TimeRow, until: Time) {
        match self.interrupted {
            None => self.account.book(row, until),
            Some(_) => self.book_interrupted(row, until),
        }
    }

    #[cold]
    fn book_interrupted(&mut self, row: TimeRow, until: Time) {
        self.account.book(if row.runs() { TimeRow::Interrupted } else { row }, until);
    }
}

/// One CPU, and the tasks that wait for it.
#[derive(Clone, Debug, Default)]
pub struct RunQueue {
    pub current: Option<u16>,
    /// Since when the current task has the CPU.
    pub since: Time,
    /// Whether the current task should make way for one that was woken.
    pub need_resched: bool,
    /// Tasks that wait for the CPU, by `vruntime`.
    pub ready: VecDeque<u16>,
    /// The smallest `vruntime` of its tasks; it never falls.
    pub min_vruntime: Time,
    /// The task that runs next, before the one with the smallest `vruntime`.
    pub next_buddy: Option<u16>,
    /// When its timer fires, if it does.
    pub timer: Time,
    /// When the last noise ends that took the CPU.
    pub taken_until: Time,
    pub idle_time: IdleTime,
    /// What local work costs while one of `siblings` is busy, in thousandths.
    pub slower_per_mille: u64,
    /// The other threads of its core that have tasks.
    pub siblings: Vec<u16>,
}
