//! Cache coherence: which CPUs have which lines, and what it costs to get one.
//!
//!     memory       no CPU has the line: a request gets it from the memory of its home node
//!     exclusive c  CPU c has it to read and write; requests go to c. A CPU that reads what c has
//!                  written shares the line with c, or becomes its owner (`read_moves`)
//!     shared S     the CPUs of S have it to read; a writer takes it from all of them
//!
//! A request finds the line, which then leaves for the CPU that requested it:
//!
//!     request ── on its way ────────> leaves ── flight ──> arrives ── held ──> may leave again
//!                the owner uses the line                    the new owner does
//!
//! Requests are served in the order in which they are made. A CPU from which another one takes a line that it may write
//! holds it for a random time, without memory: another atomic instruction that it issues right after the one that got
//! the line still finds it with the probability `keep`. Loads and stores that come sooner find it always: the owner answers
//! the request when it has done what it is at. Caches have no capacity limit: a line
//! once read stays until another CPU writes it. Where links and memories have a limited bandwidth,
//! a line leaves when they are free.

use machine::{Region, exponential};

use super::Time;
use super::bandwidth::{Bandwidth, Route};
use super::host::{CPUS_MAX, Costs, CpuLocation, DISTANCES_MAX, Host, TransferCosts};
use super::random::below;

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

#[derive(Clone, Copy, Debug)]
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
    /// For how long its owner holds it then, in the mean.
    held: Time,
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
            held: 0,
        };
        let partly_busy =
            |latency: Time| price(latency, latency * Time::from(transfer.busy_per_mille) / 1000);
        // A store finds the line in memory like a load does.
        let memory = partly_busy(transfer.load_memory);
        let held = held(transfer.keep_per_mille, costs.atomic);
        let taken = |latency| Price { held, ..partly_busy(latency) };
        Prices {
            modified: [
                if costs.read_moves {
                    taken(transfer.load_modified)
                } else {
                    partly_busy(transfer.load_modified)
                },
                taken(transfer.store_modified),
                taken(transfer.atomic_modified),
            ],
            shared: [
                price(transfer.load_shared, costs.busy_shared),
                partly_busy(transfer.store_shared),
                partly_busy(transfer.atomic_shared),
            ],
            memory: [memory, memory, partly_busy(transfer.load_memory + costs.atomic)],
        }
    }
}

/// The mean of the times without memory of which this share is longer than an atomic instruction.
fn held(keep_per_mille: u32, atomic: Time) -> Time {
    if keep_per_mille == 0 {
        return 0;
    }
    (atomic as f64 / (1000.0 / f64::from(keep_per_mille)).ln()).round() as Time
}

/// How long a CPU needs a line to use it: some time even where the use costs none. Else it would still find a line at the
/// very time at which the line leaves, and see what the next owner writes later.
fn use_time(cost: Time) -> Time {
    cost.max(1)
}

/// All lines of a region.
#[derive(Clone, Debug)]
pub struct CacheLines {
    lines: Vec<CacheLine>,
    caches: Caches,
}

/// What lines move between, and what their way costs.
#[derive(Clone, Debug)]
struct Caches {
    cpus: Vec<CpuCache>,
    transfers: Transfers,
    /// Links and memories; `None` where they are infinitely fast.
    bandwidth: Option<Bandwidth>,
    /// How long an access to a line takes that the CPU has, by how it is used.
    uses: [Time; 3],
    /// For how long a line stays with its owner at least: a little less than an atomic instruction takes.
    stays: Time,
    /// The state of a random generator, never 0.
    random: u64,
}

/// The cache of a CPU.
#[derive(Clone, Copy, Debug)]
struct CpuCache {
    /// The last line that was requested of it.
    departing: u32,
    /// The CPU's node.
    node: u16,
    /// Until when it still has that line.
    until: Time,
}

/// The distances of CPUs, and what a transfer over each costs.
#[derive(Clone, Debug)]
struct Transfers {
    /// By node: the nodes at each distance, as bits; none at distance 0.
    at_distance: Vec<Vec<u64>>,
    /// The number of CPUs.
    cpus: usize,
    /// The distance of each pair of CPUs.
    distances: Vec<u8>,
    /// By distance.
    prices: [Prices; DISTANCES_MAX],
    /// By distance: those of a load from CPUs that have the line to read.
    load_shared: [Price; DISTANCES_MAX],
    read_moves: bool,
    /// A load of a line that the CPU has.
    load: Time,
}

