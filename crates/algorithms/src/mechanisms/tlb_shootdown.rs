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
//! them, gives the old frames away and maps new ones; then it uses some of anybody's. A CPU now
//! and then leaves the address space for a while, as for a kernel thread.
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

use std::marker::PhantomData;

use machine::{Array, Atom, Field, Interrupted, Line, Machine, Ordering, Region, Until, image};

use super::{Mechanism, Setting, Settings};
use crate::{Equivalent, Lock, digest};

/// How it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// How interrupts are sent.
    pub sending: Sending,
    /// What a flush is of.
    pub flush: Flush,
    /// What becomes of the translations when a CPU leaves for a while.
    pub lazy: Lazy,
}

/// How interrupts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// A command for each target.
    OneByOne,
    /// One command, which interrupts all others.
    Broadcast,
}

/// What a flush is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// One page.
    Page,
    /// All that an operation unmaps.
    Batch,
}

/// What becomes of the translations when a CPU leaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lazy {
    /// They go, and its bit too.
    Never,
    /// They stay until it is interrupted for them.
    Interrupted,
    /// They stay, and it is not interrupted: it catches up when it comes back.
    Skipped,
}

impl Design {
    /// As it was before it was made to scale.
    pub const BEFORE: Design =
        Design { sending: Sending::OneByOne, flush: Flush::Page, lazy: Lazy::Interrupted };

    /// As it can be since.
    pub const AFTER: Design =
        Design { sending: Sending::Broadcast, flush: Flush::Batch, lazy: Lazy::Skipped };
}

image! {
    /// What a CPU knows and is asked.
    struct Cpu {
        /// 1 while it has left and its translations are loaded still.
        lazy: Atom<u32>,
        /// Requests that it has not seen, by sender plus one: the last first.
        requests: Atom<u32>,
        /// Whether the address space is loaded. Only its CPU uses it, as all that follows.
        loaded: Field<u32>,
        /// The generation of the address space up to which it has flushed.
        generation: Field<u64>,
        /// Translations, by page modulo their number: page plus one, and frame.
        known: [Field<u64>; KNOWN],
    }

    /// What a CPU asks of all its targets at once.
    struct Wanted {
        first: Field<u32>,
        pages: Field<u32>,
        generation: Field<u64>,
    }

    /// A request of one CPU to another.
    struct Request {
        /// 1 until it was answered.
        waiting: Atom<u32>,
        next: Field<u32>,
    }
}

const FULL_BARRIER: &str = "what it orders beside are atomic accesses, for which every \
                            read-modify-write is a full barrier, here and on x86";

/// Translations that a CPU knows at once.
const KNOWN: usize = 8;

/// Pages that one operation moves, at most.
const PAGES_MAX: usize = 64;

/// Words of a set of CPUs.
const WORDS: usize = 8;

type Set = [u64; WORDS];

/// An address space and its CPUs.
#[derive(Debug)]
pub struct TlbShootdown<L> {
    design: Design,
    tasks: usize,
    /// Pages of each task, and how many of them an operation moves.
    own: u32,
    moved: u32,
    uses: u32,
    leaves_one_in: u32,
    use_ns: u64,
    flush_page_ns: u64,
    flush_all_ns: u64,
    copy_ns: u64,
    away_ns: u64,
    generation: Array<Line<Atom<u64>>>,
    /// CPUs that may know translations, as bits.
    mask: Array<Line<[Atom<u64>; WORDS]>>,
    cpus: Array<Line<Cpu>>,
    wanted: Array<Line<Wanted>>,
    requests: Array<Line<Request>>,
    /// Frame plus one of each page; 0 where it is not mapped.
    entries: Array<Atom<u64>>,
    /// Page plus one of each frame; 0 where somebody else has it.
    frames: Array<Line<Field<u32>>>,
    /// It needs no lock.
    lock: PhantomData<fn() -> L>,
}

/// What a task has seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    flushes: u64,
    targets: u64,
    interrupts: u64,
    skipped: u64,
    faults: u64,
}

