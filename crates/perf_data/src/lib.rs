//! Recordings of Linux perf (`perf.data`) as plain values: where CPUs were seen, when, and by
//! which chain of callers, with the names of functions as far as this host knows them.
//!
//!     file ─container─→ attributes, records ─events─→ by time ─gather─→ places ─resolve─→ names
//!
//! The file is somebody else's, in either byte order: each number is read by a place that is
//! checked against the file (`order`), so that no claim of it is believed.
//!
//! Format: tools/perf/Documentation/perf.data-file-format.txt in the kernel's source, and the
//! man page perf_event_open(2).

mod attribute;
mod container;
mod elf;
mod events;
mod gather;
mod kallsyms;
mod order;
mod resolve;
mod spaces;

use std::cell::Cell;
use std::fs::File;
use std::io::Read;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, Result, anyhow, bail, ensure};
use records::CpuMode;

pub use crate::container::recognise;

use crate::container::Container;
use crate::resolve::Local;

/// A map whose hashes cost little. Seeds differ from run to run, so that no file can be made to
/// collide.
type Map<K, V> = hashbrown::HashMap<K, V>;

/// What perf recorded of one event.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recording {
    /// Where and how it was made, as far as the file says.
    pub origin: Origin,
    /// The event whose samples these are.
    pub event: SampledEvent,
    /// Names of other events in the file, whose samples were left out, with their number.
    pub other_events: Vec<(String, u64)>,
    /// Whether all CPUs were sampled whatever they ran; else chosen tasks.
    pub all_cpus: bool,
    /// Names of tasks, that samples refer to by index.
    pub tasks: Vec<String>,
    /// Files and other things that code lies in; the first is the kernel.
    pub objects: Vec<Object>,
    /// Functions, that locations refer to by index.
    pub functions: Vec<Function>,
    /// Places in the code, that chains refer to by index.
    pub locations: Vec<Location>,
    /// Chains of callers, that samples refer to by index.
    pub chains: Chains,
    /// What was seen, in the order of time.
    pub samples: Vec<PerfSample>,
    /// Samples that were lost, and when that was noticed.
    pub losses: Vec<Loss>,
    /// How often the kernel held the sampling back because it took too long.
    pub throttled: u64,
    /// What makes it doubtful, in sentences.
    pub doubts: Vec<String>,
}

/// Where and how a recording was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Origin {
    /// The name of the host.
    pub host: String,
    /// The release of its kernel.
    pub release: String,
    /// Its architecture, as uname(1) says it.
    pub architecture: String,
    /// CPUs that were online.
    pub cpus_online: Option<u32>,
    /// The command line of perf.
    pub command: Vec<String>,
}

/// What was sampled.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampledEvent {
    /// Its name: `cpu-clock`, `cycles`.
    pub name: String,
    /// Whether its unit is nanoseconds of CPU time.
    pub is_clock: bool,
    /// Samples a second that were asked for, where it was a frequency.
    pub hertz: Option<u64>,
}

/// Something that code lies in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Object {
    /// The path of the file, or a name in brackets.
    pub path: String,
    /// What identifies its contents, where that is known.
    pub build_id: Vec<u8>,
}

/// A function.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Function {
    /// Its name, or `OBJECT+0xOFFSET` where none is known.
    pub name: String,
    /// Index of its object.
    pub object: u32,
    /// Whether the name is one.
    pub known: bool,
}

/// A place in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Index of its object.
    pub object: u32,
    /// The offset in the file, or the address in the kernel.
    pub address: u64,
    /// Index of its function.
    pub function: u32,
    /// Whether the instruction before it is a system call: what is sampled there happened in the
    /// kernel's exit, where interrupts are off.
    pub after_system_call: bool,
}

/// Chains of callers, innermost first, one behind the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chains {
    locations: Vec<u32>,
    /// End of each chain in `locations`, and how many of its frames are the kernel's.
    ends: Vec<(u32, u32)>,
}

impl Chains {
    /// The locations of a chain, innermost first.
    pub fn locations(&self, chain: u32) -> &[u32] {
        let start = chain.checked_sub(1).map_or(0, |before| self.ends[before as usize].0);
        &self.locations[start as usize..self.ends[chain as usize].0 as usize]
    }

