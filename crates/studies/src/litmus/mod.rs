//! Litmus tests in C, in herd's format: a few threads over shared variables, and a condition on what they read.
//!
//!     C MP
//!     { [x] = 0; [y] = 0; }
//!     P0 (atomic_int* x, atomic_int* y) { atomic_store_explicit(x, 1, memory_order_relaxed); … }
//!     P1 (atomic_int* x, atomic_int* y) { int r0 = atomic_load_explicit(y, memory_order_acquire); … }
//!     exists (1:r0=1 /\ 1:r1=0)
//!
//! Tests with the Linux kernel's primitives (`kernel`) are read, too: `READ_ONCE`, `smp_mb`, `rcu_dereference` and others.
//!
//! `parse` reads them, `run` runs a thread on any machine, and a search collects the states at the end.

mod kernel;
mod parse;
mod run;
mod tokens;
mod words;

use std::cell::RefCell;
use std::collections::BTreeSet;

use anyhow::{Context, Result};
use engines::Unsupported;
use engines::checker::{Checked, Fault, Memory, Options, Setup, search};
use machine::{Array, Atom, Field, Native, Ordering, Region};

use parse::Condition;
pub use parse::{Litmus, Quantifier, Variable, parse};

/// Registers of a thread at most.
pub const REGISTERS_MAX: usize = 32;

/// What a search of a litmus test found.
#[derive(Clone, Debug)]
pub struct LitmusResult {
    /// What was found of its condition.
    pub observed: Observed,
    /// Different values of registers and variables at the end.
    pub outcomes: usize,
    /// Those that fulfil the condition.
    pub positive: usize,
    /// States that were searched.
    pub states: u64,
    /// The data race that was found.
    pub race: Option<String>,
    /// Why it was not searched.
    pub refused: Option<Unsupported>,
}

/// How often the condition is fulfilled at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observed {
    /// In no execution.
    Never,
    /// In some executions.
    Sometimes,
    /// In all executions.
    Always,
    /// A plain access races with another, so the language promises nothing.
    Race,
    /// Nothing is known.
    NotSearched,
}

impl Observed {
    /// The word in tables and JSON.
    pub fn word(self) -> &'static str {
        match self {
            Observed::Never => "never",
            Observed::Sometimes => "sometimes",
            Observed::Always => "always",
            Observed::Race => "race",
            Observed::NotSearched => "not searched",
        }
    }
}

/// The shared variables of a test: each on a line of its own, with its name.
struct Variables {
    atoms: Vec<Array<Atom<u32>>>,
    /// By thread and register: what it holds at the end.
    registers: Array<Field<u32>>,
}

impl Variables {
    fn new(region: &Region, litmus: &Litmus) -> Variables {
        let m = Native::new(0, 0);
        let atom = |variable: &Variable| {
            let array = region.array::<Atom<u32>>(&variable.name, 1);
            array[0].store(&m, variable.value, Ordering::Relaxed);
            array
        };
        let atoms = litmus.variables.iter().map(atom).collect();
        let registers = region.array("r", litmus.threads.len() * REGISTERS_MAX);
        Variables { atoms, registers }
    }

    fn count(&self) -> usize {
        self.atoms.len()
    }

    /// A variable, for threads to which it is of an atomic type.
    fn atom(&self, variable: usize) -> &Atom<u32> {
        &self.atoms[variable][0]
    }

    /// A variable, for threads to which it is of a plain type.
    fn plain(&self, variable: usize) -> &Field<u32> {
        // SAFETY: both are an atomic word of the standard library, and nothing else.
        unsafe { &*std::ptr::from_ref(self.atom(variable)).cast() }
    }
}

/// Searches all executions of a test.
pub fn check(litmus: &Litmus, memory: Memory, states_max: u64) -> Result<LitmusResult> {
    let bytes = 8192 + 64 * litmus.variables.len();
    let region = Region::new(bytes).context("allocating memory")?;
    let variables = Variables::new(&region, litmus);
    let outcomes = RefCell::new(BTreeSet::new());
    let task = |m: &Checked, task: usize| {
        let mut frame = run::Frame::default();
        run::run(m, &litmus.threads[task].body, &variables, &mut frame);
        for &register in &litmus.threads[task].used {
            variables.registers[task * REGISTERS_MAX + register].set(m, frame.value(register));
        }
    };
    let note_outcome = || {
        let m = Native::new(0, 0);
        let registers = variables.registers.iter().map(|register| register.get(&m));
        let memory = (0..litmus.variables.len())
            .map(|variable| variables.atom(variable).load(&m, Ordering::Relaxed));
        outcomes.borrow_mut().insert(registers.chain(memory).collect::<Vec<u32>>());
        Ok(())
    };
    let setup = Setup {
        region: &region,
        nodes: &vec![0; litmus.threads.len()],
        task: &task,
        ipi_handler: None,
        final_check: &note_outcome,
        bypasses: None,
        symmetric: false,
    };
    let options = Options { memory, states_max, ..Options::default() };
    let searched = search(&setup, &options)?;
    let outcomes = outcomes.take();
    let holds = |outcome: &&Vec<u32>| litmus.condition.holds(outcome, litmus.threads.len());
    let positive = outcomes.iter().filter(holds).count();
    let (mut race, mut refused) = (None, None);
    let observed = match searched.failure.map(|failure| failure.fault) {
        Some(Fault::Race(why)) => {
            race = Some(why);
            Observed::Race
        }
        Some(Fault::Unsupported(why)) => {
            refused = Some(why);
            Observed::NotSearched
        }
        Some(other) => {
            refused = Some(Unsupported::new(other.to_string(), "leave out the loop"));
            Observed::NotSearched
        }
        None if searched.gave_up => {
            let why = format!("the search gave up at {} states", searched.states);
            refused = Some(Unsupported::new(why, "try more --states"));
            Observed::NotSearched
        }
        None if positive == 0 => Observed::Never,
        None if positive == outcomes.len() => Observed::Always,
        None => Observed::Sometimes,
    };
    let (outcomes, states) = (outcomes.len(), searched.states);
    Ok(LitmusResult { observed, outcomes, positive, states, race, refused })
}

impl Condition {
    /// Whether registers, and then variables, fulfil this.
    fn holds(&self, outcome: &[u32], threads: usize) -> bool {
        match self {
            Condition::True => true,
            Condition::Register(thread, register, value) => {
                outcome[thread * REGISTERS_MAX + register] == *value
            }
            Condition::Variable(variable, value) => {
                outcome[threads * REGISTERS_MAX + variable] == *value
            }
            Condition::Not(one) => !one.holds(outcome, threads),
            Condition::And(all) => all.iter().all(|one| one.holds(outcome, threads)),
            Condition::Or(any) => any.iter().any(|one| one.holds(outcome, threads)),
        }
    }
}