impl<L: Lock> Mechanism for TlbShootdown<L> {
    const NAME: &'static str = "tlb_shootdown";
    type Design = Design;
    type Task = Seen;
    const OPERATION: &'static str = "some pages moved, every CPU made to forget them, and some used";
    const INTERRUPTS: bool = true;
    const TASKS_MAX: usize = 64 * WORDS;
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
            about: "operations of which one begins by leaving the address space and coming back",
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

    fn bytes(tasks: usize, settings: &Settings) -> usize {
        let pages = tasks * settings.get("own_pages") as usize;
        (64 << 10) + tasks * 512 + tasks * tasks * 64 + pages * (8 + 2 * 64)
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let number = |name: &str| settings.get(name) as u32;
        let (own, moved) = (number("own_pages"), number("moved_pages"));
        let pages = tasks * own as usize;
        TlbShootdown {
            design,
            tasks,
            own,
            moved: moved.min(own),
            uses: number("uses"),
            leaves_one_in: number("leaves_one_in"),
            use_ns: settings.get("use_ns"),
            flush_page_ns: settings.get("flush_page_ns"),
            flush_all_ns: settings.get("flush_all_ns"),
            copy_ns: settings.get("copy_ns"),
            away_ns: settings.get("away_ns"),
            generation: region.array("generation", 1),
            mask: region.array("mask", 1),
            cpus: region.per_cpu("cpu", tasks),
            wanted: region.per_cpu("wanted", tasks),
            requests: region.array("request", tasks * tasks),
            entries: region.array("entry", pages),
            frames: region.array("frame", 2 * pages),
            lock: PhantomData,
        }
    }

    /// Comes into the address space, and maps its pages.
    fn start<M: Machine>(&self, m: &M, _: usize) -> Seen {
        let begin = m.mark();
        for page in self.own_pages(m) {
            self.map(m, page, 2 * page);
        }
        self.enter(m);
        m.cut(begin, 0);
        Seen::default()
    }

    fn operate<M: Machine>(&self, m: &M, seen: &mut Seen) {
        let begin = m.mark();
        if m.chance(self.leaves_one_in) {
            self.leave(m);
            m.work(self.away_ns);
            self.come_back(m);
            m.cut(begin, 0);
        }
        let first = self.own_pages(m).start + m.random(self.own - self.moved + 1);
        match self.design.flush {
            Flush::Page => (first..first + self.moved).for_each(|page| self.move_pages(m, page, 1, seen)),
            Flush::Batch => self.move_pages(m, first, self.moved, seen),
        }
        m.cut(begin, 0);
        for _ in 0..self.uses {
            let page = m.random(self.own * self.tasks as u32);
            seen.faults += u64::from(!self.use_page(m, page));
            m.work(self.use_ns);
        }
        m.cut(begin, 0);
    }

    fn finish<M: Machine>(&self, m: &M, _: &mut Seen) {
        m.uninterrupted(|| self.unload(m));
    }

    fn live(_: &Seen) -> u64 {
        0
    }

    /// Sees to the requests of others (generic_smp_call_function_single_interrupt).
    fn interrupted<M: Machine>(&self, m: &M) {
        let target = m.cpu();
        // Takes all. Pairs with the release in `ask`.
        let mut sender = self.cpus[target].requests.swap(m, 0, Ordering::Acquire) as usize;
        while sender != 0 {
            let request = self.request(sender - 1, target);
            let next = request.next.get(m) as usize;
            m.discard(&request.next);
            self.forget_wanted(m, &self.wanted[sender - 1]);
            // asked -> free. Pairs with the acquire in `await_answers`: what we did with the
            // page is over.
            request.waiting.store(m, 0, Ordering::Release);
            sender = next;
        }
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        let asked = |request: &Line<Request>| request.waiting.load(m, Ordering::Relaxed) != 0;
        let queued = |cpu: &Line<Cpu>| cpu.requests.load(m, Ordering::Relaxed) != 0;
        if self.requests.iter().any(asked) || self.cpus.iter().any(queued) {
            return Err("a request was not answered".to_string());
        }
        if self.mask[0].iter().any(|word| word.load(m, Ordering::Relaxed) != 0) {
            return Err("the mask names a CPU that has left".to_string());
        }
        for (page, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(m, Ordering::Relaxed) as usize;
            if entry == 0 || self.frames[entry - 1].get(m) as usize != page + 1 {
                return Err(format!("page {page} is not mapped to a frame of its own"));
            }
        }
        Ok(())
    }

