//! Cache lines: who has them, and what it costs to get them.
//!
//!     memory     no CPU has it: whoever comes gets it from the memory of its home node
//!     alone c    CPU c has it to write; another one's request goes to c. Who reads what c has
//!                written shares it with c, or has it alone from then on (`read_moves`)
//!     shared S   the CPUs of S have it to read; a writer takes it from all of them
//!
//! A request finds the line, which then leaves for who asked:
//!
//!     asked ── the request is on its way ──> leaves ── flight ──> comes ── hold ──> may leave again
//!              the owner uses the line                            the new one does
//!
//! Requests are served in the order in which they are made. There are no capacities: a line once
//! read stays until another CPU writes it. Where links and memories have queues, a line leaves when
//! they are free (`bandwidth`).

use machine::Region;

use super::Time;
use super::bandwidth::{Bandwidth, Route};
use super::host::{CPUS_MAX, Costs, DISTANCES_MAX, Host, Transfer};

/// Bytes of a line, as a shift.
const LINE_SHIFT: u32 = 6;
/// No CPU.
const NOBODY: u16 = u16::MAX;

/// How a line is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    Load,
    Store,
    /// Read-modify-write, also one that fails.
    Atomic,
}

/// Where a word is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word {
    /// Bytes from the start of the region.
    pub offset: u32,
    /// Bytes.
    pub size: u8,
}

impl Word {
    /// The line that it is in.
    #[inline]
    pub fn line(self) -> u32 {
        self.offset >> LINE_SHIFT
    }
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Served {
    /// When the line is there.
    pub comes: Time,
    /// When those who had it and may not keep it lose it.
    pub leaves: Time,
}

/// A set of CPUs.
type Cpus = [u64; CPUS_MAX / 64];

#[derive(Clone, Debug)]
struct Line {
    /// From when on it may leave for the next request.
    free: Time,
    /// Who has it to read; nobody where it has an owner.
    readers: Cpus,
    /// The nodes of those, as bits.
    reader_nodes: u64,
    /// Who has it alone.
    owner: u16,
    /// The node of its memory.
    home: u16,
    /// Whether the owner has written it since it came.
    written: bool,
}

/// What a request costs that finds the line like that.
#[derive(Clone, Copy, Debug, Default)]
struct Price {
    /// From the request until the line leaves, unless it has to wait.
    before: Time,
    /// From there until it comes.
    flight: Time,
    /// From there until it may leave again.
    busy: Time,
}

/// Prices over one distance, by how the line is used.
#[derive(Clone, Copy, Debug, Default)]
struct Prices {
    /// One CPU has it alone.
    modified: [Price; 3],
    /// Others have it to read.
    shared: [Price; 3],
    /// Nobody has it.
    memory: [Price; 3],
}

impl Prices {
    fn new(transfer: &Transfer, costs: &Costs) -> Prices {
        let price = |latency: Time, busy: Time| Price {
            before: latency.saturating_sub(busy),
            flight: busy.min(latency),
            busy,
        };
        let part =
            |latency: Time| price(latency, latency * Time::from(costs.busy_per_mille) / 1000);
        // A store finds the line in memory like a load does.
        let memory = part(transfer.load_memory);
        Prices {
            modified: [transfer.load_modified, transfer.store_modified, transfer.atomic_modified]
                .map(part),
            shared: [
                price(transfer.load_shared, costs.busy_shared),
                part(transfer.store_shared),
                part(transfer.atomic_shared),
            ],
            memory: [memory, memory, part(transfer.load_memory + costs.atomic)],
        }
    }
}

/// All lines of a region.
#[derive(Clone, Debug)]
pub struct Lines {
    lines: Vec<Line>,
    /// By line: tasks that wait for a word of it to change.
    waiters: Vec<Vec<u16>>,
    /// By CPU: the line that was asked of it last, and until when it still has it.
    kept: Vec<(u32, Time)>,
    /// The node of each CPU.
    nodes: Vec<u16>,
    /// By node: the nodes at each distance, as bits.
    within: Vec<[u64; DISTANCES_MAX]>,
    /// The distance of two CPUs.
    distances: Vec<u8>,
    /// By distance.
    prices: [Prices; DISTANCES_MAX],
    read_moves: bool,
    hold: Time,
    /// Links and memories; nothing where they are infinitely fast.
    pub bandwidth: Option<Bandwidth>,
}

impl Lines {
    /// The lines of a region on this host: what belongs to a CPU is homed on its node, by
    /// `cpu_of`, and all else on the first.
    pub fn new(region: &Region, host: &Host, cpu_of: impl Fn(usize) -> usize) -> Lines {
        let count = region.used().div_ceil(1 << LINE_SHIFT);
        let line = Line {
            free: 0,
            readers: Cpus::default(),
            reader_nodes: 0,
            owner: NOBODY,
            home: 0,
            written: false,
        };
        let mut lines = vec![line; count];
        for block in region.arrays().iter().filter(|block| block.per_cpu) {
            for element in 0..block.length {
                let offset = block.offset + element * block.stride;
                lines[offset >> LINE_SHIFT].home = host.cpus[cpu_of(element)].node;
            }
        }
        let cpus = host.cpus.len();
        let distance = |index| host.distance(index / cpus, index % cpus);
        let mut within = vec![[0; DISTANCES_MAX]; host.distances.len()];
        for (within, distances) in within.iter_mut().zip(&host.distances) {
            for (node, &distance) in distances.iter().enumerate() {
                within[usize::from(distance)] |= 1 << node;
            }
        }
        let mut prices = [Prices::default(); DISTANCES_MAX];
        for (prices, transfer) in prices.iter_mut().zip(&host.transfers) {
            *prices = Prices::new(transfer, &host.costs);
        }
        Lines {
            waiters: vec![Vec::new(); count],
            lines,
            kept: vec![(u32::MAX, 0); cpus],
            nodes: host.cpus.iter().map(|cpu| cpu.node).collect(),
            within,
            distances: (0..cpus * cpus).map(distance).collect(),
            prices,
            read_moves: host.costs.read_moves,
            hold: host.costs.hold,
            bandwidth: Bandwidth::new(host.distances.len(), host.costs.link, host.costs.memory),
        }
    }

