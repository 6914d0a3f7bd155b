//! From the records of all chunks to one record for each kind of host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::{random, signals};
use records::{Boot, Opened, Record, Run, Sample, Session};
use store::{Growing, Id, Store};

use crate::claims::Folder;
use crate::parts::open_part;
use crate::plan_file::Plan;

/// One record that was collected.
#[derive(Clone, Debug)]
pub struct Collected {
    pub id: String,
    pub folder: PathBuf,
    pub nodes: BTreeSet<String>,
    pub blocks: usize,
    pub runs: u32,
}

/// Blocks of one claim that count.
struct Part {
    records: PathBuf,
    blocks: BTreeSet<u32>,
}

/// Copies the runs that count into records of `store`, one for each kind of host: kinds are compared by
/// their verdicts, never mixed. With `partial`, what is missing may be missing. `others`: why others than the user may
/// have written what is there, which the records then say.
pub fn collect(
    folder: &Folder,
    plan: &Plan,
    store: &Store,
    label: &str,
    partial: bool,
    others: Option<&str>,
) -> Result<Vec<Collected>> {
    let (parts, missing) = parts(folder, plan)?;
    ensure!(
        missing == 0 || partial,
        "{missing} of {} chunks are not done: run knee fleet chunk {} on some host, or collect what is there with \
         --partial",
        plan.chunks.len(),
        folder.root().display()
    );
    let mut kinds: BTreeMap<String, Vec<Part>> = BTreeMap::new();
    for part in parts {
        let kind = kind_of_host(&opened(&part)?.record)?;
        kinds.entry(kind).or_default().push(part);
    }
    ensure!(!kinds.is_empty(), "no chunk is done yet: nothing to collect");
    let complete = missing == 0;
    // A signal must leave no half of a record.
    signals::catch();
    let begin = |parts: &[Part]| -> Result<Record> {
        let mut record = opened(parts.first().context("a kind of host has a part")?)?.record;
        record.warnings.clear();
        others.iter().for_each(|why| record.note_others(why));
        record.label = label.to_string();
        Ok(record)
    };
    kinds.values().map(|parts| join(parts, plan, store, begin(parts)?, complete)).collect()
}

/// What of every claim counts, in the order of the blocks, and how many chunks are not done.
fn parts(folder: &Folder, plan: &Plan) -> Result<(Vec<Part>, usize)> {
    let (mut parts, mut missing) = (Vec::new(), 0);
    for (number, chunk) in plan.chunks.iter().enumerate() {
        let Some(done) = folder.read_done(number)? else {
            missing += 1;
            continue;
        };
        ensure!(
            chunk.is_whole(done.blocks.keys(), plan.blocks()),
            "done/{number:04} does not list the blocks of its chunk: the plan was changed"
        );
        let mut claims: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
        for (block, claim) in done.blocks {
            claims.entry(claim).or_default().insert(block);
        }
        for claim in claims.keys() {
            folder.check_records(number, *claim)?;
            ensure!(
                folder.read_claim(number, *claim)?.plan == folder.plan_hash(),
                "chunk {number} was measured by another plan: plan.json was changed since; bring the old \
                 one back, or plan into a new directory"
            );
        }
        parts.extend(
            claims
                .into_iter()
                .map(|(claim, blocks)| Part { records: folder.records_of(number, claim), blocks }),
        );
    }
    Ok((parts, missing))
}

fn opened(part: &Part) -> Result<Opened> {
    let there = || format!("{} has no record, but its blocks are done", part.records.display());
    open_part(&part.records)?.with_context(there)
}

/// What hosts must have in common for their runs to be replicates.
fn kind_of_host(record: &Record) -> Result<String> {
    let host = &record.host;
    // Where kernels are compared, a host has been in each.
    let boots = record.experiment.has_metal();
    let kernel = (!boots).then_some((&host.kernel_release, &host.kernel_version));
    Ok(serde_json::to_string(&(&host.cpu_model, kernel, &record.topology, &record.points))?)
}

