//! The index: a file in the user's cache that makes listing fast. It is only a cache: if it is deleted or damaged,
//! it is built again from the folders.
//!
//!     {"index":4,"root":"/home/u/records"}                the format, and the store
//!     {"shard":"7f","modified_ns":…,"records":[…],"others":[…]}      one line a shard
//!
//! Adding, renaming or removing a record's folder changes the modification time of its parent. So
//! comparing 257 times finds the shards to read again, and only new records in them are opened. If any shard
//! has changed, the file is replaced as a whole: of two processes that do so at once, the last one wins, and
//! the next call reads again what the other one had found.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use host::{HeldFolder, Limit, TrustedUsers};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::listed::{Listed, false_shard, look};
use crate::record_files::{Place, places};
use crate::{Store, folder, lines};

/// Version of the file's format. An index of another version is discarded.
const VERSION: u32 = 4;

/// An index file: some 400 bytes a record.
const INDEX_LIMIT: Limit = Limit { bytes: 4 << 30, what: "an index of records" };

/// At most so many records are found by the beginning of an id.
const WITH_PREFIX_MAX: usize = 50;

/// The first line of an index.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    index: u32,
    /// The store's folder. Two stores may have one file name.
    root: String,
}

/// The records of one shard, as they were when its folder was last read.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Shard {
    /// Name of the folder in the store; empty for the store's own folder.
    shard: String,
    /// When the folder had last changed; 0 if it must be read again.
    modified_ns: i64,
    /// The finished records, each with the time at which its `record.json` had last changed. Their `folder` is the
    /// name in the shard.
    records: Vec<(i64, Listed)>,
    /// Names of the folders without a finished record that can be read.
    others: Vec<String>,
}

/// The index of one store.
#[derive(Debug)]
pub struct Index {
    shards: Vec<Shard>,
    store: Store,
    /// Absent if the cache cannot be written to.
    file: Option<IndexFile>,
}

/// The file of an index.
#[derive(Debug)]
struct IndexFile {
    folder: HeldFolder,
    name: String,
    header: Header,
}

impl IndexFile {
    /// The file of a store in this cache folder; `None` if it cannot be written to.
    fn of(store: &Store, cache: &Path) -> Option<IndexFile> {
        let root = store.root().canonicalize().unwrap_or_else(|_| store.root().to_path_buf());
        let header = Header { index: VERSION, root: format!("{root:?}") };
        let name = format!("index{}.ndjson", root.to_string_lossy().replace('/', "-"));
        private(cache).ok().map(|folder| IndexFile { folder, name, header })
    }

    /// Replaces the file. Without it, the next call reads the records again.
    fn put(&self, shards: &[Shard]) -> Result<()> {
        let mut text = lines::text(&[&self.header])?;
        text.extend(lines::text(shards)?);
        self.folder.put(&self.name, &text)?;
        Ok(())
    }
}

/// Which records to list; an absent field lets all through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Name of a workload or command that the record has.
    pub workload: Option<String>,
    /// The record's label.
    pub label: Option<String>,
    /// Name of a host that made runs.
    pub host: Option<String>,
    /// The record started then or later.
    pub since: Option<Timestamp>,
    /// The record started before then.
    pub until: Option<Timestamp>,
}

impl Filter {
    fn matches(&self, listed: &Listed) -> bool {
        let is = |wanted: &Option<String>, value: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == value)
        };
        // A name may hold the separator.
        let has = |wanted: &Option<String>, names: &str| {
            let among = |name| format!(", {names}, ").contains(&format!(", {name}, "));
            wanted.as_ref().is_none_or(among)
        };
        let started = started(listed);
        has(&self.workload, &listed.workloads)
            && is(&self.label, &listed.label)
            && has(&self.host, &listed.host)
            && self.since.is_none_or(|since| started >= since)
            && self.until.is_none_or(|until| started < until)
    }
}

/// When a record started, or the earliest time of all.
fn started(listed: &Listed) -> Timestamp {
    listed.started.unwrap_or(Timestamp::UNIX_EPOCH)
}

impl RecordName {
    /// What it is: the experiment, with its label.
    pub fn about(&self) -> String {
        if self.label.is_empty() {
            self.name.clone()
        } else {
            format!("{}: {}", self.label, self.name)
        }
    }
}

impl Index {
    /// Opens the store's index in this cache folder and brings it up to date. Without a writable cache, it serves
    /// this call only.
    pub fn open(store: &Store, cache: &Path) -> Result<Index> {
        let file = IndexFile::of(store, cache);
        let known = file.as_ref().and_then(read);
        let is_new = known.is_none();
        let (shards, has_changed) =
            refreshed(store, known.unwrap_or_default()).context("listing records")?;
        let index = Index { shards, store: store.clone(), file };
        if is_new || has_changed {
            index.keep();
        }
        Ok(index)
    }

