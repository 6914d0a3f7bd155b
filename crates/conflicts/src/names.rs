//! The types of objects, from what the kernel says of itself: a cache holds objects of one size, functions take
//! pointers to structures, members begin at offsets.
//!
//! A cache that is called like a structure of its size holds that. Else the functions which access an object are asked
//! what they take, and where none takes anything that fits, the functions near by: that is a guess, and marked as one,
//! since a function may follow a pointer to something else. Objects that a module without types uses may be of types that
//! are not known here: only a cache's own name names them.

use std::collections::{BTreeMap, BTreeSet};

use perf_data::{KernelTypes, Member, Structure, Symbols, is_called_like};

/// Types by evidence.
pub struct Namer<'a> {
    types: &'a KernelTypes,
    /// The structures that each function takes or returns pointers to.
    functions: BTreeMap<&'a str, BTreeSet<Structure>>,
    variables: BTreeMap<&'a str, Structure>,
    by_size: BTreeMap<u64, Vec<Structure>>,
    /// The functions by address.
    addresses: BTreeMap<u64, String>,
    /// How many functions take each structure.
    takers: BTreeMap<&'a str, f64>,
}

/// Accesses to the objects whose type is asked for.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The functions that accessed them, with their addresses.
    pub functions: BTreeMap<String, u64>,
    /// The offsets at which accesses began, each with how often.
    pub offsets: BTreeMap<u64, u64>,
    /// The offsets of atomic accesses.
    pub atomic: BTreeSet<u64>,
    /// The offsets that functions of a lock write, with the part of the type's name that must be there.
    pub locks: BTreeMap<u64, &'static str>,
    /// Whether functions accessed them that use types which are not known: of a module without BTF.
    pub has_unknown_types: bool,
}

/// What an object may be.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    /// The most likely first, one if the evidence decides.
    pub structures: Vec<Structure>,
    /// Whether only functions speak for them.
    pub is_guess: bool,
}

impl From<Vec<Structure>> for Candidates {
    fn from(structures: Vec<Structure>) -> Candidates {
        Candidates { structures, is_guess: false }
    }
}

/// As many candidates are named.
const CANDIDATES_MAX: usize = 3;

/// Evidence decides if it is this many times that of the next structure.
const DECIDES: f64 = 1.5;

/// What a function that takes a structure says of it, against one that takes a part.
const DIRECT: f64 = 3.0;

/// How far away, in bytes of code, functions are neighbours: about one directory of the kernel's source.
const NEAR: u64 = 32 << 10;

/// The least that neighbours must say of a structure: about this many functions take it, and few elsewhere do.
const SPECIFIC: f64 = 1.0;

/// Structures inside so many others that a function which takes one says nothing.
const COMMON: [&str; 20] = [
    "raw_spinlock",
    "spinlock",
    "qspinlock",
    "qrwlock",
    "mutex",
    "rw_semaphore",
    "list_head",
    "hlist_head",
    "hlist_node",
    "llist_node",
    "rb_node",
    "rb_root",
    "kref",
    "refcount_struct",
    "callback_head",
    "work_struct",
    "timer_list",
    "wait_queue_head",
    "percpu_counter",
    "xarray",
];

/// What must lie where the functions of a lock write.
const LOCK_FUNCTIONS: [(&str, &str); 8] = [
    ("_raw_spin_", "spinlock"),
    ("native_queued_spin_lock", "spinlock"),
    ("_raw_read_", "rwlock"),
    ("_raw_write_", "rwlock"),
    ("mutex_", "mutex"),
    ("down_read", "rw_semaphore"),
    ("down_write", "rw_semaphore"),
    ("up_read", "rw_semaphore"),
];

/// The part of a type's name that must be where a function of a lock writes.
pub fn lock_of(function: &str) -> Option<&'static str> {
    LOCK_FUNCTIONS.iter().find(|(name, _)| function.starts_with(name)).map(|(_, part)| *part)
}

/// A structure fits if at least this share of the accesses is to its members, and not between them.
const FITS: f64 = 0.9;

