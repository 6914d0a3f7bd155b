//! Functions of an ELF file by address. The file may be anybody's: how many symbols and how much
//! of a name are taken is bounded, and what the parser panics on is a file without symbols.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use super::kallsyms::plainness;
use super::{caught, printable};

/// Longer names are cut.
const NAME_BYTES_MAX: usize = 1024;
/// More symbols than kernels have.
const SYMBOLS_MAX: usize = 1 << 20;
/// More bytes of names than kernels have; of the rest, there are no names.
const NAMES_BYTES_MAX: usize = 256 << 20;

/// What is asked of a file.
pub struct Question<'a> {
    /// What the file must be, where that is known.
    pub build_id: &'a [u8],
    /// Whether a file without such an id will do.
    pub trusted: bool,
    /// Offsets in the file whose functions are wanted.
    pub offsets: &'a [u64],
    /// A file with the same program and more symbols.
    pub debug: Option<&'a Path>,
}

/// The function at each offset. An error if the file is another one or cannot be read.
pub fn functions(path: &Path, question: &Question) -> Result<Vec<Option<String>>> {
    caught("ELF", || {
        let mut file = Elf::open(path, question)?;
        let addresses: Vec<u64> = question.offsets.iter().map(|o| file.address(*o)).collect();
        let debug = question.debug.and_then(|debug| Elf::open(debug, question).ok());
        let symbols = debug.map_or_else(|| std::mem::take(&mut file.symbols), |d| d.symbols);
        Ok(addresses.into_iter().map(|address| find(&symbols, address)).collect())
    })
}

/// All functions of a kernel's ELF file, with their addresses.
pub fn all(path: &Path, build_id: &[u8]) -> Result<Vec<(u64, String)>> {
    caught("ELF", || {
        let question = Question { build_id, trusted: true, offsets: &[], debug: None };
        let symbols = Elf::open(path, &question)?.symbols;
        Ok(symbols.into_iter().map(|symbol| (symbol.address, symbol.name)).collect())
    })
}

/// Which of these offsets follow a system call instruction (x86-64).
pub fn after_system_call(path: &Path, offsets: &[u64]) -> Vec<bool> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    let Ok(file) = File::open(path) else { return vec![false; offsets.len()] };
    let is_after = |offset: &u64| {
        let mut before = [0; 2];
        let at = offset.checked_sub(2);
        at.is_some_and(|at| file.read_exact_at(&mut before, at).is_ok() && before == SYSCALL)
    };
    offsets.iter().map(is_after).collect()
}

struct Symbol {
    address: u64,
    size: u64,
    name: String,
}

struct Elf {
    /// Offset in the file, length, address.
    segments: Vec<(u64, u64, u64)>,
    symbols: Vec<Symbol>,
}

impl Elf {
    fn open(path: &Path, question: &Question) -> Result<Elf> {
        let what = || format!("reading {}", path.display());
        let file = File::open(path).with_context(what)?;
        anyhow::ensure!(file.metadata()?.is_file(), "{} is no file", path.display());
        let cache = ReadCache::new(file);
        let elf = object::File::parse(&cache).with_context(what)?;
        let id = elf.build_id().ok().flatten().unwrap_or_default();
        let fits = match question.build_id {
            [] => question.trusted,
            wanted => id == wanted || (id.is_empty() && question.trusted),
        };
        anyhow::ensure!(fits, "{} is another version", path.display());
        let segments = elf.segments().map(|segment| {
            let (offset, length) = segment.file_range();
            (offset, length, segment.address())
        });
        Ok(Elf { segments: segments.take(4096).collect(), symbols: symbols(&elf) })
    }

    fn address(&self, offset: u64) -> u64 {
        let within = |(start, length, _): &&(u64, u64, u64)| {
            offset.checked_sub(*start).is_some_and(|distance| distance < *length)
        };
        let segment = self.segments.iter().find(within);
        segment.map_or(offset, |(start, _, address)| address.wrapping_add(offset - start))
    }
}

/// Functions, sorted by address, one name each.
fn symbols<'d>(elf: &object::File<'d, &'d ReadCache<File>>) -> Vec<Symbol> {
    let mut bytes = 0;
    let mut within = |symbol: &Symbol| {
        bytes += symbol.name.len();
        bytes <= NAMES_BYTES_MAX
    };
    let full = elf.symbols().take(SYMBOLS_MAX).filter_map(symbol);
    let mut symbols: Vec<Symbol> = full.take_while(&mut within).collect();
    if symbols.is_empty() {
        let dynamic = elf.dynamic_symbols().take(SYMBOLS_MAX).filter_map(symbol);
        symbols = dynamic.take_while(&mut within).collect();
    }
    symbols.sort_by(|a, b| (a.address, plainness(&a.name)).cmp(&(b.address, plainness(&b.name))));
    symbols.dedup_by_key(|symbol| symbol.address);
    symbols
}

fn symbol<'d>(symbol: impl ObjectSymbol<'d>) -> Option<Symbol> {
    if symbol.kind() != SymbolKind::Text || !symbol.is_definition() {
        return None;
    }
    let name = symbol.name_bytes().ok().filter(|name| !name.is_empty())?;
    let name = &name[..name.len().min(NAME_BYTES_MAX)];
    Some(Symbol { address: symbol.address(), size: symbol.size(), name: demangled(name) })
}

/// Rust's names as people write them, without the hash.
fn demangled(name: &[u8]) -> String {
    let name = printable(name);
    match rustc_demangle::try_demangle(&name) {
        Ok(name) => format!("{name:#}"),
        Err(_) => name,
    }
}

/// The function that an address lies in. Those of no size, written in assembly, reach to the next.
fn find(symbols: &[Symbol], address: u64) -> Option<String> {
    let after = symbols.partition_point(|symbol| symbol.address <= address);
    let symbol = symbols.get(after.checked_sub(1)?)?;
    let within = symbol.size == 0 || address - symbol.address < symbol.size;
    within.then(|| symbol.name.clone())
}
