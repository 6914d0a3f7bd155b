//! The machine of RC11 against a second checker, which enumerates the executions of small programs and keeps those that the
//! axioms allow. Both must find the same outcomes, and the same programs with data races.

mod axioms;
mod classics;
mod program;

use std::cell::RefCell;
use std::collections::BTreeSet;

use engines::checker::{Checked, Fault, Memory, Options, Setup, search};
use machine::{Atom, Field, Region, image};
use program::{LOCATIONS, Outcome, Program, REGISTERS, THREADS_MAX, generated, repeating, run};

image! {
    pub struct Words {
        pub x: Atom<u32>,
        pub y: Atom<u32>,
        pub z: Atom<u32>,
        pub plain: Field<u32>,
    }
}

image! {
    pub struct Registers {
        pub value: Field<u32>,
    }
}

/// The outcomes that a search finds; `None`: a data race.
pub fn searched(program: &Program, memory: Memory, reduction: bool) -> Option<BTreeSet<Outcome>> {
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
        outcomes.borrow_mut().insert(Outcome { read, memory, plain: words.plain.get(&m) });
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
    let options = Options { memory, reduction, ..Options::default() };
    match search(&setup, &options).unwrap().failure.map(|failure| failure.fault) {
        Some(Fault::Race(_)) => None,
        Some(other) => panic!("{other}\n{program}"),
        None => Some(outcomes.take()),
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

fn check(seed: u64, program: Program) -> bool {
    let _shown = Shown(seed, &program);
    let Some(allowed) = axioms::outcomes(&program) else { return false };
    for reduction in [true, false] {
        let found = searched(&program, Memory::Rc11, reduction);
        if allowed != found {
            let (more, less) = match (&allowed, &found) {
                (Some(allowed), Some(found)) => (
                    found.difference(allowed).cloned().collect::<Vec<_>>(),
                    allowed.difference(found).cloned().collect::<Vec<_>>(),
                ),
                _ => Default::default(),
            };
            let (is_race, has_race) = (allowed.is_none(), found.is_none());
            panic!(
                "program {seed} (reduction {reduction}):\n{program}axioms: race {is_race}, search: race {has_race}\n\
                 found and not allowed: {more:?}\nallowed and not found: {less:?}"
            );
        }
    }
    true
}

/// Programs by seed, of which enough are small enough to enumerate.
#[test]
fn generated_programs_have_the_outcomes_that_the_axioms_allow() {
    let seeds = std::env::var("KNEE_LITMUS_SEEDS").ok();
    let (first, count) = seeds
        .and_then(|seeds| {
            let (first, count) = seeds.split_once('+')?;
            Some((first.parse().ok()?, count.parse().ok()?))
        })
        .unwrap_or((1_000_000, 1500));
    let compared = (first..first + count).filter(|&seed| check(seed, generated(seed))).count();
    println!("{compared} of {count} programs compared");
    assert!(compared as u64 * 3 >= count * 2, "{compared} of {count} programs were compared");
}

#[test]
fn repeated_reads_have_the_outcomes_that_the_axioms_allow() {
    let seeds = 20_261_130..20_261_530;
    let compared = seeds.filter(|&seed| check(seed, repeating(generated(seed)))).count();
    println!("{compared} programs compared");
    assert!(compared >= 100, "{compared} programs were compared");
}
