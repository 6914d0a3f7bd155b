//! Recordings of perf as ledgers. Of all CPUs and by a clock, each nanosecond of a CPU belongs to
//! the sample that ends it: samples tile the time, so that rows add up to CPUs × time without any
//! scaling, and a gap longer than the distance of two samples was seen by none and is a row. Of
//! tasks, or by another event, a sample stands for its period, and the rows add up to these.

mod looked;

use std::collections::{BTreeMap, BTreeSet};

use perf_data::{Function, PerfSample, Recording};
use records::{Base, CpuMode, CpuState, Obtained, SampledStacks, Stack};
use serde::Serialize;

use super::sampled::{piled, place};
use super::{IDLE, Ledger, OTHERS, Row, Unit, WORK, split};

pub use looked::looked;

/// A ledger needs so many windows for intervals that mean something.
const WINDOWS: u64 = 10;
/// A gap of more than this many times the usual distance was not seen.
const GAP: u64 = 3;

/// Longer than anybody records, and short enough for sums over all CPUs.
const SPAN_NS_MAX: u64 = 1 << 50;
/// More CPUs than a host has.
const CPUS_MAX: u32 = 8192;

/// Time of a CPU at which nobody looked: interrupts off for long, a guest not running, sampling
/// held back.
pub const UNSEEN: &str = "not sampled";
/// Time of samples that perf could not keep.
pub const LOST: &str = "samples lost";

/// What is asked of a recording.
#[derive(Clone, Debug, Default)]
pub struct Question {
    /// Operations that were done while it was made.
    pub operations: Option<u64>,
    /// Names of the tasks that are the workload; none for all but perf's own.
    pub tasks: Vec<String>,
}

/// The ledger of a recording, and what its numbers are.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recorded {
    /// The ledger. Without operations, an operation is a nanosecond of recorded time.
    pub ledger: Ledger,
    /// What a value is counted in.
    pub measure: Measure,
    /// What a value is per.
    pub per: Per,
    /// What the root is.
    pub whole: Whole,
    /// From the first to the last sample.
    pub span_ns: u64,
    /// Samples in it.
    pub samples: u64,
}

/// What a ledger of samples counts in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// Time.
    Nanoseconds,
    /// Another event than a clock.
    Events(String),
}

/// What values are per.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Per {
    /// An operation, of which the user said how many there were.
    Operation,
    /// A second of recorded time.
    Second,
}

/// What a ledger of samples adds up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Whole {
    /// CPUs × recorded time.
    CpusTime {
        /// How many CPUs.
        cpus: u32,
    },
    /// All samples, of whatever they are.
    Samples,
}

impl Recorded {
    /// What a value per operation of the ledger must be multiplied by to be what [`Per`] says.
    pub fn scale(&self) -> f64 {
        match self.per {
            Per::Operation => 1.0,
            Per::Second => 1e9,
        }
    }
}

/// The ledgers of recordings that are to be read together: what lies where is decided from all
/// of them, so that rows are called the same.
pub fn recorded(recordings: &[(&Recording, &Question)]) -> Vec<Recorded> {
    let seen = recordings.iter().map(|(recording, question)| Seen::of(recording, question));
    let seen: Vec<Seen> = seen.collect();
    let piled = piled(seen.iter().map(|seen| &seen.samples));
    let all = recordings.iter().zip(&seen);
    all.map(|((recording, question), seen)| {
        let rows = Rows::new(recording, question, seen, &piled);
        Builder::new(recording, question, rows).build()
    })
    .collect()
}

