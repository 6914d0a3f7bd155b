//! What going to sleep, waking and interrupting cost: system calls, timed where they are made and
//! where they are felt.

use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;
use std::{io, ptr, thread};

use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::Line;

const ROUNDS: usize = 11;
/// Calls of a round.
const CALLS: u32 = 200;

fn futex(word: &AtomicU32, command: libc::c_int, value: u32) {
    let no_timeout = ptr::null::<libc::timespec>();
    // SAFETY: the word is live, and the kernel only reads it.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), command, value, no_timeout) };
}

fn sleep_on(word: &AtomicU32, expected: u32) {
    futex(word, libc::FUTEX_WAIT, expected);
}

fn wake(word: &AtomicU32) {
    futex(word, libc::FUTEX_WAKE, 1);
}

/// ns of one of so many calls.
fn each(mut call: impl FnMut()) -> f64 {
    let start = now_ns();
    (0..CALLS).for_each(|_| call());
    (now_ns() - start) as f64 / f64::from(CALLS)
}

/// ns of a call that wakes nobody.
pub fn wake_nobody(cpu: u32) -> io::Result<Vec<f64>> {
    let word = AtomicU32::new(0);
    let part = |_: usize, _: &Meeting| (0..ROUNDS).map(|_| each(|| wake(&word))).collect();
    Ok(together(&[cpu], part)?.swap_remove(0))
}

/// Of waking somebody on another CPU that is idle: ns of the call, and ns from its start until that
/// one runs.
pub fn wake_other(cpus: [u32; 2]) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let word = Line::<AtomicU32>::default();
    let woken_ns = Line::<AtomicU64>::default();
    let part = |who: usize, _: &Meeting| {
        let (mut calls, mut latencies) = (Vec::new(), Vec::new());
        for turn in 1..=8 * ROUNDS as u32 {
            if who == 1 {
                while word.load(Acquire) < turn {
                    sleep_on(&word, turn - 1);
                }
                woken_ns.store(now_ns(), Release);
                continue;
            }
            // Asleep by then, and its CPU idle.
            thread::sleep(Duration::from_micros(300));
            let start = now_ns();
            word.store(turn, Release);
            wake(&word);
            let end = now_ns();
            while woken_ns.load(Acquire) < start {
                thread::yield_now();
            }
            calls.push((end - start) as f64);
            latencies.push((woken_ns.load(Acquire) - start) as f64);
        }
        (calls, latencies)
    };
    Ok(together(&cpus, part)?.swap_remove(0))
}

/// On one CPU, ns from going to sleep until another task runs, which was woken before.
pub fn sleep_and_switch(cpu: u32) -> io::Result<Vec<f64>> {
    let words = [Line::<AtomicU32>::default(), Line::<AtomicU32>::default()];
    let slept_ns = Line::<AtomicU64>::default();
    let part = |who: usize, meeting: &Meeting| {
        let mut times = Vec::new();
        meeting.meet();
        for turn in 1..=CALLS * 8 {
            if who == 0 {
                words[0].store(turn, Release);
                wake(&words[0]);
            }
            while words[1 - who].load(Acquire) < turn {
                slept_ns.store(now_ns(), Relaxed);
                sleep_on(&words[1 - who], turn - 1);
                // Nothing, where this one was put ahead of who woke it.
                let ns = now_ns() as i64 - slept_ns.swap(u64::MAX >> 1, Relaxed) as i64;
                times.extend((ns > 0).then_some(ns as f64));
            }
            if who == 1 {
                words[1].store(turn, Release);
                wake(&words[1]);
            }
        }
        times
    };
    Ok(together(&[cpu, cpu], part)?.concat())
}

