//! Lock and unlock of a lock that knee implements, with a counter that it guards.
//!
//! One operation takes the lock, adds 1 to a counter on the lock's cache line, works for
//! `hold_ns` and unlocks. With lock=shared all tasks want the same one, so operations per
//! second cannot grow with CPUs: what matters is how far they fall as the line travels, and
//! how fair the lock is. With lock=own no task waits, and the curve should be straight. A
//! read-write lock is taken for writing once in `reads_to_a_write` + 1 operations; readers
//! only read the counter.
//!
//! These are the locks of `knee list algorithms`: `knee show NAME`, without `lock_`,
//! explains the states of each and cites its source; `knee check NAME` searches its
//! interleavings. Tasks spin as in a kernel, but in user space: a task that has waited for
//! some tens of microseconds yields its CPU, which the next task in line may need. With
//! more tasks than CPUs, FIFO locks hand over at the scheduler's pace.

use std::sync::LazyLock;

use algorithms::locks::{LOCKS, Visitor, visit};
use algorithms::{Lock, Shape, SharedLock};
use machine::{Array, Field, Image, Line, Machine, Native, Region, Yielding, image};

use crate::file_lock::HOLD;
use crate::manual::manual;
use crate::{
    Failure, Family, Forms, Load, Parameter, ParameterKind, Prepared, Spec, Spin, Task, Workload,
};

/// One workload for each listed lock.
pub(crate) fn workloads() -> impl Iterator<Item = Workload> {
    static NAMES: LazyLock<Vec<String>> =
        LazyLock::new(|| LOCKS.iter().map(|lock| format!("lock_{}", lock.name)).collect());
    LOCKS.iter().zip(NAMES.iter()).map(|(lock, name)| Workload {
        name,
        doc: manual!("lock.rs"),
        spec: visit(lock.name, BuildSpec).expect("a listed lock"),
    })
}

const LOCK: Parameter = Parameter {
    name: "lock",
    about: "shared: all tasks take one lock; own: each task takes its own",
    default: "shared",
    kind: ParameterKind::Choice(&["shared", "own"]),
};

const READS: Parameter = Parameter {
    name: "reads_to_a_write",
    about: "read operations for each write operation",
    default: "9",
    kind: ParameterKind::Number { min: 0, max: 1_000_000 },
};

struct BuildSpec;

impl Visitor for BuildSpec {
    type Out = &'static Spec;

    fn lock<L: Lock>(self) -> &'static Spec {
        const {
            &Spec {
                semantics: 1,
                aliases: &[],
                family: Family::UserLocks,
                operation: "one lock, one increment and one unlock",
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
                operation: "one lock, one read or increment and one unlock",
                forms: Forms::Both,
                parameters: &[READS, HOLD],
                needs: &[],
                prepare: prepare_shared::<L>,
            }
        }
    }
}

image! {
    /// A lock and the counter it guards, on a page of its own: the task that first uses it
    /// gets it from the nearest memory.
    #[repr(align(4096))]
    struct Guarded<L: Image> {
        lock: L,
        /// Increments are lost unless the lock excludes.
        count: Field<u64>,
    }
}

/// Room for the queue nodes of one task.
const BYTES_PER_TASK: usize = 1024;

/// Memory for `locks` locks with their counters, the queue nodes of all tasks, and tables. Some locks have a line for
/// each task; memory that no lock uses is never there.
fn region(load: &Load, locks: usize) -> Result<Region, Failure> {
    const LINE: usize = 64;
    let of_a_lock = 4096 + (load.tasks.next_power_of_two() + 2) * LINE;
    let bytes = locks * of_a_lock + load.tasks * BYTES_PER_TASK + (64 << 10);
    Region::new(bytes).map_err(|e| {
        Failure::from_error(format!("mapping {bytes} bytes for the lock and its nodes"), e)
    })
}

/// The machine of task `index`. To the lock, tasks are CPUs: each has its own nodes.
pub(crate) fn machine(index: usize) -> Native {
    let mut node: libc::c_uint = 0;
    // SAFETY: the call fills one live number; a null CPU is allowed.
    unsafe {
        libc::syscall(libc::SYS_getcpu, std::ptr::null_mut::<libc::c_uint>(), &mut node);
    }
    Native::new(index, node as usize)
}

fn check_count(operations: u64, counted: u64) -> Result<(), Failure> {
    if counted == operations {
        return Ok(());
    }
    Err(Failure::new(format!(
        "the lock did not exclude: {operations} operations under it were counted as {counted}"
    )))
}

fn prepare<L: Lock>(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let locks = match load.values.choice("lock") {
        "shared" => 1,
        _ => load.tasks,
    };
    let region = region(load, locks)?;
    let lock = L::new(&region, Shape::new(load.tasks, locks));
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
        check_count(operations, self.guarded.iter().map(|guarded| guarded.count.get(&m)).sum())?;
        if self.guarded.iter().all(|guarded| self.lock.at_rest(&m, &guarded.lock)) {
            Ok(())
        } else {
            Err(Failure::new("some of the lock's state is still in use"))
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
    let lock = L::new(&region, Shape::new(load.tasks, 1));
    let guarded = region.array("guarded", 1);
    let reads = region.per_cpu("reads", load.tasks);
    let reads_to_a_write = load.values.number("reads_to_a_write") as u32;
    Ok(Box::new(Sharing { lock, guarded, reads, reads_to_a_write, hold: load.spin("hold_ns") }))
}

struct Sharing<L: SharedLock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
    /// The number of reads by each task, written when it verifies itself.
    reads: Array<Line<Field<u64>>>,
    reads_to_a_write: u32,
    hold: Spin,
}

impl<L: SharedLock> Prepared for Sharing<L> {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        Ok(Box::new(Sharer {
            sharing: self,
            index,
            m: machine(index).yielding(),
            reads: 0,
            disturbed: false,
        }))
    }

    fn verify(&self, operations: u64) -> Result<(), Failure> {
        let m = machine(0).yielding();
        let reads: u64 = self.reads.iter().map(|reads| reads.get(&m)).sum();
        check_count(operations, reads + self.guarded[0].count.get(&m))
    }
}

struct Sharer<'a, L: SharedLock> {
    sharing: &'a Sharing<L>,
    index: usize,
    m: Native<Yielding>,
    reads: u64,
    /// Whether the counter ever changed while this task held the lock for reading.
    disturbed: bool,
}

impl<L: SharedLock> Task for Sharer<'_, L> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let (m, Sharing { lock, guarded, hold, .. }) = (&self.m, self.sharing);
        let guarded = &guarded[0];
        if m.chance(self.sharing.reads_to_a_write + 1) {
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
        self.sharing.reads[self.index].set(&self.m, self.reads);
        if self.disturbed {
            return Err(Failure::new("the counter changed while a reader held the lock"));
        }
        Ok(())
    }
}
