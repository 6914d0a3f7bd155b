//! Child processes: started out of the terminal's reach, and with clean signals.
//!
//! Ctrl-Z and Ctrl-C go to all processes of the terminal's foreground group. If a child were stopped by
//! one before its exec, its parent would wait for that exec, and the terminal for the parent. So stop
//! signals are blocked from before the fork until the child has left the group.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::job_control::{RunningSince, start_child};
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

/// Runs a program to its end. Kills it and its group after `limit`, in which time that this process is
/// stopped does not count. A signal that asks this process to end does not end the program.
pub fn run(command: &mut Command, limit: Duration) -> Result<ExitStatus> {
    let mut child = spawn(command).context("starting the program")?;
    let since = RunningSince::now();
    match wait(&mut child, || since.elapsed() > limit)? {
        Some(status) => Ok(status),
        None => bail!("it was killed, as it did not end within {:.0} s", limit.as_secs_f64()),
    }
}

/// Runs a program to its end, and captures its output. Kills it and its group when a signal asks this
/// process to end.
pub fn output(command: &mut Command) -> io::Result<Output> {
    let stdout = memfd::create(c"stdout").map_err(io::Error::other)?;
    let stderr = memfd::create(c"stderr").map_err(io::Error::other)?;
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?);
    let mut child = spawn(command)?;
    let status = wait(&mut child, signals::ask_to_end)?;
    let status = status.ok_or_else(|| io::Error::other("interrupted"))?;
    let read = |mut file: File| {
        let mut bytes = Vec::new();
        file.rewind().and_then(|()| file.read_to_end(&mut bytes)).map(|_| bytes)
    };
    Ok(Output { status, stdout: read(stdout)?, stderr: read(stderr)? })
}

/// Waits for a child's end; kills its group when it shall not go on, and returns nothing then.
fn wait(child: &mut Child, shall_end: impl Fn() -> bool) -> io::Result<Option<ExitStatus>> {
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
        let why = run(&mut slow, Duration::from_millis(1)).unwrap_err();
        assert_eq!(why.to_string(), "it was killed, as it did not end within 0 s");
        assert!(run(Command::new("true").arg("0"), Duration::from_secs(100)).unwrap().success());
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
