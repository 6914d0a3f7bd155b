//! The records of a recording, in the order of time. perf writes the records of each CPU in parts, so a
//! file has no overall order. A part may be compressed (`perf record -z`).
//!
//!     file: record record COMPRESSED record …        inflated: record record …
//!                 └───────────────┴──── by their times ────────┴─→ Events

use std::collections::HashMap;

use anyhow::{Context, Result, bail, ensure};
use zstd::stream::raw::{Decoder, InBuffer, Operation, OutBuffer};

use crate::attribute::Attribute;
use crate::container::{Container, Features, build_id};
use crate::damaged;
use crate::order::ByteOrder;

/// Types of records (`PERF_RECORD_*` in tools/lib/perf/include/perf/event.h). Types from 64
/// are perf's own; lower types are the kernel's.
const SAMPLE: u32 = 9;
const OF_PERF: u32 = 64;
const HEADER_ATTR: u32 = 64;
const HEADER_TRACING_DATA: u32 = 66;
const HEADER_BUILD_ID: u32 = 67;
const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED_WITH_SIZE: u32 = 83;
/// More than perf will have. Four bytes of a text are a greater number.
const KINDS_MAX: u32 = 1024;

const HEADER_BYTES: usize = 8;
/// Limits on decompressed data: its length, and the ratio to the compressed length.
const INFLATED_BYTES_MAX: usize = 4 << 30;
const INFLATED_TIMES_MAX: usize = 1000;

/// One record of the kernel.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Type of the record, below 64.
    pub kind: u32,
    /// Further bits of the header.
    pub misc: u16,
    /// The bytes after the header.
    pub body: &'a [u8],
}

/// The attributes and features of a recording, with an index of its records.
#[derive(Debug)]
pub struct Events<'a> {
    pub order: ByteOrder,
    pub attributes: Vec<Attribute>,
    pub features: Features,
    /// Bytes of hardware traces that were left out.
    pub traces_bytes: u64,
    /// Bytes behind the last record of a pipe: what the recorded program printed there.
    pub foreign_bytes: usize,
    is_stream: bool,
    /// Offset of the event's id in samples, and its distance from the end of other records.
    id_at: (Option<usize>, Option<usize>),
    by_id: HashMap<u64, usize>,
    /// Times of the records, and the records with their headers.
    records: Vec<(u64, &'a [u8])>,
}

