//! A program of a drawn pair, in one of four languages.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use crate::output;

/// The language of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Python,
    Rust,
    Shell,
}

impl Language {
    /// Name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Python => "Python",
            Language::Rust => "Rust",
            Language::Shell => "shell",
        }
    }
}

/// What a program does in each operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// getppid(2)
    Parent,
    /// The status of a file.
    Status,
    /// Opens and closes a file.
    Open,
    /// Reads this many pages at the start of a file.
    Read(u32),
    /// Writes this many pages at the start of a file.
    Write(u32),
    /// Moves the offset of a file.
    Seek,
    /// Computes for this many turns.
    Compute(u32),
    /// Maps, touches and unmaps this many pages.
    Touch(u32),
    /// Sleeps for 100 us.
    Sleep,
    /// Starts a program and waits for its end.
    Spawn,
    /// sched_yield(2)
    Yield,
    /// Sends itself a signal, and handles it.
    Signal,
    /// Sends a byte through a pair of sockets and receives it.
    Socket,
    /// Writes a byte to a pipe and reads it.
    Pipe,
    /// Lists a directory.
    List,
    /// Renames a file.
    Rename,
    /// Takes the write permission of a page, gives it back, and writes to the page.
    Protect,
    /// Computes for this many turns while it has a lock that all tasks share.
    Locked(u32),
    /// Reads random bytes from the kernel.
    Random,
    /// poll(2) of a pipe, without a wait.
    Poll,
}

impl Action {
    /// Every action, at its usual size.
    const ALL: [Action; 20] = [
        Action::Parent,
        Action::Status,
        Action::Open,
        Action::Read(1),
        Action::Write(1),
        Action::Seek,
        Action::Compute(2000),
        Action::Touch(4),
        Action::Sleep,
        Action::Spawn,
        Action::Yield,
        Action::Signal,
        Action::Socket,
        Action::Pipe,
        Action::List,
        Action::Rename,
        Action::Protect,
        Action::Locked(2000),
        Action::Random,
        Action::Poll,
    ];

    /// All that a program in this language can do, at the usual sizes.
    pub fn all(language: Language) -> Vec<Action> {
        // A turn takes longer in an interpreter.
        let sized = |action| match (action, language) {
            (Action::Compute(_), Language::Python) => Action::Compute(100),
            (Action::Compute(_), Language::Shell) => Action::Compute(20),
            _ => action,
        };
        let can = |action: &Action| action.line(language).is_some();
        Action::ALL.into_iter().filter(can).map(sized).collect()
    }

    /// The action as a line of a program; `None` if programs in this language cannot do it.
    fn line(self, language: Language) -> Option<String> {
        match language {
            Language::C => Some(self.c()),
            Language::Python => self.python(),
            Language::Rust => self.rust(),
            Language::Shell => self.shell(),
        }
    }

    /// The action in C, whose programs can do all of them.
    fn c(self) -> String {
        match self {
            Action::Parent => "syscall(SYS_getppid);".to_string(),
            Action::Status => "stat(\"data\", &status);".to_string(),
            Action::Open => "close(open(\"data\", O_RDONLY));".to_string(),
            Action::Read(pages) => format!("take(pread(file, buffer, {pages} * 4096, 0));"),
            Action::Write(pages) => format!("take(pwrite(file, buffer, {pages} * 4096, 0));"),
            Action::Seek => "lseek(file, i & 4095, SEEK_SET);".to_string(),
            Action::Compute(turns) => format!("mix({turns});"),
            Action::Touch(pages) => format!("touch({pages});"),
            Action::Sleep => "usleep(100);".to_string(),
            Action::Spawn => "spawn();".to_string(),
            Action::Yield => "sched_yield();".to_string(),
            Action::Signal => "syscall(SYS_tgkill, getpid(), gettid(), SIGUSR1);".to_string(),
            Action::Socket => {
                "take(send(ends[0], buffer, 1, 0) + recv(ends[1], buffer, 1, 0));".to_string()
            }
            Action::Pipe => {
                "take(write(tube[1], buffer, 1) + read(tube[0], buffer, 1));".to_string()
            }
            Action::List => "list();".to_string(),
            Action::Rename => "rename(own[turn & 1], own[(turn + 1) & 1]), turn++;".to_string(),
            Action::Protect => "protect(page);".to_string(),
            Action::Locked(turns) => format!("locked({turns});"),
            Action::Random => "take(getrandom(buffer, 64, 0));".to_string(),
            Action::Poll => "poll(&waits, 1, 0);".to_string(),
        }
    }

