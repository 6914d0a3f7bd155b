//! Explaining what runs already, with BPF and without: the lock of a program that knee did not start, with its holder.

use std::cell::UnsafeCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::home::Home;
use crate::skip::skip;

/// Four threads that take turns with a mutex, with which they sleep.
const SERVER: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void append(void)
{
	pthread_mutex_lock(&journal_lock);
	usleep(500);
	pthread_mutex_unlock(&journal_lock);
}
static void *serve(void *unused)
{
	for (;;)
		append();
	return unused;
}
int main(void)
{
	pthread_t thread;
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, 0, serve, 0);
	return pause();
}
"#;

/// A running program, which ends with this value.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(home: &Home) -> Running {
    let (source, program) = (home.path("server.c"), home.path("server"));
    fs::write(&source, SERVER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success());
    Running(Command::new(program).spawn().unwrap())
}

/// The answer about a process; nothing where this host lets nobody look.
pub fn looked_at(home: &Home, words: &str) -> Option<Value> {
    let ended = home.run(&format!("explain {words} --seconds 2 --json"));
    if ended.status.code() != Some(0) && ended.stderr.contains("BPF") {
        skip("explain --pid", ended.stderr.lines().last().unwrap_or_default());
        return None;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    Some(serde_json::from_str(&home.said("stdout")).unwrap())
}

#[test]
fn the_lock_of_a_running_program_is_named_with_what_its_holder_does() {
    let home = Home::new();
    let server = server(&home);
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    // On a busy host, others hold it back too.
    let causes = answer["causes"].as_array().unwrap();
    let cause = causes.iter().find(|cause| cause["cause"] == "lock").expect("a lock is a cause");
    assert_eq!(cause["name"], "journal_lock");
    assert_eq!(cause["waited_in"][0], "append");
    assert_eq!(cause["held_in"][0], "append");
    let reasons = cause["holder"].as_array().unwrap();
    assert!(reasons.iter().any(|holder| holder["reason"] == "sleeping"), "{cause:#}");
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    assert!(status.contains("TracerPid:\t0"), "it is not traced");
}

/// Threads that take turns with a lock in two functions, and a pool without work.
const PYTHON_SERVER: &str = r#"
import concurrent.futures
import threading
import time

class Cache:
    def __init__(self):
        self.lock = threading.Lock()

    def evict(self):
        with self.lock:
            time.sleep(0.002)

    def get(self):
        with self.lock:
            pass

cache = Cache()

def serve():
    while True:
        cache.get()
        time.sleep(0.0001)

def clean():
    while True:
        cache.evict()

for target in [serve, serve, clean]:
    threading.Thread(target=target, daemon=True).start()
pool = concurrent.futures.ThreadPoolExecutor(2)
for _ in range(2):
    pool.submit(time.sleep, 0.01)
print("ready", flush=True)
time.sleep(1000)
"#;

fn python_server(home: &Home) -> Option<Running> {
    let source = home.path("shop.py");
    fs::write(&source, PYTHON_SERVER).unwrap();
    let mut python = Command::new("python3");
    let mut child = match python.arg(&source).stdout(Stdio::piped()).spawn() {
        Ok(child) => child,
        Err(why) => {
            skip("functions of Python", &format!("python3: {why}"));
            return None;
        }
    };
    let printed = child.stdout.take().unwrap();
    let server = Running(child);
    let mut line = String::new();
    BufReader::new(printed).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Some(server)
}

/// Whether the lock of the server in Python is named by its functions; `held` has it.
fn check_lock_of_python(answer: &Value, held: &str) {
    let causes = answer["causes"].as_array().unwrap();
    let locks: Vec<&Value> = causes.iter().filter(|cause| cause["cause"] == "lock").collect();
    let [lock] = locks[..] else { panic!("{causes:#?}") };
    assert_eq!(lock["name"], "mutex waited for in Cache.get (shop.py)", "{lock:#}");
    assert_eq!(lock["waited_in"][0], "Cache.get (shop.py)", "{lock:#}");
    assert_eq!(lock["held_in"][0], held, "{lock:#}");
    assert_eq!(lock["holder"][0]["reason"], "sleeping", "{lock:#}");
}

#[test]
fn a_lock_of_python_is_named_by_the_functions_of_the_program() {
    let home = Home::new();
    let Some(server) = python_server(&home) else { return };
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    if answer["missing"].as_object().is_some_and(|all| all.keys().any(|k| k.contains("Python"))) {
        return skip("functions of Python", "this Python is of another version");
    }
    check_lock_of_python(&answer, "Cache.evict (shop.py)");
}

#[test]
fn a_lock_of_python_is_named_without_bpf() {
    let home = Home::new();
    let Some(server) = python_server(&home) else { return };
    let words = format!("explain --pid {} --seconds 2 --without-bpf --json", server.0.id());
    let ended = home.run(&words);
    if ended.stderr.contains("ptrace") {
        return skip("functions of Python without BPF", &ended.stderr);
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&home.said("stdout")).unwrap();
    check_lock_of_python(&answer, "Cache.evict (shop.py)");
}

#[test]
fn a_program_that_waits_for_work_is_held_back_by_nothing() {
    let home = Home::new();
    let sleeper = Running(Command::new("sleep").arg("1000").spawn().unwrap());
    let Some(answer) = looked_at(&home, &format!("--pid {}", sleeper.0.id())) else { return };
    assert_eq!(answer["causes"], Value::Array(Vec::new()));
    assert_eq!(answer["threads"][0]["waits_in"], "sleep");
}

#[test]
fn what_does_not_run_is_refused_with_what_to_do() {
    let home = Home::new();
    let check = |words: &str, expected: &str| {
        let ended = home.run(&format!("explain {words}"));
        assert_ne!(ended.status.code(), Some(0), "{words}");
        assert!(ended.stderr.contains(expected), "{words}: {}", ended.stderr);
    };
    check("--pid 4194305", "no process has the number 4194305: ps -e lists those that run");
    check("--name no-such-program", "no process is called no-such-program");
    check("--cgroup no-such-unit", "no process runs in a control group called no-such-unit");
    check("--pid 1 getppid", "leave out getppid");
    check("getppid --rate 5", "name one by --pid, --name or --cgroup");
    check("--pid 1 --rate 0", "--rate must be above 0");
    check("--pid 1 --seconds 0.01", "a look takes 0.2 s at least");
}

/// A mutex of the C library, which names its owner.
struct Contended(UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: the mutex is only used through the C library.
unsafe impl Sync for Contended {}
// SAFETY: as above; it is not moved while it is used.
unsafe impl Send for Contended {}

/// Threads that take a mutex in turns, each for a millisecond, until they are told to stop.
fn contend(stop: &Arc<AtomicBool>) {
    let mutex = Arc::new(Contended(UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER)));
    for number in 0..3 {
        let (mutex, stop) = (mutex.clone(), stop.clone());
        let thread = std::thread::Builder::new().name(format!("taker ) {number}"));
        let take_turns = move || {
            while !stop.load(Ordering::Relaxed) {
                // SAFETY: an initialised mutex that lives as long as this thread.
                unsafe { libc::pthread_mutex_lock(mutex.0.get()) };
                std::thread::sleep(Duration::from_millis(1));
                // SAFETY: this thread has it.
                unsafe { libc::pthread_mutex_unlock(mutex.0.get()) };
            }
        };
        thread.spawn(take_turns).unwrap();
    }
}

#[test]
fn a_lock_is_found_without_bpf() {
    let (home, stop) = (Home::new(), Arc::new(AtomicBool::new(false)));
    contend(&stop);
    let pid = std::process::id();
    let ended = home.run(&format!("explain --pid {pid} --seconds 2 --without-bpf --json"));
    stop.store(true, Ordering::Relaxed);
    if ended.stderr.contains("ptrace") {
        skip("a lock without BPF", &ended.stderr);
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let answer: serde_json::Value = serde_json::from_str(&home.said("stdout")).unwrap();
    assert_eq!(answer["means"], "proc");
    let lock = &answer["locks"][0];
    assert_eq!(lock["kind"], "mutex", "{lock}");
    assert_eq!(lock["holder"][0]["reason"], "sleeping", "{lock}");
    let threads = answer["threads"].as_array().unwrap();
    assert!(threads.iter().any(|group| group["name"] == "taker ) #"), "{threads:?}");
}

#[test]
fn a_process_that_ends_meanwhile_has_an_answer_all_the_same() {
    let home = Home::new();
    let mut child = Command::new("sleep").arg("0.4").stdin(Stdio::null()).spawn().unwrap();
    let ended = home.run(&format!("explain --pid {} --seconds 1 --without-bpf", child.id()));
    child.wait().unwrap();
    if ended.stderr.contains("ptrace") {
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(home.said("stdout").contains("Nothing holds it back"), "{}", home.said("stdout"));
}

/// Threads that take turns with a monitor, and others with a lock of java.util.concurrent; all else waits for work.
const JAVA_SERVER: &str = r#"
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.locks.ReentrantLock;

public class Server {
    static final Object table = new Object();
    static final ReentrantLock lock = new ReentrantLock();
    static final LinkedBlockingQueue<Runnable> jobs = new LinkedBlockingQueue<>();

    static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException end) {
            throw new IllegalStateException(end);
        }
    }

    static void updateTable() {
        synchronized (table) {
            pause();
        }
    }

    static void putCache() {
        lock.lock();
        try {
            pause();
        } finally {
            lock.unlock();
        }
    }

    static void start(String name, Runnable task) {
        new Thread(() -> {
            for (;;)
                task.run();
        }, name).start();
    }

    static void idle() {
        try {
            jobs.take().run();
        } catch (InterruptedException end) {
            throw new IllegalStateException(end);
        }
    }

    public static void main(String[] arguments) {
        for (int number = 0; number < 3; number++) {
            start("update-" + number, Server::updateTable);
            start("put-" + number, Server::putCache);
            start("idle-" + number, Server::idle);
        }
    }
}
"#;

#[test]
fn locks_of_java_are_named_by_the_methods_that_take_them() {
    let home = Home::new();
    let source = home.path("Server.java");
    fs::write(&source, JAVA_SERVER).unwrap();
    let mut compiler = Command::new("javac");
    compiler.arg("-d").arg(home.path("")).arg(&source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        return skip("locks of Java", "javac: there is no JDK");
    }
    let mut java = Command::new("java");
    java.args(["-Xmx64m", "-cp"]).arg(home.path("")).arg("Server");
    let server = Running(java.spawn().unwrap());
    // The virtual machine starts.
    std::thread::sleep(Duration::from_secs(2));
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    let causes = answer["causes"].as_array().unwrap();
    for (name, method) in [
        ("monitor waited for in Server.updateTable", "Server.updateTable"),
        ("ReentrantLock waited for in Server.putCache", "Server.putCache"),
    ] {
        let cause = causes.iter().find(|cause| cause["name"] == name);
        let cause = cause.unwrap_or_else(|| panic!("no {name}: {causes:#?}"));
        assert_eq!(cause["waited_in"][0], method);
        assert_eq!(cause["held_in"][0], method);
    }
    let idle = causes.iter().filter_map(|cause| cause["name"].as_str());
    assert_eq!(idle.filter(|name| name.contains("idle")).count(), 0, "{causes:#?}");
}
