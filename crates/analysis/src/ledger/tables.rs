//! Parts of what looks saw that people know as tables: locks, and interrupts from other CPUs.

use std::collections::BTreeMap;

use records::{Base, CpuState, LockTime, Obtained, Profile, ProfileKind, Window};

use super::build::{Names, counted, units};
use super::{Events, Ledger, Row, Unit};

/// A lock that tasks waited for.
#[derive(Clone, Debug)]
pub struct LockRow {
    /// Spinning for it: time and how often. CPU time, a part of the ledger.
    pub spins: Row,
    /// Sleeping for it: beside the ledger, since a sleeper uses no CPU.
    pub sleeps: Row,
    /// Functions that waited, with how often each was seen, the most often first.
    pub callers: Vec<(String, u64)>,
}

/// All locks of a point.
#[derive(Clone, Debug)]
pub struct Locks {
    /// The time in which they were waited for; has no rows but its root.
    pub ledger: Ledger,
    /// The locks, those waited for longest first.
    pub rows: Vec<LockRow>,
}

/// Locks that the workload waited for; nothing without looks at time.
pub fn locks(looks: &[&Profile]) -> Option<Locks> {
    let (_, units) = units(looks, ProfileKind::Time);
    let ledger = frame(&units)?;
    let names = Names::of(looks);
    let mut callers: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let windows = looks.iter().flat_map(|look| &look.windows);
    for lock in windows.flat_map(|window| &window.locks).filter(|lock| lock.base == Base::Work) {
        let known = callers.entry(names.name(lock)).or_default();
        for (caller, times) in &lock.callers {
            *known.entry(caller.clone()).or_default() += times;
        }
    }
    let row = |(name, callers): (String, BTreeMap<String, u64>)| {
        let each = |value: fn(&LockTime) -> u64| {
            each(&units, |window| {
                let locks = window.locks.iter().filter(|lock| lock.base == Base::Work);
                locks.filter(|lock| names.name(lock) == name).map(value).sum()
            })
        };
        let row = |what: &str, ns, counts| {
            let events = Events { what: what.to_string(), counts, operations: operations(&units) };
            Row::new(name.clone(), Obtained::Exact, ns).with_events(events)
        };
        let spins = row("spin", each(|lock| lock.spin_ns), each(|lock| lock.spins));
        let sleeps = row("sleep", each(|lock| lock.sleep_ns), each(|lock| lock.sleeps));
        let mut callers: Vec<(String, u64)> = callers.into_iter().collect();
        callers.sort_by_key(|(name, times)| (std::cmp::Reverse(*times), name.clone()));
        LockRow { spins, sleeps, callers }
    };
    let mut rows: Vec<LockRow> = callers.into_iter().map(row).collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.spins.total_ns() + row.sleeps.total_ns()));
    Some(Locks { ledger, rows })
}

/// Interrupts that other CPUs sent, at both ends.
#[derive(Clone, Debug)]
pub struct Ipis {
    /// The time in which they came; has no rows but its root.
    pub ledger: Ledger,
    /// By kind and by who had the CPU that received them: time and how often.
    pub received: Vec<Row>,
    /// By kind, how often the workload sent them or made them necessary.
    pub sent: Vec<Events>,
    /// Which functions of the kernel sent them, the most frequent of each kind first.
    pub senders: Vec<Sender>,
}

/// Who sent interrupts to other CPUs, as far as looks at names saw: one interrupt of 16.
#[derive(Clone, Debug, PartialEq)]
pub struct Sender {
    /// The kind, as in [`Ipis::sent`].
    pub what: &'static str,
    /// The function that sent, and who called it: "f < its caller < …".
    pub chain: String,
    /// How often it was seen.
    pub seen: u64,
    /// How often any sender of this kind was.
    pub of: u64,
}

/// Kinds of interrupts from other CPUs, and what their senders are counted as.
const KINDS: [(CpuState, &str); 4] = [
    (CpuState::IrqReschedule, "reschedule"),
    (CpuState::IrqCallOne, "function call, sent to one CPU"),
    (CpuState::IrqCallMany, "function call, sent to many CPUs"),
    (CpuState::IrqWork, "irq work"),
];
const SENT: [(&str, &str); 7] = [
    ("ipi.reschedule", "reschedule"),
    ("ipi.call_one", "function call to one CPU"),
    ("ipi.call_many", "function call to many CPUs"),
    ("tlb_flush.shootdown_sent", "TLB flush sent to other CPUs"),
    ("tlb_flush.shootdown_received", "TLB flush for another CPU"),
    ("wake_up", "wake-up of a task"),
    ("migration", "migration of a task"),
];

/// Interrupts from other CPUs; nothing without looks at time.
pub fn ipis(looks: &[&Profile]) -> Option<Ipis> {
    let (_, units) = units(looks, ProfileKind::Time);
    let ledger = frame(&units)?;
    let whose = [
        (Base::Work, "while the workload ran"),
        (Base::Idle, "while idle"),
        (Base::Other, "while other tasks ran"),
    ];
    let kinds = KINDS.into_iter().flat_map(|kind| whose.map(|whose| (kind, whose)));
    let row = |((state, kind), (base, whose)): ((CpuState, &str), (Base, &str))| {
        let is = |b: Base, s: CpuState| (b, s) == (base, state);
        let slices = |window: &Window| -> u64 {
            window.slices().filter(|s| is(s.base, s.state)).map(|slice| slice.entries).sum()
        };
        let counts = each(&units, slices);
        let events =
            Events { what: "interrupt".to_string(), counts, operations: operations(&units) };
        let ns = each(&units, |window| window.time_ns(is));
        Row::new(format!("{kind}, {whose}"), Obtained::Exact, ns).with_events(events)
    };
    let has_any =
        |row: &Row| row.events.as_ref().is_some_and(|events| events.counts.iter().sum::<u64>() > 0);
    let mut received: Vec<Row> = kinds.map(row).filter(has_any).collect();
    received.sort_by_key(|row| std::cmp::Reverse(row.total_ns()));
    Some(Ipis { ledger, received, sent: sent(looks), senders: senders(looks) })
}

fn senders(looks: &[&Profile]) -> Vec<Sender> {
    let (_, units) = units(looks, ProfileKind::Names);
    let of_kind = |(name, what): (&str, &'static str)| {
        let mut chains: BTreeMap<&String, u64> = BTreeMap::new();
        let seen = units.iter().flatten().filter_map(|window| window.senders.get(name));
        seen.flatten().for_each(|(chain, times)| *chains.entry(chain).or_default() += times);
        let of = chains.values().sum();
        let sender =
            |(chain, seen): (&String, u64)| Sender { what, chain: chain.clone(), seen, of };
        let mut senders: Vec<Sender> = chains.into_iter().map(sender).collect();
        senders.sort_by_key(|sender| std::cmp::Reverse(sender.seen));
        senders
    };
    SENT.into_iter().flat_map(of_kind).collect()
}

/// What looks at counts have counted of them; what was not counted is not there.
fn sent(looks: &[&Profile]) -> Vec<Events> {
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
    let unit = |(operations, budget_ns)| Unit { operations, budget_ns, block: None };
    let all = operations(units).into_iter().zip(budgets.iter().copied()).map(unit).collect();
    let root = Row::new("all", Obtained::Exact, budgets);
    (!units.is_empty()).then_some(Ledger { units: all, root })
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
        let ledger = ledger(&looks).unwrap();
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
