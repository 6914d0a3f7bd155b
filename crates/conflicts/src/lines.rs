//! From accesses to the lines that CPUs contend for.
//!
//!     accesses ─ by line ─ used by two CPUs, written by one ─ named ─ lines of one kind ─> rows
//!
//! Lines of objects that travel between CPUs, or of which there are many, are one row: what counts is the kind of object
//! and which of its lines.

mod calls;
mod recording;

use std::collections::{BTreeMap, BTreeSet};

use answers::{ConflictLine, ConflictMember, LineKind, LockWait, OneLine, Sharing};
use guests::tracer::{Access, Actor, How, Trace, Transfers};
use perf_data::Member;

use crate::image::{Image, Place};
use crate::names::{Candidates, Evidence, Namer, lock_of};

pub use recording::recorded;

/// The number of operations in each window, all tasks together.
pub type Operations = [f64; 2];

/// Functions named for a member, and for the background.
const FUNCTIONS_MAX: usize = 6;

/// Where lines of elements begin, which all are one row.
const OF_ELEMENTS: i64 = i64::MAX;

/// Functions whose accesses begin anywhere.
const COPIES: [&str; 5] = ["memcpy", "memset", "memmove", "copy_", "clear_"];

/// What a line is part of, for lines that are used alike.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    place: String,
    /// The first byte of the line, from the object's first.
    offset: i64,
}

/// A named part of a line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Part {
    names: Vec<String>,
    types: Vec<String>,
    offset: u32,
    bytes: u32,
}

/// Counts of a part.
#[derive(Clone, Debug, Default)]
struct Counts {
    /// Reads, writes and atomic writes of the first window, and of the second.
    reads: [f64; 2],
    writes: [f64; 2],
    atomics: [f64; 2],
    writers: BTreeSet<u16>,
    written_by: BTreeMap<String, u64>,
    read_by: BTreeMap<String, u64>,
}

/// Lines that are one row, while they are added up.
#[derive(Default)]
struct Row {
    lines: usize,
    is_placed_by_chance: bool,
    transfers: [Transfers; 2],
    /// Writes to bytes that other CPUs use, and to others.
    shared_writes: [u64; 2],
    parts: BTreeMap<Part, Counts>,
    /// Accesses and writes of each CPU.
    by_cpu: BTreeMap<u16, (f64, f64)>,
    /// What the first window needed of the line that it needed most.
    one_line: OneLine,
    background: BTreeMap<String, u64>,
}

/// Names and counts the contended lines of a trace.
pub struct Lines<'a> {
    image: &'a dyn Image,
    namer: Option<&'a Namer<'a>>,
    /// The types of the objects of caches, and of variables.
    known: BTreeMap<String, Candidates>,
    /// The locks in variables, by their offset, with what they are called.
    locks: BTreeMap<String, BTreeMap<u64, &'static str>>,
}

/// The accesses to one line.
type OfLine<'t> = Vec<&'t Access>;

