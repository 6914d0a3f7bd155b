//! Described hosts: `hosts/*.toml`, built into knee or made by `knee doctor calibrate`. Every number says
//! whether it was found (in which publication), measured (where, when) or assumed (in which
//! range, why).

mod number;

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use engines::simulated::{
    CPUS_MAX, Costs, CpuLocation, GuestCosts, Host, PauseLoopExiting, TransferCosts,
};
use host::Topology;
use serde::Deserialize;

pub use number::{Draw, InRange, Number, NumberEntry, Origin, Units};

use host::{Limit, given_file, unknown};

macro_rules! hosts {
    ($($name:literal,)*) => {
        /// The hosts built into knee: the name and the text of each file.
        pub static HOSTS: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../hosts/", $name, ".toml"))),)*];
    };
}

hosts! {
    "broadwell-14-2s",
    "broadwell-2s",
    "cascadelake-24-2s",
    "cooperlake-26",
    "epyc-9654-2s",
    "epyc-9d64",
    "generic-2s",
    "grace-72",
    "graviton2-64",
    "graviton3-64",
    "guest-16",
    "haswell-ex-4s",
    "icelake-2s",
    "icelake-4",
    "ivybridge-ex-4s",
    "kunpeng-920-2s",
    "modern-8n",
    "opteron-32",
    "opteron-48",
    "sandybridge-2s",
    "sandybridge-ep-2s",
    "sapphirerapids-2s",
    "skylake-28-2s",
    "skylake-2s",
    "skylake-4",
    "skylake-sp-8s",
    "uma-2",
    "westmere-ex-4s",
    "westmere-ex-8s",
    "xeon-2017-2s",
}

/// The format of a host's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct HostFile {
    about: String,
    nodes: usize,
    cores: usize,
    threads: usize,
    ghz: Option<f64>,
    #[serde(default)]
    hops: Option<Hops>,
    #[serde(default)]
    sources: BTreeMap<String, String>,
    transfer: BTreeMap<String, NumberTable>,
    costs: NumberTable,
}

type NumberTable = BTreeMap<String, NumberEntry>;

/// The hops between nodes: equal for any two, or a square table with 0 on its diagonal.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Hops {
    Equal(u8),
    Table(Vec<Vec<u8>>),
}

/// A host to simulate, whose numbers may be ranges.
#[derive(Clone, Debug)]
pub struct DescribedHost {
    /// The name of its file.
    pub name: String,
    /// A paragraph about the host.
    pub about: String,
    /// The publications that numbers were found in, by the names that the numbers use.
    pub sources: BTreeMap<String, String>,
    /// Its clock, where the file says it.
    pub ghz: Option<f64>,
    cpus: Vec<CpuLocation>,
    distances: Vec<Vec<u8>>,
    /// How many of [`DISTANCES`] the host has, counting that between the threads of a core.
    distance_count: usize,
    numbers: BTreeMap<String, Number>,
}

