//! `knee run --on`: measures an experiment on other hosts, by way of a fleet's directory.

mod slurm;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use fleet::{Folder, Plan, Work, ssh};
use host::terminal::{hint, talk};
use host::{counted, random, signals};
use records::Experiment;
use runner::End;
use store::{Id, Store};

use super::{Arguments, Request, conclude};
use crate::experiment_file;
use crate::flags::{On, OnFlags};

/// Measures what the arguments ask for on other hosts, and shows it as `knee run` does.
pub fn run(
    arguments: &Arguments,
    flags: &OnFlags,
    on: &On,
    request: Request,
    store: &Store,
) -> Result<ExitCode> {
    let Request { experiment, stranger } = request;
    let of_here = [
        (arguments.file_systems.i_own_this_device, "--i-own-this-device"),
        (arguments.resume, "--resume"),
        (arguments.against.is_some(), "--against"),
        (arguments.json, "--json"),
        (arguments.note.is_some(), "--note"),
    ];
    if let Some((_, flag)) = of_here.into_iter().find(|(is_given, _)| *is_given) {
        bail!(
            "{flag} is for runs on this host: leave it out (--fleet DIR goes on with what is there)"
        );
    }
    ensure!(
        *on != On::Slurm || flags.slurm.wait || !arguments.fail_if.is_given(),
        "--fail-if asks for a verdict, but --on slurm ends before there is one: add --wait"
    );
    if let Some(stranger) = stranger.filter(|_| !arguments.yes) {
        experiment_file::ask(&arguments.what.concat(), &stranger, &experiment)?;
    }
    let place = match on {
        On::Ssh(_) => store.root().join("fleets"),
        On::Slurm => {
            slurm::check_is_here(&flags.slurm)?;
            let here = std::env::current_dir().context("looking for the current directory")?;
            let directory = std::path::absolute(flags.fleet.as_ref().unwrap_or(&here))?;
            fleet::slurm::check_directory(&directory)?;
            here
        }
    };
    let fleet = open_or_plan(flags, experiment, &place, store)?;
    match on {
        On::Ssh(hosts) => by_ssh(arguments, &fleet, hosts, store),
        On::Slurm => slurm::run(arguments, &flags.slurm, &fleet, store),
    }
}

/// The directory of a fleet and its plan.
struct Fleet {
    folder: Folder,
    plan: Plan,
    /// Whether nobody named the directory.
    is_ours: bool,
}

impl Fleet {
    fn root(&self) -> &Path {
        self.folder.root()
    }

    /// The chunks that are not done.
    fn left(&self) -> Result<Vec<usize>> {
        let survey = self.folder.survey(self.plan.chunks.len())?;
        let left = survey.0.iter().enumerate();
        Ok(left.filter(|(_, state)| **state != fleet::ChunkState::Done).map(|(n, _)| n).collect())
    }
}

/// The fleet that --fleet names, or a new one there or in `place`.
fn open_or_plan(
    flags: &OnFlags,
    experiment: Experiment,
    place: &Path,
    store: &Store,
) -> Result<Fleet> {
    if let Some(root) = flags.fleet.as_ref().filter(|root| root.join("plan.json").exists()) {
        let (folder, plan) = Folder::open(&std::path::absolute(root)?)?;
        let same_seed = Experiment { seed: experiment.seed.or(plan.experiment.seed), ..experiment };
        ensure!(
            same_seed == plan.experiment,
            "{} holds a plan of another experiment: repeat the command that made it, or name another directory",
            root.display()
        );
        ensure!(
            plan.knee == env!("CARGO_PKG_VERSION"),
            "{} was planned by knee {}: go on with that one, or name another directory",
            root.display(),
            plan.knee
        );
        return Ok(Fleet { folder, plan, is_ours: false });
    }
    let plan = flags.cut.plan(experiment, store)?;
    let id = Id::new(jiff::Timestamp::now(), random() as u32);
    let root = match &flags.fleet {
        Some(root) => std::path::absolute(root)?,
        None => place.join(format!("fleet-{}", id.as_str())),
    };
    let folder = Folder::create(&root, &plan)?;
    let blocks = plan.experiment.blocks() as usize;
    hint(format_args!(
        "{} of {} in {}",
        counted(plan.chunks.len(), "chunk"),
        counted(blocks, "block"),
        root.display()
    ));
    Ok(Fleet { folder, plan, is_ours: flags.fleet.is_none() })
}

fn by_ssh(
    arguments: &Arguments,
    fleet: &Fleet,
    names: &[String],
    store: &Store,
) -> Result<ExitCode> {
    signals::catch();
    let measured = measure_by_ssh(fleet, names);
    let is_untouched = fleet.folder.survey(fleet.plan.chunks.len())?.0.iter().all(is_untouched);
    if fleet.is_ours && is_untouched {
        remove(fleet.root());
    }
    let interrupted = measured?;
    let left = fleet.left()?.len();
    if left == 0 {
        return collect(arguments, fleet, store);
    }
    let go_on = format!("the same command with --fleet {} goes on", fleet.root().display());
    if interrupted {
        if is_untouched {
            talk("interrupted before the first run: nothing to keep");
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

/// Measures on all hosts, or on none. Returns whether a signal ended it.
fn measure_by_ssh(fleet: &Fleet, names: &[String]) -> Result<bool> {
    let ssh = std::env::var("KNEE_SSH").unwrap_or_else(|_| "ssh".to_string());
    let ssh = shlex::split(&ssh).with_context(|| format!("KNEE_SSH={ssh}: unclosed quote"))?;
    let binary = fs::read("/proc/self/exe").context("reading knee's own binary")?;
    hint(format_args!("checking {}", counted(names.len(), "host")));
    let prepared = ssh::prepare_all(&ssh, names, &fleet.plan, binary);
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
        "{unfit} of {} cannot measure, so nothing was started: leave {} out",
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

/// Joins what was measured, shows it, and removes a directory that nobody named.
fn collect(arguments: &Arguments, fleet: &Fleet, store: &Store) -> Result<ExitCode> {
    let label = arguments.label.clone().unwrap_or_default();
    let collected = fleet::collect(&fleet.folder, &fleet.plan, store, &label, false)?;
    let mut status = ExitCode::SUCCESS;
    for one in &collected {
        let shown = conclude(arguments, End::Complete, Some(&one.folder), Ok(()))?;
        if shown != ExitCode::SUCCESS {
            status = shown;
        }
    }
    if collected.len() > 1 {
        hint("hosts of several kinds: each kind has a record and a verdict of its own");
    }
    if fleet.is_ours {
        remove(fleet.root());
    }
    Ok(status)
}

/// Removes a fleet's directory whose runs are kept elsewhere, or that has none.
fn remove(root: &Path) {
    if let Err(why) = fs::remove_dir_all(root) {
        talk(format_args!("removing {}: {why}: remove it by hand", root.display()));
    }
}

/// A path as a shell's word.
fn word(path: &Path) -> Result<String> {
    let text = path.to_str().with_context(|| format!("{} is not UTF-8", path.display()))?;
    Ok(shlex::try_quote(text)?.into_owned())
}

/// The path of knee's copy in a fleet's directory.
fn binary_in(root: &Path) -> PathBuf {
    root.join("knee")
}
