//! What a search over interleavings found: `knee check`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

/// The algorithms that were checked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Checks(pub Vec<CheckedAlgorithm>);

/// What the search of one algorithm found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct CheckedAlgorithm {
    /// Name of the algorithm, with the design of a mechanism.
    pub name: String,
    /// The verdict: `holds`, `nothing found`, `wrong` or `not checked`.
    pub verdict: &'static str,
    /// Why it was not checked; null if it was.
    pub why: Option<String>,
    /// What to do to have it checked; null if it was.
    pub way_out: Option<String>,
    /// Number of tasks.
    pub threads: usize,
    /// Number of acquisitions of each task.
    pub acquires: u32,
    /// Number of locks.
    pub locks: usize,
    /// The memory model that was searched: `sc` (sequentially consistent), `x86` (total store order) or `rc11`.
    pub memory: &'static str,
    /// The stronger memory models under which it holds; null unless something is wrong under `rc11`.
    pub holds_on: Option<Vec<&'static str>>,
    /// Whether it holds under `rc11`, too; null unless it holds and no memory model was asked for. If it fails there, this
    /// answer is that of `rc11`.
    pub by_language: Option<LanguageVerdict>,
    /// Whether it holds if sleeping tasks also wake without a wake-up, as from a futex they may; null unless it holds and tasks
    /// sleep. If it fails then, this answer is that of the second search.
    pub spurious_wake_ups: Option<LanguageVerdict>,
    /// Whether the fault was only found when sleeping tasks could wake without a wake-up; null if nothing was found.
    pub needs_spurious_wake_up: Option<bool>,
    /// Number of states that were searched; null if schedules were sampled.
    pub states: Option<u64>,
    /// Number of schedules that were sampled; null if all states were searched.
    pub schedules: Option<u64>,
    /// What the sampled schedules cover; null if all states were searched.
    pub coverage: Option<ScheduleCoverage>,
    /// Number of steps of tasks that were taken.
    pub steps: u64,
    /// How often a waiting task is bypassed; null unless that was asked for.
    pub bypass: Option<BypassBounds>,
    /// Seconds that the search took.
    pub seconds: f64,
    /// Whether all interleavings were searched.
    pub complete: bool,
    /// The data races that were found and accepted with --accept-race.
    pub accepted_races: Vec<AcceptedRace>,
    /// The lines of --accept-race at which no race was found, of what holds.
    pub lines_without_race: Vec<String>,
    /// Whether a loop counts its tries, of which only the first four and the end were searched.
    pub counts_tries: bool,
    /// What is wrong; null if nothing was found.
    pub fault: Option<String>,
    /// The schedule that shows the fault, for --replay; null if nothing was found.
    pub schedule: Option<String>,
    /// The steps of that schedule, a line each; null if nothing was found.
    pub interleaving: Option<Vec<String>>,
    /// Whether no shorter schedule shows a fault; null if nothing was found.
    pub shortest: Option<bool>,
}

/// What random schedules cover (probabilistic concurrency testing, Burckhardt and others 2010).
#[derive(Debug, Serialize, JsonSchema)]
pub struct ScheduleCoverage {
    /// Number of schedules that differ in some step.
    pub distinct: u64,
    /// The most ordering constraints of a fault that the schedules look for.
    pub depth: u32,
    /// Number of those that take turns: tasks, and their store buffers.
    pub players: u64,
    /// Number of steps of the longest schedule, up to where a task spins.
    pub steps: u64,
    /// Number of schedules that the probability rests on: those since the longest one.
    pub guaranteed: u64,
    /// Probability that all of them miss a fault of this depth, at most; it takes no account of faults that need a certain
    /// random choice besides.
    pub missed_at_most: f64,
}

/// A data race that was found and accepted.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AcceptedRace {
    /// The accepted line: `queue.c:41`.
    pub at: String,
    /// The access there: `plain load`.
    pub access: String,
    /// The line of the other access; null if it is not known.
    pub beside: Option<String>,
    /// The other access: `plain store`; null if it is not known.
    pub other: Option<String>,
}

