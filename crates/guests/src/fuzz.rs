//! Hostile kernels and modules: small, made by hand, and damaged before and after compression. Each
//! is read or refused with a message; none causes a panic, a hang or an absurd allocation.

use std::path::Path;

use fuzz::{Fuzzer, fuzz};

use crate::decompress::{decompress, tests as compress};
use crate::initramfs::stripped;
use crate::kernel::Kernel;
use crate::modules::{ModuleInfo, tests::module};

const REPLAY: &str = "cargo test -p guests fuzzed";

type Compressor = fn(&[u8]) -> Vec<u8>;

/// The last one does not compress.
const COMPRESSORS: [Compressor; 5] =
    [compress::xz, compress::gzip, compress::zstd, compress::lz4, <[u8]>::to_vec];

#[test]
fn fuzzed_kernels_are_refused_or_moved() {
    let kernel = elf();
    for compress in COMPRESSORS {
        let read =
            Kernel::read(Path::new("k"), &image(&compress(&kernel))).expect("it is a kernel");
        let moved = read.image(1, 1 << 30, false).expect("it can be moved").moved;
        assert_eq!((read.release.as_str(), moved), ("6.1.0-image", Some(2 << 20)));
    }
    fuzz(40_000, REPLAY, |fuzzer| {
        let inner = sometimes_damaged(&kernel, fuzzer);
        let outer = match fuzzer.below(2) {
            0 => inner,
            _ => image(&sometimes_damaged(&fuzzer.pick(&COMPRESSORS)(&inner), fuzzer)),
        };
        let input = sometimes_damaged(&outer, fuzzer);
        let random = fuzzer.below(1 << 20) as u64;
        let memory = *fuzzer.pick(&[0, 1 << 28, 1 << 30, u64::MAX]);
        check_error(stripped(&input).map(drop))?;
        check_error(Kernel::read(Path::new("k"), &input).and_then(|kernel| {
            kernel.takes_zstd();
            kernel.image(random, memory, false).map(drop)
        }))
    });
}

#[test]
fn fuzzed_modules_are_refused_or_read() {
    let modules = [
        module("license=GPL;depends=libcrc32c,lib-a;softdep=pre: crc32c post: zz;alias=fs-xfs"),
        module("depends="),
    ];
    fuzz(20_000, REPLAY, |fuzzer| {
        let module: &Vec<u8> = fuzzer.pick(&modules);
        let inner = sometimes_damaged(module, fuzzer);
        let input = sometimes_damaged(&fuzzer.pick(&COMPRESSORS)(&inner), fuzzer);
        check_error(decompress(&input).and_then(|module| {
            let info = ModuleInfo::parse(&module)?;
            info.list("depends", ',');
            info.values("alias").count();
            info.soft_dependencies();
            Ok(())
        }))
    });
}

/// An error must have a message.
fn check_error(result: anyhow::Result<()>) -> Result<(), String> {
    match result {
        Err(error) if format!("{error:#}").is_empty() => {
            Err("refused without a message".to_string())
        }
        _ => Ok(()),
    }
}

/// The example unchanged half of the time; otherwise with other numbers in it, cut off, or damaged as
/// text is.
fn sometimes_damaged(example: &[u8], fuzzer: &mut Fuzzer) -> Vec<u8> {
    let mut input = example.to_vec();
    if fuzzer.below(2) == 0 {
        return input;
    }
    if fuzzer.below(4) == 0 {
        return fuzzer.damage(&[input]);
    }
    for _ in 0..=fuzzer.below(4) {
        put_number(&mut input, fuzzer);
    }
    input
}

/// Numbers that parsers of headers and lists mishandle.
const NUMBERS: [u64; 16] = [
    0,
    1,
    2,
    3,
    4,
    7,
    18,
    64,
    0xff,
    0xffff,
    1 << 20,
    1 << 31,
    u32::MAX as u64,
    0xffff_ffff_8100_0000,
    1 << 63,
    u64::MAX,
];

fn put_number(input: &mut [u8], fuzzer: &mut Fuzzer) {
    let bytes = *fuzzer.pick(&[1, 2, 4, 8]);
    let Some(last) = input.len().checked_sub(bytes) else { return };
    // Headers are small, and everything depends on them.
    let last = if fuzzer.below(2) == 0 { last.min(0x280) } else { last };
    let at = fuzzer.below(last / bytes + 1) * bytes;
    let number = match fuzzer.below(3) {
        0 => input.len() as u64 - fuzzer.below(16).min(input.len()) as u64,
        _ => *fuzzer.pick(&NUMBERS),
    };
    input[at..at + bytes].copy_from_slice(&number.to_le_bytes()[..bytes]);
}

/// The physical and virtual address at which the kernel is linked.
const LINKED: u64 = 0x0100_0000;
const LINKED_HIGH: u64 = 0xffff_ffff_8100_0000;

/// A kernel that QEMU can start: headers, a loadable segment, a note with the entry, and the
/// relocation lists (relocate.rs has their order).
fn elf() -> Vec<u8> {
    let mut file = vec![0; 0x400];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    // elf(5): 64 bits, little-endian, an executable for x86-64, two program headers of 56 bytes at 64.
    put(0, b"\x7fELF\x02\x01\x01");
    put(0x10, &[2, 0, 62, 0, 1, 0, 0, 0]);
    put(0x20, &64_u64.to_le_bytes());
    put(0x34, &[64, 0, 56, 0, 2, 0, 64, 0]);
    // PT_LOAD, all of the file from 0x100 on; PT_NOTE.
    for (at, kind, offset, bytes) in [(0x40, 1_u32, 0x100_u64, 0x300_u64), (0x78, 4, 0x100, 0x14)] {
        put(at, &kind.to_le_bytes());
        put(at + 8, &offset.to_le_bytes());
        put(at + 16, &(LINKED_HIGH + offset - 0x100).to_le_bytes());
        put(at + 24, &(LINKED + offset - 0x100).to_le_bytes());
        put(at + 32, &bytes.to_le_bytes());
        put(at + 40, &bytes.to_le_bytes());
        put(at + 48, &4_u64.to_le_bytes());
    }
    put(0x100, &[4, 0, 0, 0, 4, 0, 0, 0, 18, 0, 0, 0]);
    put(0x10c, b"Xen\0");
    put(0x110, &(LINKED as u32).to_le_bytes());
    put(0x140, b"Linux version 6.1.0-elf (me) #1\0ZSTD-compressed data is corrupt\0");
    put(0x200, &(LINKED_HIGH + 0x40).to_le_bytes());
    put(0x208, &(LINKED as u32 + 0x50).to_le_bytes());
    let places = [0, LINKED_HIGH + 0x100, 0, 0, LINKED_HIGH + 0x108];
    file.extend(places.into_iter().flat_map(|place| (place as u32).to_le_bytes()));
    file
}

/// An image with this payload.
fn image(payload: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 0x400];
    let mut put = |at: usize, bytes: &[u8]| file[at..at + bytes.len()].copy_from_slice(bytes);
    put(0x1f1, &[1]);
    put(0x1fe, &[0x55, 0xaa]);
    put(0x202, b"HdrS\x0f\x02");
    put(0x20e, &0x100_u16.to_le_bytes());
    put(0x248, &0_u32.to_le_bytes());
    put(0x24c, &(payload.len() as u32).to_le_bytes());
    put(0x300, b"6.1.0-image (me) #1\0");
    [file, payload.to_vec()].concat()
}
