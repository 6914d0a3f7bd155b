//! A compiled data structure as a mechanism of knee: its one design is the program.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use algorithms::mechanisms::{ListedMechanism, Mechanism, Setting, Settings};
use anyhow::{Result, bail};
use machine::{Machine, Native, Region};

use crate::instance::Instance;
use crate::program::{Entries, Program};
use crate::task::call;

/// The data structure of a program, and the address of what tasks share of it.
#[derive(Debug)]
pub struct CMechanism {
    instance: Instance,
    shared: usize,
    operate: usize,
    check: Option<usize>,
}

impl CMechanism {
    /// What all data structures in C have alike.
    pub const LISTED: ListedMechanism = ListedMechanism::new::<CMechanism>("");

    /// The data structure in its first state.
    ///
    /// # Errors
    /// The program is a lock, its KNEE_PREPARE fails, or the system has no memory for the code.
    pub fn placed(region: &Region, program: &Arc<Program>, tasks: usize) -> Result<CMechanism> {
        let Entries::Operation { operate, check } = program.entries else {
            bail!("{} is a lock, not a data structure", program.name)
        };
        let instance = Instance::new(program, region, tasks)?;
        let shared = instance.place(region, "shared", 1)?;
        Ok(CMechanism { instance, shared, operate, check })
    }
}

impl Mechanism for CMechanism {
    const NAME: &'static str = "c_file";
    type Design = Arc<Program>;
    const DESIGNS: &'static [(&'static str, Arc<Program>)] = &[];
    const SETTINGS: &'static [Setting] = &[];
    const OPERATION: &'static str = "what KNEE_OPERATION names";
    type Task = ();

    fn bytes(program: &Arc<Program>, tasks: usize, _: &Settings) -> usize {
        (64 << 10) + Instance::bytes(program, tasks)
    }

    /// # Panics
    ///
    /// Where [`CMechanism::placed`] fails.
    fn new(region: &Region, program: Arc<Program>, tasks: usize, _: &Settings) -> CMechanism {
        let placed = CMechanism::placed(region, &program, tasks);
        placed.unwrap_or_else(|error| panic!("{}: {error:#}", program.name))
    }

    fn start<M: Machine>(&self, _: &M, _: usize) {}

    fn operate<M: Machine>(&self, m: &M, (): &mut ()) {
        call(m, &self.instance, self.operate, self.shared);
    }

    /// All that a task keeps lies in its variables.
    fn live((): &()) -> u64 {
        0
    }

    fn check<M: Machine>(&self, _: &M, operations: u64) -> std::result::Result<(), String> {
        let Some(check) = self.check else { return Ok(()) };
        self.instance.operations.store(operations, Relaxed);
        let is_right = call(&Native::new(0, 0), &self.instance, check, self.shared) as u32 != 0;
        if is_right {
            Ok(())
        } else {
            Err(format!("KNEE_CHECK is false after {operations} operations"))
        }
    }
}
