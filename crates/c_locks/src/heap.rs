//! The heap of a program that allocates: memory of its own for each task, in the region, so that a search restores it. A task
//! allocates from its own memory. What it frees it takes again first, for a block of the same size, as allocators with
//! a cache for each thread do. So the heap orders no accesses of two tasks.
//!
//!     free blocks │ bytes in use │ header block │ header block │ ...
//!     header: where the block begins, and where it ends; 0 while it is in use, or which free block is next
//!
//! What parts its words have is learned from the accesses to them, and so is how many bytes it needs. The program is then placed
//! again, as with `stacks`.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use machine::{NamedArray, Region, Word};

use crate::parts::pieces;

/// Bytes of each task's heap at first, and at most.
const BYTES_MIN: usize = 1 << 10;
const BYTES_MAX: usize = 64 << 10;

/// Bytes to which every block is aligned.
const ALIGN: usize = 16;
/// Bytes before the first block: the list of free blocks, and where the used part ends.
const START: usize = 16;
/// Bytes of a header: two offsets of 4 bytes, and 8 bytes that say whether the block is free.
const HEADER: usize = 16;

/// In a list of free blocks: none follows.
const LAST: u64 = 1;

/// What is known about the heap of a program.
#[derive(Debug)]
pub struct Heap {
    has_learned: AtomicBool,
    known: Mutex<Known>,
}

#[derive(Clone, Debug)]
struct Known {
    /// Bytes of each task.
    bytes: usize,
    /// Where words begin and end, besides multiples of eight.
    cuts: BTreeSet<usize>,
}

impl Default for Heap {
    fn default() -> Heap {
        let known = Known { bytes: BYTES_MIN, cuts: BTreeSet::new() };
        Heap { has_learned: AtomicBool::new(false), known: Mutex::new(known) }
    }
}

impl Heap {
    /// Whether something was learned since the last call, so that the program has to be placed again.
    pub fn take_learned(&self) -> bool {
        self.has_learned.swap(false, Relaxed)
    }

    /// Notes a word, for the next time.
    pub fn cut(&self, start: usize, size: usize) {
        self.known
            .lock()
            .expect("no thread panics while holding it")
            .cuts
            .extend([start, start + size]);
        self.has_learned.store(true, Relaxed);
    }

    /// Takes more memory from the next time on. Returns whether there is more.
    pub fn grow(&self) -> bool {
        let mut known = self.known.lock().expect("no thread panics while holding it");
        let grows = known.bytes < BYTES_MAX;
        if grows {
            known.bytes *= 4;
            self.has_learned.store(true, Relaxed);
        }
        grows
    }

    /// Bytes of each task's heap.
    pub fn bytes(&self) -> usize {
        self.known.lock().expect("no thread panics while holding it").bytes
    }

    /// How many words each task's heap has.
    pub fn words(&self) -> usize {
        let known = self.known.lock().expect("no thread panics while holding it");
        known.bytes / 8 + 8 * known.cuts.len()
    }
}

/// A block: offsets in the heap of the task that took it as new memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeapBlock {
    pub owner: usize,
    header: usize,
    pub start: usize,
    pub end: usize,
    pub is_free: bool,
}

/// Why memory cannot be freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFreed {
    Twice,
    NeverAllocated,
}

/// The heaps of all tasks in a region.
#[derive(Debug)]
pub struct PlacedHeap {
    start: usize,
    bytes: usize,
    tasks: usize,
    /// By offset: whether a word begins there.
    begins: Vec<bool>,
}

impl PlacedHeap {
    /// Places the heaps of tasks.
    pub fn new(heap: &Heap, region: &Region, tasks: usize) -> PlacedHeap {
        let Known { bytes, cuts } =
            heap.known.lock().expect("no thread panics while holding it").clone();
        let mut begins: Vec<bool> = (0..=bytes).map(|at| at.is_multiple_of(8)).collect();
        cuts.iter().for_each(|cut| begins[*cut] = true);
        let array = NamedArray {
            name: "heap".to_string(),
            offset: 0,
            stride: bytes,
            length: tasks,
            per_cpu: false,
            words: words(&begins),
            members: Vec::new(),
        };
        let start = region.laid_out(array, 64) as usize;
        let placed = PlacedHeap { start, bytes, tasks, begins };
        (0..tasks).for_each(|task| {
            placed.set(placed.at(task, 0), LAST);
            placed.set(placed.at(task, 8), START as u64);
        });
        placed
    }

    /// The task in whose heap this address is, and the offset there.
    pub fn owner(&self, address: usize) -> Option<(usize, usize)> {
        let offset = address.checked_sub(self.start)?;
        let task = offset / self.bytes;
        (task < self.tasks).then_some((task, offset % self.bytes))
    }

    /// The address of this offset in a task's heap.
    pub fn at(&self, task: usize, offset: usize) -> usize {
        self.start + task * self.bytes + offset
    }

    /// Whether an access to so many bytes is to whole words.
    pub fn is_whole(&self, start: usize, size: usize) -> bool {
        let begins = |at: usize| self.begins.get(at).is_none_or(|begins| *begins);
        begins(start) && begins(start + size)
    }

    /// The words of a block: offset and size.
    pub fn words(&self, block: HeapBlock) -> Vec<(usize, u8)> {
        let words = words(&self.begins[..=block.end]);
        let in_block = words.into_iter().skip_while(|word| word.offset < block.start);
        in_block.map(|word| (word.offset, word.size as u8)).collect()
    }

    /// The block with all these bytes.
    pub fn block(&self, task: usize, start: usize, size: usize) -> Option<HeapBlock> {
        let has_it = |block: &HeapBlock| block.start <= start && start + size <= block.end;
        self.blocks(task).find(has_it)
    }

