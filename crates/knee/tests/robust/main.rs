//! knee under faults, kills and bad input, driven as its users drive it: the real binary,
//! with records, state and the measured directory in a temporary home.
//!
//! No test asserts a time; the time-outs are there to end a hang.

mod aged;
mod bad_input;
mod check;
mod commands;
mod explain;
mod faults;
mod file_system_faults;
mod file_systems;
mod guest_faults;
mod guest_file_systems;
mod guests;
mod home;
mod import;
mod incidents;
mod installed;
mod kernels;
mod kills;
mod outputs;
mod process;
mod putting_back;
mod skip;
mod strangers;
mod variants;
