//! A compiled lock: its object file, taken apart into what an [`Instance`](crate::instance::Instance) is made of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use algorithms::Equivalent;
use anyhow::{Context, Result, bail, ensure};
use engines::Unsupported;
use machine::{CodeSite, Member, Word};
use object::read::elf::ElfFile64;
use object::{
    Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget, SectionFlags,
    SectionIndex, SymbolIndex,
};

use crate::assembly::{
    Annotated, LINE_ENTRY_BYTES, LINES_SECTION, PLACE_ENTRY_BYTES, PLACES_SECTION, UNSEEN,
};
use crate::heap::Heap;
use crate::hooks::{self, Hook};
use crate::inlined::{InlinedCalls, Line};
use crate::locals::Local;
use crate::memory::{Block, LOCK_STRIDE, Space};
use crate::once::Once;
use crate::parts::KnownParts;
use crate::reached::{Constructor, UNWIND_TABLE, given, reached};
use crate::stacks::{PlacedStacks, Stacks};
use crate::types;
use crate::x86::{Action, Instruction};

/// Bytes of static variables, of which a search keeps a copy for each step on its way.
const STATIC_MAX: usize = 512 << 10;

/// Bytes of one task's thread-local variables.
const THREAD_LOCAL_MAX: usize = 64 << 10;

/// The largest alignment of a section.
const PAGE: usize = 4096;

/// A lock in C, compiled.
#[derive(Debug)]
pub struct Program {
    /// The file's name.
    pub name: String,
    /// The file as on the command line.
    pub file: PathBuf,
    /// Whether the file is one of the kernel tree, whose memory model is not the language's.
    pub is_of_kernel: bool,
    /// The mutants that break nothing.
    pub equivalent: Vec<Equivalent<String>>,
    /// The ends of the paths, and the texts, of the user's files that it was compiled from.
    pub sources: Vec<(String, String)>,
    pub(crate) code: Block,
    /// The parts of the code that are instructions.
    pub(crate) text: Vec<Range<usize>>,
    pub(crate) data: Block,
    pub(crate) thread_local: Block,
    pub(crate) relocations: Vec<Relocation>,
    /// The functions outside that it calls.
    pub(crate) hooks: Vec<Hook>,
    /// Instructions of inline assembly, by number, and where the memory lies that some name by a symbol.
    pub(crate) instructions: Vec<Instruction>,
    pub(crate) instruction_places: BTreeMap<usize, (Space, usize)>,
    /// The source lines of calls, by return address from the start of the code.
    pub(crate) sites: Vec<(usize, CodeSite)>,
    /// Where the unwind table lies in the code.
    pub(crate) unwind_table: Option<usize>,
    /// The words of one lock.
    pub(crate) lock_words: Vec<Word>,
    pub(crate) lock_members: Vec<Member>,
    /// Bytes from one lock to the next.
    pub(crate) lock_stride: usize,
    pub(crate) entries: Entries,
    pub(crate) at_rest: Option<usize>,
    /// What runs before all else: the constructors of variables.
    pub(crate) constructors: Vec<usize>,
    /// What brings a zeroed lock into its first state.
    pub(crate) prepare: Option<usize>,
    /// Whether it says when a task has its place in the queue.
    pub(crate) arrives: bool,
    /// Whether addresses that depend on values order accesses, as in the kernel's memory model.
    pub(crate) has_dependencies: bool,
    /// Whether volatile accesses have x86's order.
    pub(crate) has_x86_order: bool,
    /// Where plain accesses are single ones, which race with no atomic one.
    pub(crate) once: Once,
    /// Local variables with a fixed place in memory.
    pub(crate) locals: Vec<Local>,
    /// What is known about its stacks.
    pub(crate) stacks: Stacks,
    /// Whether it allocates, and what is known about its heap.
    pub(crate) allocates: bool,
    pub(crate) heap: Heap,
    /// Whether a search has come to the fifth try of a loop that counts its tries.
    pub(crate) counts_tries: AtomicBool,
    /// What is known about the parts of its memory.
    pub(crate) parts: KnownParts,
}