fn join(
    parts: &[Part],
    plan: &Plan,
    store: &Store,
    record: Record,
    complete: bool,
) -> Result<Collected> {
    let record = Record { blocks: None, sessions: Vec::new(), files: BTreeMap::new(), ..record };
    let mut joined = store.begin(record, Id::new(jiff::Timestamp::now(), random() as u32))?;
    let growing = joined.folder().to_path_buf();
    let blocks = parts.iter().map(|part| part.blocks.len()).sum();
    let collected = append_all(&mut joined, parts).and_then(|nodes| {
        // What hosts started is of no use to who wants to measure again.
        for session in joined.record.sessions.iter_mut().filter(|_| !plan.command.is_empty()) {
            session.command.clone_from(&plan.command);
        }
        joined.complete = complete;
        let (id, runs) = (joined.record.id.clone(), joined.next_run());
        let ended = joined.record.sessions.last().and_then(|session| session.finished);
        let folder = joined.finish(ended.unwrap_or_else(jiff::Timestamp::now))?;
        let Some(folder) = folder else { bail!("the chunks that are done hold no run") };
        Ok(Collected { id, folder, nodes, blocks, runs })
    });
    if collected.is_err() && growing.exists() {
        // What is joined lies in the fleet's directory too: half a record would only mislead.
        store::discard(&growing)?;
    }
    collected
}

fn node_name(record: &Record) -> String {
    record.host.hostname.clone().unwrap_or_else(|| "unnamed host".to_string())
}

/// Appends the runs of all parts. Returns the names of their nodes.
fn append_all(joined: &mut Growing, parts: &[Part]) -> Result<BTreeSet<String>> {
    let mut joining = Joining { joined, pending: Vec::new(), boots: 0, profiles: 0 };
    let mut nodes = BTreeSet::new();
    for part in parts {
        ensure!(
            signals::received().is_none(),
            "interrupted: nothing was collected, and the chunks are as they were"
        );
        let opened = opened(part)?;
        nodes.insert(node_name(&opened.record));
        joining.add(part, &opened)?;
    }
    joining.write_pending()?;
    Ok(nodes)
}

/// Runs are written together, since each write waits for the disk.
const RUNS_PER_WRITE: usize = 500;

/// A record that grows by the runs of one part after the other.
struct Joining<'a> {
    joined: &'a mut Growing,
    /// Runs with their samples that are not written yet.
    pending: Vec<(Run, Vec<Sample>)>,
    /// Numbers of boots and profiles so far.
    boots: u32,
    profiles: u32,
}

impl Joining<'_> {
    /// Adds the runs of one part as a session of its node.
    fn add(&mut self, part: &Part, opened: &Opened) -> Result<()> {
        let first_run = self.joined.next_run() + self.pending.len() as u32;
        let record = &opened.record;
        let session = record.sessions.last().context("a record has a session")?;
        self.joined.record.sessions.push(Session {
            first_run,
            node: Some(node_name(record)),
            ..session.clone()
        });
        for warning in &record.warnings {
            if !self.joined.record.warnings.contains(warning) {
                self.joined.record.warnings.push(warning.clone());
            }
        }
        let mut samples: BTreeMap<u32, Vec<Sample>> = BTreeMap::new();
        for (run, sample) in store::samples(opened)? {
            samples.entry(run).or_default().push(sample);
        }
        let counting = opened.runs.iter().filter(|run| part.blocks.contains(&run.block));
        let boots = self.boots;
        self.pending.extend(counting.zip(first_run..).map(|(run, number)| {
            let boot = run.boot.map(|boot| boots + boot);
            let samples = samples.remove(&run.run).unwrap_or_default();
            (Run { run: number, boot, ..run.clone() }, samples)
        }));
        if self.pending.len() >= RUNS_PER_WRITE {
            self.write_pending()?;
        }
        let of_part = store::boots(opened)?;
        self.boots += of_part.iter().map(|boot| boot.boot + 1).max().unwrap_or(0);
        for boot in of_part {
            self.joined.append_boot(&Boot { boot: boots + boot.boot, ..boot })?;
        }
        let profiles = store::profiles(opened)?.into_iter();
        for profile in profiles.filter(|profile| part.blocks.contains(&profile.block)) {
            self.joined.append_profile(&records::Profile { number: self.profiles, ..profile })?;
            self.profiles += 1;
        }
        Ok(())
    }

    fn write_pending(&mut self) -> Result<()> {
        self.joined.append_all(std::mem::take(&mut self.pending))
    }
}
