//! Init of a guest: knee as process 1 of a kernel that was booted for it. The machine has nothing else
//! than an initramfs with this binary and some modules.
//!
//!     file systems ─ modules ─ stream ─ "Ready" ─ [ a run, its events, "Done" ]* ─ off
//!
//! If init fails, process 1 ends and the kernel panics, which the host sees on the console.

use std::ffi::CString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use guests::libraries::LIBRARIES;
use guests::qemu::PORT;
use host::marks::Marks;
use host::{terminal, topology};
use records::{Aged, FileSystem, Mounted, Variant};
use setup::file_systems::{self, mount};
use setup::settings;

use super::protocol::{
    DISK, GuestAge, GuestRun, GuestRunResult, MODULES, Ready, Reply, Request, line,
};
use crate::places::process;

/// Where runs have their directories, in memory or on the disk.
const SCRATCH: &str = "/scratch";

/// What is mounted first: the kind, the path, and whether init fails without it.
const MOUNTS: [(&str, &str, bool); 9] = [
    ("devtmpfs", "/dev", true),
    ("proc", "/proc", true),
    ("sysfs", "/sys", true),
    ("tmpfs", "/tmp", true),
    ("tmpfs", SCRATCH, true),
    ("tracefs", "/sys/kernel/tracing", false),
    ("debugfs", "/sys/kernel/debug", false),
    ("bpf", "/sys/fs/bpf", false),
    ("cgroup2", "/sys/fs/cgroup", false),
];

/// How long the stream's device may take to appear.
const STREAM_TIMEOUT: Duration = Duration::from_secs(60);

/// Sets the guest up, does what knee asks for, and resets the machine.
pub fn run() -> Result<()> {
    let began = Instant::now();
    // SAFETY: plain calls.
    unsafe {
        libc::umask(0o022);
        libc::sethostname(c"guest".as_ptr(), 5);
    }
    let mut ready = Ready::default();
    for (kind, path, needed) in MOUNTS {
        if let Err(why) = mount_new(kind, path) {
            ensure!(!needed, "{why:#}: the guest's kernel needs it built in");
            ready.problems.push(format!("{why:#}"));
        }
    }
    // Without a network in the kernel there is none.
    let _ = bring_up_loopback();
    let mut kernel = KernelLog::open()?;
    let loading = Instant::now();
    load_modules(&mut ready)?;
    ready.setup_s.insert("modules".to_string(), loading.elapsed().as_secs_f64());
    let stream = open_stream()?;
    let mut output = stream.try_clone().context("duplicating the stream")?;
    let mut send = move |reply: &Reply| -> Result<()> {
        let text = line(reply) + "\n";
        output.write_all(text.as_bytes()).context("writing to the host")
    };
    for text in kernel.new_lines() {
        send(&Reply::Kernel(text))?;
    }
    ready.host = probes::host(Path::new("/"));
    ready.topology = topology::read(Path::new("/sys"))?;
    ready.text = kernel_text();
    ready.setup_s.insert("init".to_string(), began.elapsed().as_secs_f64());
    send(&Reply::Ready(Box::new(ready)))?;
    serve(stream, &mut send, &mut kernel)?;
    power_off()
}

/// Brings the loopback interface up, as an init does (netdevice(7)).
fn bring_up_loopback() -> std::io::Result<()> {
    let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
    // SAFETY: a request is plain data; zero is valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    request.ifr_name[0] = b'l' as libc::c_char;
    request.ifr_name[1] = b'o' as libc::c_char;
    request.ifr_ifru.ifru_flags = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    // SAFETY: an open socket and a live request.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &request) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()),
    }
}

