//! A profile: a run that probes watched. It lies beside the runs, never among them, because probes
//! cost time: a line of `looks.ndjson`, in whole nanoseconds, before any arithmetic.
//!
//!     profile ─ windows ─ cpus ─ slices         the time of each CPU: which tasks had it, in which state
//!                       ├ locks, idle, others   splits of slices, to the nanosecond
//!                       ├ samples               sampled stacks: a split of what remains
//!                       └ counts                how often events happened
//!
//! [`Window::broken_law`] checks the laws of a window whose time is exact. The slices of a CPU add up
//! to its length; for each base, the spin times of locks add up to the spinning slices; the reasons
//! for idleness add up to the idle slices, and the other tasks to the slices of other tasks.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::metric::Obtained;
use crate::run::Outcome;
use crate::warning::Warning;

/// A run that was watched by probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Number of the profile in its record, in the order of execution, from 0; runs are numbered
    /// apart.
    #[serde(rename = "look")]
    pub number: u32,
    /// What was watched.
    pub kind: ProfileKind,
    /// The point that was run: index into the record's `points`.
    pub point: u32,
    /// The block it belongs to, from 0.
    pub block: u32,
    /// When it started.
    pub started: jiff::Timestamp,
    /// How the run ended, with the metrics of any run: they show what the probes cost.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What the probes saw, window by window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub windows: Vec<Window>,
    /// Probes that were unavailable, and why.
    #[serde(default, rename = "blind", skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable_probes: BTreeMap<String, String>,
    /// Warnings about the profile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warning>,
}

/// What a profile watches. Each kind costs something else, so they are not mixed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Where the time of the CPUs goes, with samples.
    Time,
    /// How often events happen.
    Counts,
    /// The names of locks and of the functions that wait for them.
    Names,
}

impl ProfileKind {
    /// The word used in files and on the command line.
    pub fn name(self) -> &'static str {
        match self {
            ProfileKind::Time => "time",
            ProfileKind::Counts => "counts",
            ProfileKind::Names => "names",
        }
    }
}

/// What the probes saw between two instants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Window {
    /// Operations completed in the window. Each task's count was read on its CPU at the instants at
    /// which that CPU's time was read. 1 for a command.
    pub operations: u64,
    /// How the time was obtained: exact if each switch and interrupt was timed; sampled if the slices
    /// were computed from samples, and then no law holds.
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
    /// How long runnable tasks of the workload waited for a CPU, by what kept them: [`OWN_TASK`] and those
    /// below it. It is time of tasks, not of CPUs, so it is no part of the time of `cpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Share>,
    /// How long a task of the workload had any CPU, where this was recorded.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub active_ns: u64,
    /// What the workload waited for while no CPU ran any of its tasks: what the task that ran next had waited for.
    /// It is time by the clock on the wall, not of CPUs, so it is no part of the time of `cpus`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<Share>,
    /// How long tasks of the workload slept, and what for, whether or not a CPU was idle meanwhile. It is time of tasks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sleeps: Vec<Share>,
    /// The stacks that the CPUs were sampled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<SampledStacks>,
    /// How often events happened while the workload had the CPU: `syscall.fcntl`, `ipi.reschedule`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Events that were counted in bursts only: counting them all the time would have slowed the
    /// operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bursts: Option<Bursts>,
    /// Functions that sent interrupts to other CPUs, by the name of the count (`ipi.reschedule`):
    /// how often each was seen when one interrupt in 16 was sampled.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub senders: BTreeMap<String, BTreeMap<String, u64>>,
    /// How often the probes went wrong, by the name of the anomaly; absent if they never did.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub anomalies: BTreeMap<String, u64>,
    /// CPU time of the tasks in the window by their own clocks: a check on the slices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_clock_ns: Option<u64>,
    /// Time from wake-ups of tasks on idle CPUs to the switches to these tasks. The kernel charges a
    /// woken task from its wake-up, so its own clock may be ahead by this much.
    #[serde(default)]
    pub woken_ns: u64,
}

/// Events that were counted in short bursts of a window, with the operations of the same bursts. An
/// operation that crosses an edge of a burst is counted with a part of its events. That error is
/// below one operation for each task and edge, and unbiased.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Bursts {
    /// How many bursts there were.
    pub number: u64,
    /// Length of all bursts on all CPUs together.
    pub ns: u64,
    /// Operations completed in the bursts.
    pub operations: u64,
    /// How often events happened, by name. Disjoint from [`Window::counts`].
    pub counts: BTreeMap<String, u64>,
}

