//! The BPF programs in this binary, which the build compressed.

use std::io::Read;

use flate2::read::GzDecoder;

/// An object as the compiler wrote it.
pub fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut object = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut object).expect("the build packed it");
    object
}
