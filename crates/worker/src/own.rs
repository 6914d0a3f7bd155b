//! A load that the user wrote, as a program that was made from it: started with the board, which its tasks
//! then use as knee's own do.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, Seek};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use std::{fs, ptr};

use host::{children, memfd};
use records::{OwnJob, Pass, Until};

use crate::output::last_words;
use crate::task::TaskContext;

/// How long a load that counts by itself runs before the release. Its set-up is a part of its loop: files grow
/// to their size in the first passes over them.
pub const WARM_UP: Duration = Duration::from_millis(500);

/// What a load may print; what comes after that is lost.
const OUTPUT_BYTES: u64 = 1 << 20;

/// Where will-it-scale's tests make their files, whatever the measured directory is.
const TESTS_DIRECTORY: &str = "/tmp";

/// A program that has started, and what it prints.
pub struct OwnProgram {
    pub name: String,
    pub process: i32,
}

/// What a program prints, on either stream.
pub struct OwnOutput {
    file: File,
}

impl OwnOutput {
    /// A file of fixed length: a load that prints forever fills no memory, and does not wait for a reader.
    pub fn new() -> Result<OwnOutput, String> {
        let made = memfd::create_bounded(c"output", OUTPUT_BYTES);
        made.map(|file| OwnOutput { file }).map_err(|why| format!("{why:#}"))
    }

    /// The last lines; empty if nothing was printed.
    pub fn last_words(&self) -> String {
        // All processes that print share one offset, which is the length of what they printed.
        let length = (&self.file).stream_position().unwrap_or(0).min(OUTPUT_BYTES) as usize;
        let mut text = vec![0; length];
        let read = self.file.read_exact_at(&mut text, 0);
        read.map_or(String::new(), |()| last_words(&text))
    }
}

/// Starts the program. It starts the tasks.
pub fn start(
    context: &TaskContext,
    own: &OwnJob,
    output: &OwnOutput,
) -> Result<OwnProgram, String> {
    let job = context.job;
    let files = context.board.files();
    let mark = context.marker.map_or(-1, |marker| marker.descriptor());
    let mut inherited: Vec<RawFd> =
        [&files.head, &files.counts, &files.tids].map(AsRawFd::as_raw_fd).to_vec();
    inherited.push(context.reports.as_raw_fd());
    let cpus: Vec<String> = job.cpus.iter().map(u32::to_string).collect();
    let limit = match job.until {
        Until::OperationsPerTask(n) => n,
        Until::Seconds(_) | Until::End => u64::MAX,
    };
    let pass = match job.pass {
        _ if job.traced => "traced",
        Pass::Latency => "latency",
        Pass::Rate => "rate",
    };
    let mut command = Command::new(&own.program);
    command.args(["run", job.form.name(), &job.tasks.to_string(), &limit.to_string(), pass]);
    command.args(inherited.iter().map(RawFd::to_string));
    command.args([mark.to_string(), cpus.join(",")]).arg(&job.scratch);
    command.args(own.parameters.iter().map(|(name, value)| format!("{name}={value}")));
    command.current_dir(&job.scratch).stdin(Stdio::null());
    let copy = || output.file.try_clone().map_err(|e| format!("duplicating a descriptor: {e}"));
    command.stdout(copy()?).stderr(copy()?);
    inherited.extend((mark >= 0).then_some(mark));
    let directory = own.interface.counts_itself().then(|| replaced(&job.scratch)).transpose()?;
    prepare_child(&mut command, inherited, context, directory.flatten());
    let started = command.spawn().map_err(|e| {
        format!("starting {}, the program made from {}: {e}", own.program.display(), own.name)
    })?;
    let process = started.id() as i32;
    context.board.set_process(process);
    Ok(OwnProgram { name: own.name.clone(), process })
}

/// What the child does between fork and exec.
fn prepare_child(
    command: &mut Command,
    inherited: Vec<RawFd>,
    context: &TaskContext,
    directory: Option<CString>,
) {
    let (worker, policy) = (std::process::id(), context.policy);
    // SAFETY: only system calls, on memory that was made before the fork.
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            if libc::getppid() as u32 != worker {
                return Err(io::Error::from_raw_os_error(libc::ESRCH));
            }
            for &fd in &inherited {
                libc::fcntl(fd, libc::F_SETFD, 0);
            }
            if !policy.is_default() {
                policy.apply().map_err(|_| io::Error::last_os_error())?;
            }
            if let Some(directory) = &directory {
                put_in_place(directory)?;
            }
            children::clean_signals()
        });
    }
}

/// The measured directory, if tests that make files in /tmp would otherwise use another file system.
fn replaced(scratch: &Path) -> Result<Option<CString>, String> {
    let device = |path: &Path| fs::metadata(path).map(|found| found.dev());
    let is_same = match (device(scratch), device(Path::new(TESTS_DIRECTORY))) {
        (Ok(a), Ok(b)) => a == b,
        _ => true,
    };
    // SAFETY: no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if !is_same && !is_root {
        return Err(format!(
            "a test of will-it-scale makes its files in {TESTS_DIRECTORY}, and only root can put another \
             directory there: run as root, or without --dir"
        ));
    }
    let path = CString::new(scratch.as_os_str().as_encoded_bytes());
    let path = path.map_err(|e| format!("{}: {e}", scratch.display()))?;
    Ok((!is_same).then_some(path))
}

/// Mounts a directory over /tmp, for this process and its children alone.
fn put_in_place(directory: &CString) -> io::Result<()> {
    let root = c"/";
    // SAFETY: live strings of C.
    let mounted = unsafe {
        libc::unshare(libc::CLONE_NEWNS) == 0
            && libc::mount(
                ptr::null(),
                root.as_ptr(),
                ptr::null(),
                libc::MS_REC | libc::MS_PRIVATE,
                ptr::null(),
            ) == 0
            && libc::mount(
                directory.as_ptr(),
                c"/tmp".as_ptr(),
                ptr::null(),
                libc::MS_BIND,
                ptr::null(),
            ) == 0
    };
    if mounted { Ok(()) } else { Err(io::Error::last_os_error()) }
}
