//! An address space and the CPUs that use it: what of its pages each of them knows, and how
//! they are made to forget it. The module above has the states and the sources.

use machine::{Array, Atom, Field, IpiTarget, Line, Machine, Ordering, Region, Until, image};

use crate::digest;

/// How it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// How interrupts are sent.
    pub sending: Sending,
    /// What a flush is of.
    pub flush: Flush,
    /// What becomes of the translations when a CPU leaves for a while.
    pub lazy: Lazy,
    /// Whether a CPU is interrupted that has a request it has not seen.
    pub needless: Needless,
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

/// Whether a CPU is interrupted that has a request it has not seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needless {
    /// It is, once more (Linux before 4.14).
    Sent,
    /// It is not: it finds all with the interrupt that it will have.
    Saved,
}

impl Design {
    /// As it was before it was made to scale.
    pub const BEFORE: Design =
        Design { sending: Sending::OneByOne, flush: Flush::Page, lazy: Lazy::Interrupted, needless: Needless::Saved };

    /// As it can be since.
    pub const AFTER: Design =
        Design { sending: Sending::Broadcast, flush: Flush::Batch, lazy: Lazy::Skipped, needless: Needless::Saved };
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

/// Translations that a CPU knows at once.
const KNOWN: usize = 8;

/// Pages that one operation moves, at most.
pub const PAGES_MAX: usize = 64;

/// Pages of a flush from which on all is forgotten (tlb_single_page_flush_ceiling).
const SINGLE_PAGES_MAX: u32 = 33;

/// Words of a set of CPUs.
const WORDS: usize = 8;

/// CPUs that there can be.
pub const CPUS_MAX: usize = 64 * WORDS;

type Set = [u64; WORDS];

/// What takes time in an address space, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// To forget one page.
    pub flush_page_ns: u64,
    /// To forget everything.
    pub flush_all_ns: u64,
    /// To move a page.
    pub copy_ns: u64,
}

/// An address space and its CPUs.
#[derive(Debug)]
pub struct AddressSpace {
    design: Design,
    tasks: usize,
    times: Times,
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
}

/// What flushes of a task were.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushes {
    flushes: u64,
    targets: u64,
    interrupts: u64,
    skipped: u64,
}

impl Flushes {
    /// How many, by name.
    pub fn effects(&self) -> [(&'static str, u64); 4] {
        [
            ("flushes", self.flushes),
            ("flush_targets", self.targets),
            ("interrupts_sent", self.interrupts),
            ("lazy_skipped", self.skipped),
        ]
    }
}

impl AddressSpace {
    /// Bytes of a region that one with so many pages needs.
    pub fn bytes(tasks: usize, pages: usize) -> usize {
        (64 << 10) + tasks * 512 + tasks * tasks * 64 + pages * (8 + 2 * 64)
    }

    /// One in which nobody is and nothing is mapped.
    pub fn new(
        region: &Region,
        design: Design,
        tasks: usize,
        pages: usize,
        times: Times,
    ) -> AddressSpace {
        AddressSpace {
            design,
            tasks,
            times,
            generation: region.array("generation", 1),
            mask: region.array("mask", 1),
            cpus: region.per_cpu("cpu", tasks),
            wanted: region.per_cpu("wanted", tasks),
            requests: region.array("request", tasks * tasks),
            entries: region.array("entry", pages),
            frames: region.array("frame", 2 * pages),
        }
    }

    /// Sees to the requests of others (generic_smp_call_function_single_interrupt).
    pub fn interrupted<M: Machine>(&self, m: &M) {
        let target = m.cpu();
        // Takes all. Pairs with the release in `ask`.
        let mut sender = self.cpus[target].requests.swap(m, 0, Ordering::Acquire) as usize;
        while sender != 0 {
            let request = self.request(sender - 1, target);
            let next = request.next.get(m) as usize;
            m.poison_field(&request.next);
            self.forget_wanted(m, &self.wanted[sender - 1]);
            // asked -> free. Pairs with the acquire in `await_answers`: what we did with the
            // page is over.
            request.waiting.store(m, 0, Ordering::Release);
            sender = next;
        }
    }

    /// What must hold when everybody has gone.
    pub fn check<M: Machine>(&self, m: &M) -> Result<(), String> {
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
            if entry != 0 && self.frames[entry - 1].get(m) as usize != page + 1 {
                return Err(format!("page {page} is mapped to a frame that is not its own"));
            }
        }
        Ok(())
    }

    fn request(&self, sender: usize, target: usize) -> &Request {
        &self.requests[sender * self.tasks + target]
    }

    fn bit<M: Machine>(&self, m: &M) -> (&Atom<u64>, u64) {
        (&self.mask[0][m.cpu() / 64], 1 << (m.cpu() % 64))
    }

    // The pages.

    /// Whether a page is mapped. Who asks sees to it that nobody moves it.
    pub fn is_mapped<M: Machine>(&self, m: &M, page: u32) -> bool {
        // Relaxed: it tells that much, and a use walks to it again.
        self.entries[page as usize].load(m, Ordering::Relaxed) != 0
    }

    /// Maps a page that was never mapped.
    pub fn map_first<M: Machine>(&self, m: &M, page: u32) {
        self.map(m, page, 2 * page);
    }

    fn map<M: Machine>(&self, m: &M, page: u32, frame: u32) {
        self.frames[frame as usize].set(m, page + 1);
        // Unmapped -> mapped. Release: who walks to the frame finds it made.
        self.entries[page as usize].store(m, u64::from(frame) + 1, Ordering::Release);
    }

