//! Threads that stay on one CPU, and start together.

use std::hint::spin_loop;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{PoisonError, RwLock};
use std::thread::{self, Builder};

use crate::affinity;

/// Runs `part` on one pinned thread for each of these CPUs, simultaneously, and returns the results
/// in the order of the CPUs. The threads meet once before they begin, and wherever `part` calls
/// [`Meeting::meet`].
pub fn together<R: Send>(
    cpus: &[u32],
    part: impl Fn(usize, &Meeting) -> R + Sync,
) -> io::Result<Vec<R>> {
    let meeting = Meeting { threads: cpus.len(), arrived: AtomicUsize::new(0) };
    let pinned = AtomicUsize::new(0);
    let have_all_started = RwLock::new(false);
    let run_part = |i: usize| {
        if !*have_all_started.read().unwrap_or_else(PoisonError::into_inner) {
            return Err(io::Error::other("another thread could not be started"));
        }
        let pinning = affinity::set(&[cpus[i]]);
        pinned.fetch_add(usize::from(pinning.is_ok()), Ordering::Relaxed);
        meeting.meet();
        pinning?;
        if pinned.load(Ordering::Relaxed) < cpus.len() {
            return Err(io::Error::other("another thread could not be pinned"));
        }
        Ok(part(i, &meeting))
    };
    let run_part = &run_part;
    thread::scope(|scope| {
        // Held until all have started: one alone would wait for the others for ever.
        let mut started = have_all_started.write().unwrap_or_else(PoisonError::into_inner);
        let start = |i| Builder::new().spawn_scoped(scope, move || run_part(i));
        let threads: Vec<_> = (0..cpus.len()).map(start).collect::<io::Result<_>>()?;
        *started = true;
        drop(started);
        threads.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect()
    })
}

/// A barrier where threads spin until all of them have arrived.
#[derive(Debug)]
pub struct Meeting {
    threads: usize,
    arrived: AtomicUsize,
}

impl Meeting {
    /// Waits until all threads have arrived. They spin on their CPUs, so that the work after the
    /// barrier does not begin with a wake-up.
    pub fn meet(&self) {
        let arrived_before = self.arrived.fetch_add(1, Ordering::AcqRel);
        let full = (arrived_before / self.threads + 1) * self.threads;
        let mut polls = 0_u32;
        while self.arrived.load(Ordering::Acquire) < full {
            spin_loop();
            polls += 1;
            if polls.is_multiple_of(4096) {
                // A thread that has not arrived may need this CPU.
                thread::yield_now();
            }
        }
    }
}
