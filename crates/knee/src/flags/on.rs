//! Where `knee run` measures, other than here.

use std::path::PathBuf;

use anyhow::{Result, ensure};

use super::CutFlags;
use super::hosts::{HOSTS_HEADING, On, SlurmFlags, check_slurm};

/// Other hosts for the runs.
#[derive(clap::Args)]
#[command(next_help_heading = HOSTS_HEADING)]
pub struct OnFlags {
    /// Directory for the plan and the records of --on ssh:… or --on slurm
    ///
    /// For slurm, one that all nodes share. If it holds a plan of this experiment, what is missing is
    /// measured. By default it is made in the current directory for slurm, else beside the records.
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub fleet: Option<PathBuf>,
    /// With --on metal, let a boot script of yours call `knee metal`, instead of a unit of systemd
    #[arg(long, hide_short_help = true)]
    pub boot_script: bool,
    #[command(flatten)]
    pub cut: CutFlags,
    #[command(flatten)]
    pub slurm: SlurmFlags,
}

impl OnFlags {
    /// Refuses flags that mean something elsewhere only.
    pub fn check(&self, on: Option<&On>) -> Result<()> {
        ensure!(
            on.is_some() || !(self.cut.is_given() || self.fleet.is_some()),
            "--fleet, --chunk and --lease are for other hosts: name them with --on ssh:a,b or --on slurm"
        );
        check_slurm(&self.slurm, on)
    }
}
