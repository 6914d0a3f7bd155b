//! The memory of algorithms: a zeroed arena in which every array of words has a name.

use std::io;
use std::marker::PhantomData;
use std::ops::Deref;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex};

use crate::{Image, Member, Word};

/// Bytes of a cache line: every array begins on a line of its own.
const LINE: usize = 64;

/// A zeroed arena. It is anonymous shared memory: processes that are forked later share it, and
/// no file is left behind.
#[derive(Debug)]
pub struct Region {
    mapping: Arc<Mapping>,
    arrays: Mutex<Vec<NamedArray>>,
}

/// The name and the place of one array in a region, for machines that need the memory layout.
#[derive(Clone, Debug)]
pub struct NamedArray {
    /// The name that the algorithm gave it.
    pub name: String,
    /// Bytes from the start of the region.
    pub offset: usize,
    /// Bytes from one element to the next.
    pub stride: usize,
    /// Number of elements.
    pub length: usize,
    /// Whether element i belongs to CPU i, and so to the memory of that CPU's node.
    pub per_cpu: bool,
    /// The words of one element.
    pub words: Vec<Word>,
    /// Parts of one element that are no words.
    pub members: Vec<Member>,
}

impl Region {
    /// An arena of this many bytes, rounded up to whole pages.
    pub fn new(bytes: usize) -> io::Result<Region> {
        let mapping = Mapping::new(bytes.next_multiple_of(4096))?;
        Ok(Region { mapping: Arc::new(mapping), arrays: Mutex::new(Vec::new()) })
    }

    /// Allocates `length` zeroed elements that belong to no CPU in particular.
    pub fn array<T: Image>(&self, name: &str, length: usize) -> Array<T> {
        self.take(name, length, false)
    }

    /// Allocates one zeroed element for each CPU.
    pub fn per_cpu<T: Image>(&self, name: &str, cpus: usize) -> Array<T> {
        self.take(name, cpus, true)
    }

    /// Allocates a zeroed array whose layout is known only when the program runs, and returns where it starts. The
    /// region must outlive its use.
    pub fn laid_out(&self, array: NamedArray, align: usize) -> *mut u8 {
        self.reserve(array, align).as_ptr()
    }

    fn take<T: Image>(&self, name: &str, length: usize, per_cpu: bool) -> Array<T> {
        let (name, stride) = (name.to_string(), size_of::<T>());
        let (words, members) = (T::words(), T::members());
        let array = NamedArray { name, offset: 0, stride, length, per_cpu, words, members };
        let start = self.reserve(array, align_of::<T>()).cast();
        Array { start, length, _mapping: self.mapping.clone(), owns: PhantomData }
    }

    /// Gives the array the next offset with this alignment, and returns where it starts. Not generic, so it is
    /// compiled once, not for each type of each algorithm.
    fn reserve(&self, array: NamedArray, align: usize) -> NonNull<u8> {
        assert!(align <= 4096, "a page is the largest alignment of a region");
        let mut arrays = self.arrays.lock().expect("no thread panics while holding it");
        let end = arrays.last().map_or(0, NamedArray::end);
        let array = NamedArray { offset: end.next_multiple_of(align.max(LINE)), ..array };
        assert!(array.end() <= self.mapping.bytes, "the region is too small for {}", array.name);
        // SAFETY: within the mapping, as just checked.
        let start = unsafe { self.mapping.start.add(array.offset) };
        arrays.push(array);
        start
    }

    /// Zeroes the region and forgets its arrays, so that the next ones get the same addresses.
    ///
    /// # Panics
    ///
    /// If one of its arrays is still alive.
    pub fn clear(&mut self) {
        let mapping = Arc::get_mut(&mut self.mapping).expect("no array of the region is alive");
        // SAFETY: exactly the mapping, which nothing else can reach.
        unsafe { mapping.start.write_bytes(0, mapping.bytes) };
        self.arrays.get_mut().expect("no thread panics while holding it").clear();
    }

    /// The arrays of the region, ordered by offset.
    pub fn arrays(&self) -> Vec<NamedArray> {
        self.arrays.lock().expect("no thread panics while holding it").clone()
    }

