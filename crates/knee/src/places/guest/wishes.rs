//! What guests are asked for: the machines of a record, their shapes and their CPUs, and what
//! cannot be meant.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use guests::shape::Shape;
use records::{Cpu, Experiment, Guest, Policy, Record, Topology, Variant};

use super::hypervisor::Wish;
use crate::file_systems;

/// The machines that a record's runs are made in, each once.
pub fn wanted(record: &Record) -> Vec<Guest> {
    let mut wanted: Vec<Guest> = Vec::new();
    for point in &record.points {
        let guest = record.guest(&point.variant);
        wanted.extend(guest.filter(|guest| !wanted.contains(guest)));
    }
    wanted
}

/// Gives each guest that does not say how many CPUs it has as many as the points need, and kernel
/// files paths that hold wherever knee is started.
pub fn complete(experiment: &mut Experiment) -> Result<()> {
    let most = cpus_asked_for(experiment)?;
    let guests = experiment.variants.iter_mut().flat_map(|variant| &mut variant.guest);
    for guest in guests.chain(&mut experiment.guest) {
        for path in [&mut guest.kernel, &mut guest.modules].into_iter().flatten() {
            *path = path
                .canonicalize()
                .with_context(|| format!("looking for {} (--kernel)", path.display()))?;
        }
    }
    let variants: Vec<Option<&Variant>> = match experiment.variants.is_empty() {
        true => vec![None],
        false => experiment.variants.iter().map(Some).collect(),
    };
    let shaped = |guest: &Guest| guest.sockets.or(guest.cores).or(guest.threads).is_some();
    let asked: Vec<Guest> =
        variants.iter().flat_map(|variant| variant.and_then(|v| v.guest.clone())).collect();
    let any = experiment.guest.is_some() || !asked.is_empty();
    if any && !asked.iter().chain(&experiment.guest).any(shaped) {
        experiment.guest.get_or_insert_default().cores = Some(most);
    }
    Ok(())
}

/// The most CPUs that an axis names; else as many as this process may use.
fn cpus_asked_for(experiment: &Experiment) -> Result<u32> {
    let axes = experiment.loads.iter().map(|load| load.axes.over(&experiment.axes));
    let words = axes.flat_map(|axes| axes.cpus.map(|many| many.0).unwrap_or_default());
    let numbers = words.flat_map(|word| {
        let numbers = word.0.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
        numbers.flatten().collect::<Vec<_>>()
    });
    let here = allowed()?.len() as u32;
    // "1..all" names a 1 and means all.
    let all = experiment.loads.iter().any(|load| {
        let axes = load.axes.over(&experiment.axes);
        axes.cpus.is_none_or(|many| many.0.iter().any(|word| word.0.contains("all")))
    });
    Ok(numbers.max().unwrap_or(1).max(if all { here } else { 1 }))
}

/// The CPUs of the host that this process may use.
fn allowed() -> Result<Vec<u32>> {
    probes::limits(Path::new("/")).cpus_allowed.map_err(anyhow::Error::msg)
}

/// Memory that a kernel wants, and more for each CPU.
const MEMORY: u64 = 1 << 30;
const MEMORY_PER_CPU: u64 = 64 << 20;

/// The shape of a guest.
pub fn shape(guest: &Guest) -> Result<Shape> {
    let (sockets, cores, threads) =
        (guest.sockets.unwrap_or(1), guest.cores.unwrap_or(1), guest.threads.unwrap_or(1));
    let cpus = sockets.saturating_mul(cores).saturating_mul(threads) as u64;
    let memory = match &guest.memory {
        Some(word) => file_systems::bytes(&word.0).context("memory of the guest")?,
        None => MEMORY + cpus * MEMORY_PER_CPU,
    };
    let distances = guest.numa_distance.as_deref().map(distances).transpose()?;
    let shape = Shape { sockets, cores, threads, distances, memory };
    shape.check()?;
    Ok(shape)
}

fn distances(text: &str) -> Result<(u32, u32)> {
    let numbers = text.split_once(',');
    let number = |text: &str| text.trim().parse::<u32>().ok();
    numbers
        .and_then(|(own, other)| Some((number(own)?, number(other)?)))
        .with_context(|| format!("--numa-distance is '{text}', must be OWN,OTHER such as 10,21"))
}

