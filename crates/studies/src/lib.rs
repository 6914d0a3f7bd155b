//! Studies of locks and mechanisms on other machines than the native one:
//! simulations on them, replays of reported incidents, and checks of every interleaving. This is a
//! crate of its own because it compiles each lock for each engine, which takes long.

#![warn(missing_docs)]

pub mod checks;
pub mod domain;
pub mod litmus;
pub mod operation_grades;
pub mod operation_sources;
pub mod operations;
pub mod replays;
pub mod simulations;
mod subject;

pub use subject::{MechanismDesign, Subject};
