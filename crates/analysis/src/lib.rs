//! Statistics of runs: pure functions from values to values, without input or output.
//! Nothing computed here is kept in a record; it can always be computed again.

mod axis;
pub mod baselines;
mod compare;
mod comparison;
mod components;
mod curve;
mod digits;
mod drift_fit;
mod fairness;
mod fisher;
mod history;
pub mod host_check;
mod judge;
mod modes;
mod multiplicity;
mod nodes;
mod noise;
mod pair_sums;
mod power;
mod quartiles;
mod rank_sum;
mod reduce;
mod rounds;
pub mod selfcheck;
pub mod sequential;
mod series;
mod signed_rank;
mod spread;
mod student;
mod warmup;

pub use axis::Axis;
pub use compare::{
    ALPHA, Arm, CompareOptions, blocks_at_most, compare, deciding_part, disturbance,
    gate_points_to_run, hidden_by_emulation, join_sessions, left_out, match_points, points_to_run,
};
pub use comparison::{
    Band, CellComparison, CellKey, ComparedNode, ComparedVariant, Comparison, Contrast,
    CurveComparison, Design, DiscardedBlock, Discards, EqualRuns, HostDrift, Method,
    MetricComparison, NodeDisagreement, NodeEffect, NodeSurvey, NoiseFloor, OddNode, RunValues,
    Scale, TakenIn, TakenUnit, VarianceShare, Verdict,
};
pub use components::{Component, components};
pub use curve::{Curve, CurveCell, curves};
pub use digits::{rounded, with_uncertainty};
pub use fairness::jain;
pub use fisher::imbalance;
pub use history::PointHistory;
pub use judge::{
    Decision, Judgement, Rule, is_harmless, is_harmless_at, judge, judge_separate, judge_taken,
};
pub use modes::{InTwo, Modes};
pub use multiplicity::{benjamini_hochberg, holm_adjusted, holm_levels};
pub use noise::Noise;
pub use rounds::{FurtherRound, OpenCase, further_round};

pub use power::{blocks_for, detectable};
pub use quartiles::Quartiles;
pub use rank_sum::{RankSum, Shifts};
pub use reduce::{KernelThreads, Reduced, reduce};
pub use sequential::looks;
pub use series::{Series, SeriesChange, WINDOWS_MIN, series_change};
pub use signed_rank::{Walsh, critical, hodges_lehmann};
pub use spread::Spread;
pub use student::{Student, quantile as student_quantile};
pub use warmup::warmup;
