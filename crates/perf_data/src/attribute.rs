//! The sampled event (`struct perf_event_attr` in include/uapi/linux/perf_event.h), and the offsets of
//! numbers in records, which depend on it.

use crate::order::ByteOrder;

/// Bits of `sample_type`.
const IDENTIFIER: u64 = 1 << 16;
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const ID: u64 = 1 << 6;
const STREAM_ID: u64 = 1 << 9;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
/// The numbers of fixed length in a sample, in their order.
const IN_SAMPLES: [u64; 9] = [IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD];
/// The numbers at the end of all other records, in their order.
const AT_ENDS: [u64; 6] = [TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER];
/// The parts of variable length that follow in a sample.
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;

/// Flags, as bits.
const FREQUENCY: u64 = 1 << 10;
const SAMPLE_ID_ALL: u64 = 1 << 18;

/// Length of version 0 of the structure.
pub const BYTES_MIN: usize = 64;

/// Kinds of events.
const HARDWARE: u32 = 0;
const SOFTWARE: u32 = 1;

/// An event that was sampled, and how.
#[derive(Clone, Debug, Default)]
pub struct Attribute {
    kind: u32,
    config: u64,
    period_or_hertz: u64,
    flags: u64,
    sample_type: u64,
    read_format: u64,
    order: ByteOrder,
    /// Ids of its counters.
    pub ids: Vec<u64>,
}

/// How often samples were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingRate {
    /// This many per second.
    Hertz(u64),
    /// One per this many events.
    Period(u64),
    /// No samples were taken.
    Never,
}

impl Attribute {
    /// Reads an attribute. Its second number is its length; later bytes do not belong to it.
    pub fn read(bytes: &[u8], order: ByteOrder) -> Option<Attribute> {
        let bytes = match order.u32_at(bytes, 4)? as usize {
            0 => bytes.get(..BYTES_MIN)?,
            own => bytes.get(..own.max(BYTES_MIN))?,
        };
        Some(Attribute {
            kind: order.u32_at(bytes, 0)?,
            config: order.u64_at(bytes, 8)?,
            period_or_hertz: order.u64_at(bytes, 16)?,
            sample_type: order.u64_at(bytes, 24)?,
            read_format: order.u64_at(bytes, 32)?,
            flags: order.bits(order.u64_at(bytes, 40)?),
            order,
            ids: Vec::new(),
        })
    }

    /// Adds the ids of the event's counters, eight bytes each.
    pub fn with_ids(self, ids: &[u8]) -> Attribute {
        Attribute { ids: self.order.u64s(ids).collect(), ..self }
    }

    /// How often samples were taken.
    pub fn rate(&self) -> SamplingRate {
        match self.period_or_hertz {
            0 => SamplingRate::Never,
            hertz if self.flags & FREQUENCY != 0 => SamplingRate::Hertz(hertz),
            period => SamplingRate::Period(period),
        }
    }

    /// Whether its unit is nanoseconds of CPU time.
    pub fn is_clock(&self) -> bool {
        self.kind == SOFTWARE && self.config <= 1
    }

