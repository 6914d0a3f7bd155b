//! What an experiment asks for beside its runs, so that they can be explained.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::profile::ProfileKind;

/// Looks of each point in each block, beside its run and in random order with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explain {
    /// Which looks.
    #[serde(rename = "looks")]
    pub profiles: Vec<ProfileKind>,
    /// Samples a second and CPU of a look at time; 0 for none.
    pub hertz: u32,
    /// How many windows a look is divided into.
    pub windows: u32,
    /// Functions of the kernel whose calls looks at counts count, where the kernel has kprobes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<String>,
}

impl Default for Explain {
    fn default() -> Explain {
        let profiles = vec![ProfileKind::Time, ProfileKind::Counts, ProfileKind::Names];
        Explain { profiles, hertz: 199, windows: 1, functions: Vec::new() }
    }
}

impl Explain {
    pub(crate) fn check(&self) -> Result<()> {
        let Explain { profiles, hertz, windows, functions } = self;
        ensure!(
            profiles.contains(&ProfileKind::Time),
            "looks lack \"time\": without it there is no ledger"
        );
        ensure!(*hertz <= 10_000, "hertz is {hertz}, must be at most 10 000");
        ensure!((1..=1000).contains(windows), "windows is {windows}, must be 1 to 1000");
        check_functions(functions)
    }
}

/// The most functions whose calls one look counts.
pub const FUNCTIONS_MAX: usize = 16;

/// Refuses what cannot be names of functions of a kernel.
pub(crate) fn check_functions(functions: &[String]) -> Result<()> {
    let count = functions.len();
    ensure!(count <= FUNCTIONS_MAX, "{count} functions: at most {FUNCTIONS_MAX} can be counted");
    for (index, name) in functions.iter().enumerate() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let is_name = !name.is_empty() && name.len() < 128 && name.chars().all(is_part);
        ensure!(
            is_name,
            "function \"{name}\": a name of the kernel's, as in /proc/kallsyms, is wanted"
        );
        ensure!(!functions[..index].contains(name), "function {name} is named twice");
    }
    Ok(())
}
