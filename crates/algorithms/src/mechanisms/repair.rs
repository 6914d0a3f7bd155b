//! Repair of a file system: groups in parallel, read-ahead into a bounded cache, pages that move. As
//! xfs_repair is on a host of many nodes.
//!
//!     block:    on the device ──(read ahead, or by need)──> in a buffer ──> repaired
//!                     ▲                                        │
//!                     └──── (evicted: the buffer is wanted) ───┘   before its use: read twice
//!     buffer:   free ──busy = 1, under the lock of its set──> busy ──busy = 0──> free
//!     page:     looked at ──(a scan)──> hidden ──use: hint fault──> looked at, or moved here
//!
//! The first tasks are workers, one for each of `parallel_groups` groups that are repaired at once
//! (the number of groups over xfs_repair's ag_stride; 1 is ag_stride=-1). Each other one reads
//! ahead of the worker whose number is its own modulo theirs, by `ahead_blocks` at most. Of a
//! worker an operation repairs a block; of a reader it reads one, or waits a while in vain where
//! it is far enough ahead: `blocks_repaired` tells the speed. A worker goes over its groups again and
//! again, as the phases do; with `+wander` its threads are on another node each time. The cache
//! (bhash) has sets of eight as libxfs does, which evict what was used longest ago. Where it is
//! too small for what is read ahead, blocks are read twice.
//!
//! After each `scan_uses` blocks of a worker all pages are hidden, by a flush of everything on all
//! CPUs, and the next use of each is a hint fault (task_numa_work, do_numa_page). A page on
//! another node than who uses it then moves there: at once (`after`), or if the fault before it
//! was from the same node (`before`). Each page that moves is a flush of a single page, by
//! interrupts to all CPUs that run the address space, which is that of tlb_shootdown in its
//! designs. A reader is lazy while it waits for the device.
//!
//! Designs: when a page moves, whether workers wander, and of the flushes those of tlb_shootdown:
//! sent one by one or by one command, for a page or all of a block, and to lazy CPUs or not.
//!
//! Invariants: each group is repaired exactly once a round; no block is used before it was read;
//! a block is in the cache once at most, and never more of them than it holds; no
//! translation is used after the flush of its page was acknowledged (address_space.rs).
//!
//! Differs from the tool: what is repaired is no matter here; blocks of a group are used in
//! order and once a round; nodes are the CPUs' numbers modulo `nodes`, unless that is 0; a scan
//! comes with the work done, where Linux goes by time.
//!
//! xfsprogs 3.2 repair/prefetch.c, repair/phase4.c, libxfs/cache.c. Linux 3.19 (`before`) and 4.0-rc1
//! (`after`), kernel/sched/fair.c, should_numa_migrate_memory: where pages were taken for
//! private, a shared one moved at each fault (mm: numa: group related processes based on VMA
//! flags instead of page table flags, by Mel Gorman, 2015, found by Dave Chinner's repair).

mod cache;

use machine::{Array, Atom, Field, Line, Machine, Ordering, Region, Until, image};

use self::cache::{Cache, Found};
use super::tlb_shootdown::address_space::{AddressSpace, CPUS_MAX, PAGES_MAX, Times};
use super::tlb_shootdown::{self, Flush, Flushes, Lazy, Needless, Sending};
use super::{Mechanism, Scenario, Setting, Settings};
use crate::{Equivalent, Lock, digest};

/// How it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// When a page moves to who uses it.
    pub moves: Moves,
    /// Where the workers of a round run.
    pub workers: Workers,
    /// How CPUs are made to forget a page.
    pub flushes: tlb_shootdown::Design,
}

/// When a page moves to who uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moves {
    /// At the second hint fault in a row from that node.
    Settled,
    /// At the first.
    AtOnce,
}

/// Where the workers of a round run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// Where they always do.
    Stay,
    /// One node further than in the last round.
    Wander,
}

/// Flushes of kernels of that time.
const FLUSHES: tlb_shootdown::Design =
    tlb_shootdown::Design { needless: Needless::Sent, ..tlb_shootdown::Design::BEFORE };

