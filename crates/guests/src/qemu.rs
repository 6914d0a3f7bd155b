//! Starts, watches and ends a virtual machine of QEMU. The guest's init talks through one stream (a
//! virtio-serial port called [`PORT`]), and the kernel's console comes through another.
//!
//! QEMU dies with the thread that started it, however that ends. Its exit status means nothing: it
//! is 0 even after the guest panicked.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use host::{children, memfd};
use records::GuestShape;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::architecture::Architecture;
use crate::tracer::{self, Tracer};
use crate::vcpus;

/// The name of init's stream in the guest (/sys/class/virtio-ports/*/name).
pub const PORT: &str = "knee";

/// What executes the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// The host's CPUs, by the kernel's hypervisor.
    Kvm,
    /// QEMU's translator (the "tiny code generator"), on one thread for each vCPU.
    Tcg,
    /// QEMU's translator on one thread for all vCPUs: slower, and needed where a kernel patches code
    /// that other vCPUs run, which QEMU 7.2 emulates wrongly on several threads.
    TcgOneThread,
    /// QEMU's translator with a clock that goes on by 1 ns with each instruction, for one vCPU: times count instructions.
    TcgCounted,
}

impl Accelerator {
    /// The argument of QEMU's `-accel`.
    fn argument(self) -> &'static str {
        match self {
            Accelerator::Kvm => "kvm",
            Accelerator::Tcg => "tcg,thread=multi",
            Accelerator::TcgOneThread | Accelerator::TcgCounted => "tcg,thread=single",
        }
    }
}

/// What executes a guest that is watched. On one thread, its CPUs take long turns. Since QEMU 10, a plugin is told a wrong
/// CPU there ("plugins: optimize cpu_index code generation"): each gets a thread of its own, and all threads one CPU of the
/// host, on which they take turns.
pub fn watched_accelerator(version: &str) -> Result<Accelerator> {
    let (major, _) = tracer::numbers_of(version)?;
    Ok(if major < 10 { Accelerator::TcgOneThread } else { Accelerator::Tcg })
}

/// The options of a VM.
pub struct QemuOptions<'a> {
    pub architecture: Architecture,
    pub kernel: &'a Path,
    pub initramfs: &'a File,
    pub command_line: &'a str,
    pub shape: &'a GuestShape,
    pub accelerator: Accelerator,
    /// The CPU model with its features, in QEMU's syntax.
    pub cpu: &'a str,
    /// The disk, /dev/vda in the guest.
    pub disk: Option<&'a File>,
    /// The CPUs of the host that the vCPUs are pinned to.
    pub host_cpus: &'a [u32],
    /// What watches the guest's accesses to memory, if anything does.
    pub tracer: Option<&'a Tracer>,
}

/// A running virtual machine; dropping it kills it.
pub struct Qemu {
    program: &'static str,
    qemu: Child,
    stream: UnixStream,
    console: UnixStream,
    /// Output of QEMU itself.
    qemu_output: File,
    /// Bytes from init that `next` has not returned yet.
    received: Vec<u8>,
    /// The console's output.
    printed: Vec<u8>,
    /// Thread ids of the vCPUs.
    threads: Vec<u32>,
}

/// What [`Qemu::next`] got from a guest.
#[derive(Debug, PartialEq)]
pub enum GuestOutput {
    /// A line from init.
    Line(String),
    /// The kernel printed something.
    Printed,
    /// Nothing within the time, or a signal came.
    Nothing,
    /// The VM is off.
    Off,
}

/// The default CPU model. Emulated x86-64 CPUs lack fast string instructions (erms): kernels that see them copy and clear memory
/// byte by byte, which QEMU executes one byte at a time. Nor have they fsrm, which newer QEMUs have: where Linux sees it without
/// erms, its memmove of short strings never ends (arch/x86/lib/memmove_64.S before 6.4).
pub fn cpu_model(
    architecture: Architecture,
    shape: &GuestShape,
    accelerator: Accelerator,
) -> &'static str {
    match (architecture, accelerator) {
        (_, Accelerator::Kvm) => "max",
        // In emulation, only an Intel CPU reports which threads share a core.
        (Architecture::X86_64, _) if shape.threads > 1 => "max,vendor=GenuineIntel,-erms,-fsrm",
        (Architecture::X86_64, _) => "max,-erms,-fsrm",
        // Each call and return of an arm64 kernel signs an address, and the architecture's own cipher is slow to
        // emulate.
        (Architecture::Arm64, _) => "max,pauth-impdef=on",
    }
}

/// More console output than this, in bytes, comes from a loop: the oldest is dropped.
const CONSOLE_MAX: usize = 1 << 20;

