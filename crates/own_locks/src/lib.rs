//! Locks outside this tree. A lock is a small crate of its user, which implements [`Lock`]; its `main` is [`main`], and
//! that program checks, mutates and simulates this lock. As an example of the crate, [`load!`] makes a load of it that
//! knee measures. Only the lock itself is compiled again after a change of it.
//!
//! `knee new lock NAME` writes such a crate.

#![warn(missing_docs)]

mod check;
pub mod folder;
mod load;
mod mutants;
mod simulate;
mod verbs;

pub use algorithms::{Equivalent, Hold, Lock, Shape};
pub use machine;
pub use verbs::main;

/// What [`load!`] expands to.
#[doc(hidden)]
pub mod expansion {
    pub use crate::load::{Control, Text, drive, locker, operate, prepare, verify};
}

/// What one program is about: one lock.
struct Subject<'a> {
    /// The name of its file, without `.rs`.
    name: &'a str,
    /// The text of its file.
    source: &'a str,
}
