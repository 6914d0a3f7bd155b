//! The shape of a virtual machine: its CPUs in sockets, cores and threads, its memory and NUMA nodes.

use anyhow::{Context, Result, ensure};
use host::{Cpu, Topology};

use crate::guest::Guest;
use crate::parse;

/// The CPUs and memory of a virtual machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestShape {
    /// Number of packages.
    pub sockets: u32,
    /// Cores of each package.
    pub cores: u32,
    /// Hardware threads of each core.
    pub threads: u32,
    /// Distances of a node to itself and to another node, in the units of firmware (ACPI SLIT: 10 is
    /// local). With distances each socket is a node.
    pub distances: Option<(u32, u32)>,
    /// Memory in bytes.
    pub memory: u64,
}

/// The most CPUs of a virtual machine: more need an interrupt controller that emulation lacks.
const CPUS_MAX: u32 = 255;

/// The least memory in bytes: with less, no distribution kernel boots.
const MEMORY_MIN: u64 = 256 << 20;

/// Default memory in bytes, for the kernel and for each CPU.
const MEMORY: u64 = 1 << 30;
const MEMORY_PER_CPU: u64 = 64 << 20;

impl GuestShape {
    /// The number of CPUs.
    pub fn cpus(&self) -> u32 {
        self.sockets.saturating_mul(self.cores).saturating_mul(self.threads)
    }

    /// The position of a CPU in Linux's numbering: (socket, core in the socket, thread of the core).
    pub fn position(&self, cpu: u32) -> (u32, u32, u32) {
        let core = cpu / self.threads;
        (core / self.cores, core % self.cores, cpu % self.threads)
    }

    /// Refuses shapes that no virtual machine can have.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (1..=CPUS_MAX).contains(&self.cpus()),
            "{} sockets of {} cores of {} threads are asked for: a guest has 1 to {CPUS_MAX} CPUs",
            self.sockets,
            self.cores,
            self.threads
        );
        ensure!(
            self.memory >= MEMORY_MIN,
            "{} MiB of memory are asked for, but a kernel needs at least {} MiB",
            self.memory >> 20,
            MEMORY_MIN >> 20
        );
        if let Some((own, other)) = self.distances {
            ensure!(
                own == 10 && (11..=254).contains(&other),
                "distances are {own},{other}: must be 10 for a node's own memory, and 11 to 254 \
                 for another node's"
            );
        }
        Ok(())
    }

    /// The CPUs as Linux will number them in a virtual machine of this shape.
    pub fn topology(&self) -> Topology {
        let cpus = (0..self.cpus()).map(|cpu| {
            let (socket, ..) = self.position(cpu);
            let cpus_per_socket = self.cores * self.threads;
            Cpu {
                cpu,
                core: cpu - cpu % self.threads,
                // QEMU gives each package one last-level cache.
                llc: socket * cpus_per_socket,
                node: if self.distances.is_some() { socket } else { 0 },
                package: socket,
            }
        });
        Topology { cpus: cpus.collect() }
    }

    /// The options of QEMU for a virtual machine of this shape.
    pub fn qemu_arguments(&self) -> Vec<String> {
        let GuestShape { sockets, cores, threads, .. } = self;
        let mib = self.memory >> 20;
        let mut arguments = vec![
            "-smp".to_string(),
            format!("{},sockets={sockets},cores={cores},threads={threads}", self.cpus()),
            "-m".to_string(),
            format!("{mib}M"),
        ];
        let Some((own, other)) = self.distances else { return arguments };
        for node in 0..*sockets {
            // The last node has the remainder.
            let each = mib / *sockets as u64;
            let mib = if node + 1 == *sockets { mib - each * node as u64 } else { each };
            arguments.extend([
                "-object".to_string(),
                format!("memory-backend-ram,id=memory{node},size={mib}M"),
                "-numa".to_string(),
                format!("node,nodeid={node},memdev=memory{node}"),
                "-numa".to_string(),
                format!("cpu,node-id={node},socket-id={node}"),
            ]);
        }
        for (from, to) in (0..*sockets).flat_map(|from| (0..*sockets).map(move |to| (from, to))) {
            let distance = if from == to { own } else { other };
            arguments
                .extend(["-numa".to_string(), format!("dist,src={from},dst={to},val={distance}")]);
        }
        arguments
    }
}

impl Guest {
    /// The shape of the guest, with defaults for what it does not set.
    pub fn shape(&self) -> Result<GuestShape> {
        let (sockets, cores, threads) =
            (self.sockets.unwrap_or(1), self.cores.unwrap_or(1), self.threads.unwrap_or(1));
        let cpus = sockets.saturating_mul(cores).saturating_mul(threads) as u64;
        let memory = match &self.memory {
            Some(size) => parse::bytes(&size.0).context("memory of the guest")?,
            None => MEMORY + cpus * MEMORY_PER_CPU,
        };
        let distances = self.numa_distance.as_deref().map(distances).transpose()?;
        let shape = GuestShape { sockets, cores, threads, distances, memory };
        shape.check()?;
        Ok(shape)
    }
}

fn distances(text: &str) -> Result<(u32, u32)> {
    let numbers = text.split_once(',');
    let number = |text: &str| text.trim().parse::<u32>().ok();
    numbers
        .and_then(|(own, other)| Some((number(own)?, number(other)?)))
        .with_context(|| format!("--numa-distance is '{text}', must be OWN,OTHER such as 10,21"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: GuestShape = GuestShape {
        sockets: 2,
        cores: 2,
        threads: 1,
        distances: Some((10, 21)),
        memory: 1025 << 20,
    };

    #[test]
    fn nodes_share_the_memory_and_know_their_distances() {
        expect_test::expect![[r#"
            -smp 4,sockets=2,cores=2,threads=1 -m 1025M -object memory-backend-ram,id=memory0,size=512M -numa node,nodeid=0,memdev=memory0 -numa cpu,node-id=0,socket-id=0 -object memory-backend-ram,id=memory1,size=513M -numa node,nodeid=1,memdev=memory1 -numa cpu,node-id=1,socket-id=1 -numa dist,src=0,dst=0,val=10 -numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=21 -numa dist,src=1,dst=1,val=10"#]]
        .assert_eq(&SHAPE.qemu_arguments().join(" "));
        let positions: Vec<_> = (0..4).map(|cpu| SHAPE.position(cpu)).collect();
        assert_eq!(positions, [(0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 1, 0)]);
    }

    #[test]
    fn impossible_shapes_are_refused() {
        let check = |shape: GuestShape, expected: &str| {
            let error = shape.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        };
        check(GuestShape { cores: 0, ..SHAPE }, "1 to 255 CPUs");
        check(GuestShape { cores: 1 << 31, threads: 4, ..SHAPE }, "1 to 255 CPUs");
        check(GuestShape { memory: 1 << 20, ..SHAPE }, "at least 256 MiB");
        check(GuestShape { distances: Some((20, 10)), ..SHAPE }, "must be 10 for");
        SHAPE.check().unwrap();
    }
}
