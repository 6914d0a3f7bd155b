//! File systems made for runs: each is made, mounted, measured in, unmounted, checked without
//! changing it, and removed. Every step is in the journal before it is taken, so that nothing
//! stays behind whatever becomes of knee (`leftovers.rs`).
//!
//!     image ─ loop device ─ mkfs ─ mount ─ [the run] ─ umount ─ check ─ free the device ─ remove

mod aged;
pub mod block_device;
mod geometry;
pub mod kinds;
pub mod loop_device;
pub mod mount;

mod program;
pub mod sparse_copy;
mod validate;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind};
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::signals;
use records::{Aged, FileSystem, Mounted, Policy, Record, Storage, Warning, parse};

use crate::file_systems::kinds::Tools;
use crate::journal::{Identity, Journal, UndoStep};

pub use crate::file_systems::aged::age;
pub use validate::{check, check_made, check_words};

/// How often another process may be faster at taking a loop device.
const TRIES: usize = 100;

/// A tmpfs that holds an image needs a little more than the image.
const MEMORY_SLACK: u64 = 1 << 20;

/// The file systems of one session.
pub struct FileSystems {
    storage: Storage,
    bytes: u64,
    /// How long each program may take.
    time: Duration,
    kept: Vec<Kept>,
    aged: Vec<Pristine>,
    /// Of how they are aged.
    seed: u64,
}

/// An aged one, of which each run gets a copy.
#[derive(Clone)]
struct Pristine {
    dir: PathBuf,
    wanted: FileSystem,
    image: PathBuf,
    aged: Aged,
    geometry: Geometry,
}

/// What its programs tell of a file system.
type Geometry = BTreeMap<String, String>;

/// One that the runs of a variant share.
struct Kept {
    dir: PathBuf,
    wanted: FileSystem,
    made: Made,
}

/// One that is mounted.
#[derive(Clone)]
pub struct Made {
    /// Its root directory.
    pub root: PathBuf,
    /// What is known about it.
    pub mounted: Mounted,
    tools: Option<&'static Tools>,
    /// What is checked: the image itself where there is one. Through the loop device, all
    /// would be read a second time, which takes ten times as long.
    pub checked: Option<PathBuf>,
    /// How many steps had been taken before those for it, and before its mount.
    pub before: usize,
    pub before_mount: usize,
}

/// Where a file system is made.
struct Site {
    device: PathBuf,
    /// What that is, in words.
    on: String,
    /// The file that the device shows.
    image: Option<PathBuf>,
}

/// A file system under watch for errors.
pub struct Watch(File);

impl Watch {
    /// Why something that was written since did not reach the device, if so. The kernel may
    /// write long after a task was told that all is well.
    pub fn error(self) -> Option<String> {
        // SAFETY: an open descriptor.
        match unsafe { libc::syncfs(self.0.as_raw_fd()) } {
            0 => None,
            _ => Some(format!("not all was written: {}", io::Error::last_os_error())),
        }
    }
}

impl FileSystems {
    /// As a record's experiment wants them.
    pub fn new(record: &Record) -> Result<FileSystems> {
        let storage = record.experiment.storage.clone();
        let bytes = parse::bytes(&storage.size.0)?;
        let time = Duration::from_secs_f64(record.experiment.timeout_s);
        Ok(FileSystems { seed: record.seed, ..FileSystems::new_maker(storage, bytes, time) })
    }

    /// Makes file systems on this storage, and has made none yet.
    pub fn new_maker(storage: Storage, bytes: u64, time: Duration) -> FileSystems {
        FileSystems { storage, bytes, time, kept: Vec::new(), aged: Vec::new(), seed: 0 }
    }

    /// Makes each file system once before anything is measured, so that what cannot be made
    /// or mounted is refused then. Adds to the record's warnings what is to be known of them.
    pub fn rehearse(&mut self, journal: &mut Journal, record: &mut Record) -> Result<()> {
        let wanted: Vec<(PathBuf, FileSystem)> = wanted(record)
            .into_iter()
            .map(|(dir, made)| (dir.to_path_buf(), made.clone()))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        mount::see_alone()?;
        for (dir, wanted) in wanted {
            if signals::received().is_some() {
                break;
            }
            let directory = journal.directory(&dir, &record.id)?;
            let made = match self.provide(journal, &directory, &wanted)? {
                Err(_) if signals::received().is_some() => break,
                made => made.with_context(|| format!("making a file system to try: {wanted}"))?,
            };
            let warning = driver_warning(&made.mounted);
            record.warnings.extend(warning.filter(|warning| !record.warnings.contains(warning)));
            if let Some(complaint) = self.take_back(journal, &made, true)? {
                bail!("{wanted}, just made, unmounted at once: {complaint}");
            }
        }
        Ok(())
    }

