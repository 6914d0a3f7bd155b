//! The memory of a guest, by kernel addresses: knee walks the guest's page tables in the file that is its memory.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// Where x86-64 links the kernel: physical address 0 is mapped there (arch/x86/include/asm/page_64_types.h).
const KERNEL_MAP: u64 = 0xffff_ffff_8000_0000;

const PAGE: usize = 4096;

const PRESENT: u64 = 1;
const HUGE: u64 = 1 << 7;
const FRAME: u64 = 0x000f_ffff_ffff_f000;

/// The memory of a stopped or idle guest on x86-64 with four levels of page tables.
pub struct GuestMemory<'a> {
    file: &'a File,
    /// The physical address of the kernel's own page table.
    table: u64,
    /// Pages that were read, by their physical numbers: most lookups walk the same tables.
    pages: RefCell<HashMap<u64, Box<[u8; PAGE]>>>,
}

impl<'a> GuestMemory<'a> {
    /// `table` is the kernel address of its page table (`init_top_pgt`).
    pub fn new(file: &'a File, table: u64) -> GuestMemory<'a> {
        GuestMemory { file, table: table.wrapping_sub(KERNEL_MAP), pages: RefCell::default() }
    }

    /// Reads at a kernel address; `None` if nothing is mapped there.
    pub fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut done = 0;
        while done < bytes.len() {
            let at = address.checked_add(done as u64)?;
            let part = (PAGE - at as usize % PAGE).min(bytes.len() - done);
            self.read_physical(self.physical(at)?, &mut bytes[done..done + part])?;
            done += part;
        }
        Some(())
    }

    pub fn u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    pub fn u32(&self, address: u64) -> Option<u32> {
        let mut bytes = [0; 4];
        self.read(address, &mut bytes)?;
        Some(u32::from_le_bytes(bytes))
    }

    /// A text that ends with a zero byte.
    pub fn text(&self, address: u64) -> Option<String> {
        let mut bytes = [0; 64];
        self.read(address, &mut bytes)?;
        let end = bytes.iter().position(|byte| *byte == 0)?;
        let text = std::str::from_utf8(&bytes[..end]).ok()?;
        text.chars().all(|letter| letter.is_ascii_graphic()).then(|| text.to_string())
    }

    /// The physical address behind a kernel address.
    fn physical(&self, address: u64) -> Option<u64> {
        let mut table = self.table;
        for level in (0..4).rev() {
            let index = address >> (12 + 9 * level) & 0x1ff;
            let entry = self.physical_u64(table + 8 * index)?;
            if entry & PRESENT == 0 {
                return None;
            }
            let offset_bits = 12 + 9 * level;
            if level == 0 || (entry & HUGE != 0 && level < 3) {
                let offset = address & ((1 << offset_bits) - 1);
                return Some((entry & FRAME & !((1 << offset_bits) - 1)) + offset);
            }
            table = entry & FRAME;
        }
        None
    }

    fn physical_u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read_physical(address, &mut bytes)?;
        Some(u64::from_le_bytes(bytes))
    }

    /// Reads inside a page.
    fn read_physical(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        let mut pages = self.pages.borrow_mut();
        let (offset, number) = (address as usize % PAGE, address / PAGE as u64);
        let page = match pages.entry(number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mut page = Box::new([0; PAGE]);
                self.file.read_exact_at(&mut page[..], number * PAGE as u64).ok()?;
                new.insert(page)
            }
        };
        bytes.copy_from_slice(page.get(offset..offset + bytes.len())?);
        Some(())
    }
}
