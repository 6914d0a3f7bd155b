//! Independent parts of a computation on all CPUs. The results depend neither on the number of CPUs
//! nor on the order of execution.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, Builder};

/// The results of `work` for each number below `parts`, in the order of the numbers. Where the system grants no threads,
/// this one does it all.
pub fn in_parallel<T: Send>(parts: usize, work: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let part = next.fetch_add(1, Relaxed);
            if part >= parts {
                return done;
            }
            done.push((part, work(part)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, |n| n.get()).min(parts.max(1));
    let mut done: Vec<(usize, T)> = thread::scope(|scope| {
        let workers = (0..threads).map_while(|_| Builder::new().spawn_scoped(scope, take).ok());
        let workers: Vec<_> = workers.collect();
        if workers.is_empty() {
            return take();
        }
        let joined = workers.into_iter().map(|worker| match worker.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.flatten().collect()
    });
    done.sort_by_key(|(part, _)| *part);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use crate::in_parallel;

    #[test]
    fn results_come_in_order() {
        assert_eq!(in_parallel(100, |part| part * 2), (0..200).step_by(2).collect::<Vec<_>>());
        assert!(in_parallel(0, |part| part).is_empty());
    }
}
