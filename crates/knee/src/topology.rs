//! The CPUs of this host: which there are, how they are grouped, in which order a
//! sweep takes them into use, and at how many of them it stops to measure. The types
//! that a record keeps are in `records`; here is what makes and orders them.

mod points;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

pub use points::points;
pub use read::read;
pub use records::{Cpu, Placement, Topology};

/// The CPUs in the order in which `placement` takes them into use. Every CPU comes
/// once, except that one-per-llc and one-per-node leave out all but one of a group.
pub fn order(topology: &Topology, placement: Placement) -> Vec<u32> {
    ordered(topology, placement).iter().map(|c| c.cpu).collect()
}

/// The group that a CPU is in, of one kind of group.
type Group = fn(&Cpu) -> u32;

pub fn ordered(topology: &Topology, placement: Placement) -> Vec<Cpu> {
    let compact = compact(topology);
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

/// Neighbours next to each other, on every level.
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

/// In turn from each group of the first level, within it from each group of the next.
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
