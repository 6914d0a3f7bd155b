//! Described hosts: `hosts/*.toml`, those that come with knee and those that
//! `knee calibrate` makes. Every number says whether it was found (in which publication),
//! measured (where, when) or assumed (in which range, why).

mod number;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use engines::simulated::{CPUS_MAX, Costs, Cpu, Guest, Host, PauseLoop, Transfer};
use host::Topology;
use serde::Deserialize;

pub use number::{Draw, Number, Origin};
use number::{Units, Written};

use host::nearest;

macro_rules! hosts {
    ($($name:literal,)*) => {
        /// The hosts that come with knee: name and file.
        pub static HOSTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../hosts/", $name, ".toml"))),)*];
    };
}

hosts! {
    "generic-2s",
    "guest-16",
    "icelake-2s",
    "ivybridge-ex-4s",
    "modern-8n",
    "opteron-32",
    "uma-2",
    "westmere-ex-8s",
}

/// A host as its file describes it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    about: String,
    nodes: usize,
    cores: usize,
    threads: usize,
    ghz: Option<f64>,
    #[serde(default)]
    hops: Option<Hops>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    transfer: BTreeMap<String, Transfers>,
    costs: BTreeMap<String, Written>,
}

/// How far nodes are from each other: all alike, or a square of distances, 0 on its diagonal.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Hops {
    Alike(u8),
    Each(Vec<Vec<u8>>),
}

type Transfers = BTreeMap<String, Written>;

/// A described host.
#[derive(Clone, Debug)]
pub struct Described {
    /// What it is called.
    pub name: String,
    /// What it is, in a paragraph.
    pub about: String,
    /// What its numbers were found in, by the names that they use.
    pub sources: BTreeMap<String, String>,
    cpus: Vec<Cpu>,
    distances: Vec<Vec<u8>>,
    /// The number of distances, from the threads of a core on.
    reach: usize,
    numbers: BTreeMap<String, Number>,
}

/// Distances by name: threads of one core, within a node, and by hops between nodes.
pub const DISTANCES: [&str; 5] = ["core", "node", "hop1", "hop2", "hop3"];
/// What a line costs over a distance, as `Transfer` of the engine has it.
pub const TRANSFERS: [&str; 7] = [
    "load_modified",
    "load_shared",
    "load_memory",
    "store_modified",
    "store_shared",
    "atomic_modified",
    "atomic_shared",
];
/// What does not depend on the distance, as `Costs` of the engine has it.
pub const COSTS: [&str; 20] = [
    "load",
    "store",
    "atomic",
    "busy",
    "busy_shared",
    "read_moves",
    "hold",
    "pause",
    "both_threads",
    "park",
    "wake",
    "wake_each",
    "wake_latency",
    "switch",
    "slice",
    "period",
    "wake_lead",
    "interrupt_send",
    "interrupt_delivery",
    "interrupt_entry",
];

/// What a host may have beside, as `Costs` of the engine has it. What a file does not have is not
/// there: links and memories are never busy, nobody leaves a guest for spinning.
pub const OPTIONAL: [&str; 6] = ["link", "memory", "exit", "kick", "ple_window", "ple_gap"];
/// Which of them are what a line takes, so that a file may say `GB/s`.
const OF_LINES: [&str; 2] = ["link", "memory"];

/// The host of this name: one that comes with knee, one of the directory `hosts`, or a file.
pub fn find(name: &str) -> Result<Described> {
    if let Some((name, text)) = HOSTS.iter().find(|(known, _)| *known == name) {
        return parse(name, text).with_context(|| format!("host {name}"));
    }
    let below = format!("hosts/{name}.toml");
    let path = if Path::new(&below).exists() { Path::new(&below) } else { Path::new(name) };
    if name.ends_with(".toml") || path.exists() {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return parse(&stem, &text).with_context(|| format!("host {name}"));
    }
    let names = HOSTS.iter().map(|(name, _)| *name);
    bail!("there is no host {name:?}{}; see: knee list hosts, or name a file", nearest(name, names))
}

