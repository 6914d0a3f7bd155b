//! From an experiment to its runs: its variants, its points on given CPUs, and the schedule of each block.
//! Pure functions: other crates read files, the host and records.
//!
//!     experiment ─ variants ─ points ─ schedule ─→ runner

pub mod adaptive;
mod against;
mod around;
pub mod commands;
pub mod experiments;
pub mod guest_config;
pub mod harnesses;
mod names;
pub mod pitfalls;
mod points;
pub mod schedule;
pub mod variants;

pub use against::{Side, against};
pub use around::{OperatingPoint, around};
pub use names::workload;
pub use points::{Usable, points, usable};
