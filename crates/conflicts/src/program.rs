//! What lies at an address of a program that has ended: variables of it and its libraries, by their ELF files, and other
//! memory by its mapping.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::Result;
use perf_data::{
    ProgramMember, ProgramTypes, SourceLine, Variable, Variables, functions_of, variables,
};

use crate::by_function::without_version;
use crate::image::{Image, Place};
use crate::names::Namer;

/// A program's memory map at its end.
pub struct ProgramImage {
    modules: Vec<Module>,
    mappings: Vec<Mapping>,
    /// The functions of the instructions that were asked for.
    functions: BTreeMap<u64, String>,
    /// Their lines in the source.
    sources: BTreeMap<u64, SourceLine>,
}

/// Where Linux loads a program that can be anywhere, without random addresses (ELF_ET_DYN_BASE, arch/x86/include/asm/elf.h).
const PROGRAM_BASE: u64 = 0x5555_5555_4000;

/// A program or library.
struct Module {
    name: String,
    variables: Variables,
    /// Absent without debug information.
    types: Option<ProgramTypes>,
    /// Address in memory minus address in the file.
    shift: u64,
}

/// A line of /proc/PID/maps.
struct Mapping {
    start: u64,
    end: u64,
    offset: u64,
    path: String,
}

impl ProgramImage {
    /// `maps` is as in /proc/PID/maps; `instructions` are the addresses whose functions will be asked for.
    pub fn new(maps: &str, instructions: impl Iterator<Item = u64>) -> ProgramImage {
        let mappings: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        let mut starts: BTreeMap<&str, u64> = BTreeMap::new();
        for mapping in mappings.iter().filter(|mapping| mapping.path.starts_with('/')) {
            starts.entry(&mapping.path).or_insert(mapping.start.wrapping_sub(mapping.offset));
        }
        let instructions: BTreeSet<u64> = instructions.collect();
        let (mut modules, mut sources) = (Vec::new(), BTreeMap::new());
        for (path, start) in starts {
            let Ok(variables) = variables(Path::new(path)) else { continue };
            let shift = start.wrapping_sub(variables.start & !0xfff);
            let types = ProgramTypes::read(Path::new(path)).ok();
            if let Some(types) = &types {
                let inside = |mapping: &&Mapping| mapping.path == path;
                let ranges = mappings.iter().filter(inside).map(|m| m.start..m.end);
                let own: Vec<u64> = ranges
                    .flat_map(|range| instructions.range(range))
                    .map(|address| address.wrapping_sub(shift))
                    .collect();
                let lines = types.source_lines(&own).into_iter();
                sources.extend(lines.map(|(at, line)| (at.wrapping_add(shift), line)));
            }
            modules.push(Module { name: file_name(path), variables, types, shift });
        }
        let functions = functions(&mappings, instructions.into_iter());
        ProgramImage { modules, mappings, functions, sources }
    }

    /// A program in a guest whose addresses are not random, with its libraries and where they were loaded. `instructions`
    /// are as for `new`.
    pub fn in_guest(
        path: &Path,
        libraries: &[(PathBuf, u64)],
        instructions: impl Iterator<Item = u64>,
    ) -> Result<ProgramImage> {
        let is_anywhere = variables(path)?.start == 0;
        let base = if is_anywhere { PROGRAM_BASE } else { 0 };
        let mut maps = String::new();
        for (path, base) in
            [(path, base)].into_iter().chain(libraries.iter().map(|(p, at)| (&**p, *at)))
        {
            for (range, offset) in variables(path)?.segments {
                let [start, end] =
                    [range.start, range.end].map(|address| address.wrapping_add(base));
                let _ =
                    writeln!(maps, "{start:x}-{end:x} r--p {offset:x} 00:00 0 {}", path.display());
            }
        }
        Ok(ProgramImage::new(&maps, instructions))
    }
}

/// The function of each instruction, file by file.
fn functions(
    mappings: &[Mapping],
    instructions: impl Iterator<Item = u64>,
) -> BTreeMap<u64, String> {
    let mut by_file: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for address in instructions {
        let found = mappings.iter().find(|m| (m.start..m.end).contains(&address));
        if let Some(mapping) = found.filter(|mapping| mapping.path.starts_with('/')) {
            let offset = address - mapping.start + mapping.offset;
            by_file.entry(&mapping.path).or_default().push((address, offset));
        }
    }
    let mut functions = BTreeMap::new();
    for (path, places) in by_file {
        let offsets: Vec<u64> = places.iter().map(|(_, offset)| *offset).collect();
        let names = functions_of(&PathBuf::from(path), &offsets);
        for ((address, offset), name) in places.into_iter().zip(names) {
            let unnamed = || format!("{}+{offset:#x}", file_name(path));
            let name = name.map(|name| without_version(&name).to_string());
            functions.insert(address, name.unwrap_or_else(unnamed));
        }
    }
    functions
}

fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let offset = hexadecimal(words.nth(1)?)?;
    let path = words.skip(2).collect::<Vec<_>>().join(" ");
    Some(Mapping { start: hexadecimal(start)?, end: hexadecimal(end)?, offset, path })
}

fn file_name(path: &str) -> String {
    path.rsplit('/').next().unwrap_or(path).to_string()
}

impl Image for ProgramImage {
    fn place(&self, _is_user: bool, address: u64) -> Place {
        for Module { name, variables, shift, .. } in &self.modules {
            let inside = address.wrapping_sub(*shift);
            if !(variables.start..variables.end).contains(&inside) {
                continue;
            }
            return match variables.at(inside) {
                Some((variable, offset)) => Place::Variable {
                    name: variable.name.clone(),
                    start: address - offset,
                    bytes: variable.bytes,
                },
                None => Place::Mapping { name: format!("data of {name}") },
            };
        }
        let mapping = self.mappings.iter().find(|m| (m.start..m.end).contains(&address));
        let name = match mapping.map(|mapping| mapping.path.as_str()) {
            Some("[heap]") => "heap".to_string(),
            Some("" | "[stack]") | None => "heap or stack".to_string(),
            Some(path) => file_name(path),
        };
        Place::Mapping { name }
    }

    fn member(&self, place: &Place, offset: u64) -> Option<ProgramMember> {
        let Place::Variable { name, bytes, .. } = place else { return None };
        self.modules.iter().find_map(|module| {
            let is_it = |known: &&Variable| known.name == *name && known.bytes == *bytes;
            let known = module.variables.variables.iter().find(is_it)?;
            module.types.as_ref()?.member(known.address, offset)
        })
    }

    fn function(&self, address: u64) -> Option<String> {
        self.functions.get(&address).cloned()
    }

    fn source(&self, address: u64) -> Option<String> {
        self.sources.get(&address).map(|SourceLine { file, line }| format!("{file}:{line}"))
    }

    fn namer(&self) -> Option<&Namer<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_read_line_by_line() {
        let text = "4000001000-4000002000 r-xp 00001000 fd:01 12  /tmp/a program\n\
                    4000005000-4000006000 rw-p 00000000 00:00 0 \nnonsense\n";
        let read: Vec<Mapping> = text.lines().filter_map(mapping).collect();
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].start, read[0].offset), (0x40_0000_1000, 0x1000));
        assert_eq!((read[0].path.as_str(), read[1].path.as_str()), ("/tmp/a program", ""));
        let image = ProgramImage::new(text, [0x40_0000_1010].into_iter());
        let place = image.place(true, 0x40_0000_5008);
        assert_eq!(place, Place::Mapping { name: "heap or stack".to_string() });
        assert_eq!(image.function(0x40_0000_1010).as_deref(), Some("a program+0x1010"));
    }
}
