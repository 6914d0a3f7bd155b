//! The lock as a load for `knee run`: see `make run`.

#[path = "../src/OWN_NAME.rs"]
mod OWN_NAME;

own_locks::load!(OWN_NAME::OwnLock, "OWN_NAME");
