//! A program in memory: its code on pages of their own, its variables in a region.
//!
//!     code mapping:  code and constants │ stubs of hooks │ slots with addresses
//!     region:        static variables   │ thread-local variables, an element for each task

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::{io, ptr, slice};

use anyhow::{Context, Result, ensure};
use engines::Unsupported;
use iced_x86::Register;
use machine::{CodeSite, NamedArray, Region, SourceLine, Word};

use crate::decoded::{self, Access, Decoded, NOTHING};
use crate::entry::{
    knee_c_hooked, knee_c_hooked_apart, knee_c_instruction, knee_c_instruction_apart,
};
use crate::heap::PlacedHeap;
use crate::hooks::Hook;
use crate::locals::{Frames, Local};
use crate::memory::{Block, Space};
use crate::parts::{KnownParts, WordEdges};
use crate::program::{Program, Relocation, RelocationKind, Target};
use crate::stacks::{FRAME_MAX, PlacedStacks};
use crate::task::STACK;

const PAGE: usize = 4096;
const LINE: usize = 64;
/// Bytes of the stub of a hook: `mov eax, number; movabs r11, address; jmp r11`. That of an instruction changes no register:
/// `push number; jmp [rip + 0]`, and the address.
const STUB_BYTES: usize = 24;
const SLOT_BYTES: usize = 16;
/// Bytes of an instruction at most, and one.
const INSTRUCTION_BYTES: usize = 16;
/// How far code may be from the variables that it refers to.
const REACH: usize = 1 << 30;

/// A program in memory.
#[derive(Debug)]
pub struct Instance {
    pub program: Arc<Program>,
    code: Mapping,
    /// What instructions access, by their offset.
    accesses: Vec<(usize, Access)>,
    data: usize,
    thread_local: usize,
    /// Bytes from one task's thread-local variables to the next task's.
    pub stride: usize,
    pub cpus: usize,
    /// The region with all variables and locks.
    pub region: (usize, usize),
    /// Where the locks begin, once they are placed, and how many there are.
    pub locks: (AtomicUsize, AtomicUsize),
    /// How many operations all tasks did, once they have ended.
    pub operations: AtomicU64,
    /// An address on the stack of each task, once it has called the program.
    stacks: Vec<AtomicUsize>,
    /// The address of the word that is 1 while an atomic access of 16 bytes is under way, where there are such.
    pub wide: AtomicUsize,
    /// Where words begin and end, once all are placed.
    pub edges: OnceLock<WordEdges>,
    /// The heaps of a program that allocates.
    pub heap: Option<PlacedHeap>,
    /// The stacks that lie in the region.
    pub apart: Option<PlacedStacks>,
    /// The frames of functions, where stacks are apart.
    frames: Frames,
    /// Lines whose plain accesses are single ones.
    once_lines: BTreeSet<SourceLine>,
}

impl Instance {
    /// Puts the program's variables into the region, and its code near it.
    pub fn new(program: &Arc<Program>, region: &Region, cpus: usize) -> Result<Instance> {
        let data =
            variables(region, &program.parts, array("", &program.data, 1, false), &program.data);
        let stride = program.thread_local.stride();
        let thread_local = variables(
            region,
            &program.parts,
            array("task", &program.thread_local, cpus, true),
            &program.thread_local,
        );
        let start = region.start() as usize;
        let are_apart = program.stacks.are_apart();
        let apart = are_apart.then(|| {
            let is_once = |name: &str| program.once.has_local(name);
            PlacedStacks::new(&program.stacks, region, cpus, is_once)
        });
        let wide = if program.is_wide() { wide_word(region) } else { 0 };
        let heap = program.allocates.then(|| PlacedHeap::new(&program.heap, region, cpus));
        let Finished { mapping: code, accesses, frames } =
            Code::new(program, data, start)?.finish(program)?;
        let region = (start, start + region.bytes());
        let operations = AtomicU64::new(0);
        let stacks = (0..cpus).map(|_| AtomicUsize::new(0)).collect();
        Ok(Instance {
            program: program.clone(),
            code,
            accesses,
            data,
            thread_local,
            stride,
            cpus,
            region,
            locks: Default::default(),
            operations,
            stacks,
            wide: AtomicUsize::new(wide),
            edges: OnceLock::new(),
            heap,
            apart,
            frames,
            once_lines: program.once.lines(),
        })
    }