    fn keep(&self) {
        if let Some(file) = &self.file {
            let _ = file.put(&self.shards);
        }
    }

    /// Adds to listed records what was found in them, which `find` works out once for each.
    pub fn add_results(&mut self, listed: &mut [Listed], find: impl Fn(&Listed) -> String) {
        let mut has_changed = false;
        for one in listed.iter_mut().filter(|one| one.result.is_empty()) {
            one.result = find(one);
            let known = self.shards.iter_mut().flat_map(|shard| &mut shard.records);
            for (_, known) in known.filter(|(_, known)| known.id == one.id) {
                has_changed |= !one.result.is_empty();
                known.result = one.result.clone();
            }
        }
        if has_changed {
            self.keep();
        }
    }

    /// At most `limit` records, newest first.
    pub fn newest(&self, limit: usize) -> Vec<Listed> {
        self.matching(&Filter::default(), limit)
    }

    /// At most `limit` records that a filter lets through, newest first.
    pub fn matching(&self, filter: &Filter, limit: usize) -> Vec<Listed> {
        self.newest_of(|listed| filter.matches(listed), limit)
    }

    /// At most 50 records whose id starts with `prefix`, newest first.
    pub fn with_prefix(&self, prefix: &str) -> Vec<Listed> {
        self.newest_of(|listed| listed.id.starts_with(prefix), WITH_PREFIX_MAX)
    }

    /// The number of records that a filter lets through.
    pub fn count(&self, filter: &Filter) -> usize {
        self.records().filter(|(_, listed)| filter.matches(listed)).count()
    }

    /// The folders without a finished record that can be read, newest first, each with the reason.
    pub fn others(&self) -> Result<Vec<Listed>> {
        let others = self.shards.iter().flat_map(|shard| {
            shard.others.iter().filter_map(|name| look(&self.path(shard).join(name)))
        });
        let mut others: Vec<Listed> = others.collect();
        others.extend(self.store.false_shards()?.iter().map(|path| false_shard(path)));
        others.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(others)
    }

    fn newest_of(&self, matches: impl Fn(&Listed) -> bool, limit: usize) -> Vec<Listed> {
        let mut found: Vec<_> = self.records().filter(|(_, listed)| matches(listed)).collect();
        found.sort_by_cached_key(|(_, listed)| Reverse((started(listed), listed.id.as_str())));
        let full = |(shard, listed): (&Shard, &Listed)| Listed {
            folder: self.path(shard).join(&listed.folder),
            ..listed.clone()
        };
        found.into_iter().take(limit).map(full).collect()
    }

    /// The finished records, each with its shard.
    fn records(&self) -> impl Iterator<Item = (&Shard, &Listed)> {
        self.shards.iter().flat_map(|shard| shard.records.iter().map(move |one| (shard, &one.1)))
    }

    fn path(&self, shard: &Shard) -> PathBuf {
        shard_path(&self.store, &shard.shard)
    }
}

/// What completions and the like need of a record.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct RecordName {
    pub id: String,
    /// Folder of the record.
    pub folder: PathBuf,
    /// Name of the experiment.
    pub name: String,
    /// The user's name for it.
    #[serde(default)]
    pub label: String,
    /// Names of the hosts that made runs, separated by commas.
    pub host: String,
}

/// A line of the index, of which the names alone are read.
#[derive(Deserialize)]
struct NamesOfShard {
    shard: String,
    modified_ns: i64,
    records: Vec<(i64, RecordName)>,
}

/// The names of all finished records. It takes a third of the time of an [`Index`] if that is up to date.
pub fn names(store: &Store, cache: &Path) -> Result<Vec<RecordName>> {
    if let Some(names) = indexed_names(store, cache) {
        return Ok(names);
    }
    let name = |listed: Listed| {
        let Listed { id, folder, name, label, host, .. } = listed;
        RecordName { id, folder, name, label, host }
    };
    Ok(Index::open(store, cache)?.newest(usize::MAX).into_iter().map(name).collect())
}