/// Does what knee asks for, until it asks to power off.
fn serve(
    stream: File,
    send: &mut impl FnMut(&Reply) -> Result<()>,
    kernel: &mut KernelLog,
) -> Result<()> {
    let mut kept = None;
    for text in BufReader::new(stream).lines() {
        let text = text.context("reading from the host")?;
        match serde_json::from_str(&text).with_context(|| format!("reading the request {text}"))? {
            Request::PowerOff => {
                // The host checks the disk, and finds what could not be written.
                let unmounted = kept.map_or(Ok(()), |mounted| unmount_disk(&mounted));
                unmounted.unwrap_or_else(|why| terminal::talk(format_args!("{why:#}")));
                return Ok(());
            }
            Request::Age(request) => {
                send(&Reply::Aged(age(&request).map_err(|why| format!("{why:#}"))))?;
            }
            Request::Symbols => send_symbols(send)?,
            Request::Unmount => {
                let unmounted = kept.take().map_or(Ok(()), |mounted| unmount_disk(&mounted));
                send(&Reply::Unmounted(unmounted.map_err(|why| format!("{why:#}"))))?;
            }
            Request::Libraries(path) => {
                send(&Reply::Libraries(libraries_of(&path).map_err(|why| format!("{why:#}"))))?;
            }
            Request::Program(arguments) => {
                let ended = program(&arguments).unwrap_or_else(|why| format!("{why:#}"));
                send(&Reply::Ended(ended))?;
            }
            Request::Run(run) => {
                let result = run_job(&run, &mut kept, send).unwrap_or_else(|why| GuestRunResult {
                    exit: "was not started".to_string(),
                    invalid_because: vec![format!("in the guest: {why:#}")],
                    ..GuestRunResult::default()
                });
                for text in kernel.new_lines() {
                    send(&Reply::Kernel(text))?;
                }
                send(&Reply::Done(Box::new(result)))?;
            }
        }
    }
    bail!("the host has closed the stream")
}

/// Sets up the guest for the variant, runs the worker, and puts everything back.
fn run_job(
    run: &GuestRun,
    kept: &mut Option<Mounted>,
    send: &mut impl FnMut(&Reply) -> Result<()>,
) -> Result<GuestRunResult> {
    let variant = run.variant.as_ref();
    let before = apply_sysctls(variant)?;
    let made = variant.and_then(|variant| variant.file_system.as_ref());
    let mut result = GuestRunResult::default();
    if let Some(made) = made {
        result.mounted = Some(kept.take().map_or_else(|| mount_disk(made), Ok)?);
    }
    if run.job.traced {
        Marks::arm().context("mapping the page of marks")?.stand_aside();
    }
    let mut job = run.job.clone();
    let name = job.scratch.file_name().context("the job has no directory")?.to_string_lossy();
    job.scratch = directory_of_run(&name, made.is_some());
    let deadline = Duration::from_secs_f64(run.deadline_s);
    // If an event cannot be sent, the host notices that and ends the guest.
    let worker_end = process::run(&job, variant, deadline, |event| {
        let _ = send(&Reply::Event(event.clone()));
    });
    if let Some(mounted) = &result.mounted {
        let written = if run.kept {
            write_out().map(|()| *kept = Some(mounted.clone()))
        } else {
            unmount_disk(mounted)
        };
        result.invalid_because.extend(written.err().map(|why| format!("{why:#}")));
    }
    for (path, value) in before {
        settings::write(&path, &value)?;
    }
    let worker_end = worker_end?;
    result.exit = worker_end.exit;
    result.invalid_because.extend(worker_end.invalid_because);
    Ok(result)
}

/// Where a run has its directory in the guest, which has this name: on the disk, or in memory.
pub fn directory_of_run(name: &str, is_on_disk: bool) -> PathBuf {
    Path::new(if is_on_disk { ON_DISK } else { SCRATCH }).join(name)
}

/// Where the disk is mounted.
const ON_DISK: &str = "/mnt";

fn mount_disk(made: &FileSystem) -> Result<Mounted> {
    make_directory(ON_DISK)?;
    let source = if made.kind == "tmpfs" { "tmpfs" } else { DISK };
    mount::mount(source, Path::new(ON_DISK), &made.kind, &made.mount)?;
    let found = probes::directory(Path::new(ON_DISK));
    Ok(Mounted {
        kind: made.kind.clone(),
        on: source.to_string(),
        options: found.mount_options.unwrap_or_default(),
        bytes_total: found.bytes_total,
        ..Mounted::default()
    })
}

/// Ages the file system on the disk.
fn age(request: &GuestAge) -> Result<Aged> {
    let mounted = mount_disk(&request.made)?;
    let root = Path::new(ON_DISK);
    let bytes = mounted.bytes_total.context("the size of the file system is unknown")?;
    let aged = file_systems::age(root, bytes, &request.age, request.seed);
    let bytes_free = probes::directory(root).bytes_free;
    unmount_disk(&mounted)?;
    Ok(Aged { bytes_free, ..aged? })
}

