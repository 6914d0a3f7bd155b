//! Locks and mechanisms under search, on described hosts, and in replays of incidents.
//!
//! Not beside the code that they test: each algorithm is compiled for each engine in this crate, and
//! would be so a second time for a test inside of it.

mod checks;
mod decided;
mod domain;
mod grades;
mod keep;
mod litmus;
mod mechanisms;
mod mutants;
mod operation_grades;
mod operation_sources;
mod operations;
mod orderings;
mod replays;
mod simulations;
mod weak;
