//! Members of the kernel's structures by offset, from its own types (BTF): which lock is at an
//! offset of an object.
//!
//! Format: Documentation/bpf/btf.rst in the kernel's source. The data is not trusted: the search
//! ends even if types refer to each other in circles or structures contain themselves.

mod alike;
mod members;
mod modules;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs;

pub use alike::is_called_like;
pub use members::{Member, Structure};

/// Types of locks.
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

/// The kinds of types that the search follows.
const STRUCT: u32 = 4;
const UNION: u32 = 5;
const TYPEDEF: u32 = 8;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const RESTRICT: u32 = 11;
const TYPE_TAG: u32 = 18;

/// The types of a kernel, and of modules that were added.
#[derive(Debug)]
pub struct KernelTypes {
    /// The types, one after the other.
    bytes: Vec<u8>,
    /// The offset of each type, by its number; 0 is no type.
    types: Vec<usize>,
    /// The names, each with a zero byte at its end.
    names: Vec<u8>,
    /// The numbers of types and the bytes of names that are the kernel's own.
    own: (u32, u32),
    /// The modules whose types were added.
    modules: BTreeSet<String>,
}

#[derive(Clone, Copy, Debug)]
struct TypeEntry {
    name: u32,
    info: u32,
    size_or_type: u32,
    /// The offset of the data that follows the type.
    after: usize,
}

impl TypeEntry {
    fn kind(self) -> u32 {
        self.info >> 24 & 0x1f
    }

    fn parts(self) -> usize {
        (self.info & 0xffff) as usize
    }
}

impl KernelTypes {
    /// The types of the running kernel, if it has them.
    pub fn from_kernel() -> Option<KernelTypes> {
        KernelTypes::parse(fs::read("/sys/kernel/btf/vmlinux").ok()?).ok()
    }

    /// Parses BTF in this host's byte order.
    pub fn parse(bytes: Vec<u8>) -> Result<KernelTypes, String> {
        let (types, names) = sections(&bytes)?;
        let offsets: Vec<usize> = [0].into_iter().chain(entries(types)?).collect();
        Ok(KernelTypes {
            own: (offsets.len() as u32, names.len() as u32),
            bytes: types.to_vec(),
            types: offsets,
            names: names.to_vec(),
            modules: BTreeSet::new(),
        })
    }

    fn get(&self, number: u32) -> Option<TypeEntry> {
        let start = *self.types.get(number as usize).filter(|_| number > 0)?;
        let word = |offset| word(&self.bytes, start + offset);
        let (name, info, size_or_type) = (word(0)?, word(4)?, word(8)?);
        Some(TypeEntry { name, info, size_or_type, after: start + TYPE_BYTES })
    }

    fn name(&self, offset: u32) -> &str {
        let name = self.names.get(offset as usize..).unwrap_or_default();
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        std::str::from_utf8(name).unwrap_or_default()
    }

    /// The type behind typedefs and qualifiers, if there is one.
    fn resolve(&self, mut number: u32) -> Option<TypeEntry> {
        /// Longer chains are circles.
        const STEPS_MAX: usize = 64;
        for _ in 0..STEPS_MAX {
            let entry = self.get(number)?;
            match entry.kind() {
                TYPEDEF | VOLATILE | CONST | RESTRICT | TYPE_TAG => number = entry.size_or_type,
                _ => return Some(entry),
            }
        }
        None
    }

    /// Structures of `size` bytes that have a lock at `offset`, each with the path to it.
    pub fn locks_at(&self, size: u64, offset: u64) -> Vec<(String, String)> {
        /// More than any kernel needs; structures that contain themselves need any number.
        const STEPS_MAX: u32 = 1 << 20;
        let steps = Cell::new(STEPS_MAX);
        let mut locks = Vec::new();
        for number in 1..self.types.len() as u32 {
            let structure = self.get(number).filter(|entry| entry.kind() == STRUCT);
            let Some(structure) = structure.filter(|s| u64::from(s.size_or_type) == size) else {
                continue;
            };
            let name = self.name(structure.name);
            if name.is_empty() {
                continue;
            }
            if let Some(path) = self.path(number, offset, 0, &steps) {
                locks.push((name.to_string(), path));
            }
        }
        locks.sort();
        locks.dedup();
        locks
    }

    /// The path in a type to the lock that begins at `offset`, for example
    /// "mmap_lock.wait_lock".
    fn path(&self, number: u32, offset: u64, depth: usize, steps: &Cell<u32>) -> Option<String> {
        /// Deeper than any structure of the kernel.
        const DEPTH_MAX: usize = 12;
        const MEMBER_BYTES: usize = 12;
        let whole = self.resolve(number).filter(|whole| matches!(whole.kind(), STRUCT | UNION))?;
        if depth > DEPTH_MAX || offset >= u64::from(whole.size_or_type) {
            return None;
        }
        let has_bit_fields = whole.info >> 31 == 1;
        (0..whole.parts()).find_map(|part| {
            steps.set(steps.get().checked_sub(1)?);
            let start = whole.after + part * MEMBER_BYTES;
            let (name, member, position) = (
                word(&self.bytes, start)?,
                word(&self.bytes, start + 4)?,
                word(&self.bytes, start + 8)?,
            );
            if has_bit_fields && position >> 24 != 0 {
                return None;
            }
            let bits = if has_bit_fields { position & 0x00ff_ffff } else { position };
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
        let has_lock_name = |entry: TypeEntry| LOCKS.contains(&self.name(entry.name));
        self.get(number).is_some_and(has_lock_name)
            || self
                .resolve(number)
                .is_some_and(|resolved| resolved.kind() == STRUCT && has_lock_name(resolved))
    }
}

/// The types and the names in BTF.
fn sections(bytes: &[u8]) -> Result<(&[u8], &[u8]), String> {
    let number = |at| word(bytes, at).map(|n| n as usize).ok_or("its header is cut off");
    let magic = bytes.get(..2).map(|two| u16::from_ne_bytes([two[0], two[1]]));
    match magic {
        Some(MAGIC) => {}
        Some(magic) if magic == MAGIC.swap_bytes() => {
            return Err("it has the other byte order".to_string());
        }
        _ => return Err("it is not BTF".to_string()),
    }
    let header = number(4)?;
    if header < HEADER_BYTES {
        return Err(format!("its header claims {header} bytes"));
    }
    let part = |offset: usize, length: usize| {
        let start = header.checked_add(offset)?;
        bytes.get(start..start.checked_add(length)?)
    };
    let types = part(number(8)?, number(12)?).ok_or("its types are cut off")?;
    let names = part(number(16)?, number(20)?).ok_or("its names are cut off")?;
    Ok((types, names))
}

/// The offset of each type.
fn entries(types: &[u8]) -> Result<Vec<usize>, String> {
    let (mut at, mut offsets) = (0, Vec::new());
    while at < types.len() {
        let info = word(types, at + 4).ok_or("a type is cut off")?;
        offsets.push(at);
        at += TYPE_BYTES + length_after(info).ok_or("it has a type of unknown kind")?;
    }
    if at != types.len() {
        return Err("a type is cut off".to_string());
    }
    Ok(offsets)
}

/// The number of bytes after a type, by its kind and number of parts; `None` if the kind is unknown.
fn length_after(info: u32) -> Option<usize> {
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
        // Kinds that have a name and at most refer to another type.
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