    /// Bytes of a region that the program's variables take.
    pub fn bytes(program: &Program, cpus: usize) -> usize {
        let stacks = if program.stacks.are_apart() { PlacedStacks::bytes(cpus) } else { 0 };
        let heap = if program.allocates { program.heap.bytes() * cpus } else { 0 };
        program.data.stride() + program.thread_local.stride() * cpus + stacks + heap + 2 * PAGE
    }

    /// Finds now what would fail later.
    pub fn try_once(program: &Program) -> Result<()> {
        let region = Region::new(Instance::bytes(program, 1)).context("allocating memory")?;
        let align = program.data.placed_align();
        let data = region.laid_out(array("", &program.data, 1, false), align) as usize;
        Code::new(program, data, region.start() as usize)?.finish(program).map(drop)
    }

    pub fn function(&self, offset: usize) -> usize {
        self.code.start + offset
    }

    /// Whether code begins or goes on at an address: that of a function, or the stub of a hook.
    pub fn is_function(&self, address: usize) -> bool {
        let Some(offset) = address.checked_sub(self.code.start) else { return false };
        let program = &self.program;
        program.text.iter().any(|range| range.contains(&offset))
            || stubs_of(program).contains(&offset)
    }

    /// What the symbol that an instruction names adds to its address: an address, or an offset among thread-local variables.
    pub fn symbol(&self, number: usize) -> usize {
        match self.program.instruction_places.get(&number) {
            Some((Space::Code, offset)) => self.code.start + offset,
            Some((Space::Data, offset)) => self.data + offset,
            Some((Space::ThreadLocal, offset)) => *offset,
            None => 0,
        }
    }

    /// The start of a task's thread-local variables.
    pub fn thread_local(&self, cpu: usize) -> usize {
        self.thread_local + cpu * self.stride
    }

    /// The task whose thread-local variables are at this address.
    pub fn owner(&self, address: usize) -> Option<usize> {
        let offset = address.checked_sub(self.thread_local)?;
        offset.checked_div(self.stride).filter(|cpu| *cpu < self.cpus)
    }

    /// Notes an address on a task's stack, above those that the program will use.
    pub fn uses_stack(&self, task: usize, address: usize) {
        if let Some(stack) = self.stacks.get(task) {
            stack.store(address, Relaxed);
        }
    }

    /// Whether the address is on the stack of another task than this, where the program keeps local variables.
    pub fn is_on_stack_of_another(&self, task: usize, address: usize) -> bool {
        self.stacks.iter().enumerate().any(|(other, stack)| {
            let start = stack.load(Relaxed);
            other != task && address < start && start - address < STACK
        })
    }

    /// Whether the address is in a local variable of a function that the task is in. Of code whose variables are not known:
    /// whether it is on the live part of the task's stack.
    pub fn is_live_local(&self, stacks: &PlacedStacks, task: usize, address: usize) -> bool {
        let (mut end, top) = (stacks.end(task), stacks.top(task) - 16);
        if end == 0 || !(end..top).contains(&address) {
            return false;
        }
        while end <= address {
            // SAFETY: on the live part of a stack, below its top, a return address lies below the frame of its function.
            let returns_to = unsafe { *((end - 8) as *const usize) };
            let at = returns_to.wrapping_sub(self.code.start).wrapping_sub(1);
            let Some((Register::RSP, distance)) = self.frames.at(at) else { return true };
            let frame = end + distance as usize;
            let is_it = |local: &&Local| {
                let start = frame.wrapping_add_signed(local.offset as isize);
                local.function.contains(&at) && (start..start + local.size).contains(&address)
            };
            if self.program.locals.is_empty()
                || self.program.locals.iter().any(|local| is_it(&local))
            {
                return true;
            }
            if frame <= end || frame > top {
                return false;
            }
            end = frame;
        }
        false
    }

    /// Whether a plain access to so many bytes here, at this place in the source, is a single one, which races with no atomic
    /// one.
    pub fn is_once(&self, address: usize, size: usize, site: CodeSite) -> bool {
        if self.once_lines.contains(&site.source_line()) {
            return true;
        }
        if let Some((stacks, (_, offset))) =
            self.apart.as_ref().and_then(|stacks| Some((stacks, stacks.owner(address)?)))
        {
            return stacks.is_once(offset);
        }
        let [start, count] = [&self.locks.0, &self.locks.1].map(|number| number.load(Relaxed));
        let offset = address.wrapping_sub(start);
        let stride = self.program.lock_stride;
        offset / stride < count && self.program.once.has_member(offset % stride, size)
    }

