//! Options that several verbs take, and what they change in an experiment.

mod file_systems;
mod guests;

pub use file_systems::FileSystemFlags;
pub use guests::{GuestFlags, MachineFlags};
