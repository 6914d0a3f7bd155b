//! `knee watch`: a line of a benchmark over months, which is decided at the first new point.

mod bisect;
mod kernels;
mod metrics;
mod open_metrics;
mod page;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use bisector::{Added, Commit, LineFile, Range, Request, Source, WatchAnswer, WatchedLine};
use guests::kernels::Repository;
use host::terminal::{hint, print, talk};
use host::{HeldFolder, Limit, counted, given_file, job_control, signals};
use pages::{Purpose, ViewFlags};
use records::parse;
use setup::foreign::{Foreign, Permitted};
use setup::own_file;
use store::Store;

use crate::flags::{BuildFlags, BuildRunFlags, CommitBuildFlags};

/// Watch a benchmark over months, and decide at the first new point
///
///     knee watch init line.toml --git ../app --build 'make -j2' --command './app bench'
///     knee watch add line.toml
///     knee watch line.toml
///
/// A new point runs in blocks with an anchor, so a host that changes moves both. What the points then suggest is compared in
/// runs of its own, today, and only said if these confirm it.
///
/// With --kernels, a line is of kernels: what knee's workloads execute in each, counted exactly on emulated CPUs.
#[derive(clap::Args)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<Action>,
    /// File of the line to show
    line: Option<PathBuf>,
    #[command(flatten)]
    forms: Forms,
}

/// How a line is shown.
#[derive(clap::Args)]
pub struct Forms {
    /// Write the page of the line
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the newest values as OpenMetrics text
    ///
    /// For Prometheus and its like: a file *.prom in the folder of the node exporter's textfile collector. `-` is standard output,
    /// where nothing else is printed then.
    #[arg(long, value_name = "FILE")]
    openmetrics: Option<PathBuf>,
    #[command(flatten)]
    view: ViewFlags,
}

#[derive(clap::Subcommand)]
enum Action {
    Init(Box<InitArguments>),
    Add(Box<AddArguments>),
    Show(ShowArguments),
    Ack(AckArguments),
    Check(CheckArguments),
    Bisect(BisectArguments),
}

impl Arguments {
    /// Whether runs go on when the reader of the output has gone.
    pub fn measures(&self) -> bool {
        matches!(self.action, Some(Action::Add(_) | Action::Bisect(_)))
    }
}

/// Begin a line: write its file
///
/// The anchor runs in each block with every point that is added later. The file may be edited as long as no point is
/// there.
#[derive(clap::Args)]
pub struct InitArguments {
    /// File of the line to write: NAME.toml
    line: PathBuf,
    /// Git repository, or a directory inside it
    #[arg(long, value_name = "DIR", default_value = ".")]
    git: PathBuf,
    /// Commit that runs in every block, for as long as the line goes on
    #[arg(long, value_name = "COMMIT", default_value = "HEAD")]
    anchor: String,
    #[command(flatten)]
    build: CommitBuildFlags,
    /// Measure this program, in the directory of a build
    #[arg(long, value_name = "LINE", required_unless_present = "kernels")]
    command: Option<String>,
    /// Cases: what stands for {case} in the command
    ///
    /// Each is a series of its own, with its own changes. All share the line's false alarms.
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    case: Vec<String>,
    /// Line for a shell that prints the cases of a build
    ///
    /// It runs in the directory of each build. The cases of the anchor are the line's.
    #[arg(long, value_name = "LINE", conflicts_with = "case")]
    cases: Option<String>,
    /// Begin a line of kernels, by exact counts on emulated CPUs
    ///
    /// --cpus are numbers of emulated CPUs: 1,2. No commits are measured: add kernel files, or revisions of Linux. See `knee help odometer`.
    #[arg(long, conflicts_with_all = ["command", "build", "products", "metric", "value", "anchor", "case", "cases"])]
    kernels: bool,
    /// Workloads of a line of kernels [default: all]
    ///
    /// `all` are those whose operation is the kernel's. A value of a parameter follows a colon: path_call:open:file.
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "kernels")]
    workloads: Vec<String>,
    /// Operations of each task in the first window of a count; the second has twice as many [default: 64]
    #[arg(long, value_name = "N", requires = "kernels", hide_short_help = true)]
    operations: Option<u64>,
    /// Metrics to judge by, the first one the most important [default: wall_s, or --value]
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    metric: Vec<String>,
    /// Number in the output to judge by: text around `{}`; several for several series
    #[arg(long, value_name = "PATTERN")]
    value: Vec<String>,
    /// More of --value is better
    #[arg(long, requires = "value")]
    higher_is_better: bool,
    /// --value counts what the program does: no block is left out because other programs disturbed it
    #[arg(long, requires = "value", hide_short_help = true)]
    count: bool,
    #[command(flatten)]
    runs: BuildRunFlags,
    /// Smallest change that matters
    #[arg(long, value_name = "PERCENT", value_parser = parse::percent, default_value = "2%")]
    smallest_effect: f64,
}

