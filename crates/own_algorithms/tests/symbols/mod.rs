//! The functions of knee.h that a load defines, called as knee's harness calls them.

use std::ffi::{c_int, c_uint, c_ulonglong, c_void};
use std::ptr::{null, null_mut};

unsafe extern "C" {
    fn knee_prepare(run: *const c_uint) -> c_int;
    fn knee_task(run: *const c_void, index: c_uint, task: *mut *mut c_void) -> c_int;
    fn knee_operate(task: *mut c_void) -> c_int;
    fn knee_drive(task: *mut c_void, control: *const Control) -> c_int;
    fn knee_verify_all(run: *const c_void, operations: c_ulonglong) -> c_int;
}

/// What knee shares with a task, as knee.h lays it out.
#[repr(C)]
struct Control {
    stop: *const u32,
    count: *mut u64,
    limit: u64,
}

/// Runs tasks of the load as threads, each for this many operations and one more, and then calls `verify` with it.
/// Returns how many operations they did in all.
pub fn drive(tasks: u32, operations: u64, verify: impl Fn(*mut c_void) + Sync) -> u64 {
    let verify = &verify;
    let drive = |index: u32| {
        let mut task: *mut c_void = null_mut();
        let (stop, mut count) = (0u32, 0u64);
        let control = Control { stop: &stop, count: &mut count, limit: operations };
        // SAFETY: as knee.h says, with values that live until the last call ends.
        unsafe {
            assert_eq!(knee_task(null(), index, &mut task), 0);
            assert_eq!(knee_drive(task, &control), 0);
            assert_eq!(knee_operate(task), 0);
        }
        verify(task);
        count + 1
    };
    // SAFETY: the run of a load begins with its number of tasks, and a load reads no more of it.
    assert_eq!(unsafe { knee_prepare(&tasks) }, 0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..tasks).map(|index| scope.spawn(move || drive(index))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    })
}

/// Whether the load agrees that its tasks did this many operations.
pub fn is_verified(operations: u64) -> bool {
    // SAFETY: a load uses nothing of the run here.
    unsafe { knee_verify_all(null(), operations) == 0 }
}
