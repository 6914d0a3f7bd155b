//! BTF made by hand, hostile BTF, and that of this host.

use fuzz::{Fuzzer, fuzz};

use super::*;

/// Builds BTF.
#[derive(Default)]
struct BtfBuilder {
    types: Vec<u8>,
    names: Vec<u8>,
    /// The bytes of names that a module's follow.
    names_before: u32,
}

impl BtfBuilder {
    fn name(&mut self, name: &str) -> u32 {
        let offset = self.names_before + self.names.len() as u32;
        self.names.extend(name.as_bytes());
        self.names.push(0);
        offset
    }

    fn add(&mut self, name: &str, kind: u32, size_or_type: u32, members: &[(&str, u32, u32)]) {
        let name = self.name(name);
        let mut words = vec![name, kind << 24 | members.len() as u32, size_or_type];
        for (name, number, bits) in members {
            words.extend([self.name(name), *number, *bits]);
        }
        self.types.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
    }

    fn bytes(self) -> Vec<u8> {
        let lengths = [self.types.len() as u32, self.names.len() as u32];
        let header = [24, 0, lengths[0], lengths[0], lengths[1]];
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        bytes.extend(header.iter().flat_map(|word: &u32| word.to_ne_bytes()));
        bytes.extend(self.types);
        bytes.extend(self.names);
        bytes
    }
}

/// A lock behind a typedef, in an unnamed union, in a structure, in another structure.
fn nested_lock() -> Vec<u8> {
    let mut btf = BtfBuilder::default();
    btf.add("", STRUCT, 0, &[]);
    btf.add("raw_spinlock", STRUCT, 4, &[]);
    btf.add("spinlock_t", TYPEDEF, 2, &[]);
    btf.add("", UNION, 8, &[("rlock", 3, 0), ("padding", 0, 0)]);
    btf.add("", VOLATILE, 4, &[]);
    btf.add("inner", STRUCT, 16, &[("first", 1, 0), ("", 5, 64)]);
    btf.add("outer", STRUCT, 64, &[("number", 0, 0), ("part", 6, 128), ("part2", 6, 256)]);
    btf.bytes()
}

#[test]
fn a_lock_is_found_by_the_path_to_it() {
    let types = KernelTypes::parse(nested_lock()).unwrap();
    let path = |path: &str| vec![("outer".to_string(), path.to_string())];
    assert_eq!(types.locks_at(64, 24), path("part.rlock"));
    assert_eq!(types.locks_at(64, 40), path("part2.rlock"));
    assert_eq!(types.locks_at(64, 28), []);
    assert_eq!(types.locks_at(63, 24), []);
}

#[test]
fn circles_and_structures_within_themselves_end() {
    let mut btf = BtfBuilder::default();
    btf.add("round", TYPEDEF, 2, &[]);
    btf.add("and_round", TYPEDEF, 1, &[]);
    let members = [("a", 3, 0), ("b", 3, 0)].repeat(100);
    btf.add("in_itself", STRUCT, 8, &[members, vec![("c", 1, 0)]].concat());
    let types = KernelTypes::parse(btf.bytes()).unwrap();
    assert_eq!(types.locks_at(8, 0), []);
}

#[test]
fn what_is_no_btf_of_this_byte_order_is_refused() {
    let refused = |bytes: &[u8]| KernelTypes::parse(bytes.to_vec()).unwrap_err();
    assert_eq!(refused(b""), "it is not BTF");
    assert_eq!(refused(&MAGIC.to_be_bytes()), "it has the other byte order");
    let good = nested_lock();
    assert!((0..good.len()).all(|cut| KernelTypes::parse(good[..cut].to_vec()).is_err()));
}

/// Types of a module for a kernel with the types of `nested_lock` and this many bytes of names: a structure of this name
/// and size with the kernel's `inner` in it, and a function that returns it.
fn module(name: &str, bytes: u32, names_before: u32) -> Vec<u8> {
    const POINTER: u32 = 2;
    const FUNCTION: u32 = 12;
    const PROTOTYPE: u32 = 13;
    let mut btf = BtfBuilder { names_before, ..BtfBuilder::default() };
    btf.add(name, STRUCT, bytes, &[("part", 6, 64), ("next", 9, 192)]);
    btf.add("", POINTER, 8, &[]);
    btf.add("", PROTOTYPE, 9, &[]);
    btf.add(&format!("{name}_get"), FUNCTION, 10, &[]);
    btf.bytes()
}

