//! Kernel files: whether something is one, of which architecture and release, and the kernel
//! inside an image that unpacks itself. Under emulation, to unpack takes as long as all else of
//! a boot; QEMU starts an unpacked kernel by the PVH protocol (Xen's, entered by an ELF note).

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use object::Endianness::Little;
use object::elf::{EM_X86_64, FileHeader64, NoteType};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::decompress::decompress;
use crate::relocate;

/// A kernel file that can be booted.
pub struct Kernel {
    /// Where it lies.
    pub path: PathBuf,
    /// What `uname -r` will say.
    pub release: String,
    /// The kernel itself, where QEMU can start it: an ELF file, with its table of relocations.
    unpacked: Option<Vec<u8>>,
    /// Why not, else.
    pub packed_because: Option<String>,
}

/// What a machine starts.
pub struct Image {
    /// The file's bytes; nothing where the kernel's own file is started.
    pub bytes: Option<Vec<u8>>,
    /// How far from where it was linked the kernel was moved, in bytes; nothing where that is
    /// left to the kernel.
    pub moved: Option<u64>,
}

// The header of an x86 image (Documentation/arch/x86/boot.rst): offsets in the file.
const SETUP_SECTORS: usize = 0x1f1;
const BOOT_FLAG: usize = 0x1fe;
const HEADER: usize = 0x202;
const PROTOCOL: usize = 0x206;
const VERSION_TEXT: usize = 0x20e;
const PAYLOAD_OFFSET: usize = 0x248;
const PAYLOAD_LENGTH: usize = 0x24c;

/// Memory from the first byte of a kernel to the last, with what only exists at run time; the
/// largest of distributions have 100 MiB.
const LARGEST: u64 = 192 << 20;

impl Kernel {
    /// Reads a kernel file.
    pub fn open(path: &Path) -> Result<Kernel> {
        let bytes =
            fs::read(path).with_context(|| format!("reading the kernel {}", path.display()))?;
        Kernel::read(path, &bytes).with_context(|| format!("the kernel {}", path.display()))
    }

    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Kernel> {
        if bytes.starts_with(b"\x7fELF") {
            let unpacked = bytes.to_vec();
            let release = release_in(&unpacked)?;
            let why_not = check_pvh(&unpacked).err();
            ensure!(
                why_not.is_none(),
                "is an ELF file that QEMU cannot start ({}): give the bzImage beside it \
                 (arch/x86/boot/bzImage), or build with CONFIG_PVH=y",
                why_not.map(|e| format!("{e:#}")).unwrap_or_default()
            );
            let (path, packed_because) = (path.to_path_buf(), None);
            return Ok(Kernel { path, release, unpacked: Some(unpacked), packed_because });
        }
        check_image(bytes)?;
        let text = 0x200 + u16_at(bytes, VERSION_TEXT)? as usize;
        let version = text_at(bytes, text).context("says no release")?;
        let release = version.split(' ').next().unwrap_or_default().to_string();
        let unpacked = unpack(bytes).and_then(|unpacked| check_pvh(&unpacked).map(|()| unpacked));
        let (unpacked, packed_because) = match unpacked {
            Ok(unpacked) => (Some(unpacked), None),
            Err(why) => (None, Some(format!("{why:#}"))),
        };
        Ok(Kernel { path: path.to_path_buf(), release, unpacked, packed_because })
    }

    /// Whether it unpacks an initramfs that zstd compressed (CONFIG_RD_ZSTD): what it would complain
    /// with is in it.
    pub fn takes_zstd(&self) -> bool {
        let known = |kernel: &Vec<u8>| find(kernel, b"ZSTD-compressed data is corrupt").is_some();
        self.unpacked.as_ref().is_some_and(known)
    }

    /// What a machine with so many bytes of memory starts. `random` decides where the kernel
    /// lies, as its own unpacking would have (KASLR), unless `nokaslr` is asked for.
    pub fn image(&self, random: u64, memory: u64, nokaslr: bool) -> Result<Image> {
        let Some(unpacked) = &self.unpacked else {
            return Ok(Image { bytes: None, moved: None });
        };
        // The initramfs lies at the upper end.
        let room = (memory / 2).min(1 << 30).saturating_sub(LARGEST);
        let steps = room / relocate::STEP;
        let (bytes, moved) = match nokaslr || steps == 0 {
            true => (unpacked.clone(), None),
            false => match relocate::moved(unpacked, random % steps * relocate::STEP)? {
                Some(moved) => (moved, Some(random % steps * relocate::STEP)),
                None => (unpacked.clone(), None),
            },
        };
        Ok(Image { bytes: Some(bytes), moved })
    }
}

fn check_image(bytes: &[u8]) -> Result<()> {
    ensure!(
        bytes.get(0x38..0x3c) != Some(b"ARM\x64"),
        "is for arm64, and this knee starts x86-64 kernels: build or fetch one for x86-64"
    );
    let is_image = u16_at(bytes, BOOT_FLAG).ok() == Some(0xaa55)
        && bytes.get(HEADER..HEADER + 4) == Some(b"HdrS");
    ensure!(
        is_image,
        "is no x86 kernel: a file such as /boot/vmlinuz-RELEASE or arch/x86/boot/bzImage is needed"
    );
    let protocol = u16_at(bytes, PROTOCOL)?;
    ensure!(protocol >= 0x208, "has boot protocol {protocol:#x}, from before Linux 2.6.26");
    Ok(())
}

