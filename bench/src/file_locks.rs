//! Native file locks: a lock and unlock on an uncontended file against the same two system calls,
//! and the cost of that pair while many ranges of the file are held, by design.
//!
//! Both sides take turns in one process on one CPU. The kernel's side makes two system calls, which
//! the limit allows for.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use algorithms::locks::queued::Queued;
use algorithms::mechanisms::file_locks::{Design, FileLocks, LockKind, Owner, Range, Ranges};
use anyhow::{Context, Result, ensure};
use machine::{Native, Region};

use crate::Options;
use crate::report::{Figure, Limit};

/// Pairs between two checks of the clock.
const BATCH: u64 = 64;

/// Numbers of ranges held on the file.
const HELD: [u64; 3] = [1, 100, 10_000];

/// How many times as much a pair may cost in a tree with the most ranges as with one.
const TREE_COST_MAX: f64 = 5.0;

/// Measures rates, and their ratios to the kernel's.
pub fn measure(options: &Options) -> Result<Vec<Figure>> {
    let rounds = options.pairs;
    let mut figures = Vec::new();
    for (name, design) in [("before", Design::BEFORE), ("after", Design::AFTER)] {
        let (ours, kernel) = (Held::new(design, 0)?, Kernel::new()?);
        let (mut ratios, mut rates) = (Vec::new(), Vec::new());
        for round in 1..=rounds {
            eprintln!("file locks {name}: {round} of {rounds}");
            let rate = rate(options.seconds, || ours.pair(0))?;
            ratios.push(rate / self::rate(options.seconds, || kernel.pair())?);
            rates.push(rate);
        }
        let limit = Limit::AtLeast(3.0);
        let subject = format!("file_locks {name}: own file, pair of lock and unlock");
        figures.push(Figure {
            name: format!("{subject}, ours / fcntl"),
            unit: "",
            limit,
            values: ratios,
        });
        figures.push(Figure { name: subject, unit: "/s", limit: Limit::None, values: rates });
    }
    for (name, ranges) in [("list", Ranges::List), ("tree", Ranges::Tree)] {
        let design = Design { ranges, ..Design::AFTER };
        let held = HELD.map(|count| Held::new(design, count));
        let mut ns = [vec![], vec![], vec![]];
        for round in 1..=rounds {
            eprintln!("ranges in a {name}: {round} of {rounds}");
            for (held, ns) in held.iter().zip(&mut ns) {
                let held = held.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
                let mut random = 1_u64;
                let pairs = rate(options.seconds, || {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    held.pair((random >> 33) % held.count.max(1))
                })?;
                ns.push(1e9 / pairs);
            }
        }
        let [one, _, many] = &ns;
        let cost_ratios = many.iter().zip(one).map(|(many, one)| many / one).collect();
        let limit = if ranges == Ranges::Tree { Limit::AtMost(TREE_COST_MAX) } else { Limit::None };
        figures.push(Figure {
            name: format!("file_locks {name}: a pair with 10000 ranges / with 1"),
            unit: "",
            limit,
            values: cost_ratios,
        });
        for (count, values) in HELD.into_iter().zip(ns) {
            let name = format!("file_locks {name}: a pair with {count} ranges held");
            figures.push(Figure { name, unit: "ns", limit: Limit::None, values });
        }
    }
    Ok(figures)
}

/// Calls of `act` per second.
fn rate(seconds: f64, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let (since, length) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut done = 0;
    while since.elapsed() < length {
        for _ in 0..BATCH {
            act()?;
        }
        done += BATCH;
    }
    Ok(done as f64 / since.elapsed().as_secs_f64())
}

/// A file on which a process holds `count` ranges of one byte, with gaps between them.
struct Held {
    locks: FileLocks<Queued>,
    m: Native,
    count: u64,
}

impl Held {
    fn new(design: Design, count: u64) -> Result<Held> {
        let region = Region::new(4 << 20).context("mapping memory for file locks")?;
        let locks = FileLocks::new(&region, 1, 1, count as usize + 4, design);
        let held = Held { locks, m: Native::new(0, 0), count };
        for index in 0..count {
            held.set(LockKind::Write, 4 * index)?;
        }
        Ok(held)
    }

    fn set(&self, kind: LockKind, start: u64) -> Result<()> {
        let range = Range { owner: Owner::Process(0), kind, start, end: start };
        let result = self.locks.try_set(&self.m, 0, range);
        ensure!(result == Ok(()), "an uncontended lock was refused: {result:?}");
        Ok(())
    }

    /// Locks and unlocks a byte after the held range of this number.
    #[inline(always)]
    fn pair(&self, index: u64) -> Result<()> {
        self.set(LockKind::Write, 4 * index + 2)?;
        self.set(LockKind::Unlock, 4 * index + 2)
    }
}

/// A file in memory, locked by the running kernel.
struct Kernel(File);

impl Kernel {
    fn new() -> Result<Kernel> {
        // SAFETY: the name is a terminated string.
        let descriptor = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
        ensure!(descriptor >= 0, "memfd_create failed: {}", std::io::Error::last_os_error());
        // SAFETY: the descriptor is open and has no other owner.
        Ok(Kernel(unsafe { File::from_raw_fd(descriptor) }))
    }

    fn pair(&self) -> Result<()> {
        self.set(libc::F_WRLCK)?;
        self.set(libc::F_UNLCK)
    }

    fn set(&self, kind: libc::c_int) -> Result<()> {
        // SAFETY: plain data, valid when zero.
        let mut lock: libc::flock = unsafe { std::mem::zeroed() };
        (lock.l_type, lock.l_start, lock.l_len) = (kind as libc::c_short, 2, 1);
        // SAFETY: the descriptor is open, the lock live.
        let result = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLK, &lock) };
        ensure!(result == 0, "fcntl failed: {}", std::io::Error::last_os_error());
        Ok(())
    }
}
