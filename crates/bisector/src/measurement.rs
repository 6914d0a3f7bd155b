//! Runs of builds: an experiment whose variants are commits, for the runner.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use plan::commands;
use records::{
    Axes, Command, CommandLine, Experiment, Gate, Guest, Judging, Load, Many, Opened, Outcome,
    Record, Run, Scalar, Variant,
};
use runner::{End, Options};
use setup::foreign::Permitted;
use store::Store;

use crate::Request;
use crate::kernels::{self, KernelLoad};

/// Other layouts of each of two builds, and runs of each.
pub const LAYOUTS: u32 = 4;
pub const LAYOUT_RUNS: u32 = 10;

/// The parameter of a command that is run in several cases.
pub(crate) const CASE: &str = "case";

/// A build to run.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Its name in tables: the short commit id.
    pub name: String,
    pub folder: PathBuf,
    /// The path for `{step}`, if steps are files.
    pub step: Option<PathBuf>,
    /// What stands for `{program}`, if the command has it.
    pub program: Option<String>,
}

impl Subject {
    /// A build in a folder.
    pub fn new(name: impl Into<String>, folder: &Path) -> Subject {
        Subject { name: name.into(), folder: folder.to_path_buf(), step: None, program: None }
    }
}

/// How often, and until when.
#[derive(Clone, Copy, Debug)]
pub enum Repeats {
    /// Each subject this often, in blocks of random order.
    Times(u32),
    /// Until the comparison is decided.
    UntilDecided,
    /// Until each subject is told from the one before it, or so many blocks are over.
    UntilStepsDecided(u32),
    /// Until each case is judged, within a gate's bounds.
    Gate(Gate),
}

/// The runs of a subject.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// Logarithms of the metric.
    Logs(Vec<f64>),
    /// Too many runs failed, for this reason.
    Failed(String),
}

/// The experiment that runs subjects in turn.
pub fn experiment(
    request: &Permitted<Request>,
    subjects: &[Subject],
    repeats: Repeats,
    name: &str,
) -> Result<Permitted<Experiment>> {
    request.part(|request| planned(request, subjects, &[], repeats, name)).transpose()
}

/// The experiment that runs subjects in turn in each case: what stands for `{case}` in the command. Without cases, the
/// command is the only one.
pub(crate) fn experiment_of_cases(
    request: &Permitted<Request>,
    subjects: &[Subject],
    cases: &[String],
    repeats: Repeats,
    name: &str,
) -> Result<Permitted<Experiment>> {
    request.part(|request| planned(request, subjects, cases, repeats, name)).transpose()
}

fn planned(
    request: &Request,
    subjects: &[Subject],
    cases: &[String],
    repeats: Repeats,
    name: &str,
) -> Result<Experiment> {
    let (load, variants, guest) = match &request.kernels {
        Some(kernels) => (of_workload(kernels), booted(subjects)?, Some(kernels.guest.clone())),
        None => (of_command(request, cases)?, subjects.iter().map(run_in_folder).collect(), None),
    };
    let seconds = request.kernels.as_ref().map(|kernels| Many(vec![kernels.seconds]));
    let in_steps = matches!(repeats, Repeats::UntilStepsDecided(_));
    let until_decided = in_steps || matches!(repeats, Repeats::UntilDecided | Repeats::Gate(_));
    let gate = if let Repeats::Gate(gate) = repeats { Some(gate) } else { None };
    let experiment = Experiment {
        name: name.to_string(),
        blocks: match repeats {
            Repeats::Times(times) | Repeats::UntilStepsDecided(times) => Some(times),
            Repeats::UntilDecided | Repeats::Gate(_) => None,
        },
        loads: vec![load],
        variants,
        axes: Axes {
            cpus: Some(Many(vec![Scalar(request.cpus.clone())])),
            seconds,
            ..Axes::default()
        },
        guest,
        compare: Judging {
            metric: request.metric.clone(),
            smallest_effect: request.smallest_effect,
            until_decided,
            in_steps,
            gate,
            placebo: 0.0,
            ..Judging::default()
        },
        ..Experiment::default()
    };
    // A record states its number of blocks.
    Ok(Experiment { blocks: Some(experiment.blocks()), ..experiment })
}

fn of_command(request: &Request, cases: &[String]) -> Result<Load> {
    let values = || Many(cases.iter().cloned().map(Scalar).collect());
    let parameter = (!cases.is_empty()).then(|| (CASE.to_string(), values()));
    let command = Command {
        run: CommandLine::Text(request.command.clone()),
        shell: request.shell,
        directory: Some("{tree}".to_string()),
        timeout_s: request.timeout_s,
        metrics: request.extract.iter().cloned().collect(),
        parameters: parameter.into_iter().collect(),
        ..Command::default()
    };
    let named = commands::for_load(&Load::new(command))?;
    Ok(Load::new(named.context("a load with a command is one")?))
}

