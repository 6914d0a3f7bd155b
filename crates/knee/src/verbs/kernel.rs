//! `knee kernel`: kernels built from a git repository, kept, listed and removed.

mod tables;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use guests::kernels::{
    self, BuildSettings, Builder, BuiltKernel, Cache, Configuration, KernelRequest,
};
use host::signals;
use host::stderr::{print, print_line, talk};

/// What to do with kernels.
#[derive(clap::Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Build kernels from a git repository
    Build(Building),
    /// List the kernels that have been built, the newest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove kernels that have been built
    Remove {
        /// Keys, or starts of them, as `knee kernel list` shows them
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
    },
}

/// Builds Linux at each revision, with the smallest configuration that boots in a virtual machine
/// and has what workloads, probes and file systems need, and prints where the images are:
///
///     knee kernel build --git ../linux v6.1 HEAD~3 mybranch
///     knee kernel build --git ../linux mybranch --config lockdep.config
///
/// The repository is only read: work tree, index and refs stay as they are, and what is not
/// committed is not built. Sources are written elsewhere, removed at the end, and from one
/// revision to the next only what differs is compiled. A kernel that has been built of the same
/// files, configuration and tools is found again at once. docs/building-kernels.md says
/// more.
///
/// Exit status: 0 all there; 1 some revisions failed, the others are there; 2 it could not be
/// begun; 130 interrupted.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment)]
struct Building {
    /// A git repository of Linux, or a folder in one
    #[arg(long, value_name = "DIR", default_value = ".")]
    git: PathBuf,
    /// Commits, by any name that git knows
    #[arg(default_value = "HEAD")]
    revisions: Vec<String>,
    /// A file of more options (CONFIG_NAME=y), which count over all others; repeatable
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Start from this whole .config, and not from the smallest; modules are not built
    #[arg(long, value_name = "FILE")]
    config_from: Option<PathBuf>,
    /// Leave out parts of the configuration: guest, workloads, file-systems, containers, probes,
    /// types, typical
    #[arg(long, value_name = "PART", value_delimiter = ',')]
    without: Vec<String>,
    /// The compiler, as in gcc-11 for an old kernel
    #[arg(long, value_name = "PROGRAM", default_value = "gcc")]
    compiler: String,
    /// Compilers at a time [default: as many as CPUs may be used]
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Where sources and objects lie meanwhile [default: beside the built kernels]
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Does it.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.what {
        What::Build(building) => build(building),
        What::List { json } => list(*json),
        What::Remove { keys } => remove(keys),
    }
}

fn build(building: &Building) -> Result<ExitCode> {
    signals::catch();
    let configuration = configuration(building)?;
    let mut builder = Builder::open(means(building)?)?;
    kernels::check(&building.git)?;
    if let Some(warning) = builder.types_warning(&configuration) {
        talk(warning);
    }
    let mut outcomes = Vec::new();
    for revision in &building.revisions {
        let request = KernelRequest {
            repository: building.git.clone(),
            revision: revision.clone(),
            configuration: configuration.clone(),
        };
        let outcome = builder.build(&request);
        if let (Some(_), Err(why)) = (signals::received(), &outcome) {
            talk(format_args!("{revision} was not built to its end: {why:#}"));
            break;
        }
        tell(revision, &outcome);
        outcomes.push((revision.clone(), outcome));
    }
    // Removing a hundred thousand files may take a while.
    let printed = conclude(building, &outcomes);
    builder.close().context("removing what was needed meanwhile")?;
    printed?;
    let failed = outcomes.iter().any(|(_, outcome)| outcome.is_err());
    Ok(match signals::received() {
        Some(signal) => {
            let (done, all) = (outcomes.len(), building.revisions.len());
            talk(format_args!("interrupted by {}: {done} of {all} done", signals::name(signal)));
            ExitCode::from(130)
        }
        None if failed => ExitCode::FAILURE,
        None => ExitCode::SUCCESS,
    })
}

fn configuration(building: &Building) -> Result<Configuration> {
    let mut configuration = Configuration::without(&building.without)?;
    if let Some(whole) = &building.config_from {
        configuration.start_from(whole)?;
    }
    for file in &building.config {
        configuration.add(file)?;
    }
    Ok(configuration)
}

fn means(building: &Building) -> Result<BuildSettings> {
    let allowed = host::affinity::get().context("asking on which CPUs to run")?.len();
    let jobs = building.jobs.unwrap_or(allowed);
    ensure!(jobs > 0, "--jobs 0 would build nothing");
    let (compiler, scratch) = (building.compiler.clone(), building.scratch.clone());
    Ok(BuildSettings { compiler, jobs, scratch })
}

/// Says at once how a revision ended: others may take long.
fn tell(revision: &str, outcome: &Result<BuiltKernel>) {
    match outcome {
        Ok(built) if built.cached => (),
        Ok(built) => talk(format_args!(
            "built {revision}, {}, in {:.0} s",
            built.build.release, built.build.seconds
        )),
        Err(why) => talk(format_args!("{revision} failed: {why:#}")),
    }
}

fn conclude(building: &Building, outcomes: &[(String, Result<BuiltKernel>)]) -> Result<()> {
    match building.json {
        true => print_line(format_args!("{:#}", tables::kernels_json(outcomes))),
        false => print(tables::kernels(outcomes)),
    }
}

fn list(json: bool) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let builds = cache.list()?;
    if json {
        print_line(serde_json::to_string_pretty(&builds)?)?;
    } else if builds.is_empty() {
        let folder = cache.folder().display();
        print_line(format_args!(
            "No kernels in {folder} yet. Build one: knee kernel build --git DIR"
        ))?;
    } else {
        print(tables::kernels_kept(&builds))?;
        talk(format_args!("in {}", cache.folder().display()));
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
