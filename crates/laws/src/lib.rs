//! Laws of throughput over CPUs: what a curve says about where it bends, where it ends, and why. Pure functions.
//!
//!     Sweep ──> Fit of each law ──> laws that fit ──> knee, peak, quantities (Scaling)
//!                  └─ Draws: what chance may have done     └─ none fits: between the points

mod adaptive;
mod chance;
mod cliff;
mod dose;
mod fall;
mod fit;
mod forecast;
mod fragility;
mod hysteresis;
mod knee;
mod law;
mod removal;
mod retrograde;
mod scaling;
pub mod selfcheck;
mod sweep;

pub use adaptive::{KneeSearch, TriedCount};
pub use chance::Estimate;
pub use cliff::Cliff;
pub use dose::{DOSES_MIN, DoseResponse, Dosed};
pub use fit::{Known, Quantity};
pub use forecast::{
    AsPublished, Forecast, ForecastPoint, HeldOutPoint, HoldOut, RestsOn, forecast,
};
pub use fragility::{
    Change, ChangedLoad, FRAGILE, Fragility, FragilityAnswer, Modes, ROBUST, Situation, Zone,
    fragility,
};
pub use hysteresis::{Hysteresis, UpAndDown, hysteresis};
pub use law::Law;
pub use removal::{LawGain, gain_by_law};
pub use retrograde::Retrograde;
pub use scaling::{FittedLaw, KneeBasis, Peak, PeakPlace, Scaling, Term, scaling};
pub use sweep::{DosedPoint, FarApart, Sweep};
