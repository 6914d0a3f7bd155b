//! The lock as a load for `knee run`: see `make run`.

#[path = "../src/own_lock.rs"]
mod own_lock;

own_algorithms::read_write_lock_load!(own_lock::OwnLock, "own_lock");
