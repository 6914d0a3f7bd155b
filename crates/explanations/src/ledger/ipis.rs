//! Interrupts from other CPUs, as tables: what came, and what was sent.

use ledger::{IpiSender, Ipis};
use text::Style;
use text::prose::wrapped;
use text::table::{Align, Table};

use crate::ledger::numbers;

/// Interrupts from other CPUs, the most expensive first.
pub fn text(ipis: &Ipis, style: Style) -> String {
    let right = Align::Right;
    let mut received = Table::new([
        ("received", Align::Left),
        ("count\nper op", right),
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
        ("count\nper op", right),
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
        "Received: exact, from entry to exit of the handler, from time profiles. Costs outside the \
         handler, such as a VM exit, are not included.",
    ];
    let sent = if ipis.sent.is_empty() {
        notes.push("Senders are known only from count profiles, of which there are none.");
        String::new()
    } else {
        notes.push(
            "Sent: from count profiles, which are other runs than the time profiles. Under a \
                 hypervisor that flushes TLBs itself, some requests need no interrupt.",
        );
        sent.text() + "\n"
    };
    let senders = senders(&ipis.senders);
    let received = if ipis.received.is_empty() {
        "no interrupts were received from other CPUs\n".to_string()
    } else {
        received.text()
    };
    let notes = notes.into_iter().map(|note| wrapped(&format!("- {note}"), style.width, 2));
    received + "\n" + &sent + &senders + &notes.collect::<String>()
}

/// The senders of interrupts, as call chains.
fn senders(senders: &[IpiSender]) -> String {
    // Rarer ones are many.
    const SHOWN_SHARE: f64 = 0.05;
    if senders.is_empty() {
        return String::new();
    }
    let mut table = Table::new([
        ("senders (one of 16 events sampled)", Align::Left),
        ("share", Align::Right),
        ("samples", Align::Right),
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
