//! Native locks: the rate of each against the same algorithm written by hand on the standard
//! library's atomics, and of the parking mutex against two mutexes in common use.
//!
//! All run in this process, on the same CPUs, in slices of a millisecond. A layout is a copy of the
//! program at a random address (`layout.rs`) and some pages of memory. In a layout each side runs
//! several times, in random order, on the same pages, with a fresh lock. The ratio of the sides'
//! means is one value. So both sides meet the same placement of code and data, the same placement
//! of virtual CPUs and the same other load. A figure is the median over layouts, with its 95 %
//! interval.
//!
//! The other side runs twice as often, as two equal sides. Their ratio, which should be 1, stands
//! beside each figure and shows the resolution of this bench.

mod by_hand;
mod layout;
mod ours;
mod race;

use std::mem;
use std::ptr;
use std::sync::Arc;

use algorithms::locks::clh::Clh;
use algorithms::locks::cna::Cna;
use algorithms::locks::mcs::Mcs;
use algorithms::locks::parking::Parking;
use algorithms::locks::per_cpu_read_write::PerCpuReadWrite;
use algorithms::locks::queued::Queued;
use algorithms::locks::queued_paravirtual::QueuedParavirtual;
use algorithms::locks::queued_read_write::QueuedReadWrite;
use algorithms::locks::test_and_set::TestAndSet;
use algorithms::locks::test_and_test_and_set::TestAndTestAndSet;
use algorithms::locks::ticket::Ticket;
use algorithms::{Lock, SharedLock};
use anyhow::Result;
use machine::Region;
use rand::seq::SliceRandom;

use self::by_hand::{ByHand, SharedByHand, hand, hand_shared, parking_lot, std_mutex};
use self::layout::Layout;
use self::ours::{ours, ours_shared};
use self::race::{Race, Task};
use crate::report::{Figure, Limit};
use crate::{Bench, Options};

/// CPUs of a contended pass.
const CPUS: usize = 2;

/// Copies of each side in this program: one layout has a side at this many addresses.
const COPIES: usize = 4;

/// Layouts for each requested pair of runs.
const LAYOUTS: usize = 30;

/// A lock and the counter that it guards.
trait Passed: Send + Sync {
    /// Locks, counts and unlocks this many times. It begins with the number of the copy, because
    /// the compiler merges identical functions. Not inline: the compiler knows that no code changes
    /// what a function's `&self` refers to, as in ordinary uses of a lock, but not so for a pointer.
    fn pass(&self, task: &Task, times: u64);
    /// `pass` as a function whose copies can be called.
    fn entry(&self) -> Entry;
    /// The value of the counter.
    fn counted(&self) -> u64;
}

/// `Passed::pass` of one lock: a function whose copies can be called.
struct Entry {
    function: Function,
    lock: *const (),
}

type Function = unsafe fn(*const (), &Task, u64);

impl Entry {
    fn new<P: Passed>(lock: &P) -> Entry {
        unsafe fn pass<P: Passed>(lock: *const (), task: &Task, times: u64) {
            // SAFETY: `Entry::new` paired the function with a `P`.
            unsafe { &*lock.cast::<P>() }.pass(task, times);
        }
        Entry { function: pass::<P>, lock: ptr::from_ref(lock).cast() }
    }

    /// The copy of this function in a layout.
    fn within(self, layout: &Layout) -> Entry {
        let copy = layout.copy_of(self.function as *const ());
        // SAFETY: the instructions of a function of this type, and what they refer to.
        Entry { function: unsafe { mem::transmute::<*const (), Function>(copy) }, ..self }
    }
}

/// A lock of knee, and what it is measured against.
struct Pairing {
    lock: &'static str,
    against: &'static str,
    /// The least ratio of their rates that is accepted.
    least: f64,
    ours: Copies,
    other: Copies,
    /// A second, equal copy of the other side.
    twin: Copies,
}

/// Makes a fresh lock in an empty region.
type Make = fn(&Arc<Region>) -> Box<dyn Passed>;

/// The copies of a side, at different addresses of the program.
type Copies = [Make; COPIES];

macro_rules! copies {
    ($make:ident $(::<$lock:ty>)?) => {
        [$make::<$($lock,)? 0>, $make::<$($lock,)? 1>, $make::<$($lock,)? 2>, $make::<$($lock,)? 3>]
    };
}

macro_rules! twins {
    ($make:ident $(::<$lock:ty>)?) => {
        [$make::<$($lock,)? 4>, $make::<$($lock,)? 5>, $make::<$($lock,)? 6>, $make::<$($lock,)? 7>]
    };
}

