//! Where a program waits and what for, by the functions on its stack: those of the C library, of the standard libraries
//! of C++ and Rust, and of runtimes say which kind of lock it is; the first other function is the place.

use records::live::{LockPlace, Trace, TracedFunction, TracedStack, TracedWait, WaitKind};

use crate::java_locks::{self, JavaWait};
use crate::objects::is_c_library;
use crate::python;

/// How many callers of a place are kept.
const CALLERS: usize = 3;

/// The library that is Java's virtual machine, and what methods that it executes are told to be of.
const JVM: &str = "libjvm.so";
const METHODS: &str = "[runtime]";

/// Names, or beginnings of names, of functions that are part of locks.
const PARTS_OF_LOCKS: &[&str] = &[
    "__lll_",
    "__GI___lll",
    "lll_",
    "__futex",
    "futex_",
    "futex",
    "__pthread",
    "___pthread",
    "pthread_",
    "__GI_",
    "__new_sem",
    "new_sem",
    "sem_",
    "do_futex",
    "__sem",
    "syscall",
    "__gthread",
    "std::mutex",
    "std::lock_guard",
    "std::unique_lock",
    "std::shared_",
    "std::scoped_lock",
    "std::timed_mutex",
    "std::recursive_",
    "std::__shared",
    "std::condition_variable",
    "std::sys::",
    "std::sync::",
    "std::thread",
    "parking_lot",
    "lock_api",
    "crossbeam_channel",
    "<parking_lot",
    "<lock_api",
    "core::",
    "alloc::",
    "<std::",
    "<core::",
    "<alloc::",
    "absl::",
    "mtx_",
    "cnd_",
    "thrd_join",
    "runtime.futex",
    "runtime.lock",
    "runtime.unlock",
    "runtime.note",
    "runtime.mcall",
    "runtime.gopark",
    "runtime.stopm",
    "internal/runtime",
    "runtime.semasleep",
    "runtime.semawakeup",
    "__clone",
    "clone",
    "start_thread",
    "PyThread_",
    "PyMUTEX_",
    "PyCOND_",
    "_PyMutex",
    "PyMutex",
    "_PySemaphore",
    "_queue_SimpleQueue",
    "simplequeue_",
    "_PyParkingLot",
    "take_gil",
    "drop_gil",
    "PyEval_RestoreThread",
    "PyEval_SaveThread",
    "PyEval_AcquireThread",
    "_PyEval_AcquireLock",
    "_PyEval_SetSwitchInterval",
    "os::PlatformMonitor",
    "os::PlatformEvent",
    "PlatformEvent",
    "PlatformMonitor",
    "Monitor::",
    "Mutex::",
    "PlatformMutex",
    "MonitorLocker",
    "MutexLocker",
    "ObjectMonitor::",
    "Parker::",
    "PosixSemaphore",
    "ObjectSynchronizer::",
    "SharedRuntime::monitor_enter",
    "SharedRuntime::complete_monitor",
    "InterpreterRuntime::monitor",
    "runtime.sem",
    "runtime.ready",
    "sync.",
    "internal/sync.",
    "internal/poll.runtime_Sem",
    "try_to_wake_up",
    // PostgreSQL, src/backend/storage/lmgr: a process waits for a light-weight lock at a semaphore of its own, and for one on
    // rows or tables until its latch is set (src/backend/storage/ipc/latch.c).
    "PGSemaphore",
    "LWLock",
    "epoll_wait",
    "WaitEventSetWait",
    "WaitLatch",
    "ProcSleep",
    "WaitOnLock",
    "LockAcquire",
    "LockTuple",
    "LockRelation",
    "XactLockTable",
    "heap_acquire_tuplock",
    "heap_lock_tuple",
    "kill",
    "SetLatch",
    "sendSelfPipe",
    "ProcWakeup",
    "ProcLockWakeup",
    "CleanUpLock",
    "LockRefindAndRelease",
    "LockRelease",
    "ProcReleaseLocks",
    "ResourceOwnerRelease",
];

/// Whether a stack waits for a lock of PostgreSQL on rows or tables.
pub fn is_database_lock(frames: &[&TracedFunction]) -> bool {
    frames.iter().any(|function| function.name == "ProcSleep")
}

/// What such a lock is on, by the functions that take it (src/backend/storage/lmgr/lmgr.c).
pub fn database_lock(frames: &[&TracedFunction]) -> &'static str {
    let has = |part: &str| frames.iter().any(|function| function.name.starts_with(part));
    match () {
        () if has("XactLockTableWait") || has("LockTuple") => "row lock",
        () if has("LockRelation") => "table lock",
        () => "database lock",
    }
}

