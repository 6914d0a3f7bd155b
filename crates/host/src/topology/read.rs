//! Reads the CPUs from /sys. Virtual machines and containers hide much of it. Missing parts get the
//! coarsest true answer: one node, one cache per package, one thread per core.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::{Cpu, Topology, parse_cpu_list};

/// The online CPUs of the host whose /sys is at `sys`.
pub fn read(sys: &Path) -> anyhow::Result<Topology> {
    let folder = sys.join("devices/system/cpu");
    let path = folder.join("online");
    let online = fs::read_to_string(&path)
        .with_context(|| format!("reading which CPUs are online from {}", path.display()))?;
    let online = parse_cpu_list(&online)
        .with_context(|| format!("{} says '{}'", path.display(), online.trim()))?;
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

/// The package of a CPU; 0 where firmware reports -1, which is not a package number.
fn package(cpu: &Path) -> u32 {
    number(&cpu.join("topology/physical_package_id")).unwrap_or(0)
}

/// The lowest CPU of a CPU's core. `core_cpus_list` was `thread_siblings_list` before
/// Linux 5.3.
fn core(cpu: &Path) -> Option<u32> {
    lowest(&cpu.join("topology/core_cpus_list"))
        .or_else(|| lowest(&cpu.join("topology/thread_siblings_list")))
}

/// The lowest CPU that shares a CPU's last-level data cache.
fn last_level_cache(cpu: &Path) -> Option<u32> {
    let holds_data =
        |cache: &PathBuf| text(&cache.join("type")).is_some_and(|kind| kind != "Instruction");
    numbered(&cpu.join("cache"), "index")
        .map(|(_, cache)| cache)
        .filter(holds_data)
        .max_by_key(|cache| number(&cache.join("level")))
        .and_then(|cache| lowest(&cache.join("shared_cpu_list")))
}

/// The NUMA node of each CPU that belongs to one.
fn nodes(folder: &Path) -> BTreeMap<u32, u32> {
    let cpus = |(node, path): (u32, PathBuf)| {
        let cpus = list(&path.join("cpulist")).unwrap_or_default();
        cpus.into_iter().map(move |cpu| (cpu, node))
    };
    numbered(folder, "node").flat_map(cpus).collect()
}

/// The entries of a folder whose name is `prefix` and a number, with that number.
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
    parse_cpu_list(&text(path)?)
}

fn number(path: &Path) -> Option<u32> {
    text(path)?.parse().ok()
}

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_string())
}
