//! The store buffer of a CPU, as one task sees it.

use super::Time;
use super::coherence::WordAddress;

/// A store in the buffer: its line was requested, and its word has not changed yet.
#[derive(Clone, Copy, Debug)]
pub struct PendingStore {
    pub word: WordAddress,
    pub new: u64,
    /// When the task issued it.
    pub at: Time,
    /// When the line arrives.
    pub arrives: Time,
    /// When the CPUs that have the line lose it.
    pub leaves: Time,
}

/// How many stores that have left are kept.
const DONE_MAX: u32 = 64;

/// The stores of a task that other tasks do not see yet, in order.
#[derive(Clone, Debug, Default)]
pub struct StoreBuffer {
    /// These, behind some that have left the buffer.
    stores: Vec<PendingStore>,
    /// How many have left.
    done: u32,
    /// A bit for each line that may have one: for line n, bit n % 32.
    lines: u32,
}

/// The bit of a line.
#[inline(always)]
fn bit(line: u32) -> u32 {
    1 << (line % 32)
}

impl StoreBuffer {
    #[inline(always)]
    fn done(&self) -> usize {
        self.done as usize
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.stores.is_empty()
    }

    /// How many stores are in the buffer.
    #[inline(always)]
    pub fn len(&self) -> usize {
        self.stores.len() - self.done()
    }

    /// Whether a store to this line is in the buffer.
    #[inline(always)]
    pub fn has_line(&self, line: u32) -> bool {
        // Most accesses are to a line without one.
        self.lines & bit(line) != 0
            && self.stores.iter().skip(self.done()).any(|store| store.word.line() == line)
    }

    /// Adds a store as the last one.
    #[inline(always)]
    pub fn push(&mut self, store: PendingStore) {
        if self.done == DONE_MAX {
            self.stores.drain(..self.done());
            self.done = 0;
        }
        self.lines |= bit(store.word.line());
        self.stores.push(store);
    }

    /// The store that is next to leave the buffer.
    #[inline(always)]
    pub fn first(&mut self) -> Option<&mut PendingStore> {
        let first = self.done();
        self.stores.get_mut(first)
    }

    /// Removes the store that is next to leave.
    #[inline(always)]
    pub fn pop(&mut self) {
        self.done += 1;
        if self.done() == self.stores.len() {
            self.stores.clear();
            (self.done, self.lines) = (0, 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stores_leave_in_order_also_from_a_buffer_that_is_never_empty() {
        let mut buffer = StoreBuffer::default();
        let store = |number: u32| PendingStore {
            word: WordAddress { offset: number * 64, size: 8 },
            new: 0,
            at: 0,
            arrives: 0,
            leaves: 0,
        };
        for number in 0..1000 {
            buffer.push(store(number));
            assert!(buffer.has_line(number));
            if number > 0 {
                assert_eq!(buffer.first().map(|first| first.word.offset), Some((number - 1) * 64));
                buffer.pop();
                assert!(!buffer.has_line(number - 1));
            }
            assert_eq!(buffer.len(), 1);
        }
        assert!(buffer.stores.len() <= DONE_MAX as usize + 1);
        buffer.pop();
        assert!(buffer.is_empty() && buffer.first().is_none());
    }
}
