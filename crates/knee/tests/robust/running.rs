//! Explaining what already runs, without BPF: this test's own threads, other processes, and those that end meanwhile.

use std::cell::UnsafeCell;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::home::Home;
use crate::skip::skip;

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
