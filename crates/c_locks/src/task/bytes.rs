//! Functions of `<string.h>`, and the string instructions that compilers make of them: plain accesses to all their bytes.

use machine::Machine;

use super::Task;
use super::access::{Place, ones, read, with_size, write};
use crate::hooks::BytesFunction;

impl<M: Machine> Task<'_, M> {
    /// Calls a function with these arguments.
    pub(super) fn bytes(&self, function: BytesFunction, a: u64, b: u64, c: u64) -> u64 {
        self.ends_wait();
        let (first, second, bytes) = (a as usize, b as usize, c as usize);
        match function {
            BytesFunction::Memset => self.fill(first, b.wrapping_mul(0x0101_0101_0101_0101), bytes),
            BytesFunction::Memcpy | BytesFunction::Memmove => self.copy(first, second, bytes),
            BytesFunction::Memcmp => return self.compares(first, second, bytes, false),
            BytesFunction::Memchr => return self.finds(first, b as u8, bytes),
            BytesFunction::Strlen => return self.length(first, usize::MAX),
            BytesFunction::Strnlen => return self.length(first, second),
            BytesFunction::Strcmp => return self.compares(first, second, usize::MAX, true),
            BytesFunction::Strncmp => return self.compares(first, second, bytes, true),
            BytesFunction::Strcpy => {
                let bytes = self.length(second, usize::MAX) as usize + 1;
                self.copy(first, second, bytes);
            }
            BytesFunction::Strncpy => {
                let text = self.length(second, bytes) as usize;
                self.copy(first, second, text);
                self.fill(first + text, 0, bytes - text);
            }
        }
        a
    }

    /// Copies bytes, which may overlap, in words where both sides have them.
    pub(super) fn copy(&self, to: usize, from: usize, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let to_own = self.is_own(to, bytes, true);
        let from_own = self.is_own(from, bytes, false);
        let mut left = bytes;
        while left > 0 {
            // Overlapping bytes are read before they are written: from the end where they move up.
            let (at, size) = if from < to {
                let size = piece((to + left) | (from + left), left);
                (left - usize::from(size), size)
            } else {
                let at = bytes - left;
                (at, piece((to + at) | (from + at), left))
            };
            let value = self.read_piece(Place { address: from + at, size }, from_own);
            self.write_piece(Place { address: to + at, size }, to_own, value);
            left -= usize::from(size);
        }
    }

    /// Writes the same bytes everywhere.
    pub(super) fn fill(&self, to: usize, pattern: u64, bytes: usize) {
        if bytes == 0 {
            return;
        }
        let is_own = self.is_own(to, bytes, true);
        let mut at = to;
        while at < to + bytes {
            let size = piece(at, to + bytes - at);
            self.write_piece(Place { address: at, size }, is_own, pattern & ones(size));
            at += usize::from(size);
        }
    }

    fn read_piece(&self, place: Place, is_own: bool) -> u64 {
        if is_own {
            // SAFETY: the task's own stack, or a constant.
            return unsafe { read(place.address, place.size) };
        }
        self.comes_to_place(place);
        self.depend(place);
        with_size!(place.size, self.get(place))
    }

    fn write_piece(&self, place: Place, is_own: bool, value: u64) {
        if is_own {
            // SAFETY: the task's own stack.
            return unsafe { write(place.address, place.size, value) };
        }
        self.comes_to_place(place);
        self.depend(place);
        with_size!(place.size, self.set(place, value));
    }

    fn byte(&self, address: usize) -> u8 {
        self.read_piece(Place { address, size: 1 }, self.is_own(address, 1, false)) as u8
    }

    /// Compares all bytes, or up to the end of a text.
    fn compares(&self, first: usize, second: usize, bytes: usize, is_text: bool) -> u64 {
        let mut difference = 0;
        for at in 0..bytes {
            let (one, other) = (self.byte(first + at), self.byte(second + at));
            if difference == 0 {
                difference = i32::from(one) - i32::from(other);
            }
            if is_text && (difference != 0 || one == 0) {
                break;
            }
        }
        u64::from(difference as u32)
    }

    fn finds(&self, from: usize, byte: u8, bytes: usize) -> u64 {
        let found = (from..from + bytes).find(|&address| self.byte(address) == byte);
        found.unwrap_or(0) as u64
    }

    fn length(&self, text: usize, most: usize) -> u64 {
        (0..most).find(|at| self.byte(text + at) == 0).unwrap_or(most) as u64
    }
}

/// The largest word that these addresses are aligned to, with so many bytes left.
fn piece(addresses: usize, left: usize) -> u8 {
    let fits = |size: &u8| {
        let size = usize::from(*size);
        addresses.is_multiple_of(size) && size <= left
    };
    [8, 4, 2].into_iter().find(fits).unwrap_or(1)
}
