//! Replays: public reports of an incident against a simulation of the mechanism on the reported
//! host.
//!
//!     inputs (found, assumed as ranges) ──draw──> fit one number to the anchor ──> predict
//!                                          └─ again for each draw: middle, lowest, highest
//!
//! At most one number of an incident is fitted. It is fitted to an observation that is not a
//! target, or that is marked as fitted among the targets. Designs are never chosen by their
//! numbers. Each prediction is graded against the report, and stays in the table where it is wrong.

mod create_files;
mod file_locks;
mod fitting;
mod grading;
mod log_commit;
mod moving;
pub mod null_models;
mod page_faults;
mod publications;
mod repair;

use std::collections::BTreeMap;
use std::slice;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use engines::simulated::{Host, NS, Options, Preemption, ROWS, SimulatedRun, TimeRow};
use host::{Placement, in_parallel};

use crate::domain::{Class, grades};
use crate::simulations::mechanisms::{MechanismRun, part_of, run_mechanism};
use crate::subject::{MechanismDesign, Subject};
use described_hosts::{DescribedHost, Draw, InRange, Number, Origin};
pub use fitting::fit;
pub use grading::{Dares, Grade, grade};
use moving::FixedInput;
pub use moving::{MovingInput, add_moving_inputs};
pub use publications::{
    CompileLock, NamedLocks, PublishedPoints, locks_in_c, publications, read_publication,
};

/// All incidents, by number.
pub fn incidents() -> Vec<Arc<Incident>> {
    let all = [
        create_files::incident(),
        log_commit::incident(),
        repair::incident(),
        page_faults::incident(),
        file_locks::incident(),
    ];
    all.map(Arc::new).into()
}

/// An incident, or a published measurement, and how to replay it.
pub struct Incident {
    /// I1 to I5, or the name of a publication's file.
    pub name: String,
    /// What was reported, in a few words.
    pub title: String,
    /// The mails and commits that report it: author, subject and date.
    pub sources: Vec<String>,
    /// The described hosts that stand for those of the report.
    pub hosts: Vec<String>,
    /// The number that is fitted, if one is.
    pub fitted: Option<FittedInput>,
    /// Reported observations to predict.
    pub targets: Vec<Target>,
    /// How targets follow from inputs.
    pub model: Model,
    /// What the model leaves out, and what follows for the targets.
    pub limitations: Vec<String>,
}

/// How the targets of an incident follow from its inputs.
pub enum Model {
    /// A mechanism, by code that is written for the incident.
    Mechanism(MechanismModel),
    /// Locks at points of a published measurement, as its file describes them.
    Publication(Box<PublishedPoints>),
}

/// Code that simulates an incident.
pub struct MechanismModel {
    /// Numbers that the simulation needs besides those of the hosts.
    pub inputs: fn() -> Vec<Input>,
    /// For each target, predictions of models that know nothing of the mechanism.
    pub nulls: fn() -> Vec<NullPredictions>,
    /// Predicts all targets for one draw of all inputs.
    pub predict: fn(&DrawnInputs) -> Result<Prediction>,
    /// An additional table, for the middle of all inputs.
    pub figure: Option<FigureFn>,
}

impl Incident {
    fn nulls(&self) -> Vec<NullPredictions> {
        match &self.model {
            Model::Mechanism(model) => (model.nulls)(),
            Model::Publication(_) => vec![NullPredictions::default(); self.targets.len()],
        }
    }

    fn figure(&self) -> Option<FigureFn> {
        match &self.model {
            Model::Mechanism(model) => model.figure,
            Model::Publication(_) => None,
        }
    }
}

impl Model {
    /// Numbers that the simulation needs besides those of the hosts.
    pub fn inputs(&self) -> Vec<Input> {
        match self {
            Model::Mechanism(model) => (model.inputs)(),
            Model::Publication(points) => points.inputs(),
        }
    }

    /// The class of the comparison of each of so many targets.
    fn classes(&self, drawn: &DrawnInputs, targets: usize) -> Vec<Class> {
        match self {
            Model::Mechanism(_) => vec![Class::Own; targets],
            Model::Publication(points) => points.classes(drawn),
        }
    }

