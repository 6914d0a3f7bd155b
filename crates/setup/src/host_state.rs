//! The host's state as far as knee could change it, looked at before the first run and when all
//! has been put back. What differs is kept in the record and told: that everything is as before
//! is then known, and not only meant. Looking takes milliseconds and never fails; what cannot
//! be read is taken for empty, before and after.

mod difference;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};

use host::descendants;
use probes::Mount;
use records::Record;

use crate::journal::Journal;
use crate::ownership::DIRECTORY_PREFIX;
use crate::settings;

pub use difference::changes;

/// What knee could have changed, at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HostState {
    /// What is mounted for all of the host, and for knee alone.
    mounts: Vec<MountEntry>,
    /// Loop devices that show a file, and which.
    loops: BTreeMap<PathBuf, PathBuf>,
    /// Kernel settings that variants name.
    settings: BTreeMap<PathBuf, String>,
    /// Of the directories that runs make, and the journal, those that are there.
    directories: BTreeSet<PathBuf>,
    /// Processes below this one: "77 (sleep)".
    processes: BTreeMap<i32, String>,
    /// CPUs that this process may use.
    cpus: Vec<u32>,
}

/// Of a mount, what tells it from another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct MountEntry {
    point: PathBuf,
    source: String,
    kind: String,
}

/// What tells knee's doing from that of others.
#[derive(Clone, Debug, Default)]
pub struct Marks {
    /// The name of the directories that runs make, which has the id of the record.
    directory: String,
    /// Where they lie: what changes there concerns the runs, whoever did it.
    measured: Vec<PathBuf>,
    journal: PathBuf,
    /// Values that knee gave to kernel settings.
    given: BTreeSet<(PathBuf, String)>,
}

/// Knows where to look.
pub struct HostWatch {
    /// Stays with the mount namespace that it was opened in, whichever this process moves to.
    mountinfo: Option<File>,
    settings: Vec<PathBuf>,
    marks: Marks,
}

impl HostWatch {
    /// Looks where the runs of this record could change something.
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

    /// What is there now.
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

    /// What tells whose doing a change is, once all runs are over.
    pub fn marks(&self, journal: &Journal) -> Marks {
        let given = journal.given().map(|(path, value)| (path.to_path_buf(), value.to_string()));
        Marks { given: given.collect(), ..self.marks.clone() }
    }

    fn mounts(&self) -> Vec<MountEntry> {
        let mut host = self.host_mounts();
        // Those of a mount namespace of our own, if it is another one by now.
        let own = probes::mounts().into_iter().map(MountEntry::of);
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
        probes::parse_mounts(&read().unwrap_or_default()).into_iter().map(MountEntry::of).collect()
    }

    fn directories(&self) -> BTreeSet<PathBuf> {
        let Marks { directory, measured, journal, .. } = &self.marks;
        let made = measured.iter().map(|folder| folder.join(directory));
        made.chain([journal.clone()]).filter(|path| fs::symlink_metadata(path).is_ok()).collect()
    }
}

impl MountEntry {
    fn of(mount: Mount) -> MountEntry {
        MountEntry { point: mount.mount_point, source: mount.source, kind: mount.file_system }
    }
}

/// The directories of the points, by the names that the kernel gives them.
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
    // Without a child there is none below that, and no need to read about all of the host's.
    if !descendants::has_children() {
        return BTreeMap::new();
    }
    descendants::living().into_iter().map(|pid| (pid, descendants::described(pid))).collect()
}

fn cpus() -> Vec<u32> {
    probes::limits(Path::new("/")).cpus_allowed.map(Vec::from_iter).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_changes_nothing_and_sees_what_is_made() {
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
        let told = changes(&before, &watch.look(), &marks);
        assert!(told.len() == 2 && told.iter().all(|change| change.by_knee), "{told:?}");
    }
}
