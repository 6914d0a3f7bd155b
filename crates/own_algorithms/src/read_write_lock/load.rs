//! A read-write lock as a load: tasks increment a counter under it, or read the counter.

use std::ffi::{c_uint, c_void};
use std::hint::black_box;
use std::sync::atomic::{AtomicPtr, Ordering};

use algorithms::{Shape, SharedLock};
use machine::{Array, Field, Image, Line, Machine, Native, Region, Yielding, image};

use crate::load::{machine, value};

/// Defines the symbols of knee.h for a read-write lock, with the name of its program:
/// `own_algorithms::read_write_lock_load!(MyLock, "my_lock")`.
#[macro_export]
macro_rules! read_write_lock_load {
    ($lock:ty, $name:literal) => {
        $crate::load_symbols!(
            read_write_lock,
            $lock,
            concat!(
                "Lock and unlock of ",
                $name,
                " to read or to write a counter that it guards.\0"
            )
        );
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_operation: $crate::expansion::Text =
            $crate::expansion::Text::new("one lock, one read or increment and one unlock\0");
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_parameters: [$crate::expansion::Parameter; 2] = [
            $crate::expansion::Parameter::new(
                "reads_to_a_write\0",
                "9\0",
                "0..1000000\0",
                "read operations for each write operation\0",
            ),
            $crate::expansion::Parameter::none(),
        ];

        #[unsafe(no_mangle)]
        extern "C" fn knee_verify(
            task: *mut ::std::ffi::c_void,
            _operations: ::std::ffi::c_ulonglong,
        ) -> ::std::ffi::c_int {
            // SAFETY: the task that knee_task made, which operates no more.
            unsafe { $crate::expansion::read_write_lock::finish::<$lock>(task) }
        }
    };
}

image! {
    /// A lock and the counter that it guards, on a page of their own.
    #[repr(align(4096))]
    struct Guarded<L: Image> {
        lock: L,
        /// Increments are lost unless the lock excludes.
        count: Field<u64>,
    }
}

/// What all tasks share.
struct Load<L: SharedLock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
    /// How often each task has read, written when the task has stopped.
    reads: Array<Line<Field<u64>>>,
    reads_to_a_write: u32,
}

/// The load of this program, which has one.
static LOAD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Memory for the lock: for each task as much as a queue node, tables and a counter may take.
const BYTES: usize = 64 << 10;
const BYTES_PER_TASK: usize = 4096;

/// Makes the lock; processes inherit it.
pub fn prepare<L: SharedLock>(tasks: c_uint) -> i32 {
    let tasks = tasks as usize;
    let Ok(region) = Region::new(BYTES + tasks * BYTES_PER_TASK) else { return -1 };
    let lock = L::new(&region, Shape::new(tasks, 1));
    let load = Box::new(Load {
        lock,
        guarded: region.array("guarded", 1),
        reads: region.per_cpu("reads", tasks),
        reads_to_a_write: value("reads_to_a_write").parse().unwrap_or(9),
    });
    LOAD.store(Box::into_raw(load).cast(), Ordering::Release);
    0
}

fn load<L: SharedLock>() -> &'static Load<L> {
    // SAFETY: `prepare` has stored a load of this type, and it is never freed.
    unsafe { &*LOAD.load(Ordering::Acquire).cast::<Load<L>>() }
}

struct Sharer<L: SharedLock> {
    load: &'static Load<L>,
    machine: Native<Yielding>,
    index: usize,
    reads: u64,
    /// Whether the counter ever changed while this task held the lock to read.
    disturbed: bool,
}

/// One task.
pub fn task<L: SharedLock>(index: c_uint) -> *mut c_void {
    let (load, machine) = (load::<L>(), machine(index));
    Box::into_raw(Box::new(Sharer {
        load,
        machine,
        index: index as usize,
        reads: 0,
        disturbed: false,
    }))
    .cast()
}

/// One operation.
///
/// # Safety
/// `task` comes from [`task`] for this lock, and one thread uses it.
#[inline(always)]
pub unsafe fn operate<L: SharedLock>(task: *mut c_void) {
    // SAFETY: as the caller says.
    let Sharer { load, machine, reads, disturbed, .. } = unsafe { &mut *task.cast::<Sharer<L>>() };
    let Guarded { lock, count } = &load.guarded[0];
    if machine.chance(load.reads_to_a_write + 1) {
        let hold = load.lock.write_lock(machine, lock);
        count.set(machine, count.get(machine) + 1);
        load.lock.write_unlock(machine, lock, hold);
    } else {
        let hold = load.lock.read_lock(machine, lock);
        let before = count.get(machine);
        // The compiler must not take the second read for the first.
        black_box(count);
        *disturbed |= count.get(machine) != before;
        load.lock.read_unlock(machine, lock, hold);
        *reads += 1;
    }
}

/// Ends a task: 0, or -1 if a writer came in while it read.
///
/// # Safety
/// As for [`operate`], and the task operates no more.
pub unsafe fn finish<L: SharedLock>(task: *mut c_void) -> i32 {
    // SAFETY: as the caller says.
    let Sharer { load, machine, index, reads, disturbed } = unsafe { &*task.cast::<Sharer<L>>() };
    load.reads[*index].set(machine, *reads);
    if *disturbed {
        eprintln!("task {index}: the counter changed while it held the lock to read");
        return -1;
    }
    0
}

/// Checks that each operation read, or was counted under the lock, and that the lock is free: 0, or -1.
pub fn verify<L: SharedLock>(operations: u64) -> i32 {
    let (load, machine) = (load::<L>(), Native::new(0, 0));
    let guarded = &load.guarded[0];
    let reads: u64 = load.reads.iter().map(|reads| reads.get(&machine)).sum();
    let counted = guarded.count.get(&machine);
    let at_rest = load.lock.at_rest(&machine, &guarded.lock);
    if reads + counted == operations && at_rest {
        return 0;
    }
    eprintln!(
        "{operations} operations, of which {reads} read, and the lock let {counted} be counted; lock free at the end: \
         {at_rest}"
    );
    -1
}
