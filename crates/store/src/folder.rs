//! The store: a folder of records. A record grows in a hidden folder and becomes visible,
//! whole, by one rename:
//!
//!     ROOT/7f/.part-ID/   plan.json  runs.ndjson  samples.ndjson      growing, locked
//!     ROOT/7f/ID/         record.json  runs.ndjson  samples.parquet   finished
//!
//! `plan.json` is the record as known at the start. Its writer holds a lock on it for as long as it
//! lives, visible on every host that shares the file system. A hidden folder whose lock is free was
//! left behind: [`Store::recover`] makes it a partial record. A run counts once its line in
//! `runs.ndjson` is durable; its samples become durable before that. A process that renames the
//! folder, to finish or to resume the record, also holds a lock on `record.json`. Users may copy,
//! merge and delete records by hand.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use host::durable::{create_anew, remove_if_there, sync_folder, with_room, write_durably};
use records::{Boot, Opened, Profile, Record, RecordState, Run, Sample, Seal, Warning};

use crate::id::Id;
use crate::lines::{self, Lines, no_link};
use crate::samples::{RunSamples, read_parquet, write_parquet};

pub const PLAN: &str = "plan.json";
pub const RECORD: &str = "record.json";
pub const RUNS: &str = "runs.ndjson";
const SAMPLES_GROWING: &str = "samples.ndjson";
const SAMPLES: &str = "samples.parquet";
/// Exists only if there are profiles.
const PROFILES: &str = "looks.ndjson";
/// Exists only if runs were made in virtual machines.
const BOOTS: &str = "boots.ndjson";
const HIDDEN: &str = ".part-";

/// What runs left, beside the record itself.
const RESULTS: &[&str] = &[RUNS, PROFILES, BOOTS, SAMPLES_GROWING, SAMPLES];

/// The files that decide what a record is, and so what measuring it again would run.
pub const DECISIVE_FILES: &[&str] = &[RECORD, PLAN, RUNS];

/// All files that what a record says is read from, but for its samples.
pub const BESIDE: [&str; 5] = [RECORD, PLAN, RUNS, PROFILES, BOOTS];

/// Names under which files are written before they are renamed into place.
const TEMPORARY: [&str; 4] = ["plan.tmp", "record.tmp", "runs.tmp", "samples.tmp"];

/// How many ids are tried for a new record: two of one second are equal by chance, if ever.
const IDS_TRIED: usize = 100;

/// A folder of records.
#[derive(Clone, Debug)]
pub struct Store {
    root: PathBuf,
}

impl Store {
    /// The store in this folder; the folder is created with the first record.
    pub fn at(root: PathBuf) -> Store {
        Store { root }
    }

    /// The folder of the store.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The folders that may hold records: the root and the shards in it.
    pub fn shards(&self) -> Result<Vec<PathBuf>> {
        let mut shards = vec![self.root.clone()];
        for (name, path) in entries(&self.root)? {
            if name.len() == 2 && name.chars().all(|c| c.is_ascii_hexdigit()) {
                shards.push(path);
            }
        }
        shards.sort();
        Ok(shards)
    }

    /// Starts a record. `record` must have the plan; the id, state and results are set by the store. The id is the given
    /// one, or the next that no record here has. A record that cannot be started leaves nothing.
    pub fn begin(&self, mut record: Record, id: Id) -> Result<Growing> {
        let (id, folder) = self.claim(id)?;
        record.id = id.as_str().to_string();
        record.state = RecordState::Growing;
        let started = write_plan(&folder, &record).and_then(|lock| {
            sync_folder(folder.parent().unwrap_or(Path::new("/")))?;
            Growing::new(folder.clone(), record, lock)
        });
        started.map_err(|why| {
            let _ = remove_folder(&folder, &[RESULTS, &TEMPORARY[..], &[PLAN]].concat());
            with_room(why, &self.root)
        })
    }

