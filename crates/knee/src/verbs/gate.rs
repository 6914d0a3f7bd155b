//! `knee gate`: whether a change makes a benchmark's cases slower, for a pull request.

mod page;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use ::plan::harnesses;
use anyhow::{Context, Result, bail, ensure};
use bisector::{Cases, CountVerdict, GateRequest, GateVerdict, Request, Source, gate};
use host::terminal::{hint, talk};
use host::{job_control, signals};
use pages::{Purpose, ViewFlags, html, markdown};
use records::{Better, CommandLine, Extract, Harness, MetricKind, parse};
use regex_lite::Regex;
use reports::quoted;
use setup::foreign::Permitted;
use store::Store;

use super::bisect::time_s;
use crate::flags::{self, BuildRunFlags, CommitBuildFlags};

/// Judge whether a change makes a benchmark slower, for a pull request
///
///     knee gate --base origin/main --build 'make -C bench' --command './bench {case}' --cases './bench --list'
///     knee gate --base origin/main --build 'cargo bench --no-run' --harness criterion='target/release/deps/speed-*'
///
/// Head and the commit where it left the base are built in folders of knee's own; the repository is only read. Builds that
/// load equal code are not run. Else all cases run in turn, base and head in random order, until each is judged or the
/// budget is spent. A case that is likely harmless is left alone until the others are judged. What is slower is looked for
/// in other layouts of both builds before it is blamed. All cases together call a change where none is in at most 1 % of the gates.
///
/// Exit status: 0 nothing is shown to be slower; 2 the gate could not do it; 3 a case is slower; 130 interrupted, the same
/// gate again goes on.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Branch or commit that the change is merged into
    #[arg(long, value_name = "COMMIT")]
    base: String,
    /// Branch or commit with the change
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    head: String,
    /// Git repository, or a folder in it
    #[arg(long, value_name = "DIR", default_value = ".")]
    git: PathBuf,
    #[command(flatten)]
    build: CommitBuildFlags,
    /// Run this program; {case} is the name of a case
    ///
    /// It runs in the directory of a build.
    #[arg(long, value_name = "LINE", required_unless_present = "harness")]
    command: Option<String>,
    /// Line for a shell that prints the cases
    ///
    /// It runs in the directory of each build, and each line that it prints is a case.
    #[arg(long, value_name = "LINE", conflicts_with_all = ["case", "harness"])]
    cases: Option<String>,
    /// The cases by name
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    case: Vec<String>,
    /// A benchmark harness and its program
    ///
    /// catch2, criterion, go, google-benchmark, hyperfine, jmh, pytest-benchmark or will-it-scale.
    /// It lists the cases, runs each by itself, and its own numbers decide, so that the start of a process is no part of
    /// them. `*` in the name of the program stands for any characters.
    #[arg(long, value_name = "NAME=PROGRAM", conflicts_with_all = ["command", "value", "metric"])]
    harness: Option<String>,
    /// Only cases whose names match
    #[arg(long, value_name = "REGEX", hide_short_help = true)]
    only: Option<Regex>,
    /// Metric to judge by [default: wall_s, or --value]
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    metric: Option<String>,
    /// Number in the output: text around `{}`
    ///
    /// It judges in place of the time.
    #[arg(long, value_name = "PATTERN", conflicts_with = "metric")]
    value: Option<String>,
    /// More of --value is better
    #[arg(long, requires = "value", hide_short_help = true)]
    higher_is_better: bool,
    /// --value counts what the program does: no block is left out because other programs disturbed it
    #[arg(long, requires = "value", hide_short_help = true)]
    count: bool,
    /// Count instructions, exactly, and time nothing
    ///
    /// Instructions and system calls are counted under emulation: the same on every host, in seconds.
    /// A case fails the gate by more instructions. The same instructions may take another time, which this does not say.
    #[arg(long, conflicts_with_all = ["value", "metric", "budget"])]
    exact: bool,
    #[command(flatten)]
    runs: BuildRunFlags,
    /// Smallest slowdown that matters, or auto [default: 2%]
    ///
    /// `auto` runs the base against itself first, and takes what this runner can tell within the budget, 1% at least.
    /// With --exact, 0.5% by default.
    #[arg(long, value_name = "SIZE", value_parser = smallest_effect)]
    smallest_effect: Option<SmallestEffect>,
    /// Time that the runs may take
    ///
    /// Such as 90s or 5m. Builds take theirs beside.
    #[arg(long, value_name = "TIME", value_parser = time_s, default_value = "5m")]
    budget: f64,
    /// Do not look for a slowdown in other layouts of the builds
    #[arg(long, hide_short_help = true)]
    no_layouts: bool,
    /// Write the comment, in Markdown
    #[arg(long, value_name = "FILE")]
    comment: Option<PathBuf>,
    /// Write the page with all cases and runs
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    view: ViewFlags,
}

/// The smallest slowdown that matters.
#[derive(Clone, Copy, Debug)]
enum SmallestEffect {
    /// A share.
    Share(f64),
    /// What the runner can tell.
    Auto,
}

fn smallest_effect(text: &str) -> Result<SmallestEffect> {
    match text {
        "auto" => Ok(SmallestEffect::Auto),
        text => parse::percent(text).map(SmallestEffect::Share),
    }
}

/// Exit status of a gate that found a case slower.
const SLOWER: u8 = 3;

