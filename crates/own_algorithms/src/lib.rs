//! Locks and mechanisms outside this tree. Each is a small crate of its user, which implements [`Lock`], [`SharedLock`] or
//! [`Mechanism`]; its `main` is [`lock::main`], [`read_write_lock::main`] or [`mechanism::main`], and that program checks,
//! mutates and simulates the algorithm. As an example of the crate, [`lock_load!`], [`read_write_lock_load!`] or
//! [`mechanism_load!`] makes a load of it that knee measures. Only the user's file is compiled again after a change of it.
//!
//! `knee new lock NAME`, `knee new read-write-lock NAME` and `knee new mechanism NAME` write such a crate.

#![warn(missing_docs)]

mod load;
pub mod lock;
pub mod mechanism;
mod mutants;
pub mod read_write_lock;
mod search;
mod simulate;

pub use algorithms::mechanisms::{Choice, Mechanism, Scenario, Setting, Settings};
pub use algorithms::{Equivalent, Hold, Lock, Shape, SharedLock, locks};
pub use machine;

use std::process::ExitCode;

use anyhow::{Result, ensure};

/// What [`lock_load!`], [`read_write_lock_load!`] and [`mechanism_load!`] expand to.
#[doc(hidden)]
pub mod expansion {
    pub use crate::load::{Control, Parameter, Text};
    pub use crate::lock::load as lock;
    pub use crate::mechanism::load as mechanism;
    pub use crate::read_write_lock::load as read_write_lock;
}

/// Fails if a file uses an atomic of the standard library, whose accesses no machine sees.
fn ensure_seen(name: &str, source: &str) -> Result<()> {
    for (number, line) in (1..).zip(source.lines()) {
        let code = line.split("//").next().unwrap_or_default();
        let mut words = code.split(|c: char| !c.is_alphanumeric());
        let word = words.find(|word| {
            word.strip_prefix("Atomic").is_some_and(|rest| rest.starts_with(char::is_uppercase))
        });
        ensure!(
            word.is_none(),
            "{name}.rs:{number}: {}: the machine does not see accesses to an atomic of the standard library, so no \
             interleaving of them would be tried; use own_algorithms::machine::Atom",
            word.unwrap_or_default()
        );
    }
    Ok(())
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