/// Measure new points, and compare what they suggest
///
/// A commit whose build equals that of an earlier point shares its values, and nothing is run.
///
/// Exit status: 0 each commit has a point; 1 some have none; 2 knee could not do it; 130 interrupted, the same command
/// goes on.
#[derive(clap::Args)]
pub struct AddArguments {
    /// File of the line
    line: PathBuf,
    /// Commits to measure [default: HEAD of the repository]; of a line of kernels, NAME=VMLINUZ or revisions
    #[arg(value_name = "COMMIT")]
    commits: Vec<String>,
    /// Add each kernel image in this folder and below to a line of kernels
    #[arg(long, value_name = "DIR")]
    images: Option<PathBuf>,
    /// Add each commit of this range, first parents only: V1..HEAD
    #[arg(long, value_name = "RANGE", conflicts_with = "commits")]
    every: Option<String>,
    /// Run what the file says though it is not yours alone
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    build: BuildFlags,
}

/// Show the points, what changed, what is open, and how often alarms were right
///
/// `knee watch LINE` shows the same.
#[derive(clap::Args)]
pub struct ShowArguments {
    /// File of the line
    line: PathBuf,
    #[command(flatten)]
    forms: Forms,
}

/// Accept a change with a reason, or declare that it was none
///
/// The change is open no more, and its reason stays with it for those who ask later.
#[derive(clap::Args)]
pub struct AckArguments {
    /// File of the line
    line: PathBuf,
    /// The change: the start of its commit; of a line of kernels, KERNEL/WORKLOAD, or KERNEL for all its changes
    #[arg(value_name = "ID")]
    change: String,
    /// The reason, for those who read it later
    #[arg(long, value_name = "TEXT")]
    why: String,
    /// It was no change: the alarm was wrong
    #[arg(long = "false")]
    is_false: bool,
}

/// Find the commit between both points of a change
///
/// Bisects the commits between them as `knee bisect` does, in the series that changed the most. What it comes to is kept with
/// the change. A change whose points are neighbours in the repository, too, needs none. The same command goes on with one that
/// was killed.
///
/// Exit status: 0 a commit is named and confirmed; 1 a set, several changes, or not confirmed; 2 the bisection failed or was
/// refused; 3 not reproduced; 130 interrupted.
#[derive(clap::Args)]
pub struct BisectArguments {
    /// File of the line
    line: PathBuf,
    /// The change: the start of its commit
    #[arg(value_name = "ID")]
    change: String,
    /// Run what the file says though it is not yours alone
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// Exit with status 3 while a confirmed change for the worse is open
///
/// For a step of CI that fails until somebody has fixed the change, or has accepted it with `knee watch ack`.
#[derive(clap::Args)]
pub struct CheckArguments {
    /// File of the line
    line: PathBuf,
}

/// Exit status while a confirmed change for the worse is open.
const OPEN: u8 = 3;

/// Does what is asked.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    let Some(action) = &arguments.action else {
        let line = arguments
            .line
            .as_ref()
            .context("name the file of a line, or begin one: knee watch init line.toml")?;
        return show(line, &arguments.forms);
    };
    match action {
        Action::Init(arguments) => init(arguments),
        Action::Add(arguments) => add(arguments, store),
        Action::Show(arguments) => show(&arguments.line, &arguments.forms),
        Action::Ack(arguments) => ack(arguments),
        Action::Check(arguments) => check(arguments),
        Action::Bisect(arguments) => bisect::run(arguments, store),
    }
}

