//! The answer of a bisection as text: the commit or the set, the posterior as a plot, and what it rests on.

use bisection::{Answer, Bracket, Ends, NotReproduced, Unresolved};
use host::counted;
use text::Style;
use text::prose::wrapped;
use text::quantity::signed;
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

/// The answer in words, the candidates, the plot.
pub fn bisection_answer(report: &BisectionReport, style: &Style) -> String {
    let mut text = wrapped(&bisection_sentence(report), style.width, 0);
    text += &match report.answer {
        Answer::Named { change, .. } => listing(report, &[(*change, None)]),
        Answer::Set { changes, .. } => {
            let rows: Vec<_> = changes.iter().map(|(change, p)| (*change, Some(*p))).collect();
            listing(report, &rows)
        }
        Answer::Several { brackets } => several(report, brackets, style),
        Answer::NotReproduced { .. } => String::new(),
    };
    if !report.posterior.is_empty() && !matches!(report.answer, Answer::Several { .. }) {
        text += &format!("\n{}\n\n{}", style.bold("Where the change may be"), plot(report, style));
    }
    text + "\n" + &wrapped(&bisection_rests_on(report), style.width, 0)
}

/// The answer in a sentence.
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
            "{} is where {} changed, with a probability of {}.",
            commit(*change),
            report.metric,
            percent(*probability)
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
    let direction = if ends.difference > 0.0 { "higher" } else { "lower" };
    format!(
        "{metric} {:.2} % {direction} at the bad end, standard error {:.2} %, in {} that spread by {:.2} %",
        100.0 * ends.difference.exp_m1().abs(),
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

fn listing(report: &BisectionReport, rows: &[(usize, Option<f64>)]) -> String {
    let line = |(change, p): &(usize, Option<f64>)| {
        let CommitName { short, date, subject } = &report.commits[*change];
        let p = p.map(|p| format!("  {:>8}", percent(p))).unwrap_or_default();
        format!("    {short}{p}  {date}  {subject}").trim_end().to_string() + "\n"
    };
    let shown: String = rows.iter().take(LISTED_MAX).map(line).collect();
    match rows.len().saturating_sub(LISTED_MAX) {
        0 => shown,
        more => format!("{shown}    and {more} more: --json has all\n"),
    }
}

/// A set with more commits is cut.
const LISTED_MAX: usize = 20;

fn several(report: &BisectionReport, brackets: &[Bracket], style: &Style) -> String {
    let mut table = Table::new([
        ("after", Align::Left),
        ("by", Align::Left),
        ("commits", Align::Right),
        ("change", Align::Right),
        ("+-", Align::Right),
        ("subject", Align::Left),
    ]);
    for bracket in brackets {
        let subject =
            if bracket.steps == 1 { report.commits[bracket.with].subject.as_str() } else { "" };
        table.row(vec![
            report.commits[bracket.without].short.clone(),
            report.commits[bracket.with].short.clone(),
            bracket.steps.to_string(),
            format!("{} %", signed(100.0 * bracket.size.exp_m1(), 2)),
            format!("{:.2} %", 100.0 * bracket.error),
            subject.to_string(),
        ]);
    }
    table.within(style.width).0
}

const ROWS: usize = 8;

/// Columns of commits from the good end to the bad one, as high as the most probable commit in each.
fn plot(report: &BisectionReport, style: &Style) -> String {
    let changes = report.commits.len() - 1;
    let columns = changes.min(style.width.saturating_sub(12)).max(1);
    let mut heights = vec![0.0_f64; columns];
    for (change, p) in report.posterior {
        let column = (change - 1) * columns / changes;
        heights[column] += p;
    }
    let (full, half) = if style.terminal { ('█', '▄') } else { ('#', '.') };
    let mut text = String::new();
    for row in (0..ROWS).rev() {
        let label = match row + 1 {
            ROWS => "100 %",
            n if n * 2 == ROWS => "50 %",
            _ => "",
        };
        let cell = |height: &f64| match height * ROWS as f64 - row as f64 {
            over if over >= 0.75 => full,
            over if over >= 0.02 => half,
            _ => ' ',
        };
        let cells: String = heights.iter().map(cell).collect();
        text += format!("{label:>6} |{cells}").trim_end();
        text.push('\n');
    }
    let [first, last] = [1, changes].map(|number| report.commits[number].short.as_str());
    let between = match columns.saturating_sub(first.len() + last.len()) {
        0 => " to ".to_string(),
        gap => " ".repeat(gap),
    };
    text += &format!("       +{}\n        {first}{between}{last}\n", "-".repeat(columns));
    text
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

#[cfg(test)]
mod tests {
    use bisection::{Answer, Ends, NotReproduced};

    use super::{BisectionReport, CommitName, bisection_answer};
    use text::Style;

    fn check(answer: &Answer, posterior: &[(usize, f64)], expected: expect_test::Expect) {
        let commit = |number: usize| CommitName {
            short: format!("{number:012x}"),
            date: "2026-01-02".to_string(),
            subject: format!("change {number}"),
        };
        let commits: Vec<CommitName> = (0..=40).map(commit).collect();
        let report = BisectionReport {
            answer,
            commits: &commits,
            unit: "commit",
            ends: Some(Ends {
                difference: 0.05,
                error: 0.01,
                deviation: 0.03,
                runs: 40,
                freedom: 22,
            }),
            metric: "wall_s",
            posterior,
            runs: 70,
            compared: (120, 5.0),
            waited_s: 12.0,
            builds: 9,
            seconds: (12.0, 34.0),
        };
        expected.assert_eq(&bisection_answer(&report, &Style { width: 80, ..Style::PLAIN }));
    }

    #[test]
    fn a_named_commit_with_its_plot() {
        let posterior = [(18, 0.96), (19, 0.03), (17, 0.01)];
        check(
            &Answer::Named { change: 18, probability: 0.96 },
            &posterior,
            expect_test::expect![[r#"
            000000000012 is where wall_s changed, with a probability of 96.0 %.
                000000000012  2026-01-02  change 18

            Where the change may be

             100 % |                 .
                   |                 #
                   |                 #
                   |                 #
              50 % |                 #
                   |                 #
                   |                 #
                   |                .#.
                   +----------------------------------------
                    000000000001                000000000028

            It rests on 70 runs (34 s) of 9 builds (12 s), out of 40 commits. Comparisons
            took 120 runs (5 s) beside that, and waited 12 s for a quiet host. The ends:
            wall_s 5.13 % higher at the bad end, standard error 1.00 %, in 40 runs that
            spread by 3.00 %.
        "#]],
        );
    }

    #[test]
    fn what_is_not_reproduced_has_no_commit() {
        let why = NotReproduced::NotShown;
        check(
            &Answer::NotReproduced { ends: None, why },
            &[],
            expect_test::expect![[r#"
            NOT REPRODUCED: the ends do not differ as far as was measured (wall_s 5.13 %
            higher at the bad end, standard error 1.00 %, in 40 runs that spread by 3.00 %).

            It rests on 70 runs (34 s) of 9 builds (12 s), out of 40 commits. Comparisons
            took 120 runs (5 s) beside that, and waited 12 s for a quiet host. The ends:
            wall_s 5.13 % higher at the bad end, standard error 1.00 %, in 40 runs that
            spread by 3.00 %.
        "#]],
        );
    }
}
