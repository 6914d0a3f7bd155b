//! The answer of a bisection in sentences: the commit or the set, and what it rests on.

use bisection::{Answer, Bracket, Ends, NotReproduced, Unresolved};
use host::counted;
use records::{INSTRUCTIONS, per_operation};
use text::quantity::log_change;
use text::table::{Align, Table};

/// What people call a commit.
#[derive(Clone, Debug)]
pub struct CommitName {
    /// The short commit id, or the name of a step.
    pub short: String,
    pub date: String,
    pub subject: String,
}

/// A bisection that has ended.
pub struct BisectionReport<'a> {
    pub answer: &'a Answer,
    /// All commits; number 0 is the good end.
    pub commits: &'a [CommitName],
    /// What they are: commit or step.
    pub unit: &'a str,
    pub ends: Option<Ends>,
    pub metric: &'a str,
    /// Probability by commit; empty before the ends were apart.
    pub posterior: &'a [(usize, f64)],
    /// Runs of the search.
    pub runs: u32,
    /// Runs of comparisons of what it blamed, and their seconds.
    pub compared: (u32, f64),
    /// Seconds that they waited for a quiet host, beside.
    pub waited_s: f64,
    pub builds: usize,
    /// Seconds of builds and of runs of the search.
    pub seconds: (f64, f64),
}

/// What a change of instructions does not say.
const NO_TIMES: &str = " These are instructions, not times: cache misses and transfers of lines between CPUs cost none.";

/// The answer in a sentence, or two.
pub fn bisection_sentence(report: &BisectionReport) -> String {
    let commit = |number: usize| report.commits[number].short.as_str();
    let last = report.commits.len() - 1;
    match report.answer {
        Answer::NotReproduced { why, .. } => {
            let why = match why {
                NotReproduced::EqualBuilds => "both ends load equal code and data".to_string(),
                NotReproduced::Same => "the ends are the same".to_string(),
                NotReproduced::NotShown => {
                    "the ends do not differ as far as was measured".to_string()
                }
                NotReproduced::Lost => {
                    "the ends differed at first, but not with the runs of the search, so it was luck or is too small \
                     for these runs"
                        .to_string()
                }
            };
            let by = report.ends.map(|ends| format!(" ({})", difference(&ends, report.metric)));
            format!("NOT REPRODUCED: {why}{}.", by.unwrap_or_default())
        }
        Answer::Named { change, probability } => format!(
            "{} is where {} changed, with a probability of {}.{}",
            commit(*change),
            report.metric,
            percent(*probability),
            if per_operation(report.metric).0 == INSTRUCTIONS { NO_TIMES } else { "" }
        ),
        Answer::Set { changes, why } => {
            let why = match why {
                Unresolved::Untestable => "what lies between them cannot be tested",
                Unresolved::Futile => {
                    "more runs would not tell them apart: builds differ by about as much as the change does"
                }
                Unresolved::Budget => {
                    "--budget or --max-runs allow no more (knee bisect --resume takes larger ones)"
                }
                Unresolved::Bound => {
                    "the search took as many runs as the longest at such a distance of the ends: the host may drift, or \
                     builds differ by their layout"
                }
                Unresolved::SeveralOnBranches => {
                    "there is more than one change in what one merge brought: bisect the branch by itself"
                }
            };
            let sum: f64 = changes.iter().map(|(_, p)| p).sum();
            format!(
                "The change is among {} with a probability of {}: {why}.",
                counted(changes.len(), report.unit),
                percent(sum)
            )
        }
        Answer::Several { brackets } if brackets.is_empty() => {
            format!(
                "No step between {} and {} is large enough to be shown.",
                commit(0),
                commit(last)
            )
        }
        Answer::Several { brackets } => {
            format!("{} moved {}.", counted(brackets.len(), "change"), report.metric)
        }
    }
}

/// `wall_s 5.2 % higher, +-0.4 %, in 24 runs that spread by 1.1 %`.
fn difference(ends: &Ends, metric: &str) -> String {
    let change = log_change(ends.difference, 2);
    let change = match change.strip_suffix(" times") {
        Some(factor) => format!("{factor} times as high"),
        None if ends.difference > 0.0 => format!("{} higher", change.trim_start_matches('+')),
        None => format!("{} lower", change.trim_start_matches('-')),
    };
    format!(
        "{metric} {change} at the bad end, standard error {:.2} %, in {} that spread by {:.2} %",
        100.0 * ends.error,
        counted(ends.runs as usize, "run"),
        100.0 * ends.deviation,
    )
}

/// A probability that does not round to certainty.
fn percent(p: f64) -> String {
    match p {
        p if p > 0.999 => "more than 99.9 %".to_string(),
        p if p > 0.1 => format!("{:.1} %", 100.0 * p),
        p if p > 0.001 => format!("{:.2} %", 100.0 * p),
        _ => "below 0.1 %".to_string(),
    }
}

/// The intervals in which changes lie, of which there are several.
pub fn bisection_brackets(report: &BisectionReport, brackets: &[Bracket]) -> Table {
    let mut table = Table::new([
        ("after", Align::Left),
        ("by", Align::Left),
        ("commits", Align::Right),
        ("change", Align::Right),
        ("±", Align::Right),
        ("subject", Align::Left),
    ]);
    for bracket in brackets {
        let subject =
            if bracket.steps == 1 { report.commits[bracket.with].subject.as_str() } else { "" };
        table.row(vec![
            report.commits[bracket.without].short.clone(),
            report.commits[bracket.with].short.clone(),
            bracket.steps.to_string(),
            log_change(bracket.size, 2),
            format!("{:.2} %", 100.0 * bracket.error),
            subject.to_string(),
        ]);
    }
    table
}

/// How many runs and builds the answer rests on, and how the ends differ.
pub fn bisection_rests_on(report: &BisectionReport) -> String {
    let (build_s, run_s) = report.seconds;
    let ends = report.ends.map(|ends| format!(" The ends: {}.", difference(&ends, report.metric)));
    let compared = match report.compared {
        (0, _) => String::new(),
        (runs, seconds) => {
            let runs = counted(runs as usize, "run");
            let waited = match report.waited_s {
                s if s < 0.5 => String::new(),
                s => format!(", and waited {s:.0} s for a quiet host"),
            };
            format!(" Comparisons took {runs} ({seconds:.0} s) beside that{waited}.")
        }
    };
    format!(
        "It rests on {} ({run_s:.0} s) of {} ({build_s:.0} s), out of {}.{compared}{}",
        counted(report.runs as usize, "run"),
        counted(report.builds, "build"),
        counted(report.commits.len() - 1, report.unit),
        ends.unwrap_or_default()
    )
}
