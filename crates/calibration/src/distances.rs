//! The distances between CPUs, and the pairs of CPUs that represent each distance.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use described_hosts::DISTANCES;
use host::{Cpu, Topology};

/// The most pairs that represent a distance.
const PAIRS_MAX: usize = 6;

/// The CPUs of a host as its file describes them: nodes of equally many cores of equally many threads.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuLayout {
    pub nodes: usize,
    pub cores: usize,
    pub threads: usize,
    /// Hops between each two nodes.
    pub hops: Vec<Vec<u8>>,
    cpus: Vec<Cpu>,
    node_ids: Vec<u32>,
}

/// CPUs that change one word together.
#[derive(Clone, Debug, PartialEq)]
pub struct StormCpus {
    /// Their numbers on this host.
    pub here: Vec<u32>,
    /// Their numbers in the file that describes it.
    pub described: Vec<usize>,
}

impl CpuLayout {
    /// The layout of a host whose /sys is at `sys`. Where nodes or cores differ in size, the smallest
    /// counts.
    pub fn from_topology(topology: &Topology, sys: &Path) -> CpuLayout {
        let cpus = topology.cpus.clone();
        let groups = |group: fn(&Cpu) -> u32, member: fn(&Cpu) -> u32| {
            let mut groups: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
            for cpu in &cpus {
                groups.entry(group(cpu)).or_default().insert(member(cpu));
            }
            groups
        };
        let smallest = |groups: &BTreeMap<u32, BTreeSet<u32>>| {
            groups.values().map(BTreeSet::len).min().unwrap_or(1)
        };
        let nodes = groups(|cpu| cpu.node, |cpu| cpu.core);
        let node_ids: Vec<u32> = nodes.keys().copied().collect();
        CpuLayout {
            nodes: nodes.len(),
            cores: smallest(&nodes),
            threads: smallest(&groups(|cpu| cpu.core, |cpu| cpu.cpu)),
            hops: hops(&node_ids, sys),
            cpus,
            node_ids,
        }
    }

    /// The number of CPUs that the file describes.
    pub fn described(&self) -> usize {
        self.nodes * self.cores * self.threads
    }

    /// The name of the distance between two CPUs.
    fn distance(&self, a: &Cpu, b: &Cpu) -> &'static str {
        let node = |cpu: &Cpu| self.node_ids.iter().position(|id| *id == cpu.node).unwrap_or(0);
        if a.core == b.core {
            DISTANCES[0]
        } else {
            DISTANCES[1 + usize::from(self.hops[node(a)][node(b)])]
        }
    }

    /// The names of the distances that occur.
    pub fn distances(&self) -> Vec<&'static str> {
        let far = self.hops.iter().flatten().max().copied().unwrap_or(0);
        let first = usize::from(self.threads == 1);
        DISTANCES[first..2 + usize::from(far)].to_vec()
    }

    /// Pairs of CPUs at a distance, spread evenly over all such pairs.
    pub fn pairs(&self, distance: &str) -> Vec<[u32; 2]> {
        let pairs = |(i, a): (usize, &Cpu)| {
            let others = self.cpus[i + 1..].iter();
            let at_distance = others.filter(|b| self.distance(a, b) == distance);
            let a = a.cpu;
            at_distance.map(move |b| [a, b.cpu]).collect::<Vec<_>>()
        };
        let pairs: Vec<[u32; 2]> = self.cpus.iter().enumerate().flat_map(pairs).collect();
        let count = pairs.len().min(PAIRS_MAX);
        (0..count).map(|i| pairs[i * pairs.len() / count]).collect()
    }

    /// A third CPU at the same distance from `owner` as `user`.
    pub fn third(&self, [user, owner]: [u32; 2], distance: &str) -> Option<u32> {
        let owner = self.cpus.iter().find(|cpu| cpu.cpu == owner)?;
        let mut others = self.cpus.iter().filter(|cpu| ![user, owner.cpu].contains(&cpu.cpu));
        others.find(|cpu| self.distance(cpu, owner) == distance).map(|cpu| cpu.cpu)
    }

    /// One CPU of each core of the first node.
    pub fn neighbours(&self) -> Vec<u32> {
        self.one_of_each_core(0)
    }

    fn one_of_each_core(&self, node: usize) -> Vec<u32> {
        let mut cores = BTreeSet::new();
        let on_node = self.cpus.iter().filter(|cpu| cpu.node == self.node_ids[node]);
        on_node.filter(|cpu| cores.insert(cpu.core)).map(|cpu| cpu.cpu).collect()
    }

    /// CPUs that change one word together: 2, 3, 4, 8 and so on of one node, or as many of each of two nodes at the
    /// distance. None at the distance between threads of a core.
    pub fn storms(&self, distance: &str) -> Vec<StormCpus> {
        let hops = DISTANCES.iter().position(|known| *known == distance).unwrap_or(0);
        let pairs = || (0..self.nodes).flat_map(|b| (0..b).map(move |a| [a, b]));
        let nodes: Vec<usize> = match hops {
            0 => Vec::new(),
            1 => vec![0],
            _ => {
                let pair = pairs().find(|&[a, b]| usize::from(self.hops[a][b]) + 1 == hops);
                pair.map_or(Vec::new(), |pair| pair.to_vec())
            }
        };
        let here: Vec<Vec<u32>> = nodes.iter().map(|&node| self.one_of_each_core(node)).collect();
        let most = self.cores * nodes.len();
        let counts = [2, 3].into_iter().chain((2..).map(|power| 1 << power));
        let counts = counts.take_while(|&count| count <= most.min(64));
        let counts = counts.filter(|count| count % nodes.len().max(1) == 0);
        let group = |count: usize| {
            let each = count / nodes.len();
            let cores = || {
                nodes
                    .iter()
                    .zip(&here)
                    .flat_map(|(node, here)| (0..each).map(move |i| (*node, here[i], i)))
            };
            StormCpus {
                here: cores().map(|(_, here, _)| here).collect(),
                described: cores().map(|(node, _, i)| node * self.cores + i).collect(),
            }
        };
        counts.map(group).collect()
    }
}

