//! The costs of a CPU on its own: accesses to lines in its cache, spin-wait hints, memory reads.

use std::hint::{black_box, spin_loop};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;
use std::{io, thread};

use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::Line;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

const ROUNDS: usize = 11;
/// Operations in a round.
const TIMES: u64 = 20_000;

/// Times of accesses to private lines and of spin-wait hints, in ns for each round.
#[derive(Debug, Default)]
pub struct OwnLineCosts {
    pub load: Vec<f64>,
    pub store: Vec<f64>,
    pub atomic: Vec<f64>,
    pub pause: Vec<f64>,
}

/// Times a CPU's accesses to private lines.
pub fn own(cpu: u32) -> io::Result<OwnLineCosts> {
    let line = Line::<AtomicU64>::default();
    let part = |_: usize, _: &_| {
        let mut own = OwnLineCosts::default();
        for _ in 0..ROUNDS {
            // Each load's address depends on the last value, so the CPU cannot overlap loads.
            let lines = [const { Line(AtomicU64::new(0)) }; 8];
            own.load.push(each(|at| lines[at as usize & 7].load(Relaxed)));
            own.store.push(each(|turn| {
                line.store(turn, Relaxed);
                turn + 1
            }));
            own.atomic.push(each(|_| line.fetch_add(1, SeqCst)));
            own.pause.push(each(|_| {
                spin_loop();
                0
            }));
        }
        own
    };
    Ok(together(&[cpu], part)?.swap_remove(0))
}

/// The mean time of an operation in ns; each gets the value that the last one returned.
fn each(mut operation: impl FnMut(u64) -> u64) -> f64 {
    let start = now_ns();
    let end = (0..TIMES).fold(0, |last, _| operation(last));
    black_box(end);
    (now_ns() - start) as f64 / TIMES as f64
}

/// The time of a line of pages that are copied from one to the other, of 256 KiB in all, in ns.
pub fn copied_line(cpu: u32) -> io::Result<Vec<f64>> {
    const PAGE: usize = 4096;
    const PAGES: usize = 64;
    let part = |_: usize, _: &_| {
        let mut memory = vec![1_u8; PAGES * PAGE];
        let mut round = || {
            let start = now_ns();
            for page in 1..PAGES {
                memory.copy_within((page - 1) * PAGE..page * PAGE, page * PAGE);
                black_box(&mut memory);
            }
            // Each line is read, and one written.
            (now_ns() - start) as f64 / ((PAGES - 1) * PAGE / 64 * 2) as f64
        };
        (0..ROUNDS).map(|_| round()).collect()
    };
    Ok(together(&[cpu], part)?.swap_remove(0))
}

/// The time of a line of memory that CPUs clear at once, 32 MiB each, in ns: from one line of all of them to the next.
pub fn cleared_line(cpus: &[u32]) -> io::Result<Vec<f64>> {
    const BYTES: usize = 32 << 20;
    let part = |_: usize, meeting: &Meeting| -> Vec<f64> {
        let mut memory = vec![1_u8; BYTES];
        let round = |_| {
            meeting.meet();
            let start = now_ns();
            memory.chunks_mut(4096).for_each(|page| black_box(page).fill(0));
            (now_ns() - start) as f64 / (BYTES / 64 * cpus.len()) as f64
        };
        (0..5).map(round).collect()
    };
    Ok(together(cpus, part)?.concat())
}

/// The time of work on one thread of a core while the other thread works, over the time while it
/// sleeps.
pub fn both_threads(threads: [u32; 2]) -> io::Result<Vec<f64>> {
    let work = || each(|turn| black_box(turn.wrapping_mul(0x9E37_79B9) ^ turn >> 7));
    let is_over = Line::<AtomicBool>::default();
    let part = |index: usize, meeting: &Meeting| {
        let mut ratios = Vec::new();
        for _ in 0..ROUNDS {
            is_over.store(false, Relaxed);
            meeting.meet();
            if index == 1 {
                thread::sleep(Duration::from_millis(1));
                meeting.meet();
                while !is_over.load(Relaxed) {
                    work();
                }
            } else {
                let alone = work();
                meeting.meet();
                ratios.push(work() / alone);
                is_over.store(true, Relaxed);
            }
            meeting.meet();
        }
        ratios
    };
    Ok(together(&threads, part)?.swap_remove(0))
}

/// The time of a random read within `bytes` bytes that depends on the read before it, in ns.
pub fn memory(cpu: u32, bytes: usize) -> io::Result<Vec<f64>> {
    const READS: u64 = 100_000;
    let part = |_: usize, _: &_| {
        let next = chain(bytes / 64);
        let read = |from: u32, reads| (0..reads).fold(from, |at, _| next[at as usize].next);
        let mut at = read(0, (next.len() as u64).min(READS * 4));
        let mut round = || {
            let start = now_ns();
            at = black_box(read(at, READS));
            (now_ns() - start) as f64 / READS as f64
        };
        (0..5).map(|_| round()).collect()
    };
    Ok(together(&[cpu], part)?.swap_remove(0))
}

#[repr(align(64))]
#[derive(Clone)]
struct Link {
    next: u32,
}

/// A single cycle through all lines in random order (Sattolo 1986).
fn chain(lines: usize) -> Vec<Link> {
    let mut random = <Xoshiro256PlusPlus as rand::SeedableRng>::seed_from_u64(1);
    let mut links: Vec<Link> = (0..lines as u32).map(|next| Link { next }).collect();
    for i in (1..lines).rev() {
        let other = random.random_range(0..i);
        let next = links[i].next;
        links[i].next = links[other].next;
        links[other].next = next;
    }
    links
}
