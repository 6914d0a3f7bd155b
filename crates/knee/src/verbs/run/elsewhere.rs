//! Chunks on other hosts: a fleet's directory, and ssh or Slurm to have its chunks done.

mod slurm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use fleet::{Folder, Plan, Work, ssh, why_full};
use host::terminal::{hint, talk};
use host::{counted, random, signals};
use store::{Id, Store};

use crate::flags::{On, SlurmFlags};

/// Hosts that the user names.
pub struct Target<'a> {
    pub on: &'a On,
    /// The directory of the fleet, if the user names one.
    pub directory: Option<&'a Path>,
    pub slurm: &'a SlurmFlags,
    /// Whether the user agrees beforehand to what others decide.
    pub yes: bool,
}

/// The directory of a fleet and its plan.
pub struct Fleet {
    pub folder: Folder,
    pub plan: Plan,
    /// Whether nobody named the directory.
    is_ours: bool,
}

/// What is done once all chunks are.
pub type Done<'a> = &'a dyn Fn(&Fleet) -> Result<ExitCode>;

impl Fleet {
    pub fn root(&self) -> &Path {
        self.folder.root()
    }

    /// The chunks that are not done.
    pub fn left(&self) -> Result<Vec<usize>> {
        let survey = self.folder.survey(self.plan.chunks.len())?;
        let left = survey.0.iter().enumerate();
        Ok(left.filter(|(_, state)| **state != fleet::ChunkState::Done).map(|(n, _)| n).collect())
    }

    /// Removes the directory unless somebody named it. Its results are kept elsewhere, or there are none.
    pub fn forget(&self) {
        let root = self.root();
        if let Some(why) = self.is_ours.then(|| fs::remove_dir_all(root).err()).flatten() {
            talk(format_args!("removing {}: {why}: remove it by hand", root.display()));
        }
    }
}

/// Where a directory is made unless the user names one. Refuses hosts that cannot be asked, before anything is made.
pub fn place(target: &Target, store: &Store) -> Result<PathBuf> {
    Ok(match target.on {
        On::Ssh(_) => store.root().join("fleets"),
        On::Slurm => {
            slurm::check_is_here(target.slurm)?;
            let here = std::env::current_dir().context("looking for the current directory")?;
            let directory = std::path::absolute(target.directory.unwrap_or(&here))?;
            fleet::slurm::check_directory(&directory)?;
            here
        }
    })
}

/// The fleet in the directory that the user names, if it holds the plan, as `is_same` tells of the one there and
/// the new one; else a new fleet there or in `place`.
pub fn open_or_create(
    target: &Target,
    place: &Path,
    plan: impl FnOnce() -> Result<Plan>,
    is_same: impl FnOnce(&Plan, &Plan) -> bool,
) -> Result<Fleet> {
    let new = plan()?;
    if let Some(root) = target.directory.filter(|root| root.join("plan.json").exists()) {
        let (folder, plan) = Folder::open(&std::path::absolute(root)?)?;
        ensure!(
            is_same(&plan, &new),
            "{} holds another plan: repeat the command that made it, or name another directory",
            root.display()
        );
        ensure!(
            plan.knee == new.knee,
            "{} was planned by knee {}: go on with that one, or name another directory",
            root.display(),
            plan.knee
        );
        return Ok(Fleet { folder, plan, is_ours: false });
    }
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let root = match target.directory {
        Some(root) => std::path::absolute(root)?,
        None => place.join(format!("fleet-{}", id.as_str())),
    };
    let folder = Folder::create(&root, &new)?;
    hint(format_args!(
        "{} of {} in {}",
        counted(new.chunks.len(), "chunk"),
        counted(new.blocks() as usize, "block"),
        root.display()
    ));
    Ok(Fleet { folder, plan: new, is_ours: target.directory.is_none() })
}

/// Has all chunks done, and then what follows.
pub fn run(target: &Target, fleet: &Fleet, done: Done) -> Result<ExitCode> {
    match target.on {
        On::Ssh(hosts) => by_ssh(fleet, hosts, done),
        On::Slurm => slurm::run(target, fleet, done),
    }
}

fn by_ssh(fleet: &Fleet, names: &[String], done: Done) -> Result<ExitCode> {
    signals::catch();
    let worked = work_by_ssh(fleet, names);
    let is_untouched = fleet.folder.survey(fleet.plan.chunks.len())?.0.iter().all(is_untouched);
    if is_untouched {
        fleet.forget();
    }
    let interrupted = worked?;
    let left = fleet.left()?.len();
    if left == 0 {
        return done(fleet);
    }
    let go_on = format!("the same command with --fleet {} goes on", fleet.root().display());
    if interrupted {
        if is_untouched {
            talk("interrupted before anything was done: nothing to keep");
        } else {
            talk(format_args!("interrupted: whole blocks are kept; {go_on}"));
        }
        return Ok(ExitCode::from(130));
    }
    bail!(
        "{left} of {} are not done and no host is left; {go_on}",
        counted(fleet.plan.chunks.len(), "chunk")
    )
}

fn is_untouched(state: &fleet::ChunkState) -> bool {
    *state == fleet::ChunkState::Free { claims: 0 }
}

/// Has chunks done on all hosts, or on none. Returns whether a signal ended it.
fn work_by_ssh(fleet: &Fleet, names: &[String]) -> Result<bool> {
    let client = host::ssh::client()?;
    let binary = fs::read("/proc/self/exe").context("reading knee's own binary")?;
    if let Some(why) = why_full(fleet.root()) {
        bail!("{why}");
    }
    hint(format_args!("checking {}", counted(names.len(), "host")));
    let prepared = ssh::prepare_all(&client, names, &fleet.plan, binary);
    if signals::received().is_some() {
        return Ok(true);
    }
    let mut hosts = Vec::new();
    for (name, host) in names.iter().zip(prepared) {
        match host {
            Ok(host) => hosts.push(host),
            Err(why) => talk(format_args!("{name}: {why:#}")),
        }
    }
    let unfit = names.len() - hosts.len();
    ensure!(
        unfit == 0,
        "{unfit} of {} cannot take chunks, so nothing was started: leave {} out",
        counted(names.len(), "host"),
        if unfit == 1 { "it" } else { "them" }
    );
    for (index, host) in hosts.iter().enumerate() {
        let same = |other: &&ssh::RemoteHost| other.facts.boot_id == host.facts.boot_id;
        if let Some(other) = hosts[..index].iter().find(same) {
            talk(format_args!(
                "{} and {} run on the same kernel: they measure each other, unless they share no CPU",
                other.name, host.name
            ));
        }
    }
    let ended = ssh::measure_all(&fleet.folder, &fleet.plan, hosts);
    let is_interrupted = ended.iter().any(|work| matches!(work, Ok(Work::Interrupted)));
    Ok(is_interrupted && signals::received().is_some())
}

/// A path as a shell's word.
fn word(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(shlex::try_quote(text)?.into_owned())
}
