//! knee under faults, kills and bad input, driven as its users drive it: the real binary,
//! with records, state and the measured directory in a temporary home.
//!
//! No test asserts a time; the time-outs are there to end a hang. `guests`, `file_systems` and `kills`
//! take minutes: `make check` leaves them out (.ci/run-tests).

mod answers;
mod bad_input;
mod beside;
mod bisect;
mod bisect_faults;
mod check;
mod client_on;
mod commands;
mod compatibility;
mod completion;
mod daemons;
mod defaults;
mod downloaded;
mod explain;
mod explain_locks;
mod explain_running;
mod explain_without_bpf;
mod faults;
mod file_systems;
mod fleet;
mod fleet_remote;
mod gate;
mod gates;
mod guests;
mod harness_gates;
mod holder_reasons;
mod home;
mod import;
mod installed;
mod interference;
mod job_control;
mod kernel_line;
mod kernels;
mod kills;
mod manual;
mod outputs;
mod own_loads;
mod picture;
mod plans;
mod process;
mod pty;
mod putting_back;
mod python;
mod random;
mod records;
mod refusals;
mod reports;
mod scale;
mod servers;
mod serving;
mod simulate_operation;
mod skip;
mod snapshots;
mod ssh_server;
mod strangers;
mod terminal;
mod top;
mod variants;
mod views;
mod watch;
