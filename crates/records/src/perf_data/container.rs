//! The container of a recording: its header, the attributes of its events and the features
//! that describe its host. Nothing is allocated for a length that the file only claims.

use std::io::{Read, Seek, SeekFrom};

use anyhow::{Context, Result, bail, ensure};

use super::{Origin, damaged, printable};

/// Each file starts with this, read in its byte order.
const MAGIC: &[u8; 8] = b"PERFILE2";
const MAGIC_OF_BIG_ENDIAN: &[u8; 8] = b"2ELIFREP";
/// The first format, before 2009.
const MAGIC_OF_OLD: &[u8; 8] = b"PERFFILE";

/// Length of the header of a file; one written to a pipe has 16 bytes.
const HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;
/// No host has so many CPUs and events at once.
const ATTRIBUTES_MAX: u64 = 4096;
/// Longer than any attribute that a kernel knows, several times.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;
/// Longer than any feature that is read here.
const FEATURE_BYTES_MAX: u64 = 64 << 20;

/// Numbers of features (`HEADER_*` in tools/perf/util/header.h).
pub const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CMDLINE: u32 = 11;
const EVENT_DESC: u32 = 12;
const WANTED: [u32; 7] = [BUILD_ID, HOSTNAME, OSRELEASE, ARCH, NRCPUS, CMDLINE, EVENT_DESC];

/// Whether a file that starts so is a recording.
pub fn recognise(start: &[u8]) -> bool {
    [MAGIC, MAGIC_OF_BIG_ENDIAN, MAGIC_OF_OLD].iter().any(|magic| start.starts_with(&magic[..]))
}

/// What is around the records.
#[derive(Debug, Default)]
pub struct Container {
    /// Attributes with the ids of their counters, as the bytes of `PERF_RECORD_HEADER_ATTR`.
    pub attributes: Vec<Vec<u8>>,
    /// Bytes of records that follow where the source stands; none where it is read to its end.
    pub data_bytes: Option<u64>,
    /// What is known of the host.
    pub features: Features,
}

/// What is known of the host that recorded.
#[derive(Debug, Default)]
pub struct Features {
    pub origin: Origin,
    /// Build ids by path.
    pub build_ids: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of events, in the order of attributes.
    pub event_names: Vec<String>,
}

impl Container {
    /// Reads what is around the records, and leaves the source at the first of them.
    pub fn read(source: &mut (impl Read + Seek)) -> Result<Container> {
        let length = source.seek(SeekFrom::End(0))?;
        source.seek(SeekFrom::Start(0))?;
        ensure!(length > 0, "it is empty: was perf interrupted?");
        let start = bytes(source, 16.min(length), length)?;
        check_magic(&start)?;
        ensure!(length >= 16, damaged("it ends within its header"));
        match u64_at(&start, 8)? {
            // Attributes and features are records of the stream.
            PIPE_HEADER_BYTES => Ok(Container::default()),
            HEADER_BYTES => Container::of_file(source, length),
            other => Err(damaged(format!("its header claims {other} bytes, not {HEADER_BYTES}"))),
        }
    }

    fn of_file(source: &mut (impl Read + Seek), length: u64) -> Result<Container> {
        source.seek(SeekFrom::Start(0))?;
        let header = bytes(source, HEADER_BYTES, length)?;
        let at = |offset| u64_at(&header, offset);
        let (entry_bytes, attributes, data) =
            (at(16)?, Part::read(&header, 24)?, Part::read(&header, 40)?);
        ensure!(data.size > 0, "perf did not finish writing it: was it killed?");
        attributes.check("attributes", length)?;
        data.check("samples", length)?;
        let attributes = self::attributes(source, entry_bytes, attributes, length)?;
        let features = Features::of_file(source, &header[72..], data.offset + data.size, length)
            .context("reading what it says about its host")?;
        source.seek(SeekFrom::Start(data.offset))?;
        Ok(Container { attributes, data_bytes: Some(data.size), features })
    }
}