/// The CPUs as Linux will number them in a machine of this shape.
pub fn topology(shape: &Shape) -> Topology {
    let cpus = (0..shape.cpus()).map(|cpu| {
        let (socket, ..) = shape.place(cpu);
        let of_socket = shape.cores * shape.threads;
        Cpu {
            cpu,
            core: cpu - cpu % shape.threads,
            // QEMU gives each package one last-level cache.
            llc: socket * of_socket,
            node: if shape.distances.is_some() { socket } else { 0 },
            package: socket,
        }
    });
    Topology { cpus: cpus.collect() }
}

/// The CPUs of the host that a guest's run on.
pub fn host_cpus(guest: &Guest) -> Result<Vec<u32>> {
    let allowed = allowed()?;
    let Some(text) = &guest.host_cpus else { return Ok(allowed) };
    let cpus = probes::parse_cpu_list(text).filter(|cpus| !cpus.is_empty());
    let cpus = cpus.with_context(|| format!("--host-cpus is '{text}', must be such as 0,2-3"))?;
    if let Some(cpu) = cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        bail!("--host-cpus names CPU {cpu}, which this process may not use");
    }
    Ok(cpus)
}

/// How long a guest may give no sign of life.
pub fn patience(guest: &Guest) -> Result<Duration> {
    let seconds = guest.patience_s.unwrap_or(120.0);
    ensure!(
        (1.0..=1e6).contains(&seconds),
        "--patience is {seconds} s, must be from 1 to 1 000 000"
    );
    Ok(Duration::from_secs_f64(seconds))
}

/// Refuses what cannot be meant, whatever the host.
pub fn check_words(experiment: &Experiment, variants: &[Variant]) -> Result<()> {
    let all: Vec<Option<&Variant>> = match variants {
        [] => vec![None],
        _ => variants.iter().map(Some).collect(),
    };
    let guests: Vec<(Option<&Variant>, Guest)> =
        all.into_iter().filter_map(|variant| Some((variant, experiment.guest(variant)?))).collect();
    let says_something = |guest: &Guest| *guest != Guest::default();
    if guests.is_empty() {
        let outer = experiment.guest.iter();
        let mut inner = variants.iter().flat_map(|variant| &variant.guest).chain(outer);
        ensure!(
            !inner.any(says_something),
            "what is said about a guest needs a kernel to boot: --kernel FILE"
        );
        return Ok(());
    }
    for (variant, guest) in &guests {
        check_one(*variant, guest)
            .with_context(|| variant.map_or(String::new(), |v| format!("variant '{}'", v.name)))?;
    }
    let storage = &experiment.storage;
    ensure!(
        !storage.on.starts_with("/dev/"),
        "the disks of guests are files: use --on loop (in --dir) or --on ram"
    );
    ensure!(
        experiment.image.is_none() && experiment.loads.iter().all(|load| load.command.is_none()),
        "a guest has only knee in it: commands, and the [image] of one, are for runs on the host \
         itself; leave --kernel out, or measure a workload (knee list workloads)"
    );
    check_directories(experiment, variants)
}

/// Refuses directories of the host where a guest would not meet them.
fn check_directories(experiment: &Experiment, variants: &[Variant]) -> Result<()> {
    let loads = experiment.loads.iter().map(|load| &load.axes);
    let mut named = loads.chain([&experiment.axes]).filter_map(|axes| axes.dir.as_ref()).peekable();
    // Variants on the host itself have them.
    let all = variants.iter().all(|variant| experiment.guest(Some(variant)).is_some());
    if named.peek().is_none() || !all {
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

/// Refuses one machine, for these runs.
pub fn check_one(variant: Option<&Variant>, guest: &Guest) -> Result<()> {
    shape(guest)?;
    Wish::of(guest)?;
    host_cpus(guest)?;
    patience(guest)?;
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
    ensure!(
        variant.dir.is_none(),
        "a guest has no directories of the host: use --fs to measure a file system"
    );
    Ok(())
}
