//! The parking mutex, by hand.

use std::hint::spin_loop;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use super::{ByHand, Task, futex};

#[derive(Default)]
pub struct Parking;

impl ByHand for Parking {
    type Lock = AtomicU32;

    #[inline(always)]
    fn lock(&self, mem: &AtomicU32, _: &Task) -> u32 {
        if mem.compare_exchange(0, 1, Acquire, Relaxed).is_err() {
            contended(mem);
        }
        0
    }

    #[inline(always)]
    fn unlock(&self, mem: &AtomicU32, _: &Task, _: u32) {
        if mem.swap(0, Release) == 2 {
            futex(mem, libc::FUTEX_WAKE, 1);
        }
    }
}

#[cold]
fn contended(mem: &AtomicU32) {
    let mut pause = 1;
    while pause <= 64 {
        for _ in 0..pause {
            spin_loop();
        }
        match mem.load(Relaxed) {
            0 if mem.compare_exchange(0, 1, Acquire, Relaxed).is_ok() => return,
            2 => break,
            _ => pause *= 2,
        }
    }
    while mem.swap(2, Acquire) != 0 {
        futex(mem, libc::FUTEX_WAIT, 2);
    }
}
