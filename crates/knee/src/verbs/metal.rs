//! `knee metal`: goes on after a boot that `knee run --on metal` asked for. A unit of systemd calls it, or a boot
//! script.

use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};
use host::terminal::talk;
use setup::metal::{self, Reboots};

/// Go on with `knee run --on metal` after a boot. Does nothing if no boot was asked for.
#[derive(clap::Args)]
pub struct Arguments {
    /// Instead, remove what a knee that was killed would still do after a boot
    #[arg(long)]
    clean: bool,
}

pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if arguments.clean {
        metal::clean()?.into_iter().for_each(talk);
        return Ok(ExitCode::SUCCESS);
    }
    let mut reboots = Reboots::open()?;
    if reboots.is_stale()? {
        reboots.clear()?;
        talk("knee was killed before the reboot: nothing goes on");
        return Ok(ExitCode::SUCCESS);
    }
    let Some(trip) = reboots.trip().cloned() else {
        talk("no knee asked for a boot of this host: nothing goes on");
        return Ok(ExitCode::SUCCESS);
    };
    // The command claims the reboots for itself.
    drop(reboots);
    let mut command = Command::new("/proc/self/exe");
    // The record keeps the words of the command, for the user to repeat.
    command.arg0("knee").args(&trip.arguments).envs(&trip.environment).current_dir(&trip.directory);
    Err(command.exec()).with_context(|| format!("starting knee {}", trip.arguments.join(" ")))
}