fn init(arguments: &InitArguments) -> Result<ExitCode> {
    let InitArguments { line, git, build, runs, .. } = arguments;
    ensure!(
        line.extension().is_some_and(|extension| extension == "toml"),
        "{}: name the file of the line NAME.toml",
        line.display()
    );
    if arguments.kernels {
        return kernels::init(arguments);
    }
    let repository = Repository::open(git)?;
    let anchor = bisector::commit(&repository, &arguments.anchor)?;
    let directory = git.canonicalize().with_context(|| format!("looking for {}", git.display()))?;
    let file = LineFile {
        git: directory,
        anchor: anchor.id.clone(),
        build: build.build.clone(),
        product: build.products.clone(),
        command: arguments.command.clone().unwrap_or_default(),
        case: arguments.case.clone(),
        cases: arguments.cases.clone(),
        metric: None,
        value: None,
        higher_is_better: false,
        count: arguments.count,
        cpus: runs.cpus.clone(),
        smallest_effect: arguments.smallest_effect,
        build_timeout: build.build_timeout,
        timeout: runs.timeout,
        metrics: Vec::new(),
    };
    let file = metrics::chosen(arguments, file)?;
    let opened = metrics::line(line, file.clone())?;
    request(&opened, Path::new(""))?;
    let text = toml::to_string(&file).context("writing the line as TOML")?;
    write_line(line, &text)?;
    talk(format_args!(
        "{} begins a line with the anchor {} ({}): knee watch add {0}",
        line.display(),
        anchor.short(),
        anchor.subject
    ));
    Ok(ExitCode::SUCCESS)
}

/// Writes the file of a new line.
fn write_line(line: &Path, text: &str) -> Result<()> {
    let mut made = fs::File::create_new(line)
        .with_context(|| format!("making {}: a line begins in a new file", line.display()))?;
    made.write_all(text.as_bytes()).with_context(|| format!("writing {}", line.display()))
}

/// The file of a line is short.
const LENGTH: Limit = Limit { bytes: 1 << 20, what: "a line" };

/// A line that is only looked at.
fn opened(path: &Path) -> Result<WatchedLine> {
    let text = given_file::read_text(path, LENGTH)
        .with_context(|| format!("reading the line {}", path.display()))?;
    line_of(path, &text)
}

fn line_of(path: &Path, text: &str) -> Result<WatchedLine> {
    let file: LineFile = toml::from_str(text)
        .with_context(|| format!("{} is not the file of a line", path.display()))?;
    metrics::line(path, file).with_context(|| format!("reading the line {}", path.display()))
}

/// What a line builds and runs.
fn request(line: &WatchedLine, folder: &Path) -> Result<Request> {
    let file = &line.file;
    let metric = line.metrics[0].name.clone();
    let extract = line.extracts.iter().find(|extract| extract.name == metric).cloned();
    let source = Source::Git {
        directory: folder.join(&file.git),
        good: file.anchor.clone(),
        bad: "HEAD".to_string(),
        first_parent: true,
        skip: Vec::new(),
    };
    Ok(Request {
        build: file.build.clone(),
        build_timeout_s: file.build_timeout,
        products: file.product.clone(),
        command: file.command.clone(),
        cpus: file.cpus.clone(),
        extract,
        timeout_s: file.timeout,
        smallest_effect: file.smallest_effect,
        ..Request::new(source, metric)
    })
}

