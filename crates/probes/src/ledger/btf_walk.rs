//! Members of the kernel's structures by offset, from its own types (BTF): which lock lies at an
//! offset of an object.
//!
//! Format: Documentation/bpf/btf.rst in the kernel's source. What it claims is not believed: types
//! that refer to each other in circles, or structures within themselves, end the search.

use std::cell::Cell;
use std::fs;

/// Types that are waited for.
const LOCKS: &[&str] = &[
    "arch_rwlock_t",
    "mutex",
    "percpu_rw_semaphore",
    "qrwlock",
    "qspinlock",
    "raw_spinlock",
    "rt_mutex",
    "rw_semaphore",
    "rwlock_t",
    "spinlock",
];

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;

/// Kinds of types that are followed.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const TYPE_TAG: u32 = 18;

/// The types of a kernel.
#[derive(Debug)]
pub struct Types {
    bytes: Vec<u8>,
    /// Where each type begins, by its number; 0 is no type.
    types: Vec<usize>,
    /// Where names begin and end.
    names: (usize, usize),
}

#[derive(Clone, Copy, Debug)]
struct Type {
    name: u32,
    info: u32,
    size_or_type: u32,
    /// Where what follows it begins.
    after: usize,
}

impl Type {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn parts(self) -> usize {
        (self.info & 0xffff) as usize
    }
}

impl Types {
    /// Those of the running kernel, if it tells them.
    pub fn of_kernel() -> Option<Types> {
        Types::parse(fs::read("/sys/kernel/btf/vmlinux").ok()?).ok()
    }

    /// Reads the types' places. They are in the byte order of this host.
    pub fn parse(bytes: Vec<u8>) -> Result<Types, String> {
        let number = |at| word(&bytes, at).map(|n| n as usize).ok_or("it ends in its header");
        let magic = bytes.get(..2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
        match magic {
            Some(MAGIC) => {}
            Some(magic) if magic == MAGIC.swap_bytes() => {
                return Err("it is of a host of another byte order".to_string());
            }
            _ => return Err("it is no BTF".to_string()),
        }
        let header = number(4)?;
        if header < HEADER_BYTES {
            return Err(format!("its header claims {header} bytes"));
        }
        let part = |offset: usize, length: usize| {
            let start = header.checked_add(offset)?;
            let end = start.checked_add(length).filter(|end| *end <= bytes.len())?;
            Some((start, end))
        };
        let types = part(number(8)?, number(12)?).ok_or("its types are cut off")?;
        let names = part(number(16)?, number(20)?).ok_or("its names are cut off")?;
        let (mut at, mut places) = (types.0, vec![0]);
        while at < types.1 {
            let info = word(&bytes[..types.1], at + 4).ok_or("a type is cut off")?;
            places.push(at);
            at += TYPE_BYTES + length_behind(info).ok_or("a kind of types that is not known")?;
        }
        if at != types.1 {
            return Err("a type is cut off".to_string());
        }
        Ok(Types { bytes, types: places, names })
    }

    fn get(&self, number: u32) -> Option<Type> {
        let at = *self.types.get(number as usize).filter(|_| number > 0)?;
        let word = |offset| word(&self.bytes, at + offset);
        let (name, info, size_or_type) = (word(0)?, word(4)?, word(8)?);
        Some(Type { name, info, size_or_type, after: at + TYPE_BYTES })
    }

    fn name(&self, offset: u32) -> &str {
        let names = &self.bytes[self.names.0..self.names.1];
        let name = names.get(offset as usize..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    /// Past names and qualifiers of a type, as far as they lead somewhere.
    fn plain(&self, mut number: u32) -> Option<Type> {
        /// Longer chains are circles.
        const STEPS_MAX: usize = 64;
        for _ in 0..STEPS_MAX {
            let found = self.get(number)?;
            match found.kind() {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => number = found.size_or_type,
                _ => return Some(found),
            }
        }
        None
    }

    /// Structures of `size` bytes that have a lock at `offset`, each with the path to it.
    pub fn locks_at(&self, size: u64, offset: u64) -> Vec<(String, String)> {
        /// More than any kernel needs; structures that contain themselves need any number.
        const STEPS_MAX: u32 = 1 << 20;
        let steps = Cell::new(STEPS_MAX);
        let mut found = Vec::new();
        for number in 1..self.types.len() as u32 {
            let structure = self.get(number).filter(|found| found.kind() == STRUCT);
            let Some(structure) = structure.filter(|s| u64::from(s.size_or_type) == size) else {
                continue;
            };
            let name = self.name(structure.name);
            if name.is_empty() {
                continue;
            }
            if let Some(path) = self.path(number, offset, 0, &steps) {
                found.push((name.to_string(), path));
            }
        }
        found.sort();
        found.dedup();
        found
    }

    /// "mmap_lock.wait_lock" of a structure, if a lock begins at `offset`.
    fn path(&self, of: u32, offset: u64, depth: usize, steps: &Cell<u32>) -> Option<String> {
        /// Deeper than any structure of the kernel.
        const DEPTH_MAX: usize = 12;
        const MEMBER_BYTES: usize = 12;
        let whole = self.plain(of).filter(|whole| matches!(whole.kind(), STRUCT | UNION))?;
        if depth > DEPTH_MAX || offset >= u64::from(whole.size_or_type) {
            return None;
        }
        let has_bit_fields = whole.info >> 31 == 1;
        (0..whole.parts()).find_map(|part| {
            steps.set(steps.get().checked_sub(1)?);
            let at = whole.after + part * MEMBER_BYTES;
            let (name, member, place) =
                (word(&self.bytes, at)?, word(&self.bytes, at + 4)?, word(&self.bytes, at + 8)?);
            if has_bit_fields && place >> 24 != 0 {
                return None;
            }
            let bits = if has_bit_fields { place & 0x00ff_ffff } else { place };
            let inner = offset.checked_sub(u64::from(bits) / 8)?;
            let name = self.name(name);
            if inner == 0 && self.is_lock(member) {
                return Some(name.to_string());
            }
            let below = self.path(member, inner, depth + 1, steps)?;
            Some(if name.is_empty() { below } else { format!("{name}.{below}") })
        })
    }

    fn is_lock(&self, number: u32) -> bool {
        let is_named = |found: Type| LOCKS.contains(&self.name(found.name));
        let own = self.get(number).is_some_and(is_named);
        own || self.plain(number).is_some_and(|plain| plain.kind() == STRUCT && is_named(plain))
    }
}

/// Bytes that follow a type of a kind with so many parts.
fn length_behind(info: u32) -> Option<usize> {
    let parts = (info & 0xffff) as usize;
    Some(match info >> 24 & 0x1f {
        // Integers, variables, tags of declarations.
        1 | 14 | 17 => 4,
        // Arrays.
        3 => 12,
        // Structures, unions, sections, enumerations of 64 bits.
        4 | 5 | 15 | 19 => 12 * parts,
        // Enumerations, prototypes.
        6 | 13 => 8 * parts,
        // What has a name and refers to another type at most.
        2 | 7..=12 | 16 | 18 => 0,
        _ => return None,
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
    Some(u32::from_ne_bytes(four))
}

#[cfg(test)]
mod tests;
