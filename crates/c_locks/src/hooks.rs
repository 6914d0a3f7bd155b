//! The functions that compiled C code calls: those of ThreadSanitizer, those of knee's headers, and a few of the C
//! library.

use engines::Unsupported;

use crate::x86;

/// What a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Nothing.
    Nothing,
    /// A plain access of this many bytes is about to happen.
    Read(u8),
    Write(u8),
    /// A volatile access of this many bytes is about to happen.
    VolatileRead(u8),
    VolatileWrite(u8),
    /// Plain accesses to this many bytes: the second argument.
    ReadRange,
    WriteRange,
    Load(u8),
    Store(u8),
    Swap(u8),
    Add(u8),
    Sub(u8),
    Or(u8),
    And(u8),
    Xor(u8),
    /// Returns whether it wrote; updates the expected value if not.
    CompareExchange(u8),
    /// Returns the previous value.
    CompareExchangeValue(u8),
    Fence,
    /// The address of a thread-local variable.
    ThreadLocal,
    /// The address of another task's thread-local variable: `knee_of_cpu(pointer, cpu)`.
    OfCpu,
    /// The number of the task's CPU, and its memory node.
    Cpu,
    Node,
    /// The task has its position in the queue.
    Arrive,
    /// Sleeping and waking, as by futex.
    Park,
    Wake,
    /// `syscall`: a futex, or the thread's number.
    Syscall,
    /// A number of the thread that is not 0.
    Thread,
    /// The address of `errno`.
    Errno,
    /// How many operations all tasks did.
    Operations,
    /// `exit`.
    Exit,
    /// `__assert_fail`, `abort`.
    AssertFail,
    Abort,
    Memset,
    Memcpy,
    /// The source may overlap the destination.
    Memmove,
    /// An instruction of inline assembly, by its number.
    Instruction(usize),
}

impl Hook {
    /// The hook of this symbol, if there is one.
    pub fn named(symbol: &str) -> Option<Hook> {
        Some(match symbol {
            "__tsan_init" | "__tsan_func_entry" | "__tsan_func_exit" => Hook::Nothing,
            "__tsan_atomic_signal_fence" => Hook::Nothing,
            "__tsan_atomic_thread_fence" => Hook::Fence,
            "__tsan_read_range" => Hook::ReadRange,
            "__tsan_write_range" => Hook::WriteRange,
            "__tls_get_addr" => Hook::ThreadLocal,
            "knee_of_cpu" => Hook::OfCpu,
            "knee_cpu" => Hook::Cpu,
            "knee_node" => Hook::Node,
            "knee_arrive" => Hook::Arrive,
            "knee_park" => Hook::Park,
            "knee_wake" => Hook::Wake,
            "knee_operations" => Hook::Operations,
            // A task that waits is not run, and output goes nowhere.
            "sched_yield" | "thrd_yield" | "usleep" | "nanosleep" | "stderr" | "stdout"
            | "perror" | "printf" | "fprintf" | "puts" | "fputs" | "fputc" | "putchar"
            | "fwrite" | "fflush" => Hook::Nothing,
            "syscall" => Hook::Syscall,
            "pthread_self" | "gettid" => Hook::Thread,
            "sched_getcpu" => Hook::Cpu,
            "__errno_location" => Hook::Errno,
            "exit" | "_exit" => Hook::Exit,
            "__assert_fail" => Hook::AssertFail,
            "abort" => Hook::Abort,
            "memset" | "__tsan_memset" => Hook::Memset,
            "memcpy" | "__tsan_memcpy" => Hook::Memcpy,
            "memmove" | "__tsan_memmove" => Hook::Memmove,
            _ => {
                if let Some(number) = symbol.strip_prefix(x86::FUNCTION) {
                    return number.parse().ok().map(Hook::Instruction);
                }
                return Hook::sanitizer(symbol.strip_prefix("__tsan_")?);
            }
        })
    }

    fn sanitizer(name: &str) -> Option<Hook> {
        if let Some(atomic) = name.strip_prefix("atomic") {
            let (bits, operation) = atomic.split_once('_')?;
            let size = match bits {
                "8" => 1,
                "16" => 2,
                "32" => 4,
                "64" => 8,
                _ => return None,
            };
            return Some(match operation {
                "load" => Hook::Load(size),
                "store" => Hook::Store(size),
                "exchange" => Hook::Swap(size),
                "fetch_add" => Hook::Add(size),
                "fetch_sub" => Hook::Sub(size),
                "fetch_or" => Hook::Or(size),
                "fetch_and" => Hook::And(size),
                "fetch_xor" => Hook::Xor(size),
                "compare_exchange_strong" | "compare_exchange_weak" => Hook::CompareExchange(size),
                "compare_exchange_val" => Hook::CompareExchangeValue(size),
                _ => return None,
            });
        }
        let name = name.strip_prefix("unaligned_").unwrap_or(name);
        let (is_volatile, name) = match name.strip_prefix("volatile_") {
            Some(name) => (true, name),
            None => (false, name),
        };
        let writes = name.starts_with("write");
        let size = name.strip_prefix("write").or(name.strip_prefix("read"))?.parse().ok()?;
        Some(match (is_volatile, writes) {
            (false, false) => Hook::Read(size),
            (false, true) => Hook::Write(size),
            (true, false) => Hook::VolatileRead(size),
            (true, true) => Hook::VolatileWrite(size),
        })
    }

