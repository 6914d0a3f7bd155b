//! Goroutines that wait, as each round finds them.

use records::sampled::SightedGoroutine;

use super::{ProcWatch, Walks};

/// Numbers of tasks are lower: PID_MAX_LIMIT of the kernel is 4 Mi.
const NO_TASK: u32 = 1 << 31;

impl ProcWatch {
    /// The goroutines that wait at semaphores now, with their stacks.
    pub(super) fn goroutines(&mut self, walks: &mut Walks) -> Vec<SightedGoroutine> {
        let mut sighted = Vec::new();
        for process in self.wanted.clone() {
            for waiting in self.go.waiting(&self.stacks, process) {
                self.addresses.insert((process, waiting.semaphore));
                // They lie so far apart.
                let number = NO_TASK | (waiting.goroutine >> 5) as u32;
                let stack = self.stack(process, number, (waiting.place, ""), walks);
                let semaphore = waiting.semaphore;
                sighted.push(SightedGoroutine { process, number, semaphore, stack });
            }
        }
        sighted
    }
}
