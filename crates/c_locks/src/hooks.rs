//! The functions that compiled C code calls: those of ThreadSanitizer, those of knee's headers, and a few of the C
//! library.

use engines::Unsupported;

use crate::decoded;
use crate::x86;

/// What a call means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hook {
    /// Nothing.
    Nothing,
    /// The next instruction is about to access memory.
    Access,
    /// A volatile access of this many bytes is about to happen.
    VolatileRead(u8),
    VolatileWrite(u8),
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
    /// `smp_rmb()` and `smp_wmb()`.
    FenceLoads,
    FenceStores,
    /// The address of a thread-local variable.
    ThreadLocal,
    /// The address of another task's thread-local variable: `knee_of_cpu(pointer, cpu)`.
    OfCpu,
    /// The number of the task's CPU, and its memory node.
    Cpu,
    Node,
    /// How many tasks there are, each with a CPU of its own.
    Cpus,
    /// The task has its position in the queue.
    Arrive,
    /// A number below another: `knee_choose(below)`.
    Choose,
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
    /// An instruction that ends the program, as of `__builtin_trap`.
    Trap,
    /// Where the code goes when the processor has refused one of its instructions.
    Trapped,
    /// Before a call by a pointer, which may lead to no function.
    PointerCall,
    Bytes(BytesFunction),
    Heap(HeapFunction),
    /// Something that only an exception on its way calls, or uses.
    Exception,
    /// An atomic access of 16 bytes begins, and ends: `knee_wide_begin(pointer)`.
    BeginWide,
    EndWide,
    /// An instruction of inline assembly, by its number.
    Instruction(usize),
}

/// A function of `<string.h>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BytesFunction {
    Memset,
    Memcpy,
    /// The source may overlap the destination.
    Memmove,
    Memcmp,
    Memchr,
    Strlen,
    Strnlen,
    Strcmp,
    Strncmp,
    Strcpy,
    Strncpy,
}

/// A function that allocates or frees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapFunction {
    Malloc,
    /// `operator new`: bytes and alignment.
    New,
    Calloc,
    Realloc,
    /// Alignment and bytes.
    Aligned,
    PosixMemalign,
    Free,
}

impl HeapFunction {
    fn named(symbol: &str) -> Option<HeapFunction> {
        Some(match symbol {
            "malloc"
            | "valloc"
            | "_Znwm"
            | "_Znam"
            | "_ZnwmRKSt9nothrow_t"
            | "_ZnamRKSt9nothrow_t" => HeapFunction::Malloc,
            "calloc" => HeapFunction::Calloc,
            "realloc" => HeapFunction::Realloc,
            "aligned_alloc" | "memalign" => HeapFunction::Aligned,
            "posix_memalign" => HeapFunction::PosixMemalign,
            "free" | "cfree" => HeapFunction::Free,
            _ if symbol.starts_with("_ZnwmSt11align_val_t")
                || symbol.starts_with("_ZnamSt11align_val_t") =>
            {
                HeapFunction::New
            }
            _ if symbol.starts_with("_ZdlPv") || symbol.starts_with("_ZdaPv") => HeapFunction::Free,
            _ => return None,
        })
    }

    fn arguments(self) -> usize {
        match self {
            HeapFunction::Malloc | HeapFunction::Free => 1,
            HeapFunction::PosixMemalign => 3,
            _ => 2,
        }
    }
}

/// Whether it is a stream for output, or writes to one: a function of these returns the stream.
fn is_of_streams(symbol: &str) -> bool {
    const STARTS: [&str; 9] = [
        "_ZSt4cout",
        "_ZSt4cerr",
        "_ZSt4clog",
        "_ZSt4endl",
        "_ZSt5flush",
        "_ZStls",
        "_ZNSolsE",
        "_ZNSo",
        "_ZSt16__ostream_insert",
    ];
    STARTS.iter().any(|start| symbol.starts_with(start))
}

/// Whether only code that throws, or that an exception passes, uses this symbol.
fn is_of_exceptions(symbol: &str) -> bool {
    const STARTS: [&str; 6] =
        ["__cxa_", "_Unwind_", "_ZTI", "_ZTV", "__gxx_personality", "_ZSt9terminate"];
    const TYPES: [&str; 13] = [
        "9exception",
        "9bad_alloc",
        "11logic_error",
        "13runtime_error",
        "16invalid_argument",
        "12out_of_range",
        "12length_error",
        "12domain_error",
        "11range_error",
        "14overflow_error",
        "15underflow_error",
        "12system_error",
        "12bad_function_call",
    ];
    STARTS.iter().any(|start| symbol.starts_with(start))
        || symbol.starts_with("_ZSt") && symbol.contains("__throw_")
        || symbol
            .strip_prefix("_ZNSt")
            .or(symbol.strip_prefix("_ZNKSt"))
            .is_some_and(|rest| TYPES.iter().any(|name| rest.starts_with(name)))
}