    /// The action in Python.
    fn python(self) -> Option<String> {
        Some(match self {
            Action::Parent => "os.getppid()".to_string(),
            Action::Status => "os.stat('data')".to_string(),
            Action::Open => "os.close(os.open('data', os.O_RDONLY))".to_string(),
            Action::Read(pages) => format!("os.pread(file, {pages} * 4096, 0)"),
            Action::Write(pages) => format!("os.pwrite(file, full[:{pages} * 4096], 0)"),
            Action::Seek => "os.lseek(file, i & 4095, os.SEEK_SET)".to_string(),
            Action::Compute(turns) => format!("mix({turns})"),
            Action::Sleep => "time.sleep(1e-4)".to_string(),
            Action::Spawn => "subprocess.run(['/bin/true'])".to_string(),
            Action::Yield => "os.sched_yield()".to_string(),
            Action::List => "os.listdir('.')".to_string(),
            Action::Rename => "move()".to_string(),
            Action::Random => "os.getrandom(64)".to_string(),
            _ => return None,
        })
    }

    /// The action in Rust.
    fn rust(self) -> Option<String> {
        Some(match self {
            Action::Status => "black_box(fs::metadata(\"data\").unwrap());".to_string(),
            Action::Open => "black_box(File::open(\"data\").unwrap());".to_string(),
            Action::Read(pages) => {
                format!("file.read_at(&mut buffer[..{pages} * 4096], 0).unwrap();")
            }
            Action::Write(pages) => {
                format!("file.write_at(&buffer[..{pages} * 4096], 0).unwrap();")
            }
            Action::Seek => "(&file).seek(SeekFrom::Start(i & 4095)).unwrap();".to_string(),
            Action::Compute(turns) => format!("mix({turns});"),
            Action::Sleep => {
                "std::thread::sleep(std::time::Duration::from_micros(100));".to_string()
            }
            Action::Yield => "std::thread::yield_now();".to_string(),
            Action::List => "black_box(fs::read_dir(\".\").unwrap().count());".to_string(),
            Action::Rename => {
                "fs::rename(own[turn & 1], own[(turn + 1) & 1]).unwrap(); turn += 1;".to_string()
            }
            _ => return None,
        })
    }

    /// The action in the shell.
    fn shell(self) -> Option<String> {
        Some(match self {
            Action::Status => "[ -e data ]".to_string(),
            Action::Open => "read -r line < data".to_string(),
            Action::Compute(turns) => {
                format!("x=0; while [ $x -lt {turns} ]; do x=$((x + 1)); done")
            }
            Action::Spawn => "/bin/true".to_string(),
            _ => return None,
        })
    }

    /// The action whatever its size.
    pub fn kind(self) -> std::mem::Discriminant<Action> {
        std::mem::discriminant(&self)
    }

    /// About how long it takes, in ns.
    fn cost_ns(self, language: Language) -> f64 {
        let call_ns = match language {
            Language::C | Language::Rust => 0.0,
            Language::Python => 400.0,
            Language::Shell => 3000.0,
        };
        let turn_ns = match language {
            Language::C | Language::Rust => 1.2,
            Language::Python => 40.0,
            Language::Shell => 800.0,
        };
        call_ns
            + match self {
                Action::Parent | Action::Seek => 120.0,
                Action::Status => 700.0,
                Action::Open => 1500.0,
                Action::Read(pages) | Action::Write(pages) => 300.0 + 250.0 * f64::from(pages),
                Action::Compute(turns) | Action::Locked(turns) => turn_ns * f64::from(turns),
                Action::Touch(pages) => 2000.0 + 600.0 * f64::from(pages),
                Action::Sleep => 160_000.0,
                Action::Spawn => 900_000.0,
                Action::Yield | Action::Random => 400.0,
                Action::Poll => 300.0,
                Action::Pipe => 900.0,
                Action::Signal => 1200.0,
                Action::Socket => 2000.0,
                Action::List => 3000.0,
                Action::Rename => 2500.0,
                Action::Protect => 2500.0,
            }
    }
}

