//! `knee kernel`: builds kernels from a git repository; lists, removes and boots built kernels.

mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use guests::kernels::{
    self, BuildSettings, Builder, BuiltKernel, Cache, Configuration, KernelRequest,
};
use host::terminal::{hint, print_line, talk};
use host::{job_control, signals};
use pages::{Page, PageKind, View, ViewFlags};

use super::boot;

/// What to do with kernels.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: KernelAction,
}

#[derive(clap::Subcommand)]
enum KernelAction {
    /// Build kernels from a git repository
    Build(BuildArguments),
    /// List the built kernels, newest first
    List {
        #[command(flatten)]
        view: ViewFlags,
    },
    /// Remove built kernels
    Remove {
        /// Keys, or their first characters, as shown by `knee kernel list`
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
    /// Boot a kernel in a virtual machine, inspect it or run a program
    Boot(Box<boot::Arguments>),
}

/// Build Linux at each revision, with the smallest configuration that boots in a virtual machine
/// and has what workloads, probes and file systems need, and print the paths of the images:
///
///     knee kernel build --git ../linux v6.1 HEAD~3 mybranch
///     knee kernel build --git ../linux mybranch --config lockdep.config
///
/// The repository is only read: work tree, index and refs stay unchanged, and uncommitted changes
/// are not built. Sources are checked out elsewhere and removed at the end; from one revision to
/// the next, only changed files are compiled. A kernel already built from the same files,
/// configuration and tools comes from the cache. See docs/guide/building-kernels.md.
///
/// Exit status: 0 all kernels are built; 1 some revisions failed; 2 the build could not start;
/// 130 interrupted.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
struct BuildArguments {
    /// Git repository of Linux, or a directory inside it
    #[arg(long, value_name = "DIR", default_value = ".")]
    git: PathBuf,
    /// Commits to build, by any name that git accepts
    #[arg(default_value = "HEAD")]
    revisions: Vec<String>,
    /// Configuration fragment (lines CONFIG_NAME=y) that overrides all other options; repeatable
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Start from this complete .config instead of the smallest; modules are not built
    #[arg(long, value_name = "FILE")]
    config_from: Option<PathBuf>,
    /// Leave out parts of the configuration: guest, workloads, file-systems, containers, probes,
    /// types, typical
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<String>,
    /// Compiler to use, such as gcc-11 for an old kernel
    #[arg(long, value_name = "PROGRAM", default_value = "gcc")]
    compiler: String,
    /// Number of parallel compile jobs [default: the number of usable CPUs]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Directory for sources and objects during the build [default: next to the built kernels]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    #[command(flatten)]
    view: ViewFlags,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.action {
        KernelAction::Build(arguments) => build(arguments),
        KernelAction::List { view } => list(*view),
        KernelAction::Remove { keys } => remove(keys),
        KernelAction::Boot(arguments) => boot::run(arguments),
    }
}

fn build(arguments: &BuildArguments) -> Result<ExitCode> {
    signals::catch();
    job_control::follow_terminal();
    let configuration = configuration(arguments)?;
    let mut builder = Builder::open(build_settings(arguments)?)?;
    kernels::check(&arguments.git)?;
    if let Some(warning) = builder.types_warning(&configuration) {
        talk(warning);
    }
    let mut outcomes = Vec::new();
    for revision in &arguments.revisions {
        let request = KernelRequest {
            repository: arguments.git.clone(),
            revision: revision.clone(),
            without: None,
            configuration: configuration.clone(),
        };
        let outcome = builder.build(&request);
        if let (Some(_), Err(why)) = (signals::received(), &outcome) {
            talk(format_args!("the build of {revision} was interrupted: {why:#}"));
            break;
        }
        report(revision, &outcome);
        outcomes.push((revision.clone(), outcome));
    }
    // Results first: removing a hundred thousand files may take a while.
    let printed = conclude(arguments, &outcomes);
    builder.close().context("removing sources and objects of the build")?;
    printed?;
    let failed = outcomes.iter().any(|(_, outcome)| outcome.is_err());
    Ok(match signals::received() {
        Some(signal) => {
            let (done, all) = (outcomes.len(), arguments.revisions.len());
            talk(format_args!("interrupted by {}: {done} of {all} done", signals::name(signal)));
            ExitCode::from(130)
        }
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

fn configuration(arguments: &BuildArguments) -> Result<Configuration> {
    let mut configuration = Configuration::without(&arguments.without)?;
    if let Some(whole) = &arguments.config_from {
        configuration.start_from(whole)?;
    }
    for file in &arguments.config {
        configuration.add(file)?;
    }
    Ok(configuration)
}

fn build_settings(arguments: &BuildArguments) -> Result<BuildSettings> {
    let allowed = host::affinity::get().context("reading the CPU affinity")?.len();
    let jobs = arguments.jobs.unwrap_or(allowed);
    ensure!(jobs > 0, "--jobs 0: must be at least 1");
    let (compiler, scratch) = (arguments.compiler.clone(), arguments.scratch.clone());
    Ok(BuildSettings { compiler, jobs, scratch, timeout: None })
}

/// Reports the result of a revision immediately: the next ones may take long.
fn report(revision: &str, outcome: &Result<BuiltKernel>) {
    match outcome {
        Ok(built) if built.cached => (),
        Ok(built) => talk(format_args!(
            "built {revision}, {}, in {:.0} s",
            built.build.release, built.build.seconds
        )),
        Err(why) => talk(format_args!("{revision} failed: {why:#}")),
    }
}

fn conclude(arguments: &BuildArguments, outcomes: &[(String, Result<BuiltKernel>)]) -> Result<()> {
    let value = || Ok(tables::kernels_built(outcomes));
    arguments.view.print(value, || Ok(tables::kernels(outcomes)))
}

fn list(view: ViewFlags) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let builds = cache.list()?;
    let folder = cache.folder().display();
    let page = if builds.is_empty() {
        let none =
            format!("No kernels in {folder} yet. Build one with: knee kernel build --git DIR");
        Page { answers: vec![none], ..Page::new("kernels", PageKind::List) }
    } else {
        tables::kernels_kept(&builds)
    };
    let is_empty = builds.is_empty();
    view.print(|| Ok(builds), || Ok(page))?;
    if view.view() == View::Terminal && !is_empty {
        hint(format_args!("in {folder}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(keys: &[String]) -> Result<ExitCode> {
    let cache = Cache::open()?;
    for key in keys {
        let removed = cache.remove(key)?;
        print_line(format_args!("removed {removed}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
