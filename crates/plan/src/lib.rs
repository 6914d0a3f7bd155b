//! From an experiment to what is run: its variants, its points on given CPUs, and the schedule of
//! each block. Pure functions: files, the host and records are read by others.
//!
//!     experiment ─ variants ─ points ─ schedule ─→ runner

pub mod commands;
pub mod experiments;
pub mod guest_config;
mod names;
pub mod pitfalls;
mod points;
pub mod schedule;
pub mod variants;

pub use names::workload;
pub use points::{Usable, points, usable};
