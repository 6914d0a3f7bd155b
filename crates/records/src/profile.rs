//! A look: a run that was watched while it ran. It lies beside the runs, never among them,
//! because looking costs: a line of `looks.ndjson`, in whole nanoseconds, before any
//! arithmetic.
//!
//!     look ─ windows ─ cpus ─ slices                the time of each CPU: who had it, in which state
//!                    ├ locks, idle, others          splits of slices, to the nanosecond
//!                    ├ samples                      where the CPUs were seen: a split of what remains
//!                    └ counts                       how often things happened
//!
//! Laws of a window whose time is exact, which [`Window::broken_law`] checks: the slices of a
//! CPU add up to its length; the locks' spinning by base to the slices that spin; the reasons
//! to the idle slices; the other tasks to the slices that are theirs.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::metric::Obtained;
use crate::record::Warning;
use crate::run::Outcome;

/// One run that was watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Its number in the record, in the order of execution, from 0; not a number of a run.
    #[serde(rename = "look")]
    pub number: u32,
    /// What was watched.
    pub kind: ProfileKind,
    /// The point: index into the record's `points`.
    pub point: u32,
    /// The block it belongs to, from 0.
    pub block: u32,
    /// When it started.
    pub started: jiff::Timestamp,
    /// How it ended, with the metrics of any run: they tell what looking cost.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What was seen, one window after the other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Probes that could not see, and why.
    #[serde(default, rename = "blind", skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_probes: BTreeMap<String, String>,
    /// Doubts about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What a look watches. Each costs something else, so they are not mixed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Where the time of the CPUs goes, with samples.
    Time,
    /// How often things happen.
    Counts,
    /// What locks are called and who waits for them.
    Names,
}

impl ProfileKind {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            ProfileKind::Time => "time",
            ProfileKind::Counts => "counts",
            ProfileKind::Names => "names",
        }
    }
}

/// What was seen between two instants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Window {
    /// Operations completed meanwhile, each task's count read on its CPU at the instants at which
    /// that CPU's time was read. 1 for a command.
    pub operations: u64,
    /// How the time was obtained: exact where each switch and interrupt was timed; sampled where
    /// slices were made of samples, and no law holds.
    pub obtained: Obtained,
    /// The CPUs under measurement.
    pub cpus: Vec<CpuTime>,
    /// Locks that were waited for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<LockTime>,
    /// Why the CPUs were idle.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub idle: Vec<Share>,
    /// Other tasks that had the CPUs, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<Share>,
    /// Where the CPUs were seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampledStacks>,
    /// How often things happened while the workload had the CPU: `syscall.fcntl`, `ipi.reschedule`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// What happened so often that counting it all the time would have slowed the operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Functions that sent interrupts to other CPUs, by the name of the count (`ipi.reschedule`):
    /// how often each was seen, of one interrupt in 16.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub senders: BTreeMap<String, BTreeMap<String, u64>>,
    /// What went wrong while watching, by name, how often. Absent: nothing did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub anomalies: BTreeMap<String, u64>,
    /// CPU time of the tasks meanwhile by their own clocks: a second opinion on the slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_clock_ns: Option<u64>,
    /// From wake-ups of the tasks on idle CPUs to the switches to them. The kernel charges a woken
    /// task from its wake-up, so its own clock may be ahead by as much.
    #[serde(default)]
    pub woken_ns: u64,
}

/// What was counted in short bursts of a window, together with the operations of the same bursts.
/// An operation that was under way at an edge of a burst is in it with a part of its events: less
/// than one operation a task and edge, as often too many as too few.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Bursts {
    /// How many.
    pub number: u64,
    /// How long they were, all together and of all CPUs.
    pub ns: u64,
    /// Operations completed meanwhile.
    pub operations: u64,
    /// How often things happened, by name as in [`Window::counts`]; what is here is not there.
    pub counts: BTreeMap<String, u64>,
}

/// The time of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CpuTime {
    /// Its number.
    pub cpu: u32,
    /// Length of the window on this CPU.
    pub length_ns: u64,
    /// Where the time went; what is not here took none.
    pub slices: Vec<Slice>,
}