impl<'a> Namer<'a> {
    pub fn new(types: &'a KernelTypes, symbols: &Symbols) -> Namer<'a> {
        let mut by_size: BTreeMap<u64, Vec<Structure>> = BTreeMap::new();
        for structure in types.all_structures() {
            by_size.entry(types.bytes_of(structure)).or_default().push(structure);
        }
        let functions = types.structures_of_functions();
        let mut takers: BTreeMap<&str, f64> = BTreeMap::new();
        for structure in functions.values().flatten() {
            *takers.entry(types.name_of(*structure)).or_default() += 1.0;
        }
        Namer {
            types,
            functions,
            addresses: symbols.functions().map(|(at, _, name)| (at, name.to_string())).collect(),
            takers,
            variables: types.structures_of_variables(),
            by_size,
        }
    }

    pub fn types(&self) -> &'a KernelTypes {
        self.types
    }

    pub fn name_of(&self, structure: Structure) -> &'a str {
        self.types.name_of(structure)
    }

    pub fn member_at(&self, structure: Structure, offset: u64) -> Option<Member> {
        self.types.member_at(structure, offset)
    }

    /// The structure of that name.
    pub fn structure(&self, name: &str) -> Option<Structure> {
        self.types.structures(name).first().copied()
    }

    /// What the objects of a cache are.
    pub fn of_cache(&self, cache: &str, object_bytes: u64, evidence: &Evidence) -> Candidates {
        let is_kmalloc = kmalloc_bytes(cache).is_some();
        if is_kmalloc && evidence.has_unknown_types {
            return Candidates::default();
        }
        if let Some(bucket) = kmalloc_bytes(cache) {
            let below = kmalloc_below(bucket);
            let fitting =
                self.by_size.range(1..=bucket).rev().flat_map(|(_, all)| all.iter().copied());
            let fitting = fitting.filter(|s| {
                self.types.bytes_of(*s) > below || self.types.ends_in_flexible_array(*s)
            });
            return self.decide(fitting, evidence);
        }
        // Tasks are shorter than their structure: not all registers exist everywhere.
        let mut same_name = self.types.structures(cache).into_iter();
        if let Some(same) = same_name.next_back() {
            return vec![same].into();
        }
        let same_size = self.by_size.get(&object_bytes).cloned().unwrap_or_default();
        let alike: Vec<Structure> =
            same_size.iter().copied().filter(|s| is_called_like(cache, self.name_of(*s))).collect();
        if !alike.is_empty() {
            return self.named_once(alike).into();
        }
        if evidence.has_unknown_types {
            return Candidates::default();
        }
        // Such as `ext4_group_info`, with a counter for each order of blocks.
        let shorter = self.by_size.range(1..object_bytes).flat_map(|(_, all)| all.iter().copied());
        let flexible = shorter.filter(|s| self.types.ends_in_flexible_array(*s));
        self.decide(same_size.into_iter().chain(flexible), evidence)
    }

    /// What a variable is, where the kernel says so: of per-CPU variables.
    pub fn of_variable(&self, name: &str) -> Candidates {
        self.variables.get(name).map_or_else(Candidates::default, |known| vec![*known].into())
    }

    /// What a variable of this many bytes is, with what is behind it, by the functions that access it; nothing unless they
    /// decide, since most variables are no structures.
    pub fn of_static_variable(&self, bytes: u64, evidence: &Evidence) -> Candidates {
        /// The most that linkers leave unused behind a variable.
        const UNUSED_MAX: u64 = 63;
        if evidence.has_unknown_types {
            return Candidates::default();
        }
        let sizes = self.by_size.range(bytes.saturating_sub(UNUSED_MAX).max(1)..=bytes);
        let fitting = sizes.flat_map(|(_, all)| all.iter().copied());
        let fitting: Vec<Structure> = fitting.filter(|s| self.fits(*s, evidence)).collect();
        let ranked = self.by_functions(&fitting, evidence, true);
        let decided = ranked.into_iter().take_while(|(score, _)| *score >= DIRECT);
        match &decided.collect::<Vec<_>>()[..] {
            [(_, one)] => Candidates { structures: vec![*one], is_guess: true },
            _ => Candidates::default(),
        }
    }

    /// The structures that the functions speak for, or, where none takes any, those around them. Those come first in which
    /// atomic instructions change what is declared as atomic, and not any number.
    fn decide(&self, fitting: impl Iterator<Item = Structure>, evidence: &Evidence) -> Candidates {
        let fitting: Vec<Structure> = fitting.filter(|s| self.fits(*s, evidence)).collect();
        let declared = |s: &Structure| self.all_atomics_are(*s, evidence, is_declared_atomic);
        let strict: Vec<Structure> = fitting.iter().copied().filter(declared).collect();
        let ranked = [&strict, &fitting].into_iter().find_map(|structures| {
            let by_functions = self.by_functions(structures, evidence, false);
            let is_known = !by_functions.is_empty();
            let ranked =
                if is_known { by_functions } else { self.by_neighbours(structures, evidence) };
            (!ranked.is_empty()).then_some(ranked)
        });
        let ranked = ranked.unwrap_or_default();
        // Functions of locks say nothing of what holds the lock; that it is there leaves few structures.
        if ranked.is_empty() && !evidence.locks.is_empty() {
            let named = self.named_once(strict);
            let structures = if named.len() == 1 { named } else { Vec::new() };
            return Candidates { structures, is_guess: true };
        }
        let decides = match ranked[..] {
            [] => false,
            [_] => true,
            [(first, _), (second, _), ..] => first >= DECIDES * second,
        };
        let kept = if decides { 1 } else { CANDIDATES_MAX };
        let structures = ranked.into_iter().take(kept).map(|(_, structure)| structure).collect();
        Candidates { structures, is_guess: true }
    }

    /// Structures that the functions take, or that contain one; each weighs by how few structures it could mean. Common ones
    /// count where they may be all of it.
    fn by_functions(
        &self,
        fitting: &[Structure],
        evidence: &Evidence,
        may_be_common: bool,
    ) -> Vec<(f64, Structure)> {
        let functions = evidence.functions.keys().filter_map(|f| self.functions.get(plain(f)));
        let asked: Vec<&BTreeSet<Structure>> = functions.collect();
        let wanted: BTreeSet<&str> =
            asked.iter().flat_map(|all| all.iter()).map(|s| self.name_of(*s)).collect();
        let (common, wanted): (BTreeSet<&str>, BTreeSet<&str>) =
            wanted.into_iter().partition(|name| COMMON.contains(name));
        let with_own = |structure: Structure| {
            let mut within = self.within(structure, &wanted);
            let own = self.name_of(structure);
            within.extend((may_be_common && common.contains(own)).then_some(own));
            within
        };
        let fitting: Vec<(Structure, BTreeSet<&str>)> = fitting
            .iter()
            .map(|structure| (*structure, with_own(*structure)))
            .filter(|(_, within)| !within.is_empty())
            .collect();
        let holders =
            |name: &str| fitting.iter().filter(|(_, within)| within.contains(name)).count();
        let weights: BTreeMap<&str, f64> = wanted
            .iter()
            .chain(&common)
            .map(|name| (*name, 1.0 / holders(name).max(1) as f64))
            .collect();
        ranked(fitting.iter().map(|(structure, within)| {
            let own = self.name_of(*structure);
            let score = asked.iter().map(|all| {
                let names = all.iter().map(|s| self.name_of(*s)).filter(|n| within.contains(n));
                // What takes the structure itself says more than what takes a part of it.
                let weighed = names.filter_map(|name| {
                    let factor = if name == own { DIRECT } else { 1.0 };
                    weights.get(name).map(|weight| factor * weight)
                });
                weighed.fold(0.0, f64::max)
            });
            (self.name_of(*structure), score.sum(), *structure)
        }))
    }

    /// Structures that functions near by take: those of one source file, and of one part of the kernel, lie together.
    /// What only they take weighs most.
    fn by_neighbours(&self, fitting: &[Structure], evidence: &Evidence) -> Vec<(f64, Structure)> {
        let near: BTreeSet<&str> = evidence
            .functions
            .values()
            .flat_map(|at| self.addresses.range(at.saturating_sub(NEAR)..at.saturating_add(NEAR)))
            .map(|(_, name)| name.as_str())
            .collect();
        let mut takers: BTreeMap<&str, f64> = BTreeMap::new();
        for function in near.iter().filter_map(|name| self.functions.get(plain(name))) {
            for structure in function {
                *takers.entry(self.name_of(*structure)).or_default() += 1.0;
            }
        }
        let specific = |name: &str| {
            let near = takers.get(name).copied().unwrap_or(0.0);
            near * near / self.takers.get(name).copied().unwrap_or(1.0).max(1.0)
        };
        let scored = fitting.iter().map(|structure| {
            let name = self.name_of(*structure);
            let members =
                evidence.offsets.keys().filter_map(|at| self.types.member_at(*structure, *at));
            let around: BTreeSet<String> = members.flat_map(|member| member.types).collect();
            let inside = around.iter().map(|name| specific(name)).fold(0.0, f64::max);
            (name, specific(name) + inside, *structure)
        });
        ranked(scored.filter(|(_, score, _)| *score >= SPECIFIC))
    }

    /// Which of the wanted structures a structure is, or contains.
    fn within<'n>(&self, structure: Structure, wanted: &BTreeSet<&'n str>) -> BTreeSet<&'n str> {
        let inside = self.types.structures_inside(structure);
        let names: BTreeSet<&str> =
            inside.iter().map(|s| self.name_of(*s)).chain([self.name_of(structure)]).collect();
        wanted.iter().copied().filter(|name| names.contains(name)).collect()
    }

    /// Whether accesses begin where members do, and atomic ones where a number is that atomic instructions change.
    fn fits(&self, structure: Structure, evidence: &Evidence) -> bool {
        let all: u64 = evidence.offsets.values().sum();
        let bytes = self.types.bytes_of(structure);
        let at_members = evidence.offsets.iter().filter(|(offset, _)| {
            // Behind it, a flexible array may follow. A bit of a word is tested by its byte.
            **offset >= bytes
                || self
                    .types
                    .member_at(structure, **offset)
                    .is_some_and(|member| member.start == **offset || member.bytes <= 8)
        });
        let fitting: u64 = at_members.map(|(_, count)| count).sum();
        let lock = |(offset, part): (&u64, &&str)| {
            let member = self.types.member_at(structure, *offset);
            member.is_some_and(|m| m.types.iter().any(|name| name.contains(*part)))
        };
        fitting as f64 >= FITS * all as f64
            && self.all_atomics_are(structure, evidence, is_atomic)
            && evidence.locks.iter().all(lock)
    }

    /// Whether all atomic accesses are to members with a type of such a name.
    fn all_atomics_are(
        &self,
        structure: Structure,
        evidence: &Evidence,
        is_it: fn(&str) -> bool,
    ) -> bool {
        let bytes = self.types.bytes_of(structure);
        evidence.atomic.iter().all(|offset| {
            let member = self.types.member_at(structure, *offset);
            *offset < bytes && member.is_some_and(|m| m.types.iter().any(|name| is_it(name)))
        })
    }

    /// Files may define one structure each: those of one name are one.
    fn named_once(&self, structures: Vec<Structure>) -> Vec<Structure> {
        let names: BTreeMap<&str, Structure> =
            structures.iter().map(|structure| (self.name_of(*structure), *structure)).collect();
        names.into_values().take(CANDIDATES_MAX).collect()
    }
}