    fn predict(&self, drawn: &DrawnInputs) -> Result<Prediction> {
        match self {
            Model::Mechanism(model) => (model.predict)(drawn),
            Model::Publication(points) => points.predict(drawn),
        }
    }
}

/// Computes a table from a draw and the number that was fitted for it.
type FigureFn = fn(&DrawnInputs, Option<f64>) -> Result<Figure>;

/// A number that a simulation needs.
pub struct Input {
    /// A short description. A random draw depends on it.
    pub name: String,
    /// Its value, with range and origin.
    pub number: Number,
    /// When and why the input was chosen, if first results of the incident had been seen before.
    pub chosen_late: Option<&'static str>,
}

/// The number that is fitted.
pub struct FittedInput {
    /// A short description with the unit.
    pub name: String,
    /// The observation that it is fitted to.
    pub to: String,
}

/// A reported observation.
#[derive(Clone, Debug)]
pub struct Target {
    /// A short description.
    pub what: String,
    /// What the report says.
    pub reported: Reported,
    /// What the model claims about it.
    pub standing: Standing,
    /// What the report says of both sides of its ratio: ns from one operation to the next of any task.
    pub reported_ns: Option<[f64; 2]>,
    /// Whether a test of knee holds the prediction where it is.
    pub in_a_test: bool,
}

impl Target {
    /// An observation of which only this is known.
    pub fn new(what: &str, reported: Reported, standing: Standing) -> Target {
        let what = what.to_string();
        Target { what, reported, standing, reported_ns: None, in_a_test: false }
    }

    /// An observation that a test of knee predicts, too.
    pub fn in_a_test(self) -> Target {
        Target { in_a_test: true, ..self }
    }
}

/// What a report says about a target.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reported {
    /// A ratio of two measurements.
    Ratio(f64),
    /// A share of the time.
    Share(f64),
    /// Less than before, without a number.
    Less,
    /// More than before, without a number.
    More,
}

/// The role of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The model claims to predict it.
    Claimed,
    /// The one number is fitted to it.
    Anchor,
    /// The model is known not to predict it.
    Open,
}

/// Predictions of null models, where they can make any.
#[derive(Clone, Copy, Debug, Default)]
pub struct NullPredictions {
    /// The universal scalability law.
    pub usl: Option<f64>,
    /// A closed queueing model of one server.
    pub queueing: Option<f64>,
}

/// The predictions for one draw of all inputs.
#[derive(Clone, Debug)]
pub struct Prediction {
    /// The number that was fitted.
    pub fitted: Option<f64>,
    /// The value of each target, and its sides.
    pub values: Vec<PredictedValue>,
}

/// The predicted value of a target.
#[derive(Clone, Copy, Debug)]
pub struct PredictedValue {
    /// The ratio or the share.
    pub value: f64,
    /// Both sides of a ratio of simulated rates: the one above the line, and the one below.
    pub sides: Option<[SimulatedSide; 2]>,
}

/// One side of a ratio.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SimulatedSide {
    /// ns from one operation to the next of any task.
    pub ns: f64,
    /// How often an operation sleeps.
    pub sleeps: f64,
}

impl SimulatedSide {
    /// What a simulation says of its operations.
    pub fn new(run: &SimulatedRun) -> SimulatedSide {
        let operations = run.operations.iter().sum::<u64>() as f64;
        SimulatedSide { ns: 1e9 / run.rate(), sleeps: run.sleeps as f64 / operations }
    }
}

impl PredictedValue {
    /// A value that is no ratio of two rates.
    pub fn plain(value: f64) -> PredictedValue {
        PredictedValue { value, sides: None }
    }

    /// The rate of one simulation over that of another.
    pub fn rates(of: &SimulatedRun, over: &SimulatedRun) -> PredictedValue {
        let sides = Some([of, over].map(SimulatedSide::new));
        PredictedValue { value: of.rate() / over.rate(), sides }
    }

    /// The time that one simulation takes for an operation over that of another.
    pub fn times(of: &SimulatedRun, over: &SimulatedRun) -> PredictedValue {
        let sides = Some([of, over].map(SimulatedSide::new));
        PredictedValue { value: over.rate() / of.rate(), sides }
    }
}

