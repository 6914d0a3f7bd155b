//! Members of the kernel's structures by offset, from its own types (BTF): which lock lies at an
//! offset of an object.

use libbpf_rs::HasSize;
use libbpf_rs::btf::types::{Composite, MemberAttr, Struct};
use libbpf_rs::btf::{Btf, BtfKind, BtfType, TypeId};

/// Types that are waited for.
const LOCKS: &[&str] = &[
    "arch_rwlock_t",
    "mutex",
    "percpu_rw_semaphore",
    "qrwlock",
    "qspinlock",
    "raw_spinlock",
    "rt_mutex",
    "rw_semaphore",
    "rwlock_t",
    "spinlock",
];

/// Structures of `size` bytes that have a lock at `offset`, each with the path to it.
pub fn locks_at(kernel: &Btf, size: u64, offset: u64) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for structure in kernel.type_by_kind::<Struct>() {
        if structure.size() as u64 != size {
            continue;
        }
        let Some(name) = structure.name().map(|name| name.to_string_lossy().into_owned()) else {
            continue;
        };
        if let Some(path) = path(kernel, structure.type_id(), offset, 0) {
            found.push((name, path));
        }
    }
    found.sort();
    found.dedup();
    found
}

/// "mmap_lock.wait_lock" of a structure, if a lock begins at `offset`.
fn path(kernel: &Btf, of: TypeId, offset: u64, depth: usize) -> Option<String> {
    /// Deeper than any structure of the kernel.
    const DEPTH_MAX: usize = 12;
    let of: BtfType = kernel.type_by_id(of)?;
    let composite = Composite::try_from(of.skip_mods_and_typedefs()).ok()?;
    if depth > DEPTH_MAX || offset >= composite.size() as u64 {
        return None;
    }
    composite.iter().find_map(|member| {
        let MemberAttr::Normal { offset: bits } = member.attr else { return None };
        let inner = offset.checked_sub(u64::from(bits) / 8)?;
        let kind: BtfType = kernel.type_by_id(member.ty)?;
        let name = member.name.map(|name| name.to_string_lossy()).unwrap_or_default();
        if inner == 0 && is_lock(&kind) {
            return Some(name.into_owned());
        }
        let below = path(kernel, member.ty, inner, depth + 1)?;
        Some(match name.is_empty() {
            true => below,
            false => format!("{name}.{below}"),
        })
    })
}

fn is_lock(kind: &BtfType) -> bool {
    let named =
        |kind: &BtfType| kind.name().is_some_and(|name| LOCKS.iter().any(|lock| name == *lock));
    let inner = kind.skip_mods_and_typedefs();
    named(kind) || (matches!(inner.kind(), BtfKind::Struct) && named(&inner))
}
