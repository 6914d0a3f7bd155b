//! A host as it is priced: where its CPUs are, and what they pay for what.

use super::Time;

/// The largest number of CPUs.
pub const CPUS_MAX: usize = 256;

/// The largest number of memory nodes.
pub const NODES_MAX: usize = 64;

/// The largest number of distances, that of the threads of a core among them.
pub const DISTANCES_MAX: usize = 8;

/// A host. All costs are in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// Where each CPU is.
    pub cpus: Vec<Cpu>,
    /// How far nodes are from each other: an index of [`Host::transfers`], square. A node is
    /// at distance 1 from itself; 0 is for the threads of one core.
    pub distances: Vec<Vec<u8>>,
    /// What it costs to get a line over each distance: 0 from the other thread of the core,
    /// 1 within the node, and so on.
    pub transfers: Vec<Transfer>,
    /// What does not depend on the distance.
    pub costs: Costs,
    /// What leaving a guest costs its virtual CPUs, where that is known.
    pub guest: Option<Guest>,
}

/// What a virtual CPU pays beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guest {
    /// To leave the guest and come back; to halt is that. Where it is not known, halting costs what
    /// going to sleep does.
    pub exit: Time,
    /// To kick another one that halts, as waking is for tasks: the way to the host.
    pub kick: Time,
    /// When it leaves its guest for spinning, if ever.
    pub pause_loop: Option<PauseLoop>,
}

/// Spinning that the processor notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseLoop {
    /// For how long.
    pub window: Time,
    /// Pauses this far apart, or more, are not of one loop.
    pub gap: Time,
}

/// Where a CPU is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpu {
    /// Its core; CPUs of one core are threads of it.
    pub core: u16,
    /// Its memory node.
    pub node: u16,
}

/// The time from the request for a line until the instruction is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// To read it, where another CPU has it alone and changed it.
    pub load_modified: Time,
    /// To read it, where others have it to read.
    pub load_shared: Time,
    /// To read it from the memory of that node, where no CPU has it.
    pub load_memory: Time,
    /// To write it, where another CPU has it alone.
    pub store_modified: Time,
    /// To write it, where CPUs up to that distance have it to read.
    pub store_shared: Time,
    /// To read and write it in one, where another CPU has it alone.
    pub atomic_modified: Time,
    /// To read and write it in one, where CPUs up to that distance have it to read.
    pub atomic_shared: Time,
}

/// What does not depend on distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A load from the own cache.
    pub load: Time,
    /// A store to a line that is one's own. Any store costs its CPU this: where the line has
    /// to come first, the store waits for it in the CPU's buffer, and others see it later.
    pub store: Time,
    /// A read-modify-write of a line that is one's own.
    pub atomic: Time,
    /// How much of a transfer of a line that one CPU has alone is the flight from there, during
    /// which nobody has it and other requests wait, of 1000. Before it, the request is on its
    /// way.
    pub busy_per_mille: u32,
    /// How long a read of a line that others have to read keeps other requests waiting.
    pub busy_shared: Time,
    /// Whether who reads a line that another CPU has written has it alone from then on, to write it
    /// too; otherwise both have it to read.
    pub read_moves: bool,
    /// How long a CPU that got a line alone has it for itself where others ask for it already.
    pub hold: Time,
    /// One turn of a spin loop that looks at nothing.
    pub pause: Time,
    /// What everything takes where the other thread of the core is busy too, of 1000. It is not
    /// while it has no task, or one that only waits: that pauses.
    pub both_threads_per_mille: u32,
    /// To go to sleep: the way into the kernel and off the CPU.
    pub park: Time,
    /// To wake, for the one who does: the way into the kernel.
    pub wake: Time,
    /// The same for each that is woken.
    pub wake_each: Time,
    /// From being woken to running, on a CPU that is idle.
    pub wake_latency: Time,
    /// From one task to the next on the same CPU.
    pub switch: Time,
    /// How long a task may have a CPU that others wait for, at least.
    pub slice: Time,
    /// In which time each of the tasks of a CPU has it once, if slices need not be shorter for that.
    pub period: Time,
    /// How much longer the current task must have had its CPU than one that is woken, for that one
    /// to take it.
    pub wake_lead: Time,
    /// To send an interrupt, for the one who does: to one CPU, or to all others by one command.
    pub interrupt_send: Time,
    /// From there to the first instruction of the other CPU's handler.
    pub interrupt_delivery: Time,
    /// What being interrupted costs, beside what the handler does.
    pub interrupt_entry: Time,
    /// How long a line that goes from one node to another one keeps the link between them busy; 0:
    /// links never are.
    pub link: Time,
    /// How long a line that comes from memory keeps the memory of its node busy; 0: it never is.
    pub memory: Time,
}

