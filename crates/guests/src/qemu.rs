//! A virtual machine: QEMU, started, watched and ended. Its init talks through a stream (a
//! virtio-serial port called [`PORT`]); what the kernel prints comes through another.
//!
//! QEMU dies with the thread that started it, whatever ends that. Its exit status means nothing:
//! a guest that panicked ends it with 0, too.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use host::memfd;
use records::GuestShape;

use crate::vcpus;

/// The name of init's stream in the guest (/sys/class/virtio-ports/*/name).
pub const PORT: &str = "knee";

/// The program.
pub const PROGRAM: &str = "qemu-system-x86_64";

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's CPUs, by the kernel's hypervisor.
    Kvm,
    /// Nothing: QEMU translates them (its "tiny code generator"), on a thread for each CPU.
    Tcg,
    /// The same, on one thread for all: slower, and needed where a kernel changes its own code
    /// while others run it, which QEMU 7.2 emulates wrongly on several threads.
    TcgOneThread,
}

impl Accelerator {
    /// As QEMU takes it.
    fn argument(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg,thread=multi",
            Accelerator::TcgOneThread => "tcg,thread=single",
        }
    }
}

/// What to start.
pub struct Plan<'a> {
    /// The kernel's file.
    pub kernel: &'a Path,
    /// The initramfs.
    pub initramfs: &'a File,
    /// The kernel's command line.
    pub command_line: &'a str,
    /// CPUs and memory.
    pub shape: &'a GuestShape,
    /// What executes them.
    pub accelerator: Accelerator,
    /// The model of CPU with its features, as QEMU takes it.
    pub cpu: &'a str,
    /// The disk, where there is one: /dev/vda in the guest.
    pub disk: Option<&'a File>,
    /// The CPUs of the host that the guest's run on.
    pub host_cpus: &'a [u32],
}

/// A machine that was started.
pub struct Qemu {
    qemu: Child,
    stream: UnixStream,
    console: UnixStream,
    words: File,
    /// What init has said and nobody has read.
    said: Vec<u8>,
    /// What the kernel has printed.
    printed: Vec<u8>,
    threads: Vec<u32>,
}

/// What came next of a machine.
#[derive(Debug, PartialEq)]
pub enum GuestOutput {
    /// A line that init wrote.
    Line(String),
    /// The kernel printed something.
    Printed,
    /// Nothing in the time given, or a signal came.
    Nothing,
    /// The machine is off.
    Off,
}

/// More of a console than this is a loop.
const CONSOLE_MAX: usize = 1 << 20;

/// Says what is to be done about a QEMU that is not there.
const GET_QEMU: &str = "install it (Debian: apt install qemu-system-x86)";

/// The version of QEMU, as it prints it.
pub fn version() -> Result<String> {
    let output = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
    let output = match output {
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            bail!("there is no {PROGRAM}, which starts virtual machines: {GET_QEMU}")
        }
        output => output.with_context(|| format!("starting {PROGRAM}"))?,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_string())
}