fn add(arguments: &AddArguments, store: &Store) -> Result<ExitCode> {
    if let Some(paths) = kernels::opened(&arguments.line)? {
        return kernels::add(arguments, &paths);
    }
    ensure!(arguments.images.is_none(), "--images: {} is not of kernels", arguments.line.display());
    let (line, asked) = permitted(&arguments.line, arguments.yes)?;
    let commits = commits(arguments, &asked)?;
    signals::catch();
    job_control::follow_terminal();
    let added = bisector::add(&line, asked, &commits, store, &mut |news| hint(news))?;
    if added == Added::Interrupted {
        talk("interrupted: the same command goes on");
        return Ok(ExitCode::from(130));
    }
    let answer = answer(&line)?;
    for sentence in page::news(&answer) {
        talk(sentence);
    }
    Ok(if added == Added::Done { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line whose builds and runs the user agrees to, and what it builds and runs.
fn permitted(path: &Path, yes: bool) -> Result<(WatchedLine, Permitted<Request>)> {
    let named = path.to_string_lossy();
    let read = given_file::read_judged(path, LENGTH, own_file::why_not_own);
    let (text, why) = read.with_context(|| format!("reading the line {named}"))?;
    let line = line_of(path, &text)?;
    let folder = path.parent().unwrap_or(Path::new(""));
    let asked = Foreign::typed(request(&line, folder)?).decided_by(&named, why);
    let points = line.points_path();
    let asked = if points.exists() { asked.with_code(&points)? } else { asked };
    let cases = line.file.cases.as_deref();
    let asked = asked.permitted(yes, |request| Ok(effects(request, cases)))?;
    Ok((line, asked))
}

/// What adding would do, to be agreed to.
fn effects(request: &Request, cases: Option<&str>) -> String {
    let Source::Git { directory, .. } = &request.source else {
        unreachable!("a line is of commits")
    };
    let build = request.build.iter().map(|line| format!("builds with: {line}\n"));
    let command = format!("runs: {}\n", request.command);
    let takes = format!("takes commits of: {}\n", directory.display());
    let cases = cases.iter().map(|line| format!("lists cases with: {line}\n"));
    std::iter::once(takes).chain(build).chain(cases).chain([command]).collect()
}

/// The commits to add, oldest first.
fn commits(arguments: &AddArguments, request: &Permitted<Request>) -> Result<Vec<Commit>> {
    let Source::Git { directory, .. } = &request.source else {
        unreachable!("a line is of commits")
    };
    if let Some(range) = &arguments.every {
        let (good, bad) = range
            .split_once("..")
            .filter(|(good, bad)| !good.is_empty() && !bad.is_empty())
            .with_context(|| format!("--every '{range}' must be FROM..TO"))?;
        let source = Source::Git {
            directory: directory.clone(),
            good: good.to_string(),
            bad: bad.to_string(),
            first_parent: true,
            skip: Vec::new(),
        };
        return Ok(Range::read(&source)?.commits.into_iter().skip(1).collect());
    }
    let repository = Repository::open(directory)?;
    let head = ["HEAD".to_string()];
    let names = if arguments.commits.is_empty() { &head[..] } else { &arguments.commits };
    names.iter().map(|name| bisector::commit(&repository, name)).collect()
}

fn answer(line: &WatchedLine) -> Result<WatchAnswer> {
    line.answer()
}

fn show(path: &Path, forms: &Forms) -> Result<ExitCode> {
    let Forms { html, openmetrics, view } = forms;
    if let Some(paths) = kernels::opened(path)? {
        let line = path.display();
        ensure!(openmetrics.is_none(), "--openmetrics: {line} is of kernels: take --json");
        return kernels::show(&paths, html.as_deref(), *view);
    }
    let line = opened(path)?;
    let answer = answer(&line)?;
    if let Some(file) = openmetrics {
        put(file, &open_metrics::text(&answer))?;
        if file.as_os_str() == "-" {
            return Ok(ExitCode::SUCCESS);
        }
    }
    view.print(|| Ok(&answer), || Ok(page::page(&answer)))?;
    if let Some(path) = html {
        fs::write(path, pages::html(&page::page(&answer), Purpose::File))
            .with_context(|| format!("writing {}", path.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a file that readers see whole, or standard output.
fn put(file: &Path, text: &str) -> Result<()> {
    if file.as_os_str() == "-" {
        return print(text);
    }
    let file = std::path::absolute(file)?;
    let folder = file.parent().context("it names a folder")?;
    let written = HeldFolder::open(folder)
        .and_then(|folder| folder.put(file.file_name().unwrap_or_default(), text.as_bytes()));
    written.with_context(|| format!("writing {}", file.display()))
}

fn ack(arguments: &AckArguments) -> Result<ExitCode> {
    ensure!(!arguments.why.trim().is_empty(), "--why needs a reason for those who read it later");
    if let Some(paths) = kernels::opened(&arguments.line)? {
        return kernels::ack(arguments, &paths);
    }
    let line = opened(&arguments.line)?;
    let change = line.ack(&arguments.change, arguments.why.trim(), arguments.is_false)?;
    let is = if arguments.is_false { "declared to be none" } else { "accepted" };
    talk(format_args!("{} is {is}: {}", change.id, arguments.why.trim()));
    Ok(ExitCode::SUCCESS)
}

fn check(arguments: &CheckArguments) -> Result<ExitCode> {
    if let Some(paths) = kernels::opened(&arguments.line)? {
        return kernels::check_open(&paths);
    }
    let line = opened(&arguments.line)?;
    let answer = answer(&line)?;
    let open: Vec<String> = answer.open().map(|change| page::sentence(change, &answer)).collect();
    Ok(say_open(&answer.line, &open))
}

/// Says which changes for the worse are open in a line, each in a sentence. Returns the exit status that says so, too.
fn say_open(line: &str, open: &[String]) -> ExitCode {
    if open.is_empty() {
        hint(format_args!("{line}: no change for the worse is open"));
        return ExitCode::SUCCESS;
    }
    let are = if open.len() == 1 { "is" } else { "are" };
    talk(format_args!("{line}: {} for the worse {are} open:", counted(open.len(), "change")));
    for sentence in open {
        talk(format_args!("  {sentence}"));
    }
    ExitCode::from(OPEN)
}
