//! A program under QEMU's user mode, whose accesses to memory are watched: no kernel is booted, and each thread is a CPU.

use std::os::fd::AsFd;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail};
use host::children;

use crate::qemu::no_plugins;
use crate::tracer::{Trace, Tracer};

/// QEMU's translator of programs for this architecture.
pub(crate) const QEMU: &str =
    if cfg!(target_arch = "aarch64") { "qemu-aarch64" } else { "qemu-x86_64" };

/// What a program accessed.
pub struct TracedProgram {
    pub trace: Trace,
    /// Its memory map at the end, as /proc/PID/maps shows it.
    pub maps: String,
    pub status: ExitStatus,
    /// Number of its threads that executed anything.
    pub threads: usize,
}

/// What QEMU's user mode says of its version. Fails where it is not installed, or has no plugins; `instead` is what the user
/// may do then.
pub(crate) fn version(instead: &str) -> Result<String> {
    let mut version = Command::new(QEMU);
    let version = match children::output(version.arg("--version")) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            bail!("{QEMU}, which runs programs, is not installed (Debian: apt install qemu-user)")
        }
        output => output.with_context(|| format!("starting {QEMU}"))?,
    };
    let help = children::output(Command::new(QEMU).arg("-help"));
    let help = help.with_context(|| format!("asking {QEMU} for its options"))?;
    if !String::from_utf8_lossy(&help.stdout).contains("-plugin") {
        bail!("{}{instead}", no_plugins(QEMU, "qemu-user"));
    }
    let version = String::from_utf8_lossy(&version.stdout);
    Ok(version.lines().next().unwrap_or_default().to_string())
}

/// Runs a program to its end; its output goes where knee's messages go.
pub fn trace(program: &[String]) -> Result<TracedProgram> {
    let instead = "; or trace the program in a virtual machine: knee conflicts --command";
    let tracer = Tracer::new(&version(instead)?, 0)?;
    let mut command = Command::new(QEMU);
    command.args(["-plugin", &tracer.argument(), "--"]).args(program);
    let messages = std::io::stderr().as_fd().try_clone_to_owned();
    command
        .stdout(Stdio::from(messages.context("sending the program's output to standard error")?));
    let mut child = children::spawn(&mut command).with_context(|| format!("starting {QEMU}"))?;
    let status = child.wait().with_context(|| format!("waiting for {}", program[0]))?;
    let trace = tracer.take()?;
    let mut threads: Vec<u16> = trace.instructions.iter().map(|executed| executed.cpu).collect();
    threads.sort_unstable();
    threads.dedup();
    Ok(TracedProgram { maps: tracer.maps()?, threads: threads.len(), trace, status })
}
