//! File systems made for runs: each is made, mounted, measured in, unmounted, checked without
//! changing it, and removed. Every step is in the journal before it is taken, so that nothing
//! stays behind however knee ends (`journal.rs`).
//!
//!     image ─ loop device ─ mkfs ─ mount ─ [the run] ─ umount ─ check ─ free the device ─ remove

mod aged;
pub mod block_device;
mod effects;
mod geometry;
pub mod kinds;
pub mod loop_device;
pub mod mount;

mod program;
pub mod sparse_copy;
mod validate;

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::signals;
use records::{Aged, FileSystem, Mounted, Policy, Record, Storage, Warning, parse};

use self::kinds::Tools;
use crate::journal::{Journal, UndoStep};
use crate::ownership::FileIdentity;

pub use self::aged::age;
pub use self::effects::effects;
pub use self::validate::{check, check_experiment, check_file_system};

/// Attempts to bind a loop device: another process may take the free one first.
const TRIES: usize = 100;

/// A tmpfs that holds an image needs a little more than the image.
const MEMORY_SLACK: u64 = 1 << 20;

/// The file systems of one session.
pub struct FileSystems {
    storage: Storage,
    bytes: u64,
    /// Limit of each program's run time.
    time: Duration,
    kept: Vec<KeptFileSystem>,
    aged: Vec<AgedImage>,
    /// Seed of the random ageing.
    seed: u64,
}

/// An image of an aged file system, which is copied for each run.
#[derive(Clone)]
struct AgedImage {
    dir: PathBuf,
    wanted: FileSystem,
    image: PathBuf,
    aged: Aged,
    geometry: Geometry,
}

/// What the programs of a file system print about it, by key.
type Geometry = BTreeMap<String, String>;

/// A file system that all runs of a variant share.
struct KeptFileSystem {
    dir: PathBuf,
    wanted: FileSystem,
    mounted: MountedFileSystem,
}

/// A file system that knee has made and mounted.
#[derive(Clone)]
pub struct MountedFileSystem {
    pub root: PathBuf,
    /// What the record says about it.
    pub mounted: Mounted,
    tools: Option<&'static Tools>,
    /// What its check reads: the image itself where there is one. Through the loop device,
    /// everything would be read a second time, which takes ten times as long.
    pub check_path: Option<PathBuf>,
    /// The number of journal steps before the first one for it, for [`Journal::undo_to`].
    pub steps_before: usize,
    /// The number of journal steps before its mount.
    pub steps_before_mount: usize,
}

/// The device that a file system is made on.
struct BackingDevice {
    device: PathBuf,
    /// Its description in the record.
    on: String,
    /// The image that the loop device shows.
    image: Option<PathBuf>,
}

/// Reports failed writeback on a file system since it was opened.
pub struct WritebackWatch(File);

impl WritebackWatch {
    /// Why data written since did not reach the device, if so. The kernel writes back long after
    /// write(2) has returned success to the task.
    pub fn error(self) -> Option<String> {
        let why = rustix::fs::syncfs(&self.0).err()?;
        Some(format!("writing data back to the device failed: {why}"))
    }
}

impl FileSystems {
    /// Prepares to make the file systems of a record's experiment.
    pub fn new(record: &Record) -> Result<FileSystems> {
        let storage = record.experiment.storage.clone();
        let bytes = parse::bytes(&storage.size.0)?;
        let time = Duration::from_secs_f64(record.experiment.timeout_s);
        Ok(FileSystems { seed: record.seed, ..FileSystems::on_storage(storage, bytes, time) })
    }

    /// Prepares to make file systems of `bytes` bytes on this storage.
    pub fn on_storage(storage: Storage, bytes: u64, time: Duration) -> FileSystems {
        FileSystems { storage, bytes, time, kept: Vec::new(), aged: Vec::new(), seed: 0 }
    }