/// The functions that tasks call, as offsets in the code.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entries {
    /// Taking and releasing.
    Lock([usize; 2]),
    /// Taking and releasing to write, and to read.
    ReadWriteLock { write: [usize; 2], read: [usize; 2] },
    /// An operation of a data structure, and what tells at the end whether all is right.
    Operation { operate: usize, check: Option<usize> },
}

/// What a relocation refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Target {
    Place(Space, usize),
    /// A hook, by its index.
    Hook(usize),
    /// What a weak symbol stands for that nobody defines: no address.
    Nowhere,
}

/// An address to be filled in once the blocks have theirs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Relocation {
    /// Where: code or data, and the offset.
    pub place: (Space, usize),
    pub kind: RelocationKind,
    pub target: Target,
    pub addend: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelocationKind {
    /// Eight bytes: the address.
    Absolute,
    /// Four bytes: the distance.
    Relative,
    /// Four bytes: the distance to a slot that holds the address.
    Slot,
    /// Four bytes: the distance to a pair with the offset among the thread-local variables.
    ThreadLocalPair,
    /// Four bytes: the distance to a pair with offset 0.
    ThreadLocalStart,
    /// Four bytes: the offset among the thread-local variables.
    ThreadLocalOffset,
}

impl RelocationKind {
    fn of(flags: RelocationFlags) -> Result<RelocationKind> {
        use object::elf;
        let RelocationFlags::Elf { r_type } = flags else { bail!("not a relocation of ELF") };
        Ok(match r_type {
            elf::R_X86_64_64 => RelocationKind::Absolute,
            elf::R_X86_64_PC32 | elf::R_X86_64_PLT32 => RelocationKind::Relative,
            elf::R_X86_64_GOTPCREL | elf::R_X86_64_GOTPCRELX | elf::R_X86_64_REX_GOTPCRELX => {
                RelocationKind::Slot
            }
            elf::R_X86_64_TLSGD => RelocationKind::ThreadLocalPair,
            elf::R_X86_64_TLSLD => RelocationKind::ThreadLocalStart,
            elf::R_X86_64_DTPOFF32 => RelocationKind::ThreadLocalOffset,
            other => {
                bail!("the compiler made a relocation of type {other}, which knee does not know")
            }
        })
    }
}

/// An entry of a table that the assembly got: where its address lies, and the numbers after it.
type TableEntry = ((Space, usize), Vec<u32>);

