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
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};
use host::HeldFolder;
use host::durable::with_room;
use records::{Boot, Opened, Profile, Record, RecordState, Run, Sample, Seal, Warning};

use crate::id::Id;
use crate::lines::{self, Lines};
use crate::record_files::{
    BOOTS, Lock, PLAN, PROFILES, Place, RECORD, RECORD_LIMIT, RESULTS, RESULTS_LIMIT, RUNS,
    SAMPLES, SAMPLES_GROWING, TEMPORARY, create_durably, is_our_folder, is_ours, lock, lock_record,
    modified, places, remove, remove_folder, seal, write_plan,
};
use crate::samples::{RunSamples, read_parquet, write_parquet};

const HIDDEN: &str = ".part-";

/// The files that decide what a record is, and so what measuring it again would run.
pub const DECISIVE_FILES: &[&str] = &[RECORD, PLAN, RUNS];

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
        let Some(root) = HeldFolder::open_if_there(&self.root)? else { return Ok(shards) };
        for entry in root.list()?.into_iter().filter(|entry| entry.is_folder()) {
            shards.extend(
                is_shard(&entry.name.to_string_lossy()).then(|| self.root.join(&entry.name)),
            );
        }
        shards.sort();
        Ok(shards)
    }

    /// What has the name of a shard and is no folder: nothing below it is listed or removed.
    pub fn false_shards(&self) -> Result<Vec<PathBuf>> {
        let false_shards = places(&self.root)?.into_iter();
        let false_shards = false_shards.filter(|place| !place.is_folder && is_shard(&place.name));
        Ok(false_shards.map(|place| place.path).collect())
    }

    /// The folders of its records, finished or not.
    pub fn folders(&self) -> Result<Vec<PathBuf>> {
        let mut folders = Vec::new();
        for shard in self.shards()? {
            let here = places(&shard)?.into_iter().filter(|place| place.is_folder);
            folders.extend(here.map(|place| place.path).filter(|path| id_in_name(path).is_some()));
        }
        Ok(folders)
    }

    /// Starts a record. `record` must have the plan; the id, state and results are set by the store. The id is the given
    /// one, or the next that no record here has. A record that cannot be started leaves nothing.
    pub fn begin(&self, mut record: Record, id: Id) -> Result<Growing> {
        let (id, shard) = self.claim(id)?;
        let name = format!("{HIDDEN}{}", id.as_str());
        let held = shard.folder(&name)?.context("the folder of the new record was removed")?;
        record.id = id.as_str().to_string();
        record.state = RecordState::Growing;
        let started = write_plan(&held, &record).and_then(|lock| {
            shard.sync()?;
            let folder = self.root.join(id.shard()).join(&name);
            Growing::new(folder, shard.folder(&name)?.context("it was removed")?, record, lock)
        });
        started.map_err(|why| {
            let _ = remove_folder(&shard, &held, &[RESULTS, &TEMPORARY[..], &[PLAN]].concat());
            with_room(why, &self.root)
        })
    }

    /// Makes the folder of a new record. Returns its id and its shard.
    fn claim(&self, mut id: Id) -> Result<(Id, HeldFolder)> {
        for _ in 0..IDS_TRIED {
            let shard = create_durably(&self.root, id.shard()).with_context(|| {
                let shard = self.root.join(id.shard());
                format!("creating {}: choose another folder with --records", shard.display())
            });
            let shard =
                shard.map_err(|why| with_room(why, self.root.parent().unwrap_or(&self.root)))?;
            let is_taken = shard.look(id.as_str())?.is_some();
            let made = if is_taken {
                Ok(None)
            } else {
                shard.create_new_folder(format!("{HIDDEN}{}", id.as_str()))
            };
            match made.map_err(|why| with_room(why, &self.root))? {
                Some(_) => return Ok((id, shard)),
                None => id = id.next(),
            }
        }
        bail!("{} has records of all ids up to {}: begin again", self.root.display(), id.as_str())
    }

    /// Resumes a partial record, to add the missing runs.
    pub fn resume(&self, folder: &Path) -> Result<Growing> {
        let hidden = hidden_path(folder)?;
        let (shard, name) = HeldFolder::above(folder)?;
        let held = HeldFolder::open(folder)?;
        if !is_our_folder(&held) {
            bail!("{} belongs to another user: copy it to resume the copy", folder.display());
        }
        // Held until nothing is left here that another process could resume or finish.
        let _record_lock = lock_record(&held)?;
        let opened = open(folder)?;
        let samples = sealed_samples(&opened)?;
        let mut record = opened.record;
        record.state = RecordState::Growing;
        record.files.clear();
        record.warnings.retain(|warning| warning.text != WRITER_DIED);
        // At every step a crash leaves something that `recover` understands: as long as the
        // old record.json is there, the folder is as it was.
        let lock = write_plan(&held, &record)?;
        let hidden_name = hidden.file_name().context("a record's folder has a name")?;
        shard
            .rename(name, hidden_name)
            .with_context(|| format!("resuming {}", folder.display()))?;
        shard.sync()?;
        let held = shard.folder(hidden_name)?.context("the record was removed")?;
        held.replace_by(SAMPLES_GROWING, "samples.tmp", |mut file| {
            Ok(file.write_all(&lines::text(&samples)?)?)
        })?;
        remove(&held, &[RECORD])?;
        held.sync()?;
        Growing::new(hidden, held, record, lock)
    }

    /// Finishes what dead writers left: each hidden folder without a lock becomes a partial record, or
    /// is removed if it holds no run. Returns the folders of the recovered records. A folder that
    /// cannot be finished stays as it is and delays no new run; opening it reports the reason. Folders
    /// of other users are left alone, even by root.
    pub fn recover(&self, hostname: &str) -> Result<Vec<PathBuf>> {
        let mut recovered = Vec::new();
        for shard in self.shards()? {
            for Place { name, path: folder, is_folder } in places(&shard).unwrap_or_default() {
                if is_folder && name.strip_prefix(HIDDEN).and_then(Id::read).is_some() {
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
    let held = HeldFolder::open(folder)?;
    if !is_our_folder(&held) {
        return Ok(None);
    }
    let lock = match lock(&held, PLAN)? {
        Lock::Held(lock) => lock,
        // The writer is alive, or has just finished.
        Lock::Busy => return Ok(None),
        Lock::Missing => return finish_nearly_done(folder, &held),
    };
    if !is_ours(&lock.metadata()?) {
        return Ok(None);
    }
    if held.look(RECORD)?.is_some() {
        return finish_nearly_done(folder, &held);
    }
    let text = held.read_text(PLAN, RECORD_LIMIT)?.context("the plan was removed")?;
    let mut record = Record::read(&text).with_context(|| format!("in {}", folder.display()))?;
    if record.host.hostname.as_deref() != Some(hostname)
        && age(&folder.join(RUNS)) < OTHER_HOST_TIMEOUT
    {
        return Ok(None);
    }
    record.warnings.push(Warning::new(WRITER_DIED, "knee run … --resume does the missing ones"));
    Growing::new(folder.to_path_buf(), held, record, lock)?.finish_as(RecordState::Partial)
}

/// Finishes a hidden folder with a record: its writer died during the last steps of finishing, or the
/// first steps of resuming. Removes a folder with neither record nor plan: its writer died before it
/// had written anything.
fn finish_nearly_done(folder: &Path, held: &HeldFolder) -> Result<Option<PathBuf>> {
    if held.look(RECORD)?.is_some() {
        return tidy_and_unhide(folder, held).map(Some);
    }
    if age(folder) > START_TIMEOUT {
        remove_folder(&HeldFolder::above(folder)?.0, held, &TEMPORARY)?;
    }
    Ok(None)
}

fn age(path: &Path) -> Duration {
    let elapsed = modified(path).map(|t| SystemTime::now().duration_since(t).unwrap_or_default());
    elapsed.unwrap_or_default()
}

/// A record that is being written.
#[derive(Debug)]
pub struct Growing {
    folder: PathBuf,
    held: HeldFolder,
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
    fn new(folder: PathBuf, held: HeldFolder, record: Record, lock: File) -> Result<Growing> {
        let runs = held.append(RUNS)?;
        let samples = held.append(SAMPLES_GROWING)?;
        held.sync()?;
        let next_run = lines::drop_torn(&folder.join(RUNS), Run::read)?.len() as u32;
        Ok(Growing { folder, held, record, runs, samples, next_run, complete: false, _lock: lock })
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
            lines::append(&self.held.append(name)?, &lines::text(std::slice::from_ref(value))?)?;
            self.held.sync()
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
            let shard = HeldFolder::above(&self.folder)?.0;
            remove_folder(&shard, &self.held, &[RESULTS, &TEMPORARY[..], &[PLAN]].concat())?;
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
            self.record.files.insert(name.to_string(), seal(&self.held, name)?);
        }
        let text = serde_json::to_string_pretty(&self.record)?;
        self.held
            .replace_by(RECORD, "record.tmp", |mut file| Ok(file.write_all(text.as_bytes())?))?;
        tidy_and_unhide(&self.folder, &self.held).map(Some)
    }

    /// Writes the samples of the runs below `runs`; later lines belong to a run that was cut off.
    fn write_samples(&self, runs: u32) -> Result<()> {
        let text = read_growing(&self.held)?;
        // A resumption died before it had copied the samples.
        if text.is_empty() && self.held.look(SAMPLES)?.is_some() {
            return Ok(());
        }
        let samples: Vec<RunSamples> = text
            .split(|b| *b == b'\n')
            .filter_map(|line| serde_json::from_slice(line).ok())
            .filter(|s: &RunSamples| s.run < runs)
            .collect();
        write_parquet(&self.held, SAMPLES, &samples)
    }
}

/// The samples of a record that grows, as lines.
fn read_growing(folder: &HeldFolder) -> Result<Vec<u8>> {
    let text = folder.read(SAMPLES_GROWING, RESULTS_LIMIT)?;
    text.with_context(|| format!("{}/{SAMPLES_GROWING} is missing", folder.path().display()))
}

/// Removes a record that is being written, of which nothing is worth keeping. Leaves a finished one alone.
pub fn discard(folder: &Path) -> Result<()> {
    ensure!(is_hidden(folder), "{} is not being written", folder.display());
    let (shard, name) = HeldFolder::above(folder)?;
    let Some(held) = shard.folder(name)? else { return Ok(()) };
    remove_folder(&shard, &held, &[RESULTS, &TEMPORARY[..], &[PLAN, RECORD]].concat()).map(drop)
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
        let text = read_growing(&HeldFolder::open(&opened.folder)?)?;
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
    let held = HeldFolder::open(&opened.folder)?;
    if let Some(sealed) = opened.record.files.get(SAMPLES)
        && *sealed != seal(&held, SAMPLES)?
    {
        bail!(
            "{}/{SAMPLES} has changed since the record was finished: restore it from a copy",
            opened.folder.display()
        );
    }
    read_parquet(&held, SAMPLES)
}

/// When the finished record in a folder was written, in ns since 1970.
pub fn record_modified_ns(folder: &Path) -> Option<i64> {
    let modified = modified(&folder.join(RECORD)).ok()?;
    Some(modified.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_nanos() as i64)
}

/// Length of a finished record's files, from their seals.
pub fn bytes(folder: &Path, record: &Record) -> u64 {
    let own = folder.join(RECORD).symlink_metadata().map_or(0, |metadata| metadata.len());
    own + record.files.values().map(|seal| seal.bytes).sum::<u64>()
}

/// Reads the record in a folder, finished or growing. Refuses one whose folder has the id of another.
pub fn read_record(folder: &Path) -> Result<Record> {
    let held = HeldFolder::open_if_there(folder)?;
    for (name, held) in [RECORD, PLAN].into_iter().filter_map(|name| Some((name, held.as_ref()?))) {
        let path = folder.join(name);
        let Some(text) = held.read_text(name, RECORD_LIMIT)? else { continue };
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
pub fn writer(folder: &HeldFolder) -> Result<Writer> {
    Ok(match lock(folder, PLAN)? {
        Lock::Busy => Writer::Alive,
        Lock::Held(_) | Lock::Missing => Writer::Dead,
    })
}

/// The writer of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    Alive,
    Dead,
}

fn hidden_path(folder: &Path) -> Result<PathBuf> {
    let name = folder.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    if name.starts_with(HIDDEN) || Id::read(name).is_none() {
        bail!("{} is not the folder of a finished record", folder.display());
    }
    Ok(folder.with_file_name(format!("{HIDDEN}{name}")))
}

/// The last steps of finishing, after `record.json` has become durable. The plan is removed last: its
/// lock keeps other processes away until the folder has its final name.
fn tidy_and_unhide(folder: &Path, held: &HeldFolder) -> Result<PathBuf> {
    let _record_lock = lock_record(held)?;
    remove(held, &[SAMPLES_GROWING])?;
    remove(held, &TEMPORARY)?;
    held.sync()?;
    let (shard, name) = HeldFolder::above(folder)?;
    let visible = name.to_str().unwrap_or_default().trim_start_matches(HIDDEN).to_string();
    shard.rename(name, &visible)?;
    shard.sync()?;
    remove(held, &[PLAN])?;
    Ok(folder.with_file_name(visible))
}

fn is_shard(name: &str) -> bool {
    name.len() == 2 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
