//! Functions of an ELF file by address. The file is untrusted: the number of symbols and the length of
//! names are bounded, and a file that makes the parser panic counts as one without symbols.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use cpp_demangle::{DemangleOptions, DemangleWrite};
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};
use records::ProgramPlace;

use crate::kallsyms::plainness;
use crate::{caught, printable};

/// Longer names are truncated.
const NAME_BYTES_MAX: usize = 1024;
/// More symbols than kernels have.
pub const SYMBOLS_MAX: usize = 1 << 20;
/// More bytes of names than kernels have; later symbols get no names.
const NAMES_BYTES_MAX: usize = 256 << 20;

/// The functions that are wanted from a file.
pub struct Question<'a> {
    /// The build id that the file must have; empty if unknown.
    pub build_id: &'a [u8],
    /// Whether a file without a build id is accepted.
    pub trusted: bool,
    /// File offsets whose functions are wanted.
    pub offsets: &'a [u64],
    /// A file of the same program with more symbols.
    pub debug: Option<&'a Path>,
}

/// The function at each offset. Fails if the file is of another version or unreadable.
pub fn functions(path: &Path, question: &Question) -> Result<Vec<Option<String>>> {
    caught("ELF", || {
        let addresses = with(path, question, |elf| Ok(addresses(elf, question.offsets)))?;
        let debug = question.debug.map(|debug| with(debug, question, |elf| names(elf, &addresses)));
        match debug {
            Some(Ok(names)) => Ok(names),
            _ => with(path, question, |elf| names(elf, &addresses)),
        }
    })
}

/// The build id of a file; empty if it has none.
pub fn build_id(path: &Path) -> Result<Vec<u8>> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        let id = |elf: &Elf| Ok(elf.build_id().ok().flatten().unwrap_or_default().to_vec());
        with(path, &question, id)
    })
}

/// Where a probe of a program is to be placed, as offsets in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeSite {
    /// The instruction.
    pub offset: u64,
    /// A counter that must not be 0 for the program to pass here; 0 if it has none.
    pub enabler: u64,
}

/// The sites of a function or of a static tracepoint. Several functions may have one name, and a
/// tracepoint several sites.
pub fn probe_sites(path: &Path, place: &ProgramPlace) -> Result<Vec<ProbeSite>> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    let sites = caught("ELF", || {
        with(path, &question, |elf| match place {
            ProgramPlace::Function(name) => Ok(function_sites(elf, name)),
            ProgramPlace::Usdt(provider, name) => usdt_sites(elf, provider, name),
        })
    })?;
    anyhow::ensure!(
        !sites.is_empty(),
        "{} has no {}",
        path.display(),
        match place {
            ProgramPlace::Function(name) => format!("symbol of a function {name}"),
            ProgramPlace::Usdt(provider, name) => format!("static tracepoint {provider}:{name}"),
        }
    );
    Ok(sites)
}

fn function_sites(elf: &Elf, name: &str) -> Vec<ProbeSite> {
    let has_name = |bytes: &[u8]| bytes == name.as_bytes() || name_of(bytes) == name;
    let symbols = elf.symbols().chain(elf.dynamic_symbols()).take(SYMBOLS_MAX).filter(is_function);
    let named = symbols.filter(|symbol| symbol.name_bytes().is_ok_and(has_name));
    let mut offsets: Vec<u64> =
        named.filter_map(|symbol| file_offset(elf, symbol.address())).collect();
    offsets.sort_unstable();
    offsets.dedup();
    offsets.into_iter().map(|offset| ProbeSite { offset, enabler: 0 }).collect()
}

