//! The words of C variables: their names, offsets and sizes, from the compiler's debug information. Where members of a
//! union overlap, words are the finest parts.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use anyhow::{Context, Result};
use engines::Unsupported;
use gimli::{
    AttributeValue, DebuggingInformationEntry, Dwarf, EndianSlice, EntriesTreeNode, LittleEndian,
    Operation, Unit, UnitOffset,
};
use machine::{Member, Word};

use crate::locals::Local;
use crate::memory::{LOCK_MAX, Space};

pub type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Words that the variables of a lock may have.
const WORDS_MAX: usize = 16384;

/// The variables and the lock of a program.
pub struct Types {
    variables: Vec<Variable>,
    lock: Option<Vec<Leaf>>,
    /// Bytes of the lock.
    pub lock_bytes: usize,
    /// Local variables with a fixed place in memory.
    pub locals: Vec<Local>,
}

struct Variable {
    space: Space,
    leaves: Vec<Leaf>,
}

/// A member without members of its own.
#[derive(Clone, Debug)]
struct Leaf {
    offset: usize,
    size: usize,
    path: String,
    /// The first bit and the number of bits of a bit field.
    bits: Option<(u8, u8)>,
}

/// An address in debug information that tells the block of a variable.
pub fn address(space: Space, offset: usize) -> u64 {
    (space as u64 + 1) << 40 | offset as u64
}

/// The block and the offset of such an address.
pub fn place(address: u64) -> Option<(Space, usize)> {
    let space = match address >> 40 {
        1 => Space::Code,
        2 => Space::Data,
        3 => Space::ThreadLocal,
        _ => return None,
    };
    Some((space, (address & ((1 << 40) - 1)) as usize))
}

/// Opens debug information.
pub fn open(sections: &BTreeMap<String, Vec<u8>>) -> Result<Dwarf<Slice<'_>>> {
    let load = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
        let bytes = sections.get(id.name()).map_or(&[][..], Vec::as_slice);
        Ok(EndianSlice::new(bytes, LittleEndian))
    };
    Dwarf::load(load).context("reading debug information")
}

/// Reads the types and variables.
pub fn read(dwarf: &Dwarf<Slice>) -> Result<Types> {
    let mut types = Types { variables: Vec::new(), lock: None, lock_bytes: 0, locals: Vec::new() };
    let mut units = dwarf.units();
    while let Some(header) = units.next()? {
        let unit = dwarf.unit(header)?;
        let mut reader = Reader { dwarf, unit: &unit, types: &mut types, function: None };
        let mut tree = unit.entries_tree(None)?;
        reader.node(tree.root()?)?;
    }
    Ok(types)
}

impl Types {
    /// The words of the lock, and its parts that are no words.
    pub fn lock(&self) -> Result<(Vec<Word>, Vec<Member>)> {
        let leaves =
            self.lock.as_ref().context("debug information does not show the lock's type")?;
        if self.lock_bytes > LOCK_MAX {
            return Err(Unsupported::new(
                format!("the lock has {} bytes, and knee keeps {LOCK_MAX}", self.lock_bytes),
                "move arrays to static variables",
            )
            .into());
        }
        Ok((words(leaves, self.lock_bytes, "byte"), members(leaves)))
    }

    /// The words of a block of this many bytes, and its parts that are no words. `symbols` are its variables as the linker sees
    /// them: offsets, sizes and names. Of one that a compiler has split, debug information says less.
    pub fn words(
        &self,
        space: Space,
        bytes: usize,
        symbols: &[(usize, usize, String)],
    ) -> (Vec<Word>, Vec<Member>) {
        let variables = self.variables.iter().filter(|variable| variable.space == space);
        let mut leaves: Vec<Leaf> =
            variables.flat_map(|variable| variable.leaves.clone()).collect();
        // Its bytes stay words of their own, whatever its size: it may be an array.
        let words = self::words(&leaves, bytes, "unnamed");
        let is_described = |start: usize, size: usize| {
            leaves.iter().any(|leaf| leaf.offset < start + size && start < leaf.offset + leaf.size)
        };
        let split = symbols.iter().filter(|(start, size, _)| !is_described(*start, *size));
        let split = split.map(|(offset, size, name)| Leaf {
            offset: *offset,
            size: *size,
            path: name.clone(),
            bits: None,
        });
        let split: Vec<Leaf> = split.collect();
        leaves.extend(split);
        (words, members(&leaves))
    }
}

