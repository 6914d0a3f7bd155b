//! The files of one record's folder, found by its descriptor: the record's own files and its locks, and how
//! they are removed. Whoever may write to the store may have put anything in the place of one of them.

use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::durable::sync_folder;
use host::{HeldFolder, Limit};
use records::{Record, Seal};

pub const PLAN: &str = "plan.json";
pub const RECORD: &str = "record.json";
pub const RUNS: &str = "runs.ndjson";
pub const SAMPLES_GROWING: &str = "samples.ndjson";
pub const SAMPLES: &str = "samples.parquet";
/// Exists only if there are profiles.
pub const PROFILES: &str = "looks.ndjson";
/// Exists only if runs were made in virtual machines.
pub const BOOTS: &str = "boots.ndjson";

/// What runs left, beside the record itself.
pub const RESULTS: &[&str] = &[RUNS, PROFILES, BOOTS, SAMPLES_GROWING, SAMPLES];

/// All files that what a record says is read from, but for its samples.
pub const BESIDE: [&str; 5] = [RECORD, PLAN, RUNS, PROFILES, BOOTS];

/// Names under which files are written before they are renamed into place.
pub const TEMPORARY: [&str; 4] = ["plan.tmp", "record.tmp", "runs.tmp", "samples.tmp"];

/// A record.json or plan.json.
pub const RECORD_LIMIT: Limit = Limit { bytes: 256 << 20, what: "a record" };

/// A file of runs, samples, profiles or boots: millions of runs.
pub const RESULTS_LIMIT: Limit = Limit { bytes: 16 << 30, what: "a file of a record" };

/// What a lock shows.
pub enum Lock {
    /// There is no file to lock.
    Missing,
    /// Another process holds it, or moved the file before it was locked.
    Busy,
    Held(File),
}

/// Opens and locks a file.
pub fn lock(folder: &HeldFolder, name: &str) -> Result<Lock> {
    // Over NFS only a file that is open for writing can be locked.
    let Some(file) = folder.open_to_change(name)? else { return Ok(Lock::Missing) };
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Ok(Lock::Busy),
        Err(TryLockError::Error(e)) => {
            return Err(e)
                .with_context(|| format!("locking {}", folder.path().join(name).display()));
        }
    }
    let locked = file.metadata()?;
    let current = folder.look(name)?.map(|found| (found.st_dev, found.st_ino));
    let is_current = current == Some((locked.dev(), locked.ino()));
    Ok(if is_current { Lock::Held(file) } else { Lock::Busy })
}

/// Locks the `record.json` in a folder that is to be renamed. The plan's lock is not enough: a process
/// that resumes the record writes a plan of its own.
pub fn lock_record(folder: &HeldFolder) -> Result<File> {
    let path = folder.path().display();
    match lock(folder, RECORD)? {
        Lock::Held(file) => Ok(file),
        Lock::Busy => anyhow::bail!("{path}: another knee is finishing or resuming it"),
        Lock::Missing => anyhow::bail!("{path} has no {RECORD}"),
    }
}

/// Writes the plan and locks it. The lock is held before the file gets its name.
pub fn write_plan(folder: &HeldFolder, record: &Record) -> Result<File> {
    let beside = "plan.tmp";
    let text = serde_json::to_string_pretty(record)?;
    let write = || -> Result<File> {
        folder.remove(beside)?;
        let mut file = folder.create_new(beside)?;
        file.try_lock().map_err(io::Error::from)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        folder.rename(beside, PLAN)?;
        Ok(file)
    };
    let lock = write().with_context(|| {
        format!("writing {}/{PLAN}, {} KiB", folder.path().display(), text.len().div_ceil(1024))
    })?;
    folder.sync()?;
    Ok(lock)
}

/// Length and hash of a file of results.
pub fn seal(folder: &HeldFolder, name: &str) -> Result<Seal> {
    let none = || format!("{} is missing", folder.path().join(name).display());
    Seal::for_open(folder.open_file(name, RESULTS_LIMIT)?.with_context(none)?)
}

pub fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == host::paths::user()
}

/// Whether a folder is of this user.
pub fn is_our_folder(folder: &HeldFolder) -> bool {
    folder.stat().is_ok_and(|found| found.st_uid == host::paths::user())
}

/// Holds the folder of a shard, made with its missing ancestors so that they survive a crash of the host.
pub fn create_durably(root: &Path, shard: &str) -> Result<HeldFolder> {
    let missing = root.ancestors().filter(|folder| !folder.exists()).count();
    let held = HeldFolder::create(root)?;
    let shard = held.create_folder(shard)?;
    // Always ROOT and its parent: the process that created the shard may have died before this. An older
    // folder may be unreadable; it does not need flushing.
    let _ = held.sync();
    for above in root.canonicalize()?.ancestors().skip(1).take(missing.max(1)) {
        let _ = sync_folder(above);
    }
    Ok(shard)
}

/// Removes all that knee writes into a record's folder, the record first: a folder without it is no record.
/// Removes the folder too unless it holds other files; returns whether it did.
pub fn remove_record(shard: &HeldFolder, folder: &HeldFolder) -> Result<bool> {
    remove_folder(shard, folder, &[&[RECORD, PLAN], RESULTS, &TEMPORARY[..]].concat())
}

/// Removes these files from a folder.
pub fn remove(folder: &HeldFolder, names: &[&str]) -> Result<()> {
    names.iter().try_for_each(|name| folder.remove(name).map(drop))
}

/// Removes these files, and the folder itself unless it holds other files; returns whether it is gone.
pub fn remove_folder(shard: &HeldFolder, folder: &HeldFolder, names: &[&str]) -> Result<bool> {
    remove(folder, names)?;
    let name = folder.path().file_name().context("a record's folder has a name")?;
    // Another folder may have taken the name.
    let is_same = shard.look(name)?.is_none_or(|found| {
        folder.stat().is_ok_and(|held| (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino))
    });
    ensure!(is_same, "{} was replaced by another folder, which stays", folder.path().display());
    shard.remove_empty_folder(name)?;
    Ok(shard.look(name)?.is_none())
}

/// What has a name in a shard and is no file: the folder of a record, or a link in its place.
pub struct Place {
    pub name: String,
    pub path: PathBuf,
    pub is_folder: bool,
}

/// The places of records in a folder; none if there is no such folder.
pub fn places(folder: &Path) -> Result<Vec<Place>> {
    let Some(held) = HeldFolder::open_if_there(folder)? else { return Ok(Vec::new()) };
    let places = held.list()?.into_iter().filter(|entry| !entry.is_file()).filter_map(|entry| {
        let name = entry.name.to_str()?.to_string();
        Some(Place { path: folder.join(&name), name, is_folder: entry.is_folder() })
    });
    Ok(places.collect())
}

/// When a file was last changed, by its path and not by where that leads.
pub fn modified(path: &Path) -> io::Result<std::time::SystemTime> {
    fs::symlink_metadata(path)?.modified()
}
