//! Explaining what runs already: the lock of a program that knee did not start, with its holder; nothing stays attached,
//! and the program goes on as it was.

use std::fs;
use std::process::{Child, Command};

use serde_json::Value;

use crate::home::Home;
use crate::skip::skip;

/// Four threads that take turns with a mutex, in which they sync a file.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;
static int file;
__attribute__((noinline)) void append(void)
{
	pthread_mutex_lock(&journal_lock);
	if (write(file, "x", 1) == 1)
		fdatasync(file);
	pthread_mutex_unlock(&journal_lock);
}
static void *serve(void *unused)
{
	for (;;)
		append();
	return unused;
}
int main(int count, char **words)
{
	pthread_t thread;
	file = open(words[1], O_CREAT | O_RDWR, 0600);
	for (int i = 0; i < 4; i++)
		pthread_create(&thread, 0, serve, 0);
	pause();
	return count;
}
"#;

/// A running program, which ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn server(home: &Home) -> Running {
    let (source, program) = (home.path("server.c"), home.path("server"));
    fs::write(&source, SERVER).unwrap();
    let compiled = Command::new("cc").args(["-O2", "-pthread", "-o"]).arg(&program).arg(&source);
    let compiled = { compiled }.status().unwrap();
    assert!(compiled.success());
    Running(Command::new(program).arg(home.path("journal")).spawn().unwrap())
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
    let cause = &answer["causes"][0];
    assert_eq!(cause["cause"], "lock", "{answer:#}");
    assert_eq!(cause["name"], "journal_lock");
    assert_eq!(cause["waited_in"][0], "append");
    assert_eq!(cause["held_in"][0], "append");
    let reasons = cause["holder"].as_array().unwrap();
    assert!(reasons.iter().any(|holder| holder["reason"] == "input_output"), "{cause:#}");
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
    check("--pid 1 --seconds 0.01", "a look takes 0.2 s at least");
}
