//! The host's state as far as knee could change it, read before the first run and after everything
//! has been undone. Differences are recorded and reported: a run verifies that it left nothing
//! behind. Reading takes milliseconds and never fails; unreadable parts count as empty, before and
//! after.

mod difference;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use host::mounts::{self, Mount};
use host::{affinity, descendants};
use records::Record;

use crate::journal::Journal;
use crate::ownership::DIRECTORY_PREFIX;
use crate::settings;

pub use difference::changes;

/// Everything that knee could have changed, at one time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostState {
    /// Mounts in the host's namespace and in knee's own.
    mounts: Vec<MountEntry>,
    /// Bound loop devices, each with its file.
    loops: BTreeMap<PathBuf, PathBuf>,
    /// Kernel settings that variants name.
    settings: BTreeMap<PathBuf, String>,
    /// Those of the runs' directories and the journal that exist.
    directories: BTreeSet<PathBuf>,
    /// Descendants of this process: "77 (sleep)".
    processes: BTreeMap<i32, String>,
    /// CPUs that this process may use.
    cpus: Vec<u32>,
}

/// A mount, with what distinguishes it from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountEntry {
    point: PathBuf,
    source: String,
    kind: String,
}

/// What distinguishes changes by knee from those by others.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The name of the runs' directories, which contains the record's id.
    directory: String,
    /// The directories measured in: any change there concerns the runs.
    measured: Vec<PathBuf>,
    journal: PathBuf,
    /// Values that knee set kernel settings to.
    given: BTreeSet<(PathBuf, String)>,
}

/// Reads the host's state in the places that a record's runs could change.
pub struct HostWatch {
    /// Shows the mount namespace in which it was opened, even after this process has moved to its own.
    mountinfo: Option<File>,
    settings: Vec<PathBuf>,
    marks: Marks,
}

impl HostWatch {
    pub fn new(record: &Record, journal: &Journal) -> HostWatch {
        let named = record.variants.iter().flat_map(|variant| variant.sysctl.keys());
        HostWatch {
            mountinfo: File::open("/proc/self/mountinfo").ok(),
            settings: named.filter_map(|name| settings::path(name).ok()).collect(),
            marks: Marks {
                directory: format!("{DIRECTORY_PREFIX}{}", record.id),
                measured: measured(record),
                journal: journal.path(),
                given: BTreeSet::new(),
            },
        }
    }

    /// Reads the present state.
    pub fn look(&self) -> HostState {
        let read = |path: &PathBuf| Some((path.clone(), settings::read(path).ok()?));
        HostState {
            mounts: self.mounts(),
            loops: loops(),
            settings: self.settings.iter().filter_map(read).collect(),
            directories: self.directories(),
            processes: processes(),
            cpus: cpus(),
        }
    }

    /// The marks by which changes are attributed, once all runs are over.
    pub fn marks(&self, journal: &Journal) -> Marks {
        let given = journal.given().map(|(path, value)| (path.to_path_buf(), value.to_string()));
        Marks { given: given.collect(), ..self.marks.clone() }
    }

    fn mounts(&self) -> Vec<MountEntry> {
        let mut host = self.host_mounts();
        // Mounts of knee's own namespace, if it has one by now.
        let own = mounts::current().into_iter().map(MountEntry::from_mount);
        let own: Vec<MountEntry> = own.filter(|mount| !host.contains(mount)).collect();
        host.extend(own);
        host
    }

    fn host_mounts(&self) -> Vec<MountEntry> {
        let read = || {
            let mut file = self.mountinfo.as_ref()?;
            let mut bytes = Vec::new();
            file.rewind().ok()?;
            file.read_to_end(&mut bytes).ok()?;
            Some(String::from_utf8_lossy(&bytes).into_owned())
        };
        mounts::parse(&read().unwrap_or_default()).into_iter().map(MountEntry::from_mount).collect()
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        let Marks { directory, measured, journal, .. } = &self.marks;
        let directories = measured.iter().map(|folder| folder.join(directory));
        directories
            .chain([journal.clone()])
            .filter(|path| fs::symlink_metadata(path).is_ok())
            .collect()
    }
}

impl MountEntry {
    fn from_mount(mount: Mount) -> MountEntry {
        MountEntry { point: mount.mount_point, source: mount.source, kind: mount.file_system }
    }
}

/// The canonical paths of the points' directories.
fn measured(record: &Record) -> Vec<PathBuf> {
    let named = record.point_directories().into_iter();
    named.map(|dir| dir.canonicalize().unwrap_or_else(|_| dir.to_path_buf())).collect()
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

fn loops() -> BTreeMap<PathBuf, PathBuf> {
    let shown = |block: PathBuf| {
        let name = block.file_name()?.to_str().filter(|name| name.starts_with("loop"))?;
        let file = fs::read_to_string(block.join("loop/backing_file")).ok()?;
        Some((Path::new("/dev").join(name), PathBuf::from(file.trim_end_matches('\n'))))
    };
    entries(Path::new("/sys/block")).into_iter().filter_map(shown).collect()
}

fn processes() -> BTreeMap<i32, String> {
    // Without children there are no descendants, and reading all processes of /proc is needless.
    if !descendants::has_children() {
        return BTreeMap::new();
    }
    descendants::living().into_iter().map(|pid| (pid, descendants::described(pid))).collect()
}

fn cpus() -> Vec<u32> {
    affinity::get().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reading_the_state_changes_nothing_and_finds_new_directories() {
        let folder = tempfile::tempdir().unwrap();
        let measured = folder.path().canonicalize().unwrap();
        let journal = measured.join("1.journal");
        let directory = format!("{DIRECTORY_PREFIX}1");
        let marks = Marks {
            directory: directory.clone(),
            measured: vec![measured.clone()],
            journal,
            given: BTreeSet::new(),
        };
        let watch = HostWatch {
            mountinfo: File::open("/proc/self/mountinfo").ok(),
            settings: vec![PathBuf::from("/proc/sys/kernel/hostname")],
            marks: marks.clone(),
        };
        let since = std::time::Instant::now();
        let before = watch.look();
        println!("a look took {:?}", since.elapsed());
        assert!(before.mounts.iter().any(|mount| mount.point == Path::new("/")));
        assert!(!before.cpus.is_empty());
        assert_eq!(changes(&before, &watch.look(), &marks), []);
        fs::create_dir(measured.join(&directory)).unwrap();
        fs::write(measured.join("1.journal"), "").unwrap();
        let changes = changes(&before, &watch.look(), &marks);
        assert!(changes.len() == 2 && changes.iter().all(|change| change.by_knee), "{changes:?}");
    }
}
