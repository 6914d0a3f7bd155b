//! CPU work of a known length: turns of an empty loop, counted out by a rate that
//! the runner measured. It is work, not a deadline: a task preempted meanwhile still
//! does all of it, like a longer critical section would.

use std::hint::black_box;

/// An amount of CPU work, in turns of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spin {
    turns: u64,
}

impl Spin {
    /// This many turns.
    pub fn turns(turns: u64) -> Spin {
        Spin { turns }
    }

    /// Does the work. Not `pause`: hypervisors trap that one to look for spinning.
    #[inline(always)]
    pub fn run(self) {
        for turn in 0..self.turns {
            black_box(turn);
        }
    }
}
