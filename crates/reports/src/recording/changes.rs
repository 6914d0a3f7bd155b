//! The difference of two recordings, ranked.

use analysis::ledger::{Cause, RecordedLedger, RowChange, Split, causes};

use crate::Style;
use crate::prose::wrapped;
use crate::recording::ledger::{doubts, head, shortened};
use crate::recording::{NamedRecording, amount, measured, percent};
use crate::table::{Align, Table};

/// More causes than anybody reads.
const CAUSES_MAX: usize = 40;

/// Two recordings with their ledgers, and what changed from the first to the second.
pub fn changes(
    told: [&NamedRecording; 2],
    recorded: [&RecordedLedger; 2],
    difference: &RowChange,
    style: Style,
) -> String {
    let mut text: String = (0..2).map(|side| head(told[side], recorded[side], style)).collect();
    let causes = causes(difference);
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
    let plain = |name: &str, change: f64| {
        let empty = String::new;
        vec![signed(change), empty(), empty(), empty(), empty(), name.to_string()]
    };
    for cause in causes.iter().take(CAUSES_MAX) {
        let change = &cause.change;
        table.row(vec![
            signed(cause.own_ns),
            change.half.map_or_else(|| "-".to_string(), |half| amount(unit, half)),
            amount(unit, change.before.mean),
            amount(unit, change.after.mean),
            why(cause),
            shortened(&cause.path.join(": ")),
        ]);
    }
    let rest: f64 = causes.iter().skip(CAUSES_MAX).map(|cause| cause.own_ns).sum();
    if causes.len() > CAUSES_MAX {
        table.row(plain(&format!("{} more causes", causes.len() - CAUSES_MAX), rest));
    }
    let explained: f64 = causes.iter().map(|cause| cause.own_ns).sum();
    let length = with_length(difference);
    if length != 0.0 {
        table.row(plain("rows of time, with the length of an operation", length));
    }
    table
        .row(plain("below noise: all other rows together", difference.change - length - explained));
    let all = [
        signed(difference.change),
        String::new(),
        amount(unit, difference.before.mean),
        amount(unit, difference.after.mean),
    ];
    table.row(all.into_iter().chain([String::new(), "all".to_string()]).collect());
    text.push('\n');
    text.push_str(&table.text());
    text.push('\n');
    text.push_str(&notes(told, recorded, style));
    text
}

/// What rows of time have more or less of only because operations got longer or shorter.
fn with_length(change: &RowChange) -> f64 {
    match change.split {
        Split::ShareAndLength { length_ns, .. } => length_ns,
        _ => change.rows.iter().map(with_length).sum(),
    }
}

/// Whether it happens more often or costs more, in a word.
fn why(cause: &Cause) -> String {
    let change = &cause.change;
    match &change.split {
        _ if change.before.mean == 0.0 => "new".to_string(),
        _ if change.after.mean == 0.0 => "gone".to_string(),
        Split::CountUnknown => "count unknown".to_string(),
        Split::ShareAndLength { share, .. } => {
            format!("share {} to {}", percent(share.0), percent(share.1))
        }
        Split::CountAndCost { per_operation: (was, is), .. } => {
            format!("{was:.3} to {is:.3} times")
        }
    }
}

fn notes(told: [&NamedRecording; 2], recorded: [&RecordedLedger; 2], style: Style) -> String {
    let mut notes = vec![
        "The rows add up to the change of all. Those told are no accidents, at 99 % for all \
         of them together, by windows within each recording: what differs from run to run is not in \
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
