//! Stacks of programs, walked with the unwind tables that compilers leave in every program for exceptions (.eh_frame):
//! programs keep no frame pointers. The walk itself is that of the crate `framehop`.
//!
//! Maps of a process are read when an address lies in none that is known, at most once in each round of events.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;

use framehop::{
    CacheNative, ExplicitModuleSectionInfo, FrameAddress, Module, UnwindRegsNative, Unwinder,
    UnwinderNative,
};
use perf_data::{ProgramTypes, UnwindTables, Variables};
use records::live::Touch;

use super::hotspot::{self, Hotspot, Inner, Registers, Stack};
#[cfg(feature = "bpf")]
use super::raw::RawStack;
use super::task_files::{Place, read_memory};
use super::touches::{CODE_BYTES, touches};
use super::user_registers::{REGISTERS, UserRegisters};
use crate::ledger::programs::{CodeLocation, Programs, is_call};

/// More frames than a stack of 8 KiB has.
const FRAMES_MAX: usize = 96;

/// What walking stacks of processes needs.
#[derive(Default)]
pub struct UserStacks {
    processes: HashMap<u32, Process>,
    /// Unwind tables of files, by path.
    tables: HashMap<PathBuf, Option<Arc<UnwindTables>>>,
    /// Variables of files, by path.
    variables: HashMap<PathBuf, Option<Variables>>,
    /// Types of files, by path.
    types: HashMap<PathBuf, Option<ProgramTypes>>,
    pub programs: Programs,
    /// Virtual machines of Java, by process and where their library lies; `None` if they show no methods.
    java: HashMap<(u32, u64), Option<Hotspot>>,
    /// What stacks lack, and why.
    pub missing: BTreeMap<String, String>,
    /// Processes whose maps were read in this round.
    fresh: BTreeSet<u32>,
    /// How often maps were read.
    reads: u64,
    /// The variables at addresses that were asked for before.
    named: HashMap<(u32, u64), String>,
}

struct Process {
    unwinder: UnwinderNative<Arc<[u8]>, framehop::MayAllocateDuringUnwind>,
    cache: CacheNative<framehop::MayAllocateDuringUnwind>,
    mappings: Vec<Mapping>,
    /// Code without unwind tables, as Go's: each function keeps a frame pointer there.
    by_pointers: Vec<Range<u64>>,
    /// Which reading of maps these are.
    read: u64,
    /// Where the library of its virtual machine of Java lies.
    java: Option<u64>,
}

/// A frame of a stack.
enum Frame {
    /// The address of its instruction.
    Address(u64),
    /// The name of a method that a virtual machine executes.
    Method(Rc<str>),
}

impl Frame {
    fn address(&self) -> Option<u64> {
        match self {
            Frame::Address(address) => Some(*address),
            Frame::Method(_) => None,
        }
    }

    fn is_address(&self) -> bool {
        self.address().is_some()
    }
}

/// What the instructions at the top of a sample in a program access. Their code is read from the process: a runtime may have
/// compiled it a moment ago.
pub fn touched(process: u32, ip: u64, registers: &[u64; REGISTERS]) -> Vec<Touch> {
    let mut code = [0; 2 * CODE_BYTES];
    let Some(start) = ip.checked_sub(CODE_BYTES as u64) else { return Vec::new() };
    if read_memory(process, start, &mut code) < code.len() {
        return Vec::new();
    }
    touches(&code, CODE_BYTES, registers)
}

/// A part of a process's memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mapping {
    range: Range<u64>,
    offset: u64,
    is_code: bool,
    /// Empty if it is no file's.
    pub path: String,
}

/// A walked stack.
pub struct Walked {
    /// Where its frames are, innermost first.
    pub frames: Vec<CodeLocation>,
    /// Whether the walk ended where the thread began.
    pub is_whole: bool,
}

impl UserStacks {
    /// Begins a round of events: maps may be read again.
    pub fn begin_round(&mut self) {
        self.fresh.clear();
    }

    /// Reads what takes long of the processes of virtual machines, so that following them begins with it.
    #[cfg(feature = "bpf")]
    pub fn prepare(&mut self, number: u32) {
        let maps = fs::read_to_string(format!("/proc/{number}/maps")).unwrap_or_default();
        if maps.contains(hotspot::LIBRARY) {
            self.read_maps(number);
        }
    }

    /// Forgets all processes but these.
    pub fn keep(&mut self, processes: &BTreeSet<u32>) {
        self.processes.retain(|process, _| processes.contains(process));
        self.named.retain(|(process, _), _| processes.contains(process));
        self.java.retain(|(process, _), _| processes.contains(process));
        self.programs.keep(processes);
    }

