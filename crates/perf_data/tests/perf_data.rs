//! Recordings of perf, read back; unreadable ones are refused with a message.

#[path = "perf_data/fuzzed.rs"]
mod fuzzed;
#[path = "perf_data/turned.rs"]
mod turned;

use std::path::{Path, PathBuf};

use perf_data::recognise;
use records::recording::Recording;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perf_data").join(name)
}

fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(fixture(name)).unwrap()
}

fn read(bytes: &[u8]) -> Result<Recording, String> {
    perf_data::read_alone(bytes).map_err(|error| format!("{error:#}"))
}

/// Names of the functions of the chain of some sample.
fn chain(recording: &Recording, sample: usize) -> Vec<&str> {
    let locations = recording.chains.locations(recording.samples[sample].chain);
    locations.iter().map(|location| recording.function(*location).name.as_str()).collect()
}

#[test]
fn a_recording_of_all_cpus_has_idle_and_busy_samples_of_both() {
    let recording = read(&bytes("all-cpus.data")).unwrap();
    assert!(recording.all_cpus);
    assert_eq!(recording.origin.cpus_online, Some(2));
    assert_eq!(recording.origin.architecture, "x86_64");
    assert_eq!((recording.event.name.as_str(), recording.event.is_clock), ("cpu-clock", true));
    assert_eq!(recording.event.hertz, Some(499));
    let cpus: std::collections::BTreeSet<u32> = recording.samples.iter().map(|s| s.cpu).collect();
    assert_eq!(cpus.into_iter().collect::<Vec<_>>(), [0, 1]);
    assert!(recording.tasks.iter().any(|task| task == "dd"));
    // A clock of 499 Hz.
    assert!(recording.samples.iter().all(|sample| sample.period == 2_004_008));
    assert!(recording.samples.is_sorted_by_key(|sample| sample.time_ns));
}

#[test]
fn without_symbols_addresses_stay_offsets_in_their_objects() {
    let recording = read(&bytes("dd-1.data")).unwrap();
    assert!(!recording.all_cpus);
    let all: Vec<Vec<&str>> = (0..recording.samples.len()).map(|s| chain(&recording, s)).collect();
    let starts =
        |prefix: &str| all.iter().flatten().filter(|name| name.starts_with(prefix)).count();
    for prefix in ["[kernel]+0x", "dd+0x", "libc.so.6+0x"] {
        assert!(starts(prefix) > 0, "{prefix}");
    }
    assert!(recording.functions.iter().all(|function| !function.known));
    let kernel = recording.samples.iter().map(|s| recording.chains.kernel_frames(s.chain)).max();
    assert!(kernel.unwrap() >= 3);
}

#[test]
fn of_several_events_the_clock_is_read_and_the_others_are_told() {
    let recording = read(&bytes("two-events.data")).unwrap();
    assert_eq!(recording.event.name, "cpu-clock");
    assert_eq!(recording.other_events.len(), 1);
    assert_eq!(recording.other_events[0].0, "page-faults");
}

#[test]
fn what_perf_wrote_to_a_pipe_is_read_too() {
    let recording = read(&bytes("pipe.data")).unwrap();
    assert_eq!(recording.event.name, "cpu-clock");
    assert!(recording.samples.len() > 10);
    assert!(recording.tasks.iter().any(|task| task == "dd"));

    // The formats of tracepoints come behind a record of 16 bytes that says their length.
    let plain = bytes("pipe.data");
    let (header, records) = plain.split_at(16);
    let formats = [&[66, 0, 0, 0, 0, 0, 16, 0, 24, 0, 0, 0, 0, 0, 0, 0][..], &[0xee; 24]].concat();
    let with_formats = [header, &formats, records].concat();
    assert_eq!(read(&with_formats).unwrap(), recording);

    let with_text = [&plain[..], b"100 requests in 2.5 s\n"].concat();
    let read = read(&with_text).unwrap();
    assert_eq!(read.samples, recording.samples);
    assert!(read.warnings.iter().any(|warning| warning.contains("last 22 bytes")));
}

#[test]
fn what_perf_compressed_is_read_too() {
    let recording = read(&bytes("compressed.data")).unwrap();
    assert_eq!((recording.event.name.as_str(), recording.samples.len()), ("cpu-clock", 17));
    assert!(recording.tasks.iter().any(|task| task == "dd"));
    let mut cut = bytes("compressed.data");
    let at = cut.windows(4).position(|four| four == b"\x28\xb5\x2f\xfd").unwrap();
    cut[at + 8] ^= 0xff;
    assert!(read(&cut).unwrap_err().contains("a compressed part"));
}

#[test]
fn a_recording_of_a_big_endian_host_says_the_same() {
    for name in ["dd-1.data", "all-cpus.data", "two-events.data"] {
        let (little, big) = (bytes(name), turned::around(&bytes(name)));
        assert_eq!(&big[..8], b"2ELIFREP");
        assert_eq!(read(&big).unwrap(), read(&little).unwrap(), "{name}");
    }
}

#[test]
fn symbols_come_from_a_file_that_the_user_names() {
    let plain = read(&bytes("dd-1.data")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // The recorded kernel began somewhere; a table of another boot is moved there.
    let table = folder.path().join("kallsyms");
    let text = "ffffffff80000000 T _text\nffffffff80000000 T everything_there_is\n";
    let far: String = (1..64)
        .map(|i| format!("{:x} t part_{i}\n", 0xffff_ffff_8000_0000_u64 + (i << 19)))
        .collect();
    std::fs::write(&table, format!("{text}{far}")).unwrap();
    let named = perf_data::open(&fixture("dd-1.data"), &[table]).unwrap();
    assert_eq!(named.samples.len(), plain.samples.len());
    let is_part = |name: &str| name.starts_with("part_") || name == "_text";
    assert!(named.functions.iter().any(|f| f.known && is_part(&f.name)), "{:?}", named.functions);
}

#[test]
fn what_cannot_be_read_is_refused_in_words() {
    let good = bytes("dd-1.data");
    let refused = |bytes: &[u8], words: &str| {
        let error = read(bytes).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    refused(&[], "it is empty");
    refused(b"#!/bin/sh\nexit 0\n and more text", "not a recording of perf");
    refused(&good[..10], "damaged");
    refused(&good[..good.len() / 2], "truncated or damaged");
    let mut foreign = good.clone();
    foreign[..8].copy_from_slice(b"2ELIFREP");
    refused(&foreign, "damaged: its header claims");
    let mut old = good.clone();
    old[..8].copy_from_slice(b"PERFFILE");
    refused(&old, "before 2010");
    let mut unfinished = good.clone();
    unfinished[48..56].fill(0);
    refused(&unfinished, "did not finish");
    // Where samples lie and how long they are; an attribute's length; the ids of an event.
    for at in [16, 24, 32, 40, 48] {
        let mut huge = good.clone();
        huge[at..at + 8].copy_from_slice(&(u64::MAX - 7).to_le_bytes());
        assert!(read(&huge).is_err(), "{at}");
    }
    assert!(recognise(&good) && recognise(&foreign) && !recognise(b"PERF"));
}