/// A program: its tasks repeat the actions, and it prints how many operations they did.
#[derive(Clone, Debug)]
pub struct Program {
    pub language: Language,
    /// What one operation consists of, in order.
    pub actions: Vec<Action>,
    pub tasks: u32,
    /// Whether the tasks are threads; otherwise they are processes.
    pub threads: bool,
    /// Operations of each task.
    pub operations: u64,
    /// Whether all its tasks may use one CPU only.
    pub confined: bool,
}

impl Program {
    /// How many operations take about this long.
    pub fn operations_in(&self, seconds: f64) -> u64 {
        (1e9 * seconds / self.cost_ns()).ceil() as u64
    }

    /// About how long an operation takes, in ns.
    pub fn cost_ns(&self) -> f64 {
        self.actions.iter().map(|action| action.cost_ns(self.language)).sum()
    }

    /// Writes the program, compiles it if need be, and returns the line that runs it.
    pub fn build(&self, folder: &Path, name: &str) -> Result<String> {
        let (text, ending) = match self.language {
            Language::C => (self.c(), "c"),
            Language::Python => (self.python(), "py"),
            Language::Rust => (self.rust(), "rs"),
            Language::Shell => (self.shell(), "sh"),
        };
        let with = if self.confined { "taskset -c 0 " } else { "" };
        let source = folder.join(name).with_extension(ending);
        fs::write(&source, text).with_context(|| format!("writing {}", source.display()))?;
        let program = folder.join(name);
        match self.language {
            Language::C => {
                output(
                    Command::new("cc")
                        .args(["-O2", "-g", "-pthread", "-o"])
                        .arg(&program)
                        .arg(&source),
                )?;
            }
            Language::Rust => {
                output(Command::new("rustc").args(["-O", "-g", "-o"]).arg(&program).arg(&source))?;
            }
            Language::Python | Language::Shell => {
                fs::set_permissions(&source, fs::Permissions::from_mode(0o755))?;
                return Ok(format!("{with}{}", source.display()));
            }
        }
        Ok(format!("{with}{}", program.display()))
    }

    /// The actions, a line each.
    fn lines(&self, indent: &str) -> String {
        let lines = self.actions.iter().filter_map(|action| action.line(self.language));
        lines.map(|line| format!("{indent}{line}\n")).collect()
    }

    fn c(&self) -> String {
        let tasks = match (self.threads, self.tasks) {
            (_, 1) => "\tlong n = N;\n\twork(&n);\n".to_string(),
            (true, tasks) => format!(
                "\tlong n = N;\n\tpthread_t all[{tasks}];\n\tfor (int t = 0; t < {tasks}; t++) \
                 pthread_create(&all[t], NULL, work, &n);\n\tfor (int t = 0; t < {tasks}; t++) \
                 pthread_join(all[t], NULL);\n"
            ),
            (false, tasks) => format!(
                "\tlong n = N;\n\tfor (int t = 0; t < {tasks}; t++) if (!fork()) {{ work(&n); _exit(0); }}\n\
                 \twhile (wait(NULL) > 0);\n"
            ),
        };
        C.replace("ACTIONS", &self.lines("\t\t"))
            .replace("TASKS", &tasks)
            .replace("TOTAL", &(self.operations * u64::from(self.tasks)).to_string())
            .replace("= N;", &format!("= {};", self.operations))
    }

    fn python(&self) -> String {
        PYTHON
            .replace("ACTIONS", &self.lines("    "))
            .replace("TOTAL", &self.operations.to_string())
    }

    fn rust(&self) -> String {
        RUST.replace("ACTIONS", &self.lines("        "))
            .replace("TOTAL", &self.operations.to_string())
    }