/// The host that a file of this text describes.
pub fn parse(name: &str, text: &str) -> Result<Described> {
    let file: File = toml::from_str(text)?;
    let (cpus, nodes) = (file.nodes.saturating_mul(file.cores), file.nodes);
    let cpus = cpus.saturating_mul(file.threads);
    ensure!((1..=CPUS_MAX).contains(&cpus), "{cpus} CPUs: 1 to {CPUS_MAX} can be simulated");
    if let Some(ghz) = file.ghz {
        ensure!(ghz.is_finite() && ghz > 0.0, "ghz = {ghz}: a clock goes forward");
    }
    let distances = distances(nodes, &file.hops)?;
    let farthest = distances.iter().flatten().copied().max().unwrap_or(1);
    let reach = usize::from(farthest) + 1;
    ensure!(reach <= DISTANCES.len(), "nodes are at most {} hops apart", DISTANCES.len() - 2);
    let units = Units { cycle_ps: file.ghz.map(|ghz| 1000.0 / ghz), of_line: false };
    let sources: Vec<String> = file.sources.keys().cloned().collect();
    let mut numbers = BTreeMap::new();
    let mut take = |place: &str, table: &Transfers, keys: &[&str], more: &[&str]| -> Result<()> {
        let all = [keys, more].concat();
        if let Some(other) = table.keys().find(|key| !all.contains(&key.as_str())) {
            bail!("[{place}] has {other:?}; it can have {}", all.join(", "));
        }
        if let Some(key) = keys.iter().find(|key| !table.contains_key(**key)) {
            bail!("{place}.{key} is missing");
        }
        for (key, written) in table {
            let at = || format!("{place}.{key}");
            let units = Units { of_line: OF_LINES.contains(&key.as_str()), ..units };
            numbers.insert(at(), written.number(units, &sources).with_context(at)?);
        }
        Ok(())
    };
    let first = usize::from(file.threads == 1);
    for distance in &DISTANCES[first..reach] {
        let table = file.transfer.get(*distance);
        let place = format!("transfer.{distance}");
        take(&place, table.with_context(|| format!("[{place}] is missing"))?, &TRANSFERS, &[])?;
    }
    let known = |name: &&String| !DISTANCES[first..reach].contains(&name.as_str());
    if let Some(other) = file.transfer.keys().find(known) {
        bail!("[transfer.{other}]: nothing of this host is at that distance");
    }
    take("costs", &file.costs, &COSTS, &OPTIONAL)?;
    let has = |key: &str| file.costs.contains_key(key);
    ensure!(nodes > 1 || !has("link"), "costs.link: one node has no links");
    ensure!(has("exit") == has("kick"), "costs.exit and costs.kick are of guests: both, or none");
    ensure!(has("ple_window") == has("ple_gap"), "costs.ple_window has a costs.ple_gap");
    ensure!(has("exit") || !has("ple_window"), "costs.ple_window: what an exit costs is missing");
    let cpu = |i: usize| place(i, nodes, file.cores);
    let described = Described {
        name: name.to_string(),
        about: file.about.trim().replace('\n', " "),
        sources: file.sources,
        cpus: (0..cpus).map(cpu).collect(),
        distances,
        reach,
        numbers,
    };
    if let Some(why) = described.host(Draw::Middle).contradiction() {
        bail!(why);
    }
    described.holds_in_all_draws()?;
    Ok(described)
}

/// CPUs are numbered as Linux does: first threads of all cores, node by node, then the second
/// ones.
fn place(cpu: usize, nodes: usize, cores: usize) -> Cpu {
    let core = cpu % (nodes * cores);
    Cpu { core: core as u16, node: (core / cores) as u16 }
}

/// 1 for a node and itself, then one more for each hop.
fn distances(nodes: usize, hops: &Option<Hops>) -> Result<Vec<Vec<u8>>> {
    let alike = |hops: u8| {
        let between = |a, b| if a == b { 1 } else { hops + 1 };
        (0..nodes).map(|a| (0..nodes).map(|b| between(a, b)).collect()).collect()
    };
    match hops {
        None if nodes == 1 => Ok(alike(1)),
        None => bail!("`hops` between the {nodes} nodes are missing"),
        Some(Hops::Alike(0)) if nodes > 1 => {
            bail!("`hops`: different nodes are at least one apart")
        }
        Some(Hops::Alike(hops)) if usize::from(*hops) + 2 > DISTANCES.len() => {
            bail!("{hops} hops are too many")
        }
        Some(Hops::Alike(hops)) => Ok(alike(*hops)),
        Some(Hops::Each(rows)) => {
            let is_square = rows.len() == nodes && rows.iter().all(|row| row.len() == nodes);
            ensure!(is_square, "`hops` is not {nodes} rows of {nodes} numbers");
            let far = rows.iter().flatten().max().copied().unwrap_or(0);
            ensure!(usize::from(far) + 2 <= DISTANCES.len(), "{far} hops are too many");
            Ok(rows.iter().map(|row| row.iter().map(|hops| hops + 1).collect()).collect())
        }
    }
}

