//! The index: a SQLite file in the user's cache that makes listing fast. It is only a cache: if it is
//! deleted or damaged, it is built again from the folders.
//!
//! Adding, renaming or removing a record's folder changes the modification time of its parent. So
//! comparing 257 times finds the shards to read again, and only new records in them are opened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use host::TrustedUsers;
use jiff::Timestamp;
use rusqlite::ffi::{Error, SQLITE_NOTADB};
use rusqlite::{Connection, ErrorCode, TransactionBehavior, params};

use crate::listed::{Listed, false_shard, look};
use crate::record_files::{Place, places};
use crate::{Store, folder};

/// Version of the tables and of their contents. An index of another version is discarded.
const VERSION: i64 = 2;

const TABLES: &str = "
    create table shard (path text primary key, modified_ns integer not null);
    create table record (
        folder text primary key, shard text not null, id text not null, name text not null,
        workloads text not null, host text not null, kernel text not null, state text not null,
        points integer not null, runs integer not null, failed integer not null,
        planned integer not null, label text not null, note text not null,
        started_ns integer not null, bytes integer not null, modified_ns integer not null
    ) without rowid;
    create index record_by_id on record (id);
    create index record_by_label on record (label);
    create index record_by_start on record (started_ns, id);
    create index record_by_shard on record (shard);
    create table other (folder text primary key, shard text not null) without rowid;";

/// The columns of a [`Listed`], in the order of its fields.
const COLUMNS: &str = "id, folder, name, workloads, host, kernel, state, points, runs, failed, planned, \
                       label, note, started_ns, bytes";

/// The condition of a [`Filter`], whose fields are the parameters 1 to 5.
const MATCHES: &str = "(?1 is null or instr(', ' || workloads || ', ', ', ' || ?1 || ', ') > 0)
    and (?2 is null or label = ?2) and (?3 is null or host = ?3)
    and (?4 is null or started_ns >= ?4) and (?5 is null or started_ns < ?5)";

/// The index of one store.
#[derive(Debug)]
pub struct Index {
    database: Connection,
    store: Store,
}

/// Which records to list; an absent field lets all through.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Name of a workload or command that the record has.
    pub workload: Option<String>,
    /// The record's label.
    pub label: Option<String>,
    /// Name of the host.
    pub host: Option<String>,
    /// The record started then or later.
    pub since: Option<Timestamp>,
    /// The record started before then.
    pub until: Option<Timestamp>,
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
        self.matching(&Filter::default(), limit)
    }

    /// At most `limit` records that a filter lets through, newest first.
    pub fn matching(&self, filter: &Filter, limit: usize) -> Result<Vec<Listed>> {
        let mut query = self.database.prepare(&format!(
            "select {COLUMNS} from record where {MATCHES}
             order by started_ns desc, id desc limit ?6"
        ))?;
        let (since, until) = (nanoseconds(filter.since), nanoseconds(filter.until));
        let Filter { workload, label, host, .. } = filter;
        let rows =
            query.query_map(params![workload, label, host, since, until, limit as i64], listed)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// At most 50 records whose id starts with `prefix`, newest first.
    pub fn with_prefix(&self, prefix: &str) -> Result<Vec<Listed>> {
        let mut query = self.database.prepare(&format!(
            "select {COLUMNS} from record where substr(id, 1, length(?1)) = ?1
             order by started_ns desc, id desc limit 50"
        ))?;
        let rows = query.query_map([prefix], listed)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// The number of records that a filter lets through.
    pub fn count(&self, filter: &Filter) -> Result<usize> {
        let (since, until) = (nanoseconds(filter.since), nanoseconds(filter.until));
        let Filter { workload, label, host, .. } = filter;
        let count: i64 = self.database.query_row(
            &format!("select count(*) from record where {MATCHES}"),
            params![workload, label, host, since, until],
            |row| row.get(0),
        )?;
        Ok(count as usize)
    }

    /// The folders without a finished record that can be read, newest first, each with the reason.
    pub fn others(&self) -> Result<Vec<Listed>> {
        let mut query = self.database.prepare("select folder from other")?;
        let folders = query.query_map([], |row| row.get::<_, String>(0))?;
        let folders = folders.collect::<Result<Vec<_>, _>>()?;
        let mut others: Vec<Listed> =
            folders.iter().filter_map(|folder| look(Path::new(folder))).collect();
        others.extend(self.store.false_shards()?.iter().map(|path| false_shard(path)));
        others.sort_by(|a, b| b.id.cmp(&a.id));
        Ok(others)
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
            transaction.execute("delete from other where shard = ?1", [&gone])?;
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
        label: row.get(11)?,
        note: row.get(12)?,
        started: Timestamp::from_nanosecond(row.get::<_, i64>(13)?.into()).ok(),
        bytes: row.get::<_, i64>(14)? as u64,
        reason: String::new(),
    })
}