    /// The first byte of the region. Machines identify a word by its offset from here.
    pub fn start(&self) -> *mut u8 {
        self.mapping.start.as_ptr()
    }

    /// The name of the word at this offset: "node[3].next".
    pub fn name(&self, offset: usize) -> String {
        let arrays = self.arrays();
        let array = arrays.iter().rev().find(|array| array.offset <= offset);
        let Some(array) = array.filter(|array| offset < array.end()) else {
            return format!("byte {offset}");
        };
        let (element, within) =
            ((offset - array.offset) / array.stride, (offset - array.offset) % array.stride);
        let word = array.words.iter().rev().find(|word| word.offset <= within);
        let index = match (array.length, array.per_cpu) {
            (1, false) => String::new(),
            _ => format!("[{element}]"),
        };
        format!("{}{index}{}", array.name, word.map_or("", |word| &word.path))
    }

    /// Bytes that it can hold.
    pub fn bytes(&self) -> usize {
        self.mapping.bytes
    }

    /// Bytes in use.
    pub fn used(&self) -> usize {
        self.arrays().last().map_or(0, NamedArray::end)
    }
}

impl NamedArray {
    fn end(&self) -> usize {
        self.offset + self.stride * self.length
    }
}

/// An array in a region. It keeps the memory of the region alive.
#[derive(Debug)]
pub struct Array<T> {
    start: NonNull<T>,
    length: usize,
    _mapping: Arc<Mapping>,
    owns: PhantomData<T>,
}

impl<T> Array<T> {
    /// Joins two adjacent arrays into one: the second must begin where the first ends.
    ///
    /// # Panics
    ///
    /// If the second array does not begin there.
    pub fn joined(first: &Array<T>, second: &Array<T>) -> Array<T> {
        let end = first.as_ptr_range().end;
        assert!(end == second.start.as_ptr(), "the second array begins where the first ends");
        let length = first.length + second.length;
        Array { start: first.start, length, _mapping: first._mapping.clone(), owns: PhantomData }
    }
}

impl<T> Deref for Array<T> {
    type Target = [T];
    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `take` gave this part of the mapping to arrays of this type alone. Zeroed bytes are
        // valid (`Image`), they change only through atomics, and they live as long as `_mapping`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

// SAFETY: an array only hands out `&T`.
unsafe impl<T: Sync> Sync for Array<T> {}
// SAFETY: the mapping is not tied to a thread.
unsafe impl<T: Sync> Send for Array<T> {}

#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn new(bytes: usize) -> io::Result<Mapping> {
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_SHARED | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no existing memory.
        let address = unsafe { libc::mmap(ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(address.cast()).expect("mmap never returns address 0 unasked");
        Ok(Mapping { start, bytes })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly what `new` mapped; no array is left, because each array holds the mapping.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

// SAFETY: the bytes are used through atomics, or by a machine that has exclusive use of them.
unsafe impl Sync for Mapping {}
// SAFETY: a mapping is not tied to a thread.
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
    fn words_have_the_names_and_offsets_of_the_fields() {
        let words = <Line<Outer<Inner>>>::words();
        let layout: Vec<_> =
            words.iter().map(|w| (w.path.as_str(), w.offset, w.size, w.cpu_shift)).collect();
        assert_eq!(
            layout,
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
    fn two_adjacent_arrays_can_be_joined() {
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
    fn arrays_are_zeroed_share_no_line_and_outlive_the_region() {
        let region = Region::new(4096).unwrap();
        let first = region.array::<Atom<u8>>("first", 3);
        let second = region.per_cpu::<Atom<u64>>("second", 2);
        let layout: Vec<_> = region.arrays().iter().map(|a| (a.offset, a.stride)).collect();
        assert_eq!(layout, [(0, 1), (64, 8)]);
        assert_eq!(region.used(), 80);
        drop(region);
        let m = crate::Native::new(0, 0);
        first[2].store(&m, 7, crate::Ordering::Relaxed);
        assert_eq!(second[1].load(&m, crate::Ordering::Relaxed), 0);
        assert_eq!(first[2].load(&m, crate::Ordering::Relaxed), 7);
    }
}
