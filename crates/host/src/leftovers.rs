//! What a program leaves behind when it ends: servers of compilers, daemons of builds. They would disturb runs, and
//! outlive knee. Each inherits a mark in its environment, whatever session or parent it moves to.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, waitpid};

use crate::descendants::{self, adopt, descendants, has_children, signal};

/// The environment variable that marks a program and all that it starts.
const MARK: &str = "KNEE_STARTED_BY";

/// How long killed processes may take to disappear.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// The processes of one program.
#[derive(Debug)]
pub struct Leftovers {
    mark: String,
}

impl Leftovers {
    /// Marks a program that is about to be started.
    pub fn of(command: &mut Command) -> Leftovers {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{number}", std::process::id());
        command.env(MARK, &mark);
        // An orphan becomes a child of this process: it stays in sight, and is waited for.
        adopt();
        Leftovers { mark: format!("{MARK}={mark}") }
    }

    /// Ends what is left of the program, once it has been waited for.
    pub fn end(self) {
        let since = Instant::now();
        // A killed process loses its environment before it can be reaped.
        let mut killed = BTreeSet::new();
        while has_children() && since.elapsed() < KILL_TIMEOUT {
            let left: Vec<i32> = descendants().into_iter().filter(|pid| self.is_of(*pid)).collect();
            signal(&left, Signal::KILL);
            killed.extend(left);
            killed.retain(|pid| !is_gone(*pid));
            if killed.is_empty() {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_of(&self, pid: i32) -> bool {
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|one| one == self.mark.as_bytes())
    }
}

/// Reaps a killed process, if it is dead and a child of this one; returns whether nothing of it remains.
fn is_gone(pid: i32) -> bool {
    let Some(pid) = Pid::from_raw(pid) else { return true };
    match waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(reaped) => reaped.is_some(),
        // Its own parent reaps it, or this process once that parent is dead.
        Err(_) => rustix::process::test_kill_process(pid) == Err(Errno::SRCH),
    }
}

/// Runs `work`, and then kills every process that it left behind: for work during which this process starts nothing
/// else. This also ends daemons that have cleared their environment.
pub fn contained<T>(work: impl FnOnce() -> T) -> T {
    adopt();
    let before = descendants::present();
    let done = work();
    let _ = descendants::kill(&before);
    done
}

#[cfg(test)]
mod tests {
    use std::process::Stdio;

    use super::*;

    /// Runs a line of a shell that prints the id of a process it leaves behind; returns whether that lives on.
    fn lives_on(line: &str) -> bool {
        let mut command = Command::new("sh");
        command.args(["-c", line]);
        let leftovers = Leftovers::of(&mut command);
        // What is left behind holds its errors open.
        let output = command.stderr(Stdio::inherit()).output().unwrap();
        let pid = String::from_utf8(output.stdout).unwrap();
        let pid: i32 = pid.trim().parse().unwrap();
        let lives = || fs::exists(format!("/proc/{pid}")).unwrap();
        assert!(lives(), "the test needs a process that is left behind");
        leftovers.end();
        lives()
    }

    #[test]
    fn daemons_are_ended_wherever_they_moved() {
        assert!(!lives_on("sleep 300 > /dev/null & echo $!"));
        assert!(!lives_on("setsid sh -c 'sleep 300 > /dev/null & echo $!' & wait"));
        assert!(!lives_on(
            "(setsid sh -c '(trap \"\" TERM HUP; sleep 300) > /dev/null & echo $!' &)  | cat"
        ));
    }

    #[test]
    fn what_others_started_lives_on() {
        let mut other = Command::new("sleep").arg("300").spawn().unwrap();
        let mut command = Command::new("true");
        let leftovers = Leftovers::of(&mut command);
        command.status().unwrap();
        leftovers.end();
        assert!(other.try_wait().unwrap().is_none());
        other.kill().unwrap();
        other.wait().unwrap();
    }
}
