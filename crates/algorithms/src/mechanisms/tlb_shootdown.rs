//! TLB shootdown: a task that unmaps a page interrupts the CPUs that may still have its translation.
//! Modelled on x86, in several designs.
//!
//!     page:     mapped ──(entry cleared)──> unmapped ──(all CPUs have flushed)──> reused
//!     CPU:      away ──(bit set, then walks)──> running ──(lazy set)──> lazy
//!                 ▲                               │  ▲                    │
//!                 └───────(bit cleared)───────────┘  └─(lazy cleared, ────┘
//!                                                       then catches up)
//!     request:  free ──waiting = 1, queued──> pending ──handler: flushed, waiting = 0──> free
//!
//! In one address space each task maps pages of its own and uses the pages of all tasks. An operation
//! moves some of the task's own pages, as migration does: it clears their entries, flushes them
//! from the TLBs of all CPUs, frees the old frames and maps new ones. Then it uses some pages of
//! all tasks. After some uses the CPU leaves the address space for a while, as for a kernel
//! thread.
//!
//! Designs: interrupts sent one by one, or by one command to all other CPUs (those not concerned
//! find no request); one flush per page, or one for all pages; lazy TLB mode, in which a CPU has
//! left but keeps its translations, does not exist (leaving flushes), is ended by an interrupt,
//! or is skipped: the CPU catches up with the generation of the address space when it comes back.
//!
//! Invariants: when a flush returns no CPU uses the old frame (its next owner would notice, and
//! the checker reports a race); each request is answered; CPUs that send each other requests
//! handle interrupts while they wait; at the end no request and no bit in the mask is left.
//!
//! The TLB of a CPU is an array of plain fields of its own, and a use of a page is one instruction
//! that no interrupt divides. Native interrupts are signals: `knee show
//! mechanism_tlb_shootdown` says what a native run measures.
//!
//! Linux arch/x86/mm/tlb.c and kernel/smp.c: 3.19 (`before`: smp_call_function_many over
//! default_send_IPI_mask_sequence_phys, leave_mm on lazy CPUs); 4.14, x86/mm: Track the TLB's
//! tlb_gen and update the flushing algorithm, by Andy Lutomirski, 2017; 4.20, x86/mm/tlb: Make
//! lazy TLB mode lazier, by Rik van Riel, 2018; batches: mm, mprotect: flush TLB if potentially
//! racing (tlb_gather_mmu), and 4.3, mm: send one IPI per CPU to TLB flush multiple pages that
//! were recently unmapped, by Mel Gorman, 2015.

pub mod address_space;

use std::marker::PhantomData;

use machine::{Machine, Region};

use self::address_space::{AddressSpace, CPUS_MAX, PAGES_MAX, Times};
pub use self::address_space::{Design, Flush, Flushes, Lazy, Needless, Sending};
use super::{Mechanism, Scenario, Setting, Settings};
use crate::{Equivalent, FULL_BARRIER, Lock};

/// Tasks that move and use pages of one address space.
#[derive(Debug)]
pub struct TlbShootdown<L> {
    space: AddressSpace,
    tasks: usize,
    /// Pages of each task.
    own: u32,
    /// Pages that an operation moves.
    moved: u32,
    uses: u32,
    leaves_one_in: u32,
    use_ns: u64,
    away_ns: u64,
    /// This mechanism needs no lock.
    lock: PhantomData<fn() -> L>,
}

/// A task that moves pages.
#[derive(Clone, Copy, Debug, Default)]
pub struct PageMover {
    flushed: Flushes,
    faults: u64,
}

