//! The time of a cache line's transfer between CPUs: one CPU prepares many lines, and the other
//! accesses them one after the other, each only after the last has arrived.

use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::{io, mem};

use analysis::Quartiles;
use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::{Array, Atom, Region, image};
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::barriers::{CAN_FLUSH, flush, settle};

/// Lines in a round: few enough to stay in any L1 cache, even where they share some of its sets.
const LINES: usize = 128;
const ROUNDS: usize = 11;

image! {
    /// A line, far enough from the next one that no CPU prefetches that.
    #[repr(align(256))]
    struct Slot {
        /// The next line of the chain.
        next: Atom<u64>,
    }
}

/// A kind of access, named as in a host's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferKind {
    LoadModified,
    LoadShared,
    LoadMemory,
    StoreModified,
    StoreShared,
    AtomicModified,
    AtomicShared,
}

impl TransferKind {
    pub const ALL: [TransferKind; 7] = [
        TransferKind::LoadModified,
        TransferKind::LoadShared,
        TransferKind::LoadMemory,
        TransferKind::StoreModified,
        TransferKind::StoreShared,
        TransferKind::AtomicModified,
        TransferKind::AtomicShared,
    ];

    pub fn is_atomic(self) -> bool {
        matches!(self, TransferKind::AtomicModified | TransferKind::AtomicShared)
    }

    pub fn name(self) -> &'static str {
        match self {
            TransferKind::LoadModified => "load_modified",
            TransferKind::LoadShared => "load_shared",
            TransferKind::LoadMemory => "load_memory",
            TransferKind::StoreModified => "store_modified",
            TransferKind::StoreShared => "store_shared",
            TransferKind::AtomicModified => "atomic_modified",
            TransferKind::AtomicShared => "atomic_shared",
        }
    }
}

/// The CPUs of a transfer: `user` accesses lines that `owner` holds; `reader`, where there is one,
/// reads them in between.
#[derive(Clone, Copy, Debug)]
pub struct TransferCpus {
    pub user: u32,
    pub owner: u32,
    pub reader: Option<u32>,
}

/// The times of transfers, for each round.
#[derive(Debug, Default)]
pub struct TransferTimes {
    /// Times of one access, in ns, of each kind that this host can time.
    pub uses: Vec<(TransferKind, Vec<f64>)>,
    /// Cost of the owner's next read after another CPU's read, as a share of a transfer: 0 where both
    /// CPUs then hold the line, 1 where only the reader holds it.
    pub moved: Vec<f64>,
}

/// Times all kinds of access, one round of each in turn.
pub fn time(cpus: TransferCpus) -> io::Result<TransferTimes> {
    let lines = Lines::new()?;
    let pinned: Vec<u32> = [cpus.user, cpus.owner].into_iter().chain(cpus.reader).collect();
    let has_reader = cpus.reader.is_some();
    let part = |index: usize, meeting: &Meeting| {
        let (mut uses, mut moved) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for kind in TransferKind::ALL {
                let both_read =
                    matches!(kind, TransferKind::StoreShared | TransferKind::AtomicShared);
                if index == 1 {
                    lines.write();
                    lines.prepare(kind, has_reader);
                }
                meeting.meet();
                if index == 0 && both_read || index == 2 && kind == TransferKind::LoadShared {
                    lines.chase();
                }
                meeting.meet();
                if index == 1 && both_read {
                    let [first, second] = [(); 2].map(|()| timed(|| lines.chase()));
                    moved.push(first - second);
                }
                meeting.meet();
                if index == 0 {
                    uses.push(lines.time(kind));
                }
                meeting.meet();
            }
        }
        (uses, moved)
    };
    let mut results = together(&pinned, part)?;
    let (uses, mut moved) = (mem::take(&mut results[0].0), mem::take(&mut results[1].1));
    let times_of = |i: usize| {
        uses.iter().skip(i).step_by(TransferKind::ALL.len()).copied().collect::<Vec<_>>()
    };
    let transfer_ns = Quartiles::from_values(&times_of(0)).map_or(1.0, |loads| loads.median);
    moved.iter_mut().for_each(|ns| *ns = (*ns / transfer_ns).clamp(0.0, 1.0));
    // Without flushing caches, no line has to come from memory.
    let can_time = |kind: TransferKind| match kind {
        TransferKind::LoadMemory => CAN_FLUSH,
        TransferKind::LoadShared => CAN_FLUSH || has_reader,
        _ => true,
    };
    let kinds = TransferKind::ALL.into_iter().enumerate().filter(|&(_, kind)| can_time(kind));
    Ok(TransferTimes { uses: kinds.map(|(i, kind)| (kind, times_of(i))).collect(), moved })
}

