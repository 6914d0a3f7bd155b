//! A gate: base and head of a change built side by side, all cases of a benchmark in turn, one verdict.
//!
//!     builds ──equal──> same code                      not in layouts <──┐
//!        └──> cases of both ──> blocks until judged ──> other layouts ───┴──> slower, faster
//!                                     └──> harmless, cannot tell
//!
//! All cases together call a change where none is with the probability of the gate; a case that is likely harmless is left
//! alone, so the blocks go to those that are not.

mod answer;
mod builds;
mod cases;
mod exact;
mod laid_out;
mod learning;
mod page_state;
mod rounds;
mod same;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use analysis::{
    Arm, CellComparison, CompareOptions, FurtherRound, MetricComparison, OpenCase, RunValues,
    Scale, Spread, Verdict, compare, detectable, further_round, sequential,
};
use anyhow::{Context, Result, bail};
use guests::kernels::Repository;
use host::counted;
use host::job_control::RunningSince;
use records::{Better, Experiment, Gate, MetricKind, Opened, Outcome, Record, Run, known_metric};
use regex_lite::Regex;
use runner::End;
use setup::foreign::Permitted;
use store::Store;

use self::cases::{NamedProgram, program};
use self::exact::Counting;
use self::laid_out::{Left, one_case_s};
use self::page_state::{of_case, page_state};
use self::rounds::Rounds;
use self::same::may_be_read;
use crate::Request;
use crate::build::{Build, Built};
use crate::measurement::{
    CASE, LAYOUTS, Repeats, Subject, disturbed_blocks, experiment_of_cases, measure_while,
};
use crate::range::{Commit, Source};
use crate::workshop::Workshop;

pub use self::answer::{CountChange, GateAnswer, GateSide, GateVerdict, GatedCase, Nothing};
pub use self::cases::Cases;
pub(crate) use self::cases::list;
pub use self::exact::{CountVerdict, CountedCase, CountedChange};

/// Probability that a gate calls any case changed if nothing is.
pub const ALPHA: f64 = 0.01;

/// Share of the budget that the blocks leave to other layouts of what they find, and the most where their builds take long.
const FOR_LAYOUTS: f64 = 0.25;
const FOR_LAYOUTS_MAX: f64 = 0.45;

/// Why a case without a block that counts cannot be told.
const DISTURBED: &str = "the host disturbed all of its blocks";
const NOT_RUN: &str = "the budget ended before it ran";

/// Rounds of blocks: the first of all cases, each further one of those that stay open.
const ROUNDS_MAX: i32 = 8;

/// What is gated.
pub struct GateRequest {
    /// Both ends, how they are built and what is run: `{case}` in the command stands for a case.
    pub request: Permitted<Request>,
    /// Where the cases come from.
    pub cases: Cases,
    /// Only cases whose names it matches.
    pub only: Option<Regex>,
    /// What stands for `{program}`, in the folder of a build: `*` stands for any characters in a name.
    pub program: Option<String>,
    /// Whether the smallest slowdown that matters is what this runner can show, instead of the request's.
    pub learns: bool,
    /// Seconds that the runs may take.
    pub budget_s: f64,
    /// Whether a change is looked for in other layouts before it is blamed.
    pub layouts: bool,
    /// Whether instructions are counted under emulation, and nothing is timed.
    pub exact: bool,
    /// The line that starts the program and runs no case, to count what that takes.
    pub started: Option<String>,
}

/// Builds, measures and judges. `None` if a signal asked knee to end: the same gate again goes on with what was measured.
pub fn gate(
    asked: &GateRequest,
    store: &Store,
    mut tell: impl FnMut(&str),
) -> Result<Option<(GateAnswer, Option<Opened>)>> {
    let since = RunningSince::now();
    let [base, head] = ends(&asked.request)?;
    let (workshop, _lock) = builds::workshop(&asked.request, store, [&base, &head], &mut tell)?;
    let request = asked.request.clone();
    let mut gating = Gating { asked, request, store, workshop, base, head, builds: Vec::new() };
    let answered = gating.answer(&mut tell)?;
    if answered.is_some() {
        gating.rounds().forget();
    }
    Ok(answered.map(|(answer, record)| {
        let seconds = since.elapsed().as_secs_f64();
        (GateAnswer { seconds, ..answer }, record)
    }))
}