impl Design {
    /// As the older kernel does it.
    pub const BEFORE: Design = Design {
        moves: Moves::Settled,
        workers: Workers::Stay,
        flushes: FLUSHES,
    };

    /// As the newer one does.
    pub const AFTER: Design = Design { moves: Moves::AtOnce, ..Design::BEFORE };
}

image! {
    /// What a worker and its readers share.
    struct Stream {
        /// Blocks repaired.
        position: Line<Atom<u64>>,
        /// Blocks that were read ahead, or that somebody is at.
        ahead: Line<Atom<u64>>,
    }
}

const AHEAD: &str = "another block is read ahead, or none: the worker reads what it needs";
const MOVES: &str = "a page moves at another time or not at all, which harms nobody";

/// Looks at the position of a worker, which may do no more.
const LOOKS: u32 = 10_000;

/// A file system under repair.
pub struct Repair<L: Lock> {
    design: Design,
    groups: u64,
    /// Blocks of a group.
    blocks: u64,
    workers: u64,
    distance: u64,
    /// Pages of a buffer, which follow each other.
    pages: u32,
    nodes: usize,
    scan_uses: u64,
    read_ns: u64,
    repair_ns: u64,
    fault_ns: u64,
    space: AddressSpace,
    cache: Cache<L>,
    streams: Array<Stream>,
    /// How often each group was repaired. Only its worker uses it.
    repaired: Array<Field<u32>>,
    scans: Array<Line<Atom<u32>>>,
}