/// The largest word.
const WORD_MAX: usize = 8;

/// Leaves by which words can be called: those with several words, and bit fields. Among those of the same place, what is not an
/// array stands first: glibc's types have their bytes beside their members.
fn members(leaves: &[Leaf]) -> Vec<Member> {
    let is_word = |leaf: &Leaf| (1..=WORD_MAX).contains(&leaf.size);
    let mut members: Vec<Member> = leaves
        .iter()
        .filter(|leaf| is_word(leaf) && (leaf.bits.is_some() || leaf.size > 1))
        .map(|Leaf { offset, size, path, bits }| Member {
            path: path.clone(),
            offset: *offset,
            size: *size,
            bits: *bits,
        })
        .collect();
    members.sort_by_key(|member| (member.offset, member.path.ends_with(']')));
    members
}

/// Bytes that no leaf covers and that are words of their own: who uses one does not use its neighbour. More of them are words
/// of eight.
const UNCOVERED_MAX: usize = 4096;

/// Cuts leaves that overlap into their finest parts, and what no leaf covers into bytes.
fn words(leaves: &[Leaf], bytes: usize, unnamed: &str) -> Vec<Word> {
    let mut cuts: BTreeSet<usize> = BTreeSet::from([0, bytes]);
    for leaf in leaves {
        cuts.extend([leaf.offset, leaf.offset + leaf.size].map(|cut| cut.min(bytes)));
    }
    let cuts: Vec<usize> = cuts.into_iter().collect();
    let mut words = Vec::new();
    for pair in cuts.windows(2) {
        let (mut start, end) = (pair[0], pair[1]);
        let covers = |leaf: &&Leaf| leaf.offset <= start && start < leaf.offset + leaf.size;
        let smallest = leaves.iter().filter(covers).min_by_key(|leaf| leaf.size);
        let fields: Vec<&str> = leaves
            .iter()
            .filter(|leaf| leaf.bits.is_some() && covers(leaf))
            .map(|leaf| leaf.path.as_str())
            .collect();
        while start < end {
            let is_byte = smallest.is_none() && end - pair[0] <= UNCOVERED_MAX;
            let size = if is_byte { 1 } else { piece(start, end) };
            let path = match smallest {
                Some(leaf) if leaf.offset == start => match smallest.and_then(|leaf| leaf.bits) {
                    Some(_) => together(&fields),
                    None => leaf.path.clone(),
                },
                Some(leaf) => format!("{}+{}", leaf.path, start - leaf.offset),
                None => format!("{unnamed}+{start}"),
            };
            words.push(Word { path, offset: start, size, cpu_shift: None });
            start += size;
        }
    }
    words
}

/// The name of a word with these bit fields: `.{locked,pending}`.
fn together(fields: &[&str]) -> String {
    let split = |field: &&str| field.rfind('.').map_or(0, |dot| dot + 1);
    let Some(start) = fields.first().map(split) else { return String::new() };
    match fields {
        [one] => one.to_string(),
        several => {
            let names: Vec<&str> = several.iter().map(|field| &field[split(field)..]).collect();
            format!("{}{{{}}}", &several[0][..start], names.join(","))
        }
    }
}

/// The largest aligned word from here that ends before the end.
fn piece(start: usize, end: usize) -> usize {
    let fits = |size: &usize| start.is_multiple_of(*size) && start + size <= end;
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}

/// Whether an entry of a structure is a part of each object: a member, or what a class is derived from.
fn is_part(entry: &Entry) -> bool {
    let is_static = entry.attr_value(gimli::DW_AT_declaration).is_some();
    match entry.tag() {
        gimli::DW_TAG_member => !is_static,
        tag => tag == gimli::DW_TAG_inheritance,
    }
}

struct Reader<'a, 'u> {
    dwarf: &'u Dwarf<Slice<'a>>,
    unit: &'u Unit<Slice<'a>>,
    types: &'u mut Types,
    /// The code of the function that is being read, if its frame has an address.
    function: Option<Range<usize>>,
}

