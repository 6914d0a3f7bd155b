//! This computer: its CPUs and their order, affinity, the clock, mounts, processes and signals, the
//! user's folders, files where others may write, durable files and unnamed files; and the way to others, ssh. It depends
//! on no other crate of knee.

pub mod affinity;
pub mod bounded_output;
pub mod children;
pub mod clock;
mod command_line;
mod counted;
mod cpu_list;
pub mod descendants;
pub mod durable;
pub mod executables;
pub mod full_screen;
pub mod given_file;
mod given_path;
pub mod held_folder;
pub mod job_control;
mod kill_with_parent;
pub mod leftovers;
mod length_of_time;
pub mod marks;
pub mod memfd;
pub mod memory;
pub mod mounts;
mod nearest;
pub mod pager;
mod parallel;
pub mod paths;
pub mod pinned;
pub mod question;
mod random;
pub mod signals;
pub mod ssh;
pub mod terminal;
mod trusted_users;

pub mod topology;

pub use command_line::{command_line, set_command_line};
pub use counted::counted;
pub use cpu_list::parse as parse_cpu_list;
pub use held_folder::{HeldFolder, Limit};
pub use kill_with_parent::kill_with_parent;
pub use length_of_time::whole_ns;
pub use nearest::{nearest, unknown, unknown_of};
pub use parallel::in_parallel;
pub use random::{check_random, random};
pub use topology::{Cpu, Placement, Topology};
pub use trusted_users::TrustedUsers;
