//! Ticket lock: who comes takes a number, and waits until it is served.
//!
//!     next, serving     n tickets are out, s holds the lock; n = s: unlocked
//!     n, s -> n+1, s    lock: ticket n is mine
//!     n, s -> n, s+1    unlock
//!
//! First in, first out. Every waiter spins on the same line, so each unlock costs as many
//! transfers of it as there are waiters, and throughput collapses when many wait for short
//! sections. If the next in line is preempted, all behind it wait for it to run again.
//!
//! Numbers wrap around: at most 2^32 may wait. The spin lock of Linux 2.6.25 to 4.1 on x86.
//! Reed and Kanodia 1979 (Synchronization with eventcounts and sequencers); Mellor-Crummey
//! and Scott 1991 (Algorithms for scalable synchronization on shared-memory multiprocessors).

use machine::{Atom, Machine, Annotation, Ordering, Region, Until, image};

use crate::{Hold, Lock, Shape};

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
    type Mem = TicketMem;

    fn new(_: &Region, _: Shape) -> Ticket {
        Ticket
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, at: &TicketMem) -> Hold {
        // n, s -> n+1, s. Relaxed: what the last holder did comes with `serving`.
        let mine = at.next.fetch_add(m, 1, Ordering::Relaxed);
        m.annotate(Annotation::Arrive);
        // Pairs with the release in `unlock`.
        m.await_until(&at.serving, Until::equals(mine), Ordering::Acquire);
        Hold(0)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, at: &TicketMem, _: Hold) {
        // n, s -> n, s+1. A load and a store: only the holder writes it. Pairs with the
        // acquire in `lock`.
        let serving = at.serving.load(m, Ordering::Relaxed);
        at.serving.store(m, serving.wrapping_add(1), Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, at: &TicketMem) -> bool {
        at.next.load(m, Ordering::Relaxed) == at.serving.load(m, Ordering::Relaxed)
    }
}
