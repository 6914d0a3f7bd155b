//! How often others enter before a task that waits. One task is watched. It waits from when it says that it has its place in the
//! queue; where the lock has no order of arrival, from when it is blocked, or comes to a step in a state in which it was at that
//! step before. What it did until then, as to take a ticket, is its way to the queue, on which anybody may overtake it.
//!
//! The watched task takes the lock once, the others as often as they do. The scheduler is fair here: no two tasks enter while a third could take a step all the time and does not.

use super::hash::mix;

/// What the watched task does.
#[derive(Clone, Copy, Debug, Default)]
pub struct Watched {
    pub stage: Stage,
    /// The steps that it has come to since it began to take the lock, each with the task's state, as bits.
    pub steps: u128,
    /// How many have entered while it waits.
    pub entered: u8,
    /// The tasks, as bits, that could have taken a step ever since another has entered, and have not.
    pub neglected: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stage {
    /// It does not take the lock.
    #[default]
    Away,
    /// It takes the lock, and has not had to wait.
    Begins { shares: bool },
    /// It waits.
    Waits { shares: bool },
    /// It has entered once, which is all that it does.
    Entered,
}

/// The most entries of others while a task waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bypass {
    /// Entries of any task while one waited that enters alone; `None` if none ever waited.
    pub exclusive: Option<u8>,
    /// Entries of tasks that enter alone while one waited that shares.
    pub shared: Option<u8>,
}

impl Watched {
    /// What distinguishes states.
    pub fn hash(&self) -> u64 {
        let stage = match self.stage {
            Stage::Away => 0,
            Stage::Begins { shares } => 1 + u64::from(shares),
            Stage::Waits { shares } => 3 + u64::from(shares),
            Stage::Entered => 5,
        };
        let steps = mix(self.steps as u64, (self.steps >> 64) as u64);
        mix(steps, u64::from(self.neglected) << 16 | stage << 8 | u64::from(self.entered))
    }
}