    /// Makes the folder of a new record.
    fn claim(&self, mut id: Id) -> Result<(Id, PathBuf)> {
        for _ in 0..IDS_TRIED {
            let shard = self.root.join(id.shard());
            let folder = shard.join(format!("{HIDDEN}{}", id.as_str()));
            let made = create_durably(&shard).with_context(|| {
                format!("creating {}: choose another folder with --records", shard.display())
            });
            made.map_err(|why| with_room(why, self.root.parent().unwrap_or(&self.root)))?;
            let is_taken = fs::symlink_metadata(shard.join(id.as_str())).is_ok();
            let made = if is_taken {
                Err(ErrorKind::AlreadyExists.into())
            } else {
                fs::create_dir(&folder)
            };
            match made {
                Ok(()) => return Ok((id, folder)),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => id = id.next(),
                Err(e) => {
                    let made = Err(e).with_context(|| format!("creating {}", folder.display()));
                    return made.map_err(|why| with_room(why, &self.root));
                }
            }
        }
        bail!("{} has records of all ids up to {}: begin again", self.root.display(), id.as_str())
    }

    /// Resumes a partial record, to add the missing runs.
    pub fn resume(&self, folder: &Path) -> Result<Growing> {
        let hidden = hidden_path(folder)?;
        if !is_our_folder(folder) {
            bail!("{} belongs to another user: copy it to resume the copy", folder.display());
        }
        // Held until nothing is left here that another process could resume or finish.
        let _record_lock = lock_record(folder)?;
        let opened = open(folder)?;
        let samples = sealed_samples(&opened)?;
        let mut record = opened.record;
        record.state = RecordState::Growing;
        record.files.clear();
        record.warnings.retain(|warning| warning.text != WRITER_DIED);
        // At every step a crash leaves something that `recover` understands: as long as the
        // old record.json is there, the folder is as it was.
        let lock = write_plan(folder, &record)?;
        fs::rename(folder, &hidden).with_context(|| format!("resuming {}", folder.display()))?;
        sync_folder(hidden.parent().unwrap_or(Path::new("/")))?;
        write_durably(&hidden.join(SAMPLES_GROWING), |mut file| {
            Ok(file.write_all(&lines::text(&samples)?)?)
        })?;
        remove(&hidden, &[RECORD])?;
        sync_folder(&hidden)?;
        Growing::new(hidden, record, lock)
    }

    /// Finishes what dead writers left: each hidden folder without a lock becomes a partial record, or
    /// is removed if it holds no run. Returns the folders of the recovered records. A folder that
    /// cannot be finished stays as it is and delays no new run; opening it reports the reason. Folders
    /// of other users are left alone, even by root.
    pub fn recover(&self, hostname: &str) -> Result<Vec<PathBuf>> {
        let mut recovered = Vec::new();
        for shard in self.shards()? {
            for (name, folder) in entries(&shard).unwrap_or_default() {
                if name.strip_prefix(HIDDEN).and_then(Id::read).is_some() && is_our_folder(&folder)
                {
                    recovered.extend(recover_folder(&folder, hostname).ok().flatten());
                }
            }
        }
        Ok(recovered)
    }
}

/// The warning of a recovered record until its missing runs are done.
const WRITER_DIED: &str = "the writer died; the finished runs were recovered";

/// How long after its last sign of life a writer of another host counts as alive: this file system may
/// not show its lock.
const OTHER_HOST_TIMEOUT: Duration = Duration::from_secs(24 * 3600);

/// A folder without a plan that is younger than this may belong to a writer that is just starting.
const START_TIMEOUT: Duration = Duration::from_secs(600);

