//! Locks natively: the rate of each against the same algorithm written by hand on the
//! standard library's atomics, and of the parking mutex against two that everybody uses.
//!
//! All run in this process, on the same CPUs, in slices of a millisecond. A layout is a copy of the
//! program at an address by chance (`layout.rs`) and some pages of memory. In it each side has its
//! turn several times, in random order, on those same pages, with a lock that nobody ever took; the ratio of their
//! means is one value. So the place of code and data, where the host keeps the
//! virtual CPUs for the moment and what else it does meet both sides alike, and a figure is the median over
//! layouts, with what 95 of 100 such samples would have around it.
//!
//! The other side runs twice as often, as if there were two of it: their ratio, which should be 1,
//! stands beside each figure and tells what this bench can tell apart.

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

/// How often each side is in this program, so that one layout has it at as many addresses.
const COPIES: usize = 4;

/// Layouts for each pair of runs that is asked for.
const LAYOUTS: usize = 30;

/// A lock with a counter behind it, as a task sees it.
trait Passed: Send + Sync {
    /// Locks, counts and unlocks so many times. Begins with the number of the copy: functions that
    /// differ in nothing would be made one. Not inline: of the `&self` of a function the compiler knows
    /// that nobody changes it, as it does where locks are used, and of a pointer it does not.
    fn pass(&self, task: &Task, times: u64);
    /// The function that does it.
    fn entry(&self) -> Entry;
    /// How often it was counted.
    fn counted(&self) -> u64;
}

/// `Passed::pass` of one lock: a function whose copies can be called.
struct Entry {
    function: Function,
    lock: *const (),
}

type Function = unsafe fn(*const (), &Task, u64);

impl Entry {
    fn of<P: Passed>(lock: &P) -> Entry {
        unsafe fn pass<P: Passed>(lock: *const (), task: &Task, times: u64) {
            // SAFETY: whoever calls it has a `P` there.
            unsafe { &*lock.cast::<P>() }.pass(task, times);
        }
        Entry { function: pass::<P>, lock: ptr::from_ref(lock).cast() }
    }

    /// The same at another address.
    fn within(self, layout: &Layout) -> Entry {
        let copy = layout.copy_of(self.function as *const ());
        // SAFETY: the instructions of a function of this type, and what they refer to.
        Entry { function: unsafe { mem::transmute::<*const (), Function>(copy) }, ..self }
    }
}

/// A lock of ours, and what it is measured against.
struct Pairing {
    lock: &'static str,
    against: &'static str,
    /// What the ratio of their rates must keep.
    least: f64,
    ours: Copies,
    other: Copies,
    /// The other once more.
    twin: Copies,
}

/// Makes a lock that nobody ever took, in an empty region.
type Make = fn(&Arc<Region>) -> Box<dyn Passed>;

/// The same at different addresses of the program.
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

/// The passes a second of each side, in one layout.
fn in_a_layout(bench: &mut Bench, sides: [&Copies; 3], tasks: usize) -> Result<[f64; 3]> {
    let layout = Layout::random(&mut bench.random)?;
    let all = sides.iter().enumerate();
    let mut slices: Vec<_> =
        all.flat_map(|(side, copies)| copies.iter().map(move |make| (side, *make))).collect();
    slices.shuffle(&mut bench.random);
    let makes: Vec<Make> = slices.iter().map(|(_, make)| *make).collect();
    let mut means = [0.0; 3];
    for ((side, _), rate) in slices.iter().zip(Race::new(&layout, &makes, tasks).run()?) {
        means[*side] += rate / COPIES as f64;
    }
    Ok(means)
}