/// Reads `.note.stapsdt`, as SystemTap's sys/sdt.h writes it: addresses of the site, of the section
/// `.stapsdt.base` when the note was written, and of the enabler; then provider and name.
fn usdt_sites(elf: &Elf, provider: &str, name: &str) -> Result<Vec<ProbeSite>> {
    const NOTE_TYPE: u32 = 3;
    let Some(section) = elf.section_by_name(".note.stapsdt") else { return Ok(Vec::new()) };
    let base = elf.section_by_name(".stapsdt.base").map(|base| base.address());
    let notes = section.data().context("reading .note.stapsdt")?;
    let word = |at: usize| Some(u32::from_le_bytes(notes.get(at..at + 4)?.try_into().ok()?));
    let long = |at: usize| Some(u64::from_le_bytes(notes.get(at..at + 8)?.try_into().ok()?));
    let text = |at: usize| notes.get(at..).and_then(|rest| rest.split(|b| *b == 0).next());
    let (mut sites, mut at) = (Vec::new(), 0);
    while let (Some(name_bytes), Some(bytes), Some(kind)) = (word(at), word(at + 4), word(at + 8)) {
        let padded = |n: u32| (n as usize).saturating_add(3) & !3;
        let content = at + 12 + padded(name_bytes);
        at = content.saturating_add(padded(bytes));
        let addresses = (long(content), long(content + 8), long(content + 16));
        let (Some(site), Some(noted), Some(enabler)) = addresses else { break };
        let found = text(content + 24).unwrap_or_default();
        let is_wanted = found == provider.as_bytes()
            && text(content + 24 + found.len() + 1) == Some(name.as_bytes());
        if kind != NOTE_TYPE || !is_wanted {
            continue;
        }
        // A linker that moved the section moved the sites by as much.
        let moved = base.unwrap_or(noted).wrapping_sub(noted);
        let offset = |address: u64| file_offset(elf, address.wrapping_add(moved));
        let enabler = if enabler == 0 { Some(0) } else { offset(enabler) };
        sites.extend(
            offset(site).zip(enabler).map(|(offset, enabler)| ProbeSite { offset, enabler }),
        );
    }
    Ok(sites)
}

/// Where functions of these names begin in a file, in the order of the names; `None` for those that it lacks.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn function_places(path: &Path, names: &[&str]) -> Result<Vec<Option<u64>>> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            let mut places = vec![None; names.len()];
            for symbol in elf.symbols().take(SYMBOLS_MAX).filter(is_function) {
                let name = symbol.name_bytes().unwrap_or_default();
                if let Some(index) = names.iter().position(|wanted| wanted.as_bytes() == name) {
                    places[index] = file_offset(elf, symbol.address());
                }
            }
            Ok(places)
        })
    })
}

/// The variables that a library exports whose names begin so, with their addresses in the file.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn exported_variables(path: &Path, prefix: &str) -> Result<Vec<(String, u64)>> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            let symbols = elf.dynamic_symbols().take(SYMBOLS_MAX);
            let exported = symbols.filter_map(|symbol| {
                let name = symbol.name().ok().filter(|name| name.starts_with(prefix))?;
                (symbol.kind() == SymbolKind::Data).then(|| (name.to_string(), symbol.address()))
            });
            Ok(exported.collect())
        })
    })
}

/// The place in the file of what lies at an address.
fn file_offset(elf: &Elf, address: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (start, length) = segment.file_range();
        let distance = address.checked_sub(segment.address())?;
        (distance < length).then_some(start + distance)
    })
}

/// All functions of a kernel's ELF file, with their addresses.
pub fn all(path: &Path, build_id: &[u8]) -> Result<Vec<(u64, String)>> {
    let question = Question { build_id, trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            let mut left = NAMES_BYTES_MAX;
            let functions =
                elf.symbols().take(SYMBOLS_MAX).filter(is_function).map_while(|symbol| {
                    let name = symbol.name_bytes().unwrap_or_default();
                    left = left.checked_sub(name.len())?;
                    Some((symbol.address(), name_of(name)))
                });
            Ok(functions.collect())
        })
    })
}

