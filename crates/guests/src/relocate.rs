//! Moves an unpacked kernel to other addresses, as the kernel's own unpacking does with KASLR
//! (handle_relocations in arch/x86/boot/compressed/misc.c). The kernel's build appends lists of the
//! relocations for that:
//!
//!     kernel | 0 | 64-bit words | 0 | 32-bit words to lower | 0 | 32-bit words
//!
//! Each list entry is the low half of a word's address in memory. Only kernels before Linux 6.15
//! have the list of words to lower (references to per-CPU data linked at address 0). Virtual and
//! physical addresses move by the same amount, since the 32-bit entry code computes one from the
//! other.

use anyhow::{Context, Result, ensure};
use object::Endianness::Little;
use object::elf::{FileHeader64, PT_LOAD};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::pvh::pvh_entry;

/// Kernels move in steps of this many bytes (CONFIG_PHYSICAL_ALIGN).
pub const STEP: u64 = 2 << 20;

/// The virtual address of physical address 0 in the kernel's mapping (__START_KERNEL_map).
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;

/// A kernel has about five segments, and every address is searched in all of them.
const SEGMENTS_MAX: usize = 64;

const OUTSIDE: &str = "a relocation lies outside the kernel";

/// The addresses of the words to change, relative to [`KERNEL_MAP`].
#[derive(Debug, Default, PartialEq)]
struct Relocations {
    raised_32: Vec<u64>,
    lowered_32: Vec<u64>,
    raised_64: Vec<u64>,
}

/// The kernel moved up by `distance` bytes; `None` where it has no relocation lists, so that it can
/// only run where it was linked.
pub fn moved(kernel: &[u8], distance: u64) -> Result<Option<Vec<u8>>> {
    let segments = segments(kernel)?;
    let Some(relocations) = relocations(kernel, &segments) else { return Ok(None) };
    let mut moved = kernel.to_vec();
    let entry_at = pvh_entry(kernel)?.context("no PVH entry")?;
    let delta = distance as u32;
    let lowered = (&relocations.lowered_32, delta.wrapping_neg());
    for (addresses, delta) in [(&relocations.raised_32, delta), lowered] {
        for &address in addresses {
            let at = file_offset(&segments, address, 4).context(OUTSIDE)?;
            change::<4>(&mut moved, at, |word| {
                u32::from_le_bytes(word).wrapping_add(delta).to_le_bytes()
            });
        }
    }
    for &address in &relocations.raised_64 {
        let at = file_offset(&segments, address, 8).context(OUTSIDE)?;
        change::<8>(&mut moved, at, |word| {
            u64::from_le_bytes(word).wrapping_add(distance).to_le_bytes()
        });
    }
    // Newer kernels compute the entry's address while linking, so it has no relocation.
    if moved[entry_at..entry_at + 4] == kernel[entry_at..entry_at + 4] {
        change::<4>(&mut moved, entry_at, |word| {
            u32::from_le_bytes(word).wrapping_add(delta).to_le_bytes()
        });
    }
    for segment in &segments {
        // p_paddr of its program header.
        change::<8>(&mut moved, segment.header + 24, |word| {
            u64::from_le_bytes(word).wrapping_add(distance).to_le_bytes()
        });
    }
    Ok(Some(moved))
}

fn change<const N: usize>(bytes: &mut [u8], at: usize, how: impl Fn([u8; N]) -> [u8; N]) {
    let word: [u8; N] = bytes[at..at + N].try_into().expect("N bytes");
    bytes[at..at + N].copy_from_slice(&how(word));
}

/// A loadable segment of the kernel.
struct Segment {
    /// Offset of its program header in the file.
    header: usize,
    /// Offset of its content in the file.
    offset: u64,
    /// Physical address.
    physical: u64,
    bytes: u64,
}

fn segments(kernel: &[u8]) -> Result<Vec<Segment>> {
    let header = FileHeader64::parse(kernel)?;
    let first = header.e_phoff(Little) as usize;
    let size = header.e_phentsize(Little) as usize;
    let segments: Vec<Segment> = header
        .program_headers(Little, kernel)?
        .iter()
        .enumerate()
        .filter(|(_, segment)| segment.p_type(Little) == PT_LOAD)
        .map(|(number, segment)| Segment {
            header: first + number * size,
            offset: segment.p_offset(Little),
            physical: segment.p_paddr(Little),
            bytes: segment.p_filesz(Little),
        })
        .collect();
    let ends = segments.iter().map(|segment| segment.offset.saturating_add(segment.bytes));
    let count = segments.len();
    ensure!(count <= SEGMENTS_MAX, "the kernel has {count} segments, more than any kernel");
    ensure!(ends.max().is_some_and(|end| end <= kernel.len() as u64), "the kernel is cut off");
    Ok(segments)
}

/// The offset in the file of the `bytes` bytes at a physical address.
fn file_offset(segments: &[Segment], address: u64, bytes: u64) -> Option<usize> {
    // Subtractions, because sums of a damaged header's numbers could overflow.
    segments.iter().find_map(|segment| {
        let within = address.checked_sub(segment.physical)?;
        let left = segment.bytes.checked_sub(within)?;
        (left >= bytes).then_some((segment.offset + within) as usize)
    })
}

/// Reads the relocation lists at the end of the file; `None` if there are none.
fn relocations(kernel: &[u8], segments: &[Segment]) -> Option<Relocations> {
    // From the end, as the file's length need not be a multiple of 4.
    let mut words =
        kernel.rchunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap()));
    let mut list = || -> Option<Vec<u64>> {
        let mut addresses = Vec::new();
        for word in words.by_ref() {
            if word == 0 {
                return Some(addresses);
            }
            let address = (word as i32 as i64 as u64).wrapping_sub(KERNEL_MAP);
            file_offset(segments, address, 4)?;
            addresses.push(address);
        }
        None
    };
    let raised_32 = list()?;
    let second = list()?;
    if raised_32.is_empty() {
        return None;
    }
    let is_64 = |address: &u64| {
        let at = file_offset(segments, *address, 8)?;
        let word = u64::from_le_bytes(kernel[at..at + 8].try_into().ok()?);
        (word >= KERNEL_MAP).then_some(())
    };
    // Nearly all relocated 64-bit words hold an address of the kernel.
    let are_64 = second.iter().take(64).filter(|address| is_64(address).is_some()).count();
    if !second.is_empty() && are_64 * 2 > second.len().min(64) {
        return Some(Relocations { raised_32, lowered_32: Vec::new(), raised_64: second });
    }
    let raised_64 = list()?;
    Some(Relocations { raised_32, lowered_32: second, raised_64 })
}
