//! The program of the lock in OWN_NAME.rs.

mod OWN_NAME;

fn main() -> std::process::ExitCode {
    own_locks::main::<OWN_NAME::OwnLock>("OWN_NAME", include_str!("OWN_NAME.rs"))
}
