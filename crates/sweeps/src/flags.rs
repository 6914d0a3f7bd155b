//! Options of the command line that sweeps share with other verbs.

mod hosts;
mod lengths;
mod output;
mod sweep;

pub use hosts::{HOSTS_HEADING, On, Place, SlurmFlags, check_slurm, place};
pub use lengths::{duration, duration_ns};
pub use output::{OutputFlags, scan, with_options_of_all};
pub use sweep::SweepFlags;
