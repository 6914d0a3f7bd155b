//! The per-CPU read-write lock over ticket locks, by hand.

use super::ticket::{Ticket, TicketLock};
use super::{ByHand, CPUS, SharedByHand, Task};

#[derive(Default)]
pub struct PerCpuReadWrite {
    lock: Ticket,
    cpus: [CpuLock; CPUS],
}

#[repr(C, align(64))]
#[derive(Default)]
struct CpuLock(TicketLock);

impl SharedByHand for PerCpuReadWrite {
    /// All of it is per CPU.
    type Lock = ();

    #[inline(always)]
    fn read_lock(&self, (): &(), task: &Task) {
        self.lock.lock(&self.cpus[task.cpu].0, task);
    }

    #[inline(always)]
    fn read_unlock(&self, (): &(), task: &Task) {
        self.lock.unlock(&self.cpus[task.cpu].0, task, 0);
    }

    #[inline(always)]
    fn write_lock(&self, (): &(), task: &Task) {
        for cpu in &self.cpus {
            self.lock.lock(&cpu.0, task);
        }
    }

    #[inline(always)]
    fn write_unlock(&self, (): &(), task: &Task) {
        for cpu in &self.cpus {
            self.lock.unlock(&cpu.0, task, 0);
        }
    }
}
