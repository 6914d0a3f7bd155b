//! From the records of all chunks to one record for each kind of host.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, bail, ensure};
use host::{random, signals};
use records::{Boot, Opened, Point, Record, Run, Sample, Session, Warning};
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
    /// How these hosts differ from those of the plan's other records; empty if there is no other.
    pub differs: String,
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
    let mut kinds: BTreeMap<HostKind, Vec<Part>> = BTreeMap::new();
    for part in parts {
        let kind = HostKind::new(&opened(&part)?.record)?;
        kinds.entry(kind).or_default().push(part);
    }
    ensure!(!kinds.is_empty(), "no chunk is done yet: nothing to collect");
    let all: Vec<HostKind> = kinds.keys().cloned().collect();
    let complete = missing == 0;
    // A signal must leave no half of a record.
    signals::catch();
    let begin = |kind: &HostKind, parts: &[Part]| -> Result<Record> {
        let mut record = opened(parts.first().context("a kind of host has a part")?)?.record;
        record.warnings.clear();
        others.iter().for_each(|why| record.note_others(why));
        record.label = label.to_string();
        record.blocks = None;
        if all.len() > 1 {
            record.blocks = Some(parts.iter().flat_map(|part| part.blocks.clone()).collect());
            let (own, blocks) = (record.blocks_planned(), plan.blocks());
            let why = kind.differences(&all);
            let text = format!("{own} of {blocks} blocks are here: hosts differ in {why}");
            let advice =
                "each kind of host has a record and a verdict of its own: read all of them";
            record.warnings.push(Warning::new(text, advice));
        }
        Ok(record)
    };
    let join = |(kind, parts): (&HostKind, &Vec<Part>)| -> Result<Collected> {
        let differs = kind.differences(&all);
        Ok(Collected { differs, ..join(parts, plan, store, begin(kind, parts)?, complete)? })
    };
    kinds.iter().map(join).collect()
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

/// What hosts must have in common for their runs to be replicates: names with values, as a reader sees them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct HostKind {
    /// Everything, in one text.
    all: String,
    named: [(&'static str, String); 4],
    /// The CPUs of the host, which are too many to be shown.
    topology: String,
}

impl HostKind {
    fn new(record: &Record) -> Result<HostKind> {
        let host = &record.host;
        // Where kernels are compared, a host has been in each.
        let boots = record.experiment.has_metal();
        let kernel = (!boots).then_some((&host.kernel_release, &host.kernel_version));
        let all =
            serde_json::to_string(&(&host.cpu_model, kernel, &record.topology, &record.points))?;
        let text = |text: &Option<String>| text.clone().unwrap_or("unknown".to_string());
        let release = kernel.map_or(String::new(), |(release, version)| {
            format!("{} {}", text(release), text(version))
        });
        let each_once = |values: Vec<String>| {
            let once: BTreeSet<String> = values.into_iter().collect();
            Vec::from_iter(once).join(" or ")
        };
        let cpus =
            |point: &Point| point.cpu_list.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let directory = |point: &Point| point.dir.display().to_string();
        let named = [
            ("the processor", text(&host.cpu_model)),
            ("the kernel", release),
            ("the CPUs measured", each_once(record.points.iter().map(cpus).collect())),
            ("the directory", each_once(record.points.iter().map(directory).collect())),
        ];
        Ok(HostKind { all, named, topology: serde_json::to_string(&record.topology)? })
    }

    /// "the CPUs measured (here 2, elsewhere 0)": how hosts of this kind differ from those of all others; empty if this is
    /// the only kind.
    fn differences(&self, kinds: &[HostKind]) -> String {
        let others = || kinds.iter().filter(|other| *other != self);
        let mut differences = Vec::new();
        for (at, (name, here)) in self.named.iter().enumerate() {
            let there: BTreeSet<&str> = others().map(|other| other.named[at].1.as_str()).collect();
            let there: Vec<&str> = there.into_iter().filter(|there| there != here).collect();
            if !there.is_empty() {
                differences.push(format!("{name} (here {here}, elsewhere {})", there.join("; ")));
            }
        }
        if others().any(|other| other.topology != self.topology) {
            differences.push("how CPUs share cores, caches and nodes".to_string());
        }
        if differences.is_empty() && others().next().is_some() {
            differences.push("the points that they measured".to_string());
        }
        differences.join(", ")
    }
}

fn join(
    parts: &[Part],
    plan: &Plan,
    store: &Store,
    record: Record,
    complete: bool,
) -> Result<Collected> {
    let record = Record { sessions: Vec::new(), files: BTreeMap::new(), ..record };
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
        Ok(Collected { id, folder, nodes, blocks, runs, differs: String::new() })
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
