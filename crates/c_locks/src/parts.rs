//! What is learned about the parts of a program's memory while it is searched, which is then placed again: where accesses cut
//! variables into smaller words, and where atomic variables of 16 bytes are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use machine::{Member, NamedArray, Word};

/// What is known.
#[derive(Debug, Default)]
pub struct KnownParts {
    has_learned: AtomicBool,
    /// By the name of an array: where words begin and end in an element, besides those of the types.
    cuts: Mutex<BTreeMap<String, BTreeSet<usize>>>,
    /// Whether there are atomic variables of 16 bytes, and their offsets in the region.
    is_wide: AtomicBool,
    wide: Mutex<BTreeSet<usize>>,
}

impl KnownParts {
    /// Whether something was learned since the last call.
    pub fn take_learned(&self) -> bool {
        self.has_learned.swap(false, Relaxed)
    }

    /// Notes an access to a part of a word.
    pub fn cut(&self, array: &str, start: usize, size: usize) {
        let mut cuts = self.cuts.lock().expect("no thread panics while holding it");
        cuts.entry(array.to_string()).or_default().extend([start, start + size]);
        self.has_learned.store(true, Relaxed);
    }

    /// Cuts the words of an array.
    pub fn apply(&self, array: &mut NamedArray) {
        let cuts = self.cuts.lock().expect("no thread panics while holding it");
        let Some(cuts) = cuts.get(&array.name) else { return };
        let words = std::mem::take(&mut array.words);
        for word in words {
            let Word { path, offset, size, cpu_shift } = &word;
            let within: Vec<usize> =
                cuts.range(offset + 1..offset + size).copied().chain([offset + size]).collect();
            if within.len() == 1 {
                array.words.push(word);
                continue;
            }
            let mut start = *offset;
            for end in within {
                while start < end {
                    let fits = |size: &usize| start.is_multiple_of(*size) && start + size <= end;
                    let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
                    let path = format!("{path}<{}..{}>", start - offset, start + size - offset);
                    array.words.push(Word { path, offset: start, size, cpu_shift: *cpu_shift });
                    start += size;
                }
            }
            let (path, offset, size) = (path.clone(), *offset, *size);
            array.members.push(Member { path, offset, size, bits: None });
        }
    }

    /// Notes an atomic variable of 16 bytes. Whether atomic accesses to its halves came before is not known then.
    pub fn add_wide(&self, offset: usize) {
        let is_new = self.wide.lock().expect("no thread panics while holding it").insert(offset);
        if is_new {
            self.is_wide.store(true, Relaxed);
            self.has_learned.store(true, Relaxed);
        }
    }

    /// Whether this offset is in an atomic variable of 16 bytes.
    pub fn has_wide(&self, offset: usize) -> bool {
        self.is_wide.load(Relaxed)
            && self
                .wide
                .lock()
                .expect("no thread panics while holding it")
                .contains(&(offset & !15))
    }
}

/// Which offsets of a region are within a word, behind its first byte; and its arrays.
#[derive(Debug)]
pub struct WordEdges {
    arrays: Vec<NamedArray>,
    inside: Vec<bool>,
}

impl WordEdges {
    pub fn new(arrays: Vec<NamedArray>) -> WordEdges {
        let end = arrays.last().map_or(0, |last| last.offset + last.stride * last.length);
        let mut inside = vec![false; end + 1];
        for array in &arrays {
            for element in 0..array.length {
                for word in &array.words {
                    let start = array.offset + element * array.stride + word.offset;
                    inside[start + 1..start + word.size].fill(true);
                }
            }
        }
        WordEdges { arrays, inside }
    }

    /// The array, and the offset in its element, of an access that begins or ends within a word.
    pub fn cut_by(&self, offset: usize, size: usize) -> Option<(&str, usize)> {
        let is_inside = |at: usize| self.inside.get(at) == Some(&true);
        if !is_inside(offset) && !is_inside(offset + size) {
            return None;
        }
        let array = self.arrays.iter().rev().find(|array| array.offset <= offset)?;
        Some((&array.name, (offset - array.offset) % array.stride))
    }
}

/// Offset and size of the largest aligned words of at most eight bytes between cuts, which ascend.
pub fn pieces(cuts: &[usize]) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    for pair in cuts.windows(2) {
        let mut start = pair[0];
        while start < pair[1] {
            let fits = |size: &usize| start.is_multiple_of(*size) && start + size <= pair[1];
            let size = [8, 4, 2].into_iter().find(fits).unwrap_or(1);
            pieces.push((start, size));
            start += size;
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_by_accesses_to_their_parts() {
        let word = |path: &str, offset, size| Word {
            path: path.to_string(),
            offset,
            size,
            cpu_shift: None,
        };
        let mut array = NamedArray {
            name: "lock".to_string(),
            offset: 64,
            stride: 16,
            length: 2,
            per_cpu: false,
            words: vec![word(".a", 0, 4), word(".b", 4, 4)],
            members: Vec::new(),
        };
        let edges = WordEdges::new(vec![array.clone()]);
        assert_eq!(edges.cut_by(64, 8), None);
        assert_eq!(edges.cut_by(64 + 16 + 5, 1), Some(("lock", 5)));
        let parts = KnownParts::default();
        parts.cut("lock", 5, 1);
        assert!(parts.take_learned() && !parts.take_learned());
        parts.apply(&mut array);
        let words: Vec<_> =
            array.words.iter().map(|word| (word.path.as_str(), word.size)).collect();
        assert_eq!(words, [(".a", 4), (".b<0..1>", 1), (".b<1..2>", 1), (".b<2..4>", 2)]);
        assert_eq!(array.members[0].path, ".b");
        assert_eq!(WordEdges::new(vec![array]).cut_by(64 + 5, 1), None);
    }
}
