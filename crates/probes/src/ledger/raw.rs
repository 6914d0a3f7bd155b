//! The totals that the programs keep for each CPU, in the layout of `state.bpf.h`, and the
//! differences between two snapshots of them.

use std::collections::BTreeMap;

use records::{Base, Bursts, CpuState, CpuTime, LockTime, Obtained, Share, Slice, Window};

use super::calls;

const STATES: usize = CpuState::ALL.len();
const BASES: usize = Base::ALL.len();
const REASONS: usize = 64;
const OTHERS: usize = 64;
const LOCKS: usize = 128;
const COUNTED: usize = 64;
const _: () = assert!(COUNTS.len() + records::FUNCTIONS_MAX <= COUNTED);
const CALLS: usize = 512;

/// The names of counts, in the order of `enum count`.
const COUNTS: [&str; 27] = [
    "fault.user",
    "fault.kernel",
    "ipi.reschedule",
    "ipi.call_one",
    "ipi.call_many",
    "tlb_flush.switch",
    "tlb_flush.shootdown_received",
    "tlb_flush.local_shootdown",
    "tlb_flush.local_mm",
    "tlb_flush.shootdown_sent",
    "tlb_flush.other",
    "tlb_pages.switch",
    "tlb_pages.shootdown_received",
    "tlb_pages.local_shootdown",
    "tlb_pages.local_mm",
    "tlb_pages.shootdown_sent",
    "tlb_pages.other",
    "migration",
    "wake_up",
    "file_lock.posix",
    "file_lock.flock",
    "file_lock.lease",
    "journal.start",
    "journal.commit",
    "xfs_log.reserve",
    "xfs_log.force",
    "btrfs.commit",
];

/// Anomalies that the programs notice, in the order of `enum anomaly`; the last is unused.
const ANOMALIES: [&str; 8] = [
    "nested too deep",
    "left without entering",
    "switched inside an interrupt",
    "steal above the interval",
    "unseen switches",
    "samples lost",
    "no storage",
    "unused",
];

/// Why a CPU was idle, in the order of `enum reason`; higher numbers are system calls.
const REASON_NAMES: [&str; 9] = [
    "no task of the workload",
    "no task of the workload",
    "wake-up latency",
    "kernel lock",
    "input and output",
    "not in a system call",
    "quota of a cgroup",
    "memory reclaim",
    records::OTHER_TASK,
];

/// What kept a runnable task from a CPU, in the order of `enum wait`.
const WAIT_NAMES: [&str; 4] =
    [records::OWN_TASK, records::OWN_TASK_ON_THE_ONLY_CPUS, records::OTHER_TASK, records::QUOTA];

#[repr(C)]
#[derive(Clone, Copy)]
struct RawLock {
    address: u64,
    spins: [u64; BASES],
    spin_ns: [u64; BASES],
    sleeps: u64,
    sleep_ns: u64,
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawShare {
    key: u64,
    ns: u64,
    times: u64,
    name: [u8; 16],
}

#[repr(C)]
#[derive(Clone, Copy)]
struct RawWaits {
    ns: u64,
    times: u64,
}

/// The totals of one CPU at one instant.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Totals {
    at_ns: u64,
    operations: u64,
    woken_ns: u64,
    active_ns: u64,
    ns: [[u64; STATES]; BASES],
    entries: [[u64; STATES]; BASES],
    anomalies: [u64; ANOMALIES.len()],
    idle: [RawShare; REASONS + 1],
    gaps: [RawShare; REASONS + 1],
    sleeps: [RawShare; REASONS + 1],
    others: [RawShare; OTHERS + 1],
    locks: [RawLock; LOCKS + 1],
    waits: [RawWaits; WAIT_NAMES.len()],
    counts: [u64; COUNTED],
    calls: [u64; CALLS],
}

