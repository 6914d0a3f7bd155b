//! Kernel files: recognizes them, with their architecture and release, and extracts the kernel from
//! an image that unpacks itself. Under emulation, unpacking takes as long as the rest of a boot;
//! QEMU starts an unpacked kernel for x86-64 by the PVH protocol (`pvh.rs`), and one for arm64 as
//! Documentation/arch/arm64/booting.rst says.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use host::{Limit, given_file};

use crate::architecture::Architecture;
use crate::build_id;
use crate::decompress::decompress;
use crate::pvh::check_pvh;
use crate::relocate;

/// A kernel file that can be booted.
pub struct Kernel {
    pub path: PathBuf,
    pub architecture: Architecture,
    /// The release, as `uname -r` prints it in the guest.
    pub release: String,
    /// The unpacked kernel, where QEMU can start it: for x86-64, an ELF file with its relocation lists.
    unpacked: Option<Vec<u8>>,
    /// Why the kernel has to unpack itself, where it has to.
    pub packed_because: Option<String>,
}

/// What QEMU starts.
pub struct BootImage {
    /// The file's bytes; `None` where QEMU starts the kernel's own file.
    pub bytes: Option<Vec<u8>>,
    /// How far the kernel was moved from its linked address, in bytes; `None` where that is left to
    /// the kernel.
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

/// Memory that a kernel may span, with what exists only at run time; the largest kernels of
/// distributions span 100 MiB.
const SPAN_MAX: u64 = 192 << 20;

/// A vmlinux with its debugging information has 1 GiB.
const LIMIT: Limit = Limit { bytes: 4 << 30, what: "a kernel" };

impl Kernel {
    pub fn open(path: &Path) -> Result<Kernel> {
        ensure!(!path.is_dir(), "{} is a directory: name {}", path.display(), image_in(path));
        let bytes = given_file::read(path, LIMIT)?;
        Kernel::read(path, &bytes).with_context(|| format!("the kernel {}", path.display()))
    }

    pub(crate) fn read(path: &Path, bytes: &[u8]) -> Result<Kernel> {
        if bytes.starts_with(b"\x7fELF") {
            let unpacked = bytes.to_vec();
            let release = release_in(&unpacked)?;
            let why_not = check_pvh(&unpacked).err();
            ensure!(
                why_not.is_none(),
                "is an ELF file that QEMU cannot start ({}): name the bzImage of the same build \
                 (arch/x86/boot/bzImage), or build with CONFIG_PVH=y",
                why_not.map(|e| format!("{e:#}")).unwrap_or_default()
            );
            return Ok(Kernel {
                path: path.to_path_buf(),
                architecture: Architecture::X86_64,
                release,
                unpacked: Some(unpacked),
                packed_because: None,
            });
        }
        if let Some(unpacked) = arm64_image(bytes)? {
            return Ok(Kernel {
                path: path.to_path_buf(),
                architecture: Architecture::Arm64,
                release: release_in(&unpacked)?,
                unpacked: Some(unpacked),
                packed_because: None,
            });
        }
        check_image(bytes)?;
        let text = 0x200 + u16_at(bytes, VERSION_TEXT)? as usize;
        let version = text_at(bytes, text).context("names no release")?;
        let release = version.split(' ').next().unwrap_or_default().to_string();
        let unpacked = unpack(bytes).and_then(|unpacked| check_pvh(&unpacked).map(|()| unpacked));
        let (unpacked, packed_because) = match unpacked {
            Ok(unpacked) => (Some(unpacked), None),
            Err(why) => (None, Some(format!("{why:#}"))),
        };
        let (path, architecture) = (path.to_path_buf(), Architecture::X86_64);
        Ok(Kernel { path, architecture, release, unpacked, packed_because })
    }

    /// Whether it can unpack an initramfs compressed with zstd (CONFIG_RD_ZSTD): such a kernel
    /// contains the error message of the unpacker.
    pub fn takes_zstd(&self) -> bool {
        const MESSAGE: &[u8] = b"ZSTD-compressed data is corrupt";
        self.unpacked.as_ref().is_some_and(|kernel| find(kernel, MESSAGE).is_some())
    }

