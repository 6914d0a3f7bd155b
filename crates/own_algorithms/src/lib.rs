//! Locks and mechanisms outside this tree. Each is a small crate of its user, which implements [`Lock`] or
//! [`Mechanism`]; its `main` is [`lock::main`] or [`mechanism::main`], and that program checks, mutates and simulates
//! the algorithm. As an example of the crate, [`lock_load!`] or [`mechanism_load!`] makes a load of it that knee
//! measures. Only the user's file is compiled again after a change of it.
//!
//! `knee new lock NAME` and `knee new mechanism NAME` write such a crate.

#![warn(missing_docs)]

pub mod folder;
mod load;
pub mod lock;
pub mod mechanism;
mod mutants;
mod search;
mod simulate;

pub use algorithms::mechanisms::{Choice, Mechanism, Scenario, Setting, Settings};
pub use algorithms::{Equivalent, Hold, Lock, Shape, SharedLock, locks};
pub use machine;

use std::process::ExitCode;

use anyhow::Result;

/// What [`lock_load!`] and [`mechanism_load!`] expand to.
#[doc(hidden)]
pub mod expansion {
    pub use crate::load::{Control, Parameter, Text};
    pub use crate::lock::load as lock;
    pub use crate::mechanism::load as mechanism;
}

/// The exit status of an algorithm's program; the result says whether nothing is wrong.
fn ended(name: &str, result: Result<bool>) -> ExitCode {
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::from(2)
        }
    }
}
