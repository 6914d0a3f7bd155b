//! Repair of a file system: groups in parallel, read-ahead into a bounded cache, pages that migrate.
//! This is what xfs_repair does on a host with many NUMA nodes.
//!
//!     block:    on the device ──(read ahead, or on demand)──> in a buffer ──> repaired
//!                     ▲                                          │
//!                     └──── (evicted: the buffer is needed) ─────┘   if before its use: read twice
//!     buffer:   free ──busy = 1, under the lock of its set──> busy ──busy = 0──> free
//!     page:     mapped ──(a scan)──> hidden ──use: hint fault──> mapped, maybe migrated
//!
//! The first tasks are workers, one for each of `parallel_groups` groups that are repaired in
//! parallel (the number of groups divided by xfs_repair's ag_stride; 1 is ag_stride=-1). Every other
//! task is a reader: it reads at most `ahead_blocks` ahead of worker r, where r is its own number
//! modulo the number of workers. A worker's operation repairs a block. A reader's operation reads
//! a block; if the reader is far enough ahead, it only waits for a while. So the count
//! `blocks_repaired` measures the speed, not the number of operations. A worker goes over its
//! groups again and again, like the phases of xfs_repair; with `+wander` its threads run on another
//! node in each round. The cache (bhash) has sets of eight buffers, as in libxfs, and evicts the
//! least recently used. If it is too small for the read-ahead, blocks are read twice.
//!
//! After every `scan_uses` blocks of a worker a scan hides all pages, by a TLB flush of everything on
//! all CPUs. The next use of each page is a hint fault (task_numa_work, do_numa_page). A page that
//! is used from another node then migrates there: at the first fault (`after`), or only if the
//! page's previous fault came from that node too (`before`). Each page that migrates costs a TLB
//! flush of one page, by interrupts to all CPUs that run the address space. The address space is
//! the one of tlb_shootdown, in its designs. A reader is in lazy TLB mode while it waits for the
//! device.
//!
//! Designs: when a page migrates, whether workers wander, and how TLB flushes are done, as in
//! tlb_shootdown: interrupts one by one or by one command, one flush per page or per block, lazy
//! CPUs interrupted or skipped.
//!
//! Invariants: each group is repaired exactly once a round; no block is used before it was read; a
//! block is in the cache at most once, and the cache never exceeds its size; no translation is
//! used after the flush of its page was acknowledged (address_space.rs).
//!
//! Differs from the tool: nothing is really repaired; the blocks of a group are used in order and
//! once a round; a CPU's node is its number modulo `nodes`, unless that is 0; scans come after
//! an amount of work, where Linux goes by time.
//!
//! xfsprogs 3.2 repair/prefetch.c, repair/phase4.c, libxfs/cache.c. Linux 3.19 (`before`) and 4.0-rc1
//! (`after`), kernel/sched/fair.c, should_numa_migrate_memory: because shared pages were taken for
//! private ones, they migrated at each fault (mm: numa: group related processes based on VMA
//! flags instead of page table flags, by Mel Gorman, 2015, found by Dave Chinner's repair).

mod cache;

use machine::{Array, Atom, Field, Line, Machine, Ordering, Region, Until, image};

use self::cache::{Cache, Lookup};
use super::tlb_shootdown::address_space::{AddressSpace, CPUS_MAX, PAGES_MAX, Times};
use super::tlb_shootdown::{self, Flush, Flushes, Lazy, Needless, Sending};
use super::{Mechanism, Scenario, Setting, Settings};
use crate::{Equivalent, Lock, digest};

/// The design of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// When a page migrates to the node that uses it.
    pub moves: Moves,
    /// Where the workers of a round run.
    pub workers: Workers,
    /// How TLB flushes are done.
    pub flushes: tlb_shootdown::Design,
}

/// When a page migrates to the node that uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// At the second hint fault in a row from that node.
    Settled,
    /// At the first hint fault from that node.
    AtOnce,
}

/// Where the workers of a round run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// On the same node in every round.
    Stay,
    /// On the next node in each round.
    Wander,
}

/// TLB flushes as in kernels of that time.
const FLUSHES: tlb_shootdown::Design =
    tlb_shootdown::Design { needless: Needless::Sent, ..tlb_shootdown::Design::BEFORE };

impl Design {
    /// The design of Linux 3.19.
    pub const BEFORE: Design =
        Design { moves: Moves::Settled, workers: Workers::Stay, flushes: FLUSHES };

