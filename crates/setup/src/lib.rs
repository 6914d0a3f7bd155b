//! Changes of the host that runs need: mounts, loop devices, file systems, kernel settings,
//! directories. knee may make them as root on somebody else's machine, so each change is written to
//! the journal before it is made, and undone on success, error, Ctrl-C, and at the next start after
//! kill -9.

mod access_list;
pub mod directory;
pub mod file_systems;
pub mod foreign;
pub mod host_state;
pub mod journal;
pub mod metal;
pub mod own_file;
pub mod ownership;
pub mod removal;
pub mod settings;