    /// A file system for a run, mounted: one of its own or the kept one. The inner error is the
    /// run's, the outer one is about the host, which is not as it was.
    pub fn provide(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<Result<Made>> {
        let is_it = |kept: &&Kept| kept.dir == directory && kept.wanted == *wanted;
        if let Some(kept) = self.kept.iter().find(is_it) {
            return Ok(Ok(kept.made.clone()));
        }
        let before = journal.steps();
        let pristine = match self.storage.policy {
            Policy::Aged => self.pristine(journal, directory, wanted).map(Some),
            Policy::Fresh | Policy::Kept => Ok(None),
        };
        let made = pristine
            .and_then(|pristine| self.make_or_copy(journal, directory, wanted, pristine.as_ref()));
        match &made {
            Err(_) => journal.undo_to(before)?,
            Ok(made) if self.storage.policy == Policy::Kept => {
                let (dir, wanted) = (directory.to_path_buf(), wanted.clone());
                self.kept.push(Kept { dir, wanted, made: made.clone() });
            }
            Ok(_) => (),
        }
        Ok(made)
    }

    /// Opened before a run, tells afterwards what could not be written.
    pub fn watch(made: &Made) -> Result<Watch> {
        let opened = File::open(&made.root);
        Ok(Watch(opened.with_context(|| format!("opening {}", made.root.display()))?))
    }

    /// After a run: unmounts what was its own, checks it if asked to, and removes it. Returns what
    /// is wrong with it.
    pub fn take_back(
        &mut self,
        journal: &mut Journal,
        made: &Made,
        check: bool,
    ) -> Result<Option<String>> {
        match self.storage.policy {
            Policy::Fresh | Policy::Aged => self.retire(journal, made, check),
            Policy::Kept => Ok(None),
        }
    }

    /// After all runs: the same for those that were kept. What is wrong is a warning.
    pub fn end(&mut self, journal: &mut Journal) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        while let Some(kept) = self.kept.pop() {
            let complaint = self.retire(journal, &kept.made, true)?;
            let advice = "its numbers are not to be trusted; see dmesg";
            warnings.extend(complaint.map(|complaint| {
                Warning::new(format!("{} at the end: {complaint}", kept.wanted), advice)
            }));
        }
        Ok(warnings)
    }

    fn retire(&self, journal: &mut Journal, made: &Made, check: bool) -> Result<Option<String>> {
        journal.undo_to(made.before_mount)?;
        let complaint = if check { self.complaint(made) } else { None };
        journal.undo_to(made.before)?;
        Ok(complaint)
    }

    /// What its check says is wrong with a file system that is not mounted.
    pub fn complaint(&self, made: &Made) -> Option<String> {
        complaint(made.tools?, made.checked.as_ref()?, self.time)
    }

