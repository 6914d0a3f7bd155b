//! The cache of a repair: sets of buffers, of which each evicts what was used longest ago.

use machine::{Array, Atom, Field, Image, Line, Machine, Native, Ordering, Region, Until, image};

use crate::{Lock, Shape, digest};

image! {
    /// A place for a block. Who has made it busy uses it alone.
    pub(super) struct Buffer {
        /// 1 while somebody uses it; becomes that under the lock of its set only.
        pub(super) busy: Atom<u32>,
        /// The block plus one; 0 is none. The lock of the set guards it.
        pub(super) block: Field<u32>,
        /// The block that was read into it, plus one.
        pub(super) content: Field<u32>,
        /// 1 once the block was used.
        pub(super) used: Field<u32>,
        /// The node of its pages plus one, and that of their last hint fault.
        pub(super) node: Field<u32>,
        pub(super) faulted_on: Field<u32>,
        /// The scan after which they were last looked at.
        pub(super) scanned: Field<u32>,
    }

    /// Some buffers, of which a block can have any.
    struct Set<L: Image> {
        lock: L,
        /// The buffers by number, that which was used longest ago first.
        order: [Field<u32>; WAYS],
    }
}

/// Buffers of a set (HASH_CACHE_RATIO).
pub(super) const WAYS: usize = 8;

/// What became of a look for a block. Who has found its buffer has made it busy.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found {
    /// In this buffer.
    Cached(u32),
    /// Not there, but this buffer is for it.
    Empty(u32),
    /// There, and somebody is at it.
    Taken(u32),
    /// Not there, and somebody is at each buffer it could have: at this one too.
    Full(u32),
}

/// Buffers that hold a block each.
pub(super) struct Cache<L: Lock> {
    lock: L,
    ways: usize,
    /// Of so many blocks one has a place that it never loses; 0: none.
    kept_one_in: u32,
    /// Sets of which blocks are evicted; those behind them are of the blocks that are kept.
    evicting: usize,
    sets: Array<Line<Set<L::Mem>>>,
    buffers: Array<Line<Buffer>>,
}

impl<L: Lock> Cache<L> {
    /// One for so many blocks, or for less than a set fewer, and beside them for those that are
    /// kept, one in so many, which fill sets.
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
            lock: L::new(region, Shape { cpus: tasks, locks: sets }),
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

    /// Looks for a block, and makes its buffer busy: where it is not there, that of the block
    /// which was used longest ago. And whether that was evicted before its use.
    pub(super) fn find<M: Machine>(&self, m: &M, block: u32) -> (Found, bool) {
        let start = m.history_mark();
        let set = &self.sets[self.set_of(block)];
        let hold = self.lock.lock(m, &set.lock);
        m.forget_history(start, hold.0.into());
        let (found, evicted) = self.find_in(m, set, block);
        m.forget_history(start, digest([hold.0.into(), found.live(), evicted.into()]));
        self.lock.unlock(m, &set.lock, hold);
        m.forget_history(start, digest([found.live(), evicted.into()]));
        (found, evicted)
    }

    fn set_of(&self, block: u32) -> usize {
        if self.kept_one_in > 0 && block.is_multiple_of(self.kept_one_in) {
            return self.evicting + (block / self.kept_one_in) as usize / self.ways;
        }
        // Blocks of one group at the same place as in another lie in other sets (Knuth 1973).
        let mixed = u64::from(block.wrapping_mul(0x9E37_79B1));
        ((mixed * self.evicting as u64) >> 32) as usize
    }

    /// The same in a set that is locked; and whether a block was evicted before its use.
    fn find_in<M: Machine>(&self, m: &M, set: &Set<L::Mem>, block: u32) -> (Found, bool) {
        let ways = &set.order[..self.ways];
        let name = |way: usize| ways[way].get(m);
        // Pairs with the release in `let_go`.
        let busy = |name: u32| self.buffers[name as usize].busy.load(m, Ordering::Acquire) != 0;
        let has = |name: u32| self.buffers[name as usize].block.get(m) == block + 1;
        if let Some(way) = (0..self.ways).find(|&way| has(name(way))) {
            let found = name(way);
            if busy(found) {
                return (Found::Taken(found), false);
            }
            self.take(m, set, way);
            return (Found::Cached(found), false);
        }
        let Some(way) = (0..self.ways).find(|&way| !busy(name(way))) else {
            return (Found::Full(name(0)), false);
        };
        let free = name(way);
        let buffer = &self.buffers[free as usize];
        let unused = buffer.block.get(m) != 0 && buffer.used.get(m) == 0;
        buffer.block.set(m, block + 1);
        self.take(m, set, way);
        (Found::Empty(free), unused)
    }

    /// Free -> busy, and the last to be evicted.
    fn take<M: Machine>(&self, m: &M, set: &Set<L::Mem>, way: usize) {
        let ways = &set.order[..self.ways];
        let name = ways[way].get(m);
        for (place, after) in ways[way..].iter().zip(&ways[way + 1..]) {
            place.set(m, after.get(m));
        }
        ways[self.ways - 1].set(m, name);
        // Relaxed: under the lock, as all looks that decide.
        self.buffers[name as usize].busy.store(m, 1, Ordering::Relaxed);
    }

    /// Busy -> free.
    pub(super) fn let_go<M: Machine>(&self, m: &M, buffer: u32) {
        // Pairs with the acquire in `find_in`.
        self.buffers[buffer as usize].busy.store(m, 0, Ordering::Release);
    }

    /// Waits until somebody lets go of a buffer.
    pub(super) fn await_free<M: Machine>(&self, m: &M, buffer: u32) {
        // Relaxed: it is looked at again, under the lock.
        let busy = &self.buffers[buffer as usize].busy;
        m.await_until(busy, Until::equals(0), Ordering::Relaxed);
    }

    /// What must hold when nobody uses it.
    pub(super) fn check<M: Machine>(&self, m: &M) -> Result<(), String> {
        let mut cached = Vec::new();
        for buffer in self.buffers.iter() {
            let (block, content) = (buffer.block.get(m), buffer.content.get(m));
            if buffer.busy.load(m, Ordering::Relaxed) != 0 {
                return Err("somebody is at a buffer still".to_string());
            }
            if block != content {
                return Err(format!("the buffer of block {block} has {content}"));
            }
            cached.extend((block != 0).then_some(block));
        }
        let held = cached.len();
        cached.sort_unstable();
        cached.dedup();
        if held != cached.len() {
            return Err("a block is in the cache twice".to_string());
        }
        let at_rest = |set: &Line<Set<L::Mem>>| self.lock.at_rest(m, &set.lock);
        if self.sets.iter().all(at_rest) { Ok(()) } else { Err("a set is locked".to_string()) }
    }
}

impl Found {
    /// All that matters of it.
    pub(super) fn live(self) -> u64 {
        let (which, buffer) = match self {
            Found::Cached(buffer) => (0, buffer),
            Found::Empty(buffer) => (1, buffer),
            Found::Taken(buffer) => (2, buffer),
            Found::Full(buffer) => (3, buffer),
        };
        which << 32 | u64::from(buffer)
    }
}