    /// The image for a VM with `memory` bytes. `random` decides the kernel's address, as its own
    /// unpacking would have done (KASLR), unless `nokaslr` is set.
    pub fn image(&self, random: u64, memory: u64, nokaslr: bool) -> Result<BootImage> {
        let Some(unpacked) = &self.unpacked else {
            return Ok(BootImage { bytes: None, moved: None });
        };
        // It chooses its address itself, from a random number that QEMU gives it.
        if self.architecture == Architecture::Arm64 {
            return Ok(BootImage { bytes: Some(unpacked.clone()), moved: None });
        }
        // The initramfs lies at the upper end of memory.
        let room = (memory / 2).min(1 << 30).saturating_sub(SPAN_MAX);
        let steps = room / relocate::STEP;
        if nokaslr || steps == 0 {
            return Ok(BootImage { bytes: Some(unpacked.clone()), moved: None });
        }
        let distance = random % steps * relocate::STEP;
        Ok(match relocate::moved(unpacked, distance)? {
            Some(bytes) => BootImage { bytes: Some(bytes), moved: Some(distance) },
            None => BootImage { bytes: Some(unpacked.clone()), moved: None },
        })
    }
}

/// The release and the version that an image's header names: `6.1.0-1-amd64 (builder@host) #1 SMP …`. A
/// running kernel has the first word as its release, and the words from `#` on as its version.
pub fn version_in(path: &Path) -> Result<String> {
    let read = || {
        let bytes = given_file::read(path, LIMIT)?;
        check_image(&bytes)?;
        let text = 0x200 + u16_at(&bytes, VERSION_TEXT)? as usize;
        Ok::<_, anyhow::Error>(text_at(&bytes, text).context("names no release")?.to_string())
    };
    read().with_context(|| format!("the kernel {}", path.display()))
}

/// The build ID of the kernel in an image; `None` if it was built without, or is compressed in a way that knee does
/// not read.
pub fn build_id_in(path: &Path) -> Result<Option<String>> {
    let bytes = given_file::read(path, LIMIT)?;
    check_image(&bytes).with_context(|| format!("the kernel {}", path.display()))?;
    Ok(unpack(&bytes).ok().and_then(|kernel| build_id::in_kernel(&kernel)))
}

/// The image that was built in a directory, or where make would put it: a tree of Linux, or what `knee kernel build` made.
fn image_in(directory: &Path) -> String {
    let built = ["arch/x86/boot/bzImage", "arch/arm64/boot/Image", "bzImage", "vmlinuz"];
    let mut images = built.iter().map(|image| directory.join(image));
    match images.find(|image| image.is_file()) {
        Some(image) => image.display().to_string(),
        None => "the image in it, which make leaves in arch/x86/boot/bzImage".to_string(),
    }
}

fn check_image(bytes: &[u8]) -> Result<()> {
    ensure!(
        !is_arm64(bytes),
        "is for arm64, and this host is not: build or fetch one for x86-64, or boot it in a virtual machine \
         (without --on metal)"
    );
    let is_image = u16_at(bytes, BOOT_FLAG).ok() == Some(0xaa55)
        && bytes.get(HEADER..HEADER + 4) == Some(b"HdrS");
    ensure!(
        is_image,
        "is not a kernel for x86-64 or arm64: name a file such as /boot/vmlinuz-RELEASE, arch/x86/boot/bzImage or \
         arch/arm64/boot/Image"
    );
    let protocol = u16_at(bytes, PROTOCOL)?;
    ensure!(
        protocol >= 0x208,
        "has boot protocol {protocol:#x}, which is older than Linux 2.6.26: use a newer kernel"
    );
    Ok(())
}

/// Whether the bytes are an unpacked kernel for arm64, whose header has this at its end.
fn is_arm64(bytes: &[u8]) -> bool {
    bytes.get(0x38..0x3c) == Some(b"ARM\x64")
}

/// The unpacked kernel for arm64 in a file: as it is, compressed (Image.gz), or in a program for EFI that
/// unpacks it (CONFIG_EFI_ZBOOT, drivers/firmware/efi/libstub/zboot-header.S). `None` for another kind of file.
fn arm64_image(bytes: &[u8]) -> Result<Option<Vec<u8>>> {
    let packed = if is_arm64(bytes) {
        return Ok(Some(bytes.to_vec()));
    } else if bytes.get(4..8) == Some(b"zimg") {
        let (from, length) = (u32_at(bytes, 8)? as usize, u32_at(bytes, 12)? as usize);
        bytes.get(from..from.saturating_add(length)).context("its payload is cut off")?
    } else if bytes.starts_with(b"\x1f\x8b") {
        bytes
    } else {
        return Ok(None);
    };
    let unpacked = decompress(packed)?;
    ensure!(
        is_arm64(&unpacked),
        "is for another architecture: knee boots kernels for x86-64 and arm64"
    );
    Ok(Some(unpacked))
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

/// Extracts the kernel from an image.
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

/// The release in the banner that a kernel prints.
fn release_in(kernel: &[u8]) -> Result<String> {
    const BANNER: &[u8] = b"Linux version ";
    let at = find(kernel, BANNER).context("does not contain the text `Linux version`")?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decompress::tests::{gzip, zstd};

    fn check(bytes: &[u8], expected: &str) {
        let error = Kernel::read(Path::new("k"), bytes).err().expect("no kernel");
        assert!(format!("{error:#}").contains(expected), "{error:#}");
    }

    /// An image header with these bytes at these offsets.
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
    fn files_that_are_not_kernels_are_refused_with_a_reason() {
        check(b"", "is not a kernel for x86-64 or arm64");
        check(b"hello", "is not a kernel for x86-64 or arm64");
        check(&image(&[(BOOT_FLAG, &[0, 0])]), "is not a kernel for x86-64 or arm64");
        check(&image(&[(PROTOCOL, &[0, 2])]), "older than Linux 2.6.26");
        check(&image(&[(0x38, b"ARM\x64")]), "does not contain the text");
        check(b"\x7fELF", "does not contain the text");
        check(&gzip(b"\x7fELF"), "is for another architecture");
        check(b"MZ\0\0zimg\x20\0\0\0\xff\0\0\0", "is cut off");
    }

    #[test]
    fn kernels_for_arm64_are_recognized_in_each_of_their_forms() {
        let mut plain = vec![0; 0x38];
        plain.extend(b"ARM\x64\0Linux version 6.1.0-arm64 (me) #1\0");
        let mut for_efi = b"MZ\0\0zimg\x20\0\0\0".to_vec();
        let packed = zstd(&plain);
        for_efi.extend((packed.len() as u32).to_le_bytes());
        for_efi.resize(0x20, 0);
        for_efi.extend(packed);
        for file in [plain.clone(), gzip(&plain), for_efi] {
            let kernel = Kernel::read(Path::new("k"), &file).unwrap();
            assert_eq!(
                (kernel.architecture, &*kernel.release),
                (Architecture::Arm64, "6.1.0-arm64")
            );
            assert_eq!(kernel.image(1, 1 << 30, false).unwrap().bytes.as_ref(), Some(&plain));
        }
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