impl Totals {
    /// Reads totals from the value of a map.
    pub fn read(bytes: &[u8]) -> Result<Box<Totals>, String> {
        if bytes.len() != size_of::<Totals>() {
            return Err(format!(
                "internal error: a snapshot has {} bytes, not {}",
                bytes.len(),
                size_of::<Totals>()
            ));
        }
        let mut totals = Box::<Totals>::new_uninit();
        // SAFETY: `bytes` has the size of the type, for which every bit pattern is valid.
        unsafe {
            let into = totals.as_mut_ptr().cast();
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), into, bytes.len());
            Ok(totals.assume_init())
        }
    }
}

/// The number and the totals of each measured CPU, at (nearly) one instant.
pub type LedgerSnapshot = Vec<(u32, Box<Totals>)>;

/// The window between two snapshots. Locks have their addresses as places. `is_counted` says which
/// counts were taken: those are present even if 0, the others absent.
pub fn window(
    before: &LedgerSnapshot,
    after: &LedgerSnapshot,
    is_counted: impl Fn(&str) -> bool,
) -> Window {
    let pairs = || before.iter().zip(after).map(|((cpu, a), (_, b))| (*cpu, &**a, &**b));
    let operations = pairs().map(|(_, a, b)| b.operations - a.operations).sum();
    let mut idle = Shares::default();
    let (mut gaps, mut sleeps) = (Shares::default(), Shares::default());
    let mut others = Shares::default();
    let mut waits = Shares::default();
    let mut locks = BTreeMap::new();
    let mut anomalies = BTreeMap::new();
    for (_, a, b) in pairs() {
        for (before, after) in a.idle.iter().zip(&b.idle) {
            idle.add(reason(after.key), (before.ns, before.times), (after.ns, after.times));
        }
        for (before, after) in a.gaps.iter().zip(&b.gaps) {
            gaps.add(reason(after.key), (before.ns, before.times), (after.ns, after.times));
        }
        for (before, after) in a.sleeps.iter().zip(&b.sleeps) {
            sleeps.add(reason(after.key), (before.ns, before.times), (after.ns, after.times));
        }
        for (before, after) in a.others.iter().zip(&b.others) {
            let name = name(&after.name, "tasks beyond the table");
            others.add(name, (before.ns, before.times), (after.ns, after.times));
        }
        for ((before, after), name) in a.waits.iter().zip(&b.waits).zip(WAIT_NAMES) {
            waits.add(name.to_string(), (before.ns, before.times), (after.ns, after.times));
        }
        for (before, after) in a.locks.iter().zip(&b.locks) {
            add_lock(&mut locks, before, after);
        }
        for (index, name) in ANOMALIES.iter().enumerate() {
            let count = b.anomalies[index] - a.anomalies[index];
            if count > 0 {
                *anomalies.entry(name.to_string()).or_default() += count;
            }
        }
    }
    Window {
        operations,
        obtained: Obtained::Exact,
        cpus: pairs().map(|(cpu, a, b)| cpu_time(cpu, a, b)).collect(),
        locks: locks.into_values().collect(),
        idle: idle.into(),
        others: others.into(),
        waits: waits.into(),
        active_ns: pairs().map(|(_, a, b)| b.active_ns - a.active_ns).sum(),
        gaps: gaps.into(),
        sleeps: sleeps.into(),
        samples: None,
        counts: counts(before, after, is_counted),
        senders: BTreeMap::new(),
        bursts: None,
        anomalies,
        task_clock_ns: None,
        woken_ns: pairs().map(|(_, a, b)| b.woken_ns - a.woken_ns).sum(),
    }
}

/// Operations of all CPUs up to a snapshot.
pub fn operations(snapshot: &LedgerSnapshot) -> u64 {
    snapshot.iter().map(|(_, totals)| totals.operations).sum()
}

/// The sum of bursts, each between two snapshots. `is_counted` says which counts were taken.
pub fn bursts<'a>(
    bursts: impl Iterator<Item = (&'a LedgerSnapshot, &'a LedgerSnapshot)>,
    is_counted: impl Fn(&str) -> bool,
) -> Bursts {
    let mut sum = Bursts::default();
    for (before, after) in bursts {
        sum.number += 1;
        for ((_, a), (_, b)) in before.iter().zip(after) {
            sum.ns += b.at_ns - a.at_ns;
            sum.operations += b.operations - a.operations;
        }
        for (name, times) in counts(before, after, &is_counted) {
            *sum.counts.entry(name).or_default() += times;
        }
    }
    sum
}

