//! `knee selfcheck --host`: compares identical workloads, and workloads that differ by a planted
//! cost of known size, many times on this host in its present state. Counts false changes and
//! missed changes. Uses the same path as `knee run --until-decided`.

use std::path::{Path, PathBuf};

use analysis::host_check::{HostCheck, HostCheckRow};
use analysis::{Arm, CompareOptions, Spread, Verdict, compare};
use anyhow::{Context, Result};
use host::terminal::talk;
use host::{job_control, random, signals};
use records::{Axes, Experiment, Judging, Load, Many, Opened, Run, Scalar, Variant};
use runner::progress::Progress;
use runner::{End, new_record};
use setup::journal::Journal;
use store::{Id, Store};

/// Workloads to compare: operations of a few microseconds at most, without device I/O, so that a
/// planted cost of nanoseconds is a known share of an operation.
const WORKLOADS: [&str; 5] =
    ["flock_own", "mmap_munmap", "open_close_own", "posix_lock_own", "unix_socket"];

/// Planted cost, as a share of an operation, and number of comparisons per workload.
const PLANTED: [(f64, usize); 3] = [(0.0, 40), (0.02, 20), (0.05, 20)];

/// The options of `--host`.
#[derive(Clone, Debug)]
pub struct HostCheckOptions {
    /// Length of each run, in seconds.
    pub seconds: f64,
    /// Share of the comparisons to make, 1 for all of [`PLANTED`].
    pub share: f64,
    /// Directory for the files of the workloads.
    pub dir: PathBuf,
}

/// Makes all comparisons; fewer if interrupted by a signal.
pub fn check(check: &HostCheckOptions) -> Result<(HostCheck, End)> {
    let mut journal = Journal::open()?;
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let home = journal.directory(&check.dir, &format!("{}-selfcheck", id.as_str()))?;
    let store = Store::at(home.join("records"));
    signals::catch();
    job_control::follow_terminal();
    let measured = measure_all(check, &store, &mut journal);
    let restored = journal.close();
    let (rows, end) = measured?;
    restored?;
    let host = probes::host(Path::new("/"));
    Ok((HostCheck::new(host, check.seconds, rows), end))
}

fn measure_all(
    check: &HostCheckOptions,
    store: &Store,
    journal: &mut Journal,
) -> Result<(Vec<HostCheckRow>, End)> {
    let mut rows = Vec::new();
    for workload in WORKLOADS {
        let ns = operation_ns(workload, check, store, journal)?;
        for (planted, comparisons) in PLANTED {
            let comparisons = ((comparisons as f64 * check.share).ceil() as usize).max(1);
            let spin_ns = (ns * planted).round() as u64;
            talk(format_args!(
                "{workload}: {comparisons} comparisons with a planted cost of {:.0} % \
                 ({spin_ns} ns of {ns:.0} ns)",
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

/// The duration of one operation on this host, in ns.
fn operation_ns(
    workload: &str,
    check: &HostCheckOptions,
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

/// Spin time after each operation of both variants, so that both take the same path through the
/// loop and differ only in the length of the spin.
const SPIN_NS: u64 = 50;

/// An experiment with `comparisons` cells of one workload on one CPU. The base variant spins for
/// [`SPIN_NS`] after each operation, the other one for `spin_ns`.
fn experiment(
    workload: &str,
    check: &HostCheckOptions,
    comparisons: usize,
    spin_ns: u64,
) -> Experiment {
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

/// Counts the verdicts of a record's comparisons.
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
