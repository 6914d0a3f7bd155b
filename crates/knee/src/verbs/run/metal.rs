//! `knee run --on metal`: measures kernels on this host, which boots each of them. A boot ends this process, so
//! `knee metal` starts the command again after it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, anyhow, ensure};
use guests::kernel::{build_id_in, version_in};
use host::terminal::{hint, talk};
use host::{command_line, question, random, signals};
use records::{Experiment, Guest};
use runner::{End, Measured};
use setup::foreign::{Foreign, Permitted};
use setup::metal::{self, Reboots, Restart, Trip};
use store::Store;

use super::{Arguments, conclude, measure_with, options};
use crate::experiment_file;
use crate::flags::OnFlags;

/// The variables that decide where knee finds its files. A unit of systemd has none of them.
const KEPT_VARIABLES: [&str; 8] = [
    "HOME",
    "KNEE_RECORDS",
    "PATH",
    "TMPDIR",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
];

/// Measures the runs of the boot that the host is in, then reboots it into the next kernel, and at the end into
/// its own.
pub fn run(
    arguments: &Arguments,
    flags: &OnFlags,
    experiment: Foreign<Experiment>,
    store: &Store,
) -> Result<ExitCode> {
    let restart = if flags.boot_script { Restart::Script } else { Restart::Unit };
    ensure!(host::paths::user() == 0, "only root may boot another kernel (--on metal)");
    let (mut experiment, is_agreed) =
        experiment_file::permitted_with(experiment, arguments.yes, |experiment| {
            format!("{}\n", reboots_of(experiment))
        })?;
    let mut reboots = Reboots::open()?;
    if reboots.is_stale()? {
        talk("cleared the boots that a knee that was killed had planned for this host");
        reboots.clear()?;
    }
    let given: Vec<String> = command_line().into_iter().skip(1).collect();
    let (trip, arrival) = match reboots.trip().cloned() {
        Some(trip) => {
            ensure!(
                trip.arguments == given,
                "this host is being rebooted for `knee {}`: `knee metal --clean` ends that",
                trip.arguments.join(" ")
            );
            (trip, Some(reboots.arrive()?))
        }
        None => {
            let (trip, planned) =
                plan_trip(arguments, restart, given, experiment, store, is_agreed)?;
            experiment = planned;
            (trip, None)
        }
    };
    if let Some(lost) = arrival.as_ref().and_then(|a| a.lost.last().filter(|_| a.up_s.is_none())) {
        talk(format_args!("a boot was lost: {lost}"));
    }
    let options = runner::Options { metal: Some(arrival), ..options(arguments)? };
    let measured = measure_with(arguments, experiment, options, store);
    let measured = match measured {
        Ok((Measured { next_boot: Some(boot), .. }, _)) if signals::received().is_none() => {
            let kernel = boot.guest.kernel.as_deref().unwrap_or(Path::new("?"));
            let words = boot.guest.cmdline.as_deref().unwrap_or_default();
            talk(format_args!("block {}: rebooting into {} {words}", boot.block, kernel.display()));
            let restart = reboots.boot(trip.clone(), boot);
            Err(restart.err().unwrap_or_else(|| anyhow!("the host did not reboot")))
        }
        other => other,
    };
    let shown = measured.and_then(|(Measured { end, folder, .. }, printed)| {
        Ok((end, conclude(arguments, end, folder.as_deref(), printed)?))
    });
    reboots.clear()?;
    if matches!(shown, Ok((End::Interrupted, _))) {
        let seed = if arguments.seed.is_some() { "" } else { " (add the --seed of the record)" };
        let away =
            if metal::is_away()? { "; a reboot returns to the host's own kernel" } else { "" };
        hint(format_args!("--resume goes on{seed}{away}"));
    } else if metal::is_away()? {
        if let Err(why) = &shown {
            talk(format_args!("knee: {why:#}"));
        }
        talk("rebooting into the host's own kernel");
        reboots.return_home(trip.restart)?;
    }
    Ok(shown?.1)
}

/// What all boots of this command need, and the experiment with the seed of all. Refuses what cannot work, and asks unless
/// the user has agreed already.
fn plan_trip(
    arguments: &Arguments,
    restart: Restart,
    mut given: Vec<String>,
    mut experiment: Permitted<Experiment>,
    store: &Store,
    is_agreed: bool,
) -> Result<(Trip, Permitted<Experiment>)> {
    metal::check_host(restart)?.into_iter().for_each(hint);
    ensure!(
        !metal::is_away()?,
        "this host still runs a kernel that knee booted: reboot it, so that its own command line is known"
    );
    metal::check_that_it_survives_a_boot(store.root())?;
    let kernels = kernels(&experiment);
    ensure!(!kernels.is_empty(), "--on metal boots kernels: name them (--kernel FILE)");
    let files = kernels.iter().map(|guest| {
        Ok((guest.kernel.clone().context("a boot has a kernel")?, metal::initrd(guest)?))
    });
    let files: BTreeSet<(PathBuf, Option<PathBuf>)> = files.collect::<Result<_>>()?;
    let mut build_ids = BTreeMap::new();
    for (kernel, initrd) in files {
        let version = version_in(&kernel)?;
        for file in [Some(&kernel), initrd.as_ref()].into_iter().flatten() {
            metal::check_that_it_survives_a_boot(file)?;
        }
        let beside = initrd.map_or("none".to_string(), |path| path.display().to_string());
        hint(format_args!("{}: {version}; initramfs {beside}", kernel.display()));
        if let Some(build_id) = build_id_in(&kernel)? {
            build_ids.insert(kernel, build_id);
        }
    }
    // The next session must choose the same boots.
    let at = given.iter().position(|word| word == "run").map_or(0, |at| at + 1);
    if experiment.seed.is_none() {
        let seed = random() >> 1;
        experiment = experiment.map(|experiment| Experiment { seed: Some(seed), ..experiment });
        given.splice(at..at, ["--seed".to_string(), seed.to_string()]);
    }
    if !arguments.yes && !is_agreed {
        let question = format!("{} Reboot?", reboots_of(&experiment));
        question::ask(&question, "the host was not rebooted", "--yes says so on the command line")?;
    }
    if !arguments.yes {
        given.insert(at, "--yes".to_string());
    }
    let variables = KEPT_VARIABLES.iter();
    let environment: BTreeMap<String, String> =
        variables.filter_map(|name| Some((name.to_string(), std::env::var(name).ok()?))).collect();
    let trip = Trip {
        arguments: given,
        directory: std::env::current_dir().context("looking for the current directory")?,
        environment,
        restart,
        command_line: metal::own_command_line()?,
        own_kernel: metal::running_version()?,
        build_ids,
    };
    Ok((trip, experiment))
}

/// How often the host reboots, as sentences.
fn reboots_of(experiment: &Experiment) -> String {
    let boots = experiment.blocks() as usize * kernels(experiment).len() + 1;
    format!(
        "This host reboots some {boots} times, into these kernels and at the end into its own. All that runs on it is \
         stopped."
    )
}

/// The kernels that the host boots, each once.
fn kernels(experiment: &Experiment) -> Vec<Guest> {
    let variants = plan::variants::combined(experiment).unwrap_or_default();
    let mut kernels: Vec<Guest> = Vec::new();
    let or_none = variants.iter().map(Some).chain(variants.is_empty().then_some(None));
    for guest in or_none.filter_map(|variant| experiment.metal(variant)) {
        if !kernels.contains(&guest) {
            kernels.push(guest);
        }
    }
    kernels
}
