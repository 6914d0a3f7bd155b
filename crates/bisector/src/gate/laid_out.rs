//! Other layouts of both builds, before a slowdown is blamed: code that a change did not touch can be slower because it lies
//! elsewhere.

use analysis::{Spread, blocks_at_most, hodges_lehmann};
use anyhow::{Context, Result};
use host::job_control::RunningSince;
use records::Opened;
use runner::End;
use store::Store;

use super::Gating;
use super::answer::{GateAnswer, GateVerdict, GatedCase};
use crate::layouts::{in_layouts, relink, too_disturbed, too_slow};
use crate::measurement::{
    Blocks, LAYOUT_RUNS, LAYOUTS, Measurement, Repeats, Subject, differences, experiment_of_cases,
    logs_by_block, measure_while,
};
use crate::patience::Watch;

/// Standard errors by which other layouts must lack a slowdown before it is taken back.
const ERRORS: f64 = 2.0;

/// Standard errors by which layouts that differ must show it: Student's t with three degrees of freedom, 95 % on one side.
const ERRORS_BETWEEN: f64 = 2.353;

/// What four layouts of equal speed stay below in 95 %: chi-squared with three degrees of freedom.
const ALIKE_MAX: f64 = 7.815;

/// What one case asks for in other layouts, in s, where their builds and a run of it take so long: as much stays for a case
/// that turns out to have changed in the end.
pub(super) fn one_case_s(builds_s: f64, run_s: f64) -> f64 {
    let runs = 2 * LAYOUT_RUNS * 2 * LAYOUTS;
    builds_s + f64::from(runs) * run_s
}

/// What is left of the budget, and what a run takes.
#[derive(Clone, Copy)]
pub(super) struct Left {
    pub seconds: f64,
    pub run_s: f64,
}

impl Gating<'_> {
    /// Looks for what changed in other layouts of both builds, for the worse first. `None` if a signal asked knee to end.
    pub(super) fn lay_out(
        &self,
        answer: &mut GateAnswer,
        left: Left,
        tell: &mut dyn FnMut(&str),
    ) -> Result<Option<()>> {
        let is = |at: usize| answer.cases[at].is;
        let mut found: Vec<usize> = (0..answer.cases.len())
            .filter(|&at| matches!(is(at), GateVerdict::Worse | GateVerdict::Better))
            .collect();
        let size = |at: usize| answer.cases[at].change.unwrap_or(0.0).abs();
        found.sort_by(|&a, &b| size(b).total_cmp(&size(a)));
        found.sort_by_key(|&at| is(at) == GateVerdict::Better);
        if found.is_empty() || self.request.build.is_none() {
            return Ok(Some(()));
        }
        // What a build keeps for the next one, such as Go's compiled packages, shows once one layout is built.
        let first_s: f64 = self.builds.iter().map(|build| build.seconds).sum();
        if first_s > left.seconds {
            say(answer, &found, &too_slow(first_s * f64::from(LAYOUTS), left.seconds));
            return Ok(Some(()));
        }
        let since = RunningSince::now();
        if !self.workshop.has_linked(&self.head) {
            say(answer, &found, "the build links no program");
            return Ok(Some(()));
        }
        tell("building other layouts of both, since the difference may be of the layout alone");
        let plain = [0, 1].map(|side: usize| Some(self.builds[side].key.clone()));
        let (ends, workshop) = ([&self.base, &self.head], &self.workshop);
        let subjects = match relink(workshop, ends, plain, LAYOUTS, left.seconds)? {
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
        let left_s = left.seconds - since.elapsed().as_secs_f64();
        let case_s = f64::from(LAYOUT_RUNS) * subjects.len() as f64 * left.run_s;
        let fitting = ((left_s / case_s) as usize).max(1);
        let untried = found.split_off(found.len().min(fitting));
        // Twice as many runs where there is time: other layouts must be surer than what they speak against.
        let has_time = 2 * found.len() <= fitting;
        let runs = if has_time { 2 * LAYOUT_RUNS } else { LAYOUT_RUNS };
        for &at in &found {
            if self.in_layouts(answer, at, &subjects, runs)?.is_none() {
                return Ok(None);
            }
        }
        say(answer, &untried, "the budget has time for the largest changes alone");
        if found.iter().any(|at| answer.cases[*at].is == GateVerdict::LayoutOnly) {
            // Layouts of this program differ, so a smaller change may be of one, too.
            untried.iter().for_each(|at| answer.cases[*at].is = GateVerdict::LayoutOnly);
        }
        Ok(Some(()))
    }

    /// Looks for the change of one case in other layouts.
    fn in_layouts(
        &self,
        answer: &mut GateAnswer,
        at: usize,
        subjects: &[Subject],
        runs: u32,
    ) -> Result<Option<()>> {
        let request = &self.request;
        let case = &mut answer.cases[at];
        let cases: Vec<String> =
            [&case.case].into_iter().filter(|name| !name.is_empty()).cloned().collect();
        let title = format!("gate layouts {}", case.case);
        let repeats = Repeats::Times(blocks_at_most(runs));
        let experiment = experiment_of_cases(request, subjects, &cases, repeats, &title)?;
        let mut watch = Watch::new(0.0, subjects.len()).until(runs);
        let after = |record: &_, run: &_| watch.after(record, run, &mut |_| ());
        let store = Store::at(self.workshop.folder().join("records"));
        let Measurement { end, record } = measure_while(experiment, &store, false, after)?;
        if end == End::Interrupted {
            return Ok(None);
        }
        let record = record.context("no run of the layouts was kept")?;
        answer.runs += record.runs.len();
        let failed = in_layouts(&record, subjects, &request.metric)?.err();
        match too_disturbed(&record).or(failed) {
            Some(why) => case.why = format!("nothing is known of other layouts: {why}"),
            None => judge(case, &record, subjects, &request.metric, request.smallest_effect),
        }
        Ok(Some(()))
    }
}

