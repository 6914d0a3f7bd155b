//! Shootdown of translations: who unmaps a page interrupts the CPUs that may know it still.
//! As x86 does, in designs to switch.
//!
//!     page:     mapped ──(entry cleared)──> unmapped ──(all have flushed)──> reused
//!     CPU:      away ──(bit set, then looks)──> running ──(lazy set)──> lazy
//!                 ▲                               │  ▲                    │
//!                 └───────(bit cleared)───────────┘  └─(lazy cleared, ────┘
//!                                                       then catches up)
//!     request:  free ──waiting = 1, queued──> asked ──handler: flushed, waiting = 0──> free
//!
//! One address space, in which each task maps pages of its own and uses everybody's. An operation
//! moves some of its own elsewhere, as migration does: it clears their entries, has all CPUs forget
//! them, gives the old frames away and maps new ones; then it uses some of anybody's. After a use
//! a CPU now and then leaves the address space for a while, as for a kernel thread.
//!
//! Designs: interrupts sent one by one, or by one command to all others (those whom it does
//! not concern find no request); one flush for each page, or one for all; a CPU in lazy mode,
//! which has left but still has the translations loaded, does not exist (leaving flushes), is
//! interrupted and then leaves for good, or is skipped and catches up by the generation of
//! the address space when it comes back.
//!
//! Invariants: when the flush returns nobody uses the old frame (its next owner would see that,
//! and a search sees it as a race); each request is answered; CPUs that shoot at each other
//! are interrupted while they wait; at the end no request and no bit is left.
//!
//! The translations that a CPU knows are plain fields of its own, and a use is one instruction
//! in which nothing interrupts. Natively interrupts are signals: `knee describe
//! mechanism_tlb_shootdown` says what that measures.
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
use crate::{Equivalent, Lock};

/// Tasks that move pages of their address space and use them.
#[derive(Debug)]
pub struct TlbShootdown<L> {
    space: AddressSpace,
    tasks: usize,
    /// Pages of each task, and how many of them an operation moves.
    own: u32,
    moved: u32,
    uses: u32,
    leaves_one_in: u32,
    use_ns: u64,
    away_ns: u64,
    /// It needs no lock.
    lock: PhantomData<fn() -> L>,
}

/// What a task has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    flushed: Flushes,
    faults: u64,
}

const FULL_BARRIER: &str = "what it orders beside are atomic accesses, for which every \
                            read-modify-write is a full barrier, here and on x86";

