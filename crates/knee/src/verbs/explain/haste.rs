//! When knee hurries: with the highest priority of the fair policy, behind a thousand threads that could run, so that what takes
//! it 0.75 % of the CPUs does not come a minute late.
//!
//!     hurries ── has attached ──> waits its turn ── comes late ──> hurries
//!                                       └── the look ends ──> hurries until it has seen all
//!
//! While it follows, it does not hurry unless it must: the kernel balances CPUs by priorities, too, and keeps other threads from
//! the CPU of one that hurries, even if that one sleeps nearly always (15 % of PostgreSQL's rate on 2 CPUs).

use std::fs;
use std::time::{Duration, Instant};

/// Late is who has waited so many times as long as it has run,
const LATE_TIMES: u64 = 4;
/// and this long at least.
const LATE_NS: u64 = 200_000_000;
/// How often a thread that waits its turn is asked whether it is late.
const CHECKED: Duration = Duration::from_millis(250);
/// The highest priority of the fair policy.
const HIGHEST: libc::c_int = -20;

/// The priority of the thread that looks.
pub struct Haste {
    /// What the thread had when knee was started; `None` where it may not be changed.
    usual: Option<libc::c_int>,
    hurries: bool,
    /// CPU time of the thread, and time that it waited for a CPU, when it last changed.
    since: [u64; 2],
    checked: Instant,
}

impl Haste {
    /// Hurries, where that is allowed. What knee starts has the usual priority.
    pub fn hurry() -> Haste {
        let reset_on_fork = libc::SCHED_OTHER | libc::SCHED_RESET_ON_FORK;
        let no_priority = libc::sched_param { sched_priority: 0 };
        // SAFETY: the structure is live. Where a call is refused, knee goes on as it is.
        let usual = unsafe {
            let policy = libc::sched_getscheduler(0) & !libc::SCHED_RESET_ON_FORK;
            let may = policy == libc::SCHED_OTHER
                && libc::sched_setscheduler(0, reset_on_fork, &raw const no_priority) == 0;
            may.then(|| libc::getpriority(libc::PRIO_PROCESS, 0))
        };
        let mut haste = Haste { usual, hurries: false, since: turns(), checked: Instant::now() };
        haste.again();
        haste
    }

    /// Hurries again.
    pub fn again(&mut self) {
        self.set(HIGHEST);
        self.hurries = true;
    }

    /// Waits its turn.
    pub fn calm(&mut self) {
        self.usual.into_iter().for_each(|usual| self.set(usual));
        (self.hurries, self.since) = (false, turns());
    }

    /// Hurries from now on if turns have come late.
    pub fn check(&mut self) {
        if self.hurries || self.usual.is_none() || self.checked.elapsed() < CHECKED {
            return;
        }
        self.checked = Instant::now();
        let [ran, waited] = turns();
        let (ran, waited) =
            (ran.saturating_sub(self.since[0]), waited.saturating_sub(self.since[1]));
        if waited > LATE_NS.max(LATE_TIMES * ran) {
            self.again();
        }
    }

    fn set(&self, priority: libc::c_int) {
        if self.usual.is_some() {
            // SAFETY: no memory is passed. Where it is refused, knee goes on as it is.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, priority) };
        }
    }
}

impl Drop for Haste {
    fn drop(&mut self) {
        self.calm();
    }
}

/// The CPU time of this thread, and the time that it could run and did not, in ns: proc_pid_schedstat(5).
fn turns() -> [u64; 2] {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let mut numbers = text.split_whitespace().map(|number| number.parse().unwrap_or(0));
    [numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)]
}
