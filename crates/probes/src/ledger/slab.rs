//! Names of locks: the address of a lock lies in an object of a slab cache, whose type has a lock
//! at that offset. The kernel merges caches with objects of equal size; then several types are
//! possible, and the waiting functions tell which.

use std::collections::BTreeMap;
use std::fs;

use libbpf_rs::{MapCore, MapFlags, Object, ProgramInput};
use perf_data::{KernelTypes, Symbols, is_called_like};
use records::{Base, LockTime};

use super::raw;
use super::samples::RawSample;

/// How many functions of a sender's stack are kept.
const CHAIN: usize = 4;

/// Names the locks of one run, while their slab caches exist.
pub struct LockNamer<'a> {
    object: &'a Object,
    symbols: Option<&'a Symbols>,
    kernel: Option<KernelTypes>,
}

/// The slab object in which an address lies.
struct SlabObject {
    /// The name of its cache.
    cache: String,
    /// The offset of the address in the object.
    offset: u64,
    /// The size of the object.
    size: u64,
}

impl<'a> LockNamer<'a> {
    /// `object` has the BPF program that looks up slab objects.
    pub fn new(object: &'a Object, symbols: Option<&'a Symbols>) -> LockNamer<'a> {
        LockNamer { object, symbols, kernel: KernelTypes::from_kernel() }
    }

    /// Replaces addresses of locks by places and members, and merges the locks of one place.
    pub fn name(&self, locks: &mut Vec<LockTime>) {
        let mut named: BTreeMap<(String, Base), LockTime> = BTreeMap::new();
        for mut lock in std::mem::take(locks) {
            if let Some(address) = lock.place.strip_prefix("0x") {
                let address = u64::from_str_radix(address, 16).unwrap_or(0);
                (lock.place, lock.members) = self.place_and_members(address);
            }
            match named.get_mut(&(lock.place.clone(), lock.base)) {
                Some(known) => add(known, lock),
                None => drop(named.insert((lock.place.clone(), lock.base), lock)),
            }
        }
        *locks = named.into_values().collect();
    }

    /// The locks of these waits, each with the functions that waited.
    pub fn waits(&self, waits: &[RawSample]) -> Vec<LockTime> {
        let mut locks: BTreeMap<u64, LockTime> = BTreeMap::new();
        for wait in waits {
            let Some(address) = wait.lock else { continue };
            let unknown = || LockTime::new(Base::Work, format!("{address:#x}"));
            let lock = locks.entry(address).or_insert_with(unknown);
            let caller =
                self.symbols.and_then(|symbols| callers(symbols, wait, PARTS_OF_WAITING).next());
            *lock.callers.entry(caller.unwrap_or("[unknown]").to_string()).or_default() += 1;
            if let Some(holder) = wait.held_by() {
                *lock.holders.entry(holder).or_default() += 1;
            }
        }
        locks.into_values().collect()
    }

    /// The locks that tasks handed to others which waited, each with how long they had had it.
    pub fn held(&self) -> Vec<LockTime> {
        let Some(map) = self.object.maps().find(|map| map.name() == "held_locks") else {
            return Vec::new();
        };
        let lock = |key: Vec<u8>| {
            // `struct held` of names.bpf.h.
            let value = map.lookup(&key, MapFlags::ANY).ok()??;
            let long = |at: usize| value.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
            let (held_ns, held) = (long(8)?, long(16)?);
            let address = u64::from_ne_bytes(key.try_into().ok()?);
            let lock = LockTime::new(Base::Work, format!("{address:#x}"));
            (held > 0).then_some(LockTime { held, held_ns, ..lock })
        };
        map.keys().filter_map(lock).collect()
    }

    /// The functions that sent IPIs, by how they were sent, each with its callers:
    /// `flush_tlb_mm_range < zap_… < …`.
    pub fn senders(&self, events: &[RawSample]) -> BTreeMap<String, BTreeMap<String, u64>> {
        let mut senders: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for event in events {
            let Some(how) = event.sent.and_then(raw::count_name) else { continue };
            let chain = |symbols| callers(symbols, event, PARTS_OF_SENDING).take(CHAIN);
            let chain: Vec<&str> = self.symbols.into_iter().flat_map(chain).collect();
            let sender = if chain.is_empty() { "[unknown]".into() } else { chain.join(" < ") };
            *senders.entry(how.to_string()).or_default().entry(sender).or_default() += 1;
        }
        senders
    }

    fn place_and_members(&self, address: u64) -> (String, Vec<String>) {
        if let Some(object) = self.slab_object(address) {
            let members = self.members(&object);
            return (format!("{}+{}", object.cache, object.offset), members);
        }
        match self.symbols.and_then(|symbols| symbols.variable(address)) {
            Some((name, 0)) => (name.to_string(), vec![name.to_string()]),
            Some((name, offset)) => (format!("{name}+{offset}"), Vec::new()),
            None => (format!("{address:#x}"), Vec::new()),
        }
    }

    /// Asks the kernel which slab object contains an address.
    fn slab_object(&self, address: u64) -> Option<SlabObject> {
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
        Some(SlabObject {
            cache: String::from_utf8_lossy(&name[..end]).into_owned(),
            offset: u64::from_ne_bytes(bytes.get(..8)?.try_into().ok()?),
            size: u64::from(word(8)?),
        })
    }

    /// The possible locks: those at this offset of structures of this size. If some of these
    /// structures are called like the cache, or like one merged with it, only theirs.
    fn members(&self, object: &SlabObject) -> Vec<String> {
        let Some(kernel) = &self.kernel else { return Vec::new() };
        // Objects of these caches have any type.
        if object.cache.starts_with("kmalloc") {
            return Vec::new();
        }
        let aliases = aliases(&object.cache);
        let candidates = kernel.locks_at(object.size, object.offset);
        let alike = |(name, _): &&(String, String)| aliases.iter().any(|a| is_called_like(a, name));
        let mut chosen: Vec<&(String, String)> = candidates.iter().filter(alike).collect();
        if chosen.is_empty() {
            chosen = candidates.iter().collect();
        }
        chosen.into_iter().map(|(name, path)| format!("{name}.{path}")).collect()
    }
}