    /// Whether the address is in the program's code or constants.
    pub fn is_constant(&self, address: usize) -> bool {
        (self.code.start..self.code.start + self.code.bytes).contains(&address)
    }

    /// The instructions from this address on, if some are there.
    pub fn text_at(&self, address: usize) -> Option<&[u8]> {
        let offset = address.checked_sub(self.code.start)?;
        let range = self.program.text.iter().find(|range| range.contains(&offset))?;
        // SAFETY: a part of our own pages, which nobody writes any more.
        Some(unsafe { slice::from_raw_parts(address as *const u8, range.end - offset) })
    }

    /// What the instruction at this address accesses, of those that have a call before them.
    pub fn access(&self, address: usize) -> Option<&Access> {
        let offset = address.wrapping_sub(self.code.start);
        let found = self.accesses.binary_search_by_key(&offset, |(at, _)| *at);
        found.ok().map(|index| &self.accesses[index].1)
    }

    /// From where to where the code and its constants lie.
    pub fn code_range(&self) -> [usize; 2] {
        [self.code.start, self.code.start + self.code.bytes]
    }

    /// Where the code goes when the processor has refused one of its instructions.
    pub fn trapped(&self) -> usize {
        let number = self.program.hook(Hook::Trapped);
        self.code.start + stubs_of(&self.program).start + number * STUB_BYTES
    }

    /// The source line of an instruction: that of the call before it, or of what is noted behind it.
    pub fn site_of_instruction(&self, address: usize) -> CodeSite {
        let offset = address.wrapping_sub(self.code.start);
        let sites = &self.program.sites;
        let next = sites.partition_point(|(at, _)| *at < offset);
        let behind = sites.get(next).filter(|(at, _)| at - offset < INSTRUCTION_BYTES);
        let site = behind.or_else(|| sites.get(next.checked_sub(1)?));
        site.map_or(CodeSite { file: "", line: 0, column: 0 }, |(_, site)| *site)
    }

    /// The source line of the call that returns to this address.
    pub fn site(&self, return_address: usize) -> CodeSite {
        let offset = return_address.wrapping_sub(self.code.start);
        let sites = &self.program.sites;
        let found = sites.binary_search_by_key(&offset, |(at, _)| *at);
        found.map_or(CodeSite { file: "", line: 0, column: 0 }, |index| sites[index].1)
    }
}

fn array(name: &str, block: &Block, length: usize, per_cpu: bool) -> NamedArray {
    let stride = block.stride();
    let dot = |path: &str| if per_cpu { format!(".{path}") } else { path.to_string() };
    let mut words = block.words.clone();
    words.iter_mut().for_each(|word| word.path = dot(&word.path));
    let mut members = block.members.clone();
    members.iter_mut().for_each(|member| member.path = dot(&member.path));
    NamedArray { name: name.to_string(), offset: 0, stride, length, per_cpu, words, members }
}

/// Allocates variables, with their first values.
fn variables(region: &Region, parts: &KnownParts, mut array: NamedArray, block: &Block) -> usize {
    if block.bytes.is_empty() {
        return 0;
    }
    parts.apply(&mut array);
    let (stride, length) = (array.stride, array.length);
    let start = region.laid_out(array, block.placed_align());
    for element in 0..length {
        // SAFETY: the array has this many elements of this length, and nobody else has seen it yet.
        unsafe {
            let to = start.add(element * stride);
            ptr::copy_nonoverlapping(block.bytes.as_ptr(), to, block.bytes.len());
        }
    }
    start as usize
}

/// Allocates a word.
fn wide_word(region: &Region) -> usize {
    let (name, offset, path) = ("wide".to_string(), 0, String::new());
    let words = vec![Word { path, offset, size: 4, cpu_shift: None }];
    let (stride, length, per_cpu, members) = (LINE, 1, false, Vec::new());
    let array = NamedArray { name, offset, stride, length, per_cpu, words, members };
    region.laid_out(array, LINE) as usize
}

/// Pages with code, which are taken out of the unwinder's list and unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    start: usize,
    bytes: usize,
    unwind_table: Option<usize>,
}