/// Unmounts the disk. Fails if not everything that was written reached it.
fn unmount_disk(mounted: &Mounted) -> Result<()> {
    let written = write_out();
    mount::unmount(&mounted.on, Path::new(ON_DISK))?;
    written
}

/// Writes all dirty data to the disk.
fn write_out() -> Result<()> {
    // After a file system has shut itself down, not even its root can be opened.
    let root = File::open(ON_DISK).context("opening the file system after the run")?;
    // SAFETY: an open descriptor.
    match unsafe { libc::syncfs(root.as_raw_fd()) } {
        0 => Ok(()),
        _ => Err(std::io::Error::last_os_error()).context("not everything was written"),
    }
}

/// Gives the kernel the variant's settings. Returns the paths and the values before.
fn apply_sysctls(variant: Option<&Variant>) -> Result<Vec<(PathBuf, String)>> {
    let mut before = Vec::new();
    for (name, value) in variant.iter().flat_map(|variant| &variant.sysctl) {
        let path = settings::path(name)?;
        before.push((path.clone(), settings::read_beside(&path, &value.0)?));
        settings::write(&path, &value.0)?;
    }
    Ok(before)
}

/// Runs a program on the console. Returns its exit status.
fn program(arguments: &[String]) -> Result<String> {
    let [program, arguments @ ..] = arguments else { bail!("no program was named") };
    let status = std::process::Command::new(program)
        .args(arguments)
        .env("PATH", "/:/bin:/sbin:/usr/bin:/usr/sbin")
        .env("HOME", "/tmp")
        .env("TERM", "vt100")
        .status()
        .with_context(|| {
            format!("starting {program} (the guest has only knee and what --add gave it)")
        })?;
    Ok(status.to_string())
}

/// Asks the dynamic linker where it loads a program's libraries (ld.so(8)). Only their code is mapped; none of it runs.
fn libraries_of(program: &str) -> Result<String> {
    let listed = std::process::Command::new(program)
        .env_clear()
        .env("LD_LIBRARY_PATH", LIBRARIES)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output()
        .with_context(|| format!("starting {program}"))?;
    Ok(String::from_utf8_lossy(&listed.stdout).into_owned())
}

/// Mounts a file system that needs no disk. Unlike the mounts for runs, it may have devices.
fn mount_new(kind: &str, path: &str) -> Result<()> {
    make_directory(path)?;
    let (kind_c, path_c) = (CString::new(kind)?, CString::new(path)?);
    // SAFETY: live C strings; no data.
    let mounted = unsafe {
        libc::mount(kind_c.as_ptr(), path_c.as_ptr(), kind_c.as_ptr(), 0, std::ptr::null())
    };
    let error = std::io::Error::last_os_error();
    // Some kernels mount devtmpfs themselves.
    if mounted == 0 || error.raw_os_error() == Some(libc::EBUSY) {
        return Ok(());
    }
    Err(error).with_context(|| format!("mounting {kind} on {path}"))
}

fn make_directory(path: &str) -> Result<()> {
    let made = DirBuilder::new().recursive(true).create(path);
    made.with_context(|| format!("creating {path} in the guest"))
}

/// Loads the modules of the initramfs, in order.
fn load_modules(ready: &mut Ready) -> Result<()> {
    let entries = match fs::read_dir(MODULES) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.context("listing modules")?,
    };
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        let name = name.split_once('-').map_or(name, |(_, name)| name).to_string();
        let file = File::open(&path).with_context(|| format!("opening {}", path.display()))?;
        // SAFETY: an open descriptor, a live C string, no flags.
        let loaded =
            unsafe { libc::syscall(libc::SYS_finit_module, file.as_raw_fd(), c"".as_ptr(), 0) };
        match (loaded, std::io::Error::last_os_error()) {
            (0, _) => ready.modules.push(name),
            (_, e) if e.raw_os_error() == Some(libc::EEXIST) => (),
            // A CPU may lack what a cipher needs. If the module is needed, a later step fails.
            (_, e) => ready.problems.push(format!("the module {name} cannot be loaded: {e}")),
        }
        // The file occupies memory that runs may need.
        let _ = fs::remove_file(&path);
    }
    Ok(())
}