type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

impl<'a> Reader<'a, '_> {
    fn node(&mut self, node: EntriesTreeNode<Slice<'a>>) -> Result<()> {
        let entry = node.entry();
        let tag = entry.tag();
        let is_lock = tag == gimli::DW_TAG_subprogram
            && self
                .name(entry)
                .is_some_and(|name| ["knee_lock", "knee_operate"].contains(&name.as_str()));
        if tag == gimli::DW_TAG_subprogram {
            self.function = self.function_of(entry)?;
        }
        if tag == gimli::DW_TAG_variable {
            self.variable(entry)?;
        }
        if tag == gimli::DW_TAG_variable || tag == gimli::DW_TAG_formal_parameter {
            self.local(entry)?;
        }
        let mut children = node.children();
        while let Some(child) = children.next()? {
            if is_lock && child.entry().tag() == gimli::DW_TAG_formal_parameter {
                self.lock(child.entry())?;
            }
            self.node(child)?;
        }
        Ok(())
    }

    fn variable(&mut self, entry: &Entry<'a>) -> Result<()> {
        let Some((space, start)) = self.location(entry)? else { return Ok(()) };
        let (name, kind) = (self.name(entry), self.kind(entry));
        let (Some(name), Some(kind)) = (name, kind) else { return Ok(()) };
        let mut leaves = Vec::new();
        self.leaves(kind, start, &name, &mut leaves)?;
        self.types.variables.push(Variable { space, leaves });
        Ok(())
    }

    /// The code of a function whose frame is found by the unwind table.
    fn function_of(&self, entry: &Entry<'a>) -> Result<Option<Range<usize>>> {
        let Some(AttributeValue::Exprloc(base)) = entry.attr_value(gimli::DW_AT_frame_base) else {
            return Ok(None);
        };
        let mut operations = base.operations(self.unit.encoding());
        let is_cfa = matches!(operations.next()?, Some(Operation::CallFrameCFA));
        let start = entry.attr_value(gimli::DW_AT_low_pc);
        let start = start.map(|start| self.dwarf.attr_address(self.unit, start)).transpose()?;
        let start = start.flatten().and_then(place).filter(|(space, _)| *space == Space::Code);
        let length = unsigned(entry, gimli::DW_AT_high_pc);
        Ok(start.zip(length).filter(|_| is_cfa).map(|((_, start), length)| start..start + length))
    }

    /// A local variable, if it lies at one place in its function's frame.
    fn local(&mut self, entry: &Entry<'a>) -> Result<()> {
        let Some(function) = self.function.clone() else { return Ok(()) };
        let Some(AttributeValue::Exprloc(location)) = entry.attr_value(gimli::DW_AT_location)
        else {
            return Ok(());
        };
        let mut operations = location.operations(self.unit.encoding());
        let (first, second) = (operations.next()?, operations.next()?);
        let (Some(Operation::FrameOffset { offset }), None) = (first, second) else {
            return Ok(());
        };
        let (name, kind) = (self.name(entry), self.kind(entry));
        let (Some(name), Some(kind)) = (name, kind) else { return Ok(()) };
        let mut leaves = Vec::new();
        self.leaves(kind, 0, &name, &mut leaves)?;
        let size = self.size(kind)?;
        let parts = leaves.into_iter().map(|leaf| (leaf.offset, leaf.size, leaf.path)).collect();
        self.types.locals.push(Local { function, offset, size, parts });
        Ok(())
    }

    /// The type that the argument of `knee_lock` points to.
    fn lock(&mut self, parameter: &Entry<'a>) -> Result<()> {
        let Some(mut pointer) = self.kind(parameter) else { return Ok(()) };
        loop {
            let entry = self.unit.entry(pointer)?;
            let Some(to) = self.kind(&entry) else { return Ok(()) };
            pointer = to;
            if entry.tag() == gimli::DW_TAG_pointer_type {
                break;
            }
        }
        let mut leaves = Vec::new();
        self.leaves(pointer, 0, "", &mut leaves)?;
        self.types.lock_bytes = self.size(pointer)?;
        self.types.lock = Some(leaves);
        Ok(())
    }

    fn location(&self, entry: &Entry<'a>) -> Result<Option<(Space, usize)>> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location)
        else {
            return Ok(None);
        };
        let mut operations = expression.operations(self.unit.encoding());
        let (mut constant, mut found) = (None, None);
        while let Some(operation) = operations.next()? {
            match operation {
                Operation::Address { address } => found = place(address),
                Operation::UnsignedConstant { value } => constant = Some(value as usize),
                Operation::TLS => found = constant.map(|offset| (Space::ThreadLocal, offset)),
                _ => return Ok(None),
            }
        }
        Ok(found)
    }

    /// Adds the members of a type at this offset.
    fn leaves(
        &self,
        kind: UnitOffset,
        offset: usize,
        path: &str,
        into: &mut Vec<Leaf>,
    ) -> Result<()> {
        if into.len() >= WORDS_MAX {
            let why = format!("{path} has more than {WORDS_MAX} words");
            return Err(Unsupported::new(why, "make it smaller").into());
        }
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let node = tree.root()?;
        let entry = node.entry().clone();
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let is_atomic = self.is_standard_atomic(&entry);
                let mut children = node.children();
                while let Some(child) = children.next()? {
                    let member = child.entry();
                    let Some(kind) = self.kind(member).filter(|_| is_part(member)) else {
                        continue;
                    };
                    let start = offset + self.member_offset(member, kind)?;
                    let name = self.name(member).filter(|_| !is_atomic);
                    let name = name.map_or(String::new(), |name| format!(".{name}"));
                    let first = into.len();
                    self.leaves(kind, start, &format!("{path}{name}"), into)?;
                    let bits = bit_field(member, start - offset);
                    into[first..].iter_mut().for_each(|leaf| leaf.bits = leaf.bits.or(bits));
                }
            }
            gimli::DW_TAG_array_type => {
                let element = self.kind(&entry).context("an array without a type")?;
                let mut lengths = Vec::new();
                let mut children = node.children();
                while let Some(child) = children.next()? {
                    lengths.extend(length(child.entry()));
                }
                self.elements(element, &lengths, offset, path, into)?;
            }
            gimli::DW_TAG_base_type
            | gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_enumeration_type => {
                let (size, path) = (self.size(kind)?, path.to_string());
                into.push(Leaf { offset, size, path, bits: None });
            }
            _ => {
                if let Some(kind) = self.kind(&entry) {
                    self.leaves(kind, offset, path, into)?;
                }
            }
        }
        Ok(())
    }

    /// Whether it is std::atomic, whose own members have no name for a user.
    fn is_standard_atomic(&self, class: &Entry<'a>) -> bool {
        let name = self.name(class).unwrap_or_default();
        ["atomic<", "__atomic_base<", "atomic_flag", "__atomic_flag_base"]
            .iter()
            .any(|start| name.starts_with(start))
    }

    fn elements(
        &self,
        element: UnitOffset,
        lengths: &[usize],
        offset: usize,
        path: &str,
        into: &mut Vec<Leaf>,
    ) -> Result<()> {
        let Some((&length, inner)) = lengths.split_first() else {
            return self.leaves(element, offset, path, into);
        };
        let stride = self.size(element)? * inner.iter().product::<usize>();
        for index in 0..length {
            self.elements(
                element,
                inner,
                offset + index * stride,
                &format!("{path}[{index}]"),
                into,
            )?;
        }
        Ok(())
    }

    /// Where a member lies; a bit field is the word of its type that holds it.
    fn member_offset(&self, member: &Entry<'a>, kind: UnitOffset) -> Result<usize> {
        if let Some(bits) = unsigned(member, gimli::DW_AT_data_bit_offset) {
            let size = self.size(kind)?.max(1);
            return Ok(bits / 8 / size * size);
        }
        Ok(unsigned(member, gimli::DW_AT_data_member_location).unwrap_or(0))
    }

    /// Bytes of a type.
    fn size(&self, kind: UnitOffset) -> Result<usize> {
        let entry = self.unit.entry(kind)?;
        if let Some(size) = unsigned(&entry, gimli::DW_AT_byte_size) {
            return Ok(size);
        }
        let Some(of) = self.kind(&entry) else { return Ok(0) };
        let element = self.size(of)?;
        if entry.tag() != gimli::DW_TAG_array_type {
            return Ok(element);
        }
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let (mut children, mut size) = (tree.root()?.children(), element);
        while let Some(child) = children.next()? {
            size *= length(child.entry()).unwrap_or(1);
        }
        Ok(size)
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        if let Some(value) = entry.attr_value(gimli::DW_AT_name) {
            let text = self.dwarf.attr_string(self.unit, value).ok()?;
            return Some(text.to_string_lossy().into_owned());
        }
        self.name(&self.declaration(entry)?)
    }

    fn kind(&self, entry: &Entry<'a>) -> Option<UnitOffset> {
        match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(kind)) => Some(kind),
            _ => self.kind(&self.declaration(entry)?),
        }
    }

    /// The entry that this one completes.
    fn declaration(&self, entry: &Entry<'a>) -> Option<Entry<'a>> {
        let completes = [gimli::DW_AT_specification, gimli::DW_AT_abstract_origin];
        let value = completes.into_iter().find_map(|name| entry.attr_value(name))?;
        let AttributeValue::UnitRef(offset) = value else { return None };
        self.unit.entry(offset).ok()
    }
}

