//! Algorithms on the explored machine: which tasks a lock is checked with, and what comes of
//! it. Neither the algorithms nor the engine know of each other; here they meet.

pub mod against_kernel;
pub mod mutants;

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;

use algorithms::contract::{self, Guarded};
use algorithms::locks::{self, Visitor};
use algorithms::mechanisms::{self, Mechanism, Scenario};
use algorithms::{Lock, Shape, SharedLock};
use engines::explored::{Explored, Handler, Setup};
use engines::{Mutant, Mutated};
use machine::{Native, Region};

/// Memory of a region: enough for the tables of every algorithm.
const REGION_BYTES: usize = 64 << 10;

const IN_USE: &str = "something of the lock is still in use";

/// What the tasks do.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// The number of tasks.
    pub threads: usize,
    /// How often each takes the lock.
    pub acquires: u32,
    /// How many locks it holds at once: 1, or 2, one inside of the other.
    pub locks: usize,
}

/// What is changed on the way from the algorithm to the machine.
#[derive(Clone, Copy)]
pub enum Between<'a> {
    /// The algorithm as it is.
    Nothing,
    /// One access does less than it says.
    Mutant(Mutant),
    /// Possible mutants are noted.
    Noting(&'a RefCell<BTreeSet<Mutant>>),
}

/// Calls `act` with the tasks of an algorithm at their start. `None` if there is none of
/// this name.
pub fn with_setup<R>(
    name: &str,
    size: Size,
    between: Between,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    keeping(act, |act| locks::visit(name, LockSetup { size, between, act }))
}

/// What `act` gives, where `visit` calls it. Each lock and mechanism is compiled for a caller that is
/// not known, thus once: for each that is it would be megabytes.
fn keeping<R>(
    mut act: impl FnMut(&Setup) -> R,
    visit: impl FnOnce(&mut Act) -> Option<io::Result<()>>,
) -> Option<io::Result<R>> {
    let mut kept = None;
    match visit(&mut |setup| kept = Some(act(setup)))? {
        Ok(()) => kept.map(Ok),
        Err(error) => Some(Err(error)),
    }
}

type Act<'a> = dyn FnMut(&Setup) + 'a;

/// The same for a mechanism in this design, over the lock of this name. `None` if there is no
/// such mechanism, design or lock.
pub fn with_mechanism<R>(
    name: &str,
    design: &str,
    over: &str,
    size: Size,
    between: Between,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    let scenario = Scenario::of(size.threads, size.acquires);
    with_scenario(name, design, over, scenario, between, act)
}

/// The same with settings of its own.
pub fn with_scenario<R>(
    name: &str,
    design: &str,
    over: &str,
    scenario: Scenario,
    between: Between,
    act: impl FnMut(&Setup) -> R,
) -> Option<io::Result<R>> {
    let visitor = |act: &mut Act| {
        mechanisms::visit(name, over, MechanismSetup { design, scenario, between, act }).flatten()
    };
    keeping(act, visitor)
}

struct MechanismSetup<'a> {
    design: &'a str,
    scenario: Scenario,
    between: Between<'a>,
    act: &'a mut Act<'a>,
}

impl mechanisms::Visitor for MechanismSetup<'_> {
    type Out = Option<io::Result<()>>;

    fn mechanism<X: Mechanism>(self) -> Self::Out {
        let (_, design) = X::DESIGNS.iter().find(|(name, _)| *name == self.design)?;
        let Scenario { tasks, operations, .. } = self.scenario;
        let settings = self.scenario.settings::<X>();
        Some(Region::new(X::bytes(tasks, &settings)).map(|region| {
            let mechanism = X::new(&region, *design, tasks, &settings);
            let task = |m: &Explored, task: usize| {
                mechanisms::operations(&mechanism, &self.between.put(m), task, operations);
            };
            let interrupted = |m: &Explored, _: usize| {
                mechanism.interrupted(&self.between.put(m));
            };
            let setup = Setup {
                region: &region,
                nodes: &vec![0; tasks],
                task: &task,
                interrupted: X::INTERRUPTS.then_some(&interrupted as &Handler),
                last: &|| mechanism.check(&Native::new(0, 0), tasks as u64 * u64::from(operations)),
                fifo: false,
                // Each has things of its own.
                alike: false,
            };
            (self.act)(&setup);
        }))
    }
}

impl Between<'_> {
    /// The machine with this between it and the algorithm: always of the same type, for which each
    /// algorithm is compiled once.
    fn put<'m, 'e>(&'m self, m: &'m Explored<'e>) -> Mutated<'m, Explored<'e>> {
        match self {
            Between::Nothing => Mutated::unchanged(m),
            Between::Mutant(mutant) => Mutated::new(m, *mutant),
            Between::Noting(noted) => Mutated::noting(m, noted),
        }
    }
}

struct LockSetup<'a> {
    size: Size,
    between: Between<'a>,
    act: &'a mut Act<'a>,
}

/// Memory nodes of the CPUs: a lock that minds them sees two.
fn nodes(threads: usize) -> Vec<usize> {
    (0..threads).map(|cpu| cpu % 2).collect()
}

impl Visitor for LockSetup<'_> {
    type Out = io::Result<()>;

    fn lock<L: Lock>(self) -> io::Result<()> {
        let Size { threads, acquires, locks } = self.size;
        let region = Region::new(REGION_BYTES)?;
        let lock = L::new(&region, Shape { cpus: threads, locks });
        let at = &*region.array::<L::Mem>("lock", locks);
        let guarded = &region.array::<Guarded>("guarded", 1)[0];
        let task = |m: &Explored, _: usize| {
            contract::exclusive(&lock, &self.between.put(m), at, guarded, acquires);
        };
        let last = || {
            let m = Native::new(0, 0);
            let (found, all) = (guarded.writes.get(&m), threads as u32 * acquires);
            if found != all {
                return Err(format!("{found} of {all} turns were counted"));
            }
            match at.iter().all(|at| lock.at_rest(&m, at)) {
                true => Ok(()),
                false => Err(IN_USE.to_string()),
            }
        };
        let nodes = if L::NODES { nodes(threads) } else { vec![0; threads] };
        let setup = Setup {
            region: &region,
            nodes: &nodes,
            task: &task,
            interrupted: None,
            last: &last,
            // Who arrived where is not told.
            fifo: L::FIFO && locks == 1,
            alike: true,
        };
        (self.act)(&setup);
        Ok(())
    }

    fn shared<L: SharedLock>(self) -> io::Result<()> {
        let Size { threads, acquires, .. } = self.size;
        let region = Region::new(REGION_BYTES)?;
        let lock = L::new(&region, Shape { cpus: threads, locks: 1 });
        let at = &region.array::<L::Mem>("lock", 1)[0];
        let guarded = &region.array::<Guarded>("guarded", 1)[0];
        let task = |m: &Explored, _: usize| {
            // How often it wrote is no matter here: a lost write is a race.
            let _writes = contract::shared(&lock, &self.between.put(m), at, guarded, acquires);
        };
        let nodes = vec![0; threads];
        let setup = Setup {
            region: &region,
            nodes: &nodes,
            task: &task,
            interrupted: None,
            last: &|| match lock.at_rest(&Native::new(0, 0), at) {
                true => Ok(()),
                false => Err(IN_USE.to_string()),
            },
            fifo: false,
            alike: L::ALIKE,
        };
        (self.act)(&setup);
        Ok(())
    }
}
