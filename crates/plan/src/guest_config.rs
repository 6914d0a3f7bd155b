//! The virtual machines that an experiment asks for: the guests of a record, their CPUs on the host, and
//! what is refused before any boots.

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use host::parse_cpu_list;
use records::{Command, Experiment, Guest, INSTRUCTIONS, Policy, ProgramProbe, Record, Variant};

use crate::commands;

/// The guests that a record's runs need, each once.
pub fn guests(record: &Record) -> Vec<Guest> {
    let mut guests: Vec<Guest> = Vec::new();
    for point in &record.points {
        let guest = record.guest(&point.variant);
        guests.extend(guest.filter(|guest| !guests.contains(guest)));
    }
    guests
}

/// If no guest has a number of CPUs, gives all guests as many as the points need. `allowed` is the
/// number of host CPUs that this process may use, which "all" means.
pub fn complete(experiment: &mut Experiment, allowed: u32) {
    if experiment.has_metal() {
        return;
    }
    let most = most_cpus(experiment, allowed);
    let guests = || experiment.variants.iter().flat_map(|v| &v.guest).chain(&experiment.guest);
    let has_cpus = |guest: &Guest| guest.sockets.or(guest.cores).or(guest.threads).is_some();
    if guests().next().is_some() && !guests().any(has_cpus) {
        experiment.guest.get_or_insert_default().cores = Some(most);
    }
}

/// The largest number of CPUs that an axis names, or as many as this process may use.
fn most_cpus(experiment: &Experiment, allowed: u32) -> u32 {
    let axes = experiment.loads.iter().map(|load| load.axes.over(&experiment.axes));
    let words = axes.flat_map(|axes| axes.cpus.map(|many| many.0).unwrap_or_default());
    let numbers = words.flat_map(|word| {
        let numbers = word.0.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        numbers.flatten().collect::<Vec<_>>()
    });
    // "1..all" names a 1 and means all.
    let names_all = experiment.loads.iter().any(|load| {
        let axes = load.axes.over(&experiment.axes);
        axes.cpus.is_none_or(|many| many.0.iter().any(|word| word.0.contains("all")))
    });
    numbers.max().unwrap_or(1).max(if names_all { allowed } else { 1 })
}

/// The host CPUs that a guest's CPUs run on: all of `allowed` unless the guest names some.
pub fn host_cpus(guest: &Guest, allowed: &[u32]) -> Result<Vec<u32>> {
    let Some(text) = &guest.host_cpus else { return Ok(allowed.to_vec()) };
    let cpus = parse_cpu_list(text).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.with_context(|| format!("--host-cpus is '{text}', must be such as 0,2-3"))?;
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        bail!("--host-cpus names CPU {cpu}, which this process may not use");
    }
    Ok(cpus)
}

/// How long a guest may show no progress before knee gives it up.
pub fn watchdog_time(guest: &Guest) -> Result<Duration> {
    let seconds = guest.patience_s.unwrap_or(120.0);
    ensure!(
        (1.0..=1e6).contains(&seconds),
        "--patience is {seconds} s, must be from 1 to 1 000 000"
    );
    Ok(Duration::from_secs_f64(seconds))
}

/// Refuses guests that make no sense on any host.
pub fn check(experiment: &Experiment, variants: &[Variant], allowed: &[u32]) -> Result<()> {
    let or_none: Vec<Option<&Variant>> = match variants {
        [] => vec![None],
        _ => variants.iter().map(Some).collect(),
    };
    let guests: Vec<(Option<&Variant>, Guest)> = or_none
        .into_iter()
        .filter_map(|variant| Some((variant, experiment.guest(variant)?)))
        .collect();
    if experiment.has_metal() {
        return check_metal(experiment, &host_kernels(experiment, variants), guests.is_empty());
    }
    let has_settings = |guest: &Guest| *guest != Guest::default();
    if guests.is_empty() {
        ensure!(
            !experiment.is_judged_by(INSTRUCTIONS),
            "{INSTRUCTIONS} are counted in virtual machines: name a kernel to boot (--kernel FILE)"
        );
        let outer = experiment.guest.iter();
        let mut inner = variants.iter().flat_map(|variant| &variant.guest).chain(outer);
        ensure!(
            !inner.any(has_settings),
            "settings of a guest need a kernel to boot: --kernel FILE"
        );
        return Ok(());
    }
    for (variant, guest) in &guests {
        check_guest(*variant, guest, allowed)
            .with_context(|| variant.map_or(String::new(), |v| format!("variant '{}'", v.name)))?;
    }
    let storage = &experiment.storage;
    ensure!(
        !storage.on.starts_with("/dev/"),
        "the disks of guests are files: use --on loop (in --dir) or --on ram"
    );
    ensure!(
        experiment.image.is_none(),
        "a guest has no copies of the host's files: the [image] of commands is for runs on the host itself; leave \
         --kernel out, or let knee make file systems in the guest (--fs)"
    );
    let in_guests: Vec<Variant> = guests.iter().filter_map(|(v, _)| v.cloned()).collect();
    commands::for_experiment(experiment, &in_guests)?.values().try_for_each(check_command)?;
    check_directories(experiment, variants)
}

/// Refuses a command that needs more of the host than its programs, which a guest has.
fn check_command(command: &Command) -> Result<()> {
    let name = &command.name;
    let server = command.server.as_ref();
    ensure!(
        server.is_none_or(|server| server.pid.is_none() && server.template.is_none()),
        "the server of {name} runs already or starts from a folder of this host, and a guest has neither: leave --kernel \
         out, let a line of `setup` make its data, or let the host boot the kernels (--on metal)"
    );
    let counts_passes =
        command.operations.as_ref().is_some_and(|text| ProgramProbe::is_meant(&text.0));
    ensure!(
        !counts_passes,
        "the operations of {name} are passes of a probe, which are counted on the host itself: leave --kernel out, or \
         give a number or a metric (--operations, --operations-from)"
    );
    Ok(())
}