/// Opens the stream to the host.
fn open_stream() -> Result<File> {
    let since = Instant::now();
    loop {
        if let Some(path) = stream_device() {
            let opened = OpenOptions::new().read(true).write(true).open(&path);
            match opened {
                Ok(stream) => return Ok(stream),
                Err(e) if since.elapsed() > STREAM_TIMEOUT => {
                    return Err(e).with_context(|| format!("opening {}", path.display()));
                }
                Err(_) => (),
            }
        }
        if since.elapsed() > STREAM_TIMEOUT {
            bail!(
                "no virtio-serial port called {PORT} has appeared: the kernel needs virtio_pci and \
                 virtio_console, built in or as modules that knee finds (--modules)"
            );
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The device of the port that is named [`PORT`].
fn stream_device() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?;
    let ours = ports.flatten().find(|port| {
        fs::read_to_string(port.path().join("name")).is_ok_and(|name| name.trim() == PORT)
    })?;
    Some(Path::new("/dev").join(ours.file_name()))
}

/// The address at which the kernel's text begins. Where `_text` is another address (arm64), only kernels with
/// CONFIG_KALLSYMS_ALL list it.
fn kernel_text() -> Option<String> {
    let symbols = BufReader::new(File::open("/proc/kallsyms").ok()?);
    let is_begin = |line: &String| line.ends_with(" _text") || line.ends_with(" _stext");
    let line = symbols.lines().map_while(Result::ok).find(is_begin)?;
    let address = line.split(' ').next()?;
    (!address.chars().all(|digit| digit == '0')).then(|| format!("0x{address}"))
}

/// Sends the symbols in parts, as the host reads a line at a time.
fn send_symbols(send: &mut impl FnMut(&Reply) -> Result<()>) -> Result<()> {
    const LINES: usize = 2000;
    let text = fs::read("/proc/kallsyms")
        .context("reading /proc/kallsyms in the guest: its kernel needs CONFIG_KALLSYMS_ALL=y")?;
    let text = String::from_utf8_lossy(&text);
    let mut lines = text.split_inclusive('\n').peekable();
    while lines.peek().is_some() {
        send(&Reply::Symbols(lines.by_ref().take(LINES).collect()))?;
    }
    send(&Reply::Symbols(String::new()))
}

/// The kernel log, read as it grows.
struct KernelLog(File);

impl KernelLog {
    fn open() -> Result<KernelLog> {
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open("/dev/kmsg");
        opened.map(KernelLog).context("opening /dev/kmsg in the guest")
    }

    /// The new lines of level "warning" and worse. They have the form "PRIORITY,NUMBER,TIME,FLAGS;TEXT"
    /// (Documentation/ABI/testing/dev-kmsg).
    fn new_lines(&mut self) -> Vec<String> {
        const WARNING: u32 = 4;
        let mut lines = Vec::new();
        let mut entry = vec![0; 8192];
        loop {
            let text = match self.0.read(&mut entry) {
                Ok(0) => return lines,
                Ok(n) => String::from_utf8_lossy(&entry[..n]).into_owned(),
                // Overwritten before it was read: the next one follows.
                Err(e) if e.raw_os_error() == Some(libc::EPIPE) => continue,
                Err(_) => return lines,
            };
            let Some((head, message)) = text.split_once(';') else { continue };
            let priority = head.split(',').next().and_then(|n| n.parse::<u32>().ok());
            if priority.is_some_and(|priority| priority & 7 <= WARNING) {
                // The lines after the first one are properties of its device.
                lines.extend(message.lines().next().map(str::to_string));
            }
        }
    }
}

/// Resets the machine, at which QEMU ends. Unlike powering off, a kernel without ACPI can do it.
fn power_off() -> Result<()> {
    // SAFETY: plain calls.
    unsafe {
        libc::sync();
        libc::reboot(libc::RB_AUTOBOOT);
    }
    terminal::talk("the machine could not be reset");
    std::thread::sleep(Duration::from_secs(600));
    Ok(())
}