/// Where the head left the base, and the head.
fn ends(request: &Request) -> Result<[Commit; 2]> {
    let Source::Git { directory, good, bad, .. } = &request.source else {
        unreachable!("a gate compares commits")
    };
    let repository = Repository::open(directory)?;
    let (base, head) = (repository.resolve(good)?, repository.resolve(bad)?);
    let common = repository.merge_base(&base, &head).with_context(|| {
        format!(
            "{good} and {bad} have no common ancestor here: fetch the whole history (`git fetch --unshallow`), or name \
             an ancestor of {bad} as --base"
        )
    })?;
    let commit = |name: &str, parents| -> Result<Commit> {
        let revision = repository.resolve(name)?;
        let (date, subject) = repository.date_and_subject(&revision)?;
        Ok(Commit { id: revision.commit, subject, date, parents })
    };
    Ok([commit(&common, Vec::new())?, commit(&head.commit, vec![0])?])
}

/// A gate under way.
struct Gating<'a> {
    asked: &'a GateRequest,
    /// What was asked for, with the smallest slowdown that was learned.
    request: Permitted<Request>,
    store: &'a Store,
    workshop: Workshop,
    base: Commit,
    head: Commit,
    /// The builds of base and head, as far as they are done.
    builds: Vec<Build>,
}

/// A round of blocks, and the seconds that it may take.
#[derive(Clone, Copy)]
struct Round {
    /// Its number, from 1.
    number: i32,
    /// Runs whose mean is a value.
    runs: u32,
    budget_s: f64,
}

type Answered = Option<(GateAnswer, Option<Opened>)>;