    /// A name of the event, for files that have none.
    pub fn name(&self) -> &'static str {
        const HARDWARE_NAMES: [&str; 10] = [
            "cycles",
            "instructions",
            "cache-references",
            "cache-misses",
            "branches",
            "branch-misses",
            "bus-cycles",
            "stalled-cycles-frontend",
            "stalled-cycles-backend",
            "ref-cycles",
        ];
        let known = match (self.kind, self.config) {
            (SOFTWARE, 0) => Some("cpu-clock"),
            (SOFTWARE, 1) => Some("task-clock"),
            (HARDWARE, config) => HARDWARE_NAMES.get((config & 0xff) as usize).copied(),
            _ => None,
        };
        known.unwrap_or("an event without a name")
    }

    /// Whether samples record how many events they stand for.
    pub fn has_periods(&self) -> bool {
        self.sample_type & PERIOD != 0
    }

    /// The offset of the event's id in a sample, and its distance from the end of other records.
    pub fn id_at(&self) -> (Option<usize>, Option<usize>) {
        let id = if self.sample_type & IDENTIFIER != 0 { IDENTIFIER } else { ID };
        (self.in_samples(id), self.at_ends(id))
    }

    /// When a record was written; 0 if it has no time.
    pub fn time(&self, is_sample: bool, body: &[u8]) -> u64 {
        let offset = if is_sample {
            self.in_samples(TIME)
        } else {
            self.at_ends(TIME).and_then(|distance| body.len().checked_sub(distance))
        };
        let time = offset.and_then(|offset| self.order.u64_at(body, offset)).unwrap_or(0);
        // perf writes this value where it knows no time; such records sort before all others.
        if time == u64::MAX { 0 } else { time }
    }

    /// Reads a sample; its chain stays as bytes.
    pub fn sample<'a>(&self, body: &'a [u8]) -> Option<Sampled<'a>> {
        let order = self.order;
        let number = |field| self.in_samples(field).and_then(|at| order.u64_at(body, at));
        let half = |field, offset: usize| {
            self.in_samples(field).and_then(|at| order.u32_at(body, at + offset))
        };
        let mut at = 8 * IN_SAMPLES.iter().filter(|field| self.sample_type & **field != 0).count();
        body.get(..at)?;
        if self.sample_type & READ != 0 {
            at += self.read_bytes(body, at)?;
        }
        let mut chain: &[u8] = &[];
        if self.sample_type & CALLCHAIN != 0 {
            let bytes = usize::try_from(order.u64_at(body, at)?).ok()?.checked_mul(8)?;
            chain = body.get(at + 8..(at + 8).checked_add(bytes)?)?;
        }
        Some(Sampled {
            ip: number(IP),
            pid: half(TID, 0).map(|pid| pid as i32),
            tid: half(TID, 4).map(|tid| tid as i32),
            cpu: half(CPU, 0),
            period: number(PERIOD),
            chain,
        })
    }

    /// The offset of a number in a sample.
    fn in_samples(&self, field: u64) -> Option<usize> {
        let before = IN_SAMPLES.iter().take_while(|other| **other != field);
        let before = before.filter(|other| self.sample_type & **other != 0).count();
        (self.sample_type & field != 0).then_some(8 * before)
    }

    /// The distance of a number from the end of any other record.
    fn at_ends(&self, field: u64) -> Option<usize> {
        let from = AT_ENDS.iter().skip_while(|other| **other != field);
        let from = from.filter(|other| self.sample_type & **other != 0).count();
        let has = self.flags & SAMPLE_ID_ALL != 0 && self.sample_type & field != 0;
        has.then_some(8 * from)
    }

    /// The length of the counter values at an offset of a sample.
    fn read_bytes(&self, body: &[u8], at: usize) -> Option<usize> {
        const TOTAL_TIMES: u64 = 1 | 2;
        const GROUP: u64 = 1 << 3;
        const ID_AND_LOST: u64 = 1 << 2 | 1 << 4;
        let ones = |bits: u64| (self.read_format & bits).count_ones() as usize;
        let each = 1 + ones(ID_AND_LOST);
        let words = if self.read_format & GROUP == 0 {
            each + ones(TOTAL_TIMES)
        } else {
            let values = usize::try_from(self.order.u64_at(body, at)?).ok()?;
            values.checked_mul(each)?.checked_add(1 + ones(TOTAL_TIMES))?
        };
        words.checked_mul(8).filter(|bytes| *bytes <= body.len())
    }
}

/// A sample with the fields that the file has.
#[derive(Clone, Copy, Debug)]
pub struct Sampled<'a> {
    pub ip: Option<u64>,
    pub pid: Option<i32>,
    pub tid: Option<i32>,
    pub cpu: Option<u32>,
    pub period: Option<u64>,
    /// Addresses of eight bytes, innermost first.
    pub chain: &'a [u8],
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute(sample_type: u64, read_format: u64) -> Attribute {
        Attribute { sample_type, read_format, flags: SAMPLE_ID_ALL, ..Attribute::default() }
    }

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_lie_behind_those_that_a_sample_has_too() {
        let all = attribute(IDENTIFIER | IP | TID | TIME | CPU | PERIOD | READ | CALLCHAIN, 7);
        let body = words(&[5, 0xffff, 7 | 8 << 32, 1000, 3, 250, 1, 2, 3, 4, 2, 0xa, 0xb]);
        assert_eq!(all.time(true, &body), 1000);
        let sample = all.sample(&body).unwrap();
        assert_eq!((sample.ip, sample.pid, sample.tid), (Some(0xffff), Some(7), Some(8)));
        assert_eq!((sample.cpu, sample.period), (Some(3), Some(250)));
        assert_eq!(sample.chain, words(&[0xa, 0xb]));
        assert!((0..body.len()).all(|cut| all.sample(&body[..cut]).is_none()));
        let group = attribute(READ | CALLCHAIN, 1 << 3 | 1 << 2);
        let sample = words(&[2, 10, 11, 20, 21, 1, 0xc]);
        assert_eq!(group.sample(&sample).unwrap().chain, words(&[0xc]));
        assert!(group.sample(&words(&[u64::MAX, 1, 1])).is_none());
    }

    #[test]
    fn other_records_end_with_the_same_numbers_in_another_order() {
        let all = attribute(IDENTIFIER | TID | TIME | CPU, 0);
        assert_eq!(all.time(false, &words(&[99, 7, 1000, 3, 5])), 1000);
        assert_eq!(all.id_at(), (Some(0), Some(8)));
        assert_eq!(all.time(false, &words(&[5])), 0);
        let plain = Attribute { flags: 0, ..all };
        assert_eq!(plain.time(false, &words(&[99, 7, 1000, 3, 5])), 0);
    }
}
