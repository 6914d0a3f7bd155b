//! Options shared by several verbs, and how they change an experiment.

mod adaptive;
mod cut;
mod fail_if;
mod file_systems;
mod guests;
mod on;
mod output;
mod sweep;
mod times;

pub use adaptive::AdaptiveFlags;
pub use cut::{CutFlags, duration};
pub use fail_if::FailIf;
pub use file_systems::FileSystemFlags;
pub use guests::{GuestFlags, MachineFlags};
pub use on::{HOSTS_HEADING, On, OnFlags, SlurmFlags};
pub use output::{OutputFlags, scan, with_options_of_all};
pub use sweep::SweepFlags;
pub use times::{age, duration_ns, since, until};
