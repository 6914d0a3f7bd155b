//! A recording as a big-endian host would have written it: every number turned around where it
//! stands, and the flags of events, which are single bits. For files of `perf record` with
//! `IDENTIFIER`-less or `IDENTIFIER` samples of fixed numbers and a chain.

/// A file turned into the other byte order.
pub fn around(file: &[u8]) -> Vec<u8> {
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().unwrap()) as usize;
    let mut turned = Turned { bytes: file.to_vec() };
    // The header: magic, sizes, three parts, 256 bits of features.
    turned.words(0, 104);
    let (entry, attributes, data) =
        (number(16), (number(24), number(32)), (number(40), number(48)));
    let first = Attribute::read(&file[attributes.0..]);
    for at in (attributes.0..attributes.0 + attributes.1).step_by(entry) {
        turned.attribute(at);
        turned.words(at + entry - 16, at + entry);
        let ids = (number(at + entry - 16), number(at + entry - 8));
        turned.words(ids.0, ids.0 + ids.1);
    }
    let mut at = data.0;
    while at < data.0 + data.1 {
        let size = usize::from(u16::from_le_bytes([file[at + 6], file[at + 7]]));
        turned.record(at, size, &first);
        at += size;
    }
    let features: Vec<usize> =
        (0..256).filter(|bit| file[72 + bit / 8] >> (bit % 8) & 1 == 1).collect();
    for (index, feature) in features.into_iter().enumerate() {
        let entry = data.0 + data.1 + 16 * index;
        turned.words(entry, entry + 16);
        turned.feature(feature, number(entry), number(entry + 8));
    }
    turned.bytes
}

/// What says where a record's numbers are.
struct Attribute {
    sample_type: u64,
}

impl Attribute {
    fn read(bytes: &[u8]) -> Attribute {
        Attribute { sample_type: u64::from_le_bytes(bytes[24..32].try_into().unwrap()) }
    }

    fn has(&self, bit: u32) -> bool {
        self.sample_type >> bit & 1 == 1
    }
}

struct Turned {
    bytes: Vec<u8>,
}

impl Turned {
    fn turn(&mut self, at: usize, bytes: usize) {
        self.bytes[at..at + bytes].reverse();
    }

    fn words(&mut self, from: usize, to: usize) {
        (from..to).step_by(8).for_each(|at| self.turn(at, 8));
    }

    fn halves(&mut self, from: usize, to: usize) {
        (from..to).step_by(4).for_each(|at| self.turn(at, 4));
    }

    /// Kind, size, config, period, sample type, read format, flags; the rest is not looked at.
    fn attribute(&mut self, at: usize) {
        self.halves(at, at + 8);
        self.words(at + 8, at + 48);
        let flags = u64::from_be_bytes(self.bytes[at + 40..at + 48].try_into().unwrap());
        self.bytes[at + 40..at + 48].copy_from_slice(&flags.reverse_bits().to_be_bytes());
    }

    fn record(&mut self, at: usize, size: usize, attribute: &Attribute) {
        let header = &self.bytes[at..at + 8];
        let (kind, misc) = (header[0], u16::from_le_bytes([header[4], header[5]]));
        self.halves(at, at + 4);
        (at + 4..at + 8).step_by(2).for_each(|at| self.turn(at, 2));
        let (body, end) = (at + 8, at + size);
        let pairs = |bit| u64::from(attribute.has(bit)) as usize * 8;
        let trailer = pairs(1) + pairs(2) + pairs(6) + pairs(7) + pairs(9) + pairs(16);
        match kind {
            9 => return self.sample(body, end, attribute),
            64.. => return,
            1 | 10 => {
                self.halves(body, body + 8);
                self.words(body + 8, body + 32);
                if kind == 10 {
                    if misc & 1 << 14 == 0 {
                        self.halves(body + 32, body + 40);
                        self.words(body + 40, body + 56);
                    }
                    self.halves(body + 56, body + 64);
                }
            }
            3 => self.halves(body, body + 8),
            17 => {
                self.turn(body, 8);
                self.turn(body + 8, 4);
                (body + 12..body + 16).step_by(2).for_each(|at| self.turn(at, 2));
            }
            4 | 7 => {
                self.halves(body, body + 16);
                self.turn(body + 16, 8);
            }
            _ => self.words(body, end - trailer),
        }
        self.fields(end - trailer, &[1, 2, 6, 9, 7, 16], attribute);
    }

    /// Numbers of samples, in this order where they are there; pairs of halves are 1 and 7.
    fn fields(&mut self, mut at: usize, bits: &[u32], attribute: &Attribute) -> usize {
        for bit in bits.iter().filter(|bit| attribute.has(**bit)) {
            match bit {
                1 | 7 => self.halves(at, at + 8),
                _ => self.turn(at, 8),
            }
            at += 8;
        }
        at
    }

    fn sample(&mut self, body: usize, end: usize, attribute: &Attribute) {
        assert!(!attribute.has(4), "values of counters are not turned");
        let chain = self.fields(body, &[16, 0, 1, 2, 3, 6, 9, 7, 8], attribute);
        if attribute.has(5) {
            self.words(chain, end);
        }
    }

    /// Those that are read: build ids, lengths of texts, numbers of CPUs, events.
    fn feature(&mut self, feature: usize, at: usize, size: usize) {
        let number = |bytes: &[u8], at: usize| {
            u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
        };
        let original = self.bytes.clone();
        match feature {
            2 => {
                let mut record = at;
                while record < at + size {
                    let length = usize::from(u16::from_le_bytes([
                        original[record + 6],
                        original[record + 7],
                    ]));
                    self.halves(record, record + 4);
                    (record + 4..record + 8).step_by(2).for_each(|at| self.turn(at, 2));
                    record += length;
                }
            }
            3 | 4 | 6 => self.turn(at, 4),
            7 => self.halves(at, at + 8),
            11 => {
                self.turn(at, 4);
                let mut text = at + 4;
                for _ in 0..number(&original, at) {
                    self.turn(text, 4);
                    text += 4 + number(&original, text);
                }
            }
            12 => {
                self.halves(at, at + 8);
                let (count, length) = (number(&original, at), number(&original, at + 4));
                let mut event = at + 8;
                for _ in 0..count {
                    let ids = event + length;
                    self.halves(ids, ids + 8);
                    let name = number(&original, ids + 4);
                    event = ids + 8 + name + 8 * number(&original, ids);
                }
            }
            _ => {}
        }
    }
}
