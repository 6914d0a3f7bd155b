//! Cache coherence: which CPUs have which lines, and what it costs to get one.
//!
//!     memory       no CPU has the line: a request gets it from the memory of its home node
//!     exclusive c  CPU c has it to read and write; requests go to c. A CPU that reads what c has
//!                  written shares the line with c, or becomes its owner (`read_moves`)
//!     shared S     the CPUs of S have it to read; a writer takes it from all of them
//!
//! A request finds the line, which then leaves for the CPU that requested it:
//!
//!     request ── on its way ────────> leaves ── flight ──> arrives ── hold ──> may leave again
//!                the owner uses the line                    the new owner does
//!
//! Requests are served in the order in which they are made. Caches have no capacity limit: a line
//! once read stays until another CPU writes it. Where links and memories have a limited bandwidth,
//! a line leaves when they are free.

use machine::Region;

use super::Time;
use super::bandwidth::{Bandwidth, Route};
use super::host::{CPUS_MAX, Costs, DISTANCES_MAX, Host, TransferCosts};

/// The binary logarithm of the bytes of a line.
const LINE_SHIFT: u32 = 6;
/// The owner of a line that no CPU has exclusively.
const NO_OWNER: u16 = u16::MAX;

/// How a line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineUse {
    Load,
    Store,
    /// Read-modify-write, also one that fails.
    Atomic,
}

/// The location of a word in the region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WordAddress {
    /// Bytes from the start of the region.
    pub offset: u32,
    /// The size in bytes.
    pub size: u8,
}

impl WordAddress {
    /// The number of its line.
    #[inline]
    pub fn line(self) -> u32 {
        self.offset >> LINE_SHIFT
    }
}

/// The answer to a request for a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LineArrival {
    /// When the line arrives.
    pub arrives: Time,
    /// When the CPUs that had it, and may not keep it, lose it.
    pub leaves: Time,
}

/// A set of CPUs, as bits.
type CpuSet = [u64; CPUS_MAX / 64];

#[derive(Clone, Debug)]
struct CacheLine {
    /// From when on it may leave for the next request.
    free: Time,
    /// The CPUs that have it to read; none where it has an owner.
    readers: CpuSet,
    /// The nodes of the readers, as bits.
    reader_nodes: u64,
    /// The CPU that has it exclusively.
    owner: u16,
    /// The node of its memory.
    home: u16,
    /// Whether the owner has written it since it arrived.
    written: bool,
}

/// The times of a request in one state of the line.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// From the request until the line leaves, unless it has to wait.
    before: Time,
    /// From leaving until it arrives.
    flight: Time,
    /// From leaving until it may leave again.
    busy: Time,
}

/// Prices over one distance, each by how the line is used.
#[derive(Clone, Copy, Debug, Default)]
struct Prices {
    /// One CPU has the line exclusively.
    modified: [Price; 3],
    /// CPUs have the line to read.
    shared: [Price; 3],
    /// No CPU has the line.
    memory: [Price; 3],
}

impl Prices {
    fn new(transfer: &TransferCosts, costs: &Costs) -> Prices {
        let price = |latency: Time, busy: Time| Price {
            before: latency.saturating_sub(busy),
            flight: busy.min(latency),
            busy,
        };
        let partly_busy =
            |latency: Time| price(latency, latency * Time::from(transfer.busy_per_mille) / 1000);
        // A store finds the line in memory like a load does.
        let memory = partly_busy(transfer.load_memory);
        Prices {
            modified: [transfer.load_modified, transfer.store_modified, transfer.atomic_modified]
                .map(partly_busy),
            shared: [
                price(transfer.load_shared, costs.busy_shared),
                partly_busy(transfer.store_shared),
                partly_busy(transfer.atomic_shared),
            ],
            memory: [memory, memory, partly_busy(transfer.load_memory + costs.atomic)],
        }
    }
}

