//! Members, sizes and the types of parameters: what names the bytes of an object.

use std::collections::{BTreeMap, BTreeSet};

use super::{KernelTypes, STRUCT, TypeEntry, UNION, word};

const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const FUNCTION: u32 = 12;
const PROTOTYPE: u32 = 13;
const VARIABLE: u32 = 14;

const MEMBER_BYTES: usize = 12;

/// A structure, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Structure(u32);

/// The innermost member that holds a byte of a structure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The way to it: `d_lockref.count`, `dents[]`.
    pub path: String,
    /// The names of the types on the way, outermost first: `lockref`, `spinlock_t`, `raw_spinlock`.
    pub types: Vec<String>,
    /// Its first byte, from the structure's first.
    pub start: u64,
    pub bytes: u64,
}

impl KernelTypes {
    /// The structures of a name. Files may define different ones.
    pub fn structures(&self, name: &str) -> Vec<Structure> {
        self.all_structures().filter(|structure| self.name_of(*structure) == name).collect()
    }

    /// All structures with a name.
    pub fn all_structures(&self) -> impl Iterator<Item = Structure> {
        let numbers = 1..self.types.len() as u32;
        numbers.map(Structure).filter(|structure| {
            self.get(structure.0)
                .is_some_and(|entry| entry.kind() == STRUCT && !self.name(entry.name).is_empty())
        })
    }

    pub fn name_of(&self, structure: Structure) -> &str {
        self.get(structure.0).map_or("", |entry| self.name(entry.name))
    }

    /// The size of a structure in bytes, without what a flexible array adds.
    pub fn bytes_of(&self, structure: Structure) -> u64 {
        self.get(structure.0).map_or(0, |entry| u64::from(entry.size_or_type))
    }

    /// The offset of a member of the first structure of a name, in bytes: `offset_of("slab", "slab_cache")`. Members of
    /// unnamed structures and unions count as the outer one's.
    pub fn offset_of(&self, structure: &str, member: &str) -> Option<u64> {
        self.structures(structure).first().and_then(|s| self.offset_in(s.0, member, 0))
    }

    fn offset_in(&self, number: u32, wanted: &str, depth: usize) -> Option<u64> {
        let whole = self.resolve(number).filter(|whole| matches!(whole.kind(), STRUCT | UNION))?;
        if depth > 8 {
            return None;
        }
        (0..whole.parts()).find_map(|part| {
            let (name, member, offset) = self.part(whole, part)?;
            match self.name(name) {
                "" => Some(offset + self.offset_in(member, wanted, depth + 1)?),
                name => (name == wanted).then_some(offset),
            }
        })
    }

    /// The name, type and offset of a member.
    fn part(&self, whole: TypeEntry, part: usize) -> Option<(u32, u32, u64)> {
        let start = whole.after + part * MEMBER_BYTES;
        let position = word(&self.bytes, start + 8)?;
        let bits = if whole.info >> 31 == 1 { position & 0x00ff_ffff } else { position };
        Some((word(&self.bytes, start)?, word(&self.bytes, start + 4)?, u64::from(bits) / 8))
    }

    /// The size of a type in bytes.
    fn bytes_of_type(&self, number: u32, depth: usize) -> Option<u64> {
        let entry = self.resolve(number)?;
        match entry.kind() {
            POINTER => Some(8),
            ARRAY if depth < 8 => {
                let (element, elements) = self.array(entry)?;
                Some(self.bytes_of_type(element, depth + 1)? * u64::from(elements))
            }
            ARRAY | FUNCTION | PROTOTYPE => None,
            _ => Some(u64::from(entry.size_or_type)),
        }
    }

    /// The type and number of elements of an array.
    fn array(&self, entry: TypeEntry) -> Option<(u32, u32)> {
        Some((word(&self.bytes, entry.after)?, word(&self.bytes, entry.after + 8)?))
    }

    /// The member that holds the byte at `offset`; `None` in padding. Of a union's members, the one whose own members
    /// reach deepest is as good as any: the first.
    pub fn member_at(&self, structure: Structure, offset: u64) -> Option<Member> {
        let mut types = Vec::new();
        let (path, start, bytes) = self.member_in(structure.0, offset, &mut types, 0)?;
        Some(Member { path, types, start, bytes })
    }

    fn member_in(
        &self,
        number: u32,
        offset: u64,
        types: &mut Vec<String>,
        depth: usize,
    ) -> Option<(String, u64, u64)> {
        const DEPTH_MAX: usize = 12;
        let whole = self.resolve(number).filter(|whole| matches!(whole.kind(), STRUCT | UNION))?;
        if depth > DEPTH_MAX {
            return None;
        }
        (0..whole.parts()).find_map(|part| {
            let (name, member, start) = self.part(whole, part)?;
            let inner = offset.checked_sub(start)?;
            let kept = types.len();
            let found = self.inside(member, inner, types, depth).map(|(below, from, bytes)| {
                let name = self.name(name);
                let path = match (name, below.as_str()) {
                    (name, "") => name.to_string(),
                    ("", below) => below.to_string(),
                    (name, below) if below.starts_with('[') => format!("{name}{below}"),
                    (name, below) => format!("{name}.{below}"),
                };
                (path, start + from, bytes)
            });
            if found.is_none() {
                types.truncate(kept);
            }
            found
        })
    }