/// Which of these offsets follow a system call instruction (x86-64).
pub fn after_system_call(path: &Path, offsets: &[u64]) -> Vec<bool> {
    const SYSCALL: [u8; 2] = [0x0f, 0x05];
    /// Length of a read: offsets of one function are close together.
    const BLOCK_BYTES: usize = 1 << 14;
    let mut is_after = vec![false; offsets.len()];
    let Ok(file) = File::open(path) else { return is_after };
    let mut order: Vec<usize> = (0..offsets.len()).filter(|index| offsets[*index] >= 2).collect();
    order.sort_unstable_by_key(|index| offsets[*index]);
    let mut block = vec![0; BLOCK_BYTES];
    let (mut start, mut length) = (0, 0);
    for index in order {
        let before = offsets[index] - 2;
        if before + 2 > start + length as u64 {
            start = before;
            length = file.read_at(&mut block, start).unwrap_or(0);
        }
        let at = (before - start) as usize;
        is_after[index] = block[..length].get(at..at + 2) == Some(&SYSCALL[..]);
    }
    is_after
}

pub type Elf<'d> = object::File<'d, &'d ReadCache<File>>;

/// Opens a file, if it is of the wanted version.
pub fn with<T>(path: &Path, question: &Question, ask: impl Fn(&Elf) -> Result<T>) -> Result<T> {
    let what = || format!("reading {}", path.display());
    // The path comes from the recording: opening a pipe would wait for a writer.
    anyhow::ensure!(std::fs::metadata(path).with_context(what)?.is_file(), "not a regular file");
    let cache = ReadCache::new(File::open(path).with_context(what)?);
    let elf = object::File::parse(&cache).with_context(what)?;
    let id = elf.build_id().ok().flatten().unwrap_or_default();
    let fits = match question.build_id {
        [] => question.trusted,
        wanted => id == wanted || (id.is_empty() && question.trusted),
    };
    anyhow::ensure!(fits, "{} is another version", path.display());
    ask(&elf)
}

/// The address of a file offset.
pub fn address_of(elf: &Elf, offset: u64) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (start, length) = segment.file_range();
        let distance = offset.checked_sub(start).filter(|distance| *distance < length)?;
        segment.address().checked_add(distance)
    })
}

/// The addresses of file offsets, by the segments that contain them.
fn addresses(elf: &Elf, offsets: &[u64]) -> Vec<u64> {
    const SEGMENTS_MAX: usize = 4096;
    let segments = elf.segments().take(SEGMENTS_MAX).map(|s| (s.file_range(), s.address()));
    let segments: Vec<((u64, u64), u64)> = segments.collect();
    let address = |offset: &u64| {
        let within = |((start, length), _): &&((u64, u64), u64)| {
            offset.checked_sub(*start).is_some_and(|distance| distance < *length)
        };
        let segment = segments.iter().find(within);
        segment.map_or(*offset, |((start, _), at)| at.wrapping_add(offset - start))
    };
    offsets.iter().map(address).collect()
}

/// The function that contains each address. Large programs have a million symbols, of which few are
/// wanted: only their names are read.
fn names(elf: &Elf, addresses: &[u64]) -> Result<Vec<Option<String>>> {
    let mut order: Vec<usize> = (0..addresses.len()).collect();
    order.sort_unstable_by_key(|index| addresses[*index]);
    let sorted: Vec<u64> = order.iter().map(|index| addresses[*index]).collect();
    let mut best: Vec<Option<Candidate>> = vec![None; sorted.len()];
    let mut any = false;
    for symbol in elf.symbols().take(SYMBOLS_MAX).filter(is_function) {
        any = true;
        offer(&sorted, &mut best, &symbol);
    }
    if !any {
        let dynamic = elf.dynamic_symbols().take(SYMBOLS_MAX).filter(is_function);
        dynamic.for_each(|symbol| offer(&sorted, &mut best, &symbol));
    }
    let mut names = vec![None; addresses.len()];
    // Addresses in one function are adjacent.
    let mut last: Option<(Candidate, String)> = None;
    for (index, candidate) in order.into_iter().zip(best) {
        let Some(candidate) = candidate else { continue };
        let name = match last.take().filter(|(known, _)| *known == candidate) {
            Some((_, name)) => name,
            None => name_of(candidate.name),
        };
        names[index] = Some(name.clone());
        last = Some((candidate, name));
    }
    Ok(names)
}

