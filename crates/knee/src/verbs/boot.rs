//! `knee kernel boot`: boots a kernel in a virtual machine, and describes the guest or runs a program.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use answers::{BootedKernel, as_json};
use anyhow::{Context, Result, bail, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::terminal::{print, talk};
use host::{job_control, signals};
use plan::guest_config;
use records::Guest;
use reports;
use runner::places::guest::console::exit_reason;
use runner::places::guest::protocol::{Reply, Request, line};
use runner::places::guest::{BootedGuest, Booter, power_off};

use crate::flags::{MachineFlags, kernel_file};

/// Boot a kernel in a virtual machine, inspect it or run a program
///
/// Without a program, it says what the kernel has that workloads and probes need. A program's output is printed, and its
/// success is the exit status. See `knee help kernels`.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel to boot: a vmlinuz or bzImage, or a folder in which make was run
    kernel: PathBuf,
    /// Words to add to the kernel command line
    #[arg(long, value_name = "WORDS")]
    cmdline: Option<String>,
    #[command(flatten)]
    machine: MachineFlags,
    /// Copy a file of this host, such as a static busybox, into the guest's root directory, or
    /// to PATH
    #[arg(long = "add", value_name = "FILE[:PATH]")]
    added: Vec<String>,
    /// Print what the kernel has as JSON
    #[arg(long, conflicts_with = "command")]
    json: bool,
    /// Program to run on the guest's console: /knee with arguments, or one copied with --add.
    /// Without a program, describe the guest
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Boots the guest, describes it or runs the program, and powers it off.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let outer = arguments.machine.guest();
    let cores =
        outer.cores.unwrap_or(if outer.sockets.or(outer.threads).is_some() { 1 } else { 2 });
    let kernel = kernel_file(&arguments.kernel)?.canonicalize();
    let guest = Guest {
        kernel: Some(
            kernel.with_context(|| format!("looking for {}", arguments.kernel.display()))?,
        ),
        cmdline: arguments.cmdline.clone(),
        cores: Some(cores),
        ..outer
    };
    guest_config::check_guest(None, &guest, &runner::allowed_cpus()?)?;
    let mut booter = Booter::without_file_systems();
    booter.added = arguments.added.iter().map(|text| added(text)).collect::<Result<_>>()?;
    signals::catch();
    job_control::follow_terminal();
    let (hypervisor, booted) = booter.try_out(&guest, 0)?;
    if arguments.command.is_empty() {
        if arguments.json {
            let boot = booted.boot.clone();
            print(as_json(&BootedKernel { hypervisor, boot })?)?;
        } else {
            print(reports::boot(&booted.boot, &hypervisor))?;
        }
        return end(booted);
    }
    let BootedGuest { mut qemu, .. } = booted;
    let ended = on_console(&mut qemu, &arguments.command)?;
    let powered_off = power_off(qemu);
    talk(format_args!("{} ended: {ended}", arguments.command[0]));
    let succeeded = powered_off && ended.ends_with("status: 0");
    Ok(if succeeded { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Reads FILE or FILE:PATH: the path in the guest, and the file of this host.
fn added(text: &str) -> Result<(String, PathBuf)> {
    let (file, path) = text.rsplit_once(':').unwrap_or((text, ""));
    let name = match path.trim_start_matches('/') {
        "" => {
            PathBuf::from(file).file_name().context("--add needs a file")?.to_string_lossy().into()
        }
        path => path.to_string(),
    };
    ensure!(
        !["knee", "modules", "dev"].contains(&name.as_str()),
        "--add {text}: the guest already has a /{name}; use --add {file}:/OTHER"
    );
    Ok((name, file.into()))
}

fn end(booted: BootedGuest) -> Result<ExitCode> {
    ensure!(power_off(booted.qemu), "the guest did not power itself off and was stopped");
    Ok(ExitCode::SUCCESS)
}

/// Runs a program on the guest's console, connected to our terminal. Returns how it ended.
fn on_console(qemu: &mut Qemu, command: &[String]) -> Result<String> {
    let mut shown = qemu.console().len();
    qemu.send(&line(&Request::Program(command.to_vec())))?;
    let terminal = stdin().is_terminal().then(RawTerminal::new).transpose()?;
    loop {
        if signals::received().is_some() {
            bail!("interrupted");
        }
        let output = qemu.next(Duration::from_millis(20));
        let console = qemu.console();
        if let Some(new) = console.get(shown..).filter(|new| !new.is_empty()) {
            let new = if terminal.is_some() { new.replace('\n', "\r\n") } else { new.to_string() };
            stdout().write_all(new.as_bytes())?;
            stdout().flush()?;
            shown = console.len();
        }
        match output {
            GuestOutput::Line(text) => {
                if let Ok(Reply::Ended(how)) = Reply::read(&text) {
                    return Ok(how);
                }
            }
            GuestOutput::Off => bail!("the guest {}", exit_reason(qemu)),
            GuestOutput::Printed | GuestOutput::Nothing => (),
        }
        if terminal.is_some() {
            type_in(qemu)?;
        }
    }
}

/// Passes pending keyboard input to the guest.
fn type_in(qemu: &mut Qemu) -> Result<()> {
    let mut poll = libc::pollfd { fd: stdin().as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one live pollfd.
    if unsafe { libc::poll(&mut poll, 1, 0) } > 0 {
        let mut typed = [0; 256];
        let n = stdin().read(&mut typed)?;
        qemu.type_in(&typed[..n])?;
    }
    Ok(())
}

/// Keeps the terminal in raw mode, in which it passes on each key immediately, until dropped.
struct RawTerminal(libc::termios);

impl RawTerminal {
    fn new() -> Result<RawTerminal> {
        // SAFETY: zeroed settings are valid, and both calls take live ones.
        unsafe {
            let mut before: libc::termios = std::mem::zeroed();
            ensure!(libc::tcgetattr(0, &mut before) == 0, "reading the terminal's settings");
            let mut raw = before;
            libc::cfmakeraw(&mut raw);
            ensure!(
                libc::tcsetattr(0, libc::TCSANOW, &raw) == 0,
                "changing the terminal's settings"
            );
            Ok(RawTerminal(before))
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        // SAFETY: live settings.
        unsafe { libc::tcsetattr(0, libc::TCSANOW, &self.0) };
    }
}
