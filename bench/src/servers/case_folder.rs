//! Where a case is built: a folder that is removed afterwards, or one that is kept with what is true and what was said.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use tempfile::TempDir;

use super::case::Case;
use super::rates::Rates;
use super::running::{Running, folder};
use crate::fresh_directory;

/// The folder of one case.
pub struct CaseFolder {
    path: PathBuf,
    is_kept: bool,
    /// Removes the folder in the end.
    _fresh: Option<TempDir>,
}

/// The truth as it is kept.
#[derive(Serialize)]
struct KeptCase<'a> {
    #[serde(flatten)]
    case: &'a Case,
    rates: Rates,
}

impl CaseFolder {
    /// A folder below `kept`, or a fresh one.
    pub fn new(case: &Case, kept: Option<&Path>) -> Result<CaseFolder> {
        let Some(kept) = kept else {
            let fresh = fresh_directory(&folder()?)?;
            // The server's user reads its program there.
            let all_read = Permissions::from_mode(0o755);
            fs::set_permissions(fresh.path(), all_read).context("opening the folder")?;
            let path = fresh.path().to_path_buf();
            return Ok(CaseFolder { path, is_kept: false, _fresh: Some(fresh) });
        };
        let path = kept.join(format!("{}-{}", case.seed, case.index));
        fs::create_dir_all(&path).with_context(|| format!("making {}", path.display()))?;
        let path = path.canonicalize()?;
        Ok(CaseFolder { path, is_kept: true, _fresh: None })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes what is true of the case.
    pub fn keep_truth(&self, case: &Case, rates: Rates) -> Result<()> {
        if self.is_kept {
            let json = serde_json::to_string_pretty(&KeptCase { case, rates })?;
            fs::write(self.path.join("case.json"), json).context("keeping the truth")?;
        }
        Ok(())
    }

    /// Copies what knee printed about the case.
    pub fn keep_answer(&self, running: &Running) -> Result<()> {
        for name in ["answer.json", "knee.log"] {
            if self.is_kept && running.file(name).exists() {
                fs::copy(running.file(name), self.path.join(name)).context("keeping the answer")?;
            }
        }
        Ok(())
    }
}
