//! One line about TLB flushes sent to other CPUs: more of them, of more pages, or
//! longer waits.

use ledger::{Explained, RowChange};
use text::quantity::duration_ns;

use crate::ledger::numbers::times;

/// The function in which a CPU waits until the others have handled its request.
const WAITS_IN: &str = "smp_call_function_many_cond";

/// The line; `None` if no CPU sends TLB flushes.
pub fn sentence(change: &RowChange, before: &Explained, after: &Explained) -> Option<String> {
    const TOLD_MIN: f64 = 1e-3;
    let count = |side: &Explained, name: &str| side.counts.get(name).copied().unwrap_or(0.0);
    let flushes = [before, after].map(|side| count(side, "tlb_flush.shootdown_sent"));
    if flushes[0].max(flushes[1]) < TOLD_MIN {
        return None;
    }
    let pages = [before, after].map(|side| count(side, "tlb_pages.shootdown_sent"));
    let each = |i: usize| {
        if flushes[i] > 0.0 { format!("{:.1}", pages[i] / flushes[i]) } else { "no".to_string() }
    };
    let rows = || change.walk().into_iter().filter(|row| row.name == WAITS_IN);
    let waits = [rows().map(|row| row.before.mean).sum(), rows().map(|row| row.after.mean).sum()];
    Some(format!(
        "TLB flushes sent to other CPUs: {} -> {}, of {} -> {} pages each; in {WAITS_IN}, where \
         the sender waits, {} -> {} (sampled)",
        times(flushes[0]),
        times(flushes[1]),
        each(0),
        each(1),
        duration_ns(waits[0]),
        duration_ns(waits[1])
    ))
}