impl Qemu {
    /// Starts a machine.
    pub fn start(plan: &Plan) -> Result<Qemu> {
        let (stream, their_stream) = UnixStream::pair().context("making a stream")?;
        let (console, their_console) = UnixStream::pair().context("making a console")?;
        let words = memfd::in_memory("qemu-words", &[])?;
        let mut command = Command::new(PROGRAM);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-name", "knee,debug-threads=on", "-M", "q35", "-cpu", plan.cpu]);
        command.args(["-accel", plan.accelerator.argument()]);
        command.args(plan.shape.qemu_arguments());
        command.arg("-kernel").arg(plan.kernel);
        command.arg("-initrd").arg(memfd::path(plan.initramfs));
        command.args(["-append", plan.command_line]);
        let fd = |end: &UnixStream, name: &str| format!("socket,id={name},fd={}", end.as_raw_fd());
        command.args(["-chardev", &fd(&their_console, "console"), "-serial", "chardev:console"]);
        command.args(["-chardev", &fd(&their_stream, "stream"), "-device", "virtio-serial-pci"]);
        command.args(["-device", &format!("virtserialport,chardev=stream,name={PORT}")]);
        if let Some(disk) = plan.disk {
            let path = memfd::path(disk);
            let drive = format!("file={},if=none,id=disk,format=raw,discard=unmap", path.display());
            command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        }
        command.stdin(Stdio::null()).stdout(words.try_clone()?).stderr(words.try_clone()?);
        let inherited = [OwnedFd::from(their_stream), OwnedFd::from(their_console)];
        let numbers = inherited.each_ref().map(|fd| fd.as_raw_fd());
        // SAFETY: only calls that are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                // Ctrl-C is ours to hear: the guest is ended in order.
                libc::setpgid(0, 0);
                for fd in numbers {
                    libc::fcntl(fd, libc::F_SETFD, 0);
                }
                Ok(())
            });
        }
        let qemu = match command.spawn() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                bail!("there is no {PROGRAM}, which starts virtual machines: {GET_QEMU}")
            }
            spawned => spawned.with_context(|| format!("starting {PROGRAM}"))?,
        };
        drop(inherited);
        stream.set_nonblocking(true)?;
        console.set_nonblocking(true)?;
        let (said, printed) = (Vec::new(), Vec::new());
        let mut machine = Qemu { qemu, stream, console, words, said, printed, threads: vec![] };
        machine.pin(plan)?;
        Ok(machine)
    }

    /// Finds the threads of the guest's CPUs, which come soon after the start, and pins them.
    fn pin(&mut self, plan: &Plan) -> Result<()> {
        const PATIENCE: Duration = Duration::from_secs(30);
        let expected = match plan.accelerator {
            Accelerator::TcgOneThread => 1,
            _ => plan.shape.cpus() as usize,
        };
        let since = Instant::now();
        loop {
            self.threads = vcpus::threads(self.qemu.id()).unwrap_or_default();
            if self.threads.len() >= expected {
                return vcpus::pin(&self.threads, plan.host_cpus);
            }
            if let Some(status) = self.qemu.try_wait()? {
                bail!("{PROGRAM} ended at once ({status}): {}", self.last_words());
            }
            ensure!(since.elapsed() < PATIENCE, "{PROGRAM} started no CPU in {PATIENCE:?}");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// What QEMU itself complained about.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(memfd::path(&self.words)).unwrap_or_default();
        let lines = text.lines().map(|line| line.trim_start_matches(PROGRAM));
        lines.map(|line| line.trim_start_matches(':').trim()).collect::<Vec<_>>().join("; ")
    }

    /// How long the guest's CPUs have run on the host, and how long they were kept from it, in
    /// ns.
    pub fn times(&self) -> Option<(u64, u64)> {
        vcpus::times(self.qemu.id(), &self.threads)
    }

    /// How many threads run them.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Writes a line to init.
    pub fn say(&mut self, line: &str) -> Result<()> {
        let mut left = &[line.as_bytes(), b"\n"].concat()[..];
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let fds = [(self.stream.as_raw_fd(), libc::POLLOUT)];
                    if !ready(&fds, Duration::from_secs(10))[0] {
                        bail!("the guest has not read what was said to it for 10 s");
                    }
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(e).context("the guest does not listen"),
            }
        }
        Ok(())
    }

    /// What comes next, within a time.
    pub fn next(&mut self, time: Duration) -> GuestOutput {
        if let Some(line) = self.line() {
            return GuestOutput::Line(line);
        }
        let fds =
            [(self.stream.as_raw_fd(), libc::POLLIN), (self.console.as_raw_fd(), libc::POLLIN)];
        let [says, prints] = ready(&fds, time)[..] else { return GuestOutput::Nothing };
        // The console first: why something ended stands there.
        if prints {
            let before = self.printed.len();
            drain(&mut self.console, &mut self.printed);
            let surplus = self.printed.len().saturating_sub(CONSOLE_MAX);
            self.printed.drain(..surplus);
            if self.printed.len() + surplus > before && !says {
                return GuestOutput::Printed;
            }
        }
        let open = !says || drain(&mut self.stream, &mut self.said);
        match self.line() {
            Some(line) => GuestOutput::Line(line),
            None if !open || self.is_off() => GuestOutput::Off,
            None => GuestOutput::Nothing,
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.said.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.said.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_string())
    }

    fn is_off(&mut self) -> bool {
        !matches!(self.qemu.try_wait(), Ok(None))
    }

    /// What the kernel has printed so far.
    pub fn console(&mut self) -> String {
        drain(&mut self.console, &mut self.printed);
        String::from_utf8_lossy(&self.printed).replace('\r', "")
    }

    /// Writes to the guest's console, as if typed.
    pub fn type_in(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.write_all(bytes)
    }

    /// Waits until the machine has switched itself off, for a while; whether it has.
    pub fn wait(&mut self, time: Duration) -> bool {
        let since = Instant::now();
        while since.elapsed() < time {
            if self.is_off() {
                return true;
            }
            drain(&mut self.stream, &mut self.said);
            drain(&mut self.console, &mut self.printed);
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// The process, for those who want to look at it.
    pub fn process(&self) -> u32 {
        self.qemu.id()
    }
}

impl Drop for Qemu {
    fn drop(&mut self) {
        let _ = self.qemu.kill();
        let _ = self.qemu.wait();
    }
}

/// Reads all that is there; whether more may come.
fn drain(from: &mut UnixStream, into: &mut Vec<u8>) -> bool {
    let mut chunk = [0; 1 << 14];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return false,
            Ok(n) => into.extend_from_slice(&chunk[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
            Err(e) => return e.kind() == io::ErrorKind::WouldBlock,
        }
    }
}

/// Which of these descriptors are ready, within a time; none after a signal.
fn ready(fds: &[(i32, i16)], time: Duration) -> Vec<bool> {
    let mut polled: Vec<libc::pollfd> = fds
        .iter()
        .map(|(fd, events)| libc::pollfd { fd: *fd, events: *events, revents: 0 })
        .collect();
    let ms = time.as_millis().min(i32::MAX as u128) as i32;
    // SAFETY: a live array and its length.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
    polled.iter().map(|fd| fd.revents != 0).collect()
}
