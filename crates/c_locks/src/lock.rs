//! A compiled lock as a lock of knee, with one holder or shared by readers.

use std::cell::UnsafeCell;
use std::sync::{Mutex, PoisonError, RwLock};

use algorithms::{Hold, Lock, Shape, SharedLock};
use machine::{Image, Machine, Member, Native, Region, Word};

use crate::instance::Instance;
use crate::memory::LOCK_MAX;
use crate::program::{Entries, Program};
use crate::task::call;

/// The lock that `CLock` is now.
static PROGRAM: RwLock<Option<&'static Program>> = RwLock::new(None);
/// One at a time.
static TURN: Mutex<()> = Mutex::new(());

/// Calls `act`, in which [`CLock`] is this program's lock. Others that want another one wait.
pub fn with_program<R>(program: &'static Program, act: impl FnOnce() -> R) -> R {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    *PROGRAM.write().unwrap_or_else(PoisonError::into_inner) = Some(program);
    act()
}

/// The program whose turn it is.
pub fn program() -> &'static Program {
    let program = *PROGRAM.read().unwrap_or_else(PoisonError::into_inner);
    program.expect("a lock in C is used within `with_program`")
}

/// The memory of one lock.
#[repr(C, align(128))]
#[derive(Debug)]
pub struct CLockMem(UnsafeCell<[u8; LOCK_MAX]>);

// SAFETY: C code uses the bytes through machines, which treat them as atomics.
unsafe impl Sync for CLockMem {}

// SAFETY: bytes, valid when zero; the words are those of the program, within them.
unsafe impl Image for CLockMem {
    fn words() -> Vec<Word> {
        program().lock_words.clone()
    }

    fn members() -> Vec<Member> {
        program().lock_members.clone()
    }
}

/// All locks of one program.
#[derive(Debug)]
pub struct CLock(Instance);

// SAFETY: the code is never changed; variables are used through machines.
unsafe impl Send for CLock {}
// SAFETY: as for `Send`.
unsafe impl Sync for CLock {}

impl Lock for CLock {
    /// Only where `knee_arrive` is called: see `bypasses`.
    const FIFO: bool = false;
    /// Pointers name CPUs, and nothing says which.
    const SYMMETRIC: bool = false;
    /// A lock may ask for its node.
    const NUMA_AWARE: bool = true;
    type Mem = CLockMem;

    /// # Panics
    ///
    /// If the system has no memory for the code, which `compile` has tried.
    fn new(region: &Region, shape: Shape) -> CLock {
        let instance = Instance::new(program(), region, shape.tasks);
        CLock(instance.unwrap_or_else(|error| panic!("{}: {error:#}", program().name)))
    }

    fn more_bytes(shape: Shape) -> usize {
        Instance::bytes(program(), shape.tasks)
    }

    fn bypasses(&self, _nodes: u32) -> Option<u32> {
        self.0.program.arrives.then_some(0)
    }

    fn prepare(&self, mem: &CLockMem) {
        self.0.prepare(mem);
    }

    fn lock<M: Machine>(&self, m: &M, mem: &CLockMem) -> Hold {
        self.0.call(m, self.0.write_functions()[0], mem);
        Hold(0)
    }

    fn unlock<M: Machine>(&self, m: &M, mem: &CLockMem, _: Hold) {
        self.0.call(m, self.0.write_functions()[1], mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &CLockMem) -> bool {
        self.0.is_at_rest(m, mem)
    }
}

/// All read-write locks of one program.
#[derive(Debug)]
pub struct CReadWriteLock(Instance);

// SAFETY: as for `CLock`.
unsafe impl Send for CReadWriteLock {}
// SAFETY: as for `CLock`.
unsafe impl Sync for CReadWriteLock {}

impl SharedLock for CReadWriteLock {
    const SYMMETRIC: bool = false;
    const NUMA_AWARE: bool = true;
    type Mem = CLockMem;

    /// # Panics
    ///
    /// If the system has no memory for the code, which `compile` has tried.
    fn new(region: &Region, shape: Shape) -> CReadWriteLock {
        CReadWriteLock(CLock::new(region, shape).0)
    }

    fn more_bytes(shape: Shape) -> usize {
        Instance::bytes(program(), shape.tasks)
    }

    fn prepare(&self, mem: &CLockMem) {
        self.0.prepare(mem);
    }

    fn read_lock<M: Machine>(&self, m: &M, mem: &CLockMem) -> Hold {
        self.0.call(m, self.0.read_functions()[0], mem);
        Hold(0)
    }

    fn read_unlock<M: Machine>(&self, m: &M, mem: &CLockMem, _: Hold) {
        self.0.call(m, self.0.read_functions()[1], mem);
    }

    fn write_lock<M: Machine>(&self, m: &M, mem: &CLockMem) -> Hold {
        self.0.call(m, self.0.write_functions()[0], mem);
        Hold(0)
    }

    fn write_unlock<M: Machine>(&self, m: &M, mem: &CLockMem, _: Hold) {
        self.0.call(m, self.0.write_functions()[1], mem);
    }

    fn at_rest<M: Machine>(&self, m: &M, mem: &CLockMem) -> bool {
        self.0.is_at_rest(m, mem)
    }
}

impl Instance {
    /// Calls a function of the program with what KNEE_LOCK calls `lock`.
    pub fn call<M: Machine>(&self, m: &M, function: usize, mem: &CLockMem) -> u64 {
        call(m, self, function, mem.0.get() as usize)
    }

    /// Brings the memory into its first state.
    pub fn prepare(&self, mem: &CLockMem) {
        if let Some(function) = self.program.prepare {
            self.call(&Native::new(0, 0), function, mem);
        }
    }

    fn is_at_rest<M: Machine>(&self, m: &M, mem: &CLockMem) -> bool {
        let at_rest = self.program.at_rest;
        at_rest.is_none_or(|function| self.call(m, function, mem) as u32 != 0)
    }

    /// Taking and releasing alone.
    fn write_functions(&self) -> [usize; 2] {
        match self.program.entries {
            Entries::Lock(functions) | Entries::ReadWriteLock { write: functions, .. } => functions,
            Entries::Operation { .. } => unreachable!("a data structure is no lock"),
        }
    }

    /// Taking and releasing beside others that read.
    fn read_functions(&self) -> [usize; 2] {
        match self.program.entries {
            Entries::ReadWriteLock { read, .. } => read,
            _ => unreachable!("a lock without readers is not shared"),
        }
    }
}
