//! Interrupts from other CPUs, as tables: what was received, and what was sent.

use ledger::{IpiSender, Ipis};
use text::table::{Align, Table};

use crate::ledger::numbers;
use crate::ledger::parts::LedgerPart;

/// Interrupts from other CPUs, the most expensive first.
pub fn ipis_part(title: &str, ipis: &Ipis) -> LedgerPart {
    let mut part = LedgerPart { title: title.to_string(), ..LedgerPart::default() };
    if ipis.received.is_empty() {
        part.answer = "no interrupts were received from other CPUs".to_string();
    } else {
        part.tables.push(("Received".to_string(), received(ipis)));
    }
    let mut notes = vec![
        "Received: exact, from entry to exit of the handler, from time profiles. Costs outside the \
         handler, such as a VM exit, are not included.",
    ];
    if ipis.sent.is_empty() {
        notes.push("Senders are known only from count profiles, of which there are none.");
    } else {
        notes.push(
            "Sent: from count profiles, which are other runs than the time profiles. Under a \
             hypervisor that flushes TLBs itself, some requests need no interrupt.",
        );
        part.tables.push(("Sent by the workload".to_string(), sent(ipis)));
    }
    if !ipis.senders.is_empty() {
        let caption = "Senders, of one event in 16".to_string();
        part.tables.push((caption, senders(&ipis.senders)));
    }
    part.notes = notes.into_iter().map(str::to_string).collect();
    part
}

fn received(ipis: &Ipis) -> Table {
    let right = Align::Right;
    let mut received = Table::new([
        ("interrupt", Align::Left),
        ("count per op", right),
        ("ns each", right),
        ("ns per op", right),
        ("±", right),
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
    received
}

fn sent(ipis: &Ipis) -> Table {
    let mut sent = Table::new([
        ("interrupt", Align::Left),
        ("count per op", Align::Right),
        ("±", Align::Right),
    ]);
    for events in &ipis.sent {
        let times = events.per_operation();
        sent.row(vec![
            events.what.clone(),
            numbers::times(times.mean),
            times.half.map_or_else(String::new, numbers::times),
        ]);
    }
    sent
}

/// The senders of interrupts, as call chains.
fn senders(senders: &[IpiSender]) -> Table {
    // Rarer ones are many.
    const SHOWN_SHARE: f64 = 0.05;
    let mut table = Table::new([
        ("call chain", Align::Left),
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
    table
}
