//! Locks that the workload waited for, as a table.

use ledger::{Ledger, LedgerRow, Locks};
use text::quantity::duration_ns;
use text::table::{Align, Table};

use crate::ledger::numbers;
use crate::ledger::parts::LedgerPart;

/// More than anybody reads.
const LOCKS_MAX: usize = 40;
/// Functions, and holders, that are named for each.
const NAMED_MAX: usize = 2;

/// Locks, those waited for longest first.
pub fn locks_part(title: &str, locks: &Locks) -> LedgerPart {
    let part = LedgerPart { title: title.to_string(), ..LedgerPart::default() };
    if locks.rows.is_empty() {
        return LedgerPart { answer: "no task waited for a lock".to_string(), ..part };
    }
    let notes = [
        "Exact, from lock:contention_begin and _end, which see only contended acquisitions. The \
         kernel reports a spinlock's first waiter only under a hypervisor, and never a writer that \
         spins for an rwsem: that time is in the samples of the lock's function.",
        "Held by: the system call of the workload's task that had the lock when another began to wait, or the \
         name of another task. Only mutexes and rwsems know. Held each: from the end of one wait to that of another \
         which had begun before, so the hand-over is in it; where tasks never queue up, nothing tells.",
        "Sleeping takes no CPU time, so it is not in the ledger; the rows of idle show the reason.",
    ];
    let more = locks.rows.len().saturating_sub(LOCKS_MAX);
    let more = (more > 0).then(|| format!("{more} more locks, with less waiting, are not shown."));
    LedgerPart {
        tables: vec![("Locks, the longest waits first".to_string(), table(locks))],
        notes: more.into_iter().chain(notes.map(str::to_string)).collect(),
        ..part
    }
}

fn table(locks: &Locks) -> Table {
    let right = Align::Right;
    let mut table = Table::new([
        ("lock", Align::Left),
        ("spins per op", right),
        ("ns each", right),
        ("ns per op", right),
        ("±", right),
        ("sleeps per op", right),
        ("asleep each", right),
        ("waiters", Align::Left),
        ("held each", right),
        ("held by", Align::Left),
    ]);
    for row in locks.rows.iter().take(LOCKS_MAX) {
        let (spins, each) = times(&locks.ledger, &row.spins);
        let (sleeps, asleep) = times(&locks.ledger, &row.sleeps);
        let spun = locks.ledger.ns_per_operation(&row.spins);
        table.row(vec![
            row.spins.name.clone(),
            spins,
            each.map_or_else(String::new, |ns| format!("{ns:.0}")),
            format!("{:.2}", spun.mean),
            spun.half.map_or_else(String::new, |half| format!("{half:.2}")),
            sleeps,
            asleep.map_or_else(String::new, duration_ns),
            shares(&row.callers),
            held(row.held),
            shares(&row.holders),
        ]);
    }
    table
}

/// How often per operation, and the time of each.
fn times(ledger: &Ledger, row: &LedgerRow) -> (String, Option<f64>) {
    let times = row.events.as_ref().map_or(0.0, |events| events.per_operation().mean);
    let each = (times > 0.0).then(|| ledger.ns_per_operation(row).mean / times);
    (if times > 0.0 { numbers::times(times) } else { String::new() }, each)
}

/// The mean time that tasks had a lock, if it was seen.
fn held((times, ns): (u64, u64)) -> String {
    if times == 0 { String::new() } else { duration_ns(ns as f64 / times as f64) }
}

/// "posix_lock_inode 61 %, finish_wait 39 %": shares of the sampled waits.
fn shares(seen: &[(String, u64)]) -> String {
    let all: u64 = seen.iter().map(|(_, times)| times).sum();
    let share = |times: u64| 100.0 * times as f64 / all.max(1) as f64;
    let named = seen.iter().take(NAMED_MAX);
    let named = named.map(|(name, times)| format!("{name} {:.0} %", share(*times)));
    named.collect::<Vec<_>>().join(", ")
}
