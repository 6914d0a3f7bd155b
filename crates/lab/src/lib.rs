//! The verbs about algorithms, rules and this host that need no measured record: check, simulate, replay, doctor with
//! calibrate and verdicts, and selfcheck.

// `println!` and `eprintln!` panic on a closed pipe: `host::terminal` has the replacements.
#![cfg_attr(not(test), deny(clippy::print_stderr, clippy::print_stdout))]

mod c_files;
pub mod calibrate;
pub mod check;
pub mod doctor;
pub mod host_check;
pub mod operation;
pub mod replay;
pub mod report;
pub mod selfcheck;
pub mod simulate;