/// The names in the index; `None` if it is missing or any shard has changed since.
fn indexed_names(store: &Store, cache: &Path) -> Option<Vec<RecordName>> {
    let file = IndexFile::of(store, cache)?;
    let text = file.folder.read_text(&file.name, INDEX_LIMIT).ok()??;
    let mut lines = text.lines();
    let header: Header = serde_json::from_str(lines.next()?).ok()?;
    let mut shards: BTreeMap<PathBuf, NamesOfShard> = BTreeMap::new();
    for line in lines {
        let shard: NamesOfShard = serde_json::from_str(line).ok()?;
        shards.insert(shard_path(store, &shard.shard), shard);
    }
    let mut names = Vec::new();
    for path in store.shards().ok()? {
        let mut shard = shards.remove(&path)?;
        if modified_ns(&fs::metadata(&path).ok()?) != shard.modified_ns {
            return None;
        }
        names.extend(shard.records.drain(..).map(|(_, mut name)| {
            name.folder = path.join(&name.folder);
            name
        }));
    }
    (header == file.header && shards.is_empty()).then_some(names)
}

fn shard_path(store: &Store, shard: &str) -> PathBuf {
    match shard {
        "" => store.root().to_path_buf(),
        name => store.root().join(name),
    }
}

fn modified_ns(metadata: &fs::Metadata) -> i64 {
    metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec()
}

/// Holds the folder of the index. Refuses one in which others could put a link to a file of theirs or ours.
fn private(folder: &Path) -> Result<HeldFolder> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    ensure!(found.is_dir() && TrustedUsers::current().contains(found.uid()), "it is not ours");
    if found.mode() & 0o022 != 0 {
        // Made by an earlier knee under a umask that lets a group write.
        fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o755))?;
    }
    HeldFolder::open(folder)
}

/// The shards in an index; `None` if it is missing, damaged, or of another version or store.
fn read(file: &IndexFile) -> Option<Vec<Shard>> {
    let text = file.folder.read_text(&file.name, INDEX_LIMIT).ok()??;
    let mut lines = text.lines();
    let found: Header = serde_json::from_str(lines.next()?).ok()?;
    if found != file.header {
        return None;
    }
    lines.map(|line| serde_json::from_str(line).ok()).collect()
}

/// The shards of a store as they are now, of which those that have changed are read again, and whether they differ from
/// those known.
fn refreshed(store: &Store, known: Vec<Shard>) -> Result<(Vec<Shard>, bool)> {
    let mut known: BTreeMap<String, Shard> =
        known.into_iter().map(|shard| (shard.shard.clone(), shard)).collect();
    let mut shards = Vec::new();
    let mut has_changed = false;
    for path in store.shards()? {
        let name = path.strip_prefix(store.root())?.to_string_lossy().into_owned();
        let before = known.remove(&name);
        let Ok(metadata) = fs::metadata(&path) else {
            shards.extend(before);
            continue;
        };
        let modified_ns = modified_ns(&metadata);
        let before = before.unwrap_or(Shard { shard: name, ..Shard::default() });
        if before.modified_ns == modified_ns {
            shards.push(before);
            continue;
        }
        let shard = read_shard(&path, modified_ns, &before);
        has_changed |= shard != before;
        shards.push(shard);
    }
    Ok((shards, has_changed || !known.is_empty()))
}

/// A folder that changed this recently may change again without a change of its modification time.
const RACY_NS: i64 = 2_000_000_000;

/// Brings a shard up to date: opens new records, forgets those that are gone. It is read again next time unless all
/// records could be read: the files of a record that is being copied may still be missing, and their arrival
/// does not change the shard's modification time.
fn read_shard(path: &Path, modified_ns: i64, before: &Shard) -> Shard {
    // An unreadable shard keeps its records and does not affect the others.
    let Ok(places) = places(path) else { return Shard { modified_ns: 0, ..before.clone() } };
    let known: BTreeMap<&Path, &(i64, Listed)> =
        before.records.iter().map(|known| (&*known.1.folder, known)).collect();
    let mut shard = Shard { shard: before.shard.clone(), ..Shard::default() };
    let mut all_read = true;
    for Place { name, path: folder, is_folder } in places {
        if folder::id_in_name(&folder).is_none() {
            continue;
        }
        if !is_folder || folder::is_hidden(&folder) {
            shard.others.push(name);
            continue;
        }
        let Some(record_ns) = folder::record_modified_ns(&folder) else {
            shard.others.push(name);
            all_read = false;
            continue;
        };
        // Known, and not resumed since then.
        let known = known.get(Path::new(&name)).filter(|(then, _)| *then == record_ns);
        if let Some(known) = known {
            shard.records.push((*known).clone());
        } else if let Ok(record) = folder::read_record(&folder) {
            let listed = Listed::from_record(&folder, &record);
            shard.records.push((record_ns, Listed { folder: name.into(), ..listed }));
        } else {
            shard.others.push(name);
            all_read = false;
        }
    }
    shard.records.sort_by(|(_, a), (_, b)| a.folder.cmp(&b.folder));
    shard.others.sort();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    shard.modified_ns = if all_read && now - modified_ns > RACY_NS { modified_ns } else { 0 };
    shard
}