    /// Moves pages elsewhere, with one flush for each or for all. Nobody else moves them.
    pub fn move_pages<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        match self.design.flush {
            Flush::Page => (first..first + pages).for_each(|page| self.move_some(m, page, 1, flushed)),
            Flush::Batch => self.move_some(m, first, pages, flushed),
        }
    }

    /// Moves pages with one flush: to the other one of their two frames.
    fn move_some<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        let start = m.history_mark();
        let mut frames = [0; PAGES_MAX];
        let pages = first..first + pages.min(PAGES_MAX as u32);
        for (page, frame) in pages.clone().zip(&mut frames) {
            // Mapped -> unmapped. Nobody walks to it from now on.
            let entry = self.entries[page as usize].swap(m, 0, Ordering::AcqRel);
            *frame = entry as u32 - 1;
        }
        let live = digest(frames[..pages.len()].iter().map(|&frame| frame.into()));
        m.forget_history(start, live);
        self.flush(m, pages.start, pages.len() as u32, flushed);
        m.forget_history(start, live);
        for (page, frame) in pages.zip(frames) {
            // Unmapped -> reused. Whoever used it still would see this.
            self.frames[frame as usize].set(m, 0);
            m.work(self.times.copy_ns);
            self.map(m, page, frame ^ 1);
        }
        m.forget_history(start, 0);
    }

    /// Uses a page, by what the CPU knows or else by walking to its entry. Whether it is mapped.
    pub fn use_page<M: Machine>(&self, m: &M, page: u32) -> bool {
        // One instruction: nothing interrupts between the translation and the access.
        m.with_irqs_off(|| {
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
    pub fn enter<M: Machine>(&self, m: &M) {
        m.with_irqs_off(|| {
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
    pub fn leave<M: Machine>(&self, m: &M) {
        match self.design.lazy {
            Lazy::Never => self.go(m),
            // Release: we use no page from now on. Pairs with the acquire in `targets`.
            Lazy::Interrupted | Lazy::Skipped => {
                self.cpus[m.cpu()].lazy.store(m, 1, Ordering::Release);
            }
        }
    }

    /// Lazy or away -> running.
    pub fn come_back<M: Machine>(&self, m: &M) {
        let start = m.history_mark();
        let cpu = &self.cpus[m.cpu()];
        m.with_irqs_off(|| {
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
        m.forget_history(start, 0);
    }

    /// Running or lazy -> away, for good.
    pub fn go<M: Machine>(&self, m: &M) {
        m.with_irqs_off(|| self.unload(m));
    }

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
        m.work(self.times.flush_all_ns);
        self.cpus[m.cpu()].known.iter().for_each(|known| known.set(m, 0));
    }

    // The flush.

    /// Has every CPU forget these pages, and returns when all have (flush_tlb_mm_range).
    pub fn flush<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        let start = m.history_mark();
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
        m.forget_history(start, generation);
        let targets = self.targets(m, flushed);
        m.forget_history(start, digest(targets));
        let idle = self.ask(m, targets);
        self.send(m, idle, flushed);
        m.forget_history(start, digest(targets));
        m.with_irqs_off(|| self.forget_wanted(m, wanted));
        for target in each(targets) {
            // Pairs with the release of the handler. It can be interrupted meanwhile: the
            // target may be waiting for our own answer.
            let waiting = &self.request(m.cpu(), target).waiting;
            m.await_until(waiting, Until::equals(0), Ordering::Acquire);
        }
        flushed.flushes += 1;
        flushed.targets += each(targets).count() as u64;
        m.forget_history(start, 0);
    }

    /// The CPUs that may know translations of the address space.
    fn targets<M: Machine>(&self, m: &M, flushed: &mut Flushes) -> Set {
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
                    flushed.skipped += 1;
                }
            }
        }
        targets
    }

    /// Queues a request for each target (smp_call_function_many_cond). Those that had none
    /// must be interrupted; others find it with the interrupt that they will have.
    fn ask<M: Machine>(&self, m: &M, targets: Set) -> Set {
        let mut idle = targets;
        for target in each(targets) {
            let request = self.request(m.cpu(), target);
            // Free -> asked. Relaxed: the queue releases it.
            request.waiting.store(m, 1, Ordering::Relaxed);
            let queue = &self.cpus[target].requests;
            let begin = m.history_mark();
            // Relaxed: the exchange decides.
            let mut before = queue.load(m, Ordering::Relaxed);
            loop {
                m.forget_history(begin, digest([digest(idle), before.into()]));
                request.next.set(m, before);
                let own = m.cpu() as u32 + 1;
                // Pairs with the acquire in `interrupted`.
                match queue.compare_exchange(m, before, own, Ordering::Release) {
                    Ok(_) => break,
                    Err(other) => before = other,
                }
            }
            if before != 0 && self.design.needless == Needless::Saved {
                idle[target / 64] &= !(1 << (target % 64));
            }
            m.forget_history(begin, digest(idle));
        }
        idle
    }

    fn send<M: Machine>(&self, m: &M, targets: Set, flushed: &mut Flushes) {
        match self.design.sending {
            Sending::OneByOne => {
                for target in each(targets) {
                    m.send_ipi(IpiTarget::One(target));
                    flushed.interrupts += 1;
                }
            }
            Sending::Broadcast if targets == [0; WORDS] => {}
            Sending::Broadcast => {
                m.send_ipi(IpiTarget::Others);
                flushed.interrupts += self.tasks as u64 - 1;
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
        if pages > SINGLE_PAGES_MAX {
            self.forget_all(m);
            return cpu.generation.set(m, wanted_to);
        }
        for page in first..first + pages {
            let known = &cpu.known[page as usize % KNOWN];
            m.work(self.times.flush_page_ns);
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