unsafe extern "C" {
    fn __register_frame(table: *const u8);
    fn __deregister_frame(table: *const u8);
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: what `Code::finish` registered, and `Code::new` mapped; no task runs this code any more.
        unsafe {
            if let Some(table) = self.unwind_table {
                __deregister_frame(table as *const u8);
            }
            libc::munmap(self.start as *mut libc::c_void, self.bytes);
        }
    }
}

/// Code while addresses are filled in.
struct Code {
    mapping: Mapping,
    data: usize,
    stubs: usize,
    slots: usize,
    /// Slots with an address, and pairs for thread-local variables.
    known_slots: BTreeMap<(Target, bool), usize>,
    /// Whether it runs on stacks in the region.
    is_apart: bool,
}

/// Code that can run.
struct Finished {
    mapping: Mapping,
    accesses: Vec<(usize, Access)>,
    frames: Frames,
}

impl Code {
    fn new(program: &Program, data: usize, near: usize) -> Result<Code> {
        let Range { start: stubs, end } = stubs_of(program);
        let slots = end.next_multiple_of(LINE);
        let bytes = (slots + program.relocations.len() * SLOT_BYTES + LINE).next_multiple_of(PAGE);
        let mapping = map_near(near, bytes)?;
        // SAFETY: new pages, at least as many bytes.
        unsafe {
            let to = mapping.start as *mut u8;
            ptr::copy_nonoverlapping(program.code.bytes.as_ptr(), to, program.code.bytes.len());
        }
        let is_apart = program.stacks.are_apart();
        Ok(Code { mapping, data, stubs, slots, known_slots: BTreeMap::new(), is_apart })
    }

    fn finish(mut self, program: &Program) -> Result<Finished> {
        for hook in 0..program.hooks.len() {
            self.stub(hook, program.hooks[hook].keeps_registers());
        }
        for relocation in &program.relocations {
            self.relocate(program, relocation)?;
        }
        let (Decoded { mut accesses, unneeded, refused }, frames) = self.decode(program)?;
        program.refuse_instructions(&refused)?;
        for call in unneeded {
            self.write(self.mapping.start + call, &NOTHING);
        }
        accesses.sort_by_key(|(at, _)| *at);
        let Mapping { start, bytes, .. } = self.mapping;
        // SAFETY: our own pages.
        let protected = unsafe {
            libc::mprotect(start as *mut libc::c_void, bytes, libc::PROT_READ | libc::PROT_EXEC)
        };
        ensure!(protected == 0, "making code executable: {}", io::Error::last_os_error());
        if let Some(offset) = program.unwind_table {
            let table = start + offset;
            // SAFETY: a table of the compiler, with all addresses filled in and an end.
            unsafe { __register_frame(table as *const u8) };
            self.mapping.unwind_table = Some(table);
        }
        Ok(Finished { mapping: self.mapping, accesses, frames })
    }

    fn decode(&self, program: &Program) -> Result<(Decoded, Frames)> {
        let Mapping { start, bytes, .. } = self.mapping;
        let function = program.hooks.iter().position(|hook| *hook == Hook::Access);
        // SAFETY: our own pages, which nobody writes meanwhile.
        let code = unsafe { slice::from_raw_parts(start as *const u8, program.code.bytes.len()) };
        let code = decoded::Code {
            bytes: code,
            start,
            text: &program.text,
            function: function.map(|hook| self.stub_address(hook)),
            constant: start..start + bytes,
            locals: if self.is_apart { &program.locals } else { &[] },
            frames: self.frames(program, code),
        };
        let largest = code.frames.largest();
        if largest > FRAME_MAX {
            let why = format!(
                "tasks share local variables, and a function has {largest} bytes of them: a search has {FRAME_MAX}"
            );
            return Err(Unsupported::new(why, "make large ones static _Thread_local").into());
        }
        Ok((code.decode(), code.frames))
    }

    /// The frames of functions, where stacks are apart.
    fn frames(&self, program: &Program, code: &[u8]) -> Frames {
        let Some(table) = program.unwind_table.filter(|_| self.is_apart) else {
            return Frames::default();
        };
        Frames::read(&code[table..], self.mapping.start + table, self.mapping.start)
    }