impl CacheLines {
    /// The lines of a region on this host. The home of per-CPU memory is the node of the CPU that
    /// `home_cpu` gives for its number; that of all other memory is the first node.
    pub fn new(
        region: &Region,
        host: &Host,
        seed: u64,
        home_cpu: impl Fn(usize) -> usize,
    ) -> CacheLines {
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
        CacheLines {
            lines,
            caches: Caches {
                cpus: host.cpus.iter().map(CpuCache::new).collect(),
                transfers: Transfers::new(host),
                bandwidth: Bandwidth::new(host.distances.len(), host.costs.link, host.costs.memory),
                uses: [host.costs.load, host.costs.store, host.costs.atomic].map(use_time),
                stays: host.costs.atomic.saturating_sub(1),
                random: seed | 1,
            },
        }
    }

    /// How many lines there are.
    pub fn count(&self) -> usize {
        self.lines.len()
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: usize) -> usize {
        self.caches.cpus[cpu].node.into()
    }

    /// Notes that no request comes for an earlier time any more.
    #[inline(always)]
    pub fn passed(&mut self, now: Time) {
        if let Some(bandwidth) = &mut self.caches.bandwidth {
            bandwidth.passed(now);
        }
    }

    /// Whether the CPU has the line for this use.
    #[inline(always)]
    pub fn has(&self, line: u32, cpu: u16, how: LineUse, now: Time) -> bool {
        self.caches.has(&self.lines[line as usize], line, cpu, how, now)
    }

    /// Uses a line if the CPU has it; returns whether it does.
    #[inline(always)]
    pub fn hit(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> bool {
        let state = &mut self.lines[line as usize];
        let is_there = self.caches.has(state, line, cpu, how, now);
        if is_there && how != LineUse::Load {
            state.written = true;
        }
        is_there
    }

    /// Requests a line at this time; `None` where the CPU has it already.
    #[inline(always)]
    pub fn request(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> Option<LineArrival> {
        if self.hit(line, cpu, how, now) { None } else { Some(self.fetch(line, cpu, how, now)) }
    }

    /// Requests a line that the CPU does not have.
    pub fn fetch(&mut self, line: u32, cpu: u16, how: LineUse, now: Time) -> LineArrival {
        let state = &mut self.lines[line as usize];
        match how {
            LineUse::Load => self.caches.fetch_to_read(state, line, cpu, now),
            LineUse::Store | LineUse::Atomic => {
                self.caches.fetch_to_write(state, line, cpu, how, now)
            }
        }
    }

    /// The line, if several CPUs have it to read, and neither links nor memories limit how soon more get it.
    #[inline(always)]
    pub fn shared(&mut self, line: u32) -> Option<SharedLine<'_>> {
        let CacheLines { lines, caches: Caches { cpus, transfers, bandwidth, .. }, .. } = self;
        let state = &mut lines[line as usize];
        let is_simple = state.reader_nodes != 0 && bandwidth.is_none();
        is_simple.then(|| SharedLine { line, free: state.free, state, cpus, transfers })
    }
}

/// A line that several CPUs have to read, and that more of them request. Its state is at hand meanwhile.
pub struct SharedLine<'a> {
    line: u32,
    free: Time,
    state: &'a mut CacheLine,
    cpus: &'a [CpuCache],
    transfers: &'a Transfers,
}

impl SharedLine<'_> {
    /// Requests the line to read it; returns when it arrives, or `None` where the CPU has it already.
    #[inline(always)]
    pub fn request(&mut self, cpu: u16, now: Time) -> Option<Time> {
        let SharedLine { line, free, state, cpus, transfers } = self;
        let cache = &cpus[usize::from(cpu)];
        let readers = &mut state.readers[word_of(cpu)];
        let reader = 1 << (cpu % 64);
        if *readers & reader != 0 || cache.keeps(*line, now + transfers.load) {
            return None;
        }
        *readers |= reader;
        let own_node = 1 << cache.node;
        let distance = if state.reader_nodes & own_node == 0 {
            let nearest = transfers.nearest(cache.node, state.reader_nodes);
            state.reader_nodes |= own_node;
            nearest
        } else {
            1
        };
        let Price { before, flight, busy, .. } = transfers.load_shared[distance];
        let leaves = (*free).max(now + before);
        *free = leaves + busy;
        Some(leaves + flight)
    }

    /// Keeps from when on the line may leave again.
    #[inline(always)]
    pub fn end(self) {
        self.state.free = self.free;
    }
}

