//! What lies where in the region, by the names that its arrays gave.

use std::ops::Range;

use machine::Region;

/// Where no word is, and the column or row of a word that has none.
const NONE: u16 = u16::MAX;

/// The words of a region, by index and by offset.
#[derive(Clone, Debug)]
pub struct Layout {
    pub words: Vec<LaidWord>,
    at: Vec<u16>,
    /// Words with plain accesses, as they were found: each has a column of `Orders`.
    pub columns: Vec<u16>,
    column_of: Vec<u16>,
    /// Words that released something: each has a row of `Orders`.
    pub rows: Vec<u16>,
    row_of: Vec<u16>,
    /// Eight bytes each: their offset, and the words that begin in them.
    chunks: Vec<(u32, Range<u16>)>,
}

#[derive(Clone, Debug)]
pub struct LaidWord {
    pub name: String,
    pub offset: u32,
    pub size: u8,
    /// The CPU whose element of a per-CPU array it is in.
    pub cpu: Option<u8>,
    /// Which word it is: alike for the same word of all elements of a per-CPU array.
    pub role: u16,
    pub cpu_shift: Option<u32>,
}

impl Layout {
    pub fn of(region: &Region) -> Layout {
        let mut words = Vec::new();
        let mut roles = 0;
        for block in region.blocks() {
            let each = block.words.len() as u16;
            for element in 0..block.length {
                for (i, word) in block.words.iter().enumerate() {
                    let index = match (block.length, block.per_cpu) {
                        (1, false) => String::new(),
                        _ => format!("[{element}]"),
                    };
                    let own = if block.per_cpu { 0 } else { element as u16 * each };
                    words.push(LaidWord {
                        name: format!("{}{index}{}", block.name, word.path),
                        offset: (block.offset + element * block.stride + word.offset) as u32,
                        size: word.size as u8,
                        cpu: block.per_cpu.then_some(element as u8),
                        role: roles + own + i as u16,
                        cpu_shift: word.cpu_shift,
                    });
                }
            }
            roles += if block.per_cpu { each } else { each * block.length as u16 };
        }
        let mut at = vec![NONE; region.used()];
        for (i, word) in words.iter().enumerate() {
            at[word.offset as usize..][..usize::from(word.size)].fill(i as u16);
        }
        let none = vec![NONE; words.len()];
        let chunks = chunks(&words);
        let (columns, rows) = (vec![], vec![]);
        Layout { at, columns, column_of: none.clone(), rows, row_of: none, words, chunks }
    }

    pub fn chunks(&self) -> impl Iterator<Item = (u32, Range<u16>)> {
        self.chunks.iter().cloned()
    }

    /// The words that `size` bytes at this offset touch.
    pub fn touched(&self, offset: u32, size: u8) -> impl Iterator<Item = usize> + use<> {
        let first = self.at[offset as usize];
        let last = self.at[offset as usize + usize::from(size) - 1];
        assert!(first != NONE && last != NONE, "offset {offset} is in no word of the region");
        usize::from(first)..=usize::from(last)
    }

    pub fn name(&self, offset: u32, size: u8) -> String {
        let names: Vec<_> =
            self.touched(offset, size).map(|word| self.words[word].name.as_str()).collect();
        names.join("+")
    }

    pub fn column(&self, word: usize) -> Option<usize> {
        Some(usize::from(self.column_of[word])).filter(|&column| column != usize::from(NONE))
    }

    pub fn row(&self, word: usize) -> Option<usize> {
        Some(usize::from(self.row_of[word])).filter(|&row| row != usize::from(NONE))
    }

    pub fn add_column(&mut self, word: usize) {
        self.column_of[word] = self.columns.len() as u16;
        self.columns.push(word as u16);
    }

    pub fn add_row(&mut self, word: usize) {
        self.row_of[word] = self.rows.len() as u16;
        self.rows.push(word as u16);
    }
}

fn chunks(words: &[LaidWord]) -> Vec<(u32, Range<u16>)> {
    let mut chunks: Vec<(u32, Range<u16>)> = Vec::new();
    for (i, word) in words.iter().enumerate() {
        let (start, index) = (word.offset & !7, i as u16);
        match chunks.last_mut() {
            Some((chunk, words)) if *chunk == start => words.end = index + 1,
            _ => chunks.push((start, index..index + 1)),
        }
    }
    chunks
}
