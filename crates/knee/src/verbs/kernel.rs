//! `knee kernel`: builds kernels from sources; lists, removes and boots built kernels.

mod tables;

use std::path::Path;
use std::process::ExitCode;

use answers::{RemovedKernels, as_json};
use anyhow::{Context, Result};
use guests::kernels::{self, BuiltKernel, Cache};
use host::terminal::{hint, print, print_line, talk};
use host::{job_control, signals};
use pages::{Page, PageKind, View, ViewFlags};

use super::boot;
use crate::flags::BuildFlags;

/// Build, list, boot and remove kernels to compare
///
/// Built kernels boot in virtual machines and stay in a cache. `knee run --kernel` and `knee conflicts --kernel` build what
/// is no kernel yet. See `knee help building-kernels`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: KernelAction,
}

#[derive(clap::Subcommand)]
enum KernelAction {
    Build(BuildArguments),
    Config(ConfigArguments),
    /// List the built kernels, newest first
    ///
    /// With the sources and objects that builds keep, and the size of each.
    List {
        #[command(flatten)]
        view: ViewFlags,
    },
    /// Remove built kernels
    ///
    /// Sources and objects have keys, too: what is removed is fetched and compiled again when a build needs it.
    Remove {
        /// Keys of kernels, or of sources and objects, or their first characters, as shown by `knee kernel list`
        #[arg(required = true, value_name = "KEY")]
        keys: Vec<String>,
        /// Print the keys of what was removed as JSON
        #[arg(long)]
        json: bool,
    },
    Boot(Box<boot::Arguments>),
}

/// Build kernels from a git repository or a source tree
///
/// They have the smallest configuration that boots in a virtual machine and has what workloads and probes need. The paths of
/// the images are printed:
///
///     knee kernel build --git ../linux v6.1 HEAD~3 mybranch
///     knee kernel build .
///     knee kernel build --git ../linux mybranch --with typical --config lockdep.config
///
/// The repository is only read: work tree, index and refs stay unchanged. A folder with the sources
/// of Linux is built as it lies, with changes that are not committed; it need not be a repository.
/// Sources and objects stay in the cache, so that a later build compiles what differs. A kernel
/// already built from the same files, configuration and tools comes from the cache. See
/// `knee help building-kernels`.
///
/// Exit status: 0 all kernels are built; 1 some revisions failed; 2 the build could not start;
/// 130 interrupted.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, mut_args(|arg| arg.hide_short_help(false)))]
struct BuildArguments {
    /// Commits to build, by any name that git accepts, or folders with sources
    #[arg(default_value = "HEAD", value_name = "REVISION|DIR")]
    revisions: Vec<String>,
    /// Build sources that others wrote without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    view: ViewFlags,
    #[command(flatten)]
    build: BuildFlags,
}

/// Print the configuration that a build would use
///
/// Each option stands under the part of the configuration that asks for it:
///
///     knee kernel config --with typical
///     knee kernel config v6.12
///
/// With a revision or a folder with sources, it is the whole configuration that its Kconfig makes of them.
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, mut_args(|arg| arg.hide_short_help(false)))]
struct ConfigArguments {
    /// Commit, or folder with sources
    #[arg(value_name = "REVISION|DIR")]
    revision: Option<String>,
    /// Use sources that others wrote without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    build: BuildFlags,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    match &arguments.action {
        KernelAction::Build(arguments) => build(arguments),
        KernelAction::Config(arguments) => config(arguments),
        KernelAction::List { view } => list(*view),
        KernelAction::Remove { keys, json } => remove(keys, *json),
        KernelAction::Boot(arguments) => boot::run(arguments),
    }
}

fn config(arguments: &ConfigArguments) -> Result<ExitCode> {
    let configuration = arguments.build.configuration()?;
    let Some(revision) = &arguments.revision else {
        print(match &configuration.whole {
            Some(whole) => format!("{whole}\n{}", configuration.described()),
            None => configuration.described(),
        })?;
        return Ok(ExitCode::SUCCESS);
    };
    signals::catch();
    let request = arguments.build.request(revision, arguments.yes)?;
    let mut builder = arguments.build.builder()?;
    if let Some(warning) = builder.types_warning(&configuration) {
        talk(warning);
    }
    print(builder.configuration(&request)?)?;
    builder.close()?;
    Ok(ExitCode::SUCCESS)
}

fn build(arguments: &BuildArguments) -> Result<ExitCode> {
    signals::catch();
    job_control::follow_terminal();
    let configuration = arguments.build.configuration()?;
    let mut builder = arguments.build.builder()?;
    let is_tree = |what: &String| kernels::is_source_tree(Path::new(what));
    if !arguments.revisions.iter().all(is_tree) {
        kernels::check(&arguments.build.git)?;
    }
    if let Some(warning) = builder.types_warning(&configuration) {
        talk(warning);
    }
    let mut outcomes = Vec::new();
    for revision in &arguments.revisions {
        let request = arguments.build.request(revision, arguments.yes);
        let outcome = request.and_then(|request| builder.build(&request));
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
    let (builds, trees) = (cache.list()?, cache.kept_trees());
    let folder = cache.folder().display();
    let is_empty = builds.is_empty() && trees.is_empty();
    let page = if is_empty {
        let none =
            format!("No kernels in {folder} yet. Build one with: knee kernel build --git DIR");
        Page { answers: vec![none], ..Page::new("kernels", PageKind::List) }
    } else {
        tables::kernels_kept(&builds, &trees)
    };
    view.print(|| Ok(builds), || Ok(page))?;
    if view.view() == View::Terminal && !is_empty {
        hint(format_args!("in {folder}"));
    }
    Ok(ExitCode::SUCCESS)
}

fn remove(keys: &[String], json: bool) -> Result<ExitCode> {
    let cache = Cache::open()?;
    let mut removed = Vec::new();
    for key in keys {
        let key = cache.remove(key)?;
        if !json {
            print_line(format_args!("removed {key}"))?;
        }
        removed.push(key);
    }
    if json {
        print(as_json(&RemovedKernels { removed })?)?;
    }
    Ok(ExitCode::SUCCESS)
}