    /// Makes and checks each file system once before anything is measured, so that one that cannot
    /// be made or mounted is refused early. Adds warnings about them to the record.
    pub fn rehearse(&mut self, journal: &mut Journal, record: &mut Record) -> Result<()> {
        let wanted: Vec<(PathBuf, FileSystem)> = wanted(record)
            .into_iter()
            .map(|(dir, file_system)| (dir.to_path_buf(), file_system.clone()))
            .collect();
        if wanted.is_empty() {
            return Ok(());
        }
        mount::unshare_mounts()?;
        for (dir, wanted) in wanted {
            if signals::received().is_some() {
                break;
            }
            let directory = journal.directory(&dir, &record.id)?;
            let mounted = match self.provide(journal, &directory, &wanted)? {
                Err(_) if signals::received().is_some() => break,
                provided => {
                    provided.with_context(|| format!("making a file system to try: {wanted}"))?
                }
            };
            let warning = driver_warning(&mounted.mounted);
            record.warnings.extend(warning.filter(|warning| !record.warnings.contains(warning)));
            if let Some(complaint) = self.take_back(journal, &mounted, true)? {
                bail!("{wanted}, new and unmounted without a run: {complaint}");
            }
        }
        Ok(())
    }

    /// Provides a mounted file system for a run: a new one, or the kept one. The inner error
    /// concerns the run; the outer error means that the host could not be restored.
    pub fn provide(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<Result<MountedFileSystem>> {
        let matches = |kept: &&KeptFileSystem| kept.dir == directory && kept.wanted == *wanted;
        if let Some(kept) = self.kept.iter().find(matches) {
            return Ok(Ok(kept.mounted.clone()));
        }
        let steps_before = journal.steps();
        let aged_image = match self.storage.policy {
            Policy::Aged => self.aged_image(journal, directory, wanted).map(Some),
            Policy::Fresh | Policy::Kept => Ok(None),
        };
        let provided = aged_image
            .and_then(|image| self.make_or_copy(journal, directory, wanted, image.as_ref()));
        match &provided {
            Err(_) => journal.undo_to(steps_before)?,
            Ok(mounted) if self.storage.policy == Policy::Kept => {
                let (dir, wanted) = (directory.to_path_buf(), wanted.clone());
                self.kept.push(KeptFileSystem { dir, wanted, mounted: mounted.clone() });
            }
            Ok(_) => (),
        }
        Ok(provided)
    }

    /// Starts watching for failed writeback, before a run.
    pub fn watch(made: &MountedFileSystem) -> Result<WritebackWatch> {
        let opened = File::open(&made.root);
        Ok(WritebackWatch(opened.with_context(|| format!("opening {}", made.root.display()))?))
    }

    /// After a run, unmounts its file system, checks it if `check` is set, and removes it; a kept
    /// one stays mounted. Returns what the check found wrong.
    pub fn take_back(
        &mut self,
        journal: &mut Journal,
        made: &MountedFileSystem,
        check: bool,
    ) -> Result<Option<String>> {
        match self.storage.policy {
            Policy::Fresh | Policy::Aged => self.retire(journal, made, check),
            Policy::Kept => Ok(None),
        }
    }

    /// After all runs, unmounts, checks and removes the kept file systems. Returns what the checks
    /// found wrong as warnings.
    pub fn end(&mut self, journal: &mut Journal) -> Result<Vec<Warning>> {
        let mut warnings = Vec::new();
        while let Some(kept) = self.kept.pop() {
            let complaint = self.retire(journal, &kept.mounted, true)?;
            let advice = "do not trust its numbers; see dmesg";
            warnings.extend(complaint.map(|complaint| {
                Warning::new(format!("{} at the end: {complaint}", kept.wanted), advice)
            }));
        }
        Ok(warnings)
    }

    fn retire(
        &self,
        journal: &mut Journal,
        made: &MountedFileSystem,
        check: bool,
    ) -> Result<Option<String>> {
        journal.undo_to(made.steps_before_mount)?;
        let complaint = if check { self.complaint(made) } else { None };
        journal.undo_to(made.steps_before)?;
        Ok(complaint)
    }

    /// What the check of an unmounted file system finds wrong, if anything.
    pub fn complaint(&self, made: &MountedFileSystem) -> Option<String> {
        complaint(made.tools?, made.check_path.as_ref()?, self.time)
    }

    /// The aged file system that runs get copies of; made and aged by the first call.
    fn aged_image(
        &mut self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<AgedImage> {
        let matches = |aged: &&AgedImage| aged.dir == directory && aged.wanted == *wanted;
        if let Some(aged) = self.aged.iter().find(matches) {
            return Ok(aged.clone());
        }
        // On disk even where the copies lie in memory, which may lack room for one more image.
        let storage = Storage { on: "loop".to_string(), ..self.storage.clone() };
        let maker = FileSystems::on_storage(storage, self.bytes, self.time);
        let made = maker.make(journal, directory, wanted)?;
        let bytes = made.mounted.bytes_total.unwrap_or(self.bytes);
        let mut aged = aged::age(&made.root, bytes, &self.storage.age, self.seed)?;
        aged.bytes_free = host::mounts::space(&made.root).map(|space| space.bytes_free);
        journal.undo_to(made.steps_before_mount)?;
        if let Some(complaint) = self.complaint(&made) {
            bail!("after it was aged and unmounted: {complaint}");
        }
        let image = directory.join(format!("pristine-{}", self.aged.len()));
        let path = made.check_path.as_ref().context("an aged file system needs an image")?;
        // Renamed, so that undoing the loop device does not remove the image.
        fs::rename(path, &image).with_context(|| format!("keeping {}", path.display()))?;
        journal.undo_to(made.steps_before)?;
        sparse_copy::punch_holes(&image)?;
        aged.free_extents = made.tools.and_then(|tools| free_extents(tools, &image, self.time));
        let (dir, wanted) = (directory.to_path_buf(), wanted.clone());
        let geometry = made.mounted.geometry;
        let aged = AgedImage { dir, wanted, image, aged, geometry };
        self.aged.push(aged.clone());
        Ok(aged)
    }

    /// Makes a file system and mounts it.
    pub fn make(
        &self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
    ) -> Result<MountedFileSystem> {
        self.make_or_copy(journal, directory, wanted, None)
    }

    /// Makes a file system, or copies an aged one, and mounts it.
    fn make_or_copy(
        &self,
        journal: &mut Journal,
        directory: &Path,
        wanted: &FileSystem,
        aged_image: Option<&AgedImage>,
    ) -> Result<MountedFileSystem> {
        let kind = kinds::kind(&wanted.kind)?;
        let number = self.kept.len();
        let steps_before = journal.steps();
        let root = directory.join(format!("mounted-{number}"));
        make_directory(&root)?;
        let backing = match &kind.tools {
            Some(_) => {
                let from = aged_image.map(|aged| aged.image.as_path());
                Some(self.backing_device(journal, directory, number, from)?)
            }
            None => None,
        };
        let source = match &backing {
            Some(backing) => backing.device.display().to_string(),
            None => source_name(directory, number),
        };
        let (geometry, options) = match (&kind.tools, &backing, aged_image) {
            (_, _, Some(aged)) => (aged.geometry.clone(), wanted.mount.clone()),
            (Some(tools), Some(backing), None) => {
                (format(tools, &backing.device, &wanted.mkfs, self.time)?, wanted.mount.clone())
            }
            _ => (Default::default(), format!("size={},{}", self.bytes, wanted.mount)),
        };
        let steps_before_mount =
            journal.step(UndoStep::Mount { source: source.clone(), point: root.clone() })?;
        mount::mount(&source, &root, kind.name, &options)?;
        let seen = host::mounts::at(&root);
        let mounted = Mounted {
            kind: kind.name.to_string(),
            driver: backing.as_ref().and_then(|backing| driver(kind.name, &backing.device)),
            on: backing.as_ref().map_or_else(|| "memory".to_string(), |backing| backing.on.clone()),
            options: seen.map(|mount| mount.all_options()).unwrap_or_default(),
            bytes_total: host::mounts::space(&root).map(|space| space.bytes_total),
            geometry,
            aged: aged_image.map(|image| image.aged.clone()),
        };
        let check_path = backing.map(|backing| backing.image.unwrap_or(backing.device));
        Ok(MountedFileSystem {
            root,
            mounted,
            tools: kind.tools.as_ref(),
            check_path,
            steps_before,
            steps_before_mount,
        })
    }

    /// Prepares a device for a file system; its image is new, or a copy of `from`.
    fn backing_device(
        &self,
        journal: &mut Journal,
        directory: &Path,
        number: usize,
        from: Option<&Path>,
    ) -> Result<BackingDevice> {
        let name = format!("image-{number}");
        match self.storage.on.as_str() {
            "loop" => {
                let image = directory.join(name);
                let device = self.loop_device(journal, &image, from)?;
                let dir = directory.parent().unwrap_or(directory);
                let on = format!("{}, an image in {}", device.display(), dir.display());
                Ok(BackingDevice { device, on, image: Some(image) })
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
                Ok(BackingDevice { device, on, image: Some(image) })
            }
            path => {
                let device = PathBuf::from(path);
                block_device::check(&device)?;
                journal.step(UndoStep::Device { device: device.clone() })?;
                Ok(BackingDevice { device, on: path.to_string(), image: None })
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
        let identity = FileIdentity::from_metadata(&image.metadata()?);
        for _ in 0..TRIES {
            let device = loop_device::free()?;
            // If another process takes the device first, the step stays: undoing it does not touch
            // a device that shows another image.
            let image_path = path.to_path_buf();
            journal.step(UndoStep::Loop { device: device.clone(), image: image_path, identity })?;
            if loop_device::bind(&device, &image, path)? {
                return Ok(device);
            }
        }
        bail!(
            "other processes took every free loop device, {TRIES} times in a row: try again later"
        )
    }
}

/// Makes a file system on a device and returns its geometry.
pub fn format(tools: &Tools, device: &Path, arguments: &str, time: Duration) -> Result<Geometry> {
    let arguments = parse::words(arguments).context("arguments of mkfs")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let output = tools.make.run(&arguments, device, time)?;
    let name = tools.make.name;
    ensure!(output.status.success(), "{name} failed ({}): {}", output.status, output.last_lines());
    let described = match &tools.describe {
        Some(describe) => describe.run(&[], device, time)?,
        None => output,
    };
    Ok((tools.geometry)(&described.text))
}

/// The number of extents of free space; `None` where the file system's program does not report it.
pub fn free_extents(tools: &Tools, image: &Path, time: Duration) -> Option<u64> {
    let output = tools.free_space.run(&[], image, time).ok()?;
    (tools.free_extents)(&output.text)
}

/// What the check of an unmounted file system, on a device or in an image, finds wrong, if anything.
pub fn complaint(tools: &Tools, path: &Path, time: Duration) -> Option<String> {
    match tools.check.run(&[], path, time) {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!(
            "{} found the file system corrupted ({}): {}",
            tools.check.name,
            output.status,
            output.last_lines()
        )),
        Err(why) => Some(format!("the file system could not be checked: {why:#}")),
    }
}

/// The file systems that a record's points need on the host itself, not in a guest, each with the
/// directory that it is made in.
pub fn wanted(record: &Record) -> Vec<(&Path, &FileSystem)> {
    let mut wanted: Vec<(&Path, &FileSystem)> = Vec::new();
    for point in &record.points {
        let on_host = record.guest(&point.variant).is_none();
        let file_system = record.file_system(point).filter(|_| on_host);
        let pair = file_system.map(|file_system| (point.dir.as_path(), file_system));
        wanted.extend(pair.filter(|pair| !wanted.contains(pair)));
    }
    wanted
}

/// A unique source name for a file system without a device: it contains the record's id.
fn source_name(directory: &Path, number: usize) -> String {
    let last_two = directory.components().rev().take(2).collect::<Vec<_>>();
    let names: Vec<String> =
        last_two.iter().rev().map(|name| name.as_os_str().to_string_lossy().into_owned()).collect();
    let name = names.join("-");
    format!("{}-{number}", name.trim_start_matches(['/', '-', '.']).replace(['\n', ','], "_"))
}

/// Creates a directory accessible to this user only; one that exists is fine.
pub fn make_directory(path: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(e) if e.kind() != ErrorKind::AlreadyExists => {
            Err(e).with_context(|| format!("creating {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The driver that serves a mounted file system, where its name differs from the kind's.
fn driver(kind: &str, device: &Path) -> Option<String> {
    let is_ext4 = Path::new("/sys/fs/ext4").join(device.file_name()?).is_dir();
    (is_ext4 && kind != "ext4").then(|| "ext4".to_string())
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
    fn the_source_name_of_a_file_system_without_a_device_has_the_records_id() {
        let name = |path: &str| source_name(Path::new(path), 0);
        assert_eq!(name("/tmp/.knee-2026-1"), "tmp-.knee-2026-1-0");
        assert_eq!(name("/tmp/.knee-2026-1/memory-0"), "knee-2026-1-memory-0-0");
    }
}
