//! Records that grow, followed without reading again what was read: only the lines that came are parsed, and
//! nothing where nothing came.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex, PoisonError};

use anyhow::Result;
use records::{Opened, Run};

use crate::folder::{Store, id_in_name, is_hidden, read_record};
use crate::lines;
use crate::record_files::{BESIDE, RUNS, places};

/// How far the runs of a record that grows have been read.
#[derive(Debug)]
pub struct ReadSoFar {
    file: Option<FileId>,
    /// Where the runs that were read end in their file.
    end: u64,
}

/// Device and inode of a file.
type FileId = (u64, u64);

/// Opens a record that grows as it is now.
pub fn open_growing(folder: &Path) -> Result<(Opened, ReadSoFar)> {
    let path = folder.join(RUNS);
    let file = fs::symlink_metadata(&path).ok().map(|found| id(&found));
    let read = lines::read(&path, Run::read)?;
    let record = read_record(folder)?;
    let opened = Opened { folder: folder.to_path_buf(), record, runs: read.values.into() };
    Ok((opened, ReadSoFar { file, end: read.end }))
}

impl ReadSoFar {
    /// Adds the runs that have come since then, and only reads those.
    pub fn catch_up(&mut self, opened: &mut Opened) -> Result<()> {
        let path = opened.folder.join(RUNS);
        let now = fs::symlink_metadata(&path).ok();
        let is_same = now.as_ref().map(id) == self.file;
        let length = now.map_or(0, |found| found.len());
        if !is_same || length < self.end {
            (*opened, *self) = open_growing(&opened.folder)?;
            return Ok(());
        }
        if length > self.end {
            let read = lines::read_from(&path, self.end, Run::read)?;
            opened.runs.extend(read.values);
            self.end = read.end;
        }
        opened.record = read_record(&opened.folder)?;
        Ok(())
    }
}

/// The number of whole lines in a record's file of runs. What this process has counted before is not read again.
pub fn count_runs(folder: &Path) -> u32 {
    static COUNTED: LazyLock<Mutex<BTreeMap<FileId, (u64, u32)>>> = LazyLock::new(Mutex::default);
    /// Files whose counts are kept: few records grow at a time.
    const KEPT_MAX: usize = 1000;
    let path = folder.join(RUNS);
    let Ok(found) = fs::symlink_metadata(&path) else { return 0 };
    let mut counted = COUNTED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = counted.get(&id(&found)).copied().filter(|(end, _)| *end <= found.len());
    let (end, runs) = known.unwrap_or_default();
    if end == found.len() {
        return runs;
    }
    let Ok(read) = lines::read_from(&path, end, |_| Ok(())) else { return runs };
    let runs = runs + read.values.len() as u32;
    if counted.len() >= KEPT_MAX {
        counted.clear();
    }
    counted.insert(id(&found), (read.end, runs));
    runs
}

fn id(found: &Metadata) -> FileId {
    (found.dev(), found.ino())
}

/// What tells one state of a record from another, without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordStamp(Vec<Option<FileStamp>>);

/// Inode, length and time of the last change of a file.
type FileStamp = (u64, u64, i64, i64);

/// The state of the record in this folder.
pub fn stamp(folder: &Path) -> RecordStamp {
    let of_file = |name: &&str| {
        let found = fs::symlink_metadata(folder.join(name)).ok()?;
        Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
    };
    RecordStamp(BESIDE.iter().map(of_file).collect())
}

/// Says whether something came, went or grew in a store. It reads no file, and lists only shards that changed.
#[derive(Debug)]
pub struct Watch {
    store: Store,
    shards: BTreeMap<PathBuf, Shard>,
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Shard {
    /// When it last changed, and whether it was listed clearly after that.
    changed: (i64, i64),
    is_settled: bool,
    /// Records in it that grow.
    growing: Vec<(PathBuf, RecordStamp)>,
}

/// A folder that changed this recently may change again without a change of its time.
const RACY_S: i64 = 2;

impl Watch {
    /// Watches a store from its state now.
    pub fn new(store: Store) -> Watch {
        let mut watch = Watch { store, shards: BTreeMap::new() };
        watch.has_changed();
        watch
    }

    /// Whether the store differs from what it was at the last call.
    pub fn has_changed(&mut self) -> bool {
        let now = jiff::Timestamp::now().as_second();
        let paths = self.store.shards().unwrap_or_default();
        let mut shards = BTreeMap::new();
        let mut differs = paths.len() != self.shards.len();
        for path in paths {
            let Ok(found) = fs::symlink_metadata(&path) else { continue };
            let changed = (found.mtime(), found.mtime_nsec());
            let before = self.shards.remove(&path);
            let growing: Vec<PathBuf> = match &before {
                Some(known) if known.changed == changed && known.is_settled => {
                    known.growing.iter().map(|(folder, _)| folder.clone()).collect()
                }
                _ => growing(&path),
            };
            let growing = growing.into_iter().map(|folder| {
                let stamp = stamp(&folder);
                (folder, stamp)
            });
            let is_settled = now - changed.0 > RACY_S;
            let shard = Shard { changed, is_settled, growing: growing.collect() };
            differs |= before.is_none_or(|before| {
                before.changed != shard.changed || before.growing != shard.growing
            });
            shards.insert(path, shard);
        }
        self.shards = shards;
        differs
    }
}

/// The folders of records in a shard that are not finished.
fn growing(shard: &Path) -> Vec<PathBuf> {
    let folders = places(shard).unwrap_or_default().into_iter().filter(|place| place.is_folder);
    let folders = folders.map(|place| place.path);
    folders.filter(|folder| is_hidden(folder) && id_in_name(folder).is_some()).collect()
}
