//! What a look at /proc alone finds in real programs: goroutines in system calls, and read-write locks of Java, whose readers
//! and writers wait in different methods.

use std::process::Command;

use serde_json::Value;

use crate::explain_running::{Running, go_program, java_server};
use crate::home::Home;
use crate::skip::skip;

/// Four goroutines that take turns with a mutex and sleep with it, in a system call of their own.
const GO_SERVER: &str = r#"package main

import (
	"sync"
	"syscall"
)

var tableLock sync.Mutex

//go:noinline
func pause() {
	time := syscall.Timespec{Nsec: 3000000}
	syscall.Nanosleep(&time, nil)
}

//go:noinline
func settle() {
	tableLock.Lock()
	pause()
	tableLock.Unlock()
}

func serve() {
	for {
		settle()
	}
}

func main() {
	for number := 0; number < 3; number++ {
		go serve()
	}
	serve()
}
"#;

/// Threads that read a table and threads that write it, which sleep with its lock.
const JAVA_SERVER: &str = r#"
import java.util.concurrent.locks.ReentrantReadWriteLock;

public class Server {
    static final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();
    static long rows;

    static long get() {
        lock.readLock().lock();
        try {
            return rows;
        } finally {
            lock.readLock().unlock();
        }
    }

    static void put() {
        lock.writeLock().lock();
        try {
            rows++;
            Thread.sleep(3);
        } catch (InterruptedException end) {
            throw new IllegalStateException(end);
        } finally {
            lock.writeLock().unlock();
        }
    }

    public static void main(String[] arguments) {
        for (int number = 0; number < 3; number++) {
            new Thread(() -> {
                for (;;)
                    get();
            }, "get-" + number).start();
            new Thread(() -> {
                for (;;)
                    put();
            }, "put-" + number).start();
        }
    }
}
"#;

/// Looks at a program until a lock is told as expected: a busy host gives looks few turns, and then it looks for longer.
fn check(home: &Home, server: &Running, name: &str, held_in: &str, reason: &str) {
    let mut seen = Vec::new();
    for seconds in [2, 8, 30] {
        let words = format!("--pid {} --without-bpf --seconds {seconds}", server.0.id());
        let ended = home.run(&format!("explain {words} --json"));
        if ended.stderr.contains("ptrace") {
            return skip("a look without BPF", &ended.stderr);
        }
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
        let causes = answer["causes"].as_array().unwrap();
        let locks: Vec<&Value> = causes.iter().filter(|cause| cause["cause"] == "lock").collect();
        let is_expected = |lock: &Value| {
            lock["name"].as_str().is_some_and(|known| known.starts_with(name))
                && lock["held_in"].as_array().unwrap().iter().any(|place| place == held_in)
                && lock["holder"][0]["reason"] == reason
        };
        if matches!(locks[..], [lock] if is_expected(lock)) {
            return;
        }
        seen.push(answer["causes"].clone());
    }
    panic!("no {name}, held in {held_in}, {reason}: {seen:#?}");
}

#[test]
fn goroutines_that_sleep_in_a_system_call_with_a_lock_are_found_there() {
    let home = Home::new();
    let Some(program) = go_program(&home, GO_SERVER) else { return };
    let server = Running(Command::new(&program).spawn().unwrap());
    check(&home, &server, "main.tableLock", "main.settle", "sleeping");
}

#[test]
fn readers_of_java_wait_for_the_writer_of_their_lock() {
    let home = Home::new();
    let Some(server) = java_server(&home, JAVA_SERVER) else { return };
    check(&home, &server, "ReentrantReadWriteLock", "Server.put", "sleeping");
}
