//! What iperf 2 and 3 print, and the JSON of iperf3: the rate of the whole test, with its intervals as samples. Sources:
//! iperf3's `iperf_api.c` and `iperf_locale.c`, and outputs of 2.0 to 3.20.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use records::Better::{self, Higher, Lower, Neither};
use records::ReplicationUnit;
use serde_json::Value;

use crate::import::json::{looks_like, number, numbers};
use crate::import::{File, Foreign, ForeignCell, ForeignRun};

const RATE: &str = "iperf.bits_per_s";
const LACKS: &[&str] = &[
    "one output is one run: replication needs several, in one file or in files of their own",
    "the other host, CPUs and kernel are not recorded",
];

/// Whether a text is of iperf.
pub fn recognise(text: &str) -> bool {
    is_json(text) || text.contains("[ ID] Interval") && text.lines().any(|line| row(line).is_some())
}

fn is_json(text: &str) -> bool {
    looks_like(text, &["start", "intervals", "end"]) && text.contains("\"bits_per_second\"")
}

/// Reads a run for each test.
pub fn read(file: &File) -> Result<Foreign> {
    let mut foreign = Foreign::new(RATE, ReplicationUnit::Run, LACKS);
    if is_json(file.text) {
        read_json(&mut foreign, file.text)?
    } else {
        read_text(&mut foreign, file.text)
    }
    ensure!(foreign.runs.iter().any(|run| run.failed.is_none()), "no test has a result");
    let has = |name: &&str| foreign.runs.iter().any(|run| run.values.contains_key(*name));
    let names = [RATE, "iperf.sent_bits_per_s"];
    foreign.primary = names.into_iter().find(has).unwrap_or(RATE).to_string();
    Ok(foreign)
}

fn put(
    foreign: &mut Foreign,
    values: &mut BTreeMap<String, f64>,
    (name, unit, better): (&str, &str, Better),
    value: Option<f64>,
) {
    if let Some(value) = value {
        foreign.describe(name, unit, better);
        values.insert(name.to_string(), value);
    }
}

/// Numbers of a sum or an interval, by their keys.
const KEYS: [(&str, &str, &str, Better); 7] = [
    ("bits_per_second", "bits_per_s", "bit/s", Higher),
    ("bytes", "bytes", "B", Neither),
    ("seconds", "seconds", "s", Neither),
    ("retransmits", "retransmits", "1", Lower),
    ("jitter_ms", "jitter_ms", "ms", Lower),
    ("lost_packets", "lost_packets", "1", Lower),
    ("lost_percent", "lost_percent", "%", Lower),
];

fn read_json(foreign: &mut Foreign, text: &str) -> Result<()> {
    let start = text.find('{').unwrap_or(0);
    let documents = serde_json::Deserializer::from_str(&text[start..]).into_iter::<Value>();
    for document in documents {
        let document = document.map_err(|error| {
            anyhow::anyhow!("expected the JSON of iperf3 ({error}); is the file truncated?")
        })?;
        let run = test(foreign, &document);
        foreign.runs.push(run);
    }
    Ok(())
}

fn test(foreign: &mut Foreign, document: &Value) -> ForeignRun {
    let mut run = ForeignRun { cell: ForeignCell::new("iperf"), ..ForeignRun::default() };
    let settings = document.pointer("/start/test_start");
    for (key, name) in [
        ("protocol", "protocol"),
        ("num_streams", "streams"),
        ("blksize", "block_bytes"),
        ("reverse", "reverse"),
    ] {
        if let Some(value) = settings.and_then(|settings| settings.get(key)) {
            let value = value.as_str().map_or(value.to_string(), str::to_string);
            run.cell.parameters.insert(name.to_string(), value);
        }
    }
    let end = document.get("end").unwrap_or(&Value::Null);
    let sums = [("sum_received", ""), ("sum_sent", "sent_"), ("sum", "")];
    for (sum, prefix) in sums {
        let Some(sum) = end.get(sum) else { continue };
        for (key, name, unit, better) in KEYS {
            // Retransmits have one side.
            let name =
                if key == "retransmits" { name.to_string() } else { format!("{prefix}{name}") };
            let name = format!("iperf.{name}");
            if !run.values.contains_key(&name) {
                put(foreign, &mut run.values, (&name, unit, better), number(sum, key));
            }
        }
    }
    let cpu = end.get("cpu_utilization_percent").and_then(Value::as_object);
    for (key, value) in cpu.into_iter().flatten() {
        let name = format!("iperf.cpu_{key}_percent");
        put(foreign, &mut run.values, (&name, "%", Neither), value.as_f64());
    }
    let intervals = document.get("intervals").and_then(Value::as_array);
    for interval in intervals.into_iter().flatten() {
        let mut sample = BTreeMap::new();
        for (key, name, unit, better) in KEYS {
            let value = interval.get("sum").and_then(|sum| number(sum, key));
            put(foreign, &mut sample, (&format!("iperf.sample.{name}"), unit, better), value);
        }
        run.samples.push(sample);
        leave(foreign, "single streams", interval.get("streams"));
    }
    leave(foreign, "single streams", end.get("streams"));
    leave(foreign, "settings and addresses", document.get("start"));
    if let Some(error) = document.get("error").and_then(Value::as_str) {
        run.failed = Some(format!("iperf3: {error}"));
    } else if run.values.is_empty() {
        run.failed = Some("the output has no result: was it interrupted?".to_string());
    }
    run
}

fn leave(foreign: &mut Foreign, what: &str, part: Option<&Value>) {
    let numbers = part.map_or(0, numbers);
    if numbers > 0 {
        *foreign.unread.entry(what.to_string()).or_default() += numbers;
    }
}

