//! The answer of each verb as a value. What `--json` prints is the value itself, and `knee schema` prints the JSON
//! Schema that is derived from its type: the doc comments here are the descriptions there.
//!
//! Types that other crates have anyway (`analysis::Comparison`, `ledger::Explained`) are answers, too, and stay where
//! they are. docs/formats/answers.md lists all.

mod checked;
mod commits;
mod conflicts;
mod doses;
mod explained;
mod fragility;
mod listed;
mod made;
mod planned;
mod scaling;
mod shown;
mod simulated;
mod simulated_operation;
mod sweep;

use anyhow::{Context, Result};
use schemars::JsonSchema;
use serde::Serialize;

pub use crate::checked::{
    AcceptedRace, AccessOrder, BypassBound, BypassBounds, CheckedAlgorithm, Checks,
    DesignAgainstKernel, FollowedSchedule, KernelComparisons, LanguageVerdict, LitmusTest,
    LitmusTests, Mutant, MutantFate, Mutants, MutatedAlgorithm, OrderRefutation, OrderSet,
    OrderedAlgorithm, Orderings, ScheduleCoverage, SearchedTasks,
};
pub use crate::commits::{
    Bisected, BisectionCheck, BisectionPlan, InsideMerge, ScreenedCell, ScreenedOption, Screening,
    Series, SeriesChange, SeriesPatch, SeriesVerdict, SkippedCommit, Suspect,
};
pub use crate::conflicts::{
    Ceiling, CeilingMet, ChangedLine, ConflictAnswer, ConflictDifference, ConflictLine,
    ConflictMember, ConflictPair, Conflicts, Instructions, LineChange, LineKind, LockWait, OneLine,
    PairLine, PairObjects, Sharing,
};
pub use crate::doses::{DosePoint, DoseReport, Gain, dosed_points, doses};
pub use crate::explained::{LedgerDifference, Ledgers, RecordingDifference, RecordingLedger};
pub use crate::fragility::{FragileAnswer, FragileReport, fragile};
pub use crate::listed::{
    AlgorithmEntry, AlgorithmManual, CommandEntry, ExperimentEntry, ExperimentManual, HostEntry,
    HostManual, HostNumber, ListedAlgorithms, ListedCommands, ListedExperiments, ListedHosts,
    ListedLoads, ListedMetrics, ListedWorkloads, LoadEntry, MetricEntry, ParameterEntry,
    UncompiledLoad, WorkloadEntry, WorkloadManual,
};
pub use crate::made::{
    BootedKernel, BuiltKernels, CollectedRecord, FleetClaim, FleetStatus, ImportedRecord,
    KernelOutcome, NotedRecord, RemovedKernels, RemovedRecord, RemovedRecords,
};
pub use crate::planned::{PlannedPoint, RunPlan, TimeRange};
pub use crate::scaling::{
    CurveCeiling, CurveForecast, CurveIdentity, CurveScaling, Forecasts, ScalingEntry, Scalings,
    SimulatedHandOver,
};
pub use crate::shown::{CurveSummary, Summary, WholeRecord, summary, whole};
pub use crate::simulated::{
    AlgorithmCurves, AlgorithmPoint, DecidingInput, DrawnInterval, Incidents, ListedIncident,
    NativeAgreement, NativeAgreements, PlacementRatio, ReplayAnchor, ReplayFigure, ReplayInput,
    ReplayMovingInput, ReplaySide, ReplayTarget, ReplayedIncident, Replays, SimulatedAlgorithm,
    SimulatedClass, SimulatedLoad, SimulatedRatio,
};
pub use crate::simulated_operation::{
    JoinedCurve, OperationCurves, OperationPoint, RateError, SimulatedOperation, StoppingLine,
};
pub use crate::sweep::{curve_metric, hysteresis, rate_name, sweep};

/// The metric that decides unless an experiment says otherwise.
pub const RATE: &str = "operations_per_s";

/// An answer as indented JSON with a line end. Only what has a schema is an answer.
///
/// # Errors
/// Says which value has no JSON form: a path that is not UTF-8.
pub fn as_json(answer: &(impl Serialize + JsonSchema)) -> Result<String> {
    serde_json::to_string_pretty(answer).map(|text| text + "\n").context(WRITING)
}

/// An answer as one line of JSON with its line end, for verbs that print an answer for each of several things.
///
/// # Errors
/// Says which value has no JSON form: a path that is not UTF-8.
pub fn as_json_line(answer: &(impl Serialize + JsonSchema)) -> Result<String> {
    serde_json::to_string(answer).map(|text| text + "\n").context(WRITING)
}

const WRITING: &str = "writing the answer as JSON";