/// What the lock of a memory allocator is called.
pub const ALLOCATOR_LOCK: &str = "the memory allocator's lock";

/// Functions of memory allocators.
const ALLOCATORS: &[&str] = &[
    "malloc",
    "free",
    "calloc",
    "realloc",
    "memalign",
    "posix_memalign",
    "aligned_alloc",
    "cfree",
    "_int_malloc",
    "_int_free",
    "_int_realloc",
    "__libc_malloc",
    "__libc_free",
    "__libc_calloc",
    "__libc_realloc",
    "arena_get",
    "arena_get2",
    "tcache_",
    "sysmalloc",
    "systrim",
    "malloc_consolidate",
    "operator new",
    "operator delete",
    "je_",
    "tc_malloc",
    "mi_malloc",
    "mi_free",
    "__rust_alloc",
    "__rdl_alloc",
    "_Znwm",
    "_Zn",
    "_ZdlPv",
    "__rust_dealloc",
    "__rdl_dealloc",
];

/// The kernel's functions that are part of waiting.
const PARTS_OF_KERNEL_WAITING: &[&str] = &[
    "try_to_wake_up",
    "wake_up",
    "__wake_up",
    "autoremove_wake",
    "default_wake",
    "bpf_",
    "__bpf",
    "__traceiter",
    "trace_",
    "__schedule",
    "schedule",
    "preempt_schedule",
    "io_schedule",
    "rwsem_",
    "down_",
    "__down",
    "up_",
    "__up",
    "mutex_",
    "__mutex",
    "rt_mutex",
    "percpu_",
    "__percpu",
    "_raw_",
    "__raw_",
    "raw_spin",
    "queued_",
    "native_queued",
    "__pv_",
    "pv_",
    "osq_lock",
    "ww_mutex",
    "wait_for_completion",
    "__wait_for_common",
    "bit_wait",
    "out_of_line_wait",
    "__wait_on_bit",
    "folio_wait",
    "do_raw",
    "__x64_sys",
];

/// The frames of a stack that belong to the program.
pub fn user_frames<'t>(trace: &'t Trace, stack: &TracedStack) -> Vec<&'t TracedFunction> {
    functions(trace, &stack.frames[(stack.kernel as usize).min(stack.frames.len())..])
}

/// The frames of a stack in the kernel.
pub fn kernel_frames<'t>(trace: &'t Trace, stack: &TracedStack) -> Vec<&'t TracedFunction> {
    functions(trace, &stack.frames[..(stack.kernel as usize).min(stack.frames.len())])
}

fn functions<'t>(trace: &'t Trace, frames: &[u32]) -> Vec<&'t TracedFunction> {
    frames.iter().filter_map(|frame| trace.functions.get(*frame as usize)).collect()
}

/// Whether a stack waits at a queue for what other threads put there: at channels of Rust, which all threads of a pool may take
/// from with one lock.
pub fn waits_for_work(frames: &[&TracedFunction]) -> bool {
    const QUEUES: [&str; 3] = ["sync::mpsc::", "sync::mpmc::", "crossbeam_channel::"];
    frames.iter().take_while(|function| is_part_of_lock(function)).any(|function| {
        let name = &function.name;
        name.contains("recv") && QUEUES.iter().any(|queue| name.contains(queue))
    })
}

/// Whether a stack waits at a condition variable, for whose time its mutex is given back.
pub fn waits_at_condition_variable(frames: &[&TracedFunction]) -> bool {
    const WORDS: [&str; 6] =
        ["cond_wait", "cond_timedwait", "cond_clockwait", "condition_variable", "Condvar", "cnd_"];
    let lock = lock_of(frames);
    let has = |word: &&str| lock.iter().any(|name| name.contains(*word));
    WORDS.iter().any(has)
}

