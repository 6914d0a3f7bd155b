//! The numbers of CPUs at which a sweep measures: those that the user asks for; by default, those at
//! the edges of the topology.

use std::collections::{BTreeMap, BTreeSet};
use std::iter;

use anyhow::{anyhow, bail};

use crate::{Cpu, Placement, Topology, counted};

/// The number of a CPU's group, for one kind of group.
type Group = fn(&Cpu) -> u32;

/// With more packages or nodes than this, only the first is an edge: some virtual machines have one
/// for every CPU or two.
const GROUPS_MAX: usize = 16;

/// Powers of two, the edges of the topology in the order of the placement, and all CPUs. An edge is
/// a count of CPUs after which the next CPU is the first of another cache, node or package, or the
/// second thread of a core.
pub fn default_points(topology: &Topology, placement: Placement) -> Vec<u32> {
    let order = topology.ordered(placement);
    let all = order.len() as u32;
    let doubling = iter::successors(Some(1), |n| Some(n * 2)).take_while(|n| *n <= all);
    let counts: BTreeSet<_> = doubling.chain(edges(&order, placement)).chain([all]).collect();
    counts.into_iter().filter(|n| *n > 0).collect()
}

/// Counts fine enough for a search: each up to 64, beyond that 3 % apart, and the default points.
pub fn fine_points(topology: &Topology, placement: Placement) -> Vec<u32> {
    const EACH: u32 = 64;
    const STEP: f64 = 1.03;
    let all = topology.ordered(placement).len() as u32;
    let step = |n: &u32| Some(if *n < EACH { n + 1 } else { (f64::from(*n) * STEP).ceil() as u32 });
    let counts = iter::successors(Some(1), step).take_while(|n| *n <= all);
    let counts: BTreeSet<u32> = counts.chain(default_points(topology, placement)).collect();
    counts.into_iter().collect()
}

/// The counts that `spec` means: `all`, `cores`, `7`, `1..all` (both ends and the default points
/// between them), `1-8` (every count), `1..8:2` (steps), `1..81*3` (multiplied), or several of them separated by commas.
pub fn points(spec: &str, topology: &Topology, placement: Placement) -> anyhow::Result<Vec<u32>> {
    let order = topology.ordered(placement);
    if order.is_empty() {
        bail!("this host allows no CPU to run on");
    }
    let scale = Scale {
        defaults: default_points(topology, placement),
        all: order.len() as u32,
        cores: cores(&order),
        placement,
    };
    let mut counts = BTreeSet::new();
    for part in spec.split(',') {
        counts.extend(scale.counts(part.trim())?);
    }
    Ok(counts.into_iter().collect())
}

/// The values of the words in a specification on this host.
struct Scale {
    defaults: Vec<u32>,
    all: u32,
    cores: u32,
    placement: Placement,
}

impl Scale {
    fn counts(&self, part: &str) -> anyhow::Result<Vec<u32>> {
        if let Some(counts) = self.stepped(part) {
            return counts;
        }
        if let Some((first, last)) = part.split_once("..") {
            let (first, last) = self.range(part, first, last)?;
            let inside = self.defaults.iter().copied().filter(|n| (first..=last).contains(n));
            return Ok(inside.chain([first, last]).collect());
        }
        if let Some((first, last)) = part.split_once('-') {
            let (first, last) = self.range(part, first, last)?;
            return Ok((first..=last).collect());
        }
        Ok(vec![self.count(part, part)?])
    }

    /// The counts of `1..8:2`, which takes steps, or of `1..81*3`, which multiplies; `None` if `part` is neither.
    fn stepped(&self, part: &str) -> Option<anyhow::Result<Vec<u32>>> {
        let sign = if part.contains(':') { ':' } else { '*' };
        let (range, by) = part.split_once(sign)?;
        let (first, last) = range.split_once("..")?;
        let least = if sign == ':' { 1 } else { 2 };
        let by = by.trim().parse::<u32>().ok().filter(|by| *by >= least)?;
        let next = move |count: &u32| {
            if sign == ':' { count.checked_add(by) } else { count.checked_mul(by) }
        };
        Some(self.range(part, first, last).map(|(first, last)| {
            let counts = iter::successors(Some(first), next).take_while(|count| *count <= last);
            let end = (sign == '*').then_some(last);
            counts.chain(end).collect()
        }))
    }

