//! The share that a cause has, window by window, whether or not it is large enough to be named.

use analysis::Series;
use records::live::{Observation, ObservedThread, ThreadState};

use crate::causes::{LiveCauseKind, garbage_samples, is_fault, line_name};
use crate::shares::Shares;

/// The share of a cause that is no lock. `None` if this observation cannot tell.
pub fn share_of_cause(
    observation: &Observation,
    kind: LiveCauseKind,
    name: &str,
) -> Option<Series> {
    let windows = Windows { observation, shares: Shares::new(observation) };
    match kind {
        LiveCauseKind::BusyThread => windows.busy(name),
        LiveCauseKind::Quota => windows.quota(),
        LiveCauseKind::Affinity => windows.of_cpus(f64::from(observation.allowed_cpus)),
        LiveCauseKind::OtherPrograms => {
            windows.of(|state| matches!(state, ThreadState::BehindOther(_)), could_run)
        }
        LiveCauseKind::InputOutput => {
            windows.of(|state| matches!(state, ThreadState::Disk(_)), is_active)
        }
        LiveCauseKind::Memory => windows.of(|state| *state == ThreadState::Reclaim, is_active),
        LiveCauseKind::PageFaults => windows.faults(),
        LiveCauseKind::SharedLine | LiveCauseKind::AllocatorLock => windows.line(name),
        LiveCauseKind::GarbageCollection => {
            let (garbage, all) = garbage_samples(observation);
            windows.sampled(garbage, all)
        }
        // A lock that this observation has no thread waiting for.
        LiveCauseKind::Lock
        | LiveCauseKind::KernelLock
        | LiveCauseKind::InterpreterLock
        | LiveCauseKind::Deadlock => windows.constant(0.0),
        LiveCauseKind::Stopped => windows.of(|state| *state == ThreadState::Stopped, |_| true),
    }
}

/// The standard error of a share of samples. Samples are no independent draws: what runs goes on running, so it is taken
/// as if there were half as many.
pub fn chance_of_samples(some: u64, all: u64) -> f64 {
    const DRAWS: f64 = 0.5;
    let n = all.max(1) as f64;
    // A share of none is not known to be 0 (A. Agresti and B. Coull, The American Statistician 52, 1998).
    let share = (some as f64 + 1.0) / (n + 2.0);
    (share * (1.0 - share) / (DRAWS * n)).sqrt()
}

fn could_run(state: &ThreadState) -> bool {
    matches!(
        state,
        ThreadState::Running
            | ThreadState::BehindOwn
            | ThreadState::BehindOther(_)
            | ThreadState::Throttled
    )
}

fn is_active(state: &ThreadState) -> bool {
    could_run(state)
        || matches!(
            state,
            ThreadState::Disk(_)
                | ThreadState::PageFault
                | ThreadState::Reclaim
                | ThreadState::WakeUp
        )
}

struct Windows<'o> {
    observation: &'o Observation,
    shares: Shares<'o>,
}

impl Windows<'_> {
    fn lengths(&self) -> Vec<f64> {
        self.observation.windows.iter().map(|window| window.ns as f64).collect()
    }

    fn ns(&self, is: impl Fn(&ThreadState) -> bool) -> Vec<f64> {
        let ns = self.shares.ns(self.observation.threads.iter(), is);
        ns.into_iter().map(|ns| ns as f64).collect()
    }

    /// Threads in some states as a share of those in others.
    fn of(
        &self,
        is: impl Fn(&ThreadState) -> bool,
        is_all: impl Fn(&ThreadState) -> bool,
    ) -> Option<Series> {
        Series::from_ratios(&self.ns(is), &self.ns(is_all)).or_else(|| self.constant(0.0))
    }

    /// The threads' CPU time as a share of what so many CPUs have.
    fn of_cpus(&self, cpus: f64) -> Option<Series> {
        let used = self.shares.cpu_ns(|cpus| cpus.subject_ns);
        let used: Vec<f64> = used.into_iter().map(|ns| ns as f64).collect();
        let all: Vec<f64> = self.lengths().iter().map(|ns| ns * cpus).collect();
        Series::from_ratios(&used, &all)
    }

    fn quota(&self) -> Option<Series> {
        match self.observation.quota_cpus {
            Some(cpus) => self.of_cpus(cpus),
            None => self.of(|state| *state == ThreadState::Throttled, could_run),
        }
    }

    /// The busiest thread of a name.
    fn busy(&self, name: &str) -> Option<Series> {
        let busy = |thread: &ObservedThread| {
            let is = |state: &ThreadState| could_run(state) && *state != ThreadState::Throttled;
            let ns = self.shares.ns(std::iter::once(thread), is);
            let ns: Vec<f64> = ns.into_iter().map(|ns| ns as f64).collect();
            Series::from_ratios(&ns, &self.lengths())
        };
        let threads = self.observation.threads.iter().filter(|thread| thread.name == name);
        let busiest = threads.filter_map(busy).max_by(|a, b| a.mean.total_cmp(&b.mean));
        busiest.or_else(|| self.constant(0.0))
    }

    /// A share that is the same in all windows.
    fn constant(&self, share: f64) -> Option<Series> {
        let n = self.observation.windows.len();
        Series::from_ratios(&vec![share; n], &vec![1.0; n])
    }

    /// A share of samples, which are not told apart by windows.
    fn sampled(&self, some: u64, all: u64) -> Option<Series> {
        let share = some as f64 / all.max(1) as f64;
        Some(self.constant(share).filter(|_| all > 0)?.with_error(chance_of_samples(some, all)))
    }

    /// Page faults that threads wait in, and those that they run in, by samples.
    fn faults(&self) -> Option<Series> {
        let (mut faults, mut all) = (0, 0);
        for sample in self.observation.threads.iter().flat_map(|thread| &thread.samples) {
            faults += if sample.stack.iter().any(|name| is_fault(name)) { sample.times } else { 0 };
            all += sample.times;
        }
        let share = faults as f64 / all.max(1) as f64;
        let (waits, runs) = (
            self.ns(|state| *state == ThreadState::PageFault),
            self.ns(|state| *state == ThreadState::Running),
        );
        let taken: Vec<f64> =
            waits.iter().zip(&runs).map(|(waits, runs)| waits + share * runs).collect();
        let series = Series::from_ratios(&taken, &self.ns(is_active));
        let series = series.or_else(|| self.constant(0.0))?;
        Some(series.with_error(if all > 0 { chance_of_samples(faults, all) } else { 0.0 }))
    }

    fn line(&self, name: &str) -> Option<Series> {
        let line = self.observation.lines.iter().find(|line| line_name(line) == name);
        let all = self.observation.threads.iter().flat_map(|thread| &thread.samples);
        let all = line.map_or_else(|| all.map(|sample| sample.times).sum(), |line| line.of);
        self.sampled(line.map_or(0, |line| line.samples), all)
    }
}
