//! Hosts that the user names with `--on`, and how Slurm gets jobs.

use anyhow::{Context, Result, bail, ensure};
use host::ssh::check_host;

/// The heading of flags about other hosts.
pub const HOSTS_HEADING: &str = "Other hosts";

/// How jobs are submitted to Slurm.
#[derive(clap::Args)]
#[command(next_help_heading = HOSTS_HEADING)]
pub struct SlurmFlags {
    /// Features that nodes must have, as in sbatch --constraint
    #[arg(long, value_name = "FEATURES", hide_short_help = true)]
    pub constraint: Option<String>,
    /// Number of nodes that work at the same time [default: as many as are free]
    #[arg(long, value_name = "N", hide_short_help = true)]
    pub nodes: Option<u32>,
    /// Partition of the nodes
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub partition: Option<String>,
    /// Write the directory and print the job script, but submit nothing
    #[arg(long, hide_short_help = true)]
    pub print_script: bool,
    /// Wait until all is done, by looking at the files, and show the result
    #[arg(long, conflicts_with = "print_script", hide_short_help = true)]
    pub wait: bool,
}

/// Where something is done, as `--on` names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// Where file systems are made: loop, ram or a device.
    FileSystems(String),
    /// Where runs are made.
    Hosts(On),
    /// This host, which boots the kernels that are compared.
    Metal,
}

/// Hosts that measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum On {
    /// These, by ssh.
    Ssh(Vec<String>),
    /// Nodes that Slurm chooses.
    Slurm,
}

impl On {
    /// How many hosts measure at the same time, if that is known.
    pub fn count(&self, flags: &SlurmFlags) -> Option<u32> {
        match self {
            On::Ssh(hosts) => Some(hosts.len() as u32),
            On::Slurm => flags.nodes,
        }
    }
}

/// Refuses flags of Slurm without Slurm, and what its job scripts would misread.
pub fn check_slurm(flags: &SlurmFlags, on: Option<&On>) -> Result<()> {
    let SlurmFlags { constraint, nodes, partition, print_script, wait } = flags;
    let of_slurm = [
        (constraint.is_some(), "--constraint"),
        (nodes.is_some(), "--nodes"),
        (partition.is_some(), "--partition"),
        (*print_script, "--print-script"),
        (*wait, "--wait"),
    ];
    let given = of_slurm.into_iter().find_map(|(is_given, flag)| is_given.then_some(flag));
    match (given, on) {
        (Some(flag), Some(On::Ssh(_))) => bail!("{flag} is for --on slurm: leave it out"),
        (Some(flag), None) => {
            bail!("{flag} is for other hosts: name them with --on slurm, or leave it out")
        }
        _ => (),
    }
    ensure!(*nodes != Some(0), "--nodes 0 works nowhere");
    for word in [constraint, partition].into_iter().flatten() {
        ensure!(!word.is_empty() && !word.contains(is_special), "{word:?} is no word of Slurm's");
    }
    Ok(())
}

/// Whether a character ends a word of a job script's options, or means something else there.
fn is_special(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "\"'\\#".contains(c)
}

/// Parses the value of `--on`.
pub fn place(text: &str) -> Result<Place> {
    if text == "metal" {
        return Ok(Place::Metal);
    }
    if text == "slurm" {
        return Ok(Place::Hosts(On::Slurm));
    }
    let Some(hosts) = text.strip_prefix("ssh:") else {
        return Ok(Place::FileSystems(text.to_string()));
    };
    let hosts: Vec<String> = hosts.split(',').map(str::to_string).collect();
    for (index, host) in hosts.iter().enumerate() {
        check_host(host).context("--on takes hosts as ssh:a,b,c")?;
        ensure!(
            !hosts[..index].contains(host),
            "{host} is named twice: two that measure there would measure each other"
        );
    }
    Ok(Place::Hosts(On::Ssh(hosts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_slurm_or_hosts_by_ssh() {
        assert_eq!(place("metal").unwrap(), Place::Metal);
        assert_eq!(place("slurm").unwrap(), Place::Hosts(On::Slurm));
        assert_eq!(place("/dev/vdb").unwrap(), Place::FileSystems("/dev/vdb".to_string()));
        let hosts = ["a", "me@b", "ssh://c:2222"].map(str::to_string);
        assert_eq!(
            place("ssh:a,me@b,ssh://c:2222").unwrap(),
            Place::Hosts(On::Ssh(hosts.to_vec()))
        );
        for wrong in ["ssh:", "ssh:a,", "ssh:a,a", "ssh:-oProxyCommand=x", "ssh:a b"] {
            assert!(place(wrong).is_err(), "{wrong}");
        }
    }
}
