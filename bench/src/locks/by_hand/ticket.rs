//! The ticket lock, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ByHand, Task};

#[derive(Default)]
pub struct Ticket;

#[repr(C)]
#[derive(Default)]
pub struct TicketLock {
    next: AtomicU32,
    serving: AtomicU32,
}

impl ByHand for Ticket {
    type Lock = TicketLock;

    #[inline(always)]
    fn lock(&self, mem: &TicketLock, _: &Task) -> u32 {
        let mine = mem.next.fetch_add(1, Relaxed);
        while mem.serving.load(Acquire) != mine {
            spin_loop();
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &TicketLock, _: &Task, _: u32) {
        mem.serving.store(mem.serving.load(Relaxed).wrapping_add(1), Release);
    }
}
