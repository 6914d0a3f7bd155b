//! Cells: words that accesses of several sizes join, for views.

use super::layout::{Layout, WordLayout};
use super::request::ones;
use super::views::{NO_COLUMN, Target};

/// Words of a cell at most.
const CELL_WORDS: usize = 8;

impl Layout {
    /// Whether these bytes are whole words.
    pub fn is_whole(&self, offset: u32, size: u8) -> bool {
        let touched = self.touched(offset, size);
        let (first, last) = (&self.words[*touched.start()], &self.words[*touched.end()]);
        first.offset == offset && last.offset + u32::from(last.size) == offset + u32::from(size)
    }

    /// Makes one cell of the words that an access touches. Returns whether they were several.
    pub fn join_cell(&mut self, offset: u32, size: u8) -> bool {
        let touched = self.touched(offset, size);
        let cell = self.cell_of[*touched.start()];
        let joined = self.cell_of[*touched.end()];
        let is_new = cell != joined;
        if is_new {
            for word in usize::from(cell)..self.cell_of.len() {
                let of = self.cell_of[word];
                if of <= joined {
                    self.cell_of[word] = cell;
                }
            }
        }
        for word in usize::from(cell)..self.cell_of.len() {
            if self.cell_of[word] != cell {
                break;
            }
            if self.view_of[word] == NO_COLUMN {
                self.view_of[word] = self.viewed.len() as u16;
                self.viewed.push(word as u16);
            }
        }
        is_new
    }

    /// Whether the cell at this offset is small enough.
    pub fn has_small_cell(&self, offset: u32) -> bool {
        let cell = self.cell_at(offset);
        let words = self.cell_of.iter().filter(|&&of| of == cell).count();
        let first = usize::from(cell);
        let (first, last) = (&self.words[first], &self.words[first + words - 1]);
        let end = last.offset + u32::from(last.size) - 1;
        words <= CELL_WORDS && first.offset & !7 == end & !7
    }

    /// The cell of the word at this offset.
    pub fn cell_at(&self, offset: u32) -> u16 {
        self.cell_of[*self.touched(offset, 1).start()]
    }

    /// The words that an access touches, all in one cell.
    pub fn target(&self, offset: u32, size: u8) -> Target {
        let touched = self.touched(offset, size);
        let cell = self.cell_of[*touched.start()];
        let from = *touched.start() - usize::from(cell);
        let words = touched.count().min(CELL_WORDS);
        let shift = 8 * (offset & 7);
        Target {
            cell,
            words: ((0xFF_u16 >> (CELL_WORDS - words)) << from) as u8,
            columns: self.columns_of(cell),
            mask: ones(size) << shift,
            shift,
        }
    }

    /// One word as a target.
    pub fn target_of(&self, word: usize) -> Target {
        let WordLayout { offset, size, .. } = self.words[word];
        self.target(offset, size)
    }

    /// The columns of the words of a cell.
    pub fn columns_of(&self, cell: u16) -> [u16; CELL_WORDS] {
        std::array::from_fn(|bit| {
            let word = usize::from(cell) + bit;
            match self.cell_of.get(word) {
                Some(&of) if of == cell => self.view_of[word],
                _ => NO_COLUMN,
            }
        })
    }

    /// The bits of each word of a cell, of the eight bytes that hold it.
    pub fn masks(&self, target: &Target) -> [u64; CELL_WORDS] {
        std::array::from_fn(|bit| {
            let word = self.words.get(usize::from(target.cell) + bit);
            word.map_or(0, |word| ones(word.size) << (8 * (word.offset & 7)))
        })
    }
}
