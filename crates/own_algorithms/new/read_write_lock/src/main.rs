//! The program of the lock in own_lock.rs.

mod own_lock;

fn main() -> std::process::ExitCode {
    own_algorithms::read_write_lock::main::<own_lock::OwnLock>(
        "own_lock",
        include_str!("own_lock.rs"),
    )
}
