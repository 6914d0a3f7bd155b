//! The verbs about algorithms and rules that need no measured record: check, simulate, replay,
//! calibrate, the check of this host's verdicts, and selfcheck.

// `println!` and `eprintln!` panic on a closed pipe: `host::terminal` has the replacements.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod c_files;
pub mod calibrate;
pub mod check;
pub mod host_check;
pub mod operation;
pub mod replay;
pub mod report;
pub mod selfcheck;
pub mod simulate;