/// Parts of names of functions that show what is waited for; the first that is found counts.
const KINDS: [(WaitKind, &[&str]); 10] = [
    (WaitKind::Mutex, &["LWLock"]),
    // Go: a goroutine that waits is parked, whatever it waits for. A read-write lock has a mutex inside.
    (WaitKind::ReadWriteLock, &["sync.(*RWMutex)"]),
    (WaitKind::Mutex, &["sync.(*Mutex)", "poll.(*fdMutex)"]),
    // HotSpot: its monitors (src/hotspot/share/runtime/objectMonitor.cpp), of which Object.wait() is none, and the
    // semaphores at which its own threads wait for work and for safepoints.
    (
        WaitKind::Mutex,
        &["ObjectMonitor::enter", "ObjectMonitor::EnterI", "ObjectMonitor::ReenterI"],
    ),
    (WaitKind::Condition, &["PosixSemaphore", "ObjectMonitor::wait"]),
    (
        WaitKind::Condition,
        &[
            "cond_wait",
            "WaitGroup",
            "sync.(*Cond)",
            "cond_timedwait",
            "cond_clockwait",
            "condition_variable",
            "_queue_SimpleQueue",
            "simplequeue_",
            "Condvar",
            "cnd_",
        ],
    ),
    (
        WaitKind::Condition,
        &[
            "join",
            "barrier",
            "thread::park",
            "Thread>::park",
            "std::thread",
            "runtime.note",
            "stopm",
            "gopark",
        ],
    ),
    (
        WaitKind::ReadWriteLock,
        &["rwlock", "RwLock", "RWMutex", "shared_mutex", "shared_timed_mutex", "rw_lock"],
    ),
    (WaitKind::Semaphore, &["sem_wait", "sem_timedwait", "sem_clockwait", "Semaphore"]),
    (
        WaitKind::Mutex,
        &[
            "mutex",
            "Mutex",
            "MUTEX",
            "lll_lock",
            "lll_timedlock",
            "mtx_lock",
            "PyThread_acquire_lock",
        ],
    ),
];

/// What a program's stack waits for; `None` if the stack does not tell.
pub fn kind_by_stack(frames: &[&TracedFunction]) -> Option<WaitKind> {
    if let Some(kind) = python::kind(frames) {
        return Some(kind);
    }
    let lock = lock_of(frames);
    let has = |words: &[&str]| lock.iter().any(|name| words.iter().any(|word| name.contains(word)));
    let place = frames.get(lock.len());
    if let Some(wait) = java_locks::wait(&lock) {
        return Some(wait.kind());
    }
    if has(&["take_gil"]) || frames.iter().take(lock.len() + 1).any(|f| f.name == "take_gil") {
        return Some(WaitKind::Interpreter);
    }
    if place.is_some_and(|function| is_allocator(function)) {
        return Some(WaitKind::Allocator);
    }
    let known = KINDS.iter().find(|(_, words)| has(words)).map(|(kind, _)| *kind);
    known.or_else(|| has(&["runtime.lock"]).then_some(WaitKind::Futex))
}

/// What a thread of Java waits for.
pub fn java_wait(frames: &[&TracedFunction]) -> Option<JavaWait> {
    java_locks::wait(&lock_of(frames))
}

/// Whether a thread of Java waits for a read-write lock to write; `None` if it waits for none.
pub fn java_writes(frames: &[&TracedFunction]) -> Option<bool> {
    java_locks::writes(&lock_of(frames))
}

/// The innermost functions of a stack that are part of a lock.
fn lock_of<'t>(frames: &[&'t TracedFunction]) -> Vec<&'t str> {
    let is_part = part_of_lock(frames);
    frames.iter().take_while(|f| is_part(f)).map(|function| function.name.as_str()).collect()
}

/// What a wait at a futex is for, by the values that libraries use, where no stack tells.
///
/// The C library's mutexes wait by FUTEX_WAIT for a word of 2, its conditions, semaphores and read-write locks by
/// FUTEX_WAIT_BITSET (glibc 2.25 to 2.40, nptl/lowlevellock.h and sysdeps/nptl/futex-internal.c); so do Rust's mutexes, with
/// a word of 2 (library/std/src/sys/sync/mutex/futex.rs). Priority inheritance is for mutexes alone: futex(2).
pub fn kind_by_values(wait: &TracedWait) -> WaitKind {
    const COMMAND: u64 = 127;
    const FUTEX_LOCK_PI: u64 = 6;
    const FUTEX_LOCK_PI2: u64 = 13;
    match wait.arguments[1] & COMMAND {
        FUTEX_LOCK_PI | FUTEX_LOCK_PI2 => WaitKind::Mutex,
        _ if wait.words[0] == 2 => WaitKind::Mutex,
        _ => WaitKind::Condition,
    }
}