/// Distances by name: between threads of one core, within a node, and by hops between nodes.
pub const DISTANCES: [&str; 5] = ["core", "node", "hop1", "hop2", "hop3"];
/// The costs of a line over a distance: the fields of the engine's `TransferCosts`.
pub const TRANSFERS: [&str; 7] = [
    "load_modified",
    "load_shared",
    "load_memory",
    "store_modified",
    "store_shared",
    "atomic_modified",
    "atomic_shared",
];
/// Costs that a distance may have of its own; where it has not, the one of `[costs]` holds.
pub const BY_DISTANCE: [&str; 2] = ["busy", "keep"];
/// Costs that do not depend on the distance: fields of the engine's `Costs`.
pub const COSTS: [&str; 20] = [
    "load",
    "store",
    "atomic",
    "busy",
    "busy_shared",
    "read_moves",
    "keep",
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

/// Costs that a file may leave out. Then links and memories have unlimited bandwidth, waiting CPUs notice what they wait
/// for when it arrives, virtual CPUs have no costs of their own and no pause-loop exiting, and the kernel executes an
/// instruction in the same time as user code.
pub const OPTIONAL: [&str; 14] = [
    "link",
    "memory",
    "stream",
    "notice",
    "exit",
    "kick",
    "ple_window",
    "ple_gap",
    "instruction",
    "kernel_instruction",
    "call",
    "fault",
    "own_line",
    "copied_line",
];
/// What the work of recorded operations costs on hosts whose file does not say it: the name, the range, and why.
const PACE: [(&str, &str, &str); 5] = [
    (
        "instruction",
        "0.15..0.3..0.6 ns",
        "the kernel executes one to two instructions in a cycle at 2 to 3.5 GHz, where lines are at hand",
    ),
    (
        "call",
        "20..60..200 ns",
        "into the kernel and back, with and without page table isolation and other mitigations",
    ),
    (
        "fault",
        "100..250..1000 ns",
        "the cheapest page fault, of a page of zeros; the most in a virtual machine",
    ),
    (
        "own_line",
        "0.3..1..4 ns",
        "a line that the operation before did not use: from L2, while the CPU goes on",
    ),
    (
        "copied_line",
        "1..2.5..10 ns",
        "a line copied or cleared by a string instruction: 6 to 60 GB/s",
    ),
];

/// Costs that are the time of a line, for which a file may give a bandwidth in `GB/s`.
const BANDWIDTHS: [&str; 3] = ["link", "memory", "stream"];

const LIMIT: Limit = Limit { bytes: 16 << 20, what: "a host" };

/// The host of this name: one built into knee, one in the directory `hosts`, or a file.
pub fn find(name: &str) -> Result<DescribedHost> {
    if let Some((name, text)) = HOSTS.iter().find(|(built_in, _)| *built_in == name) {
        return parse(name, text).with_context(|| format!("host {name}"));
    }
    let local = format!("hosts/{name}.toml");
    let path = if Path::new(&local).exists() { Path::new(&local) } else { Path::new(name) };
    if name.ends_with(".toml") || path.exists() {
        let text =
            given_file::read_text(path, LIMIT).with_context(|| format!("reading host {name}"))?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        return parse(&stem, &text).with_context(|| format!("host {name}"));
    }
    let names = HOSTS.iter().map(|(name, _)| *name);
    bail!(
        "{}; a file of your own is named by its path",
        unknown("host", name, names, "knee list hosts")
    )
}

/// The host that the text of a file describes.
pub fn parse(name: &str, text: &str) -> Result<DescribedHost> {
    let file: HostFile = toml::from_str(text)?;
    let cpus = file.nodes.saturating_mul(file.cores).saturating_mul(file.threads);
    ensure!((1..=CPUS_MAX).contains(&cpus), "{cpus} CPUs: 1 to {CPUS_MAX} can be simulated");
    if let Some(ghz) = file.ghz {
        ensure!(ghz.is_finite() && ghz > 0.0, "ghz = {ghz}: it must be above 0");
    }
    let distances = distances(file.nodes, &file.hops)?;
    let farthest = distances.iter().flatten().copied().max().unwrap_or(1);
    let distance_count = usize::from(farthest) + 1;
    let hops_max = DISTANCES.len() - 2;
    ensure!(distance_count <= DISTANCES.len(), "nodes can be up to {hops_max} hops apart");
    let described = DescribedHost {
        name: name.to_string(),
        about: file.about.trim().replace('\n', " "),
        cpus: (0..cpus).map(|cpu| location(cpu, file.nodes, file.cores)).collect(),
        distances,
        distance_count,
        numbers: numbers(&file, distance_count)?,
        ghz: file.ghz,
        sources: file.sources,
    };
    if let Some(why) = described.host(Draw::Middle).contradiction() {
        bail!(why);
    }
    described.check_all_draws()?;
    Ok(described)
}

/// All numbers of a file, by their full names.
fn numbers(file: &HostFile, distance_count: usize) -> Result<BTreeMap<String, Number>> {
    let mut reader = NumberReader {
        units: Units { cycle_ps: file.ghz.map(|ghz| 1000.0 / ghz), allows_bandwidth: false },
        sources: file.sources.keys().cloned().collect(),
        numbers: BTreeMap::new(),
    };
    let nearest_distance = usize::from(file.threads == 1);
    let distances = &DISTANCES[nearest_distance..distance_count];
    for distance in distances {
        let name = format!("transfer.{distance}");
        let table = file.transfer.get(*distance);
        let table = table.with_context(|| format!("[{name}] is missing"))?;
        reader.read(&name, table, &TRANSFERS, &BY_DISTANCE)?;
    }
    if let Some(name) = file.transfer.keys().find(|name| !distances.contains(&name.as_str())) {
        bail!("[transfer.{name}]: no two CPUs of this host are at that distance");
    }
    reader.read("costs", &file.costs, &COSTS, &OPTIONAL)?;
    for (name, range, why) in PACE {
        if !file.costs.contains_key(name) {
            reader.assume(&format!("costs.{name}"), range, why)?;
        }
    }
    let has = |key: &str| file.costs.contains_key(key);
    ensure!(file.nodes > 1 || !has("link"), "costs.link: a host of one node has no links");
    ensure!(has("exit") == has("kick"), "costs.exit and costs.kick must be given together");
    let has_window = has("ple_window");
    ensure!(
        has_window == has("ple_gap"),
        "costs.ple_window and costs.ple_gap must be given together"
    );
    ensure!(has("exit") || !has_window, "costs.ple_window needs costs.exit");
    Ok(reader.numbers)
}

/// Reads the tables of a file.
struct NumberReader {
    units: Units,
    sources: Vec<String>,
    numbers: BTreeMap<String, Number>,
}

impl NumberReader {
    /// Adds a number that the file does not have.
    fn assume(&mut self, name: &str, range: &str, why: &str) -> Result<()> {
        let entry = NumberEntry::assumed(range, why);
        self.numbers.insert(name.to_string(), entry.number(self.units, &[])?);
        Ok(())
    }

    /// Reads a table, which must have all `required` keys, and may have `optional` ones.
    fn read(
        &mut self,
        name: &str,
        table: &NumberTable,
        required: &[&str],
        optional: &[&str],
    ) -> Result<()> {
        ensure!(
            !table.contains_key("hold"),
            "{name}.hold: knee has {name}.keep now, how often an owner's next atomic instruction still finds a line that \
             another CPU waits to write: keep = {{ assumed = \"0.05..0.3\", why = \"…\" }}"
        );
        let allowed = [required, optional].concat();
        if let Some(key) = table.keys().find(|key| !allowed.contains(&key.as_str())) {
            bail!("[{name}] cannot have {key:?}; it can have {}", allowed.join(", "));
        }
        if let Some(key) = required.iter().find(|key| !table.contains_key(**key)) {
            bail!("{name}.{key} is missing");
        }
        for (key, entry) in table {
            let full_name = || format!("{name}.{key}");
            let allows_bandwidth = BANDWIDTHS.contains(&key.as_str());
            let units = Units { allows_bandwidth, ..self.units };
            let number = entry.number(units, &self.sources).with_context(full_name)?;
            self.numbers.insert(full_name(), number);
        }
        Ok(())
    }
}

/// What the work of recorded operations costs, in ps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// An instruction, with its accesses to lines that are at hand.
    pub instruction: f64,
    /// Entering the kernel by a system call, and leaving it.
    pub call: f64,
    /// Entering it by an exception such as a page fault, and leaving it.
    pub fault: f64,
    /// Going to sleep, until another task runs: that of the host's `park` and `switch`.
    pub sleep: f64,
    /// A line of its own that the operation before did not use.
    pub own_line: f64,
    /// A line of its own that a string instruction reads or writes.
    pub copied_line: f64,
    /// An atomic instruction on such a line.
    pub atomic: f64,
}

