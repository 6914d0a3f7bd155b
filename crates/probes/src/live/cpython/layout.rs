//! Where CPython keeps its threads, frames and functions. 3.13 says it itself, at the start of `_PyRuntime`
//! (Include/internal/pycore_runtime.h, `_Py_DebugOffsets`). For 3.11 and 3.12 the offsets are those that gcc gives for the
//! headers of 3.11.7, 3.12.1 and 3.12.10 (Include/cpython/pystate.h, Include/internal/pycore_{runtime,interp,frame}.h,
//! Include/cpython/{code,unicodeobject}.h) on a 64-bit machine.

use super::memory::{Memory, Text};

/// Where members are in the structures of one version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    pub interpreters: Interpreters,
    pub thread: ThreadState,
    pub frame: Frame,
    pub code: Code,
    pub text: Text,
    /// The type of an object.
    pub object_type: u64,
}

/// The interpreters of a process, from `_PyRuntime` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interpreters {
    pub head: u64,
    pub next: u64,
    /// The first thread state of an interpreter.
    pub threads: u64,
}

/// A thread state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadState {
    pub next: u64,
    pub interpreter: u64,
    pub native_id: u64,
    /// The current frame, or what has it.
    pub frame: u64,
    /// Where what `frame` points to has the current frame, before 3.13.
    pub current: Option<u64>,
}

/// A frame of a Python function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub code: u64,
    pub previous: u64,
    /// The byte that says that a C function began with this frame.
    pub entry: u64,
    pub is_entry: u8,
    /// Whether a frame with which a C function began is one of a Python function.
    pub has_code: bool,
}

/// A code object: a Python function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    pub qualified_name: u64,
    pub file: u64,
}

/// `FRAME_OWNED_BY_CSTACK`: such a frame marks that a C function began.
const OWNED_BY_C_STACK: u8 = 3;

pub const PYTHON_3_11: Layout = Layout {
    interpreters: Interpreters { head: 40, next: 0, threads: 16 },
    thread: ThreadState { next: 8, interpreter: 16, native_id: 160, frame: 56, current: Some(8) },
    frame: Frame { code: 32, previous: 48, entry: 68, is_entry: 1, has_code: true },
    code: Code { qualified_name: 128, file: 112 },
    text: Text { length: 16, state: 32, ascii: 48, other: 72 },
    object_type: 8,
};

pub const PYTHON_3_12: Layout = Layout {
    interpreters: Interpreters { head: 40, next: 0, threads: 72 },
    thread: ThreadState { next: 8, interpreter: 16, native_id: 144, frame: 56, current: Some(0) },
    frame: Frame { code: 0, previous: 8, entry: 70, is_entry: OWNED_BY_C_STACK, has_code: false },
    code: Code { qualified_name: 128, file: 112 },
    text: Text { length: 16, state: 32, ascii: 40, other: 56 },
    object_type: 8,
};

/// A version of CPython, as `Py_Version` has it: 0x030b07f0 is 3.11.7.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(pub u64);

impl Version {
    /// Major and minor number, in words.
    pub fn words(self) -> String {
        format!("{}.{}", self.0 >> 24 & 0xff, self.0 >> 16 & 0xff)
    }
}

impl Layout {
    /// The layout of a version; `None` if this build does not know it. `runtime` is the address of `_PyRuntime`.
    pub fn of(version: Version, memory: Memory, runtime: u64) -> Option<Layout> {
        match version.0 >> 16 {
            0x030b => Some(PYTHON_3_11),
            0x030c => Some(PYTHON_3_12),
            0x030d => {
                let mut words = [0; DEBUG_OFFSETS];
                memory.words(runtime, &mut words)?;
                from_debug_offsets(version, &words)
            }
            _ => None,
        }
    }
}

/// Words of `_Py_DebugOffsets` of 3.13.
const DEBUG_OFFSETS: usize = 73;

/// Reads `_Py_DebugOffsets`, word by word in the order of its members.
fn from_debug_offsets(version: Version, words: &[u64; DEBUG_OFFSETS]) -> Option<Layout> {
    // An offset beyond is none of a structure of CPython.
    const OFFSET_MAX: u64 = 0xffff;
    let is_its = words[0].to_ne_bytes() == *b"xdebugpy" && words[1] == version.0;
    let at = |index: usize| Some(words[index]).filter(|offset| *offset < OFFSET_MAX);
    let layout = Layout {
        interpreters: Interpreters { head: at(5)?, next: at(8)?, threads: at(9)? },
        thread: ThreadState {
            next: at(21)?,
            interpreter: at(22)?,
            native_id: at(25)?,
            frame: at(23)?,
            current: None,
        },
        frame: Frame {
            previous: at(29)?,
            code: at(30)?,
            entry: at(33)?,
            is_entry: OWNED_BY_C_STACK,
            has_code: false,
        },
        code: Code { file: at(35)?, qualified_name: at(37)? },
        text: Text { state: at(68)?, length: at(69)?, ascii: at(70)?, other: at(70)? + 16 },
        object_type: at(45)?,
    };
    is_its.then_some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 3.13.0 has at the start of `_PyRuntime`, by index; the other words do not matter here.
    const OF_3_13_0: [(usize, u64); 16] = [
        (5, 632),
        (8, 7264),
        (9, 7344),
        (21, 8),
        (22, 16),
        (23, 72),
        (25, 160),
        (29, 8),
        (30, 0),
        (33, 70),
        (35, 112),
        (37, 128),
        (45, 8),
        (68, 32),
        (69, 16),
        (70, 40),
    ];

    fn words() -> [u64; DEBUG_OFFSETS] {
        let mut words = [0; DEBUG_OFFSETS];
        words[0] = u64::from_ne_bytes(*b"xdebugpy");
        words[1] = 0x030d_00f0;
        OF_3_13_0.iter().for_each(|(index, offset)| words[*index] = *offset);
        words
    }

    #[test]
    fn a_runtime_that_describes_itself_is_read_by_what_it_says() {
        let version = Version(0x030d_00f0);
        let memory = Memory { process: std::process::id() };
        let words = words();
        let layout = Layout::of(version, memory, (&raw const words) as u64).unwrap();
        // But for the threads of an interpreter, 3.13 has kept what 3.12 had.
        let kept =
            Layout { interpreters: layout.interpreters, thread: layout.thread, ..PYTHON_3_12 };
        assert_eq!(layout, kept);
        assert_eq!(layout.interpreters, Interpreters { head: 632, next: 7264, threads: 7344 });
        assert_eq!((layout.thread.frame, layout.thread.current), (72, None));
    }

    #[test]
    fn what_is_no_known_layout_is_none() {
        let memory = Memory { process: std::process::id() };
        let of = |version, words: &[u64; DEBUG_OFFSETS]| {
            Layout::of(Version(version), memory, std::ptr::from_ref(words) as u64)
        };
        assert_eq!(of(0x030d_01f0, &words()), None, "the cookie is of another version");
        assert_eq!(of(0x030a_00f0, &words()), None, "3.10");
        assert_eq!(of(0x030e_00f0, &words()), None, "3.14");
        let mut beyond = words();
        beyond[25] = u64::MAX;
        assert_eq!(of(0x030d_00f0, &beyond), None, "an offset beyond all structures");
        assert_eq!(Version(0x030e_00f0).words(), "3.14");
    }
}
