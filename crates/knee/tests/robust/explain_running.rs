//! Explaining what runs already, with BPF and without: the lock of a program that knee did not start, with its holder.

use std::cell::UnsafeCell;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;

use crate::home::{Ended, Home};
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

/// A server whose threads take turns with `journal_lock` in `append`.
pub fn server(home: &Home) -> Running {
    compiled(home, SERVER)
}

/// Runs a program in C.
pub fn compiled(home: &Home, code: &str) -> Running {
    let (source, program) = (home.path("server.c"), home.path("server"));
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success());
    Running(Command::new(program).spawn().unwrap())
}

/// Runs a class `Server` of Java; nothing where there is no JDK.
pub fn java_server(home: &Home, code: &str) -> Option<Running> {
    let source = home.path("Server.java");
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("javac");
    compiler.arg("-d").arg(home.path("")).arg(&source);
    if !compiler.status().is_ok_and(|status| status.success()) {
        skip("locks of Java", "javac: there is no JDK");
        return None;
    }
    let mut java = Command::new("java");
    java.args(["-Xmx64m", "-cp"]).arg(home.path("")).arg("Server");
    let server = Running(java.spawn().unwrap());
    // The virtual machine starts.
    std::thread::sleep(Duration::from_secs(2));
    Some(server)
}

/// Compiles a program of Go; nothing where there is no compiler.
pub fn go_program(home: &Home, code: &str) -> Option<PathBuf> {
    let (source, program) = (home.path("served.go"), home.path("served"));
    fs::write(&source, code).unwrap();
    let mut compiler = Command::new("go");
    compiler.args(["build", "-o"]).arg(&program).arg(&source);
    compiler.env("GO111MODULE", "off").env("GOCACHE", home.path("go-cache"));
    if !compiler.status().is_ok_and(|status| status.success()) {
        skip("locks of Go", "go: there is no compiler");
        return None;
    }
    Some(program)
}

/// The answer about a process; nothing where this host lets nobody look.
pub fn looked_at(home: &Home, words: &str) -> Option<Value> {
    looked_at_for(home, words, 2)
}

