//! Blocks of one cell: which runs belong together, and which blocks are left out. A block is
//! left out only for what the host did, never for how long a run took. It is always left out
//! whole, so that no variant gains by what disturbed one of them.

use std::collections::BTreeMap;

use host::in_parallel;
use records::{
    ALLOCATIONS, Hypervisor, INSTRUCTIONS, MetricKind, Opened, Outcome, Point, Record, Run,
    Unavailable,
};

/// The runs of one cell in one block.
#[derive(Debug)]
pub struct Block<'a> {
    pub number: u32,
    /// The finished run of each arm.
    pub runs: Vec<Option<&'a Run>>,
    /// The second run of one arm: the arm, and the run.
    pub placebo: Option<(usize, &'a Run)>,
    /// Why the block is left out: the arms whose runs the host disturbed, these runs, and what
    /// the host did. Empty if the block counts.
    pub reasons: Vec<(usize, &'a Run, String)>,
}

impl<'a> Block<'a> {
    /// The runs of two arms, if the block counts and both finished.
    pub fn pair(&self, a: usize, b: usize) -> Option<(&'a Run, &'a Run)> {
        self.reasons.is_empty().then_some(())?;
        Some((self.runs[a]?, self.runs[b]?))
    }
}

/// Runs of which one thread looks for disturbances at a time.
const JUDGED_AT_ONCE: usize = 4096;

/// The blocks of a cell, in order. `points` has the cell's point for each arm; runs of other
/// points are ignored.
pub fn blocks<'a>(
    record: &Record,
    points: &[usize],
    runs: impl IntoIterator<Item = &'a Run>,
) -> Vec<Block<'a>> {
    let arm_of = |run: &Run| points.iter().position(|point| *point == run.point as usize);
    let runs: Vec<(usize, &Run)> =
        runs.into_iter().filter_map(|run| Some((arm_of(run)?, run))).collect();
    let parts: Vec<&[(usize, &Run)]> = runs.chunks(JUDGED_AT_ONCE).collect();
    let disturbed = in_parallel(parts.len(), |part| {
        let why =
            |(arm, run): &(usize, &Run)| disturbance(record, &record.points[points[*arm]], run);
        parts[part].iter().map(why).collect::<Vec<_>>()
    });
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for ((arm, run), why) in runs.iter().copied().zip(disturbed.into_iter().flatten()) {
        let block = blocks.entry(run.block).or_insert_with(|| Block {
            number: run.block,
            runs: vec![None; points.len()],
            placebo: None,
            reasons: Vec::new(),
        });
        if !run.finished() {
            continue;
        }
        if run.placebo {
            block.placebo = Some((arm, run));
        } else {
            block.runs[arm] = Some(run);
        }
        block.reasons.extend(why.map(|why| (arm, run, why)));
    }
    blocks.into_values().collect()
}

/// Whether runs are judged by what other programs of the host do not change: a count of what the program does, or instructions
/// or allocations in emulated guests, where no time is judged.
fn counts_whatever_others_do(record: &Record) -> bool {
    let described = record.metrics.get(&record.experiment.compare.metric);
    if described.is_some_and(|metric| metric.kind == Some(MetricKind::Count)) {
        return true;
    }
    let is_exact =
        ALLOCATIONS.iter().chain([&INSTRUCTIONS]).any(|name| record.experiment.is_judged_by(name));
    is_exact && record.hypervisor.as_ref().is_some_and(Hypervisor::emulates)
}

/// The runs of a record that comparisons leave out, by number, and why.
pub fn left_out(opened: &Opened) -> BTreeMap<u32, String> {
    let points = &opened.record.points;
    let disturbed = |run: &Run| {
        let point = points.get(run.point as usize)?;
        let why = disturbance(&opened.record, point, run).filter(|_| run.finished())?;
        Some((run.run, why))
    };
    let mut left_out: BTreeMap<u32, String> = opened.runs.iter().filter_map(disturbed).collect();
    // With a run, its whole block is left out: the runs of all variants of the cell.
    let in_blocks = opened.record.source.as_ref().is_none_or(|source| source.blocks);
    let cell = |run: &Run| {
        let cell = points.get(run.point as usize)?.cell.filter(|_| in_blocks)?;
        Some((run.block, cell))
    };
    let blocks: BTreeMap<(u32, u32), String> = opened
        .runs
        .iter()
        .filter_map(|run| {
            Some((cell(run)?, format!("run {}: {}", run.run, left_out.get(&run.run)?)))
        })
        .collect();
    for run in &opened.runs {
        if let Some(why) = cell(run).and_then(|cell| blocks.get(&cell)) {
            left_out.entry(run.run).or_insert_with(|| why.clone());
        }
    }
    left_out
}

/// What the host did to a run that has nothing to do with what was measured. The limits are
/// fixed here, before anybody sees a result.
pub fn disturbance(record: &Record, point: &Point, run: &Run) -> Option<String> {
    if counts_whatever_others_do(record) {
        return None;
    }
    if let Some(steal) = run.value("steal_percent").filter(|percent| *percent > 1.0) {
        return Some(format!("the hypervisor took {steal:.1} % of the CPUs used"));
    }
    for (name, what) in THROTTLES {
        if run.value(name).is_some_and(|n| n > 0.0) {
            return Some(what.to_string());
        }
    }
    if let Some(others) = others_percent(point, run).filter(|percent| *percent > 2.0) {
        return Some(format!("other programs took {others:.1} % of the other CPUs"));
    }
    let intruders = intruders_percent(point, run).filter(|percent| *percent > 5.0)?;
    Some(format!("other programs took {intruders:.1} % of the CPUs used"))
}

