//! CPU work of known length: turns of a chain of multiplications, at a rate that the runner
//! measured. It is work, not a deadline: a preempted task still does all of it, as it
//! would in a longer critical section.

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

    /// Does the work.
    #[inline(always)]
    pub fn run(self) {
        machine::work(self.turns);
    }
}
