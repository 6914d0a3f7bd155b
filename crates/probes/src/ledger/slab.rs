//! Names of locks: an address lies in an object of a slab cache, whose type has a lock there. A
//! cache that stands for several (they are merged when their objects have one size) leaves several
//! possible; who waits tells which.

use std::collections::BTreeMap;
use std::fs;

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};
use records::{Base, LockTime};

use super::btf_walk::Types;
use super::raw;
use super::samples::Raw;
use super::symbols::Symbols;

/// Functions of a sender's stack that are kept.
const CHAIN: usize = 4;

/// Names the locks of one run, while their caches exist.
pub struct Namer<'a> {
    object: &'a Object,
    symbols: Option<&'a Symbols>,
    kernel: Option<Types>,
}

/// Where an address lies.
struct Place {
    cache: String,
    offset: u64,
    size: u64,
}

impl<'a> Namer<'a> {
    /// With the programs that know slabs.
    pub fn new(object: &'a Object, symbols: Option<&'a Symbols>) -> Namer<'a> {
        Namer { object, symbols, kernel: Types::of_kernel() }
    }

    /// Puts a place and members where locks have addresses, and those of one place together.
    pub fn name(&self, locks: &mut Vec<LockTime>) {
        let mut named: BTreeMap<(String, Base), LockTime> = BTreeMap::new();
        for mut lock in std::mem::take(locks) {
            if let Some(address) = lock.place.strip_prefix("0x") {
                let address = u64::from_str_radix(address, 16).unwrap_or(0);
                (lock.place, lock.members) = self.found(address);
            }
            match named.get_mut(&(lock.place.clone(), lock.base)) {
                Some(known) => add(known, lock),
                None => drop(named.insert((lock.place.clone(), lock.base), lock)),
            }
        }
        *locks = named.into_values().collect();
    }

    /// Locks as seen in waits, with who waited.
    pub fn waits(&self, waits: &[Raw]) -> Vec<LockTime> {
        let mut locks: BTreeMap<u64, LockTime> = BTreeMap::new();
        for wait in waits {
            let Some(address) = wait.lock else { continue };
            let lock = locks.entry(address).or_insert_with(|| LockTime {
                base: Base::Work,
                place: format!("{address:#x}"),
                members: Vec::new(),
                callers: BTreeMap::new(),
                spins: 0,
                spin_ns: 0,
                sleeps: 0,
                sleep_ns: 0,
            });
            let caller =
                self.symbols.and_then(|symbols| beyond(symbols, wait, PARTS_OF_WAITING).next());
            *lock.callers.entry(caller.unwrap_or("[unknown]").to_string()).or_default() += 1;
        }
        locks.into_values().collect()
    }

    /// Who sent interrupts to other CPUs, each with its callers: `flush_tlb_mm_range < zap_… < …`.
    pub fn senders(&self, events: &[Raw]) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut senders: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for event in events {
            let Some(how) = event.sent.and_then(raw::count_name) else { continue };
            let chain = |symbols| beyond(symbols, event, PARTS_OF_SENDING).take(CHAIN);
            let chain: Vec<&str> = self.symbols.into_iter().flat_map(chain).collect();
            let sender = if chain.is_empty() { "[unknown]".into() } else { chain.join(" < ") };
            *senders.entry(how.to_string()).or_default().entry(sender).or_default() += 1;
        }
        senders
    }

    fn found(&self, address: u64) -> (String, Vec<String>) {
        if let Some(place) = self.describe(address) {
            let members = self.members(&place);
            return (format!("{}+{}", place.cache, place.offset), members);
        }
        match self.symbols.and_then(|symbols| symbols.data(address)) {
            Some((name, 0)) => (name.to_string(), vec![name.to_string()]),
            Some((name, offset)) => (format!("{name}+{offset}"), Vec::new()),
            None => (format!("{address:#x}"), Vec::new()),
        }
    }

    /// Asks the kernel which object lies there.
    fn describe(&self, address: u64) -> Option<Place> {
        let program = self.object.progs_mut().find(|program| program.name() == "describe")?;
        let mut context = address.to_ne_bytes().to_vec();
        let input = ProgramInput { context_in: Some(&mut context), ..ProgramInput::default() };
        program.test_run(input).ok()?;
        let map = self.object.maps().find(|map| map.name() == "object")?;
        let bytes = map.lookup(&0_u32.to_ne_bytes(), MapFlags::ANY).ok()??;
        let word = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        if word(12)? == 0 {
            return None;
        }
        let name = bytes.get(16..)?;
        let end = name.iter().position(|b| *b == 0)?;
        Some(Place {
            cache: String::from_utf8_lossy(&name[..end]).into_owned(),
            offset: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            size: u64::from(word(8)?),
        })
    }

    /// What may lie there: structures of the cache's size with a lock at the offset, those first
    /// that are called like the cache or one that is merged with it.
    fn members(&self, place: &Place) -> Vec<String> {
        let Some(kernel) = &self.kernel else { return Vec::new() };
        // Objects of these caches are of any type.
        if place.cache.starts_with("kmalloc") {
            return Vec::new();
        }
        let aliases = aliases(&place.cache);
        let candidates = kernel.locks_at(place.size, place.offset);
        let alike = |(name, _): &&(String, String)| aliases.iter().any(|a| is_alike(a, name));
        let mut chosen: Vec<&(String, String)> = candidates.iter().filter(alike).collect();
        if chosen.is_empty() {
            chosen = candidates.iter().collect();
        }
        chosen.into_iter().map(|(name, path)| format!("{name}.{path}")).collect()
    }
}

