//! Runs the programs that make, check and describe file systems. Each runs in a process group of its
//! own, so that Ctrl-C does not interrupt it, and dies with knee.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result};
use host::children::{self, Streams};
use host::{executables, kill_with_parent};

/// A program and the Debian package that has it.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    pub name: &'static str,
    /// Arguments of every call.
    pub arguments: &'static [&'static str],
    pub package: &'static str,
}

/// Directories of programs that only root needs; a user's PATH may lack these.
const SYSTEM: &str = "/usr/local/sbin:/usr/sbin:/sbin";

/// The number of last lines that explain a failure.
const LAST_LINES: usize = 4;

/// How a program ended, and its output on stdout and stderr.
pub struct ProgramOutput {
    pub status: ExitStatus,
    pub text: String,
}

impl ProgramOutput {
    /// The last lines of the output, joined into one; without the usage that some programs print
    /// after an error.
    pub fn last_lines(&self) -> String {
        let (before, _) = self.text.split_once("\nUsage:").unwrap_or((&self.text, ""));
        let lines: Vec<&str> =
            before.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
        lines[lines.len().saturating_sub(LAST_LINES)..].join("; ")
    }
}

impl Program {
    /// Finds the program; the error names its package.
    pub fn find(&self) -> Result<PathBuf> {
        let path = format!("{}:{SYSTEM}", executables::own_path());
        executables::in_path(self.name, &path).with_context(|| {
            format!("{} is not installed: apt install {}", self.name, self.package)
        })
    }

    /// The arguments for a device: those of every call, then `arguments`, then the device.
    fn arguments_for<'a>(
        &self,
        arguments: &[&'a str],
        device: &'a Path,
    ) -> impl Iterator<Item = &'a OsStr> {
        let words = [self.arguments, arguments].concat();
        words.into_iter().map(OsStr::new).chain([device.as_os_str()])
    }

    /// The program and its arguments for a device, as `run` would start it.
    pub fn words(&self, arguments: &[&str], device: &Path) -> Vec<String> {
        let arguments = self.arguments_for(arguments, device);
        let arguments = arguments.map(|word| word.to_string_lossy().into_owned());
        [self.name.to_string()].into_iter().chain(arguments).collect()
    }

    /// Runs the program on a device, with `arguments` before the device.
    pub fn run(&self, arguments: &[&str], device: &Path, time: Duration) -> Result<ProgramOutput> {
        let mut command = Command::new(self.find()?);
        command.args(self.arguments_for(arguments, device));
        run(&mut command, time)
            .with_context(|| format!("running {} on {}", self.name, device.display()))
    }
}

fn run(command: &mut Command, time: Duration) -> Result<ProgramOutput> {
    command.env("LC_ALL", "C");
    kill_with_parent(command, libc::SIGKILL);
    let output = children::output_within(command, Streams::Together, time)?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(ProgramOutput { status: output.status, text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_missing_is_named_with_its_package() {
        let missing = Program { name: "mkfs.none", arguments: &[], package: "none-progs" };
        let error = missing.find().unwrap_err().to_string();
        assert_eq!(error, "mkfs.none is not installed: apt install none-progs");
    }

    #[test]
    fn the_last_lines_of_the_output_explain_a_failure() {
        let shell = Program { name: "sh", arguments: &["-c"], package: "dash" };
        let script = "for n in 1 2 3 4 5 6; do echo $n; done; echo 'no way' >&2; exit 3";
        let output = shell.run(&[script], Path::new("x"), Duration::from_secs(60)).unwrap();
        assert_eq!(output.status.code(), Some(3));
        assert_eq!(output.last_lines(), "4; 5; 6; no way");
        let slow = shell.run(&["sleep 100"], Path::new("x"), Duration::from_millis(1));
        assert!(format!("{:#}", slow.err().unwrap()).contains("did not end"));
    }
}
