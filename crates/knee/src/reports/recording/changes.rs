//! The difference of two recordings, ranked.

use analysis::ledger::{Cause, Difference, Presence, Recorded, Split};

use super::super::Style;
use super::super::prose::wrapped;
use super::super::table::{Align, Table};
use super::ledger::{doubts, head, shortened};
use super::{Told, amount, measured, percent};

/// All that is told is no accident, with this probability of any accident among it.
const ALPHA: f64 = 0.05;
/// More causes than anybody reads.
const CAUSES_MAX: usize = 40;

/// Two recordings with their ledgers, and what changed from the first to the second.
pub fn changes(
    told: [&Told; 2],
    recorded: [&Recorded; 2],
    difference: &Difference,
    style: Style,
) -> String {
    let mut text: String = (0..2).map(|side| head(told[side], recorded[side], style)).collect();
    let causes = difference.causes(ALPHA);
    let unit = recorded[1];
    let signed = |value: f64| {
        let text = amount(unit, value.abs());
        if value < 0.0 { format!("-{text}") } else { format!("+{text}") }
    };
    let mut table = Table::new([
        (format!("change of\n{}", measured(unit)), Align::Right),
        (style.plus_minus().to_string(), Align::Right),
        ("before".to_string(), Align::Right),
        ("now".to_string(), Align::Right),
        ("why".to_string(), Align::Left),
        ("where".to_string(), Align::Left),
    ]);
    let root = &difference.root;
    let plain = |name: &str, change: f64| {
        let empty = String::new;
        vec![signed(change), empty(), empty(), empty(), empty(), name.to_string()]
    };
    for cause in causes.found.iter().take(CAUSES_MAX) {
        let change = cause.change;
        table.row(vec![
            signed(cause.explains),
            change.half.map_or_else(|| "-".to_string(), |half| amount(unit, half)),
            amount(unit, change.base),
            amount(unit, change.new),
            why(cause),
            shortened(&cause.path.join(": ")),
        ]);
    }
    let rest: f64 = causes.found.iter().skip(CAUSES_MAX).map(|cause| cause.explains).sum();
    if causes.found.len() > CAUSES_MAX {
        table.row(plain(&format!("{} more causes", causes.found.len() - CAUSES_MAX), rest));
    }
    if causes.with_length != 0.0 {
        table.row(plain("rows of time, with the length of an operation", causes.with_length));
    }
    table.row(plain("below noise: all other rows together", causes.below_noise));
    let all = [
        signed(root.new - root.base),
        String::new(),
        amount(unit, root.base),
        amount(unit, root.new),
    ];
    table.row(all.into_iter().chain([String::new(), "all".to_string()]).collect());
    text.push('\n');
    text.push_str(&table.text());
    text.push('\n');
    text.push_str(&notes(told, recorded, style));
    text
}

/// Whether it happens more often or costs more, in a word.
fn why(cause: &Cause) -> String {
    match (cause.change.presence, &cause.change.split) {
        (Presence::New, _) => "new".to_string(),
        (Presence::Gone, _) => "gone".to_string(),
        (_, Split::Unknown) => "count unknown".to_string(),
        (_, Split::Shared { shares, .. }) => {
            format!("share {} to {}", percent(shares.0), percent(shares.1))
        }
        (_, Split::Counted { counts, .. }) => format!("{:.3} to {:.3} times", counts.0, counts.1),
    }
}

fn notes(told: [&Told; 2], recorded: [&Recorded; 2], style: Style) -> String {
    let mut notes = vec![
        "The rows add up to the change of all. Those told are no accidents at 95 %, for all of \
         them together, by windows within each recording: what differs from run to run is not in \
         that. Record both sides several times before you believe a small change."
            .to_string(),
    ];
    if told.iter().any(|told| told.operations.is_none()) {
        notes.push(
            "Per second, not per operation: where work got faster, more of it is done in a \
             second. Give --operations BEFORE,NOW."
                .to_string(),
        );
    }
    if recorded[0].whole != recorded[1].whole {
        notes.push(
            "The two are not of the same: one is all time of its CPUs, or of another number of \
             CPUs. Compare per operation, and only below the workload."
                .to_string(),
        );
    }
    for told in told {
        notes.extend(doubts(told).into_iter().map(|doubt| format!("{}: {doubt}", told.name)));
    }
    notes.iter().map(|note| wrapped(&format!("- {note}"), style.width, 2)).collect()
}