/// The place in the program: the first function with a name that is no part of a lock, with its callers.
pub fn place(frames: &[&TracedFunction]) -> Option<LockPlace> {
    let is_of_lock = part_of_lock(frames);
    let has_python = frames.iter().any(|function| python::is_python(function));
    // What a Python function does by the C library, it does itself.
    let is_of_interpreter =
        |f: &TracedFunction| has_python && (python::is_interpreter(f) || is_c_library(&f.object));
    let is_part = |function: &&&TracedFunction| {
        is_of_lock(function)
            || is_allocator(function)
            || !function.is_named
            || is_of_interpreter(function)
    };
    let lock = frames.iter().take_while(is_part).count();
    let first_of_program = || {
        let is_its = |f: &&&TracedFunction| !is_of_lock(f) && !is_of_interpreter(f);
        let mut python = frames.iter().filter(|function| python::is_python(function));
        frames.iter().find(is_its).or(python.next()).or(frames.last())
    };
    let at = frames.get(lock).filter(|at| !is_start(at)).or_else(first_of_program)?;
    let callers = frames.iter().skip(lock + 1).filter(|function| !is_of_interpreter(function));
    let callers = callers.take_while(|f| !is_start(f)).map(|f| f.name.clone());
    let callers = callers.take(CALLERS).collect();
    Some(LockPlace { function: at.name.clone(), callers, times: 0, ns: 0 })
}

/// The place in the program; `None` where the stack shows nothing but a lock, as one that was not walked further.
pub fn place_outside_lock(frames: &[&TracedFunction]) -> Option<LockPlace> {
    let place = place(frames)?;
    let is_lock =
        |function: &&TracedFunction| function.name == place.function && is_part_of_lock(function);
    (!frames.iter().any(is_lock)).then_some(place)
}

/// The first function of the kernel that is no part of waiting.
pub fn kernel_place(frames: &[&TracedFunction]) -> Option<String> {
    frames
        .iter()
        .map(|function| function.name.as_str())
        .find(|name| !is_part_of_kernel_waiting(name))
        .map(str::to_string)
}

/// Where a CPU spins for a lock of the kernel, by a stack with the kernel's functions marked: the function that wants it.
pub fn spins_in(stack: &[String]) -> Option<&str> {
    const SPINNING: [&str; 5] = [
        "mutex_spin_on_owner",
        "rwsem_spin_on_owner",
        "osq_lock",
        "native_queued_spin_lock_slowpath",
        "__pv_queued_spin_lock_slowpath",
    ];
    let mut kernel = stack.iter().map_while(|name| name.strip_suffix("_[k]"));
    kernel.next().filter(|first| SPINNING.contains(first))?;
    kernel.find(|name| !is_part_of_kernel_waiting(name))
}

fn is_part_of_kernel_waiting(name: &str) -> bool {
    PARTS_OF_KERNEL_WAITING.iter().any(|part| name.starts_with(part))
}

/// Whether the kernel handles a page fault here.
pub fn is_page_fault(frames: &[&TracedFunction]) -> bool {
    const HANDLERS: [&str; 4] =
        ["exc_page_fault", "asm_exc_page_fault", "do_user_addr_fault", "do_page_fault"];
    frames.iter().any(|function| HANDLERS.contains(&function.name.as_str()))
}

/// Where threads begin.
fn is_start(function: &TracedFunction) -> bool {
    const STARTS: [&str; 8] = [
        "start_thread",
        "clone",
        "clone3",
        "__clone3",
        "_start",
        "__libc_start_main",
        "__libc_start_call_main",
        "runtime.goexit",
    ];
    if python::is_python(function) {
        return python::is_start(function);
    }
    STARTS.iter().any(|start| function.name.starts_with(start))
}

/// Whether a function of this stack is part of a lock. All that methods of Java call of their virtual machine is.
fn part_of_lock(frames: &[&TracedFunction]) -> impl Fn(&TracedFunction) -> bool {
    let has_methods = frames.iter().any(|function| function.object == METHODS);
    move |function| is_part_of_lock(function) || (has_methods && function.object == JVM)
}

/// The C library's functions that lock files.
const LOCKS_OF_FILES: [&str; 5] = ["flock", "fcntl", "fcntl64", "lockf", "lockf64"];

fn is_part_of_lock(function: &TracedFunction) -> bool {
    if python::is_python(function) {
        return python::is_part_of_lock(function);
    }
    // The compiler puts what a thread runs into the function of Rust's library that starts it.
    let is_program = function.name.contains("::__rust_begin_short_backtrace");
    is_unnamed_library(function)
        || LOCKS_OF_FILES.contains(&function.name.as_str())
        || java_locks::is_part(&function.name)
        || (PARTS_OF_LOCKS.iter().any(|part| function.name.starts_with(part)) && !is_program)
}

/// Whether this is code of the C library or of Java's virtual machine that no symbol names: distributions strip all but
/// exported ones.
fn is_unnamed_library(function: &TracedFunction) -> bool {
    let is_library = is_c_library(&function.object) || function.object == JVM;
    !function.is_named && is_library
}

fn is_allocator(function: &TracedFunction) -> bool {
    let name = function.name.as_str();
    !python::is_python(function) && is_of_allocator(name)
}