/// Builds, measures, and says what is slower.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let asked = asked(arguments)?;
    // What is measured in minutes shall not be lost for want of a folder.
    for path in arguments.comment.iter().chain(&arguments.html) {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let is_there = folder.is_none_or(Path::is_dir);
        ensure!(is_there, "{} cannot be written: make its folder first", path.display());
    }
    signals::catch();
    job_control::follow_terminal();
    let Some((answer, record)) = gate(&asked, store, |news| hint(news))? else {
        talk("interrupted: the same gate again goes on with what was measured");
        return Ok(ExitCode::from(130));
    };
    let page = || page::page(&answer);
    arguments.view.print(|| Ok(answer.clone()), || Ok(page()))?;
    if let Some(path) = &arguments.comment {
        write(path, &markdown(&page::comment(&answer)))?;
    }
    if let Some(path) = &arguments.html {
        let whole = match &record {
            Some(record) => page().and(super::compare::conclusion_page(record)?),
            None => page(),
        };
        write(path, &html(&whole, Purpose::File))?;
    }
    if let Some(record) = &record {
        hint(format_args!("record {} in {}", record.record.id, record.folder.display()));
    }
    let is_slower = answer.cases.iter().any(|case| case.is == GateVerdict::Worse)
        || answer.counted.iter().any(|case| case.is == CountVerdict::More);
    Ok(if is_slower { ExitCode::from(SLOWER) } else { ExitCode::SUCCESS })
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))
}

fn asked(arguments: &Arguments) -> Result<GateRequest> {
    let Arguments { git, base, head, build, runs, .. } = arguments;
    let directory = git.canonicalize().with_context(|| format!("looking for {}", git.display()))?;
    let harness = arguments.harness.as_deref().map(harness).transpose()?;
    let (command, cases) = match &harness {
        Some((harness, _)) => {
            (in_words(line(harness, arguments)?), cases_of(arguments, Some(harness))?)
        }
        None => {
            let command = arguments.command.clone().unwrap_or_default();
            (command, cases_of(arguments, None)?)
        }
    };
    let has_cases = !matches!(cases, Cases::One);
    let uses_cases = command.contains("{case}") || command.contains("{case:regex");
    ensure!(
        !has_cases || uses_cases,
        "--command has no {{case}}: where does a case's name belong?"
    );
    ensure!(
        has_cases || !uses_cases,
        "--command has {{case}}: name the cases with --case A,B, or a line that lists them with --cases"
    );
    let judged = judged_by(arguments, harness.as_ref().map(|(harness, _)| harness))?;
    let (smallest_effect, learns) = match arguments.smallest_effect {
        Some(SmallestEffect::Share(share)) => (share, false),
        Some(SmallestEffect::Auto) => (0.02, true),
        None => (if arguments.exact { 0.005 } else { 0.02 }, false),
    };
    ensure!(!(learns && arguments.exact), "--smallest-effect auto: counts have no noise to learn");
    let source = Source::Git {
        directory,
        good: base.clone(),
        bad: head.clone(),
        first_parent: false,
        skip: Vec::new(),
    };
    let request = Request { command, smallest_effect, ..build.request(runs, source, judged) };
    let started = harness.as_ref().and_then(|(harness, _)| harness.started.as_ref()).map(in_words);
    Ok(GateRequest {
        request: Permitted::typed(request),
        cases,
        only: arguments.only.clone(),
        program: harness.map(|(_, program)| program),
        budget_s: arguments.budget,
        learns,
        layouts: !arguments.no_layouts,
        exact: arguments.exact,
        started,
    })
}

/// A harness and its program.
fn harness(named: &str) -> Result<(Harness, String)> {
    let (name, program) = named.split_once('=').unwrap_or((named, ""));
    let harness = harnesses::harness(name)?;
    if program.is_empty() {
        bail!("--harness {name}=PROGRAM: name {}", harness.program);
    }
    Ok((harness, program.to_string()))
}

/// The line of a harness that runs a case.
fn line<'a>(harness: &'a Harness, arguments: &Arguments) -> Result<&'a CommandLine> {
    if !arguments.exact {
        return Ok(&harness.run);
    }
    harness.counted.as_ref().context(
        "--exact: this harness runs its cases for a time, so their instructions are no number; use --command",
    )
}

/// A line of words that splits into them again.
fn in_words(line: &CommandLine) -> String {
    match line {
        CommandLine::Text(text) => text.clone(),
        CommandLine::Words(words) => {
            words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
        }
    }
}

fn cases_of(arguments: &Arguments, harness: Option<&Harness>) -> Result<Cases> {
    let Arguments { case, cases, .. } = arguments;
    Ok(match (harness, cases, &case[..]) {
        (_, None, [_, ..]) => Cases::Named(case.clone()),
        (Some(harness), ..) => Cases::Listed {
            words: harness.list.clone(),
            pattern: Some(Regex::new(&harness.case).context("the pattern of the harness's cases")?),
        },
        (None, Some(line), _) => {
            Cases::Listed { words: ["sh", "-c", line].map(str::to_string).to_vec(), pattern: None }
        }
        (None, None, []) => Cases::One,
    })
}

fn judged_by(
    arguments: &Arguments,
    harness: Option<&Harness>,
) -> Result<(String, Option<Extract>)> {
    if let Some(harness) = harness {
        return Ok((harness.metric.name.clone(), Some(harness.metric.clone())));
    }
    let better = if arguments.higher_is_better { Better::Higher } else { Better::Lower };
    let kind = arguments.count.then_some(MetricKind::Count);
    let metric = arguments.metric.as_deref().unwrap_or(records::WALL);
    flags::judged_by(arguments.value.as_deref(), better, kind, metric)
}
