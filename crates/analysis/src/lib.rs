//! Statistics of runs: pure functions from values to values, without input or output.
//! Nothing computed here is kept in a record; it can always be computed again.

mod blocks;
mod components;
mod fisher;
mod multiplicity;
mod power;
pub use power::detectable;
mod columns;
mod compare;
mod comparison;
mod curve;
mod digits;
mod fairness;
mod matching;
mod reduce;
mod spread;
mod survey;
mod warmup;

pub use compare::{ALPHA, Arm, Options, compare, goes_on};
pub use comparison::{
    Band, CellComparison, Compared, Comparison, Contrast, CurveComparison, Design, Discard,
    Discards, Method, MetricComparison, NoiseFloor, Place, RunValues, Scale, VarianceShare,
    Verdict,
};
pub use curve::{Cell, Curve, curves};
pub use digits::{rounded, with_uncertainty};
pub use fairness::jain;
pub use reduce::{Reduced, reduce};
pub use spread::Spread;
pub use warmup::warmup;
