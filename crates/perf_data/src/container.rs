//! The container of a recording: its header, the attributes of its events and the features
//! that describe its host. Lengths and offsets are checked against the file.

use anyhow::{Context, Result, bail, ensure};

use crate::attribute::Attribute;
use crate::order::ByteOrder;
use records::recording::Origin;

use crate::{damaged, printable};

/// Each file starts with this, read in its byte order.
const MAGIC: &[u8; 8] = b"PERFILE2";
const MAGIC_OF_BIG_ENDIAN: &[u8; 8] = b"2ELIFREP";
/// The first format, before 2010.
const MAGIC_OF_OLD: &[u8; 8] = b"PERFFILE";

/// Length of the header of a file; one written to a pipe has 16 bytes.
const HEADER_BYTES: u64 = 104;
const PIPE_HEADER_BYTES: u64 = 16;
/// More than any recording has.
const ATTRIBUTES_MAX: u64 = 4096;
/// Several times the length of any attribute of a kernel.
const ATTRIBUTE_BYTES_MAX: u64 = 4096;

/// Numbers of features (`HEADER_*` in tools/perf/util/header.h).
const BUILD_ID: u32 = 2;
const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CMDLINE: u32 = 11;
const EVENT_DESC: u32 = 12;

/// Whether a file with this start is a recording.
pub fn recognise(start: &[u8]) -> bool {
    [MAGIC, MAGIC_OF_BIG_ENDIAN, MAGIC_OF_OLD].iter().any(|magic| start.starts_with(&magic[..]))
}

/// The parts of a file: attributes, features and the bytes of the records.
#[derive(Debug, Default)]
pub struct Container<'a> {
    pub order: ByteOrder,
    /// The events; empty if they are among the records.
    pub attributes: Vec<Attribute>,
    pub records: &'a [u8],
    /// Whether perf wrote to a pipe, after whose records the output of the recorded program may follow.
    pub is_stream: bool,
    /// Facts about the host.
    pub features: Features,
}

/// Facts about the host that made the recording.
#[derive(Debug, Default)]
pub struct Features {
    pub origin: Origin,
    /// Build ids by path.
    pub build_ids: Vec<(Vec<u8>, Vec<u8>)>,
    /// Names of events, in the order of attributes.
    pub event_names: Vec<String>,
}

impl<'a> Container<'a> {
    /// Reads the header, attributes and features of a file.
    pub fn read(file: &'a [u8]) -> Result<Container<'a>> {
        ensure!(!file.is_empty(), "it is empty: was perf interrupted?");
        let order = order(file)?;
        match order.u64_at(file, 8).ok_or_else(|| damaged("it ends within its header"))? {
            // Attributes and features are among the records.
            PIPE_HEADER_BYTES => Ok(Container {
                order,
                records: &file[16..],
                is_stream: true,
                ..Container::default()
            }),
            HEADER_BYTES => Container::of_file(file, order),
            other => Err(damaged(format!("its header claims {other} bytes, not {HEADER_BYTES}"))),
        }
    }

    fn of_file(file: &'a [u8], order: ByteOrder) -> Result<Container<'a>> {
        let number =
            |at| order.u64_at(file, at).ok_or_else(|| damaged("it ends within its header"));
        let features = (72..104).step_by(8).map(number).collect::<Result<Vec<u64>>>()?;
        let (entry_bytes, attributes) = (number(16)?, Part::read(file, 24, order)?);
        let data = Part::read(file, 40, order)?;
        ensure!(data.size > 0, "perf did not finish writing it: was it killed?");
        let attributes = attributes.slice(file, "attributes")?;
        let records = data.slice(file, "samples")?;
        Ok(Container {
            order,
            attributes: crate::container::attributes(file, entry_bytes, attributes, order)?,
            records,
            is_stream: false,
            features: Features::of_file(file, &features, data.offset + data.size, order)
                .context("reading the features of its host")?,
        })
    }
}

/// The byte order of a recording. Refuses other files and formats.
fn order(file: &[u8]) -> Result<ByteOrder> {
    let begins_with = |magic: &[u8; 8]| file.starts_with(magic);
    if begins_with(MAGIC) {
        return Ok(ByteOrder::Little);
    }
    if begins_with(MAGIC_OF_BIG_ENDIAN) {
        return Ok(ByteOrder::Big);
    }
    if begins_with(MAGIC_OF_OLD) {
        bail!("it is in perf's format of before 2010, which is not supported");
    }
    bail!("it is not a recording of perf: those start with PERFILE2")
}

/// A part of the file.
#[derive(Clone, Copy)]
struct Part {
    offset: u64,
    size: u64,
}

impl Part {
    fn read(bytes: &[u8], at: usize, order: ByteOrder) -> Result<Part> {
        let number = |at| order.u64_at(bytes, at).ok_or_else(|| damaged("a number is truncated"));
        Ok(Part { offset: number(at)?, size: number(at + 8)? })
    }

    fn slice<'a>(self, file: &'a [u8], what: &str) -> Result<&'a [u8]> {
        let end = self.offset.checked_add(self.size).filter(|end| *end <= file.len() as u64);
        let end = end.with_context(|| {
            format!(
                "it is truncated or damaged: its {what} should be {} bytes from byte {}, but the \
                 file has {}; copy or record it again",
                self.size,
                self.offset,
                file.len()
            )
        })?;
        Ok(&file[self.offset as usize..end as usize])
    }
}

