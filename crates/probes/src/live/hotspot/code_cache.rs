//! HotSpot's code cache: heaps of compiled methods, of stubs and of the interpreter
//! (src/hotspot/share/code/codeCache.cpp, src/hotspot/share/memory/heap.cpp).

use std::collections::HashMap;
use std::rc::Rc;

use super::memory::{Members, Memory};
use super::vm_structs::VmStructs;

/// More heaps than there are kinds of code.
const HEAPS_MAX: i32 = 16;
/// A heap has one byte for each segment. That of a block's first is 0, others say how many to go back.
const HOPS_MAX: usize = 4096;
const FREE: u8 = 0xff;

/// The code of a virtual machine.
pub struct CodeCache {
    memory: Memory,
    layout: Layout,
    heaps: Vec<Heap>,
    /// Where blobs begin, by an address in them.
    known: HashMap<u64, u64>,
    names: HashMap<u64, Rc<str>>,
}

struct Heap {
    low: u64,
    high: u64,
    segments: u64,
    log2_segment: u32,
}

/// Offsets in blobs and blocks.
struct Layout {
    name: u64,
    frame_size: u64,
    frame_complete: u64,
    /// Where the code begins and ends.
    code: [CodePlace; 2],
    is_used: u64,
    block: u64,
    blob_bytes: usize,
}

/// How a blob tells where its code is.
#[derive(Clone, Copy)]
enum CodePlace {
    /// The member at this offset is an address: before JDK 23.
    Address(u64),
    /// It is an offset from the blob.
    Offset(u64),
}

/// A piece of code: a compiled method, a stub, the interpreter.
#[derive(Clone)]
pub struct Blob {
    pub address: u64,
    pub name: Rc<str>,
    pub code: std::ops::Range<u64>,
    /// In bytes; 0 where each piece has frames of its own.
    pub frame_bytes: u64,
    /// So far into the code, the frame is there.
    pub frame_complete: i32,
    /// The structure that describes it.
    pub header: Vec<u8>,
}

impl Blob {
    pub fn is_method(&self) -> bool {
        matches!(&*self.name, "nmethod" | "native nmethod")
    }

    pub fn is_interpreter(&self) -> bool {
        &*self.name == "Interpreter"
    }

    /// Whether it makes a thread enter a monitor that another has: the compilers' stubs (src/hotspot/share/opto/runtime.cpp,
    /// src/hotspot/share/c1/c1_Runtime1.cpp).
    pub fn enters_monitor(&self) -> bool {
        self.name.contains("monitorenter") || self.name.contains("complete_monitor_locking")
    }
}

impl CodePlace {
    fn read(self, blob: u64, members: &[u8]) -> Option<u64> {
        match self {
            CodePlace::Address(at) => members.word_at(at),
            CodePlace::Offset(at) => blob.checked_add(u64::try_from(members.int_at(at)?).ok()?),
        }
    }
}

impl CodeCache {
    /// Finds the heaps of a virtual machine.
    ///
    /// # Errors
    /// Says what it does not describe, or what cannot be read.
    pub fn find(memory: Memory, structs: &VmStructs) -> Result<CodeCache, String> {
        let layout = Layout::new(structs)?;
        let unread = || "its code cache cannot be read".to_string();
        let array = memory.word(structs.member("CodeCache._heaps")?).ok_or_else(unread)?;
        let length = array.wrapping_add(structs.member("GrowableArrayBase._len")?);
        let data = array.wrapping_add(structs.member("GrowableArray<int>._data")?);
        let data = memory.word(data).ok_or_else(unread)?;
        let length = memory.int(length).filter(|length| (1..=HEAPS_MAX).contains(length));
        let mut heaps = Vec::new();
        for index in 0..length.ok_or_else(unread)? {
            let heap = memory.word(data.wrapping_add(8 * index as u64)).ok_or_else(unread)?;
            heaps.push(Heap::read(memory, structs, heap)?.ok_or_else(unread)?);
        }
        Ok(CodeCache { memory, layout, heaps, known: HashMap::new(), names: HashMap::new() })
    }

    /// Whether an address may be code of this virtual machine's making.
    pub fn covers(&self, address: u64) -> bool {
        self.heaps.iter().any(|heap| (heap.low..heap.high).contains(&address))
    }

    /// The blob whose code is at an address.
    pub fn blob_at(&mut self, address: u64) -> Option<Blob> {
        let has = |blob: &Blob| blob.code.contains(&address);
        if let Some(known) = self.known.get(&address).copied()
            && let Some(blob) = self.blob(known).filter(has)
        {
            return Some(blob);
        }
        let start = self.start_of_blob(address)?;
        let blob = self.blob(start).filter(has)?;
        self.known.insert(address, start);
        Some(blob)
    }

    fn start_of_blob(&self, address: u64) -> Option<u64> {
        let heap = self.heaps.iter().find(|heap| (heap.low..heap.high).contains(&address))?;
        let mut segment = (address - heap.low) >> heap.log2_segment;
        for _ in 0..HOPS_MAX {
            match self.memory.byte(heap.segments.checked_add(segment)?)? {
                0 => {
                    let block = heap.low + (segment << heap.log2_segment);
                    let is_used = self.memory.byte(block + self.layout.is_used)? != 0;
                    return is_used.then_some(block + self.layout.block);
                }
                FREE => return None,
                back => segment = segment.checked_sub(u64::from(back))?,
            }
        }
        None
    }

