//! Functions of an ELF file by address. The file is untrusted: the number of symbols and the length of
//! names are bounded, and a file that makes the parser panic counts as one without symbols.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result};
use cpp_demangle::{DemangleOptions, DemangleWrite};
use object::{Object, ObjectSegment, ObjectSymbol, ReadCache, SymbolKind};

use crate::kallsyms::plainness;
use crate::{caught, printable};

/// Longer names are truncated.
const NAME_BYTES_MAX: usize = 1024;
/// More symbols than kernels have.
const SYMBOLS_MAX: usize = 1 << 20;
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

type Elf<'d> = object::File<'d, &'d ReadCache<File>>;

/// Opens a file, if it is of the wanted version.
fn with<T>(path: &Path, question: &Question, ask: impl Fn(&Elf) -> Result<T>) -> Result<T> {
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
fn name_of(bytes: &[u8]) -> String {
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
