//! Tables of what looks saw: locks, and interrupts from other CPUs.

use std::collections::BTreeMap;

use records::{Base, CpuState, LockTime, Obtained, Profile, ProfileKind, Window};

use super::build::{LockNames, counted, units};
use super::{Ledger, LedgerRow, LedgerUnit, RowEvents};

/// A lock that tasks waited for.
#[derive(Clone, Debug)]
pub struct LockRow {
    /// Spinning for the lock: time and count. This is CPU time, a part of the ledger.
    pub spins: LedgerRow,
    /// Sleeping for the lock: time and count. Not a part of the ledger, since a sleeper uses no CPU.
    pub sleeps: LedgerRow,
    /// Functions that waited, with the number of waits seen, the most frequent first.
    pub callers: Vec<(String, u64)>,
    /// Who had the lock meanwhile, with the number of waits seen, the most frequent first: calls of the
    /// workload, and names of other tasks. Empty for locks that do not know.
    pub holders: Vec<(String, u64)>,
    /// How often tasks were seen to hand the lock to one that had waited all the time they had it, and how long
    /// they had it, in ns, the hand-over included.
    pub held: (u64, u64),
}

/// All locks of a point.
#[derive(Clone, Debug)]
pub struct Locks {
    /// The time in which tasks waited for the locks, as a ledger of only a root.
    pub ledger: Ledger,
    /// The locks, those with the longest waits first.
    pub rows: Vec<LockRow>,
}

/// What looks saw of a lock.
#[derive(Default)]
struct Seen {
    /// Functions that waited, and who had the lock.
    by: [BTreeMap<String, u64>; 2],
    /// [`LockRow::held`].
    held: (u64, u64),
}

/// The locks that the workload waited for; `None` without looks at time.
pub fn locks(looks: &[&Profile]) -> Option<Locks> {
    let (_, units) = units(looks, ProfileKind::Time);
    let ledger = frame(&units)?;
    let names = LockNames::from_looks(looks);
    let mut seen: BTreeMap<String, Seen> = BTreeMap::new();
    let windows = looks.iter().flat_map(|look| &look.windows);
    for lock in windows.flat_map(|window| &window.locks).filter(|lock| lock.base == Base::Work) {
        let seen = seen.entry(names.name(lock)).or_default();
        for (seen, counts) in seen.by.iter_mut().zip([&lock.callers, &lock.holders]) {
            counts.iter().for_each(|(name, n)| *seen.entry(name.clone()).or_default() += n);
        }
        seen.held = (seen.held.0 + lock.held, seen.held.1 + lock.held_ns);
    }
    let row = |(name, seen): (String, Seen)| {
        let each = |value: fn(&LockTime) -> u64| {
            each(&units, |window| {
                let locks = window.locks.iter().filter(|lock| lock.base == Base::Work);
                locks.filter(|lock| names.name(lock) == name).map(value).sum()
            })
        };
        let row = |what: &str, ns, counts| {
            let events =
                RowEvents { what: what.to_string(), counts, operations: operations(&units) };
            LedgerRow::new(name.clone(), Obtained::Exact, ns).with_events(events)
        };
        let spins = row("spin", each(|lock| lock.spin_ns), each(|lock| lock.spins));
        let sleeps = row("sleep", each(|lock| lock.sleep_ns), each(|lock| lock.sleeps));
        let [callers, holders] = seen.by.map(|seen| {
            let mut seen: Vec<(String, u64)> = seen.into_iter().collect();
            seen.sort_by_key(|(name, times)| (std::cmp::Reverse(*times), name.clone()));
            seen
        });
        LockRow { spins, sleeps, callers, holders, held: seen.held }
    };
    let mut rows: Vec<LockRow> = seen.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.spins.total_ns() + row.sleeps.total_ns()));
    Some(Locks { ledger, rows })
}

/// Interrupts between CPUs, as received and as sent.
#[derive(Clone, Debug)]
pub struct Ipis {
    /// The time in which the interrupts came, as a ledger of only a root.
    pub ledger: Ledger,
    /// Time and count, by kind and by what ran on the CPU that received the interrupt.
    pub received: Vec<LedgerRow>,
    /// By kind, how often the workload sent interrupts or made them necessary.
    pub sent: Vec<RowEvents>,
    /// The kernel functions that sent interrupts, the most frequent of each kind first.
    pub senders: Vec<IpiSender>,
}

/// A kernel function that sent interrupts to other CPUs, seen by looks at names: these see one
/// interrupt in 16.
#[derive(Clone, Debug, PartialEq)]
pub struct IpiSender {
    /// The kind of interrupt, as in [`Ipis::sent`].
    pub what: &'static str,
    /// The function that sent, with its callers: "f < its caller < …".
    pub chain: String,
    /// How often this chain was seen.
    pub seen: u64,
    /// How often any chain of this kind was seen.
    pub seen_of_kind: u64,
}

/// Kinds of interrupts from other CPUs, with their names in tables.
const KINDS: [(CpuState, &str); 4] = [
    (CpuState::IrqReschedule, "reschedule"),
    (CpuState::IrqCallOne, "function call, sent to one CPU"),
    (CpuState::IrqCallMany, "function call, sent to many CPUs"),
    (CpuState::IrqWork, "irq work"),
];

/// Counters of interrupts that are sent or caused, with their names in tables.
const SENT: [(&str, &str); 7] = [
    ("ipi.reschedule", "reschedule"),
    ("ipi.call_one", "function call to one CPU"),
    ("ipi.call_many", "function call to many CPUs"),
    ("tlb_flush.shootdown_sent", "TLB flush sent to other CPUs"),
    ("tlb_flush.shootdown_received", "TLB flush for another CPU"),
    ("wake_up", "wake-up of a task"),
    ("migration", "migration of a task"),
];

