//! What algorithms do on described hosts, and how that agrees with measurements: `knee simulate` and `knee simulate replay`.

use std::collections::BTreeMap;

use analysis::Quartiles;
use schemars::JsonSchema;
use serde::Serialize;

/// Curves of algorithms on a described host, simulated.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlgorithmCurves {
    /// "simulated": how all numbers here were obtained.
    pub obtained: &'static str,
    /// Name of the described host.
    pub host: String,
    /// The order in which CPUs are taken into use.
    pub placement: String,
    /// Whether each draw has a placement of its own.
    pub any_placement: bool,
    /// Where a task may be preempted: `anywhere` or `between operations`.
    pub preemption: &'static str,
    /// Whether tasks stay on their CPUs.
    pub pinned: bool,
    /// Mean nanoseconds of an interruption; null without interruptions.
    pub noise_mean_ns: Option<u64>,
    /// Mean nanoseconds between two interruptions; null without interruptions.
    pub noise_interval_ns: Option<u64>,
    /// The load of locks.
    #[serde(flatten)]
    pub load: SimulatedLoad,
    /// Seed of the draws.
    pub seed: u64,
    /// Number of draws from the host's ranges besides the middle values.
    pub draws: u64,
    /// Name of the algorithm that others are compared with; null without one.
    pub baseline: Option<String>,
    /// The algorithms.
    pub algorithms: Vec<SimulatedAlgorithm>,
}

/// What each task does with a lock.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulatedLoad {
    /// Mean nanoseconds of work between two operations.
    pub work_ns: u64,
    /// How that work varies.
    pub work_varies: &'static str,
    /// Nanoseconds for which the lock is held.
    pub hold_ns: u64,
    /// Number of locks.
    pub locks: usize,
    /// Number of cache lines that are written while the lock is held.
    pub lines_written: usize,
    /// Number of cache lines that are read while the lock is held.
    pub lines_read: usize,
}

/// The curve of one algorithm.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulatedAlgorithm {
    /// Name of the algorithm, with the design of a mechanism.
    pub name: String,
    /// The curve, by number of CPUs.
    pub points: Vec<AlgorithmPoint>,
}

/// An algorithm at one number of CPUs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AlgorithmPoint {
    /// Number of CPUs.
    pub cpus: usize,
    /// Number of tasks.
    pub tasks: usize,
    /// Operations of all tasks per simulated second, with the middle values of the host's ranges.
    pub operations_per_s: f64,
    /// The lowest rate of all draws.
    pub operations_per_s_lowest: f64,
    /// The highest rate of all draws.
    pub operations_per_s_highest: f64,
    /// The rate as a multiple of the baseline's, draw by draw; null without a baseline.
    pub ratio_to_baseline: Option<SimulatedRatio>,
    /// The ratios by placement, if the placement decides which algorithm is faster; null without a baseline.
    pub decided_by_placement: Option<Vec<PlacementRatio>>,
    /// Nanoseconds of CPU time per operation by what they were spent on, with the idle rest; null without operations.
    pub cpu_ns_per_operation: Option<BTreeMap<String, f64>>,
    /// Other effects of an operation, by name.
    pub effects_per_operation: BTreeMap<String, f64>,
    /// Number of sleeps per operation; null without operations.
    pub sleeps_per_operation: Option<f64>,
    /// Number of accesses to memory.
    pub accesses: u64,
    /// Hash of all accesses: equal for equal simulations.
    pub hash: String,
}

/// The rate of an algorithm as a multiple of the baseline's.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulatedRatio {
    /// With the middle values of the host's ranges.
    pub middle: f64,
    /// The lowest of all draws.
    pub lowest: f64,
    /// The highest of all draws.
    pub highest: f64,
    /// The lowest, with the model's error on published tables of that class.
    pub lowest_with_model_error: f64,
    /// The highest, with that error.
    pub highest_with_model_error: f64,
    /// `faster` or `slower` than the baseline, if both ends with the model's error say so; else `cannot tell`.
    pub direction: &'static str,
    /// The class of the comparison, and what published tables say of it.
    pub class: SimulatedClass,
    /// The host's numbers that move the ratio most, the first one most; null where that was not simulated.
    pub decided_by: Option<Vec<DecidingInput>>,
}

