//! Locks in memory, as studies use them. A lock of the list is a type, one in C is a compiled program; the tasks of a
//! search or a simulation need not know which, and are compiled for each.

use std::io;

use machine::{Array, Line, Machine, Region};

use crate::locks::{self, Visitor};
use crate::{Hold, Lock, Shape, SharedLock};

/// What a study has to know of a kind of lock.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    /// Whether several readers can hold it.
    pub shared: bool,
    /// [`Lock::FIFO`]
    pub fifo: bool,
    /// [`Lock::SYMMETRIC`]
    pub symmetric: bool,
    /// [`Lock::NUMA_AWARE`]
    pub numa_aware: bool,
}

/// Locks of one kind in a region of their own, numbered from 0, in their first state.
pub trait Locks: Sync {
    /// What kind of locks they are.
    fn properties(&self) -> Properties;

    /// The memory of the locks, with room for what they guard.
    fn region(&self) -> &Region;

    /// [`Lock::bypasses`]
    fn bypasses(&self, nodes: u32) -> Option<u32>;

    /// Waits until the lock is free, and takes it, of a read-write lock to write.
    fn lock<M: Machine>(&self, m: &M, number: usize) -> Hold;

    /// Releases a lock that `lock` took.
    fn unlock<M: Machine>(&self, m: &M, number: usize, hold: Hold);

    /// Waits until no task writes, and takes a read-write lock to read.
    fn read_lock<M: Machine>(&self, m: &M, number: usize) -> Hold;

    /// Releases a lock that `read_lock` took.
    fn read_unlock<M: Machine>(&self, m: &M, number: usize, hold: Hold);

    /// Whether all are free again. Called only when no task holds or wants any.
    fn at_rest<M: Machine>(&self, m: &M) -> bool;
}

/// Code that is generic over the kind of locks.
pub trait LocksVisitor {
    /// The result of a visit.
    type Out;
    /// Visits locks.
    fn locks<L: Locks>(self, locks: &L) -> Self::Out;
}

/// Visits locks of the list, in a region of this many bytes and of those that a lock with large tables needs. `None` if
/// there is no lock of this name.
pub fn place<V: LocksVisitor>(
    name: &str,
    shape: Shape,
    bytes: usize,
    visitor: V,
) -> Option<io::Result<V::Out>> {
    locks::visit(name, Place { shape, bytes, visitor })
}

struct Place<V> {
    shape: Shape,
    bytes: usize,
    visitor: V,
}

impl<V: LocksVisitor> Visitor for Place<V> {
    type Out = io::Result<V::Out>;

    fn lock<L: Lock>(self) -> Self::Out {
        let Place { shape, bytes, visitor } = self;
        let region = Region::new(bytes + L::more_bytes(shape))?;
        let kind = L::new(&region, shape);
        let memory = region.array("lock", shape.locks);
        Ok(visitor.locks(&Exclusive { kind, memory, region }))
    }

    fn shared<L: SharedLock>(self) -> Self::Out {
        let Place { shape, bytes, visitor } = self;
        let region = Region::new(bytes + L::more_bytes(shape))?;
        let kind = L::new(&region, shape);
        let memory: Array<Line<L::Mem>> = region.array("lock", shape.locks);
        memory.iter().for_each(|lock| kind.prepare(lock));
        Ok(visitor.locks(&Shared { kind, memory, region }))
    }
}

/// Locks of a listed type.
struct Exclusive<L: Lock> {
    kind: L,
    memory: Array<Line<L::Mem>>,
    region: Region,
}

impl<L: Lock> Locks for Exclusive<L> {
    #[inline(always)]
    fn properties(&self) -> Properties {
        let (symmetric, numa_aware) = (L::SYMMETRIC, L::NUMA_AWARE);
        Properties { shared: false, fifo: L::FIFO, symmetric, numa_aware }
    }

    fn region(&self) -> &Region {
        &self.region
    }

    fn bypasses(&self, nodes: u32) -> Option<u32> {
        self.kind.bypasses(nodes)
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, number: usize) -> Hold {
        self.kind.lock(m, &self.memory[number])
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, number: usize, hold: Hold) {
        self.kind.unlock(m, &self.memory[number], hold);
    }

    fn read_lock<M: Machine>(&self, _: &M, _: usize) -> Hold {
        unreachable!("a lock with one holder has no readers")
    }

    fn read_unlock<M: Machine>(&self, _: &M, _: usize, _: Hold) {
        unreachable!("a lock with one holder has no readers")
    }

    fn at_rest<M: Machine>(&self, m: &M) -> bool {
        self.memory.iter().all(|lock| self.kind.at_rest(m, lock))
    }
}

/// Read-write locks of a listed type.
struct Shared<L: SharedLock> {
    kind: L,
    memory: Array<Line<L::Mem>>,
    region: Region,
}

impl<L: SharedLock> Locks for Shared<L> {
    #[inline(always)]
    fn properties(&self) -> Properties {
        let (symmetric, numa_aware) = (L::SYMMETRIC, L::NUMA_AWARE);
        Properties { shared: true, fifo: false, symmetric, numa_aware }
    }

    fn region(&self) -> &Region {
        &self.region
    }

    fn bypasses(&self, _: u32) -> Option<u32> {
        None
    }

    #[inline(always)]
    fn lock<M: Machine>(&self, m: &M, number: usize) -> Hold {
        self.kind.write_lock(m, &self.memory[number])
    }

    #[inline(always)]
    fn unlock<M: Machine>(&self, m: &M, number: usize, hold: Hold) {
        self.kind.write_unlock(m, &self.memory[number], hold);
    }

    #[inline(always)]
    fn read_lock<M: Machine>(&self, m: &M, number: usize) -> Hold {
        self.kind.read_lock(m, &self.memory[number])
    }

    #[inline(always)]
    fn read_unlock<M: Machine>(&self, m: &M, number: usize, hold: Hold) {
        self.kind.read_unlock(m, &self.memory[number], hold);
    }

    fn at_rest<M: Machine>(&self, m: &M) -> bool {
        self.memory.iter().all(|lock| self.kind.at_rest(m, lock))
    }
}