impl Described {
    /// Its numbers by name, as the file has them.
    pub fn numbers(&self) -> &BTreeMap<String, Number> {
        &self.numbers
    }

    /// The number of its CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Its CPUs as those of a measured host are told: a node is a package with a cache.
    pub fn topology(&self) -> Topology {
        let first = |same: fn(&Cpu, &Cpu) -> bool, cpu: &Cpu| {
            self.cpus.iter().position(|other| same(cpu, other)).unwrap_or(0) as u32
        };
        let cpu = |(i, cpu): (usize, &Cpu)| host::Cpu {
            cpu: i as u32,
            core: first(|a, b| a.core == b.core, cpu),
            llc: first(|a, b| a.node == b.node, cpu),
            node: cpu.node.into(),
            package: cpu.node.into(),
        };
        Topology { cpus: self.cpus.iter().enumerate().map(cpu).collect() }
    }

    /// Whether its file has this of `OPTIONAL`.
    fn has(&self, cost: &str) -> bool {
        self.numbers.contains_key(&format!("costs.{cost}"))
    }

    /// A line is on its link, and read from memory, within the time that its transfer takes, by
    /// whichever numbers of the ranges.
    fn holds_in_all_draws(&self) -> Result<()> {
        let check = |cost: &str, is_within: &dyn Fn(&str) -> bool| {
            let Some(busy) = self.numbers.get(&format!("costs.{cost}")) else { return Ok(()) };
            let mut transfers = self.numbers.iter().filter(|(name, _)| is_within(name));
            let Some((name, _)) = transfers.find(|(_, time)| time.low < busy.high) else {
                return Ok(());
            };
            bail!("costs.{cost} may be longer than {name}, of which it is a part")
        };
        check("link", &|name| name.starts_with("transfer.hop"))?;
        check("memory", &|name| name.ends_with(".load_memory") && !name.contains(".core."))
    }

