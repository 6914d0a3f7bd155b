//! Options shared by several verbs, and how they change an experiment.

mod file_systems;
mod guests;
mod output;

pub use file_systems::FileSystemFlags;
pub use guests::{GuestFlags, MachineFlags};
pub use output::{OutputFlags, scan};