/// A build whose program runs in its folder.
fn run_in_folder(subject: &Subject) -> Variant {
    let tree = ("tree".to_string(), Scalar(subject.folder.to_string_lossy().into_owned()));
    let step = subject
        .step
        .as_ref()
        .map(|path| ("step".to_string(), Scalar(path.to_string_lossy().into_owned())));
    let program = subject.program.clone().map(|path| ("program".to_string(), Scalar(path)));
    Variant {
        name: subject.name.clone(),
        parameters: std::iter::once(tree).chain(step).chain(program).collect(),
        ..Variant::default()
    }
}

fn of_workload(kernels: &KernelLoad) -> Load {
    let KernelLoad { workload, parameters, .. } = kernels.clone();
    Load { parameters, ..Load::new(workload) }
}

/// Kernels that are booted.
fn booted(subjects: &[Subject]) -> Result<Vec<Variant>> {
    let variant = |subject: &Subject| {
        let kernel = Some(kernels::image(&subject.folder)?);
        let guest = Some(Guest { kernel, ..Guest::default() });
        Ok(Variant { name: subject.name.clone(), guest, ..Variant::default() })
    };
    subjects.iter().map(variant).collect()
}

/// What a measurement left.
pub struct Measurement {
    pub end: End,
    /// `None` if no run was finished.
    pub record: Option<Opened>,
}

/// Runs an experiment and keeps its record. With `resume`, an unfinished record of it goes on.
pub fn measure(
    experiment: Permitted<Experiment>,
    store: &Store,
    resume: bool,
) -> Result<Measurement> {
    measure_while(experiment, store, resume, runner::go_on)
}

/// Runs an experiment until it is done or `finished`, which is called after each run, breaks.
pub fn measure_while(
    experiment: Permitted<Experiment>,
    store: &Store,
    resume: bool,
    mut finished: impl FnMut(&Record, &Run) -> ControlFlow<()>,
) -> Result<Measurement> {
    let options = |resume| Options { resume, ..Options::default() };
    let measured = if resume {
        // There may be nothing to resume.
        runner::measure(experiment.clone(), options(true), store, &mut finished)
            .or_else(|_| runner::measure(experiment, options(false), store, &mut finished))
    } else {
        runner::measure(experiment, options(false), store, &mut finished)
    }?;
    let record = measured.folder.as_deref().map(store::open).transpose()?;
    Ok(Measurement { end: measured.end, record })
}

/// The number of blocks that the host disturbed.
pub fn disturbed_blocks(record: &Opened) -> u32 {
    let left_out = analysis::left_out(record);
    let disturbed = record.runs.iter().filter(|run| left_out.contains_key(&run.run));
    disturbed.map(|run| run.block).collect::<BTreeSet<_>>().len() as u32
}

/// The blocks whose runs count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Blocks {
    All,
    Undisturbed,
}

/// The values of a subject's runs.
pub fn values(record: &Opened, subject: &str, metric: &str, blocks: Blocks) -> Result<Values> {
    let left_out = match blocks {
        Blocks::All => BTreeMap::new(),
        Blocks::Undisturbed => analysis::left_out(record),
    };
    let variant = |run: &&Run| {
        record.record.points.get(run.point as usize).is_some_and(|point| point.variant == subject)
    };
    let mut logs = Vec::new();
    let mut reasons = Vec::new();
    let counts = |run: &&Run| !run.placebo && !left_out.contains_key(&run.run);
    for run in record.runs.iter().filter(variant).filter(counts) {
        match (&run.outcome, run.value(metric)) {
            (Outcome::Failed { reason }, _) => reasons.push(reason.clone()),
            (_, Some(value)) if value > 0.0 && value.is_finite() => logs.push(value.ln()),
            (_, Some(value)) => reasons.push(format!(
                "{metric} of {subject} is {value}: changes are shares, so choose a metric above 0"
            )),
            (_, None) => reasons.push(format!("the run has no {metric}")),
        }
    }
    Ok(match reasons.first() {
        Some(reason) if reasons.len() > logs.len() || logs.is_empty() => {
            Values::Failed(reason.clone())
        }
        None if logs.is_empty() => Values::Failed("none of its runs finished".to_string()),
        _ => Values::Logs(logs),
    })
}

/// Logarithms of a subject's runs by their block.
pub fn logs_by_block(
    record: &Opened,
    subject: &str,
    metric: &str,
    blocks: Blocks,
) -> BTreeMap<u32, f64> {
    let left_out = match blocks {
        Blocks::All => BTreeMap::new(),
        Blocks::Undisturbed => analysis::left_out(record),
    };
    let points = &record.record.points;
    let own = record.runs.iter().filter(|run| {
        points.get(run.point as usize).is_some_and(|point| point.variant == subject)
            && !run.placebo
            && !left_out.contains_key(&run.run)
    });
    let log = |run: &Run| Some((run.block, run.value(metric).filter(|v| *v > 0.0)?.ln()));
    own.filter_map(log).collect()
}

/// New minus old in each block that has both.
pub fn differences(old: &BTreeMap<u32, f64>, new: &BTreeMap<u32, f64>) -> Vec<f64> {
    new.iter().filter_map(|(block, new)| Some(new - old.get(block)?)).collect()
}