/// An additional table of a replay.
#[derive(Clone, Debug)]
pub struct Figure {
    /// What the table shows.
    pub title: String,
    /// Headings; the first column is what varies.
    pub columns: Vec<String>,
    /// Rows with a value for each column.
    pub rows: Vec<Vec<f64>>,
}

/// A replayed incident.
pub struct Replay {
    /// The incident.
    pub incident: Arc<Incident>,
    /// The numbers that were needed besides those of the hosts.
    pub inputs: Vec<Input>,
    /// Where the inputs and the numbers of the hosts come from.
    pub provenance: Provenance,
    /// The number that was fitted.
    pub fitted: Option<Interval>,
    /// A row for each target.
    pub rows: Vec<GradedTarget>,
    /// A table that the incident adds.
    pub figure: Option<Figure>,
}

/// The number of inputs, by their origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Provenance {
    /// In publications.
    pub found: usize,
    /// Measured on a host.
    pub measured: usize,
    /// Guessed, with a reason.
    pub assumed: usize,
}

/// The value for the middle of all inputs, and the range over all draws.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    /// The value for the middle of all inputs.
    pub middle: f64,
    /// The lowest value of all draws.
    pub low: f64,
    /// The highest value of all draws.
    pub high: f64,
}

/// A target with its prediction.
pub struct GradedTarget {
    /// What was reported.
    pub target: Target,
    /// What the simulation says.
    pub predicted: Interval,
    /// Both sides of a ratio, with the middle of all inputs.
    pub sides: Option<[SimulatedSide; 2]>,
    /// Predictions of models that know nothing of the mechanism.
    pub nulls: NullPredictions,
    /// How well both agree.
    pub grade: Grade,
    /// The class of the comparison.
    pub class: Class,
    /// The prediction, with the model's error on other tables of that class; `None` of a share, and where no other table
    /// is of that class.
    pub widened: Option<Interval>,
    /// What the prediction says of the direction, if the target is a ratio or says whether there is more or less.
    pub dares: Option<Dares>,
    /// The inputs that move the prediction most, the first one most; empty unless asked for.
    pub moved_by: Vec<MovingInput>,
}

impl GradedTarget {
    /// Whether the model is known not to predict the target.
    pub fn is_open(&self) -> bool {
        self.target.standing == Standing::Open
    }
}

/// One draw of all inputs and hosts of an incident.
pub struct DrawnInputs {
    draw: Draw,
    seed: u64,
    hosts: Vec<DescribedHost>,
    inputs: BTreeMap<String, f64>,
}

/// Replays an incident with the middle of all inputs and with this many random draws.
pub fn replay(incident: &Arc<Incident>, draws: u64, seed: u64) -> Result<Replay> {
    let mut replays = replay_all(slice::from_ref(incident), draws, seed)?;
    replays.pop().context("internal error: no replay")
}

/// Replays incidents, all draws of all of them side by side.
pub fn replay_all(incidents: &[Arc<Incident>], draws: u64, seed: u64) -> Result<Vec<Replay>> {
    let plans = incidents.iter().map(|incident| Plan::new(incident, seed));
    let plans: Vec<Plan> = plans.collect::<Result<_>>()?;
    // The middle of all inputs is one draw more.
    let draws = 1 + draws as usize;
    let simulated = in_parallel(draws * plans.len(), |part| {
        let plan = &plans[part / draws];
        plan.simulate(part % draws).with_context(|| plan.incident.name.clone())
    });
    let mut simulated = simulated.into_iter();
    let grade = |plan: &Plan| {
        let of_plan = simulated.by_ref().take(draws).collect::<Result<_>>()?;
        plan.grade(of_plan).with_context(|| plan.incident.name.clone())
    };
    plans.iter().map(grade).collect()
}

/// What one draw of an incident predicts; the middle one also has the figure.
struct SimulatedDraw {
    prediction: Prediction,
    figure: Option<Figure>,
}

/// An incident about to be simulated.
struct Plan {
    incident: Arc<Incident>,
    hosts: Vec<DescribedHost>,
    seed: u64,
}

impl Plan {
    fn new(incident: &Arc<Incident>, seed: u64) -> Result<Plan> {
        let hosts =
            incident.hosts.iter().map(|name| described_hosts::find(name)).collect::<Result<_>>()?;
        Ok(Plan { incident: incident.clone(), hosts, seed })
    }