/// Time of one CPU in one state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slice {
    /// Who had the CPU.
    pub base: Base,
    /// What the CPU was doing.
    pub state: CpuState,
    /// How long.
    pub ns: u64,
    /// How often the state was entered; of `rest`, how often the base was.
    pub entries: u64,
}

/// Who had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// Nobody.
    Idle,
    /// The tasks of the workload, or the command and what it started.
    Work,
    /// Other tasks.
    Other,
    /// knee itself.
    Own,
}

/// What a CPU was doing, whoever had it. In the order of the numbers in `ledger.bpf.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuState {
    /// None of the following.
    Rest,
    /// Spinning for a lock.
    Spin,
    /// Interrupt of the local timer.
    IrqTimer,
    /// Interrupt from another CPU that asks to reschedule.
    IrqReschedule,
    /// Interrupt from another CPU that asks to call a function, sent to many.
    IrqCallMany,
    /// The same, sent to this CPU alone.
    IrqCallOne,
    /// Interrupt for work that could not be done where it came up.
    IrqWork,
    /// Interrupt of a device.
    IrqDevice,
    /// Any other traced interrupt.
    IrqOther,
    /// Deferred work of interrupts, by kind.
    SoftirqHigh,
    /// Timers.
    SoftirqTimer,
    /// Sending packets.
    SoftirqNetSend,
    /// Receiving packets.
    SoftirqNetReceive,
    /// Completing block input and output.
    SoftirqBlock,
    /// Polling for interrupts.
    SoftirqPoll,
    /// Tasklets.
    SoftirqTasklet,
    /// Balancing between run queues.
    SoftirqSched,
    /// High-resolution timers.
    SoftirqHrtimer,
    /// What waited for readers to leave (RCU).
    SoftirqRcu,
    /// knee's samples and snapshots.
    Sampling,
    /// The host had the CPU while the guest thought it ran.
    Steal,
}

impl CpuState {
    /// All, in their order.
    pub const ALL: [CpuState; 21] = [
        CpuState::Rest,
        CpuState::Spin,
        CpuState::IrqTimer,
        CpuState::IrqReschedule,
        CpuState::IrqCallMany,
        CpuState::IrqCallOne,
        CpuState::IrqWork,
        CpuState::IrqDevice,
        CpuState::IrqOther,
        CpuState::SoftirqHigh,
        CpuState::SoftirqTimer,
        CpuState::SoftirqNetSend,
        CpuState::SoftirqNetReceive,
        CpuState::SoftirqBlock,
        CpuState::SoftirqPoll,
        CpuState::SoftirqTasklet,
        CpuState::SoftirqSched,
        CpuState::SoftirqHrtimer,
        CpuState::SoftirqRcu,
        CpuState::Sampling,
        CpuState::Steal,
    ];
}

impl Base {
    /// All, in the order of the numbers in `ledger.bpf.c`.
    pub const ALL: [Base; 4] = [Base::Idle, Base::Work, Base::Other, Base::Own];
}

/// A lock that was waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LockTime {
    /// Who had the CPU while it was spun for, or who slept.
    pub base: Base,
    /// Where the lock lies, the same in every run: `CACHE+OFFSET` of a slab object, a symbol, or
    /// an address where neither is known.
    pub place: String,
    /// What may lie there, as `struct.member`: certain if it is one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// Functions that waited for it, how often each was seen.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, u64>,
    /// How often it was spun for.
    pub spins: u64,
    /// For how long, interrupts meanwhile not included.
    pub spin_ns: u64,
    /// How often it was slept for.
    pub sleeps: u64,
    /// For how long: waiting beside the ledger, since a sleeper uses no CPU.
    pub sleep_ns: u64,
}

/// A named part of a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// The reason, or the task's name.
    pub name: String,
    /// How long.
    pub ns: u64,
    /// How often it began.
    pub times: u64,
}

/// Where the CPUs were when they were looked at.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SampledStacks {
    /// Samples a second and CPU that were asked for.
    pub hertz: u32,
    /// Samples that were lost.
    pub lost: u64,
    /// Names of functions, that stacks refer to by index.
    pub functions: Vec<String>,
    /// Of each function the file that it lies in; empty or not there for the kernel.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Equal samples together.
    pub stacks: Vec<Stack>,
}

