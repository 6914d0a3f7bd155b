//! One recording as a ledger.

use ledger::{LedgerRow, RecordedLedger, Whole};
use text::Style;
use text::prose::{counted, wrapped};
use text::quantity::{duration_ns, short};
use text::table::{Align, Table};

use crate::recording::{NamedRecording, amount, measured, percent};

/// Rows with a smaller share of the whole are put together.
const SHARE_MIN: f64 = 0.005;

/// The report of one recording: what was recorded, and where the time went.
pub fn ledger(named: &NamedRecording, recorded: &RecordedLedger, style: Style) -> String {
    let mut text = head(named, recorded, style);
    text.push('\n');
    let right = Align::Right;
    let mut table = Table::new([
        (measured(recorded).replacen(' ', "\n", 1).as_str(), right),
        (style.plus_minus(), right),
        ("share", right),
        ("samples", right),
        ("where", Align::Left),
    ]);
    add(&mut table, recorded, &recorded.ledger.root, 0);
    text.push_str(&table.text());
    text.push('\n');
    text.push_str(&notes(named, recorded, style));
    text
}

/// Sentences that say what was recorded, how, where and on which kernel.
pub fn head(named: &NamedRecording, recorded: &RecordedLedger, style: Style) -> String {
    let recording = named.recording;
    let origin = &recording.origin;
    let whole = match recorded.whole {
        Whole::CpusTime { cpus } => format!("all time of {}", counted(cpus as usize, "CPU")),
        Whole::Samples if recording.all_cpus => "the sum of its samples' periods".to_string(),
        Whole::Samples => "CPU time of the recorded tasks".to_string(),
    };
    let on = if origin.host.is_empty() { String::new() } else { format!(" on {}", origin.host) };
    let release = if origin.release.is_empty() {
        String::new()
    } else {
        format!(", Linux {}", origin.release)
    };
    let text = format!(
        "{}: {whole}, by {}, {} samples in {}{on}{release}",
        named.name,
        recording.event.name,
        short(recorded.samples as f64),
        duration_ns(recorded.span_ns as f64),
    );
    wrapped(&text, style.width, 2)
}

/// A row and those below it; the small ones as one line, so that what is shown adds up too.
fn add(table: &mut Table, recorded: &RecordedLedger, row: &LedgerRow, depth: usize) {
    let all = recorded.ledger.root.total_ns().max(1) as f64;
    let share = |ns: u64| ns as f64 / all;
    let value = recorded.ledger.ns_per_operation(row);
    table.row(vec![
        amount(recorded, value.mean),
        half(value.half.filter(|_| depth > 0), |half| amount(recorded, half)),
        percent(share(row.total_ns())),
        row.samples.map_or_else(|| "-".to_string(), |samples| samples.to_string()),
        format!("{:indent$}{}", "", shortened(&row.name), indent = 2 * depth),
    ]);
    let (large, small): (Vec<&LedgerRow>, Vec<&LedgerRow>) =
        row.rows.iter().partition(|row| share(row.total_ns()) >= SHARE_MIN);
    large.into_iter().for_each(|row| add(table, recorded, row, depth + 1));
    match &small[..] {
        [] => {}
        [one] => add(table, recorded, one, depth + 1),
        small => {
            let sum = |unit: usize| small.iter().map(|row| row.ns[unit]).sum();
            let name = format!("{} smaller rows", small.len());
            let row = LedgerRow::new(name, row.obtained, (0..row.ns.len()).map(sum).collect());
            let samples = small.iter().filter_map(|row| row.samples).sum();
            add(table, recorded, &LedgerRow { samples: Some(samples), ..row }, depth + 1);
        }
    }
}

/// Half an interval; all time has none, since it is given and not measured.
fn half(half: Option<f64>, amount: impl Fn(f64) -> String) -> String {
    half.map_or_else(|| "-".to_string(), amount)
}

/// Names of generic code can be longer than lines.
pub fn shortened(name: &str) -> String {
    const CHARACTERS_MAX: usize = 72;
    match name.char_indices().nth(CHARACTERS_MAX) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name.to_string(),
    }
}

/// Notes below the table: how to read it, and doubts.
fn notes(named: &NamedRecording, recorded: &RecordedLedger, style: Style) -> String {
    let recording = named.recording;
    let mut notes = vec![match named.operations {
        Some(operations) => format!(
            "Per operation: --operations gives {}, taken as spread evenly over the recording.",
            counted(operations as usize, "operation")
        ),
        None => {
            "Per second of recorded time; give --operations for values per operation.".to_string()
        }
    }];
    notes.push(format!(
        "Intervals are 95 %, from {} parts of this one recording; they do not include \
         differences from run to run.",
        recorded.ledger.units.len()
    ));
    notes.extend(doubts(named));
    if recording.throttled > 0 {
        notes.push(format!(
            "The kernel throttled sampling {}: record at a lower rate.",
            times(recording.throttled)
        ));
    }
    notes.iter().map(|note| wrapped(&format!("- {note}"), style.width, 2)).collect()
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_string() } else { format!("{n} times") }
}

/// What the reader of a recording should know before believing it.
pub fn doubts(named: &NamedRecording) -> Vec<String> {
    let mut doubts = named.recording.doubts.clone();
    if !named.recording.has_callers() {
        doubts.push(
            "Recorded without callers: functions of the kernel cannot be assigned to system calls. perf \
             record -g records them."
                .to_string(),
        );
    }
    let others = &named.recording.other_events;
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|(name, n)| format!("{name} ({n})")).collect();
        doubts.push(format!("Samples of other events were left out: {}.", names.join(", ")));
    }
    let lost: u64 = named.recording.losses.iter().fold(0, |n, loss| n.saturating_add(loss.samples));
    if lost > 0 {
        doubts.push(format!(
            "{lost} samples were lost: record at a lower rate, or with a larger -m."
        ));
    }
    doubts
}
