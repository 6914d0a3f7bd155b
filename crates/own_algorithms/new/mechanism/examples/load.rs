//! The mechanism as a load for `knee run`: see `make run`.

#[path = "../src/own_mechanism.rs"]
mod own_mechanism;

own_algorithms::mechanism_load!(own_mechanism::OwnMechanism, "own_mechanism");
