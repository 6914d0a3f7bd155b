//! Bisection from noisy runs: which change moved a metric, or which set of changes holds the one that did.
//! Pure functions; other crates build, run and keep logs.
//!
//!     Commits, Partition, Build ──> posterior ──> Situation::choose ──> Search::next_step ──> measure, or an answer
//!                                       └──> pairs: two changes? ──> series_step

mod answer;
pub mod baselines;
mod bisected;
mod change_points;
mod choice;
mod commits;
mod evidence;
mod forecast;
mod foresight;
mod gaussian;
mod ground;
mod pairs;
mod partition;
mod posterior;
mod screening;
mod search;
pub mod selfcheck;
mod series;
pub mod simulated;
pub mod watch;

pub use answer::{Answer, Ends, NotReproduced, Unresolved};
pub use bisected::{
    COMPARED_ANSWERS_MAX, COMPARED_MAX, Comparing, Relinked, difference, is_given_up,
    is_in_layouts, least_counted,
};
pub use choice::{Choice, Costs};
pub use commits::Commits;
pub use evidence::{Build, Evidence};
pub use forecast::Forecast;
pub use foresight::{Expected, Foresight, Means, Quantiles};
pub use posterior::{LAYOUT_UNKNOWN, Layouts, Level, Posterior};
pub use screening::{Effect, SCREENING_ALPHA, effects, settings_of};
pub use search::{Next, Search, Settings};
pub use series::{Bracket, SeriesSettings, SeriesStep, runs_for, series_step};