/// The location of a CPU, numbered as in Linux: the first threads of all cores, node by node, and
/// then the second threads.
fn location(cpu: usize, nodes: usize, cores: usize) -> CpuLocation {
    let core = cpu % (nodes * cores);
    CpuLocation { core: core as u16, node: (core / cores) as u16 }
}

/// The distances of nodes: 1 from a node to itself, and one more for each hop.
fn distances(nodes: usize, hops: &Option<Hops>) -> Result<Vec<Vec<u8>>> {
    let equal = |hops: u8| {
        let between = |a, b| if a == b { 1 } else { hops + 1 };
        (0..nodes).map(|a| (0..nodes).map(|b| between(a, b)).collect()).collect()
    };
    match hops {
        None if nodes == 1 => Ok(equal(1)),
        None => bail!("`hops` between the {nodes} nodes are missing"),
        Some(Hops::Equal(0)) if nodes > 1 => {
            bail!("`hops`: different nodes are at least one hop apart")
        }
        Some(Hops::Equal(hops)) if usize::from(*hops) + 2 > DISTANCES.len() => {
            bail!("{hops} hops are too many")
        }
        Some(Hops::Equal(hops)) => Ok(equal(*hops)),
        Some(Hops::Table(rows)) => {
            let is_square = rows.len() == nodes && rows.iter().all(|row| row.len() == nodes);
            ensure!(is_square, "`hops` must have {nodes} rows of {nodes} numbers");
            let farthest = rows.iter().flatten().max().copied().unwrap_or(0);
            ensure!(usize::from(farthest) + 2 <= DISTANCES.len(), "{farthest} hops are too many");
            Ok(rows.iter().map(|row| row.iter().map(|hops| hops + 1).collect()).collect())
        }
    }
}