    fn effects(seen: &Seen) -> Vec<(&'static str, u64)> {
        vec![
            ("flushes", seen.flushes),
            ("flush_targets", seen.targets),
            ("interrupts_sent", seen.interrupts),
            ("lazy_skipped", seen.skipped),
            ("faults", seen.faults),
        ]
    }
}

impl<L: Lock> TlbShootdown<L> {
    fn own_pages<M: Machine>(&self, m: &M) -> std::ops::Range<u32> {
        let first = m.cpu() as u32 * self.own;
        first..first + self.own
    }

    fn request(&self, sender: usize, target: usize) -> &Request {
        &self.requests[sender * self.tasks + target]
    }

    fn bit<M: Machine>(&self, m: &M) -> (&Atom<u64>, u64) {
        (&self.mask[0][m.cpu() / 64], 1 << (m.cpu() % 64))
    }

    // The pages.

    fn map<M: Machine>(&self, m: &M, page: u32, frame: u32) {
        self.frames[frame as usize].set(m, page + 1);
        // Unmapped -> mapped. Release: who walks to the frame finds it made.
        self.entries[page as usize].store(m, u64::from(frame) + 1, Ordering::Release);
    }

    /// Moves pages elsewhere: to the other one of their two frames.
    pub fn move_pages<M: Machine>(&self, m: &M, first: u32, pages: u32, seen: &mut Seen) {
        let start = m.mark();
        let mut frames = [0; PAGES_MAX];
        let pages = first..first + pages.min(PAGES_MAX as u32);
        for (page, frame) in pages.clone().zip(&mut frames) {
            // Mapped -> unmapped. Nobody walks to it from now on.
            let entry = self.entries[page as usize].swap(m, 0, Ordering::AcqRel);
            *frame = entry as u32 - 1;
        }
        let live = digest(frames[..pages.len()].iter().map(|&frame| frame.into()));
        m.cut(start, live);
        self.flush(m, pages.start, pages.len() as u32, seen);
        m.cut(start, live);
        for (page, frame) in pages.zip(frames) {
            // Unmapped -> reused. Whoever used it still would see this.
            self.frames[frame as usize].set(m, 0);
            m.work(self.copy_ns);
            self.map(m, page, frame ^ 1);
        }
        m.cut(start, 0);
    }

    /// Uses a page, by what the CPU knows or else by walking to its entry. Whether it is mapped.
    fn use_page<M: Machine>(&self, m: &M, page: u32) -> bool {
        // One instruction: nothing interrupts between the translation and the access.
        m.uninterrupted(|| {
            let cpu = &self.cpus[m.cpu()];
            let known = &cpu.known[page as usize % KNOWN];
            let mut translation = known.get(m);
            if translation >> 32 != u64::from(page) + 1 {
                // Pairs with the release in `map`.
                let entry = self.entries[page as usize].load(m, Ordering::Acquire);
                if entry == 0 {
                    return false;
                }
                translation = (u64::from(page) + 1) << 32 | (entry - 1);
                known.set(m, translation);
            }
            let content = self.frames[translation as u32 as usize].get(m);
            assert_eq!(content, page + 1, "a page is used that is somebody else's now");
            true
        })
    }

    // The CPU and the address space.