    /// The design of Linux 4.0-rc1.
    pub const AFTER: Design = Design { moves: Moves::AtOnce, ..Design::BEFORE };
}

image! {
    /// What a worker and its readers share.
    struct Stream {
        /// Blocks that the worker has repaired.
        position: Line<Atom<u64>>,
        /// Blocks that a reader has read ahead or is reading.
        ahead: Line<Atom<u64>>,
    }
}

const AHEAD: &str = "another block is read ahead, or none: the worker reads what it needs";
const MOVES: &str = "a page migrates at another time or not at all, which breaks nothing";

/// Loads of a worker's position before a reader gives up: the worker may have finished.
const LOADS: u32 = 10_000;

/// A file system under repair.
pub struct Repair<L: Lock> {
    design: Design,
    groups: u64,
    /// Blocks of a group.
    blocks: u64,
    workers: u64,
    /// Blocks that a reader may be ahead of its worker.
    distance: u64,
    /// Pages of a buffer, which are consecutive.
    pages: u32,
    nodes: usize,
    scan_uses: u64,
    read_ns: u64,
    repair_ns: u64,
    fault_ns: u64,
    space: AddressSpace,
    cache: Cache<L>,
    streams: Array<Stream>,
    /// How often each group was repaired. Only the group's worker uses it.
    repaired: Array<Field<u32>>,
    scans: Array<Line<Atom<u32>>>,
}

/// A task: a worker or a reader.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repairer {
    /// Blocks that a worker has repaired.
    done: u64,
    read: u64,
    read_twice: u64,
    faults: u64,
    moved: u64,
    flushed: Flushes,
}