    fn range(&self, part: &str, first: &str, last: &str) -> anyhow::Result<(u32, u32)> {
        let (first, last) = (self.count(part, first)?, self.count(part, last)?);
        if first > last {
            bail!("'{part}' runs backwards, from {first} to {last} CPUs: put the lower end first");
        }
        Ok((first, last))
    }

    /// A single number of CPUs, written as `text` within `part`.
    fn count(&self, part: &str, text: &str) -> anyhow::Result<u32> {
        let count = match text.trim() {
            "all" => u64::from(self.all),
            "cores" => u64::from(self.cores),
            number => number.parse().map_err(|_| {
                anyhow!(
                    "'{part}' is not a number of CPUs: use a number, cores, all, 1..all (doubling, \
                     plus the edges of the topology), 1-8 (each), 1..8:2 (steps), or several separated by commas"
                )
            })?,
        };
        if count == 0 {
            bail!("'{part}' asks for 0 CPUs: use 1..all");
        }
        if count > u64::from(self.all) {
            bail!("{}; {count} were asked for: use 1..all", self.allows());
        }
        Ok(count as u32)
    }

    fn allows(&self) -> String {
        let cpus = counted(self.all as usize, "CPU");
        match self.placement {
            Placement::OnePerLlc | Placement::OnePerNode => {
                format!("placement {} uses {cpus} of this host", self.placement)
            }
            _ => format!("this host allows {cpus}"),
        }
    }
}

fn edges(order: &[Cpu], placement: Placement) -> Vec<u32> {
    let cores = cores(order);
    let first_threads = &order[..cores as usize];
    match placement {
        Placement::Compact => {
            let core = filled(order, |c| c.core).into_iter().next();
            core.into_iter().chain(edges_of_neighbours(order)).collect()
        }
        Placement::Cores => edges_of_neighbours(first_threads).into_iter().chain([cores]).collect(),
        Placement::Scatter => {
            let levels: [Group; 4] = [|c| c.package, |c| c.node, |c| c.llc, |c| c.core];
            levels.iter().map(|group| begun(order, *group)).collect()
        }
        Placement::OnePerLlc | Placement::OnePerNode => edges_of_neighbours(order),
    }
}

/// The edges of an order with neighbours next to each other: where the first cache is full, and
/// where each node and each package is full.
fn edges_of_neighbours(cpus: &[Cpu]) -> Vec<u32> {
    let mut edges: Vec<_> = filled(cpus, |c| c.llc).into_iter().take(1).collect();
    let groups: [Group; 2] = [|c| c.node, |c| c.package];
    for group in groups {
        let filled = filled(cpus, group);
        let take = if filled.len() > GROUPS_MAX { 1 } else { filled.len() };
        edges.extend(&filled[..take]);
    }
    edges
}

/// The counts of CPUs at which a group is complete. A group of one CPU does not count.
fn filled(cpus: &[Cpu], group: Group) -> Vec<u32> {
    let mut sizes_and_ends: BTreeMap<u32, (u32, u32)> = BTreeMap::new();
    for (count, cpu) in (1..).zip(cpus) {
        let (size, end) = sizes_and_ends.entry(group(cpu)).or_default();
        (*size, *end) = (*size + 1, count);
    }
    let several = sizes_and_ends.values().filter(|(size, _)| *size > 1);
    let mut ends: Vec<_> = several.map(|(_, end)| *end).collect();
    ends.sort_unstable();
    ends
}

/// The count of CPUs at which every group has its first CPU.
fn begun(cpus: &[Cpu], group: Group) -> u32 {
    let mut seen = BTreeSet::new();
    let firsts = (1..).zip(cpus).filter(|(_, cpu)| seen.insert(group(cpu)));
    firsts.last().map_or(0, |(count, _)| count)
}

fn cores(cpus: &[Cpu]) -> u32 {
    cpus.iter().map(|c| c.core).collect::<BTreeSet<_>>().len() as u32
}
