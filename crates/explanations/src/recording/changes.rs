//! The difference of two recordings, ranked.

use ledger::{Cause, IDLE, Per, RecordedLedger, RowChange, Split, causes};
use text::table::{Align, Table};

use crate::ledger::{LedgerPart, place};
use crate::recording::recorded_ledger::{head, warnings};
use crate::recording::{NamedRecording, amount, measured, percent};

/// More causes than anybody reads.
const CAUSES_MAX: usize = 40;

/// Two recordings with their ledgers, and what changed from the first to the second.
pub fn changes_part(
    named: [&NamedRecording; 2],
    recorded: [&RecordedLedger; 2],
    difference: &RowChange,
) -> LedgerPart {
    let causes = causes(difference);
    LedgerPart {
        title: format!("{} → {}", named[0].name, named[1].name),
        answer: answer(named, recorded[1], difference, &causes),
        causes: (0..2).map(|side| head(named[side], recorded[side])).collect(),
        tables: vec![(
            format!("Change of {}, by cause", measured(recorded[1])),
            table(recorded[1], difference, &causes),
        )],
        notes: notes(named, recorded),
        ..LedgerPart::default()
    }
}

/// The causes, and what else adds up to the whole change.
fn table(unit: &RecordedLedger, difference: &RowChange, causes: &[Cause]) -> Table {
    let signed = |value: f64| {
        let text = amount(unit, value.abs());
        if value < 0.0 { format!("-{text}") } else { format!("+{text}") }
    };
    let right = Align::Right;
    let mut table = Table::new([
        ("where", Align::Left),
        ("change", right),
        ("±", right),
        ("before", right),
        ("now", right),
        ("why", Align::Left),
    ]);
    let plain = |name: &str, change: f64| {
        let empty = String::new;
        vec![name.to_string(), signed(change), empty(), empty(), empty(), empty()]
    };
    for cause in causes.iter().take(CAUSES_MAX) {
        let change = &cause.change;
        table.row(vec![
            shortened(&place(&cause.path)),
            signed(cause.own_ns),
            change.half.map_or_else(|| "-".to_string(), |half| amount(unit, half)),
            amount(unit, change.before.mean),
            amount(unit, change.after.mean),
            why(cause),
        ]);
    }
    let rest: f64 = causes.iter().skip(CAUSES_MAX).map(|cause| cause.own_ns).sum();
    if causes.len() > CAUSES_MAX {
        table.row(plain(&format!("{} more causes", causes.len() - CAUSES_MAX), rest));
    }
    let explained: f64 = causes.iter().map(|cause| cause.own_ns).sum();
    let length = with_length(difference);
    if length != 0.0 {
        table.row(plain("rows that follow the length of an operation", length));
    }
    table
        .row(plain("all other rows together: below noise", difference.change - length - explained));
    let (before, now) = (difference.before.mean, difference.after.mean);
    table.row(vec![
        "all".to_string(),
        signed(difference.change),
        String::new(),
        amount(unit, before),
        amount(unit, now),
        String::new(),
    ]);
    table
}

/// "`new.data` takes 1.9 us more per operation than `old.data` (16.2 us -> 18.1 us), mostly because system call
/// newfstatat takes 1.24 us more".
fn answer(
    named: [&NamedRecording; 2],
    unit: &RecordedLedger,
    difference: &RowChange,
    causes: &[Cause],
) -> String {
    let [before, after] = named.map(|named| named.name);
    let Some(cause) = causes.first() else {
        return format!(
            "no cause: `{before}` and `{after}` differ by no more than two runs of one program may. More, or \
             longer, recordings would tell"
        );
    };
    let than = |change: f64| if change < 0.0 { "less" } else { "more" };
    let size = |change: f64| format!("{} {}", amount(unit, change.abs()), than(change));
    let because = match cause.path.first() {
        Some(row) if row == IDLE => {
            format!("CPUs whose tasks wait are idle for {}", size(cause.own_ns))
        }
        _ => format!("{} takes {}", place(&cause.path), size(cause.own_ns)),
    };
    if unit.per == Per::Second {
        return format!("of each second, {because} in `{after}` than in `{before}`");
    }
    let own = difference.own_ns;
    let most = match cause.own_ns / own {
        share if share < 0.0 => "although",
        share if share >= 0.5 => "mostly because",
        _ => "most of all because",
    };
    format!("`{after}` takes {} per operation than `{before}`, {most} {because}", size(own))
}

/// Names of generic code can be longer than lines.
fn shortened(name: &str) -> String {
    const CHARACTERS_MAX: usize = 72;
    match name.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_string(),
    }
}

/// Change of the rows of time that is only due to longer or shorter operations.
fn with_length(change: &RowChange) -> f64 {
    match change.split {
        Split::ShareAndLength { length_ns, .. } => length_ns,
        _ => change.rows.iter().map(with_length).sum(),
    }
}

/// A word for the kind of change: new, gone, share, or count.
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
            format!("count {was:.3} to {is:.3}")
        }
    }
}

fn notes(named: [&NamedRecording; 2], recorded: [&RecordedLedger; 2]) -> Vec<String> {
    let mut notes = vec![format!(
        "The rows add up to the total change. All named rows together are significant at 99 %, judged by \
         parts of each recording, and as if runs of one program differed by {:.0} %: nothing in one \
         recording tells by how much they do.",
        100.0 * recorded.map(|side| side.ledger.between_runs).into_iter().fold(0.0, f64::max)
    )];
    if named.iter().any(|named| named.operations.is_none()) {
        notes.push(
            "Values are per second, not per operation: faster code does more work in a second. \
             Give --operations BEFORE,NOW."
                .to_string(),
        );
    }
    if recorded[0].whole != recorded[1].whole {
        notes.push(
            "The recordings cover different totals: only one has all time of its CPUs, or their \
             numbers of CPUs differ. Compare per operation, and only rows below the workload."
                .to_string(),
        );
    }
    for named in named {
        notes.extend(
            warnings(named).into_iter().map(|warning| format!("{}: {warning}", named.name)),
        );
    }
    notes
}