    fn shell(&self) -> String {
        let actions = self.lines("    ");
        format!(
            "#!/bin/sh\necho some text > data\ni=0\nwhile [ $i -lt {0} ]; do\n{actions}    \
             i=$((i + 1))\ndone\necho \"ops: {0}\"\n",
            self.operations
        )
    }
}

const C: &str = r#"#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;
static pthread_mutex_t *lock;
static int file;
extern char **environ;

static void take(long n) { sink += n; }

__attribute__((noinline)) static void mix(unsigned long turns)
{
	unsigned long x = sink;
	while (turns--)
		x = x * 6364136223846793005ul + 1442695040888963407ul;
	sink = x;
}

__attribute__((noinline)) static void touch(int pages)
{
	char *at = mmap(NULL, pages * 4096l, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (int i = 0; i < pages; i++)
		at[i * 4096l] = 1;
	munmap(at, pages * 4096l);
}

__attribute__((noinline)) static void spawn(void)
{
	pid_t child;
	char *words[] = { "true", NULL };
	if (!posix_spawn(&child, "/bin/true", NULL, NULL, words, environ))
		waitpid(child, NULL, 0);
}

__attribute__((noinline)) static void list(void)
{
	DIR *directory = opendir(".");
	while (readdir(directory))
		;
	closedir(directory);
}

__attribute__((noinline)) static void protect(char *page)
{
	mprotect(page, 4096, PROT_READ);
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
	*(volatile char *)page = 1;
}

__attribute__((noinline)) static void locked(unsigned long turns)
{
	pthread_mutex_lock(lock);
	mix(turns);
	pthread_mutex_unlock(lock);
}

static void ignore(int number) { (void)number; }

static void *work(void *count)
{
	char *buffer = calloc(1, 1 << 18);
	char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char own[2][32];
	int ends[2], tube[2], turn = 0;
	struct stat status;
	for (int i = 0; i < 2; i++)
		snprintf(own[i], sizeof(own[i]), "own%d-%d", gettid(), i);
	close(open(own[0], O_CREAT | O_RDWR, 0600));
	take(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) + pipe(tube));
	struct pollfd waits = { tube[0], POLLIN, 0 };
	for (long i = 0; i < *(long *)count; i++) {
ACTIONS		take((long)&status + (long)page + waits.fd + turn);
	}
	unlink(own[0]);
	unlink(own[1]);
	free(buffer);
	return NULL;
}

int main(void)
{
	char *full = calloc(1, 1 << 18);
	pthread_mutexattr_t shared;
	lock = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pthread_mutexattr_init(&shared);
	pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
	pthread_mutex_init(lock, &shared);
	signal(SIGUSR1, ignore);
	file = open("data", O_RDWR | O_CREAT, 0600);
	take(pwrite(file, full, 1 << 18, 0));
TASKS	printf("ops: %ld\n", TOTALl);
	return 0;
}
"#;

const RUST: &str = r#"#![allow(unused)]
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileExt;

#[inline(never)]
fn mix(turns: u64) -> u64 {
    (0..turns).fold(1, |x: u64, _| black_box(x.wrapping_mul(6364136223846793005).wrapping_add(1)))
}

fn main() {
    let mut buffer = vec![0_u8; 1 << 18];
    fs::write("data", &buffer).unwrap();
    let file = File::options().read(true).write(true).open("data").unwrap();
    let own = ["own0", "own1"];
    let mut turn = 0;
    fs::write(own[0], "").unwrap();
    for i in 0..TOTAL_u64 {
ACTIONS    }
    println!("ops: {}", TOTAL_u64);
}
"#;

const PYTHON: &str = r#"#!/usr/bin/env python3
import os, subprocess, time
full = bytes(1 << 18)
with open('data', 'wb') as made:
    made.write(full)
file = os.open('data', os.O_RDWR)
open('own0', 'w').close()
turn = 0

def move():
    global turn
    os.rename('own%d' % (turn & 1), 'own%d' % (turn + 1 & 1))
    turn += 1

def mix(turns):
    x = 1
    for _ in range(turns):
        x = x * 5 + 1 & 0xffff
    return x

for i in range(TOTAL):
ACTIONSprint('ops:', TOTAL)
"#;