/// Refuses what is something else, or cannot be read.
fn check_magic(start: &[u8]) -> Result<()> {
    let is = |magic: &[u8; 8]| start.starts_with(magic);
    match () {
        () if is(MAGIC) => Ok(()),
        () if is(MAGIC_OF_BIG_ENDIAN) => bail!(
            "it was recorded on a big-endian host, which is not read: `perf script` there writes text"
        ),
        () if is(MAGIC_OF_OLD) => bail!("it is in perf's format of before 2010, which is not read"),
        () => bail!("it is no recording of perf: those start with PERFILE2"),
    }
}

/// A part of the file.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    size: u64,
}

impl Part {
    fn read(bytes: &[u8], at: usize) -> Result<Part> {
        Ok(Part { offset: u64_at(bytes, at)?, size: u64_at(bytes, at + 8)? })
    }

    fn check(self, what: &str, length: u64) -> Result<()> {
        match self.offset.checked_add(self.size) {
            Some(end) if end <= length => Ok(()),
            _ => bail!(
                "it is cut off or damaged: its {what} are said to be {} bytes from byte {}, but \
                 the file has {length}; copy or record it again",
                self.size,
                self.offset
            ),
        }
    }
}

/// The attributes as records, each with the ids of its counters.
fn attributes(
    source: &mut (impl Read + Seek),
    entry_bytes: u64,
    part: Part,
    length: u64,
) -> Result<Vec<Vec<u8>>> {
    /// Version 0 of the structure, and the part with the ids behind it.
    const ENTRY_BYTES_MIN: u64 = 64 + 16;
    let sane = (ENTRY_BYTES_MIN..=ATTRIBUTE_BYTES_MAX).contains(&entry_bytes);
    ensure!(sane, damaged(format!("an attribute of {entry_bytes} bytes")));
    let count = part.size / entry_bytes;
    ensure!(count <= ATTRIBUTES_MAX, damaged(format!("{count} events")));
    source.seek(SeekFrom::Start(part.offset))?;
    let table = bytes(source, count * entry_bytes, length)?;
    let mut attributes = Vec::new();
    for entry in table.chunks_exact(entry_bytes as usize) {
        let (attribute, ids) = entry.split_at(entry.len() - 16);
        let ids = Part::read(ids, 0)?;
        ids.check("ids", length)?;
        source.seek(SeekFrom::Start(ids.offset))?;
        // The parser takes what is behind the attribute's own length for ids.
        let own = u32_at(attribute, 4)? as usize;
        let attribute = attribute.get(..own).ok_or_else(|| damaged("a long attribute"))?;
        let mut record = attribute.to_vec();
        let ids_bytes = ids.size / 8 * 8;
        ensure!(
            ids_bytes < u64::from(u16::MAX) - ATTRIBUTE_BYTES_MAX,
            "an event has {} counters, more than are read",
            ids.size / 8
        );
        record.extend(bytes(source, ids_bytes, length)?);
        attributes.push(record);
    }
    Ok(attributes)
}

impl Features {
    /// Reads those that are wanted; the table lies behind the records, in the order of the bits.
    fn of_file(
        source: &mut (impl Read + Seek),
        bits: &[u8],
        table_at: u64,
        length: u64,
    ) -> Result<Features> {
        let set = |bit: &u32| bits[*bit as usize / 8] >> (bit % 8) & 1 == 1;
        let present: Vec<u32> = (0..256).filter(set).collect();
        source.seek(SeekFrom::Start(table_at))?;
        let table = bytes(source, present.len() as u64 * 16, length)?;
        let mut features = Features::default();
        for (entry, feature) in table.chunks_exact(16).zip(present) {
            let part = Part::read(entry, 0)?;
            if WANTED.contains(&feature) {
                part.check("descriptions", length)?;
                source.seek(SeekFrom::Start(part.offset))?;
                ensure!(part.size <= FEATURE_BYTES_MAX, damaged("a description of its host"));
                features.add(feature, &bytes(source, part.size, length)?);
            }
        }
        Ok(features)
    }