    /// Walks the stack of an event.
    #[cfg(feature = "bpf")]
    pub fn walk(&mut self, raw: &RawStack) -> Walked {
        self.walk_from(raw.process, &raw.registers, &raw.stack)
    }

    /// Walks the stack of a thread that waits at a place: it lies in the memory of its process.
    pub fn walk_waiting(&mut self, process: u32, place: Place) -> Walked {
        /// Most locks are waited for within fewer.
        const STACK_BYTES: usize = 8 << 10;
        let mut bytes = vec![0; STACK_BYTES];
        let length = read_memory(process, place.sp, &mut bytes);
        let registers = UserRegisters { ip: place.ip, sp: place.sp, bp: 0, link: 0 };
        self.walk_from(process, &registers, &bytes[..length])
    }

    /// Walks a stack of a process, from its registers and what lies at its stack pointer and above.
    pub fn walk_from(&mut self, number: u32, registers: &UserRegisters, stack: &[u8]) -> Walked {
        let ip = registers.ip;
        let is_known =
            |process: &Process| process.mappings.iter().any(|m| m.is_code && m.range.contains(&ip));
        let known = self.processes.get(&number).is_some_and(is_known);
        if !known && self.fresh.insert(number) {
            self.read_maps(number);
        }
        let Some(process) = self.processes.get_mut(&number) else {
            return Walked { frames: Vec::new(), is_whole: false };
        };
        let java = process.java.and_then(|at| self.java.get_mut(&(number, at))?.as_mut());
        let mut code = Code { number, programs: &mut self.programs };
        let (found, is_whole) = frames(process, java, &mut code, registers, stack);
        let frames = self.located(number, &found);
        let is_whole = is_whole && frames.len() == found.len();
        Walked { frames, is_whole }
    }

    /// Where frames are, up to the first that is in no known code.
    fn located(&mut self, number: u32, frames: &[Frame]) -> Vec<CodeLocation> {
        // The programs that code lies in are read again by themselves.
        let mut fresh = BTreeSet::new();
        let mut located = Vec::new();
        for run in frames.chunk_by(|a, b| a.is_address() && b.is_address()) {
            if let [Frame::Method(name)] = run {
                located.push(self.programs.generated(name));
                continue;
            }
            // A caller's address is that of the instruction after the call: all but the innermost are callers.
            let before = u64::from(!located.is_empty());
            let mut addresses: Vec<u64> = run.iter().filter_map(Frame::address).collect();
            addresses.iter_mut().take(1).for_each(|first| *first -= before.min(*first));
            let found = self.programs.locations(number, &addresses, &mut fresh);
            let is_cut = found.len() < addresses.len();
            located.extend(found);
            if is_cut {
                break;
            }
        }
        located
    }

    /// Reads what a process has mapped.
    pub fn read_maps(&mut self, number: u32) {
        let Ok(maps) = fs::read_to_string(format!("/proc/{number}/maps")) else { return };
        let mappings = parse(&maps);
        let (mut unwinder, mut by_pointers) = (UnwinderNative::new(), Vec::new());
        let root = crate::ledger::programs::root_of(number);
        for mapping in mappings.iter().filter(|mapping| mapping.is_code) {
            if !mapping.path.starts_with('/') {
                continue;
            }
            let path = PathBuf::from(format!("{root}{}", mapping.path));
            let tables = self.tables.entry(path.clone());
            let tables =
                tables.or_insert_with(|| perf_data::unwind_tables(&path).ok().map(Arc::new));
            if let Some(module) = tables.as_ref().and_then(|tables| module(mapping, tables)) {
                unwinder.add_module(module);
            }
            if tables.as_ref().is_some_and(|tables| tables.frames.is_none()) {
                by_pointers.push(mapping.range.clone());
            }
        }
        let cache = CacheNative::new();
        let java = self.find_java(number, &mappings, &root);
        self.reads += 1;
        let read = self.reads;
        let process = Process { unwinder, cache, mappings, by_pointers, read, java };
        self.processes.insert(number, process);
    }

    /// Which reading of maps the known ones of a process are; 0 if there are none.
    pub fn maps_read(&self, number: u32) -> u64 {
        self.processes.get(&number).map_or(0, |process| process.read)
    }

    /// The files of whose code a process has mapped a part.
    pub fn code(&self, number: u32) -> impl Iterator<Item = &Mapping> {
        let mappings = self.processes.get(&number).map(|process| process.mappings.iter());
        let code = mappings.into_iter().flatten().filter(|mapping| mapping.is_code);
        code.filter(|mapping| mapping.path.starts_with('/'))
    }

