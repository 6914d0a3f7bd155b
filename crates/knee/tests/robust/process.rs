//! The processes of a home, as /proc shows them: all that have its records folder in their
//! environment, whoever their parent is by now.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// One process.
#[derive(Clone, Debug)]
pub struct Process {
    pub pid: i32,
    /// The file that it executes.
    pub program: PathBuf,
    pub parent: i32,
    pub threads: usize,
    /// CPU time used so far, in ticks of 10 ms.
    pub ticks: u64,
}

impl Process {
    pub fn kill(&self, signal: i32) {
        // SAFETY: a plain call; whether the process still lives is its answer.
        unsafe { libc::kill(self.pid, signal) };
    }

    /// Whether it has not ended, not even as a zombie.
    pub fn lives(&self) -> bool {
        fs::read(format!("/proc/{}/environ", self.pid)).is_ok_and(|text| !text.is_empty())
    }
}

/// The processes that live (zombies do not) with this records folder.
pub fn of(records: &Path) -> Vec<Process> {
    let entries = fs::read_dir("/proc").expect("listing /proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| lives_in(*pid, records)).filter_map(read).collect()
}

fn lives_in(pid: i32, records: &Path) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let wanted = [b"KNEE_RECORDS=", records.as_os_str().as_bytes()].concat();
    environment.split(|b| *b == 0).any(|variable| variable == wanted)
}

fn read(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the name, which may hold anything: state, parent, …; see proc(5).
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Process {
        pid,
        program: fs::read_link(format!("/proc/{pid}/exe")).ok()?,
        parent: number(1)? as i32,
        threads: number(17)? as usize,
        ticks: number(11)? + number(12)?,
    })
}

/// Looks every few milliseconds until there is an answer. Panics when there has been none
/// for so long that there will be none.
pub fn wait_for<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    wait_within(Duration::from_secs(100), what, look)
}

/// Looks every few milliseconds for at most `time`: emulated guests on a busy host take minutes.
pub fn wait_within<T>(time: Duration, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let since = Instant::now();
    loop {
        if let Some(answer) = look() {
            return answer;
        }
        assert!(since.elapsed() < time, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