    /// The aged file system of which runs get copies; aged at the first call.
    fn pristine(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<Pristine> {
        let is_it = |aged: &&Pristine| aged.dir == directory && aged.wanted == *wanted;
        if let Some(aged) = self.aged.iter().find(is_it) {
            return Ok(aged.clone());
        }
        // On disk, even where the copies lie in memory: that has no room for it, too.
        let storage = Storage { on: "loop".to_string(), ..self.storage.clone() };
        let maker = FileSystems::new_maker(storage, self.bytes, self.time);
        let made = maker.make(journal, directory, wanted)?;
        let bytes = made.mounted.bytes_total.unwrap_or(self.bytes);
        let mut aged = aged::age(&made.root, bytes, &self.storage.age, self.seed)?;
        aged.bytes_free = probes::directory(&made.root).bytes_free;
        journal.undo_to(made.before_mount)?;
        if let Some(complaint) = self.complaint(&made) {
            bail!("aged and unmounted: {complaint}");
        }
        let image = directory.join(format!("pristine-{}", self.aged.len()));
        let path = made.checked.as_ref().context("an aged file system lies in an image")?;
        // From here on, undoing the loop device finds no image to remove.
        fs::rename(path, &image).with_context(|| format!("keeping {}", path.display()))?;
        journal.undo_to(made.before)?;
        sparse_copy::punch_holes(&image)?;
        aged.free_extents = made.tools.and_then(|tools| free_extents(tools, &image, self.time));
        let (dir, wanted) = (directory.to_path_buf(), wanted.clone());
        let geometry = made.mounted.geometry;
        let aged = Pristine { dir, wanted, image, aged, geometry };
        self.aged.push(aged.clone());
        Ok(aged)
    }

    /// Makes a file system and mounts it.
    pub fn make(
        &self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<Made> {
        self.make_or_copy(journal, directory, wanted, None)
    }

    /// Makes a file system, or takes a copy of a pristine one, and mounts it.
    fn make_or_copy(
        &self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
        pristine: Option<&Pristine>,
    ) -> Result<Made> {
        let kind = kinds::kind(&wanted.kind)?;
        let number = self.kept.len();
        let before = journal.steps();
        let root = directory.join(format!("mounted-{number}"));
        make_directory(&root)?;
        let site = match &kind.tools {
            Some(_) => {
                let from = pristine.map(|pristine| pristine.image.as_path());
                Some(self.site(journal, directory, number, from)?)
            }
            None => None,
        };
        let source = match &site {
            Some(site) => site.device.display().to_string(),
            None => source_name(directory, number),
        };
        let (geometry, options) = match (&kind.tools, &site, pristine) {
            (_, _, Some(pristine)) => (pristine.geometry.clone(), wanted.mount.clone()),
            (Some(tools), Some(site), None) => {
                (format(tools, &site.device, &wanted.mkfs, self.time)?, wanted.mount.clone())
            }
            _ => (Default::default(), format!("size={},{}", self.bytes, wanted.mount)),
        };
        let before_mount =
            journal.step(UndoStep::Mount { source: source.clone(), point: root.clone() })?;
        mount::mount(&source, &root, kind.name, &options)?;
        let found = probes::directory(&root);
        let mounted = Mounted {
            kind: kind.name.to_string(),
            driver: site.as_ref().and_then(|site| driver(kind.name, &site.device)),
            on: site.as_ref().map_or_else(|| "memory".to_string(), |site| site.on.clone()),
            options: found.mount_options.unwrap_or_default(),
            bytes_total: found.bytes_total,
            geometry,
            aged: pristine.map(|pristine| pristine.aged.clone()),
        };
        let checked = site.map(|site| site.image.unwrap_or(site.device));
        Ok(Made { root, mounted, tools: kind.tools.as_ref(), checked, before, before_mount })
    }

    /// Where to make it; an image is new, or a copy.
    fn site(
        &self,
        journal: &mut Journal,
        directory: &Path,
        number: usize,
        from: Option<&Path>,
    ) -> Result<Site> {
        let name = format!("image-{number}");
        match self.storage.on.as_str() {
            "loop" => {
                let image = directory.join(name);
                let device = self.loop_device(journal, &image, from)?;
                let dir = directory.parent().unwrap_or(directory);
                let on = format!("{}, an image in {}", device.display(), dir.display());
                Ok(Site { device, on, image: Some(image) })
            }
            "ram" => {
                let memory = directory.join(format!("memory-{number}"));
                make_directory(&memory)?;
                let source = source_name(&memory, number);
                journal.step(UndoStep::Mount { source: source.clone(), point: memory.clone() })?;
                let options = format!("size={}", self.bytes + MEMORY_SLACK);
                mount::mount(&source, &memory, "tmpfs", &options)?;
                let image = memory.join(name);
                let device = self.loop_device(journal, &image, from)?;
                let on = format!("{}, an image in memory (tmpfs)", device.display());
                Ok(Site { device, on, image: Some(image) })
            }
            path => {
                let device = PathBuf::from(path);
                block_device::check(&device)?;
                journal.step(UndoStep::Device { device: device.clone() })?;
                Ok(Site { device, on: path.to_string(), image: None })
            }
        }
    }

    /// A loop device that shows a new image, or a copy of one.
    fn loop_device(
        &self,
        journal: &mut Journal,
        path: &Path,
        from: Option<&Path>,
    ) -> Result<PathBuf> {
        let image = match from {
            Some(from) => sparse_copy::copy_sparse(from, path)?,
            None => loop_device::make_image(path, self.bytes)?,
        };
        let made = Identity::of(&image.metadata()?);
        for _ in 0..TRIES {
            let device = loop_device::free()?;
            // Where somebody else is faster, the step stays: undoing it leaves theirs alone.
            let image_path = path.to_path_buf();
            journal.step(UndoStep::Loop { device: device.clone(), image: image_path, made })?;
            if loop_device::bind(&device, &image, path)? {
                return Ok(device);
            }
        }
        bail!("every free loop device was taken by somebody else: try again later")
    }
}

/// Makes the file system on a device; what was made.
pub fn format(tools: &Tools, device: &Path, arguments: &str, time: Duration) -> Result<Geometry> {
    let arguments = parse::words(arguments).context("arguments of mkfs")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = tools.make.run(&arguments, device, time)?;
    let name = tools.make.name;
    ensure!(said.status.success(), "{name} failed ({}): {}", said.status, said.last_lines());
    let described = match &tools.describe {
        Some(describe) => describe.run(&[], device, time)?,
        None => said,
    };
    Ok((tools.geometry)(&described.text))
}

/// How many extents of free space there are; nothing where its program does not tell.
pub fn free_extents(tools: &Tools, image: &Path, time: Duration) -> Option<u64> {
    let said = tools.free_space.run(&[], image, time).ok()?;
    (tools.free_extents)(&said.text)
}

/// What its check says is wrong with a file system that is not mounted, on a device or in an image.
pub fn complaint(tools: &Tools, checked: &Path, time: Duration) -> Option<String> {
    match tools.check.run(&[], checked, time) {
        Ok(said) if said.status.success() => None,
        Ok(said) => Some(format!(
            "{} found the file system corrupted ({}): {}",
            tools.check.name,
            said.status,
            said.last_lines()
        )),
        Err(why) => Some(format!("whether the file system is sound is not known: {why:#}")),
    }
}

/// What file systems a record's points want on the host itself, each with the directory they want
/// it in.
pub fn wanted(record: &Record) -> Vec<(&Path, &FileSystem)> {
    let mut wanted: Vec<(&Path, &FileSystem)> = Vec::new();
    for point in &record.points {
        let here = record.guest(&point.variant).is_none();
        let made = record.file_system(point).filter(|_| here);
        let made = made.map(|made| (point.dir.as_path(), made));
        wanted.extend(made.filter(|made| !wanted.contains(made)));
    }
    wanted
}

/// A name for what has no device, which nobody else gives: it has the id of the record.
fn source_name(directory: &Path, number: usize) -> String {
    let names = directory.components().rev().take(2).collect::<Vec<_>>();
    let name: Vec<String> =
        names.iter().rev().map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
    format!(
        "{}-{number}",
        name.join("-").trim_start_matches(['/', '-', '.']).replace(['\n', ','], "_")
    )
}

pub fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("creating {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The driver that serves a mounted file system, where it is another one than its name says.
fn driver(kind: &str, device: &Path) -> Option<String> {
    let served = Path::new("/sys/fs/ext4").join(device.file_name()?).is_dir();
    (served && kind != "ext4").then(|| "ext4".to_string())
}

fn driver_warning(mounted: &Mounted) -> Option<Warning> {
    let driver = mounted.driver.as_ref()?;
    let text = format!(
        "{} is served by the {driver} driver of this kernel: what differs from {driver} is the \
         format, not the code",
        mounted.kind
    );
    Some(Warning::new(text, "to measure another driver, boot a kernel that has it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_no_device_is_known_by_the_record() {
        let name = |path: &str| source_name(Path::new(path), 0);
        assert_eq!(name("/tmp/.knee-2026-1"), "tmp-.knee-2026-1-0");
        assert_eq!(name("/tmp/.knee-2026-1/memory-0"), "knee-2026-1-memory-0-0");
    }
}
