//! Cache lines under contention: how long a CPU keeps a line, and how long its transfer takes.

use std::hint::{black_box, spin_loop};
use std::io;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};

use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::Line;

const ROUNDS: usize = 5;
const ROUND_NS: u64 = 8_000_000;

/// One round in which CPUs change one word as fast as they can.
#[derive(Clone, Copy, Debug)]
pub struct Storm {
    /// Time between the arrivals of the word at one CPU and at the next, in ns.
    pub turn_ns: f64,
    /// Changes by a CPU before the word moves on.
    pub changes: f64,
}

impl Storm {
    /// The probability that a CPU's next change still finds the line. An owner that never lost it would make no turns.
    pub fn keep(&self) -> f64 {
        const MOST: f64 = 0.99;
        (1.0 - 1.0 / self.changes).clamp(0.0, MOST)
    }
}

/// Lets all CPUs change one word.
pub fn storms(cpus: &[u32]) -> io::Result<Vec<Storm>> {
    let (word, stop) = (Line::<AtomicU64>::default(), Line::<AtomicBool>::default());
    let part = |index: usize, meeting: &Meeting| {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            stop.store(false, Relaxed);
            meeting.meet();
            let start = now_ns();
            let (mut changes, mut turns, mut last) = (0_u64, 0_u64, u64::MAX);
            // The first CPU watches the clock; the cost is spread over many changes.
            let is_over = || match index {
                0 => now_ns() - start >= ROUND_NS,
                _ => stop.load(Relaxed),
            };
            while !is_over() {
                for _ in 0..256 {
                    let seen = word.fetch_add(1, Relaxed);
                    turns += u64::from(seen != last.wrapping_add(1));
                    (changes, last) = (changes + 1, seen);
                }
            }
            stop.store(true, Relaxed);
            rounds.push((changes, turns, now_ns() - start));
            meeting.meet();
        }
        rounds
    };
    let rounds = together(cpus, part)?;
    let storm = |round: usize| {
        let sum = |pick: fn(&(u64, u64, u64)) -> u64| {
            rounds.iter().map(|rounds| pick(&rounds[round])).sum::<u64>()
        };
        let (changes, turns, ns) = (sum(|cpu| cpu.0), sum(|cpu| cpu.1).max(1), sum(|cpu| cpu.2));
        Storm {
            turn_ns: ns as f64 / rounds.len() as f64 / turns as f64,
            changes: changes as f64 / turns as f64,
        }
    };
    Ok((0..ROUNDS).map(storm).collect())
}

/// Half the round trip of a word between two CPUs, by stores and spinning reads, in ns. Each CPU computes for a random time
/// before it answers, which is subtracted: without it, both fall into step with the pauses of the other's loop.
pub fn hand_over(cpus: [u32; 2]) -> io::Result<Vec<f64>> {
    const TURNS: u64 = 2000;
    let words = [Line::<AtomicU64>::default(), Line::<AtomicU64>::default()];
    let part = |index: usize, meeting: &Meeting| {
        let (mut seen, mut computed) = (0, 0.0);
        let mut rounds = Vec::new();
        for round in 0..ROUNDS as u64 {
            let turns = round * TURNS + 1..=(round + 1) * TURNS;
            let start = now_ns();
            seen = turns.clone().fold(seen, |seen, turn| seen + compute(turn, seen));
            computed += (now_ns() - start) as f64;
            meeting.meet();
            let start = now_ns();
            for turn in turns {
                // What is stored depends on what was read, so that no CPU computes ahead.
                let answer = |seen| words[index].store(turn + compute(turn, seen), Release);
                if index == 0 {
                    answer(seen);
                }
                seen = loop {
                    match words[1 - index].load(Acquire) {
                        word if word >= turn => break word,
                        _ => spin_loop(),
                    }
                };
                if index == 1 {
                    answer(seen);
                }
            }
            rounds.push((now_ns() - start) as f64 / TURNS as f64);
            meeting.meet();
        }
        (rounds, computed / (ROUNDS as f64 * TURNS as f64))
    };
    let both = together(&cpus, part)?;
    let computed: f64 = both.iter().map(|(_, computed)| computed).sum();
    Ok(both[0].0.iter().map(|trip| (trip - computed) / 2.0).collect())
}

/// 0, after up to some tens of ns that depend on both numbers.
fn compute(turn: u64, seen: u64) -> u64 {
    let steps = (turn.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) + 1;
    (0..steps).fold(seen, |value, _| value.wrapping_mul(black_box(3))) & black_box(0)
}

/// The time between two waiting CPUs seeing the same store, in ns.
pub fn between_readers(cpus: &[u32]) -> io::Result<Vec<f64>> {
    const TURNS: u64 = 400;
    let (word, seen) = (Line::<AtomicU64>::default(), Line::<AtomicU64>::default());
    let part = |index: usize, meeting: &Meeting| {
        let mut times = Vec::new();
        for turn in 1..=TURNS {
            meeting.meet();
            if index == 0 {
                // Wait until all readers have seen the last store.
                while seen.load(Acquire) < (turn - 1) * (cpus.len() as u64 - 1) {
                    spin_loop();
                }
                word.store(turn, Release);
                continue;
            }
            while word.load(Acquire) < turn {
                spin_loop();
            }
            times.push(now_ns());
            seen.fetch_add(1, AcqRel);
        }
        times
    };
    let times = together(cpus, part)?;
    let spread = |turn: usize| {
        let seen_at = || times[1..].iter().map(|times| times[turn]);
        let (first, last) = (seen_at().min().unwrap_or(0), seen_at().max().unwrap_or(0));
        (last - first) as f64 / (cpus.len() - 2) as f64
    };
    Ok((0..TURNS as usize).map(spread).collect())
}