impl<L: Lock> Mechanism for Repair<L> {
    const NAME: &'static str = "repair";
    type Design = Design;
    type Task = Repairer;
    const OPERATION: &'static str = "one block repaired by a worker, or read ahead by a reader";
    const INTERRUPTS: bool = true;
    const TASKS_MAX: usize = CPUS_MAX;
    const DESIGNS: &'static [(&'static str, Design)] = &[
        ("before", Design::BEFORE),
        ("before+wander", Design { workers: Workers::Wander, ..Design::BEFORE }),
        ("after", Design::AFTER),
        ("after+wander", Design { workers: Workers::Wander, ..Design::AFTER }),
        ("after+wander+broadcast", after_with(Sending::Broadcast, Flush::Page, Lazy::Interrupted)),
        ("after+wander+batch", after_with(Sending::OneByOne, Flush::Batch, Lazy::Interrupted)),
        ("after+wander+skipped", after_with(Sending::OneByOne, Flush::Page, Lazy::Skipped)),
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "groups",
            about: "allocation groups",
            default: 64,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "group_blocks",
            about: "blocks of an allocation group",
            default: 64,
            min: 1,
            max: 65536,
            searched: 2,
        },
        Setting {
            name: "parallel_groups",
            about: "groups that are repaired in parallel, each by a worker; 0: half as many as tasks",
            default: 0,
            min: 0,
            max: 4096,
            searched: 0,
        },
        Setting {
            name: "cache_blocks",
            about: "blocks that the cache holds, rounded down to a multiple of 8 from 8 on",
            default: 1024,
            min: 1,
            max: 1 << 17,
            searched: 1,
        },
        Setting {
            name: "kept_one_in",
            about: "one block in this many has a buffer beside the cache, and is never evicted; 0: none",
            default: 0,
            min: 0,
            max: 1 << 20,
            searched: 0,
        },
        Setting {
            name: "ahead_blocks",
            about: "most blocks that are read ahead of a worker",
            default: 64,
            min: 1,
            max: 65536,
            searched: 2,
        },
        Setting {
            name: "block_pages",
            about: "pages of a block",
            default: 1,
            min: 1,
            max: PAGES_MAX as u64,
            searched: 1,
        },
        Setting {
            name: "nodes",
            about: "memory nodes: CPU i is on node i modulo this number; 0: as on the host",
            default: 0,
            min: 0,
            max: 64,
            searched: 2,
        },
        Setting {
            name: "scan_uses",
            about: "blocks that a worker repairs between scans; 0: no scans",
            default: 4096,
            min: 0,
            max: 1 << 30,
            searched: 1,
        },
        Setting {
            // Not zero: interrupts can arrive in this time.
            searched: 1,
            ..Setting::time("read_ns", "time to read a block, in ns", 0)
        },
        Setting::time("repair_ns", "work to repair a block, in ns", 0),
        Setting::time("fault_ns", "work of a hint fault, in ns", 0),
        Times::FLUSH_PAGE,
        Times::FLUSH_ALL,
        Times::COPY,
    ];
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "skipped", line: "position.store(m, task.done", why: AHEAD },
        Equivalent { change: "off by one", line: "position.store(m, task.done", why: AHEAD },
        Equivalent { change: "skipped", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "off by one", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "torn", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "no wait", line: "m.await_for(position", why: "it checks again, more often" },
        Equivalent { change: "no wait", line: "m.await_until(busy", why: "it checks again, more often" },
        Equivalent { change: "skipped", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "off by one", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "torn", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.scanned.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.faulted_on.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.node.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.used.set", why: "it only serves to count blocks that are read twice" },
        Equivalent { change: "off by one", line: ".busy.store(m, 1,", why: "every value but 0 means busy" },
    ];
    const PARTS: &'static [(&'static str, &'static str)] =
        &[("cache", include_str!("repair/cache.rs"))];
    const SCENARIOS: &'static [Scenario] = &[
        Scenario::new(2, 1),
        // The same block again, in the next round.
        Scenario::new(2, 2).with_settings(&[("group_blocks", 1)]),
        Scenario::new(2, 2),
        // A task that waits for a buffer is interrupted by the task that has it.
        Scenario::new(2, 3),
        // A set with two buffers, in an order of eviction.
        Scenario::new(2, 3).with_settings(&[("cache_blocks", 2)]),
    ];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
        let size = |name: &str| settings.get(name) as usize;
        let buffers = size("cache_blocks") + kept(settings);
        let pages = buffers * size("block_pages");
        let shared = buffers * 256 + tasks * 512 + size("groups") * 4;
        (64 << 10) + shared + AddressSpace::bytes(tasks, pages)
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let size = |name: &str| settings.get(name) as usize;
        let groups = size("groups");
        let parallel_groups = match size("parallel_groups") {
            0 => tasks / 2,
            given => given,
        };
        let workers = parallel_groups.min(groups).clamp(1, tasks);
        let cache =
            Cache::new(region, tasks, size("cache_blocks"), size("kept_one_in"), kept(settings));
        let pages = size("block_pages");
        let times = Times::from_settings(settings);
        let buffer_pages = cache.len() as usize * pages;
        Repair {
            design,
            groups: groups as u64,
            blocks: settings.get("group_blocks"),
            workers: workers as u64,
            distance: settings.get("ahead_blocks"),
            pages: pages as u32,
            nodes: size("nodes"),
            scan_uses: settings.get("scan_uses"),
            read_ns: settings.get("read_ns"),
            repair_ns: settings.get("repair_ns"),
            fault_ns: settings.get("fault_ns"),
            space: AddressSpace::new(region, design.flushes, tasks, buffer_pages, times),
            cache,
            streams: region.array("stream", workers),
            repaired: region.array("repaired", groups),
            scans: region.array("scans", 1),
        }
    }

    fn start<M: Machine>(&self, m: &M, _: usize) -> Repairer {
        let start = m.history_mark();
        self.space.enter(m);
        m.forget_history(start, 0);
        Repairer::default()
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Repairer) {
        let number = m.cpu() as u64;
        if number < self.workers {
            self.repair(m, number, task);
        } else {
            self.read_ahead(m, number % self.workers, task);
        }
    }

    fn finish<M: Machine>(&self, m: &M, _: &mut Repairer) {
        self.space.exit(m);
    }

    fn handle_ipi<M: Machine>(&self, m: &M) {
        self.space.handle_ipi(m);
    }

    fn live(task: &Repairer) -> u64 {
        task.done
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        self.space.check(m)?;
        self.cache.check(m)
    }

    fn effects(task: &Repairer) -> Vec<(&'static str, u64)> {
        let counts = [
            ("blocks_repaired", task.done),
            ("blocks_read", task.read),
            ("blocks_read_twice", task.read_twice),
            ("hint_faults", task.faults),
            ("pages_moved", task.moved),
        ];
        counts.into_iter().chain(task.flushed.effects()).collect()
    }
}

/// The number of buffers for blocks that are never evicted, in whole sets.
fn kept(settings: &Settings) -> usize {
    let blocks = settings.get("groups") * settings.get("group_blocks");
    match settings.get("kept_one_in") {
        0 => 0,
        one_in => (blocks.div_ceil(one_in) as usize).next_multiple_of(cache::WAYS),
    }
}