/// The name of the count with this number.
pub fn count_name(number: u64) -> Option<&'static str> {
    usize::try_from(number).ok().and_then(|number| COUNTS.get(number)).copied()
}

/// Calls of functions between two snapshots. A function is its name and its number among those that
/// the user named.
pub fn functions(
    before: &LedgerSnapshot,
    after: &LedgerSnapshot,
    functions: &[(String, usize)],
) -> BTreeMap<String, u64> {
    let pairs = || before.iter().zip(after).map(|((_, a), (_, b))| (a, b));
    let calls = |index: usize| pairs().map(|(a, b)| b.counts[index] - a.counts[index]).sum();
    let count =
        |(name, index): &(String, usize)| (format!("function.{name}"), calls(COUNTS.len() + index));
    functions.iter().map(count).collect()
}

fn counts(
    before: &LedgerSnapshot,
    after: &LedgerSnapshot,
    is_counted: impl Fn(&str) -> bool,
) -> BTreeMap<String, u64> {
    let pairs = || before.iter().zip(after).map(|((_, a), (_, b))| (a, b));
    let sum =
        |value: &dyn Fn(&Totals) -> u64| -> u64 { pairs().map(|(a, b)| value(b) - value(a)).sum() };
    let mut counts = BTreeMap::new();
    for (index, name) in COUNTS.iter().enumerate().filter(|(_, name)| is_counted(name)) {
        counts.insert(name.to_string(), sum(&|totals| totals.counts[index]));
    }
    if is_counted("syscalls") {
        let called = (0..CALLS).map(|number| (number, sum(&|totals| totals.calls[number])));
        let called: Vec<(usize, u64)> = called.filter(|(_, times)| *times > 0).collect();
        counts.insert("syscalls".to_string(), called.iter().map(|(_, times)| times).sum());
        let named = called.into_iter();
        counts
            .extend(named.map(|(n, times)| (format!("syscall.{}", calls::name(n as u64)), times)));
    }
    counts
}

fn cpu_time(cpu: u32, a: &Totals, b: &Totals) -> CpuTime {
    let mut slices = Vec::new();
    for (i, base) in Base::ALL.into_iter().enumerate() {
        for (j, state) in CpuState::ALL.into_iter().enumerate() {
            // The programs may move time to knee's own rows later, with its entry: see
            // `own_interrupt`.
            let ns = b.ns[i][j].wrapping_sub(a.ns[i][j]);
            let entries = b.entries[i][j].saturating_sub(a.entries[i][j]);
            if ns > 0 || entries > 0 {
                slices.push(Slice { base, state, ns, entries });
            }
        }
    }
    CpuTime { cpu, length_ns: b.at_ns - a.at_ns, slices }
}

#[derive(Default)]
struct Shares(BTreeMap<String, Share>);

impl Shares {
    /// Adds the time and the number of times that came between `before` and `after`.
    fn add(&mut self, name: String, before: (u64, u64), after: (u64, u64)) {
        let (ns, times) = (after.0.wrapping_sub(before.0), after.1 - before.1);
        if ns == 0 && times == 0 {
            return;
        }
        let share = || Share { name: name.clone(), ns: 0, times: 0 };
        let share = self.0.entry(name.clone()).or_insert_with(share);
        share.ns += ns;
        share.times += times;
    }
}

impl From<Shares> for Vec<Share> {
    /// The longest first.
    fn from(shares: Shares) -> Vec<Share> {
        let mut shares: Vec<Share> = shares.0.into_values().collect();
        shares.sort_by_key(|share| std::cmp::Reverse(share.ns));
        shares
    }
}

