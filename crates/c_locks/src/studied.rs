//! A compiled lock or data structure under the checker, mutated, and on described hosts. Here, so that it is compiled with each
//! machine once.

use std::io;

use algorithms::mechanisms::{ListedMechanism, Scenario};
use anyhow::{Context, Result, bail};
use engines::Unsupported;
use engines::checker::{Memory, Options, Setup, search};
use engines::simulated::SimulatedRun;
use studies::checks::mutants::{JudgedMutant, LockSubject, judge_lock};
use studies::checks::{
    CheckSize, Mutation, SetupFn, with_own_lock, with_own_mechanism, with_own_shared_lock,
    with_result,
};
use studies::replays::OwnLock;
use studies::simulations::mechanisms::{MechanismLoad, own_mechanism_point};
use studies::simulations::{
    Conditions, LockLoad, OneDraw, SimulatedPoint, own_lock_draw, own_lock_point,
    own_shared_lock_draw, own_shared_lock_point,
};

use crate::lock::{CLock, CReadWriteLock, program, with_program};
use crate::mechanism::{CMechanism, DESIGN};
use crate::program::{Entries, Program};

static MECHANISM: ListedMechanism = ListedMechanism::new::<CMechanism>("");

/// Calls `act` with tasks that use the lock, at their start.
pub fn with_tasks<R>(
    program: &'static Program,
    size: CheckSize,
    act: impl FnMut(&Setup) -> R,
) -> Result<R> {
    ensure_words(program, size.threads)?;
    let result =
        with_program(program, || with_result(act, |act| Some(tasks(size, Mutation::None, act))));
    Ok(result.context("the tasks of the lock were never started")??)
}

/// Words that a search tells apart, less those of what the lock guards.
const WORDS_MAX: usize = 65_000;

/// Fails if the variables of this many tasks have more words than a search tells apart.
fn ensure_words(program: &Program, tasks: usize) -> Result<()> {
    let [own, shared] = [&program.thread_local, &program.data].map(|block| block.words.len());
    let words = shared + tasks * own;
    if words <= WORDS_MAX {
        return Ok(());
    }
    Err(Unsupported::new(
        format!(
            "{tasks} tasks with {own} thread-local words each and {shared} static ones: a search tells {WORDS_MAX} words apart"
        ),
        "check fewer tasks, or make arrays smaller",
    )
    .into())
}

fn tasks(size: CheckSize, mutation: Mutation, act: &mut SetupFn) -> io::Result<()> {
    match program().entries {
        Entries::Lock(_) => with_own_lock::<CLock>(size, mutation, act),
        Entries::ReadWriteLock { .. } => {
            with_own_shared_lock::<CReadWriteLock>(size, mutation, act)
        }
        Entries::Operation { .. } => {
            let scenario = Scenario::new(size.threads, size.acquires);
            with_own_mechanism::<CMechanism>(&MECHANISM, DESIGN, scenario, mutation, act)
                .unwrap_or(Ok(()))
        }
    }
}

/// Judges all mutants, in the order of the program's files.
pub fn judge(program: &'static Program) -> Result<Vec<JudgedMutant>> {
    let sources = program.sources.iter().map(|(path, text)| (path.clone(), text.as_str()));
    let sources: Vec<_> = sources.collect();
    let equivalent = &program.equivalent;
    let subject = LockSubject { sources: &sources, equivalent, with_tasks: &tasks };
    with_program(program, || judge_lock(&subject))
}

/// Tasks, acquires of each and states of a short search.
const SHORT: CheckSize = CheckSize { threads: 2, acquires: 1, locks: 1 };
const SHORT_STATES: u64 = 10_000;

/// Refuses a lock in which a short search finds a fault: what it does then is no lock's.
pub fn refuse_faulty(program: &'static Program) -> Result<()> {
    let memory = Memory::of_this_machine();
    let options = Options { memory, states_max: SHORT_STATES, ..Options::default() };
    let searched = with_tasks(program, SHORT, |setup| search(setup, &options))??;
    if let Some(failure) = searched.failure {
        if let Some(unsupported) = failure.unsupported() {
            return Err(unsupported.clone()).with_context(|| not_checked(&program.file));
        }
        let (name, file) = (&program.name, program.file.display());
        bail!(
            "{name} is at fault: {}; see knee check {file} --threads 2 (with the same --cflags)",
            failure.fault
        );
    }
    Ok(())
}

/// What is said of a file before the reason.
pub(crate) fn not_checked(file: &std::path::Path) -> String {
    format!("{}: not checked", file.display())
}

impl OwnLock for Program {
    fn simulate(&'static self, simulated: &OneDraw) -> Result<SimulatedRun> {
        let name = &self.name;
        with_program(self, || match self.entries {
            Entries::Lock(_) => own_lock_draw::<CLock>(name, simulated),
            Entries::ReadWriteLock { .. } => {
                own_shared_lock_draw::<CReadWriteLock>(name, simulated)
            }
            Entries::Operation { .. } => bail!("{name} is a data structure, not a lock"),
        })
    }
}

/// Simulates it on this many CPUs, with as many tasks or more.
pub fn point(
    program: &'static Program,
    load: LockLoad,
    conditions: &Conditions,
    cpus: usize,
    tasks: usize,
) -> Result<SimulatedPoint> {
    let name = &program.name;
    with_program(program, || match program.entries {
        Entries::Lock(_) => own_lock_point::<CLock>(name, load, conditions, cpus, tasks),
        Entries::ReadWriteLock { .. } => {
            own_shared_lock_point::<CReadWriteLock>(name, load, conditions, cpus, tasks)
        }
        Entries::Operation { .. } => {
            let load = MechanismLoad {
                mechanism: &MECHANISM,
                design: DESIGN,
                over: String::new(),
                given: Vec::new(),
                work_ns: load.work_ns,
            };
            own_mechanism_point::<CMechanism>(&load, conditions, cpus, tasks)
                .with_context(|| name.clone())
        }
    })
}