/// The attributes, each with the ids of its counters.
fn attributes(
    file: &[u8],
    entry_bytes: u64,
    table: &[u8],
    order: ByteOrder,
) -> Result<Vec<Attribute>> {
    /// Version 0 of the structure, and the part with its ids.
    const ENTRY_BYTES_MIN: u64 = 64 + 16;
    let sane = (ENTRY_BYTES_MIN..=ATTRIBUTE_BYTES_MAX).contains(&entry_bytes);
    ensure!(sane, damaged(format!("an attribute of {entry_bytes} bytes")));
    let count = table.len() as u64 / entry_bytes;
    ensure!(count <= ATTRIBUTES_MAX, damaged(format!("{count} events")));
    let attribute = |entry: &[u8]| {
        let (attribute, ids) = entry.split_at(entry.len() - 16);
        let ids = Part::read(ids, 0, order)?.slice(file, "ids")?;
        let attribute = Attribute::read(attribute, order);
        Ok(attribute.ok_or_else(|| damaged("a long attribute"))?.with_ids(ids))
    };
    table.chunks_exact(entry_bytes as usize).map(attribute).collect()
}

impl Features {
    /// Reads the features that are present; their table follows the records, in the order of the bits.
    fn of_file(file: &[u8], bits: &[u64], table_at: u64, order: ByteOrder) -> Result<Features> {
        let present = (0..256).filter(|bit| bits[*bit as usize / 64] >> (bit % 64) & 1 == 1);
        let mut features = Features::default();
        for (index, feature) in present.enumerate() {
            let entry = Part { offset: table_at + 16 * index as u64, size: 16 };
            let part = Part::read(entry.slice(file, "descriptions")?, 0, order)?;
            if Features::is_wanted(feature) {
                features.add(feature, part.slice(file, "descriptions")?, order);
            }
        }
        Ok(features)
    }

    fn is_wanted(feature: u32) -> bool {
        [BUILD_ID, HOSTNAME, OSRELEASE, ARCH, NRCPUS, CMDLINE, EVENT_DESC].contains(&feature)
    }

    /// Adds a feature. An unreadable feature counts as unknown: samples do not need it.
    pub fn add(&mut self, feature: u32, bytes: &[u8], order: ByteOrder) {
        let text = || string(&mut &bytes[..], order).map(printable).unwrap_or_default();
        match feature {
            BUILD_ID => self.build_ids = build_ids(bytes, order),
            HOSTNAME => self.origin.host = text(),
            OSRELEASE => self.origin.release = text(),
            ARCH => self.origin.architecture = text(),
            NRCPUS => self.origin.cpus_online = order.u32_at(bytes, 4),
            CMDLINE => self.origin.command = strings(bytes, order).unwrap_or_default(),
            EVENT_DESC => self.event_names = event_names(bytes, order).unwrap_or_default(),
            _ => {}
        }
    }
}

/// Reads a length and that many bytes; the text ends at the first zero.
fn string<'a>(rest: &mut &'a [u8], order: ByteOrder) -> Option<&'a [u8]> {
    let length = order.u32_at(rest, 0)? as usize;
    let all = rest.get(4..4_usize.checked_add(length)?)?;
    *rest = &rest[4 + length..];
    Some(until_zero(all))
}

fn strings(bytes: &[u8], order: ByteOrder) -> Option<Vec<String>> {
    let count = order.u32_at(bytes, 0)?;
    let mut rest = &bytes[4..];
    (0..count).map(|_| Some(printable(string(&mut rest, order)?))).collect()
}

/// Reads names of events: the number of events and the length of an attribute; then for each event its
/// attribute, the number of its ids, its name and the ids.
fn event_names(bytes: &[u8], order: ByteOrder) -> Option<Vec<String>> {
    let (count, length) = (order.u32_at(bytes, 0)?, order.u32_at(bytes, 4)? as usize);
    let mut rest = &bytes[8..];
    let mut name = || {
        rest = rest.get(length..)?;
        let ids = order.u32_at(rest, 0)? as usize;
        rest = &rest[4..];
        let name = printable(string(&mut rest, order)?);
        rest = rest.get(ids.checked_mul(8)?..)?;
        Some(name.trim_end_matches(['\0', ',', ' ']).to_string())
    };
    (0..count).map(|_| name()).collect()
}

/// Reads build ids: records of a header, a process, an id of 20 bytes in 24, and a path.
fn build_ids(mut bytes: &[u8], order: ByteOrder) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut all = Vec::new();
    while let Some(size) = order.u16_at(bytes, 6) {
        let record = bytes.get(..usize::from(size));
        let Some(build_id) = record.and_then(|record| build_id(record, order)) else { break };
        all.push(build_id);
        bytes = &bytes[usize::from(size)..];
    }
    all
}

/// The path and the id of one record, its header included.
pub fn build_id(record: &[u8], order: ByteOrder) -> Option<(Vec<u8>, Vec<u8>)> {
    /// The bit in the header's `misc` that makes byte 20 the length of the id.
    const SIZE_KNOWN: u16 = 1 << 15;
    let (id, path) = (record.get(12..36)?, record.get(36..)?);
    let is_known = order.u16_at(record, 4)? & SIZE_KNOWN != 0;
    let length = if is_known { usize::from(id[20]).min(20) } else { 20 };
    Some((until_zero(path).to_vec(), id[..length].to_vec()))
}

/// The bytes before the first zero.
pub fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
