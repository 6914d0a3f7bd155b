//! Explaining what runs already: locks that are no mutexes of the C library, each of a program that has nothing else.

use std::process::{Command, Stdio};

use crate::explain_running::{Running, compiled, go_program, looked_at, looked_at_for};
use crate::home::Home;

/// Four threads that take turns with a semaphore, which `sem_wait` does by a jump: it is in no stack.
const SEMAPHORE_SERVER: &str = r#"
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>
static sem_t slot;
__attribute__((noinline)) void use_slot(void)
{
	sem_wait(&slot);
	usleep(500);
	sem_post(&slot);
}
static void *serve(void *unused)
{
	for (;;)
		use_slot();
	return unused;
}
int main(void)
{
	pthread_t thread;
	sem_init(&slot, 0, 1);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, 0, serve, 0);
	return pause();
}
"#;

#[test]
fn a_semaphore_that_is_handed_on_is_a_lock() {
    let home = Home::new();
    let server = compiled(&home, SEMAPHORE_SERVER);
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    let locks = answer["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["kind"] == "semaphore");
    let lock = lock.unwrap_or_else(|| panic!("no semaphore: {answer:#}"));
    assert_eq!(lock["name"], "slot");
    assert_eq!(lock["waited_in"][0]["function"], "use_slot");
    assert_eq!(lock["held_in"][0]["function"], "use_slot");
}

/// Four processes that take turns with the lock of a file.
const FILE_SERVER: &str = r#"
#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <signal.h>
#include <unistd.h>
__attribute__((noinline)) void append_journal(int file)
{
	flock(file, LOCK_EX);
	usleep(500);
	flock(file, LOCK_UN);
}
int main(int count, char **words)
{
	for (int i = 0; i < 4; i++) {
		if (fork())
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		int file = open(words[0], O_RDONLY);
		for (;;)
			append_journal(file);
	}
	return pause();
}
"#;

#[test]
fn the_lock_of_a_file_is_a_lock() {
    let home = Home::new();
    let server = compiled(&home, FILE_SERVER);
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    let locks = answer["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["kind"] == "file");
    let lock = lock.unwrap_or_else(|| panic!("no lock of a file: {answer:#}"));
    assert_eq!(lock["name"], "file lock waited for in append_journal");
    assert_eq!(lock["held_in"][0]["function"], "append_journal");
    assert_eq!(lock["holder"][0]["reason"], "sleeping");
}

/// Goroutines that take turns with a mutex of a package, with which they sleep.
const GO_SERVER: &str = r#"
package main

import (
	"sync"
	"time"
)

var journalLock sync.Mutex

//go:noinline
func appendEntry() {
	journalLock.Lock()
	time.Sleep(time.Millisecond)
	journalLock.Unlock()
}

func main() {
	for number := 0; number < 8; number++ {
		go func() {
			for {
				appendEntry()
			}
		}()
	}
	time.Sleep(time.Minute)
}
"#;

#[test]
fn a_program_of_go_that_starts_after_the_look_has_named_locks() {
    let home = Home::new();
    let Some(program) = go_program(&home, GO_SERVER) else { return };
    // The shell waits for it, and ends it when its own standard input ends.
    let script = format!("sleep 1; {} & read line; kill $!", program.display());
    let mut shell = Command::new("sh");
    let child = shell.args(["-c", &script]).stdin(Stdio::piped()).spawn().unwrap();
    let shell = Running(child);
    let answer = looked_at_for(&home, &format!("--pid {}", shell.0.id()), 6);
    end_late(shell);
    let Some(answer) = answer else { return };
    let locks = answer["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["waited_in"][0]["function"] == "main.appendEntry");
    let lock = lock.unwrap_or_else(|| panic!("{answer:#}"));
    assert!(lock["name"].as_str().unwrap().starts_with("main.journalLock"), "{lock:#}");
}

/// Ends the shell, which ends its program before.
fn end_late(mut shell: Running) {
    drop(shell.0.stdin.take());
    shell.0.wait().unwrap();
}