/// The time of `body` per line, in ns.
fn timed(body: impl FnOnce()) -> f64 {
    let start = now_ns();
    body();
    (now_ns() - start) as f64 / LINES as f64
}

/// Lines in a chain, in an order that no prefetcher predicts.
struct Lines {
    slots: Array<Slot>,
    order: Vec<u64>,
}

impl Lines {
    fn new() -> io::Result<Lines> {
        let slots = Region::new(LINES * 256)?.array("lines", LINES);
        let mut order: Vec<u64> = (0..LINES as u64).collect();
        order.shuffle(&mut <Xoshiro256PlusPlus as rand::SeedableRng>::seed_from_u64(1));
        Ok(Lines { slots, order })
    }

    fn cell(&self, line: u64) -> &AtomicU64 {
        self.slots[line as usize].next.cell()
    }

    /// Writes all lines. The first CPU to do it gets them in the memory of its node.
    fn write(&self) {
        let next = self.order.iter().cycle().skip(1);
        self.order.iter().zip(next).for_each(|(line, next)| self.cell(*line).store(*next, Relaxed));
    }

    /// Puts the lines that this CPU has written into the cache state for `kind`.
    fn prepare(&self, kind: TransferKind, has_reader: bool) {
        let flushed = match kind {
            TransferKind::LoadMemory => true,
            TransferKind::LoadShared => !has_reader,
            _ => false,
        };
        if flushed {
            self.order.iter().for_each(|line| flush(self.cell(*line)));
            settle();
        }
        if kind == TransferKind::LoadShared && flushed {
            // One CPU holds it unmodified: the closest to shared that two CPUs get.
            self.chase();
        }
    }

    /// Reads all lines, each only after the last has arrived.
    fn chase(&self) {
        let end = self.order.iter().fold(self.order[0], |at, _| self.cell(at).load(Relaxed));
        black_box(end);
    }

    /// Changes all lines, each only after the last change has completed.
    fn change(&self) {
        self.order.iter().for_each(|&line| {
            // A compiler would turn the addition of a known zero into a load.
            self.cell(line).fetch_add(black_box(0), SeqCst);
            settle();
        });
    }

    /// Writes all lines, each only after the last store is visible.
    fn store(&self) {
        let next = self.order.iter().cycle().skip(1);
        self.order.iter().zip(next).for_each(|(&line, next)| {
            self.cell(line).store(*next, Relaxed);
            settle();
        });
    }

    /// The time per line in ns; for stores and atomics, only the part beyond an access to a line that
    /// the CPU already holds.
    fn time(&self, kind: TransferKind) -> f64 {
        let body: fn(&Lines) = match kind {
            TransferKind::LoadModified | TransferKind::LoadShared | TransferKind::LoadMemory => {
                return timed(|| self.chase());
            }
            TransferKind::AtomicModified | TransferKind::AtomicShared => Lines::change,
            TransferKind::StoreModified | TransferKind::StoreShared => Lines::store,
        };
        let [first, second] = [(); 2].map(|()| timed(|| body(self)));
        (first - second).max(0.0)
    }
}