/// Who a sample is of.
fn base(recording: &Recording, question: &Question, sample: &PerfSample) -> Base {
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

/// Samples of the workload, as looks have them: one stack for each chain in each mode.
struct Seen {
    keys: Vec<usize>,
    samples: SampledStacks,
}

impl Seen {
    fn of(recording: &Recording, question: &Question) -> Seen {
        let mut counts = vec![0_u64; recording.chains.len() * MODES.len()];
        let is_work = |sample: &&PerfSample| base(recording, question, sample) == Base::Work;
        recording.samples.iter().filter(is_work).for_each(|sample| counts[key(sample)] += 1);
        let keys: Vec<usize> = (0..counts.len()).filter(|key| counts[*key] > 0).collect();
        let stacks = keys.iter().map(|key| stack(recording, *key, counts[*key])).collect();
        let functions = names(recording);
        Seen { keys, samples: SampledStacks { functions, stacks, ..SampledStacks::default() } }
    }
}

fn stack(recording: &Recording, key: usize, count: u64) -> Stack {
    let (chain, mode) = ((key / MODES.len()) as u32, MODES[key % MODES.len()]);
    let locations = recording.chains.locations(chain);
    let place = |location: &u32| recording.locations[*location as usize];
    let frames: Vec<u32> = locations.iter().map(|l| place(l).function).collect();
    let kernel_frames = match recording.chains.kernel_frames(chain) as u32 {
        // A hypervisor, or a sample without a chain.
        0 if mode == CpuMode::Kernel => frames.len().min(1) as u32,
        kernel => kernel,
    };
    let offset = locations.first().map_or(0, |leaf| place(leaf).address);
    let (base, state) = (Base::Work, CpuState::Rest);
    Stack { base, state, mode, frames, kernel_frames, offset, call: None, count }
}

/// Functions by name; those without one by the object they lie in, or each address would be a row.
fn names(recording: &Recording) -> Vec<String> {
    let name = |function: &Function| match function.known {
        true => function.name.clone(),
        false => format!("{} (no symbols)", recording.object_name(function.object)),
    };
    recording.functions.iter().map(name).collect()
}

/// Where the time of samples is added up.
struct Rows {
    /// Group and function of each row of the workload, then tasks, then `None` for idle.
    places: Vec<(Base, String, String)>,
    /// The row of the workload for each chain in each mode.
    of_chain: Vec<u32>,
    /// The row of each task that is not the workload, by its index.
    of_task: Vec<u32>,
    idle: u32,
}

impl Rows {
    fn new(recording: &Recording, question: &Question, seen: &Seen, piled: &[String]) -> Rows {
        let mut index: BTreeMap<(Base, String, String), u32> = BTreeMap::new();
        let mut row = |place| {
            let next = index.len() as u32;
            *index.entry(place).or_insert(next)
        };
        let mut of_chain = vec![0; recording.chains.len() * MODES.len()];
        for (key, stack) in seen.keys.iter().zip(&seen.samples.stacks) {
            let (group, function) = place(&seen.samples, stack, piled);
            of_chain[*key] = row((Base::Work, group, function));
        }
        let mut others = vec![false; recording.tasks.len()];
        let is_other = |sample: &&PerfSample| base(recording, question, sample) == Base::Other;
        let samples = recording.samples.iter().filter(is_other);
        samples.for_each(|sample| others[sample.task as usize] = true);
        let tasks = recording.tasks.iter().zip(others);
        let of_task = tasks
            .map(|(name, is_other)| match is_other {
                true => row((Base::Other, name.clone(), String::new())),
                false => 0,
            })
            .collect();
        let idle = row((Base::Idle, String::new(), String::new()));
        let mut places: Vec<_> = index.into_iter().collect();
        places.sort_by_key(|(_, row)| *row);
        let places = places.into_iter().map(|(place, _)| place).collect();
        Rows { places, of_chain, of_task, idle }
    }

    fn of(&self, base: Base, sample: &PerfSample) -> usize {
        (match base {
            Base::Idle => self.idle,
            Base::Work => self.of_chain[key(sample)],
            _ => self.of_task[sample.task as usize],
        }) as usize
    }
}

/// Adds up samples.
struct Builder<'a> {
    recording: &'a Recording,
    question: &'a Question,
    rows: Rows,
    /// Ends of the windows; the first starts with the recording.
    start: u64,
    ends: Vec<u64>,
    /// Time by row and window, and samples by row.
    ns: Vec<Vec<u64>>,
    samples: Vec<u64>,
    unseen: Vec<u64>,
}