const fn after_with(sending: Sending, flush: Flush, lazy: Lazy) -> Design {
    Design {
        workers: Workers::Wander,
        flushes: tlb_shootdown::Design { sending, flush, lazy, ..FLUSHES },
        ..Design::AFTER
    }
}

impl<L: Lock> Repair<L> {
    // Which blocks.

    /// The groups of a worker: the first group, and how many they are.
    fn groups_of(&self, worker: u64) -> (u64, u64) {
        let first = self.groups * worker / self.workers;
        (first, self.groups * (worker + 1) / self.workers - first)
    }

    /// The block that a worker repairs after `done` blocks, its group, and the round.
    fn position(&self, worker: u64, done: u64) -> (u32, u64, u64) {
        let (first, groups) = self.groups_of(worker);
        let (round, within) = (done / (groups * self.blocks), done % (groups * self.blocks));
        let group = first + within / self.blocks;
        ((group * self.blocks + within % self.blocks) as u32, group, round)
    }

    // The worker.

    fn repair<M: Machine>(&self, m: &M, worker: u64, task: &mut Repairer) {
        let start = m.history_mark();
        let (block, group, round) = self.position(worker, task.done);
        let buffer = self.get_block(m, block, task);
        m.forget_history(start, buffer.into());
        let node = self.node(m, round);
        self.use_block(m, buffer, block, node, task);
        m.forget_history(start, buffer.into());
        self.cache.release(m, buffer);
        task.done += 1;
        if task.done.is_multiple_of(self.blocks) {
            let times = self.repaired[group as usize].get(m);
            assert_eq!(u64::from(times), round, "a group is not repaired exactly once a round");
            self.repaired[group as usize].set(m, times + 1);
        }
        // Relaxed: readers use only the number, and find buffers through the cache.
        self.streams[worker as usize].position.store(m, task.done, Ordering::Relaxed);
        if self.scan_uses > 0 && task.done.is_multiple_of(self.scan_uses) {
            m.forget_history(start, 0);
            self.scan(m, task);
        }
        m.forget_history(start, 0);
    }

    /// The busy buffer of a block, after the block was read into it if necessary.
    fn get_block<M: Machine>(&self, m: &M, block: u32, task: &mut Repairer) -> u32 {
        let start = m.history_mark();
        loop {
            match self.find(m, block, task) {
                Lookup::Hit(buffer) => return buffer,
                Lookup::Miss(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.read(m, buffer, block, task);
                    return buffer;
                }
                Lookup::Busy(buffer) | Lookup::AllBusy(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.cache.await_free(m, buffer);
                    m.forget_history(start, 0);
                }
            }
        }
    }

    /// Uses the pages of a block from this node.
    fn use_block<M: Machine>(
        &self,
        m: &M,
        name: u32,
        block: u32,
        node: usize,
        task: &mut Repairer,
    ) {
        let start = m.history_mark();
        let buffer = self.cache.buffer(name);
        assert_eq!(buffer.content.get(m), block + 1, "a block is used before it was read");
        // Relaxed: a number. If it is seen late, the hint fault comes late.
        let scans = self.scans[0].load(m, Ordering::Relaxed);
        if buffer.scanned.get(m) != scans {
            buffer.scanned.set(m, scans);
            m.forget_history(start, 0);
            self.hint_fault(m, name, node, task);
        }
        m.forget_history(start, 0);
        for page in self.pages_of(name) {
            let mapped = self.space.use_page(m, page);
            assert!(mapped, "a page of a block that was read is not mapped");
        }
        m.work(self.repair_ns);
        buffer.used.set(m, 1);
        m.forget_history(start, 0);
    }

    /// Handles the use, from this node, of a buffer whose pages a scan has hidden (do_numa_page).
    fn hint_fault<M: Machine>(&self, m: &M, name: u32, node: usize, task: &mut Repairer) {
        let (buffer, node) = (self.cache.buffer(name), node as u32 + 1);
        m.work(self.fault_ns);
        task.faults += 1;
        let again = buffer.faulted_on.get(m) == node;
        buffer.faulted_on.set(m, node);
        if buffer.node.get(m) != node && (again || self.design.moves == Moves::AtOnce) {
            buffer.node.set(m, node);
            let pages = self.pages_of(name);
            self.space.move_pages(m, pages.start, self.pages, &mut task.flushed);
            task.moved += u64::from(self.pages);
        }
    }

