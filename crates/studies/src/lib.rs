//! What is done with locks and mechanisms on other machines than this one: described hosts, runs
//! on them in virtual time, replays of reported incidents, and checks of every interleaving. A
//! crate of its own because each lock is compiled for each engine here, which takes its time.

pub mod checks;
pub mod hosts;
pub mod replays;
pub mod simulations;
