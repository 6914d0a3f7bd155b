//! Members of a program's variables, by the compiler's debug information (DWARF). Lines of its source: `source_lines`.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use gimli::{
    AttributeValue, DebugInfoOffset, DebuggingInformationEntry, Dwarf, EndianSlice, LittleEndian,
    Operation, Unit, UnitOffset,
};
use object::{Object, ObjectSection};

use crate::caught;

/// A longer program has no members here.
const PROGRAM_BYTES_MAX: u64 = 1 << 30;

/// Structures inside structures, more than any program has.
const DEPTH_MAX: u32 = 64;

pub(crate) type Slice<'a> = EndianSlice<'a, LittleEndian>;
type Entry<'a> = DebuggingInformationEntry<Slice<'a>>;

/// A program's debug information, and its variables that have a type.
pub struct ProgramTypes {
    sections: BTreeMap<String, Vec<u8>>,
    /// By address in the file: the unit and the type.
    variables: HashMap<u64, (DebugInfoOffset, UnitOffset)>,
}

/// The innermost member that holds a byte of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramMember {
    /// The way to it, after the variable's name: `.head`, `[].count`. Elements of arrays are one.
    pub path: String,
    /// The names of the types on the way, outermost first.
    pub types: Vec<String>,
    /// Its first byte, from the variable's first.
    pub start: u64,
    pub bytes: u64,
}

impl ProgramTypes {
    /// Reads a program's file; an error if it has no debug information.
    pub fn read(path: &Path) -> Result<ProgramTypes> {
        let mut bytes = Vec::new();
        File::open(path)?.take(PROGRAM_BYTES_MAX).read_to_end(&mut bytes)?;
        caught("DWARF", || {
            let file = object::File::parse(&*bytes)?;
            let mut sections = BTreeMap::new();
            for section in file.sections() {
                let name = section.name().unwrap_or_default();
                if name.starts_with(".debug_") {
                    let data = section.uncompressed_data()?.into_owned();
                    sections.insert(name.to_string(), data);
                }
            }
            let mut types = ProgramTypes { sections, variables: HashMap::new() };
            types.variables = types.all_variables()?;
            Ok(types)
        })
    }

    /// The member at an offset of the variable at this address of the file.
    pub fn member(&self, variable: u64, offset: u64) -> Option<ProgramMember> {
        let (unit, kind) = self.variables.get(&variable)?;
        let found = caught("DWARF", || {
            let dwarf = self.dwarf()?;
            let unit = dwarf.unit(dwarf.debug_info.header_from_offset(*unit)?)?;
            let unit = TypeUnit { dwarf: &dwarf, unit: &unit };
            let all = ProgramMember { path: String::new(), types: Vec::new(), start: 0, bytes: 0 };
            unit.inside(*kind, offset, all, 0)
        });
        found.ok()
    }

    pub(crate) fn dwarf(&self) -> Result<Dwarf<Slice<'_>>> {
        let load = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
            let bytes = self.sections.get(id.name()).map_or(&[][..], Vec::as_slice);
            Ok(EndianSlice::new(bytes, LittleEndian))
        };
        Dwarf::load(load).context("reading debug information")
    }

    fn all_variables(&self) -> Result<HashMap<u64, (DebugInfoOffset, UnitOffset)>> {
        let dwarf = self.dwarf()?;
        let mut found = HashMap::new();
        let mut units = dwarf.units();
        while let Some(header) = units.next()? {
            let Some(at) = header.debug_info_offset() else { continue };
            let unit = dwarf.unit(header)?;
            let types = TypeUnit { dwarf: &dwarf, unit: &unit };
            let mut entries = unit.entries();
            while let Some(entry) = entries.next_dfs()? {
                if entry.tag() != gimli::DW_TAG_variable {
                    continue;
                }
                if let (Some(address), Some(kind)) = (types.address(entry)?, types.kind(entry)) {
                    found.insert(address, (at, kind));
                }
            }
        }
        Ok(found)
    }
}

/// A unit of the compiler, whose types are looked up.
struct TypeUnit<'a, 'u> {
    dwarf: &'u Dwarf<Slice<'a>>,
    unit: &'u Unit<Slice<'a>>,
}

