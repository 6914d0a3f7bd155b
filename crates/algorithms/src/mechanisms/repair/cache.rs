//! The buffer cache of a repair: sets of buffers, each of which evicts the least recently used.

use machine::{Array, Atom, Field, Image, Line, Machine, Native, Ordering, Region, Until, image};

use crate::{Lock, Shape, digest};

image! {
    /// A buffer for one block. The task that made it busy has exclusive use of it.
    pub(super) struct Buffer {
        /// 1 while a task uses the buffer. It changes to 1 only under the lock of the set.
        pub(super) busy: Atom<u32>,
        /// The block that the buffer is for, plus one; 0 is none. The lock of the set guards it.
        pub(super) block: Field<u32>,
        /// The block that was read into it, plus one.
        pub(super) content: Field<u32>,
        /// 1 once the block was used.
        pub(super) used: Field<u32>,
        /// The memory node of its pages, plus one.
        pub(super) node: Field<u32>,
        /// The node of the last hint fault on its pages, plus one.
        pub(super) faulted_on: Field<u32>,
        /// The number of the last scan before its pages were used.
        pub(super) scanned: Field<u32>,
    }

    /// A set of buffers. A block can be in any of them.
    struct CacheSet<L: Image> {
        lock: L,
        /// The buffers by number, the least recently used first.
        order: [Field<u32>; WAYS],
    }
}

/// Buffers of a set (HASH_CACHE_RATIO).
pub(super) const WAYS: usize = 8;

/// The result of a lookup, with a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) enum Lookup {
    /// The block is in this buffer, which is now busy for the caller.
    Hit(u32),
    /// The block is not cached. This buffer is for it, and is now busy for the caller.
    Miss(u32),
    /// The block is in this buffer, which another task uses.
    Busy(u32),
    /// The block is not cached, and other tasks use all buffers of its set, of which this is one.
    AllBusy(u32),
}

/// Buffers that hold a block each.
pub(super) struct Cache<L: Lock> {
    lock: L,
    ways: usize,
    /// One block in this many has a buffer of its own and is never evicted; 0: none.
    kept_one_in: u32,
    /// The number of sets that evict. The sets after them hold the blocks that are kept.
    evicting: usize,
    sets: Array<Line<CacheSet<L::Mem>>>,
    buffers: Array<Line<Buffer>>,
}

impl<L: Lock> Cache<L> {
    /// A cache for `blocks` blocks, rounded down to whole sets, and for `kept` more blocks, one
    /// block in `kept_one_in`, which are never evicted.
    pub(super) fn new(
        region: &Region,
        tasks: usize,
        blocks: usize,
        kept_one_in: usize,
        kept: usize,
    ) -> Cache<L> {
        let ways = blocks.min(WAYS);
        let evicting = blocks / ways;
        let sets = evicting + kept / ways;
        let cache = Cache {
            lock: L::new(region, Shape::new(tasks, sets)),
            ways,
            kept_one_in: kept_one_in as u32,
            evicting,
            sets: region.array("set", sets),
            buffers: region.array("buffer", sets * ways),
        };
        let m = Native::new(0, 0);
        for buffer in 0..sets * ways {
            cache.sets[buffer / ways].order[buffer % ways].set(&m, buffer as u32);
        }
        cache
    }

    /// The number of buffers.
    pub(super) fn len(&self) -> u32 {
        self.buffers.len() as u32
    }

    pub(super) fn buffer(&self, name: u32) -> &Buffer {
        &self.buffers[name as usize]
    }

    /// Looks up a block and makes its buffer busy. If the block is not cached, that is the least
    /// recently used buffer of the set. Also returns whether this evicted a block before its use.
    pub(super) fn find<M: Machine>(&self, m: &M, block: u32) -> (Lookup, bool) {
        let start = m.history_mark();
        let set = &self.sets[self.set_of(block)];
        let hold = self.lock.lock(m, &set.lock);
        m.forget_history(start, hold.0.into());
        let (lookup, evicted_unused) = self.find_in(m, set, block);
        m.forget_history(start, digest([hold.0.into(), lookup.live(), evicted_unused.into()]));
        self.lock.unlock(m, &set.lock, hold);
        m.forget_history(start, digest([lookup.live(), evicted_unused.into()]));
        (lookup, evicted_unused)
    }