    /// Away -> running: the bit, then the generation, then translations
    /// (switch_mm_irqs_off).
    fn enter<M: Machine>(&self, m: &M) {
        m.uninterrupted(|| {
            let (word, bit) = self.bit(m);
            // A full barrier, as is the clearing of an entry: either whoever unmaps sees our
            // bit, or we see the entry cleared.
            word.fetch_or(m, bit, Ordering::AcqRel);
            if self.design.lazy == Lazy::Skipped {
                self.catch_up(m);
            }
            self.cpus[m.cpu()].loaded.set(m, 1);
        });
    }

    /// Running -> lazy, or away.
    fn leave<M: Machine>(&self, m: &M) {
        match self.design.lazy {
            Lazy::Never => m.uninterrupted(|| self.unload(m)),
            // Release: we use no page from now on. Pairs with the acquire in `targets`.
            Lazy::Interrupted | Lazy::Skipped => {
                self.cpus[m.cpu()].lazy.store(m, 1, Ordering::Release);
            }
        }
    }

    /// Lazy or away -> running.
    fn come_back<M: Machine>(&self, m: &M) {
        let start = m.mark();
        let cpu = &self.cpus[m.cpu()];
        m.uninterrupted(|| {
            // A full barrier, as is the count of the generation: either whoever unmaps sees
            // that we are back, or we see that it did.
            cpu.lazy.swap(m, 0, Ordering::AcqRel);
            if cpu.loaded.get(m) == 1 {
                if self.design.lazy == Lazy::Skipped {
                    self.catch_up(m);
                }
            } else {
                self.enter(m);
            }
        });
        m.cut(start, 0);
    }

    /// Running or lazy -> away.
    fn unload<M: Machine>(&self, m: &M) {
        let cpu = &self.cpus[m.cpu()];
        cpu.loaded.set(m, 0);
        self.forget_all(m);
        let (word, bit) = self.bit(m);
        // Release: we use no page from now on. Pairs with the acquire in `targets`.
        word.fetch_and(m, !bit, Ordering::Release);
    }

    /// Forgets everything, unless nothing was unmapped since this CPU last did.
    fn catch_up<M: Machine>(&self, m: &M) {
        let cpu = &self.cpus[m.cpu()];
        // Acquire: what was unmapped up to this generation we do not find in our walks.
        let generation = self.generation[0].load(m, Ordering::Acquire);
        if cpu.generation.get(m) != generation {
            self.forget_all(m);
            cpu.generation.set(m, generation);
        }
    }

    fn forget_all<M: Machine>(&self, m: &M) {
        m.work(self.flush_all_ns);
        self.cpus[m.cpu()].known.iter().for_each(|known| known.set(m, 0));
    }

    // The flush.

    /// Has every CPU forget these pages, and returns when all have (flush_tlb_mm_range).
    fn flush<M: Machine>(&self, m: &M, first: u32, pages: u32, seen: &mut Seen) {
        let start = m.mark();
        let wanted = &self.wanted[m.cpu()];
        let generation = match self.design.lazy {
            Lazy::Never | Lazy::Interrupted => 0,
            // A full barrier before the looks at lazy CPUs. Release: who catches up to it
            // finds the entries cleared.
            Lazy::Skipped => self.generation[0].fetch_add(m, 1, Ordering::AcqRel) + 1,
        };
        wanted.first.set(m, first);
        wanted.pages.set(m, pages);
        wanted.generation.set(m, generation);
        m.cut(start, generation);
        let targets = self.targets(m, seen);
        m.cut(start, digest(targets));
        let idle = self.ask(m, targets);
        self.send(m, idle, seen);
        m.cut(start, digest(targets));
        m.uninterrupted(|| self.forget_wanted(m, wanted));
        for target in each(targets) {
            // Pairs with the release of the handler. It can be interrupted meanwhile: the
            // target may be waiting for our own answer.
            let waiting = &self.request(m.cpu(), target).waiting;
            m.await_until(waiting, Until::equals(0), Ordering::Acquire);
        }
        seen.flushes += 1;
        seen.targets += each(targets).count() as u64;
        m.cut(start, 0);
    }

