//! Where bisections are kept: a folder for each in the store of records, and one for its builds in the cache.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use host::durable::Seal;
use host::{paths, random, unknown_of};
use jiff::ToSpan;
use setup::foreign::Foreign;
use setup::{own_file, removal};
use store::{Id, Store};

use crate::builds_lock::{BuildsLock, is_unused};

/// The folder of all bisections, in the store.
const BISECTIONS: &str = "bisections";

/// The log in the folder of a bisection.
const LOG: &str = "log.ndjson";

/// What the names of folders of gates begin with.
const GATE: &str = "gate-";

/// A bisection on disk.
#[derive(Clone, Debug)]
pub struct Bisection {
    pub id: String,
    /// The folder with the log, the records and the output of builds.
    pub folder: PathBuf,
}

impl Bisection {
    /// Makes the folder of a new bisection. Its id follows those of all others, even if the clock was set back.
    pub fn new(store: &Store) -> Result<Bisection> {
        let newest = all(store).pop().and_then(|newest| begun(&newest.id));
        let after = newest.and_then(|time| time.checked_add(1.second()).ok());
        let now = jiff::Timestamp::now();
        let time = after.map_or(now, |after| now.max(after));
        let id = Id::new(time, random() as u32).as_str().to_string();
        let folder = store.root().join(BISECTIONS).join(&id);
        create(&folder)?;
        create(&folder.join("logs"))?;
        Ok(Bisection { id, folder })
    }

    /// The folder that gates of one repository share which build alike, so that the next one finds the builds of this
    /// one. Repositories are told apart by where they lie: the address of a remote may hold a token that changes, the
    /// first commit of a shallow clone is where it was cut, and clones side by side are gated side by side.
    pub fn of_gate(
        store: &Store,
        repository: &Path,
        kind: &str,
    ) -> Result<(Bisection, BuildsLock)> {
        let gate = format!("{repository:?} {kind}");
        Bisection::shared(store, GATE, &gate, "another gate of these builds runs")
    }

    /// The folder of the builds of a watched line.
    pub fn of_watch(store: &Store, line: &str) -> Result<(Bisection, BuildsLock)> {
        Bisection::shared(store, "watch-", line, "another knee adds to this line")
    }

    fn shared(store: &Store, of: &str, kind: &str, busy: &str) -> Result<(Bisection, BuildsLock)> {
        let id = format!("{of}{}", &Seal::for_bytes(kind.as_bytes()).sha256[..16]);
        let folder = store.root().join(BISECTIONS).join(&id);
        create(&folder.join("logs"))?;
        let bisection = Bisection { id, folder };
        let builds = bisection.builds()?;
        let lock = BuildsLock::of(&builds)?.with_context(|| {
            format!("{busy}: wait for its end ({} is locked)", BuildsLock::path(&builds).display())
        })?;
        Ok((bisection, lock))
    }

    /// Removes builds, and the output of making them, of gates whose repository is gone, or that none used for long.
    pub fn remove_unused_gates(&self, store: &Store) -> Result<()> {
        let builds = self.builds()?;
        for entry in fs::read_dir(builds.parent().unwrap_or(&builds))?.flatten() {
            let name = entry.file_name();
            let is_gate = name.to_string_lossy().starts_with(GATE) && entry.path().is_dir();
            if is_gate && entry.path() != builds && is_unused(&entry.path()) {
                let Some(lock) = BuildsLock::of(&entry.path())? else { continue };
                removal::remove(&entry.path())?;
                removal::remove(&store.root().join(BISECTIONS).join(name))?;
                lock.remove()?;
            }
        }
        Ok(())
    }

    pub fn log_path(&self) -> PathBuf {
        self.folder.join(LOG)
    }

    /// The file with the output of a build.
    pub fn build_log(&self, commit: &str) -> PathBuf {
        self.folder.join("logs").join(format!("{}.log", commit.replace('/', "_")))
    }