    fn blocks(&self, task: usize) -> impl Iterator<Item = HeapBlock> + '_ {
        let used = self.get(self.at(task, 8)) as usize;
        let mut header = START;
        std::iter::from_fn(move || {
            let block = (header < used).then(|| self.block_at(task, header))?;
            header = block.end;
            Some(block)
        })
    }

    fn block_at(&self, task: usize, header: usize) -> HeapBlock {
        let place = self.get(self.at(task, header));
        let (start, end) = ((place as u32) as usize, (place >> 32) as usize);
        let is_free = self.get(self.at(task, header + 8)) != 0;
        HeapBlock { owner: task, header, start, end, is_free }
    }

    /// Takes a block of this many bytes for a task: the one of that size that it freed last, or new memory. `None` if there
    /// is too little.
    pub fn allocate(&self, task: usize, bytes: usize, align: usize) -> Option<HeapBlock> {
        let bytes = bytes.max(1).checked_next_multiple_of(ALIGN)?;
        let align = align.max(ALIGN);
        self.reuse(task, bytes, align)
            .or_else(|| {
                let header = self.get(self.at(task, 8)) as usize;
                let base = self.at(task, 0);
                let start = (base + header + HEADER).checked_next_multiple_of(align)? - base;
                let end = start.checked_add(bytes).filter(|end| *end <= self.bytes)?;
                self.set(self.at(task, header), (end as u64) << 32 | start as u64);
                self.set(self.at(task, 8), end as u64);
                Some(HeapBlock { owner: task, header, start, end, is_free: false })
            })
            .map(|block| HeapBlock { is_free: false, ..block })
    }

    fn reuse(&self, task: usize, bytes: usize, align: usize) -> Option<HeapBlock> {
        let mut link = self.at(task, 0);
        loop {
            let next = self.get(link);
            if next == LAST {
                return None;
            }
            let (owner, header) = ((next >> 32) as usize, (next as u32) as usize);
            let block = self.block_at(owner, header);
            let next_link = self.at(owner, header + 8);
            let fits = block.end - block.start == bytes
                && self.at(owner, block.start).is_multiple_of(align);
            if fits {
                self.set(link, self.get(next_link));
                self.set(next_link, 0);
                return Some(block);
            }
            link = next_link;
        }
    }

    /// Frees the block that begins at this address, for the task to take again.
    pub fn free(&self, task: usize, address: usize) -> Result<HeapBlock, NotFreed> {
        let (owner, offset) = self.owner(address).ok_or(NotFreed::NeverAllocated)?;
        let block = self.blocks(owner).find(|block| block.start == offset);
        let block = block.ok_or(NotFreed::NeverAllocated)?;
        if block.is_free {
            return Err(NotFreed::Twice);
        }
        let head = self.at(task, 0);
        self.set(self.at(owner, block.header + 8), self.get(head));
        self.set(head, (owner as u64) << 32 | block.header as u64);
        Ok(block)
    }

    fn get(&self, address: usize) -> u64 {
        // SAFETY: a word of the region that no program accesses itself; tasks take turns.
        unsafe { *(address as *const u64) }
    }

    fn set(&self, address: usize, value: u64) {
        // SAFETY: as above.
        unsafe { *(address as *mut u64) = value };
    }
}

fn words(begins: &[bool]) -> Vec<Word> {
    let cuts: Vec<usize> = (0..begins.len()).filter(|at| begins[*at]).collect();
    let word = |(offset, size)| Word { path: format!("+{offset}"), offset, size, cpu_shift: None };
    pieces(&cuts).into_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(heap: &Heap) -> (Region, PlacedHeap) {
        let region = Region::new(4096 + 2 * heap.bytes()).unwrap();
        let placed = PlacedHeap::new(heap, &region, 2);
        (region, placed)
    }

    #[test]
    fn a_task_takes_again_what_it_freed_last() {
        let (_region, heap) = placed(&Heap::default());
        let [first, second] = [24, 30].map(|bytes| heap.allocate(0, bytes, 1).unwrap());
        let of_other = heap.allocate(1, 24, 1).unwrap();
        assert_eq!((first.end - first.start, of_other.start), (32, first.start));
        let address = heap.at(0, first.start);
        assert_eq!(heap.free(1, address).map(|block| block.start), Ok(first.start));
        assert_eq!(heap.free(0, address), Err(NotFreed::Twice));
        assert_eq!(heap.free(0, address + 8), Err(NotFreed::NeverAllocated));
        assert!(heap.block(0, first.start + 8, 8).unwrap().is_free);
        assert!(heap.allocate(0, 24, 1).unwrap().start > second.start);
        assert_eq!(heap.allocate(1, 24, 1).map(|block| block.header), Some(first.header));
        assert!(!heap.block(0, first.start, 8).unwrap().is_free);
        assert_eq!(heap.block(0, first.end - 4, 8), None);
    }

    #[test]
    fn blocks_are_aligned_and_memory_ends() {
        let heap = Heap::default();
        let (_region, placed) = placed(&heap);
        let block = placed.allocate(1, 100, 64).unwrap();
        assert!(placed.at(1, block.start).is_multiple_of(64));
        assert_eq!(placed.allocate(1, 2000, 1), None);
        assert!(heap.grow() && heap.take_learned() && !heap.take_learned());
        heap.cut(1028, 4);
        let (_region, placed) = self::placed(&heap);
        assert!(placed.is_whole(1028, 4) && !placed.is_whole(1036, 4));
        let block = placed.allocate(1, 2000, 1).unwrap();
        assert_eq!(placed.words(block).len(), (block.end - block.start) / 8 + 1);
    }
}