fn add(known: &mut LockTime, lock: LockTime) {
    known.spins += lock.spins;
    known.spin_ns += lock.spin_ns;
    known.sleeps += lock.sleeps;
    known.sleep_ns += lock.sleep_ns;
    for (caller, times) in lock.callers {
        *known.callers.entry(caller).or_default() += times;
    }
}

/// Beginnings of functions that are a part of waiting itself, or of what watches it.
const PARTS_OF_WAITING: &[&str] = &[
    "bpf_",
    "__bpf_",
    "__traceiter_",
    "trace_",
    "_raw_",
    "raw_spin_",
    "__raw_",
    "queued_",
    "__pv_",
    "pv_",
    "native_queued",
    "rwsem_",
    "down_",
    "__down",
    "mutex_",
    "__mutex",
    "rt_mutex",
    "percpu_",
    "lock_page",
    "folio_lruvec_lock",
    "do_raw_",
];

/// The same of sending an interrupt to another CPU.
const PARTS_OF_SENDING: &[&str] = &[
    "bpf_",
    "__bpf_",
    "__traceiter_",
    "trace_",
    "smp_call_function",
    "__smp_call_",
    "generic_exec_single",
    "on_each_cpu",
    "send_call_function",
    "native_send_call",
    "native_smp_send",
    "arch_send",
    "kvm_",
    "x2apic_",
    "resched_curr",
    "__resched_curr",
    "ttwu_queue",
    "__ttwu_queue",
];

/// Functions of a stack, from within, beyond those that are such parts.
fn beyond<'a>(
    symbols: &'a Symbols,
    event: &'a Raw,
    parts: &'a [&str],
) -> impl Iterator<Item = &'a str> {
    let names = event.kernel.iter().filter_map(|frame| symbols.find(*frame)).map(|(name, _)| name);
    names.skip_while(|name| parts.iter().any(|part| name.starts_with(part)))
}

/// Names of all caches that share the slabs of this one.
fn aliases(cache: &str) -> Vec<String> {
    const CACHES: &str = "/sys/kernel/slab";
    let mut names = vec![cache.to_string()];
    let Ok(target) = fs::read_link(format!("{CACHES}/{cache}")) else { return names };
    let entries = fs::read_dir(CACHES).into_iter().flatten().flatten();
    let same = entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == target));
    names.extend(same.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names
}

/// Whether a structure is called like a cache: each word of the cache's name shortens the word of
/// the structure's in its place (`file_lock_ctx`, `file_lock_context`; `sighand_cache`,
/// `sighand_struct`).
fn is_alike(cache: &str, structure: &str) -> bool {
    let words = cache.split(['_', '-']).filter(|word| !matches!(*word, "cache" | "struct" | ""));
    let words: Vec<&str> = words.collect();
    let theirs: Vec<&str> = structure.split('_').collect();
    !words.is_empty()
        && words.len() <= theirs.len()
        && words.iter().zip(&theirs).all(|(short, long)| shortens(short, long))
}

/// Whether the letters of `short` come in `long` in this order, the first first.
fn shortens(short: &str, long: &str) -> bool {
    let mut letters = long.chars();
    short.chars().next() == long.chars().next()
        && short.chars().all(|letter| letters.any(|l| l == letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_are_called_like_their_caches() {
        for (cache, structure) in [
            ("file_lock_ctx", "file_lock_context"),
            ("task_struct", "task_struct"),
            ("sighand_cache", "sighand_struct"),
            ("ext4_inode_cache", "ext4_inode_info"),
            ("mm_struct", "mm_struct"),
        ] {
            assert!(is_alike(cache, structure), "{cache} {structure}");
        }
        assert!(!is_alike("ftrace_event_field", "file_lock_context"));
        assert!(!is_alike("ext4_inode_cache", "ext4_group_info"));
    }
}