/// The symbol that begins nearest before an address; among several, the one with the plainest name.
#[derive(Clone, Copy, PartialEq)]
struct Candidate<'d> {
    start: u64,
    name: &'d [u8],
}

/// Assigns a symbol to the addresses that it contains and that no later symbol contains.
fn offer<'d>(sorted: &[u64], best: &mut [Option<Candidate<'d>>], symbol: &impl ObjectSymbol<'d>) {
    /// The longest reach of symbols without a size, written in assembly: they reach to the next symbol.
    const UNSIZED_BYTES_MAX: u64 = 4096;
    let start = symbol.address();
    let size = if symbol.size() == 0 { UNSIZED_BYTES_MAX } else { symbol.size() };
    let first = sorted.partition_point(|address| *address < start);
    if sorted.get(first).is_none_or(|address| address - start >= size) {
        return;
    }
    let Some(name) = symbol.name_bytes().ok().filter(|name| !name.is_empty()) else { return };
    for (address, best) in sorted[first..].iter().zip(&mut best[first..]) {
        if address - start >= size {
            break;
        }
        let is_better = best.is_none_or(|known| {
            known.start < start || (known.start == start && plainness(name) < plainness(known.name))
        });
        if is_better {
            *best = Some(Candidate { start, name });
        }
    }
}

fn is_function<'d>(symbol: &impl ObjectSymbol<'d>) -> bool {
    symbol.kind() == SymbolKind::Text && symbol.is_definition()
}

/// Demangles a name of Rust or C++: without hash and without parameters, as perf does.
pub fn name_of(bytes: &[u8]) -> String {
    let name = printable(&bytes[..bytes.len().min(NAME_BYTES_MAX)]);
    if let Ok(name) = rustc_demangle::try_demangle(&name) {
        return printable(format!("{name:#}").as_bytes());
    }
    match name.starts_with("_Z").then(|| demangle_cplusplus(&name)).flatten() {
        Some(name) => printable(name.as_bytes()),
        None => name,
    }
}

/// Demangles a C++ name; `None` if the result is too long: a short name may expand to a very long one.
fn demangle_cplusplus(name: &str) -> Option<String> {
    struct Bounded(String);
    impl DemangleWrite for Bounded {
        fn write_string(&mut self, part: &str) -> std::fmt::Result {
            if self.0.len() + part.len() > NAME_BYTES_MAX {
                return Err(std::fmt::Error);
            }
            self.0.push_str(part);
            Ok(())
        }
    }
    let symbol = cpp_demangle::Symbol::new(name).ok()?;
    let mut written = Bounded(String::new());
    let options = DemangleOptions::new().no_params().no_return_type();
    symbol.structured_demangle(&mut written, &options).ok()?;
    Some(written.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_compilers_are_written_as_people_write_them() {
        let check = |name: &str, expected: &str| assert_eq!(name_of(name.as_bytes()), expected);
        check("_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write");
        check(
            "_ZNSt6vectorIiSaIiEE9push_backERKi",
            "std::vector<int, std::allocator<int> >::push_back",
        );
        check("_ZN3foo3barEiPKc", "foo::bar");
        check("do_syscall_64", "do_syscall_64");
        check("_Znonsense", "_Znonsense");
        check("_Z", "_Z");
    }

    #[test]
    fn a_short_name_that_stands_for_a_long_one_stays_short() {
        // Each substitution is a pair of the one before it.
        let pairs = (0..40).map(|n| match n {
            0 => "S_S_E".to_string(),
            n => format!(
                "St4pairIS{0}_S{0}_E",
                if n == 1 { String::new() } else { format!("{:X}", n - 2) }
            ),
        });
        let name = format!("_Z1fSt4pairIii{}", pairs.collect::<String>());
        assert!(name_of(name.as_bytes()).len() <= NAME_BYTES_MAX);
        let deep = format!("_Z1f{}i", "P".repeat(1000));
        assert!(name_of(deep.as_bytes()).len() <= NAME_BYTES_MAX);
    }
}