/// What another search says of an algorithm that holds: under `rc11`, or with wake-ups that have no cause.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LanguageVerdict {
    /// The verdict: `holds` or `not checked`.
    pub verdict: &'static str,
    /// Number of states that were searched; null if nothing is known.
    pub states: Option<u64>,
    /// Why it was not checked; null if it was.
    pub why: Option<String>,
}

/// How often tasks enter before one that waits.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BypassBounds {
    /// For tasks that enter alone; null if none waits.
    pub exclusive: Option<BypassBound>,
    /// For tasks that enter together; null if none waits.
    pub shared: Option<BypassBound>,
}

/// A bound of bypassing, from searches with more and more acquisitions.
#[derive(Debug, Serialize, JsonSchema)]
pub struct BypassBound {
    /// Whether there is one: `bounded`, `none` or `unknown`.
    pub bound: &'static str,
    /// The most entries before a waiting task; null unless there is a bound.
    pub most: Option<u8>,
    /// Number of tasks.
    pub tasks: usize,
    /// Acquisitions of each task, a number for each search.
    pub acquires: Vec<u32>,
    /// The most entries before a waiting task, a number for each search.
    pub entries: Vec<u8>,
}

/// A schedule that was followed with --replay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct FollowedSchedule {
    /// The steps, a line each.
    pub steps: Vec<String>,
    /// What is wrong at its end; null if nothing is.
    pub fault: Option<String>,
}

/// The designs that were compared with the kernel of this host.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct KernelComparisons(pub Vec<DesignAgainstKernel>);

/// A design and the kernel, on equal random calls.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DesignAgainstKernel {
    /// Name of the mechanism, with its design.
    pub name: String,
    /// Number of calls that were asked for.
    pub calls: u64,
    /// Number of requests that were granted, at once or later.
    pub granted: u64,
    /// Number of requests refused with EAGAIN.
    pub refused: u64,
    /// Number of requests refused with EDEADLK.
    pub deadlocks: u64,
    /// Number of requests that had to wait.
    pub waited: u64,
    /// Number of calls of F_GETLK.
    pub asked: u64,
    /// Number of processes that were forked.
    pub forks: u64,
    /// Number of exits and kills.
    pub exits: u64,
    /// Number of comparisons of the whole table.
    pub tables: u64,
    /// Seconds that it took.
    pub seconds: f64,
    /// The first difference between both; null if there is none.
    pub difference: Option<String>,
}

/// The algorithms whose mutants were judged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Mutants(pub Vec<MutatedAlgorithm>);

/// The mutants of one algorithm, or why it was not checked.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum MutatedAlgorithm {
    /// The algorithm was checked.
    Judged {
        /// Name of the algorithm.
        name: String,
        /// What became of each changed access.
        mutants: Vec<Mutant>,
    },
    /// The algorithm was not checked.
    NotChecked {
        /// Name of the algorithm.
        name: String,
        /// "not checked".
        verdict: &'static str,
        /// Why it was not checked.
        why: String,
        /// What to do to have it checked.
        way_out: String,
    },
}

/// One changed access of an algorithm.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Mutant {
    /// Line of the source file.
    pub line: u32,
    /// The source line.
    pub source: String,
    /// The change.
    pub change: String,
    /// What became of it.
    #[serde(flatten)]
    pub fate: MutantFate,
}

/// What became of a mutant.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum MutantFate {
    /// A search found a fault.
    Caught {
        /// The fault.
        fault: String,
        /// Number of tasks of the search.
        threads: usize,
        /// Number of acquisitions of each task.
        acquires: u32,
        /// Number of locks.
        locks: usize,
        /// Settings that differ from those of other searches.
        settings: BTreeMap<String, u64>,
        /// Choices that differ from those of other searches.
        choices: BTreeMap<String, String>,
        /// The memory model that was searched: `sc` or `x86`.
        memory: &'static str,
    },
    /// The change makes no difference.
    Equivalent {
        /// Why not.
        why: String,
    },
    /// No search found a fault.
    Survived,
}

/// The algorithms whose orders were judged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Orderings(pub Vec<OrderedAlgorithm>);

