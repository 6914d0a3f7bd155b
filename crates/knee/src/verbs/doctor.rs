//! `knee doctor`: what this host allows, what would disturb a measurement on it, and how often verdicts would be wrong
//! there. It changes nothing, unless asked to clean, and a bad finding is no failure.

use std::path::PathBuf;
use std::process::ExitCode;

use answers::as_json;
use host::terminal::print;
use lab::{calibrate, host_check};
use pages::ViewFlags;
use setup::journal;

use super::describe::host_manual;

/// Check what this host permits and what would disturb a measurement
///
/// Looks at rights, tools, CPUs, clock and other programs for a little more than a second, and changes nothing. A bad finding
/// is no failure.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    action: Option<DoctorAction>,
    /// Also look at this directory, as one where workloads would work
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    #[command(flatten)]
    pub view: ViewFlags,
    /// Only undo what killed knees left (directories, mounts, loop devices, kernel settings),
    /// and say what was undone
    #[arg(long, conflicts_with_all = ["dir", "json", "view"])]
    pub clean: bool,
}

#[derive(clap::Subcommand)]
enum DoctorAction {
    Calibrate(calibrate::Arguments),
    Verdicts(host_check::Arguments),
}

/// Looks at the host for a little more than a second and prints what it found.
pub fn run(arguments: Arguments) -> anyhow::Result<ExitCode> {
    match &arguments.action {
        Some(DoctorAction::Calibrate(arguments)) => return calibrate(arguments),
        Some(DoctorAction::Verdicts(arguments)) => return host_check::run(arguments),
        None => (),
    }
    if arguments.clean {
        return clean();
    }
    let findings = lab::doctor::examine(arguments.dir.as_deref(), cfg!(feature = "bpf"));
    let page = lab::doctor::page(&findings);
    arguments.view.print(|| Ok(findings), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

/// Measures this host, and prints the file that describes it or its numbers.
fn calibrate(arguments: &calibrate::Arguments) -> anyhow::Result<ExitCode> {
    let file = calibrate::file(arguments)?;
    print(if arguments.json {
        as_json(&host_manual(&described_hosts::parse("measured", &file)?))?
    } else {
        file
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Does at once what the next start would do.
fn clean() -> anyhow::Result<ExitCode> {
    let mut said = journal::clean()?;
    if said.is_empty() {
        said.push("no killed knee has left anything".to_string());
    }
    print(said.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(ExitCode::SUCCESS)
}
