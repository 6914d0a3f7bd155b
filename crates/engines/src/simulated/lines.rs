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
//! read stays until another CPU writes it.

use machine::Region;

use super::Time;
use super::host::{CPUS_MAX, Host, Transfer};

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
    /// When the line is there: at once, where it was there already.
    pub comes: Time,
    /// When those who had it and may not keep it lose it.
    pub leaves: Time,
    /// Whether it was there already.
    pub hit: bool,
}

/// A set of CPUs.
type Cpus = [u64; CPUS_MAX / 64];

#[derive(Clone, Debug)]
struct Line {
    /// Who has it alone.
    owner: u16,
    /// Whether that one has written it since it came.
    written: bool,
    /// Who has it to read; nobody where it has an owner.
    readers: Cpus,
    /// From when on it may leave for the next request.
    free: Time,
    /// The node of its memory.
    home: u16,
    /// Tasks that wait for a word of it to change.
    waiters: Vec<u16>,
}

/// All lines of a region.
#[derive(Clone, Debug)]
pub struct Lines {
    lines: Vec<Line>,
    /// By CPU: the line that was asked of it last, and until when it still has it.
    kept: Vec<(u32, Time)>,
    /// The CPUs of each node.
    nodes: Vec<Cpus>,
    /// The distance of two CPUs.
    distances: Vec<u8>,
    host: Host,
}

impl Lines {
    /// The lines of a region on this host: what belongs to a CPU is homed on its node, by
    /// `cpu_of`, and all else on the first.
    pub fn new(region: &Region, host: &Host, cpu_of: impl Fn(usize) -> usize) -> Lines {
        let count = region.used().div_ceil(1 << LINE_SHIFT);
        let line = Line {
            owner: NOBODY,
            written: false,
            readers: Cpus::default(),
            free: 0,
            home: 0,
            waiters: Vec::new(),
        };
        let mut lines = vec![line; count];
        for block in region.blocks().iter().filter(|block| block.per_cpu) {
            for element in 0..block.length {
                let offset = block.offset + element * block.stride;
                lines[offset >> LINE_SHIFT].home = host.cpus[cpu_of(element)].node;
            }
        }
        let cpus = host.cpus.len();
        let mut nodes = vec![Cpus::default(); host.distances.len()];
        for (i, cpu) in host.cpus.iter().enumerate() {
            add(&mut nodes[usize::from(cpu.node)], i);
        }
        let distance = |index| host.distance(index / cpus, index % cpus);
        let distances = (0..cpus * cpus).map(distance).collect();
        Lines { lines, kept: vec![(u32::MAX, 0); cpus], nodes, distances, host: host.clone() }
    }

    /// Who waits for a change of the line.
    pub fn waiters(&mut self, line: u32) -> &mut Vec<u16> {
        &mut self.lines[line as usize].waiters
    }

    /// Whether the CPU need not ask for the line.
    #[inline]
    pub fn has(&self, line: u32, cpu: u16, how: Use, now: Time) -> bool {
        let state = &self.lines[line as usize];
        let reads = how == Use::Load && contains(&state.readers, cpu);
        let (kept, until) = self.kept[usize::from(cpu)];
        state.owner == cpu || reads || (kept == line && now < until)
    }