    /// Whether it is an access that several tasks may do at a time, or a fence.
    pub fn is_atomic(self) -> bool {
        matches!(
            self,
            Hook::VolatileRead(_)
                | Hook::VolatileWrite(_)
                | Hook::Load(_)
                | Hook::Store(_)
                | Hook::Swap(_)
                | Hook::Add(_)
                | Hook::Sub(_)
                | Hook::Or(_)
                | Hook::And(_)
                | Hook::Xor(_)
                | Hook::CompareExchange(_)
                | Hook::CompareExchangeValue(_)
                | Hook::Fence
                | Hook::Instruction(_)
        )
    }

    /// How many arguments decide what the call does; other registers hold anything.
    pub fn arguments(self) -> usize {
        match self {
            Hook::Nothing
            | Hook::Cpu
            | Hook::Node
            | Hook::Arrive
            | Hook::Thread
            | Hook::Errno
            | Hook::Operations
            | Hook::Exit
            | Hook::Abort => 0,
            Hook::Read(_)
            | Hook::Write(_)
            | Hook::VolatileRead(_)
            | Hook::VolatileWrite(_)
            | Hook::Fence
            | Hook::ThreadLocal => 1,
            Hook::ReadRange
            | Hook::WriteRange
            | Hook::Load(_)
            | Hook::OfCpu
            | Hook::Park
            | Hook::Wake => 2,
            Hook::CompareExchange(_) | Hook::CompareExchangeValue(_) => 4,
            Hook::Syscall => 5,
            _ => 3,
        }
    }
}

/// Why a symbol that no hook has cannot be called. `at` is where it is used first.
pub fn missing(symbol: &str, at: &str) -> Unsupported {
    let calls = format!("{at}it calls {symbol}");
    match symbol {
        "malloc" | "calloc" | "realloc" | "free" | "posix_memalign" | "aligned_alloc" => {
            Unsupported::new(
                format!("{calls}: a lock cannot allocate while it is checked"),
                "keep its memory in the lock's own type, in static variables, or in _Thread_local ones",
            )
        }
        _ if symbol.starts_with("pthread_") => Unsupported::new(
            format!("{calls}: a search does not see into locks of a library"),
            "include a lock of your own instead, made of atomics and a futex (or knee_park and knee_wake of <knee_lock.h>)",
        ),
        "__tsan_atomic128_load"
        | "__tsan_atomic128_store"
        | "__tsan_atomic128_compare_exchange_strong"
        | "__tsan_atomic128_compare_exchange_weak"
        | "__tsan_atomic128_compare_exchange_val" => Unsupported::new(
            format!(
                "{at}it uses an atomic access of 16 bytes ({symbol}), and a search has at most 8"
            ),
            "pack both halves into 8 bytes for the check: an index of 32 bits instead of a pointer, and a tag of 32 bits",
        ),
        _ if symbol.starts_with("__tsan_atomic") => Unsupported::new(
            format!("{at}it uses an atomic access that no machine of knee has: {symbol}"),
            "use a compare-exchange in a loop",
        ),
        _ => Unsupported::new(
            format!("{calls}, which is not defined in this file"),
            "include its source, or define what the lock needs of it",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::Hook;

    #[test]
    fn symbols_have_their_meaning() {
        for (symbol, hook) in [
            ("__tsan_read4", Some(Hook::Read(4))),
            ("__tsan_unaligned_write8", Some(Hook::Write(8))),
            ("__tsan_volatile_write2", Some(Hook::VolatileWrite(2))),
            ("__tsan_unaligned_volatile_read4", Some(Hook::VolatileRead(4))),
            ("__tsan_atomic16_exchange", Some(Hook::Swap(2))),
            ("__tsan_atomic128_load", None),
            ("__tsan_atomic32_fetch_xor", Some(Hook::Xor(4))),
            ("__tsan_atomic32_fetch_nand", None),
            ("malloc", None),
            // clang 17 and newer call these, older ones the plain ones.
            ("__tsan_memcpy", Some(Hook::Memcpy)),
            ("__tsan_memset", Some(Hook::Memset)),
            ("__tsan_memmove", Some(Hook::Memmove)),
        ] {
            assert_eq!(Hook::named(symbol), hook, "{symbol}");
        }
    }
}
