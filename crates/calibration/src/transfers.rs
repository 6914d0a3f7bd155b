//! How long a line takes from one CPU to another: one prepares many lines, the other one uses
//! them one after the other, each only once the last has come.

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

/// Lines of a round: few enough to stay in any first cache, also where they share some of its sets.
const LINES: usize = 128;
const ROUNDS: usize = 11;

image! {
    /// A line, far enough from the next one that no CPU fetches that unasked.
    #[repr(align(256))]
    struct Slot {
        /// The next line of the chain.
        next: Atom<u64>,
    }
}

/// What is timed, named as in the file of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    LoadModified,
    LoadShared,
    LoadMemory,
    StoreModified,
    StoreShared,
    AtomicModified,
    AtomicShared,
}

impl Kind {
    pub const ALL: [Kind; 7] = [
        Kind::LoadModified,
        Kind::LoadShared,
        Kind::LoadMemory,
        Kind::StoreModified,
        Kind::StoreShared,
        Kind::AtomicModified,
        Kind::AtomicShared,
    ];

    pub fn is_atomic(self) -> bool {
        matches!(self, Kind::AtomicModified | Kind::AtomicShared)
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::LoadModified => "load_modified",
            Kind::LoadShared => "load_shared",
            Kind::LoadMemory => "load_memory",
            Kind::StoreModified => "store_modified",
            Kind::StoreShared => "store_shared",
            Kind::AtomicModified => "atomic_modified",
            Kind::AtomicShared => "atomic_shared",
        }
    }
}

/// Who takes part: `user` uses lines that `owner` has had; `reader`, where there is one, reads them
/// in between.
#[derive(Clone, Copy, Debug)]
pub struct Parties {
    pub user: u32,
    pub owner: u32,
    pub reader: Option<u32>,
}

/// What was timed, in ns for each round.
#[derive(Debug, Default)]
pub struct Times {
    /// Of one use of each kind that can be timed here.
    pub uses: Vec<(Kind, Vec<f64>)>,
    /// What an owner loses by a read of another CPU, of 1: nothing where both have the line then, and
    /// all of the way back where only that one has it.
    pub moved: Vec<f64>,
}

/// Times all kinds, a round of each after the other.
pub fn time(parties: Parties) -> io::Result<Times> {
    let lines = Lines::new()?;
    let all: Vec<u32> = [parties.user, parties.owner].into_iter().chain(parties.reader).collect();
    let has_reader = parties.reader.is_some();
    let part = |who: usize, meeting: &Meeting| {
        let (mut uses, mut moved) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            for kind in Kind::ALL {
                let both_read = matches!(kind, Kind::StoreShared | Kind::AtomicShared);
                if who == 1 {
                    lines.write();
                    lines.get_ready(kind, has_reader);
                }
                meeting.meet();
                if who == 0 && both_read || who == 2 && kind == Kind::LoadShared {
                    lines.chase();
                }
                meeting.meet();
                if who == 1 && both_read {
                    let [first, second] = [(); 2].map(|()| timed(|| lines.chase()));
                    moved.push(first - second);
                }
                meeting.meet();
                if who == 0 {
                    uses.push(lines.time(kind));
                }
                meeting.meet();
            }
        }
        (uses, moved)
    };
    let mut done = together(&all, part)?;
    let (uses, mut moved) = (mem::take(&mut done[0].0), mem::take(&mut done[1].1));
    let of = |i: usize| uses.iter().skip(i).step_by(Kind::ALL.len()).copied().collect::<Vec<_>>();
    let way = Quartiles::from_values(&of(0)).map_or(1.0, |loads| loads.median);
    moved.iter_mut().for_each(|ns| *ns = (*ns / way).clamp(0.0, 1.0));
    // Without a way to empty caches, a line of memory is not to be had.
    let can = |kind: Kind| match kind {
        Kind::LoadMemory => CAN_FLUSH,
        Kind::LoadShared => CAN_FLUSH || has_reader,
        _ => true,
    };
    let kinds = Kind::ALL.into_iter().enumerate().filter(|&(_, kind)| can(kind));
    Ok(Times { uses: kinds.map(|(i, kind)| (kind, of(i))).collect(), moved })
}

/// ns a line.
fn timed(body: impl FnOnce()) -> f64 {
    let start = now_ns();
    body();
    (now_ns() - start) as f64 / LINES as f64
}

/// Lines in a chain, in an order that nobody guesses.
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

    /// Writes all lines. Whoever does it first has them in the memory of its node.
    fn write(&self) {
        let next = self.order.iter().cycle().skip(1);
        self.order.iter().zip(next).for_each(|(line, next)| self.cell(*line).store(*next, Relaxed));
    }

    /// Gets lines that it has written into the state that they are to be in.
    fn get_ready(&self, kind: Kind, has_reader: bool) {
        let flushed = match kind {
            Kind::LoadMemory => true,
            Kind::LoadShared => !has_reader,
            _ => false,
        };
        if flushed {
            self.order.iter().for_each(|line| flush(self.cell(*line)));
            settle();
        }
        if kind == Kind::LoadShared && flushed {
            // One CPU has it and has not changed it: as near to shared as two CPUs come.
            self.chase();
        }
    }

    /// Reads all lines, each only when the last one has come.
    fn chase(&self) {
        let end = self.order.iter().fold(self.order[0], |at, _| self.cell(at).load(Relaxed));
        black_box(end);
    }

    /// Changes all lines, each only when all before is done.
    fn change(&self) {
        self.order.iter().for_each(|&line| {
            // Of adding a zero that it knows a compiler makes a load.
            self.cell(line).fetch_add(black_box(0), SeqCst);
            settle();
        });
    }

    /// Writes all lines, each only when the last store is out.
    fn store(&self) {
        let next = self.order.iter().cycle().skip(1);
        self.order.iter().zip(next).for_each(|(&line, next)| {
            self.cell(line).store(*next, Relaxed);
            settle();
        });
    }

    /// ns a line, beyond what it takes where the line is there already but for a load.
    fn time(&self, kind: Kind) -> f64 {
        let body: fn(&Lines) = match kind {
            Kind::LoadModified | Kind::LoadShared | Kind::LoadMemory => {
                return timed(|| self.chase());
            }
            Kind::AtomicModified | Kind::AtomicShared => Lines::change,
            Kind::StoreModified | Kind::StoreShared => Lines::store,
        };
        let [first, second] = [(); 2].map(|()| timed(|| body(self)));
        (first - second).max(0.0)
    }
}
