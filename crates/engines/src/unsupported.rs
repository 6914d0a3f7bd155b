//! What a machine cannot do for an algorithm, although nothing may be wrong with the algorithm.

use std::fmt;

/// Why an algorithm cannot be checked, and how it could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// What the machine lacks, and where.
    pub why: String,
    /// What the user can do about it.
    pub way_out: String,
}

impl Unsupported {
    /// A reason and a way out, both in half a sentence.
    pub fn new(why: impl Into<String>, way_out: impl Into<String>) -> Unsupported {
        Unsupported { why: why.into(), way_out: way_out.into() }
    }

    /// Ends the task that runs. Its machine reports this instead of a fault.
    pub fn stop(self) -> ! {
        std::panic::panic_any(self)
    }
}

impl fmt::Display for Unsupported {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}; {}", self.why, self.way_out)
    }
}

impl std::error::Error for Unsupported {}