/// The orders of one algorithm, or why they were not judged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum OrderedAlgorithm {
    /// The orders were judged.
    Judged {
        /// Name of the algorithm.
        name: String,
        /// The memory model that was searched: `sc`, `x86` or `rc11`.
        memory: &'static str,
        /// The tasks of the searches that were whole.
        searched: Vec<SearchedTasks>,
        /// The tasks of the searches that ended at a number of states.
        partly_searched: Vec<SearchedTasks>,
        /// The accesses and fences that are not relaxed.
        accesses: Vec<AccessOrder>,
        /// How the weakest set was found; the set itself is `in_set` of each access.
        weakest_set: OrderSet,
    },
    /// The orders were not judged.
    NotChecked {
        /// Name of the algorithm.
        name: String,
        /// The verdict: `wrong` if it has a fault as it is, else `not checked`.
        verdict: &'static str,
        /// The fault, or why it was not checked.
        why: String,
        /// What to do.
        way_out: String,
    },
}

/// The tasks of a search.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SearchedTasks {
    /// Number of tasks.
    pub threads: usize,
    /// Number of acquisitions of each task.
    pub acquires: u32,
    /// Number of locks.
    pub locks: usize,
}

/// The order of an access or a fence: `relaxed`, `acquire`, `release`, `acq_rel`, `seq_cst`, or `none` for a fence that may
/// be left out.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AccessOrder {
    /// Name of the source file.
    pub file: String,
    /// Line of the source file.
    pub line: u32,
    /// The source line.
    pub source: String,
    /// What has the order: `load`, `store`, `read-modify-write`, `failed compare-exchange` or `fence`.
    pub access: &'static str,
    /// The order that the source says.
    pub today: &'static str,
    /// The weakest order with which the algorithm holds while all others are as they are.
    pub alone: &'static str,
    /// That order under `x86`; null unless a weaker model was searched.
    pub on_x86: Option<&'static str>,
    /// The order in a weakest set, in which all are weakened at a time.
    pub in_set: &'static str,
    /// Whether no weaker order holds.
    pub needed: bool,
    /// Weaker orders of which nothing is known, because their searches gave up.
    pub unknown: Vec<&'static str>,
    /// What shows that the order alone cannot be weaker: an execution for each order right below it.
    pub refutations: Vec<OrderRefutation>,
}

/// What fails with an order that is too weak.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrderRefutation {
    /// The order.
    pub order: &'static str,
    /// The fault.
    pub fault: String,
    /// The tasks.
    pub tasks: SearchedTasks,
    /// The steps that lead to it, a line each.
    pub interleaving: Vec<String>,
    /// Whether no shorter way leads to a fault.
    pub shortest: bool,
}

/// How a weakest set of orders was found: none of them can be weaker while the others are as they are there.
#[derive(Debug, Serialize, JsonSchema)]
pub struct OrderSet {
    /// How: `exhaustive`, or `greedy`, one access after the other, the costliest first.
    pub method: &'static str,
    /// Number of weakest sets; null unless all sets were tried.
    pub weakest_sets: Option<usize>,
    /// Number of sets that were searched.
    pub sets_searched: usize,
    /// Number of states of the last check, of this set with all tasks.
    pub states: u64,
    /// The fault of the last check; null if the set holds.
    pub fault: Option<String>,
}

/// The litmus tests that were searched.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct LitmusTests(pub Vec<LitmusTest>);

/// What the search of one litmus test found.
#[derive(Debug, Serialize, JsonSchema)]
pub struct LitmusTest {
    /// Name of the test.
    pub name: String,
    /// File that it is in.
    pub file: String,
    /// The memory model that was searched.
    pub memory: &'static str,
    /// How often its condition is fulfilled: `never`, `sometimes`, `always`, `race` or `not searched`.
    pub observed: &'static str,
    /// Whether the answer to its question is yes: `exists`, `~exists` or `forall`; null if nothing is known.
    pub ok: Option<bool>,
    /// Number of different outcomes.
    pub outcomes: usize,
    /// Number of outcomes that fulfil the condition.
    pub positive: usize,
    /// Number of states that were searched.
    pub states: u64,
    /// Why it was not searched, or the data race.
    pub why: Option<String>,
}