    /// Uses a line that the CPU need not ask for; whether that is so.
    #[inline]
    pub fn hit(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> bool {
        let is_there = self.has(line, cpu, how, now);
        self.lines[line as usize].written |= is_there && how != Use::Load;
        is_there
    }

    /// Asks for a line at this time.
    #[inline]
    pub fn serve(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> Served {
        match self.hit(line, cpu, how, now) {
            true => Served { comes: now, leaves: now, hit: true },
            false => self.fetch(line, cpu, how, now),
        }
    }

    fn fetch(&mut self, line: u32, cpu: u16, how: Use, now: Time) -> Served {
        let state = &self.lines[line as usize];
        let owner = state.owner;
        let (latency, flight) = self.price(state, cpu, how);
        let state = &mut self.lines[line as usize];
        let leaves = state.free.max(now + latency.saturating_sub(flight));
        let comes = leaves + flight.min(latency);
        if owner != NOBODY {
            self.kept[usize::from(owner)] = (line, leaves);
        }
        state.free = leaves + flight;
        match how {
            Use::Load if owner != NOBODY && state.written && self.host.costs.read_moves => {
                (state.owner, state.written) = (cpu, false);
            }
            Use::Load => {
                if owner != NOBODY {
                    add(&mut state.readers, usize::from(owner));
                    state.owner = NOBODY;
                }
                add(&mut state.readers, usize::from(cpu));
            }
            Use::Store | Use::Atomic => {
                state.readers = Cpus::default();
                (state.owner, state.written) = (cpu, true);
                state.free += self.host.costs.hold;
            }
        }
        Served { comes, leaves, hit: false }
    }

    /// How long a request takes, and for how much of that nobody has the line.
    fn price(&self, state: &Line, cpu: u16, how: Use) -> (Time, Time) {
        let costs = &self.host.costs;
        if state.owner != NOBODY {
            let transfer = self.over(cpu, state.owner);
            let latency = match how {
                Use::Load => transfer.load_modified,
                Use::Store => transfer.store_modified,
                Use::Atomic => transfer.atomic_modified,
            };
            return (latency, latency * Time::from(costs.busy_per_mille) / 1000);
        }
        let home = self.memory_of(cpu, state.home);
        if state.readers == Cpus::default() {
            // A store finds the line in memory like a load does.
            let latency = home.load_memory + if how == Use::Atomic { costs.atomic } else { 0 };
            return (latency, latency * Time::from(costs.busy_per_mille) / 1000);
        }
        match how {
            Use::Load => {
                let own = &self.nodes[usize::from(self.host.cpus[usize::from(cpu)].node)];
                let nearest = match meet(own, &state.readers) {
                    true => 1,
                    false => self.readers(state, cpu).min().unwrap_or(1),
                };
                (self.host.transfers[nearest].load_shared, costs.busy_shared)
            }
            Use::Store | Use::Atomic => {
                let farthest = self.readers(state, cpu).max().unwrap_or(1);
                let transfer = &self.host.transfers[farthest];
                let latency = match how {
                    Use::Atomic => transfer.atomic_shared,
                    _ => transfer.store_shared,
                };
                (latency, latency * Time::from(costs.busy_per_mille) / 1000)
            }
        }
    }

    fn over(&self, cpu: u16, other: u16) -> &Transfer {
        let distance = self.distances[usize::from(cpu) * self.host.cpus.len() + usize::from(other)];
        &self.host.transfers[usize::from(distance)]
    }

    fn memory_of(&self, cpu: u16, home: u16) -> &Transfer {
        let node = usize::from(self.host.cpus[usize::from(cpu)].node);
        &self.host.transfers[usize::from(self.host.distances[node][usize::from(home)])]
    }

    /// The distances of the nodes that have readers.
    fn readers<'a>(&'a self, state: &'a Line, cpu: u16) -> impl Iterator<Item = usize> + 'a {
        let distances = &self.host.distances[usize::from(self.host.cpus[usize::from(cpu)].node)];
        let nodes = self.nodes.iter().zip(distances);
        nodes
            .filter(|(node, _)| meet(node, &state.readers))
            .map(|(_, &distance)| usize::from(distance))
    }
}

fn add(cpus: &mut Cpus, cpu: usize) {
    cpus[cpu / 64] |= 1 << (cpu % 64);
}

fn meet(a: &Cpus, b: &Cpus) -> bool {
    a.iter().zip(b).any(|(a, b)| a & b != 0)
}

fn contains(cpus: &Cpus, cpu: u16) -> bool {
    cpus[usize::from(cpu) / 64] >> (cpu % 64) & 1 == 1
}
