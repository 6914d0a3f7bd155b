//! One lock and one unlock of a lock that knee has the source of, with a counter behind it.
//!
//! One operation takes the lock, adds 1 to a counter on the line of the lock, works for
//! `hold_ns` and lets go. With lock=shared all tasks want the same one, so operations per
//! second cannot grow with CPUs: what matters is how far they fall as the line travels, and
//! how fair the lock is. With lock=own nobody waits, and the curve should be straight. A
//! read-write lock is taken to write once in `reads_to_a_write` + 1 operations; readers only
//! look at the counter.
//!
//! These are the locks of `knee list algorithms`: `knee describe NAME` without `lock_` has the
//! states of each and says where it is from, `knee check NAME` searches its interleavings.
//! They run here as in a kernel, spinning, in user space: a task that has waited for some
//! tens of microseconds gives its CPU away, for whoever is next in line may need it. With
//! more tasks than CPUs, locks that are first in, first out hand over at the scheduler's pace.

use std::sync::LazyLock;

use algorithms::locks::{LOCKS, Visitor, visit};
use algorithms::{Lock, Shape, SharedLock};
use machine::{Array, Field, Image, Line, Machine, Native, Region, Yielding, image};

use crate::file_lock::HOLD;
use crate::{Failure, Family, Forms, Kind, Load, Parameter, Prepared, Spec, Spin, Task, Workload};

/// A workload for each listed lock.
pub(crate) fn workloads() -> impl Iterator<Item = Workload> {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| LOCKS.iter().map(|lock| format!("lock_{}", lock.name)).collect());
    LOCKS.iter().zip(NAMES.iter()).map(|(lock, name)| Workload {
        name,
        source: include_str!("lock.rs"),
        spec: visit(lock.name, SpecOf).expect("a listed lock"),
    })
}

const LOCK: Parameter = Parameter {
    name: "lock",
    about: "shared: all tasks take one lock; own: each task takes one of its own",
    default: "shared",
    kind: Kind::Choice(&["shared", "own"]),
};

const READS: Parameter = Parameter {
    name: "reads_to_a_write",
    about: "operations that read for each one that writes",
    default: "9",
    kind: Kind::Number { min: 0, max: 1_000_000 },
};

struct SpecOf;

impl Visitor for SpecOf {
    type Out = &'static Spec;

    fn lock<L: Lock>(self) -> &'static Spec {
        const {
            &Spec {
                semantics: 1,
                aliases: &[],
                family: Family::UserLocks,
                operation: "one lock, one count and one unlock",
                forms: Forms::Both,
                parameters: &[LOCK, HOLD],
                needs: &[],
                prepare: prepare::<L>,
            }
        }
    }

    fn shared<L: SharedLock>(self) -> &'static Spec {
        const {
            &Spec {
                semantics: 1,
                aliases: &[],
                family: Family::UserLocks,
                operation: "one lock, one look or count and one unlock",
                forms: Forms::Both,
                parameters: &[READS, HOLD],
                needs: &[],
                prepare: prepare_shared::<L>,
            }
        }
    }
}

image! {
    /// A lock and what it guards, on a page of its own: the task that first uses it gets it
    /// from the nearest memory.
    #[repr(align(4096))]
    struct Guarded<L: Image> {
        lock: L,
        /// Turns get lost unless the lock excludes.
        count: Field<u64>,
    }
}

/// The nodes of a task fit into this.
const BYTES_OF_A_TASK: usize = 1024;

/// Memory for so many guarded things, for the nodes of all tasks and some tables.
fn region(load: &Load, guarded: usize) -> Result<Region, Failure> {
    let bytes = guarded * 4096 + load.tasks * BYTES_OF_A_TASK + (64 << 10);
    Region::new(bytes)
        .map_err(|e| Failure::of(format!("mapping {bytes} bytes for the lock and its nodes"), e))
}

/// What task `index` can do. To the lock, tasks are its CPUs: each has its own nodes.
pub(crate) fn machine(index: usize) -> Native {
    let mut node: libc::c_uint = 0;
    // SAFETY: the call fills one live number; a null CPU is allowed.
    unsafe {
        libc::syscall(libc::SYS_getcpu, std::ptr::null_mut::<libc::c_uint>(), &mut node);
    }
    Native::new(index, node as usize)
}

