//! Plain values in the memory of another process.

use super::super::task_files::read_memory;

/// The memory of a process that runs on meanwhile: what is read may be old, and pointers may lead nowhere.
#[derive(Clone, Copy, Debug)]
pub struct Memory(pub u32);

impl Memory {
    /// So many bytes, or none.
    pub fn bytes(self, address: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        (read_memory(self.0, address, &mut bytes) == length).then_some(bytes)
    }

    /// Up to so many bytes: what can be read of them.
    pub fn prefix(self, address: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let read = read_memory(self.0, address, &mut bytes);
        bytes.truncate(read);
        bytes
    }

    pub fn word(self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        (read_memory(self.0, address, &mut bytes) == 8).then(|| u64::from_ne_bytes(bytes))
    }

    pub fn int(self, address: u64) -> Option<i32> {
        let mut bytes = [0; 4];
        (read_memory(self.0, address, &mut bytes) == 4).then(|| i32::from_ne_bytes(bytes))
    }

    pub fn byte(self, address: u64) -> Option<u8> {
        let mut bytes = [0];
        (read_memory(self.0, address, &mut bytes) == 1).then_some(bytes[0])
    }

    /// The text up to a zero.
    pub fn text(self, address: u64) -> Option<String> {
        const LENGTH_MAX: usize = 256;
        // A text may end just before a page that cannot be read.
        let bytes = self.prefix(address, LENGTH_MAX);
        let end = bytes.iter().position(|byte| *byte == 0)?;
        String::from_utf8(bytes[..end].to_vec()).ok()
    }
}

/// Members of a structure whose bytes were read at once.
pub trait Members {
    fn word_at(&self, offset: u64) -> Option<u64>;
    fn int_at(&self, offset: u64) -> Option<i32>;
    fn short_at(&self, offset: u64) -> Option<u16>;
}

impl Members for [u8] {
    fn word_at(&self, offset: u64) -> Option<u64> {
        Some(u64::from_ne_bytes(array(self, offset)?))
    }

    fn int_at(&self, offset: u64) -> Option<i32> {
        Some(i32::from_ne_bytes(array(self, offset)?))
    }

    fn short_at(&self, offset: u64) -> Option<u16> {
        Some(u16::from_ne_bytes(array(self, offset)?))
    }
}

fn array<const N: usize>(bytes: &[u8], offset: u64) -> Option<[u8; N]> {
    let offset = usize::try_from(offset).ok()?;
    bytes.get(offset..offset.checked_add(N)?)?.try_into().ok()
}