    /// Who waits for a change of the line.
    pub fn waiters(&mut self, line: u32) -> &mut Vec<u16> {
        &mut self.waiters[line as usize]
    }

    /// The node of a CPU.
    pub fn node(&self, cpu: usize) -> usize {
        self.nodes[cpu].into()
    }

    /// Whether the CPU need not ask for the line.
    #[inline(always)]
    pub fn has(&self, line: u32, cpu: u16, how: Use, now: Time) -> bool {
        let state = &self.lines[line as usize];
        let reads = how == Use::Load && contains(&state.readers, cpu);
        let (kept, until) = self.kept[usize::from(cpu)];
        state.owner == cpu || reads || (kept == line && now < until)
    }

    /// Uses a line that the CPU need not ask for; whether that is so.
    #[inline(always)]
    pub fn hit(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> bool {
        let is_there = self.has(line, cpu, how, now);
        self.lines[line as usize].written |= is_there && how != Use::Load;
        is_there
    }

    /// Asks for a line at this time; nothing where it is there already.
    #[inline(always)]
    pub fn serve(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> Option<Served> {
        match self.hit(line, cpu, how, now) {
            true => None,
            false => Some(self.fetch(line, cpu, how, now)),
        }
    }

    /// Asks for a line that the CPU does not have.
    pub fn fetch(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> Served {
        let state = &self.lines[line as usize];
        let owner = state.owner;
        let &Price { before, flight, busy } = self.price(state, cpu, how);
        let ready = state.free.max(now + before);
        let leaves = match self.bandwidth.is_some() {
            true => self.queues(self.route(state, cpu, how), ready),
            false => ready,
        };
        let state = &mut self.lines[line as usize];
        if owner != NOBODY {
            self.kept[usize::from(owner)] = (line, leaves);
        }
        state.free = leaves + busy;
        match how {
            Use::Load if owner != NOBODY && state.written && self.read_moves => {
                (state.owner, state.written) = (cpu, false);
            }
            Use::Load => {
                if owner != NOBODY {
                    state.add_reader(owner, &self.nodes);
                    state.owner = NOBODY;
                }
                state.add_reader(cpu, &self.nodes);
            }
            Use::Store | Use::Atomic => {
                (state.readers, state.reader_nodes) = (Cpus::default(), 0);
                (state.owner, state.written) = (cpu, true);
                state.free += self.hold;
            }
        }
        Served { comes: leaves + flight, leaves }
    }

    #[inline(always)]
    fn price(&self, state: &Line, cpu: u16, how: Use) -> &Price {
        if state.owner != NOBODY {
            let pair = usize::from(cpu) * self.nodes.len() + usize::from(state.owner);
            return &self.prices[usize::from(self.distances[pair])].modified[how as usize];
        }
        self.price_without_owner(state, cpu, how)
    }

    fn price_without_owner(&self, state: &Line, cpu: u16, how: Use) -> &Price {
        let to = self.nodes[usize::from(cpu)];
        match self.reader(state, to, how) {
            Some((distance, _)) => &self.prices[distance].shared[how as usize],
            None => {
                let within = &self.within[usize::from(to)];
                let home = within.iter().position(|nodes| nodes >> state.home & 1 == 1);
                &self.prices[home.unwrap_or(1)].memory[how as usize]
            }
        }
    }

    /// Of the nodes that have readers, that from which a line comes to this one, and its distance:
    /// to be read from the nearest; to be written it must have left all, the farthest too.
    fn reader(&self, state: &Line, to: u16, how: Use) -> Option<(usize, usize)> {
        let readers = |distance| self.within[usize::from(to)][distance] & state.reader_nodes;
        let has_readers = |&distance: &usize| readers(distance) != 0;
        let mut distances = 1..DISTANCES_MAX;
        match how {
            _ if state.reader_nodes == 0 => None,
            Use::Load => {
                let distance = distances.find(has_readers)?;
                Some((distance, readers(distance).trailing_zeros() as usize))
            }
            Use::Store | Use::Atomic => {
                let distance = distances.rfind(has_readers)?;
                Some((distance, readers(distance).ilog2() as usize))
            }
        }
    }

    /// When a line that could leave does, where links and memories may be busy.
    #[cold]
    fn queues(&mut self, route: Route, ready: Time) -> Time {
        self.bandwidth.as_mut().map_or(ready, |bandwidth| bandwidth.leaves(route, ready))
    }

    /// Which way a line comes.
    fn route(&self, state: &Line, cpu: u16, how: Use) -> Route {
        let node = self.nodes[usize::from(cpu)];
        let to = usize::from(node);
        match (state.owner, self.reader(state, node, how)) {
            (NOBODY, Some((_, from))) => Route { from, to, is_memory: false },
            (NOBODY, None) => Route { from: usize::from(state.home), to, is_memory: true },
            (owner, _) => {
                Route { from: usize::from(self.nodes[usize::from(owner)]), to, is_memory: false }
            }
        }
    }
}

impl Line {
    fn add_reader(&mut self, cpu: u16, nodes: &[u16]) {
        self.readers[usize::from(cpu) / 64] |= 1 << (cpu % 64);
        self.reader_nodes |= 1 << nodes[usize::from(cpu)];
    }
}

fn contains(cpus: &Cpus, cpu: u16) -> bool {
    cpus[usize::from(cpu) / 64] >> (cpu % 64) & 1 == 1
}
