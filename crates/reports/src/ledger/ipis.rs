//! Interrupts from other CPUs, as tables: what came, and what was sent.

use analysis::ledger::{IpiSender, Ipis};

use crate::Style;
use crate::ledger::numbers;
use crate::prose::wrapped;
use crate::table::{Align, Table};

/// Interrupts from other CPUs, the dearest first.
pub fn text(ipis: &Ipis, style: Style) -> String {
    let right = Align::Right;
    let mut received = Table::new([
        ("received", Align::Left),
        ("times\nper op", right),
        ("ns\neach", right),
        ("ns\nper op", right),
        (style.plus_minus(), right),
    ]);
    for row in &ipis.received {
        let ns = ipis.ledger.ns_per_operation(row);
        let times = row.events.as_ref().map_or(0.0, |events| events.per_operation().mean);
        received.row(vec![
            row.name.clone(),
            numbers::times(times),
            if times > 0.0 { format!("{:.0}", ns.mean / times) } else { String::new() },
            format!("{:.2}", ns.mean),
            ns.half.map_or_else(String::new, |half| format!("{half:.2}")),
        ]);
    }
    let mut sent = Table::new([
        ("sent by the workload", Align::Left),
        ("times\nper op", right),
        (style.plus_minus(), right),
    ]);
    for events in &ipis.sent {
        let times = events.per_operation();
        sent.row(vec![
            events.what.clone(),
            numbers::times(times.mean),
            times.half.map_or_else(String::new, numbers::times),
        ]);
    }
    let mut notes = vec![
        "Received: exact, from entry to exit of the handler, by looks at time. What an interrupt \
         costs beside its handler, such as leaving the guest, is not in it.",
    ];
    let sent = match ipis.sent.is_empty() {
        true => {
            notes.push("Who sends them is told by looks at counts, and here are none.");
            String::new()
        }
        false => {
            notes.push(
                "Sent: counted by looks at counts, in other runs than the times. Under a \
                 hypervisor that flushes TLBs itself, some need no interrupt.",
            );
            sent.text() + "\n"
        }
    };
    let senders = senders(&ipis.senders);
    let received = match ipis.received.is_empty() {
        true => "no interrupt came from another CPU\n".to_string(),
        false => received.text(),
    };
    let notes = notes.into_iter().map(|note| wrapped(&format!("- {note}"), style.width, 2));
    received + "\n" + &sent + &senders + &notes.collect::<String>()
}

/// Who sent them, with callers.
fn senders(senders: &[IpiSender]) -> String {
    // Rarer ones are many.
    const SHOWN_SHARE: f64 = 0.05;
    if senders.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("sent by, as one of 16 was looked at", Align::Left),
        ("share", Align::Right),
        ("seen", Align::Right),
    ]);
    for (index, sender) in senders.iter().enumerate() {
        if index == 0 || senders[index - 1].what != sender.what {
            table.row(vec![
                sender.what.to_string(),
                String::new(),
                sender.seen_of_kind.to_string(),
            ]);
        }
        let share = sender.seen as f64 / sender.seen_of_kind as f64;
        if share >= SHOWN_SHARE {
            let chain = format!("  {}", sender.chain);
            table.row(vec![chain, numbers::percent(share), sender.seen.to_string()]);
        }
    }
    table.text() + "\n"
}
