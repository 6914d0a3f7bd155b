//! Array lock: a ticket lock in which each waiter spins on a line of its own.
//!
//!     next = n                n tickets are out
//!     slot[t % slots] = t     ticket t's turn; all slots begin at 0, so ticket 0 need not wait
//!
//!     lock:    t = next++; waits until slot[t % slots] is t
//!     unlock:  slot[(t + 1) % slots] = t + 1
//!
//! First in, first out. An unlock moves one line to one waiter, however many wait. A lock needs a line for each CPU.
//! The block of slots is found by a number that the first holder ever writes beside `next`.
//!
//! Anderson 1990 (The performance of spin lock alternatives for shared-memory multiprocessors); turns by ticket
//! instead of flags that are set back, as in the partitioned ticket lock of Dice 2011.

use machine::{Annotation, Array, Atom, Line, Machine, Ordering, Region, Until, image};

use crate::{Hold, Lock, Shape};

image! {
    /// The lock.
    pub struct ArrayMem {
        next: Atom<u32>,
        /// The number of its block of slots, from 1; 0 until the first holder has chosen one.
        block: Atom<u32>,
    }

    /// Where a waiter spins.
    pub struct Slot {
        /// The ticket whose turn it is.
        turn: Atom<u32>,
    }
}

/// Array locks, and the slots of all of them.
#[derive(Debug)]
pub struct ArrayLock {
    slots: Array<Line<Slot>>,
    /// Slots of each lock.
    of_each: u32,
    /// How many blocks of slots are in use.
    handed_out: Array<Atom<u32>>,
}

impl ArrayLock {
    #[inline(always)]
    fn turn(&self, block: u32, ticket: u32) -> &Atom<u32> {
        &self.slots[((block - 1) * self.of_each + ticket % self.of_each) as usize].turn
    }

    /// The block of a lock that was never taken.
    #[cold]
    fn choose_block<M: Machine>(&self, m: &M, mem: &ArrayMem) -> u32 {
        // Relaxed: no other lock gets this block, and its memory is still zero.
        let block = self.handed_out[0].fetch_add(m, 1, Ordering::Relaxed) + 1;
        mem.block.store(m, block, Ordering::Relaxed);
        block
    }
}

impl Lock for ArrayLock {
    const FIFO: bool = true;
    type Mem = ArrayMem;

    fn new(region: &Region, shape: Shape) -> ArrayLock {
        // A power of two, so that tickets may wrap around.
        let of_each = shape.cpus.next_power_of_two();
        ArrayLock {
            slots: region.array("slot", of_each * shape.locks),
            of_each: of_each as u32,
            handed_out: region.array("handed_out", 1),
        }
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, mem: &ArrayMem) -> Hold {
        // Relaxed: the acquire of the slot shows what the last holder did.
        let mine = mem.next.fetch_add(m, 1, Ordering::Relaxed);
        m.annotate(Annotation::Arrive);
        let block = match mem.block.load(m, Ordering::Relaxed) {
            0 if mine == 0 => self.choose_block(m, mem),
            0 => m.await_until(&mem.block, Until::differs(0), Ordering::Relaxed),
            block => block,
        };
        // Pairs with the release in `unlock`.
        m.await_until(self.turn(block, mine), Until::equals(mine), Ordering::Acquire);
        Hold(mine)
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, mem: &ArrayMem, Hold(mine): Hold) {
        let next = mine.wrapping_add(1);
        let block = mem.block.load(m, Ordering::Relaxed);
        // Pairs with the acquire in `lock`.
        self.turn(block, next).store(m, next, Ordering::Release);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &ArrayMem) -> bool {
        let next = mem.next.load(m, Ordering::Relaxed);
        match mem.block.load(m, Ordering::Relaxed) {
            0 => next == 0,
            block => self.turn(block, next).load(m, Ordering::Relaxed) == next,
        }
    }
}
