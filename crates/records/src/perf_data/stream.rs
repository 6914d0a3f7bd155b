//! The records of a recording, as the parser behind gets them: one after the other, each of a
//! checked length, as if perf wrote them to a pipe. What that parser would believe blindly
//! (hardware traces with lengths of their own, compressed parts) never reaches it, and what it
//! would hold in memory at once is bounded.

use std::cell::RefCell;
use std::io::{self, Read};
use std::rc::Rc;

use super::container::{Container, Features, build_id, u64_at};

/// Types of records (`PERF_RECORD_*` in tools/lib/perf/include/perf/event.h). From 64 on they
/// are perf's own; below, the kernel's.
const OF_PERF: u32 = 64;
const HEADER_ATTR: u32 = 64;
const HEADER_BUILD_ID: u32 = 67;
const FINISHED_ROUND: u32 = 68;
const AUXTRACE: u32 = 71;
const HEADER_FEATURE: u32 = 80;
const COMPRESSED: u32 = 81;
const COMPRESSED_ALIGNED: u32 = 83;

const RECORD_HEADER_BYTES: usize = 8;
/// What a record takes in memory beside its bytes while a round is sorted.
const RECORD_OVERHEAD_BYTES: u64 = 96;
/// More than perf buffers between two marks, many times.
const ROUND_BYTES_MAX: u64 = 2 << 30;

/// What the stream met, for who reads its other end.
#[derive(Debug, Default)]
pub struct Met {
    /// Why it ended early.
    pub failure: Option<String>,
    /// What the stream itself told about the host.
    pub features: Features,
    /// Bytes of hardware traces that were left out.
    pub traces_bytes: u64,
}

/// The records, as a pipe.
pub struct Stream<R> {
    source: R,
    /// Bytes of records that are left; none where the source's end is theirs.
    left: Option<u64>,
    /// What the reader gets next, and how much of it it has.
    ready: Vec<u8>,
    given: usize,
    /// Memory that the records of the current round will take.
    round_bytes: u64,
    attributes_known: bool,
    met: Rc<RefCell<Met>>,
}

impl<R: Read> Stream<R> {
    /// The records behind a container. Features of the container go to what the stream met.
    pub fn new(source: R, container: Container) -> (Stream<R>, Rc<RefCell<Met>>) {
        let mut ready = b"PERFILE2".to_vec();
        ready.extend(16_u64.to_le_bytes());
        for attribute in &container.attributes {
            ready.extend(header(HEADER_ATTR, attribute.len() + RECORD_HEADER_BYTES));
            ready.extend(attribute);
        }
        let met = Met { features: container.features, ..Met::default() };
        let met = Rc::new(RefCell::new(met));
        let stream = Stream {
            source,
            left: container.data_bytes,
            ready,
            given: 0,
            round_bytes: 0,
            attributes_known: !container.attributes.is_empty(),
            met: met.clone(),
        };
        (stream, met)
    }

    /// Makes the next record ready that the parser should see; false at the end.
    fn refill(&mut self) -> Result<bool, String> {
        loop {
            let Some(kind) = self.next_record()? else { return Ok(false) };
            match kind {
                COMPRESSED | COMPRESSED_ALIGNED => {
                    return Err(
                        "it is compressed (perf record -z), which is not read: record without -z"
                            .to_string(),
                    );
                }
                AUXTRACE => self.skip_trace()?,
                HEADER_FEATURE => self.take_feature(),
                HEADER_BUILD_ID => self.take_build_id(),
                HEADER_ATTR if !self.attributes_known => return Ok(true),
                FINISHED_ROUND => {
                    self.round_bytes = 0;
                    return Ok(true);
                }
                OF_PERF.. => {}
                _ => return self.count_round().map(|()| true),
            }
        }
    }

