//! The table that perf diff shows, per operation: functions by their own time, before and now.

use std::collections::BTreeMap;

use text::quantity::{duration_ns, short};
use text::table::{Align, Table};

use crate::ledger::LedgerPart;
use crate::recording::{NamedRecording, is_idle};

/// Functions that are shown.
const FUNCTIONS_MAX: usize = 60;

/// Own time of functions in two recordings, those with the largest change first.
pub fn functions_part(title: String, named: [&NamedRecording; 2]) -> LedgerPart {
    let [base, new] = named.map(own);
    let is_clock = named.iter().all(|named| named.recording.event.is_clock);
    let value = |value: f64| if is_clock { duration_ns(value) } else { short(value) };
    let mut rows: Vec<(f64, f64, (String, String))> = Vec::new();
    for key in base.keys().chain(new.keys().filter(|key| !base.contains_key(*key))) {
        let own_time =
            |side: &BTreeMap<(String, String), f64>| side.get(key).copied().unwrap_or(0.0);
        rows.push((own_time(&base), own_time(&new), key.clone()));
    }
    rows.sort_by(|a, b| (b.1 - b.0).abs().total_cmp(&(a.1 - a.0).abs()));
    let mut table = Table::new([
        ("baseline", Align::Right),
        ("delta", Align::Right),
        ("object", Align::Left),
        ("symbol", Align::Left),
    ]);
    for (before, now, (object, symbol)) in rows.iter().take(FUNCTIONS_MAX) {
        let sign = if now < before { "-" } else { "+" };
        let baseline = if *before > 0.0 { value(*before) } else { String::new() };
        let delta = format!("{sign}{}", value((now - before).abs()));
        table.row(vec![baseline, delta, object.clone(), symbol.clone()]);
    }
    let more = rows.len().saturating_sub(FUNCTIONS_MAX);
    let per = if named.iter().all(|named| named.operations.is_some()) {
        "operation"
    } else {
        "second (give --operations BEFORE,NOW for values per operation)"
    };
    let what = if is_clock { "CPU time" } else { &named[1].recording.event.name };
    let caption = format!("Functions' own {what} per {per}");
    let note = format!("{more} functions with smaller changes are not shown.");
    let notes = if more > 0 { vec![note] } else { Vec::new() };
    LedgerPart { title, tables: vec![(caption, table)], notes, ..LedgerPart::default() }
}

/// Own time by object and function, per operation or second; idle left out.
fn own(named: &NamedRecording) -> BTreeMap<(String, String), f64> {
    let recording = named.recording;
    let (start, end) = recording.span_ns();
    let seconds = (end - start).max(1) as f64 / 1e9;
    let per = named.operations.map_or(seconds, |operations| operations.max(1) as f64);
    let mut periods: BTreeMap<u32, u64> = BTreeMap::new();
    for sample in recording.samples.iter().filter(|sample| !is_idle(sample)) {
        if let Some(leaf) = recording.chains.locations(sample.chain).first() {
            let function = recording.locations[*leaf as usize].function;
            *periods.entry(function).or_default() += sample.period;
        }
    }
    let mut own = BTreeMap::new();
    for (function, period) in periods {
        let function = &recording.functions[function as usize];
        let object = recording.object_name(function.object).to_string();
        *own.entry((object, function.name.clone())).or_default() += period as f64 / per;
    }
    own
}
