//! The parts of a program in memory.

use machine::Word;

/// Bytes that a lock may have.
pub const LOCK_MAX: usize = 512;

/// Bytes that lie together, and the words in them.
#[derive(Debug, Default)]
pub struct Block {
    pub bytes: Vec<u8>,
    pub align: usize,
    pub words: Vec<Word>,
}

/// Which block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Space {
    Code,
    Data,
    ThreadLocal,
}