/// Whether a function of this name is a memory allocator's.
pub fn is_of_allocator(name: &str) -> bool {
    ALLOCATORS.iter().any(|part| name == *part || (part.ends_with('_') && name.starts_with(part)))
        || name.starts_with("operator new")
        || name.starts_with("operator delete")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(names: &[&str], kind: Option<WaitKind>, at: &str) {
        let function = |name: &&str| {
            let (name, object) = name.split_once('@').unwrap_or((name, "server"));
            let is_named = !name.contains("+0x");
            TracedFunction { name: name.to_string(), object: object.to_string(), is_named }
        };
        let functions: Vec<TracedFunction> = names.iter().map(function).collect();
        let frames: Vec<&TracedFunction> = functions.iter().collect();
        assert_eq!(kind_by_stack(&frames), kind, "{names:?}");
        assert_eq!(place(&frames).map(|place| place.function).as_deref(), Some(at), "{names:?}");
    }

    #[test]
    fn the_functions_of_a_lock_say_its_kind_and_the_first_other_is_the_place() {
        let lll = "libc.so.6+0x8612b@libc.so.6";
        let mutex = Some(WaitKind::Mutex);
        check(&[lll, "pthread_mutex_lock@libc.so.6", "settle", "serve"], mutex, "settle");
        check(&["__lll_lock_wait@libc.so.6", "pthread_mutex_lock@libc.so.6", "f"], mutex, "f");
        check(&["std::sys::sync::mutex::futex::Mutex::lock_contended", "work"], mutex, "work");
        let condition = Some(WaitKind::Condition);
        check(&[lll, "pthread_cond_wait@libc.so.6", "next_job"], condition, "next_job");
        let rwlock = Some(WaitKind::ReadWriteLock);
        check(&[lll, "pthread_rwlock_wrlock@libc.so.6", "put"], rwlock, "put");
        let allocator = Some(WaitKind::Allocator);
        check(&[lll, lll, "malloc@libc.so.6", "parse"], allocator, "parse");
        let interpreter = Some(WaitKind::Interpreter);
        check(
            &[lll, "pthread_cond_timedwait@libc.so.6", "take_gil", "PyEval_RestoreThread", "f"],
            interpreter,
            "f",
        );
        let queue = "_queue_SimpleQueue_get_impl";
        check(
            &["sem_clockwait@libc.so.6", "PyThread_acquire_lock_timed", queue, "f"],
            condition,
            "f",
        );
        let inlined = "std::sys::backtrace::__rust_begin_short_backtrace";
        check(&["std::sys::sync::mutex::futex::Mutex::lock_contended", inlined], mutex, inlined);
        check(&["serve"], None, "serve");
        let parked =
            ["pthread_cond_wait@libc.so.6", "Parker::park@libjvm.so", "Unsafe_Park@libjvm.so"];
        let methods =
            ["ReentrantLock.lock", "AbstractQueuedSynchronizer.acquire", "LockSupport.park"];
        let methods =
            methods.map(|method| format!("java.util.concurrent.locks.{method}@[runtime]"));
        let mut java: Vec<&str> = parked.to_vec();
        java.extend(methods.iter().rev().map(String::as_str));
        java.push("Cache.put@[runtime]");
        check(&java, mutex, "Cache.put");
        let enter = "Runtime1::monitorenter@libjvm.so";
        let enters = [parked[0], enter, "monitorenter@[runtime]", "Table.add@[runtime]"];
        check(&enters, mutex, "Table.add");
    }

    #[test]
    fn a_channel_that_is_received_from_waits_for_work() {
        let check = |channel: &str, expected: bool| {
            let function = |name: &str| TracedFunction {
                name: name.to_string(),
                object: String::new(),
                is_named: true,
            };
            let functions = ["std::sys::futex::futex_wait", channel, "serve"].map(function);
            let frames: Vec<&TracedFunction> = functions.iter().collect();
            assert_eq!(waits_for_work(&frames), expected, "{channel}");
        };
        check("std::sync::mpmc::array::Channel<T>::recv", true);
        check("std::sync::mpmc::array::Channel<T>::send", false);
        check("std::sync::Condvar::wait", false);
    }

    #[test]
    fn values_tell_mutexes_where_no_stack_does() {
        let wait = |op, word| TracedWait {
            arguments: [0, op],
            words: [word, 0, 0, 0, 0],
            ..TracedWait::default()
        };
        assert_eq!(kind_by_values(&wait(128, 2)), WaitKind::Mutex);
        assert_eq!(kind_by_values(&wait(128 | 6, 77)), WaitKind::Mutex);
        assert_eq!(kind_by_values(&wait(393, 0)), WaitKind::Condition);
    }
}