impl DescribedHost {
    /// Its numbers by full name, such as `costs.load`.
    pub fn numbers(&self) -> &BTreeMap<String, Number> {
        &self.numbers
    }

    /// The names of the numbers that are ranges.
    pub fn ranges(&self) -> impl Iterator<Item = &str> {
        self.numbers.iter().filter(|(_, number)| number.is_range()).map(|(name, _)| name.as_str())
    }

    /// The host with numbers, by their full names, of which this value of their range is known. Draws of the others
    /// stay as they are.
    pub fn fixed(&self, names: &[&str], at: InRange) -> DescribedHost {
        let mut host = self.clone();
        for (_, number) in
            host.numbers.iter_mut().filter(|(name, _)| names.contains(&name.as_str()))
        {
            *number = number.fixed(at);
        }
        host
    }

    /// The number of its CPUs.
    pub fn cpus(&self) -> usize {
        self.cpus.len()
    }

    /// Its CPUs in the form of a measured host: each node is a package with a last-level cache.
    pub fn topology(&self) -> Topology {
        let first = |same: fn(&CpuLocation, &CpuLocation) -> bool, cpu: &CpuLocation| {
            self.cpus.iter().position(|other| same(cpu, other)).unwrap_or(0) as u32
        };
        let cpu = |(i, cpu): (usize, &CpuLocation)| host::Cpu {
            cpu: i as u32,
            core: first(|a, b| a.core == b.core, cpu),
            llc: first(|a, b| a.node == b.node, cpu),
            node: cpu.node.into(),
            package: cpu.node.into(),
        };
        Topology { cpus: self.cpus.iter().enumerate().map(cpu).collect() }
    }

    /// Whether its file has this cost of [`OPTIONAL`].
    fn has(&self, cost: &str) -> bool {
        self.numbers.contains_key(&format!("costs.{cost}"))
    }

