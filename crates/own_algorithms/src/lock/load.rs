//! A lock as a load: tasks increment a counter under it.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use algorithms::{Lock, Shape};
use machine::{Array, Field, Image, Native, Region, Yielding, image};

use crate::load::machine;

/// Defines the symbols of knee.h for a lock, with the name of its program:
/// `own_algorithms::lock_load!(MyLock, "my_lock")`.
#[macro_export]
macro_rules! lock_load {
    ($lock:ty, $name:literal) => {
        $crate::load_symbols!(
            lock,
            $lock,
            concat!("Lock and unlock of ", $name, ", with a counter that it guards.\0")
        );
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_operation: $crate::expansion::Text =
            $crate::expansion::Text::new("one lock, one increment and one unlock\0");
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
struct Load<L: Lock> {
    lock: L,
    guarded: Array<Guarded<L::Mem>>,
}

/// The load of this program, which has one.
static LOAD: AtomicPtr<c_void> = AtomicPtr::new(std::ptr::null_mut());

/// Memory for the lock: for each task as much as a queue node and tables may take.
const BYTES: usize = 64 << 10;
const BYTES_PER_TASK: usize = 4096;

/// Makes the lock; processes inherit it.
pub fn prepare<L: Lock>(tasks: c_uint) -> i32 {
    let tasks = tasks as usize;
    let Ok(region) = Region::new(BYTES + tasks * BYTES_PER_TASK) else { return -1 };
    let lock = L::new(&region, Shape::new(tasks, 1));
    let load = Box::new(Load { lock, guarded: region.array("guarded", 1) });
    LOAD.store(Box::into_raw(load).cast(), Ordering::Release);
    0
}

fn load<L: Lock>() -> &'static Load<L> {
    // SAFETY: `prepare` has stored a load of this type, and it is never freed.
    unsafe { &*LOAD.load(Ordering::Acquire).cast::<Load<L>>() }
}

struct Locker<L: Lock> {
    load: &'static Load<L>,
    machine: Native<Yielding>,
}

/// One task.
pub fn task<L: Lock>(index: c_uint) -> *mut c_void {
    Box::into_raw(Box::new(Locker { load: load::<L>(), machine: machine(index) })).cast()
}

/// One operation.
///
/// # Safety
/// `task` comes from [`task`] for this lock, and one thread uses it.
#[inline(always)]
pub unsafe fn operate<L: Lock>(task: *mut c_void) {
    // SAFETY: as the caller says.
    let Locker { load, machine } = unsafe { &*task.cast::<Locker<L>>() };
    let guarded = &load.guarded[0];
    let hold = load.lock.lock(machine, &guarded.lock);
    guarded.count.set(machine, guarded.count.get(machine) + 1);
    load.lock.unlock(machine, &guarded.lock, hold);
}

/// Checks that each operation was counted under the lock, and that the lock is free: 0, or -1.
pub fn verify<L: Lock>(operations: u64) -> i32 {
    let (load, machine) = (load::<L>(), Native::new(0, 0));
    let guarded = &load.guarded[0];
    let counted = guarded.count.get(&machine);
    let at_rest = load.lock.at_rest(&machine, &guarded.lock);
    if counted == operations && at_rest {
        return 0;
    }
    eprintln!(
        "{operations} operations, of which the lock let {counted} be counted; lock free at the end: {at_rest}"
    );
    -1
}