fn recover_folder(folder: &Path, hostname: &str) -> Result<Option<PathBuf>> {
    let plan = folder.join(PLAN);
    let lock = match lock(&plan) {
        Ok(Some(lock)) => lock,
        // The writer is alive, or has just finished.
        Ok(None) => return Ok(None),
        Err(e) if e.kind() == ErrorKind::NotFound => return finish_nearly_done(folder),
        Err(e) => return Err(e).with_context(|| format!("locking {}", plan.display())),
    };
    if !is_ours(&lock.metadata()?) {
        return Ok(None);
    }
    if folder.join(RECORD).exists() {
        return finish_nearly_done(folder);
    }
    let text = io::read_to_string(&lock).with_context(|| format!("reading {}", plan.display()))?;
    let mut record = Record::read(&text).with_context(|| format!("in {}", plan.display()))?;
    if record.host.hostname.as_deref() != Some(hostname)
        && age(&folder.join(RUNS)) < OTHER_HOST_TIMEOUT
    {
        return Ok(None);
    }
    record.warnings.push(Warning::new(WRITER_DIED, "knee run … --resume does the missing ones"));
    Growing::new(folder.to_path_buf(), record, lock)?.finish_as(RecordState::Partial)
}

/// Finishes a hidden folder with a record: its writer died during the last steps of finishing, or the
/// first steps of resuming. Removes a folder with neither record nor plan: its writer died before it
/// had written anything.
fn finish_nearly_done(folder: &Path) -> Result<Option<PathBuf>> {
    if folder.join(RECORD).exists() {
        return tidy_and_unhide(folder).map(Some);
    }
    if age(folder) > START_TIMEOUT {
        remove_folder(folder, &TEMPORARY)?;
    }
    Ok(None)
}

fn age(path: &Path) -> Duration {
    let modified = fs::metadata(path).and_then(|m| m.modified());
    let elapsed = modified.map(|t| SystemTime::now().duration_since(t).unwrap_or_default());
    elapsed.unwrap_or_default()
}

/// A record that is being written.
#[derive(Debug)]
pub struct Growing {
    folder: PathBuf,
    /// The record so far. The caller may add warnings and sessions.
    pub record: Record,
    runs: File,
    samples: File,
    next_run: u32,
    /// Whether all planned work is done, whatever the number of runs. The caller sets it.
    pub complete: bool,
    /// Shows other processes that the writer is alive.
    _lock: File,
}

impl Growing {
    fn new(folder: PathBuf, record: Record, lock: File) -> Result<Growing> {
        let append = |name: &str| {
            let path = folder.join(name);
            no_link()
                .create(true)
                .append(true)
                .open(&path)
                .with_context(|| format!("opening {}", path.display()))
        };
        let runs = append(RUNS)?;
        let samples = append(SAMPLES_GROWING)?;
        sync_folder(&folder)?;
        let next_run = lines::drop_torn(&folder.join(RUNS), Run::read)?.len() as u32;
        Ok(Growing { folder, record, runs, samples, next_run, complete: false, _lock: lock })
    }

    /// The folder that the record grows in.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The number of the next run.
    pub fn next_run(&self) -> u32 {
        self.next_run
    }

    /// Reads back the runs so far.
    pub fn read_runs(&self) -> Result<Vec<Run>> {
        Ok(lines::read(&self.folder.join(RUNS), Run::read)?.values)
    }

    /// Reads back the profiles so far.
    pub fn read_profiles(&self) -> Result<Vec<Profile>> {
        Ok(lines::read(&self.folder.join(PROFILES), Profile::read)?.values)
    }

    /// Adds a profile. When this returns, the profile survives a crash.
    pub fn append_profile(&mut self, profile: &Profile) -> Result<()> {
        self.append_line(PROFILES, profile, Profile::read)
    }

    /// Reads back the boots so far.
    pub fn read_boots(&self) -> Result<Vec<Boot>> {
        read_boots(&self.folder)
    }

    /// Adds a boot, or replaces it by what is known of it now. When this returns, the line survives a
    /// crash.
    pub fn append_boot(&mut self, boot: &Boot) -> Result<()> {
        self.append_line(BOOTS, boot, Boot::read)
    }