/// Hops between nodes: the ranks of the kernel's node distances, which have no unit.
fn hops(nodes: &[u32], sys: &Path) -> Vec<Vec<u8>> {
    let read_row = |node: &u32| -> Option<Vec<u32>> {
        let path = sys.join(format!("devices/system/node/node{node}/distance"));
        let text = fs::read_to_string(path).ok()?;
        let row: Option<Vec<u32>> = text.split_whitespace().map(|word| word.parse().ok()).collect();
        row.filter(|row| row.len() == nodes.len())
    };
    let rows: Option<Vec<Vec<u32>>> = nodes.iter().map(read_row).collect();
    let uniform = |a: usize, b: usize| if a == b { 10 } else { 20 };
    let rows = rows.unwrap_or_else(|| {
        (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| uniform(a, b)).collect()).collect()
    });
    let between = |a: usize, b: usize| rows[a][b].max(rows[b][a]);
    let distances: BTreeSet<u32> = (0..nodes.len())
        .flat_map(|a| (0..a).map(move |b| (a, b)))
        .map(|(a, b)| between(a, b))
        .collect();
    let most = DISTANCES.len() - 2;
    let rank = |a: usize, b: usize| {
        if a == b { 0 } else { (distances.range(..between(a, b)).count() + 1).min(most) as u8 }
    };
    (0..nodes.len()).map(|a| (0..nodes.len()).map(|b| rank(a, b)).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(nodes: u32, cores: u32, threads: u32) -> Topology {
        let cpu = |cpu: u32| {
            let core = cpu % (nodes * cores);
            let node = core / cores;
            Cpu { cpu, core, llc: node * cores, node, package: node }
        };
        Topology { cpus: (0..nodes * cores * threads).map(cpu).collect() }
    }

    #[test]
    fn pairs_and_third_cpus_are_at_the_distance() {
        let nowhere = Path::new("/nonexistent");
        let layout = CpuLayout::from_topology(&host(2, 2, 2), nowhere);
        assert_eq!((layout.nodes, layout.cores, layout.threads), (2, 2, 2));
        assert_eq!(layout.distances(), ["core", "node", "hop1"]);
        assert_eq!(layout.pairs("core"), [[0, 4], [1, 5], [2, 6], [3, 7]]);
        assert_eq!(layout.pairs("node").len(), PAIRS_MAX);
        assert!(layout.pairs("hop1").iter().all(|[a, b]| (a % 4 < 2) != (b % 4 < 2)));
        assert_eq!(layout.third([0, 2], "hop1"), Some(1));
        assert_eq!(layout.neighbours(), [0, 1]);
        let here = |distance| -> Vec<Vec<u32>> {
            layout.storms(distance).into_iter().map(|group| group.here).collect()
        };
        assert_eq!((here("core"), here("node")), (vec![], vec![vec![0, 1]]));
        assert_eq!(here("hop1"), [vec![0, 2], vec![0, 1, 2, 3]]);
        let storms = CpuLayout::from_topology(&host(1, 12, 1), nowhere).storms("node");
        let counts: Vec<usize> = storms.iter().map(|group| group.described.len()).collect();
        assert_eq!(counts, [2, 3, 4, 8]);
        let small = CpuLayout::from_topology(&host(1, 2, 1), nowhere);
        assert_eq!((small.distances(), small.third([0, 1], "node")), (vec!["node"], None));
        assert_eq!(
            CpuLayout::from_topology(&host(1, 1, 1), nowhere).pairs("node"),
            [[0_u32; 2]; 0]
        );
    }

    #[test]
    fn hops_are_the_ranks_of_the_kernels_distances() {
        let sys = tempfile::tempdir().unwrap();
        for (node, text) in [(0, "10 16 32\n"), (1, "16 10 32\n"), (3, "32 32 10\n")] {
            let folder = sys.path().join(format!("devices/system/node/node{node}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("distance"), text).unwrap();
        }
        assert_eq!(hops(&[0, 1, 3], sys.path()), [[0, 1, 2], [1, 0, 2], [2, 2, 0]]);
        // A missing or invalid distance counts as one hop.
        assert_eq!(hops(&[0, 7], sys.path()), [[0, 1], [1, 0]]);
    }
}