fn say(answer: &mut GateAnswer, cases: &[usize], why: &str) {
    for at in cases {
        answer.cases[*at].why = format!("other layouts were not tried: {why}");
    }
}

/// Takes a change back that other layouts lack, or that cannot be told from how layouts differ.
fn judge(case: &mut GatedCase, record: &Opened, subjects: &[Subject], metric: &str, smallest: f64) {
    let logs =
        |subject: &Subject| logs_by_block(record, &subject.name, metric, Blocks::Undisturbed);
    let of_layout = |pair: &[Subject]| differences(&logs(&pair[0]), &logs(&pair[1]));
    let changes: Vec<Vec<f64>> = subjects.chunks_exact(2).map(of_layout).collect();
    let found = case.change.unwrap_or(0.0).ln_1p();
    if !confirms(&changes, found, smallest.ln_1p()) {
        case.is = GateVerdict::LayoutOnly;
    }
    let sizes = changes.iter().filter_map(|changes| hodges_lehmann(changes));
    case.layouts = sizes.map(f64::exp_m1).collect();
}

/// Whether other layouts bear a change out. They do not if together they surely show less than what matters, or than half of it;
/// nor if they differ from each other by more than the runs of each do, and do not show it together all the same. `changes` has
/// the differences within the blocks of each layout, `found` the change as it is to be, as logarithms.
fn confirms(changes: &[Vec<f64>], found: f64, margin: f64) -> bool {
    let estimates: Vec<f64> = changes
        .iter()
        .filter_map(|changes| Some(hodges_lehmann(changes)? * found.signum()))
        .collect();
    let Some(between) = Spread::from_values(&estimates) else { return true };
    let layouts = estimates.len() as f64;
    let of_runs = |changes: &Vec<f64>| {
        let deviation = Spread::from_values(changes)?.stddev?;
        Some(deviation.powi(2) / changes.len() as f64)
    };
    let Some(of_runs) = changes.iter().map(of_runs).sum::<Option<f64>>() else { return true };
    let between_error = between.stddev.unwrap_or(0.0) / layouts.sqrt();
    let runs_error = of_runs.sqrt() / layouts;
    let lack_it =
        between.mean + ERRORS * between_error.max(runs_error) < margin.max(found.abs() / 2.0);
    let are_alike = (layouts - 1.0) * (between_error / runs_error).powi(2) <= ALIKE_MAX;
    !lack_it && (are_alike || between.mean > ERRORS_BETWEEN * between_error)
}

#[cfg(test)]
mod tests {
    use super::{confirms, one_case_s};

    #[test]
    fn one_case_has_time_for_twice_the_runs_of_each_layout_of_both_sides() {
        assert_eq!(one_case_s(10.0, 0.25), 10.0 + 20.0 * 8.0 * 0.25);
    }

    #[test]
    fn a_slowdown_stands_where_other_layouts_bear_it_out() {
        let check = |sizes: [f64; 4], noise: f64, found: f64, expected: bool| {
            let layout =
                |size: f64| (0..10).map(move |run| size + noise * f64::from(run % 2 * 2 - 1));
            let changes: Vec<Vec<f64>> = sizes.map(|size| layout(size).collect()).into();
            assert_eq!(confirms(&changes, found, 0.02), expected, "{sizes:?} {noise} {found}");
        };
        check([0.03, 0.02, 0.04, 0.03], 0.01, 0.03, true);
        check([0.0, 0.002, -0.004, 0.001], 0.01, 0.03, false);
        check([-0.0, -0.002, 0.004, -0.001], 0.01, -0.03, false);
        // As far apart as the runs of each.
        check([0.013, 0.007, 0.035, -0.002], 0.045, 0.03, true);
        // Layouts differ by more than runs do: each could have been the one that was built.
        check([-0.043, 0.0, 0.05, -0.016], 0.02, 0.038, false);
        check([0.01, 0.017, -0.078, 0.045], 0.045, 0.04, false);
        check([0.046, 0.012, 0.074, 0.03], 0.01, 0.063, true);
        // Less than half of it.
        check([0.03, 0.02, 0.04, 0.03], 0.01, 0.10, false);
    }
}
