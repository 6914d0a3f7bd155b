//! What recorded operations do on described hosts: `knee simulate operation`.

use records::operations::Copies;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Curves of recorded operations on a described host, simulated.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationCurves {
    /// "simulated": how all numbers here were obtained.
    pub obtained: String,
    /// Name of the described host.
    pub host: String,
    /// The order in which CPUs are taken into use.
    pub placement: String,
    /// Seed of the draws.
    pub seed: u64,
    /// Number of draws from the host's ranges besides the middle values.
    pub draws: u64,
    /// Each operation.
    pub operations: Vec<SimulatedOperation>,
}

/// A recorded operation on a described host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SimulatedOperation {
    /// The operation: `stat`.
    pub operation: String,
    /// Where it was recorded: the release of the guest's kernel.
    pub on: String,
    /// Operations of each recorded task.
    pub recorded: Vec<usize>,
    /// Instructions of an operation, in the mean.
    pub instructions: f64,
    /// Operations a second of one CPU to which the time of an instruction was fitted, where somebody said it.
    pub one_cpu: Option<f64>,
    /// Nanoseconds of an instruction, with the middle values.
    pub instruction_ns: f64,
    /// Microseconds of simulated time that count, at the most CPUs.
    #[serde(default)]
    pub length_us: f64,
    /// The curve, by number of CPUs.
    pub points: Vec<OperationPoint>,
    /// What stops it at the most CPUs: how much faster it would be with one line less that all need, the most first.
    pub stops: Vec<StoppingLine>,
    /// What operations wait for that is not simulated, as a clause: then the curve is a ceiling. Missing where they do not wait.
    #[serde(default)]
    pub waits: Option<String>,
    /// How far simulated rates were off on published hosts, beyond the interval of the draws; missing where no line stops it,
    /// and where knee simulates its own source.
    #[serde(default)]
    pub model_error: Option<RateError>,
    /// What limits the answer, a sentence each.
    pub warnings: Vec<String>,
}

/// The model's error, by published rates of kernel operations on 20 to 224 CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateError {
    /// Widened by this on both sides, the interval of the draws contains nine tenths of the published rates.
    pub factor: f64,
    /// Published rates.
    pub rates: usize,
    /// Whether they are those of operations that a compared line stops, or of others.
    pub compares: bool,
}

/// An operation at one number of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OperationPoint {
    /// Number of CPUs, each with a task.
    pub cpus: usize,
    /// Operations of all tasks per simulated second, with the middle values of the host's ranges.
    pub operations_per_s: f64,
    /// The lowest rate of all draws.
    pub operations_per_s_lowest: f64,
    /// The highest rate of all draws.
    pub operations_per_s_highest: f64,
}

/// What operations wait for: all lines of a member, or `memory bandwidth`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StoppingLine {
    /// The member that is written most: `dentry.d_lockref`.
    pub member: String,
    /// How many of it there are.
    pub copies: Copies,
    /// Whether a lock lies on it that operations take.
    pub has_lock: bool,
    /// Whether operations change it by compare-and-exchange, as they do a lockref.
    #[serde(default)]
    pub compares: bool,
    /// How often the rate of all CPUs it would be if each task had a line of its own, or memory no limit, with the middle values.
    pub faster: f64,
}

/// A simulated operation, joined to the measured curve of the same load: all simulated rates times what makes the one at the
/// joint equal to the measured one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct JoinedCurve {
    /// Name of the described host.
    pub host: String,
    /// Where the operation was recorded.
    pub on: String,
    /// Number of CPUs at which both meet: the most that were measured, of those that were simulated.
    pub joint: u32,
    /// Operations per second measured there.
    pub measured: f64,
    /// Operations per second simulated there.
    pub simulated: f64,
    /// The joined rates with more CPUs.
    pub points: Vec<OperationPoint>,
    /// The line that stops it most at the most simulated CPUs, if one does.
    pub stopped_by: Option<StoppingLine>,
}

impl SimulatedOperation {
    /// Joins the curve to measured rates, by CPUs in ascending order. `None` where no measured number of CPUs was simulated.
    pub fn joined_to(&self, host: &str, measured: &[(u32, f64)]) -> Option<JoinedCurve> {
        let simulated = |cpus: u32| self.points.iter().find(|point| point.cpus == cpus as usize);
        let (joint, rate, at) = measured
            .iter()
            .rev()
            .find_map(|(cpus, rate)| Some((*cpus, *rate, simulated(*cpus)?)))?;
        let times = rate / at.operations_per_s;
        let beyond = self.points.iter().filter(|point| point.cpus > joint as usize);
        let joined = beyond.map(|point| OperationPoint {
            cpus: point.cpus,
            operations_per_s: times * point.operations_per_s,
            operations_per_s_lowest: times * point.operations_per_s_lowest,
            operations_per_s_highest: times * point.operations_per_s_highest,
        });
        Some(JoinedCurve {
            host: host.to_string(),
            on: self.on.clone(),
            joint,
            measured: rate,
            simulated: at.operations_per_s,
            points: joined.collect(),
            stopped_by: self.stops.first().cloned(),
        })
    }
}