/// Equal samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stack {
    /// Who had the CPU.
    pub base: Base,
    /// What it was doing, as the slices say.
    pub state: CpuState,
    /// In which mode it was.
    pub mode: CpuMode,
    /// Functions of the kernel, the innermost first, then those of the user; indices into
    /// `functions`.
    pub frames: Vec<u32>,
    /// How many of the frames are the kernel's.
    pub kernel_frames: u32,
    /// Offset of the instruction in the innermost function: samples of a section without
    /// interrupts all sit on the instruction that ends it.
    pub offset: u64,
    /// The system call that the task was in, by its number's name: an index into `functions`. Absent:
    /// in none, or nobody asked. Frames alone do not tell: a call whose last step is a jump to another
    /// function leaves none of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// How many samples.
    pub count: u64,
}

/// In which mode a CPU was sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CpuMode {
    /// In the kernel.
    Kernel,
    /// In user mode.
    User,
    /// On the first user instruction after a system call: the time was spent in the kernel's
    /// exit, where interrupts are off.
    AfterSystemCall,
}

impl Profile {
    /// Reads one line of `looks.ndjson`.
    pub fn read(line: &str) -> Result<Profile> {
        serde_json::from_str(line).context("reading a look")
    }

    /// A metric's value, if it finished and has it.
    pub fn value(&self, metric: &str) -> Option<f64> {
        match &self.outcome {
            Outcome::Finished { metrics, .. } => metrics.get(metric).copied(),
            Outcome::Failed { .. } => None,
        }
    }

    /// Whether it counts.
    pub fn finished(&self) -> bool {
        matches!(self.outcome, Outcome::Finished { .. })
    }
}

