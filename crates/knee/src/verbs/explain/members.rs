//! The processes that belong to what the user named, as they come and go. Listing all of /proc takes some 10 us a process, while the
//! programs that knee looks at want these CPUs: it is done when a process has begun or the last known one has ended.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use probes::live::processes::{self, RunningProcess, Subject};

/// How often processes that have come are looked for, if any has.
const SOUGHT: Duration = Duration::from_secs(1);
/// And if none has: a process may take another name, or move to another control group.
const SOUGHT_ANYWAY: Duration = Duration::from_secs(5);
/// After a listing, none follows within so many times its duration.
const REST_TIMES: u32 = 400;

/// Processes that belong to subjects.
pub struct Members {
    subjects: Vec<Subject>,
    known: BTreeSet<u32>,
    /// The last number that was given to a process or thread when they were listed; `None` if the kernel does not say.
    last_begun: Option<u32>,
    listed: Instant,
    checked: Instant,
    took: Duration,
}

impl Members {
    /// Those of the subjects that are known now.
    pub fn new(subjects: Vec<Subject>, known: BTreeSet<u32>) -> Members {
        let now = Instant::now();
        let last_begun = None;
        Members { subjects, known, last_begun, listed: now, checked: now, took: Duration::ZERO }
    }

    /// The processes that belong to the subjects now, if it is time to look for them and they may have changed.
    pub fn renewed(&mut self) -> Option<&BTreeSet<u32>> {
        if self.checked.elapsed() < SOUGHT || self.listed.elapsed() < self.took * REST_TIMES {
            return None;
        }
        self.checked = Instant::now();
        let last_begun = processes::last_begun();
        let none_began = last_begun.is_some() && last_begun == self.last_begun;
        if none_began && self.listed.elapsed() < SOUGHT_ANYWAY && self.is_any_alive() {
            return None;
        }
        let running = processes::all();
        self.known = chosen(&self.subjects, &running);
        self.last_begun = last_begun;
        self.listed = Instant::now();
        self.took = self.listed - self.checked;
        Some(&self.known)
    }

    fn is_any_alive(&self) -> bool {
        self.known.iter().any(|process| PathBuf::from(format!("/proc/{process}")).exists())
    }
}

/// The processes of all subjects.
pub fn chosen(subjects: &[Subject], running: &BTreeMap<u32, RunningProcess>) -> BTreeSet<u32> {
    subjects.iter().flat_map(|subject| subject.processes(running)).collect()
}
