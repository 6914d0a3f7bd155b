//! A gate: base and head of a change built side by side, all cases of a benchmark in turn, one verdict.
//!
//!     builds ──equal──> same code                      not in layouts <──┐
//!        └──> cases of both ──> blocks until judged ──> other layouts ───┴──> slower, faster
//!                                     └──> harmless, cannot tell
//!
//! All cases together call a change where none is with the probability of the gate; a case that is likely harmless is left
//! alone, so the blocks go to those that are not.

mod answer;
mod cases;
mod exact;

use std::collections::BTreeMap;

use analysis::{
    Arm, CellComparison, CompareOptions, MetricComparison, RunValues, Scale, Spread, Verdict,
    compare, detectable, sequential,
};
use anyhow::{Context, Result};
use bisection::{difference, is_in_layouts};
use guests::kernels::Repository;
use host::counted;
use host::job_control::RunningSince;
use records::{Better, Gate, MetricKind, Opened, Run, known_metric};
use regex_lite::Regex;
use runner::End;
use setup::foreign::Permitted;
use store::Store;

use self::cases::{list, program};
use self::exact::count_cases;
use crate::Request;
use crate::build::{Build, Built};
use crate::folder::Bisection;
use crate::layouts::{in_layouts, relink, too_disturbed};
use crate::measurement::{
    CASE, LAYOUT_RUNS, LAYOUTS, Measurement, Repeats, Subject, disturbed_blocks,
    experiment_of_cases, measure_while,
};
use crate::patience::Watch;
use crate::range::{Commit, Source};
use crate::workshop::Workshop;

pub use self::answer::{CountChange, GateAnswer, GateSide, GateVerdict, GatedCase, Nothing};
pub use self::cases::Cases;
pub use self::exact::{CountVerdict, CountedCase, CountedChange};

/// Probability that a gate calls any case changed if nothing is.
pub const ALPHA: f64 = 0.01;

/// Share of the budget that the blocks leave to other layouts of what they find.
const FOR_LAYOUTS: f64 = 0.25;

/// Rounds of blocks: the first of all cases, each further one of those that stay suspect.
const ROUNDS_MAX: i32 = 8;

/// Cases whose change is looked for in other layouts, the surest first.
const LAID_OUT_MAX: usize = 4;

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
    /// Seconds that the runs may take.
    pub budget_s: f64,
    /// Whether a change is looked for in other layouts before it is blamed.
    pub layouts: bool,
    /// Whether instructions are counted under emulation, and nothing is timed.
    pub exact: bool,
}

/// Builds, measures and judges. `None` if a signal asked knee to end: the same gate again goes on with what was measured.
pub fn gate(
    asked: &GateRequest,
    store: &Store,
    mut tell: impl FnMut(&str),
) -> Result<Option<(GateAnswer, Option<Opened>)>> {
    let since = RunningSince::now();
    let [base, head] = ends(&asked.request)?;
    let Request { build, products, .. } = &*asked.request;
    let (bisection, _lock) = Bisection::of_gate(store, &format!("{build:?} {products:?}"))?;
    let workshop = Workshop::open(&bisection, asked.request.clone())?;
    workshop.remove_others(&[&base, &head])?;
    let mut gating = Gating { asked, store, workshop, base, head, builds: Vec::new() };
    let answered = gating.answer(&mut tell)?;
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
    budget_s: f64,
}

type Answered = Option<(GateAnswer, Option<Opened>)>;