/// A class of comparisons, and what published tables say of the model in it.
#[derive(Debug, Serialize, JsonSchema)]
pub struct SimulatedClass {
    /// Its name.
    pub name: &'static str,
    /// Number of reported ratios.
    pub rows: usize,
    /// Number of publications that they are from.
    pub publications: usize,
    /// Number of predictions that name a direction, the model's error counted.
    pub dared: usize,
    /// Number of these with the reported direction.
    pub right: usize,
    /// Number of reported ratios in the interval of the draws.
    pub inside: usize,
    /// The factor by which the interval is widened on both sides.
    pub factor: f64,
    /// Whether the factor is that of all classes, as no table is of this one.
    pub of_all_classes: bool,
}

/// A number of the host that moves a ratio.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DecidingInput {
    /// Its name in the host's file.
    pub name: String,
    /// Its range, as the file has it.
    pub range: String,
    /// `found`, `measured` or `assumed`.
    pub origin: &'static str,
    /// The ratio with its lowest value, and the middle of all other ranges.
    pub at_lowest: f64,
    /// The ratio with its highest value.
    pub at_highest: f64,
    /// The lowest ratio of all draws if its middle were measured.
    pub lowest_if_measured: f64,
    /// The highest ratio of all draws if its middle were measured.
    pub highest_if_measured: f64,
}

/// The rate of an algorithm as a multiple of the baseline's, over the draws with one placement.
#[derive(Debug, Serialize, JsonSchema)]
pub struct PlacementRatio {
    /// The order in which CPUs are taken into use.
    pub placement: String,
    /// The lowest of these draws.
    pub lowest: f64,
    /// The highest of these draws.
    pub highest: f64,
}

/// Locks that were simulated on this host's description and run on this host.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NativeAgreements {
    /// Name of the described host.
    pub host: String,
    /// The load.
    #[serde(flatten)]
    pub load: SimulatedLoad,
    /// Nanoseconds of the transfer of a modified cache line between two CPUs during the native runs, measured; null with
    /// one CPU.
    pub transfer_ns_meanwhile: Option<Quartiles>,
    /// Each lock at each number of CPUs.
    pub agreements: Vec<NativeAgreement>,
}

/// A lock at one number of CPUs, measured and simulated.
#[derive(Debug, Serialize, JsonSchema)]
pub struct NativeAgreement {
    /// Name of the lock.
    pub name: String,
    /// Number of CPUs.
    pub cpus: usize,
    /// Operations per second, measured.
    pub native_operations_per_s: Quartiles,
    /// Operations per second, simulated.
    pub simulated_operations_per_s: f64,
    /// The simulated rate over the measured ones.
    pub ratio: Quartiles,
    /// Whether the median ratio is near enough to 1.
    pub agrees: bool,
}

/// Simulations of published measurements beside them.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Replays {
    /// "simulated": how predictions were obtained.
    pub obtained: &'static str,
    /// Number of draws of all inputs.
    pub draws: u64,
    /// Seed of the draws.
    pub seed: u64,
    /// Each incident or publication.
    pub replays: Vec<ReplayedIncident>,
}

/// One incident or publication.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayedIncident {
    /// Name of the incident or publication.
    pub incident: String,
    /// What was reported.
    pub title: String,
    /// Where it was reported.
    pub sources: Vec<String>,
    /// The described hosts that stand for those of the report.
    pub hosts: Vec<String>,
    /// Number of inputs that were found in publications, those of the hosts included.
    pub found: usize,
    /// Number of inputs that were measured on a host.
    pub measured: usize,
    /// Number of inputs that were assumed.
    pub assumed: usize,
    /// Number of inputs that were fitted: 0 or 1.
    pub fitted: u32,
    /// The inputs besides the numbers of the hosts.
    pub inputs: Vec<ReplayInput>,
    /// The input that was fitted, and to what; null if none was.
    pub anchor: Option<ReplayAnchor>,
    /// What was reported and what the simulation predicts.
    pub targets: Vec<ReplayTarget>,
    /// A table that the incident adds; null without one.
    pub figure: Option<ReplayFigure>,
    /// What the model leaves out, a sentence each.
    pub lacks: Vec<String>,
}