/// What a task keeps.
#[derive(Clone, Copy, Debug, Default)]
pub struct Repairer {
    /// Of a worker: blocks repaired.
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
            about: "blocks of a group",
            default: 64,
            min: 1,
            max: 65536,
            searched: 2,
        },
        Setting {
            name: "parallel_groups",
            about: "groups that are repaired at once, each by a worker; 0: one for two tasks",
            default: 0,
            min: 0,
            max: 4096,
            searched: 0,
        },
        Setting {
            name: "cache_blocks",
            about: "blocks that the cache holds; from 8 on, a multiple of 8",
            default: 1024,
            min: 1,
            max: 1 << 17,
            searched: 1,
        },
        Setting {
            name: "kept_one_in",
            about: "blocks of which one stays in memory whatever the cache holds; 0: none",
            default: 0,
            min: 0,
            max: 1 << 20,
            searched: 0,
        },
        Setting {
            name: "ahead_blocks",
            about: "blocks that are read ahead of a worker, at most",
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
            about: "memory nodes, on which CPUs are in turn; 0: where they are",
            default: 0,
            min: 0,
            max: 64,
            searched: 2,
        },
        Setting {
            name: "scan_uses",
            about: "blocks that a worker repairs between two scans; 0: no scans",
            default: 4096,
            min: 0,
            max: 1 << 30,
            searched: 1,
        },
        Setting {
            // A time in which interrupts come.
            searched: 1,
            ..Setting::time("read_ns", "time of a reader or a worker to read a block, in ns", 0)
        },
        Setting::time("repair_ns", "work to repair a block, in ns", 0),
        Setting::time("fault_ns", "work of a hint fault, in ns", 0),
        Setting::time("flush_page_ns", "work to forget one page, in ns", 0),
        Setting::time("flush_all_ns", "work to forget everything, in ns", 0),
        Setting::time("copy_ns", "work to move a page, in ns", 0),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "skipped", line: "position.store(m, task.done", why: AHEAD },
        Equivalent { change: "off by one", line: "position.store(m, task.done", why: AHEAD },
        Equivalent { change: "skipped", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "off by one", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "torn", line: "ahead.compare_exchange", why: AHEAD },
        Equivalent { change: "no wait", line: "m.await_for(position", why: "it looks again, more often" },
        Equivalent { change: "no wait", line: "m.await_until(busy", why: "it looks again, more often" },
        Equivalent { change: "skipped", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "off by one", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "torn", line: "self.scans[0].fetch_add", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.scanned.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.faulted_on.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.node.set", why: MOVES },
        Equivalent { change: "skipped", line: "buffer.used.set", why: "it is there to count blocks that are read twice" },
        Equivalent { change: "off by one", line: ".busy.store(m, 1,", why: "every value but 0 says busy" },
    ];
    const PARTS: &'static [(&'static str, &'static str)] =
        &[("cache", include_str!("repair/cache.rs"))];
    const SCENARIOS: &'static [Scenario] =
        &[
            Scenario::of(2, 1),
            // The same block again, in the next round.
            Scenario::of(2, 2).with(&[("group_blocks", 1)]),
            Scenario::of(2, 2),
            // Who waits for a buffer is interrupted by who has it.
            Scenario::of(2, 3),
            // Buffers in an order.
            Scenario::of(2, 3).with(&[("cache_blocks", 2)]),
        ];

    fn bytes(tasks: usize, settings: &Settings) -> usize {
        let size = |name: &str| settings.get(name) as usize;
        let buffers = size("cache_blocks") + kept(settings);
        let pages = buffers * size("block_pages");
        let shared = buffers * 256 + tasks * 512 + size("groups") * 4;
        (64 << 10) + shared + AddressSpace::bytes(tasks, pages)
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let size = |name: &str| settings.get(name) as usize;
        let groups = size("groups");
        let wanted = match size("parallel_groups") {
            0 => tasks / 2,
            wanted => wanted,
        };
        let workers = wanted.min(groups).clamp(1, tasks);
        let cache = Cache::new(region, tasks, size("cache_blocks"), size("kept_one_in"), kept(settings));
        let pages = size("block_pages");
        let times = Times {
            flush_page_ns: settings.get("flush_page_ns"),
            flush_all_ns: settings.get("flush_all_ns"),
            copy_ns: settings.get("copy_ns"),
        };
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

    fn operate<M: Machine>(&self, m: &M, task: &mut Repairer) {
        let number = m.cpu() as u64;
        if number < self.workers {
            self.repair(m, number, task);
        } else {
            self.read_ahead(m, number % self.workers, task);
        }
    }

    fn finish<M: Machine>(&self, m: &M, _: &mut Repairer) {
        self.space.go(m);
    }

    fn interrupted<M: Machine>(&self, m: &M) {
        self.space.interrupted(m);
    }

    fn live(task: &Repairer) -> u64 {
        task.done
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        self.space.check(m)?;
        self.cache.check(m)
    }

    fn effects(task: &Repairer) -> Vec<(&'static str, u64)> {
        let own = [
            ("blocks_repaired", task.done),
            ("blocks_read", task.read),
            ("blocks_read_twice", task.read_twice),
            ("hint_faults", task.faults),
            ("pages_moved", task.moved),
        ];
        own.into_iter().chain(task.flushed.effects()).collect()
    }
}

