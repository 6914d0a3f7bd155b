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

/// The work of a task between its operations.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Idle {
    /// How much it is, or is on average.
    spin: Spin,
    /// Whether it varies, as the time until the next of independent events.
    is_exponential: bool,
    /// State of the random numbers, for `is_exponential`.
    random: u64,
}

impl Idle {
    /// Work that is always the same, or exponentially distributed with random numbers of the task's own.
    pub fn new(spin: Spin, is_exponential: bool, task: usize) -> Idle {
        // Never 0, where xorshift would stay.
        Idle {
            spin,
            is_exponential,
            random: (task as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// Whether there is any.
    #[inline(always)]
    pub fn is_some(&self) -> bool {
        self.spin != Spin::default()
    }

    /// Does the work once.
    #[inline(always)]
    pub fn run(&mut self) {
        if self.is_exponential { self.run_varying() } else { self.spin.run() }
    }

    /// Some 20 ns are for the logarithm.
    fn run_varying(&mut self) {
        // Xorshift64 (Marsaglia 2003); 53 bits make a number above 0 and up to 1.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let uniform = ((self.random >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        Spin::new((-uniform.ln() * self.spin.turns as f64) as u64).run();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varying_work_has_random_numbers_of_its_own_for_each_task() {
        let idle = |task| {
            let mut idle = Idle::new(Spin::new(1), true, task);
            idle.run();
            idle.random
        };
        assert_eq!(idle(1), idle(1));
        assert!(idle(0) != idle(1));
        assert!(!Idle::default().is_some());
    }
}