/// The time of one CPU.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuTime {
    /// Number of the CPU.
    pub cpu: u32,
    /// Length of the window on this CPU.
    pub length_ns: u64,
    /// Where the time went; a state that took no time has no slice.
    pub slices: Vec<Slice>,
}

/// Time of one CPU in one state.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Slice {
    /// Which tasks had the CPU.
    pub base: Base,
    /// What the CPU was doing.
    pub state: CpuState,
    /// How long.
    pub ns: u64,
    /// How often the state was entered; for `rest`, how often the base was entered.
    pub entries: u64,
}

/// Which tasks had a CPU.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Base {
    /// None: the CPU was idle.
    Idle,
    /// The tasks of the workload, or the command and what it started.
    Work,
    /// Other tasks.
    Other,
    /// knee itself.
    Own,
}

/// What a CPU was doing, independent of the [`Base`]. In the order of the numbers in `ledger.bpf.c`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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
    /// Interrupt from another CPU that asks to call a function, sent to many CPUs.
    IrqCallMany,
    /// Interrupt from another CPU that asks to call a function, sent to this CPU alone.
    IrqCallOne,
    /// Interrupt for work that the kernel could not do where it arose (irq_work).
    IrqWork,
    /// Interrupt of a device.
    IrqDevice,
    /// Any other traced interrupt.
    IrqOther,
    /// High-priority deferred work of interrupts.
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
    /// RCU callbacks.
    SoftirqRcu,
    /// knee's samples and snapshots.
    Sampling,
    /// The hypervisor had the CPU while the guest believed that it ran.
    Steal,
}

impl CpuState {
    /// All states, in the order of the numbers in `ledger.bpf.c`.
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
    /// All bases, in the order of the numbers in `ledger.bpf.c`.
    pub const ALL: [Base; 4] = [Base::Idle, Base::Work, Base::Other, Base::Own];
}

/// A lock that was waited for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LockTime {
    /// Which tasks spun for the lock, or slept for it.
    pub base: Base,
    /// Where the lock lies, in words that are the same in every run: `CACHE+OFFSET` of a slab object or
    /// a symbol; an address if neither is known.
    pub place: String,
    /// Members of structures that may lie there, as `struct.member`; certain if there is only one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub members: Vec<String>,
    /// How often each function was seen waiting for the lock.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub callers: BTreeMap<String, u64>,
    /// How often each task was seen to have the lock while another waited: the call that a task of the workload
    /// was in, or the name of another task. Only mutexes and rwsems tell.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub holders: BTreeMap<String, u64>,
    /// How often a task had the lock from the end of its own wait to the end of another's that had begun before.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held: u64,
    /// How long these tasks had it, with the time that handing it over took.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub held_ns: u64,
    /// How often tasks spun for the lock.
    pub spins: u64,
    /// How long they spun, without the interrupts during that time.
    pub spin_ns: u64,
    /// How often tasks slept for the lock.
    pub sleeps: u64,
    /// How long they slept. This is no part of the ledger: a sleeping task uses no CPU.
    pub sleep_ns: u64,
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl LockTime {
    /// A lock at a place that nothing is known of yet.
    pub fn new(base: Base, place: String) -> LockTime {
        LockTime {
            base,
            place,
            members: Vec::new(),
            callers: BTreeMap::new(),
            holders: BTreeMap::new(),
            held: 0,
            held_ns: 0,
            spins: 0,
            spin_ns: 0,
            sleeps: 0,
            sleep_ns: 0,
        }
    }
}

/// A runnable task waited while another task of the workload had its CPU.
pub const OWN_TASK: &str = "behind tasks of the workload";
/// A runnable task, whose affinity excludes some of the workload's CPUs, waited while another task of the
/// workload had its CPU.
pub const OWN_TASK_ON_THE_ONLY_CPUS: &str =
    "behind tasks of the workload, where affinity kept them";
/// A runnable task waited while a task that is not of the workload had its CPU.
pub const OTHER_TASK: &str = "behind other tasks";
/// A runnable task waited because its cgroup had used up its quota of CPU time.
pub const QUOTA: &str = "throttled by a quota";