impl Caches {
    #[inline(always)]
    fn has(&self, state: &CacheLine, line: u32, cpu: u16, how: LineUse, now: Time) -> bool {
        state.is_at(cpu, how)
            || self.cpus[usize::from(cpu)].keeps(line, now + self.uses[how as usize])
    }

    #[inline(always)]
    fn fetch_to_write(
        &mut self,
        state: &mut CacheLine,
        line: u32,
        cpu: u16,
        how: LineUse,
        now: Time,
    ) -> LineArrival {
        let node = self.cpus[usize::from(cpu)].node;
        let &Price { before, flight, busy, held } = self.transfers.price(state, cpu, node, how);
        let mut leaves = self.released(state.free, held, now + before);
        if self.bandwidth.is_some() {
            leaves = self.departure(state, node, how, leaves);
        }
        if state.owner == NO_OWNER {
            (state.readers, state.reader_nodes) = (CpuSet::default(), 0);
        } else {
            self.cpus[usize::from(state.owner)].loses(line, leaves);
        }
        (state.owner, state.written) = (cpu, true);
        state.free = leaves + busy;
        LineArrival { arrives: leaves + flight, leaves }
    }

    #[inline(always)]
    fn fetch_to_read(
        &mut self,
        state: &mut CacheLine,
        line: u32,
        cpu: u16,
        now: Time,
    ) -> LineArrival {
        let node = self.cpus[usize::from(cpu)].node;
        let &Price { before, flight, busy, held } =
            self.transfers.price(state, cpu, node, LineUse::Load);
        let mut leaves = self.released(state.free, held, now + before);
        if self.bandwidth.is_some() {
            leaves = self.departure(state, node, LineUse::Load, leaves);
        }
        state.free = leaves + busy;
        let arrival = LineArrival { arrives: leaves + flight, leaves };
        if state.owner != NO_OWNER {
            self.cpus[usize::from(state.owner)].loses(line, leaves);
            if state.written && self.transfers.read_moves {
                (state.owner, state.written) = (cpu, false);
                return arrival;
            }
            state.add_reader(state.owner, self.cpus[usize::from(state.owner)].node);
            state.owner = NO_OWNER;
        }
        state.add_reader(cpu, node);
        arrival
    }

    /// When the owner gives a line up that it may have to give from `free` on, and that is asked for at `asked`.
    #[inline(always)]
    fn released(&mut self, free: Time, held: Time, asked: Time) -> Time {
        // It holds a line for more than 16 times the mean once in nine million times.
        if held == 0 || asked > free + self.stays + 16 * held {
            return free.max(asked);
        }
        let held = exponential(held, |bound| below(&mut self.random, bound));
        (free + held.max(self.stays)).max(asked)
    }

    /// When a line leaves for a node that is ready to, where links and memories may be busy.
    #[cold]
    fn departure(&mut self, state: &CacheLine, to: u16, how: LineUse, ready: Time) -> Time {
        let route = self.route(state, to, how);
        self.bandwidth.as_mut().map_or(ready, |bandwidth| bandwidth.departure(route, ready))
    }

    /// The way on which a line comes to a node.
    fn route(&self, state: &CacheLine, node: u16, how: LineUse) -> Route {
        let to = usize::from(node);
        match (state.owner, self.transfers.reader(state, node, how)) {
            (NO_OWNER, Some((_, from))) => Route { from, to, is_memory: false },
            (NO_OWNER, None) => Route { from: usize::from(state.home), to, is_memory: true },
            (owner, _) => {
                let from = usize::from(self.cpus[usize::from(owner)].node);
                Route { from, to, is_memory: false }
            }
        }
    }
}

