//! Recordings of perf as ledgers.
//!
//! In a recording of all CPUs by a clock, each nanosecond of a CPU belongs to the sample that ends
//! it. Samples tile the time, so rows add up to CPUs × time without any scaling. A gap that is much
//! longer than the distance of two samples was seen by none, and is a row of its own. In a recording
//! of tasks, or by another event, each sample stands for its period, and rows add up to the periods.

mod from_looks;
mod parts;
mod unused;

use std::collections::{BTreeMap, BTreeSet};

use records::recording::{Function, PerfSample, Recording};
use records::{Base, CpuMode, CpuState, Obtained, SampledStacks, Stack};
use schemars::JsonSchema;
use serde::Serialize;

use super::chance::{RUN_TO_RUN, RUN_TO_RUN_OF_STARTS};
use super::sampled::{group_row, late_functions, row_path};
use super::{
    FOR_REASONS_NOT_KNOWN, IDLE, Ledger, LedgerRow, LedgerUnit, NO_TASK, OTHERS, WORK, split,
};

use parts::Parts;

pub use from_looks::recording_from_looks;

/// A gap longer than this many times the sampling period was not sampled.
const GAP: u64 = 3;

/// More CPUs than a host has.
const CPUS_MAX: u32 = 8192;

/// Row of the CPU time without samples: an idle CPU may take none; the host had the CPU; interrupts were off for long;
/// sampling was throttled.
pub const UNSEEN: &str = "not sampled: idle, or the host had the CPU";
/// Row of the time of samples that perf lost.
pub const LOST: &str = "samples lost";

/// What the user says about a recording.
#[derive(Clone, Debug, Default)]
pub struct RecordingQuestion {
    /// Operations that were completed during the recording.
    pub operations: Option<u64>,
    /// Names of the workload's tasks; empty for all tasks but perf's own.
    pub tasks: Vec<String>,
}

/// The ledger of a recording, and what its numbers mean.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordedLedger {
    /// Without a number of operations, each nanosecond of recorded time counts as an operation.
    pub ledger: Ledger,
    /// The unit of values.
    pub measure: Measure,
    /// What values are per.
    pub per: Per,
    /// What the root adds up to.
    pub whole: Whole,
    /// Time from the first to the last sample.
    pub span_ns: u64,
    /// Number of samples.
    pub samples: u64,
}

/// The unit of a ledger of samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    Nanoseconds,
    /// An event that is not a clock.
    Events(String),
}

/// What values are per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// An operation: the user gave their number.
    Operation,
    /// A second of recorded time.
    Second,
}

/// What a ledger of samples adds up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// CPUs × recorded time.
    CpusTime {
        /// Number of CPUs.
        cpus: u32,
    },
    /// The periods of all samples.
    Samples,
}

impl RecordedLedger {
    /// The factor from a value per operation of the ledger to a value per what [`Per`] says.
    pub fn scale(&self) -> f64 {
        match self.per {
            Per::Operation => 1.0,
            Per::Second => 1e9,
        }
    }
}

/// The ledgers of recordings that are to be read together. Samples are assigned to rows by what all
/// of the recordings show, so that their rows have the same names.
pub fn ledgers_from_recordings(
    recordings: &[(&Recording, &RecordingQuestion)],
) -> Vec<RecordedLedger> {
    let work: Vec<WorkSamples> = recordings
        .iter()
        .map(|(recording, question)| WorkSamples::new(recording, question))
        .collect();
    let late = late_functions(work.iter().map(|work| &work.samples));
    let used =
        recordings.iter().map(|(recording, question)| unused::cpus_used(recording, question));
    let used = used.max().unwrap_or(0);
    let ledger = |((recording, question), work): (&(&Recording, &RecordingQuestion), _)| {
        let rows = RowIndex::new(recording, question, work, &late);
        LedgerBuilder::new(recording, question, rows, used).build()
    };
    recordings.iter().zip(&work).map(ledger).collect()
}

