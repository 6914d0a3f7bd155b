//! What one knee tells the next of a build tree that stays, and what a kill may have left in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

const FILE: &str = "state.json";

/// What was written so shortly before a kill may be there in part. A host that crashes loses half a minute at most.
const DOUBTFUL: Duration = Duration::from_secs(60);

/// The last builds in a tree, as `state.json` keeps them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TreeState {
    /// Parts of the configuration.
    pub parts: Vec<String>,
    /// Whether they were added to a whole configuration.
    pub is_from_whole: bool,
    /// The first line of `COMPILER --version`.
    pub compiler: String,
    /// Lines that the last build printed that began without objects.
    pub first_steps: Option<usize>,
    /// Lines that the last build printed that found objects.
    pub later_steps: Option<usize>,
    /// Bytes on disk.
    pub bytes: u64,
    /// When this was written, by the clock that files bear.
    pub at: Option<SystemTime>,
}

impl TreeState {
    /// The state of a tree; an empty one where nothing was built yet.
    pub fn read(folder: &Path) -> TreeState {
        let text = fs::read_to_string(folder.join(FILE)).unwrap_or_default();
        serde_json::from_str(&text).unwrap_or_default()
    }

    /// Writes the state, with the size of the tree.
    pub fn write(&mut self, folder: &Path) -> Result<()> {
        self.bytes = bytes_below(folder);
        self.at = Some(SystemTime::now());
        let file = folder.join(FILE);
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&file, text).with_context(|| format!("writing {}", file.display()))
    }

    /// Lines that a build may print.
    pub fn steps(&self, is_first: bool) -> Option<usize> {
        if is_first { self.first_steps } else { self.later_steps }
    }

    /// Notes how many lines a build printed.
    pub fn finished(&mut self, is_first: bool, steps: usize) {
        let kept = if is_first { &mut self.first_steps } else { &mut self.later_steps };
        *kept = Some(steps);
    }

    /// Whether the clock was set back since.
    pub fn is_from_the_future(&self) -> bool {
        self.at.is_some_and(|at| at > SystemTime::now() + Duration::from_secs(1))
    }
}

/// Removes the objects that were written in the last minute before the newest one. make makes them again.
pub fn forget_last_minute(objects: &Path) -> Result<()> {
    let mut written: Vec<(SystemTime, PathBuf)> = Vec::new();
    each_file(objects, &mut |path, metadata| {
        written.push((metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH), path.to_path_buf()));
    });
    let Some(newest) = written.iter().map(|(time, _)| *time).max() else { return Ok(()) };
    for (_, path) in written.iter().filter(|(time, _)| *time + DOUBTFUL > newest) {
        fs::remove_file(path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// Bytes that a folder takes on disk.
fn bytes_below(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let mut bytes = 0;
    each_file(folder, &mut |_, metadata| bytes += 512 * metadata.blocks());
    bytes
}

/// Visits all files below a folder that are no folders; what cannot be read is left out.
fn each_file(folder: &Path, visit: &mut impl FnMut(&Path, &fs::Metadata)) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            each_file(&entry.path(), visit);
        } else {
            visit(&entry.path(), &metadata);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::time::{Duration, SystemTime};

    use super::{TreeState, forget_last_minute};

    #[test]
    fn what_was_written_long_before_a_kill_stays() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("fs")).unwrap();
        let killed = SystemTime::now() - Duration::from_secs(9000);
        for (name, before) in
            [("fs/old.o", 61), ("fs/.old.o.cmd", 3600), ("fs/new.o", 0), ("x", 50)]
        {
            let file = File::create(folder.path().join(name)).unwrap();
            file.set_modified(killed - Duration::from_secs(before)).unwrap();
        }
        forget_last_minute(folder.path()).unwrap();
        for (name, stays) in
            [("fs/old.o", true), ("fs/.old.o.cmd", true), ("fs/new.o", false), ("x", false)]
        {
            assert_eq!(folder.path().join(name).exists(), stays, "{name}");
        }
        forget_last_minute(&folder.path().join("nothing")).unwrap();
    }

    #[test]
    fn the_state_of_a_tree_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(TreeState::read(folder.path()), TreeState::default());
        let mut state = TreeState::default();
        state.finished(true, 1500);
        state.finished(false, 20);
        state.write(folder.path()).unwrap();
        let read = TreeState::read(folder.path());
        assert_eq!(read, state);
        assert_eq!((read.steps(true), read.steps(false)), (Some(1500), Some(20)));
        assert!(!read.is_from_the_future());
    }
}
