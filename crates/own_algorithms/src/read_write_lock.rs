//! The program of a lock that readers share: its `main`, and its load. Its verbs are those of a lock with one holder.

#[doc(hidden)]
pub mod load;

use std::process::ExitCode;

use algorithms::SharedLock;
use anyhow::Result;
use studies::checks::with_own_shared_lock;
use studies::simulations::own_shared_lock_point;

use crate::lock::Subject;

/// The `main` of a read-write lock's program: `name` is that of its file without `.rs`, `source` the file's text. The
/// exit status is 1 if a fault was found, a search was incomplete or a mutant survived, 2 if something else failed.
pub fn main<L: SharedLock>(name: &str, source: &str) -> ExitCode {
    subject::<L>(name, source).main()
}

/// Does what [`main`] does with these words as its command line. Returns whether nothing is wrong.
pub fn run<L: SharedLock>(name: &str, source: &str, words: &[&str]) -> Result<bool> {
    subject::<L>(name, source).run(words)
}

fn subject<'a, L: SharedLock>(name: &'a str, source: &'a str) -> Subject<'a> {
    Subject {
        name,
        source,
        equivalent: L::EQUIVALENT,
        with_tasks: with_own_shared_lock::<L>,
        point: own_shared_lock_point::<L>,
        shared: true,
    }
}