/// Whose task a sample saw: the workload's, another one, or none.
fn base(recording: &Recording, question: &RecordingQuestion, sample: &PerfSample) -> Base {
    if sample.tid == 0 && sample.pid <= 0 {
        return Base::Idle;
    }
    let name = recording.tasks[sample.task as usize].as_str();
    let is_work = match &question.tasks[..] {
        [] => name != "perf" && !name.starts_with("perf-"),
        tasks => tasks.iter().any(|task| task == name),
    };
    if is_work { Base::Work } else { Base::Other }
}

const MODES: [CpuMode; 3] = [CpuMode::Kernel, CpuMode::User, CpuMode::AfterSystemCall];

/// Index of a chain in a mode.
fn key(sample: &PerfSample) -> usize {
    sample.chain as usize * MODES.len() + sample.mode as usize
}

/// The workload's samples in the form that looks have: one stack for each chain in each mode.
struct WorkSamples {
    /// The [`key`] of each stack.
    keys: Vec<usize>,
    samples: SampledStacks,
}

impl WorkSamples {
    fn new(recording: &Recording, question: &RecordingQuestion) -> WorkSamples {
        let mut counts = vec![0_u64; recording.chains.len() * MODES.len()];
        let is_work = |sample: &&PerfSample| base(recording, question, sample) == Base::Work;
        recording.samples.iter().filter(is_work).for_each(|sample| counts[key(sample)] += 1);
        let keys: Vec<usize> = (0..counts.len()).filter(|key| counts[*key] > 0).collect();
        let stacks = keys.iter().map(|key| stack(recording, *key, counts[*key])).collect();
        let functions = names(recording);
        WorkSamples {
            keys,
            samples: SampledStacks { functions, stacks, ..SampledStacks::default() },
        }
    }
}

fn stack(recording: &Recording, key: usize, count: u64) -> Stack {
    let (chain, mode) = ((key / MODES.len()) as u32, MODES[key % MODES.len()]);
    let locations = recording.chains.locations(chain);
    let location = |index: &u32| recording.locations[*index as usize];
    let frames: Vec<u32> = locations.iter().map(|index| location(index).function).collect();
    let kernel_frames = match recording.chains.kernel_frames(chain) as u32 {
        // A hypervisor, or a sample without a chain.
        0 if mode == CpuMode::Kernel => frames.len().min(1) as u32,
        kernel => kernel,
    };
    let offset = locations.first().map_or(0, |leaf| location(leaf).address);
    let (base, state) = (Base::Work, CpuState::Rest);
    Stack { base, state, mode, frames, kernel_frames, offset, call: None, count }
}

/// Names of functions. Functions without symbols are named after their object, or each address would
/// be a row.
fn names(recording: &Recording) -> Vec<String> {
    let name = |function: &Function| {
        if function.known {
            return function.name.clone();
        }
        format!("{} (no symbols)", recording.object_name(function.object))
    };
    recording.functions.iter().map(name).collect()
}

/// The rows of a recording, and to which of them each sample belongs.
struct RowIndex {
    /// Base, group and function of each row: those of the workload first, then other tasks, with the
    /// task's name as group, then idle.
    paths: Vec<(Base, String, String)>,
    /// For each chain in each mode, its row if the workload runs it.
    of_chain: Vec<u32>,
    /// For each task, its row if it is not the workload's.
    of_task: Vec<u32>,
    idle: u32,
}