    /// Hides all pages, so that the next use of each is a hint fault (task_numa_work).
    fn scan<M: Machine>(&self, m: &M, task: &mut Repairer) {
        let start = m.history_mark();
        // Relaxed, as in `use_block`.
        self.scans[0].fetch_add(m, 1, Ordering::Relaxed);
        m.forget_history(start, 0);
        let pages = self.cache.len() * self.pages;
        self.space.flush(m, 0, pages, &mut task.flushed);
        m.forget_history(start, 0);
    }

    /// The node on which a task runs in this round.
    fn node<M: Machine>(&self, m: &M, round: u64) -> usize {
        match (self.nodes, self.design.workers) {
            (0, _) => m.node(),
            (nodes, Workers::Stay) => m.cpu() % nodes,
            (nodes, Workers::Wander) => (m.cpu() + round as usize) % nodes,
        }
    }

    fn pages_of(&self, buffer: u32) -> std::ops::Range<u32> {
        buffer * self.pages..(buffer + 1) * self.pages
    }

    /// Looks up a block, and counts the unused block that this may evict.
    fn find<M: Machine>(&self, m: &M, block: u32, task: &mut Repairer) -> Lookup {
        let start = m.history_mark();
        let (lookup, evicted_unused) = self.cache.find(m, block);
        task.read_twice += u64::from(evicted_unused);
        m.forget_history(start, lookup.live());
        lookup
    }

    // The readers.

    /// Reads the next block ahead of a worker, unless the block is in the cache.
    fn read_ahead<M: Machine>(&self, m: &M, worker: u64, task: &mut Repairer) {
        let start = m.history_mark();
        let Some(next) = self.next_ahead(m, worker) else { return m.forget_history(start, 0) };
        m.forget_history(start, next);
        let (block, ..) = self.position(worker, next);
        loop {
            match self.find(m, block, task) {
                Lookup::Busy(_) => break,
                Lookup::Hit(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.cache.release(m, buffer);
                    break;
                }
                Lookup::Miss(buffer) => {
                    m.forget_history(start, digest([next, buffer.into()]));
                    self.read(m, buffer, block, task);
                    m.forget_history(start, buffer.into());
                    self.cache.release(m, buffer);
                    break;
                }
                Lookup::AllBusy(buffer) => {
                    m.forget_history(start, digest([next, buffer.into()]));
                    self.cache.await_free(m, buffer);
                    m.forget_history(start, next);
                }
            }
        }
        m.forget_history(start, 0);
    }

    /// Takes the number of the next block to read ahead of a worker. `None` if that is too far
    /// ahead; then it has waited for a while.
    fn next_ahead<M: Machine>(&self, m: &M, worker: u64) -> Option<u64> {
        let start = m.history_mark();
        let Stream { position, ahead } = &self.streams[worker as usize];
        loop {
            // All relaxed: numbers, which guard no other memory.
            let repaired = position.load(m, Ordering::Relaxed);
            let before = ahead.load(m, Ordering::Relaxed);
            let next = before.max(repaired);
            m.forget_history(start, digest([repaired, before]));
            if next >= repaired + self.distance {
                let further = Until::differs(repaired);
                let _ = m.await_for(position, further, Ordering::Relaxed, LOADS);
                return None;
            }
            if ahead.compare_exchange(m, before, next + 1, Ordering::Relaxed).is_ok() {
                return Some(next);
            }
            m.forget_history(start, 0);
        }
    }

    /// Reads a block into its buffer. The first reader of a buffer maps its pages.
    fn read<M: Machine>(&self, m: &M, name: u32, block: u32, task: &mut Repairer) {
        let start = m.history_mark();
        let buffer = self.cache.buffer(name);
        self.space.leave(m);
        m.work(self.read_ns);
        self.space.come_back(m);
        m.forget_history(start, 0);
        for page in self.pages_of(name) {
            if !self.space.is_mapped(m, page) {
                self.space.map_first(m, page);
                buffer.node.set(m, self.node(m, 0) as u32 + 1);
            }
            self.space.use_page(m, page);
        }
        buffer.content.set(m, block + 1);
        buffer.used.set(m, 0);
        // Relaxed, as in `use_block`.
        buffer.scanned.set(m, self.scans[0].load(m, Ordering::Relaxed));
        task.read += 1;
        m.forget_history(start, 0);
    }
}
