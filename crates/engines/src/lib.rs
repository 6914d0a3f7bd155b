//! Machines on which algorithms run other than natively. An engine knows no lock: what it
//! runs is a closure for each task over a region of memory.
//!
//! Tasks are steppable threads: coroutines that stop before each access, so that an engine
//! decides who does the next one, and when.

pub mod checker;
mod mutated;
pub mod simulated;
mod steppable;

pub use mutated::{Change, Mutant, Mutated, Site};
pub use steppable::{Saved, Step, Steppable};
