//! `knee bisect`: finds the commit that moved a metric, from noisy runs.

mod conclusion;
mod inside;
pub(super) mod kernels;
mod news;
pub mod page;
mod plan;

use std::path::PathBuf;
use std::process::ExitCode;

use answers::{Bisected, SkippedCommit, Suspect};
use anyhow::{Context, Result, bail, ensure};
use bisection::{Answer, Settings};
use bisector::{Commit, Finished, GitLog, Limits, Range, Request, Session, Source};
use host::terminal::{print, talk};
use host::{HeldFolder, Limit, given_file, job_control, signals};
use pages::ViewFlags;
use records::{Better, INSTRUCTIONS, parse, per_operation};
use reports::{BisectionReport, CommitName};
use setup::foreign::Permitted;
use store::Store;
use text::Style;

use crate::flags::{BuildRunFlags, CommitBuildFlags, judged_by};

pub use self::conclusion::Check;
pub(super) use self::conclusion::Concluded;
use self::conclusion::{Manner, Said};
use self::inside::Inside;

/// What is done with a bisection that was begun, by knee or by git.
#[derive(clap::Subcommand)]
pub enum Action {
    /// Print a bisection as `git bisect log` does, or all that was done
    ///
    /// `git bisect replay` reads it. With --json, builds, runs and what each told are there, too.
    Log {
        /// Bisection: `last`, its id or the start of it
        #[arg(default_value = "last")]
        which: String,
        /// Print every event as a line of JSON
        #[arg(long)]
        json: bool,
    },
    /// Bisect what a log of `git bisect` leaves open
    ///
    /// The commits that the log calls good and bad are the ends; what it skips is not tested.
    Replay {
        /// Output of `git bisect log`
        log: PathBuf,
        #[command(flatten)]
        search: Box<SearchArguments>,
    },
}

