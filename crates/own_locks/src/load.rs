//! The lock as a load that knee measures: the functions of knee.h, for an archive that knee links.

use std::ffi::{c_char, c_uint, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use algorithms::{Lock, Shape};
use machine::{Array, Field, Image, Native, Region, Yielding, image};

/// Defines the symbols of knee.h for a lock, with the name of its program: `own_locks::load!(MyLock, "my_lock")`.
#[macro_export]
macro_rules! load {
    ($lock:ty, $name:literal) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_description: $crate::expansion::Text = $crate::expansion::Text::new(concat!(
            "Lock and unlock of ",
            $name,
            ", with a counter that it guards.\0"
        ));
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_operation: $crate::expansion::Text =
            $crate::expansion::Text::new("one lock, one increment and one unlock\0");
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_semantics: ::std::ffi::c_uint = 1;

        #[unsafe(no_mangle)]
        extern "C" fn knee_prepare(run: *const ::std::ffi::c_uint) -> ::std::ffi::c_int {
            // SAFETY: knee's run starts with its number of tasks.
            $crate::expansion::prepare::<$lock>(unsafe { *run })
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_task(
            _run: *const ::std::ffi::c_void,
            index: ::std::ffi::c_uint,
            task: *mut *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: knee gives a place for the task.
            unsafe { *task = $crate::expansion::locker::<$lock>(index) };
            0
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_operate(task: *mut ::std::ffi::c_void) -> ::std::ffi::c_int {
            // SAFETY: the task that knee_task made, used by one thread.
            unsafe { $crate::expansion::operate::<$lock>(task) }
        }

        /// The loop of knee.h, here where the compiler can inline the operation.
        #[unsafe(no_mangle)]
        extern "C" fn knee_drive(
            task: *mut ::std::ffi::c_void,
            control: *const $crate::expansion::Control,
        ) -> ::std::ffi::c_int {
            // SAFETY: the task that knee_task made, used by one thread, and what knee shares with it.
            unsafe { $crate::expansion::drive::<$lock>(task, &*control) }
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_verify_all(
            _run: *const ::std::ffi::c_void,
            operations: ::std::ffi::c_ulonglong,
        ) -> ::std::ffi::c_int {
            $crate::expansion::verify::<$lock>(operations)
        }
    };
}

/// A C string in a static.
#[repr(transparent)]
pub struct Text(*const c_char);

// SAFETY: it points to constant text.
unsafe impl Sync for Text {}

impl Text {
    /// A text that ends with a zero byte.
    pub const fn new(text: &'static str) -> Text {
        assert!(matches!(text.as_bytes().last(), Some(0)), "a C string ends with a zero byte");
        Text(text.as_ptr().cast())
    }
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

/// One task: to the lock it is a CPU, on the memory node where it runs now.
pub fn locker<L: Lock>(index: c_uint) -> *mut c_void {
    let mut node: c_uint = 0;
    // SAFETY: the call fills one live number; a null CPU is allowed.
    unsafe { libc::syscall(libc::SYS_getcpu, std::ptr::null_mut::<c_uint>(), &mut node) };
    let machine = Native::new(index as usize, node as usize).yielding();
    Box::into_raw(Box::new(Locker { load: load::<L>(), machine })).cast()
}

/// One operation.
///
/// # Safety
/// `task` comes from [`locker`] for this lock, and one thread uses it.
#[inline(always)]
pub unsafe fn operate<L: Lock>(task: *mut c_void) -> i32 {
    // SAFETY: as the caller says.
    let Locker { load, machine } = unsafe { &*task.cast::<Locker<L>>() };
    let guarded = &load.guarded[0];
    let hold = load.lock.lock(machine, &guarded.lock);
    guarded.count.set(machine, guarded.count.get(machine) + 1);
    load.lock.unlock(machine, &guarded.lock, hold);
    0
}

/// What a running task shares with knee: `struct knee_control` of knee.h.
#[repr(C)]
pub struct Control<'a> {
    /// Not 0 once the task should stop.
    stop: &'a AtomicU32,
    /// Operations so far.
    count: &'a AtomicU64,
    /// Operations after which the task is done.
    limit: u64,
}

/// Repeats the operation until stopped or done.
///
/// # Safety
/// As for [`operate`].
#[inline(always)]
pub unsafe fn drive<L: Lock>(task: *mut c_void, control: &Control) -> i32 {
    let mut done = 0;
    while done < control.limit && control.stop.load(Ordering::Relaxed) == 0 {
        // SAFETY: as the caller says.
        unsafe { operate::<L>(task) };
        done += 1;
        control.count.store(done, Ordering::Relaxed);
    }
    0
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