    /// The draw of this number, of which 0 is the middle, but for one input.
    fn drawn(&self, index: usize, fixed: Option<(&FixedInput, InRange)>) -> DrawnInputs {
        let seed = self.seed ^ index as u64;
        let draw = if index == 0 { Draw::Middle } else { Draw::Any(seed) };
        let (mut inputs, mut hosts) = (self.incident.model.inputs(), self.hosts.clone());
        match fixed {
            None => (),
            Some((FixedInput::Input(name), at)) => {
                let named = inputs.iter_mut().filter(|input| input.name == *name);
                named.for_each(|input| input.number = input.number.fixed(at));
            }
            Some((FixedInput::HostNumber(name, number), at)) => {
                let named = hosts.iter_mut().filter(|host| host.name == *name);
                named.for_each(|host| *host = host.fixed(&[number], at));
            }
        }
        let value = |input: &Input| (input.name.clone(), input.number.draw(draw, &input.name));
        let inputs = inputs.iter().map(value).collect();
        DrawnInputs { draw, seed, hosts, inputs }
    }

    /// All inputs and numbers of hosts that are ranges.
    fn ranges(&self) -> Vec<FixedInput> {
        let inputs = self.incident.model.inputs().into_iter();
        let inputs = inputs.filter(|input| input.number.is_range());
        let inputs = inputs.map(|input| FixedInput::Input(input.name));
        let of_host = |host: &DescribedHost| -> Vec<FixedInput> {
            let number = |name: &str| FixedInput::HostNumber(host.name.clone(), name.to_string());
            host.ranges().map(number).collect()
        };
        inputs.chain(self.hosts.iter().flat_map(of_host)).collect()
    }

    /// Predicts with the draw of this number; 0 is the middle.
    fn simulate(&self, index: usize) -> Result<SimulatedDraw> {
        let drawn = self.drawn(index, None);
        let prediction = self.incident.model.predict(&drawn)?;
        let figure = self.incident.figure().filter(|_| index == 0);
        let figure = figure.map(|figure| figure(&drawn, prediction.fitted)).transpose()?;
        Ok(SimulatedDraw { prediction, figure })
    }

    fn grade(&self, simulated: Vec<SimulatedDraw>) -> Result<Replay> {
        let Plan { incident, hosts, .. } = self;
        let inputs = incident.model.inputs();
        let (predictions, figures): (Vec<Prediction>, Vec<Option<Figure>>) =
            simulated.into_iter().map(|draw| (draw.prediction, draw.figure)).unzip();
        let interval = |value: &dyn Fn(&Prediction) -> f64| {
            Interval::from_draws(predictions.iter().map(value))
        };
        let is_blind = inputs.iter().all(|input| input.chosen_late.is_none());
        let nulls = incident.nulls();
        ensure!(
            nulls.len() == incident.targets.len(),
            "each target needs predictions of null models"
        );
        let classes = incident.model.classes(&self.drawn(0, None), incident.targets.len());
        let row = |(index, (target, nulls)): (usize, (&Target, NullPredictions))| {
            let class = classes[index];
            let predicted = interval(&|prediction| prediction.values[index].value);
            let sides = predictions[0].values[index].sides;
            let grade = grade(target, predicted, is_blind);
            // What the incident's own table says of the model is no prediction.
            let (factor, is_pooled) = grades().factor(class, Some(&incident.name));
            let widened = predicted.widened(factor);
            let is_share = matches!(target.reported, Reported::Share(_));
            GradedTarget {
                target: target.clone(),
                predicted,
                sides,
                nulls,
                grade,
                class,
                widened: (!is_pooled && !is_share).then_some(widened),
                dares: Dares::new(target.reported, widened),
                moved_by: Vec::new(),
            }
        };
        let rows = incident.targets.iter().zip(nulls).enumerate().map(row).collect();
        let middle = predictions[0].fitted;
        let fitted = middle.map(|_| interval(&|prediction| prediction.fitted.unwrap_or(f64::NAN)));
        let figure = figures.into_iter().flatten().next();
        let provenance = Provenance::new(&inputs, hosts);
        Ok(Replay { incident: incident.clone(), inputs, provenance, fitted, rows, figure })
    }
}

