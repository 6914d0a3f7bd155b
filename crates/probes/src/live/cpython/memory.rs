//! Memory of a process, as words and as Python's strings.

use crate::live::task_files::read_memory;

/// The memory of a running process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub process: u32,
}

/// Where members of a string object are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    pub length: u64,
    pub state: u64,
    /// Where the characters begin if all are ASCII, and if not.
    pub ascii: u64,
    pub other: u64,
}

/// A longer name is none of a function or file.
const CHARACTERS_MAX: u64 = 1024;

impl Memory {
    /// The word at an address.
    pub fn word(self, address: u64) -> Option<u64> {
        let mut word = [0];
        self.words(address, &mut word)?;
        Some(word[0])
    }

    /// A member of what lies at an address.
    pub fn member(self, object: u64, offset: u64) -> Option<u64> {
        self.word(object.wrapping_add(offset))
    }

    /// Fills all words, or none.
    pub fn words(self, address: u64, words: &mut [u64]) -> Option<()> {
        let bytes = self.bytes(address, 8 * words.len())?;
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Some(())
    }

    /// So many bytes at an address, or none.
    pub fn bytes(self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        (read_memory(self.process, address, &mut bytes) == length).then_some(bytes)
    }

    /// The characters of a string object, whose type must have been checked: Include/cpython/unicodeobject.h.
    pub fn text(self, at: &Text, address: u64) -> Option<String> {
        const COMPACT: u64 = 1 << 5;
        const ASCII: u64 = 1 << 6;
        let length = self.member(address, at.length)?;
        let state = self.member(address, at.state)?;
        // As PyUnicode_Kind has it: bytes for each character.
        let wide = state >> 2 & 7;
        if length == 0
            || length > CHARACTERS_MAX
            || state & COMPACT == 0
            || ![1, 2, 4].contains(&wide)
        {
            return None;
        }
        let start = address.wrapping_add(if state & ASCII != 0 { at.ascii } else { at.other });
        let bytes = self.bytes(start, (length * wide) as usize)?;
        let characters = bytes.chunks_exact(wide as usize).map(|bytes| {
            let number = bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte));
            char::from_u32(number)
        });
        characters.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Text = Text { length: 16, state: 32, ascii: 40, other: 56 };

    fn text(length: u64, state: u64, characters: &[u8]) -> Option<String> {
        let mut object = [0; 96];
        object[16..24].copy_from_slice(&length.to_ne_bytes());
        object[32..40].copy_from_slice(&state.to_ne_bytes());
        let start = if state & 64 != 0 { 40 } else { 56 };
        object[start..start + characters.len()].copy_from_slice(characters);
        Memory { process: std::process::id() }.text(&AT, (&raw const object) as u64)
    }

    #[test]
    fn strings_are_read_in_each_width() {
        assert_eq!(text(9, 0x64, b"Cache.get").as_deref(), Some("Cache.get"));
        assert_eq!(text(3, 0x24, b"l\xe9a").as_deref(), Some("léa"));
        assert_eq!(text(2, 0x28, &[0x41, 4, 0x42, 4]).as_deref(), Some("ст"));
        assert_eq!(text(1, 0x30, &[0x00, 0xf6, 1, 0]).as_deref(), Some("😀"));
    }

    #[test]
    fn what_is_no_string_is_none() {
        assert_eq!(text(0, 0x64, b""), None);
        assert_eq!(text(1 << 40, 0x64, b"x"), None);
        assert_eq!(text(1, 0x44, b"x"), None, "not compact");
        assert_eq!(text(1, 0x30, &[0, 0, 0, 0xff]), None, "no character");
        assert_eq!(Memory { process: std::process::id() }.word(8), None);
    }
}
