//! Leftovers: directories that a killed knee could not remove. Before a run makes one, its
//! path is written to a journal that the run holds a lock on; a journal whose lock is free
//! belongs to a dead knee, and the next start removes what it names.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The journal of this process.
pub struct Journal {
    path: PathBuf,
    file: File,
    directories: Vec<PathBuf>,
}

impl Journal {
    /// A journal for this process, after the dead ones' leftovers are removed.
    pub fn open() -> Result<Journal> {
        let folder = folder();
        fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        sweep(&folder)?;
        let path = folder.join(format!("{}.journal", std::process::id()));
        // Locked before it has the name by which others find it.
        let beside = path.with_extension("new");
        let create = || {
            let file = File::create(&beside)?;
            file.try_lock()?;
            fs::rename(&beside, &path)?;
            io::Result::Ok(file)
        };
        let file = create().with_context(|| format!("creating {}", path.display()))?;
        Ok(Journal { path, file, directories: Vec::new() })
    }

    /// A directory of our own in `parent`, for scratch; removed by [`Journal::close`].
    pub fn directory(&mut self, parent: &Path, name: &str) -> Result<PathBuf> {
        let parent = parent
            .canonicalize()
            .with_context(|| format!("looking for the directory {}", parent.display()))?;
        let path = parent.join(format!(".knee-{name}"));
        if self.directories.contains(&path) {
            return Ok(path);
        }
        writeln!(self.file, "{}", path.display())
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("writing {}", self.path.display()))?;
        fs::create_dir(&path).with_context(|| {
            format!("creating a directory in {}: choose another --dir", parent.display())
        })?;
        self.directories.push(path.clone());
        Ok(path)
    }

    /// Removes all directories, then the journal.
    pub fn close(self) -> Result<()> {
        for directory in &self.directories {
            remove(directory)?;
        }
        fs::remove_file(&self.path).with_context(|| format!("removing {}", self.path.display()))
    }
}

/// Journals lie in the user's state folder, apart by host, since homes may be shared.
fn folder() -> PathBuf {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    crate::paths::state().join(host.trim())
}

/// Removes what dead processes left.
fn sweep(folder: &Path) -> Result<()> {
    let entries = fs::read_dir(folder).with_context(|| format!("listing {}", folder.display()))?;
    for entry in entries.flatten() {
        let path = entry.path();
        let Ok(file) = File::open(&path) else { continue };
        if path.extension().is_none_or(|e| e != "journal") || file.try_lock().is_err() {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap_or_default();
        for directory in text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n')) {
            let directory = Path::new(directory);
            // Only what has a name that we give.
            let name = directory.file_name().and_then(|n| n.to_str()).unwrap_or_default();
            if name.starts_with(".knee-") && directory.is_dir() {
                remove(directory)?;
                eprintln!("removed {}, left by a knee that was killed", directory.display());
            }
        }
        fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

fn remove(directory: &Path) -> Result<()> {
    match fs::remove_dir_all(directory) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("removing {}", directory.display()))
        }
        _ => Ok(()),
    }
}