impl Gating<'_> {
    fn answer(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Answered> {
        if self.base.id == self.head.id {
            return Ok(self.nothing(Nothing::NoChange));
        }
        for (side, commit) in [(GateSide::Base, &self.base), (GateSide::Head, &self.head)] {
            match self.workshop.kept_or_built(commit)? {
                Built::Done(build) => {
                    tell(&format!(
                        "{} {}: built in {:.1} s",
                        side.word(),
                        commit.short(),
                        build.seconds
                    ));
                    self.builds.push(build);
                }
                Built::Failed(said) => return Ok(self.nothing(Nothing::NotBuilt { side, said })),
                Built::Interrupted => return Ok(None),
            }
        }
        // Without a build, the files of both are all that there is.
        if self.builds[0].key == self.builds[1].key || self.request.build.is_none() {
            match self.data_changed()? {
                None => return Ok(self.nothing(Nothing::SameCode)),
                Some(path) if self.request.build.is_some() => tell(&format!(
                    "both builds are equal, but {path} is not, which programs may read as they run"
                )),
                Some(_) => (),
            }
        }
        let listed = match [self.listed(&self.builds[0])?, self.listed(&self.builds[1])?] {
            // What fails on both sides is the line, and no change.
            [Err(said), Err(_)] => bail!("the cases cannot be listed: {said}"),
            [Err(said), _] => {
                return Ok(self.nothing(Nothing::NotListed { side: GateSide::Base, said }));
            }
            [_, Err(said)] => {
                return Ok(self.nothing(Nothing::NotListed { side: GateSide::Head, said }));
            }
            [Ok(base), Ok(head)] => [base, head],
        };
        let has_cases = !matches!(self.asked.cases, Cases::One);
        if has_cases && listed.iter().all(Vec::is_empty) {
            match &self.asked.only {
                Some(only) => bail!("no case of base or head matches --only '{only}'"),
                None => bail!("neither base nor head has a case: what lists them prints none"),
            }
        }
        let apart = |side: usize| -> Vec<String> {
            listed[side].iter().filter(|case| !listed[1 - side].contains(case)).cloned().collect()
        };
        let (only_base, only_head) = (apart(0), apart(1));
        let both: Vec<String> =
            listed[1].iter().filter(|case| listed[0].contains(case)).cloned().collect();
        if has_cases && both.is_empty() {
            let nothing = self.nothing(Nothing::NoCase);
            return Ok(nothing
                .map(|(answer, record)| (GateAnswer { only_base, only_head, ..answer }, record)));
        }
        let budget_s = self.asked.budget_s;
        let answered = match &self.asked {
            GateRequest { exact: true, .. } => self.count(&both, tell),
            GateRequest { learns: true, .. } => self.learn_and_measure(&both, budget_s, tell),
            _ => self.measure(&both, budget_s, tell),
        }?;
        Ok(answered.map(|(answer, record)| (GateAnswer { only_base, only_head, ..answer }, record)))
    }

    /// A file that differs between base and head, which equal builds may read as they run.
    fn data_changed(&self) -> Result<Option<String>> {
        let Source::Git { directory, .. } = &self.request.source else { return Ok(None) };
        let repository = Repository::open(directory)?;
        let mut git = repository.command();
        git.args(["diff", "--name-only", "--no-renames", "-z", &self.base.id, &self.head.id]);
        let paths = repository.ask(&mut git)?;
        let mut paths = paths.split('\0').filter(|path| !path.is_empty());
        let is_build = self.request.build.is_some();
        Ok(paths.find(|path| may_be_read(path, is_build)).map(str::to_string))
    }

    /// The cases of a build, or why they are not known.
    fn listed(&self, build: &Build) -> Result<Result<Vec<String>, String>> {
        let program = match &self.asked.program {
            Some(name) => match program(&build.folder, name) {
                Ok(path) => Some(NamedProgram { name: name.clone(), path }),
                Err(why) => return Ok(Err(why)),
            },
            None => None,
        };
        let listed = list(&self.asked.cases, &build.folder, program.as_ref())?;
        let is_asked =
            |case: &String| self.asked.only.as_ref().is_none_or(|only| only.is_match(case));
        Ok(listed.map(|cases| cases.into_iter().filter(is_asked).collect()))
    }

    /// Builds as the command wants them.
    fn with_programs(&self, subjects: Vec<Subject>) -> Result<Vec<Subject>, String> {
        let name =
            self.asked.program.as_ref().filter(|_| self.request.command.contains("{program}"));
        let with = |subject: Subject| {
            let program = name.map(|name| program(&subject.folder, name)).transpose()?;
            Ok(Subject { program, ..subject })
        };
        subjects.into_iter().map(with).collect()
    }

    fn subjects(&self) -> Result<Vec<Subject>> {
        let sides = ["base", "head"].into_iter().zip(&self.builds);
        let subject = |(name, build): (&str, &Build)| Subject::new(name, &build.folder);
        self.with_programs(sides.map(subject).collect()).map_err(anyhow::Error::msg)
    }

    /// Counts the instructions of the cases.
    fn count(&self, cases: &[String], tell: &mut dyn FnMut(&str)) -> Result<Answered> {
        let (request, started) = (&self.request, self.asked.started.as_deref());
        let counting = Counting { request, started, subjects: &self.subjects()? };
        let counted = counting.count_cases(cases, tell)?;
        let runs = cases.len().max(1) * exact::RUNS;
        let answer = |counted| GateAnswer { counted, runs, ..self.blank() };
        Ok(counted.map(|counted| (answer(counted), None)))
    }

    /// Seconds that other layouts of both builds take.
    fn layouts_s(&self) -> f64 {
        self.builds.iter().map(|build| build.seconds).sum::<f64>() * f64::from(LAYOUTS)
    }

    /// The share of the budget for other layouts: their builds, and as long again for their runs as there is at least.
    fn for_layouts(&self, budget_s: f64) -> f64 {
        let builds = self.layouts_s() / budget_s;
        (FOR_LAYOUTS / 2.0 + builds).clamp(FOR_LAYOUTS, FOR_LAYOUTS_MAX)
    }

    /// Measures the cases in turn, and those that stay open once more; then looks for what changed in other layouts.
    fn measure(
        &self,
        cases: &[String],
        budget_s: f64,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Answered> {
        let has_layouts = self.asked.layouts && self.request.build.is_some();
        let share = if has_layouts { 1.0 - self.for_layouts(budget_s) } else { 1.0 };
        let first = Round { number: 1, runs: 1, budget_s: budget_s * share };
        let Some(record) = self.blocks(cases, first, tell)? else { return Ok(None) };
        // By the records alone, so that a gate that was killed goes on as it would have.
        let mut spent_s = spent_s(&record);
        let mut answer = self.judged(&record)?;
        // What few runs of each case tell of their noise is no reason to run fewer cases.
        let looked = if is_screened(&record) { &[][..] } else { &answer.cases[..] };
        let seen = looked.iter().filter_map(|case| Some((case.case.clone(), case.could_see?)));
        let seen: BTreeMap<String, f64> = seen.collect();
        let mut open = answer.open_cases();
        for number in 2..=ROUNDS_MAX {
            let run_s = spent_s / answer.runs.max(1) as f64;
            let for_layouts_s = budget_s * (1.0 - share);
            let for_layouts_s = if answer.has_change() {
                for_layouts_s
            } else {
                one_case_s(self.layouts_s(), run_s).min(for_layouts_s)
            };
            let left_s = budget_s - for_layouts_s - spent_s;
            let one = |(case, worse_by): &(String, f64)| OpenCase {
                worse_by: *worse_by,
                could_see: seen.get(case).copied(),
            };
            let cases_open: Vec<OpenCase> = open.iter().map(one).collect();
            let smallest = answer.smallest_effect;
            let next = further_round(&cases_open, smallest, left_s / run_s);
            let Some(FurtherRound { cases: chosen, runs }) = next.filter(|_| left_s > 0.0) else {
                break;
            };
            tell(&format!("{} still open: further blocks", counted(open.len(), "case")));
            let chosen: Vec<String> = chosen.into_iter().map(|at| open[at].0.clone()).collect();
            open.retain(|(case, _)| !chosen.contains(case));
            let of_cases = if cases.is_empty() { &[][..] } else { &chosen };
            let round = Round { number, runs, budget_s: left_s.ceil() };
            let Some(record) = self.blocks(of_cases, round, tell)? else { return Ok(None) };
            spent_s += self::spent_s(&record);
            let further = self.judged(&record)?;
            open.extend(further.open_cases());
            answer.take_further(further);
        }
        answer.needs_s = needs_s(&record, share).filter(|_| !open.is_empty());
        if self.asked.layouts {
            let run_s = spent_s / answer.runs.max(1) as f64;
            let left = Left { seconds: budget_s - spent_s, run_s };
            if self.lay_out(&mut answer, left, tell)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((answer, Some(record))))
    }

    /// Runs the blocks of a round. `None` if a signal asked knee to end.
    fn blocks(
        &self,
        cases: &[String],
        Round { number, runs, budget_s }: Round,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Opened>> {
        // All rounds together spend no more than the gate's error.
        let bounds = Gate { alpha: ALPHA / 2_f64.powi(number), budget_s, runs };
        let title = format!("gate {}..{}, round {number}", self.base.short(), self.head.short());
        let (request, subjects) = (&self.request, self.subjects()?);
        let repeats = Repeats::Gate(bounds);
        let experiment = experiment_of_cases(request, &subjects, cases, repeats, &title)?;
        let since = RunningSince::now();
        let (mut most, mut told) = (0, 0);
        self.finished_or_measured(experiment, |record, run| {
            most = most.max(run.block + 1);
            // A line a minute is enough for a log.
            let minute = (since.elapsed().as_secs_f64() / 60.0) as u64;
            if minute > told {
                told = minute;
                tell(&format!("{most} blocks in {minute} min"));
            }
            runner::go_on(record, run)
        })
    }

    /// The record of an experiment that this gate finished before it was killed, or a new one. `None` if a signal asked knee to
    /// end.
    fn finished_or_measured(
        &self,
        experiment: Permitted<Experiment>,
        finished: impl FnMut(&Record, &Run) -> ControlFlow<()>,
    ) -> Result<Option<Opened>> {
        if let Some(record) = self.rounds().finished(&experiment) {
            return Ok(Some(record));
        }
        let measured = measure_while(experiment, self.store, true, finished)?;
        let record = measured.record.filter(|_| measured.end == End::Complete);
        record.iter().try_for_each(|record| self.rounds().add(record))?;
        Ok(record)
    }

    /// The rounds that this gate has finished.
    fn rounds(&self) -> Rounds {
        Rounds::at(self.workshop.place(&self.head).with_extension("rounds"))
    }

    fn judged(&self, record: &Opened) -> Result<GateAnswer> {
        let arms = ["base", "head"].map(|name| Arm { name, record, variant: name });
        let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
        let smallest = self.request.smallest_effect;
        let mut cases: Vec<GatedCase> =
            comparison.cells.iter().map(|cell| gated(cell, smallest)).collect();
        let primary = comparison.cells.first().and_then(|cell| cell.metrics.first());
        let bounds = record.record.experiment.compare.gate;
        let bounds = bounds.context("the record of a gate has its bounds")?;
        let is_spent = spent_s(record) >= bounds.budget_s || is_screened(record);
        let out_of_budget = is_spent && cases.iter().any(|one| one.is == GateVerdict::CannotTell);
        let most = cases.iter().map(|one| one.blocks).max().unwrap_or(0);
        let blocks = if is_spent { most } else { record.record.experiment.blocks() as usize };
        let level = bounds.alpha / comparison.cells.len().max(1) as f64;
        let metric = &self.request.metric;
        for (case, cell) in cases.iter_mut().zip(&comparison.cells) {
            // Its values are means already.
            case.could_see = could_see(cell, metric, (blocks, 1), level);
            match case.is {
                GateVerdict::Worse => case.beside.extend(page_state(record, &case.case)),
                GateVerdict::Failed => case.why += &said_by_failed(record, &case.case),
                _ => (),
            }
        }
        Ok(GateAnswer {
            unit: primary.map_or("1".to_string(), |metric| metric.unit.clone()),
            better: primary.map_or(Better::Neither, |metric| metric.better),
            could_see: cases
                .iter()
                .map(|one| one.could_see)
                .reduce(|a, b| Some(a?.max(b?)))
                .flatten(),
            out_of_budget,
            runs: record.runs.len(),
            disturbed: disturbed_blocks(record),
            records: vec![record.record.id.clone()],
            nothing: None,
            cases,
            ..self.blank()
        })
    }

    fn nothing(&self, why: Nothing) -> Answered {
        Some((GateAnswer { nothing: Some(why), ..self.blank() }, None))
    }

    /// The answer without cases.
    fn blank(&self) -> GateAnswer {
        let Request { metric, smallest_effect, .. } = &*self.request;
        GateAnswer {
            base: self.base.id.clone(),
            head: self.head.id.clone(),
            metric: metric.clone(),
            unit: "1".to_string(),
            better: Better::Neither,
            smallest_effect: *smallest_effect,
            learned: None,
            alpha: ALPHA,
            nothing: None,
            cases: Vec::new(),
            counted: Vec::new(),
            only_base: Vec::new(),
            only_head: Vec::new(),
            could_see: None,
            out_of_budget: false,
            needs_s: None,
            runs: 0,
            disturbed: 0,
            seconds: 0.0,
            records: Vec::new(),
        }
    }
}

/// Whether the budget held no look at all cases, so that their runs only tell which of them are suspicious.
fn is_screened(record: &Opened) -> bool {
    let blocks = record.runs.iter().map(|run| run.block as usize + 1).max();
    blocks.is_none_or(|blocks| blocks < sequential::LOOKS[0])
}

/// The budget in seconds, of which this share is for blocks, that holds a look at all cases; `None` if this one held it.
fn needs_s(record: &Opened, share: f64) -> Option<f64> {
    let run_s = spent_s(record) / record.runs.len().max(1) as f64;
    let runs = record.record.points.len() * sequential::LOOKS[0];
    is_screened(record).then(|| run_s * runs as f64 / share)
}

/// Seconds that the runs of a round took.
fn spent_s(record: &Opened) -> f64 {
    let runs: Vec<&Run> = record.runs.iter().collect();
    plan::adaptive::spent_s(&record.record, &runs)
}

/// The verdict about a cell.
fn gated(cell: &CellComparison, smallest: f64) -> GatedCase {
    let case = cell.key.parameters.get(CASE).cloned().unwrap_or_default();
    let contrast = cell.metrics.first().and_then(|metric| metric.contrasts.first());
    let mut gated = GatedCase {
        case,
        is: GateVerdict::Failed,
        change: contrast.and_then(|contrast| contrast.change),
        interval: contrast.and_then(|contrast| contrast.interval),
        blocks: contrast.map_or(0, |contrast| contrast.n),
        failed: cell.failed.iter().sum(),
        could_see: None,
        layouts: Vec::new(),
        beside: Vec::new(),
        why: String::new(),
    };
    let failing: Vec<&str> = ["base", "head"]
        .into_iter()
        .zip(&cell.failed)
        .filter_map(|(side, failed)| (*failed > 0).then_some(side))
        .collect();
    let Some(contrast) = contrast.filter(|contrast| contrast.n > 0) else {
        if failing.is_empty() {
            gated.is = GateVerdict::CannotTell;
            gated.why = if has_pair(cell) { DISTURBED } else { NOT_RUN }.to_string();
        } else {
            gated.why = format!("all runs of {} fail", failing.join(" and "));
        }
        return gated;
    };
    if !failing.is_empty() {
        let runs = counted(gated.failed, "run");
        gated.why = format!("{runs} of {} failed", failing.join(" and "));
    }
    let size = contrast.change.unwrap_or(0.0).abs();
    gated.is = match &contrast.verdict {
        Verdict::Worse { .. } if size < smallest => GateVerdict::Slightly,
        Verdict::Worse { .. } => GateVerdict::Worse,
        Verdict::Better { .. } => GateVerdict::Better,
        Verdict::More { .. } | Verdict::Less { .. } => GateVerdict::Changed,
        Verdict::Same => GateVerdict::Harmless,
        _ if contrast.harmless => GateVerdict::Harmless,
        Verdict::CannotTell { .. } | Verdict::Unjudged { .. } | Verdict::NotInterleaved => {
            GateVerdict::CannotTell
        }
    };
    if contrast.verdict.is_change() {
        gated.beside = beside(cell);
    }
    gated
}

/// Whether base and head have run in one block.
fn has_pair(cell: &CellComparison) -> bool {
    let blocks = |side: usize| cell.passes.get(side).into_iter().flatten().map(|run| run.block);
    blocks(0).any(|block| blocks(1).any(|other| other == block))
}

/// ": " and why a run of a case failed, the newest of them.
fn said_by_failed(record: &Opened, case: &str) -> String {
    let mut runs = ["head", "base"].into_iter().flat_map(|side| of_case(record, side, case));
    let why = runs.find_map(|run| match &run.outcome {
        // Its path and status say less than its words.
        Outcome::Failed { reason } => {
            let said = reason.split_once(", saying: ").map_or(reason.as_str(), |(_, said)| said);
            Some(format!(": {said:.160}"))
        }
        _ => None,
    });
    why.unwrap_or_default()
}

/// The counts of a cell that changed, at most three.
fn beside(cell: &CellComparison) -> Vec<CountChange> {
    const LEAST: f64 = 0.01;
    let change = |metric: &MetricComparison| {
        let contrast = metric.contrasts.first()?;
        let change = contrast.change.filter(|_| contrast.scale == Scale::Relative)?;
        let is_count = known_metric(&metric.metric).is_some_and(|m| m.kind == MetricKind::Count);
        let is_told = contrast.verdict.is_change() && change.abs() >= LEAST && is_count;
        is_told.then(|| CountChange { metric: metric.metric.clone(), change })
    };
    let mut changes: Vec<CountChange> = cell.metrics.iter().skip(1).filter_map(change).collect();
    changes.sort_by(|a, b| b.change.abs().total_cmp(&a.change.abs()));
    changes.truncate(3);
    changes
}

/// The smallest change that this number of blocks, of so many runs each, finds in a cell in four of five gates.
fn could_see(
    cell: &CellComparison,
    metric: &str,
    (blocks, runs): (usize, u32),
    alpha: f64,
) -> Option<f64> {
    let side = |at: usize| -> BTreeMap<u32, f64> {
        let runs = cell.passes.get(at).into_iter().flatten().filter(|run| !run.discarded);
        let value = |run: &RunValues| run.metrics.get(metric).filter(|value| *value > 0.0);
        runs.filter_map(|run| Some((run.block, value(run)?.ln()))).collect()
    };
    let (base, head) = (side(0), side(1));
    let differences: Vec<f64> =
        head.iter().filter_map(|(block, value)| Some(value - base.get(block)?)).collect();
    let deviation = Spread::from_values(&differences)?.stddev?;
    let cv = deviation / (2.0 * f64::from(runs)).sqrt();
    detectable(blocks, cv, sequential::nominal(blocks, alpha))
}
