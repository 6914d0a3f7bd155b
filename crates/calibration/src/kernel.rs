//! The costs of sleeping, waking and interrupting: system calls, timed on the calling CPU and on the
//! CPU that they affect.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::Duration;
use std::{io, ptr, thread};

use host::clock::now_ns;
use host::pinned::{Meeting, together};
use machine::Line;

const ROUNDS: usize = 11;
/// Calls in a round.
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

/// The mean time of a call over [`CALLS`] calls, in ns.
fn each(mut call: impl FnMut()) -> f64 {
    let start = now_ns();
    (0..CALLS).for_each(|_| call());
    (now_ns() - start) as f64 / f64::from(CALLS)
}

/// The time of a system call that does nothing, in ns: one that there is none of.
pub fn no_call(cpu: u32) -> io::Result<Vec<f64>> {
    let call = || {
        // SAFETY: the kernel refuses it.
        unsafe { libc::syscall(libc::c_long::from(i32::MAX)) };
    };
    let part = |_: usize, _: &Meeting| (0..ROUNDS).map(|_| each(call)).collect();
    Ok(together(&[cpu], part)?.swap_remove(0))
}

/// The instructions that the kernel executes for both calls of an operation, without the 200 that each call executes on its
/// way in and out, and what prepares it: counted on Linux 6.18 for amd64 with `knee conflicts pipe unix_socket mmap_munmap`.
type CountedCalls = (u32, fn() -> io::Result<Box<dyn FnMut()>>);

#[cfg(target_arch = "x86_64")]
const COUNTED: [CountedCalls; 3] = [(1465, pipe), (3662, unix_socket), (11_296, mapping)];
#[cfg(not(target_arch = "x86_64"))]
const COUNTED: [CountedCalls; 0] = [];

/// The times of an instruction of the kernel in ns, of each of [`COUNTED`], less the time of an empty call for each call. Empty
/// on an architecture without counts.
pub fn instruction(cpu: u32, call_ns: f64) -> io::Result<Vec<f64>> {
    let part = |_: usize, _: &Meeting| -> io::Result<Vec<f64>> {
        let mut times = Vec::new();
        for (instructions, prepared) in COUNTED {
            let mut operate = prepared()?;
            let time = |_| (each(&mut operate) - 2.0 * call_ns) / f64::from(instructions);
            times.extend((0..ROUNDS).map(time));
        }
        Ok(times)
    };
    together(&[cpu], part)?.swap_remove(0)
}

/// A byte through a pipe.
fn pipe() -> io::Result<Box<dyn FnMut()>> {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two live ints.
    passing(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, ends)
}

/// A byte from one Unix socket to another.
fn unix_socket() -> io::Result<Box<dyn FnMut()>> {
    let (mut ends, kind) = ([0; 2], libc::SOCK_STREAM | libc::SOCK_CLOEXEC);
    // SAFETY: the kernel writes two live ints.
    let made = unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) };
    passing(made, ends)
}

/// Passes a byte from the second of both ends, just made, to the first.
fn passing(made: libc::c_int, ends: [libc::c_int; 2]) -> io::Result<Box<dyn FnMut()>> {
    if made != 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: both were just opened, and nothing else owns them.
    let [mut to, mut from] = ends.map(|end| unsafe { File::from_raw_fd(end) });
    let mut byte = [0];
    Ok(Box::new(move || {
        let _ = from.write_all(&byte).and_then(|()| to.read_exact(&mut byte));
    }))
}

/// Memory that is mapped, not touched, and unmapped.
fn mapping() -> io::Result<Box<dyn FnMut()>> {
    let operate = || {
        const BYTES: usize = 128 << 20;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: nothing lies where the kernel chooses to map it, and nothing uses it.
        unsafe {
            let at = libc::mmap(ptr::null_mut(), BYTES, access, kind, -1, 0);
            at != libc::MAP_FAILED && libc::munmap(at, BYTES) == 0
        }
    };
    if !operate() {
        return Err(io::Error::last_os_error());
    }
    Ok(Box::new(move || {
        operate();
    }))
}

/// The time of a futex(2) that wakes no task, in ns.
pub fn wake_nobody(cpu: u32) -> io::Result<Vec<f64>> {
    let word = AtomicU32::new(0);
    let part = |_: usize, _: &Meeting| (0..ROUNDS).map(|_| each(|| wake(&word))).collect();
    Ok(together(&[cpu], part)?.swap_remove(0))
}