#[test]
fn types_of_modules_continue_the_kernels() {
    let mut types = KernelTypes::parse(nested_lock()).unwrap();
    let names = types.names.len() as u32;
    for (name, bytes) in [("xlog", 32), ("jbd2", 48)] {
        assert!(!types.has_module(name));
        types.add_module(name, &module(name, bytes, names)).unwrap();
        assert!(types.has_module(name));
    }
    for (name, bytes) in [("xlog", 32), ("jbd2", 48)] {
        let structure = types.structures(name)[0];
        assert_eq!(types.bytes_of(structure), bytes);
        let member = types.member_at(structure, 24).unwrap();
        assert_eq!((member.path.as_str(), member.bytes), ("next", 8));
        let of_function = &types.structures_of_functions()[format!("{name}_get").as_str()];
        assert_eq!(of_function.iter().collect::<Vec<_>>(), [&structure]);
        assert_eq!(types.locks_at(bytes, 16), [(name.to_string(), "part.rlock".to_string())]);
    }
}

#[test]
fn types_of_a_module_for_another_kernel_are_refused() {
    let mut types = KernelTypes::parse(nested_lock()).unwrap();
    let names = types.names.len() as u32;
    let good = module("xlog", 32, names);
    assert!((0..good.len()).all(|cut| types.add_module("xlog", &good[..cut]).is_err()));
    let why = types.add_module("xlog", &module("xlog", 32, names - 2)).unwrap_err();
    assert_eq!(why, "its names are not this kernel's");
    let mut fewer = BtfBuilder { names_before: names, ..BtfBuilder::default() };
    fewer.add("far", TYPEDEF, 9, &[]);
    let why = types.add_module("xlog", &fewer.bytes()).unwrap_err();
    assert_eq!(why, "its types refer to others that the kernel does not have");
    assert!(types.structures("xlog").is_empty());
    assert!(!types.has_module("xlog"));
}

#[test]
fn this_kernels_types_have_locks_where_they_are_known_to_be() {
    let Some(types) = KernelTypes::from_kernel() else { return };
    let structures = (1..types.types.len() as u32).filter_map(|number| types.get(number));
    let is_mm = |entry: &TypeEntry| entry.kind() == STRUCT && types.name(entry.name) == "mm_struct";
    let mm = structures.into_iter().find(is_mm).expect("every kernel has address spaces");
    let size = u64::from(mm.size_or_type);
    let paths = (0..size).flat_map(|offset| types.locks_at(size, offset));
    assert!(paths.into_iter().any(|path| path == ("mm_struct".into(), "mmap_lock".into())));
}

#[test]
fn fuzzed_types_are_refused_or_searched() {
    let example = nested_lock();
    let names = KernelTypes::parse(nested_lock()).unwrap().names.len() as u32;
    fuzz(10_000, "cargo test -p perf_data fuzzed", |fuzzer| {
        let mut input = example.clone();
        for _ in 0..=fuzzer.below(4) {
            damage(&mut input, fuzzer);
        }
        match KernelTypes::parse(input) {
            Ok(mut types) => {
                let mut module = module("xlog", 64, names);
                damage(&mut module, fuzzer);
                let _ = types.add_module("xlog", &module);
                types.locks_at(64, 24);
                types.locks_at(16, 8);
                Ok(())
            }
            Err(why) if why.is_empty() => Err("refused without a reason".to_string()),
            Err(_) => Ok(()),
        }
    });
}

/// Writes a number where numbers lie, copies a type over another, or cuts.
fn damage(input: &mut Vec<u8>, fuzzer: &mut Fuzzer) {
    if input.len() < 16 {
        return;
    }
    let offset = fuzzer.below(input.len() / 4 - 3) * 4;
    let numbers = [0, 1, 2, 3, 6, 7, 24, 64, 0xffff, 0x0400_0002, 0x8400_0003, 1 << 31, u32::MAX];
    match fuzzer.below(6) {
        0 => input.truncate(fuzzer.below(input.len())),
        1 => {
            let from = fuzzer.below(input.len() / 4 - 3) * 4;
            input.copy_within(from..from + 12, offset);
        }
        _ => input[offset..offset + 4].copy_from_slice(&fuzzer.pick(&numbers).to_ne_bytes()),
    }
}