impl Program {
    /// Takes an object file apart. `files` are the compiler's source files, by number.
    pub(crate) fn parse(name: &str, bytes: &[u8], assembly: &Annotated) -> Result<Program> {
        let file =
            ElfFile64::<object::Endianness>::parse(bytes).context("reading the object file")?;
        let mut parts = Parts::new(file)?;
        let [mut code, mut data, mut thread_local] = parts.blocks()?;
        let relocations = parts.relocations()?;
        parts.refuse_unseen(assembly)?;
        let entries = parts.entries()?;
        let sections = parts.debug_sections()?;
        let debug_information = types::open(&sections)?;
        let types = types::read(&debug_information)?;
        let inlined = InlinedCalls::read(&debug_information)?;
        let sites = parts.sites(&assembly.files, &relocations, &inlined)?;
        let (lock_words, lock_members) = types.lock()?;
        let once = Once::new(&parts.text_of("knee_once"), &lock_words, &types.locals)?;
        for (space, block) in [(Space::Data, &mut data), (Space::ThreadLocal, &mut thread_local)] {
            let bytes = block.bytes.len();
            (block.words, block.members) = types.words(space, bytes, &parts.variables(space));
        }
        for (what, block, most) in
            [("static", &data, STATIC_MAX), ("thread-local", &thread_local, THREAD_LOCAL_MAX)]
        {
            let bytes = block.bytes.len();
            if bytes > most {
                return Err(Unsupported::new(
                    format!(
                        "its {what} variables take {bytes} bytes, and a search keeps at most {most}"
                    ),
                    "make arrays smaller (with knee_kernel.h, -DCONFIG_NR_CPUS=16)",
                )
                .into());
            }
        }
        let unwind_table = parts.unwind_table();
        code.align = 4096;
        Ok(Program {
            name: name.to_string(),
            file: PathBuf::new(),
            equivalent: Vec::new(),
            is_of_kernel: false,
            sources: Vec::new(),
            code,
            text: std::mem::take(&mut parts.text),
            data,
            thread_local,
            relocations,
            arrives: parts.hooks.contains(&Hook::Arrive),
            allocates: parts.hooks.iter().any(|hook| matches!(hook, Hook::Heap(_))),
            heap: Heap::default(),
            counts_tries: AtomicBool::new(false),
            parts: KnownParts::default(),
            has_dependencies: parts.has_symbol("knee_kernel_words"),
            has_x86_order: parts.has_symbol("knee_x86_order"),
            at_rest: parts.function("knee_at_rest"),
            prepare: parts.function("knee_prepare"),
            constructors: parts.constructors(),
            instructions: assembly.instructions.clone(),
            instruction_places: parts.instruction_places()?,
            hooks: parts.hooks,
            sites,
            unwind_table,
            lock_words,
            lock_members,
            lock_stride: types.lock_bytes.next_multiple_of(LOCK_STRIDE).max(LOCK_STRIDE),
            entries,
            once,
            locals: types.locals,
            stacks: Stacks::default(),
        })
    }
}

impl Program {
    /// Whether it is a lock that one task holds at a time.
    pub fn is_lock_with_one_holder(&self) -> bool {
        matches!(self.entries, Entries::Lock(_))
    }

    /// Whether it has atomic accesses of 16 bytes.
    pub(crate) fn is_wide(&self) -> bool {
        let is_wide = |one: &Instruction| one.action == Action::WideCompareExchange;
        self.hooks.contains(&Hook::BeginWide) || self.instructions.iter().any(is_wide)
    }

    /// The number of a hook that each program has.
    pub(crate) fn hook(&self, hook: Hook) -> usize {
        let number = self.hooks.iter().position(|one| *one == hook);
        number.expect("it was added before all others")
    }

    /// Whether readers share it.
    pub fn is_read_write_lock(&self) -> bool {
        matches!(self.entries, Entries::ReadWriteLock { .. })
    }

    /// Instructions, by their offset, that no search can have, are named by line.
    pub(crate) fn refuse_instructions(&self, refused: &[(usize, String)]) -> Result<()> {
        let line = |at: usize| {
            let nearest = self.sites.iter().min_by_key(|(call, _)| call.abs_diff(at));
            let site = nearest.map(|(_, site)| site);
            site.map_or_else(String::new, |site| format!("{site}: "))
        };
        let mut lines: Vec<String> =
            refused.iter().map(|(at, why)| format!("{}{why}", line(*at))).collect();
        lines.dedup();
        if lines.is_empty() {
            return Ok(());
        }
        let lines = lines.join("\n  ");
        let why = format!("the compiled code has instructions that no search can have:\n  {lines}");
        let way_out = "leave them out of what is checked; instead of those for memory, use the atomics of <stdatomic.h>";
        Err(Unsupported::new(why, way_out).into())
    }

    /// Fails if the variables of this many tasks have more words than a search tells apart.
    pub fn ensure_words(&self, tasks: usize) -> Result<()> {
        /// Less than what the engine counts, for those of what the lock guards.
        const WORDS_MAX: usize = 65_000;
        let [own, shared] = [&self.thread_local, &self.data].map(|block| block.words.len());
        let own = own + if self.stacks.are_apart() { PlacedStacks::WORDS_MAX / 8 } else { 0 };
        let own = own + if self.allocates { self.heap.words() } else { 0 };
        if shared + tasks * own <= WORDS_MAX {
            return Ok(());
        }
        Err(Unsupported::new(
            format!(
                "{tasks} tasks with {own} thread-local words each and {shared} static ones: a search tells {WORDS_MAX} \
                 words apart"
            ),
            "check fewer tasks, or make arrays smaller",
        )
        .into())
    }

