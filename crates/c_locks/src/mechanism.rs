//! A compiled data structure as a mechanism of knee, in one design.

use std::sync::atomic::Ordering::Relaxed;

use algorithms::Shape;
use algorithms::mechanisms::{Mechanism, Setting, Settings};
use machine::{Array, Machine, Native, Region};

use crate::instance::Instance;
use crate::lock::{CLockMem, program};
use crate::program::Entries;

/// The one design.
pub const DESIGN: &str = "c";

/// The data structure of a program, and what tasks share of it.
#[derive(Debug)]
pub struct CMechanism {
    instance: Instance,
    shared: Array<CLockMem>,
}

// SAFETY: the code is never changed; variables are used through machines.
unsafe impl Send for CMechanism {}
// SAFETY: as for `Send`.
unsafe impl Sync for CMechanism {}

impl CMechanism {
    fn functions(&self) -> (usize, Option<usize>) {
        match self.instance.program.entries {
            Entries::Operation { operate, check } => (operate, check),
            _ => unreachable!("a lock is no data structure"),
        }
    }
}

impl Mechanism for CMechanism {
    const NAME: &'static str = "c_file";
    type Design = ();
    const DESIGNS: &'static [(&'static str, ())] = &[(DESIGN, ())];
    const SETTINGS: &'static [Setting] = &[];
    const OPERATION: &'static str = "what KNEE_OPERATION names";
    type Task = ();

    fn bytes(tasks: usize, _: &Settings) -> usize {
        (64 << 10) + Instance::bytes(program(), Shape::searched(tasks, 1).tasks)
    }

    /// # Panics
    ///
    /// If the system has no memory for the code, which `compile` has tried.
    fn new(region: &Region, (): (), tasks: usize, _: &Settings) -> CMechanism {
        let instance = Instance::new(program(), region, tasks);
        let instance = instance.unwrap_or_else(|error| panic!("{}: {error:#}", program().name));
        let shared = region.array::<CLockMem>("shared", 1);
        instance.prepare(&shared[0]);
        CMechanism { instance, shared }
    }

    fn start<M: Machine>(&self, _: &M, _: usize) {}

    fn operate<M: Machine>(&self, m: &M, (): &mut ()) {
        self.instance.call(m, self.functions().0, &self.shared[0]);
    }

    /// All that a task keeps lies in its variables.
    fn live((): &()) -> u64 {
        0
    }

    fn check<M: Machine>(&self, _: &M, operations: u64) -> Result<(), String> {
        let Some(check) = self.functions().1 else { return Ok(()) };
        self.instance.operations.store(operations, Relaxed);
        let is_right = self.instance.call(&Native::new(0, 0), check, &self.shared[0]) as u32 != 0;
        if is_right {
            Ok(())
        } else {
            Err(format!("KNEE_CHECK is false after {operations} operations"))
        }
    }
}
