//! The program of the mechanism in own_mechanism.rs.

mod own_mechanism;

fn main() -> std::process::ExitCode {
    own_algorithms::mechanism::main::<own_mechanism::OwnMechanism>(include_str!("own_mechanism.rs"))
}
