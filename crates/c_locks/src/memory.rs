//! The parts of a program in memory.

use machine::{Member, Word};

/// Bytes that a lock may have.
pub const LOCK_MAX: usize = 8192;

/// Locks lie a multiple of this many bytes apart.
pub const LOCK_STRIDE: usize = 512;

/// Bytes that lie together, and the words in them.
#[derive(Debug, Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    /// The alignment that its sections ask for.
    pub align: usize,
    pub words: Vec<Word>,
    /// Parts that are no words.
    pub members: Vec<Member>,
}

impl Block {
    /// The alignment in memory: a cache line at least.
    pub fn placed_align(&self) -> usize {
        self.align.max(64)
    }

    /// Bytes from one copy of the block to the next.
    pub fn stride(&self) -> usize {
        self.bytes.len().next_multiple_of(self.placed_align())
    }
}

/// Which block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    Code,
    Data,
    ThreadLocal,
}