    fn set_of(&self, block: u32) -> usize {
        if self.kept_one_in > 0 && block.is_multiple_of(self.kept_one_in) {
            return self.evicting + (block / self.kept_one_in) as usize / self.ways;
        }
        // Multiplicative hashing: blocks at the same place of two groups are in different sets
        // (Knuth 1973).
        let mixed = u64::from(block.wrapping_mul(0x9E37_79B1));
        ((mixed * self.evicting as u64) >> 32) as usize
    }

    /// Looks up a block in its set, which is locked.
    fn find_in<M: Machine>(&self, m: &M, set: &CacheSet<L::Mem>, block: u32) -> (Lookup, bool) {
        let ways = &set.order[..self.ways];
        let name = |way: usize| ways[way].get(m);
        // Pairs with the release in `release`.
        let is_busy = |name: u32| self.buffers[name as usize].busy.load(m, Ordering::Acquire) != 0;
        let has_block = |name: u32| self.buffers[name as usize].block.get(m) == block + 1;
        if let Some(way) = (0..self.ways).find(|&way| has_block(name(way))) {
            let cached = name(way);
            if is_busy(cached) {
                return (Lookup::Busy(cached), false);
            }
            self.take(m, set, way);
            return (Lookup::Hit(cached), false);
        }
        let Some(way) = (0..self.ways).find(|&way| !is_busy(name(way))) else {
            return (Lookup::AllBusy(name(0)), false);
        };
        let free = name(way);
        let buffer = &self.buffers[free as usize];
        let evicted_unused = buffer.block.get(m) != 0 && buffer.used.get(m) == 0;
        buffer.block.set(m, block + 1);
        self.take(m, set, way);
        (Lookup::Miss(free), evicted_unused)
    }

    /// Free -> busy; the buffer becomes the last of its set to be evicted.
    fn take<M: Machine>(&self, m: &M, set: &CacheSet<L::Mem>, way: usize) {
        let ways = &set.order[..self.ways];
        let name = ways[way].get(m);
        for (slot, next_slot) in ways[way..].iter().zip(&ways[way + 1..]) {
            slot.set(m, next_slot.get(m));
        }
        ways[self.ways - 1].set(m, name);
        // Relaxed: under the lock of the set, as are all loads that decide.
        self.buffers[name as usize].busy.store(m, 1, Ordering::Relaxed);
    }

    /// Busy -> free.
    pub(super) fn release<M: Machine>(&self, m: &M, buffer: u32) {
        // Pairs with the acquire in `find_in`.
        self.buffers[buffer as usize].busy.store(m, 0, Ordering::Release);
    }

    /// Waits until a buffer is released.
    pub(super) fn await_free<M: Machine>(&self, m: &M, buffer: u32) {
        // Relaxed: it is checked again under the lock of the set.
        let busy = &self.buffers[buffer as usize].busy;
        m.await_until(busy, Until::equals(0), Ordering::Relaxed);
    }

    /// Checks what must hold when no task uses the cache.
    pub(super) fn check<M: Machine>(&self, m: &M) -> Result<(), String> {
        let mut cached = Vec::new();
        for buffer in self.buffers.iter() {
            let (block, content) = (buffer.block.get(m), buffer.content.get(m));
            if buffer.busy.load(m, Ordering::Relaxed) != 0 {
                return Err("a buffer is still busy".to_string());
            }
            if block != content {
                return Err(format!("the buffer of block {block} has block {content}"));
            }
            cached.extend((block != 0).then_some(block));
        }
        let buffers_in_use = cached.len();
        cached.sort_unstable();
        cached.dedup();
        if buffers_in_use != cached.len() {
            return Err("a block is in the cache twice".to_string());
        }
        let at_rest = |set: &Line<CacheSet<L::Mem>>| self.lock.at_rest(m, &set.lock);
        if self.sets.iter().all(at_rest) {
            Ok(())
        } else {
            Err("a set is still locked".to_string())
        }
    }
}

impl Lookup {
    /// The variant and the buffer as one number, for `Machine::forget_history`.
    #[inline]
    pub(super) fn live(self) -> u64 {
        let (variant, buffer) = match self {
            Lookup::Hit(buffer) => (0, buffer),
            Lookup::Miss(buffer) => (1, buffer),
            Lookup::Busy(buffer) => (2, buffer),
            Lookup::AllBusy(buffer) => (3, buffer),
        };
        variant << 32 | u64::from(buffer)
    }
}
