//! `knee completions`: prints the script by which a shell completes verbs, options and names. The scripts ask `knee complete`.

use std::process::ExitCode;

use anyhow::Result;
use host::terminal::print;

/// Print a script for completions in a shell
///
///     source <(knee completions bash)
///
/// Packages and `install.sh` put the scripts where shells look for them. The scripts ask knee itself, so that records,
/// labels and what else has a name is completed, too.
#[derive(clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The shell that is to read the script
    shell: Shell,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Shell {
    Bash,
    Fish,
    Zsh,
}

/// Prints the script.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    print(match arguments.shell {
        Shell::Bash => include_str!("completions/knee.bash"),
        Shell::Fish => include_str!("completions/knee.fish"),
        Shell::Zsh => include_str!("completions/knee.zsh"),
    })?;
    Ok(ExitCode::SUCCESS)
}
