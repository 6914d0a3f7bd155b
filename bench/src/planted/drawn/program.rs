//! A program of a drawn pair, in one of four languages.

use std::fmt::Write;
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
}

impl Action {
    /// All that a program in this language can do, at the usual sizes.
    pub fn all(language: Language) -> Vec<Action> {
        use Action::{Compute, Open, Parent, Read, Seek, Sleep, Spawn, Status, Touch, Write};
        match language {
            Language::C => vec![
                Parent,
                Status,
                Open,
                Read(1),
                Write(1),
                Seek,
                Compute(2000),
                Touch(4),
                Sleep,
                Spawn,
            ],
            Language::Python => {
                vec![Parent, Status, Open, Read(1), Write(1), Seek, Compute(100), Sleep, Spawn]
            }
            Language::Rust => vec![Status, Open, Read(1), Write(1), Seek, Compute(2000), Sleep],
            Language::Shell => vec![Status, Open, Compute(20), Spawn],
        }
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
                Action::Compute(turns) => turn_ns * f64::from(turns),
                Action::Touch(pages) => 2000.0 + 600.0 * f64::from(pages),
                Action::Sleep => 160_000.0,
                Action::Spawn => 900_000.0,
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
                return Ok(source.display().to_string());
            }
        }
        Ok(program.display().to_string())
    }

    /// The actions, a line each.
    fn lines(&self, indent: &str, line: impl Fn(Action) -> String) -> String {
        self.actions.iter().fold(String::new(), |mut text, action| {
            writeln!(text, "{indent}{}", line(*action)).expect("a text grows");
            text
        })
    }

    fn c(&self) -> String {
        let actions = self.lines("\t\t", |action| match action {
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
        });
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
        C.replace("ACTIONS", &actions)
            .replace("TASKS", &tasks)
            .replace("TOTAL", &(self.operations * u64::from(self.tasks)).to_string())
            .replace("= N;", &format!("= {};", self.operations))
    }

    fn python(&self) -> String {
        let actions = self.lines("    ", |action| match action {
            Action::Parent => "os.getppid()".to_string(),
            Action::Status => "os.stat('data')".to_string(),
            Action::Open => "os.close(os.open('data', os.O_RDONLY))".to_string(),
            Action::Read(pages) => format!("os.pread(file, {pages} * 4096, 0)"),
            Action::Write(pages) => format!("os.pwrite(file, full[:{pages} * 4096], 0)"),
            Action::Seek => "os.lseek(file, i & 4095, os.SEEK_SET)".to_string(),
            Action::Compute(turns) => format!("mix({turns})"),
            Action::Sleep => "time.sleep(1e-4)".to_string(),
            Action::Spawn => "subprocess.run(['/bin/true'])".to_string(),
            Action::Touch(_) => unreachable!("not among the actions of Python"),
        });
        format!(
            "#!/usr/bin/env python3\nimport os, subprocess, time\nfull = bytes(1 << 18)\nwith \
             open('data', 'wb') as made:\n    made.write(full)\nfile = os.open('data', os.O_RDWR)\n\
             def mix(turns):\n    x = 1\n    for _ in range(turns):\n        x = x * 5 + 1 & 0xffff\n    \
             return x\nfor i in range({0}):\n{actions}print('ops:', {0})\n",
            self.operations
        )
    }

    fn rust(&self) -> String {
        let actions = self.lines("        ", |action| match action {
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
            Action::Parent | Action::Touch(_) | Action::Spawn => {
                unreachable!("not among the actions of Rust")
            }
        });
        RUST.replace("ACTIONS", &actions).replace("TOTAL", &self.operations.to_string())
    }

    fn shell(&self) -> String {
        let actions = self.lines("    ", |action| match action {
            Action::Status => "[ -e data ]".to_string(),
            Action::Open => "read -r line < data".to_string(),
            Action::Compute(turns) => {
                format!("x=0; while [ $x -lt {turns} ]; do x=$((x + 1)); done")
            }
            Action::Spawn => "/bin/true".to_string(),
            _ => unreachable!("not among the actions of the shell"),
        });
        format!(
            "#!/bin/sh\necho some text > data\ni=0\nwhile [ $i -lt {0} ]; do\n{actions}    \
             i=$((i + 1))\ndone\necho \"ops: {0}\"\n",
            self.operations
        )
    }
}

const C: &str = r#"#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;
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

static void *work(void *count)
{
	char *buffer = calloc(1, 1 << 18);
	struct stat status;
	for (long i = 0; i < *(long *)count; i++) {
ACTIONS		take((long)&status);
	}
	free(buffer);
	return NULL;
}

int main(void)
{
	char *full = calloc(1, 1 << 18);
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
    for i in 0..TOTAL_u64 {
ACTIONS    }
    println!("ops: {}", TOTAL_u64);
}
"#;