const THROTTLES: [(&str, &str); 4] = [
    ("throttle.core", "heat slowed a core"),
    ("throttle.package", "heat slowed the package"),
    ("cgroup.throttled_periods", "the CPU quota stopped tasks"),
    ("vmstat.oom_kill", "the kernel killed a process for want of memory"),
];

/// The share of the CPUs outside the run that was spent in user mode. Our tasks are pinned, so
/// this is the time of other programs. Kernel time there may be the run's own doing, and does
/// not count.
fn others_percent(point: &Point, run: &Run) -> Option<f64> {
    let sum = |names: &[&str]| -> Option<f64> { names.iter().map(|name| run.value(name)).sum() };
    let time = sum(&ALL_TICKS)?;
    // All CPUs that are online, not only those that we may use.
    let cpus = (time / (run.value("wall_s")? * TICKS_PER_S)).round();
    let outside = cpus - point.cpus as f64;
    let user = sum(&ALL_TICKS[..2])? - sum(&USER_TICKS)?;
    // A client that shares the run's CPUs is not outside.
    let is_outside = run.value("client.cpus") != Some(0.0);
    let other_end = OTHER_END.iter().filter(|_| is_outside).filter_map(|name| run.value(name));
    let own_s = other_end.sum::<f64>() + run.value(DAEMON).unwrap_or(0.0);
    let busy = (user - TICKS_PER_S * own_s - TICKS_UNSURE).max(0.0);
    (outside >= 1.0).then(|| 100.0 * busy / (time / cpus * outside))
}

/// Where the time of all CPUs goes: the first two are user mode.
const ALL_TICKS: [&str; 8] = [
    "stat.all.user_ticks",
    "stat.all.nice_ticks",
    "stat.all.system_ticks",
    "stat.all.idle_ticks",
    "stat.all.iowait_ticks",
    "stat.all.irq_ticks",
    "stat.all.softirq_ticks",
    "stat.all.steal_ticks",
];

/// User mode of a client that has CPUs of its own, or of a server that the user runs.
const OTHER_END: [&str; 2] = ["client.user_s", "server.user_s"];

/// User mode of a variant's daemon, on whichever CPUs.
const DAEMON: &str = "daemon.user_s";

/// User mode on the CPUs of the run.
const USER_TICKS: [&str; 2] = ["stat.cpus.user_ticks", "stat.cpus.nice_ticks"];

/// The part of a run that decides about later blocks. A long experiment has many runs, and each
/// has hundreds of counters: keeping only this part saves memory.
pub fn deciding_part(run: &Run, primary: &str) -> Run {
    let mut part = run.clone();
    if let Outcome::Finished { metrics, counters, unavailable, .. } = &mut part.outcome {
        let is_needed = |name: &str| {
            [primary, "latency.mean_ns", "operations"].contains(&name)
                || records::per_operation(primary).0 == name
                || DISTURBING.iter().any(|start| name.starts_with(start))
        };
        *metrics = metrics.iter().filter(|(name, _)| is_needed(name)).collect();
        *counters = counters.iter().filter(|(name, _)| is_needed(name)).collect();
        *unavailable = Unavailable::default();
    }
    part.warnings.clear();
    part.file_system = None;
    part
}

/// Beginnings of the names of all metrics and counters that [`disturbance`] reads.
const DISTURBING: [&str; 12] = [
    "steal_percent",
    "throttle.",
    "cgroup.throttled_periods",
    "vmstat.oom_kill",
    "stat.all.",
    "stat.cpus.",
    "time.user_time",
    "client.user_s",
    "client.cpus",
    "server.user_s",
    "daemon.user_s",
    "wall_s",
];

/// USER_HZ, the unit of /proc/stat.
const TICKS_PER_S: f64 = 100.0;

/// Ticks that are no evidence: one is a percent of a run of a second, and more of a short one.
const TICKS_UNSURE: f64 = 1.0;

/// The share of the run's CPUs that tasks other than the run's own spent in user mode.
fn intruders_percent(point: &Point, run: &Run) -> Option<f64> {
    let user_ticks: f64 = USER_TICKS.iter().map(|name| run.value(name)).sum::<Option<f64>>()?;
    // The other end of a run with a server may be there too, unless it has CPUs of its own.
    let is_apart = run.value("client.cpus").is_some_and(|cpus| cpus > 0.0);
    let other_end = OTHER_END.iter().filter(|_| !is_apart).filter_map(|name| run.value(name));
    let daemon_s = run.value(DAEMON).unwrap_or(0.0);
    let own_ticks =
        (run.value("time.user_time")? + other_end.sum::<f64>() + daemon_s) * TICKS_PER_S;
    let all_ticks = run.value("wall_s")? * TICKS_PER_S * point.cpus as f64;
    // The kernel apportions a task's user time by ticks as well, on each CPU by itself.
    let intruders = (user_ticks - own_ticks - TICKS_UNSURE * point.cpus as f64).max(0.0);
    (all_ticks > 0.0).then(|| 100.0 * intruders / all_ticks)
}
