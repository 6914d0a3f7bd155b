//! One recording as a ledger.

use ledger::{LedgerRow, Measure, Per, RecordedLedger, Whole};
use text::prose::counted;
use text::quantity::{duration_ns, short};

use crate::ledger::{LedgerNode, LedgerPart, LedgerTree, largest_rows};
use crate::recording::{NamedRecording, amount, measured, percent, quantity};

/// Rows with a smaller share of the whole are put together.
const SHARE_MIN: f64 = 0.005;

/// Fewer samples have no rate.
const SAMPLES_MIN: u64 = 10;

/// One recording: where the time went, and what was recorded.
pub fn recording_part(named: &NamedRecording, recorded: &RecordedLedger) -> LedgerPart {
    LedgerPart {
        title: named.name.to_string(),
        answer: answer(recorded),
        causes: vec![head(named, recorded)],
        tree: Some(LedgerTree::new(
            measured(recorded),
            vec![quantity(recorded).to_string()],
            ["±", "share", "samples"],
            node(recorded, &recorded.ledger.root, 0),
        )),
        notes: notes(named, recorded),
        ..LedgerPart::default()
    }
}

/// "An operation takes 80 us: 50 % idle (40 us), 25 % system call fcntl (20 us), …".
fn answer(recorded: &RecordedLedger) -> String {
    let mean = |row: &LedgerRow| amount(recorded, recorded.ledger.ns_per_operation(row).mean);
    let all = mean(&recorded.ledger.root);
    let all = match recorded.measure {
        Measure::Nanoseconds => all,
        Measure::Events(_) => format!("{all} {}", quantity(recorded)),
    };
    let largest = largest_rows(&recorded.ledger, &mean);
    match recorded.per {
        Per::Operation => format!("An operation takes {all}: {largest}"),
        // The time from the first sample to the last says little of so few.
        Per::Second if recorded.samples < SAMPLES_MIN => format!(
            "{} are too few for a rate; of their {}: {}",
            counted(recorded.samples as usize, "sample"),
            quantity(recorded),
            largest_rows(&recorded.ledger, &|row: &LedgerRow| percent(
                row.total_ns() as f64 / recorded.ledger.root.total_ns().max(1) as f64
            ))
        ),
        Per::Second => format!("{all} per second: {largest}"),
    }
}

/// A sentence that says what was recorded, how, where and on which kernel.
pub fn head(named: &NamedRecording, recorded: &RecordedLedger) -> String {
    let recording = named.recording;
    let origin = &recording.origin;
    let whole = match recorded.whole {
        Whole::CpusTime { cpus } => format!("all time of {}", counted(cpus as usize, "CPU")),
        Whole::Samples if recording.all_cpus => "the sum of its samples' periods".to_string(),
        Whole::Samples => match &recorded.measure {
            Measure::Nanoseconds => "CPU time of the recorded tasks".to_string(),
            Measure::Events(event) => format!("{event} of the recorded tasks"),
        },
    };
    let on = if origin.host.is_empty() { String::new() } else { format!(" on {}", origin.host) };
    let release = if origin.release.is_empty() {
        String::new()
    } else {
        format!(", Linux {}", origin.release)
    };
    format!(
        "{}: {whole}, by {}, {} samples in {}{on}{release}",
        named.name,
        recording.event.name,
        short(recorded.samples as f64),
        duration_ns(recorded.span_ns as f64),
    )
}

/// A row and those below it; the small ones as one, so that what is shown adds up too.
fn node(recorded: &RecordedLedger, row: &LedgerRow, depth: usize) -> LedgerNode {
    let all = recorded.ledger.root.total_ns().max(1) as f64;
    let share = |row: &LedgerRow| row.total_ns() as f64 / all;
    let value = recorded.ledger.ns_per_operation(row);
    // All time has no interval, since it is given and not measured.
    let half = value.half.filter(|_| depth > 0);
    let (large, small): (Vec<&LedgerRow>, Vec<&LedgerRow>) =
        row.rows.iter().partition(|row| share(row) >= SHARE_MIN);
    let below = |row: &LedgerRow| node(recorded, row, depth + 1);
    let mut rows: Vec<LedgerNode> = large.into_iter().map(below).collect();
    match &small[..] {
        [] => {}
        [one] => rows.push(below(one)),
        small => rows.push(below(&together(small))),
    }
    let missing = || "-".to_string();
    LedgerNode {
        is_folded: false,
        name: row.name.clone(),
        ns: vec![value.mean * recorded.scale()],
        values: vec![amount(recorded, value.mean)],
        details: vec![
            half.map_or_else(missing, |half| amount(recorded, half)),
            percent(share(row)),
            row.samples.map_or_else(missing, |samples| samples.to_string()),
        ],
        change: None,
        rows,
    }
}

/// Small rows as one, without parts.
fn together(small: &[&LedgerRow]) -> LedgerRow {
    let sum = |unit: usize| small.iter().map(|row| row.ns[unit]).sum();
    let name = format!("{} smaller rows", small.len());
    let row = LedgerRow::new(name, small[0].obtained, (0..small[0].ns.len()).map(sum).collect());
    LedgerRow { samples: Some(small.iter().filter_map(|row| row.samples).sum()), ..row }
}

/// How to read the ledger, and warnings.
fn notes(named: &NamedRecording, recorded: &RecordedLedger) -> Vec<String> {
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
    notes.extend(warnings(named));
    if recording.throttled > 0 {
        notes.push(format!(
            "The kernel throttled sampling {}: record at a lower rate.",
            times(recording.throttled)
        ));
    }
    notes
}

fn times(n: u64) -> String {
    if n == 1 { "once".to_string() } else { format!("{n} times") }
}

/// What the reader of a recording should know before believing it.
pub fn warnings(named: &NamedRecording) -> Vec<String> {
    let mut warnings = named.recording.warnings.clone();
    if !named.recording.has_callers() {
        warnings.push(
            "Recorded without callers: functions of the kernel cannot be assigned to system calls. perf \
             record -g records them."
                .to_string(),
        );
    }
    let others = &named.recording.other_events;
    if !others.is_empty() {
        let names: Vec<String> = others.iter().map(|(name, n)| format!("{name} ({n})")).collect();
        warnings.push(format!("Samples of other events were left out: {}.", names.join(", ")));
    }
    let lost: u64 = named.recording.losses.iter().fold(0, |n, loss| n.saturating_add(loss.samples));
    if lost > 0 {
        warnings.push(format!(
            "{lost} samples were lost: record at a lower rate, or with a larger -m."
        ));
    }
    warnings
}
