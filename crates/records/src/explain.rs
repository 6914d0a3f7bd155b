//! What an experiment asks for beside its runs, so that they can be explained.

use anyhow::{Result, ensure};
use serde::{Deserialize, Serialize};

use crate::look::LookKind;

/// Looks of each point in each block, beside its run and in random order with it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Explain {
    /// Which looks.
    pub looks: Vec<LookKind>,
    /// Samples a second and CPU of a look at time; 0 for none.
    pub hertz: u32,
    /// How many windows a look is divided into.
    pub windows: u32,
}

impl Default for Explain {
    fn default() -> Explain {
        let looks = vec![LookKind::Time, LookKind::Counts, LookKind::Names];
        Explain { looks, hertz: 199, windows: 1 }
    }
}

impl Explain {
    pub(crate) fn check(&self) -> Result<()> {
        let Explain { looks, hertz, windows } = self;
        ensure!(
            looks.contains(&LookKind::Time),
            "looks lack \"time\": without it there is no ledger"
        );
        ensure!(*hertz <= 10_000, "hertz is {hertz}, must be at most 10 000");
        ensure!((1..=1000).contains(windows), "windows is {windows}, must be 1 to 1000");
        Ok(())
    }
}
