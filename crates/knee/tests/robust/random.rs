//! Random choices: the same each time, unless KNEE_SEED asks for others (`make fuzz` does).

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Where the choices of a test come from. Prints, for the case that it fails, how to repeat them.
pub fn choices(test: &str) -> Xoshiro256PlusPlus {
    let seed = number("KNEE_SEED").unwrap_or(1);
    println!("again: KNEE_SEED={seed} cargo test -p knee --test robust {test}");
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// How many of something to do: `few`, unless an environment variable names another number.
pub fn times(variable: &str, few: u64) -> u64 {
    number(variable).unwrap_or(few)
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
