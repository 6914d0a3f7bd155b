//! Options shared by several verbs, and how they change an experiment.

mod adaptive;
mod commits;
mod cut;
mod fail_if;
mod file_systems;
mod guests;
mod hosts;
mod kernels;
mod on;
mod output;
mod times;

pub use adaptive::AdaptiveFlags;
pub use commits::{BuildRunFlags, CommitBuildFlags, judged_by};
pub use cut::{CutFlags, check_can_be_cut};
pub use fail_if::FailIf;
pub use file_systems::FileSystemFlags;
pub use guests::{Building, GuestFlags, MachineFlags, kernel};
pub use hosts::{On, SlurmFlags};
pub use kernels::{BuildFlags, kernel_file};
pub use on::OnFlags;
pub use output::{OutputFlags, scan};
pub use times::{age, duration, seconds, since, until};
