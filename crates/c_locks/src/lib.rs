//! Locks and data structures in C, as they are. The host's compiler compiles the file as for ThreadSanitizer: before every access to memory
//! that others may see, and instead of every atomic access, the code calls a function of that name. Here these
//! functions are calls into a [`Machine`](machine::Machine). So the checker, the mutants and the simulator see every
//! access of the C code, with its line.
//!
//!     my_lock.c ─cc -S -fsanitize=thread─> assembly ─lines of calls─> object file
//!         code, constants            ─> pages of their own, near the region
//!         static variables           ─> the region: part of the searched state
//!         thread-local variables     ─> the region, once for each task
//!         __tsan_atomic32_load …     ─> hooks ─> machine
//!
//! Loops over loads need no change: a load that finds its task in the very state of the load before, with the same value,
//! is a wait. For the checker, the history of a task is what its registers and its stack hold.

mod assembly;
mod compile;
mod entry;
mod equivalent;
mod hooks;
mod inlined;
mod instance;
mod lock;
mod mechanism;
mod memory;
mod program;
mod studied;
mod task;
mod types;
mod x86;

pub use compile::{HEADER, KERNEL_HEADER, compile};
pub use program::Program;
pub use studied::{judge, point, refuse_faulty, with_tasks};