/// The error where a QEMU was built without plugins.
pub(crate) fn no_plugins(program: &str, package: &str) -> anyhow::Error {
    anyhow!(
        "this {program} has no plugins, which see what a program accesses: install one that was built with them (Debian 12: \
         apt install {package}; configure --enable-plugins)"
    )
}

/// The error where QEMU is missing.
fn no_qemu(architecture: Architecture) -> anyhow::Error {
    anyhow!(
        "{}, which runs virtual machines for {} kernels, is not installed (Debian: apt install {})",
        architecture.qemu(),
        architecture.name(),
        architecture.qemu_package()
    )
}

/// The version of QEMU, as it prints it.
pub fn version(architecture: Architecture) -> Result<String> {
    let program = architecture.qemu();
    let mut command = Command::new(program);
    let output = children::output(command.arg("--version"));
    let output = match output {
        Err(e) if e.kind() == io::ErrorKind::NotFound => bail!(no_qemu(architecture)),
        output => output.with_context(|| format!("starting {program}"))?,
    };
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.lines().next().unwrap_or_default().trim().to_string())
}

impl Qemu {
    /// Starts a VM.
    pub fn start(options: &QemuOptions) -> Result<Qemu> {
        let (stream, their_stream) = UnixStream::pair().context("making a stream")?;
        let (console, their_console) = UnixStream::pair().context("making a console")?;
        let qemu_output = memfd::in_memory("qemu-output", &[])?;
        let program = options.architecture.qemu();
        let mut command = Command::new(program);
        command.args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]);
        command.args(["-name", "knee,debug-threads=on"]);
        let mut machine = options.architecture.qemu_machine().to_string();
        if let Some(tracer) = options.tracer {
            let (bytes, path) = (options.shape.memory, memfd::path(&tracer.memory));
            let memory = format!(
                "memory-backend-file,id=all,size={bytes},share=on,mem-path={}",
                path.display()
            );
            command.args(["-object", &memory, "-plugin", &tracer.argument()]);
            command.env("LD_PRELOAD", tracer.preloaded());
            machine.push_str(",memory-backend=all");
        }
        command.args(["-M", &machine, "-cpu", options.cpu]);
        command.args(["-accel", options.accelerator.argument()]);
        if options.accelerator == Accelerator::TcgCounted {
            // While the guest waits, its clock is ahead at once.
            command.args(["-icount", "shift=0,sleep=off"]);
        }
        command.args(options.shape.qemu_arguments());
        command.arg("-kernel").arg(options.kernel);
        command.arg("-initrd").arg(memfd::path(options.initramfs));
        command.args(["-append", options.command_line]);
        let fd = |end: &UnixStream, name: &str| format!("socket,id={name},fd={}", end.as_raw_fd());
        command.args(["-chardev", &fd(&their_console, "console"), "-serial", "chardev:console"]);
        command.args(["-chardev", &fd(&their_stream, "stream"), "-device", "virtio-serial-pci"]);
        command.args(["-device", &format!("virtserialport,chardev=stream,name={PORT}")]);
        if let Some(disk) = options.disk {
            let path = memfd::path(disk);
            let drive = format!("file={},if=none,id=disk,format=raw,discard=unmap", path.display());
            command.args(["-drive", &drive, "-device", "virtio-blk-pci,drive=disk"]);
        }
        command
            .stdin(Stdio::null())
            .stdout(qemu_output.try_clone()?)
            .stderr(qemu_output.try_clone()?);
        let inherited = [OwnedFd::from(their_stream), OwnedFd::from(their_console)];
        let numbers = inherited.each_ref().map(|fd| fd.as_raw_fd());
        // SAFETY: only calls that are allowed between fork and exec.
        unsafe {
            command.pre_exec(move || {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                for fd in numbers {
                    libc::fcntl(fd, libc::F_SETFD, 0);
                }
                Ok(())
            });
        }
        // Ctrl-C must reach only knee, which shuts the guest down in order.
        let qemu = match children::spawn(&mut command) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => bail!(no_qemu(options.architecture)),
            spawned => spawned.with_context(|| format!("starting {program}"))?,
        };
        drop(inherited);
        stream.set_nonblocking(true)?;
        console.set_nonblocking(true)?;
        let (received, printed, threads) = (Vec::new(), Vec::new(), Vec::new());
        let mut vm =
            Qemu { program, qemu, stream, console, qemu_output, received, printed, threads };
        vm.pin(options)?;
        Ok(vm)
    }

    /// Waits for the vCPU threads, which QEMU creates soon after its start, and pins them.
    fn pin(&mut self, options: &QemuOptions) -> Result<()> {
        const TIMEOUT: Duration = Duration::from_secs(30);
        let expected = match options.accelerator {
            Accelerator::TcgOneThread | Accelerator::TcgCounted => 1,
            _ => options.shape.cpus() as usize,
        };
        let since = Instant::now();
        loop {
            self.threads = vcpus::threads(self.qemu.id()).unwrap_or_default();
            if self.threads.len() >= expected {
                return vcpus::pin(&self.threads, options.host_cpus);
            }
            if let Some(status) = self.qemu.try_wait()? {
                let words = self.last_words();
                if options.tracer.is_some() && words.contains("-plugin") {
                    bail!("{}", no_plugins(self.program, "qemu-system-x86"));
                }
                bail!("{} ended while starting ({status}): {words}", self.program);
            }
            ensure!(
                since.elapsed() < TIMEOUT,
                "{} started no vCPU within {TIMEOUT:?}",
                self.program
            );
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// The error messages of QEMU itself.
    pub fn last_words(&self) -> String {
        let text = std::fs::read_to_string(memfd::path(&self.qemu_output)).unwrap_or_default();
        let lines = text.lines().map(|line| line.trim_start_matches(self.program));
        lines.map(|line| line.trim_start_matches(':').trim()).collect::<Vec<_>>().join("; ")
    }

    /// How long the vCPUs have run on the host's CPUs, and how long they were runnable without one, in
    /// ns.
    pub fn times(&self) -> Option<(u64, u64)> {
        vcpus::times(self.qemu.id(), &self.threads)
    }

    /// The number of threads that run the vCPUs.
    pub fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Sends a line to init.
    pub fn send(&mut self, line: &str) -> Result<()> {
        let mut left = &[line.as_bytes(), b"\n"].concat()[..];
        while !left.is_empty() {
            match self.stream.write(left) {
                Ok(n) => left = &left[n..],
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                    let [is_writable] =
                        ready([(&self.stream, PollFlags::OUT)], Duration::from_secs(10));
                    ensure!(is_writable, "the guest's init has read nothing for 10 s: it hangs");
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => (),
                Err(e) => return Err(e).context("sending a line to the guest's init"),
            }
        }
        Ok(())
    }

    /// Waits for the guest's next output, at most `time`.
    pub fn next(&mut self, time: Duration) -> GuestOutput {
        if let Some(line) = self.line() {
            return GuestOutput::Line(line);
        }
        let input = PollFlags::IN;
        let [init_wrote, kernel_printed] =
            ready([(&self.stream, input), (&self.console, input)], time);
        // The console first: it tells why a guest ended.
        if kernel_printed {
            let before = self.printed.len();
            drain(&mut self.console, &mut self.printed);
            let surplus = self.printed.len().saturating_sub(CONSOLE_MAX);
            self.printed.drain(..surplus);
            if self.printed.len() + surplus > before && !init_wrote {
                return GuestOutput::Printed;
            }
        }
        let is_open = !init_wrote || drain(&mut self.stream, &mut self.received);
        match self.line() {
            Some(line) => GuestOutput::Line(line),
            None if !is_open || self.is_off() => GuestOutput::Off,
            None => GuestOutput::Nothing,
        }
    }

    fn line(&mut self) -> Option<String> {
        let end = self.received.iter().position(|byte| *byte == b'\n')?;
        let line: Vec<u8> = self.received.drain(..=end).collect();
        Some(String::from_utf8_lossy(&line).trim_end().to_string())
    }

    fn is_off(&mut self) -> bool {
        !matches!(self.qemu.try_wait(), Ok(None))
    }

    /// The console's output so far.
    pub fn console(&mut self) -> String {
        drain(&mut self.console, &mut self.printed);
        String::from_utf8_lossy(&self.printed).replace('\r', "")
    }

    /// Types into the guest's console.
    pub fn type_in(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.console.write_all(bytes)
    }

    /// Waits until the guest has powered off, at most `time`; returns whether it has.
    pub fn wait(&mut self, time: Duration) -> bool {
        let since = Instant::now();
        while since.elapsed() < time {
            if self.is_off() {
                return true;
            }
            drain(&mut self.stream, &mut self.received);
            drain(&mut self.console, &mut self.printed);
            std::thread::sleep(Duration::from_millis(5));
        }
        false
    }

    /// The process id of QEMU.
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

/// Reads what is available; returns whether the stream is still open.
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

/// Which of these streams are ready within a time; none after a signal.
fn ready<const N: usize>(streams: [(&UnixStream, PollFlags); N], time: Duration) -> [bool; N] {
    let mut polled =
        streams.map(|(stream, events)| PollFd::from_borrowed_fd(stream.as_fd(), events));
    let timeout = Timespec::try_from(time).ok();
    let _ = poll(&mut polled, timeout.as_ref());
    polled.map(|fd| !fd.revents().is_empty())
}