impl<L: Lock> Mechanism for TlbShootdown<L> {
    const NAME: &'static str = "tlb_shootdown";
    type Design = Design;
    type Task = Seen;
    const OPERATION: &'static str = "some pages moved, every CPU made to forget them, and some used";
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
            about: "pages of each task, which all use and it moves",
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
            about: "pages of anybody that an operation uses after that",
            default: 4,
            min: 0,
            max: 1_000_000,
            searched: 1,
        },
        Setting {
            name: "leaves_one_in",
            about: "uses of which one is followed by leaving the address space and coming back",
            default: 1_000_000,
            min: 1,
            max: 1_000_000,
            searched: 2,
        },
        Setting::time("use_ns", "work with a page that is used, in ns", 0),
        Setting::time("flush_page_ns", "work to forget one page, in ns", 0),
        Setting::time("flush_all_ns", "work to forget everything, in ns", 0),
        Setting::time("copy_ns", "work to move a page, in ns", 0),
        Setting {
            // A time in which interrupts come, where all others are none to a search.
            searched: 1,
            ..Setting::time("away_ns", "work while away from the address space, in ns", 0)
        },
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent { change: "no acquire", line: ".swap(m, 0, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no release", line: ".swap(m, 0, Ordering::AcqRel)", why: FULL_BARRIER },
        Equivalent { change: "no acquire", line: "word.fetch_or(m, bit", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "word.fetch_or(m, bit", why: FULL_BARRIER },
        Equivalent { change: "no acquire", line: "self.generation[0].fetch_add", why: FULL_BARRIER },
        Equivalent { change: "no release", line: "self.generation[0].fetch_add", why: FULL_BARRIER },
        Equivalent { change: "relaxed", line: "self.generation[0].load", why: FULL_BARRIER },
        Equivalent { change: "off by one", line: "self.generation[0].fetch_add", why: "a generation is left out, after which CPUs forget everything in place of a page" },
        Equivalent { change: "skipped", line: "cpu.generation.set", why: "it forgets again what it has forgotten" },
        Equivalent { change: "skipped", line: "self.frames[frame as usize].set(m, 0)", why: "the next write to the frame is seen as well" },
        Equivalent { change: "skipped", line: "known.set(m, translation)", why: "it walks each time" },
        Equivalent { change: "skipped", line: ".lazy.store(m, 1,", why: "it is interrupted, which costs time and harms nobody" },
        Equivalent { change: "off by one", line: ".lazy.store(m, 1,", why: "every value but 0 says lazy" },
        Equivalent { change: "off by one", line: "request.waiting.store(m, 1,", why: "every value but 0 says asked" },
    ];

    const SCENARIOS: &'static [Scenario] = &[
        // Away after a use and then a use of what was known before.
        Scenario::of(2, 1).with(&[("own_pages", 1), ("moved_pages", 1), ("uses", 2)]),
        // Two who ask one.
        Scenario::of(3, 1).with(&[("own_pages", 1), ("moved_pages", 1), ("uses", 0)]),
        Scenario::of(2, 1),
        Scenario::of(2, 2).with(&[("own_pages", 1), ("moved_pages", 1)]),
    ];
    const PARTS: &'static [(&'static str, &'static str)] =
        &[("address_space", include_str!("tlb_shootdown/address_space.rs"))];

    fn bytes(tasks: usize, settings: &Settings) -> usize {
        AddressSpace::bytes(tasks, tasks * settings.get("own_pages") as usize)
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let number = |name: &str| settings.get(name) as u32;
        let own = number("own_pages");
        let times = Times {
            flush_page_ns: settings.get("flush_page_ns"),
            flush_all_ns: settings.get("flush_all_ns"),
            copy_ns: settings.get("copy_ns"),
        };
        TlbShootdown {
            space: AddressSpace::new(region, design, tasks, tasks * own as usize, times),
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

    /// Comes into the address space, and maps its pages.
    fn start<M: Machine>(&self, m: &M, _: usize) -> Seen {
        let begin = m.history_mark();
        let own = m.cpu() as u32 * self.own;
        (own..own + self.own).for_each(|page| self.space.map_first(m, page));
        self.space.enter(m);
        m.forget_history(begin, 0);
        Seen::default()
    }

    fn operate<M: Machine>(&self, m: &M, seen: &mut Seen) {
        let begin = m.history_mark();
        let first = m.cpu() as u32 * self.own + m.random(self.own - self.moved + 1);
        self.space.move_pages(m, first, self.moved, &mut seen.flushed);
        m.forget_history(begin, 0);
        for turn in 0..self.uses {
            let page = m.random(self.own * self.tasks as u32);
            seen.faults += u64::from(!self.space.use_page(m, page));
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

    fn finish<M: Machine>(&self, m: &M, _: &mut Seen) {
        self.space.go(m);
    }

    fn live(_: &Seen) -> u64 {
        0
    }

    fn interrupted<M: Machine>(&self, m: &M) {
        self.space.interrupted(m);
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        self.space.check(m)?;
        match (0..self.own * self.tasks as u32).find(|&page| !self.space.is_mapped(m, page)) {
            Some(page) => Err(format!("page {page} is not mapped")),
            None => Ok(()),
        }
    }

    fn effects(seen: &Seen) -> Vec<(&'static str, u64)> {
        seen.flushed.effects().into_iter().chain([("faults", seen.faults)]).collect()
    }
}
