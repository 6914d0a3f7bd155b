//! `knee help --tour`: six commands, each shown, run if the reader wants, and explained. Without a terminal the text alone.

use std::io::{BufRead, IsTerminal, stderr, stdin, stdout};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use host::terminal::{print, say, talk};
use host::{children, signals};
use text::prose::wrapped;

/// A command, what it is for, and how to read what it prints.
pub struct Stop {
    pub line: &'static str,
    before: &'static str,
    after: &'static str,
}

/// The way: look at the host, measure, explain, compare; then a lock, checked and simulated.
pub const STOPS: [Stop; 6] = [
    Stop {
        line: "knee doctor",
        before: "What does this host permit, and what would disturb a measurement? Some seconds.",
        after: "Each line that is not ok says what it costs and what to do. Nothing of it must be repaired: what a host lacks \
                is missing in the answers, and said there.",
    },
    Stop {
        line: "knee run posix_lock_shared --cpus 1..all --seconds 0.2 --blocks 3 --label tour",
        before: "How does an operation scale with CPUs? Processes take turns with one file lock, on 1, 2, 4 … CPUs, in \
                 random order, three times each.",
        after: "The column 'per CPU' would be 100 % of an operation that scales. Here CPUs are idle: the tasks wait for one \
                lock. The record is kept under the label 'tour'. See knee help results.",
    },
    Stop {
        line: "knee explain posix_lock_shared --seconds 0.3 --blocks 2",
        before: "What stops it? Each nanosecond of an operation, in rows that add up. As root with the kernel's events, else \
                 with what /proc tells.",
        after: "The sentence above the table is the answer. 'idle' says what the tasks waited for, 'system call fcntl' what \
                a call costs. See knee help ledger.",
    },
    Stop {
        line: "knee run posix_lock_shared --variant wait= --variant try=mode=try --cpus 1 --seconds 0.1 --blocks 10 --label tour-compare",
        before: "Do two differ? One waits for the lock, the other tries. Both run in each block, in random order.",
        after: "A verdict is faster, slower, same or cannot tell, with its interval. 'same' is shown, never assumed. \
                --until-decided goes on until each is decided. See knee help comparisons.",
    },
    Stop {
        line: "knee check ticket --mutants",
        before: "Is a lock correct? Each access is weakened, one after the other, and the search of all interleavings must notice.",
        after: "A mutant that is caught shows that the access matters. A C file of yours takes the place of 'ticket': \
                knee new lock my_lock.c writes one. See knee help own-lock.",
    },
    Stop {
        line: "knee simulate ticket,mcs --host westmere-ex-8s --cpus 1,4,16,64 --draws 4",
        before: "And on a machine that you do not have? The same source on 64 simulated CPUs of eight sockets.",
        after: "The rate of the ticket lock falls with the CPUs, since each waiter reads the word at each release. In \
                brackets is what is unknown about the host. See knee help simulator.",
    },
];

const END: &str = "That is all. `knee record rm tour tour-compare` removes what was measured, `knee help start` has a way in for \
    each task, and `knee report tour --html page.html` makes a page of it.";

/// Shows all stops. On a terminal it asks at each whether to run it.
pub fn run(width: usize) -> Result<ExitCode> {
    let asks = stdin().is_terminal() && stdout().is_terminal();
    if asks {
        signals::catch();
    }
    for (at, stop) in STOPS.iter().enumerate() {
        let before = wrapped(&format!("{}. {}", at + 1, stop.before), width, 3);
        print(format_args!("{before}\n    {}\n\n", stop.line))?;
        if asks {
            match answer()? {
                Answer::Run => run_line(stop.line)?,
                Answer::Skip => {}
                Answer::Quit => return Ok(ExitCode::SUCCESS),
            }
            if signals::received().is_some() {
                return Ok(ExitCode::from(130));
            }
        }
        print(format_args!("{}\n", wrapped(&format!("   {}", stop.after), width, 3)))?;
    }
    print(wrapped(END, width, 0))?;
    Ok(ExitCode::SUCCESS)
}

enum Answer {
    Run,
    Skip,
    Quit,
}

/// What the reader wants.
fn answer() -> Result<Answer> {
    say("   Enter runs it, s skips it, q ends the tour: ");
    let mut line = String::new();
    // Ctrl-D, and Ctrl-C, end it.
    let is_end = stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes == 0);
    Ok(match line.trim() {
        _ if is_end || signals::received().is_some() => Answer::Quit,
        "q" => Answer::Quit,
        "s" => Answer::Skip,
        _ => Answer::Run,
    })
}

/// Runs a command by this binary, whatever PATH has. Ctrl-C interrupts it.
fn run_line(line: &str) -> Result<()> {
    let words = shlex::split(line).context("a command of the tour")?;
    let knee = std::env::current_exe().context("looking for knee's own file")?;
    let mut command = Command::new(knee);
    command.args(&words[1..]).arg("--no-pager").stdin(Stdio::null());
    let mut child = children::spawn(&mut command).with_context(|| format!("starting {line}"))?;
    let mut is_told = false;
    let status = loop {
        if let Some(status) = child.try_wait().with_context(|| format!("waiting for {line}"))? {
            break status;
        }
        if signals::received().is_some() && !is_told {
            // SAFETY: a plain call; the process is ours and not reaped.
            unsafe { libc::kill(child.id() as i32, libc::SIGINT) };
            is_told = true;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    if !status.success() {
        talk(format_args!("   ({line} ended with {status}: its own words say why)"));
    }
    if stderr().is_terminal() {
        say("\n");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::command_line::Cli;

    #[test]
    fn each_line_can_be_parsed_and_each_guide_exists() {
        for stop in &STOPS {
            let words = shlex::split(stop.line).unwrap();
            assert!(Cli::command().try_get_matches_from(words).is_ok(), "{}", stop.line);
            for rest in stop.after.split("See knee help ").skip(1) {
                let name = rest.trim_end_matches('.');
                assert!(crate::guides::named(name).is_some(), "{name}");
            }
        }
    }
}