/// What to bisect, and how.
#[derive(clap::Args)]
pub struct SearchArguments {
    /// Git repository, or a directory inside it
    #[arg(long, value_name = "DIR", help_heading = RANGE, conflicts_with = "steps")]
    git: Option<PathBuf>,
    /// Older commit, before the change
    #[arg(long, value_name = "COMMIT", help_heading = RANGE)]
    good: Option<String>,
    /// Newer commit, with the change
    #[arg(long, value_name = "COMMIT", help_heading = RANGE)]
    bad: Option<String>,
    /// Follow only the first parent of merges, then bisect what the merge brought that is found
    #[arg(long, help_heading = RANGE, hide_short_help = true)]
    first_parent: bool,
    /// Never test these commits
    #[arg(long, value_name = "COMMIT", value_delimiter = ',', help_heading = RANGE, hide_short_help = true)]
    skip: Vec<String>,
    /// Bisect the entries of a directory instead of commits
    ///
    /// They come in the order of their names. Each is a directory in which --build and --command run, or a file whose path
    /// stands for {step}; with --run, a kernel to boot.
    #[arg(long, value_name = "DIR", help_heading = RANGE, conflicts_with = "kernel_build")]
    steps: Option<PathBuf>,
    #[command(flatten, next_help_heading = BUILD)]
    build: CommitBuildFlags,
    /// Measure this program, in the directory of the commit
    ///
    /// A commit is skipped if its build or its runs fail, with whatever status; 125 says so by intention.
    #[arg(long, value_name = "LINE", help_heading = RUNS)]
    command: Option<String>,
    /// Let a shell interpret --command
    #[arg(long, help_heading = RUNS, hide_short_help = true)]
    shell: bool,
    #[command(flatten, next_help_heading = RUNS)]
    runs: BuildRunFlags,
    /// Metric to judge by [default: wall_s, or --value]
    ///
    /// cpu_s, the CPU time of the command and its children, suits short programs and busy hosts. `knee list metrics` has all.
    #[arg(long, value_name = "NAME", help_heading = RUNS)]
    metric: Option<String>,
    /// Number in the output to judge by: text around `{}`
    ///
    /// Such as 'ops: {}', or a regular expression with one group; 'stderr:…' reads standard error.
    #[arg(long, value_name = "PATTERN", conflicts_with = "metric", help_heading = RUNS)]
    value: Option<String>,
    /// Probability of the commit that is named
    ///
    /// Where the comparison with its parent follows, the search ends at twice the warning: at 90 % for 95 %.
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, default_value = "95%", help_heading = SEARCH, hide_short_help = true)]
    confidence: f64,
    /// End with a set once this time is spent: 30m, 2h
    ///
    /// A search that would take longer is refused at its begin.
    #[arg(long, value_name = "TIME", value_parser = time_s, help_heading = SEARCH)]
    budget: Option<f64>,
    /// End with a set after this number of runs
    #[arg(long, value_name = "N", help_heading = SEARCH, hide_short_help = true)]
    max_runs: Option<u32>,
    /// Runs of both ends that should show the change
    ///
    /// Ends without hope end sooner, from 40 % of it on; others get up to twice as many.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(8..), help_heading = SEARCH, hide_short_help = true)]
    ends_runs: u32,
    /// Smallest change that matters
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, default_value = "1%", help_heading = SEARCH, hide_short_help = true)]
    smallest_effect: f64,
    /// Wait for a quiet host no longer than this, all comparisons together: 0s, 10m
    ///
    /// Unless that is given: as long as the bisection has taken, but 10 s at least and 30 minutes at most, and not at all
    /// on a host that disturbed most runs from the beginning.
    #[arg(long, value_name = "TIME", value_parser = wait_s, help_heading = SEARCH, hide_short_help = true)]
    wait: Option<f64>,
    /// Do not compare the culprit with its parent, nor the tip without it
    #[arg(long, help_heading = SEARCH, hide_short_help = true)]
    no_confirm: bool,
    /// Print what there is to search and what it may take
    ///
    /// Builds and measures nothing.
    #[arg(long, help_heading = SEARCH)]
    plan: bool,
    /// Go on with the newest bisection, as it began
    ///
    /// Only --budget, --wait and --max-runs may be others, and stay so.
    #[arg(long, help_heading = SEARCH, conflicts_with_all = [
        "git", "steps", "good", "bad", "first_parent", "skip", "build", "products", "build_timeout", "command", "shell",
        "cpus", "metric", "value", "timeout", "confidence", "ends_runs", "smallest_effect", "plan", "kernel_build",
    ])]
    resume: bool,
    /// Go on with a bisection that is not yours without asking (`knee help safety`)
    #[arg(long, help_heading = SEARCH, requires = "resume", hide_short_help = true)]
    yes: bool,
    #[command(flatten)]
    kernels: kernels::KernelArguments,
    /// Keep the builds
    #[arg(long, help_heading = BUILD, hide_short_help = true)]
    keep_builds: bool,
    #[command(flatten, next_help_heading = SEARCH)]
    view: ViewFlags,
}

const RANGE: &str = "Range";
const BUILD: &str = "Build";
const RUNS: &str = "Runs";
const SEARCH: &str = "Search";

/// A time such as 90s, 30m or 2h, in seconds.
pub(super) fn time_s(text: &str) -> Result<f64> {
    let seconds = wait_s(text)?;
    ensure!(seconds > 0.0, "must be above 0 s");
    Ok(seconds)
}

/// A time as above, or none: 0s.
fn wait_s(text: &str) -> Result<f64> {
    let units = [("s", 1.0), ("m", 60.0), ("h", 3600.0), ("d", 86400.0)];
    let parsed = units.iter().find_map(|(unit, size)| {
        let number: f64 = text.trim().strip_suffix(unit)?.trim().parse().ok()?;
        (0.0..1e6).contains(&number).then_some(number * size)
    });
    parsed.context("must be a time such as 90s, 30m or 2h")
}

/// Bisects, or goes on with a bisection.
pub fn run(search: &SearchArguments, store: &Store) -> Result<ExitCode> {
    if !search.resume {
        return search_for(search, source(search)?, store);
    }
    let limits = Limits { budget_s: search.budget, wait_s: search.wait, runs_max: search.max_runs };
    conduct(resumed("last", search.yes, limits, store)?, search, store)
}

