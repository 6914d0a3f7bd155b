//! Stacks of programs in Python: what CPython's locks and those of its standard library wait for, and where the program's own
//! functions are.

use records::live::{TracedFunction, WaitKind};

use crate::objects::is_c_library;

/// What stands before the path of a Python function's source in `TracedFunction::object`.
const SOURCE: &str = "py:";

/// Files of the standard library that are made of locks.
const FILES_OF_LOCKS: [&str; 8] = [
    "threading.py",
    "queue.py",
    "concurrent/futures/_base.py",
    "concurrent/futures/thread.py",
    "concurrent/futures/process.py",
    "multiprocessing/pool.py",
    "multiprocessing/queues.py",
    "multiprocessing/synchronize.py",
];

/// Functions that wait until another thread does something, though each waits at a lock (Lib/threading.py and so on).
const WAITS: [(&str, &str); 9] = [
    ("threading.py", "Condition.wait"),
    ("threading.py", "Thread.join"),
    ("threading.py", "Thread._wait_for_tstate_lock"),
    ("threading.py", "_shutdown"),
    ("concurrent/futures/thread.py", "_worker"),
    ("multiprocessing/synchronize.py", "Condition.wait"),
    ("multiprocessing/queues.py", "Queue.get"),
    ("multiprocessing/queues.py", "SimpleQueue.get"),
    ("multiprocessing/pool.py", "worker"),
];

/// Where threads begin.
const STARTS: [(&str, &str); 5] = [
    ("threading.py", "Thread.run"),
    ("threading.py", "Thread._bootstrap"),
    ("threading.py", "Thread._bootstrap_inner"),
    ("concurrent/futures/thread.py", "_WorkItem.run"),
    ("concurrent/futures/thread.py", "_worker"),
];

/// Whether this is a function in Python.
pub fn is_python(function: &TracedFunction) -> bool {
    function.object.starts_with(SOURCE)
}

/// Whether this is a Python function that is part of a lock.
pub fn is_part_of_lock(function: &TracedFunction) -> bool {
    library_file(function).is_some_and(|file| FILES_OF_LOCKS.contains(&file))
}

/// Whether threads begin in this Python function.
pub fn is_start(function: &TracedFunction) -> bool {
    is_one_of(function, &STARTS)
}

/// Whether this is C code of the interpreter, or of a module that it has loaded.
pub fn is_interpreter(function: &TracedFunction) -> bool {
    let object = &function.object;
    object.starts_with("libpython") || object.starts_with("python") || is_module(function)
}

/// Whether this is C code of a module that the interpreter has loaded.
fn is_module(function: &TracedFunction) -> bool {
    function.object.contains(".cpython-")
}

/// What a stack with Python functions waits for; `None` if it waits in other code, or if the stack does not tell.
pub fn kind(frames: &[&TracedFunction]) -> Option<WaitKind> {
    let (c, python) = frames.split_at(frames.iter().position(|function| is_python(function))?);
    let library = c.iter().take_while(|function| !is_interpreter(function));
    let library: Vec<&str> = library.map(|function| function.name.as_str()).collect();
    let interpreter = || c.iter().filter(|function| is_interpreter(function));
    let has = |word: &str| interpreter().any(|function| function.name.contains(word));
    // A lock that C code has for itself.
    if library.len() == c.len() || !c[..library.len()].iter().all(|f| is_of_system(f)) {
        return None;
    }
    let waits_at_condition = library.iter().any(|name| name.contains("pthread_cond_"));
    // CPython has no condition variable but those of its lock (Python/ceval_gil.c); modules may have some.
    if has("take_gil") || (waits_at_condition && !is_module(c[library.len()])) {
        return Some(WaitKind::Interpreter);
    }
    if has("PyEvent_") || has("_queue_SimpleQueue_get") || has("ThreadHandle_join") {
        return Some(WaitKind::Condition);
    }
    let is_lock = ["PyThread_acquire_lock", "PyMutex_", "SemLock"].iter().any(|word| has(word));
    // A condition has its lock again at the end: then it is that for which it waits.
    let takes_again = has("rlock_acquire_restore");
    let waits = python.iter().take_while(|function| is_part_of_lock(function)).find(|function| {
        is_one_of(function, &WAITS) || is_named(function, "threading.py", "Condition.__enter__")
    });
    let is_for_others = waits.is_some_and(|function| is_one_of(function, &WAITS)) && !takes_again;
    let restores = python
        .first()
        .is_some_and(|function| is_named(function, "threading.py", "Condition._acquire_restore"));
    let is_condition = is_for_others && !restores;
    is_lock.then_some(if is_condition { WaitKind::Condition } else { WaitKind::Mutex })
}