impl Window {
    /// The time to explain: all CPUs together.
    pub fn budget_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.length_ns).sum()
    }

    /// All slices of all CPUs.
    pub fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.cpus.iter().flat_map(|cpu| &cpu.slices)
    }

    /// Time in slices that `is` accepts.
    pub fn time_ns(&self, is: impl Fn(Base, CpuState) -> bool) -> u64 {
        self.slices().filter(|slice| is(slice.base, slice.state)).map(|slice| slice.ns).sum()
    }

    /// How often something happened, and in how many operations; nothing if nobody counted it. A
    /// system call that never happened has no name, but was counted with all the others.
    pub fn count(&self, name: &str) -> Option<(u64, u64)> {
        let bursts = self.bursts.as_ref().filter(|bursts| bursts.operations > 0);
        let in_bursts = || {
            let bursts = bursts?;
            bursts.counts.get(name).map(|times| (*times, bursts.operations))
        };
        let counted = self.counts.get(name).map(|times| (*times, self.operations));
        counted.or_else(in_bursts).or_else(|| match name.starts_with("syscall.") {
            true => self.count("syscalls").map(|(_, operations)| (0, operations)),
            false => None,
        })
    }

    /// Names of all that was counted.
    pub fn counted(&self) -> impl Iterator<Item = &String> {
        self.counts.keys().chain(self.bursts.iter().flat_map(|bursts| bursts.counts.keys()))
    }

    /// The first law that the window breaks, in words; none if its rows are exact.
    pub fn broken_law(&self) -> Option<String> {
        if self.obtained != Obtained::Exact {
            return None;
        }
        let of_cpus = self.cpus.iter().map(|cpu| {
            let slices = cpu.slices.iter().map(|slice| slice.ns).sum::<u64>();
            (format!("slices of CPU {}", cpu.cpu), slices, cpu.length_ns)
        });
        let of_locks = Base::ALL.into_iter().map(|base| {
            let locks = self.locks.iter().filter(|lock| lock.base == base);
            let spun = self.time_ns(|b, state| b == base && state == CpuState::Spin);
            (format!("locks of {base:?}"), locks.map(|lock| lock.spin_ns).sum(), spun)
        });
        let shares = |shares: &[Share]| shares.iter().map(|share| share.ns).sum::<u64>();
        let rest = |base: Base| self.time_ns(|b, state| b == base && state == CpuState::Rest);
        let of_bases = [
            ("reasons of idleness".to_string(), shares(&self.idle), rest(Base::Idle)),
            ("other tasks".to_string(), shares(&self.others), rest(Base::Other)),
        ];
        let mut laws = of_cpus.chain(of_locks).chain(of_bases);
        let broken = laws.find(|(_, parts, whole)| parts != whole)?;
        Some(format!("{} add up to {} ns, not {} ns", broken.0, broken.1, broken.2))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window() -> Window {
        let slice = |base, state, ns| Slice { base, state, ns, entries: 1 };
        let slices = vec![
            slice(Base::Work, CpuState::Rest, 700),
            slice(Base::Work, CpuState::Spin, 100),
            slice(Base::Other, CpuState::Rest, 150),
            slice(Base::Idle, CpuState::Rest, 50),
        ];
        let share = |name: &str, ns| Share { name: name.to_string(), ns, times: 1 };
        Window {
            operations: 2,
            obtained: Obtained::Exact,
            cpus: vec![CpuTime { cpu: 0, length_ns: 1000, slices }],
            locks: vec![LockTime {
                base: Base::Work,
                place: "task_struct+2028".to_string(),
                members: vec!["task_struct.pi_lock".to_string()],
                callers: BTreeMap::new(),
                spins: 1,
                spin_ns: 100,
                sleeps: 0,
                sleep_ns: 0,
            }],
            idle: vec![share("sleep", 50)],
            others: vec![share("kworker", 150)],
            samples: None,
            counts: BTreeMap::new(),
            bursts: None,
            senders: BTreeMap::new(),
            anomalies: BTreeMap::new(),
            task_clock_ns: Some(800),
            woken_ns: 0,
        }
    }

    #[test]
    fn a_window_that_adds_up_breaks_no_law_and_one_nanosecond_breaks_one() {
        assert_eq!(window().broken_law(), None);
        let broken = |change: fn(&mut Window)| {
            let mut window = window();
            change(&mut window);
            window.broken_law()
        };
        let says = |text: &str| Some(text.to_string());
        assert_eq!(
            broken(|w| w.cpus[0].length_ns += 1),
            says("slices of CPU 0 add up to 1000 ns, not 1001 ns")
        );
        assert_eq!(
            broken(|w| w.locks[0].spin_ns -= 1),
            says("locks of Work add up to 99 ns, not 100 ns")
        );
        assert_eq!(
            broken(|w| w.idle[0].ns += 1),
            says("reasons of idleness add up to 51 ns, not 50 ns")
        );
        assert_eq!(broken(|w| w.others.clear()), says("other tasks add up to 0 ns, not 150 ns"));
        assert_eq!(
            broken(|w| {
                w.obtained = Obtained::Sampled;
                w.idle.clear();
            }),
            None
        );
    }

    #[test]
    fn what_was_counted_in_bursts_has_the_operations_of_the_bursts() {
        let counts = |counts: &[(&str, u64)]| -> BTreeMap<String, u64> {
            counts.iter().map(|(name, n)| (name.to_string(), *n)).collect()
        };
        let bursts = Bursts {
            number: 2,
            ns: 4,
            operations: 100,
            counts: counts(&[("syscalls", 200), ("syscall.fcntl", 200)]),
        };
        let watched = Window {
            operations: 5000,
            counts: counts(&[("migration", 3)]),
            bursts: Some(bursts),
            ..window()
        };
        assert_eq!(watched.count("migration"), Some((3, 5000)));
        assert_eq!(watched.count("syscall.fcntl"), Some((200, 100)));
        assert_eq!(watched.count("syscall.open"), Some((0, 100)));
        assert_eq!(watched.count("fault.user"), None);
        assert_eq!(watched.counted().count(), 3);
        // No operation ended in a burst: nothing can be said per operation.
        let none = Window { bursts: Some(Bursts { number: 1, ..Bursts::default() }), ..watched };
        assert_eq!(none.count("syscall.fcntl"), None);
    }

    #[test]
    fn a_look_reads_as_it_was_written() {
        let profile = Profile {
            number: 3,
            kind: ProfileKind::Time,
            point: 1,
            block: 2,
            started: jiff::Timestamp::UNIX_EPOCH,
            outcome: Outcome::Failed { reason: "it did".to_string() },
            windows: vec![window()],
            unavailable_probes: BTreeMap::from([(
                "contention".to_string(),
                "no tracepoint".to_string(),
            )]),
            warnings: Vec::new(),
        };
        let line = serde_json::to_string(&profile).unwrap();
        assert_eq!(Profile::read(&line).unwrap(), profile);
    }
}
