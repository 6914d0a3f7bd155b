//! Hostile recordings of perf: small real ones, in both byte orders, whose records are cut, lengthened,
//! doubled, made others, and filled with numbers that readers trip over.

use std::fs;
use std::path::Path;

use fuzz::{Fuzzer, fuzz};
use records::recording::Recording;

use super::turned;

const REPLAY: &str = "cargo test -p perf_data";

/// Records that a small recording keeps of those with samples.
const SAMPLES: usize = 12;

#[test]
fn fuzzed_recordings_are_refused_or_read() {
    let examples = examples();
    for (index, example) in examples.iter().enumerate() {
        let recording = perf_data::read_alone(example);
        assert!(recording.is_ok(), "example {index} is no good to begin with: {recording:?}");
    }
    fuzz(10_000, &format!("{REPLAY} recordings"), |fuzzer| {
        let mut input = fuzzer.pick(&examples).clone();
        for _ in 0..=fuzzer.below(3) {
            damage(&mut input, fuzzer);
        }
        match perf_data::read_alone(&input) {
            Ok(recording) => use_recording(&recording),
            Err(error) if format!("{error:#}").is_empty() => Err("refused without a word".into()),
            Err(_) => Ok(()),
        }
    });
}

/// Recordings of perf, made small, and what is read in another way as it is.
fn examples() -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perf_data");
    let read = |name: &str| fs::read(folder.join(name)).expect("reading a recording");
    let mut examples: Vec<Vec<u8>> = ["all-cpus.data", "dd-64k.data", "two-events.data"]
        .map(|name| smaller(&read(name)))
        .to_vec();
    let turned: Vec<Vec<u8>> = examples.iter().map(|file| turned::around(file)).collect();
    examples.extend(turned);
    examples.extend(["pipe.data", "compressed.data"].map(read));
    examples
}

/// A file like `file` with few samples; what lies behind the records moves to the front.
fn smaller(file: &[u8]) -> Vec<u8> {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let (data, size) = (number(40), number(48));
    let (mut small, mut samples) = (file[..data].to_vec(), 0);
    for (at, length) in records(file, false) {
        let is_sample = file[at] == 9;
        samples += usize::from(is_sample);
        if !is_sample || samples <= SAMPLES {
            small.extend(&file[at..at + length]);
        }
    }
    let gone = data + size - small.len();
    let kept = (small.len() - data) as u64;
    small[48..56].copy_from_slice(&kept.to_le_bytes());
    let table = small.len();
    small.extend(&file[data + size..]);
    let features = (72..104).map(|at| file[at].count_ones() as usize).sum::<usize>();
    for at in (table..table + 16 * features).step_by(16) {
        let offset = u64::from_le_bytes(small[at..at + 8].try_into().unwrap()) - gone as u64;
        small[at..at + 8].copy_from_slice(&offset.to_le_bytes());
    }
    small
}

/// Where records begin, and how long they are, as far as they can be followed.
fn records(file: &[u8], is_big: bool) -> Vec<(usize, usize)> {
    let number = |at: usize| {
        let eight = file.get(at..at + 8)?.try_into().ok()?;
        usize::try_from(if is_big { u64::from_be_bytes(eight) } else { u64::from_le_bytes(eight) })
            .ok()
    };
    let (mut at, size) = match number(8) {
        Some(16) => (16, file.len() - 16),
        _ => (number(40).unwrap_or(0), number(48).unwrap_or(0)),
    };
    let end = at.saturating_add(size).min(file.len());
    let mut records = Vec::new();
    while let Some(length) = file.get(at.saturating_add(6)..at.saturating_add(8)) {
        let two = [length[0], length[1]];
        let length =
            usize::from(if is_big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) });
        if length < 8 || at + length > end {
            break;
        }
        records.push((at, length));
        at += length;
    }
    records
}

/// One damage: to a record as a whole, to a number in one, to any number, or a cut.
fn damage(input: &mut Vec<u8>, fuzzer: &mut Fuzzer) {
    /// Types of records that mean something to the reader.
    const KINDS: [u8; 18] = [1, 2, 3, 5, 7, 9, 10, 13, 17, 64, 67, 68, 71, 80, 81, 83, 4, 255];
    let is_big = input.starts_with(b"2ELIFREP");
    let records = records(input, is_big);
    let what = fuzzer.below(8);
    if what >= 6 || records.is_empty() {
        let reach = if fuzzer.below(2) == 0 { input.len().min(1024) } else { input.len() };
        return match what {
            7 => input.truncate(fuzzer.below(input.len() + 1)),
            _ => put_extreme(input, 0, reach, is_big, fuzzer),
        };
    }
    let (at, length) = *fuzzer.pick(&records);
    match what {
        0 => input[at + if is_big { 3 } else { 0 }] = *fuzzer.pick(&KINDS),
        1 => put_length(input, at, length, is_big, fuzzer),
        2 => {
            let (other, other_length) = *fuzzer.pick(&records);
            let common = length.min(other_length);
            input.copy_within(other..other + common, at);
        }
        _ => put_extreme(input, at, at + length, is_big, fuzzer),
    }
}

/// A record claims another length, of which the file's own may know.
fn put_length(input: &mut [u8], at: usize, length: usize, is_big: bool, fuzzer: &mut Fuzzer) {
    let lengths = [0, 7, 8, 9, 16, 40, length - 8, length + 8, 0xfff8, 0xffff];
    let length = *fuzzer.pick(&lengths) as u16;
    let bytes = if is_big { length.to_be_bytes() } else { length.to_le_bytes() };
    input[at + 6..at + 8].copy_from_slice(&bytes);
}

/// Writes a number that readers trip over into a part of the input.
fn put_extreme(input: &mut [u8], from: usize, to: usize, is_big: bool, fuzzer: &mut Fuzzer) {
    if to < from + 8 {
        return;
    }
    let at = from + fuzzer.below((to - from) / 8) * 8;
    let extremes = [
        0,
        1,
        7,
        8,
        0xff,
        0xffff,
        1 << 16,
        1 << 31,
        u64::MAX >> 32,
        1 << 40,
        1 << 63,
        u64::MAX - 127,
        u64::MAX - 7,
        u64::MAX,
    ];
    let number = *fuzzer.pick(&extremes);
    let bytes = if is_big { number.to_be_bytes() } else { number.to_le_bytes() };
    match fuzzer.below(3) {
        0 => input[at..at + 8].copy_from_slice(&bytes),
        1 => input[at + 4..at + 8].copy_from_slice(&bytes[..4]),
        _ => input[at..at + 4].copy_from_slice(&bytes[4..]),
    }
}

/// Whatever was read refers only to what is there, and names cannot steer a terminal.
fn use_recording(recording: &Recording) -> Result<(), String> {
    let (start, end) = recording.span_ns();
    if recording.samples.is_empty() || start > end {
        return Err("read, but without samples".to_string());
    }
    if !recording.samples.is_sorted_by_key(|sample| sample.time_ns) {
        return Err("samples in no order".to_string());
    }
    for sample in &recording.samples {
        let task = &recording.tasks[sample.task as usize];
        let locations = recording.chains.locations(sample.chain).iter();
        let mut names = locations.map(|location| &recording.function(*location).name).chain([task]);
        if let Some(name) = names.find(|name| name.contains(char::is_control)) {
            return Err(format!("a name that moves the cursor: {name:?}"));
        }
        if recording.chains.kernel_frames(sample.chain)
            > recording.chains.locations(sample.chain).len()
        {
            return Err("more frames in the kernel than frames".to_string());
        }
    }
    Ok(())
}