/// The answer of a look of so many seconds; nothing where this host lets nobody look.
pub fn looked_at_for(home: &Home, words: &str, seconds: u32) -> Option<Value> {
    let ended = home.run(&format!("explain {words} --seconds {seconds} --json"));
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

/// The lock of the server in Python, which is named by the function that waits for it.
fn lock_of_python(answer: &Value) -> Option<&Value> {
    let causes = answer["causes"].as_array().unwrap();
    let locks: Vec<&Value> = causes.iter().filter(|cause| cause["cause"] == "lock").collect();
    let lock = *locks.first()?;
    assert_eq!(locks.len(), 1, "{causes:#?}");
    assert_eq!(lock["name"], "mutex waited for in Cache.get (shop.py)", "{lock:#}");
    assert_eq!(lock["waited_in"][0], "Cache.get (shop.py)", "{lock:#}");
    Some(lock)
}

#[test]
fn a_lock_of_python_is_named_by_the_functions_of_the_program() {
    let home = Home::new();
    let Some(server) = python_server(&home) else { return };
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    if answer["missing"].as_object().is_some_and(|all| all.keys().any(|k| k.contains("Python"))) {
        return skip("functions of Python", "this Python is of another version");
    }
    let lock = lock_of_python(&answer).unwrap_or_else(|| panic!("{answer:#}"));
    assert_eq!(lock["held_in"][0], "Cache.evict (shop.py)", "{lock:#}");
    assert_eq!(lock["holder"][0]["reason"], "sleeping", "{lock:#}");
}

#[test]
fn a_lock_of_python_is_named_without_bpf() {
    let home = Home::new();
    let Some(server) = python_server(&home) else { return };
    let words = format!("explain --pid {} --seconds 2 --without-bpf --json", server.0.id());
    // On a busy host, one look may see too little of it.
    const LOOKS: usize = 5;
    for _ in 0..LOOKS {
        let ended = home.run(&words);
        if ended.stderr.contains("ptrace") {
            return skip("functions of Python without BPF", &ended.stderr);
        }
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let answer: Value = serde_json::from_str(&home.said("stdout")).unwrap();
        if lock_of_python(&answer).is_some() {
            return;
        }
    }
    panic!("no look of {LOOKS} found the lock");
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
    // A busy host gives the looks at /proc too few turns: then a longer look.
    let mut answers = [2, 8, 30].iter().map(|seconds| {
        home.run(&format!("explain --pid {pid} --seconds {seconds} --without-bpf --json"))
    });
    let found = answers.find(|ended| ended.status.code() != Some(0) || names_the_sleeper(ended));
    stop.store(true, Ordering::Relaxed);
    let ended = found.unwrap_or_else(|| panic!("no such lock: {}", home.said("stdout")));
    if ended.stderr.contains("ptrace") {
        skip("a lock without BPF", &ended.stderr);
        return;
    }
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(answer["means"], "proc");
    let threads = answer["threads"].as_array().unwrap();
    assert!(threads.iter().any(|group| group["name"] == "taker ) #"), "{threads:?}");
}

/// Whether the answer's first lock is a mutex whose holder sleeps.
fn names_the_sleeper(ended: &Ended) -> bool {
    let answer: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let lock = &answer["locks"][0];
    lock["kind"] == "mutex" && lock["holder"][0]["reason"] == "sleeping"
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
    let Some(server) = java_server(&home, JAVA_SERVER) else { return };
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

/// Four threads that take turns with a lock, for as long as the file says in which the program was started; and count.
const CHANGING_SERVER: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static volatile long served;
static int held_us, work_us;
__attribute__((noinline)) void append(void)
{
	pthread_mutex_lock(&journal_lock);
	usleep(held_us);
	pthread_mutex_unlock(&journal_lock);
}
__attribute__((noinline)) void serve_one(void)
{
	append();
	usleep(work_us);
	__sync_fetch_and_add(&served, 1);
}
static void *serve(void *unused)
{
	for (;;)
		serve_one();
	return unused;
}
int main(int count, char **words)
{
	pthread_t thread;
	held_us = atoi(words[1]);
	work_us = atoi(words[2]);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, 0, serve, 0);
	for (;;) {
		FILE *file = fopen(words[3], "w");
		fprintf(file, "served %ld\n", served);
		fclose(file);
		rename(words[3], words[4]);
		usleep(10000);
	}
}
"#;

/// A server that has its lock so long in each turn, and counts its turns in the file `served`.
fn changing_server(home: &Home, held_us: u32) -> Running {
    let (source, program) = (home.path("changing.c"), home.path("changing"));
    if !program.exists() {
        fs::write(&source, CHANGING_SERVER).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
        assert!(compiler.status().unwrap().success());
    }
    let mut server = Command::new(program);
    server.args([held_us.to_string(), "4000".to_string()]);
    server.args([home.path("served.next"), home.path("served")]);
    let server = Running(server.spawn().unwrap());
    while !home.path("served").exists() {
        std::thread::sleep(Duration::from_millis(10));
    }
    server
}

/// What was compared, by quantity and name, with its verdict.
fn verdict(comparison: &Value, quantity: &str, name: &str) -> String {
    let quantities = comparison["quantities"].as_array().unwrap();
    let is_it = |change: &&Value| change["quantity"] == quantity && change["name"] == name;
    let found = quantities.iter().find(is_it);
    found.unwrap_or_else(|| panic!("{quantity} of {name} is compared: {comparison:#}"))["verdict"]
        .as_str()
        .unwrap_or_default()
        .to_string()
}

#[test]
fn a_lock_that_is_held_longer_than_before_has_grown_and_an_equal_look_has_not() {
    let home = Home::new();
    // Of a short look a busy host may leave too little.
    let mut last = Value::Null;
    for seconds in [4, 8, 16] {
        let Some(compared) = held_longer_than_before(&home, seconds) else { return };
        last = compared;
        let has_grown = verdict(&last, "waiting_for_locks", "changing") == "grew";
        if has_grown && is_lock_far_from_before(&last) {
            return;
        }
    }
    panic!("{last:#}");
}

/// What a look at a lock that is held longer finds against a look before; nothing where this host lets nobody look.
fn held_longer_than_before(home: &Home, seconds: u32) -> Option<Value> {
    let before = changing_server(home, 100);
    let file = home.path("before.live");
    let words = format!("--pid {} --save {}", before.0.id(), file.display());
    let saved = looked_at_for(home, &words, seconds)?;
    let shown = home.run(&format!("explain {} --json", file.display()));
    let again: Value = serde_json::from_str(&home.said("stdout")).expect(&shown.stderr);
    assert_eq!(again, saved);
    let against = |server: &Running| {
        let words = format!("--pid {} --against {}", server.0.id(), file.display());
        looked_at_for(home, &words, seconds).unwrap()
    };
    assert!(!is_lock_far_from_before(&against(&before)));
    drop(before);
    let after = changing_server(home, 4000);
    let compared = against(&after);
    fs::remove_file(file).unwrap();
    Some(compared)
}

/// On a busy host two looks differ, but not by this much.
fn is_lock_far_from_before(comparison: &Value) -> bool {
    let changes = comparison["quantities"].as_array().unwrap().iter();
    let of_lock =
        changes.filter(|change| change["name"] == "journal_lock" && change["unit"] == "share");
    let moved = of_lock.filter(|change| change["verdict"] == "grew");
    moved.filter_map(|change| change["difference"].as_f64()).any(|difference| difference > 0.4)
}

#[test]
fn operations_are_counted_by_a_function_and_by_a_file() {
    let home = Home::new();
    let server = changing_server(&home, 500);
    let pid = server.0.id();
    let file = home.path("served");
    let counted = |from: &str| {
        let words = format!("--pid {pid} --operations-from {from}");
        let answer = looked_at_for(&home, &words, 3)?;
        assert_eq!(answer["operations_from"], from);
        answer["operations_per_s"].as_f64()
    };
    let Some(by_function) = counted("uprobe:serve_one") else { return };
    let by_file = counted(&format!("file:{}:served", file.display())).unwrap();
    assert!(by_function > 10.0 && by_file > 10.0, "{by_function} and {by_file} a second");
    let ratio = by_function / by_file;
    assert!((0.5..2.0).contains(&ratio), "{by_function} by calls, {by_file} by the file");
}

#[test]
fn counters_that_count_nothing_are_refused_or_named() {
    let home = Home::new();
    let server = changing_server(&home, 500);
    let pid = server.0.id();
    fs::write(home.path("words"), "no number here\n").unwrap();
    let check = |from: &str, expected: &str| {
        let ended =
            home.run(&format!("explain --pid {pid} --seconds 0.5 --operations-from {from}"));
        if ended.stderr.contains("BPF") && !expected.contains("BPF") {
            return skip("--operations-from", &ended.stderr);
        }
        assert_ne!(ended.status.code(), Some(0), "{from}");
        assert!(ended.stderr.contains(expected), "{from}: {}", ended.stderr);
    };
    check(&format!("file:{}", home.path("words").display()), "has no number in it");
    check("file:/no/such/file", "/no/such/file");
    check("command:false", "`false` ends with");
    check("uprobe:no_such_function", "no file that the processes run has uprobe:no_such_function");
    check("1420", "operations are counted by");
    // A counter that stands still is no rate.
    fs::write(home.path("still"), "7\n").unwrap();
    let from = format!("file:{}", home.path("still").display());
    let words = format!("--pid {pid} --operations-from {from}");
    let Some(answer) = looked_at_for(&home, &words, 1) else { return };
    assert!(answer["missing"]["operations"].as_str().unwrap().contains("not one was counted"));
    assert!(answer.get("operations_per_s").is_none_or(Value::is_null));
}

#[test]
fn files_that_are_no_looks_are_refused_in_a_sentence() {
    let home = Home::new();
    fs::write(home.path("empty.live"), "").unwrap();
    fs::write(home.path("newer.live"), "{\"knee_look\":99,\"observation\":{}}").unwrap();
    fs::write(home.path("cut.live"), "{\"knee_look\":1,\"observation\":{\"subject\"").unwrap();
    let check = |words: &str, expected: &str| {
        let ended = home.run(&format!("explain {words}"));
        assert_ne!(ended.status.code(), Some(0), "{words}");
        assert!(ended.stderr.contains(expected), "{words}: {}", ended.stderr);
    };
    let path = |name: &str| home.path(name).display().to_string();
    check(&path("empty.live"), "this is not a look at running programs");
    check(&path("newer.live"), "use a newer knee");
    check(&path("cut.live"), "the look is cut short after");
    check(&path("missing.live"), "missing.live");
    check(&format!("{} getppid", path("cut.live")), "getppid is not a saved look");
    check(&format!("{0} {0} {0}", path("cut.live")), "3 looks: name one, or two to compare");
    check(&format!("--pid 1 --against {}", path("cut.live")), "the look is cut short after");
    check("getppid --save x.live", "--save is about programs that run already");
}
