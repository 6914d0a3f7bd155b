//! Lines of source files by address, from a program's debug information (DWARF).

use std::collections::BTreeMap;

use anyhow::Result;
use gimli::{Dwarf, Unit};

use crate::program_types::{ProgramTypes, Slice};
use crate::{caught, printable};

/// A line of a source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceLine {
    /// The file's name, without its folder.
    pub file: String,
    pub line: u64,
}

impl ProgramTypes {
    /// The source lines of instructions, by their addresses in the file; none without debug information. Of code that
    /// the compiler moved into another function, the line is where it was written.
    pub fn source_lines(&self, addresses: &[u64]) -> BTreeMap<u64, SourceLine> {
        let mut sorted = addresses.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        let mut lines = BTreeMap::new();
        // What was read before damage is right.
        let _ = caught("DWARF", || {
            let dwarf = self.dwarf()?;
            let mut units = dwarf.units();
            while let Some(header) = units.next()? {
                add_lines(&dwarf, &dwarf.unit(header)?, &sorted, &mut lines)?;
            }
            Ok(())
        });
        lines
    }
}

/// Adds the lines of the addresses that belong to a unit. A row holds from its address to that of the next one.
fn add_lines(
    dwarf: &Dwarf<Slice<'_>>,
    unit: &Unit<Slice<'_>>,
    sorted: &[u64],
    lines: &mut BTreeMap<u64, SourceLine>,
) -> Result<()> {
    let Some(program) = unit.line_program.clone() else { return Ok(()) };
    let mut rows = program.rows();
    let mut last: Option<(u64, u64, u64)> = None;
    while let Some((header, row)) = rows.next_row()? {
        if let Some((start, file, line)) = last {
            let first = sorted.partition_point(|address| *address < start);
            let inside = sorted[first..].iter().take_while(|address| **address < row.address());
            for address in inside {
                let Some(file) = header.file(file) else { continue };
                let path = dwarf.attr_string(unit, file.path_name())?;
                let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
                lines.insert(*address, SourceLine { file: printable(name), line });
            }
        }
        let line = row.line().filter(|_| !row.end_sequence());
        last = line.map(|line| (row.address(), row.file_index(), line.get()));
    }
    Ok(())
}