fn u16_at(bytes: &[u8], at: usize) -> Result<u16> {
    let field = bytes.get(at..at + 2).context("is cut off")?;
    Ok(u16::from_le_bytes([field[0], field[1]]))
}

fn u32_at(bytes: &[u8], at: usize) -> Result<u32> {
    Ok(u16_at(bytes, at)? as u32 | (u16_at(bytes, at + 2)? as u32) << 16)
}

fn text_at(bytes: &[u8], at: usize) -> Option<String> {
    let text = bytes.get(at..)?.split(|byte| *byte == 0).next()?;
    Some(String::from_utf8_lossy(text).into_owned())
}

/// The kernel in an image.
fn unpack(image: &[u8]) -> Result<Vec<u8>> {
    let sectors = match image[SETUP_SECTORS] {
        0 => 4,
        sectors => sectors as usize,
    };
    let from = (sectors + 1) * 512 + u32_at(image, PAYLOAD_OFFSET)? as usize;
    let length = u32_at(image, PAYLOAD_LENGTH)? as usize;
    let payload = image.get(from..from.saturating_add(length)).context("its payload is cut off")?;
    decompress(payload).context("its payload")
}

/// The release that a kernel would print.
fn release_in(kernel: &[u8]) -> Result<String> {
    const BANNER: &[u8] = b"Linux version ";
    let at = find(kernel, BANNER).context("has no banner of Linux in it")?;
    let text = text_at(kernel, at + BANNER.len()).unwrap_or_default();
    Ok(text.split(' ').next().unwrap_or_default().to_string())
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    let first = *wanted.first()?;
    let mut from = 0;
    while let Some(step) = bytes[from..].iter().position(|byte| *byte == first) {
        if bytes[from + step..].starts_with(wanted) {
            return Some(from + step);
        }
        from += step + 1;
    }
    None
}

/// Whether QEMU finds an entry in the kernel.
fn check_pvh(kernel: &[u8]) -> Result<()> {
    let header = FileHeader64::parse(kernel).context("not a 64-bit ELF file")?;
    if header.e_machine(Little) != EM_X86_64 {
        bail!("for another architecture");
    }
    ensure!(pvh_entry(kernel)?.is_some(), "built without CONFIG_PVH");
    Ok(())
}

/// XEN_ELFNOTE_PHYS32_ENTRY of xen/interface/elfnote.h.
const PHYS32_ENTRY: NoteType = NoteType(18);

/// Where in the file the entry's address stands.
pub(crate) fn pvh_entry(kernel: &[u8]) -> Result<Option<usize>> {
    let header = FileHeader64::parse(kernel)?;
    for segment in header.program_headers(Little, kernel)? {
        let Some(mut notes) = segment.notes(Little, kernel)? else { continue };
        while let Some(note) = notes.next()? {
            let is_entry = note.name() == b"Xen" && note.n_type(Little) == PHYS32_ENTRY;
            // A shorter one is no address.
            if is_entry && note.desc().len() >= 4 {
                let at = note.desc().as_ptr() as usize - kernel.as_ptr() as usize;
                return Ok(Some(at));
            }
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expected: &str) {
        let error = Kernel::read(Path::new("k"), bytes).err().expect("no kernel");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }

    /// A header with these bytes at these places.
    fn image(changes: &[(usize, &[u8])]) -> Vec<u8> {
        let mut image = vec![0; 2048];
        image[BOOT_FLAG..BOOT_FLAG + 2].copy_from_slice(&[0x55, 0xaa]);
        image[HEADER..HEADER + 4].copy_from_slice(b"HdrS");
        image[PROTOCOL..PROTOCOL + 2].copy_from_slice(&[0x0f, 0x02]);
        for (at, bytes) in changes {
            image[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        image
    }

    #[test]
    fn what_is_no_kernel_is_named() {
        check(b"", "is no x86 kernel");
        check(b"hello", "is no x86 kernel");
        check(&image(&[(BOOT_FLAG, &[0, 0])]), "is no x86 kernel");
        check(&image(&[(PROTOCOL, &[0, 2])]), "from before Linux 2.6.26");
        check(&image(&[(0x38, b"ARM\x64")]), "is for arm64");
        check(b"\x7fELF", "no banner");
    }

    #[test]
    fn an_image_that_cannot_be_unpacked_starts_by_itself() {
        let image = image(&[(VERSION_TEXT, &[0, 3]), (0x500, b"6.1.0-lzo (me) #1\0")]);
        let kernel = Kernel::read(Path::new("k"), &image).unwrap();
        assert_eq!(kernel.release, "6.1.0-lzo");
        assert!(kernel.packed_because.is_some());
        assert!(kernel.image(0, 1 << 30, false).unwrap().bytes.is_none());
    }
}