/// All lines of a region.
#[derive(Clone, Debug)]
pub struct CacheLines {
    lines: Vec<CacheLine>,
    /// By line: tasks that wait for a word of it to change.
    waiters: Vec<Vec<u16>>,
    /// By CPU: the last line that was requested of it, and until when it still has that line.
    departing: Vec<(u32, Time)>,
    /// The node of each CPU.
    nodes: Vec<u16>,
    /// By node: the nodes at each distance, as bits.
    at_distance: Vec<[u64; DISTANCES_MAX]>,
    /// The distance of each pair of CPUs.
    distances: Vec<u8>,
    /// By distance.
    prices: [Prices; DISTANCES_MAX],
    read_moves: bool,
    hold: Time,
    /// Links and memories; `None` where they are infinitely fast.
    pub bandwidth: Option<Bandwidth>,
}

impl CacheLines {
    /// The lines of a region on this host. The home of per-CPU memory is the node of the CPU that
    /// `home_cpu` gives for its number; that of all other memory is the first node.
    pub fn new(region: &Region, host: &Host, home_cpu: impl Fn(usize) -> usize) -> CacheLines {
        let count = region.used().div_ceil(1 << LINE_SHIFT);
        let line = CacheLine {
            free: 0,
            readers: CpuSet::default(),
            reader_nodes: 0,
            owner: NO_OWNER,
            home: 0,
            written: false,
        };
        let mut lines = vec![line; count];
        for array in region.arrays().iter().filter(|array| array.per_cpu) {
            for element in 0..array.length {
                let offset = array.offset + element * array.stride;
                lines[offset >> LINE_SHIFT].home = host.cpus[home_cpu(element)].node;
            }
        }
        let cpus = host.cpus.len();
        let distance = |index| host.distance(index / cpus, index % cpus);
        let mut at_distance = vec![[0; DISTANCES_MAX]; host.distances.len()];
        for (at_distance, distances) in at_distance.iter_mut().zip(&host.distances) {
            for (node, &distance) in distances.iter().enumerate() {
                at_distance[usize::from(distance)] |= 1 << node;
            }
        }
        let mut prices = [Prices::default(); DISTANCES_MAX];
        for (prices, transfer) in prices.iter_mut().zip(&host.transfers) {
            *prices = Prices::new(transfer, &host.costs);
        }
        CacheLines {
            waiters: vec![Vec::new(); count],
            lines,
            departing: vec![(u32::MAX, 0); cpus],
            nodes: host.cpus.iter().map(|cpu| cpu.node).collect(),
            at_distance,
            distances: (0..cpus * cpus).map(distance).collect(),
            prices,
            read_moves: host.costs.read_moves,
            hold: host.costs.hold,
            bandwidth: Bandwidth::new(host.distances.len(), host.costs.link, host.costs.memory),
        }
    }

    /// The tasks that wait for a change of the line.
    pub fn waiters(&mut self, line: u32) -> &mut Vec<u16> {
        &mut self.waiters[line as usize]
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: usize) -> usize {
        self.nodes[cpu].into()
    }

    /// Whether the CPU has the line for this use.
    #[inline(always)]
    pub fn has(&self, line: u32, cpu: u16, how: LineUse, now: Time) -> bool {
        let state = &self.lines[line as usize];
        let can_read = how == LineUse::Load && contains(&state.readers, cpu);
        let (departing, until) = self.departing[usize::from(cpu)];
        state.owner == cpu || can_read || (departing == line && now < until)
    }

