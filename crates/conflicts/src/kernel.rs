//! What lies at an address of a guest's kernel: a variable, an object of a slab cache, the description of a page.
//!
//!     address ─ in the image ──────> variable
//!             ─ a CPU's own part ──> per-CPU variable
//!             ─ the map of pages ──> struct page
//!             ─ the direct map ───── page ─ struct slab ─ kmem_cache ──> object and offset

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use guests::tracer::Trace;
use perf_data::{KernelTypes, ProgramMember, Symbols};

use crate::image::{Image, Place};
use crate::memory::GuestMemory;
use crate::names::Namer;
use crate::program::ProgramImage;

/// Where the kernel's image and its modules begin (Documentation/arch/x86/x86_64/mm.rst, four levels).
const IMAGE: u64 = 0xffff_ffff_8000_0000;
const DIRECT_MAP: u64 = 0xffff_8880_0000_0000;
const PAGE_MAP: u64 = 0xffff_ea00_0000_0000;
const VMALLOC: std::ops::Range<u64> = 0xffff_c900_0000_0000..0xffff_ea00_0000_0000;

/// What a page that is not the first of several says of the first one is its address, or since Linux 7.0 a mask, which is
/// above all addresses of pages.
const MASKS: u64 = 0xffff_ffff_0000_0000;

/// More caches, or types, than any kernel has.
const CACHES_MAX: usize = 4096;
const TYPES_BYTES_MAX: u64 = 64 << 20;

/// A kernel in a guest's memory.
pub struct KernelImage<'a> {
    memory: GuestMemory<'a>,
    symbols: &'a Symbols,
    /// What names members, by the kernel's types.
    namer: Option<&'a Namer<'a>>,
    caches: BTreeMap<u64, Cache>,
    direct_map: u64,
    page_map: u64,
    memory_bytes: u64,
    /// The first address behind the image: modules lie there.
    end: u64,
    /// Where each CPU's own part begins, less the address of the variable.
    own_parts: Vec<u64>,
    /// The addresses of per-CPU variables in the image.
    own: std::ops::Range<u64>,
    layout: Layout,
    /// What the tasks execute, if that is no workload of knee's.
    program: Option<ProgramImage>,
    /// The virtual address of each line that programs accessed, by its physical one.
    user_addresses: BTreeMap<u64, u64>,
}

/// A slab cache.
struct Cache {
    name: String,
    /// From one object to the next, in bytes.
    step: u64,
    object_bytes: u64,
}

/// Where members are, in this kernel.
#[derive(Default)]
struct Layout {
    page_bytes: u64,
    compound_head: u64,
    slab_cache: u64,
}

impl<'a> KernelImage<'a> {
    /// Finds what is needed in the memory of a guest with this many CPUs.
    pub fn new(
        memory: &'a File,
        symbols: &'a Symbols,
        namer: Option<&'a Namer<'a>>,
        cpus: usize,
    ) -> Result<KernelImage<'a>> {
        let table = page_tables(symbols)?;
        let memory_bytes = memory.metadata().context("reading the guest's memory")?.len();
        let memory = GuestMemory::new(memory, table);
        let base = |name: &str, known: u64| {
            symbols
                .address_of(&[name])
                .and_then(|at| memory.u64(at))
                .filter(|at| *at > 0)
                .unwrap_or(known)
        };
        let (direct_map, page_map) =
            (base("page_offset_base", DIRECT_MAP), base("vmemmap_base", PAGE_MAP));
        let layout = namer.and_then(|namer| layout(namer.types())).unwrap_or_default();
        let offsets = symbols.address_of(&["__per_cpu_offset"]);
        let own_parts = (0..cpus as u64).filter_map(|cpu| memory.u64(offsets? + 8 * cpu)).collect();
        // Zero for kernels that link per-CPU variables at 0 (before Linux 6.15).
        let start = symbols.address_of(&["__per_cpu_start"]).unwrap_or(0);
        let end = symbols.address_of(&["__per_cpu_end"]).unwrap_or(0);
        let mut image = KernelImage {
            memory,
            symbols,
            namer,
            caches: BTreeMap::new(),
            direct_map,
            page_map,
            memory_bytes,
            end: symbols.address_of(&["_end"]).unwrap_or(u64::MAX),
            own_parts,
            own: start..end,
            layout,
            program: None,
            user_addresses: BTreeMap::new(),
        };
        image.caches = image.read_caches().unwrap_or_default();
        ensure!(
            image.memory.u64(table).is_some(),
            "the guest's page tables are not where {table:#x} says: is the kernel relocated?"
        );
        Ok(image)
    }

    /// Names what tasks access in their own memory by the program that they execute, and by its libraries, each with where
    /// it was loaded.
    pub fn with_program(
        mut self,
        path: &Path,
        libraries: &[(PathBuf, u64)],
        trace: &Trace,
    ) -> Result<KernelImage<'a>> {
        let instructions = trace.accesses.iter().map(|access| access.instruction);
        let own = instructions.filter(|address| *address < 1 << 63);
        self.program = Some(ProgramImage::in_guest(path, libraries, own)?);
        let known = trace.lines.iter().filter_map(|line| Some((line.line, line.user_address?)));
        self.user_addresses = known.collect();
        Ok(self)
    }

    /// What a program has at a physical address. Where it starts is told by physical addresses, too.
    fn of_program(&self, address: u64) -> Option<Place> {
        let line = self.user_addresses.get(&(address & !63))?;
        let own = line + address % 64;
        let shift = address.wrapping_sub(own);
        Some(match self.program.as_ref()?.place(true, own) {
            Place::Variable { name, start, bytes } => {
                Place::Variable { name, start: start.wrapping_add(shift), bytes }
            }
            place => place,
        })
    }

    /// Walks the list of all slab caches (mm/slab_common.c).
    fn read_caches(&self) -> Option<BTreeMap<u64, Cache>> {
        let types = self.namer?.types();
        let member = |name| types.offset_of("kmem_cache", name);
        let (list, name) = (member("list")?, member("name")?);
        let (step, object) = (member("size")?, member("object_size")?);
        let head = self.symbols.address_of(&["slab_caches"])?;
        let mut caches = BTreeMap::new();
        let mut at = self.memory.u64(head)?;
        while at != head && caches.len() < CACHES_MAX {
            let cache = at.wrapping_sub(list);
            let text = self.memory.text(self.memory.u64(cache + name)?)?;
            let step = u64::from(self.memory.u32(cache + step)?);
            let object_bytes = u64::from(self.memory.u32(cache + object)?);
            caches.insert(cache, Cache { name: text, step, object_bytes });
            at = self.memory.u64(at)?;
        }
        Some(caches)
    }

    fn own_variable(&self, address: u64) -> Option<Place> {
        let (cpu, at) = self.own_parts.iter().enumerate().find_map(|(cpu, offset)| {
            let at = address.wrapping_sub(*offset);
            self.own.contains(&at).then_some((cpu, at))
        })?;
        let (name, offset, bytes) = self.symbols.whole_variable(at)?;
        Some(Place::PerCpu { name: name.to_string(), cpu, start: address - offset, bytes })
    }

    /// The object of a slab cache at an address of the direct map.
    fn object(&self, address: u64) -> Option<Place> {
        let Layout { page_bytes, compound_head, slab_cache } = self.layout;
        if page_bytes == 0 {
            return None;
        }
        let number = (address - self.direct_map) / 4096;
        let mut page = self.page_map + number * page_bytes;
        let head = self.memory.u64(page + compound_head)?;
        if head & 1 == 1 {
            page = if head >= MASKS { page & head } else { head - 1 };
        }
        let cache = self.caches.get(&self.memory.u64(page + slab_cache)?)?;
        let first = self.direct_map + (page - self.page_map) / page_bytes * 4096;
        let offset = address.checked_sub(first)?;
        let inside = offset.checked_rem(cache.step)?;
        let (name, bytes) = (cache.name.clone(), cache.object_bytes);
        let begins_at_line = cache.step.is_multiple_of(64) && first.is_multiple_of(64);
        Some(Place::Object { cache: name, start: address - inside, bytes, begins_at_line })
    }
}