/// The length of one dimension of an array.
fn length(entry: &Entry) -> Option<usize> {
    if entry.tag() != gimli::DW_TAG_subrange_type {
        return None;
    }
    let bound = || unsigned(entry, gimli::DW_AT_upper_bound).map(|last| last + 1);
    Some(unsigned(entry, gimli::DW_AT_count).or_else(bound).unwrap_or(0))
}

/// The first bit and the number of bits of a member in the word that holds it, which begins at this byte of its struct.
fn bit_field(member: &Entry, word: usize) -> Option<(u8, u8)> {
    let first = unsigned(member, gimli::DW_AT_data_bit_offset)?;
    let bits = unsigned(member, gimli::DW_AT_bit_size)?;
    Some((first.checked_sub(8 * word)? as u8, bits as u8))
}

fn unsigned(entry: &Entry, name: gimli::DwAt) -> Option<usize> {
    entry.attr_value(name)?.udata_value().map(|value| value as usize)
}

#[cfg(test)]
mod tests {
    use super::{Leaf, members, words};

    #[test]
    fn overlapping_members_are_cut_into_their_finest_parts() {
        let leaf =
            |path: &str, offset, size| Leaf { offset, size, path: path.to_string(), bits: None };
        let queued = [
            leaf(".val", 0, 4),
            leaf(".locked", 0, 1),
            leaf(".pending", 1, 1),
            leaf(".locked_pending", 0, 2),
            leaf(".tail", 2, 2),
        ];
        let found: Vec<_> =
            words(&queued, 4, "").into_iter().map(|w| (w.path, w.offset, w.size)).collect();
        let expected = [(".locked", 0, 1), (".pending", 1, 1), (".tail", 2, 2)];
        assert_eq!(found, expected.map(|(path, offset, size)| (path.to_string(), offset, size)));
        let of_words: Vec<_> = members(&queued).into_iter().map(|m| (m.path, m.size)).collect();
        let expected = [(".val", 4), (".locked_pending", 2), (".tail", 2)];
        assert_eq!(of_words, expected.map(|(path, size)| (path.to_string(), size)));
        let bits = |path: &str, first| Leaf { bits: Some((first, 4)), ..leaf(path, 0, 4) };
        let fields = [bits(".f.low", 0), bits(".f.high", 4)];
        assert_eq!(words(&fields, 4, "")[0].path, ".f.{low,high}");
        let odd = [leaf("a", 0, 1), leaf("b", 0, 8)];
        let sizes: Vec<_> = words(&odd, 10, "gap").into_iter().map(|w| (w.path, w.size)).collect();
        let expected = [("a", 1), ("b+1", 1), ("b+2", 2), ("b+4", 4), ("gap+8", 1), ("gap+9", 1)];
        assert_eq!(sizes, expected.map(|(path, size)| (path.to_string(), size)));
    }
}