impl Gating<'_> {
    fn answer(&mut self, tell: &mut dyn FnMut(&str)) -> Result<Answered> {
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
        if self.builds[0].key == self.builds[1].key {
            return Ok(self.nothing(Nothing::SameCode));
        }
        let mut listed = Vec::new();
        for (side, build) in [GateSide::Base, GateSide::Head].into_iter().zip(&self.builds) {
            match self.listed(build)? {
                Ok(cases) => listed.push(cases),
                Err(said) => return Ok(self.nothing(Nothing::NotListed { side, said })),
            }
        }
        let apart = |side: usize| -> Vec<String> {
            listed[side].iter().filter(|case| !listed[1 - side].contains(case)).cloned().collect()
        };
        let (only_base, only_head) = (apart(0), apart(1));
        let both: Vec<String> =
            listed[1].iter().filter(|case| listed[0].contains(case)).cloned().collect();
        let has_cases = !matches!(self.asked.cases, Cases::One);
        if has_cases && both.is_empty() {
            let nothing = self.nothing(Nothing::NoCase);
            return Ok(nothing
                .map(|(answer, record)| (GateAnswer { only_base, only_head, ..answer }, record)));
        }
        let answered =
            if self.asked.exact { self.count(&both, tell) } else { self.measure(&both, tell) }?;
        Ok(answered.map(|(answer, record)| (GateAnswer { only_base, only_head, ..answer }, record)))
    }

    /// The cases of a build, or why they are not known.
    fn listed(&self, build: &Build) -> Result<Result<Vec<String>, String>> {
        let program = match &self.asked.program {
            Some(name) => match program(&build.folder, name) {
                Ok(program) => Some(program),
                Err(why) => return Ok(Err(why)),
            },
            None => None,
        };
        let listed = list(&self.asked.cases, &build.folder, program.as_deref())?;
        let is_asked =
            |case: &String| self.asked.only.as_ref().is_none_or(|only| only.is_match(case));
        Ok(listed.map(|cases| cases.into_iter().filter(is_asked).collect()))
    }

    /// Builds as the command wants them.
    fn with_programs(&self, subjects: Vec<Subject>) -> Result<Vec<Subject>, String> {
        let name = self
            .asked
            .program
            .as_ref()
            .filter(|_| self.asked.request.command.contains("{program}"));
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
        let counted = count_cases(&self.asked.request, &self.subjects()?, cases, tell)?;
        let runs = cases.len().max(1) * exact::RUNS;
        let answer = |counted| GateAnswer { counted, runs, ..self.blank() };
        Ok(counted.map(|counted| (answer(counted), None)))
    }

    /// Measures the cases in turn, and those that stay suspect once more; then looks for what changed in other layouts.
    fn measure(&self, cases: &[String], tell: &mut dyn FnMut(&str)) -> Result<Answered> {
        let since = RunningSince::now();
        let budget_s = self.asked.budget_s;
        let share = if self.asked.layouts { 1.0 - FOR_LAYOUTS } else { 1.0 };
        let title = format!("gate {}..{}", self.base.short(), self.head.short());
        let asked = Round { number: 1, budget_s: budget_s * share };
        let Some(record) = self.blocks(cases, asked, &title, tell)? else { return Ok(None) };
        let mut answer = self.judged(&record)?;
        let mut suspects = answer.suspects();
        for number in 2..=ROUNDS_MAX {
            let left_s = budget_s * share - since.elapsed().as_secs_f64();
            if suspects.is_empty() || left_s <= 0.0 {
                break;
            }
            tell(&format!("{} may be slower: further blocks", counted(suspects.len(), "case")));
            let of_cases = if cases.is_empty() { &[][..] } else { &suspects };
            let asked = Round { number, budget_s: left_s.ceil() };
            let Some(record) = self.blocks(of_cases, asked, &title, tell)? else {
                return Ok(None);
            };
            let further = self.judged(&record)?;
            suspects = further.suspects();
            answer.take_further(further);
        }
        if self.asked.layouts {
            let left_s = budget_s - since.elapsed().as_secs_f64();
            if self.lay_out(&mut answer, left_s, tell)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some((answer, Some(record))))
    }

    /// Runs the blocks of a round. `None` if a signal asked knee to end.
    fn blocks(
        &self,
        cases: &[String],
        Round { number, budget_s }: Round,
        title: &str,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<Opened>> {
        // All rounds together spend no more than the gate's error.
        let bounds = Gate { alpha: ALPHA / 2_f64.powi(number), budget_s };
        let title = format!("{title}, round {number}");
        let (request, subjects) = (&self.asked.request, self.subjects()?);
        let repeats = Repeats::Gate(bounds);
        let experiment = experiment_of_cases(request, &subjects, cases, repeats, &title)?;
        let since = RunningSince::now();
        let (mut most, mut told) = (0, 0);
        let measured = measure_while(experiment, self.store, true, |record, run| {
            most = most.max(run.block + 1);
            // A line a minute is enough for a log.
            let minute = (since.elapsed().as_secs_f64() / 60.0) as u64;
            if minute > told {
                told = minute;
                tell(&format!("{most} blocks in {minute} min"));
            }
            runner::go_on(record, run)
        })?;
        Ok(measured.record.filter(|_| measured.end == End::Complete))
    }

    fn judged(&self, record: &Opened) -> Result<GateAnswer> {
        let arms = ["base", "head"].map(|name| Arm { name, record, variant: name });
        let comparison = compare(&arms, &CompareOptions::default()).map_err(anyhow::Error::msg)?;
        let smallest = self.asked.request.smallest_effect;
        let cases: Vec<GatedCase> =
            comparison.cells.iter().map(|cell| gated(cell, smallest)).collect();
        let primary = comparison.cells.first().and_then(|cell| cell.metrics.first());
        let runs: Vec<&Run> = record.runs.iter().collect();
        let bounds = record.record.experiment.compare.gate;
        let bounds = bounds.context("the record of a gate has its bounds")?;
        let is_spent = plan::adaptive::spent_s(&record.record, &runs) >= bounds.budget_s;
        let out_of_budget = is_spent && cases.iter().any(|one| one.is == GateVerdict::CannotTell);
        let most = cases.iter().map(|one| one.blocks).max().unwrap_or(0);
        let blocks = if is_spent { most } else { record.record.experiment.blocks() as usize };
        let level = bounds.alpha / comparison.cells.len().max(1) as f64;
        let metric = &self.asked.request.metric;
        let sees = comparison.cells.iter().map(|cell| could_see(cell, metric, blocks, level));
        Ok(GateAnswer {
            unit: primary.map_or("1".to_string(), |metric| metric.unit.clone()),
            better: primary.map_or(Better::Neither, |metric| metric.better),
            could_see: sees.reduce(|a, b| Some(a?.max(b?))).flatten(),
            out_of_budget,
            runs: record.runs.len(),
            disturbed: disturbed_blocks(record),
            records: vec![record.record.id.clone()],
            nothing: None,
            cases,
            ..self.blank()
        })
    }

    /// Looks for the changes in other layouts of both builds. `None` if a signal asked knee to end.
    fn lay_out(
        &self,
        answer: &mut GateAnswer,
        left_s: f64,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<()>> {
        let mut found: Vec<usize> = (0..answer.cases.len())
            .filter(|at| answer.cases[*at].is == GateVerdict::Worse)
            .collect();
        let size = |at: &usize| answer.cases[*at].change.unwrap_or(0.0).abs();
        found.sort_by(|a, b| size(b).total_cmp(&size(a)));
        if found.is_empty() || self.asked.request.build.is_none() {
            return Ok(Some(()));
        }
        let say = |answer: &mut GateAnswer, found: &[usize], why: &str| {
            for at in found {
                answer.cases[*at].why = format!("other layouts were not tried: {why}");
            }
        };
        let builds_s: f64 =
            self.builds.iter().map(|build| build.seconds).sum::<f64>() * f64::from(LAYOUTS);
        if builds_s > left_s {
            let why = format!(
                "their builds take {builds_s:.0} s, and {left_s:.0} s of the budget are left"
            );
            say(answer, &found, &why);
            return Ok(Some(()));
        }
        if !self.workshop.has_linked(&self.head) {
            say(answer, &found, "the build links no program");
            return Ok(Some(()));
        }
        tell("building other layouts of both, since the difference may be of the layout alone");
        let plain = [0, 1].map(|side: usize| Some(self.builds[side].key.clone()));
        let subjects = match relink(&self.workshop, [&self.base, &self.head], plain, LAYOUTS)? {
            Ok(Some(subjects)) => self.with_programs(subjects),
            Ok(None) => return Ok(None),
            Err(why) => Err(why),
        };
        let subjects = match subjects {
            Ok(subjects) => subjects,
            Err(why) => {
                say(answer, &found, &why);
                return Ok(Some(()));
            }
        };
        let untried = found.split_off(found.len().min(LAID_OUT_MAX));
        say(
            answer,
            &untried,
            &format!("only the {LAID_OUT_MAX} largest changes are looked for there"),
        );
        for at in found {
            if self.in_layouts(&mut answer.cases[at], &subjects, &mut answer.runs)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Looks for the change of one case in other layouts.
    fn in_layouts(
        &self,
        case: &mut GatedCase,
        subjects: &[Subject],
        runs: &mut usize,
    ) -> Result<Option<()>> {
        let request = &self.asked.request;
        let cases: Vec<String> =
            [&case.case].into_iter().filter(|name| !name.is_empty()).cloned().collect();
        let repeats = Repeats::Times(analysis::blocks_at_most(LAYOUT_RUNS));
        let title = format!("gate layouts {}", case.case);
        let experiment = experiment_of_cases(request, subjects, &cases, repeats, &title)?;
        let mut watch = Watch::new(0.0, subjects.len()).until(LAYOUT_RUNS);
        let after = |record: &_, run: &_| watch.after(record, run, &mut |_| ());
        let store = Store::at(self.workshop.folder().join("records"));
        let Measurement { end, record } = measure_while(experiment, &store, false, after)?;
        if end == End::Interrupted {
            return Ok(None);
        }
        let record = record.context("no run of the layouts was kept")?;
        *runs += record.runs.len();
        if let Some(why) = too_disturbed(&record) {
            case.why = format!("nothing is known of other layouts: {why}");
            return Ok(Some(()));
        }
        match in_layouts(&record, subjects, &request.metric)? {
            Err(why) => case.why = format!("nothing is known of other layouts: {why}"),
            Ok(logs) => {
                let changes: Vec<(f64, f64)> = logs.iter().map(|[a, b]| difference(a, b)).collect();
                let found = case.change.unwrap_or(0.0).ln_1p();
                if !is_in_layouts(&changes, found) {
                    case.is = GateVerdict::LayoutOnly;
                }
                case.layouts = changes.iter().map(|(size, _)| size.exp_m1()).collect();
            }
        }
        Ok(Some(()))
    }

    fn nothing(&self, why: Nothing) -> Answered {
        Some((GateAnswer { nothing: Some(why), ..self.blank() }, None))
    }

    /// The answer without cases.
    fn blank(&self) -> GateAnswer {
        let Request { metric, smallest_effect, .. } = &*self.asked.request;
        GateAnswer {
            base: self.base.id.clone(),
            head: self.head.id.clone(),
            metric: metric.clone(),
            unit: "1".to_string(),
            better: Better::Neither,
            smallest_effect: *smallest_effect,
            alpha: ALPHA,
            nothing: None,
            cases: Vec::new(),
            counted: Vec::new(),
            only_base: Vec::new(),
            only_head: Vec::new(),
            could_see: None,
            out_of_budget: false,
            runs: 0,
            disturbed: 0,
            seconds: 0.0,
            records: Vec::new(),
        }
    }
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
        gated.why = format!("all runs of {} fail", failing.join(" and "));
        return gated;
    };
    if !failing.is_empty() {
        gated.why = format!(
            "{} of {} failed",
            counted(cell.failed.iter().sum(), "run"),
            failing.join(" and ")
        );
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

/// The smallest change that this number of blocks finds in a cell in four of five gates, by the noise between its blocks.
fn could_see(cell: &CellComparison, metric: &str, blocks: usize, alpha: f64) -> Option<f64> {
    let side = |at: usize| -> BTreeMap<u32, f64> {
        let runs = cell.passes.get(at).into_iter().flatten().filter(|run| !run.discarded);
        let value = |run: &RunValues| run.metrics.get(metric).filter(|value| *value > 0.0);
        runs.filter_map(|run| Some((run.block, value(run)?.ln()))).collect()
    };
    let (base, head) = (side(0), side(1));
    let differences: Vec<f64> =
        head.iter().filter_map(|(block, value)| Some(value - base.get(block)?)).collect();
    let deviation = Spread::from_values(&differences)?.stddev?;
    detectable(blocks, deviation / 2.0_f64.sqrt(), sequential::nominal(blocks, alpha))
}
