//! What a workload needs from the host, checked before anything is created, so that an
//! impossible run fails early and with a reason.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::{fmt, io};

use crate::{Load, TaskForm};

/// One thing a workload needs.
#[derive(Clone, Copy, Debug)]
pub enum Need {
    /// Open file descriptors for each task.
    OpenFiles(u64),
    /// A feature of the file system under test, and a trial of it on a scratch file.
    Feature(&'static str, fn(&File) -> io::Result<()>),
    /// Free bytes in the directory, as a function of the load.
    FreeBytes(fn(&Load) -> u64),
    /// A feature of the kernel, and a trial of it.
    Kernel(&'static str, fn() -> io::Result<()>),
    /// A need of one word of a choice.
    Where { parameter: &'static str, word: &'static str, need: &'static Need },
    /// Bytes of memory that all tasks touch together, as a function of the load.
    Memory(fn(&Load) -> u64),
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Need::OpenFiles(n) => write!(f, "{n} open files per task (RLIMIT_NOFILE)"),
            Need::Feature(what, _) => write!(f, "a file system with {what}"),
            Need::Kernel(what, _) => write!(f, "{what}"),
            Need::Where { parameter, word, need } => write!(f, "{need} ({parameter}={word})"),
            Need::FreeBytes(_) => write!(f, "free space in the directory"),
            Need::Memory(_) => write!(f, "free memory"),
        }
    }
}

impl Need {
    /// Whether the host meets the need; otherwise what is missing and what to do.
    pub fn check(&self, load: &Load) -> Result<(), String> {
        match *self {
            Need::OpenFiles(each) => open_files(load, each),
            Need::Feature(what, trial) => feature(&load.directory, what, trial),
            Need::Kernel(what, trial) => {
                trial().map_err(|e| format!("needs {what}, but trying it failed: {e}"))
            }
            Need::Where { parameter, word, need } => {
                if load.values.choice(parameter) == word {
                    need.check(load)
                } else {
                    Ok(())
                }
            }
            Need::FreeBytes(bytes) => free_bytes(&load.directory, bytes(load)),
            Need::Memory(bytes) => memory(bytes(load)),
        }
    }
}

/// Descriptors that the worker itself has open.
const WORKER_FILES: u64 = 16;

fn open_files(load: &Load, each: u64) -> Result<(), String> {
    let tasks_per_file_table = if load.form == TaskForm::Threads { load.tasks as u64 } else { 1 };
    let needed = each * tasks_per_file_table + WORKER_FILES;
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls read or write one live rlimit.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    if limit.rlim_cur >= needed {
        return Ok(());
    }
    if limit.rlim_max < needed {
        return Err(format!(
            "{} tasks need {needed} open files, but the hard limit is {}: raise it (ulimit -Hn {needed}), \
             use fewer tasks, or run them as processes",
            load.tasks, limit.rlim_max
        ));
    }
    // Only this worker's own soft limit, which ends with the worker.
    limit.rlim_cur = needed;
    // SAFETY: as above.
    match unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &limit) } {
        0 => Ok(()),
        _ => {
            Err(format!("raising the open-file limit to {needed}: {}", io::Error::last_os_error()))
        }
    }
}

fn feature(directory: &Path, what: &str, trial: fn(&File) -> io::Result<()>) -> Result<(), String> {
    let path = directory.join("need");
    let trial_result =
        File::options().read(true).write(true).create_new(true).open(&path).and_then(|file| {
            let result = trial(&file);
            fs::remove_file(&path).and(result)
        });
    trial_result.map_err(|e| {
        format!(
            "needs a file system with {what}, but trying it in {} failed: {e}; choose another --dir",
            directory.display()
        )
    })
}

fn free_bytes(directory: &Path, needed: u64) -> Result<(), String> {
    let free = File::open(directory)
        .and_then(|d| free_bytes_of(&d))
        .map_err(|e| format!("reading the free space of {}: {e}", directory.display()))?;
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "needs {} MiB free in {}, which has {} MiB: choose another --dir or fewer tasks",
        needed.div_ceil(1 << 20),
        directory.display(),
        free >> 20
    ))
}

fn free_bytes_of(directory: &File) -> io::Result<u64> {
    // SAFETY: statvfs is plain data; zero is valid, and the call fills it.
    let mut stat: libc::statvfs = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open and `stat` is live.
    match unsafe { libc::fstatvfs(directory.as_raw_fd(), &mut stat) } {
        0 => Ok(stat.f_bavail * stat.f_frsize),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Whether this much memory is available without swapping or killing.
fn memory(needed: u64) -> Result<(), String> {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available = text.lines().find_map(|line| {
        let kib = line.strip_prefix("MemAvailable:")?.trim().strip_suffix("kB")?;
        Some(kib.trim().parse::<u64>().ok()? << 10)
    });
    match available {
        Some(available) if available < needed => Err(format!(
            "needs {} MiB of memory, but {} MiB are available: use fewer tasks or a smaller size",
            needed.div_ceil(1 << 20),
            available >> 20
        )),
        // Kernels before 3.14 do not report it: assume that there is enough.
        _ => Ok(()),
    }
}