    fn blob(&mut self, address: u64) -> Option<Blob> {
        let header = self.memory.bytes(address, self.layout.blob_bytes)?;
        let members = header.as_slice();
        let [start, end] = self.layout.code.map(|place| place.read(address, members));
        let words = u64::try_from(members.int_at(self.layout.frame_size)?).unwrap_or(0);
        let name = self.name(members.word_at(self.layout.name)?)?;
        let frame_complete = match self.layout.code[0] {
            CodePlace::Address(_) => members.int_at(self.layout.frame_complete)?,
            CodePlace::Offset(_) => {
                members.short_at(self.layout.frame_complete)?.cast_signed().into()
            }
        };
        let (code, frame_bytes) = (start?..end?, 8 * words);
        Some(Blob { address, name, code, frame_bytes, frame_complete, header })
    }

    fn name(&mut self, address: u64) -> Option<Rc<str>> {
        if let Some(known) = self.names.get(&address) {
            return Some(known.clone());
        }
        let name: Rc<str> = self.memory.text(address)?.into();
        self.names.insert(address, name.clone());
        Some(name)
    }
}

impl Heap {
    /// `None` if its memory cannot be read.
    fn read(memory: Memory, structs: &VmStructs, heap: u64) -> Result<Option<Heap>, String> {
        let space = heap.wrapping_add(structs.member("CodeHeap._memory")?);
        let segments = heap.wrapping_add(structs.member("CodeHeap._segmap")?);
        let low = structs.member("VirtualSpace._low")?;
        let high = structs.member("VirtualSpace._high_boundary")?;
        let log2 = memory.int(heap.wrapping_add(structs.member("CodeHeap._log2_segment_size")?));
        let read = || {
            Some(Heap {
                low: memory.word(space.wrapping_add(low))?,
                high: memory.word(space.wrapping_add(high))?,
                segments: memory.word(segments.wrapping_add(low))?,
                log2_segment: log2.and_then(|log2| u32::try_from(log2).ok()).filter(|n| *n < 32)?,
            })
        };
        Ok(read())
    }
}

impl Layout {
    fn new(structs: &VmStructs) -> Result<Layout, String> {
        let place = |address: &str, offset: &str| match structs.member(address) {
            Ok(address) => Ok(CodePlace::Address(address)),
            Err(_) => structs.member(offset).map(CodePlace::Offset),
        };
        let code = [
            place("CodeBlob._code_begin", "CodeBlob._code_offset")?,
            place("CodeBlob._code_end", "CodeBlob._data_offset")?,
        ];
        let header_bytes = structs.member("HeapBlock::Header._used")?;
        Ok(Layout {
            name: structs.member("CodeBlob._name")?,
            frame_size: structs.member("CodeBlob._frame_size")?,
            frame_complete: structs.member("CodeBlob._frame_complete_offset")?,
            code,
            is_used: structs.member("HeapBlock._header")? + header_bytes,
            block: structs.size("HeapBlock")?,
            blob_bytes: usize::try_from(structs.size("nmethod")?).unwrap_or(0).min(4096),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_blob_of_an_address_is_found_by_going_back_from_its_segment() {
        let mut code = [0_u64; 128];
        let low = code.as_ptr() as u64;
        let name = c"nmethod";
        // A block of 3 segments of 128 bytes behind the first, which is free: length, whether it is used, and the blob.
        code[16] = 3;
        code[17] = 1;
        let blob = &mut code[18..];
        blob[..5].copy_from_slice(&[name.as_ptr() as u64, low + 256, low + 384, 4, 24]);
        let segments = [FREE, 0, 1, 2, FREE, FREE, FREE, FREE];
        let heap = [low, low + 1024, segments.as_ptr() as u64, 7];
        let heaps = [(&raw const heap) as u64];
        let array = [1, heaps.as_ptr() as u64];
        let array = (&raw const array) as u64;
        let members = [
            ("CodeCache._heaps", (&raw const array) as u64),
            ("GrowableArrayBase._len", 0),
            ("GrowableArray<int>._data", 8),
            ("CodeHeap._memory", 0),
            ("CodeHeap._segmap", 16),
            ("CodeHeap._log2_segment_size", 24),
            ("VirtualSpace._low", 0),
            ("VirtualSpace._high_boundary", 8),
            ("HeapBlock._header", 0),
            ("HeapBlock::Header._used", 8),
            ("CodeBlob._name", 0),
            ("CodeBlob._code_begin", 8),
            ("CodeBlob._code_end", 16),
            ("CodeBlob._frame_size", 24),
            ("CodeBlob._frame_complete_offset", 32),
        ];
        let structs = VmStructs::with(&members, &[("HeapBlock", 16), ("nmethod", 64)]);
        let mut cache = CodeCache::find(Memory(std::process::id()), &structs).unwrap();
        let found = cache.blob_at(low + 300).unwrap();
        assert_eq!((found.is_method(), found.frame_bytes, found.frame_complete), (true, 32, 24));
        assert_eq!(found.code, low + 256..low + 384);
        assert!(cache.blob_at(low + 200).is_none(), "in front of its code");
        assert!(cache.blob_at(low + 600).is_none(), "free");
        assert!(!cache.covers(low + 1024));
    }
}
