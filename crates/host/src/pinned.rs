//! Threads that stay on one CPU, and start together.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{io, thread};

use crate::affinity;

/// Does a part on a thread of each of these CPUs, all at once; what each returned. They meet
/// once before they begin, and whenever all want to.
pub fn together<R: Send>(
    cpus: &[u32],
    part: impl Fn(usize, &Meeting) -> R + Sync,
) -> io::Result<Vec<R>> {
    let meeting = Meeting { threads: cpus.len(), arrived: AtomicUsize::new(0) };
    let pinned = AtomicUsize::new(0);
    let one = |i: usize| {
        let own = affinity::set(&[cpus[i]]);
        pinned.fetch_add(usize::from(own.is_ok()), Ordering::Relaxed);
        meeting.meet();
        own?;
        match pinned.load(Ordering::Relaxed) == cpus.len() {
            true => Ok(part(i, &meeting)),
            false => Err(io::Error::other("another thread could not be pinned")),
        }
    };
    let one = &one;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..cpus.len()).map(|i| scope.spawn(move || one(i))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a part does not panic")).collect()
    })
}

/// Where threads wait for each other.
#[derive(Debug)]
pub struct Meeting {
    threads: usize,
    arrived: AtomicUsize,
}

impl Meeting {
    /// Waits until all threads are here: on their CPUs, spinning, for what comes next must not begin
    /// with a wake-up.
    pub fn meet(&self) {
        let place = self.arrived.fetch_add(1, Ordering::AcqRel);
        let full = (place / self.threads + 1) * self.threads;
        let mut looks = 0_u32;
        while self.arrived.load(Ordering::Acquire) < full {
            spin_loop();
            looks += 1;
            if looks.is_multiple_of(4096) {
                // Somebody else may need this very CPU.
                thread::yield_now();
            }
        }
    }
}