impl RowIndex {
    fn new(
        recording: &Recording,
        question: &RecordingQuestion,
        work: &WorkSamples,
        late: &[String],
    ) -> RowIndex {
        let mut index: BTreeMap<(Base, String, String), u32> = BTreeMap::new();
        let mut row = |path| {
            let next = index.len() as u32;
            *index.entry(path).or_insert(next)
        };
        let mut of_chain = vec![0; recording.chains.len() * MODES.len()];
        for (key, stack) in work.keys.iter().zip(&work.samples.stacks) {
            let (group, function) = row_path(&work.samples, stack, late);
            of_chain[*key] = row((Base::Work, group, function));
        }
        let mut is_other_task = vec![false; recording.tasks.len()];
        let is_other = |sample: &&PerfSample| base(recording, question, sample) == Base::Other;
        let samples = recording.samples.iter().filter(is_other);
        samples.for_each(|sample| is_other_task[sample.task as usize] = true);
        let mut row_of_task = |(name, is_other): (&String, bool)| {
            if is_other { row((Base::Other, name.clone(), String::new())) } else { 0 }
        };
        let of_task = recording.tasks.iter().zip(is_other_task).map(&mut row_of_task).collect();
        let idle = row((Base::Idle, String::new(), String::new()));
        let mut paths: Vec<_> = index.into_iter().collect();
        paths.sort_by_key(|(_, row)| *row);
        let paths = paths.into_iter().map(|(path, _)| path).collect();
        RowIndex { paths, of_chain, of_task, idle }
    }

    /// The row of a sample.
    fn row(&self, base: Base, sample: &PerfSample) -> usize {
        (match base {
            Base::Idle => self.idle,
            Base::Work => self.of_chain[key(sample)],
            _ => self.of_task[sample.task as usize],
        }) as usize
    }
}

/// Adds up the time of samples by row and unit.
struct LedgerBuilder<'a> {
    recording: &'a Recording,
    question: &'a RecordingQuestion,
    rows: RowIndex,
    parts: Parts,
    /// Time by row and unit.
    ns: Vec<Vec<u64>>,
    /// Number of samples by row.
    samples: Vec<u64>,
    /// Time without samples, by unit.
    unseen: Vec<u64>,
    /// CPUs that the workload keeps busy at once where it does not wait.
    used: u32,
}

