//! Where a verb that computes pieces computes them.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, bail};

use super::hosts::{HOSTS_HEADING, On, Place, SlurmFlags, check_slurm, place};
use super::lengths::duration;
use crate::elsewhere::Target;

/// Other hosts for a sweep.
#[derive(clap::Args)]
#[command(next_help_heading = HOSTS_HEADING)]
pub struct SweepFlags {
    /// Compute on other hosts: ssh:HOST,HOST… or slurm
    ///
    /// The result is the one that this host computes. See docs/guide/fleet.md.
    #[arg(long, value_name = "HOSTS", value_parser = hosts)]
    on: Option<On>,
    /// Directory for the plan and the results of --on
    ///
    /// For slurm, one that all nodes share. If it holds a plan of this sweep, what is missing is computed. By
    /// default it is made in the current directory for slurm, else beside the records.
    #[arg(long, value_name = "DIR", requires = "on", hide_short_help = true)]
    fleet: Option<PathBuf>,
    /// How long a host may finish no piece before another takes its chunk over
    ///
    /// By default 10m. Too short a lease costs time, never results.
    #[arg(long, value_name = "TIME", requires = "on", value_parser = duration, hide_short_help = true)]
    lease: Option<Duration>,
    #[command(flatten)]
    slurm: SlurmFlags,
    /// Compile and run what files of others decide without asking (see docs/safety.md)
    #[arg(long, hide_short_help = true, help_heading = None)]
    yes: bool,
}

fn hosts(text: &str) -> Result<On> {
    match place(text)? {
        Place::Hosts(on) => Ok(on),
        Place::FileSystems(_) | Place::Metal => bail!("must be ssh:HOST,HOST… or slurm"),
    }
}

impl SweepFlags {
    /// Refuses flags that mean something elsewhere only, and other hosts for what only this one can do.
    pub fn check(&self, only_here: Option<String>) -> Result<()> {
        if let Some(why) = only_here.filter(|_| self.on.is_some()) {
            bail!("{why}: leave --on out");
        }
        check_slurm(&self.slurm, self.on.as_ref())
    }

    /// The hosts that are named.
    pub fn target(&self) -> Option<Target<'_>> {
        let on = self.on.as_ref()?;
        Some(Target { on, directory: self.fleet.as_deref(), slurm: &self.slurm, yes: self.yes })
    }

    /// Whether the user agrees beforehand to what files of others decide.
    pub fn is_yes(&self) -> bool {
        self.yes
    }

    pub fn lease_s(&self) -> Option<f64> {
        self.lease.map(|lease| lease.as_secs_f64())
    }
}