impl<'a> TypeUnit<'a, '_> {
    /// The fixed address of a variable.
    fn address(&self, entry: &Entry<'a>) -> Result<Option<u64>> {
        let Some(AttributeValue::Exprloc(expression)) = entry.attr_value(gimli::DW_AT_location)
        else {
            return Ok(None);
        };
        let mut operations = expression.operations(self.unit.encoding());
        Ok(match (operations.next()?, operations.next()?) {
            (Some(Operation::Address { address }), None) => Some(address),
            (Some(Operation::AddressIndex { index }), None) => {
                Some(self.dwarf.address(self.unit, index)?)
            }
            _ => None,
        })
    }

    /// Goes into the member of a type that holds the byte `offset`; `outer` is the way to the type.
    fn inside(
        &self,
        kind: UnitOffset,
        offset: u64,
        outer: ProgramMember,
        depth: u32,
    ) -> Result<ProgramMember> {
        let entry = self.unit.entry(kind)?;
        let mut outer = ProgramMember { bytes: self.bytes(kind, depth)?, ..outer };
        if depth > DEPTH_MAX {
            return Ok(outer);
        }
        outer.types.extend(self.name(&entry));
        match entry.tag() {
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type | gimli::DW_TAG_union_type => {
                let Some((name, kind, start)) = self.member_at(kind, offset, depth)? else {
                    return Ok(outer);
                };
                let name = name.map_or(String::new(), |name| format!(".{name}"));
                let path = outer.path + &name;
                let inner = ProgramMember { path, start: outer.start + start, ..outer };
                self.inside(kind, offset - start, inner, depth + 1)
            }
            gimli::DW_TAG_array_type => {
                let Some(element) = self.kind(&entry) else { return Ok(outer) };
                let bytes = self.bytes(element, depth)?.max(1);
                let number = offset / bytes;
                let path = outer.path + "[]";
                let start = outer.start + number * bytes;
                let inner = ProgramMember { path, start, ..outer };
                self.inside(element, offset % bytes, inner, depth + 1)
            }
            gimli::DW_TAG_base_type
            | gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_enumeration_type => Ok(outer),
            _ => match self.kind(&entry) {
                Some(kind) => self.inside(kind, offset, outer, depth + 1),
                None => Ok(outer),
            },
        }
    }

    /// The member that holds a byte: its name, its type and its first byte. Of a union, the first that is long enough.
    fn member_at(
        &self,
        kind: UnitOffset,
        offset: u64,
        depth: u32,
    ) -> Result<Option<(Option<String>, UnitOffset, u64)>> {
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let mut children = tree.root()?.children();
        while let Some(child) = children.next()? {
            let member = child.entry();
            let is_part = [gimli::DW_TAG_member, gimli::DW_TAG_inheritance].contains(&member.tag());
            let Some(kind) = self.kind(member).filter(|_| is_part) else { continue };
            let start = unsigned(member, gimli::DW_AT_data_member_location).unwrap_or(0);
            if (start..start + self.bytes(kind, depth + 1)?).contains(&offset) {
                return Ok(Some((self.name(member), kind, start)));
            }
        }
        Ok(None)
    }

    /// Bytes of a type; 0 if they are not known.
    fn bytes(&self, kind: UnitOffset, depth: u32) -> Result<u64> {
        let entry = self.unit.entry(kind)?;
        if let Some(bytes) = unsigned(&entry, gimli::DW_AT_byte_size) {
            return Ok(bytes);
        }
        let Some(of) = self.kind(&entry).filter(|_| depth <= DEPTH_MAX) else { return Ok(0) };
        let element = self.bytes(of, depth + 1)?;
        if entry.tag() != gimli::DW_TAG_array_type {
            return Ok(element);
        }
        let mut tree = self.unit.entries_tree(Some(kind))?;
        let (mut children, mut bytes) = (tree.root()?.children(), element);
        while let Some(child) = children.next()? {
            let last = unsigned(child.entry(), gimli::DW_AT_upper_bound).map(|last| last + 1);
            let count = unsigned(child.entry(), gimli::DW_AT_count).or(last).unwrap_or(1);
            bytes = bytes.saturating_mul(count);
        }
        Ok(bytes)
    }

    fn name(&self, entry: &Entry<'a>) -> Option<String> {
        let value = entry.attr_value(gimli::DW_AT_name)?;
        let text = self.dwarf.attr_string(self.unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    fn kind(&self, entry: &Entry<'a>) -> Option<UnitOffset> {
        match entry.attr_value(gimli::DW_AT_type) {
            Some(AttributeValue::UnitRef(kind)) => return Some(kind),
            Some(_) => return None,
            None => {}
        }
        // A definition of what was declared before.
        match entry.attr_value(gimli::DW_AT_specification)? {
            AttributeValue::UnitRef(declared) => {
                match self.unit.entry(declared).ok()?.attr_value(gimli::DW_AT_type)? {
                    AttributeValue::UnitRef(kind) => Some(kind),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

fn unsigned(entry: &Entry, name: gimli::DwAt) -> Option<u64> {
    entry.attr_value(name)?.udata_value()
}