    /// The records of the steps.
    pub fn records(&self) -> Store {
        Store::at(self.folder.join("records"))
    }

    /// The folder of the builds, made if it is missing.
    pub fn builds(&self) -> Result<PathBuf> {
        let folder = paths::cache()?.join("bisect").join(&self.id);
        create(&folder)?;
        paths::check_private(&folder, &fs::metadata(&folder)?)?;
        Ok(folder)
    }
}

/// The time in an id, to the second.
fn begun(id: &str) -> Option<jiff::Timestamp> {
    let time = jiff::civil::DateTime::strptime("%Y%m%d-%H%M%S", id.get(..15)?).ok()?;
    Some(time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp())
}

fn create(folder: &Path) -> Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)
        .with_context(|| format!("creating {}", folder.display()))
}

/// The bisections of a store, oldest first.
fn all(store: &Store) -> Vec<Bisection> {
    let entries = fs::read_dir(store.root().join(BISECTIONS)).into_iter().flatten().flatten();
    let bisection = |entry: fs::DirEntry| {
        let id = entry.file_name().into_string().ok()?;
        Id::read(&id)?;
        let bisection = Bisection { id, folder: entry.path() };
        bisection.log_path().is_file().then_some(bisection)
    };
    let mut all: Vec<Bisection> = entries.filter_map(bisection).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    all
}

/// The ids of all bisections, oldest first.
pub fn ids(store: &Store) -> Vec<String> {
    all(store).into_iter().map(|bisection| bisection.id).collect()
}

/// The newest bisection.
pub fn newest(store: &Store) -> Result<Bisection> {
    let newest = all(store).pop();
    newest.with_context(|| {
        let folder = store.root().join(BISECTIONS);
        format!("no bisection in {}: begin one with `knee bisect --git DIR …`", folder.display())
    })
}

/// A bisection, to go on with: its log decides what is built and run. `which` is its id, the start of it, or `last`.
pub fn to_go_on_with(which: &str, store: &Store) -> Result<Foreign<Bisection>> {
    let mut bisection = open(which, store)?;
    let named = bisection.folder.clone();
    let opening = || format!("opening {}", named.display());
    // What is judged is what is read, whatever a link says later.
    bisection.folder = named.canonicalize().with_context(opening)?;
    let why = own_file::why_kept_by_others(&bisection.folder, &[LOG], store.root())?;
    Ok(Foreign::typed(bisection).decided_by(&named.to_string_lossy(), why))
}

/// A bisection by its id, the start of its id, or `last`.
pub fn open(which: &str, store: &Store) -> Result<Bisection> {
    if which == "last" {
        return newest(store);
    }
    let all = all(store);
    let mut matching = all.iter().filter(|bisection| bisection.id.starts_with(which));
    match (matching.next(), matching.next()) {
        (Some(one), None) => Ok(one.clone()),
        (Some(_), Some(_)) => bail!("several bisections begin with '{which}': give more of the id"),
        (None, _) => {
            let ids: Vec<&str> = all.iter().map(|bisection| bisection.id.as_str()).collect();
            bail!("{}", unknown_of("bisection", which, &ids))
        }
    }
}

#[cfg(test)]
mod tests {
    use store::Store;

    use super::{BISECTIONS, Bisection, newest};

    #[test]
    fn the_newest_bisection_is_the_last_one_begun_even_if_the_clock_was_set_back() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::at(folder.path().to_path_buf());
        let begin = || {
            let bisection = Bisection::new(&store).unwrap();
            std::fs::write(bisection.log_path(), "").unwrap();
            bisection.id
        };
        // Begun when the clock was years ahead.
        let ahead = folder.path().join(BISECTIONS).join("20991231-235959-ffffff");
        std::fs::create_dir_all(&ahead).unwrap();
        std::fs::write(ahead.join("log.ndjson"), "").unwrap();
        for _ in 0..2 {
            let id = begin();
            assert_eq!(newest(&store).unwrap().id, id);
        }
    }
}
