//! A host to simulate: where its CPUs are, and what each action costs.

use super::Time;

/// The largest number of CPUs.
pub const CPUS_MAX: usize = 256;

/// The largest number of memory nodes.
pub const NODES_MAX: usize = 64;

/// The largest number of distances, counting that between the threads of a core.
pub const DISTANCES_MAX: usize = 8;

/// A host. All costs are in picoseconds.
#[derive(Clone, Debug, PartialEq)]
pub struct Host {
    /// The CPUs by number.
    pub cpus: Vec<CpuLocation>,
    /// The distance of each two nodes, an index of [`Host::transfers`]. A node is at distance 1
    /// from itself; distance 0 is between the threads of a core.
    pub distances: Vec<Vec<u8>>,
    /// The costs of getting a line, by distance: 0 from the other thread of the core, 1 within
    /// the node, and so on.
    pub transfers: Vec<TransferCosts>,
    /// Costs that do not depend on the distance.
    pub costs: Costs,
    /// Costs of virtual CPUs, where they are known.
    pub guest: Option<GuestCosts>,
}

/// Costs that only virtual CPUs have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuestCosts {
    /// A VM exit and the way back, which is also what halting costs. Where it is not known,
    /// halting costs as much as going to sleep.
    pub vm_exit: Time,
    /// Kicking a virtual CPU that has halted: a call of the host, as waking is for tasks.
    pub kick: Time,
    /// VM exits of spinning virtual CPUs. `None` where the processor has none.
    pub pause_loop_exiting: Option<PauseLoopExiting>,
}

/// VM exits of virtual CPUs that the processor finds spinning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PauseLoopExiting {
    /// How long a virtual CPU spins before it exits.
    pub window: Time,
    /// Pauses this far apart, or farther, do not belong to one loop.
    pub gap: Time,
}

/// The core and node of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLocation {
    /// CPUs with the same core are its threads.
    pub core: u16,
    /// The memory node.
    pub node: u16,
}

/// The time from the request for a line until the instruction is done, over one distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferCosts {
    /// A load, where another CPU has the line exclusively and changed it.
    pub load_modified: Time,
    /// A load, where other CPUs have the line to read.
    pub load_shared: Time,
    /// A load from the memory of a node at this distance, where no CPU has the line.
    pub load_memory: Time,
    /// A store, where another CPU has the line exclusively.
    pub store_modified: Time,
    /// A store, where CPUs up to this distance have the line to read.
    pub store_shared: Time,
    /// A read-modify-write, where another CPU has the line exclusively.
    pub atomic_modified: Time,
    /// A read-modify-write, where CPUs up to this distance have the line to read.
    pub atomic_shared: Time,
    /// The share of a transfer, in thousandths, in which the line is in flight, so that no CPU
    /// has it and other requests wait. Before that, the request is on its way. For lines that
    /// one CPU has exclusively.
    pub busy_per_mille: u32,
    /// How many of a thousand atomic instructions that a CPU issues right after the one that got it the line still find
    /// it, if another CPU at this distance asks for it already, to write it.
    pub keep_per_mille: u32,
}

