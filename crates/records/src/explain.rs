//! The profiles that an experiment asks for beside its runs, so that they can be explained.

use anyhow::{Result, ensure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::profile::ProfileKind;

/// Profiles of each point in each block, beside its run and in random order with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Explain {
    /// Which kinds of profiles are made.
    #[serde(rename = "looks")]
    pub profiles: Vec<ProfileKind>,
    /// Samples per second and CPU in a profile of time; 0 for none.
    pub hertz: u32,
    /// How many windows a profile is divided into.
    pub windows: u32,
    /// Kernel functions whose calls are counted in profiles of counts, if the kernel has kprobes.
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
            "looks must contain \"time\": without it there is no ledger"
        );
        ensure!(*hertz <= 10_000, "hertz is {hertz}, must be at most 10 000");
        ensure!((1..=1000).contains(windows), "windows is {windows}, must be 1 to 1000");
        check_functions(functions)
    }
}

/// The most functions whose calls one profile counts.
pub const FUNCTIONS_MAX: usize = 16;

/// Refuses names that cannot be functions of a kernel.
pub(crate) fn check_functions(functions: &[String]) -> Result<()> {
    let count = functions.len();
    ensure!(
        count <= FUNCTIONS_MAX,
        "{count} functions are named, at most {FUNCTIONS_MAX} can be counted"
    );
    for (index, name) in functions.iter().enumerate() {
        let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
        let is_name = !name.is_empty() && name.len() < 128 && name.chars().all(is_part);
        ensure!(is_name, "function \"{name}\": must be a kernel function as in /proc/kallsyms");
        ensure!(!functions[..index].contains(name), "function {name} is named twice");
    }
    Ok(())
}