impl BytesFunction {
    fn named(symbol: &str) -> Option<BytesFunction> {
        Some(match symbol {
            "memset" | "__tsan_memset" => BytesFunction::Memset,
            "memcpy" | "__tsan_memcpy" => BytesFunction::Memcpy,
            "memmove" | "__tsan_memmove" => BytesFunction::Memmove,
            "memcmp" | "bcmp" => BytesFunction::Memcmp,
            "memchr" => BytesFunction::Memchr,
            "strlen" => BytesFunction::Strlen,
            "strnlen" => BytesFunction::Strnlen,
            "strcmp" => BytesFunction::Strcmp,
            "strncmp" => BytesFunction::Strncmp,
            "strcpy" => BytesFunction::Strcpy,
            "strncpy" => BytesFunction::Strncpy,
            _ => return None,
        })
    }
}

impl Hook {
    /// The hook of this symbol, if there is one.
    pub fn named(symbol: &str) -> Option<Hook> {
        Some(match symbol {
            "__tsan_init" | "__tsan_func_entry" | "__tsan_func_exit" | "__tsan_vptr_update"
            | "__tsan_vptr_read" => Hook::Nothing,
            "__tsan_atomic_signal_fence" => Hook::Nothing,
            "__tsan_atomic_thread_fence" => Hook::Fence,
            "knee_fence_loads" => Hook::FenceLoads,
            "knee_fence_stores" => Hook::FenceStores,
            decoded::FUNCTION => Hook::Access,
            "knee_trap" => Hook::Trap,
            "knee_pointer_call" => Hook::PointerCall,
            "__tls_get_addr" => Hook::ThreadLocal,
            "knee_of_cpu" => Hook::OfCpu,
            "knee_cpu" => Hook::Cpu,
            "knee_node" => Hook::Node,
            "knee_cpus" => Hook::Cpus,
            "knee_arrive" => Hook::Arrive,
            "knee_choose" => Hook::Choose,
            "knee_park" => Hook::Park,
            "knee_wake" => Hook::Wake,
            "knee_operations" => Hook::Operations,
            "knee_wide_begin" => Hook::BeginWide,
            "knee_wide_end" => Hook::EndWide,
            // Flags of floating-point numbers, which no code of a lock asks for.
            "__atomic_feraiseexcept" => Hook::Nothing,
            // A task that waits is not run, and output goes nowhere.
            "sched_yield" | "thrd_yield" | "pthread_yield" | "poll" | "sleep" | "usleep"
            | "nanosleep" | "clock_nanosleep" | "stderr" | "stdout" | "perror" | "printf"
            | "fprintf" | "vprintf" | "vfprintf" | "puts" | "fputs" | "fputc" | "putc"
            | "putchar" | "fwrite" | "fflush" => Hook::Nothing,
            "syscall" => Hook::Syscall,
            "pthread_self" | "gettid" => Hook::Thread,
            "sched_getcpu" => Hook::Cpu,
            "_ZNSt6thread20hardware_concurrencyEv" | "get_nprocs" => Hook::Cpus,
            "__errno_location" => Hook::Errno,
            "exit" | "_exit" => Hook::Exit,
            "__assert_fail" => Hook::AssertFail,
            "abort" | "_ZSt9terminatev" => Hook::Abort,
            // What ends with the program, which no search comes to.
            "_ZNSt8ios_base4InitC1Ev" | "_ZNSt8ios_base4InitD1Ev" => Hook::Nothing,
            "__dso_handle" | "__cxa_atexit" | "__cxa_thread_atexit" | "atexit" => Hook::Nothing,
            _ => {
                if let Some(function) = HeapFunction::named(symbol) {
                    return Some(Hook::Heap(function));
                }
                if is_of_streams(symbol) {
                    return Some(Hook::Nothing);
                }
                if is_of_exceptions(symbol) {
                    return Some(Hook::Exception);
                }
                if let Some(function) = BytesFunction::named(symbol) {
                    return Some(Hook::Bytes(function));
                }
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
        let name = name.strip_prefix("volatile_")?;
        let size = name.strip_prefix("write").or(name.strip_prefix("read"))?.parse().ok()?;
        let is_word = [1, 2, 4, 8].contains(&size);
        let writes = name.starts_with("write");
        is_word.then_some(if writes { Hook::VolatileWrite(size) } else { Hook::VolatileRead(size) })
    }

    /// Whether its call leaves all registers as they are: the compiler knows of no call there.
    pub fn keeps_registers(self) -> bool {
        matches!(
            self,
            Hook::Instruction(_) | Hook::Access | Hook::Trap | Hook::Trapped | Hook::PointerCall
        )
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
                | Hook::FenceLoads
                | Hook::FenceStores
                | Hook::Instruction(_)
        )
    }

    /// How many arguments decide what the call does; other registers hold anything.
    pub fn arguments(self) -> usize {
        match self {
            Hook::Nothing
            | Hook::FenceLoads
            | Hook::FenceStores
            | Hook::Cpu
            | Hook::Node
            | Hook::Cpus
            | Hook::Arrive
            | Hook::Thread
            | Hook::Errno
            | Hook::Operations
            | Hook::Exit
            | Hook::Exception
            | Hook::EndWide
            | Hook::Abort => 0,
            Hook::VolatileRead(_)
            | Hook::VolatileWrite(_)
            | Hook::Fence
            | Hook::ThreadLocal
            | Hook::Choose
            | Hook::BeginWide
            | Hook::Bytes(BytesFunction::Strlen) => 1,
            Hook::Load(_)
            | Hook::OfCpu
            | Hook::Bytes(BytesFunction::Strnlen | BytesFunction::Strcmp | BytesFunction::Strcpy)
            | Hook::Park
            | Hook::Wake => 2,
            Hook::CompareExchange(_) | Hook::CompareExchangeValue(_) => 4,
            Hook::Syscall => 5,
            Hook::Heap(function) => function.arguments(),
            _ => 3,
        }
    }
}

/// Why a symbol that no hook has cannot be called. `at` is where it is used first.
pub fn missing(symbol: &str, at: &str) -> Unsupported {
    let calls = format!("{at}it calls {symbol}");
    match symbol {
        "pthread_create" | "pthread_join" | "pthread_detach" | "thrd_create" | "thrd_join" => {
            Unsupported::new(format!("{calls}: {THREADS}"), AS_TASKS)
        }
        _ if symbol.starts_with("_ZNSt6thread") => {
            Unsupported::new(format!("{at}it makes a std::thread: {THREADS}"), AS_TASKS)
        }
        "fork" | "vfork" | "clone" | "clone3" | "posix_spawn" | "system" | "popen" => {
            Unsupported::new(format!("{calls}, which starts a process: {THREADS}"), AS_TASKS)
        }
        "setjmp" | "_setjmp" | "__sigsetjmp" | "longjmp" | "_longjmp" | "siglongjmp" => {
            Unsupported::new(
                format!("{calls}: a search follows no jumps from one function into another"),
                "let the functions return",
            )
        }
        "signal" | "sigaction" | "raise" | "kill" | "tgkill" | "pthread_kill" | "alarm"
        | "setitimer" | "sigwait" | "pause" => Unsupported::new(
            format!("{calls}: a search has no signals"),
            "leave the call out of what is checked; what the handler does can be a task's",
        ),
        _ if symbol.starts_with("_ZNSt6chrono") && symbol.ends_with("3nowEv") => Unsupported::new(
            format!(
                "{at}it asks a clock of std::chrono, which gives another value each time, and a search repeats its steps"
            ),
            "let the file do without it",
        ),
        _ if symbol.starts_with("pthread_") => Unsupported::new(
            format!(
                "{calls}, which a search has not (knee show knee_given.h lists those that it has)"
            ),
            "include a lock of your own instead, made of atomics and a futex (or knee_park and knee_wake of <knee_lock.h>)",
        ),
        "assert" => Unsupported::new(calls, "put #include <assert.h> before what uses it"),
        "clock" | "clock_gettime" | "gettimeofday" | "time" | "rand" | "random" | "rand_r"
        | "getrandom" => Unsupported::new(
            format!("{calls}, which gives another value each time, and a search repeats its steps"),
            "let the file do without it",
        ),
        _ if symbol.starts_with("__tsan_volatile")
            || symbol.starts_with("__tsan_unaligned_volatile") =>
        {
            Unsupported::new(
                format!("{at}it has a volatile access to other than 1, 2, 4 or 8 bytes: {symbol}"),
                "make its parts volatile words",
            )
        }
        _ if is_of_16_bytes(symbol) => Unsupported::new(
            format!(
                "{at}it uses an atomic access of 16 bytes ({symbol}), and a search has at most 8"
            ),
            PACK_HALVES,
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

const THREADS: &str = "the tasks of a check are its threads";
const AS_TASKS: &str = "put what each thread does into KNEE_OPERATION (knee_cpu() says which it is), and ask for --threads";

/// What to do without atomic accesses of 16 bytes.
pub const PACK_HALVES: &str = "pack both halves into 8 bytes for the check: an index of 32 bits instead of a pointer, and a tag of 32 bits";

/// Whether it is a function of the compiler's library or of ThreadSanitizer for atomic accesses of 16 bytes.
fn is_of_16_bytes(symbol: &str) -> bool {
    let is_library = symbol.starts_with("__atomic_") || symbol.starts_with("__sync_");
    symbol.starts_with("__tsan_atomic128_") || is_library && symbol.ends_with("_16")
}

/// Why instructions of inline assembly, and others that the compiler chose, cannot be checked. Each line says where one is.
pub fn unseen(lines: &[&str]) -> Unsupported {
    const VARYING: [&str; 6] = ["rdtsc", "rdrand", "rdseed", "cpuid", "rdpid", "rdpmc"];
    let is_varying = |line: &&str| VARYING.iter().any(|name| line.contains(name));
    let (why, way_out) = if lines.iter().any(|line| line.contains("cmpxchg16b")) {
        ("it uses atomic accesses of 16 bytes, and a search has at most 8", PACK_HALVES)
    } else if lines.iter().all(is_varying) {
        (
            "these give another value each time, and a search repeats its steps",
            "let the file do without: knee_cpu() and knee_node() of <knee_lock.h> say where a task is",
        )
    } else {
        (
            "the checker would not see these accesses",
            "use the atomics of <stdatomic.h>, or the kernel's with #include <knee_kernel.h>",
        )
    };
    Unsupported::new(format!("{why}:\n  {}", lines.join("\n  ")), way_out)
}

#[cfg(test)]
mod tests {
    use super::{BytesFunction, HeapFunction, Hook, is_of_16_bytes, unseen};

    #[test]
    fn what_cannot_be_checked_has_a_way_out_of_its_own() {
        for (lines, why, way_out) in [
            (&["a.c:1: rdtsc", "a.c:2: lock; cmpxchg16b (%rdi)"][..], "16 bytes", "32 bits"),
            (&["a.c:1: rdtscp"], "another value each time", "knee_node()"),
            (&["a.c:1: rdtsc", "a.c:2: rcll $1, (%rdi)"], "not see", "<stdatomic.h>"),
        ] {
            let said = unseen(lines);
            assert!(said.why.contains(why) && said.way_out.contains(way_out), "{said}");
        }
        for (symbol, is_it) in [
            ("__atomic_compare_exchange_16", true),
            ("__sync_val_compare_and_swap_16", true),
            ("__tsan_atomic128_fetch_add", true),
            ("__atomic_load_8", false),
            ("lock_16", false),
        ] {
            assert_eq!(is_of_16_bytes(symbol), is_it, "{symbol}");
        }
    }

    #[test]
    fn symbols_have_their_meaning() {
        for (symbol, hook) in [
            ("knee_access", Some(Hook::Access)),
            ("__tsan_volatile_write16", None),
            ("__tsan_volatile_write2", Some(Hook::VolatileWrite(2))),
            ("__tsan_unaligned_volatile_read4", Some(Hook::VolatileRead(4))),
            ("__tsan_atomic16_exchange", Some(Hook::Swap(2))),
            ("__tsan_atomic128_load", None),
            ("__tsan_atomic32_fetch_xor", Some(Hook::Xor(4))),
            ("__tsan_atomic32_fetch_nand", None),
            ("malloc", Some(Hook::Heap(HeapFunction::Malloc))),
            ("_ZdlPvmSt11align_val_t", Some(Hook::Heap(HeapFunction::Free))),
            ("_ZSt20__throw_system_errori", Some(Hook::Exception)),
            ("_ZNSt16invalid_argumentC1EPKc", Some(Hook::Exception)),
            ("_ZNSt6thread4joinEv", None),
            // clang 17 and newer call these, older ones the plain ones.
            ("__tsan_memcpy", Some(Hook::Bytes(BytesFunction::Memcpy))),
            ("__tsan_memset", Some(Hook::Bytes(BytesFunction::Memset))),
            ("__tsan_memmove", Some(Hook::Bytes(BytesFunction::Memmove))),
        ] {
            assert_eq!(Hook::named(symbol), hook, "{symbol}");
        }
    }
}
