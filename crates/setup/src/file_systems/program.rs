//! The programs of a file system: those that make it, check it and describe it. Each runs in a
//! process group of its own, so that Ctrl-C does not cut it off, and dies with knee.

use std::io::{Read, Seek};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use host::kill_with_parent;

/// A program with the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Arguments that it always gets.
    pub arguments: &'static [&'static str],
    /// The package.
    pub package: &'static str,
}

/// Where programs lie that only root needs; a user's PATH may lack these.
const SYSTEM: &[&str] = &["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// How many of its last lines tell why it failed.
const LAST_LINES: usize = 4;

/// How a program ended, and all that it said.
pub struct Said {
    pub status: ExitStatus,
    pub text: String,
}

impl Said {
    /// Its last lines, as one; before its usage, where it explains that after what is wrong.
    pub fn last_lines(&self) -> String {
        let (before, _) = self.text.split_once("\nUsage:").unwrap_or((&self.text, ""));
        let lines: Vec<&str> =
            before.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
    }
}

impl Program {
    /// Where it is.
    pub fn find(&self) -> Result<PathBuf> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::env::split_paths(&path).filter(|folder| folder.is_absolute());
        let folders = folders.chain(SYSTEM.iter().map(PathBuf::from));
        let found = folders.map(|folder| folder.join(self.name)).find(|file| file.is_file());
        found.with_context(|| {
            format!("there is no {} here: install it (apt install {})", self.name, self.package)
        })
    }

    /// Runs it on a device, with more arguments before that.
    pub fn run(&self, arguments: &[&str], device: &Path, time: Duration) -> Result<Said> {
        let mut command = Command::new(self.find()?);
        command.args(self.arguments).args(arguments).arg(device);
        run(&mut command, time)
            .with_context(|| format!("running {} on {}", self.name, device.display()))
    }
}

fn run(command: &mut Command, time: Duration) -> Result<Said> {
    let mut said = host::memfd::create(c"said")?;
    command.process_group(0).env("LC_ALL", "C");
    command.stdin(Stdio::null()).stdout(said.try_clone()?).stderr(said.try_clone()?);
    kill_with_parent(command, libc::SIGKILL);
    let mut child = command.spawn().context("starting it")?;
    let since = Instant::now();
    let mut pause = Duration::from_micros(500);
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        if since.elapsed() > time {
            let _ = child.kill();
            child.wait()?;
            bail!("it did not end within {:.0} s", time.as_secs_f64());
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    };
    let mut text = Vec::new();
    said.rewind()?;
    said.read_to_end(&mut text)?;
    Ok(Said { status, text: String::from_utf8_lossy(&text).into_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let missing = Program { name: "mkfs.none", arguments: &[], package: "none-progs" };
        let said = missing.find().unwrap_err().to_string();
        assert_eq!(said, "there is no mkfs.none here: install it (apt install none-progs)");
    }

    #[test]
    fn what_a_program_said_last_tells_why_it_failed() {
        let shell = Program { name: "sh", arguments: &["-c"], package: "dash" };
        let script = "for n in 1 2 3 4 5 6; do echo $n; done; echo 'no way' >&2; exit 3";
        let said = shell.run(&[script], Path::new("x"), Duration::from_secs(60)).unwrap();
        assert_eq!(said.status.code(), Some(3));
        assert_eq!(said.last_lines(), "4; 5; 6; no way");
        let slow = shell.run(&["sleep 100"], Path::new("x"), Duration::from_millis(1));
        assert!(format!("{:#}", slow.err().unwrap()).contains("did not end"));
    }
}
