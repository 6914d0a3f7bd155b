//! Texts that the build put into the binary, compressed.

use std::io::Read;

use flate2::read::GzDecoder;

/// Texts by path.
pub struct Packed {
    /// Paths with the lengths of their texts, a line each, an empty line, and the texts.
    text: String,
}

impl Packed {
    /// Unpacks what `build/main.rs` wrote.
    pub fn new(packed: &[u8]) -> Self {
        let mut text = String::new();
        GzDecoder::new(packed).read_to_string(&mut text).expect("the build packed it");
        Packed { text }
    }

    /// All paths with their texts, in the order of the paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let (list, texts) = self.text.split_once("\n\n").expect("the build wrote both parts");
        list.lines().scan(texts, |rest, line| {
            let (path, length) = line.split_once(' ')?;
            let (text, next) = rest.split_at(length.parse().ok()?);
            *rest = next;
            Some((path, text))
        })
    }
}
