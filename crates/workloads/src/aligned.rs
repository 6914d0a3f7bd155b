//! Bytes that begin at a page, as direct IO needs them.

use std::ops::{Deref, DerefMut};

use crate::mapping::page_bytes;

/// Bytes at the start of a page.
pub(crate) struct Aligned {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    /// `length` bytes of this value.
    pub(crate) fn new(length: usize, value: u8) -> Aligned {
        let page = page_bytes();
        let bytes = vec![value; length + page];
        let start = bytes.as_ptr().addr().next_multiple_of(page) - bytes.as_ptr().addr();
        Aligned { bytes, start, length }
    }
}

impl Deref for Aligned {
    type Target = [u8];
    #[inline(always)]
    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl DerefMut for Aligned {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}
