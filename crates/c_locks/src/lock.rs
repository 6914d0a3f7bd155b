//! Locks of a compiled program, with one holder or shared by readers.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use algorithms::{Hold, Locks, Properties, Shape};
use anyhow::{Context, Result, bail};
use engines::{Panic, Unsupported, catch_panics};
use machine::{Machine, NamedArray, Native, Region};

use crate::instance::Instance;
use crate::parts::WordEdges;
use crate::program::{Entries, Program};
use crate::task::call;

/// Locks of one program in a region of their own.
#[derive(Debug)]
pub struct CLocks {
    instance: Instance,
    /// The address of the first lock, and the number of locks.
    start: usize,
    count: usize,
    /// Taking and releasing alone, and beside others that read.
    write: [usize; 2],
    read: [usize; 2],
    region: Region,
}

impl CLocks {
    /// Locks in their first state, in a region with room for this many bytes besides the program's variables.
    pub fn new(program: &Arc<Program>, shape: Shape, bytes: usize) -> Result<CLocks> {
        let (write, read) = match program.entries {
            Entries::Lock(functions) => (functions, functions),
            Entries::ReadWriteLock { write, read } => (write, read),
            Entries::Operation { .. } => {
                bail!("{} is a data structure, not a lock", program.name)
            }
        };
        let region = Region::new(bytes + Instance::bytes(program, shape.tasks))
            .context("allocating memory for the lock")?;
        let instance = Instance::new(program, &region, shape.tasks)?;
        let start = instance.place(&region, "lock", shape.locks)?;
        Ok(CLocks { instance, start, count: shape.locks, write, read, region })
    }

    fn call<M: Machine>(&self, m: &M, function: usize, number: usize) -> u64 {
        call(m, &self.instance, function, self.start + number * self.instance.program.lock_stride)
    }
}

impl Locks for CLocks {
    /// Pointers name CPUs, and nothing says which. A lock may ask for its node. Tasks enter in the order of their arrival
    /// only where `knee_arrive` is called: see `bypasses`.
    fn properties(&self) -> Properties {
        let shared = self.instance.program.is_read_write_lock();
        Properties { shared, fifo: false, symmetric: false, numa_aware: true }
    }

    fn region(&self) -> &Region {
        &self.region
    }

    fn bypasses(&self, _: u32) -> Option<u32> {
        let program = &self.instance.program;
        (program.arrives && !program.is_read_write_lock()).then_some(0)
    }

    fn lock<M: Machine>(&self, m: &M, number: usize) -> Hold {
        self.call(m, self.write[0], number);
        Hold(0)
    }

    fn unlock<M: Machine>(&self, m: &M, number: usize, _: Hold) {
        self.call(m, self.write[1], number);
    }

    fn read_lock<M: Machine>(&self, m: &M, number: usize) -> Hold {
        self.call(m, self.read[0], number);
        Hold(0)
    }

    fn read_unlock<M: Machine>(&self, m: &M, number: usize, _: Hold) {
        self.call(m, self.read[1], number);
    }

    fn at_rest<M: Machine>(&self, m: &M) -> bool {
        let is_at_rest = |function, number| self.call(m, function, number) as u32 != 0;
        let at_rest = self.instance.program.at_rest;
        at_rest.is_none_or(|function| (0..self.count).all(|number| is_at_rest(function, number)))
    }
}

impl Instance {
    /// Allocates this many of the type that KNEE_LOCK or the like names, in their first state; returns the address of the first.
    ///
    /// # Errors
    /// KNEE_PREPARE fails.
    pub fn place(&self, region: &Region, name: &str, count: usize) -> Result<usize> {
        const ALIGN: usize = 128;
        let (words, members) = (self.program.lock_words.clone(), self.program.lock_members.clone());
        let (name, stride, per_cpu) = (name.to_string(), self.program.lock_stride, false);
        let mut array =
            NamedArray { name, offset: 0, stride, length: count, per_cpu, words, members };
        self.program.parts.apply(&mut array);
        let start = region.laid_out(array, ALIGN) as usize;
        self.locks.0.store(start, Relaxed);
        self.locks.1.store(count, Relaxed);
        let edges = self.edges.set(WordEdges::new(region.arrays()));
        edges.expect("locks are placed once");
        let constructors = self.program.constructors.iter().map(|function| (*function, 0));
        let prepares =
            self.program.prepare.into_iter().flat_map(|function| {
                (0..count).map(move |number| (function, start + number * stride))
            });
        let m = Native::new(0, 0);
        let prepared = catch_panics(|| {
            constructors.chain(prepares).for_each(|(function, argument)| {
                call(&m, self, function, argument);
            });
        });
        prepared.map_err(|panic| match panic {
            Panic::Unsupported(unsupported) => unsupported,
            Panic::Message(fault) => Unsupported::new(
                format!("KNEE_PREPARE fails: {fault}"),
                "correct it: it runs before any task does, and knee_cpus() says how many there will be",
            ),
        })?;
        Ok(start)
    }
}
