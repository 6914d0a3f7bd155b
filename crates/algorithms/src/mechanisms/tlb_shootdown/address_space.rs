//! An address space and the CPUs that use it: which translations each CPU has in its TLB, and how
//! they are flushed. The states and the sources are in tlb_shootdown.rs.

use machine::{Array, Atom, Field, IpiTarget, Line, Machine, Ordering, Region, Until, image};

use crate::digest;
use crate::mechanisms::{Setting, Settings};

/// The design of a shootdown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Design {
    /// How interrupts are sent.
    pub sending: Sending,
    /// The pages that one flush covers.
    pub flush: Flush,
    /// What happens to the translations when a CPU leaves for a while.
    pub lazy: Lazy,
    /// Whether a CPU that has an unhandled request is interrupted again.
    pub needless: Needless,
}

/// How interrupts are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sending {
    /// By one command for each target.
    OneByOne,
    /// By one command, which interrupts all other CPUs.
    Broadcast,
}

/// The pages that one flush covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// One page.
    Page,
    /// All pages that an operation unmaps.
    Batch,
}

/// What happens to the translations when a CPU leaves for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lazy {
    /// The CPU flushes them, and clears its bit in the mask.
    Never,
    /// The CPU keeps them until a flush interrupts it.
    Interrupted,
    /// The CPU keeps them, and flushes skip it: it catches up when it comes back.
    Skipped,
}

/// Whether a CPU that has an unhandled request is interrupted again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Needless {
    /// It is interrupted again (Linux before 4.14).
    Sent,
    /// It is not: the interrupt under way makes it handle all requests.
    Saved,
}

impl Design {
    /// The design of Linux 3.19, but without needless interrupts.
    pub const BEFORE: Design = Design {
        sending: Sending::OneByOne,
        flush: Flush::Page,
        lazy: Lazy::Interrupted,
        needless: Needless::Saved,
    };

    /// The design that later kernels make possible.
    pub const AFTER: Design = Design {
        sending: Sending::Broadcast,
        flush: Flush::Batch,
        lazy: Lazy::Skipped,
        needless: Needless::Saved,
    };
}

image! {
    /// The TLB of a CPU and the requests to it.
    struct TlbCpu {
        /// 1 while the CPU has left the address space but keeps its translations.
        lazy: Atom<u32>,
        /// The last sender of an unhandled request, plus one; the others are linked behind it.
        requests: Atom<u32>,
        /// Whether the address space is loaded. Only its CPU uses this field and those below.
        loaded: Field<u32>,
        /// The generation of the address space up to which the CPU has flushed.
        generation: Field<u64>,
        /// The translations, by page modulo their number: page plus one, and frame.
        known: [Field<u64>; KNOWN],
    }

    /// The flush that a CPU requests from all its targets.
    struct Wanted {
        first: Field<u32>,
        pages: Field<u32>,
        generation: Field<u64>,
    }

    /// A request of one CPU to another.
    struct FlushRequest {
        /// 1 until the target has answered.
        waiting: Atom<u32>,
        next: Field<u32>,
    }
}

/// Translations in the TLB of a CPU.
const KNOWN: usize = 8;

/// The most pages that one operation moves.
pub const PAGES_MAX: usize = 64;

/// The most pages that are flushed one by one; for more, everything is flushed
/// (tlb_single_page_flush_ceiling).
const SINGLE_PAGES_MAX: u32 = 33;

/// Words of a CPU set.
const WORDS: usize = 8;

/// The largest number of CPUs.
pub const CPUS_MAX: usize = 64 * WORDS;

/// CPUs, as bits.
type CpuSet = [u64; WORDS];

/// The times of operations on an address space, in ns.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// To flush one page.
    pub flush_page_ns: u64,
    /// To flush everything.
    pub flush_all_ns: u64,
    /// To copy a page.
    pub copy_ns: u64,
}

impl Times {
    /// The setting of `flush_page_ns`.
    pub const FLUSH_PAGE: Setting =
        Setting::time("flush_page_ns", "work to flush one page, in ns", 0);

    /// The setting of `flush_all_ns`.
    pub const FLUSH_ALL: Setting =
        Setting::time("flush_all_ns", "work to flush everything, in ns", 0);

    /// The setting of `copy_ns`.
    pub const COPY: Setting = Setting::time("copy_ns", "work to copy a page, in ns", 0);