impl<'a> Events<'a> {
    /// Reads all records of a container; `inflated` holds the decompressed ones.
    pub fn read(container: Container<'a>, inflated: &'a mut Vec<u8>) -> Result<Events<'a>> {
        let Container { order, attributes, records, is_stream, features } = container;
        let mut events = Events {
            order,
            id_at: (None, None),
            by_id: HashMap::new(),
            attributes,
            features,
            traces_bytes: 0,
            foreign_bytes: 0,
            is_stream,
            records: Vec::with_capacity(records.len() / 128),
        };
        let told_before = !events.attributes.is_empty();
        if told_before {
            events.know_ids()?;
        }
        let mut compressed = Vec::new();
        events.walk(records, told_before, Some(&mut compressed))?;
        inflate(&compressed, inflated)?;
        events.walk(inflated, true, None)?;
        ensure!(!events.attributes.is_empty(), damaged("it has no events"));
        // Stable: a file without times is in the order of time.
        events.records.sort_by_key(|(time, _)| *time);
        Ok(events)
    }

    /// All records of the kernel as (time, event, record).
    pub fn records(&self) -> impl Iterator<Item = (u64, usize, Record<'a>)> {
        self.records.iter().map(|(time, record)| {
            let record = whole(record, self.order);
            (*time, self.event(record), record)
        })
    }

    fn walk(
        &mut self,
        mut rest: &'a [u8],
        attributes_known: bool,
        mut compressed: Option<&mut Vec<&'a [u8]>>,
    ) -> Result<()> {
        while !rest.is_empty() {
            if self.is_stream && self.order.u32_at(rest, 0).is_none_or(|kind| kind > KINDS_MAX) {
                self.foreign_bytes = rest.len();
                break;
            }
            let record = next(&mut rest, self.order)?;
            let Record { kind, body, .. } = whole(record, self.order);
            match kind {
                ..OF_PERF => self.keep(record)?,
                HEADER_ATTR if !attributes_known => self.add_attribute(body)?,
                HEADER_FEATURE => self.add_feature(body),
                HEADER_BUILD_ID => self.features.build_ids.extend(build_id(record, self.order)),
                AUXTRACE => {
                    let size = self.order.u64_at(body, 0);
                    self.traces_bytes += skip_trace(size, &mut rest)?;
                }
                // The formats of tracepoints.
                HEADER_TRACING_DATA => {
                    skip_trace(self.order.u32_at(body, 0).map(u64::from), &mut rest)?;
                }
                COMPRESSED | COMPRESSED_WITH_SIZE => {
                    let part = match kind {
                        COMPRESSED => Some(body),
                        _ => body.split_at_checked(8).and_then(|(size, part)| {
                            part.get(..self.order.u64_at(size, 0)?.try_into().ok()?)
                        }),
                    };
                    let all = compressed.as_mut().context("compressed twice")?;
                    all.push(part.ok_or_else(|| damaged("a compressed part"))?);
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn keep(&mut self, record: &'a [u8]) -> Result<()> {
        let Record { kind, body, .. } = whole(record, self.order);
        let event = self.event(whole(record, self.order));
        let attribute = self.attributes.get(event).ok_or_else(|| damaged("it has no events"))?;
        self.records.push((attribute.time(kind == SAMPLE, body), record));
        Ok(())
    }

    /// Reads an attribute record: the attribute, then the ids of its counters.
    fn add_attribute(&mut self, body: &[u8]) -> Result<()> {
        let own = self.order.u32_at(body, 4).unwrap_or(0) as usize;
        let attribute = Attribute::read(body, self.order);
        let attribute = attribute.ok_or_else(|| damaged("a long attribute"))?;
        let ids = body.get(own..).unwrap_or_default();
        self.attributes.push(attribute.with_ids(ids));
        self.know_ids()
    }

    /// Reads a feature record: its number, then its contents.
    fn add_feature(&mut self, body: &[u8]) {
        if let (Some(number), Some(bytes)) = (self.order.u64_at(body, 0), body.get(8..))
            && let Ok(number) = u32::try_from(number)
        {
            self.features.add(number, bytes, self.order);
        }
    }

    /// Finds the offset of the ids by which the records of several events are distinguished.
    fn know_ids(&mut self) -> Result<()> {
        self.by_id.clear();
        for (index, attribute) in self.attributes.iter().enumerate() {
            self.by_id.extend(attribute.ids.iter().map(|id| (*id, index)));
        }
        let mut places = self.attributes.iter().map(Attribute::id_at);
        self.id_at = places.next().unwrap_or_default();
        if self.attributes.len() > 1
            && (self.id_at.0.is_none() || places.any(|at| at != self.id_at))
        {
            bail!("it has several events that cannot be distinguished: record one event");
        }
        Ok(())
    }

    fn event(&self, record: Record) -> usize {
        if self.attributes.len() < 2 {
            return 0;
        }
        let at = match record.kind {
            SAMPLE => self.id_at.0,
            _ => self.id_at.1.and_then(|back| record.body.len().checked_sub(back)),
        };
        let id = at.and_then(|at| self.order.u64_at(record.body, at));
        id.and_then(|id| self.by_id.get(&id).copied()).unwrap_or(0)
    }
}

/// Skips the data after a record that says their length. Returns that.
fn skip_trace(size: Option<u64>, rest: &mut &[u8]) -> Result<u64> {
    let size = size.ok_or_else(|| damaged("a trace without length"))?;
    let after = usize::try_from(size).ok().and_then(|size| rest.get(size..));
    *rest = after.context("it is truncated within a trace")?;
    Ok(size)
}

/// Splits the first record off.
fn next<'a>(rest: &mut &'a [u8], order: ByteOrder) -> Result<&'a [u8]> {
    let size = order.u16_at(rest, 6).context("it is truncated within a record")?;
    ensure!(usize::from(size) >= HEADER_BYTES, damaged(format!("a record of {size} bytes")));
    let parts = rest.split_at_checked(usize::from(size));
    let (record, after) = parts.context("it is truncated within a record")?;
    *rest = after;
    Ok(record)
}

/// The parts of a record whose header is complete.
fn whole(record: &[u8], order: ByteOrder) -> Record<'_> {
    let kind = order.u32_at(record, 0).unwrap_or_default();
    let misc = order.u16_at(record, 4).unwrap_or_default();
    Record { kind, misc, body: &record[HEADER_BYTES..] }
}

/// Decompresses parts: they are one stream, which perf flushes after each part and never ends.
fn inflate(parts: &[&[u8]], into: &mut Vec<u8>) -> Result<()> {
    const STEP_BYTES: usize = 1 << 17;
    if parts.is_empty() {
        return Ok(());
    }
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let most = length.saturating_mul(INFLATED_TIMES_MAX).min(INFLATED_BYTES_MAX);
    let mut decoder = Decoder::new().context("starting to decompress")?;
    for part in parts {
        let mut input = InBuffer::around(part);
        loop {
            let before = into.len();
            ensure!(before <= most, "it is too large when decompressed: record for a shorter time");
            into.resize(before + STEP_BYTES, 0);
            let mut output = OutBuffer::around(&mut into[before..]);
            let ran = decoder.run(&mut input, &mut output);
            let made = output.pos();
            into.truncate(before + made);
            ran.map_err(|error| damaged(format!("a compressed part: {error}")))?;
            if input.pos() == part.len() && made < STEP_BYTES {
                break;
            }
        }
    }
    Ok(())
}