impl<'a> Lines<'a> {
    pub fn new(image: &'a dyn Image) -> Lines<'a> {
        Lines { image, namer: image.namer(), known: BTreeMap::new(), locks: BTreeMap::new() }
    }

    /// The rows of a trace, the most contended first.
    pub fn rows(&mut self, trace: &Trace, operations: Operations) -> Vec<ConflictLine> {
        let mut by_line: BTreeMap<(bool, u64), OfLine> = BTreeMap::new();
        for access in &trace.accesses {
            by_line.entry((access.is_user_address, access.line)).or_default().push(access);
        }
        self.learn(&by_line);
        let transfers: BTreeMap<u64, [Transfers; 4]> =
            trace.lines.iter().map(|line| (line.line, line.windows)).collect();
        let mut rows: BTreeMap<Key, Row> = BTreeMap::new();
        for ((is_user, line), accesses) in &by_line {
            if !is_contended(accesses) {
                continue;
            }
            let windows = transfers.get(line).copied().unwrap_or_default();
            let mut key = self.key(*is_user, *line, accesses);
            if self.is_of_elements(*is_user, *line, accesses) {
                key.offset = OF_ELEMENTS;
            }
            let row = rows.entry(key).or_default();
            self.add(row, (*is_user, *line), accesses, [windows[1], windows[2]]);
        }
        let mut lines: Vec<ConflictLine> =
            rows.into_iter().map(|(key, row)| conflict_line(&key, row, operations)).collect();
        lines.sort_by(|a, b| b.transfers[0].total_cmp(&a.transfers[0]));
        lines
    }

    /// Learns what the objects of each cache are from all accesses to them.
    fn learn(&mut self, by_line: &BTreeMap<(bool, u64), OfLine>) {
        let Some(namer) = self.namer else { return };
        let mut evidence: BTreeMap<String, (Place, Evidence)> = BTreeMap::new();
        for ((is_user, line), accesses) in by_line {
            for access in accesses {
                let address = line + u64::from(access.bytes.trailing_zeros());
                let place = self.image.place(*is_user, address);
                let Some(start) = place.start() else { continue };
                let (_, evidence) =
                    evidence.entry(subject(&place)).or_insert_with(|| (place, Evidence::default()));
                evidence.has_unknown_types |= !self.image.has_types(access.instruction);
                let Some(function) = self.image.function(access.instruction) else { continue };
                if !COPIES.iter().any(|copy| function.contains(copy)) {
                    *evidence.offsets.entry(address.wrapping_sub(start)).or_default() +=
                        u64::from(access.count);
                    match lock_of(&function) {
                        Some(part) if is_write(access) => {
                            evidence.locks.insert(address - start, part);
                        }
                        Some(_) => (),
                        None => {
                            evidence.functions.insert(function, access.instruction);
                        }
                    }
                    if access.how == How::Atomic {
                        evidence.atomic.insert(address.wrapping_sub(start));
                    }
                }
            }
        }
        let locks = evidence.iter().filter_map(|(subject, (place, evidence))| {
            let is_variable = matches!(place, Place::Variable { .. });
            is_variable.then(|| (subject.clone(), evidence.locks.clone()))
        });
        self.locks = locks.collect();
        let known = evidence.into_iter().map(|(subject, (place, evidence))| {
            let candidates = match &place {
                Place::Object { cache, bytes, .. } => namer.of_cache(cache, *bytes, &evidence),
                Place::PerCpu { name, .. } => namer.of_variable(name),
                Place::Variable { bytes, .. } => namer.of_static_variable(*bytes, &evidence),
                Place::Page { .. } => {
                    namer.structure("page").into_iter().collect::<Vec<_>>().into()
                }
                _ => Candidates::default(),
            };
            (subject, candidates)
        });
        self.known = known.collect();
    }

    /// Which row a line belongs to.
    fn key(&self, is_user: bool, line: u64, accesses: &[&Access]) -> Key {
        let first = accesses.iter().filter(|a| is_write(a)).chain(accesses).next();
        let offset = first.map_or(0, |access| access.bytes.trailing_zeros());
        let place = self.image.place(is_user, line + u64::from(offset));
        let offset = place.start().map_or(0, |start| line.wrapping_sub(start) as i64);
        let place = match &place {
            Place::Content
            | Place::Vmalloc
            | Place::User
            | Place::Unknown
            | Place::Mapping { .. } => {
                // Nothing else tells them apart.
                let functions = self.writers(accesses);
                format!("{} written by {}", what(&place), functions.join(", "))
            }
            place => self.label(place),
        };
        Key { place, offset }
    }

    /// Whether objects like one on this line begin elsewhere than at lines.
    fn is_placed_by_chance(&self, is_user: bool, line: u64, accesses: &[&Access]) -> bool {
        accesses.iter().any(|access| {
            let address = line + u64::from(access.bytes.trailing_zeros());
            match self.image.place(is_user, address) {
                Place::Object { begins_at_line, .. } => !begins_at_line,
                _ => false,
            }
        })
    }

    /// Whether a line holds nothing but elements of one of a program's arrays: then its lines are one row.
    fn is_of_elements(&self, is_user: bool, line: u64, accesses: &[&Access]) -> bool {
        is_user
            && accesses.iter().filter(|access| is_operation(access)).all(|access| {
                let part = self.part(is_user, line, access);
                part.names.iter().all(|name| name.ends_with("[]"))
            })
    }

    fn writers(&self, accesses: &[&Access]) -> Vec<String> {
        let mut counts: BTreeMap<String, u64> = BTreeMap::new();
        for access in accesses.iter().filter(|access| is_write(access) && is_operation(access)) {
            *counts.entry(self.function(access)).or_default() += u64::from(access.count);
        }
        most(counts).into_iter().take(2).collect()
    }

    fn function(&self, access: &Access) -> String {
        let found = self.image.function(access.instruction);
        found.unwrap_or_else(|| format!("{:#x}", access.instruction))
    }

    /// What a place is called.
    fn label(&self, place: &Place) -> String {
        let Candidates { structures, is_guess } =
            self.known.get(&subject(place)).cloned().unwrap_or_default();
        let named = |namer: &'a Namer<'a>| structures.iter().map(|t| namer.name_of(*t)).collect();
        let names: Vec<&str> = self.namer.map(named).unwrap_or_default();
        match (place, &names[..]) {
            (Place::Object { .. }, [name]) if is_guess => format!("{name}?"),
            (Place::Object { .. }, [name]) => (*name).to_string(),
            (Place::Object { cache, .. }, []) => format!("object of {cache}"),
            (Place::Object { cache, .. }, _) => {
                format!("object of {cache} ({}?)", names.join(" or "))
            }
            _ => what(place),
        }
    }

    /// Adds a line's accesses to its row.
    fn add(
        &self,
        row: &mut Row,
        (is_user, line): (bool, u64),
        accesses: &[&Access],
        windows: [Transfers; 2],
    ) {
        row.lines += 1;
        row.is_placed_by_chance |= self.is_placed_by_chance(is_user, line, accesses);
        for (sum, one) in row.shared_writes.iter_mut().zip(shared_writes(accesses)) {
            *sum += one;
        }
        for (sum, one) in row.transfers.iter_mut().zip(windows) {
            sum.owned += one.owned;
            sum.copied += one.copied;
            sum.bursts += one.bursts;
        }
        let one_line = self.one_line((is_user, line), accesses, windows[0]);
        if one_line.transfers[0] > row.one_line.transfers[0] || row.lines == 1 {
            row.one_line = one_line;
        }
        for access in accesses {
            let function = self.function(access);
            let count = u64::from(access.count);
            if !is_operation(access) {
                *row.background.entry(function).or_default() += count;
                continue;
            }
            let part = self.part(is_user, line, access);
            let counts = row.parts.entry(part).or_default();
            let window = usize::from(access.window != 1);
            let number = f64::from(access.count);
            let (all, written) = row.by_cpu.entry(access.cpu).or_default();
            *all += number;
            *written += if is_write(access) { number } else { 0.0 };
            match access.how {
                How::Load => counts.reads[window] += number,
                How::Store => counts.writes[window] += number,
                How::Atomic => {
                    counts.writes[window] += number;
                    counts.atomics[window] += number;
                }
            }
            let accessed_by = match self.image.source(access.instruction) {
                Some(source) => format!("{function} at {source}"),
                None => function,
            };
            if is_write(access) {
                counts.writers.insert(access.cpu);
                *counts.written_by.entry(accessed_by).or_default() += count;
            } else {
                *counts.read_by.entry(accessed_by).or_default() += count;
            }
        }
    }

    /// What the first window needed of a line, all operations together.
    fn one_line(
        &self,
        (is_user, line): (bool, u64),
        accesses: &[&Access],
        transfers: Transfers,
    ) -> OneLine {
        let mut need = OneLine::default();
        let mut by_cpu: BTreeMap<u16, (f64, f64)> = BTreeMap::new();
        // Of functions that give a lock back: how long it was held, by their stores and by their atomics.
        let mut held: BTreeMap<String, [f64; 2]> = BTreeMap::new();
        for access in accesses.iter().filter(|access| is_operation(access) && access.window == 1) {
            let number = f64::from(access.count);
            let (all, written) = by_cpu.entry(access.cpu).or_default();
            *all += number;
            if !is_write(access) {
                need.reads += number;
                continue;
            }
            *written += number;
            need.writes += number;
            need.atomics += if access.how == How::Atomic { number } else { 0.0 };
            let part = self.part(is_user, line, access);
            need.wait = need.wait.max(wait(&part.types));
            let function = self.function(access);
            // A semaphore's owner is cleared before it is given back, and may be on another line than what takes it.
            let is_owner = part.names.first().is_some_and(|name| name.ends_with("owner"));
            let clears_owner = is_owner && access.how != How::Atomic;
            if releases_alone(&function) && !clears_owner {
                let by_how = held.entry(function).or_default();
                by_how[usize::from(access.how == How::Atomic)] += f64::from(access.since_atomic);
            }
        }
        need.held = held.values().fold(0.0, |sum, [store, atomic]| sum + store.max(*atomic));
        let met = met(&by_cpu);
        need.transfers = [met * f64::from(transfers.bursts).min(need.writes), met * need.writes];
        need
    }

    /// The member that an access is to.
    fn part(&self, is_user: bool, line: u64, access: &Access) -> Part {
        let first = access.bytes.trailing_zeros();
        let address = line + u64::from(first);
        let bytes = (64 - access.bytes.leading_zeros()) - first;
        let unnamed =
            |name: String| Part { names: vec![name], types: Vec::new(), offset: first, bytes };
        let place = self.image.place(is_user, address);
        let Some(start) = place.start() else {
            return unnamed(format!("{} at byte {first}", what(&place)));
        };
        let offset = address.wrapping_sub(start);
        if let Some(member) = self.image.member(&place, offset).filter(|_| is_user) {
            let from_line = (start.wrapping_add(member.start)).wrapping_sub(line) as i64;
            return Part {
                names: vec![what(&place) + &member.path],
                types: member.types,
                offset: from_line.max(0) as u32,
                bytes: member.bytes as u32,
            };
        }
        let candidates = self.known.get(&subject(&place)).cloned().unwrap_or_default();
        let members = candidates.structures.iter().filter_map(|t| {
            let namer = self.namer?;
            Some((namer.name_of(*t), namer.member_at(*t, offset)?))
        });
        let members: Vec<(&str, Member)> = members.collect();
        let Some((_, member)) = members.first() else {
            let name = what(&place);
            let lock = self.locks.get(&name).and_then(|locks| locks.get(&offset));
            let name = if offset == 0 { name } else { format!("{name}+{offset}") };
            return Part { types: lock.iter().map(ToString::to_string).collect(), ..unnamed(name) };
        };
        let owner = |structure: &str| match &place {
            Place::Variable { name, .. } | Place::PerCpu { name, .. } => name.clone(),
            _ => structure.to_string(),
        };
        let mut names: Vec<String> = members
            .iter()
            .map(|(name, member)| {
                let guess = if candidates.is_guess { "?" } else { "" };
                format!("{}.{}{guess}", owner(name), known_by(member))
            })
            .collect();
        names.dedup();
        let from_line = (start + member.start) as i64 - line as i64;
        Part {
            names,
            types: member.types.clone(),
            offset: from_line.max(0) as u32,
            bytes: member.bytes as u32,
        }
    }
}

/// A member by the name that people know: without what is inside a lock, a counter or an entry of a list.
fn known_by(member: &Member) -> String {
    const INSIDE: [&str; 11] = [
        "rlock", "raw_lock", "cnts", "val", "counter", "refs", "refcount", "next", "prev", "pprev",
        "first",
    ];
    let is_lockref = member.types.iter().any(|name| name == "lockref");
    let mut path = member.path.as_str();
    while let Some((outer, last)) = path.rsplit_once('.') {
        let is_of_lockref = is_lockref && ["lock", "count", "lock_count"].contains(&last);
        // `count.count`: a counter in a structure of that name.
        let is_twice = outer.rsplit('.').next() == Some(last);
        if !INSIDE.contains(&last) && !is_of_lockref && !is_twice {
            break;
        }
        path = outer;
    }
    path.to_string()
}

/// What shares a type: the objects of a cache, or each object where a cache holds anything.
fn subject(place: &Place) -> String {
    match place {
        Place::Object { cache, start, .. } if cache.starts_with("kmalloc") => {
            format!("{cache} {start:x}")
        }
        place => what(place),
    }
}

/// What a place is, without its type.
fn what(place: &Place) -> String {
    match place {
        Place::Variable { name, .. } => name.clone(),
        Place::PerCpu { name, .. } => format!("{name} (per CPU)"),
        Place::Object { cache, .. } => format!("object of {cache}"),
        Place::Page { .. } => "page".to_string(),
        Place::Content => "a page's content".to_string(),
        Place::Vmalloc => "vmalloc memory".to_string(),
        Place::User => "user memory".to_string(),
        Place::Mapping { name } => name.clone(),
        Place::Unknown => "memory".to_string(),
    }
}

/// Whether a function gives back a lock that only one can have.
fn releases_alone(function: &str) -> bool {
    const RELEASES: [&str; 5] =
        ["_raw_spin_unlock", "_raw_write_unlock", "mutex_unlock", "up_write", "downgrade_write"];
    RELEASES.iter().any(|release| function.starts_with(release))
}

/// How CPUs wait for a member of these types.
fn wait(types: &[String]) -> LockWait {
    const SLEEPS: [&str; 3] = ["rw_semaphore", "mutex", "percpu_rw_semaphore"];
    const SPINS: [&str; 6] =
        ["qspinlock", "raw_spinlock", "spinlock", "qrwlock", "rwlock", "rwlock_t"];
    let has = |names: &[&str]| types.iter().any(|name| names.contains(&name.as_str()));
    match () {
        () if has(&["lockref"]) => LockWait::FallsBack,
        () if has(&SLEEPS) => LockWait::Sleeps,
        () if has(&SPINS) => LockWait::Spins,
        () => LockWait::None,
    }
}

fn is_write(access: &Access) -> bool {
    access.how != How::Load
}

/// Whether an access belongs to a measured operation, or to an interrupt that another CPU sent meanwhile.
fn is_operation(access: &Access) -> bool {
    access.window > 0 && matches!(access.actor, Actor::Kernel | Actor::User | Actor::Ipi)
}

/// Whether two CPUs' operations use a line, and one of them writes it.
fn is_contended(accesses: &[&Access]) -> bool {
    let of_operations = || accesses.iter().filter(|access| is_operation(access));
    let cpus: BTreeSet<u16> = of_operations().map(|access| access.cpu).collect();
    cpus.len() > 1 && of_operations().any(|access| is_write(access))
}

/// Bytes that others use less often, for each write, are not shared: who clears memory has written it once.
const SELDOM: u64 = 100;

/// Writes of the operations to bytes that another CPU's operations use, and to bytes that none does.
fn shared_writes(accesses: &[&Access]) -> [u64; 2] {
    let of_operations = || accesses.iter().filter(|access| is_operation(access));
    let mut writes = [0, 0];
    for write in of_operations().filter(|access| is_write(access)) {
        let others = of_operations()
            .filter(|other| other.cpu != write.cpu && other.bytes & write.bytes != 0)
            .map(|other| u64::from(other.count));
        let is_shared = others.sum::<u64>() * SELDOM >= u64::from(write.count);
        writes[usize::from(!is_shared)] += u64::from(write.count);
    }
    writes
}

/// Names by how often, the most often first.
fn most(counts: BTreeMap<String, u64>) -> Vec<String> {
    let mut counts: Vec<(String, u64)> = counts.into_iter().collect();
    counts.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    counts.into_iter().take(FUNCTIONS_MAX).map(|(name, _)| name).collect()
}

fn conflict_line(key: &Key, row: Row, operations: Operations) -> ConflictLine {
    let per = |counts: [f64; 2]| counts[0] / operations[0];
    let each = |count: fn(&Transfers) -> u32, window: usize| {
        f64::from(count(&row.transfers[window])) / operations[window]
    };
    let mut parts: Vec<(Part, Counts)> = row.parts.into_iter().collect();
    parts.sort_by(|a, b| {
        b.1.writes[0].total_cmp(&a.1.writes[0]).then(b.1.reads[0].total_cmp(&a.1.reads[0]))
    });
    let total = |count: fn(&Counts) -> [f64; 2]| parts.iter().map(|(_, c)| per(count(c))).sum();
    let (reads, writes, atomics) = (total(|c| c.reads), total(|c| c.writes), total(|c| c.atomics));
    let (bursts, bursts_again) = (each(|t| t.bursts, 0), each(|t| t.bursts, 1));
    let (owned, copied) = (each(|t| t.owned, 0), each(|t| t.copied, 0));
    let transfers = if row.lines == 1 {
        let met = met(&row.by_cpu);
        [met * bursts.min(writes), met * writes]
    } else {
        [owned + copied; 2]
    };
    let kind = parts.first().map_or(LineKind::Data, |(part, _)| kind(part, reads, writes));
    let sharing =
        if row.shared_writes[0] >= row.shared_writes[1] { Sharing::True } else { Sharing::False };
    let member = member(&key.place, &parts, sharing);
    let whole = row.one_line;
    let one_line = OneLine {
        transfers: whole.transfers.map(|count| count / operations[0]),
        reads: whole.reads / operations[0],
        writes: whole.writes / operations[0],
        atomics: whole.atomics / operations[0],
        held: whole.held / operations[0],
        wait: whole.wait,
    };
    let members = parts.into_iter().map(|(part, counts)| ConflictMember {
        names: part.names,
        offset: part.offset,
        bytes: part.bytes,
        reads: per(counts.reads),
        writes: per(counts.writes),
        atomics: per(counts.atomics),
        writers: counts.writers.len() as u32,
        written_by: most(counts.written_by),
        read_by: most(counts.read_by),
    });
    ConflictLine {
        place: key.place.clone(),
        sharing,
        kind,
        member,
        transfers,
        owned,
        copied,
        bursts,
        reads,
        writes,
        atomics,
        bursts_again,
        is_steady: agree(bursts, bursts_again, operations[0]),
        lines: row.lines,
        one_line,
        is_placed_by_chance: row.is_placed_by_chance,
        members: members.collect(),
        background: most(row.background),
    }
}

/// The name of a row: the member that is written most; of false sharing, and of a member that other CPUs write about as
/// often, with the next one, from where their names differ.
fn member(place: &str, parts: &[(Part, Counts)], sharing: Sharing) -> String {
    let names: Vec<String> =
        parts.iter().take(2).map(|(part, _)| part.names.join(" or ")).collect();
    let are_two = match parts {
        [(_, first), (_, second), ..] => {
            2.0 * second.writes[0] >= first.writes[0] && first.writers != second.writers
        }
        _ => false,
    };
    let joined = match sharing {
        Sharing::False => Some("beside"),
        Sharing::True => are_two.then_some("and"),
    };
    match (&names[..], joined) {
        ([], _) => place.to_string(),
        ([first, second], Some(word)) if first != second => {
            let common = first.split_inclusive('.').zip(second.split_inclusive('.'));
            let common: usize = common.take_while(|(a, b)| a == b).map(|(a, _)| a.len()).sum();
            format!("{first} {word} {}", &second[common..])
        }
        ([first, ..], _) => first.clone(),
    }
}

/// The share of a line's writes that another CPU's access answers: 1 where all CPUs use it alike, little where one CPU
/// owns it and others look rarely.
fn met(by_cpu: &BTreeMap<u16, (f64, f64)>) -> f64 {
    let all: f64 = by_cpu.values().map(|(all, _)| all).sum();
    let written: f64 = by_cpu.values().map(|(_, written)| written).sum();
    let answered: f64 = by_cpu.values().map(|(own, written)| written.min(all - own)).sum();
    if written > 0.0 { answered / written } else { 0.0 }
}

/// Whether the counts of two windows agree: within 5 %, or two events.
fn agree(first: f64, second: f64, operations: f64) -> bool {
    (first - second).abs() <= (0.05 * first.max(second)).max(2.0 / operations)
}

/// What the member that is written most is, by the names of its types.
fn kind(part: &Part, reads: f64, writes: f64) -> LineKind {
    const LOCKS: [&str; 11] = [
        "qspinlock",
        "raw_spinlock",
        "spinlock",
        "qrwlock",
        "rwlock",
        "rwlock_t",
        "rw_semaphore",
        "mutex",
        "percpu_rw_semaphore",
        "seqcount",
        "optimistic_spin_queue",
    ];
    const COUNTS: [&str; 4] = ["refcount_struct", "kref", "lockref", "percpu_ref"];
    const LISTS: [&str; 5] = ["list_head", "hlist_node", "hlist_head", "llist_head", "llist_node"];
    const COUNTERS: [&str; 3] = ["percpu_counter", "atomic64_t", "atomic_t"];
    let has = |names: &[&str]| part.types.iter().any(|name| names.contains(&name.as_str()));
    let path = part.names.first().map(String::as_str).unwrap_or_default();
    let is_called_count = ["count", "ref", "usage", "users"].iter().any(|word| path.contains(word));
    // A static variable, such as rename_lock: a sequence count before a spin lock, which is a type without a name.
    let is_called_lock = part.types.is_empty() && path.ends_with("_lock");
    if is_called_lock || (has(&LOCKS) && !has(&["lockref"])) {
        LineKind::Lock
    } else if has(&COUNTS) || (has(&COUNTERS) && is_called_count) {
        LineKind::ReferenceCount
    } else if has(&LISTS) {
        LineKind::List
    } else if has(&COUNTERS) {
        LineKind::Counter
    } else if writes * 4.0 < reads && writes < 0.5 {
        LineKind::Flag
    } else {
        LineKind::Data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_the_names_that_people_know() {
        let check = |path: &str, types: &[&str], expected: &str| {
            let types = types.iter().map(ToString::to_string).collect();
            let member = Member { path: path.to_string(), types, start: 0, bytes: 4 };
            assert_eq!(known_by(&member), expected);
        };
        check("label.count.count.refcount.refs.counter", &["kref"], "label.count");
        check("s_inode_list_lock.rlock.raw_lock.val.counter", &["spinlock"], "s_inode_list_lock");
        check("j_state_lock.raw_lock.cnts.counter", &["rwlock_t"], "j_state_lock");
        check("d_lockref.count", &["lockref", "int"], "d_lockref");
        check("i_sb_list.next", &["list_head"], "i_sb_list");
        check("i_count.counter", &["atomic_t"], "i_count");
        check("nr_running", &["unsigned int"], "nr_running");
    }

    #[test]
    fn a_static_variable_is_a_lock_by_its_name() {
        let check = |name: &str, types: &[&str], expected: LineKind| {
            let types = types.iter().map(ToString::to_string).collect();
            let part = Part { names: vec![name.to_string()], types, offset: 0, bytes: 4 };
            assert_eq!(kind(&part, 1.0, 1.0), expected, "{name}");
        };
        check("rename_lock", &[], LineKind::Lock);
        check("rename_lock+4", &["spinlock"], LineKind::Lock);
        check("inode.i_lock", &["unsigned int"], LineKind::Data);
        check("jiffies", &[], LineKind::Data);
    }

    #[test]
    fn a_line_that_one_cpu_owns_is_hardly_met() {
        let by_cpu = |counts: [(f64, f64); 2]| BTreeMap::from([(0, counts[0]), (1, counts[1])]);
        assert_eq!(met(&by_cpu([(6.0, 6.0), (6.0, 6.0)])), 1.0);
        assert_eq!(met(&by_cpu([(100.0, 100.0), (1.0, 0.0)])), 0.01);
        assert_eq!(met(&by_cpu([(1.0, 0.0), (1.0, 0.0)])), 0.0);
    }
}
