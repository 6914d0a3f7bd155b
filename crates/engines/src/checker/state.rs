//! The state of a search: the tasks, memory and store buffers, and as much of the past as
//! matters for what the tasks will do.

use super::bypass::Watched;
use super::executions::Executions;
use super::happens_before::HappensBefore;
use super::request::{Request, RequestKind};
use super::views::Views;

/// Entries of a CPU's store buffer.
pub const BUFFER: usize = 4;

/// CPU numbers that a task may have read since it last forgot its history.
const NAMED_CPUS_MAX: usize = 24;

/// A state. Saved states have a copy of the memory; that of the live state is the region itself.
#[derive(Debug, Default)]
pub struct SystemState {
    pub memory: Vec<u64>,
    pub tasks: Vec<CheckedTask>,
    /// The store buffers, [`BUFFER`] entries a task, the oldest first; empty where stores
    /// become visible immediately.
    pub buffers: Vec<BufferedStore>,
    pub happens_before: HappensBefore,
    /// Under RC11, the writes that tasks may still read, and which of them each must not read behind.
    pub views: Views,
    /// Under the rules of hardware or of the kernel, the execution so far.
    pub executions: Executions,
    /// Tasks that have arrived and not entered, in the order of arrival.
    pub arrivals: Vec<Arrival>,
    /// How many tasks are inside exclusively: at most one, or something is wrong.
    pub inside: u8,
    /// How many tasks are inside that share with others.
    pub sharing: u8,
    pub watched: Watched,
}

/// A task that has arrived and not entered.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub task: u8,
    /// How many tasks have entered since that did not arrive before it.
    pub bypassed: u8,
}

#[derive(Clone, Copy, Debug)]
pub struct CheckedTask {
    pub request: Request,
    pub ended: bool,
    /// The value that its pending read-modify-write has just found and left, in the same state.
    pub spins_on: Option<u64>,
    /// Where it was, as a hash, when it last found and left a value, and that value: if it has gone to sleep since.
    pub slept_after: Option<(u64, u64)>,
    /// Whether it has woken without a wake-up, where that happens once.
    pub has_woken_by_itself: bool,
    /// A hash of all values that the task was given and has not forgotten.
    pub history: u64,
    pub named_cpus: NamedCpus,
    /// Steps since the task last forgot its history.
    pub steps: u32,
    /// How many of its stores are buffered.
    pub buffered: u8,
    /// Whether it has stored since its last full barrier, where loads pass no stores yet.
    pub has_stored: bool,
    /// Whether an interrupt was sent to it that it has not handled.
    pub interrupt_pending: bool,
    /// How many sections deep its interrupts are off.
    pub irqs_off_depth: u8,
}

/// The CPU numbers among the values that a task was given, in order: kept apart from its
/// history, so that tasks can be renumbered. Beside each number is the role of the word that
/// held it, which follows from the history.
#[derive(Clone, Copy, Debug, Default)]
pub struct NamedCpus {
    list: [(u8, u16); NAMED_CPUS_MAX],
    length: u8,
}

impl NamedCpus {
    pub fn push(&mut self, cpu: u8, role: u16) {
        assert!(
            usize::from(self.length) < NAMED_CPUS_MAX,
            "a task has read {NAMED_CPUS_MAX} CPU numbers and never forgotten its history"
        );
        self.list[usize::from(self.length)] = (cpu, role);
        self.length += 1;
    }

    pub fn len(&self) -> u8 {
        self.length
    }

    pub fn truncate(&mut self, length: u8) {
        self.length = self.length.min(length);
    }

    pub fn iter(&self) -> impl Iterator<Item = u8> {
        self.with_roles().map(|(cpu, _)| cpu)
    }

    pub fn with_roles(&self) -> impl Iterator<Item = (u8, u16)> {
        self.list[..usize::from(self.length)].iter().copied()
    }
}

/// A store that only its own CPU sees yet.
#[derive(Clone, Copy, Debug, Default)]
pub struct BufferedStore {
    pub offset: u32,
    pub size: u8,
    pub value: u64,
}

impl SystemState {
    pub fn clone_from(&mut self, other: &SystemState) {
        self.tasks.clone_from(&other.tasks);
        self.buffers.clone_from(&other.buffers);
        self.happens_before.clone_from(&other.happens_before);
        self.views.clone_from(&other.views);
        if !other.executions.counts.is_empty() {
            self.executions.clone_from(&other.executions);
        }
        self.arrivals.clone_from(&other.arrivals);
        (self.inside, self.sharing) = (other.inside, other.sharing);
        self.watched = other.watched;
    }

    /// The stores in a task's buffer, the oldest first.
    pub fn buffered_stores(&self, task: usize) -> &[BufferedStore] {
        if self.buffers.is_empty() {
            return &[];
        }
        &self.buffers[task * BUFFER..][..usize::from(self.tasks[task].buffered)]
    }

    /// The tasks that sleep on the word at this offset for one of these bits.
    pub fn asleep_on(&self, offset: u32, bits: u32) -> impl Iterator<Item = usize> + '_ {
        let asleep = move |task: &CheckedTask| match task.request.kind {
            RequestKind::Asleep(_, sleep) => {
                task.request.offset == offset && sleep.bits & bits != 0
            }
            _ => false,
        };
        (0..self.tasks.len()).filter(move |&t| asleep(&self.tasks[t]))
    }
}
