//! The runs of a line's experiments, series by series.

use std::collections::BTreeMap;

use analysis::left_out;
use anyhow::Result;
use records::{Experiment, LoadWork, Opened, Outcome, Record, Run};
use setup::foreign::Permitted;

use super::Adding;
use super::events::{BesideAnchor, rounded};
use super::file::Series;
use crate::measurement::{CASE, Repeats, Subject, experiment_of_cases};

/// With fewer blocks that no other program disturbed, all count: a value from a disturbed host is better than none, since a
/// change is confirmed by other runs.
const BLOCKS_LEAST: usize = 3;

/// The experiment that runs subjects in turn in each case, and reads all metrics of the line.
pub fn experiment_of(
    adding: &Adding,
    subjects: &[Subject],
    cases: &[String],
    repeats: Repeats,
    title: &str,
) -> Result<Permitted<Experiment>> {
    let experiment = experiment_of_cases(&adding.request, subjects, cases, repeats, title)?;
    let extracts = &adding.line.extracts;
    let with_all = |experiment: &Experiment| {
        let mut experiment = experiment.clone();
        for load in &mut experiment.loads {
            if let LoadWork::Command(command) = &mut load.work {
                let is_new = |name: &str| command.metrics.iter().all(|known| known.name != name);
                let new: Vec<_> =
                    extracts.iter().filter(|one| is_new(&one.name)).cloned().collect();
                command.metrics.extend(new);
            }
        }
        experiment
    };
    Ok(experiment.part(with_all))
}

/// The runs of a new point in one series.
pub fn beside_anchor(record: &Opened, series: &Series) -> BesideAnchor {
    let disturbed = left_out(record);
    let paired = |counts: &dyn Fn(&Run) -> bool| {
        let logs = |name: &str| logs(&record.record, &record.runs, series, name, counts);
        let (anchor, new) = (logs("anchor"), logs("new"));
        // As the file of points will have them: what is judged now is judged so when it is read.
        let both = anchor
            .iter()
            .filter_map(|(block, log)| Some((rounded(*log), rounded(new.get(block)? - log))));
        let (anchor, ratios) = both.unzip();
        BesideAnchor { anchor, ratios }
    };
    let undisturbed = paired(&|run| !disturbed.contains_key(&run.run));
    if undisturbed.ratios.len() >= BLOCKS_LEAST { undisturbed } else { paired(&|_| true) }
}

/// Logarithms of the runs of a variant that count, by their block.
pub fn logs(
    record: &Record,
    runs: &[Run],
    series: &Series,
    variant: &str,
    counts: &dyn Fn(&Run) -> bool,
) -> BTreeMap<u32, f64> {
    let is_own = |run: &&Run| {
        record.points.get(run.point as usize).is_some_and(|point| {
            point.variant == variant && point.parameters.get(CASE) == series.case.as_ref()
        })
    };
    let own = runs.iter().filter(is_own).filter(|run| !run.placebo && counts(run));
    let log = |run: &Run| {
        let value = run.value(&series.metric).filter(|value| *value > 0.0 && value.is_finite())?;
        Some((run.block, value.ln()))
    };
    own.filter_map(log).collect()
}

/// Why no run of a point has a value of any series.
pub fn why_none(record: &Opened, series: &Series) -> Result<String> {
    let failed = record.runs.iter().find_map(|run| match &run.outcome {
        Outcome::Failed { reason } => {
            let point = record.record.points.get(run.point as usize)?;
            Some(format!("{}: {reason}", point.variant))
        }
        _ => None,
    });
    let metric = &series.metric;
    let no_value =
        || format!("no run has a {metric} above 0: changes are shares, so choose another metric");
    Ok(failed.unwrap_or_else(no_value))
}