impl Input {
    /// A number from the report, or from what it cites.
    pub fn found(name: &str, value: f64, source: &str) -> Input {
        let origin = Origin::Found(source.to_string());
        let number = Number::between(value, value, origin, value.to_string());
        Input { name: name.to_string(), number, chosen_late: None }
    }

    /// A number that is not known, with a plausible range and its reason.
    pub fn assumed(name: &str, low: f64, high: f64, unit: &str, why: &str) -> Input {
        let origin = Origin::Assumed(why.to_string());
        let text = format!("{low}..{high} {unit}").trim_end().to_string();
        let number = Number::between(low, high, origin, text);
        Input { name: name.to_string(), number, chosen_late: None }
    }

    /// An input that was chosen after first results of the incident had been seen: when, and why.
    pub fn chosen_late(self, when_and_why: &'static str) -> Input {
        Input { chosen_late: Some(when_and_why), ..self }
    }
}

impl Provenance {
    fn new(inputs: &[Input], hosts: &[DescribedHost]) -> Provenance {
        let mut provenance = Provenance::default();
        let host_numbers = hosts.iter().flat_map(|host| host.numbers().values());
        for number in host_numbers.chain(inputs.iter().map(|input| &input.number)) {
            match number.origin {
                Origin::Found(_) => provenance.found += 1,
                Origin::Measured(..) => provenance.measured += 1,
                Origin::Assumed(_) => provenance.assumed += 1,
            }
        }
        provenance
    }
}

impl Interval {
    /// The interval, widened by a factor on both sides.
    fn widened(self, factor: f64) -> Interval {
        Interval { low: self.low / factor, high: self.high * factor, ..self }
    }

    /// The interval of these values, of which the first is for the middle of all inputs.
    fn from_draws(values: impl Iterator<Item = f64> + Clone) -> Interval {
        Interval {
            middle: values.clone().next().unwrap_or(f64::NAN),
            low: values.clone().fold(f64::INFINITY, f64::min),
            high: values.fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

impl DrawnInputs {
    /// The value of an input.
    fn get(&self, name: &str) -> f64 {
        *self.inputs.get(name).unwrap_or_else(|| panic!("no input {name} is declared"))
    }

    /// The value of an input, rounded.
    fn whole(&self, name: &str) -> u64 {
        self.get(name).round() as u64
    }

    /// The first CPUs of a host of the incident, in the order of the placement.
    fn cpus(&self, host: &str, placement: Placement, cpus: usize) -> Host {
        let host = self.described(host);
        let order = host.topology().ordered(placement);
        let used: Vec<usize> = order[..cpus].iter().map(|cpu| cpu.cpu as usize).collect();
        part_of(host.host(self.draw), &used)
    }

    fn described(&self, name: &str) -> &DescribedHost {
        let host = self.hosts.iter().find(|host| host.name == name);
        host.unwrap_or_else(|| panic!("{name} is not a host of the incident"))
    }

    /// Simulates a mechanism on all CPUs of the host, with this many ns of work between two operations.
    fn run(
        &self,
        design: MechanismDesign,
        work_ns: u64,
        host: &Host,
        tasks: usize,
        length_us: u64,
    ) -> Result<MechanismRun> {
        let length = length_us * 1000 * NS;
        let options = Options {
            seed: self.seed,
            warm_up: length / 10,
            length,
            preemption: Preemption::BetweenOperations,
            // Nobody who reports the time of a program pins its tasks.
            pinned: false,
            noise: None,
            trace: None,
        };
        run_mechanism(&Subject::Mechanism(design), work_ns, host, tasks, &options)
    }
}

fn texts(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| text.to_string()).collect()
}

/// The share of these rows in the time that tasks run.
fn share(run: &SimulatedRun, shared_rows: &[TimeRow]) -> f64 {
    let time = |counts: &dyn Fn(TimeRow) -> bool| {
        let rows = ROWS.iter().zip(run.rows).filter(|(row, _)| counts(**row));
        rows.map(|(_, time)| time as f64).sum::<f64>()
    };
    time(&|row| shared_rows.contains(&row)) / time(&TimeRow::runs)
}