/// A line of the table: `[  5]   0.00-10.00  sec  10.9 GBytes  9.35 Gbits/sec    0             sender`.
struct Row<'a> {
    stream: &'a str,
    from: f64,
    to: f64,
    bytes: f64,
    rate: f64,
    rest: Vec<&'a str>,
}

fn row(line: &str) -> Option<Row<'_>> {
    let (stream, rest) = line.trim_start().strip_prefix('[')?.split_once(']')?;
    let words: Vec<&str> = rest.split_whitespace().collect();
    let at = words.iter().position(|word| *word == "sec")?;
    // 0.0- 1.0 may have a blank inside.
    let interval = words[..at].concat();
    let (from, to) = interval.rsplit_once('-')?;
    let [bytes, bytes_unit, rate, rate_unit, rest @ ..] = &words[at + 1..] else { return None };
    Some(Row {
        stream: stream.trim(),
        from: from.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok()?,
        to: to.parse().ok()?,
        bytes: bytes.parse::<f64>().ok()? * prefix(bytes_unit.strip_suffix("Bytes")?, 1024.0)?,
        rate: rate.parse::<f64>().ok()? * rate_factor(rate_unit)?,
        rest: rest.to_vec(),
    })
}

/// iperf counts bytes by 1024 and bits by 1000.
fn prefix(prefix: &str, base: f64) -> Option<f64> {
    Some(match prefix {
        "" => 1.0,
        "K" => base,
        "M" => base * base,
        "G" => base * base * base,
        "T" => base * base * base * base,
        _ => return None,
    })
}

fn rate_factor(unit: &str) -> Option<f64> {
    match unit.strip_suffix("bits/sec") {
        Some(before) => prefix(before, 1000.0),
        None => prefix(unit.strip_suffix("Bytes/sec")?, 1024.0).map(|factor| factor * 8.0),
    }
}

/// The rows of a test until now.
#[derive(Default)]
struct Test<'a> {
    rows: Vec<Row<'a>>,
    streams: std::collections::BTreeSet<&'a str>,
}

fn read_text(foreign: &mut Foreign, text: &str) {
    let mut now = Test::default();
    for line in text.lines() {
        let Some(row) = row(line) else {
            // Each test connects anew; iperf3 repeats the heading above the sums.
            if line.contains("Connecting to host") || line.starts_with("Client connecting") {
                finish(foreign, std::mem::take(&mut now));
            }
            foreign.leave("other lines", line);
            continue;
        };
        if row.stream != "SUM" {
            now.streams.insert(row.stream);
        }
        now.rows.push(row);
    }
    finish(foreign, now);
}

/// The run of a test: of several streams the sum, of sums those of sender and receiver, of iperf 2 the longest interval.
fn finish(foreign: &mut Foreign, test: Test) {
    if test.rows.is_empty() {
        return;
    }
    let several = test.streams.len() > 1;
    let mut run = ForeignRun { cell: ForeignCell::new("iperf"), ..ForeignRun::default() };
    run.cell.parameters.insert("streams".to_string(), test.streams.len().to_string());
    let longest = test.rows.iter().map(|row| row.to - row.from).fold(0.0, f64::max);
    let has_sides = test.rows.iter().any(|row| side(row).is_some());
    let mut totals = 0;
    for row in &test.rows {
        let is_total = if has_sides { side(row).is_some() } else { row.to - row.from >= longest };
        if several && row.stream != "SUM" {
            foreign.leave("single streams", &format!("1 1 1 1 {}", row.rest.join(" ")));
        } else if is_total {
            totals += 1;
            total(foreign, &mut run, row, side(row).unwrap_or("receiver"));
        } else {
            let mut sample = BTreeMap::new();
            put(foreign, &mut sample, ("iperf.sample.bits_per_s", "bit/s", Higher), Some(row.rate));
            put(foreign, &mut sample, ("iperf.sample.bytes", "B", Neither), Some(row.bytes));
            run.samples.push(sample);
            foreign.leave("numbers of intervals", &format!("1 1 {}", row.rest.join(" ")));
        }
    }
    if totals == 0 {
        run.failed = Some("the output has no total: was it interrupted?".to_string());
    }
    foreign.runs.push(run);
}

/// Whose total a row is.
fn side<'a>(row: &Row<'a>) -> Option<&'a str> {
    row.rest.last().copied().filter(|word| ["sender", "receiver"].contains(word))
}

fn total(foreign: &mut Foreign, run: &mut ForeignRun, row: &Row, side: &str) {
    let prefix = if side == "sender" { "iperf.sent_" } else { "iperf." };
    let name = |what: &str| format!("{prefix}{what}");
    let values = &mut run.values;
    put(foreign, values, (&name("bits_per_s"), "bit/s", Higher), Some(row.rate));
    put(foreign, values, (&name("bytes"), "B", Neither), Some(row.bytes));
    put(foreign, values, (&name("seconds"), "s", Neither), Some(row.to - row.from));
    let retransmits = row.rest.first().and_then(|word| word.parse::<f64>().ok());
    match row.rest[..] {
        // 0.012 ms  0/906 (0%)
        [jitter, "ms", lost, ..] => {
            put(foreign, values, (&name("jitter_ms"), "ms", Lower), jitter.parse().ok());
            let lost = lost.split('/').next().and_then(|lost| lost.parse().ok());
            put(foreign, values, (&name("lost_packets"), "1", Lower), lost);
            *foreign.unread.entry("packets and shares of lost ones".to_string()).or_default() += 2;
        }
        _ if side == "sender" => {
            put(foreign, values, ("iperf.retransmits", "1", Lower), retransmits);
        }
        _ => foreign.leave("other numbers", &row.rest.join(" ")),
    }
}
