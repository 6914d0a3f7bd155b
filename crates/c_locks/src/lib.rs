//! Locks and data structures in C, as they are. The host's compiler compiles the file as for ThreadSanitizer: instead of every atomic
//! access, and before every volatile one, the code calls a function of that name. Before each instruction that accesses memory
//! plainly, another call is put in. Here these functions are calls into a [`Machine`](machine::Machine). So the checker, the mutants
//! and the simulator see every access of the compiled code, with its line.
//!
//!     my_lock.c ─cc -S -fsanitize=thread─> assembly ─calls, their lines─> object file ─decoded─> what each accesses
//!         code, constants            ─> pages of their own, near the region
//!         static variables           ─> the region: part of the searched state
//!         thread-local variables     ─> the region, once for each task
//!         __tsan_atomic32_load …     ─> hooks ─> machine
//!         knee_access                ─> what the next instruction accesses ─> machine
//!
//! Loops over loads need no change: a load that finds its task in the very state of the load before, with the same value,
//! is a wait. For the checker, the history of a task is what its registers and its stack hold.

mod assembly;
mod compile;
mod decoded;
mod entry;
mod equivalent;
mod headers;
mod heap;
mod hooks;
mod inlined;
mod instance;
mod kernel_files;
mod lines;
mod locals;
mod lock;
mod mechanism;
mod memory;
mod once;
mod parts;
mod program;
mod reached;
mod stacks;
mod task;
mod types;
mod x86;

pub use compile::{EXAMPLE, compile, included};
pub use headers::{GIVEN_HEADER, HEADER, KERNEL_HEADER, KERNEL_TASKS_HEADER};
pub use lock::CLocks;
pub use mechanism::CMechanism;
pub use program::Program;
