//! Small programs with dependencies: a few threads of loads, stores, read-modify-writes and fences.

use std::fmt;

use machine::{Array, Atom, Dependencies, Machine, Ordering};

use crate::{Registers, Words};

pub const LOCATIONS: usize = 3;
pub const THREADS_MAX: usize = 4;
/// Reads of a thread at most.
pub const REGISTERS: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Barrier {
    Full,
    Loads,
    Stores,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Load,
    Store(u32),
    Swap(u32),
    /// Adds.
    Add(u32),
    /// Expects a value, and writes another.
    CompareExchange(u32, u32),
}

impl Action {
    pub fn reads(self) -> bool {
        !matches!(self, Action::Store(_))
    }
}

/// An access, and the reads of its thread that it depends on: their numbers among these, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    pub action: Action,
    pub location: usize,
    pub ordering: Ordering,
    pub address: u8,
    pub data: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Access(Access),
    Fence(Barrier),
    /// A branch on what these reads have read, to whose other side nobody goes.
    Branch(u8),
}

#[derive(Clone, Debug)]
pub struct Program {
    pub threads: Vec<Vec<Statement>>,
}

/// What threads have read, and what memory holds at the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome {
    pub read: Vec<u32>,
    pub memory: Vec<u32>,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (thread, statements) in self.threads.iter().enumerate() {
            write!(f, "  t{thread}:")?;
            for statement in statements {
                match statement {
                    Statement::Access(Access { action, location, ordering, address, data }) => {
                        let name = ["x", "y", "z"][*location];
                        write!(f, " {action:?} {name} {ordering:?}")?;
                        for (name, mask) in [("address", address), ("data", data)] {
                            if *mask != 0 {
                                write!(f, " {name} {mask:#b}")?;
                            }
                        }
                        write!(f, ";")?;
                    }
                    other => write!(f, " {other:?};")?,
                }
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Runs a thread, and writes what it has read into its registers at its end.
pub fn run<M: Machine>(
    m: &M,
    statements: &[Statement],
    words: &Words,
    registers: &Array<Registers>,
    task: usize,
) {
    let (mut read, mut numbers, mut count) = ([0; REGISTERS], [0_u8; REGISTERS], 0);
    let mut control = 0;
    for &statement in statements {
        let masked = |mask: u8| {
            (0..count).filter(|i| mask >> i & 1 != 0).fold(0_u128, |all, i| all | 1 << numbers[i])
        };
        let access = match statement {
            Statement::Branch(mask) => {
                control |= masked(mask);
                continue;
            }
            Statement::Fence(Barrier::Full) => {
                m.fence(Ordering::SeqCst);
                continue;
            }
            Statement::Fence(Barrier::Loads) => {
                m.fence_loads();
                continue;
            }
            Statement::Fence(Barrier::Stores) => {
                m.fence_stores();
                continue;
            }
            Statement::Access(access) => access,
        };
        let (address, data) = (masked(access.address), masked(access.data));
        m.depends_on(Dependencies { address, data, control, of_spinlock: false });
        let atom: &Atom<u32> = [&words.x, &words.y, &words.z][access.location];
        let value = match access.action {
            Action::Load => atom.load(m, access.ordering),
            Action::Store(value) => {
                atom.store(m, value, access.ordering);
                continue;
            }
            Action::Swap(value) => atom.swap(m, value, access.ordering),
            Action::Add(value) => atom.fetch_add(m, value, access.ordering),
            Action::CompareExchange(old, new) => {
                match atom.compare_exchange(m, old, new, access.ordering) {
                    Ok(value) | Err(value) => value,
                }
            }
        };
        read[count] = value;
        numbers[count] = m.last_read().unwrap_or_default();
        count += 1;
    }
    for (register, value) in read.into_iter().enumerate().take(count) {
        registers[task * REGISTERS + register].value.set(m, value);
    }
}

/// Pseudo-random numbers (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// The program of this seed. The kernel has no sequentially consistent loads and stores.
pub fn generated(seed: u64, is_kernel: bool) -> Program {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    let mut random = Random(seed);
    let threads = 2 + random.below(3).min(2);
    let locations = 2 + random.below(2);
    let mut next_value = 0;
    let mut statement = |random: &mut Random, reads: &mut usize| {
        next_value += 1;
        let depends = |random: &mut Random| {
            let mask = 1 << random.below((*reads).max(1));
            if *reads > 0 && random.below(3) == 0 { mask } else { 0 }
        };
        let (address, data) = (depends(random), depends(random));
        let branch = if *reads > 0 { 1 << random.below(*reads) } else { 1 };
        let load =
            random.of(&[Relaxed, Relaxed, Acquire, if is_kernel { Relaxed } else { SeqCst }]);
        let store =
            random.of(&[Relaxed, Relaxed, Release, if is_kernel { Release } else { SeqCst }]);
        let update = random.of(&[Relaxed, Acquire, Release, AcqRel, SeqCst]);
        let update = if is_kernel && update == AcqRel { Relaxed } else { update };
        let fence = random.of(&[Barrier::Full, Barrier::Loads, Barrier::Stores]);
        let mut access = |action, ordering| {
            let location = random.below(locations);
            let data = if action == Action::Load { 0 } else { data };
            Statement::Access(Access { action, location, ordering, address, data })
        };
        let kind = random_kind(seed, next_value);
        let old = next_value / 2;
        match kind {
            0..=3 => {
                *reads += 1;
                access(Action::Load, load)
            }
            4..=7 => access(Action::Store(next_value), store),
            8 => {
                *reads += 1;
                access(Action::Swap(next_value), update)
            }
            9 => {
                *reads += 1;
                access(Action::CompareExchange(old, next_value), update)
            }
            10 => {
                *reads += 1;
                access(Action::Add(next_value), update)
            }
            11 => Statement::Fence(fence),
            _ => Statement::Branch(branch),
        }
    };
    let most = [4, 4, 3, 3][threads.min(3)];
    let threads = (0..threads).map(|_| {
        let length = 2 + random.below(most);
        let mut reads = 0;
        (0..length).map(|_| statement(&mut random, &mut reads)).collect()
    });
    Program { threads: threads.collect() }
}

/// The kind of the statement of this number.
fn random_kind(seed: u64, number: u32) -> usize {
    Random(seed ^ u64::from(number) << 40).below(12)
}