/// ns of giving the CPU to the other task on it, and of offering it to nobody.
pub fn switch(cpu: u32) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let alone = |_: usize, _: &Meeting| (0..ROUNDS).map(|_| each(thread::yield_now)).collect();
    let nobody: Vec<f64> = together(&[cpu], alone)?.swap_remove(0);
    let passes = Line::<AtomicU32>::default();
    let part = |_: usize, meeting: &Meeting| {
        let round = |_| {
            meeting.meet();
            // Only a change of who is here counts as one: the scheduler may decline.
            let (mut last, mut changes, start) = (0, 0_u32, now_ns());
            for _ in 0..CALLS {
                thread::yield_now();
                let seen = passes.fetch_add(1, AcqRel);
                changes += u32::from(seen != last);
                last = seen + 1;
            }
            (now_ns() - start) as f64 / f64::from(2 * changes.max(1))
        };
        (0..ROUNDS).map(round).collect::<Vec<f64>>()
    };
    Ok((together(&[cpu, cpu], part)?.swap_remove(0), nobody))
}

/// How long a task has a CPU that another one wants too, in ns.
pub fn slices(cpu: u32) -> io::Result<Vec<f64>> {
    const LENGTH_NS: u64 = 200_000_000;
    let turn = Line::<AtomicU32>::default();
    let part = |who: usize, meeting: &Meeting| {
        meeting.meet();
        let start = now_ns();
        let (mut slices, mut begun) = (Vec::new(), start);
        while now_ns() - start < LENGTH_NS {
            let before = turn.swap(who as u32 + 1, Relaxed);
            let now = now_ns();
            if before != who as u32 + 1 {
                begun = now;
                slices.push(0.0);
            }
            if let Some(slice) = slices.last_mut() {
                *slice = (now - begun) as f64;
            }
        }
        slices
    };
    let mut all = together(&[cpu, cpu], part)?.concat();
    // A first or last one is cut off.
    all.retain(|slice| *slice > 100_000.0);
    Ok(all)
}

/// Of interrupting another CPU, which works: ns until that is known to have happened, and ns that
/// the other one lost. membarrier(2) interrupts all CPUs that run a thread of the process and waits
/// for each.
pub fn interrupt(cpus: [u32; 2]) -> io::Result<(Vec<f64>, Vec<f64>)> {
    const REGISTER: libc::c_int = 1 << 4;
    const EXPEDITED: libc::c_int = 1 << 3;
    let barrier = |command: libc::c_int| {
        // SAFETY: a call without pointers.
        match unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    };
    barrier(REGISTER)?;
    let is_over = Line::<AtomicBool>::default();
    let part = |who: usize, meeting: &Meeting| {
        let (mut calls, mut gaps) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            is_over.store(false, Relaxed);
            meeting.meet();
            if who == 0 {
                calls.push(each(|| drop(barrier(EXPEDITED))));
                is_over.store(true, Relaxed);
            } else {
                gaps.push(lost_ns(|| is_over.load(Relaxed)) / f64::from(CALLS));
            }
            meeting.meet();
        }
        (calls, gaps)
    };
    let mut all = together(&cpus, part)?;
    Ok((all.swap_remove(0).0, all.swap_remove(0).1))
}

/// Looks at the clock until something is over; the ns that were lost between two looks, beyond
/// what a look takes.
fn lost_ns(is_over: impl Fn() -> bool) -> f64 {
    let (mut looks, mut last) = (Vec::with_capacity(1 << 16), now_ns());
    while !is_over() {
        let now = now_ns();
        looks.push(now - last);
        last = now;
    }
    let mut sorted = looks.clone();
    sorted.sort_unstable();
    let look = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    looks.iter().map(|&ns| ns.saturating_sub(look)).sum::<u64>() as f64
}

/// ns of a first write to a page of memory.
pub fn page_fault(cpu: u32) -> io::Result<Vec<f64>> {
    const PAGES: usize = 512;
    let part = |_: usize, _: &Meeting| {
        let round = |_| {
            let bytes = PAGES * 4096;
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a mapping of its own, which nothing else knows; it is gone at the end.
            unsafe {
                let at = libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0);
                if at == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
                let start = now_ns();
                (0..PAGES).for_each(|page| at.cast::<u8>().add(page * 4096).write_volatile(1));
                let ns = (now_ns() - start) as f64 / PAGES as f64;
                libc::munmap(at, bytes);
                Ok(ns)
            }
        };
        (0..ROUNDS).map(round).collect()
    };
    together(&[cpu], part)?.swap_remove(0)
}