impl Transfer {
    fn all(&self) -> [Time; 7] {
        [
            self.load_modified,
            self.load_shared,
            self.load_memory,
            self.store_modified,
            self.store_shared,
            self.atomic_modified,
            self.atomic_shared,
        ]
    }
}

impl Host {
    /// The CPUs that are threads of the core of this one, itself among them.
    pub fn threads(&self, cpu: usize) -> impl Iterator<Item = usize> + use<'_> {
        let core = self.cpus[cpu].core;
        (0..self.cpus.len()).filter(move |&other| self.cpus[other].core == core)
    }

    /// The distance of two CPUs.
    pub fn distance(&self, a: usize, b: usize) -> u8 {
        let (a, b) = (self.cpus[a], self.cpus[b]);
        match a.core == b.core {
            true => 0,
            false => self.distances[usize::from(a.node)][usize::from(b.node)],
        }
    }

    /// What makes it impossible, in words.
    pub fn contradiction(&self) -> Option<String> {
        let (cpus, nodes) = (self.cpus.len(), self.distances.len());
        if cpus == 0 || cpus > CPUS_MAX {
            return Some(format!("{cpus} CPUs: 1 to {CPUS_MAX} can be simulated"));
        }
        if nodes > NODES_MAX {
            return Some(format!("{nodes} nodes: 1 to {NODES_MAX} can be simulated"));
        }
        if self.transfers.len() > DISTANCES_MAX {
            let distances = self.transfers.len();
            return Some(format!("{distances} distances: up to {DISTANCES_MAX} can be simulated"));
        }
        if let Some(cpu) = self.cpus.iter().find(|cpu| usize::from(cpu.node) >= nodes) {
            return Some(format!("a CPU is on node {}, of {nodes}", cpu.node));
        }
        for (a, row) in self.distances.iter().enumerate() {
            if row.len() != nodes {
                return Some(format!("node {a} has {} distances, of {nodes}", row.len()));
            }
            for (b, &distance) in row.iter().enumerate() {
                if usize::from(distance) >= self.transfers.len() || distance == 0 {
                    return Some(format!("nodes {a} and {b} have no costs of distance {distance}"));
                }
                if (a == b) != (distance == 1) || distance != self.distances[b][a] {
                    return Some(format!("the distance of nodes {a} and {b} contradicts itself"));
                }
            }
        }
        if self.costs.busy_per_mille > 1000 {
            let share = self.costs.busy_per_mille;
            return Some(format!("a transfer keeps its line busy for {share} of 1000 of its time"));
        }
        if self.guest.and_then(|guest| guest.pause_loop).is_some_and(|found| found.window == 0) {
            return Some("who spins for no time leaves its guest".into());
        }
        self.too_slow()
    }

    /// A line is on its link, and read from memory, within the time that its transfer takes.
    fn too_slow(&self) -> Option<String> {
        let Costs { link, memory, .. } = self.costs;
        let between_nodes = self.transfers.iter().skip(2).flat_map(Transfer::all);
        if let Some(shortest) = between_nodes.min().filter(|&shortest| link > shortest) {
            return Some(format!(
                "a line keeps its link busy for {link} ps, and a transfer between nodes takes {shortest}"
            ));
        }
        let from_memory = self.transfers.iter().skip(1).map(|transfer| transfer.load_memory);
        let shortest = from_memory.min().filter(|&shortest| memory > shortest)?;
        Some(format!(
            "a line keeps its memory busy for {memory} ps, and comes from there within {shortest}"
        ))
    }
}