fn add(known: &mut LockTime, lock: LockTime) {
    known.held += lock.held;
    known.held_ns += lock.held_ns;
    known.spins += lock.spins;
    known.spin_ns += lock.spin_ns;
    known.sleeps += lock.sleeps;
    known.sleep_ns += lock.sleep_ns;
    let counts = [(&mut known.callers, lock.callers), (&mut known.holders, lock.holders)];
    for (known, counted) in counts {
        counted.into_iter().for_each(|(name, times)| *known.entry(name).or_default() += times);
    }
}

/// Prefixes of functions that are part of waiting itself, or of tracing it.
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

/// Prefixes of functions that are part of sending an IPI, or of tracing it.
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

/// The functions of a stack, innermost first, without the leading ones that have such prefixes.
fn callers<'a>(
    symbols: &'a Symbols,
    event: &'a RawSample,
    prefixes: &'a [&str],
) -> impl Iterator<Item = &'a str> {
    let functions = event.kernel.iter().filter_map(|frame| symbols.function(*frame));
    let names = functions.map(|(name, _)| name);
    names.skip_while(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
}

/// The names of all caches merged with this one, and its own.
fn aliases(cache: &str) -> Vec<String> {
    const CACHES: &str = "/sys/kernel/slab";
    let mut names = vec![cache.to_string()];
    let Ok(target) = fs::read_link(format!("{CACHES}/{cache}")) else { return names };
    let entries = fs::read_dir(CACHES).into_iter().flatten().flatten();
    let same = entries.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == target));
    names.extend(same.map(|entry| entry.file_name().to_string_lossy().into_owned()));
    names
}