    /// Whether a search has found since the last call how the program's stacks or its heap have to be placed: then the next one goes
    /// further.
    pub fn take_learned(&self) -> bool {
        // All are asked: what one learned must not be said again.
        self.stacks.take_learned() | self.heap.take_learned() | self.parts.take_learned()
    }

    /// Whether it has a loop that counts its tries, of which the first four and the end were searched.
    pub fn counts_tries(&self) -> bool {
        self.counts_tries.load(Relaxed)
    }

    /// Whether it is a data structure with an operation.
    pub fn is_operation(&self) -> bool {
        matches!(self.entries, Entries::Operation { .. })
    }
}

const NO_LOCK: &str = "it defines no lock: add #include <knee_lock.h> and, at its end, KNEE_LOCK(struct my_lock, \
                       my_lock(lock), my_unlock(lock)); for a data structure, KNEE_OPERATION (see knee show knee_lock.h)";

/// An object file while it is taken apart.
struct Parts<'a> {
    file: ElfFile64<'a, object::Endianness>,
    /// Functions of the C library that knee gives.
    given: BTreeMap<String, SymbolIndex>,
    constructors: Vec<Constructor>,
    /// Where each section of a block lies.
    bases: BTreeMap<usize, (Space, usize)>,
    text: Vec<Range<usize>>,
    hooks: Vec<Hook>,
    names: Vec<String>,
    /// The sections that tasks come to.
    reached: BTreeSet<usize>,
    /// Numbers of accesses that the checker would not see.
    unseen: BTreeSet<usize>,
}

impl<'a> Parts<'a> {
    fn new(file: ElfFile64<'a, object::Endianness>) -> Result<Parts<'a>> {
        let given = given(&file);
        let (reached, constructors) = reached(&file, &given)?;
        Ok(Parts {
            constructors,
            file,
            given,
            bases: BTreeMap::new(),
            text: Vec::new(),
            hooks: vec![Hook::Trapped, Hook::Trap],
            names: vec![String::new(), "knee_trap".to_string()],
            reached,
            unseen: BTreeSet::new(),
        })
    }

    /// What the file defines for tasks to call.
    fn entries(&self) -> Result<Entries> {
        let pair = |names: [&str; 2]| {
            let [first, second] = names.map(|name| self.function(name));
            Some([first?, second?])
        };
        let (write, read) =
            (pair(["knee_lock", "knee_unlock"]), pair(["knee_read_lock", "knee_read_unlock"]));
        match (write, read, self.function("knee_operate")) {
            (None, None, Some(operate)) => {
                Ok(Entries::Operation { operate, check: self.function("knee_check") })
            }
            (Some(lock), None, None) => Ok(Entries::Lock(lock)),
            (Some(write), Some(read), None) => Ok(Entries::ReadWriteLock { write, read }),
            (None, Some(_), None) => {
                bail!("it has KNEE_READ_LOCK alone: KNEE_LOCK says how to take it to write")
            }
            (None, None, None) => bail!(NO_LOCK),
            (.., Some(_)) => {
                bail!(
                    "it is a lock and a data structure: put KNEE_OPERATION into a file of its own"
                )
            }
        }
    }

    fn refuse_unseen(&self, assembly: &Annotated) -> Result<()> {
        // Assembly of several instructions is there for each of them.
        let mut lines: Vec<&str> = self
            .unseen
            .iter()
            .filter_map(|number| assembly.unseen.get(*number))
            .map(String::as_str)
            .collect();
        lines.dedup();
        if lines.is_empty() {
            return Ok(());
        }
        Err(hooks::unseen(&lines).into())
    }

    /// The constructors of variables that a check uses, as offsets in the code.
    fn constructors(&self) -> Vec<usize> {
        let in_code = |constructor: &Constructor| match self.bases.get(&constructor.section) {
            Some((Space::Code, start)) => Some(start + constructor.offset),
            _ => None,
        };
        self.constructors.iter().filter_map(in_code).collect()
    }

    /// Code and constants, data, thread-local data: each laid out section by section.
    fn blocks(&mut self) -> Result<[Block; 3]> {
        let mut blocks: [Block; 3] = Default::default();
        for section in self.file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let has = |flag: object::elf::SectionFlags| sh_flags.0 & flag.0 != 0;
            let name = section.name()?;
            // Constructors are called by where they are.
            let unused = name.starts_with(".init_array") || name.starts_with(".note");
            let unused = unused || !self.reached.contains(&section.index().0);
            if !has(object::elf::SHF_ALLOC) || unused || section.size() == 0 {
                continue;
            }
            let space = match (has(object::elf::SHF_TLS), has(object::elf::SHF_WRITE)) {
                (true, _) => Space::ThreadLocal,
                (false, true) => Space::Data,
                (false, false) => Space::Code,
            };
            // Constants that hold addresses are written once, when these are known.
            let space = if name.starts_with(".data.rel.ro") { Space::Code } else { space };
            let block = &mut blocks[space as usize];
            let align = section.align().max(1) as usize;
            ensure!(align <= PAGE, "{name} is aligned to {align} bytes, more than a page");
            let start = block.bytes.len().next_multiple_of(align);
            block.align = block.align.max(align);
            block.bytes.resize(start + section.size() as usize, 0);
            let content = section.data().with_context(|| format!("reading {name}"))?;
            block.bytes[start..start + content.len()].copy_from_slice(content);
            if has(object::elf::SHF_EXECINSTR) {
                self.text.push(start..start + content.len());
            }
            if name == UNWIND_TABLE {
                // The end of the table.
                block.bytes.extend([0; 8]);
            }
            self.bases.insert(section.index().0, (space, start));
        }
        Ok(blocks)
    }