/// A bisection that goes on.
pub(super) fn resumed(which: &str, yes: bool, limits: Limits, store: &Store) -> Result<Session> {
    let bisection = bisector::to_go_on_with(which, store)?;
    let bisection = bisection.permitted(yes, |bisection| {
        let effects = bisector::effects(&Session::view(bisection.clone())?.request);
        Ok(reports::effects(&effects, &Style::for_stdout()))
    })?;
    talk(format_args!("going on with {}", bisection.id));
    Session::resume(bisection, limits)
}

/// A bisection that begins.
pub(super) fn begun(request: Permitted<Request>, range: Range, store: &Store) -> Result<Session> {
    news::before(&request, &range);
    // From here on, a signal leaves a bisection that goes on later.
    signals::catch();
    Session::begin(request, range, store)
}

/// Runs a session to its end with the usual checks, and prints what it came to.
pub(super) fn conduct_usual(session: Session, view: ViewFlags, store: &Store) -> Result<Concluded> {
    signals::catch();
    job_control::follow_terminal();
    let manner = Manner { view: view.view(), confirms: true, keeps_builds: false };
    let mut concluded = conduct_one(session, &manner, store)?;
    std::mem::take(&mut concluded.said).print(view)?;
    Ok(concluded)
}

/// Prints a log, or bisects what a log of git leaves open.
pub fn act(action: &Action, store: &Store) -> Result<ExitCode> {
    match action {
        Action::Log { which, json } => print_log(which, *json, store),
        Action::Replay { log, search } => {
            let text = given_file::read_text(log, LOG_LIMIT)?;
            let log = GitLog::parse(&text).with_context(|| format!("in {}", log.display()))?;
            search_for(search, narrowed(search, &log)?, store)
        }
    }
}

fn source(search: &SearchArguments) -> Result<Source> {
    let SearchArguments { git, good, bad, steps, .. } = search;
    if let Some(steps) = steps {
        let directory =
            steps.canonicalize().with_context(|| format!("looking for {}", steps.display()))?;
        return Ok(Source::Steps { directory });
    }
    let name = |name: &Option<String>, flag: &str| {
        name.clone().with_context(|| format!("{flag} is missing: name the commit at that end"))
    };
    let git = git.as_ref().context(
        "nothing to bisect: give --git DIR --good COMMIT --bad COMMIT, --steps DIR, or --resume",
    )?;
    let directory = git.canonicalize().with_context(|| format!("looking for {}", git.display()))?;
    Ok(Source::Git {
        directory,
        good: name(good, "--good")?,
        bad: name(bad, "--bad")?,
        first_parent: search.first_parent,
        skip: search.skip.clone(),
    })
}

/// The range that a log of `git bisect` leaves: the pair of a good and a bad commit with the fewest between.
fn narrowed(search: &SearchArguments, log: &GitLog) -> Result<Source> {
    ensure!(
        search.good.is_none() && search.bad.is_none(),
        "the log names the good and the bad commit: leave out --good and --bad"
    );
    let git = search.git.as_ref().context("--git DIR is missing: the log names its commits")?;
    let directory = git.canonicalize().with_context(|| format!("looking for {}", git.display()))?;
    let mut best: Option<(usize, Source)> = None;
    let mut why = None;
    for good in &log.good {
        for bad in &log.bad {
            let source = Source::Git {
                directory: directory.clone(),
                good: good.clone(),
                bad: bad.clone(),
                first_parent: search.first_parent,
                skip: [&log.skip[..], &search.skip].concat(),
            };
            match Range::read(&source) {
                Ok(range) if best.as_ref().is_none_or(|(least, _)| range.changes() < *least) => {
                    best = Some((range.changes(), source));
                }
                Ok(_) => (),
                Err(error) => why = Some(error),
            }
        }
    }
    match (best, why) {
        (Some((_, source)), _) => Ok(source),
        (None, Some(why)) => Err(why.context("no good and bad commit of the log make a range")),
        (None, None) => bail!("the log names no good and bad commit"),
    }
}