    /// The way to the byte at `offset` of a type, and where that member lies.
    fn inside(
        &self,
        number: u32,
        offset: u64,
        types: &mut Vec<String>,
        depth: usize,
    ) -> Option<(String, u64, u64)> {
        let entry = self.resolve(number)?;
        let names = [self.get(number)?, entry];
        let names = names.iter().map(|entry| self.name(entry.name).to_string());
        types.extend(names.filter(|name| !name.is_empty()));
        types.dedup();
        match entry.kind() {
            STRUCT | UNION if offset < u64::from(entry.size_or_type) => {
                self.member_in(number, offset, types, depth + 1)
            }
            ARRAY if depth < 12 => {
                let (element, elements) = self.array(entry)?;
                let bytes = self.bytes_of_type(element, 0).filter(|bytes| *bytes > 0)?;
                let index = offset / bytes;
                // A flexible array has no elements here, and any number there.
                if elements > 0 && index >= u64::from(elements) {
                    return None;
                }
                let below = self.inside(element, offset % bytes, types, depth + 1)?;
                let path = match below.0.as_str() {
                    "" => "[]".to_string(),
                    below => format!("[].{below}"),
                };
                Some((path, index * bytes + below.1, below.2))
            }
            STRUCT | UNION | ARRAY => None,
            _ => {
                let bytes = self.bytes_of_type(number, 0).filter(|bytes| offset < *bytes)?;
                Some((String::new(), 0, bytes))
            }
        }
    }

    /// The structures that a structure contains, and those in them.
    pub fn structures_inside(&self, structure: Structure) -> BTreeSet<Structure> {
        let mut inside = BTreeSet::new();
        self.collect_inside(structure.0, &mut inside, 0);
        inside
    }

    fn collect_inside(&self, number: u32, inside: &mut BTreeSet<Structure>, depth: usize) {
        let Some(whole) = self.resolve(number).filter(|w| matches!(w.kind(), STRUCT | UNION))
        else {
            return;
        };
        for part in (0..whole.parts()).take_while(|_| depth < 8) {
            let Some((_, member, _)) = self.part(whole, part) else { continue };
            let is_new = self.structure_behind(member).is_none_or(|found| inside.insert(found));
            if is_new {
                self.collect_inside(member, inside, depth + 1);
            }
        }
    }

    /// Whether the last member has any number of elements, or ends so.
    pub fn ends_in_flexible_array(&self, structure: Structure) -> bool {
        let mut number = structure.0;
        for _ in 0..8 {
            let Some(whole) = self.resolve(number) else { return false };
            match whole.kind() {
                STRUCT if whole.parts() > 0 => match self.part(whole, whole.parts() - 1) {
                    Some((_, last, _)) => number = last,
                    None => return false,
                },
                ARRAY => return self.array(whole).is_some_and(|(_, elements)| elements == 0),
                _ => return false,
            }
        }
        false
    }

    /// The structure that a pointer points to.
    fn pointed(&self, number: u32) -> Option<Structure> {
        let pointer = self.resolve(number).filter(|entry| entry.kind() == POINTER)?;
        self.structure_behind(pointer.size_or_type)
    }

    /// The structure behind typedefs and qualifiers.
    fn structure_behind(&self, mut number: u32) -> Option<Structure> {
        for _ in 0..16 {
            let entry = self.get(number)?;
            match entry.kind() {
                STRUCT => return Some(Structure(number)),
                super::TYPEDEF
                | super::VOLATILE
                | super::CONST
                | super::RESTRICT
                | super::TYPE_TAG => {
                    number = entry.size_or_type;
                }
                _ => return None,
            }
        }
        None
    }

    /// The structures that each function's parameters, and its result, point to.
    pub fn structures_of_functions(&self) -> BTreeMap<&str, BTreeSet<Structure>> {
        let mut functions: BTreeMap<&str, BTreeSet<Structure>> = BTreeMap::new();
        for number in 1..self.types.len() as u32 {
            let function = self.get(number).filter(|entry| entry.kind() == FUNCTION);
            let Some(function) = function else { continue };
            let prototype = self.get(function.size_or_type).filter(|p| p.kind() == PROTOTYPE);
            let Some(prototype) = prototype else { continue };
            let parameters = (0..prototype.parts())
                .filter_map(|part| word(&self.bytes, prototype.after + 8 * part + 4));
            let pointed = parameters.chain([prototype.size_or_type]);
            let structures: BTreeSet<Structure> = pointed.filter_map(|t| self.pointed(t)).collect();
            functions.entry(self.name(function.name)).or_default().extend(structures);
        }
        functions
    }

    /// The structures that variables are, by name: per-CPU variables, and others where the kernel was built so.
    pub fn structures_of_variables(&self) -> BTreeMap<&str, Structure> {
        let entries = (1..self.types.len() as u32).filter_map(|number| self.get(number));
        let variables = entries.filter(|entry| entry.kind() == VARIABLE);
        let typed = variables.filter_map(|variable| {
            let structure = self.structure_behind(variable.size_or_type)?;
            Some((self.name(variable.name), structure))
        });
        typed.collect()
    }
}