    fn append_line<T: serde::Serialize + Send>(
        &self,
        name: &str,
        value: &T,
        parse: impl Fn(&str) -> Result<T> + Sync,
    ) -> Result<()> {
        let path = self.folder.join(name);
        let add = || -> Result<()> {
            lines::drop_torn(&path, parse)?;
            let file = no_link().create(true).append(true).open(&path)?;
            lines::append(&file, &lines::text(std::slice::from_ref(value))?)?;
            sync_folder(&self.folder)
        };
        add().with_context(|| format!("adding a line to {}", path.display()))
    }

    /// Adds a finished or failed run. When this returns, the run survives a crash.
    pub fn append(&mut self, run: &Run, samples: Vec<Sample>) -> Result<()> {
        self.append_all(vec![(run.clone(), samples)])
    }

    /// Fails if somebody has removed the folder: what is written to its open files would be lost.
    fn check_not_removed(&self) -> Result<()> {
        let folder = self.folder.display();
        ensure!(
            self.folder.is_dir(),
            "{folder} was removed while it was being measured: its runs are lost, so measure again"
        );
        Ok(())
    }

    /// Adds several runs with their samples: all of them or, if it fails, none. When this returns, they
    /// survive a crash.
    pub fn append_all(&mut self, added: Vec<(Run, Vec<Sample>)>) -> Result<()> {
        let write = |mut file: &File, lines: Vec<u8>| {
            file.write_all(&lines).and_then(|()| file.sync_data())
        };
        self.check_not_removed()?;
        let first = self.next_run;
        let count = added.len() as u32;
        let numbers = added.iter().map(|(run, _)| run.run);
        assert!(numbers.eq(first..first + count), "runs are numbered in order");
        let (runs, samples): (Vec<Run>, Vec<RunSamples>) = added
            .into_iter()
            .map(|(run, samples)| {
                let number = run.run;
                (run, RunSamples { run: number, samples })
            })
            .unzip();
        let (samples, line) = (lines::text(&samples)?, lines::text(&runs)?);
        let adding = || match count {
            1 => format!("adding run {first} to {}", self.folder.display()),
            _ => format!("adding {count} runs to {}", self.folder.display()),
        };
        let length = |file: &File| file.metadata().map(|m| m.len()).with_context(adding);
        let before = [(&self.samples, length(&self.samples)?), (&self.runs, length(&self.runs)?)];
        let written = write(&self.samples, samples).and_then(|()| write(&self.runs, line));
        if written.is_err() {
            // The next line must not be appended to half of this one.
            for (file, length) in before {
                let _ = file.set_len(length);
            }
        }
        written.with_context(adding)?;
        self.next_run += count;
        Ok(())
    }

    /// Makes the record visible: whole if every planned run was executed, else partial. Returns its
    /// folder, or `None` if there was no run to keep.
    pub fn finish(mut self, now: jiff::Timestamp) -> Result<Option<PathBuf>> {
        if let Some(session) = self.record.sessions.last_mut() {
            session.finished = Some(now);
        }
        // If variants are compared, the number of runs depends on their results.
        let all_done = self.record.runs_planned().is_some_and(|planned| self.next_run >= planned);
        let whole = self.complete || (self.record.variants.len() < 2 && all_done);
        self.finish_as(if whole { RecordState::Whole } else { RecordState::Partial })
    }

    fn finish_as(mut self, state: RecordState) -> Result<Option<PathBuf>> {
        // Adding the last run may have failed halfway.
        let runs = lines::drop_torn(&self.folder.join(RUNS), Run::read)?;
        if runs.is_empty() {
            remove_folder(&self.folder, &[RESULTS, &TEMPORARY[..], &[PLAN]].concat())?;
            return Ok(None);
        }
        self.write_samples(runs.len() as u32)?;
        self.record.state = state;
        self.record.runs_finished = runs.iter().filter(|r| r.finished()).count() as u32;
        self.record.runs_failed = runs.len() as u32 - self.record.runs_finished;
        let profiles = lines::drop_torn(&self.folder.join(PROFILES), Profile::read)?;
        let boots = lines::drop_torn(&self.folder.join(BOOTS), Boot::read)?;
        let beside =
            [(!profiles.is_empty()).then_some(PROFILES), (!boots.is_empty()).then_some(BOOTS)];
        let kept = [RUNS, SAMPLES].into_iter().chain(beside.into_iter().flatten());
        for name in kept {
            self.record.files.insert(name.to_string(), Seal::for_file(&self.folder.join(name))?);
        }
        let text = serde_json::to_string_pretty(&self.record)?;
        write_durably(&self.folder.join(RECORD), |mut file| Ok(file.write_all(text.as_bytes())?))?;
        tidy_and_unhide(&self.folder).map(Some)
    }

