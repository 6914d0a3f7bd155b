//! The memory of algorithms: a zeroed arena, in which every array of words has a name.

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use crate::{Image, Word};

/// Arrays begin on lines of their own.
const LINE: usize = 64;

/// A zeroed arena. Anonymous shared memory, so that processes forked later share it too,
/// and nothing can stay behind.
#[derive(Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
    blocks: Mutex<Vec<Block>>,
}

/// One array of a region, for machines that need to know what lies where.
#[derive(Clone, Debug)]
pub struct Block {
    /// What it is called.
    pub name: String,
    /// Bytes from the start of the region.
    pub offset: usize,
    /// Bytes from one element to the next.
    pub stride: usize,
    /// The number of elements.
    pub length: usize,
    /// Whether element i belongs to CPU i, and to its memory.
    pub per_cpu: bool,
    /// The words of one element.
    pub words: Vec<Word>,
}

impl Region {
    /// An arena of this many bytes.
    pub fn new(bytes: usize) -> io::Result<Region> {
        let mapping = Mapping::new(bytes.next_multiple_of(4096))?;
        Ok(Region { mapping: Arc::new(mapping), blocks: Mutex::new(Vec::new()) })
    }

    /// `length` zeroed elements that all CPUs use alike.
    pub fn array<T: Image>(&self, name: &str, length: usize) -> Array<T> {
        self.take(name, length, false)
    }

    /// A zeroed element for each CPU.
    pub fn per_cpu<T: Image>(&self, name: &str, cpus: usize) -> Array<T> {
        self.take(name, cpus, true)
    }

    fn take<T: Image>(&self, name: &str, length: usize, per_cpu: bool) -> Array<T> {
        assert!(align_of::<T>() <= 4096, "a page is the largest alignment of a region");
        let mut blocks = self.blocks.lock().expect("nobody panics while holding it");
        let end = blocks.last().map_or(0, Block::end);
        let offset = end.next_multiple_of(align_of::<T>().max(LINE));
        let (stride, words) = (size_of::<T>(), T::words());
        let block = Block { name: name.to_string(), offset, stride, length, per_cpu, words };
        assert!(block.end() <= self.mapping.bytes, "the region is too small for {name}");
        blocks.push(block);
        // SAFETY: within the mapping, as just checked.
        let start = unsafe { self.mapping.start.add(offset) };
        Array { start: start.cast(), length, _mapping: self.mapping.clone(), owns: PhantomData }
    }

    /// Begins anew: zeroed, without arrays. For who wants the same memory, and not only as much.
    ///
    /// # Panics
    ///
    /// If one of its arrays still lives.
    pub fn clear(&mut self) {
        let mapping = Arc::get_mut(&mut self.mapping).expect("no array of the region lives");
        // SAFETY: all of the mapping, which nobody else can reach.
        unsafe { mapping.start.write_bytes(0, mapping.bytes) };
        self.blocks.get_mut().expect("nobody panics while holding it").clear();
    }

    /// What lies in it, in order.
    pub fn blocks(&self) -> Vec<Block> {
        self.blocks.lock().expect("nobody panics while holding it").clone()
    }

    /// Where it begins: machines know a word by its distance from here.
    pub fn start(&self) -> *mut u8 {
        self.mapping.start.as_ptr()
    }

    /// What the word at this distance from the start is called: "node[3].next".
    pub fn name(&self, offset: usize) -> String {
        let blocks = self.blocks();
        let block = blocks.iter().rev().find(|block| block.offset <= offset);
        let Some(block) = block.filter(|block| offset < block.end()) else {
            return format!("byte {offset}");
        };
        let (element, within) =
            ((offset - block.offset) / block.stride, (offset - block.offset) % block.stride);
        let word = block.words.iter().rev().find(|word| word.offset <= within);
        let index = match (block.length, block.per_cpu) {
            (1, false) => String::new(),
            _ => format!("[{element}]"),
        };
        format!("{}{index}{}", block.name, word.map_or("", |word| &word.path))
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.blocks().last().map_or(0, Block::end)
    }
}