impl Image for KernelImage<'_> {
    fn place(&self, is_user: bool, address: u64) -> Place {
        if is_user {
            return self.of_program(address).unwrap_or(Place::User);
        }
        if let Some(place) = self.own_variable(address) {
            return place;
        }
        if address >= IMAGE {
            return match self.symbols.whole_variable(address) {
                Some((name, offset, bytes)) => {
                    Place::Variable { name: name.to_string(), start: address - offset, bytes }
                }
                None => Place::Unknown,
            };
        }
        let pages = self.memory_bytes / 4096 * self.layout.page_bytes;
        if let Some(offset) = address.checked_sub(self.page_map).filter(|offset| *offset < pages) {
            return Place::Page { start: address - offset % self.layout.page_bytes };
        }
        if address.checked_sub(self.direct_map).is_some_and(|offset| offset < self.memory_bytes) {
            return self.object(address).unwrap_or(Place::Content);
        }
        if VMALLOC.contains(&address) { Place::Vmalloc } else { Place::Unknown }
    }

    fn member(&self, place: &Place, offset: u64) -> Option<ProgramMember> {
        self.program.as_ref()?.member(place, offset)
    }

    fn function(&self, address: u64) -> Option<String> {
        if address >> 63 == 0 {
            let unknown = || "code of a library".to_string();
            return Some(self.program.as_ref()?.function(address).unwrap_or_else(unknown));
        }
        self.symbols.function(address).map(|(name, _)| name.to_string())
    }

    fn source(&self, address: u64) -> Option<String> {
        self.program.as_ref()?.source(address)
    }

    fn has_types(&self, address: u64) -> bool {
        let has_module = |module| self.namer.is_some_and(|namer| namer.types().has_module(module));
        address < self.end || self.symbols.module(address).is_some_and(has_module)
    }

    fn namer(&self) -> Option<&Namer<'_>> {
        self.namer
    }
}

/// Where the kernel's page tables are.
fn page_tables(symbols: &Symbols) -> Result<u64> {
    symbols
        .address_of(&["init_top_pgt", "swapper_pg_dir"])
        .context("the kernel does not list its variables (CONFIG_KALLSYMS_ALL): build it with them")
}

/// The types that a guest's kernel carries (BTF). Without them, objects have no members.
pub fn kernel_types(memory: &File, symbols: &Symbols) -> Option<KernelTypes> {
    let memory = GuestMemory::new(memory, page_tables(symbols).ok()?);
    let (start, stop) =
        (symbols.address_of(&["__start_BTF"])?, symbols.address_of(&["__stop_BTF"])?);
    let bytes = stop.checked_sub(start).filter(|bytes| *bytes < TYPES_BYTES_MAX)?;
    let mut types = vec![0; bytes as usize];
    memory.read(start, &mut types)?;
    KernelTypes::parse(types).ok()
}

fn layout(types: &KernelTypes) -> Option<Layout> {
    let page = *types.structures("page").first()?;
    Some(Layout {
        page_bytes: types.bytes_of(page),
        compound_head: types
            .offset_of("page", "compound_head")
            .or_else(|| types.offset_of("page", "compound_info"))?,
        slab_cache: types
            .offset_of("slab", "slab_cache")
            .or_else(|| types.offset_of("page", "slab_cache"))?,
    })
}
