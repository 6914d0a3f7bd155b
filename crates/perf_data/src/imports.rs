//! The functions of other libraries that a program calls, by the calls (x86-64).
//!
//!     use_slot:       call sem_wait@plt      E8 displacement, or FF 15 slot with -fno-plt
//!     sem_wait@plt:   jmp *slot              FF 25, behind ENDBR64 or BND where the linker puts them
//!     .rela.plt:      slot ─ sem_wait
//!
//! A function that ends with a jump is in no stack, and what it jumps to may have no name: the caller's call names it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use object::{
    Architecture, Object, ObjectSegment, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
};

use crate::caught;
use crate::elf::{Elf, Question, SYMBOLS_MAX, address_of, with};

/// The function of another library that each call of a file goes to; `None` if it is no such call. A place is the offset in the
/// file of the last byte of a call.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn called(path: &Path, places: &[u64]) -> Result<Vec<Option<String>>> {
    let question = Question { build_id: &[], trusted: true, offsets: &[], debug: None };
    caught("ELF", || {
        with(path, &question, |elf| {
            if elf.architecture() != Architecture::X86_64 {
                return Ok(vec![None; places.len()]);
            }
            let slots = slots(elf);
            let name = |place: &u64| slots.get(&slot_of(elf, address_of(elf, *place)?)?).cloned();
            Ok(places.iter().map(name).collect())
        })
    })
}

/// The functions of other libraries, by the addresses of the slots that the dynamic linker fills with theirs.
fn slots(elf: &Elf) -> BTreeMap<u64, String> {
    let symbols = elf.dynamic_symbol_table();
    let relocations = elf.dynamic_relocations().into_iter().flatten().take(SYMBOLS_MAX);
    let slots = relocations.filter_map(|(address, relocation)| {
        let RelocationTarget::Symbol(index) = relocation.target() else { return None };
        let name = symbols.as_ref()?.symbol_by_index(index).ok()?.name().ok()?.to_string();
        Some((address, name))
    });
    slots.collect()
}

/// The slot that a call goes through, of which this is the address of the last byte.
fn slot_of(elf: &Elf, last: u64) -> Option<u64> {
    const INDIRECT: [u8; 2] = [0xff, 0x15];
    const DIRECT: u8 = 0xe8;
    let after = last.checked_add(1)?;
    let call: [u8; 6] = code(elf, after.checked_sub(6)?)?;
    let displaced = |next: u64| next.checked_add_signed(displacement(&call, 2)?.into());
    if call[..2] == INDIRECT {
        return displaced(after);
    }
    let stub = displaced(after).filter(|_| call[1] == DIRECT)?;
    let stub_code: [u8; 16] = code(elf, stub)?;
    let (at, slot) = jump(&stub_code)?;
    stub.checked_add(at)?.checked_add_signed(slot.into())
}

/// Where the jump through a slot ends in a stub, and how far from there the slot is.
fn jump(stub: &[u8; 16]) -> Option<(u64, i32)> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    const BND: &[u8] = &[0xf2];
    const JUMP: &[u8] = &[0xff, 0x25];
    let mut rest = &stub[..];
    for prefix in [ENDBR64, BND] {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let operand = rest.strip_prefix(JUMP)?;
    let end = stub.len() - operand.len() + size_of::<i32>();
    Some((end as u64, displacement(operand, 0)?))
}

fn displacement(code: &[u8], at: usize) -> Option<i32> {
    Some(i32::from_le_bytes(code.get(at..at + size_of::<i32>())?.try_into().ok()?))
}

/// The bytes at an address of a file.
fn code<const N: usize>(elf: &Elf, address: u64) -> Option<[u8; N]> {
    let bytes = elf.segments().find_map(|segment| segment.data_range(address, N as u64).ok()?);
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stubs_jump_through_the_slot_of_their_function() {
        let check = |stub: &[u8], expected: Option<(u64, i32)>| {
            let mut code = [0x90; 16];
            code[..stub.len()].copy_from_slice(stub);
            assert_eq!(jump(&code), expected, "{stub:x?}");
        };
        check(&[0xff, 0x25, 0x10, 0, 0, 0], Some((6, 16)));
        check(&[0xf3, 0x0f, 0x1e, 0xfa, 0xff, 0x25, 0x10, 0, 0, 0], Some((10, 16)));
        check(&[0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xf0, 0xff, 0xff, 0xff], Some((11, -16)));
        check(&[0xe9, 0x10, 0, 0, 0], None);
    }
}
