//! The CPUs of a host and their groups, as a record keeps them: which CPUs share a core, a cache or
//! a node, and the order in which a sweep takes them into use.

mod points;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::str::FromStr;

use anyhow::anyhow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use points::{fine_points, points};
pub use read::read;

/// The CPUs of a host that a run may use, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Topology {
    /// One entry a CPU, lowest number first.
    pub cpus: Vec<Cpu>,
}

/// One CPU and the groups it belongs to. Each number is unique on the machine, unlike the kernel's
/// `core_id`, which is unique only within its package.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Cpu {
    /// The number by which Linux knows it.
    pub cpu: u32,
    /// The lowest CPU of the same core: hardware threads of one core share it.
    pub core: u32,
    /// The lowest CPU that shares the last-level cache.
    pub llc: u32,
    /// The NUMA node, as Linux numbers it.
    pub node: u32,
    /// The package (socket), as Linux numbers it.
    pub package: u32,
}

/// The CPUs that this process may use; where /sys hides the host's, without what they share. Then also why.
pub fn of_process(sys: &Path, allowed: &[u32]) -> (Topology, Option<String>) {
    match read(sys) {
        Ok(all) => (all.restricted_to(allowed), None),
        Err(why) => (Topology::of_unknown(allowed), Some(format!("{why:#}"))),
    }
}

impl Topology {
    /// CPUs of which nothing is known but their numbers: each a core of its own, in one package with one cache.
    fn of_unknown(cpus: &[u32]) -> Topology {
        let llc = cpus.first().copied().unwrap_or_default();
        let cpu = |cpu: &u32| Cpu { cpu: *cpu, core: *cpu, llc, node: 0, package: 0 };
        Topology { cpus: cpus.iter().map(cpu).collect() }
    }

    /// The topology without CPUs that are not in `allowed`. Groups keep their numbers.
    pub fn restricted_to(&self, allowed: &[u32]) -> Topology {
        let is_allowed = |c: &&Cpu| allowed.contains(&c.cpu);
        Topology { cpus: self.cpus.iter().filter(is_allowed).copied().collect() }
    }

    /// The CPUs in the order in which `placement` takes them into use. Every CPU occurs once;
    /// one-per-llc and one-per-node keep only one CPU of each group.
    pub fn order(&self, placement: Placement) -> Vec<u32> {
        self.ordered(placement).iter().map(|c| c.cpu).collect()
    }

    /// The CPUs with their groups, in the order in which `placement` takes them into use.
    pub fn ordered(&self, placement: Placement) -> Vec<Cpu> {
        let compact = compact(self);
        match placement {
            Placement::Compact => compact,
            Placement::Cores => by_thread(&compact).concat(),
            Placement::Scatter => {
                let levels: &[Group] = &[|c| c.package, |c| c.node, |c| c.llc];
                by_thread(&compact).iter().flat_map(|cpus| spread(cpus, levels)).collect()
            }
            Placement::OnePerLlc => first_of_each(&compact, |c| c.llc),
            Placement::OnePerNode => first_of_each(&compact, |c| c.node),
        }
    }
}

/// The number of a CPU's group, for one kind of group.
type Group = fn(&Cpu) -> u32;

/// The CPUs with neighbours next to each other, on every level.
fn compact(topology: &Topology) -> Vec<Cpu> {
    let mut cpus = topology.cpus.clone();
    cpus.sort_by_key(|c| (c.package, c.node, c.llc, c.core, c.cpu));
    cpus
}

/// The first thread of every core, then every second one, and so on; each in the order
/// given.
fn by_thread(cpus: &[Cpu]) -> Vec<Vec<Cpu>> {
    let mut threads: Vec<Vec<Cpu>> = Vec::new();
    let mut seen = BTreeMap::new();
    for cpu in cpus {
        let thread: &mut usize = seen.entry(cpu.core).or_default();
        if *thread == threads.len() {
            threads.push(Vec::new());
        }
        threads[*thread].push(*cpu);
        *thread += 1;
    }
    threads
}

/// The CPUs taken in turn from each group of the first level; within a group, from each group of the
/// next level.
fn spread(cpus: &[Cpu], levels: &[Group]) -> Vec<Cpu> {
    let [level, inner @ ..] = levels else { return cpus.to_vec() };
    let mut groups: BTreeMap<u32, Vec<Cpu>> = BTreeMap::new();
    for cpu in cpus {
        groups.entry(level(cpu)).or_default().push(*cpu);
    }
    let groups: Vec<_> = groups.values().map(|group| spread(group, inner)).collect();
    let turns = groups.iter().map(Vec::len).max().unwrap_or(0);
    (0..turns).flat_map(|turn| groups.iter().filter_map(move |g| g.get(turn))).copied().collect()
}

fn first_of_each(cpus: &[Cpu], group: Group) -> Vec<Cpu> {
    let mut seen = BTreeSet::new();
    cpus.iter().filter(|c| seen.insert(group(c))).copied().collect()
}

/// The order in which a sweep takes the CPUs of a host into use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All threads of a core, then the next core of the same cache, node, package.
    Compact,
    /// One thread of every core of the machine before any second one, otherwise as compact.
    #[default]
    Cores,
    /// Spread over packages, nodes, caches, cores, in this order; second threads last.
    Scatter,
    /// One CPU of each last-level cache.
    OnePerLlc,
    /// One CPU of each NUMA node.
    OnePerNode,
}

impl Placement {
    /// Every placement, in the order in which they are listed.
    pub const ALL: &[Placement] = &[
        Placement::Compact,
        Placement::Cores,
        Placement::Scatter,
        Placement::OnePerLlc,
        Placement::OnePerNode,
    ];

    /// Its name on the command line and in records.
    pub fn name(self) -> &'static str {
        match self {
            Placement::Compact => "compact",
            Placement::Cores => "cores",
            Placement::Scatter => "scatter",
            Placement::OnePerLlc => "one-per-llc",
            Placement::OnePerNode => "one-per-node",
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Placement {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Placement> {
        Placement::ALL.iter().copied().find(|p| p.name() == text).ok_or_else(|| {
            let names: Vec<_> = Placement::ALL.iter().map(|p| p.name()).collect();
            anyhow!("'{text}' is no placement: must be one of {}", names.join(", "))
        })
    }
}