fn request(search: &SearchArguments, source: Source) -> Result<Request> {
    let has_steps = matches!(source, Source::Steps { .. });
    kernels::check(&search.kernels, search.command.as_deref(), has_steps)?;
    ensure!(
        search.confidence > 0.5 && search.confidence < 1.0,
        "--confidence must be above 50 % and below 100 %"
    );
    let unless_asked = if search.command.is_some() { records::WALL } else { records::RATE };
    let metric = search.metric.as_deref().unwrap_or(unless_asked);
    let judged = judged_by(search.value.as_deref(), Better::Neither, None, metric)?;
    let kernels = kernels::asked(&search.kernels, &judged.0)?;
    let usual = Settings::default();
    let counts_instructions = kernels.is_some() && per_operation(&judged.0).0 == INSTRUCTIONS;
    let settings = Settings {
        // Instructions repeat from boot to boot: they have no second mode that more runs would show.
        runs_min: if counts_instructions { 1 } else { usual.runs_min },
        confidence: search.confidence,
        compares: !search.no_confirm,
        ends_runs_max: search.ends_runs,
        smallest: search.smallest_effect.ln_1p(),
        runs_max: search.max_runs,
        ..usual
    };
    Ok(Request {
        command: search.command.clone().unwrap_or_default(),
        shell: search.shell,
        settings,
        budget_s: search.budget,
        wait_s: search.wait,
        smallest_effect: search.smallest_effect,
        kernels,
        ..search.build.request(&search.runs, source, judged)
    })
}

fn search_for(search: &SearchArguments, source: Source, store: &Store) -> Result<ExitCode> {
    let range = Range::read(&source)?;
    if search.plan {
        plan::print(&range, &request(search, source)?, search.view)?;
        return Ok(ExitCode::SUCCESS);
    }
    let request = Permitted::typed(request(search, source)?);
    conduct(begun(request, range, store)?, search, store)
}

fn manner(search: &SearchArguments) -> Manner {
    Manner {
        view: search.view.view(),
        confirms: !search.no_confirm,
        keeps_builds: search.keep_builds,
    }
}

/// Runs a session to its end and says what it came to; then bisects what a merge brought that was found.
fn conduct(session: Session, search: &SearchArguments, store: &Store) -> Result<ExitCode> {
    signals::catch();
    job_control::follow_terminal();
    let manner = manner(search);
    let Concluded { mut status, mut said, inside, .. } = conduct_one(session, &manner, store)?;
    let mut within = inside.map(|inside| conduct_inside(inside, &manner, store));
    if let Some(Ok(within)) = &mut within {
        // The branch alone may be as before: then the merge is the culprit, as named.
        if within.status != NOT_REPRODUCED {
            status = within.status;
        }
        said = said.with(std::mem::take(&mut within.said));
    }
    said.print(search.view)?;
    within.transpose()?;
    Ok(ExitCode::from(status))
}

/// Exit status of ends that do not differ.
const NOT_REPRODUCED: u8 = 3;

/// Bisects what a merge brought.
fn conduct_inside(
    Inside { merge, request }: Inside,
    manner: &Manner,
    store: &Store,
) -> Result<Concluded> {
    let range = Range::read(&request.source)?;
    talk(format_args!("bisecting what the merge {merge} brought"));
    news::before(&request, &range);
    let within = conduct_one(Session::begin(request, range, store)?, manner, store)?;
    if within.status == NOT_REPRODUCED {
        talk(format_args!(
            "the branch alone does not show it: it is how {merge} brings both sides together"
        ));
    }
    Ok(within)
}

fn conduct_one(mut session: Session, manner: &Manner, store: &Store) -> Result<Concluded> {
    news::moved(&session);
    if !manner.confirms {
        session.without_comparisons();
    }
    let concluded = conduct_open(&mut session, manner, store);
    session.close()?;
    // What was built of ends that cannot be built or tried is of no further use.
    if concluded.is_err() && session.search().is_none() && !manner.keeps_builds {
        session.clean_up()?;
    }
    concluded
}

fn conduct_open(session: &mut Session, manner: &Manner, store: &Store) -> Result<Concluded> {
    let range = session.range.clone();
    let without_answer =
        |status| Concluded { status, said: Said::Nothing, answer: None, inside: None };
    let finished = session.run(&mut |progress| news::tell(progress, &range))?;
    match finished {
        Finished::Interrupted => {
            talk("interrupted: what was built and measured is kept; knee bisect --resume goes on");
            Ok(without_answer(130))
        }
        Finished::Refused(forecast) => {
            talk(format_args!(
                "refused: it may take {} more, which is beyond the budget. Make runs less noisy or longer, narrow the \
                 range, or raise --budget; --resume goes on",
                news::duration(forecast.seconds_left.high)
            ));
            Ok(without_answer(2))
        }
        Finished::Answer(answer) => conclusion::conclude(session, answer, manner, store),
    }
}