impl Transfers {
    fn new(host: &Host) -> Transfers {
        let cpus = host.cpus.len();
        let distance = |index| host.distance(index / cpus, index % cpus);
        let mut at_distance = vec![vec![0; host.transfers.len()]; host.distances.len()];
        for (at_distance, distances) in at_distance.iter_mut().zip(&host.distances) {
            for (node, &distance) in distances.iter().enumerate() {
                at_distance[usize::from(distance)] |= 1 << node;
            }
        }
        let mut prices = [Prices::default(); DISTANCES_MAX];
        for (prices, transfer) in prices.iter_mut().zip(&host.transfers) {
            *prices = Prices::new(transfer, &host.costs);
        }
        Transfers {
            at_distance,
            cpus,
            distances: (0..cpus * cpus).map(distance).collect(),
            load_shared: prices.map(|prices| prices.shared[LineUse::Load as usize]),
            prices,
            read_moves: host.costs.read_moves,
            load: use_time(host.costs.load),
        }
    }

    #[inline(always)]
    fn price(&self, state: &CacheLine, cpu: u16, to: u16, how: LineUse) -> &Price {
        if state.owner != NO_OWNER {
            let pair = usize::from(cpu) * self.cpus + usize::from(state.owner);
            return &self.prices[usize::from(self.distances[pair])].modified[how as usize];
        }
        match self.reader(state, to, how) {
            Some((distance, _)) => &self.prices[distance].shared[how as usize],
            None => self.memory_price(state, to, how),
        }
    }

    #[cold]
    fn memory_price(&self, state: &CacheLine, to: u16, how: LineUse) -> &Price {
        let at_distance = &self.at_distance[usize::from(to)];
        let home = at_distance.iter().position(|nodes| nodes >> state.home & 1 == 1);
        &self.prices[home.unwrap_or(1)].memory[how as usize]
    }

    /// The distance of the nearest of these nodes, none of which is `to`.
    #[inline(never)]
    fn nearest(&self, to: u16, nodes: u64) -> usize {
        let mut at_distance = self.at_distance[usize::from(to)].iter();
        at_distance.position(|at_distance| at_distance & nodes != 0).unwrap_or(1)
    }

    /// The distance and number of the node with readers from which a line comes to node `to`. To
    /// be read, it comes from the nearest. To be written, it must have left all of them, so it
    /// takes the time of the farthest.
    #[inline(always)]
    fn reader(&self, state: &CacheLine, to: u16, how: LineUse) -> Option<(usize, usize)> {
        let nodes = state.reader_nodes;
        let mut at_distance = self.at_distance[usize::from(to)].iter().enumerate();
        let readers = |(distance, at_distance): (usize, &u64)| {
            let readers = at_distance & nodes;
            (readers != 0).then_some((distance, readers))
        };
        match how {
            _ if nodes == 0 => None,
            LineUse::Load => {
                let (distance, readers) = at_distance.find_map(readers)?;
                Some((distance, readers.trailing_zeros() as usize))
            }
            LineUse::Store | LineUse::Atomic => {
                let (distance, readers) = at_distance.rev().find_map(readers)?;
                Some((distance, readers.ilog2() as usize))
            }
        }
    }
}

impl CacheLine {
    /// Whether the CPU has it for this use.
    #[inline(always)]
    fn is_at(&self, cpu: u16, how: LineUse) -> bool {
        self.owner == cpu || (how == LineUse::Load && contains(&self.readers, cpu))
    }

    #[inline(always)]
    fn add_reader(&mut self, cpu: u16, node: u16) {
        self.readers[word_of(cpu)] |= 1 << (cpu % 64);
        self.reader_nodes |= 1 << node;
    }
}

impl CpuCache {
    fn new(cpu: &CpuLocation) -> CpuCache {
        CpuCache { departing: u32::MAX, node: cpu.node, until: 0 }
    }

    /// Whether the CPU still has the line, which another one has requested, when it has done with it.
    #[inline(always)]
    fn keeps(&self, line: u32, done: Time) -> bool {
        self.departing == line && done <= self.until
    }

    /// Notes that the CPU loses the line.
    #[inline(always)]
    fn loses(&mut self, line: u32, leaves: Time) {
        (self.departing, self.until) = (line, leaves);
    }
}

#[inline(always)]
fn contains(cpus: &CpuSet, cpu: u16) -> bool {
    cpus[word_of(cpu)] >> (cpu % 64) & 1 == 1
}

/// The word of a set that has the CPU's bit.
#[inline(always)]
fn word_of(cpu: u16) -> usize {
    usize::from(cpu) / 64 % (CPUS_MAX / 64)
}
