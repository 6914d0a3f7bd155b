//! An algorithm as a load that knee measures: the functions of knee.h, for an archive that knee links.

use std::ffi::{CStr, CString, c_char, c_uint};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use machine::{Native, Yielding};

unsafe extern "C" {
    /// Returns the value of a parameter; knee's harness defines it.
    fn knee_value(name: *const c_char) -> *const c_char;
}

/// Defines the symbols of knee.h that locks and mechanisms have alike, by the functions of `lock::load`,
/// `read_write_lock::load` or `mechanism::load`.
#[doc(hidden)]
#[macro_export]
macro_rules! load_symbols {
    ($kind:ident, $algorithm:ty, $description:expr) => {
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_description: $crate::expansion::Text =
            $crate::expansion::Text::new($description);
        #[unsafe(no_mangle)]
        #[allow(non_upper_case_globals)]
        static knee_semantics: ::std::ffi::c_uint = 1;

        #[unsafe(no_mangle)]
        extern "C" fn knee_prepare(run: *const ::std::ffi::c_uint) -> ::std::ffi::c_int {
            // SAFETY: knee's run starts with its number of tasks.
            $crate::expansion::$kind::prepare::<$algorithm>(unsafe { *run })
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_task(
            _run: *const ::std::ffi::c_void,
            index: ::std::ffi::c_uint,
            task: *mut *mut ::std::ffi::c_void,
        ) -> ::std::ffi::c_int {
            // SAFETY: knee gives a place for the task.
            unsafe { *task = $crate::expansion::$kind::task::<$algorithm>(index) };
            0
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_operate(task: *mut ::std::ffi::c_void) -> ::std::ffi::c_int {
            // SAFETY: the task that knee_task made, used by one thread.
            unsafe { $crate::expansion::$kind::operate::<$algorithm>(task) };
            0
        }

        /// The loop of knee.h, here where the compiler can inline the operation.
        #[unsafe(no_mangle)]
        extern "C" fn knee_drive(
            task: *mut ::std::ffi::c_void,
            control: *const $crate::expansion::Control,
        ) -> ::std::ffi::c_int {
            // SAFETY: what knee shares with the task.
            unsafe { &*control }.repeat(|| {
                // SAFETY: the task that knee_task made, used by one thread.
                unsafe { $crate::expansion::$kind::operate::<$algorithm>(task) }
            });
            0
        }

        #[unsafe(no_mangle)]
        extern "C" fn knee_verify_all(
            _run: *const ::std::ffi::c_void,
            operations: ::std::ffi::c_ulonglong,
        ) -> ::std::ffi::c_int {
            $crate::expansion::$kind::verify::<$algorithm>(operations)
        }
    };
}

/// A C string in a static.
#[repr(transparent)]
pub struct Text(AtomicPtr<c_char>);

impl Text {
    /// No text yet.
    pub const fn none() -> Text {
        Text(AtomicPtr::new(std::ptr::null_mut()))
    }

    /// A text that ends with a zero byte.
    pub const fn new(text: &'static str) -> Text {
        assert!(matches!(text.as_bytes().last(), Some(0)), "a C string ends with a zero byte");
        Text(AtomicPtr::new(text.as_ptr().cast_mut().cast()))
    }

    /// Stores a text for ever; without its zero bytes, which no text of a C string has.
    pub(crate) fn set(&self, text: &str) {
        let bytes = text.bytes().filter(|byte| *byte != 0).chain([0]).collect::<Vec<u8>>();
        self.0.store(bytes.leak().as_mut_ptr().cast(), Ordering::Release);
    }
}

/// `struct knee_parameter` of knee.h.
#[repr(C)]
pub struct Parameter {
    pub(crate) name: Text,
    pub(crate) value: Text,
    pub(crate) choices: Text,
    pub(crate) about: Text,
}

impl Parameter {
    /// A parameter, in texts that end with a zero byte.
    pub const fn new(
        name: &'static str,
        value: &'static str,
        choices: &'static str,
        about: &'static str,
    ) -> Parameter {
        Parameter {
            name: Text::new(name),
            value: Text::new(value),
            choices: Text::new(choices),
            about: Text::new(about),
        }
    }

    /// The end of a list, until it is filled.
    pub const fn none() -> Parameter {
        let [name, value, choices, about] = [const { Text::none() }; 4];
        Parameter { name, value, choices, about }
    }
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

impl Control<'_> {
    /// Repeats the operation until stopped or done.
    #[inline(always)]
    pub fn repeat(&self, mut operate: impl FnMut()) {
        let mut done = 0;
        while done < self.limit && self.stop.load(Ordering::Relaxed) == 0 {
            operate();
            done += 1;
            self.count.store(done, Ordering::Relaxed);
        }
    }
}

/// The text of a parameter that the load has.
#[inline]
pub(crate) fn value(name: &str) -> String {
    let Ok(name) = CString::new(name) else { return String::new() };
    // SAFETY: the harness returns a text that lives as long as the program, or ends the program.
    unsafe { CStr::from_ptr(knee_value(name.as_ptr())) }.to_string_lossy().into_owned()
}

/// The machine of a task: a CPU of this number, on the memory node where the task runs now.
#[inline]
pub(crate) fn machine(index: c_uint) -> Native<Yielding> {
    let mut node: c_uint = 0;
    // SAFETY: the call fills one live number; a null CPU is allowed.
    unsafe { libc::syscall(libc::SYS_getcpu, std::ptr::null_mut::<c_uint>(), &mut node) };
    Native::new(index as usize, node as usize).yielding()
}