    fn write(&self, address: usize, bytes: &[u8]) {
        // SAFETY: within the mapping or the program's variables, as offsets of its relocations are.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    }

    fn stub_address(&self, hook: usize) -> usize {
        self.mapping.start + self.stubs + hook * STUB_BYTES
    }

    fn stub(&self, hook: usize, is_instruction: bool) {
        let mut code = vec![if is_instruction { 0x68 } else { 0xB8 }];
        code.extend((hook as u32).to_le_bytes());
        if is_instruction {
            let way = if self.is_apart { knee_c_instruction_apart } else { knee_c_instruction };
            code.extend([0xFF, 0x25, 0, 0, 0, 0]);
            code.extend((way as *const () as u64).to_le_bytes());
            return self.write(self.stub_address(hook), &code);
        }
        let way = if self.is_apart { knee_c_hooked_apart } else { knee_c_hooked };
        code.extend([0x49, 0xBB]);
        code.extend((way as *const () as u64).to_le_bytes());
        code.extend([0x41, 0xFF, 0xE3]);
        self.write(self.stub_address(hook), &code);
    }

    /// The address of a target; of a thread-local variable, its offset.
    fn address(&self, target: Target) -> usize {
        match target {
            Target::Place(Space::Code, offset) => self.mapping.start + offset,
            Target::Place(Space::Data, offset) => self.data + offset,
            Target::Place(Space::ThreadLocal, offset) => offset,
            Target::Hook(hook) => self.stub_address(hook),
            Target::Nowhere => 0,
        }
    }

    /// A slot with the address of the target, or a pair with its offset.
    fn slot(&mut self, target: Target, is_pair: bool) -> usize {
        let next = self.mapping.start + self.slots + self.known_slots.len() * SLOT_BYTES;
        let slot = *self.known_slots.entry((target, is_pair)).or_insert(next);
        let place = if is_pair { slot + 8 } else { slot };
        self.write(place, &(self.address(target) as u64).to_le_bytes());
        slot
    }

    fn relocate(&mut self, program: &Program, relocation: &Relocation) -> Result<()> {
        let Relocation { place: (space, offset), kind, target, addend } = *relocation;
        let place = self.address(Target::Place(space, offset));
        if space == Space::ThreadLocal {
            anyhow::bail!(
                "a thread-local variable begins with an address: set it when a task first needs it"
            );
        }
        let address = match kind {
            // A call that nobody comes to: its code has looked at the address before.
            RelocationKind::Relative if target == Target::Nowhere => {
                self.stub_address(program.hook(Hook::Trap))
            }
            RelocationKind::Slot => self.slot(target, false),
            RelocationKind::ThreadLocalPair => self.slot(target, true),
            RelocationKind::ThreadLocalStart => {
                self.slot(Target::Place(Space::ThreadLocal, 0), true)
            }
            _ => self.address(target),
        };
        let value = address as i64 + addend;
        match kind {
            RelocationKind::Absolute => self.write(place, &value.to_le_bytes()),
            RelocationKind::ThreadLocalOffset => self.write(place, &(value as i32).to_le_bytes()),
            _ => {
                let distance = i32::try_from(value - place as i64);
                let distance = distance.context("code is too far from its variables")?;
                self.write(place, &distance.to_le_bytes());
            }
        }
        Ok(())
    }
}

/// Where the stubs of hooks lie, after the code.
fn stubs_of(program: &Program) -> Range<usize> {
    let start = program.code.bytes.len().next_multiple_of(LINE);
    start..start + program.hooks.len() * STUB_BYTES
}

/// New pages within reach of an address.
fn map_near(near: usize, bytes: usize) -> Result<Mapping> {
    const STEP: usize = 1 << 24;
    let hints = (1..REACH / STEP).map(|i| (near & !(PAGE - 1)).wrapping_sub(i * STEP));
    for hint in hints {
        // SAFETY: a new anonymous mapping touches no existing memory.
        let found = unsafe {
            let (protection, flags) =
                (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
            libc::mmap(hint as *mut libc::c_void, bytes, protection, flags, -1, 0)
        };
        ensure!(found != libc::MAP_FAILED, "mapping code: {}", io::Error::last_os_error());
        let mapping = Mapping { start: found as usize, bytes, unwind_table: None };
        if mapping.start.abs_diff(near) < REACH {
            return Ok(mapping);
        }
    }
    anyhow::bail!("the system has no memory near the lock's variables")
}
