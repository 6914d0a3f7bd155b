//! `knee selfcheck --host`: on this host, as it is just now, equal things are compared many
//! times, and things that differ by a cost of known size. How often is a change called that is
//! none; how often is one found that is there? All by the way that `knee run --until-decided`
//! goes.

use std::path::{Path, PathBuf};

use analysis::host_check::{HostCheck, HostCheckRow};
use analysis::{Arm, CompareOptions, Spread, Verdict, compare};
use anyhow::{Context, Result};
use host::random;
use host::stderr::talk;
use records::{Axes, Experiment, Judging, Load, Many, Opened, Run, Scalar, Variant};
use runner::progress::Progress;
use runner::{End, new_record};
use setup::journal::Journal;
use store::{Id, Store};

/// What is compared: operations of some microseconds at most, with nothing on a device, so that
/// a planted cost of nanoseconds is a known share of them.
const WORKLOADS: [&str; 5] =
    ["flock_own", "mmap_munmap", "open_close_own", "posix_lock_own", "unix_socket"];

/// What is planted, and in how many comparisons for each workload.
const PLANTED: [(f64, usize); 3] = [(0.0, 40), (0.02, 20), (0.05, 20)];

/// How to check.
#[derive(Clone, Debug)]
pub struct Check {
    /// Length of each run.
    pub seconds: f64,
    /// Share of the comparisons to make, 1 for all of [`PLANTED`].
    pub share: f64,
    /// Directory whose file system is used.
    pub dir: PathBuf,
}

/// Makes all comparisons; fewer if a signal asks us to end.
pub fn check(check: &Check) -> Result<(HostCheck, End)> {
    let mut journal = Journal::open()?;
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let home = journal.directory(&check.dir, &format!("{}-selfcheck", id.as_str()))?;
    let store = Store::at(home.join("records"));
    host::signals::catch();
    let made = all(check, &store, &mut journal);
    let put_back = journal.close();
    let (rows, end) = made?;
    put_back?;
    let host = probes::host(Path::new("/"));
    Ok((HostCheck::new(host, check.seconds, rows), end))
}

fn all(check: &Check, store: &Store, journal: &mut Journal) -> Result<(Vec<HostCheckRow>, End)> {
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let ns = operation_ns(workload, check, store, journal)?;
        for (planted, comparisons) in PLANTED {
            let comparisons = ((comparisons as f64 * check.share).ceil() as usize).max(1);
            let spin_ns = (ns * planted).round() as u64;
            talk(format_args!(
                "{workload}: {comparisons} comparisons with {:.0} % planted ({spin_ns} ns of {ns:.0})",
                100.0 * planted,
            ));
            let experiment = experiment(workload, check, comparisons, SPIN_NS + spin_ns);
            let (record, end) = measure(experiment, store, journal)?;
            if let Some(record) = &record {
                rows.push(row(workload, planted, record)?);
            }
            if end == End::Interrupted {
                return Ok((rows, end));
            }
        }
    }
    Ok((rows, End::Complete))
}

/// How long one operation takes here, in ns.
fn operation_ns(
    workload: &str,
    check: &Check,
    store: &Store,
    journal: &mut Journal,
) -> Result<f64> {
    let mut experiment = experiment(workload, check, 1, SPIN_NS);
    experiment.variants.truncate(1);
    experiment.compare.until_decided = false;
    experiment.blocks = Some(9);
    let (record, _) = measure(experiment, store, journal)?;
    let record = record.context("interrupted")?;
    let ns = |run: &Run| Some(1e9 * run.value("wall_s")? / run.value("operations")?);
    let times: Vec<f64> = record.runs.iter().filter_map(ns).collect();
    Ok(Spread::from_values(&times)
        .with_context(|| format!("no run of {workload} finished"))?
        .median)
}

/// Work after each operation of either side, so that both go the same way through the loop and
/// differ in the length of that work alone.
const SPIN_NS: u64 = 50;

/// So many cells of one workload on one CPU, each compared with itself, or with itself and
/// `spin_ns` of work between its operations instead of [`SPIN_NS`].
fn experiment(workload: &str, check: &Check, comparisons: usize, spin_ns: u64) -> Experiment {
    let variant = |name: &str, ns: u64| Variant {
        name: name.to_string(),
        parameters: [("idle_ns".to_string(), Scalar(ns.to_string()))].into(),
        ..Variant::default()
    };
    let load = Load { workload: workload.to_string(), ..Load::default() };
    Experiment {
        name: "selfcheck".to_string(),
        loads: vec![load; comparisons],
        variants: vec![variant("base", SPIN_NS), variant("other", spin_ns)],
        compare: Judging { until_decided: true, placebo: 0.0, ..Judging::default() },
        axes: Axes {
            cpus: Some(Many(vec![Scalar("1".to_string())])),
            seconds: Some(Many(vec![check.seconds])),
            dir: Some(Many(vec![check.dir.clone()])),
            ..Axes::default()
        },
        ..Experiment::default()
    }
}

fn measure(
    experiment: Experiment,
    store: &Store,
    journal: &mut Journal,
) -> Result<(Option<Opened>, End)> {
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let mut growing = store.begin(new_record(experiment)?, id)?;
    let mut progress = Progress::start();
    let end = runner::run(&mut growing, journal, &mut progress, |_| ());
    progress.end();
    let folder = growing.finish(jiff::Timestamp::now())?;
    let open = |folder: &Path| store::open(folder);
    Ok((folder.as_deref().map(open).transpose()?, end?))
}

/// What the comparisons of a record came to.
fn row(workload: &str, planted: f64, record: &Opened) -> Result<HostCheckRow> {
    let arms = ["base", "other"].map(|name| Arm { name, record, variant: name });
    let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
    let mut row = HostCheckRow {
        workload: workload.to_string(),
        planted,
        comparisons: comparison.cells.len(),
        changed: 0,
        same: 0,
        wrong: 0,
        open: 0,
        estimate: None,
        blocks: 0.0,
        discarded: comparison.discards.discarded.len(),
    };
    let contrasts = || comparison.cells.iter().map(|cell| &cell.metrics[0].contrasts[0]);
    for contrast in contrasts() {
        match contrast.verdict {
            Verdict::Better { .. } if planted > 0.0 => row.wrong += 1,
            Verdict::Better { .. } | Verdict::Worse { .. } => row.changed += 1,
            Verdict::Same => row.same += 1,
            _ => row.open += 1,
        }
        row.blocks += contrast.n as f64 / comparison.cells.len() as f64;
    }
    let changes: Vec<f64> = contrasts().filter_map(|contrast| contrast.change).collect();
    row.estimate = Spread::from_values(&changes).map(|spread| spread.median);
    Ok(row)
}
