//! Laws of throughput over CPUs: what a curve says about where it bends, where it ends, and why. Pure functions.
//!
//!     Sweep ──> Fit of each law ──> laws that fit ──> knee, peak, quantities (Scaling)
//!                  └─ Draws: what chance may have done     └─ none fits: between the points

mod chance;
mod cliff;
mod dose;
mod fit;
mod forecast;
mod knee;
mod law;
mod retrograde;
mod scaling;
pub mod selfcheck;
mod sweep;

pub use chance::Estimate;
pub use cliff::Cliff;
pub use dose::{DOSES_MIN, DoseResponse, Dosed};
pub use fit::{Known, Quantity};
pub use forecast::{Forecast, ForecastPoint, HeldOutPoint, HoldOut, RestsOn, forecast};
pub use law::Law;
pub use retrograde::Retrograde;
pub use scaling::{FittedLaw, KneeBasis, Peak, PeakPlace, Scaling, Term, scaling};
pub use sweep::Sweep;