fn excluded(operations: u64, counted: u64) -> Result<(), Failure> {
    if counted == operations {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the lock did not exclude: {operations} turns inside it were counted as {counted}"
    )))
}

fn prepare<L: Lock>(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let locks = match load.values.choice("lock") {
        "shared" => 1,
        _ => load.tasks,
    };
    let region = region(load, locks)?;
    let lock = L::new(&region, Shape { cpus: load.tasks, locks });
    let guarded = region.array("guarded", locks);
    Ok(Box::new(Exclusive { lock, guarded, hold: load.spin("hold_ns") }))
}

struct Exclusive<L: Lock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
    hold: Spin,
}

impl<L: Lock> Prepared for Exclusive<L> {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let guarded = &self.guarded[index % self.guarded.len()];
        Ok(Box::new(Locker {
            lock: &self.lock,
            guarded,
            hold: self.hold,
            m: machine(index).yielding(),
        }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let m = machine(0).yielding();
        excluded(operations, self.guarded.iter().map(|guarded| guarded.count.get(&m)).sum())?;
        match self.guarded.iter().all(|guarded| self.lock.at_rest(&m, &guarded.lock)) {
            true => Ok(()),
            false => Err(Failure::new("something of the lock is still in use")),
        }
    }
}

struct Locker<'a, L: Lock> {
    lock: &'a L,
    guarded: &'a Guarded<L::Mem>,
    hold: Spin,
    m: Native<Yielding>,
}

impl<L: Lock> Task for Locker<'_, L> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (m, Guarded { lock, count }) = (&self.m, self.guarded);
        let hold = self.lock.lock(m, lock);
        count.set(m, count.get(m) + 1);
        self.hold.run();
        self.lock.unlock(m, lock, hold);
        Ok(())
    }
}

fn prepare_shared<L: SharedLock>(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let region = region(load, 1)?;
    let lock = L::new(&region, Shape { cpus: load.tasks, locks: 1 });
    let guarded = region.array("guarded", 1);
    let reads = region.per_cpu("reads", load.tasks);
    let reads_to_a_write = load.values.number("reads_to_a_write") as u32;
    Ok(Box::new(Sharing { lock, guarded, reads, reads_to_a_write, hold: load.spin("hold_ns") }))
}

struct Sharing<L: SharedLock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
    /// What each task has read, once it has verified itself.
    reads: Array<Line<Field<u64>>>,
    reads_to_a_write: u32,
    hold: Spin,
}

impl<L: SharedLock> Prepared for Sharing<L> {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        Ok(Box::new(Sharer {
            all: self,
            index,
            m: machine(index).yielding(),
            reads: 0,
            disturbed: false,
        }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let m = machine(0).yielding();
        let reads: u64 = self.reads.iter().map(|reads| reads.get(&m)).sum();
        excluded(operations, reads + self.guarded[0].count.get(&m))
    }
}

struct Sharer<'a, L: SharedLock> {
    all: &'a Sharing<L>,
    index: usize,
    m: Native<Yielding>,
    reads: u64,
    /// Whether a reader ever saw the counter change while it was inside.
    disturbed: bool,
}

impl<L: SharedLock> Task for Sharer<'_, L> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (m, Sharing { lock, guarded, hold, .. }) = (&self.m, self.all);
        let guarded = &guarded[0];
        if m.chance(self.all.reads_to_a_write + 1) {
            let held = lock.write_lock(m, &guarded.lock);
            guarded.count.set(m, guarded.count.get(m) + 1);
            hold.run();
            lock.write_unlock(m, &guarded.lock, held);
        } else {
            let held = lock.read_lock(m, &guarded.lock);
            let before = guarded.count.get(m);
            hold.run();
            self.disturbed |= guarded.count.get(m) != before;
            lock.read_unlock(m, &guarded.lock, held);
            self.reads += 1;
        }
        Ok(())
    }

    fn verify(&mut self, _: u64) -> Result<(), Failure> {
        self.all.reads[self.index].set(&self.m, self.reads);
        match self.disturbed {
            false => Ok(()),
            true => Err(Failure::new("a reader saw a writer inside")),
        }
    }
}