    /// How many of the innermost frames are the kernel's.
    pub fn kernel_frames(&self, chain: u32) -> usize {
        self.ends[chain as usize].1 as usize
    }

    /// How many chains there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Adds one; returns its index. Fails where indices run out.
    pub fn push(
        &mut self,
        locations: impl Iterator<Item = u32>,
        kernel_frames: u32,
    ) -> Option<u32> {
        self.locations.extend(locations);
        let end = u32::try_from(self.locations.len()).ok()?;
        let index = u32::try_from(self.ends.len()).ok()?;
        self.ends.push((end, kernel_frames));
        Some(index)
    }
}

/// One sample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerfSample {
    /// When, by the clock of perf; 0 where the file has no times.
    pub time_ns: u64,
    /// On which CPU; 0 where the file does not say.
    pub cpu: u32,
    /// Process.
    pub pid: i32,
    /// Thread; 0 is the idle task of the CPU.
    pub tid: i32,
    /// Index of the name of its task.
    pub task: u32,
    /// Index of the chain of callers.
    pub chain: u32,
    /// Events that it stands for; of a clock, nanoseconds.
    pub period: u64,
    /// In which mode the CPU was.
    pub mode: CpuMode,
}

/// Samples that were lost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Loss {
    /// When that was noticed.
    pub time_ns: u64,
    /// How many.
    pub samples: u64,
}

impl Recording {
    /// Reads a file. `symbols` are further places to look for the names of functions: files
    /// like /proc/kallsyms or System.map, ELF files such as vmlinux, and folders like ~/.debug.
    pub fn open(path: &Path, symbols: &[PathBuf]) -> Result<Recording> {
        let what = || format!("reading {}", path.display());
        Recording::read(&whole(path).with_context(what)?, symbols).with_context(what)
    }

    /// Reads what is in a file.
    pub fn read(file: &[u8], symbols: &[PathBuf]) -> Result<Recording> {
        let container = Container::read(file)?;
        let local = Local::of_host(symbols, &container.features);
        Ok(resolve::resolve(gather::gather(container)?, local))
    }

    /// The same without looking for symbols on this host: only what the file says.
    pub fn read_alone(file: &[u8]) -> Result<Recording> {
        Ok(resolve::unresolved(gather::gather(Container::read(file)?)?))
    }

    /// The time from the first to the last sample.
    pub fn span_ns(&self) -> (u64, u64) {
        let times = || self.samples.iter().map(|sample| sample.time_ns);
        (times().min().unwrap_or(0), times().max().unwrap_or(0))
    }

    /// The function of a location.
    pub fn function(&self, location: u32) -> &Function {
        &self.functions[self.locations[location as usize].function as usize]
    }

    /// The last part of the path of an object.
    pub fn object_name(&self, object: u32) -> &str {
        let path = self.objects[object as usize].path.as_str();
        // Names in brackets are no paths, whatever is in them.
        if path.starts_with('[') { path } else { path.rsplit('/').next().unwrap_or(path) }
    }
}

/// All bytes of a file. Its samples take about as much memory again.
fn whole(path: &Path) -> Result<Vec<u8>> {
    const BYTES_MAX: u64 = 4 << 30;
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    ensure!(
        length <= BYTES_MAX,
        "it has {length} bytes, more than the {BYTES_MAX} that are read: record for a shorter time"
    );
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length as usize + 1).context("it does not fit into memory")?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The function at each offset of a program or library of this host, where it has symbols.
pub fn functions_of(file: &Path, offsets: &[u64]) -> Vec<Option<String>> {
    let question = elf::Question { build_id: &[], trusted: true, offsets, debug: None };
    elf::functions(file, &question).unwrap_or_else(|_| vec![None; offsets.len()])
}

/// Calls a parser that may panic on hostile input: that becomes an error, and nothing is said
/// about it on standard error.
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
    /// Whether this thread is in somebody else's parser.
    static PARSING: Cell<bool> = const { Cell::new(false) };
}

/// Names come from files: without what would steer a terminal.
fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let bad =
        |c: char| c.is_control() || matches!(c, '\u{200e}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    if text.contains(bad) { text.replace(bad, "?") } else { text.into_owned() }
}

/// A claim of the file that cannot be true.
fn damaged(what: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("damaged: {what}")
}