/// Interrupts from other CPUs; `None` without looks at time.
pub fn ipis(looks: &[&Profile]) -> Option<Ipis> {
    let (_, units) = units(looks, ProfileKind::Time);
    let ledger = frame(&units)?;
    let bases = [
        (Base::Work, "while the workload ran"),
        (Base::Idle, "while idle"),
        (Base::Other, "while other tasks ran"),
    ];
    let kinds = KINDS.into_iter().flat_map(|kind| bases.map(|base| (kind, base)));
    let row = |((state, kind), (base, while_running)): ((CpuState, &str), (Base, &str))| {
        let is_row = |b: Base, s: CpuState| (b, s) == (base, state);
        let entries = |window: &Window| -> u64 {
            window.slices().filter(|s| is_row(s.base, s.state)).map(|slice| slice.entries).sum()
        };
        let counts = each(&units, entries);
        let events =
            RowEvents { what: "interrupt".to_string(), counts, operations: operations(&units) };
        let ns = each(&units, |window| window.time_ns(is_row));
        LedgerRow::new(format!("{kind}, {while_running}"), Obtained::Exact, ns).with_events(events)
    };
    let has_any = |row: &LedgerRow| {
        row.events.as_ref().is_some_and(|events| events.counts.iter().sum::<u64>() > 0)
    };
    let mut received: Vec<LedgerRow> = kinds.map(row).filter(has_any).collect();
    received.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    Some(Ipis { ledger, received, sent: sent(looks), senders: senders(looks) })
}

fn senders(looks: &[&Profile]) -> Vec<IpiSender> {
    let (_, units) = units(looks, ProfileKind::Names);
    let senders_of = |(name, what): (&str, &'static str)| {
        let mut chains: BTreeMap<&String, u64> = BTreeMap::new();
        let windows = units.iter().flatten();
        let senders = windows.filter_map(|window| window.senders.get(name));
        senders.flatten().for_each(|(chain, times)| *chains.entry(chain).or_default() += times);
        let seen_of_kind = chains.values().sum();
        let sender = |(chain, seen): (&String, u64)| IpiSender {
            what,
            chain: chain.clone(),
            seen,
            seen_of_kind,
        };
        let mut senders: Vec<IpiSender> = chains.into_iter().map(sender).collect();
        senders.sort_by_key(|sender| std::cmp::Reverse(sender.seen));
        senders
    };
    SENT.into_iter().flat_map(senders_of).collect()
}

/// Interrupts sent, from looks at counts; kinds that were not counted are absent.
fn sent(looks: &[&Profile]) -> Vec<RowEvents> {
    let (_, units) = units(looks, ProfileKind::Counts);
    let events = |(name, what): (&str, &str)| counted(&units, what, &[name.to_string()]);
    SENT.into_iter().filter_map(events).collect()
}

fn each(units: &[Vec<&Window>], value: impl Fn(&Window) -> u64) -> Vec<u64> {
    let sum = |windows: &Vec<&Window>| windows.iter().map(|window| value(window)).sum();
    units.iter().map(sum).collect()
}

fn operations(units: &[Vec<&Window>]) -> Vec<u64> {
    each(units, |window| window.operations)
}

/// All the time of these units, undivided.
fn frame(units: &[Vec<&Window>]) -> Option<Ledger> {
    let budgets = each(units, Window::budget_ns);
    let unit = |(operations, budget_ns)| LedgerUnit { operations, budget_ns, block: None };
    let ledger_units =
        operations(units).into_iter().zip(budgets.iter().copied()).map(unit).collect();
    let root = LedgerRow::new("all", Obtained::Exact, budgets);
    (!units.is_empty()).then_some(Ledger::of_runs(ledger_units, root))
}

#[cfg(test)]
mod tests {
    use super::super::{SPINNING, WORK, ledger};
    use super::*;

    #[test]
    fn the_tables_of_recorded_looks_have_what_their_ledger_has() {
        let lines = include_str!("build/recorded.ndjson").lines();
        let looks: Vec<Profile> = lines.map(|line| Profile::read(line).unwrap()).collect();
        let looks: Vec<&Profile> = looks.iter().collect();
        let ledger = ledger(&looks, &looks).unwrap();
        let spinning = ledger.find(&[WORK, SPINNING]).unwrap();
        let locks = locks(&looks).unwrap();
        let sum = |unit: usize| locks.rows.iter().map(|row| row.spins.ns[unit]).sum::<u64>();
        assert_eq!(vec![sum(0), sum(1)], spinning.ns);
        let waits = |row: &LockRow| row.spins.total_ns() + row.sleeps.total_ns();
        assert!(locks.rows.is_sorted_by_key(|row| std::cmp::Reverse(waits(row))));
        let flc = locks.rows.iter().find(|row| row.spins.name == "file_lock_context.flc_lock");
        assert_eq!(flc.unwrap().callers, [("posix_lock_inode".to_string(), 105)]);
        let ipis = ipis(&looks).unwrap();
        let path = [WORK, super::super::INTERRUPTS, "reschedule, from another CPU"];
        let in_ledger = ledger.find(&path).unwrap();
        let name = "reschedule, while the workload ran";
        let here = ipis.received.iter().find(|row| row.name == name).unwrap();
        assert_eq!((&here.ns, &here.events), (&in_ledger.ns, &in_ledger.events));
        let reschedules = ipis.sent.iter().find(|events| events.what == "reschedule").unwrap();
        assert_eq!(reschedules.counts, [386, 1103]);
    }
}
