//! Small programs: a few threads of loads, stores, read-modify-writes and fences.

use std::fmt;

use machine::{Array, Atom, Machine, Ordering};

use crate::{Registers, Words};

pub const LOCATIONS: usize = 3;
pub const THREADS_MAX: usize = 4;
/// Reads of a thread at most.
pub const REGISTERS: usize = 4;
/// The plain location.
pub const PLAIN: usize = LOCATIONS;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statement {
    Load(usize, Ordering),
    Store(usize, u32, Ordering),
    Swap(usize, u32, Ordering),
    /// With its orders where it succeeds and where it fails.
    CompareExchange(usize, u32, u32, [Ordering; 2]),
    Fence(Ordering),
    Read,
    Write(u32),
}

impl Statement {
    pub fn reads(self) -> bool {
        !matches!(self, Statement::Store(..) | Statement::Fence(_) | Statement::Write(_))
    }
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
    pub plain: u32,
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        for (thread, statements) in self.threads.iter().enumerate() {
            write!(f, "  t{thread}:")?;
            for statement in statements {
                write!(f, " {statement:?};")?;
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
    let (mut read, mut count) = ([0; REGISTERS], 0);
    let atom = |location: usize| -> &Atom<u32> { [&words.x, &words.y, &words.z][location] };
    for &statement in statements {
        let value = match statement {
            Statement::Load(location, ordering) => atom(location).load(m, ordering),
            Statement::Store(location, value, ordering) => {
                atom(location).store(m, value, ordering);
                0
            }
            Statement::Swap(location, value, ordering) => atom(location).swap(m, value, ordering),
            Statement::CompareExchange(location, old, new, [ordering, failure]) => {
                m.fails_with(failure);
                match atom(location).compare_exchange(m, old, new, ordering) {
                    Ok(value) | Err(value) => value,
                }
            }
            Statement::Fence(ordering) => {
                m.fence(ordering);
                0
            }
            Statement::Read => words.plain.get(m),
            Statement::Write(value) => {
                words.plain.set(m, value);
                0
            }
        };
        if statement.reads() {
            read[count] = value;
            count += 1;
        }
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

/// A program with a load of each thread done twice in a row, as in a loop that waits: a sequentially consistent one, if it has one.
pub fn repeating(mut program: Program) -> Program {
    for thread in &mut program.threads {
        let is_load = |it: &Statement| matches!(it, Statement::Load(..));
        let is_ordered = |it: &Statement| matches!(it, Statement::Load(_, Ordering::SeqCst));
        let found = thread.iter().position(is_ordered).or_else(|| thread.iter().position(is_load));
        let reads = thread.iter().filter(|it| it.reads()).count();
        if let Some(index) = found.filter(|_| reads < REGISTERS) {
            thread.insert(index, thread[index]);
        }
    }
    program
}

/// The program of this seed.
pub fn generated(seed: u64) -> Program {
    use Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
    let mut random = Random(seed);
    let threads = 2 + random.below(3).min(2);
    let locations = 2 + random.below(2);
    let has_plain = random.below(4) == 0;
    // Many programs are of one kind, where orders of that kind meet.
    let taste = random.below(4);
    let mut next_value = 0;
    let mut statement = |random: &mut Random| {
        let location = random.below(locations);
        next_value += 1;
        let load = match taste {
            0 => random.of(&[SeqCst, SeqCst, Acquire, Relaxed]),
            1 => random.of(&[Relaxed, Acquire]),
            _ => random.of(&[Relaxed, Acquire, SeqCst]),
        };
        let store = match taste {
            0 => random.of(&[SeqCst, SeqCst, Release, Relaxed]),
            1 => random.of(&[Relaxed, Release]),
            _ => random.of(&[Relaxed, Release, SeqCst]),
        };
        let update = match taste {
            1 => random.of(&[Relaxed, Acquire, Release, AcqRel]),
            _ => random.of(&[Relaxed, Acquire, Release, AcqRel, SeqCst]),
        };
        let fence = match taste {
            1 => random.of(&[Acquire, Release, AcqRel]),
            2 => SeqCst,
            _ => random.of(&[Acquire, Release, AcqRel, SeqCst, SeqCst]),
        };
        match random.below(if has_plain { 12 } else { 10 }) {
            0..=3 => Statement::Load(location, load),
            4..=6 => Statement::Store(location, next_value, store),
            7 if random.below(2) == 0 => Statement::Swap(location, next_value, update),
            7 => {
                let old = random.below(next_value as usize) as u32;
                let failure = random.of(&[Relaxed, Acquire, SeqCst]);
                Statement::CompareExchange(location, old, next_value, [update, failure])
            }
            8..=9 => Statement::Fence(fence),
            10 => Statement::Read,
            _ => Statement::Write(next_value),
        }
    };
    let most = [4, 4, 3, 3][threads.min(3)];
    let threads = (0..threads).map(|_| {
        let length = 2 + random.below(most - 1);
        (0..length).map(|_| statement(&mut random)).collect()
    });
    Program { threads: threads.collect() }
}