const PAIRINGS: &[Pairing] = &[
    by_hand::<TestAndSet, by_hand::TestAndSet>("test_and_set"),
    by_hand::<TestAndTestAndSet, by_hand::TestAndTestAndSet>("test_and_test_and_set"),
    by_hand::<Ticket, by_hand::Ticket>("ticket"),
    by_hand::<Mcs, by_hand::Mcs>("mcs"),
    by_hand::<Clh, by_hand::Clh>("clh"),
    by_hand::<Queued, by_hand::Queued>("queued"),
    by_hand::<Cna, by_hand::Cna>("cna"),
    by_hand::<QueuedParavirtual, by_hand::QueuedParavirtual>("queued_paravirtual"),
    by_hand_shared::<QueuedReadWrite, by_hand::QueuedReadWrite>("queued_read_write"),
    by_hand_shared::<PerCpuReadWrite, by_hand::PerCpuReadWrite>("per_cpu_read_write"),
    by_hand::<Parking, by_hand::Parking>("parking"),
    parking("std", copies!(std_mutex), twins!(std_mutex)),
    parking("parking_lot", copies!(parking_lot), twins!(parking_lot)),
];

const fn by_hand<L: Lock, H: ByHand>(lock: &'static str) -> Pairing {
    let (ours, other, twin) = (copies!(ours::<L>), copies!(hand::<H>), twins!(hand::<H>));
    Pairing { lock, against: "by hand", least: 0.98, ours, other, twin }
}

const fn by_hand_shared<L: SharedLock, H: SharedByHand>(lock: &'static str) -> Pairing {
    let (other, twin) = (copies!(hand_shared::<H>), twins!(hand_shared::<H>));
    Pairing { lock, against: "by hand", least: 0.98, ours: copies!(ours_shared::<L>), other, twin }
}

const fn parking(against: &'static str, other: Copies, twin: Copies) -> Pairing {
    Pairing { lock: "parking", against, least: 0.95, ours: copies!(ours::<Parking>), other, twin }
}

/// Ratios for each lock, uncontended and with two tasks.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let wanted = |pairing: &&Pairing| {
        options.lock.is_empty() || options.lock.iter().any(|lock| lock == pairing.lock)
    };
    let mut figures = Vec::new();
    for tasks in 1..=CPUS {
        for pairing in PAIRINGS.iter().filter(wanted) {
            figures.extend(compare(bench, options, pairing, tasks)?);
        }
    }
    Ok(figures)
}

fn compare(
    bench: &mut Bench,
    options: &Options,
    pairing: &Pairing,
    tasks: usize,
) -> Result<Vec<Figure>> {
    let Pairing { lock, against, least, ours, other, twin } = pairing;
    let plural = if tasks == 1 { "" } else { "s" };
    let name = format!("{lock} / {against}, {tasks} task{plural}");
    let (mut ratios, mut equals, mut rates) = (vec![], vec![], vec![]);
    for pair in 1..=options.pairs {
        eprintln!("{name}: {pair} of {}", options.pairs);
        for _ in 0..LAYOUTS {
            let [ours, other, twin] = in_a_layout(bench, [ours, other, twin], tasks)?;
            ratios.push(2.0 * ours / (other + twin));
            equals.push(twin / other);
            rates.push(ours);
        }
    }
    let figure =
        |what: &str, unit, limit, values| Figure { name: name.clone() + what, unit, limit, values };
    Ok(vec![
        figure("", "", Limit::SurelyAtLeast(*least), ratios),
        figure(&format!(": {against} / {against}"), "", Limit::Shown, equals),
        figure(": ours", "/s", Limit::None, rates),
    ])
}

/// Passes per second of each side in one layout.
fn in_a_layout(bench: &mut Bench, sides: [&Copies; 3], tasks: usize) -> Result<[f64; 3]> {
    let layout = Layout::random(&mut bench.random)?;
    let mut slices: Vec<_> = sides
        .iter()
        .enumerate()
        .flat_map(|(side, copies)| copies.iter().map(move |make| (side, *make)))
        .collect();
    slices.shuffle(&mut bench.random);
    let makes: Vec<Make> = slices.iter().map(|(_, make)| *make).collect();
    let mut means = [0.0; 3];
    for ((side, _), rate) in slices.iter().zip(Race::new(&layout, &makes, tasks).run()?) {
        means[*side] += rate / COPIES as f64;
    }
    Ok(means)
}