    /// Takes in one. What cannot be read is not known; samples can be read without.
    pub fn add(&mut self, feature: u32, bytes: &[u8]) {
        let text = || string(&mut &bytes[..]).map(printable).unwrap_or_default();
        match feature {
            BUILD_ID => self.build_ids = build_ids(bytes),
            HOSTNAME => self.origin.host = text(),
            OSRELEASE => self.origin.release = text(),
            ARCH => self.origin.architecture = text(),
            NRCPUS => self.origin.cpus_online = u32_at(bytes, 4).ok(),
            CMDLINE => self.origin.command = strings(bytes).unwrap_or_default(),
            EVENT_DESC => self.event_names = event_names(bytes).unwrap_or_default(),
            _ => {}
        }
    }
}

/// A length and that many bytes, of which the text ends with the first zero.
fn string<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = u32_at(rest, 0).ok()? as usize;
    let all = rest.get(4..4_usize.checked_add(length)?)?;
    *rest = &rest[4 + length..];
    Some(until_zero(all))
}

fn strings(bytes: &[u8]) -> Option<Vec<String>> {
    let count = u32_at(bytes, 0).ok()?;
    let mut rest = &bytes[4..];
    (0..count).map(|_| Some(printable(string(&mut rest)?))).collect()
}

/// The number of events and the length of an attribute; of each an attribute, the number of
/// its ids, its name and the ids.
fn event_names(bytes: &[u8]) -> Option<Vec<String>> {
    let (count, length) = (u32_at(bytes, 0).ok()?, u32_at(bytes, 4).ok()? as usize);
    let mut rest = &bytes[8..];
    let mut name = || {
        rest = rest.get(length..)?;
        let ids = u32_at(rest, 0).ok()? as usize;
        rest = &rest[4..];
        let name = printable(string(&mut rest)?);
        rest = rest.get(ids.checked_mul(8)?..)?;
        Some(name.trim_end_matches(['\0', ',', ' ']).to_string())
    };
    (0..count).map(|_| name()).collect()
}

/// Records of a header, a process, an id of 20 bytes in 24, and a path.
fn build_ids(mut bytes: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(size) = bytes.get(6..8).map(|b| usize::from(u16::from_le_bytes([b[0], b[1]]))) {
        let Some(record) = bytes.get(..size).filter(|record| record.len() > 36) else { break };
        all.push(build_id(record));
        bytes = &bytes[size..];
    }
    all
}

/// The path and the id of one record, its header included.
pub fn build_id(record: &[u8]) -> (Vec<u8>, Vec<u8>) {
    /// The bit in the header's `misc` that tells that byte 20 is the length.
    const SIZE_KNOWN: u8 = 0x80;
    let id = &record[12..36];
    let length = if record[5] & SIZE_KNOWN != 0 { usize::from(id[20]).min(20) } else { 20 };
    (until_zero(&record[36..]).to_vec(), id[..length].to_vec())
}

/// What is before the first zero.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Reads so many bytes; of more than the file has, none.
fn bytes(source: &mut (impl Read + Seek), count: u64, length: u64) -> Result<Vec<u8>> {
    ensure!(count <= length, damaged(format!("{count} bytes in a file of {length}")));
    let mut bytes = vec![0; count as usize];
    source.read_exact(&mut bytes).context("it ends too early: was it cut off?")?;
    Ok(bytes)
}

/// A number of the file, which is little-endian.
pub fn u64_at(bytes: &[u8], at: usize) -> Result<u64> {
    let eight = bytes.get(at..at + 8).and_then(|b| b.try_into().ok());
    eight.map(u64::from_le_bytes).ok_or_else(|| damaged("a number is cut off"))
}

/// A shorter number of the file.
pub fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    let four = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
    four.map(u32::from_le_bytes).ok_or_else(|| damaged("a number is cut off"))
}
