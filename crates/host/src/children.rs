//! Child processes: started out of the terminal's reach, and with clean signals.
//!
//! Ctrl-Z and Ctrl-C go to all processes of the terminal's foreground group. If a child were stopped by
//! one before its exec, its parent would wait for that exec, and the terminal for the parent. So stop
//! signals are blocked from before the fork until the child has left the group.

use std::io::{self, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::bounded_output::BoundedOutput;
use crate::job_control::{RunningSince, start_child};
use crate::leftovers::Leftovers;
use crate::{memfd, signals};

/// The signals by which a terminal stops processes.
const STOPS: [i32; 3] = [libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU];

/// Starts a program in a process group of its own, where the terminal does not stop or interrupt it.
pub fn spawn(command: &mut Command) -> io::Result<Child> {
    command.process_group(0);
    // SAFETY: system calls only. With a closure, std forks: after a vfork, a stop of the child would make
    // the parent wait where even a stop signal does not reach it.
    unsafe { command.pre_exec(clean_signals) };
    let before = signals::block(&STOPS);
    let child = start_child(|| command.spawn());
    // SAFETY: the mask of this thread from before.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
    child
}

/// Forgets stop signals that came before this process left the terminal's group, and blocks no signal
/// any more. For a child between fork and exec; makes only system calls.
pub fn clean_signals() -> io::Result<()> {
    // SAFETY: plain calls on live data.
    unsafe {
        for signal in STOPS {
            // Ignoring a signal discards those that are pending.
            let before = libc::signal(signal, libc::SIG_IGN);
            libc::signal(signal, before);
        }
        let mut none: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut none);
        libc::pthread_sigmask(libc::SIG_SETMASK, &none, std::ptr::null_mut());
    }
    Ok(())
}

/// Where the streams of a program go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Streams {
    Apart,
    /// Both into `stdout`, in the order in which they were written.
    Together,
}

/// Runs a program to its end, and captures both ends of its output. Kills it and its group when a signal asks this
/// process to end. What it left behind is ended.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let output = captured(command.stdin(Stdio::null()), Streams::Apart, signals::ask_to_end)?;
    output.ok_or_else(|| io::Error::other("interrupted"))
}

/// As [`output`], but it kills the program after `limit`, in which time that this process is stopped does not count,
/// and not because of a signal.
pub fn output_within(command: &mut Command, streams: Streams, limit: Duration) -> Result<Output> {
    limited(command.stdin(Stdio::null()), streams, limit)
}

/// As [`output_within`], but a signal that asks this process to end kills the program, too.
pub fn output_until(command: &mut Command, streams: Streams, limit: Duration) -> Result<Output> {
    let asked = || signals::received().is_some();
    let since = RunningSince::now();
    let shall_end = || asked() || since.elapsed() > limit;
    let output = captured(command.stdin(Stdio::null()), streams, shall_end);
    match output.context("starting the program")? {
        Some(output) => Ok(output),
        None if asked() => bail!("interrupted"),
        None => bail!("{}", not_in_time(limit)),
    }
}

/// As [`output_within`], of a program that reads `input`.
pub fn answer_within(command: &mut Command, input: &[u8], limit: Duration) -> Result<Output> {
    let mut file = memfd::in_memory("knee-input", input)?;
    file.rewind().context("rewinding a file in memory")?;
    limited(command.stdin(file), Streams::Apart, limit)
}

fn limited(command: &mut Command, streams: Streams, limit: Duration) -> Result<Output> {
    let since = RunningSince::now();
    let output = captured(command, streams, || since.elapsed() > limit);
    match output.context("starting the program")? {
        Some(output) => Ok(output),
        None => bail!("{}", not_in_time(limit)),
    }
}

fn not_in_time(limit: Duration) -> String {
    format!("it was killed, as it did not end within {:.0} s", limit.as_secs_f64())
}

fn captured(
    command: &mut Command,
    streams: Streams,
    shall_end: impl Fn() -> bool,
) -> io::Result<Option<Output>> {
    let in_memory = || BoundedOutput::in_memory().map_err(io::Error::other);
    let mut files = match streams {
        Streams::Apart => vec![in_memory()?, in_memory()?],
        Streams::Together => vec![in_memory()?],
    };
    let last = files.len() - 1;
    command.stdout(files[0].for_child()?).stderr(files[last].for_child()?);
    let leftovers = Leftovers::of(command);
    let mut child = spawn(command)?;
    let status = wait(&mut child, || {
        files.iter_mut().for_each(|file| drop(file.free_middle()));
        shall_end()
    })?;
    leftovers.end();
    let Some(status) = status else { return Ok(None) };
    let stdout = files[0].text()?;
    let stderr = if last > 0 { files[last].text()? } else { Vec::new() };
    Ok(Some(Output { status, stdout, stderr }))
}

/// Waits for a child's end; kills its group when it shall not go on, and returns nothing then.
fn wait(child: &mut Child, mut shall_end: impl FnMut() -> bool) -> io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(500);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if shall_end() {
            // SAFETY: the group of a child that has not been waited for.
            unsafe { libc::kill(-(child.id() as i32), libc::SIGKILL) };
            return child.wait().map(|_| None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_its_group() {
        let mut slow = Command::new("sh");
        slow.args(["-c", "sleep 100 & wait"]);
        let why = output_within(&mut slow, Streams::Apart, Duration::from_millis(1)).unwrap_err();
        assert_eq!(why.to_string(), "it was killed, as it did not end within 0 s");
    }

    #[test]
    fn output_is_captured_and_its_middle_left_out() {
        let script = "echo first; echo wrong >&2; head -c 100000000 /dev/zero; echo last";
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        let apart = output_within(&mut shell, Streams::Apart, Duration::from_secs(300)).unwrap();
        assert_eq!(apart.stderr, b"wrong\n");
        assert!(apart.stdout.starts_with(b"first\n") && apart.stdout.ends_with(b"last\n"));
        assert!(apart.stdout.len() < 20 << 20, "{} bytes", apart.stdout.len());
        let both = output_within(&mut shell, Streams::Together, Duration::from_secs(300)).unwrap();
        assert!(both.stdout.starts_with(b"first\nwrong\n") && both.stderr.is_empty());
    }

    #[test]
    fn a_child_has_no_blocked_signal_whatever_its_parent_blocks() {
        let before = signals::block(&[libc::SIGTERM, libc::SIGTSTP]);
        let output = output(Command::new("grep").args(["SigBlk", "/proc/self/status"]));
        // SAFETY: the mask of this thread from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut()) };
        let text = String::from_utf8(output.unwrap().stdout).unwrap();
        assert_eq!(text.trim(), "SigBlk:\t0000000000000000");
    }
}