    /// Finds the virtual machine of Java in a process, if there is one: where its library lies.
    fn find_java(&mut self, number: u32, mappings: &[Mapping], root: &str) -> Option<u64> {
        let is_library = |path: &str| path.rsplit('/').next() == Some(hotspot::LIBRARY);
        let is_code = |mapping: &&Mapping| mapping.is_code && is_library(&mapping.path);
        let library = mappings.iter().find(is_code)?;
        let start = library.range.start;
        if !self.java.contains_key(&(number, start)) {
            let path = PathBuf::from(format!("{root}{}", library.path));
            let variables = perf_data::exported_variables(&path, hotspot::EXPORTED);
            let variables = variables.unwrap_or_default();
            let tables = self.tables.get(&path).and_then(Option::as_ref);
            let bias = tables
                .and_then(|tables| Some(start.wrapping_sub(tables.address_of(library.offset)?)));
            let exported = |name: &str| {
                let (_, address) = variables.iter().find(|(known, _)| known == name)?;
                Some(address.wrapping_add(bias?))
            };
            let found = Hotspot::find(number, &exported);
            let lacks = |why: &String| format!("virtual machine of process {number}: {why}");
            let missing = found.as_ref().err().map(lacks);
            let what = || "names of Java methods".to_string();
            self.missing.extend(missing.map(|why| (what(), why)));
            self.java.insert((number, start), found.ok());
        }
        Some(start)
    }

    /// The variable at an address of a process: `table_lock`, `pool.lock`. `None` on the heap and on stacks, and in
    /// programs without symbols.
    pub fn variable(&mut self, number: u32, address: u64) -> Option<String> {
        if let Some(name) = self.named.get(&(number, address)) {
            return Some(name.clone());
        }
        let name = self.read_variable(number, address)?;
        self.named.insert((number, address), name.clone());
        Some(name)
    }

    fn read_variable(&mut self, number: u32, address: u64) -> Option<String> {
        let process = self.processes.get(&number)?;
        let at = process.mappings.iter().position(|m| m.range.contains(&address))?;
        // What a program's variables need beyond its file follows the file without a name.
        let of_file = process.mappings[..=at].iter().rev().find(|m| !m.path.is_empty())?;
        let gap = process.mappings[at].range.start.checked_sub(of_file.range.end);
        let follows = process.mappings[at] == *of_file || gap == Some(0);
        if !follows || !of_file.path.starts_with('/') {
            return None;
        }
        let path =
            PathBuf::from(format!("{}{}", crate::ledger::programs::root_of(number), of_file.path));
        let variables = self.variables.entry(path.clone());
        let variables = variables.or_insert_with(|| perf_data::variables(&path).ok()).as_ref()?;
        let in_file = address.checked_sub(bias(of_file, variables)?)?;
        let (variable, offset) = variables.at(in_file)?;
        let (name, start) = (variable.name.clone(), variable.address);
        let types = self.types.entry(path.clone());
        let types = types.or_insert_with(|| ProgramTypes::read(&path).ok());
        let member = types.as_ref().and_then(|types| types.member(start, offset));
        Some(match member {
            Some(member) => format!("{name}{}", lock_of(&member.path)),
            None if offset == 0 => name,
            None => format!("{name}+{offset}"),
        })
    }
}

/// The path of a lock, without what lies inside of the libraries' types: `.lock` of `.lock.__data.__lock`.
fn lock_of(path: &str) -> &str {
    let inside = [".__", "._M_"].into_iter().filter_map(|part| path.find(part)).min();
    inside.map_or(path, |end| &path[..end])
}

/// What is added to addresses of a file where it is mapped.
pub fn bias(mapping: &Mapping, variables: &Variables) -> Option<u64> {
    let segment = variables.segments.iter().rev().find(|(range, offset)| {
        let length = range.end - range.start;
        let page = offset & !0xfff;
        (page..offset + length).contains(&mapping.offset)
    });
    let (range, offset) = segment?;
    // A mapping begins at a page, a segment need not.
    let begins = range.start.wrapping_sub(offset.wrapping_sub(mapping.offset));
    Some(mapping.range.start.wrapping_sub(begins))
}