impl<'a> LedgerBuilder<'a> {
    fn new(
        recording: &'a Recording,
        question: &'a RecordingQuestion,
        rows: RowIndex,
        used: u32,
    ) -> LedgerBuilder<'a> {
        let parts = Parts::new(recording);
        LedgerBuilder {
            recording,
            question,
            ns: vec![vec![0; parts.units]; rows.paths.len()],
            samples: vec![0; rows.paths.len()],
            unseen: vec![0; parts.units],
            parts,
            rows,
            used,
        }
    }

    fn build(mut self) -> RecordedLedger {
        let whole = self.whole();
        let lost = match whole {
            Whole::CpusTime { cpus } => {
                self.tile(cpus);
                self.lost_of_unseen()
            }
            Whole::Samples => {
                self.add_periods();
                self.lost_beside()
            }
        };
        let root = self.root(lost, whole);
        let units = self.units(&root);
        let event = &self.recording.event;
        let between_runs = if self.starts_often(whole) { RUN_TO_RUN_OF_STARTS } else { RUN_TO_RUN };
        RecordedLedger {
            ledger: Ledger { units, root, between_runs },
            measure: if event.is_clock {
                Measure::Nanoseconds
            } else {
                Measure::Events(event.name.clone())
            },
            per: if self.question.operations.is_some() { Per::Operation } else { Per::Second },
            whole,
            span_ns: self.parts.end() - self.parts.start,
            samples: self.recording.samples.len() as u64,
        }
    }

    fn whole(&self) -> Whole {
        let Recording { origin, event, samples, .. } = self.recording;
        let sampled_cpus: BTreeSet<u32> = samples.iter().map(|sample| sample.cpu).collect();
        let cpus_chosen =
            origin.command.iter().any(|w| w.starts_with("-C") || w.starts_with("--cpu"));
        // A CPU without samples had time as well.
        let online = origin.cpus_online.filter(|_| !cpus_chosen).unwrap_or(0);
        let cpus = (sampled_cpus.len() as u32).max(online);
        let is_whole = self.recording.all_cpus && event.is_clock && self.parts.units > 1;
        if is_whole && cpus <= CPUS_MAX { Whole::CpusTime { cpus } } else { Whole::Samples }
    }

    /// Whether the sampling clock starts again and again, so that samples fall some time after a start and see the
    /// same few functions. With -a each CPU has one, which stops while it is idle; without it each task has one, and
    /// tasks sleep often or live shortly.
    fn starts_often(&self, whole: Whole) -> bool {
        const SAMPLES_PER_TASK: usize = 20;
        const BUSY: f64 = 0.7;
        const UNSEEN_MAX: f64 = 0.1;
        let samples = &self.recording.samples;
        let tasks: BTreeSet<i32> = samples.iter().map(|sample| sample.tid).collect();
        let sampled_ns: u64 = samples.iter().map(|sample| sample.period).sum();
        let busy = sampled_ns as f64 / (self.parts.end() - self.parts.start).max(1) as f64;
        if let Whole::CpusTime { .. } = whole {
            let all_ns: u64 = self.parts.lengths().iter().sum();
            return self.unseen.iter().sum::<u64>() as f64 > UNSEEN_MAX * all_ns as f64;
        }
        self.recording.event.is_clock
            && (busy < BUSY || samples.len() < SAMPLES_PER_TASK * tasks.len())
    }

    /// Counts a sample, and returns its row.
    fn count(&mut self, sample: &PerfSample) -> usize {
        let base = base(self.recording, self.question, sample);
        let row = self.rows.row(base, sample);
        self.samples[row] += 1;
        row
    }

    /// Adds each stretch of a CPU's time to the row of the sample that ends it.
    fn tile(&mut self, cpus: u32) {
        let recording = self.recording;
        // For each CPU, the time up to which it is added.
        let mut added_until: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in &recording.samples {
            let from = added_until.insert(sample.cpu, sample.time_ns).unwrap_or(self.parts.start);
            let is_gap = sample.time_ns - from > sample.period.saturating_mul(GAP);
            let seen_from = if is_gap { sample.time_ns - sample.period } else { from };
            let row = self.count(sample);
            self.parts.add(from, seen_from, &mut self.unseen);
            self.parts.add(seen_from, sample.time_ns, &mut self.ns[row]);
        }
        let unsampled_cpus = (cpus as usize).saturating_sub(added_until.len());
        let unsampled = std::iter::repeat_n(self.parts.start, unsampled_cpus);
        let rests = added_until.into_values().chain(unsampled);
        for from in rests {
            self.parts.add(from, self.parts.end(), &mut self.unseen);
        }
    }

    /// Adds the period of each sample to its row.
    fn add_periods(&mut self) {
        for sample in &self.recording.samples {
            let row = self.count(sample);
            self.ns[row][self.parts.unit(sample.time_ns)] += sample.period;
        }
    }

    /// Number of lost samples.
    fn lost(&self) -> u64 {
        self.recording.losses.iter().fold(0_u64, |sum, loss| sum.saturating_add(loss.samples))
    }

    /// Takes the time of lost samples, by unit, out of the time without samples.
    fn lost_of_unseen(&mut self) -> Vec<u64> {
        let period = self.recording.samples.first().map_or(0, |sample| sample.period);
        let unseen: u64 = self.unseen.iter().sum();
        let lost = split(self.lost().saturating_mul(period).min(unseen), &self.unseen);
        self.unseen.iter_mut().zip(&lost).for_each(|(unseen, lost)| *unseen -= lost);
        lost
    }

    /// The time of lost samples, by unit, if the whole is unknown: each lost sample counts as much
    /// as the mean of those that were kept.
    fn lost_beside(&self) -> Vec<u64> {
        let units: Vec<u64> =
            (0..self.parts.units).map(|u| self.ns.iter().map(|row| row[u]).sum()).collect();
        let sum: u64 = units.iter().sum();
        let period = sum / (self.recording.samples.len() as u64).max(1);
        split(self.lost().saturating_mul(period).min(sum), &units)
    }

    fn root(&mut self, lost: Vec<u64>, whole: Whole) -> LedgerRow {
        let mut groups: BTreeMap<&str, Vec<LedgerRow>> = BTreeMap::new();
        let (mut others, mut rows, mut idle) = (Vec::new(), Vec::new(), None);
        for (index, (base, group, function)) in self.rows.paths.iter().enumerate() {
            let samples = Some(self.samples[index]).filter(|samples| *samples > 0);
            let Some(samples) = samples else { continue };
            let name = if *base == Base::Work { function } else { group };
            let row = LedgerRow::new(name.clone(), Obtained::Sampled, self.ns[index].clone());
            let row = LedgerRow { samples: Some(samples), ..row };
            match base {
                Base::Work => groups.entry(group).or_default().push(row),
                Base::Idle => idle = Some(LedgerRow { name: IDLE.to_string(), ..row }),
                _ => others.push(row),
            }
        }
        let groups: Vec<LedgerRow> =
            groups.into_iter().map(|(name, rows)| group_row(name, rows)).collect();
        rows.extend((!groups.is_empty()).then(|| group_row(WORK, groups)));
        rows.extend((!others.is_empty()).then(|| group_row(OTHERS, others).belonging_to_time()));
        match whole {
            Whole::CpusTime { cpus } => rows.extend(self.idle(idle, cpus)),
            Whole::Samples => rows.extend(idle),
        }
        let row = |name, ns: &[u64]| LedgerRow::new(name, Obtained::Apportioned, ns.to_vec());
        rows.extend([row(UNSEEN, &self.unseen), row(LOST, &lost).belonging_to_time()]);
        rows.retain(|row| row.total_ns() > 0);
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        let samples = rows.iter().filter_map(|row| row.samples).sum();
        LedgerRow {
            samples: Some(samples),
            ..LedgerRow::from_parts("all", Obtained::Sampled, rows)
        }
    }

    /// The idle time: of CPUs that the workload has no task for, which may not even have been sampled, and of those
    /// whose tasks wait.
    fn idle(&mut self, idle: Option<LedgerRow>, cpus: u32) -> Option<LedgerRow> {
        let waits = idle
            .unwrap_or_else(|| LedgerRow::new(IDLE, Obtained::Sampled, vec![0; self.parts.units]));
        let mut waits = LedgerRow { name: FOR_REASONS_NOT_KNOWN.to_string(), ..waits };
        let all_ns = waits.total_ns();
        let spare = u64::from(cpus.saturating_sub(self.used));
        let mut unused = vec![0; self.parts.units];
        for (unit, length) in self.parts.lengths().into_iter().enumerate() {
            for ns in [&mut waits.ns[unit], &mut self.unseen[unit]] {
                let taken = (*ns).min(spare * length - unused[unit]);
                unused[unit] += taken;
                *ns -= taken;
            }
        }
        let left = waits.total_ns() as f64 / all_ns.max(1) as f64;
        waits.samples = waits.samples.map(|samples| (samples as f64 * left).round() as u64);
        let unused = LedgerRow::new(NO_TASK, Obtained::Apportioned, unused).belonging_to_time();
        let parts: Vec<LedgerRow> =
            [waits, unused].into_iter().filter(|part| part.total_ns() > 0).collect();
        (!parts.is_empty()).then(|| group_row(IDLE, parts))
    }

    /// The units. Nothing counted operations part by part, so they are spread evenly over the time.
    fn units(&self, root: &LedgerRow) -> Vec<LedgerUnit> {
        let lengths = self.parts.lengths();
        let operations = match self.question.operations {
            Some(operations) => split(operations, &lengths),
            None => lengths,
        };
        let units = operations.into_iter().zip(&root.ns);
        units
            .map(|(operations, ns)| LedgerUnit { operations, budget_ns: *ns, block: None })
            .collect()
    }
}

#[cfg(test)]
mod tests;