/// A time as it stands in the table.
fn nanoseconds(time: Option<Timestamp>) -> Option<i64> {
    time.map(|time| time.as_nanosecond().clamp(i64::MIN.into(), i64::MAX.into()) as i64)
}

/// The name of a store's index, made from the store's path.
fn index_name(root: &Path) -> String {
    let root = root.canonicalize().unwrap_or_else(|_| root.to_path_buf());
    let readable = root.to_string_lossy().replace('/', "-");
    format!("index{readable}.sqlite")
}

fn on_disk(path: &Path) -> Result<Connection> {
    if let Some(folder) = path.parent() {
        make_private(folder)?;
    }
    let database = Connection::open(path)?;
    database.busy_timeout(std::time::Duration::from_secs(5))?;
    // A cache needs no durability: after a crash it is built again.
    database.pragma_update(None, "synchronous", "off")?;
    with_tables(database)
}

/// Makes the folder of the index. Refuses one in which others could put a link to a file of theirs or ours.
fn make_private(folder: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let found = fs::symlink_metadata(folder)?;
    ensure!(found.is_dir() && TrustedUsers::current().contains(found.uid()), "it is not ours");
    if found.mode() & 0o022 != 0 {
        // Made by an earlier knee under a umask that lets a group write.
        fs::set_permissions(folder, Permissions::from_mode(found.mode() & 0o755))?;
    }
    Ok(())
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
    let Ok(places) = places(shard) else {
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
    database.execute("delete from other where shard = ?1", [&shard_text])?;
    let mut other = database.prepare_cached("insert into other values (?1, ?2)")?;
    for Place { path: folder, is_folder, .. } in places {
        if folder::id_in_name(&folder).is_none() {
            continue;
        }
        let text = folder.to_string_lossy().into_owned();
        if !is_folder || folder::is_hidden(&folder) {
            other.execute([&text, &*shard_text])?;
            continue;
        }
        let Some(modified_ns) = folder::record_modified_ns(&folder) else {
            other.execute([&text, &*shard_text])?;
            all_read = false;
            continue;
        };
        // Known, and not resumed since then.
        if known.remove(&text) == Some(modified_ns) {
            continue;
        }
        match folder::read_record(&folder) {
            Ok(record) => {
                let listed = Listed::from_record(&folder, &record);
                insert(database, &shard_text, &listed, modified_ns)?;
            }
            Err(_) => {
                other.execute([&text, &*shard_text])?;
                all_read = false;
            }
        }
    }
    for folder in known.keys() {
        database.execute("delete from record where folder = ?1", [folder])?;
    }
    Ok(all_read)
}

fn insert(database: &Connection, shard: &str, listed: &Listed, modified_ns: i64) -> Result<()> {
    let mut insert = database.prepare_cached(&format!(
        "insert or replace into record ({COLUMNS}, shard, modified_ns)
         values (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)"
    ))?;
    insert.execute(params![
        listed.id,
        listed.folder.to_string_lossy(),
        listed.name,
        listed.workloads,
        listed.host,
        listed.kernel,
        listed.state,
        listed.points,
        listed.runs,
        listed.failed,
        listed.planned,
        listed.label,
        listed.note,
        nanoseconds(listed.started).unwrap_or(0),
        listed.bytes as i64,
        shard,
        modified_ns,
    ])?;
    Ok(())
}