    /// Uses a line if the CPU has it; returns whether it does.
    #[inline(always)]
    pub fn hit(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> bool {
        let is_there = self.has(line, cpu, how, now);
        self.lines[line as usize].written |= is_there && how != LineUse::Load;
        is_there
    }

    /// Requests a line at this time; `None` where the CPU has it already.
    #[inline(always)]
    pub fn request(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> Option<LineArrival> {
        if self.hit(line, cpu, how, now) { None } else { Some(self.fetch(line, cpu, how, now)) }
    }

    /// Requests a line that the CPU does not have.
    pub fn fetch(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> LineArrival {
        let state = &self.lines[line as usize];
        let owner = state.owner;
        let &Price { before, flight, busy } = self.price(state, cpu, how);
        let ready = state.free.max(now + before);
        let leaves = if self.bandwidth.is_some() {
            self.departure(self.route(state, cpu, how), ready)
        } else {
            ready
        };
        let state = &mut self.lines[line as usize];
        if owner != NO_OWNER {
            self.departing[usize::from(owner)] = (line, leaves);
        }
        state.free = leaves + busy;
        match how {
            LineUse::Load if owner != NO_OWNER && state.written && self.read_moves => {
                (state.owner, state.written) = (cpu, false);
            }
            LineUse::Load => {
                if owner != NO_OWNER {
                    state.add_reader(owner, &self.nodes);
                    state.owner = NO_OWNER;
                }
                state.add_reader(cpu, &self.nodes);
            }
            LineUse::Store | LineUse::Atomic => {
                (state.readers, state.reader_nodes) = (CpuSet::default(), 0);
                (state.owner, state.written) = (cpu, true);
                state.free += self.hold;
            }
        }
        LineArrival { arrives: leaves + flight, leaves }
    }

    #[inline(always)]
    fn price(&self, state: &CacheLine, cpu: u16, how: LineUse) -> &Price {
        if state.owner != NO_OWNER {
            let pair = usize::from(cpu) * self.nodes.len() + usize::from(state.owner);
            return &self.prices[usize::from(self.distances[pair])].modified[how as usize];
        }
        self.price_without_owner(state, cpu, how)
    }

    fn price_without_owner(&self, state: &CacheLine, cpu: u16, how: LineUse) -> &Price {
        let to = self.nodes[usize::from(cpu)];
        match self.reader(state, to, how) {
            Some((distance, _)) => &self.prices[distance].shared[how as usize],
            None => {
                let at_distance = &self.at_distance[usize::from(to)];
                let home = at_distance.iter().position(|nodes| nodes >> state.home & 1 == 1);
                &self.prices[home.unwrap_or(1)].memory[how as usize]
            }
        }
    }

    /// The distance and number of the node with readers from which a line comes to node `to`. To
    /// be read, it comes from the nearest. To be written, it must have left all of them, so it
    /// takes the time of the farthest.
    fn reader(&self, state: &CacheLine, to: u16, how: LineUse) -> Option<(usize, usize)> {
        let readers = |distance| self.at_distance[usize::from(to)][distance] & state.reader_nodes;
        let has_readers = |&distance: &usize| readers(distance) != 0;
        let mut distances = 1..DISTANCES_MAX;
        match how {
            _ if state.reader_nodes == 0 => None,
            LineUse::Load => {
                let distance = distances.find(has_readers)?;
                Some((distance, readers(distance).trailing_zeros() as usize))
            }
            LineUse::Store | LineUse::Atomic => {
                let distance = distances.rfind(has_readers)?;
                Some((distance, readers(distance).ilog2() as usize))
            }
        }
    }

    /// When a line leaves that is ready to, where links and memories may be busy.
    #[cold]
    fn departure(&mut self, route: Route, ready: Time) -> Time {
        self.bandwidth.as_mut().map_or(ready, |bandwidth| bandwidth.departure(route, ready))
    }

    /// The way on which a line comes to a CPU.
    fn route(&self, state: &CacheLine, cpu: u16, how: LineUse) -> Route {
        let node = self.nodes[usize::from(cpu)];
        let to = usize::from(node);
        match (state.owner, self.reader(state, node, how)) {
            (NO_OWNER, Some((_, from))) => Route { from, to, is_memory: false },
            (NO_OWNER, None) => Route { from: usize::from(state.home), to, is_memory: true },
            (owner, _) => {
                Route { from: usize::from(self.nodes[usize::from(owner)]), to, is_memory: false }
            }
        }
    }
}

impl CacheLine {
    fn add_reader(&mut self, cpu: u16, nodes: &[u16]) {
        self.readers[usize::from(cpu) / 64] |= 1 << (cpu % 64);
        self.reader_nodes |= 1 << nodes[usize::from(cpu)];
    }
}

fn contains(cpus: &CpuSet, cpu: u16) -> bool {
    cpus[usize::from(cpu) / 64] >> (cpu % 64) & 1 == 1
}
