//! Accesses outside every word: an index behind an array's end, or a pointer that went astray.

use machine::CodeSite;

use super::failure::Fault;
use super::world::{FaultFound, World};

impl World {
    /// Reports a task that accesses bytes of the region that belong to no word.
    pub fn check_bounds(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: CodeSite,
    ) -> Result<(), FaultFound> {
        if self.layout.is_in_words(offset, size) {
            return Ok(());
        }
        let place = self.layout.last_before(offset).map_or(String::new(), |word| {
            format!(", {} bytes past the start of {}", offset - word.offset, word.name)
        });
        self.report_fault(Fault::OutOfBounds(format!(
            "t{task} accesses memory at {location} that belongs to no variable{place}"
        )));
        Err(FaultFound)
    }
}
