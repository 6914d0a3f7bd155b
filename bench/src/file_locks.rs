//! File locks natively: a pair of lock and unlock on a file of one's own against the same two
//! system calls, and what a pair costs where many ranges of the file are held, by design.
//!
//! Both sides are on one CPU and in one process, in turns; the kernel's side crosses into it
//! twice, which is what the limit is about.

use std::fs::File;
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

use algorithms::locks::queued::Queued;
use algorithms::mechanisms::file_locks::{Design, FileLocks, LockKind, Owner, Range, Ranges};
use anyhow::{Context, Result, ensure};
use machine::{Native, Region};

use crate::Options;
use crate::report::{Figure, Limit};

const PAIRS_A_LOOK: u64 = 64;

/// Ranges held on the file, and how much dearer than with one a pair may be in a tree.
const HELD: [u64; 3] = [1, 100, 10_000];
const DEARER: f64 = 5.0;

/// Rates and their ratios.
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
        let what = format!("file_locks {name}: own file, pair of lock and unlock");
        figures.push(Figure {
            name: format!("{what}, ours / fcntl"),
            unit: "",
            limit,
            values: ratios,
        });
        figures.push(Figure { name: what, unit: "/s", limit: Limit::None, values: rates });
    }
    for (name, ranges) in [("list", Ranges::List), ("tree", Ranges::Tree)] {
        let design = Design { ranges, ..Design::AFTER };
        let held = HELD.map(|count| Held::new(design, count));
        let mut ns = [vec![], vec![], vec![]];
        for round in 1..=rounds {
            eprintln!("ranges in a {name}: {round} of {rounds}");
            for (held, ns) in held.iter().zip(&mut ns) {
                let held = held.as_ref().map_err(|why| anyhow::anyhow!("{why:#}"))?;
                let mut place = 1_u64;
                let pairs = rate(options.seconds, || {
                    place = place.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    held.pair((place >> 33) % held.count.max(1))
                })?;
                ns.push(1e9 / pairs);
            }
        }
        let [one, _, many] = &ns;
        let dearer = many.iter().zip(one).map(|(many, one)| many / one).collect();
        let limit = if ranges == Ranges::Tree { Limit::AtMost(DEARER) } else { Limit::None };
        figures.push(Figure {
            name: format!("file_locks {name}: a pair with 10000 ranges / with 1"),
            unit: "",
            limit,
            values: dearer,
        });
        for (count, values) in HELD.into_iter().zip(ns) {
            let name = format!("file_locks {name}: a pair with {count} ranges held");
            figures.push(Figure { name, unit: "ns", limit: Limit::None, values });
        }
    }
    Ok(figures)
}

/// How often a second something is done.
fn rate(seconds: f64, mut act: impl FnMut() -> Result<()>) -> Result<f64> {
    let (since, length) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut done = 0;
    while since.elapsed() < length {
        for _ in 0..PAIRS_A_LOOK {
            act()?;
        }
        done += PAIRS_A_LOOK;
    }
    Ok(done as f64 / since.elapsed().as_secs_f64())
}

/// A file with every other place locked by one process.
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
        for place in 0..count {
            held.set(LockKind::Write, 4 * place)?;
        }
        Ok(held)
    }

    fn set(&self, kind: LockKind, start: u64) -> Result<()> {
        let range = Range { owner: Owner::Process(0), kind, start, end: start };
        let done = self.locks.try_set(&self.m, 0, range);
        ensure!(done == Ok(()), "a lock that nobody is in the way of: {done:?}");
        Ok(())
    }

    /// Behind the held range of this number.
    #[inline(always)]
    fn pair(&self, place: u64) -> Result<()> {
        self.set(LockKind::Write, 4 * place + 2)?;
        self.set(LockKind::Unlock, 4 * place + 2)
    }
}

/// The same of the running kernel.
struct Kernel(File);

impl Kernel {
    fn new() -> Result<Kernel> {
        // SAFETY: the name is a string with its end.
        let descriptor = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
        ensure!(descriptor >= 0, "no file in memory can be made");
        // SAFETY: a descriptor that is open and nobody else's.
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
        let done = unsafe { libc::fcntl(self.0.as_raw_fd(), libc::F_SETLK, &lock) };
        ensure!(done == 0, "the kernel does not lock: {}", std::io::Error::last_os_error());
        Ok(())
    }
}
