//! Allocating and freeing: in the heap that a search restores.

use machine::Machine;

use super::Task;
use super::access::{Place, ones, with_size};
use crate::heap::{HeapBlock, NotFreed, PlacedHeap};
use crate::hooks::HeapFunction;

impl<M: Machine> Task<'_, M> {
    /// Calls a function with these arguments.
    pub(super) fn heap_function(&self, function: HeapFunction, a: u64, b: u64, c: u64) -> u64 {
        self.ends_wait();
        self.has_effect();
        match function {
            HeapFunction::Malloc => self.allocate(a, 1, ones(8)),
            HeapFunction::New => self.allocate(a, b, ones(8)),
            HeapFunction::Calloc => self.allocate(a.saturating_mul(b), 1, 0),
            HeapFunction::Aligned => self.allocate(b, a, ones(8)),
            HeapFunction::PosixMemalign => {
                let address = self.allocate(c, b, ones(8));
                self.set_expected(Place { address: a as usize, size: 8 }, address);
                0
            }
            HeapFunction::Realloc => self.reallocate(a, b),
            HeapFunction::Free => {
                self.free(a as usize);
                0
            }
        }
    }

    fn heap(&self) -> &PlacedHeap {
        self.instance.heap.as_ref().expect("a program that allocates has a heap")
    }

    /// Memory of its own, filled with these bits: ones are no address, and no memory of others is so by chance.
    fn allocate(&self, bytes: u64, align: u64, pattern: u64) -> u64 {
        let (heap, task) = (self.heap(), self.m.task());
        let Some(block) = heap.allocate(task, bytes as usize, align as usize) else {
            if self.instance.program.heap.grow() {
                self.refuse("it allocates more than was known", "check it again");
            }
            self.refuse(
                &format!("a task allocates more than a search keeps ({bytes} bytes more)"),
                "make the structure smaller: a capacity of 2 or 4, say",
            );
        };
        self.fill_block(heap, block, pattern);
        heap.at(block.owner, block.start) as u64
    }

    /// Frees a block. Whatever others do there without being ordered is a race with that.
    fn free(&self, address: usize) {
        if address == 0 {
            return;
        }
        let heap = self.heap();
        match heap.free(self.m.task(), address) {
            Ok(block) => {
                self.fill_block(heap, block, ones(8));
            }
            Err(NotFreed::Twice) => {
                self.fail(format!("it frees heap memory twice ({})", self.heap_name(address)))
            }
            Err(NotFreed::NeverAllocated) => {
                self.fail(format!("it frees {address:#x}, which no allocation returned"))
            }
        }
    }

    fn reallocate(&self, address: u64, bytes: u64) -> u64 {
        let new = self.allocate(bytes, 1, ones(8));
        if let Some((owner, offset)) = self.heap().owner(address as usize)
            && let Some(block) = self.heap().block(owner, offset, 1)
        {
            self.copy(new as usize, address as usize, (block.end - offset).min(bytes as usize));
            self.free(address as usize);
        }
        new
    }

    fn fill_block(&self, heap: &PlacedHeap, block: HeapBlock, pattern: u64) {
        for (offset, size) in heap.words(block) {
            let place = Place { address: heap.at(block.owner, offset), size };
            with_size!(size, self.set(place, pattern & ones(size)));
        }
    }

    /// Whether memory was allocated, and freed since.
    pub(super) fn is_freed(&self, address: usize) -> bool {
        let Some(heap) = &self.instance.heap else { return false };
        let Some((owner, offset)) = heap.owner(address) else { return false };
        heap.block(owner, offset, 1).is_some_and(|block| block.is_free)
    }

    fn heap_name(&self, address: usize) -> String {
        let owner = self.heap().owner(address);
        owner.map_or_else(String::new, |(task, offset)| format!("heap[{task}]+{offset}"))
    }

    /// An access to a heap: only to what is allocated and was not freed.
    pub(super) fn comes_to_heap(&self, place: Place) {
        let Place { address, size } = place;
        let Some(heap) = &self.instance.heap else { return };
        let Some((owner, offset)) = heap.owner(address) else { return };
        let name = || self.heap_name(address);
        match heap.block(owner, offset, size.into()) {
            None => {
                self.fail(format!("it comes to heap memory that is not allocated ({})", name()))
            }
            Some(block) if block.is_free => {
                self.fail(format!("it comes to heap memory that was freed ({})", name()))
            }
            Some(_) => {}
        }
        if !heap.is_whole(offset, size.into()) {
            self.instance.program.heap.cut(offset, size.into());
            self.refuse("the parts of allocated memory became known too late", "check it again");
        }
    }
}