    /// Fails if a draw could make the time of a line on a link or in memory longer than the
    /// transfer of which it is a part.
    fn check_all_draws(&self) -> Result<()> {
        let check = |cost: &str, is_transfer: &dyn Fn(&str) -> bool| {
            let Some(busy) = self.numbers.get(&format!("costs.{cost}")) else { return Ok(()) };
            let mut transfers = self.numbers.iter().filter(|(name, _)| is_transfer(name));
            let Some((name, _)) = transfers.find(|(_, time)| time.low < busy.high) else {
                return Ok(());
            };
            bail!("costs.{cost} may be longer than {name}, of which it is a part")
        };
        check("link", &|name| name.starts_with("transfer.hop") && !name.ends_with(".busy"))?;
        check("memory", &|name| name.ends_with(".load_memory") && !name.contains(".core."))
    }

    /// The full name of a cost of [`BY_DISTANCE`] at a distance.
    fn at_distance(&self, distance: &str, cost: &str) -> String {
        let own = format!("transfer.{distance}.{cost}");
        if self.numbers.contains_key(&own) { own } else { format!("costs.{cost}") }
    }

    /// This host with one value, in its base unit, in place of the range of a number.
    pub fn with_value(&self, name: &str, value: f64) -> DescribedHost {
        let mut fixed = self.clone();
        if let Some(number) = fixed.numbers.get_mut(name) {
            (number.low, number.middle, number.high) = (value, value, value);
        }
        fixed
    }

    /// The host whose instructions take this many times as long.
    pub fn with_slower_instructions(&self, times: f64) -> DescribedHost {
        ["costs.instruction", "costs.kernel_instruction"].iter().fold(self.clone(), |host, name| {
            let middle = host.numbers.get(*name).map_or(0.0, |number| number.middle);
            host.with_value(name, times * middle)
        })
    }

    /// The costs of a CPU's own work, of whose instructions user code executes this share and the kernel the rest, or all
    /// where it is not known; with a value drawn from each range.
    pub fn pace(&self, draw: Draw, user_share: Option<f64>) -> Pace {
        let number = |name: &str| {
            let name = format!("costs.{name}");
            self.numbers.get(&name).map_or(0.0, |number| number.draw(draw, &name))
        };
        let user = number("instruction");
        let kernel =
            if self.has("kernel_instruction") { number("kernel_instruction") } else { user };
        let user_share = user_share.unwrap_or(0.0);
        Pace {
            instruction: user_share * user + (1.0 - user_share) * kernel,
            call: number("call"),
            fault: number("fault"),
            sleep: number("park") + number("switch"),
            own_line: number("own_line"),
            copied_line: number("copied_line"),
            atomic: number("atomic"),
        }
    }

