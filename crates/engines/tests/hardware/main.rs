//! The rules of Armv8 and of the Linux kernel's memory model against a second checker, which enumerates the executions of small
//! programs and keeps those that the axioms allow. Both must find the same outcomes.

mod armv8;
mod axioms;
mod classics;
mod lkmm;
mod program;

use std::cell::RefCell;
use std::collections::BTreeSet;

use engines::checker::{Checked, Memory, Options, Setup, search};
use machine::{Atom, Field, Region, image};
use program::{LOCATIONS, Outcome, Program, REGISTERS, THREADS_MAX, generated, run};

image! {
    pub struct Words {
        pub x: Atom<u32>,
        pub y: Atom<u32>,
        pub z: Atom<u32>,
    }
}

image! {
    pub struct Registers {
        pub value: Field<u32>,
    }
}

/// The outcomes that a search finds.
pub fn searched(program: &Program, memory: Memory) -> BTreeSet<Outcome> {
    let region = Region::new(8192).unwrap();
    let words = &region.array::<Words>("w", 1)[0];
    let registers = region.array::<Registers>("r", THREADS_MAX * REGISTERS);
    let outcomes = RefCell::new(BTreeSet::new());
    let task = |m: &Checked, task: usize| run(m, &program.threads[task], words, &registers, task);
    let note_outcome = || {
        let m = machine::Native::new(0, 0);
        let value = |register: &Registers| register.value.get(&m);
        let read = registers.iter().map(value).collect();
        let cells: [&Atom<u32>; LOCATIONS] = [&words.x, &words.y, &words.z];
        let memory = cells.map(|cell| cell.load(&m, machine::Ordering::Relaxed)).to_vec();
        outcomes.borrow_mut().insert(Outcome { read, memory });
        Ok(())
    };
    let setup = Setup {
        region: &region,
        nodes: &vec![0; program.threads.len()],
        task: &task,
        ipi_handler: None,
        final_check: &note_outcome,
        bypasses: None,
        symmetric: false,
    };
    let options = Options { memory, ..Options::default() };
    match search(&setup, &options).unwrap().failure.map(|failure| failure.fault) {
        Some(other) => panic!("{other}\n{program}"),
        None => outcomes.take(),
    }
}

/// Prints the program in which a search panics.
struct Shown<'a>(u64, &'a Program);

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("program {}:\n{}", self.0, self.1);
        }
    }
}

/// The outcomes by the axioms.
fn allowed(program: &Program, memory: Memory) -> Option<BTreeSet<Outcome>> {
    let rules = match memory {
        Memory::Armv8 => armv8::allows,
        Memory::LkmmUntil62 => lkmm::allows_until_6_2,
        _ => lkmm::allows,
    };
    axioms::outcomes(program, rules)
}

fn check(seed: u64, memory: Memory) -> bool {
    let program = generated(seed, memory != Memory::Armv8);
    let _shown = Shown(seed, &program);
    let Some(allowed) = allowed(&program, memory) else { return false };
    let found = searched(&program, memory);
    if allowed != found {
        let more: Vec<_> = found.difference(&allowed).collect();
        let less: Vec<_> = allowed.difference(&found).collect();
        panic!(
            "KNEE_LITMUS_SEEDS={seed}+1, under {}:\n{program}\
             found and not allowed: {more:?}\nallowed and not found: {less:?}",
            memory.name()
        );
    }
    true
}

fn check_many(memory: Memory, first: u64, count: u64) {
    let seeds = std::env::var("KNEE_LITMUS_SEEDS").ok();
    let (first, count) = seeds
        .and_then(|seeds| {
            let (first, count) = seeds.split_once('+')?;
            Some((first.parse().ok()?, count.parse().ok()?))
        })
        .unwrap_or((first, count));
    let compared = (first..first + count).filter(|&seed| check(seed, memory)).count();
    println!("{compared} of {count} programs compared under {}", memory.name());
    assert!(compared as u64 * 5 >= count * 3, "{compared} of {count} programs were compared");
}

/// Programs by seed, of which enough are small enough to enumerate.
#[test]
fn generated_programs_have_the_outcomes_that_armv8_allows() {
    check_many(Memory::Armv8, 2_000_000, 550);
}

#[test]
fn generated_programs_have_the_outcomes_that_the_kernel_allows() {
    check_many(Memory::Lkmm, 3_000_000, 440);
}

#[test]
fn generated_programs_have_the_outcomes_that_the_kernel_allowed_until_6_2() {
    check_many(Memory::LkmmUntil62, 4_000_000, 220);
}
