//! Compressed kernels and modules, told apart by how they begin.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

/// What is compressed how: the first bytes, and the name.
const KINDS: [(&[u8], Kind); 5] = [
    (b"\xfd7zXZ\0", Kind::Xz),
    (b"\x28\xb5\x2f\xfd", Kind::Zstd),
    (b"\x1f\x8b\x08", Kind::Gzip),
    (b"\x02\x21\x4c\x18", Kind::Lz4),
    (b"\x7fELF", Kind::Not),
];

#[derive(Clone, Copy)]
enum Kind {
    Xz,
    Zstd,
    Gzip,
    Lz4,
    Not,
}

/// The largest kernel or module that is taken, in bytes: few bytes can be said to be any number.
const LARGEST: usize = 512 << 20;

/// The largest dictionary of xz: the kernel's build asks for 128 MiB, in KiB, with what else is needed.
const DICTIONARY_KIB: u32 = (128 << 10) + 1024;

/// What was compressed, or the bytes themselves if they are an ELF file. What follows the
/// compressed data is passed over: the kernel's build appends its size.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    decompress_within(bytes, LARGEST)
}

fn decompress_within(bytes: &[u8], largest: usize) -> Result<Vec<u8>> {
    let Some((_, kind)) = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
        bail!("compressed in a way that is not known here (known: xz, zstd, gzip, lz4)");
    };
    match kind {
        Kind::Xz => {
            read_within(lzma_rust2::XzReader::new_mem_limit(bytes, false, DICTIONARY_KIB), largest)
        }
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes).context("decompressing");
            read_within(decoder?.single_frame(), largest)
        }
        Kind::Gzip => read_within(flate2::bufread::GzDecoder::new(bytes), largest),
        Kind::Lz4 => lz4_blocks(&bytes[4..], largest),
        Kind::Not => Ok(bytes.to_vec()),
    }
}

fn read_within(decoder: impl Read, largest: usize) -> Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(largest as u64 + 1).read_to_end(&mut plain).context("decompressing")?;
    check_size(plain.len(), largest)?;
    Ok(plain)
}

fn check_size(bytes: usize, largest: usize) -> Result<()> {
    ensure!(
        bytes <= largest,
        "decompressing: becomes more than {} MiB, which no kernel or module is",
        largest >> 20
    );
    Ok(())
}

/// Blocks of 8 MiB, each after the number of its bytes: the "legacy" format of lz4(1), which the
/// kernel's build uses. The kernel's own size follows the last one.
fn lz4_blocks(mut bytes: &[u8], largest: usize) -> Result<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let (mut plain, mut room) = (Vec::new(), vec![0; BLOCK]);
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        // A number with nothing behind it is the size.
        if rest.is_empty() {
            break;
        }
        ensure!(length <= rest.len(), "decompressing: cut off");
        let (block, after) = rest.split_at(length);
        let written = lz4_flex::block::decompress_into(block, &mut room);
        plain.extend_from_slice(&room[..written.context("decompressing")?]);
        check_size(plain.len(), largest)?;
        bytes = after;
    }
    Ok(plain)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use std::io::Write;

    /// As xz(1) does it, with a small dictionary.
    pub fn xz(plain: &[u8]) -> Vec<u8> {
        let options = lzma_rust2::XzOptions::with_preset(0);
        let mut writer = lzma_rust2::XzWriter::new(Vec::new(), options).unwrap();
        writer.write_all(plain).unwrap();
        writer.finish().unwrap()
    }

    pub fn gzip(plain: &[u8]) -> Vec<u8> {
        let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        writer.write_all(plain).unwrap();
        writer.finish().unwrap()
    }

    pub fn zstd(plain: &[u8]) -> Vec<u8> {
        zstd::encode_all(plain, 3).unwrap()
    }

    /// In one block.
    pub fn lz4(plain: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(plain);
        [&[2, 0x21, 0x4c, 0x18][..], &(block.len() as u32).to_le_bytes(), &block].concat()
    }

    #[test]
    fn compressed_data_is_told_by_its_beginning_and_what_follows_is_left() {
        let plain = b"\x7fELF and so on".repeat(50);
        let lz4 = lz4(&plain);
        assert!(decompress(&lz4[..lz4.len() - 1]).is_err());
        for compressed in [zstd(&plain), gzip(&plain), lz4, xz(&plain), plain.clone()] {
            if compressed != plain {
                let error = decompress_within(&compressed, 100).unwrap_err().to_string();
                assert!(error.contains("becomes more than 0 MiB"), "{error}");
            }
            let is_plain = compressed == plain;
            let with_size = [compressed, if is_plain { vec![] } else { vec![9, 0, 0, 0] }].concat();
            assert_eq!(decompress(&with_size).unwrap(), plain);
        }
        let error = decompress(b"LZOP").unwrap_err().to_string();
        assert!(error.contains("known: xz, zstd, gzip, lz4"), "{error}");
    }
}
