//! The index: a SQLite file in the user's cache that makes listing fast. It is only a cache: if it is
//! deleted or damaged, it is built again from the folders.
//!
//! Adding, renaming or removing a record's folder changes the modification time of its parent. So
//! comparing 257 times finds the shards to read again, and only new records in them are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use records::Record;
use rusqlite::ffi::{Error, SQLITE_NOTADB};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::{Id, Store, folder};

/// Version of the tables and of their contents. An index of another version is discarded.
const VERSION: i64 = 1;

const TABLES: &str = "
    create table shard (path text primary key, modified_ns integer not null);
    create table record (
        folder text primary key, shard text not null, id text not null, name text not null,
        workloads text not null, host text not null, kernel text not null, state text not null,
        points integer not null, runs integer not null, failed integer not null,
        planned integer not null, modified_ns integer not null
    ) without rowid;
    create index record_by_id on record (id);
    create index record_by_shard on record (shard);";

/// The index of one store.
#[derive(Debug)]
pub struct Index {
    database: Connection,
    store: Store,
}

/// A record in a list.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Listed {
    /// Id of the record.
    pub id: String,
    /// Folder of the record.
    pub folder: PathBuf,
    /// Name of the experiment.
    pub name: String,
    /// Workloads, separated by commas.
    pub workloads: String,
    /// Name of the host.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// `whole` or `partial`.
    pub state: String,
    /// Number of planned points.
    pub points: u32,
    /// Number of finished runs.
    pub runs: u32,
    /// Number of failed runs.
    pub failed: u32,
    /// Number of planned runs.
    pub planned: u32,
}

impl Index {
    /// Opens the store's index in this cache folder and brings it up to date. Without a writable cache,
    /// or while another process writes it for long, the index is built in memory for this call.
    pub fn open(store: &Store, cache: &Path) -> Result<Index> {
        let path = cache.join(index_name(store.root()));
        let refreshed = |database: Connection| {
            let mut index = Index { database, store: store.clone() };
            index.refresh()?;
            Ok(index)
        };
        on_disk(&path)
            .and_then(refreshed)
            .or_else(|error| {
                if !is_useless(&error) {
                    return Err(error);
                }
                let _ = fs::remove_file(&path);
                let _ = fs::remove_file(path.with_extension("sqlite-journal"));
                on_disk(&path).and_then(refreshed)
            })
            .or_else(|_| in_memory().and_then(refreshed))
            .context("opening the index")
    }

    /// At most `limit` records, newest first.
    pub fn newest(&self, limit: usize) -> Result<Vec<Listed>> {
        let mut query = self.database.prepare(
            "select id, folder, name, workloads, host, kernel, state, points, runs, failed, planned
             from record order by id desc limit ?1",
        )?;
        let rows = query.query_map([limit as i64], listed)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// At most 50 records whose id starts with `prefix`, newest first.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<Listed>> {
        let mut query = self.database.prepare(
            "select id, folder, name, workloads, host, kernel, state, points, runs, failed, planned
             from record where substr(id, 1, length(?1)) = ?1 order by id desc limit 50",
        )?;
        let rows = query.query_map([prefix], listed)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of records.
    pub fn count(&self) -> Result<usize> {
        let count: i64 =
            self.database.query_row("select count(*) from record", [], |r| r.get(0))?;
        Ok(count as usize)
    }

    fn refresh(&mut self) -> Result<()> {
        let shards = self.store.shards()?;
        // Two processes take turns: SQLite cannot wait with a transaction that first reads and then
        // writes.
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut known = BTreeSet::new();
        {
            let mut query = transaction.prepare("select path from shard")?;
            for path in query.query_map([], |row| row.get::<_, String>(0))? {
                known.insert(path?);
            }
        }
        for shard in &shards {
            known.remove(&*shard.to_string_lossy());
            refresh_shard(&transaction, shard)?;
        }
        for gone in known {
            transaction.execute("delete from record where shard = ?1", [&gone])?;
            transaction.execute("delete from shard where path = ?1", [&gone])?;
        }
        transaction.commit().context("updating the index")
    }
}

fn listed(row: &rusqlite::Row) -> rusqlite::Result<Listed> {
    Ok(Listed {
        id: row.get(0)?,
        folder: PathBuf::from(row.get::<_, String>(1)?),
        name: row.get(2)?,
        workloads: row.get(3)?,
        host: row.get(4)?,
        kernel: row.get(5)?,
        state: row.get(6)?,
        points: row.get(7)?,
        runs: row.get(8)?,
        failed: row.get(9)?,
        planned: row.get(10)?,
    })
}

/// The name of a store's index, made from the store's path.
fn index_name(root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let readable = root.to_string_lossy().replace('/', "-");
    format!("index{readable}.sqlite")
}

fn on_disk(path: &Path) -> Result<Connection> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let database = Connection::open(path)?;
    database.busy_timeout(std::time::Duration::from_secs(5))?;
    // A cache needs no durability: after a crash it is built again.
    database.pragma_update(None, "synchronous", "off")?;
    with_tables(database)
}