/// Wakes a task on another, idle CPU: returns the times of the calls, and the times from the call's
/// start until the task runs, in ns.
pub fn wake_other(cpus: [u32; 2]) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let word = Line::<AtomicU32>::default();
    let woken_ns = Line::<AtomicU64>::default();
    let part = |index: usize, _: &Meeting| {
        let (mut calls, mut latencies) = (Vec::new(), Vec::new());
        for turn in 1..=8 * ROUNDS as u32 {
            if index == 1 {
                while word.load(Acquire) < turn {
                    sleep_on(&word, turn - 1);
                }
                woken_ns.store(now_ns(), Release);
                continue;
            }
            // By then the task sleeps and its CPU is idle.
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

/// The time from going to sleep until another, runnable task runs on the same CPU, in ns.
pub fn sleep_and_switch(cpu: u32) -> io::Result<Vec<f64>> {
    let words = [Line::<AtomicU32>::default(), Line::<AtomicU32>::default()];
    let slept_ns = Line::<AtomicU64>::default();
    let part = |index: usize, meeting: &Meeting| {
        let mut times = Vec::new();
        meeting.meet();
        for turn in 1..=CALLS * 8 {
            if index == 0 {
                words[0].store(turn, Release);
                wake(&words[0]);
            }
            while words[1 - index].load(Acquire) < turn {
                slept_ns.store(now_ns(), Relaxed);
                sleep_on(&words[1 - index], turn - 1);
                // Not if the scheduler ran this task before its waker slept.
                let ns = now_ns() as i64 - slept_ns.swap(u64::MAX >> 1, Relaxed) as i64;
                times.extend((ns > 0).then_some(ns as f64));
            }
            if index == 1 {
                words[1].store(turn, Release);
                wake(&words[1]);
            }
        }
        times
    };
    Ok(together(&[cpu, cpu], part)?.concat())
}

/// The time of a sched_yield(2) to the other task on a CPU, and of one without another task, in ns.
pub fn switch(cpu: u32) -> io::Result<(Vec<f64>, Vec<f64>)> {
    let alone = |_: usize, _: &Meeting| (0..ROUNDS).map(|_| each(thread::yield_now)).collect();
    let without_other: Vec<f64> = together(&[cpu], alone)?.swap_remove(0);
    let passes = Line::<AtomicU32>::default();
    let part = |_: usize, meeting: &Meeting| {
        let round = |_| {
            meeting.meet();
            // Only a change of the running task counts: the scheduler may keep the same one.
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
    Ok((together(&[cpu, cpu], part)?.swap_remove(0), without_other))
}

/// The time slices of two runnable tasks on one CPU, in ns.
pub fn slices(cpu: u32) -> io::Result<Vec<f64>> {
    const LENGTH_NS: u64 = 200_000_000;
    let turn = Line::<AtomicU32>::default();
    let part = |index: usize, meeting: &Meeting| {
        meeting.meet();
        let start = now_ns();
        let (mut slices, mut begun) = (Vec::new(), start);
        while now_ns() - start < LENGTH_NS {
            let before = turn.swap(index as u32 + 1, Relaxed);
            let now = now_ns();
            if before != index as u32 + 1 {
                begun = now;
                slices.push(0.0);
            }
            if let Some(slice) = slices.last_mut() {
                *slice = (now - begun) as f64;
            }
        }
        slices
    };
    let mut slices = together(&[cpu, cpu], part)?.concat();
    // The first or last slice may be cut off.
    slices.retain(|slice| *slice > 100_000.0);
    Ok(slices)
}

/// Interrupts another, busy CPU: returns the times until the interrupt is acknowledged, and the times
/// that the other CPU lost, in ns. membarrier(2) interrupts all CPUs that run a thread of the process
/// and waits for each.
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
    let part = |index: usize, meeting: &Meeting| {
        let (mut calls, mut gaps) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            is_over.store(false, Relaxed);
            meeting.meet();
            if index == 0 {
                calls.push(each(|| drop(barrier(EXPEDITED))));
                is_over.store(true, Relaxed);
            } else {
                gaps.push(lost_ns(|| is_over.load(Relaxed)) / f64::from(CALLS));
            }
            meeting.meet();
        }
        (calls, gaps)
    };
    let mut times = together(&cpus, part)?;
    Ok((times.swap_remove(0).0, times.swap_remove(0).1))
}

/// Reads the clock in a loop until `is_over`; returns the time lost between two reads beyond the
/// median time of a read, in ns.
fn lost_ns(is_over: impl Fn() -> bool) -> f64 {
    let (mut gaps, mut last) = (Vec::with_capacity(1 << 16), now_ns());
    while !is_over() {
        let now = now_ns();
        gaps.push(now - last);
        last = now;
    }
    let mut sorted = gaps.clone();
    sorted.sort_unstable();
    let read_ns = sorted.get(sorted.len() / 2).copied().unwrap_or(0);
    gaps.iter().map(|&ns| ns.saturating_sub(read_ns)).sum::<u64>() as f64
}

/// How a task first uses a page of memory.
#[derive(Clone, Copy)]
pub enum FirstUse {
    /// A write: the kernel finds a page and clears it.
    Write,
    /// A read: the kernel maps the page of zeros that all tasks share.
    Read,
}

/// The time of the first use of a page of memory, in ns.
pub fn page_fault(cpu: u32, first_use: FirstUse) -> io::Result<Vec<f64>> {
    const PAGES: usize = 512;
    let part = |_: usize, _: &Meeting| {
        let round = |_| {
            let bytes = PAGES * 4096;
            let (access, kind) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            // SAFETY: a new mapping that nothing else uses; it is unmapped at the end.
            unsafe {
                let at = libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0);
                if at == libc::MAP_FAILED {
                    return Err(io::Error::last_os_error());
                }
                libc::madvise(at, bytes, libc::MADV_NOHUGEPAGE);
                let start = now_ns();
                for byte in (0..PAGES).map(|page| at.cast::<u8>().add(page * 4096)) {
                    match first_use {
                        FirstUse::Write => byte.write_volatile(1),
                        FirstUse::Read => _ = byte.read_volatile(),
                    }
                }
                let ns = (now_ns() - start) as f64 / PAGES as f64;
                libc::munmap(at, bytes);
                Ok(ns)
            }
        };
        (0..ROUNDS).map(round).collect()
    };
    together(&[cpu], part)?.swap_remove(0)
}
