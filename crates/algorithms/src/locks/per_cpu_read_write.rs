//! Per-CPU read-write lock: a reader takes the lock of its CPU, a writer the locks of all CPUs.
//! This is the lglock of Linux 3.0 to 4.1, which file locks used.
//!
//!     read     lock[own]
//!     write    lock[0], lock[1], … lock[n-1], in this order, so that two writers cannot deadlock
//!
//! Reading touches no line of another CPU, so it scales; writing costs a line transfer and a wait
//! for each CPU. Readers on one CPU exclude each other, which costs a kernel nothing: only one runs.
//!
//! Linux 3.10 kernel/lglock.c, by Andi Kleen and Nick Piggin, 2010 (lglock: introduce special
//! lglock and brlock spin locks), over ticket locks as there.

use machine::{Array, Line, Machine, Region};

use super::ticket::{Ticket, TicketMem};
use crate::{Hold, Lock, Shape, SharedLock, Waits};

/// The one lock. Its per-CPU parts cannot lie in the data that it guards.
#[derive(Debug)]
pub struct PerCpuReadWrite {
    lock: Ticket,
    cpus: Array<Line<TicketMem>>,
}

impl SharedLock for PerCpuReadWrite {
    /// A writer takes the CPUs' locks in order.
    const SYMMETRIC: bool = false;
    const WAITS: Waits = Waits::OneWord;
    type Mem = ();

    fn new(region: &Region, shape: Shape) -> PerCpuReadWrite {
        PerCpuReadWrite {
            lock: Ticket::new(region, shape),
            cpus: region.per_cpu("lock", shape.cpus),
        }
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, (): &()) -> Hold {
        self.lock.lock(m, &self.cpus[m.cpu()])
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, (): &(), hold: Hold) {
        self.lock.unlock(m, &self.cpus[m.cpu()], hold);
    }

    #[inline(always)]
    fn write_lock<M: Machine>(&self, m: &M, (): &()) -> Hold {
        for cpu in self.cpus.iter() {
            let _ = self.lock.lock(m, cpu);
        }
        Hold(0)
    }

    #[inline(always)]
    fn write_unlock<M: Machine>(&self, m: &M, (): &(), _: Hold) {
        for cpu in self.cpus.iter() {
            self.lock.unlock(m, cpu, Hold(0));
        }
    }

    fn at_rest<M: Machine>(&self, m: &M, (): &()) -> bool {
        self.cpus.iter().all(|cpu| self.lock.at_rest(m, cpu))
    }
}