    /// The host, with a value for each range.
    pub fn host(&self, draw: Draw) -> Host {
        let number = |name: &str| match self.numbers.get(name) {
            Some(number) => number.draw(draw, name),
            // Threads of a core, where cores have one: at a distance that does not occur.
            None => 0.0,
        };
        let time = |name: &str| number(name).round() as u64;
        let transfer = |distance: &&str| {
            let time = |key: &str| time(&format!("transfer.{distance}.{key}"));
            Transfer {
                load_modified: time("load_modified"),
                load_shared: time("load_shared"),
                load_memory: time("load_memory"),
                store_modified: time("store_modified"),
                store_shared: time("store_shared"),
                atomic_modified: time("atomic_modified"),
                atomic_shared: time("atomic_shared"),
            }
        };
        let cost = |key: &str| time(&format!("costs.{key}"));
        let per_mille = |key: &str| (number(&format!("costs.{key}")) * 1000.0).round() as u32;
        Host {
            cpus: self.cpus.clone(),
            distances: self.distances.clone(),
            transfers: DISTANCES[..self.reach].iter().map(transfer).collect(),
            costs: Costs {
                load: cost("load"),
                store: cost("store"),
                atomic: cost("atomic"),
                busy_per_mille: per_mille("busy"),
                busy_shared: cost("busy_shared"),
                read_moves: number("costs.read_moves") > 0.5,
                hold: cost("hold"),
                pause: cost("pause"),
                both_threads_per_mille: per_mille("both_threads"),
                park: cost("park"),
                wake: cost("wake"),
                wake_each: cost("wake_each"),
                wake_latency: cost("wake_latency"),
                switch: cost("switch"),
                slice: cost("slice"),
                period: cost("period"),
                wake_lead: cost("wake_lead"),
                interrupt_send: cost("interrupt_send"),
                interrupt_delivery: cost("interrupt_delivery"),
                interrupt_entry: cost("interrupt_entry"),
                link: cost("link"),
                memory: cost("memory"),
            },
            guest: self.has("exit").then(|| Guest {
                exit: cost("exit"),
                kick: cost("kick"),
                pause_loop: self
                    .has("ple_window")
                    .then(|| PauseLoop { window: cost("ple_window"), gap: cost("ple_gap") }),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use host::Placement;

    use super::*;

    #[test]
    fn all_hosts_that_come_with_knee_can_be_simulated() {
        for (name, _) in HOSTS {
            let described = find(name).unwrap();
            for draw in [Draw::Middle, Draw::Any(1), Draw::Any(2)] {
                assert_eq!(described.host(draw).contradiction(), None, "{name}");
            }
            assert_eq!(described.topology().cpus.len(), described.cpus());
        }
    }

    #[test]
    fn tasks_go_to_nodes_in_turn_or_one_after_the_other_and_to_second_threads_last() {
        let host = find("westmere-ex-8s").unwrap();
        let nodes = |placement| -> Vec<u32> {
            let order = host.topology().ordered(placement);
            assert_eq!(order[80].core, 0);
            order[..9].iter().map(|cpu| cpu.node).collect()
        };
        assert_eq!(nodes(Placement::Scatter), [0, 1, 2, 3, 4, 5, 6, 7, 0]);
        assert_eq!(nodes(Placement::Cores), [0; 9]);
    }

    #[test]
    fn distances_are_bounded() {
        let why = |hops| distances(2, &Some(hops)).unwrap_err().to_string();
        assert_eq!(why(Hops::Alike(255)), "255 hops are too many");
        assert_eq!(why(Hops::Each(vec![vec![0, 255], vec![255, 0]])), "255 hops are too many");
        assert_eq!(why(Hops::Alike(0)), "`hops`: different nodes are at least one apart");
    }

    #[test]
    fn bad_hosts_are_refused_in_words() {
        let good = HOSTS.iter().find(|(name, _)| *name == "westmere-ex-8s").unwrap().1;
        let check = |from: &str, to: &str, expected: &str| {
            assert!(good.contains(from), "{from}");
            let why = parse("x", &good.replacen(from, to, 1)).unwrap_err();
            let why = format!("{why:#}");
            assert!(why.contains(expected), "{why}");
        };
        check("nodes = 8", "nodes = 80", "1600 CPUs: 1 to 256 can be simulated");
        check("nodes = 8", "nodes = 9223372036854775807", "1 to 256 can be simulated");
        check("ghz = 2.13", "ghz = -1", "a clock goes forward");
        check(
            "found = \"109 cycles\"",
            "found = \"-109 cycles\"",
            "transfer.node.load_modified: \"-109 cycles\": it is negative",
        );
        check(
            "source = \"sosp13\"",
            "source = \"rumour\"",
            "source \"rumour\" is not in [sources]",
        );
        check("found = \"109 cycles\"", "guessed = \"109 cycles\"", "unknown field `guessed`");
        check("busy = {", "lazy = {", "[costs] has \"lazy\"; it can have load, store,");
        check("[transfer.hop2]", "[transfer.hop4]", "[transfer.hop2] is missing");
        check(
            "load_shared = { assumed = \"40",
            "load_shraed = { assumed = \"40",
            "[transfer.node] has \"load_shraed\"; it can have load_modified,",
        );
        let with = |line: &str| format!("[costs]\n{line}");
        let line = r#"link = { assumed = "0.2..20 GB/s", why = "a test" }"#;
        check("[costs]", &with(line), "costs.link may be longer than transfer.hop1.");
        let line = r#"memory = { assumed = "0.2..20 GB/s", why = "a test" }"#;
        check("[costs]", &with(line), "costs.memory may be longer than transfer.hop1.load_memory");
        let one_node = HOSTS.iter().find(|(name, _)| *name == "uma-2").unwrap().1;
        let line = r#"link = { assumed = "20 GB/s", why = "a test" }"#;
        let why = parse("x", &one_node.replacen("[costs]", &with(line), 1)).unwrap_err();
        assert_eq!(why.to_string(), "costs.link: one node has no links");
        let line = r#"exit = { assumed = "1 us", why = "a test" }"#;
        check("[costs]", &with(line), "costs.exit and costs.kick are of guests: both, or none");
        let line = r#"ple_window = { assumed = "1 us", why = "a test" }"#;
        check("[costs]", &with(line), "costs.ple_window has a costs.ple_gap");
        let line = format!("{line}\n{}", line.replace("window", "gap"));
        check("[costs]", &with(&line), "costs.ple_window: what an exit costs is missing");
    }
}
