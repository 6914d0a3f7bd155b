//! Explaining what runs already, with BPF and without: the lock of a program that knee did not start, with its holder.

use std::cell::UnsafeCell;
use std::fs;
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

/// A server whose threads take turns with `journal_lock` in `append`.
pub fn server(home: &Home) -> Running {
    let (source, program) = (home.path("server.c"), home.path("server"));
    fs::write(&source, SERVER).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success());
    Running(Command::new(program).spawn().unwrap())
}

/// The answer about a process; nothing where this host lets nobody look.
fn looked_at(home: &Home, words: &str) -> Option<Value> {
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