    /// Writes the samples of the runs below `runs`; later lines belong to a run that was cut off.
    fn write_samples(&self, runs: u32) -> Result<()> {
        let growing = self.folder.join(SAMPLES_GROWING);
        let finished = self.folder.join(SAMPLES);
        let text = fs::read(&growing).with_context(|| format!("reading {}", growing.display()))?;
        // A resumption died before it had copied the samples.
        if text.is_empty() && finished.exists() {
            return Ok(());
        }
        let samples: Vec<RunSamples> = text
            .split(|b| *b == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .filter(|s: &RunSamples| s.run < runs)
            .collect();
        write_parquet(&finished, &samples)
    }
}

/// Removes a record that is being written, of which nothing is worth keeping. Leaves a finished one alone.
pub fn discard(folder: &Path) -> Result<()> {
    ensure!(is_hidden(folder), "{} is not being written", folder.display());
    remove_folder(folder, &[RESULTS, &TEMPORARY[..], &[PLAN, RECORD]].concat())
}

/// The last line of each boot, by number.
fn read_boots(folder: &Path) -> Result<Vec<Boot>> {
    let lines = lines::read(&folder.join(BOOTS), Boot::read)?.values;
    let boots: BTreeMap<u32, Boot> = lines.into_iter().map(|boot| (boot.boot, boot)).collect();
    Ok(boots.into_values().collect())
}

/// Opens a record's folder, finished or still growing.
pub fn open(folder: &Path) -> Result<Opened> {
    let record = read_record(folder)?;
    let Lines { values, seal, .. } = lines::read(&folder.join(RUNS), Run::read)?;
    let mut opened = Opened { folder: folder.to_path_buf(), record, runs: values.into() };
    warn_if_changed(&mut opened.record, &seal);
    Ok(opened)
}

/// The profiles of a record, in order of execution.
pub fn profiles(opened: &Opened) -> Result<Vec<Profile>> {
    Ok(lines::read(&opened.folder.join(PROFILES), Profile::read)?.values)
}

/// The boots of a record, by number; empty if all runs were made on the host itself.
pub fn boots(opened: &Opened) -> Result<Vec<Boot>> {
    read_boots(&opened.folder)
}

/// All samples of a record as (run, sample), in the order of the runs.
pub fn samples(opened: &Opened) -> Result<Vec<(u32, Sample)>> {
    // While a record grows, its Parquet file is from before the resumption.
    let runs = if opened.record.state != RecordState::Growing {
        sealed_samples(opened)?
    } else {
        let growing = opened.folder.join(SAMPLES_GROWING);
        let text = fs::read(&growing).with_context(|| format!("reading {}", growing.display()))?;
        text.split(|b| *b == b'\n').filter_map(|l| serde_json::from_slice(l).ok()).collect()
    };
    Ok(runs.into_iter().flat_map(|r| r.samples.into_iter().map(move |s| (r.run, s))).collect())
}

/// The warning of a record whose runs have been changed.
const ALTERED: &str = "runs.ndjson has changed since the record was finished";

/// The warning that the runs of a record have changed since it was finished, if they have.
pub fn alteration(opened: &Opened) -> Option<&Warning> {
    opened.record.warnings.iter().find(|warning| warning.text == ALTERED)
}

/// Adds a warning if the runs have changed since the record was finished.
fn warn_if_changed(record: &mut Record, seal: &Seal) {
    if record.files.get(RUNS).is_some_and(|sealed| sealed != seal) {
        record.warnings.push(Warning::new(
            ALTERED,
            "restore the folder from a copy, or trust only the runs you recognise",
        ));
    }
}

/// The samples of a finished record. A changed file is refused: unlike damaged JSON, a damaged Parquet
/// file may parse as anything.
fn sealed_samples(opened: &Opened) -> Result<Vec<RunSamples>> {
    let path = opened.folder.join(SAMPLES);
    if let Some(sealed) = opened.record.files.get(SAMPLES)
        && *sealed != Seal::for_file(&path)?
    {
        bail!(
            "{} has changed since the record was finished: restore it from a copy",
            path.display()
        );
    }
    read_parquet(&path)
}

/// When the finished record in a folder was written, in ns since 1970.
pub fn record_modified_ns(folder: &Path) -> Option<i64> {
    let metadata = fs::metadata(folder.join(RECORD)).ok()?;
    Some(metadata.mtime() * 1_000_000_000 + metadata.mtime_nsec())
}

/// Length of a finished record's files, from their seals.
pub fn bytes(folder: &Path, record: &Record) -> u64 {
    let own = fs::metadata(folder.join(RECORD)).map_or(0, |metadata| metadata.len());
    own + record.files.values().map(|seal| seal.bytes).sum::<u64>()
}

/// Reads the record in a folder, finished or growing. Refuses one whose folder has the id of another.
pub fn read_record(folder: &Path) -> Result<Record> {
    for name in [RECORD, PLAN] {
        let path = folder.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => continue,
            Err(e) => return Err(e).with_context(|| format!("reading {}", path.display())),
        };
        let record = Record::read(&text).with_context(|| format!("in {}", path.display()))?;
        let folder_id = id_in_name(folder).filter(|id| *id != record.id);
        ensure!(
            folder_id.is_none(),
            "{} has the id {}, which is not the name of its folder: give the folder its name back, or \
             any name that is no id",
            path.display(),
            record.id.escape_debug()
        );
        return Ok(record);
    }
    bail!("{} is not a record: it has neither {RECORD} nor {PLAN}", folder.display())
}