/// Structures by score, the best first; those of one name are one.
fn ranked<'n>(scored: impl Iterator<Item = (&'n str, f64, Structure)>) -> Vec<(f64, Structure)> {
    let by_name: BTreeMap<&str, (f64, Structure)> =
        scored.map(|(name, score, structure)| (name, (score, structure))).collect();
    let mut ranked: Vec<(f64, Structure)> = by_name.into_values().collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    ranked
}

/// Whether a type is there to be changed by atomic instructions. Words of flags are plain numbers.
fn is_declared_atomic(name: &str) -> bool {
    ["atomic", "refcount", "lockref", "spinlock", "rwlock", "long unsigned int", "unsigned long"]
        .iter()
        .any(|part| name.contains(part))
}

/// Whether the kernel changes such a type by atomic instructions: also numbers that it exchanges.
fn is_atomic(name: &str) -> bool {
    is_declared_atomic(name)
        || ["unsigned int", "u32", "u64"].iter().any(|part| name.contains(part))
}

/// A function without what compilers add: `fput.part.0`.
fn plain(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

/// The size of the objects of a kmalloc cache: `kmalloc-cg-192`, `kmalloc-1k`.
fn kmalloc_bytes(cache: &str) -> Option<u64> {
    let size = cache.strip_prefix("kmalloc-")?.rsplit('-').next()?;
    match size.strip_suffix('k') {
        Some(kib) => kib.parse::<u64>().ok().map(|kib| kib << 10),
        None => size.parse().ok(),
    }
}

/// The next smaller kmalloc cache's size (mm/slab_common.c: powers of two, 96 and 192).
fn kmalloc_below(bytes: u64) -> u64 {
    match bytes {
        128 => 96,
        96 => 64,
        256 => 192,
        192 => 128,
        other => other / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types of a kernel in which one function returns a `percpu_counter` of 40 bytes, and another one nothing.
    fn types() -> KernelTypes {
        let mut names = vec![0];
        let mut name = |name: &str| {
            let at = names.len() as u32;
            names.extend(name.bytes().chain([0]));
            at
        };
        let [integer, pointer, structure, typedef, function, prototype] =
            [1, 2, 4, 8, 12, 13].map(|kind| kind << 24);
        let words = [
            &[name("long"), integer, 8, 64][..],
            &[name("percpu_counter"), structure | 2, 40, name("lock"), 1, 0, name("count"), 1, 64],
            &[name("other"), structure | 1, 40, name("first"), 1, 0],
            &[0, pointer, 2],
            &[0, prototype, 4],
            &[name("percpu_counter_add_batch"), function, 5],
            &[name("spinlock_t"), typedef, 1],
            &[name("blockgroup_lock"), structure | 1, 48, name("lock"), 7, 0],
        ];
        let types: Vec<u8> = words.concat().iter().flat_map(|word| word.to_ne_bytes()).collect();
        let lengths = [24, 0, types.len() as u32, types.len() as u32, names.len() as u32];
        let header: Vec<u8> = lengths.iter().flat_map(|word| word.to_ne_bytes()).collect();
        let start = [&0xeb9f_u16.to_ne_bytes()[..], &[1, 0]].concat();
        KernelTypes::parse([start, header, types, names].concat()).unwrap()
    }

    #[test]
    fn a_static_variable_is_what_its_functions_take() {
        let types = types();
        let symbols = Symbols::from_text("ffffffff81000000 t percpu_counter_add_batch\n").unwrap();
        let namer = Namer::new(&types, &symbols);
        let check = |bytes: u64, offset: u64, function: &str, expected: &[&str]| {
            let evidence = Evidence {
                functions: BTreeMap::from([(function.to_string(), 0xffff_ffff_8100_0000)]),
                offsets: BTreeMap::from([(offset, 10)]),
                ..Evidence::default()
            };
            let found = namer.of_static_variable(bytes, &evidence);
            let names: Vec<&str> = found.structures.iter().map(|s| namer.name_of(*s)).collect();
            assert_eq!(names, expected, "{bytes} {offset} {function}");
            assert!(names.is_empty() || found.is_guess);
        };
        check(40, 8, "percpu_counter_add_batch", &["percpu_counter"]);
        check(64, 8, "percpu_counter_add_batch", &["percpu_counter"]);
        // Too short, too long, where no member is, and by a function that takes nothing.
        check(32, 8, "percpu_counter_add_batch", &[]);
        check(4096, 8, "percpu_counter_add_batch", &[]);
        check(40, 20, "percpu_counter_add_batch", &[]);
        check(40, 8, "get_max_files", &[]);
    }

    #[test]
    fn an_object_of_which_only_the_lock_is_used_is_what_has_it_there() {
        let types = types();
        let symbols = Symbols::from_text("ffffffff81000000 t _raw_spin_lock\n").unwrap();
        let namer = Namer::new(&types, &symbols);
        let names = |locks: &[(u64, &'static str)]| -> Vec<&str> {
            let evidence = Evidence {
                offsets: BTreeMap::from([(0, 10)]),
                locks: locks.iter().copied().collect(),
                ..Evidence::default()
            };
            let found = namer.of_cache("kmalloc-64", 64, &evidence);
            found.structures.iter().map(|structure| namer.name_of(*structure)).collect()
        };
        assert_eq!(names(&[(0, "spinlock")]), ["blockgroup_lock"]);
        assert!(names(&[(8, "spinlock")]).is_empty());
        assert!(names(&[]).is_empty());
    }

    #[test]
    fn kmalloc_caches_have_sizes() {
        assert_eq!(kmalloc_bytes("kmalloc-1k"), Some(1024));
        assert_eq!(kmalloc_bytes("kmalloc-cg-192"), Some(192));
        assert_eq!(kmalloc_bytes("kmalloc-rnd-03-64"), Some(64));
        assert_eq!(kmalloc_bytes("dentry"), None);
        assert_eq!(kmalloc_below(256), 192);
    }
}
