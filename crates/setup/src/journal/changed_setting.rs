//! A kernel setting that knee changed, as the journal keeps it: `=PATH`, the value before and the
//! value set, on three lines.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

use crate::settings;

/// A kernel setting that knee changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedSetting {
    pub path: PathBuf,
    /// Its value before the first change.
    pub before: String,
    /// A value that knee set.
    pub set: String,
}

impl ChangedSetting {
    pub fn entry(&self) -> Vec<u8> {
        let path = self.path.as_os_str().as_bytes();
        let values = format!("\n{}\n{}", self.before, self.set);
        [b"=", path, values.as_bytes()].concat()
    }

    pub fn parse(entry: &[u8]) -> Option<ChangedSetting> {
        let text = str::from_utf8(entry.strip_prefix(b"=")?).ok()?;
        let mut lines = text.splitn(3, '\n');
        let path = settings::path(lines.next()?).ok()?;
        Some(ChangedSetting { path, before: lines.next()?.into(), set: lines.next()?.into() })
    }

    /// Restores the value from before the first change.
    pub fn restore(&self) -> Result<()> {
        let now = || settings::read_beside(&self.path, &self.before);
        let is_restored = || now().is_ok_and(|now| now == self.before);
        if is_restored() {
            return Ok(());
        }
        settings::write(&self.path, &self.before)
            .and_then(|()| {
                let path = self.path.display();
                ensure!(is_restored(), "{path} did not take its old value '{}'", self.before);
                Ok(())
            })
            .context("restoring a kernel setting")
    }

    /// Restores what a killed knee changed; returns whether nothing is left to do. Adds a sentence
    /// about what it did, or why it could not, to `messages`.
    pub fn sweep(&self, messages: &mut Vec<String>) -> bool {
        // Any other value was set by somebody else since, or has been restored.
        let now = settings::read_beside(&self.path, &self.set);
        if now.map_or(true, |now| now != self.set || now == self.before) {
            return true;
        }
        let ChangedSetting { path, before, .. } = self;
        let restored = settings::write(path, before);
        messages.push(match &restored {
            Ok(()) => {
                let path = path.display();
                format!("restored {path} to '{before}', changed by a knee that was killed")
            }
            Err(why) => {
                format!("a kernel setting stays as a knee that was killed left it: {why:#}")
            }
        });
        restored.is_ok()
    }
}