/// What reports say of an answer.
pub(super) fn with_report<T>(
    session: &Session,
    answer: &Answer,
    say: impl FnOnce(&BisectionReport) -> T,
) -> T {
    let name = |commit: &bisector::Commit| CommitName {
        short: commit.short().to_string(),
        date: commit.date.clone(),
        subject: commit.subject.clone(),
    };
    let commits: Vec<CommitName> = session.range.commits.iter().map(name).collect();
    let posterior = posterior(session);
    let (builds, build_s, run_s) = session.spent();
    say(&BisectionReport {
        answer,
        commits: &commits,
        unit: session.request.source.unit(),
        ends: session.search().and_then(bisection::Search::ends),
        metric: &session.request.metric,
        posterior: &posterior,
        runs: session.search_runs(),
        compared: session.comparison_runs(),
        waited_s: session.waited_s(),
        builds,
        seconds: (build_s, run_s),
    })
}

/// The probability of each commit, once the ends are apart.
fn posterior(session: &Session) -> Vec<(usize, f64)> {
    match session.search().filter(|search| search.are_ends_apart()) {
        Some(search) => search.probabilities(&search.posterior()),
        None => Vec::new(),
    }
}

fn bisected(session: &Session, answer: &Answer, checks: Vec<Check>) -> Bisected<Check> {
    let (builds, build_seconds, run_seconds) = session.spent();
    let (comparison_runs, comparison_seconds) = session.comparison_runs();
    let commits = &session.range.commits;
    let search = session.search();
    let id = |commit: usize| commits[commit].id.clone();
    let suspect = |(change, probability)| Suspect { change, commit: id(change), probability };
    let posterior = posterior(session).into_iter().filter(|(_, p)| *p > 1e-6).map(suspect);
    let skipped = session.skipped().iter();
    let skipped =
        skipped.map(|(commit, why)| SkippedCommit { commit: id(*commit), why: why.clone() });
    Bisected {
        bisection: session.bisection.id.clone(),
        metric: session.request.metric.clone(),
        named: answer.blamed().into_iter().map(id).collect(),
        answer: answer.clone(),
        ends: search.and_then(bisection::Search::ends),
        runs: session.search_runs(),
        comparison_runs,
        forecast: session.forecasted(),
        runs_most: search.and_then(bisection::Search::bound),
        builds,
        build_seconds,
        run_seconds,
        comparison_seconds,
        waited_seconds: session.waited_s(),
        posterior: posterior.collect(),
        tested: search.map(|search| search.builds().to_vec()),
        skipped: skipped.collect(),
        confirmed: checks,
        commits: commits.iter().map(|commit| commit.id.clone()).collect(),
        inside_merge: None,
    }
}

const LOG_LIMIT: Limit = Limit { bytes: 1 << 30, what: "a log" };

fn print_log(which: &str, is_json: bool, store: &Store) -> Result<ExitCode> {
    let bisection = bisector::open(which, store)?;
    if is_json {
        let path = bisection.log_path();
        let (folder, name) = HeldFolder::above(&path)?;
        print(folder.read_text(name, LOG_LIMIT)?.context("the log was removed")?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let session = Session::view(bisection)?;
    let skipped: Vec<usize> =
        session.skipped().keys().chain(&session.range.skipped).copied().collect();
    let mut text = bisector::git_log(&session.range, session.search(), &skipped);
    let forecast = session.forecasted();
    let forecast = forecast.map(|forecast| format!("forecast: {}", news::forecast_text(&forecast)));
    for remark in forecast.iter().chain(session.compared()) {
        text += &format!("# {remark}\n");
    }
    if let Some(Answer::Named { change, .. }) = session.answer() {
        let Commit { id, subject, .. } = &session.range.commits[change];
        text += &format!("# first bad commit: [{id}] {subject}\n");
    }
    print(text)?;
    Ok(ExitCode::SUCCESS)
}
