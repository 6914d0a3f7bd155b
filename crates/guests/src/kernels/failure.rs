//! Why a kernel does not build, for the user: the command, the first errors, advice, the log.

use std::error::Error;
use std::fmt;
use std::path::PathBuf;

/// A revision that does not build.
#[derive(Clone, Debug)]
pub struct BuildFailure {
    pub what: String,
    /// The first error lines of the log.
    pub reasons: Vec<String>,
    pub advice: Option<String>,
    pub log: PathBuf,
    /// Whether it took longer than allowed.
    pub is_timeout: bool,
}

impl Error for BuildFailure {}

impl fmt::Display for BuildFailure {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}", self.what)?;
        for reason in &self.reasons {
            write!(f, "\n    {reason}")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "\n  {advice}")?;
        }
        write!(f, "\n  the log: {}", self.log.display())
    }
}