/// The kernels that the host itself boots, and whether a variant has none.
fn host_kernels(experiment: &Experiment, variants: &[Variant]) -> Vec<Option<Guest>> {
    match variants {
        [] => vec![experiment.metal(None)],
        _ => variants.iter().map(|variant| experiment.metal(Some(variant))).collect(),
    }
}

/// Refuses what cannot be measured on kernels that the host itself boots.
fn check_metal(
    experiment: &Experiment,
    kernels: &[Option<Guest>],
    without_guests: bool,
) -> Result<()> {
    ensure!(
        without_guests && kernels.iter().all(Option::is_some),
        "--on metal boots a kernel for every variant: name one for each (--kernel FILE)"
    );
    for kernel in kernels.iter().flatten() {
        let own = Guest {
            kernel: kernel.kernel.clone(),
            metal: kernel.metal,
            feature: kernel.feature.clone(),
            initrd: kernel.initrd.clone(),
            cmdline: kernel.cmdline.clone(),
            runs: kernel.runs,
            ..Guest::default()
        };
        ensure!(
            own == *kernel,
            "settings of a virtual machine (--cores, --guest-memory, --modules …) have no meaning with --on \
             metal: leave them out"
        );
        let by_feature = Guest {
            metal: kernel.metal,
            feature: kernel.feature.clone(),
            runs: kernel.runs,
            ..Guest::default()
        };
        ensure!(
            kernel.feature.is_none() || by_feature == *kernel,
            "the kernel of a feature, its initramfs and its command line are the cluster's: leave --cmdline and \
             --initrd out, and name no file"
        );
        ensure!(
            kernels
                .iter()
                .flatten()
                .all(|other| other.feature.is_some() == kernel.feature.is_some()),
            "some kernels are files and some are features of Slurm's nodes: name one sort"
        );
    }
    ensure!(
        experiment.adaptive.is_none(),
        "--cpus adaptive chooses counts while measuring, which --on metal cannot yet: name the counts"
    );
    Ok(())
}

/// Refuses directories of the host that a guest does not have.
fn check_directories(experiment: &Experiment, variants: &[Variant]) -> Result<()> {
    let loads = experiment.loads.iter().map(|load| &load.axes);
    let mut named = loads.chain([&experiment.axes]).filter_map(|axes| axes.dir.as_ref()).peekable();
    // Variants on the host itself have its directories.
    let all_in_guests = variants.iter().all(|variant| experiment.guest(Some(variant)).is_some());
    if named.peek().is_none() || !all_in_guests {
        return Ok(());
    }
    let on_disk =
        |variant: &Variant| variant.file_system.as_ref().is_some_and(|made| made.kind != "tmpfs");
    let in_a_file = experiment.storage.on == "loop" || experiment.storage.policy == Policy::Aged;
    ensure!(
        in_a_file && variants.iter().any(on_disk),
        "a guest has no directories of the host, and none of its disks lies in --dir: leave it out, \
         or measure a file system (--fs xfs --on loop)"
    );
    ensure!(
        named.all(|dirs| dirs.0.len() == 1),
        "a guest has no directories of the host: --dir only says where its disk lies, so name one"
    );
    Ok(())
}

/// Refuses a guest that cannot be booted, or that cannot run this variant.
pub fn check_guest(variant: Option<&Variant>, guest: &Guest, allowed: &[u32]) -> Result<()> {
    guest.shape()?;
    guest.accelerator_choice()?;
    host_cpus(guest, allowed)?;
    watchdog_time(guest)?;
    let words = guest.cmdline.as_deref().unwrap_or_default();
    for own in ["--", "rdinit=", "init=", "initrd="] {
        ensure!(
            !words.split_whitespace().any(|word| word == own || word.starts_with(own)),
            "the command line of a guest cannot have '{own}', which knee needs for itself"
        );
    }
    let Some(variant) = variant else { return Ok(()) };
    ensure!(
        variant.under.is_empty() && variant.binary.is_none(),
        "a guest has only this knee in it: under and binary are for runs on the host itself"
    );
    let preload = variant.environment.keys().find(|name| name.starts_with("LD_"));
    if let Some(name) = preload {
        bail!(
            "a guest has no libraries of the host but those of its programs: leave env.{name} out"
        );
    }
    ensure!(
        variant.dir.is_none(),
        "a guest has no directories of the host: use --fs to measure a file system"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_boots_kernels_has_no_settings_of_a_machine() {
        let experiment = |guest: &str| {
            Experiment::read(&format!(
                "[guest]\nmetal = true\n{guest}\n[[load]]\nworkload = 'getppid'"
            ))
            .expect("an experiment")
        };
        let why = |guest: &str| {
            let refused = check(&experiment(guest), &[], &[0]).err();
            refused.map(|why| why.to_string()).unwrap_or_default()
        };
        assert_eq!(why("kernel = 'k'\ninitrd = 'none'\ncmdline = 'nopv'\nruns = 2"), "");
        assert!(why("kernel = 'k'\ncores = 2").contains("virtual machine"));
        // The host's CPUs are those of a variant whose kernel the host boots.
        let metal = experiment("kernel = 'k'");
        assert!(metal.guest(None).is_none() && metal.metal(None).is_some());
        assert!(!experiment("").has_metal());
    }
}