impl Block {
    fn end(&self) -> usize {
        self.offset + self.stride * self.length
    }
}

/// An array in a region, which lives as long as any of its arrays.
#[derive(Debug)]
pub struct Array<T> {
    start: NonNull<T>,
    length: usize,
    _mapping: Arc<Mapping>,
    owns: PhantomData<T>,
}

impl<T> Array<T> {
    /// One array of both, where the second was taken directly after the first and lies against it.
    ///
    /// # Panics
    ///
    /// If it does not.
    pub fn joined(first: &Array<T>, second: &Array<T>) -> Array<T> {
        let end = first.as_ptr_range().end;
        assert!(end == second.start.as_ptr(), "the second lies against the first");
        let length = first.length + second.length;
        Array { start: first.start, length, _mapping: first._mapping.clone(), owns: PhantomData }
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `take` gave this part of the mapping to arrays of this type alone; it is valid when
        // zero (`Image`), changes only through atomics, and lives as long as `_mapping`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

// SAFETY: an array only hands out `&T`.
unsafe impl<T: Sync> Sync for Array<T> {}
// SAFETY: the mapping belongs to no thread.
unsafe impl<T: Sync> Send for Array<T> {}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a fresh anonymous mapping touches no memory that exists.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, access, kind, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).expect("mmap never returns address 0 unasked");
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no array is left, for each holds the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the bytes are only used through atomics, or by a machine that has them alone.
unsafe impl Sync for Mapping {}
// SAFETY: a mapping belongs to no thread.
unsafe impl Send for Mapping {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Atom, Field, Line, image};

    image! {
        struct Inner {
            next: Atom<u16>,
            byte: Atom<u8>,
        }
        struct Outer<T: Image> {
            inner: T,
            /// Names a CPU.
            #[cpu(2)]
            tail: Atom<u32>,
            plain: [Field<u64>; 2],
        }
    }

    #[test]
    fn words_have_the_names_and_places_that_the_struct_gives_them() {
        let words = <Line<Outer<Inner>>>::words();
        let found: Vec<_> =
            words.iter().map(|w| (w.path.as_str(), w.offset, w.size, w.cpu_shift)).collect();
        assert_eq!(
            found,
            [
                (".inner.next", 0, 2, None),
                (".inner.byte", 2, 1, None),
                (".tail", 4, 4, Some(2)),
                (".plain[0]", 8, 8, None),
                (".plain[1]", 16, 8, None),
            ]
        );
    }

    #[test]
    fn two_arrays_that_lie_against_each_other_can_be_one() {
        let mut region = Region::new(4096).unwrap();
        let first = region.per_cpu::<Line<Atom<u32>>>("first", 2);
        let joined = Array::joined(&first, &region.array("second", 1));
        assert_eq!((joined.len(), joined.as_ptr()), (3, first.as_ptr()));
        let m = crate::Native::new(0, 0);
        joined[2].store(&m, 7, crate::Ordering::Relaxed);
        assert_eq!(region.name(128), "second");
        drop((first, joined));
        region.clear();
        let again = region.array::<Line<Atom<u32>>>("again", 3);
        assert_eq!(again[2].load(&m, crate::Ordering::Relaxed), 0);
    }

    #[test]
    fn arrays_are_zero_lie_apart_and_outlive_the_region() {
        let region = Region::new(4096).unwrap();
        let first = region.array::<Atom<u8>>("first", 3);
        let second = region.per_cpu::<Atom<u64>>("second", 2);
        let places: Vec<_> = region.blocks().iter().map(|b| (b.offset, b.stride)).collect();
        assert_eq!(places, [(0, 1), (64, 8)]);
        assert_eq!(region.used(), 80);
        drop(region);
        let m = crate::Native::new(0, 0);
        first[2].store(&m, 7, crate::Ordering::Relaxed);
        assert_eq!(second[1].load(&m, crate::Ordering::Relaxed), 0);
        assert_eq!(first[2].load(&m, crate::Ordering::Relaxed), 7);
    }
}