    /// The block of a section, and where it lies there.
    fn base(&self, section: SectionIndex) -> Option<(Space, usize)> {
        self.bases.get(&section.0).copied()
    }

    fn unwind_table(&self) -> Option<usize> {
        let section = self.file.section_by_name(UNWIND_TABLE)?;
        Some(self.base(section.index())?.1)
    }

    fn relocations(&mut self) -> Result<Vec<Relocation>> {
        let mut all = Vec::new();
        let bases = self.bases.clone();
        let unwind_table = self.file.section_by_name(UNWIND_TABLE).map(|section| section.index());
        for (section, (space, start)) in bases {
            let section = self.file.section_by_index(SectionIndex(section))?;
            let is_unwind_table = Some(section.index()) == unwind_table;
            let relocations: Vec<_> = section.relocations().collect();
            for (offset, relocation) in relocations {
                let RelocationTarget::Symbol(symbol) = relocation.target() else {
                    bail!("a relocation refers to no symbol")
                };
                // The unwind table lists functions that are left out, too: from address 0, which it skips.
                if is_unwind_table && !self.is_loaded(symbol)? {
                    continue;
                }
                all.push(Relocation {
                    place: (space, start + offset as usize),
                    kind: RelocationKind::of(relocation.flags())?,
                    target: self.target(symbol)?,
                    addend: relocation.addend(),
                });
            }
        }
        Ok(all)
    }

    /// Whether a symbol is defined in a section that is loaded.
    fn is_loaded(&self, symbol: SymbolIndex) -> Result<bool> {
        let section = self.file.symbol_by_index(symbol)?.section_index();
        Ok(section.is_some_and(|section| self.base(section).is_some()))
    }

