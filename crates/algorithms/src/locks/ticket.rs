//! Ticket lock: a task takes a number and waits until that number is served.
//!
//!     next, serving     n tickets are out, ticket s holds the lock; n = s: unlocked
//!     n, s -> n+1, s    lock: ticket n is mine
//!     n, s -> n, s+1    unlock
//!
//! First in, first out. Every waiter spins on the same line, so each unlock costs as many
//! transfers of it as there are waiters, and throughput collapses when many wait for short
//! critical sections. If the next in line is preempted, all behind it wait until it runs again.
//!
//! Numbers wrap around: at most 2^32 may wait. The spin lock of Linux 2.6.25 to 4.1 on x86.
//! Reed and Kanodia 1979 (Synchronization with eventcounts and sequencers); Mellor-Crummey
//! and Scott 1991 (Algorithms for scalable synchronization on shared-memory multiprocessors).

use machine::{Annotation, Atom, Machine, Ordering, Region, Until, image};

use crate::{Hold, Lock, Shape, Waits};

image! {
    /// The lock.
    pub struct TicketMem {
        next: Atom<u32>,
        serving: Atom<u32>,
    }
}

/// Ticket locks.
#[derive(Debug)]
pub struct Ticket;

impl Lock for Ticket {
    const FIFO: bool = true;
    const WAITS: Waits = Waits::OneWord;
    type Mem = TicketMem;

    fn new(_: &Region, _: Shape) -> Ticket {
        Ticket
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &TicketMem) -> Hold {
        // n, s -> n+1, s. Relaxed: the acquire of `serving` shows what the last holder did.
        let mine = mem.next.fetch_add(m, 1, Ordering::Relaxed);
        m.annotate(Annotation::Arrive);
        // Pairs with the release in `unlock`.
        m.await_until(&mem.serving, Until::equals(mine), Ordering::Acquire);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &TicketMem, _: Hold) {
        // n, s -> n, s+1. A load and a store: only the holder writes it. Pairs with the
        // acquire in `lock`.
        let serving = mem.serving.load(m, Ordering::Relaxed);
        mem.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &TicketMem) -> bool {
        mem.next.load(m, Ordering::Relaxed) == mem.serving.load(m, Ordering::Relaxed)
    }
}
