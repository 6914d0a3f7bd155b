//! The local variables that lie in memory, and how to find them from an instruction: by the distance of the stack pointer from
//! the frame's address, which the unwind table tells.

use std::ops::Range;

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EndianSlice, LittleEndian, UnwindContext, UnwindSection,
};
use iced_x86::Register;

/// A local variable with a fixed place in its function's frame.
#[derive(Clone, Debug)]
pub struct Local {
    /// The code of its function.
    pub function: Range<usize>,
    /// From the frame's address.
    pub offset: i64,
    pub size: usize,
    /// Its parts: offset, size, name.
    pub parts: Vec<(usize, usize, String)>,
}

impl Local {
    /// The name of the part that begins here.
    pub fn part(&self, offset: usize) -> String {
        let part = self.parts.iter().find(|(start, _, _)| *start == offset);
        part.map_or_else(|| format!("?+{offset}"), |(_, _, name)| name.clone())
    }
}

/// Where frames are: for each stretch of code, the register that the frame's address is relative to, and the distance.
#[derive(Debug, Default)]
pub struct Frames(Vec<(Range<usize>, Register, i64)>);

impl Frames {
    /// Reads the unwind table, which lies at this address, of code that begins at `start`. What cannot be read is left out.
    pub fn read(table: &[u8], address: usize, start: usize) -> Frames {
        let section = EhFrame::new(table, LittleEndian);
        let bases = BaseAddresses::default().set_eh_frame(address as u64);
        let mut frames = Vec::new();
        let mut entries = section.entries(&bases);
        while let Ok(Some(entry)) = entries.next() {
            let gimli::CieOrFde::Fde(partial) = entry else { continue };
            let fde = partial.parse(|_, bases, offset| section.cie_from_offset(bases, offset));
            let Ok(fde) = fde else { continue };
            frames.extend(rows(&section, &bases, &fde, start));
        }
        frames.sort_by_key(|(range, ..)| range.start);
        Frames(frames)
    }

    /// The frame's address, as a register and a distance, at the instruction at this offset.
    pub fn at(&self, offset: usize) -> Option<(Register, i64)> {
        let after = self.0.partition_point(|(range, ..)| range.start <= offset);
        let (range, register, distance) = self.0.get(after.checked_sub(1)?)?;
        range.contains(&offset).then_some((*register, *distance))
    }

    /// Bytes of the largest frame.
    pub fn largest(&self) -> usize {
        self.0.iter().map(|(_, _, distance)| *distance as usize).max().unwrap_or(0)
    }
}

type Table<'a> = EhFrame<EndianSlice<'a, LittleEndian>>;

fn rows<'a>(
    section: &Table<'a>,
    bases: &BaseAddresses,
    fde: &gimli::FrameDescriptionEntry<EndianSlice<'a, LittleEndian>>,
    start: usize,
) -> Vec<(Range<usize>, Register, i64)> {
    let mut context = UnwindContext::new();
    let Ok(mut table) = fde.rows(section, bases, &mut context) else { return Vec::new() };
    let mut rows = Vec::new();
    while let Ok(Some(row)) = table.next_row() {
        let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { continue };
        let register = match register.0 {
            6 => Register::RBP,
            7 => Register::RSP,
            _ => continue,
        };
        let [from, to] = [row.start_address(), row.end_address()].map(|at| at as usize);
        if let Some(from) = from.checked_sub(start) {
            rows.push((from..to.wrapping_sub(start), register, *offset));
        }
    }
    rows
}
