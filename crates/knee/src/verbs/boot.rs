//! `knee boot`: a look inside a virtual machine with a kernel of the user's.

use std::io::{IsTerminal, Read, Write, stdin, stdout};
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use guests::qemu::{GuestOutput, Qemu};
use host::signals;
use host::stderr::{print, talk};
use plan::guest_config;
use records::Guest;
use reports;
use runner::places::guest::console::exit_reason;
use runner::places::guest::protocol::{Reply, Request, line};
use runner::places::guest::{BootedGuest, Booter, power_off};

use crate::flags::MachineFlags;

/// What to boot, and what to do there.
#[derive(clap::Args)]
pub struct Arguments {
    /// The kernel's file
    kernel: PathBuf,
    /// Words added to its command line
    #[arg(long, value_name = "WORDS")]
    cmdline: Option<String>,
    #[command(flatten)]
    machine: MachineFlags,
    /// A file of this host for the guest, where it lies in the root: a static busybox, say
    #[arg(long = "add", value_name = "FILE[:PATH]")]
    added: Vec<String>,
    /// A program that is started on the guest's console: /knee with its arguments, or one that
    /// was added. Without one, the guest is described
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// Boots, shows or runs, ends.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    let outer = arguments.machine.guest();
    let cores =
        outer.cores.unwrap_or(if outer.sockets.or(outer.threads).is_some() { 1 } else { 2 });
    let kernel = arguments.kernel.canonicalize();
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
    let (hypervisor, up) = booter.try_out(&guest)?;
    if arguments.command.is_empty() {
        print(reports::boot(&up.boot, &hypervisor))?;
        return end(up);
    }
    let BootedGuest { mut qemu, .. } = up;
    let ended = on_console(&mut qemu, &arguments.command)?;
    let was_off = power_off(qemu);
    talk(format_args!("{} ended: {ended}", arguments.command[0]));
    Ok(if was_off && ended.ends_with("status: 0") { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// FILE, or FILE:PATH.
fn added(text: &str) -> Result<(String, PathBuf)> {
    let (file, path) = text.rsplit_once(':').unwrap_or((text, ""));
    let name = match path.trim_start_matches('/') {
        "" => {
            PathBuf::from(file).file_name().context("--add takes a file")?.to_string_lossy().into()
        }
        path => path.to_string(),
    };
    ensure!(!["knee", "modules", "dev"].contains(&name.as_str()), "the guest has a {name} already");
    Ok((name, file.into()))
}

fn end(up: BootedGuest) -> Result<ExitCode> {
    ensure!(power_off(up.qemu), "the guest did not switch itself off, and was stopped");
    Ok(ExitCode::SUCCESS)
}

/// Runs a program on the guest's console, which is ours meanwhile; how it ended.
fn on_console(qemu: &mut Qemu, command: &[String]) -> Result<String> {
    let shown = qemu.console().len();
    qemu.send(&line(&Request::Program(command.to_vec())))?;
    let terminal = stdin().is_terminal().then(RawTerminal::new).transpose()?;
    let mut shown = shown;
    loop {
        if signals::received().is_some() {
            bail!("interrupted");
        }
        let came = qemu.next(Duration::from_millis(20));
        let console = qemu.console();
        if let Some(new) = console.get(shown..).filter(|new| !new.is_empty()) {
            let new = if terminal.is_some() { new.replace('\n', "\r\n") } else { new.to_string() };
            stdout().write_all(new.as_bytes())?;
            stdout().flush()?;
            shown = console.len();
        }
        match came {
            GuestOutput::Line(text) => {
                if let Ok(Reply::Ended(how)) = serde_json::from_str(&text) {
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

/// Passes on what was typed meanwhile.
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

/// A terminal that passes on each key at once, for as long as this lives.
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
