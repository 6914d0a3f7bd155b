//! The programs and maps of loaded BPF code by their names, and what per-CPU values hold.

use libbpf_rs::{MapCore, MapImpl, Object};

pub fn program<'a>(object: &'a Object, name: &str) -> Result<libbpf_rs::ProgramMut<'a>, String> {
    let found = object.progs_mut().find(|program| program.name() == name);
    found.ok_or_else(|| format!("internal error: no BPF program {name}"))
}

pub fn map<'a>(object: &'a Object, name: &str) -> Result<MapImpl<'a>, String> {
    let found = object.maps().find(|map| map.name() == name);
    found.ok_or_else(|| format!("internal error: no BPF map {name}"))
}

/// The 64-bit word at a place of a value.
pub fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}
