//! What building a commit leaves.

use std::path::PathBuf;

/// A commit that is built.
#[derive(Clone, Debug)]
pub struct Build {
    pub folder: PathBuf,
    /// Equal for builds that load equal code and data.
    pub key: String,
    pub seconds: f64,
}

/// How a build ended.
pub enum Built {
    Done(Build),
    /// The commit cannot be built.
    Failed(String),
    /// A signal asked knee to end.
    Interrupted,
}
