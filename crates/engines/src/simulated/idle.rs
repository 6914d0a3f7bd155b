//! How long a CPU is idle as a rule, which decides whether it takes tasks from other CPUs.

use super::{NS, Time};

/// A task that ran this recently still has its data in the caches of its CPU. A CPU whose idle
/// times are shorter takes no tasks (`sysctl_sched_migration_cost`).
pub const MIGRATION_COST: Time = 500_000 * NS;

/// The idle times of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct IdleTime {
    /// When the last one began.
    pub since: Time,
    /// Their moving average, as `avg_idle` of a run queue.
    pub average: Time,
}

impl Default for IdleTime {
    fn default() -> IdleTime {
        IdleTime { since: 0, average: 2 * MIGRATION_COST }
    }
}

impl IdleTime {
    /// Ends the current idle time.
    pub fn ends(&mut self, now: Time) {
        let length = now.saturating_sub(self.since);
        self.average = if length > 2 * MIGRATION_COST {
            2 * MIGRATION_COST
        } else {
            self.average - self.average / 8 + length / 8
        };
    }
}