/// A number that a replay needs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayInput {
    /// Name of the number.
    pub name: String,
    /// Its value or range with its unit, as text.
    pub value: String,
    /// Where it comes from: `found`, `measured` or `assumed`.
    pub origin: &'static str,
    /// The source, the host, or the reason.
    pub why: String,
    /// Why it was chosen after results had been seen; null if it was not.
    pub chosen_late: Option<&'static str>,
}

/// The fitted input of a replay.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayAnchor {
    /// Name of the input.
    pub fitted: String,
    /// What it was fitted to.
    pub to: String,
    /// Its value.
    pub value: DrawnInterval,
}

/// A number over the draws of all inputs.
#[derive(Debug, Serialize, JsonSchema)]
pub struct DrawnInterval {
    /// With the middle of all inputs.
    pub middle: f64,
    /// The lowest value of all draws.
    pub low: f64,
    /// The highest value of all draws.
    pub high: f64,
}

/// One reported observation.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayTarget {
    /// The observation.
    pub what: String,
    /// The reported ratio or share; null if only a direction was reported.
    pub reported: Option<f64>,
    /// `less` or `more`; null if a number was reported.
    pub reported_direction: Option<&'static str>,
    /// Reported nanoseconds per operation of both sides; null if none were.
    pub reported_ns_per_operation: Option<[f64; 2]>,
    /// The ratio or share, simulated.
    pub predicted: DrawnInterval,
    /// Both sides of a ratio, simulated with the middle of all inputs; null for a share.
    pub sides: Option<[ReplaySide; 2]>,
    /// Whether a test of knee holds the prediction.
    pub in_a_test: bool,
    /// How well report and prediction agree, in a word.
    pub grade: String,
    /// The class of the comparison.
    pub class: &'static str,
    /// The prediction, with the model's error on other tables of that class; null of a share, and where there is none.
    pub with_model_error: Option<DrawnInterval>,
    /// Whether the prediction with that error names the reported direction: `right`, `wrong` or `cannot tell`; null of a
    /// share, which has no direction.
    pub direction: Option<&'static str>,
    /// The inputs that move the prediction most, the first one most; empty unless asked for.
    pub moved_by: Vec<ReplayMovingInput>,
    /// Whether the difference is not understood yet.
    pub open: bool,
    /// The prediction of the universal scalability law; null if it makes none.
    pub usl: Option<f64>,
    /// The prediction of a queue; null if it makes none.
    pub queueing: Option<f64>,
}

/// An input that moves a prediction.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayMovingInput {
    /// The name of the input, or the host and the name of its number.
    pub name: String,
    /// The prediction with its lowest value, and the middle of all other ranges.
    pub at_lowest: f64,
    /// The prediction with its highest value.
    pub at_highest: f64,
}

/// One side of a ratio.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplaySide {
    /// Nanoseconds from one operation to the next of any task, simulated.
    pub ns_per_operation: f64,
    /// Number of sleeps per operation, simulated.
    pub sleeps_per_operation: f64,
}

/// A table that an incident adds.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ReplayFigure {
    /// What the table shows.
    pub title: String,
    /// Headings; the first column is what varies.
    pub columns: Vec<String>,
    /// Rows with a value for each column.
    pub rows: Vec<Vec<f64>>,
}

/// What can be replayed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(transparent)]
pub struct Incidents(pub Vec<ListedIncident>);

/// An incident or publication.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ListedIncident {
    /// Its name.
    pub name: String,
    /// What was reported.
    pub title: String,
}