    /// Reads one record whole; its type.
    fn next_record(&mut self) -> Result<Option<u32>, String> {
        let mut header = [0; RECORD_HEADER_BYTES];
        if self.left == Some(0) || (self.left.is_none() && at_end(&mut self.source, &mut header)?) {
            return Ok(None);
        }
        if self.left.is_some() {
            self.read_exact(&mut header)?;
        }
        let kind = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let size = usize::from(u16::from_le_bytes([header[6], header[7]]));
        if size < RECORD_HEADER_BYTES {
            return Err(format!("damaged: a record of {size} bytes"));
        }
        self.ready.clear();
        self.given = 0;
        self.ready.extend(header);
        self.ready.resize(size, 0);
        let mut body = std::mem::take(&mut self.ready);
        self.read_exact(&mut body[RECORD_HEADER_BYTES..])?;
        self.ready = body;
        Ok(Some(kind))
    }

    fn read_exact(&mut self, bytes: &mut [u8]) -> Result<(), String> {
        if let Some(left) = &mut self.left {
            *left = left
                .checked_sub(bytes.len() as u64)
                .ok_or("damaged: a record is longer than what is left")?;
        }
        self.source.read_exact(bytes).map_err(|_| "it is cut off within a record".to_string())
    }

    /// Leaves out the trace behind a record; its length is the first number.
    fn skip_trace(&mut self) -> Result<(), String> {
        let size = u64_at(&self.ready, RECORD_HEADER_BYTES).map_err(|error| error.to_string())?;
        if let Some(left) = &mut self.left {
            *left = left.checked_sub(size).ok_or("damaged: a trace is longer than the file")?;
        }
        let skipped = io::copy(&mut (&mut self.source).take(size), &mut io::sink());
        match skipped {
            Ok(skipped) if skipped == size => {
                self.met.borrow_mut().traces_bytes += size;
                Ok(())
            }
            _ => Err("it is cut off within a trace".to_string()),
        }
    }

    /// The number of a feature, then what it says.
    fn take_feature(&mut self) {
        let body = &self.ready[RECORD_HEADER_BYTES..];
        if let (Ok(number), Some(bytes)) = (u64_at(body, 0), body.get(8..))
            && let Ok(number) = u32::try_from(number)
        {
            self.met.borrow_mut().features.add(number, bytes);
        }
    }

    fn take_build_id(&mut self) {
        if self.ready.len() > 36 {
            self.met.borrow_mut().features.build_ids.push(build_id(&self.ready));
        }
    }

    fn count_round(&mut self) -> Result<(), String> {
        self.round_bytes += self.ready.len() as u64 + RECORD_OVERHEAD_BYTES;
        match self.round_bytes <= ROUND_BYTES_MAX {
            true => Ok(()),
            false => Err("it has no marks for sorting and is too large to be sorted at once: \
                          record for a shorter time"
                .to_string()),
        }
    }
}

impl<R: Read> Read for Stream<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.given == self.ready.len() {
            match self.refill() {
                Ok(true) => {}
                Ok(false) => return Ok(0),
                Err(failure) => {
                    self.met.borrow_mut().failure = Some(failure);
                    // At a record's start, where the parser takes an end for the end.
                    return Ok(0);
                }
            }
        }
        let bytes = (self.ready.len() - self.given).min(buffer.len());
        buffer[..bytes].copy_from_slice(&self.ready[self.given..self.given + bytes]);
        self.given += bytes;
        Ok(bytes)
    }
}

/// The header of a record of this length.
fn header(kind: u32, length: usize) -> [u8; RECORD_HEADER_BYTES] {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[..4].copy_from_slice(&kind.to_le_bytes());
    header[6..].copy_from_slice(&(length as u16).to_le_bytes());
    header
}

/// Reads a header where one may follow; true where nothing does.
fn at_end(source: &mut impl Read, header: &mut [u8]) -> Result<bool, String> {
    let mut read = 0;
    while read < header.len() {
        match source.read(&mut header[read..]) {
            Ok(0) if read == 0 => return Ok(true),
            Ok(0) => return Err("it is cut off within a record".to_string()),
            Ok(n) => read += n,
            Err(error) => return Err(error.to_string()),
        }
    }
    Ok(false)
}