    /// The times of a mechanism that declares the three settings.
    pub fn from_settings(settings: &Settings) -> Times {
        Times {
            flush_page_ns: settings.get(Times::FLUSH_PAGE.name),
            flush_all_ns: settings.get(Times::FLUSH_ALL.name),
            copy_ns: settings.get(Times::COPY.name),
        }
    }
}

/// An address space and its CPUs.
#[derive(Debug)]
pub struct AddressSpace {
    design: Design,
    tasks: usize,
    times: Times,
    generation: Array<Line<Atom<u64>>>,
    /// CPUs that may have translations, as bits.
    mask: Array<Line<[Atom<u64>; WORDS]>>,
    cpus: Array<Line<TlbCpu>>,
    wanted: Array<Line<Wanted>>,
    /// By sender, then by target.
    requests: Array<Line<FlushRequest>>,
    /// The frame of each page, plus one; 0 if the page is not mapped.
    entries: Array<Atom<u64>>,
    /// The page in each frame, plus one; 0 if the frame has another owner.
    frames: Array<Line<Field<u32>>>,
}

/// Counts of a task's flushes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Flushes {
    flushes: u64,
    targets: u64,
    interrupts: u64,
    skipped: u64,
}

impl Flushes {
    /// The counts by name.
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
    /// Bytes of a region that an address space with this many pages needs.
    pub fn bytes(tasks: usize, pages: usize) -> usize {
        (64 << 10) + tasks * 512 + tasks * tasks * 64 + pages * (8 + 2 * 64)
    }

    /// An address space without CPUs and without mapped pages.
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

    /// Handles the requests of other CPUs (generic_smp_call_function_single_interrupt).
    pub fn handle_ipi<M: Machine>(&self, m: &M) {
        let target = m.cpu();
        // Takes all requests. Pairs with the release in `queue_requests`.
        let mut sender = self.cpus[target].requests.swap(m, 0, Ordering::Acquire) as usize;
        while sender != 0 {
            let request = self.request(sender - 1, target);
            let next = request.next.get(m) as usize;
            m.poison_field(&request.next);
            self.flush_own_tlb(m, &self.wanted[sender - 1]);
            // Pending -> free. Pairs with the acquire in `flush`: we no longer use the page.
            request.waiting.store(m, 0, Ordering::Release);
            sender = next;
        }
    }

    /// Checks what must hold when all CPUs have left.
    pub fn check<M: Machine>(&self, m: &M) -> Result<(), String> {
        let pending =
            |request: &Line<FlushRequest>| request.waiting.load(m, Ordering::Relaxed) != 0;
        let queued = |cpu: &Line<TlbCpu>| cpu.requests.load(m, Ordering::Relaxed) != 0;
        if self.requests.iter().any(pending) || self.cpus.iter().any(queued) {
            return Err("a request was not answered".to_string());
        }
        if self.mask[0].iter().any(|word| word.load(m, Ordering::Relaxed) != 0) {
            return Err("the mask names a CPU that has left".to_string());
        }
        for (page, entry) in self.entries.iter().enumerate() {
            let entry = entry.load(m, Ordering::Relaxed) as usize;
            if entry != 0 && self.frames[entry - 1].get(m) as usize != page + 1 {
                return Err(format!("page {page} is mapped to the frame of another page"));
            }
        }
        Ok(())
    }

    fn request(&self, sender: usize, target: usize) -> &FlushRequest {
        &self.requests[sender * self.tasks + target]
    }

    /// The bit of this CPU in the mask, and the word that it is in.
    fn bit<M: Machine>(&self, m: &M) -> (&Atom<u64>, u64) {
        (&self.mask[0][m.cpu() / 64], 1 << (m.cpu() % 64))
    }

    // The pages.

    /// Whether a page is mapped. The caller makes sure that no other task moves it.
    pub fn is_mapped<M: Machine>(&self, m: &M, page: u32) -> bool {
        // Relaxed: a use of the page walks to the entry again.
        self.entries[page as usize].load(m, Ordering::Relaxed) != 0
    }

    /// Maps a page that was never mapped.
    pub fn map_first<M: Machine>(&self, m: &M, page: u32) {
        self.map(m, page, 2 * page);
    }

    fn map<M: Machine>(&self, m: &M, page: u32, frame: u32) {
        self.frames[frame as usize].set(m, page + 1);
        // Unmapped -> mapped. Release: a CPU that walks to the frame finds its content.
        self.entries[page as usize].store(m, u64::from(frame) + 1, Ordering::Release);
    }

