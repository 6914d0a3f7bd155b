//! Blocks of one cell: which runs belong together, and which blocks are left out. A block is
//! left out only for what the host did, never for how long a run took, and always whole:
//! whatever disturbed one variant, none of them gains by it.

use std::collections::BTreeMap;

use records::{Outcome, Point, Record, Run};

/// The runs of one cell in one block.
#[derive(Debug)]
pub struct Block<'a> {
    /// Its number.
    pub number: u32,
    /// The finished run of each point of the cell.
    pub runs: Vec<Option<&'a Run>>,
    /// A second run of one of the points: which, and the run.
    pub placebo: Option<(usize, &'a Run)>,
    /// Runs of which point failed.
    pub failed: Vec<bool>,
    /// Why it is left out: which points' runs, and what the host did to them.
    pub reasons: Vec<(usize, &'a Run, String)>,
}

impl<'a> Block<'a> {
    /// The two runs of a pair of points, where the block counts and both finished.
    pub fn pair(&self, a: usize, b: usize) -> Option<(&'a Run, &'a Run)> {
        self.reasons.is_empty().then_some(())?;
        Some((self.runs[a]?, self.runs[b]?))
    }
}

/// The blocks of a cell with these points, in order. Runs of other points are passed over.
pub fn blocks<'a>(
    record: &Record,
    points: &[usize],
    runs: impl IntoIterator<Item = &'a Run>,
) -> Vec<Block<'a>> {
    let mut blocks: BTreeMap<u32, Block> = BTreeMap::new();
    for run in runs {
        let Some(place) = points.iter().position(|point| *point == run.point as usize) else {
            continue;
        };
        let block = blocks.entry(run.block).or_insert_with(|| Block {
            number: run.block,
            runs: vec![None; points.len()],
            placebo: None,
            failed: vec![false; points.len()],
            reasons: Vec::new(),
        });
        if !run.finished() {
            block.failed[place] |= !run.placebo;
            continue;
        }
        match run.placebo {
            true => block.placebo = Some((place, run)),
            false => block.runs[place] = Some(run),
        }
        let why = disturbance(&record.points[points[place]], run);
        block.reasons.extend(why.map(|why| (place, run, why)));
    }
    blocks.into_values().collect()
}

/// What the host did to a run that has nothing to do with what was measured. The limits are
/// fixed here, before anybody sees a result.
pub(crate) fn disturbance(point: &Point, run: &Run) -> Option<String> {
    let value = |name: &str| run.value(name);
    if let Some(steal) = value("steal_percent").filter(|percent| *percent > 1.0) {
        return Some(format!("the hypervisor took {steal:.1} % of the CPUs used"));
    }
    for (name, what) in THROTTLES {
        if value(name).is_some_and(|n| n > 0.0) {
            return Some(what.to_string());
        }
    }
    if let Some(others) = others_percent(point, run).filter(|percent| *percent > 2.0) {
        return Some(format!("other programs used {others:.1} % of the other CPUs"));
    }
    let intruders = intruders_percent(point, run).filter(|percent| *percent > 5.0)?;
    Some(format!("other programs used {intruders:.1} % of the CPUs under measurement"))
}

const THROTTLES: [(&str, &str); 4] = [
    ("throttle.core", "heat slowed a core"),
    ("throttle.package", "heat slowed the package"),
    ("cgroup.throttled_periods", "the CPU quota stopped tasks"),
    ("vmstat.oom_kill", "the kernel killed a process for want of memory"),
];

/// Share of the CPUs that the run did not use which was spent in user mode: programs of
/// others, since ours are pinned. Kernel work there may be the run's own, and is not counted.
fn others_percent(point: &Point, run: &Run) -> Option<f64> {
    let ticks = |set: &str, kinds: &[&str]| -> Option<f64> {
        kinds.iter().map(|kind| run.value(&format!("stat.{set}.{kind}_ticks"))).sum()
    };
    let time =
        ticks("all", &["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"])?;
    // All CPUs that are online, not only those that we may use.
    let cpus = (time / (run.value("wall_s")? * TICKS_PER_S)).round();
    let outside = cpus - point.cpus as f64;
    let user = ["user", "nice"];
    let busy = (ticks("all", &user)? - ticks("cpus", &user)? - TICKS_UNSURE).max(0.0);
    (outside >= 1.0).then(|| 100.0 * busy / (time / cpus * outside))
}

/// As much of a run as decides about blocks to come: a long experiment has many runs, and each
/// has hundreds of counters.
pub fn gist(run: &Run, primary: &str) -> Run {
    let mut gist = run.clone();
    if let Outcome::Finished { metrics, counters, unavailable, .. } = &mut gist.outcome {
        let needed = |name: &str| {
            [primary, "latency.mean_ns", "operations"].contains(&name)
                || primary.strip_suffix("/op") == Some(name)
                || DISTURBING.iter().any(|start| name.starts_with(start))
        };
        metrics.retain(|name, _| needed(name));
        counters.retain(|name, _| needed(name));
        unavailable.clear();
    }
    gist.warnings.clear();
    gist
}

/// How the names begin of all that [`disturbance`] looks at.
const DISTURBING: [&str; 8] = [
    "steal_percent",
    "throttle.",
    "cgroup.throttled_periods",
    "vmstat.oom_kill",
    "stat.all.",
    "stat.cpus.",
    "time.user_time",
    "wall_s",
];

/// USER_HZ, in which /proc/stat counts.
const TICKS_PER_S: f64 = 100.0;

/// Ticks that are no evidence: one is a percent of a run of a second, and more of a short one.
const TICKS_UNSURE: f64 = 1.0;

/// Share of the CPUs used that was spent in user mode by others than the tasks.
fn intruders_percent(point: &Point, run: &Run) -> Option<f64> {
    let ticks = run.value("stat.cpus.user_ticks")? + run.value("stat.cpus.nice_ticks")?;
    let own = run.value("time.user_time")? * TICKS_PER_S;
    let all = run.value("wall_s")? * TICKS_PER_S * point.cpus as f64;
    // User time is apportioned by tick too, on each CPU by itself.
    let intruders = (ticks - own - TICKS_UNSURE * point.cpus as f64).max(0.0);
    (all > 0.0).then(|| 100.0 * intruders / all)
}
