//! Recordings of Linux perf (`perf.data`) as plain values: the samples of CPUs with time and call
//! chain, and the names of functions as far as this host knows them.
//!
//!     file ─container─→ attributes, records ─events─→ by time ─gather─→ addresses ─resolve─→ names
//!
//! The file is untrusted and in either byte order: each number is read at an offset that is checked
//! against the file (`order`).
//!
//! Format: tools/perf/Documentation/perf.data-file-format.txt in the kernel's source, and the
//! man page perf_event_open(2).

mod attribute;
mod container;
mod elf;
mod events;
mod gather;
mod imports;
mod kallsyms;
mod kernel_symbols;
mod kernel_types;
mod order;
mod program_types;
mod resolve;
mod source_lines;
mod spaces;
mod unwind_tables;
mod variables;

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, Result, anyhow, bail, ensure};
use records::recording::Recording;

pub use crate::container::recognise;
pub use elf::{ProbeSite, exported_variables, function_places, probe_sites};
pub use imports::called;
pub use kernel_symbols::Symbols;
pub use kernel_types::{KernelTypes, Member, Structure, is_called_like};
pub use program_types::{ProgramMember, ProgramTypes};
pub use source_lines::SourceLine;
pub use unwind_tables::{UnwindTables, unwind_tables};
pub use variables::{Variable, Variables, exported, named, variables};

use crate::container::Container;
use crate::resolve::Local;

/// A map with cheap hashes. Seeds differ from run to run, so that no file can be made to collide.
type Map<K, V> = hashbrown::HashMap<K, V>;

/// Reads a file. `symbols` are further sources of function names: files like /proc/kallsyms or
/// System.map, ELF files such as vmlinux, and folders like ~/.debug.
pub fn open(path: &Path, symbols: &[PathBuf]) -> Result<Recording> {
    let what = || format!("reading {}", path.display());
    read(&whole(path).with_context(what)?, symbols).with_context(what)
}

/// Parses the contents of a file.
pub fn read(file: &[u8], symbols: &[PathBuf]) -> Result<Recording> {
    let container = Container::read(file)?;
    let local = Local::for_host(symbols, &container.features);
    Ok(resolve::resolve(gather::gather(container)?, local))
}

/// Parses the contents of a file without looking for symbols on this host.
pub fn read_alone(file: &[u8]) -> Result<Recording> {
    Ok(resolve::unresolved(gather::gather(Container::read(file)?)?))
}

/// All bytes of a file. Its samples will take about the same amount of memory again.
fn whole(path: &Path) -> Result<Vec<u8>> {
    const BYTES_MAX: u64 = 4 << 30;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    ensure!(
        length <= BYTES_MAX,
        "it has {length} bytes, more than the limit of {BYTES_MAX}: record for a shorter time"
    );
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize + 1).context("it does not fit into memory")?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The function at each offset of a program or library of this host, as far as it, or a file of debug
/// symbols with its build id, has symbols.
pub fn functions_of(file: &Path, offsets: &[u64]) -> Vec<Option<String>> {
    let build_id = elf::build_id(file).unwrap_or_default();
    let debug = resolve::by_id(&resolve::caches(), &build_id);
    let debug = debug.first().map(PathBuf::as_path);
    let question = elf::Question { build_id: &build_id, trusted: true, offsets, debug };
    elf::functions(file, &question).unwrap_or_else(|_| vec![None; offsets.len()])
}

/// Calls a parser that may panic on hostile input. A panic becomes an error, without a message on
/// standard error.
fn caught<T>(what: &str, parse: impl FnOnce() -> Result<T>) -> Result<T> {
    SILENCER.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if !PARSING.get() {
                before(panic);
            }
        }));
    });
    let outer = PARSING.replace(true);
    let parsed = catch_unwind(AssertUnwindSafe(parse));
    PARSING.set(outer);
    parsed.unwrap_or_else(|_| bail!("damaged: the parser of {what} gave up"))
}

static SILENCER: Once = Once::new();

thread_local! {
    /// Whether this thread is inside a parser that may panic.
    static PARSING: Cell<bool> = const { Cell::new(false) };
}

/// A name from a file, without characters that control a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let bad =
        |c: char| c.is_control() || matches!(c, '\u{200e}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.contains(bad) { text.replace(bad, "?") } else { text.into_owned() }
}

/// The error for a file whose contents contradict themselves.
fn damaged(what: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("damaged: {what}")
}