/// A named part of a slice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Share {
    /// The reason, or the task's name.
    pub name: String,
    /// How long.
    pub ns: u64,
    /// How often that time began.
    pub times: u64,
}

/// The stacks that CPUs were sampled in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SampledStacks {
    /// Samples per second and CPU that were asked for.
    pub hertz: u32,
    /// Number of samples that were lost.
    pub lost: u64,
    /// Names of functions; stacks refer to them by index.
    pub functions: Vec<String>,
    /// For each function the file that it lies in; empty or missing for the kernel's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<String>,
    /// Stacks, each with the number of equal samples.
    pub stacks: Vec<Stack>,
}

/// Samples that are equal, with their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Which tasks had the CPU.
    pub base: Base,
    /// What the CPU was doing, as in the slices.
    pub state: CpuState,
    /// The mode that the CPU was in.
    pub mode: CpuMode,
    /// Kernel functions, innermost first, then user functions; indices into `functions`.
    pub frames: Vec<u32>,
    /// How many of the frames are the kernel's.
    pub kernel_frames: u32,
    /// Offset of the instruction in the innermost function; in user mode, in its file. Samples of a
    /// section with interrupts off all sit on the instruction that ends the section.
    pub offset: u64,
    /// The system call that the task was in, by its number: the name is an index into `functions`.
    /// Absent if the task was in none, or if it was not recorded. The frames are not enough: a tail
    /// call leaves no frame of the system call's function.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// How many samples there were.
    pub count: u64,
}

/// The mode that a CPU was sampled in.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum CpuMode {
    /// In the kernel.
    Kernel,
    /// In user mode.
    User,
    /// At the first user instruction after a system call: the time was spent in the kernel's exit
    /// path, where interrupts are off.
    AfterSystemCall,
}

impl Profile {
    /// Reads one line of `looks.ndjson`.
    pub fn read(line: &str) -> Result<Profile> {
        serde_json::from_str(line).context("reading a profile")
    }

    /// A metric's value, if the run finished and has it.
    pub fn value(&self, metric: &str) -> Option<f64> {
        match &self.outcome {
            Outcome::Finished { metrics, .. } => metrics.get(metric),
            Outcome::Failed { .. } => None,
        }
    }

    /// Whether the run finished, so that the profile counts.
    pub fn finished(&self) -> bool {
        matches!(self.outcome, Outcome::Finished { .. })
    }
}

impl Window {
    /// The time to explain: the lengths of all CPUs together.
    pub fn budget_ns(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.length_ns).sum()
    }

    /// All slices of all CPUs.
    pub fn slices(&self) -> impl Iterator<Item = &Slice> {
        self.cpus.iter().flat_map(|cpu| &cpu.slices)
    }

    /// Total time of the slices that `is_wanted` accepts.
    pub fn time_ns(&self, is_wanted: impl Fn(Base, CpuState) -> bool) -> u64 {
        self.slices().filter(|slice| is_wanted(slice.base, slice.state)).map(|slice| slice.ns).sum()
    }

    /// How often an event happened, and in how many operations; `None` if it was not counted. A system
    /// call that never happened has no name here, but was counted with all others.
    pub fn count(&self, name: &str) -> Option<(u64, u64)> {
        let bursts = self.bursts.as_ref().filter(|bursts| bursts.operations > 0);
        let in_bursts = || {
            let bursts = bursts?;
            bursts.counts.get(name).map(|times| (*times, bursts.operations))
        };
        let counted = self.counts.get(name).map(|times| (*times, self.operations));
        counted.or_else(in_bursts).or_else(|| {
            name.strip_prefix("syscall.")?;
            let (_, operations) = self.count("syscalls")?;
            Some((0, operations))
        })
    }

    /// Names of all events that were counted.
    pub fn counted(&self) -> impl Iterator<Item = &String> {
        self.counts.keys().chain(self.bursts.iter().flat_map(|bursts| bursts.counts.keys()))
    }

    /// The first law that the window breaks, in words; `None` if its parts add up.
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
                members: vec!["task_struct.pi_lock".to_string()],
                spins: 1,
                spin_ns: 100,
                ..LockTime::new(Base::Work, "task_struct+2028".to_string())
            }],
            idle: vec![share("sleep", 50)],
            others: vec![share("kworker", 150)],
            waits: Vec::new(),
            active_ns: 0,
            gaps: Vec::new(),
            sleeps: Vec::new(),
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
    fn a_profile_reads_as_it_was_written() {
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