    /// Moves pages to other frames, with one flush for each or for all. No other task moves them.
    pub fn move_pages<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        match self.design.flush {
            Flush::Page => {
                (first..first + pages).for_each(|page| self.move_batch(m, page, 1, flushed));
            }
            Flush::Batch => self.move_batch(m, first, pages, flushed),
        }
    }

    /// Moves pages with one flush. Each page has two frames and moves to the other one.
    fn move_batch<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        let start = m.history_mark();
        let mut frames = [0; PAGES_MAX];
        let pages = first..first + pages.min(PAGES_MAX as u32);
        for (page, frame) in pages.clone().zip(&mut frames) {
            // Mapped -> unmapped. No CPU walks to the frame from now on.
            let entry = self.entries[page as usize].swap(m, 0, Ordering::AcqRel);
            *frame = entry as u32 - 1;
        }
        let live = digest(frames[..pages.len()].iter().map(|&frame| frame.into()));
        m.forget_history(start, live);
        self.flush(m, pages.start, pages.len() as u32, flushed);
        m.forget_history(start, live);
        for (page, frame) in pages.zip(frames) {
            // Unmapped -> reused. A CPU that still used the frame would see this.
            self.frames[frame as usize].set(m, 0);
            m.work(self.times.copy_ns);
            self.map(m, page, frame ^ 1);
        }
        m.forget_history(start, 0);
    }

    /// Uses a page, by its translation in the TLB or else by walking to its entry. False if the
    /// page is not mapped.
    pub fn use_page<M: Machine>(&self, m: &M, page: u32) -> bool {
        // One instruction: no interrupt comes between the translation and the access.
        m.with_irqs_off(|| {
            let cpu = &self.cpus[m.cpu()];
            let slot = &cpu.known[page as usize % KNOWN];
            let mut translation = slot.get(m);
            if translation >> 32 != u64::from(page) + 1 {
                // Pairs with the release in `map`.
                let entry = self.entries[page as usize].load(m, Ordering::Acquire);
                if entry == 0 {
                    return false;
                }
                translation = (u64::from(page) + 1) << 32 | (entry - 1);
                slot.set(m, translation);
            }
            let content = self.frames[translation as u32 as usize].get(m);
            assert_eq!(content, page + 1, "a stale translation is used: the frame has a new owner");
            true
        })
    }

    // The CPU and the address space.

    /// Away -> running: sets the bit, then loads the generation, then uses translations
    /// (switch_mm_irqs_off).
    pub fn enter<M: Machine>(&self, m: &M) {
        m.with_irqs_off(|| {
            let (word, bit) = self.bit(m);
            // A full barrier, as is the clearing of an entry: either the CPU that unmaps sees our
            // bit, or we see the entry cleared.
            word.fetch_or(m, bit, Ordering::AcqRel);
            if self.design.lazy == Lazy::Skipped {
                self.catch_up(m);
            }
            self.cpus[m.cpu()].loaded.set(m, 1);
        });
    }

    /// Running -> lazy; or away, if the design has no lazy CPUs.
    pub fn leave<M: Machine>(&self, m: &M) {
        match self.design.lazy {
            Lazy::Never => self.exit(m),
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
            // A full barrier, as is the increment of the generation: either the CPU that unmaps
            // sees that we are back, or we see its new generation.
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

    /// Running or lazy -> away.
    pub fn exit<M: Machine>(&self, m: &M) {
        m.with_irqs_off(|| self.unload(m));
    }

    fn unload<M: Machine>(&self, m: &M) {
        let cpu = &self.cpus[m.cpu()];
        cpu.loaded.set(m, 0);
        self.flush_own_tlb_all(m);
        let (word, bit) = self.bit(m);
        // Release: we use no page from now on. Pairs with the acquire in `targets`.
        word.fetch_and(m, !bit, Ordering::Release);
    }

    /// Flushes this CPU's whole TLB, unless no page was unmapped since its last flush.
    fn catch_up<M: Machine>(&self, m: &M) {
        let cpu = &self.cpus[m.cpu()];
        // Acquire: our walks do not find what was unmapped up to this generation.
        let generation = self.generation[0].load(m, Ordering::Acquire);
        if cpu.generation.get(m) != generation {
            self.flush_own_tlb_all(m);
            cpu.generation.set(m, generation);
        }
    }

    fn flush_own_tlb_all<M: Machine>(&self, m: &M) {
        m.work(self.times.flush_all_ns);
        self.cpus[m.cpu()].known.iter().for_each(|known| known.set(m, 0));
    }

    // The flush.

    /// Flushes these pages from the TLB of every CPU; returns when all have answered
    /// (flush_tlb_mm_range).
    pub fn flush<M: Machine>(&self, m: &M, first: u32, pages: u32, flushed: &mut Flushes) {
        let start = m.history_mark();
        let wanted = &self.wanted[m.cpu()];
        let generation = match self.design.lazy {
            Lazy::Never | Lazy::Interrupted => 0,
            // A full barrier before the loads of `lazy`. Release: a CPU that catches up with this
            // generation finds the entries cleared.
            Lazy::Skipped => self.generation[0].fetch_add(m, 1, Ordering::AcqRel) + 1,
        };
        wanted.first.set(m, first);
        wanted.pages.set(m, pages);
        wanted.generation.set(m, generation);
        m.forget_history(start, generation);
        let targets = self.targets(m, flushed);
        m.forget_history(start, digest(targets));
        let to_interrupt = self.queue_requests(m, targets);
        self.send_ipis(m, to_interrupt, flushed);
        m.forget_history(start, digest(targets));
        m.with_irqs_off(|| self.flush_own_tlb(m, wanted));
        for target in each(targets) {
            // Pairs with the release of the handler. Interrupts stay on: the target may be
            // waiting for our own answer.
            let waiting = &self.request(m.cpu(), target).waiting;
            m.await_until(waiting, Until::equals(0), Ordering::Acquire);
        }
        flushed.flushes += 1;
        flushed.targets += each(targets).count() as u64;
        m.forget_history(start, 0);
    }

    /// The other CPUs that may have translations of the address space in their TLBs.
    fn targets<M: Machine>(&self, m: &M, flushed: &mut Flushes) -> CpuSet {
        let mut targets = [0; WORDS];
        for (word, set) in self.mask[0].iter().zip(&mut targets).take(self.tasks.div_ceil(64)) {
            // Pairs with the release in `unload`: a CPU that has left uses no page.
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

    /// Queues a request for each target (smp_call_function_many_cond). Returns the targets that
    /// must be interrupted: a target that had a request already will find this one too.
    fn queue_requests<M: Machine>(&self, m: &M, targets: CpuSet) -> CpuSet {
        let mut to_interrupt = targets;
        for target in each(targets) {
            let request = self.request(m.cpu(), target);
            // Free -> pending. Relaxed: the queue releases it.
            request.waiting.store(m, 1, Ordering::Relaxed);
            let queue = &self.cpus[target].requests;
            let begin = m.history_mark();
            // Relaxed: the exchange decides.
            let mut before = queue.load(m, Ordering::Relaxed);
            loop {
                m.forget_history(begin, digest([digest(to_interrupt), before.into()]));
                request.next.set(m, before);
                let sender = m.cpu() as u32 + 1;
                // Pairs with the acquire in `handle_ipi`.
                match queue.compare_exchange(m, before, sender, Ordering::Release) {
                    Ok(_) => break,
                    Err(other) => before = other,
                }
            }
            if before != 0 && self.design.needless == Needless::Saved {
                to_interrupt[target / 64] &= !(1 << (target % 64));
            }
            m.forget_history(begin, digest(to_interrupt));
        }
        to_interrupt
    }

    fn send_ipis<M: Machine>(&self, m: &M, targets: CpuSet, flushed: &mut Flushes) {
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

    /// Flushes the wanted pages from the TLB of this CPU (flush_tlb_func).
    fn flush_own_tlb<M: Machine>(&self, m: &M, wanted: &Wanted) {
        let cpu = &self.cpus[m.cpu()];
        if cpu.loaded.get(m) == 0 {
            return;
        }
        // Relaxed: only this CPU writes it.
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
                // There were flushes in between whose pages we do not know.
                return self.catch_up(m);
            }
        }
        if pages > SINGLE_PAGES_MAX {
            self.flush_own_tlb_all(m);
            return cpu.generation.set(m, wanted_to);
        }
        for page in first..first + pages {
            let slot = &cpu.known[page as usize % KNOWN];
            m.work(self.times.flush_page_ns);
            if slot.get(m) >> 32 == u64::from(page) + 1 {
                slot.set(m, 0);
            }
        }
        cpu.generation.set(m, wanted_to);
    }
}

/// The numbers of the CPUs in a set.
fn each(set: CpuSet) -> impl Iterator<Item = usize> {
    let bits = |(word, mut bits): (usize, u64)| {
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros() as usize;
            bits &= bits.wrapping_sub(1);
            (bit < 64).then_some(64 * word + bit)
        })
    };
    set.into_iter().enumerate().flat_map(bits)
}