impl<L: Lock> Mechanism for TlbShootdown<L> {
    const NAME: &'static str = "tlb_shootdown";
    type Design = Design;
    type Task = PageMover;
    const OPERATION: &'static str = "some pages moved, flushed on every CPU, and some pages used";
    const INTERRUPTS: bool = true;
    const TASKS_MAX: usize = CPUS_MAX;
    const DESIGNS: &'static [(&'static str, Design)] = &[
        ("before", Design::BEFORE),
        ("before+broadcast", Design { sending: Sending::Broadcast, ..Design::BEFORE }),
        ("before+batch", Design { flush: Flush::Batch, ..Design::BEFORE }),
        ("before+never-lazy", Design { lazy: Lazy::Never, ..Design::BEFORE }),
        ("before+skipped", Design { lazy: Lazy::Skipped, ..Design::BEFORE }),
        ("after", Design::AFTER),
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "own_pages",
            about: "pages of each task, which it moves and all tasks use",
            default: 64,
            min: 1,
            max: 4096,
            searched: 2,
        },
        Setting {
            name: "moved_pages",
            about: "pages that an operation moves",
            default: 1,
            min: 1,
            max: PAGES_MAX as u64,
            searched: 2,
        },
        Setting {
            name: "uses",
            about: "pages of all tasks that an operation uses after the move",
            default: 4,
            min: 0,
            max: 1_000_000,
            searched: 1,
        },
        Setting {
            name: "leaves_one_in",
            about: "after one use in this many, the CPU leaves the address space and comes back",
            default: 1_000_000,
            min: 1,
            max: 1_000_000,
            searched: 2,
        },
        Setting::time("use_ns", "work with a page that is used, in ns", 0),
        Times::FLUSH_PAGE,
        Times::FLUSH_ALL,
        Times::COPY,
        Setting {
            // Not zero, unlike all other times: interrupts can arrive in this time.
            searched: 1,
            ..Setting::time("away_ns", "work while away from the address space, in ns", 0)
        },
    ];
    #[rustfmt::skip]
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no acquire", line: ".swap(m, 0, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: ".swap(m, 0, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no acquire", line: "word.fetch_or(m, bit", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "word.fetch_or(m, bit", why: FULL_BARRIER },
        Equivalent { change: "no acquire", line: "self.generation[0].fetch_add", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "self.generation[0].fetch_add", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: "self.generation[0].load", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "self.generation[0].fetch_add", why: "a generation is left out, so CPUs flush everything instead of a page" },
        Equivalent { change: "skipped", line: "cpu.generation.set", why: "the CPU flushes again what it has flushed" },
        Equivalent { change: "skipped", line: "self.frames[frame as usize].set(m, 0)", why: "the next write to the frame is noticed as well" },
        Equivalent { change: "skipped", line: "slot.set(m, translation)", why: "the CPU walks each time" },
        Equivalent { change: "skipped", line: ".lazy.store(m, 1,", why: "the CPU is interrupted, which costs time and breaks nothing" },
        Equivalent { change: "off by one", line: ".lazy.store(m, 1,", why: "every value but 0 means lazy" },
        Equivalent { change: "off by one", line: "request.waiting.store(m, 1,", why: "every value but 0 means pending" },
    ];

    const SCENARIOS: &'static [Scenario] = &[
        // A CPU that is away after one use and then uses a page whose translation it may have kept.
        Scenario::new(2, 1).with_settings(&[("own_pages", 1), ("moved_pages", 1), ("uses", 2)]),
        // Two CPUs that send a request to the same third one.
        Scenario::new(3, 1).with_settings(&[("own_pages", 1), ("moved_pages", 1), ("uses", 0)]),
        Scenario::new(2, 1),
        Scenario::new(2, 2).with_settings(&[("own_pages", 1), ("moved_pages", 1)]),
    ];
    const PARTS: &'static [(&'static str, &'static str)] =
        &[("address_space", include_str!("tlb_shootdown/address_space.rs"))];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
        AddressSpace::bytes(tasks, tasks * settings.get("own_pages") as usize)
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let number = |name: &str| settings.get(name) as u32;
        let own = number("own_pages");
        let (pages, times) = (tasks * own as usize, Times::from_settings(settings));
        TlbShootdown {
            space: AddressSpace::new(region, design, tasks, pages, times),
            tasks,
            own,
            moved: number("moved_pages").min(own),
            uses: number("uses"),
            leaves_one_in: number("leaves_one_in"),
            use_ns: settings.get("use_ns"),
            away_ns: settings.get("away_ns"),
            lock: PhantomData,
        }
    }

    /// Maps the task's pages, and enters the address space.
    fn start<M: Machine>(&self, m: &M, _: usize) -> PageMover {
        let begin = m.history_mark();
        let first = m.cpu() as u32 * self.own;
        (first..first + self.own).for_each(|page| self.space.map_first(m, page));
        self.space.enter(m);
        m.forget_history(begin, 0);
        PageMover::default()
    }

    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut PageMover) {
        let begin = m.history_mark();
        let first = m.cpu() as u32 * self.own + m.random(self.own - self.moved + 1);
        self.space.move_pages(m, first, self.moved, &mut task.flushed);
        m.forget_history(begin, 0);
        for turn in 0..self.uses {
            let page = m.random(self.own * self.tasks as u32);
            task.faults += u64::from(!self.space.use_page(m, page));
            m.work(self.use_ns);
            m.forget_history(begin, turn.into());
            if m.chance(self.leaves_one_in) {
                self.space.leave(m);
                m.work(self.away_ns);
                self.space.come_back(m);
            }
            m.forget_history(begin, turn.into());
        }
        m.forget_history(begin, 0);
    }

    fn finish<M: Machine>(&self, m: &M, _: &mut PageMover) {
        self.space.exit(m);
    }

    fn live(_: &PageMover) -> u64 {
        0
    }

    fn handle_ipi<M: Machine>(&self, m: &M) {
        self.space.handle_ipi(m);
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        self.space.check(m)?;
        match (0..self.own * self.tasks as u32).find(|&page| !self.space.is_mapped(m, page)) {
            Some(page) => Err(format!("page {page} is not mapped")),
            None => Ok(()),
        }
    }

    fn effects(task: &PageMover) -> Vec<(&'static str, u64)> {
        task.flushed.effects().into_iter().chain([("faults", task.faults)]).collect()
    }
}