fn add_lock(locks: &mut BTreeMap<(u64, Base), LockTime>, before: &RawLock, after: &RawLock) {
    for (index, base) in Base::ALL.into_iter().enumerate() {
        let spins = after.spins[index] - before.spins[index];
        let spin_ns = after.spin_ns[index] - before.spin_ns[index];
        // Sleeps are recorded only for tasks of the workload.
        let (sleeps, sleep_ns) = match base {
            Base::Work => (after.sleeps - before.sleeps, after.sleep_ns - before.sleep_ns),
            _ => (0, 0),
        };
        if spins + spin_ns + sleeps == 0 {
            continue;
        }
        let place = match after.address {
            0 => "locks beyond the table".to_string(),
            address => format!("{address:#x}"),
        };
        let lock = locks.entry((after.address, base)).or_insert_with(|| LockTime::new(base, place));
        lock.spins += spins;
        lock.spin_ns += spin_ns;
        lock.sleeps += sleeps;
        lock.sleep_ns += sleep_ns;
    }
}

fn reason(key: u64) -> String {
    match usize::try_from(key).ok().and_then(|key| REASON_NAMES.get(key)) {
        Some(name) => name.to_string(),
        None => calls::waiting_in(key - REASON_NAMES.len() as u64),
    }
}

/// A task's name without the suffix that distinguishes kernel threads of a kind: `kworker/0:1` and
/// `ksoftirqd/1` become `kworker` and `ksoftirqd`.
pub fn name(bytes: &[u8], nameless: &str) -> String {
    let end = bytes.iter().position(|b| *b == 0).unwrap_or(bytes.len());
    let text = String::from_utf8_lossy(&bytes[..end]);
    match text.split_once('/') {
        _ if text.is_empty() => nameless.to_string(),
        Some((thread, rest)) if rest.starts_with(|c: char| c.is_ascii_digit() || c == 'u') => {
            thread.to_string()
        }
        _ => text.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn zero() -> Box<Totals> {
        Totals::read(&vec![0; size_of::<Totals>()]).unwrap()
    }

    #[test]
    fn two_snapshots_make_a_window_that_breaks_no_law() {
        let before = zero();
        let mut after = zero();
        after.at_ns = 1000;
        after.operations = 7;
        after.ns[1][0] = 600;
        after.ns[1][1] = 100;
        after.ns[0][0] = 200;
        after.ns[2][0] = 100;
        after.entries[1][0] = 2;
        after.idle[3] =
            RawShare { key: REASON_NAMES.len() as u64 + 72, ns: 200, times: 1, name: [0; 16] };
        after.others[OTHERS] = RawShare { key: 0, ns: 100, times: 1, name: [0; 16] };
        after.locks[5].address = 0xffff_8880_0000_1000;
        after.locks[5].spins[1] = 3;
        after.locks[5].spin_ns[1] = 100;
        after.anomalies[4] = 2;
        after.counts[0] = 5;
        after.calls[libc::SYS_fcntl as usize] = 14;
        let is_counted = |name: &str| name.starts_with("fault") || name == "syscalls";
        let window = window(&vec![(1, before)], &vec![(1, after)], is_counted);
        assert_eq!(window.broken_law(), None);
        assert_eq!((window.operations, window.budget_ns()), (7, 1000));
        assert_eq!(window.others[0].name, "tasks beyond the table");
        assert_eq!(window.locks[0].place, "0xffff888000001000");
        let counts =
            [("fault.kernel", 0), ("fault.user", 5), ("syscall.fcntl", 14), ("syscalls", 14)];
        assert_eq!(window.counts, counts.map(|(name, n)| (name.to_string(), n)).into());
        assert_eq!(window.anomalies["unseen switches"], 2);
    }

    #[test]
    fn threads_of_the_kernel_go_by_what_they_do() {
        let check = |text: &str, expected: &str| assert_eq!(name(text.as_bytes(), "-"), expected);
        check("kworker/0:1\0\0\0", "kworker");
        check("kworker/u8:3\0", "kworker");
        check("cc1\0", "cc1");
        check("a/b\0", "a/b");
        check("\0", "-");
    }

    #[test]
    fn a_snapshot_of_another_size_is_refused() {
        assert!(Totals::read(&[0; 8]).is_err());
    }
}
