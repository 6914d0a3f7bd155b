//! Other load on the host: for each CPU a task that computes and writes memory in bursts, as long and as far apart as a
//! seed draws them, for a third of the time. The scheduler places the tasks.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{JoinHandle, available_parallelism, sleep, spawn};
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Random;

/// The longest burst, in ms; pauses are twice as long.
const BURST_MAX_MS: u64 = 200;
/// Bytes that a burst writes over and over: more than a core's own cache.
const BYTES: usize = 4 << 20;

/// The load, until it is dropped.
pub struct Neighbour {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Neighbour {
    /// Starts a task per CPU, which the scheduler places.
    pub fn start(seed: u64) -> Neighbour {
        let stop = Arc::new(AtomicBool::new(false));
        let cpus = available_parallelism().map_or(1, usize::from) as u64;
        let task = |number| {
            let stop = stop.clone();
            spawn(move || bursts(&mut Random::seed_from_u64(seed ^ number), &stop))
        };
        Neighbour { tasks: (0..cpus).map(task).collect(), stop }
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        for task in self.tasks.drain(..) {
            let _ = task.join();
        }
    }
}

fn bursts(random: &mut Random, stop: &AtomicBool) {
    let mut memory = vec![0_u8; BYTES];
    while !stop.load(Relaxed) {
        let burst = Duration::from_millis(random.random_range(1..=BURST_MAX_MS));
        let since = Instant::now();
        while since.elapsed() < burst {
            memory.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
            black_box(&memory);
        }
        sleep(Duration::from_millis(random.random_range(1..=2 * BURST_MAX_MS)));
    }
}
