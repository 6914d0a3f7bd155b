//! Reading the CPUs from /sys, and which of them this process may use. Virtual machines
//! and containers hide much of it: what is missing is filled in with the coarsest true
//! answer (one node, one cache a package, one thread a core).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{fs, io, mem};

use anyhow::{Context, bail};
use records::{Cpu, Topology};

/// The largest number of CPUs that Linux can be built for.
const CPUS_MAX: usize = 8192;

/// The online CPUs of the host whose /sys is at `sys`.
pub fn read(sys: &Path) -> anyhow::Result<Topology> {
    let folder = sys.join("devices/system/cpu");
    let path = folder.join("online");
    let online = fs::read_to_string(&path)
        .with_context(|| format!("reading which CPUs are online from {}", path.display()))?;
    let online =
        parse_cpu_list(&online).with_context(|| format!("understanding {}", path.display()))?;
    let nodes = nodes(&sys.join("devices/system/node"));
    let mut first_of_package = BTreeMap::new();
    let cpu = |cpu: u32| {
        let folder = folder.join(format!("cpu{cpu}"));
        let package = package(&folder);
        let first_of_package = *first_of_package.entry(package).or_insert(cpu);
        Cpu {
            cpu,
            core: core(&folder).unwrap_or(cpu),
            llc: last_level_cache(&folder).unwrap_or(first_of_package),
            node: nodes.get(&cpu).copied().unwrap_or(0),
            package,
        }
    };
    Ok(Topology { cpus: online.into_iter().map(cpu).collect() })
}

/// The package of a CPU. Some firmware says -1, which is no number of a package.
fn package(cpu: &Path) -> u32 {
    number(&cpu.join("topology/physical_package_id")).unwrap_or(0)
}

/// The lowest CPU of a CPU's core. `core_cpus_list` was `thread_siblings_list` before
/// Linux 5.3.
fn core(cpu: &Path) -> Option<u32> {
    lowest(&cpu.join("topology/core_cpus_list"))
        .or_else(|| lowest(&cpu.join("topology/thread_siblings_list")))
}

/// The lowest CPU that shares a CPU's largest cache of data.
fn last_level_cache(cpu: &Path) -> Option<u32> {
    let holds_data =
        |cache: &PathBuf| text(&cache.join("type")).is_some_and(|kind| kind != "Instruction");
    numbered(&cpu.join("cache"), "index")
        .map(|(_, cache)| cache)
        .filter(holds_data)
        .max_by_key(|cache| number(&cache.join("level")))
        .and_then(|cache| lowest(&cache.join("shared_cpu_list")))
}

/// The node of each CPU that is in one.
fn nodes(folder: &Path) -> BTreeMap<u32, u32> {
    let cpus = |(node, path): (u32, PathBuf)| {
        let cpus = list(&path.join("cpulist")).unwrap_or_default();
        cpus.into_iter().map(move |cpu| (cpu, node))
    };
    numbered(folder, "node").flat_map(cpus).collect()
}

/// What is called `prefix` and a number in a folder: the number and the path.
fn numbered(folder: &Path, prefix: &str) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(move |entry| {
        let number = entry.file_name().to_str()?.strip_prefix(prefix)?.parse().ok()?;
        Some((number, entry.path()))
    })
}

fn lowest(path: &Path) -> Option<u32> {
    list(path)?.first().copied()
}

fn list(path: &Path) -> Option<Vec<u32>> {
    parse_cpu_list(&text(path)?).ok()
}

fn number(path: &Path) -> Option<u32> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}

/// The CPUs that this process may run on.
pub fn allowed() -> anyhow::Result<Vec<u32>> {
    let mut mask = [0u64; CPUS_MAX / u64::BITS as usize];
    // SAFETY: the kernel writes the live mask, whose length in bytes it is told.
    let result =
        unsafe { libc::sched_getaffinity(0, mem::size_of_val(&mask), mask.as_mut_ptr().cast()) };
    if result != 0 {
        return Err(io::Error::last_os_error()).context("asking which CPUs are allowed");
    }
    let is_set = |cpu: &u32| mask[*cpu as usize / 64] >> (cpu % 64) & 1 == 1;
    Ok((0..CPUS_MAX as u32).filter(is_set).collect())
}

/// A list of CPUs as the kernel prints it: `0-3,8,10-11`. The empty list is one too.
pub fn parse_cpu_list(text: &str) -> anyhow::Result<Vec<u32>> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_cpu(first)?, parse_cpu(last)?);
        if first > last {
            bail!("the CPU range '{part}' runs backwards");
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn parse_cpu(text: &str) -> anyhow::Result<u32> {
    match text.trim().parse::<u32>() {
        Ok(cpu) if (cpu as usize) < CPUS_MAX => Ok(cpu),
        _ => bail!("'{text}' is not a CPU number (a list looks like 0-3,8,10-11)"),
    }
}