fn module(mapping: &Mapping, tables: &UnwindTables) -> Option<Module<Arc<[u8]>>> {
    let begins = tables.address_of(mapping.offset)?;
    let base = mapping.range.start.wrapping_sub(begins);
    let sections = ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: tables.text.clone(),
        eh_frame_svma: tables.frames.as_ref().map(|(range, _)| range.clone()),
        eh_frame: tables.frames.as_ref().map(|(_, bytes)| bytes.clone()),
        eh_frame_hdr_svma: tables.index.as_ref().map(|(range, _)| range.clone()),
        eh_frame_hdr: tables.index.as_ref().map(|(_, bytes)| bytes.clone()),
        ..ExplicitModuleSectionInfo::default()
    };
    Some(Module::new(mapping.path.clone(), mapping.range.clone(), base, sections))
}

/// The code of a process.
struct Code<'p> {
    number: u32,
    programs: &'p mut Programs,
}

impl Code<'_> {
    /// The frame pointer where it is not known, as in /proc: that of the innermost function above a stack pointer that keeps one, as
    /// unwind tables ask for it. It points to the caller's, and to where the caller goes on. 0 if there is none near. Where each
    /// function keeps one, the caller's is one too: what functions left there that have ended may not be.
    fn frame_pointer(
        &mut self,
        mappings: &[Mapping],
        (sp, is_kept_by_all): (u64, bool),
        word: &dyn Fn(u64) -> Option<u64>,
    ) -> u64 {
        const SEARCHED: u64 = 512;
        const FRAME_MAX: u64 = 64 << 10;
        let mut returns =
            |at: u64| word(at).is_some_and(|address| self.follows_a_call(mappings, address));
        let mut keeps = |at: u64| returns(at.saturating_add(8)) && !returns(at);
        let is_near = |at: u64, next: u64| {
            next.checked_sub(at).is_some_and(|away| (1..FRAME_MAX).contains(&away))
        };
        let mut is_one = |at: u64| {
            let next = word(at).filter(|_| keeps(at));
            next.is_some_and(|next| {
                // What was not read of the stack may be one.
                let is_chained = is_near(at, next) && (word(next + 8).is_none() || keeps(next));
                is_chained || !is_kept_by_all
            })
        };
        let mut pairs = (sp..sp.saturating_add(SEARCHED)).step_by(size_of::<u64>());
        pairs.find(|at| is_one(*at)).unwrap_or(0)
    }

    /// Whether code goes on here after a call, in a file or in what a runtime has compiled.
    fn follows_a_call(&mut self, mappings: &[Mapping], address: u64) -> bool {
        if self.programs.follows_a_call(self.number, address) {
            return true;
        }
        let is_compiled = |mapping: &Mapping| {
            mapping.is_code && mapping.path.is_empty() && mapping.range.contains(&address)
        };
        if !mappings.iter().any(is_compiled) {
            return false;
        }
        let mut before = [0; 7];
        let start = address.saturating_sub(before.len() as u64);
        read_memory(self.number, start, &mut before) == before.len() && is_call(before)
    }
}

/// The frames of a stack, innermost first, and whether the walk came to the end. A frame pointer of 0 is looked for where a frame
/// asks for it.
fn frames(
    process: &mut Process,
    mut java: Option<&mut Hotspot>,
    code: &mut Code,
    registers: &UserRegisters,
    stack: &[u8],
) -> (Vec<Frame>, bool) {
    let word = |address: u64| {
        let at = address.checked_sub(registers.sp).and_then(|at| usize::try_from(at).ok());
        let word = at.and_then(|at| stack.get(at..at.checked_add(8)?)?.try_into().ok());
        word.map(u64::from_ne_bytes)
    };
    let first = if cfg!(target_arch = "aarch64") { registers.link } else { registers.ip };
    let mut now = UnwindRegsNative::new(first, registers.sp, registers.bp);
    let Process { unwinder, cache, mappings, by_pointers, .. } = process;
    let mappings: &[Mapping] = mappings;
    let is_code = |address| mappings.iter().any(|m| m.is_code && m.range.contains(&address));
    let mut is_unknown = registers.bp == 0;
    let mut look_for = |now: &mut UnwindRegsNative| {
        let is_kept_by_all = by_pointers.iter().any(|code| code.contains(&registers.ip));
        let place = (now.sp(), is_kept_by_all);
        let bp = if is_unknown { code.frame_pointer(mappings, place, &word) } else { 0 };
        is_unknown = false;
        if bp != 0 {
            point_at(now, bp);
        }
        bp != 0
    };
    let mut frames = Vec::new();
    let mut at = FrameAddress::from_instruction_pointer(registers.ip);
    let mut inner = Inner::Nothing;
    for _ in 0..FRAMES_MAX {
        let caller = match &mut java {
            Some(java) if java.covers(at.address_for_lookup()) => {
                look_for(&mut now);
                let before = pointers(at.address(), &now);
                let stack = Stack { word: &word, is_code: &is_code };
                let (methods, caller) = java.step(before, inner, &stack);
                frames.extend(methods.into_iter().map(Frame::Method));
                let Some(caller) = caller.filter(|caller| caller.sp > before.sp) else {
                    return (frames, false);
                };
                (now, inner) =
                    (UnwindRegsNative::new(caller.ip, caller.sp, caller.bp), Inner::Compiled);
                Ok(Some(caller.ip))
            }
            _ => {
                frames.push(Frame::Address(at.address()));
                inner = Inner::Native;
                let before = now;
                let caller =
                    unwinder.unwind_frame(at, &mut now, cache, &mut |at| word(at).ok_or(()));
                // Without a frame pointer, one that asks for it seems to be the last.
                let is_lost = !matches!(caller, Ok(Some(_)));
                now = if is_lost { before } else { now };
                if is_lost && look_for(&mut now) {
                    unwinder.unwind_frame(at, &mut now, cache, &mut |at| word(at).ok_or(()))
                } else {
                    caller
                }
            }
        };
        at = match caller.map(|caller| caller.map(FrameAddress::from_return_address)) {
            Ok(Some(Some(caller))) => caller,
            Ok(None) => return (frames, true),
            Ok(Some(None)) | Err(_) => return (frames, false),
        };
    }
    (frames, false)
}

