//! Engines: machines that run algorithms other than natively. An engine knows no lock: it runs
//! one closure for each task, over a region of memory.
//!
//! Tasks are steppable threads: coroutines that stop before each access, so that the engine
//! decides which task takes the next step, and when.

#![warn(missing_docs)]

pub mod checker;
mod mutated;
mod orders;
pub mod simulated;
mod steppable;
mod unsupported;

pub use machine::{CodeSite, Ordering, SourceLine};
pub use mutated::{AccessChange, Collected, Mutant, Mutated};
pub use orders::{OrderLimit, Ordered, OrderedAccess, common_order};
pub use steppable::{Panic, catch_panics};
pub use unsupported::Unsupported;