/// Whether this is a function of the C library, or one of the kernel's that a program sees.
fn is_of_system(function: &TracedFunction) -> bool {
    is_c_library(&function.object) || function.object.starts_with('[')
}

fn is_one_of(function: &TracedFunction, known: &[(&str, &str)]) -> bool {
    known.iter().any(|(file, name)| is_named(function, file, name))
}

fn is_named(function: &TracedFunction, file: &str, name: &str) -> bool {
    let rest = function.name.strip_prefix(name);
    rest.is_some_and(|rest| rest.starts_with(" (")) && library_file(function) == Some(file)
}

/// The path of a source in the standard library, as in `concurrent/futures/thread.py`: what follows `python3.11`.
fn library_file(function: &TracedFunction) -> Option<&str> {
    const FOLDER: &str = "/python3.";
    let path = function.object.strip_prefix(SOURCE)?;
    let (version, file) = path[path.rfind(FOLDER)? + FOLDER.len()..].split_once('/')?;
    let is_version = version.bytes().all(|byte| byte.is_ascii_digit() || byte == b't');
    (is_version && !file.contains("-packages/")).then_some(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    const ACQUIRE: &str = "sem_clockwait@libc.so.6 PyThread_acquire_lock_timed@libpython3.11.so.1.0 \
                           lock_PyThread_acquire_lock@libpython3.11.so.1.0";

    /// Reads `name@file`: a file without a folder is of C, one of `lib/` of Python's standard library.
    fn functions(stack: &str) -> Vec<TracedFunction> {
        let function = |word: &str| {
            let (name, file) = word.split_once('@').unwrap();
            if !file.ends_with(".py") {
                let (name, object) = (name.to_string(), file.to_string());
                return TracedFunction { is_named: !name.contains("+0x"), name, object };
            }
            let short = file.rsplit('/').next().unwrap_or(file);
            let path = file.replace("lib/", "/usr/lib/python3.11/");
            let (name, object) = (format!("{name} ({short})"), format!("py:{path}"));
            TracedFunction { name, object, is_named: true }
        };
        stack.split_whitespace().map(function).collect()
    }

    fn check(stack: &str, kind: Option<WaitKind>, at: &str) {
        let functions = functions(stack);
        let frames: Vec<&TracedFunction> = functions.iter().collect();
        assert_eq!(places::kind_by_stack(&frames), kind, "{stack}");
        let place = places::place(&frames).map(|place| place.function);
        assert_eq!(place.as_deref(), Some(at), "{stack}");
    }

    #[test]
    fn a_lock_of_python_is_waited_for_in_the_programs_own_function() {
        let mutex = Some(WaitKind::Mutex);
        let start = "Thread.run@lib/threading.py Thread._bootstrap@lib/threading.py";
        check(&format!("{ACQUIRE} Cache.get@/srv/cache.py {start}"), mutex, "Cache.get (cache.py)");
        // Names alone say nothing: neither of functions nor of files.
        let own = "Condition.wait@/srv/threading.py";
        check(&format!("{ACQUIRE} {own}"), mutex, "Condition.wait (threading.py)");
        check(&format!("{ACQUIRE} clone@/srv/git.py"), mutex, "clone (git.py)");
        // The lock of a queue itself.
        let put = "Condition.__enter__@lib/threading.py Queue.put@lib/queue.py log@/srv/a.py";
        check(&format!("{ACQUIRE} {put}"), mutex, "log (a.py)");
        let stripped = "sem_clockwait@libc.so.6 PyThread_acquire_lock_timed@python3.11 python3.11+0x1@python3.11";
        check(&format!("{stripped} get@/srv/a.py"), mutex, "get (a.py)");
    }

    #[test]
    fn what_waits_for_another_thread_to_do_something_is_no_mutex() {
        let condition = Some(WaitKind::Condition);
        let get = "Condition.wait@lib/threading.py Queue.get@lib/queue.py next@/srv/a.py";
        check(&format!("{ACQUIRE} {get}"), condition, "next (a.py)");
        let event = "Condition.wait@lib/threading.py Event.wait@lib/threading.py f@/srv/a.py";
        check(&format!("{ACQUIRE} {event}"), condition, "f (a.py)");
        let join = "Thread._wait_for_tstate_lock@lib/threading.py Thread.join@lib/threading.py";
        check(&format!("{ACQUIRE} {join} main@/srv/a.py"), condition, "main (a.py)");
        let worker = "_worker@lib/concurrent/futures/thread.py Thread.run@lib/threading.py";
        check(&format!("{ACQUIRE} {worker}"), condition, "_worker (thread.py)");
        // At its end it takes its lock.
        let again = "Condition._acquire_restore@lib/threading.py Condition.wait@lib/threading.py";
        check(&format!("{ACQUIRE} {again} f@/srv/a.py"), Some(WaitKind::Mutex), "f (a.py)");
    }

    #[test]
    fn the_lock_of_the_interpreter_is_waited_for_in_python() {
        let interpreter = Some(WaitKind::Interpreter);
        let take = "pthread_cond_timedwait@libc.so.6 take_gil@libpython3.11.so.1.0";
        let sleep = "PyEval_RestoreThread@libpython3.11.so.1.0 \
                     time_sleep@time.cpython-311-x86_64-linux-gnu.so";
        check(&format!("{take} {sleep} nap@/srv/a.py"), interpreter, "nap (a.py)");
        let stripped = "pthread_cond_timedwait@libc.so.6 python3.11+0x1@python3.11";
        check(&format!("{stripped} work@/srv/a.py"), interpreter, "work (a.py)");
    }

    #[test]
    fn what_the_c_library_does_for_a_function_is_done_in_the_function() {
        let write = "pwrite@libc.so.6 os_pwrite@libpython3.11.so.1.0 append@/srv/a.py";
        check(write, None, "append (a.py)");
    }

    #[test]
    fn a_lock_of_a_library_in_c_is_the_librarys() {
        let stack = "__lll_lock_wait@libc.so.6 pthread_mutex_lock@libc.so.6 sqlite3_step@libsqlite3.so.0 \
                     step@_sqlite3.cpython-311-x86_64-linux-gnu.so query@/srv/a.py";
        check(stack, Some(WaitKind::Mutex), "sqlite3_step");
    }

    #[test]
    fn files_of_the_standard_library_are_told_from_those_of_programs() {
        let file = |path: &str| {
            let object = format!("py:{path}");
            let function = TracedFunction { object, ..TracedFunction::default() };
            library_file(&function).map(str::to_string)
        };
        assert_eq!(file("/usr/lib/python3.11/queue.py").as_deref(), Some("queue.py"));
        assert_eq!(file("/usr/lib/python3.11/site-packages/queue.py"), None);
        assert_eq!(file("/usr/lib/python3/dist-packages/queue.py"), None);
        assert_eq!(file("/srv/python3.x/queue.py"), None);
        assert_eq!(file("queue.py"), None);
    }
}