/// The id that a folder has for its name, hidden or not; `None` if its name is no id.
pub fn id_in_name(folder: &Path) -> Option<String> {
    let name = folder.file_name()?.to_str()?;
    let id = Id::read(name.strip_prefix(HIDDEN).unwrap_or(name))?;
    Some(id.as_str().to_string())
}

/// Whether a folder is of a record that is not finished.
pub fn is_hidden(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(HIDDEN.as_bytes()))
}

/// Whether the writer of a hidden folder is alive.
pub fn writer(folder: &Path) -> io::Result<Writer> {
    Ok(match lock(&folder.join(PLAN))? {
        Some(_) => Writer::Dead,
        None => Writer::Alive,
    })
}

/// The writer of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Alive,
    Dead,
}

/// Writes the plan and locks it. The lock is held before the file gets its name.
fn write_plan(folder: &Path, record: &Record) -> Result<File> {
    let path = folder.join(PLAN);
    let beside = folder.join("plan.tmp");
    let text = serde_json::to_string_pretty(record)?;
    let write = || -> io::Result<File> {
        let mut file = create_anew(&beside)?;
        file.try_lock()?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, &path)?;
        Ok(file)
    };
    let lock = write().with_context(|| {
        format!("writing {}, {} KiB", path.display(), text.len().div_ceil(1024))
    })?;
    sync_folder(folder)?;
    Ok(lock)
}

fn hidden_path(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if name.starts_with(HIDDEN) || Id::read(name).is_none() {
        bail!("{} is not the folder of a finished record", folder.display());
    }
    Ok(folder.with_file_name(format!("{HIDDEN}{name}")))
}