fn in_memory() -> Result<Connection> {
    with_tables(Connection::open_in_memory()?)
}

fn with_tables(mut database: Connection) -> Result<Connection> {
    // Two processes that find it new take turns, so that only one creates the tables.
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let version: i64 = transaction.query_row("pragma user_version", [], |row| row.get(0))?;
    match version {
        VERSION => (),
        0 => transaction.execute_batch(&format!("{TABLES} pragma user_version = {VERSION};"))?,
        // The database is not ours.
        _ => return Err(rusqlite::Error::SqliteFailure(Error::new(SQLITE_NOTADB), None).into()),
    }
    transaction.commit()?;
    Ok(database)
}

/// Whether the index is damaged or of another version, so that it can be removed. An index that is
/// merely busy cannot: another process may be filling it.
fn is_useless(error: &anyhow::Error) -> bool {
    let code = error.downcast_ref().and_then(rusqlite::Error::sqlite_error_code);
    matches!(code, Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt))
}

/// A folder that changed this recently may change again without a change of its modification time.
const RACY_NS: i64 = 2_000_000_000;

fn refresh_shard(database: &Connection, shard: &Path) -> Result<()> {
    let Ok(metadata) = fs::metadata(shard) else {
        return Ok(());
    };
    let path = shard.to_string_lossy();
    let modified_ns = metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec();
    let mut query = database.prepare_cached("select modified_ns from shard where path = ?1")?;
    let seen: Option<i64> = query.query_row([&path], |row| row.get(0)).ok();
    if seen == Some(modified_ns) {
        return Ok(());
    }
    let all_read = read_shard(database, shard)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_nanos() as i64);
    let trusted = if all_read && now - modified_ns > RACY_NS { modified_ns } else { 0 };
    database.execute("insert or replace into shard values (?1, ?2)", params![path, trusted])?;
    Ok(())
}

/// Brings the rows of one shard up to date: opens new records, removes those that are gone. Returns
/// whether all records could be read: the files of a record that is being copied may still be missing,
/// and their arrival does not change the shard's modification time.
fn read_shard(database: &Connection, shard: &Path) -> Result<bool> {
    // An unreadable shard keeps its rows and does not affect the others.
    let Ok(entries) = folder::entries(shard) else {
        return Ok(false);
    };
    let shard_text = shard.to_string_lossy();
    let mut known = BTreeMap::new();
    let mut query =
        database.prepare_cached("select folder, modified_ns from record where shard = ?1")?;
    for row in
        query.query_map([&shard_text], |r| Ok((r.get::<_, String>(0)?, r.get::<_, i64>(1)?)))?
    {
        let (folder, modified_ns) = row?;
        known.insert(folder, modified_ns);
    }
    let mut all_read = true;
    for (name, folder) in entries {
        if Id::read(&name).is_none() {
            continue;
        }
        let text = folder.to_string_lossy().into_owned();
        let Some(modified_ns) = folder::record_modified_ns(&folder) else {
            all_read = false;
            continue;
        };
        // Known, and not resumed since then.
        if known.remove(&text) == Some(modified_ns) {
            continue;
        }
        // A folder without a readable record is not listed; `show` reports the reason.
        match folder::read_record(&folder) {
            Ok(record) => insert(database, &shard_text, &text, &record, modified_ns)?,
            Err(_) => all_read = false,
        }
    }
    for folder in known.keys() {
        database.execute("delete from record where folder = ?1", [folder])?;
    }
    Ok(all_read)
}

fn insert(
    database: &Connection,
    shard: &str,
    folder: &str,
    record: &Record,
    modified_ns: i64,
) -> Result<()> {
    let mut workloads: Vec<&str> = Vec::new();
    for point in &record.points {
        if !workloads.contains(&point.workload.as_str()) {
            workloads.push(&point.workload);
        }
    }
    let mut insert = database.prepare_cached(
        "insert or replace into record
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)",
    )?;
    insert.execute(params![
        folder,
        shard,
        record.id,
        record.experiment.name,
        workloads.join(", "),
        record.host.hostname.as_deref().unwrap_or("?"),
        record.host.kernel_release.as_deref().unwrap_or("?"),
        record.state.name(),
        record.points.len() as i64,
        record.runs_finished,
        record.runs_failed,
        record.runs_planned(),
        modified_ns,
    ])?;
    Ok(())
}