    /// The CPUs that may know translations of the address space.
    fn targets<M: Machine>(&self, m: &M, seen: &mut Seen) -> Set {
        let mut targets = [0; WORDS];
        for (word, set) in self.mask[0].iter().zip(&mut targets).take(self.tasks.div_ceil(64)) {
            // Pairs with the release in `unload`: who has left uses no page.
            *set = word.load(m, Ordering::Acquire);
        }
        targets[m.cpu() / 64] &= !(1 << (m.cpu() % 64));
        if self.design.lazy == Lazy::Skipped {
            for target in each(targets) {
                // Pairs with the release in `leave` (tlb_is_not_lazy).
                if self.cpus[target].lazy.load(m, Ordering::Acquire) != 0 {
                    targets[target / 64] &= !(1 << (target % 64));
                    seen.skipped += 1;
                }
            }
        }
        targets
    }

    /// Queues a request for each target (smp_call_function_many_cond). Those that had none
    /// must be interrupted; others will find it with the one that they have.
    fn ask<M: Machine>(&self, m: &M, targets: Set) -> Set {
        let mut idle = targets;
        for target in each(targets) {
            let request = self.request(m.cpu(), target);
            // Free -> asked. Relaxed: the queue releases it.
            request.waiting.store(m, 1, Ordering::Relaxed);
            let queue = &self.cpus[target].requests;
            let begin = m.mark();
            // Relaxed: the exchange decides.
            let mut before = queue.load(m, Ordering::Relaxed);
            loop {
                m.cut(begin, digest([digest(idle), before.into()]));
                request.next.set(m, before);
                let own = m.cpu() as u32 + 1;
                // Pairs with the acquire in `interrupted`.
                match queue.compare_exchange(m, before, own, Ordering::Release) {
                    Ok(_) => break,
                    Err(other) => before = other,
                }
            }
            if before != 0 {
                idle[target / 64] &= !(1 << (target % 64));
            }
            m.cut(begin, digest(idle));
        }
        idle
    }

    fn send<M: Machine>(&self, m: &M, targets: Set, seen: &mut Seen) {
        match self.design.sending {
            Sending::OneByOne => {
                for target in each(targets) {
                    m.interrupt(Interrupted::One(target));
                    seen.interrupts += 1;
                }
            }
            Sending::Broadcast if targets == [0; WORDS] => {}
            Sending::Broadcast => {
                m.interrupt(Interrupted::Others);
                seen.interrupts += self.tasks as u64 - 1;
            }
        }
    }

    /// Forgets what somebody wants forgotten, on this CPU (flush_tlb_func).
    fn forget_wanted<M: Machine>(&self, m: &M, wanted: &Wanted) {
        let cpu = &self.cpus[m.cpu()];
        if cpu.loaded.get(m) == 0 {
            return;
        }
        // Relaxed: its own.
        if cpu.lazy.load(m, Ordering::Relaxed) != 0 {
            return self.unload(m);
        }
        let (first, pages) = (wanted.first.get(m), wanted.pages.get(m));
        let (known_to, wanted_to) = (cpu.generation.get(m), wanted.generation.get(m));
        if self.design.lazy == Lazy::Skipped {
            if wanted_to <= known_to {
                return;
            }
            if wanted_to > known_to + 1 {
                // There were others in between, of which we do not know what they were.
                return self.catch_up(m);
            }
        }
        for page in first..first + pages {
            let known = &cpu.known[page as usize % KNOWN];
            m.work(self.flush_page_ns);
            if known.get(m) >> 32 == u64::from(page) + 1 {
                known.set(m, 0);
            }
        }
        cpu.generation.set(m, wanted_to);
    }
}

/// The CPUs of a set.
fn each(set: Set) -> impl Iterator<Item = usize> {
    let bits = |(word, mut bits): (usize, u64)| {
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (bit < 64).then_some(64 * word + bit)
        })
    };
    set.into_iter().enumerate().flat_map(bits)
}