/// Costs that do not depend on the distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Costs {
    /// A load that hits the CPU's own cache.
    pub load: Time,
    /// A store to a line that the CPU has exclusively. Every store costs its CPU just this. If
    /// the line has to come first, the store waits for it in the CPU's buffer, and other CPUs
    /// see it later.
    pub store: Time,
    /// A read-modify-write of a line that the CPU has exclusively.
    pub atomic: Time,
    /// How long a read of a shared line keeps other requests waiting.
    pub busy_shared: Time,
    /// Whether a CPU that reads a line which another CPU has written gets it exclusively.
    /// Otherwise both have it to read.
    pub read_moves: bool,
    /// One turn of a spin loop that reads nothing.
    pub pause: Time,
    /// From the arrival of the word that ends a wait until the waiting CPU goes on: it leaves its loop by a branch that it
    /// mispredicts, after turns that it had begun. 0 where transfers were timed by words that CPUs wait for.
    pub notice: Time,
    /// How long everything takes while another thread of the core is busy, in thousandths. A
    /// thread is not busy without a task, or with a task that only waits, because that pauses.
    pub both_threads_per_mille: u32,
    /// Going to sleep: the way into the kernel and off the CPU.
    pub park: Time,
    /// Waking tasks, for the waker: the way into the kernel.
    pub wake: Time,
    /// Waking tasks, for the waker: the additional cost of each woken task.
    pub wake_each: Time,
    /// From being woken to running, on an idle CPU.
    pub wake_latency: Time,
    /// Switching from one task to the next on a CPU.
    pub switch: Time,
    /// The shortest slice of a task on a CPU that others wait for.
    pub slice: Time,
    /// The time in which each task of a CPU runs once, if no slice has to be shorter for that
    /// than [`Costs::slice`].
    pub period: Time,
    /// By how much the current task's `vruntime` must exceed that of a woken task to be preempted
    /// by it.
    pub wake_lead: Time,
    /// Sending an interrupt, for the sender: to one CPU, or to all others by one command.
    pub interrupt_send: Time,
    /// From sending an interrupt to the first instruction of the target's handler.
    pub interrupt_delivery: Time,
    /// What an interrupt costs its target, without the handler.
    pub interrupt_entry: Time,
    /// How long a line that moves between nodes keeps their link busy; 0: unlimited bandwidth.
    pub link: Time,
    /// How long a line that comes from memory keeps that memory busy; 0: unlimited bandwidth.
    pub memory: Time,
    /// How long a line of much that is cleared or copied keeps its memory busy, there and back; 0: unlimited bandwidth.
    pub stream: Time,
}

impl TransferCosts {
    /// All times.
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
    /// The CPUs of this CPU's core, itself among them.
    pub fn threads(&self, cpu: usize) -> impl Iterator<Item = usize> + use<'_> {
        let core = self.cpus[cpu].core;
        (0..self.cpus.len()).filter(move |&other| self.cpus[other].core == core)
    }

    /// The distance of two CPUs.
    pub fn distance(&self, a: usize, b: usize) -> u8 {
        let (a, b) = (self.cpus[a], self.cpus[b]);
        if a.core == b.core { 0 } else { self.distances[usize::from(a.node)][usize::from(b.node)] }
    }

    /// Why the host is impossible, if it is.
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
            return Some(format!("a CPU is on node {} of {nodes} nodes, from 0", cpu.node));
        }
        for (a, row) in self.distances.iter().enumerate() {
            if row.len() != nodes {
                let distances = row.len();
                return Some(format!("node {a} has {distances} distances to {nodes} nodes"));
            }
            for (b, &distance) in row.iter().enumerate() {
                if usize::from(distance) >= self.transfers.len() || distance == 0 {
                    let nodes = format!("nodes {a} and {b}");
                    return Some(format!("{nodes} are at distance {distance}, which has no costs"));
                }
                if (a == b) != (distance == 1) || distance != self.distances[b][a] {
                    return Some(format!("the distance of nodes {a} and {b} contradicts itself"));
                }
            }
        }
        let busiest = self.transfers.iter().map(|transfer| transfer.busy_per_mille).max();
        if let Some(busy) = busiest.filter(|&busy| busy > 1000) {
            return Some(format!("a line is in flight for {busy} thousandths of its transfer"));
        }
        let kept = self.transfers.iter().map(|transfer| transfer.keep_per_mille).max();
        if let Some(keep) = kept.filter(|&keep| keep >= 1000) {
            return Some(format!(
                "an owner keeps a line {keep} of 1000 times: others never get it"
            ));
        }
        let exiting = self.guest.and_then(|guest| guest.pause_loop_exiting);
        if exiting.is_some_and(|exiting| exiting.window == 0) {
            return Some("the window of pause-loop exiting is 0".into());
        }
        self.bandwidth_contradiction()
    }

    /// The time of a line on a link or in memory is a part of its transfer.
    fn bandwidth_contradiction(&self) -> Option<String> {
        let Costs { link, memory, .. } = self.costs;
        let between_nodes = self.transfers.iter().skip(2).flat_map(TransferCosts::all);
        if let Some(shortest) = between_nodes.min().filter(|&shortest| link > shortest) {
            return Some(format!(
                "a line keeps its link busy for {link} ps, longer than a transfer between nodes, \
                 {shortest} ps"
            ));
        }
        let from_memory = self.transfers.iter().skip(1).map(|transfer| transfer.load_memory);
        let shortest = from_memory.min().filter(|&shortest| memory > shortest)?;
        Some(format!(
            "a line keeps its memory busy for {memory} ps, longer than a load from memory, \
             {shortest} ps"
        ))
    }
}
