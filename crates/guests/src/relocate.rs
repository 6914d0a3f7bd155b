//! Moves an unpacked kernel to other addresses, as the kernel's own unpacking does where it
//! lies at random (handle_relocations in arch/x86/boot/compressed/misc.c). Its build appends,
//! for that, the places to change:
//!
//!     kernel | 0 | 64-bit places | 0 | 32-bit places to lower | 0 | 32-bit places
//!
//! Each place is the low half of its address in memory. The list of places to lower (what lies
//! per CPU at address 0) is there before Linux 6.15 only. Virtual and physical addresses move by
//! the same amount, since the 32-bit entry code computes the one from the other.

use anyhow::{Context, Result, ensure};
use object::Endianness::Little;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::kernel::pvh_entry;

/// Kernels move in steps of this many bytes (CONFIG_PHYSICAL_ALIGN).
pub const STEP: u64 = 2 << 20;

/// Where the kernel's addresses begin (__START_KERNEL_map).
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;

/// A kernel has five or so parts; each place is looked for in all.
const PARTS_MAX: usize = 64;

/// The places to change, each as an address relative to [`KERNEL_MAP`].
#[derive(Debug, Default, PartialEq)]
struct Places {
    raised_32: Vec<u64>,
    lowered_32: Vec<u64>,
    raised_64: Vec<u64>,
}

/// The kernel moved up by so many bytes; nothing where it brings no places to change, so that it
/// can only lie where it was linked.
pub fn moved(kernel: &[u8], by: u64) -> Result<Option<Vec<u8>>> {
    let parts = parts(kernel)?;
    let Some(places) = places(kernel, &parts) else { return Ok(None) };
    let mut moved = kernel.to_vec();
    let entry_at = pvh_entry(kernel)?.context("no PVH entry")?;
    let delta = by as u32;
    for (places, delta) in [(&places.raised_32, delta), (&places.lowered_32, delta.wrapping_neg())]
    {
        for &place in places {
            let at = file_offset(&parts, place, 4).context("a place lies outside the kernel")?;
            change::<4>(&mut moved, at, |word| {
                u32::from_le_bytes(word).wrapping_add(delta).to_le_bytes()
            });
        }
    }
    for &place in &places.raised_64 {
        let at = file_offset(&parts, place, 8).context("a place lies outside the kernel")?;
        change::<8>(&mut moved, at, |word| u64::from_le_bytes(word).wrapping_add(by).to_le_bytes());
    }
    // Newer kernels compute the entry's address while linking, so it is no place to change.
    if moved[entry_at..entry_at + 4] == kernel[entry_at..entry_at + 4] {
        change::<4>(&mut moved, entry_at, |word| {
            u32::from_le_bytes(word).wrapping_add(delta).to_le_bytes()
        });
    }
    for part in &parts {
        // p_paddr of its program header.
        change::<8>(&mut moved, part.header + 24, |word| {
            u64::from_le_bytes(word).wrapping_add(by).to_le_bytes()
        });
    }
    Ok(Some(moved))
}

fn change<const N: usize>(bytes: &mut [u8], at: usize, how: impl Fn([u8; N]) -> [u8; N]) {
    let word: [u8; N] = bytes[at..at + N].try_into().expect("N bytes");
    bytes[at..at + N].copy_from_slice(&how(word));
}

/// A part of the kernel that is loaded.
struct Part {
    /// Where its program header stands in the file.
    header: usize,
    /// Where it lies in the file, and in physical memory.
    offset: u64,
    physical: u64,
    bytes: u64,
}

fn parts(kernel: &[u8]) -> Result<Vec<Part>> {
    let header = FileHeader64::parse(kernel)?;
    let first = header.e_phoff(Little) as usize;
    let size = header.e_phentsize(Little) as usize;
    let segments = header.program_headers(Little, kernel)?;
    let parts: Vec<Part> = segments
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.p_type(Little) == PT_LOAD)
        .map(|(number, segment)| Part {
            header: first + number * size,
            offset: segment.p_offset(Little),
            physical: segment.p_paddr(Little),
            bytes: segment.p_filesz(Little),
        })
        .collect();
    let ends = parts.iter().map(|part| part.offset.saturating_add(part.bytes));
    ensure!(parts.len() <= PARTS_MAX, "the kernel has {} parts", parts.len());
    ensure!(ends.max().is_some_and(|end| end <= kernel.len() as u64), "the kernel is cut off");
    Ok(parts)
}

/// Where `bytes` bytes of an address lie in the file.
fn file_offset(parts: &[Part], address: u64, bytes: u64) -> Option<usize> {
    // A damaged header may say anything, so sums are by differences.
    parts.iter().find_map(|part| {
        let within = address.checked_sub(part.physical)?;
        let left = part.bytes.checked_sub(within)?;
        (left >= bytes).then_some((part.offset + within) as usize)
    })
}

/// Reads the lists from the end of the file; nothing if what is there are no such lists.
fn places(kernel: &[u8], parts: &[Part]) -> Option<Places> {
    // In files of any length: the lists are counted from the end.
    let mut words =
        kernel.rchunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let mut list = || -> Option<Vec<u64>> {
        let mut places = Vec::new();
        for word in words.by_ref() {
            if word == 0 {
                return Some(places);
            }
            let address = (word as i32 as i64 as u64).wrapping_sub(KERNEL_MAP);
            file_offset(parts, address, 4)?;
            places.push(address);
        }
        None
    };
    let raised_32 = list()?;
    let second = list()?;
    if raised_32.is_empty() {
        return None;
    }
    let is_64 = |place: &u64| {
        let at = file_offset(parts, *place, 8)?;
        let word = u64::from_le_bytes(kernel[at..at + 8].try_into().ok()?);
        (word >= KERNEL_MAP).then_some(())
    };
    // Places of 64 bits hold an address of the kernel, nearly all of them.
    let are_64 = second.iter().take(64).filter(|place| is_64(place).is_some()).count();
    if !second.is_empty() && are_64 * 2 > second.len().min(64) {
        return Some(Places { raised_32, lowered_32: Vec::new(), raised_64: second });
    }
    let raised_64 = list()?;
    Some(Places { raised_32, lowered_32: second, raised_64 })
}