/// Sets the frame pointer.
fn point_at(now: &mut UnwindRegsNative, bp: u64) {
    #[cfg(target_arch = "aarch64")]
    now.set_fp(bp);
    #[cfg(not(target_arch = "aarch64"))]
    now.set_bp(bp);
}

/// The registers with which a frame is walked on.
fn pointers(ip: u64, now: &UnwindRegsNative) -> Registers {
    #[cfg(target_arch = "aarch64")]
    let bp = now.fp();
    #[cfg(not(target_arch = "aarch64"))]
    let bp = now.bp();
    Registers { ip, sp: now.sp(), bp }
}

/// Parses lines `START-END rwxp OFFSET DEVICE INODE   PATH`.
fn parse(maps: &str) -> Vec<Mapping> {
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    let mapping = |line: &str| {
        let mut words = line.splitn(6, ' ');
        let (range, access, offset) = (words.next()?, words.next()?, words.next()?);
        let path = words.nth(2).unwrap_or_default().trim_start();
        let (start, end) = range.split_once('-')?;
        Some(Mapping {
            range: hex(start)?..hex(end)?,
            offset: hex(offset)?,
            is_code: access.contains('x'),
            path: path.to_string(),
        })
    };
    maps.lines().filter_map(mapping).collect()
}

/// The names of variables at addresses of processes.
pub fn variables(
    stacks: &mut UserStacks,
    addresses: &BTreeSet<(u32, u64)>,
) -> BTreeMap<(u32, u64), String> {
    let named = addresses.iter().filter_map(|(process, address)| {
        Some(((*process, *address), stacks.variable(*process, *address)?))
    });
    named.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    static LOCK_OF_THIS_TEST: std::sync::Mutex<u64> = std::sync::Mutex::new(0);

    #[test]
    fn a_variable_of_this_process_has_its_name() {
        let mut stacks = UserStacks::default();
        stacks.read_maps(std::process::id());
        let address = (&raw const LOCK_OF_THIS_TEST) as u64;
        let name = stacks.variable(std::process::id(), address).unwrap();
        assert!(name.contains("LOCK_OF_THIS_TEST"), "{name}");
        let on_stack = 0_u64;
        assert_eq!(stacks.variable(std::process::id(), (&raw const on_stack) as u64), None);
    }

    #[test]
    fn what_a_lock_has_inside_is_not_its_name() {
        assert_eq!(lock_of(".lock.__data.__lock"), ".lock");
        assert_eq!(lock_of(".__data.__lock"), "");
        assert_eq!(lock_of(".pool.guard"), ".pool.guard");
    }

    #[test]
    fn maps_are_read_as_the_kernel_writes_them() {
        let maps = "55d0-55e0 r--p 00000000 fe:00 12   /usr/bin/a program\n\
                    55e0-5600 r-xp 00001000 fe:00 12   /usr/bin/a program\n\
                    7f00-7f10 rw-p 00000000 00:00 0 \n";
        let parsed = parse(maps);
        assert_eq!(parsed[1].path, "/usr/bin/a program");
        assert_eq!((parsed[1].offset, parsed[1].is_code), (0x1000, true));
        assert_eq!(parsed[2].path, "");
    }
}