    fn target(&mut self, index: SymbolIndex) -> Result<Target> {
        let symbol = self.file.symbol_by_index(index)?;
        if let Some(section) = symbol.section_index() {
            let base = self.base(section);
            let (space, start) = base.context("it uses a section that knee does not load")?;
            return Ok(Target::Place(space, start + symbol.address() as usize));
        }
        let (name, is_weak) = (symbol.name()?.to_string(), symbol.is_weak());
        if let Some(given) = self.given.get(&name) {
            return self.target(*given);
        }
        if let Some(index) = self.names.iter().position(|known| *known == name) {
            return Ok(Target::Hook(index));
        }
        let unseen: Option<usize> =
            name.strip_prefix(UNSEEN).and_then(|number| number.parse().ok());
        self.unseen.extend(unseen);
        let hook = unseen.map(|_| Hook::Nothing).or_else(|| Hook::named(&name));
        let Some(hook) = hook else {
            if is_weak {
                return Ok(Target::Nowhere);
            }
            let at = self.line_of_use(index).unwrap_or_default();
            return Err(hooks::missing(&name, &at).into());
        };
        Ok(self.hook(hook, &name))
    }

    fn hook(&mut self, hook: Hook, name: &str) -> Target {
        self.hooks.push(hook);
        self.names.push(name.to_string());
        Target::Hook(self.hooks.len() - 1)
    }

    /// Where a symbol is used first: `line 12: `.
    fn line_of_use(&self, symbol: SymbolIndex) -> Option<String> {
        let code = self.file.sections().filter(|section| self.base(section.index()).is_some());
        for section in code {
            for (offset, relocation) in section.relocations() {
                if relocation.target() == RelocationTarget::Symbol(symbol) {
                    let return_address = self.base(section.index())?.1 + offset as usize + 4;
                    let line =
                        self.lines().ok()?.into_iter().find(|(at, _)| *at == return_address)?;
                    return Some(format!("line {}: ", line.1[1]));
                }
            }
        }
        None
    }

    /// The table of lines: return addresses from the start of the code, with file, line and column.
    fn lines(&self) -> Result<Vec<(usize, Line)>> {
        let table = self.table(LINES_SECTION, LINE_ENTRY_BYTES)?;
        let in_code = table.into_iter().filter(|((space, _), _)| *space == Space::Code);
        let mut lines: Vec<_> =
            in_code.map(|((_, at), numbers)| (at, [numbers[0], numbers[1], numbers[2]])).collect();
        lines.sort_unstable();
        Ok(lines)
    }

    /// Where the memory lies that instructions name by a symbol, by the instruction's number.
    fn instruction_places(&self) -> Result<BTreeMap<usize, (Space, usize)>> {
        let table = self.table(PLACES_SECTION, PLACE_ENTRY_BYTES)?;
        Ok(table.into_iter().map(|(place, numbers)| (numbers[0] as usize, place)).collect())
    }

    /// A table that the assembly got: entries of an address and numbers of four bytes.
    fn table(&self, name: &str, entry_bytes: usize) -> Result<Vec<TableEntry>> {
        let Some(section) = self.file.section_by_name(name) else { return Ok(Vec::new()) };
        let data = section.data().with_context(|| format!("reading {name}"))?;
        let mut entries = Vec::new();
        for (offset, relocation) in section.relocations() {
            let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
            let symbol = self.file.symbol_by_index(symbol)?;
            let base = symbol.section_index().and_then(|index| self.base(index));
            let Some((space, start)) = base else { continue };
            let address = start as i64 + symbol.address() as i64 + relocation.addend();
            let entry = data.get(offset as usize..offset as usize + entry_bytes);
            let entry = entry.with_context(|| format!("{name} is cut off"))?;
            let numbers =
                entry[8..].as_chunks::<4>().0.iter().map(|four| u32::from_le_bytes(*four));
            entries.push(((space, address as usize), numbers.collect()));
        }
        Ok(entries)
    }

