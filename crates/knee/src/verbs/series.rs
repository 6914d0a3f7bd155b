//! `knee bisect series`: what each patch of a series does to a metric, all measured in turn.

use std::path::PathBuf;
use std::process::ExitCode;

use analysis::{Decision, Judgement};
use answers::{Series, SeriesChange, SeriesPatch, SeriesVerdict};
use anyhow::{Context, Result};
use bisector::{Patch, Range, Request, Source, series};
use host::terminal::{hint, talk};
use host::{job_control, signals};
use pages::{Block, Page, PageKind, PageTable, Section, ViewFlags};
use records::{Better, parse};
use setup::foreign::Permitted;
use store::Store;
use text::quantity::signed;
use text::table::{Align, Table};

use super::bisect::kernels::{self, KernelArguments};
use crate::flags::{BuildRunFlags, CommitBuildFlags, judged_by};

/// Measure what each patch of a series does
///
///     knee bisect series --git ../app base..patched --build 'make -j2' --command './app bench'
///     knee bisect series --git ../linux v6.12..mybranch --kernel-build --run posix01 --metric instructions/op
///
/// All commits run in each block in random order, so each patch is compared with the one before it and with the base in
/// the state that the host is in just then. The intervals hold for all patches together. At most 30 patches; `knee bisect`
/// searches longer ranges. Blocks go on until every patch is decided.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Base and tip: BASE..TIP
    range: String,
    /// Git repository, or a directory inside it
    #[arg(long, value_name = "DIR", default_value = ".")]
    git: PathBuf,
    #[command(flatten)]
    build: CommitBuildFlags,
    /// Measure this program, in the directory of the commit
    #[arg(long, value_name = "LINE")]
    command: Option<String>,
    /// Let a shell interpret --command
    #[arg(long, hide_short_help = true)]
    shell: bool,
    #[command(flatten)]
    runs: BuildRunFlags,
    #[command(flatten)]
    kernels: KernelArguments,
    /// Metric to judge by [default: wall_s, or --value]
    ///
    /// Kernels are judged by operations_per_s by default.
    #[arg(long, value_name = "NAME")]
    metric: Option<String>,
    /// Read the number to judge by from the output: text around `{}`
    #[arg(long, value_name = "PATTERN", conflicts_with = "metric")]
    value: Option<String>,
    /// Runs of each commit at most: fewer decide
    #[arg(long, default_value_t = 60, hide_short_help = true, value_parser = clap::value_parser!(u32).range(4..=1000))]
    blocks: u32,
    /// Smallest change that matters
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, default_value = "2%")]
    smallest_effect: f64,
    /// Do the missing runs of an interrupted series
    #[arg(long)]
    resume: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// Builds, measures, and prints a row for each patch.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let request = Permitted::typed(request(arguments)?);
    let range = Range::read(&request.source)?;
    signals::catch();
    job_control::follow_terminal();
    let Arguments { blocks, resume, .. } = *arguments;
    let measured = series(&request, &range, blocks, resume, store, |news| hint(news))?;
    let Some(measured) = measured else {
        talk("interrupted: the same command with --resume does the rest");
        return Ok(ExitCode::from(130));
    };
    let (id, patches) = (&measured.record.record.id, &measured.patches);
    let value = || Series {
        record: id.clone(),
        metric: request.metric.clone(),
        patches: patches.iter().map(|patch| patch_answer(patch, &range)).collect(),
    };
    arguments.view.print(|| Ok(value()), || Ok(page(patches, &range, &request)))?;
    hint(format_args!("record {id} in {}", measured.record.folder.display()));
    let has_failed = measured.patches.iter().any(|patch| patch.failed.is_some());
    Ok(if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn request(arguments: &Arguments) -> Result<Request> {
    let (good, bad) = arguments
        .range
        .split_once("..")
        .filter(|(good, bad)| !good.is_empty() && !bad.is_empty())
        .with_context(|| format!("'{}' must be BASE..TIP", arguments.range))?;
    let git = &arguments.git;
    let directory = git.canonicalize().with_context(|| format!("looking for {}", git.display()))?;
    kernels::check(&arguments.kernels, arguments.command.as_deref(), false)?;
    let unless_asked = if arguments.command.is_some() { records::WALL } else { records::RATE };
    let metric = arguments.metric.as_deref().unwrap_or(unless_asked);
    let judged = judged_by(arguments.value.as_deref(), Better::Neither, None, metric)?;
    let kernels = kernels::asked(&arguments.kernels, &judged.0)?;
    let source = Source::Git {
        directory,
        good: good.to_string(),
        bad: bad.trim_start_matches('.').to_string(),
        first_parent: true,
        skip: Vec::new(),
    };
    Ok(Request {
        command: arguments.command.clone().unwrap_or_default(),
        shell: arguments.shell,
        smallest_effect: arguments.smallest_effect,
        kernels,
        ..arguments.build.request(&arguments.runs, source, judged)
    })
}

fn page(patches: &[Patch], range: &Range, request: &Request) -> Page {
    let [base, tip] = [0, range.changes()].map(|commit| range.commits[commit].short());
    let mut page = Page::new(&format!("{base}..{tip}"), PageKind::Series);
    page.answers.push(answer(patches, range, request));
    let caption = format!(
        "{}: change of each patch against the commit before it that was measured",
        request.metric
    );
    let table = PageTable::plain(&caption, table(patches, range, request), &[]);
    page.sections.push(Section::open("Patches", vec![Block::Table(table)]));
    page.method.push(format!(
        "Intervals hold for all patches together at 95 %, and allow for looking after each stage (exact signed ranks \
         over blocks, or Student's t where these are too few). `same` is within {:.1} %.",
        100.0 * request.smallest_effect
    ));
    page.answers.extend(untold(patches));
    let why = |patch: &Patch| {
        Some(format!("{}: {}", range.commits[patch.commit].short(), patch.failed.as_ref()?))
    };
    let not_measured: Vec<String> = patches.iter().filter_map(why).collect();
    if !not_measured.is_empty() {
        page.warnings.push(("Not measured".to_string(), not_measured));
    }
    page
}

/// "2 of 5 patches change wall_s: 8b5c810b999d +3.20 %, …".
fn answer(patches: &[Patch], range: &Range, request: &Request) -> String {
    let changed = patches.iter().filter_map(|patch| {
        let own = patch.own.as_ref().filter(|_| patch.failed.is_none())?;
        let is_changed = matches!(own.decision, Decision::Changed { .. });
        is_changed.then(|| format!("{} {}", range.commits[patch.commit].short(), change(own)))
    });
    let changed: Vec<String> = changed.collect();
    let all = if patches.len() == 1 { "1 patch" } else { &format!("{} patches", patches.len()) };
    let metric = &request.metric;
    match changed.len() {
        0 => format!("None of {all} is shown to change {metric}"),
        1 => format!("1 of {all} changes {metric}: {}", changed[0]),
        n => format!("{n} of {all} change {metric}: {}", changed.join(", ")),
    }
}

/// How many patches are not decided, and what would decide them.
fn untold(patches: &[Patch]) -> Option<String> {
    let judged = || patches.iter().filter_map(|patch| patch.own.as_ref());
    let is_untold = |judged: &&Judgement| {
        matches!(judged.decision, Decision::CannotTell { .. } | Decision::TooFew { .. })
    };
    let n = judged().filter(is_untold).count();
    let blocks = judged().map(|one| one.n).max()?;
    (n > 0).then(|| {
        let are = if n == 1 { "1 patch is" } else { &format!("{n} patches are") };
        format!("{are} not told from no change within {blocks} blocks: --cpus 1, a longer run or a quieter host narrow intervals")
    })
}

fn table(patches: &[Patch], range: &Range, request: &Request) -> Table {
    let mut table = Table::new([
        ("patch", Align::Left),
        ("change", Align::Right),
        ("interval", Align::Left),
        ("verdict", Align::Left),
        ("from base", Align::Right),
        ("subject", Align::Left),
    ]);
    for patch in patches {
        let commit = &range.commits[patch.commit];
        let (change, interval, verdict) = match (&patch.own, &patch.failed) {
            (_, Some(_)) => (String::new(), String::new(), "not measured".to_string()),
            (None, None) if patch.is_equal => {
                (String::new(), String::new(), "equal build".to_string())
            }
            (None, None) => (String::new(), String::new(), String::new()),
            (Some(judged), None) => (change(judged), interval(judged), verdict(judged, request)),
        };
        let from_base = patch.from_base.as_ref().map(self::change).unwrap_or_default();
        let subject = commit.subject.clone();
        table.row(vec![commit.short().to_string(), change, interval, verdict, from_base, subject]);
    }
    table
}

fn percent(log: f64) -> String {
    signed(100.0 * log.exp_m1(), 2)
}

fn change(judged: &Judgement) -> String {
    judged.estimate.map(|log| percent(log) + " %").unwrap_or_default()
}

fn interval(judged: &Judgement) -> String {
    let text = |(low, high)| format!("[{}, {}]", percent(low), percent(high));
    judged.interval.map(text).unwrap_or_default()
}

fn verdict(judged: &Judgement, request: &Request) -> String {
    let direction = if judged.estimate.unwrap_or(0.0) > 0.0 { "higher" } else { "lower" };
    let least = 100.0 * request.smallest_effect;
    match judged.decision {
        Decision::Changed { at_least: true } => format!("{direction}, >= {least:.1} %"),
        Decision::Changed { at_least: false } => direction.to_string(),
        Decision::Same => "same".to_string(),
        Decision::CannotTell { .. } => "cannot tell".to_string(),
        Decision::TooFew { .. } => "too few blocks".to_string(),
    }
}

fn patch_answer(patch: &Patch, range: &Range) -> SeriesPatch {
    let commit = &range.commits[patch.commit];
    let judged = |judged: &Judgement| SeriesChange {
        change: judged.estimate.map(f64::exp_m1),
        interval: judged.interval.map(|(low, high)| [low.exp_m1(), high.exp_m1()]),
        blocks: judged.n,
        is: match judged.decision {
            Decision::Changed { .. } => SeriesVerdict::Changed,
            Decision::Same => SeriesVerdict::Same,
            Decision::CannotTell { .. } => SeriesVerdict::CannotTell,
            Decision::TooFew { .. } => SeriesVerdict::TooFew,
        },
    };
    SeriesPatch {
        commit: commit.id.clone(),
        subject: commit.subject.clone(),
        equal_build: patch.is_equal,
        own: patch.own.as_ref().map(judged),
        from_base: patch.from_base.as_ref().map(judged),
        not_measured: patch.failed.clone(),
    }
}
