//! Tables of programs for walking stacks: compilers leave them in every program for exceptions (.eh_frame, in the format
//! of DWARF's call frame information; Linux Standard Base, "Exception Frames").

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use object::{Object, ObjectSection, ObjectSegment};

use crate::caught;
use crate::elf::{Question, with};

/// A section: its addresses in the file, and its bytes.
type Section = (Range<u64>, Arc<[u8]>);

/// What walking stacks needs of a program's or library's file.
#[derive(Clone, Debug)]
pub struct UnwindTables {
    /// Addresses of the code.
    pub text: Option<Range<u64>>,
    /// `.eh_frame`.
    pub frames: Option<Section>,
    /// `.eh_frame_hdr`: the index of the frames by address.
    pub index: Option<Section>,
    /// What is loaded of the file: places in the file, and the address of the first.
    segments: Vec<(Range<u64>, u64)>,
}

/// The tables of a file.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn unwind_tables(path: &Path) -> Result<UnwindTables> {
    /// More than the largest programs have.
    const SECTION_BYTES_MAX: u64 = 256 << 20;
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            let range = |name: &str| {
                let section = elf.section_by_name(name)?;
                let start = section.address();
                Some(start..start.checked_add(section.size())?)
            };
            let section = |name: &str| {
                let range =
                    range(name).filter(|range| range.end - range.start <= SECTION_BYTES_MAX)?;
                let bytes = elf.section_by_name(name)?.data().ok()?;
                Some((range, Arc::from(bytes)))
            };
            let segments = elf.segments().map(|segment| {
                let (start, length) = segment.file_range();
                (start..start.saturating_add(length), segment.address())
            });
            Ok(UnwindTables {
                text: range(".text"),
                frames: section(".eh_frame"),
                index: section(".eh_frame_hdr"),
                segments: segments.collect(),
            })
        })
    })
}

impl UnwindTables {
    /// The address, in the file, of a place where a mapping begins. A mapping begins at a page, a segment need not: the page may
    /// have the end of the segment before, too.
    pub fn address_of(&self, place: u64) -> Option<u64> {
        let within =
            |(range, _): &&(Range<u64>, u64)| (range.start & !0xfff..range.end).contains(&place);
        let (range, address) = self.segments.iter().rev().find(within)?;
        Some(address.wrapping_sub(range.start.wrapping_sub(place)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_has_tables_and_what_is_no_program_has_none() {
        let tables = unwind_tables(Path::new("/proc/self/exe")).unwrap();
        assert!(tables.frames.is_some() && tables.text.is_some());
        assert!(unwind_tables(Path::new("/proc/self/status")).is_err());
    }

    #[test]
    fn a_mapping_begins_at_the_page_of_its_segment() {
        let segments = vec![(0..0x1040, 0x400000), (0x1040..0x3000, 0x402040)];
        let tables = UnwindTables { text: None, frames: None, index: None, segments };
        assert_eq!(tables.address_of(0), Some(0x400000));
        assert_eq!(tables.address_of(0x1000), Some(0x402000));
        assert_eq!(tables.address_of(0x2000), Some(0x403000));
        assert_eq!(tables.address_of(0x4000), None);
    }
}
