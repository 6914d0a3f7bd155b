//! CPU work of known length: turns of an empty loop, at a rate that the runner
//! measured. It is work, not a deadline: a preempted task still does all of it, as it
//! would in a longer critical section.

use std::hint::black_box;

/// An amount of CPU work, in turns of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spin {
    turns: u64,
}

impl Spin {
    /// Work of `turns` turns of the loop.
    pub fn new(turns: u64) -> Spin {
        Spin { turns }
    }

    /// Does the work. Not `pause`: hypervisors trap it to detect spinning.
    #[inline(always)]
    pub fn run(self) {
        for turn in 0..self.turns {
            black_box(turn);
        }
    }
}