impl<'a> Builder<'a> {
    fn new(recording: &'a Recording, question: &'a Question, rows: Rows) -> Builder<'a> {
        let (start, end) = recording.span_ns();
        let span = end - start;
        // Without times, or with times that no clock has told, all is one window.
        let windows = if (WINDOWS..SPAN_NS_MAX).contains(&span) { WINDOWS } else { 1 };
        let at = |window: u64| {
            start + (u128::from(span) * u128::from(window) / u128::from(windows)) as u64
        };
        let ends: Vec<u64> = (1..=windows).map(at).collect();
        Builder {
            recording,
            question,
            start,
            ns: vec![vec![0; ends.len()]; rows.places.len()],
            samples: vec![0; rows.places.len()],
            unseen: vec![0; ends.len()],
            ends,
            rows,
        }
    }

    fn build(mut self) -> Recorded {
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
        let root = self.root(lost);
        let units = self.units(&root);
        let event = &self.recording.event;
        Recorded {
            ledger: Ledger { units, root },
            measure: match event.is_clock {
                true => Measure::Nanoseconds,
                false => Measure::Events(event.name.clone()),
            },
            per: if self.question.operations.is_some() { Per::Operation } else { Per::Second },
            whole,
            span_ns: self.ends.last().map_or(0, |end| end - self.start),
            samples: self.recording.samples.len() as u64,
        }
    }

    fn whole(&self) -> Whole {
        let Recording { origin, event, samples, .. } = self.recording;
        let seen: BTreeSet<u32> = samples.iter().map(|sample| sample.cpu).collect();
        let chosen = origin.command.iter().any(|w| w.starts_with("-C") || w.starts_with("--cpu"));
        // A CPU that nobody saw was there all the same.
        let online = origin.cpus_online.filter(|_| !chosen).unwrap_or(0);
        let cpus = (seen.len() as u32).max(online);
        match self.recording.all_cpus && event.is_clock && self.ends.len() > 1 {
            true if cpus <= CPUS_MAX => Whole::CpusTime { cpus },
            _ => Whole::Samples,
        }
    }

    fn take(&mut self, sample: &PerfSample) -> usize {
        let base = base(self.recording, self.question, sample);
        let row = self.rows.of(base, sample);
        self.samples[row] += 1;
        row
    }

    /// Gives each CPU's time to the samples that end it.
    fn tile(&mut self, cpus: u32) {
        let recording = self.recording;
        // For each CPU, how far its time is given.
        let mut given: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in &recording.samples {
            let from = given.insert(sample.cpu, sample.time_ns).unwrap_or(self.start);
            let long = sample.time_ns - from > sample.period.saturating_mul(GAP);
            let seen = if long { sample.time_ns - sample.period } else { from };
            let row = self.take(sample);
            each_window(&self.ends, from, seen, |window, ns| self.unseen[window] += ns);
            each_window(&self.ends, seen, sample.time_ns, |window, ns| self.ns[row][window] += ns);
        }
        let end = self.ends.last().copied().unwrap_or(self.start);
        let never = (cpus as usize).saturating_sub(given.len());
        let rests = given.into_values().chain(std::iter::repeat_n(self.start, never));
        for from in rests {
            each_window(&self.ends, from, end, |window, ns| self.unseen[window] += ns);
        }
    }

    /// Gives each sample its period.
    fn add_periods(&mut self) {
        for sample in &self.recording.samples {
            let row = self.take(sample);
            let window = self.ends.partition_point(|end| *end < sample.time_ns);
            self.ns[row][window.min(self.ends.len() - 1)] += sample.period;
        }
    }

    fn lost(&self) -> u64 {
        self.recording.losses.iter().fold(0_u64, |sum, loss| sum.saturating_add(loss.samples))
    }

    /// What of the time that nobody saw is that of lost samples.
    fn lost_of_unseen(&mut self) -> Vec<u64> {
        let period = self.recording.samples.first().map_or(0, |sample| sample.period);
        let unseen: u64 = self.unseen.iter().sum();
        let lost = split(self.lost().saturating_mul(period).min(unseen), &self.unseen);
        self.unseen.iter_mut().zip(&lost).for_each(|(unseen, lost)| *unseen -= lost);
        lost
    }

    /// Lost samples where nothing says what the whole should be: as many more of the usual kind.
    fn lost_beside(&self) -> Vec<u64> {
        let windows: Vec<u64> =
            (0..self.ends.len()).map(|w| self.ns.iter().map(|row| row[w]).sum()).collect();
        let all: u64 = windows.iter().sum();
        let period = all / (self.recording.samples.len() as u64).max(1);
        split(self.lost().saturating_mul(period).min(all), &windows)
    }

    fn root(&mut self, lost: Vec<u64>) -> Row {
        let mut groups: BTreeMap<&str, Vec<Row>> = BTreeMap::new();
        let (mut others, mut rows) = (Vec::new(), Vec::new());
        for (index, (base, group, function)) in self.rows.places.iter().enumerate() {
            let samples = Some(self.samples[index]).filter(|samples| *samples > 0);
            let Some(samples) = samples else { continue };
            let name = if *base == Base::Work { function } else { group };
            let row = Row::new(name.clone(), Obtained::Sampled, self.ns[index].clone());
            let row = Row { samples: Some(samples), ..row };
            match base {
                Base::Work => groups.entry(group).or_default().push(row),
                Base::Idle => rows.push(Row { name: IDLE.to_string(), ..row }),
                _ => others.push(row),
            }
        }
        let groups: Vec<Row> = groups.into_iter().map(|(name, rows)| sum(name, rows)).collect();
        rows.extend((!groups.is_empty()).then(|| sum(WORK, groups)));
        rows.extend((!others.is_empty()).then(|| sum(OTHERS, others).of_time()));
        let beside = [(UNSEEN, self.unseen.clone()), (LOST, lost)];
        for (name, ns) in beside.into_iter().filter(|(_, ns)| ns.iter().any(|ns| *ns > 0)) {
            rows.push(Row::new(name, Obtained::Apportioned, ns).of_time());
        }
        rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
        let samples = rows.iter().filter_map(|row| row.samples).sum();
        Row { samples: Some(samples), ..Row::sum_of("all", Obtained::Sampled, rows) }
    }

    /// Operations are spread evenly over the time: nobody counted them window by window.
    fn units(&self, root: &Row) -> Vec<Unit> {
        let starts = std::iter::once(self.start).chain(self.ends.iter().copied());
        let lengths: Vec<u64> = starts.zip(&self.ends).map(|(from, to)| to - from).collect();
        let operations = match self.question.operations {
            Some(operations) => split(operations, &lengths),
            None => lengths,
        };
        let units = operations.into_iter().zip(&root.ns);
        units.map(|(operations, ns)| Unit { operations, budget_ns: *ns, block: None }).collect()
    }
}

/// A row of rows, the largest first.
fn sum(name: &str, mut rows: Vec<Row>) -> Row {
    let samples = rows.iter().filter_map(|row| row.samples).sum();
    rows.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    // A group that is one nameless function needs no line for it.
    let nameless = rows.len() == 1 && rows[0].name.is_empty();
    let row = Row::sum_of(name, Obtained::Sampled, rows);
    Row { samples: Some(samples), rows: if nameless { Vec::new() } else { row.rows }, ..row }
}

/// Cuts a time at the ends of windows.
fn each_window(ends: &[u64], from: u64, to: u64, mut add: impl FnMut(usize, u64)) {
    let mut at = from;
    let mut window = ends.partition_point(|end| *end <= from);
    while at < to && window < ends.len() {
        let until = to.min(ends[window]);
        add(window, until - at);
        at = until;
        window += 1;
    }
}

#[cfg(test)]
mod tests;