/// Locks the `record.json` in a folder that is to be renamed. The plan's lock is not enough: a process
/// that resumes the record writes a plan of its own.
pub fn lock_record(folder: &Path) -> Result<File> {
    let path = folder.join(RECORD);
    let locked = lock(&path).with_context(|| format!("locking {}", path.display()))?;
    locked
        .with_context(|| format!("{}: another knee is finishing or resuming it", folder.display()))
}

/// Opens and locks a file; `None` if another process holds the lock, or moved the file before it was
/// locked.
fn lock(path: &Path) -> io::Result<Option<File>> {
    // Over NFS only a file that is open for writing can be locked.
    let file = no_link().read(true).write(true).open(path)?;
    match file.try_lock() {
        Ok(()) => (),
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(e)) => return Err(e),
    }
    let identity = |metadata: Metadata| (metadata.dev(), metadata.ino());
    let locked = identity(file.metadata()?);
    let current = fs::symlink_metadata(path).map(identity);
    Ok(current.is_ok_and(|current| current == locked).then_some(file))
}

fn is_ours(metadata: &Metadata) -> bool {
    metadata.uid() == host::paths::user()
}

pub fn is_our_folder(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && is_ours(&m))
}

/// Creates a shard's folder and its missing ancestors, so that they survive a crash of the host.
fn create_durably(shard: &Path) -> io::Result<()> {
    let missing = shard.ancestors().filter(|folder| !folder.exists()).count();
    fs::create_dir_all(shard)?;
    // Always ROOT and its parent: the process that created the shard may have died before this.
    for above in shard.canonicalize()?.ancestors().skip(1).take(missing.max(2)) {
        // An older folder may be unreadable; it does not need flushing.
        let _ = sync_folder(above);
    }
    Ok(())
}

/// The last steps of finishing, after `record.json` has become durable. The plan is removed last: its
/// lock keeps other processes away until the folder has its final name.
fn tidy_and_unhide(folder: &Path) -> Result<PathBuf> {
    let _record_lock = lock_record(folder)?;
    remove(folder, &[SAMPLES_GROWING])?;
    remove(folder, &TEMPORARY)?;
    sync_folder(folder)?;
    let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    let visible = folder.with_file_name(name.trim_start_matches(HIDDEN));
    fs::rename(folder, &visible)
        .with_context(|| format!("renaming {} to {}", folder.display(), visible.display()))?;
    sync_folder(visible.parent().unwrap_or(Path::new("/")))?;
    remove(&visible, &[PLAN])?;
    Ok(visible)
}

/// Removes all that knee writes into a record's folder, the record first: a folder without it is no record.
/// Removes the folder too unless it holds other files; returns whether it did.
pub fn remove_record(folder: &Path) -> Result<bool> {
    remove_folder(folder, &[&[RECORD, PLAN], RESULTS, &TEMPORARY[..]].concat())?;
    Ok(!folder.exists())
}

/// Removes these files from a folder.
fn remove(folder: &Path, names: &[&str]) -> Result<()> {
    for path in names.iter().map(|name| folder.join(name)) {
        remove_if_there(&path).with_context(|| format!("removing {}", path.display()))?;
    }
    Ok(())
}

/// Removes a folder without runs: these files, and the folder itself unless it holds other files.
fn remove_folder(folder: &Path, names: &[&str]) -> Result<()> {
    remove(folder, names)?;
    match fs::remove_dir(folder) {
        Err(e) if e.kind() != ErrorKind::DirectoryNotEmpty => {
            Err(e).with_context(|| format!("removing {}", folder.display()))
        }
        _ => Ok(()),
    }
}

/// Names and paths of a folder's entries; empty if there is no such folder.
pub fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(e).with_context(|| format!("listing {}", folder.display())),
    };
    let named = entries.filter_map(|entry| {
        let path = entry.ok()?.path();
        Some((path.file_name()?.to_str()?.to_string(), path))
    });
    Ok(named.collect())
}