    /// The source lines of calls: of an access in a wrapper, where that is called.
    fn sites(
        &self,
        files: &[String],
        relocations: &[Relocation],
        inlined: &InlinedCalls,
    ) -> Result<Vec<(usize, CodeSite)>> {
        // The only leak, of a few names for each program: a site is copied with every access, and outlives the program
        // in the faults and mutants that name it.
        let files: Vec<&'static str> =
            files.iter().map(|path| &*Box::leak(format!("/{path}").into_boxed_str())).collect();
        let site = |[file, line, column]: Line| {
            let file = files.get(file as usize).copied().unwrap_or_default();
            CodeSite { file, line, column }
        };
        let lines = self.lines()?;
        let accesses: BTreeSet<usize> = relocations
            .iter()
            .filter_map(|relocation| match (relocation.place, relocation.target) {
                ((Space::Code, offset), Target::Hook(hook)) if self.hooks[hook].is_atomic() => {
                    Some(offset + 4)
                }
                _ => None,
            })
            .collect();
        let (atomic, plain): (Vec<_>, Vec<_>) =
            lines.into_iter().partition(|(at, _)| accesses.contains(at));
        let lines = inlined.shown(&atomic, &plain);
        let mut sites: Vec<_> = lines.into_iter().map(|(at, line)| (at, site(line))).collect();
        sites.sort_by_key(|(at, _)| *at);
        Ok(sites)
    }

    fn symbol(&self, name: &str) -> Option<(Space, usize)> {
        let symbol = self.file.symbols().find(|symbol| symbol.name() == Ok(name))?;
        let (space, start) = self.base(symbol.section_index()?)?;
        Some((space, start + symbol.address() as usize))
    }

    /// The variables of a block: where they begin, their sizes and names.
    fn variables(&self, space: Space) -> Vec<(usize, usize, String)> {
        let variable = |symbol: object::read::elf::ElfSymbol64<'_, '_, object::Endianness>| {
            let (of, start) = self.base(symbol.section_index()?)?;
            let name = symbol.name().ok()?.to_string();
            let is_variable = of == space && symbol.size() > 0;
            is_variable.then(|| (start + symbol.address() as usize, symbol.size() as usize, name))
        };
        self.file.symbols().filter_map(variable).collect()
    }

    /// The bytes of a constant that nothing needs to use, up to the first 0.
    fn text_of(&self, name: &str) -> String {
        let symbol = self.file.symbols().find(|symbol| symbol.name() == Ok(name));
        let bytes = symbol.and_then(|symbol| {
            let section = self.file.section_by_index(symbol.section_index()?).ok()?;
            section.data().ok()?.get(symbol.address() as usize..)
        });
        let bytes = bytes.unwrap_or_default().split(|byte| *byte == 0).next();
        String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
    }

    fn has_symbol(&self, name: &str) -> bool {
        self.file.symbols().any(|symbol| symbol.name() == Ok(name))
    }

    fn function(&self, name: &str) -> Option<usize> {
        self.symbol(name).filter(|(space, _)| *space == Space::Code).map(|(_, offset)| offset)
    }

    /// The sections with the types, with addresses filled in: those of variables tell their block.
    fn debug_sections(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let mut sections = BTreeMap::new();
        for section in self.file.sections() {
            let name = section.name()?;
            if !name.starts_with(".debug_") {
                continue;
            }
            let mut bytes =
                section.uncompressed_data().context("reading debug information")?.into_owned();
            for (offset, relocation) in section.relocations() {
                let RelocationTarget::Symbol(symbol) = relocation.target() else { continue };
                let symbol = self.file.symbol_by_index(symbol)?;
                let base = symbol.section_index().and_then(|index| self.base(index));
                let base = base.map_or(0, |(space, start)| types::address(space, start));
                let value = (base as i64 + symbol.address() as i64 + relocation.addend()) as u64;
                let size = usize::from(relocation.size() / 8);
                let size = if size == 0 { 4 } else { size };
                let place = bytes.get_mut(offset as usize..offset as usize + size);
                let place = place.context("debug information is cut off")?;
                place.copy_from_slice(&value.to_le_bytes()[..size]);
            }
            sections.insert(name.to_string(), bytes);
        }
        Ok(sections)
    }
}
