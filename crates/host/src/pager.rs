//! Long texts in a pager, as git shows them: only on a terminal, by the user's pager, else less.

use std::ffi::OsString;
use std::io::{ErrorKind, Write};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use anyhow::Result;

use crate::terminal::{self, allows_pager, shown};

/// Shows a text in the pager, or prints it where that is impossible or not wanted.
pub fn page(text: &str) -> Result<()> {
    let paged = match pager() {
        Some(command) if allows_pager() => shown_by(command, text),
        _ => false,
    };
    if paged { Ok(()) } else { terminal::print(text) }
}

/// `$KNEE_PAGER`, else `$PAGER`, else less, which shows a text that fits the screen like cat. `None` if
/// the user wants no pager: the first that is set is empty or `cat`.
fn pager() -> Option<Command> {
    let chosen = ["KNEE_PAGER", "PAGER"].iter().find_map(std::env::var_os);
    let command = match chosen {
        None => {
            let mut less = Command::new("less");
            less.arg("-FRX");
            less
        }
        Some(words) if words.is_empty() || words == "cat" => return None,
        Some(words) => {
            let mut shell = Command::new("sh");
            shell.args([OsString::from("-c"), words]);
            // What git gives less, if the user has said nothing else.
            if std::env::var_os("LESS").is_none() {
                shell.env("LESS", "FRX");
            }
            shell
        }
    };
    Some(command)
}

/// Lets a program show the text; returns whether it could be started.
fn shown_by(mut command: Command, text: &str) -> bool {
    // SAFETY: no call at all. With a closure, std forks: after a vfork, Ctrl-Z could stop the pager
    // before its exec, and this process would wait for that.
    unsafe { command.pre_exec(|| Ok(())) };
    let Ok(mut pager) = command.stdin(Stdio::piped()).spawn() else { return false };
    // Ctrl-C is for the pager, and a reader who quits early is no error.
    // SAFETY: sets how this process takes two signals.
    unsafe {
        libc::signal(libc::SIGINT, libc::SIG_IGN);
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
    }
    let mut input = pager.stdin.take().expect("the pager's input is a pipe");
    let written = input.write_all(shown(text).as_bytes());
    drop(input);
    let status = pager.wait();
    // The shell's words for a program that it cannot start.
    let was_missing = status.is_ok_and(|status| matches!(status.code(), Some(126 | 127)));
    !was_missing && !written.is_err_and(|e| e.kind() != ErrorKind::BrokenPipe)
}