    /// The host with a value drawn from each range.
    pub fn host(&self, draw: Draw) -> Host {
        let number = |name: &str| match self.numbers.get(name) {
            Some(number) => number.draw(draw, name),
            // A transfer between threads of a core, where cores have one thread: never used.
            None => 0.0,
        };
        let time = |name: &str| number(name).round() as u64;
        let per_mille = |name: &str| (number(name) * 1000.0).round() as u32;
        let transfer = |distance: &&str| {
            let time = |key: &str| time(&format!("transfer.{distance}.{key}"));
            TransferCosts {
                load_modified: time("load_modified"),
                load_shared: time("load_shared"),
                load_memory: time("load_memory"),
                store_modified: time("store_modified"),
                store_shared: time("store_shared"),
                atomic_modified: time("atomic_modified"),
                atomic_shared: time("atomic_shared"),
                busy_per_mille: per_mille(&self.at_distance(distance, "busy")),
                keep_per_mille: per_mille(&self.at_distance(distance, "keep")),
            }
        };
        let cost = |key: &str| time(&format!("costs.{key}"));
        Host {
            cpus: self.cpus.clone(),
            distances: self.distances.clone(),
            transfers: DISTANCES[..self.distance_count].iter().map(transfer).collect(),
            costs: Costs {
                load: cost("load"),
                store: cost("store"),
                atomic: cost("atomic"),
                busy_shared: cost("busy_shared"),
                read_moves: number("costs.read_moves") > 0.5,
                pause: cost("pause"),
                notice: cost("notice"),
                both_threads_per_mille: per_mille("costs.both_threads"),
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
                stream: cost("stream"),
            },
            guest: self.has("exit").then(|| GuestCosts {
                vm_exit: cost("exit"),
                kick: cost("kick"),
                pause_loop_exiting: self
                    .has("ple_window")
                    .then(|| PauseLoopExiting { window: cost("ple_window"), gap: cost("ple_gap") }),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use host::Placement;

    use super::*;

    #[test]
    fn all_built_in_hosts_can_be_simulated() {
        for (name, _) in HOSTS {
            let described = find(name).unwrap();
            for draw in [Draw::Middle, Draw::Any(1), Draw::Any(2)] {
                assert_eq!(described.host(draw).contradiction(), None, "{name}");
            }
            assert_eq!(described.topology().cpus.len(), described.cpus());
        }
    }

    #[test]
    fn placements_fill_nodes_in_turn_or_one_by_one_and_second_threads_last() {
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
    fn a_distance_may_have_a_busy_of_its_own() {
        let busy = |name: &str| -> Vec<u32> {
            let host = find(name).unwrap().host(Draw::Middle);
            host.transfers.iter().skip(1).map(|transfer| transfer.busy_per_mille).collect()
        };
        assert_eq!(busy("skylake-sp-8s"), [470, 210, 110]);
        assert_eq!(busy("westmere-ex-8s"), [800; 3]);
    }

    #[test]
    fn one_number_can_be_known_while_others_are_drawn_as_before() {
        let host = find("westmere-ex-8s").unwrap();
        assert!(host.ranges().any(|name| name == "costs.keep"));
        assert!(host.ranges().all(|name| name != "transfer.node.load_modified"));
        let fixed = host.fixed(&["costs.keep"], InRange::High);
        let keep = |host: &DescribedHost, draw| host.host(draw).transfers[1].keep_per_mille;
        assert_eq!([Draw::Middle, Draw::Any(1)].map(|draw| keep(&fixed, draw)), [300, 300]);
        assert_eq!(fixed.host(Draw::Any(7)).costs, host.host(Draw::Any(7)).costs);
    }

    #[test]
    fn waiting_cpus_notice_at_once_unless_the_file_says_when() {
        let text = HOSTS.iter().find(|(name, _)| *name == "westmere-ex-8s").unwrap().1;
        let line = "[costs]\nnotice = { assumed = \"6 ns\", why = \"a test\" }";
        let notice = |text: &str| parse("x", text).unwrap().host(Draw::Middle).costs.notice;
        assert_eq!([notice(text), notice(&text.replacen("[costs]", line, 1))], [0, 6000]);
    }

    #[test]
    fn the_kernel_may_have_an_instruction_time_of_its_own() {
        let text = HOSTS.iter().find(|(name, _)| *name == "westmere-ex-8s").unwrap().1;
        let times = |lines: &str, slower: f64| {
            let text = text.replacen("[costs]", &format!("[costs]\n{lines}"), 1);
            let host = parse("x", &text).unwrap().with_slower_instructions(slower);
            [None, Some(0.5), Some(1.0)]
                .map(|user_share| host.pace(Draw::Middle, user_share).instruction.round())
        };
        let user = "instruction = { assumed = \"0.1 ns\", why = \"a test\" }";
        let both =
            format!("{user}\nkernel_instruction = {{ assumed = \"0.3 ns\", why = \"a test\" }}");
        assert_eq!(times(user, 1.0), [100.0; 3]);
        assert_eq!(times(&both, 1.0), [300.0, 200.0, 100.0]);
        assert_eq!(times(&both, 2.0), [600.0, 400.0, 200.0]);
    }

    #[test]
    fn a_distance_may_have_a_keep_of_its_own() {
        let text = HOSTS.iter().find(|(name, _)| *name == "westmere-ex-8s").unwrap().1;
        let own = "[transfer.hop1]\nkeep = { assumed = \"0.5\", why = \"a test\" }";
        let host = parse("x", &text.replacen("[transfer.hop1]", own, 1)).unwrap();
        let transfers = host.host(Draw::Middle).transfers;
        let keep: Vec<u32> = transfers.iter().map(|transfer| transfer.keep_per_mille).collect();
        assert_eq!(keep[1..], [150, 500, 150]);
    }

    #[test]
    fn distances_are_bounded() {
        let why = |hops| distances(2, &Some(hops)).unwrap_err().to_string();
        assert_eq!(why(Hops::Equal(255)), "255 hops are too many");
        assert_eq!(why(Hops::Table(vec![vec![0, 255], vec![255, 0]])), "255 hops are too many");
        assert_eq!(why(Hops::Equal(0)), "`hops`: different nodes are at least one hop apart");
    }

    #[test]
    fn bad_hosts_are_refused_with_a_reason() {
        let good = HOSTS.iter().find(|(name, _)| *name == "westmere-ex-8s").unwrap().1;
        let check = |from: &str, to: &str, expected: &str| {
            assert!(good.contains(from), "{from}");
            let why = parse("x", &good.replacen(from, to, 1)).unwrap_err();
            let why = format!("{why:#}");
            assert!(why.contains(expected), "{why}");
        };
        check("nodes = 8", "nodes = 80", "1600 CPUs: 1 to 256 can be simulated");
        check("nodes = 8", "nodes = 9223372036854775807", "1 to 256 can be simulated");
        check("ghz = 2.13", "ghz = -1", "ghz = -1: it must be above 0");
        check(
            "found = \"109 cycles\"",
            "found = \"-109 cycles\"",
            "transfer.node.load_modified: \"-109 cycles\": a number must not be negative",
        );
        check(
            "source = \"sosp13\"",
            "source = \"rumour\"",
            "source \"rumour\" is not in [sources]",
        );
        check("found = \"109 cycles\"", "guessed = \"109 cycles\"", "unknown field `guessed`");
        check(
            "keep = {",
            "hold = {",
            "costs.hold: knee has costs.keep now, how often an owner's next",
        );
        check("busy = {", "lazy = {", "[costs] cannot have \"lazy\"; it can have load, store,");
        check("[transfer.hop2]", "[transfer.hop4]", "[transfer.hop2] is missing");
        check(
            "load_shared = { found = \"44",
            "load_shraed = { found = \"44",
            "[transfer.node] cannot have \"load_shraed\"; it can have load_modified,",
        );
        let with = |line: &str| format!("[costs]\n{line}");
        let line = r#"link = { assumed = "0.2..20 GB/s", why = "a test" }"#;
        check("[costs]", &with(line), "costs.link may be longer than transfer.hop1.");
        let line = r#"memory = { assumed = "0.2..20 GB/s", why = "a test" }"#;
        check("[costs]", &with(line), "costs.memory may be longer than transfer.hop1.load_memory");
        let one_node = HOSTS.iter().find(|(name, _)| *name == "uma-2").unwrap().1;
        let line = r#"link = { assumed = "20 GB/s", why = "a test" }"#;
        let why = parse("x", &one_node.replacen("[costs]", &with(line), 1)).unwrap_err();
        assert_eq!(why.to_string(), "costs.link: a host of one node has no links");
        let line = r#"exit = { assumed = "1 us", why = "a test" }"#;
        check("[costs]", &with(line), "costs.exit and costs.kick must be given together");
        let line = r#"ple_window = { assumed = "1 us", why = "a test" }"#;
        check("[costs]", &with(line), "costs.ple_window and costs.ple_gap must be given together");
        let line = format!("{line}\n{}", line.replace("window", "gap"));
        check("[costs]", &with(&line), "costs.ple_window needs costs.exit");
    }
}