/// The places for blocks that stay in memory, in whole sets.
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

    /// The groups of a worker: the first, and how many.
    fn groups_of(&self, worker: u64) -> (u64, u64) {
        let first = self.groups * worker / self.workers;
        (first, self.groups * (worker + 1) / self.workers - first)
    }

    /// The block that a worker comes to after so many, its group, and the round.
    fn place(&self, worker: u64, done: u64) -> (u32, u64, u64) {
        let (first, groups) = self.groups_of(worker);
        let (round, within) = (done / (groups * self.blocks), done % (groups * self.blocks));
        let group = first + within / self.blocks;
        ((group * self.blocks + within % self.blocks) as u32, group, round)
    }

    // The worker.

    fn repair<M: Machine>(&self, m: &M, worker: u64, task: &mut Repairer) {
        let start = m.history_mark();
        let (block, group, round) = self.place(worker, task.done);
        let buffer = self.have(m, block, task);
        m.forget_history(start, buffer.into());
        let node = self.node(m, round);
        self.use_block(m, buffer, block, node, task);
        m.forget_history(start, buffer.into());
        self.cache.let_go(m, buffer);
        task.done += 1;
        if task.done.is_multiple_of(self.blocks) {
            let times = self.repaired[group as usize].get(m);
            assert_eq!(u64::from(times), round, "a group is repaired twice in a round, or was not");
            self.repaired[group as usize].set(m, times + 1);
        }
        // Relaxed: who reads ahead goes by the number, and by buffers that it finds itself.
        self.streams[worker as usize].position.store(m, task.done, Ordering::Relaxed);
        if self.scan_uses > 0 && task.done.is_multiple_of(self.scan_uses) {
            m.forget_history(start, 0);
            self.scan(m, task);
        }
        m.forget_history(start, 0);
    }

    /// The buffer of a block, with the block in it.
    fn have<M: Machine>(&self, m: &M, block: u32, task: &mut Repairer) -> u32 {
        let start = m.history_mark();
        loop {
            match self.find(m, block, task) {
                Found::Cached(buffer) => return buffer,
                Found::Empty(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.read(m, buffer, block, task);
                    return buffer;
                }
                Found::Taken(buffer) | Found::Full(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.cache.await_free(m, buffer);
                    m.forget_history(start, 0);
                }
            }
        }
    }

    /// Uses the pages of a block, as a task on this node does.
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
        // Relaxed: a number. Where it comes late, the fault does.
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

    /// A page that a scan has hidden is used from this node (do_numa_page).
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

    /// Hides all pages, so that their next uses are faults (task_numa_work).
    fn scan<M: Machine>(&self, m: &M, task: &mut Repairer) {
        let start = m.history_mark();
        // Relaxed, as where it is looked at.
        self.scans[0].fetch_add(m, 1, Ordering::Relaxed);
        m.forget_history(start, 0);
        let all = self.cache.len() * self.pages;
        self.space.flush(m, 0, all, &mut task.flushed);
        m.forget_history(start, 0);
    }

    /// Where a task runs in a round.
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

    /// Looks for a block, and counts what that evicted.
    fn find<M: Machine>(&self, m: &M, block: u32, task: &mut Repairer) -> Found {
        let start = m.history_mark();
        let (found, evicted) = self.cache.find(m, block);
        task.read_twice += u64::from(evicted);
        m.forget_history(start, found.live());
        found
    }

    // The readers.

    /// Reads the next block that a worker will come to, unless it is there.
    fn read_ahead<M: Machine>(&self, m: &M, worker: u64, task: &mut Repairer) {
        let start = m.history_mark();
        let Some(next) = self.next_ahead(m, worker) else { return m.forget_history(start, 0) };
        m.forget_history(start, next);
        let (block, ..) = self.place(worker, next);
        loop {
            match self.find(m, block, task) {
                Found::Taken(_) => break,
                Found::Cached(buffer) => {
                    m.forget_history(start, buffer.into());
                    self.cache.let_go(m, buffer);
                    break;
                }
                Found::Empty(buffer) => {
                    m.forget_history(start, digest([next, buffer.into()]));
                    self.read(m, buffer, block, task);
                    m.forget_history(start, buffer.into());
                    self.cache.let_go(m, buffer);
                    break;
                }
                Found::Full(buffer) => {
                    m.forget_history(start, digest([next, buffer.into()]));
                    self.cache.await_free(m, buffer);
                    m.forget_history(start, next);
                }
            }
        }
        m.forget_history(start, 0);
    }

    /// Takes the number of a block to read ahead of a worker. None if that is too far ahead, also
    /// after a while.
    fn next_ahead<M: Machine>(&self, m: &M, worker: u64) -> Option<u64> {
        let start = m.history_mark();
        let Stream { position, ahead } = &self.streams[worker as usize];
        loop {
            // All relaxed: numbers, by which nobody finds anything.
            let done = position.load(m, Ordering::Relaxed);
            let before = ahead.load(m, Ordering::Relaxed);
            let next = before.max(done);
            m.forget_history(start, digest([done, before]));
            if next >= done + self.distance {
                let further = Until::differs(done);
                let _ = m.await_for(position, further, Ordering::Relaxed, LOOKS);
                return None;
            }
            if ahead.compare_exchange(m, before, next + 1, Ordering::Relaxed).is_ok() {
                return Some(next);
            }
            m.forget_history(start, 0);
        }
    }

    /// Reads a block into its buffer, on pages that the first reader has made.
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
