//! `knee doctor verdicts`: compares identical workloads, and workloads that differ by a planted
//! cost of known size, many times on this host in its present state. Counts false changes and
//! missed changes. Uses the same path as `knee run --until-decided`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use analysis::host_check::{HostCheck, HostCheckRow};
use analysis::{Arm, CompareOptions, Spread, Verdict, compare};
use anyhow::{Context, Result, ensure};
use host::terminal::talk;
use host::{job_control, random, signals};
use pages::ViewFlags;
use records::{Axes, Experiment, Judging, Load, Many, Opened, Run, Scalar, Variant};
use runner::progress::Progress;
use runner::{End, new_record};
use setup::journal::Journal;
use store::{Id, Store};

use crate::selfcheck::host::page;

/// Something to compare with itself and with more of its own work.
struct Case {
    workload: &'static str,
    /// The parameter whose work is lengthened by the planted cost.
    parameter: &'static str,
    /// Work of the base variant. Both variants have some, so that both take the same path and differ
    /// only in its length.
    work_ns: u64,
}

impl Case {
    /// A cost between operations.
    const fn between(workload: &'static str) -> Case {
        Case { workload, parameter: "idle_ns", work_ns: 50 }
    }

    /// A cost inside a lock.
    const fn inside(workload: &'static str, work_ns: u64) -> Case {
        Case { workload, parameter: "hold_ns", work_ns }
    }

    /// The workload, and where the cost is planted if not between operations.
    fn name(&self) -> String {
        match self.parameter {
            "idle_ns" => self.workload.to_string(),
            parameter => format!("{} {parameter}={}", self.workload, self.work_ns),
        }
    }
}

/// Operations of a few microseconds at most, without device I/O, so that a planted cost of nanoseconds
/// is a known share of an operation.
const CASES: [Case; 7] = [
    Case::between("flock_own"),
    Case::between("mmap_munmap"),
    Case::between("open_close_own"),
    Case::between("posix_lock_own"),
    Case::between("unix_socket"),
    Case::inside("lock_queued", 1000),
    Case::inside("posix_lock_own", 1000),
];

/// Planted cost, as a share of an operation, and number of comparisons per case.
const PLANTED: [(f64, usize); 3] = [(0.0, 40), (0.02, 20), (0.05, 20)];

/// Count the false verdicts that this host would give, by identical and known workloads
///
/// Says how often knee would call equal operations different here, and how often it would miss a planted cost of known size.
/// Takes about 40 minutes.
#[derive(clap::Args)]
pub struct Arguments {
    /// Share of the comparisons to make, 1 for all
    #[arg(long, default_value_t = 1.0, value_name = "SHARE")]
    share: f64,
    /// Length of each run, in seconds
    #[arg(long, default_value_t = 0.05)]
    seconds: f64,
    /// Directory for the files of the workloads [default: the temporary directory]
    #[arg(long, default_value_os_t = host::paths::temporary(), hide_default_value = true)]
    dir: PathBuf,
    #[command(flatten)]
    view: ViewFlags,
}

/// Compares, and prints how often the verdicts were right. The status is 1 if an error rate misses its target.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    ensure!(
        arguments.share > 0.0 && arguments.share <= 10.0,
        "--share {}: must be above 0 and at most 10",
        arguments.share
    );
    let (check, end) = check(arguments)?;
    arguments.view.print(|| Ok(&check), || Ok(page(&check)))?;
    Ok(match end {
        End::Interrupted => ExitCode::from(130),
        End::Complete if check.missed() => ExitCode::FAILURE,
        End::Complete => ExitCode::SUCCESS,
    })
}

/// Makes all comparisons; fewer if interrupted by a signal.
fn check(arguments: &Arguments) -> Result<(HostCheck, End)> {
    let mut journal = Journal::open()?;
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let home = journal.directory(&arguments.dir, &format!("{}-selfcheck", id.as_str()))?;
    let store = Store::at(home.join("records"));
    signals::catch();
    job_control::follow_terminal();
    let measured = measure_all(arguments, &store, &mut journal);
    let restored = journal.close();
    let (rows, end) = measured?;
    restored?;
    let host = probes::host(Path::new("/"));
    Ok((HostCheck::new(host, arguments.seconds, rows), end))
}

fn measure_all(
    check: &Arguments,
    store: &Store,
    journal: &mut Journal,
) -> Result<(Vec<HostCheckRow>, End)> {
    let mut rows = Vec::new();
    for case in &CASES {
        let ns = operation_ns(case, check, store, journal)?;
        for (planted, comparisons) in PLANTED {
            let comparisons = ((comparisons as f64 * check.share).ceil() as usize).max(1);
            let planted_ns = (ns * planted).round() as u64;
            talk(format_args!(
                "{}: {comparisons} comparisons with a planted cost of {:.0} % \
                 ({planted_ns} ns of {ns:.0} ns)",
                case.name(),
                100.0 * planted,
            ));
            let experiment = experiment(case, check, comparisons, planted_ns);
            let (record, end) = measure(experiment, store, journal)?;
            if let Some(record) = &record {
                rows.push(row(case, planted, record)?);
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
    case: &Case,
    check: &Arguments,
    store: &Store,
    journal: &mut Journal,
) -> Result<f64> {
    let mut experiment = experiment(case, check, 1, 0);
    experiment.variants.truncate(1);
    experiment.compare.until_decided = false;
    experiment.blocks = Some(9);
    let (record, _) = measure(experiment, store, journal)?;
    let record = record.context("interrupted")?;
    let ns = |run: &Run| Some(1e9 * run.value("wall_s")? / run.value("operations")?);
    let times: Vec<f64> = record.runs.iter().filter_map(ns).collect();
    Ok(Spread::from_values(&times)
        .with_context(|| format!("no run of {} finished", case.workload))?
        .median)
}

/// An experiment with `comparisons` cells of one case on one CPU. The other variant has `planted_ns` more
/// work than the base variant.
fn experiment(case: &Case, check: &Arguments, comparisons: usize, planted_ns: u64) -> Experiment {
    let variant = |name: &str, ns: u64| Variant {
        name: name.to_string(),
        parameters: [(case.parameter.to_string(), Scalar(ns.to_string()))].into(),
        ..Variant::default()
    };
    let (base_ns, other_ns) = (case.work_ns, case.work_ns + planted_ns);
    let load = Load::new(case.workload.to_string());
    Experiment {
        name: "selfcheck".to_string(),
        loads: vec![load; comparisons],
        variants: vec![variant("base", base_ns), variant("other", other_ns)],
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
    let end = runner::run(&mut growing, journal, None, &mut progress, &mut runner::go_on);
    progress.end();
    let folder = growing.finish(jiff::Timestamp::now())?;
    let open = |folder: &Path| store::open(folder);
    Ok((folder.as_deref().map(open).transpose()?, end?))
}

/// Counts the verdicts of a record's comparisons.
fn row(case: &Case, planted: f64, record: &Opened) -> Result<HostCheckRow> {
    let arms = ["base", "other"].map(|name| Arm { name, record, variant: name });
    let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
    let mut row = HostCheckRow {
        workload: case.name(),
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
