//! Decompression of kernels and modules, which are recognized by their first bytes.

use std::io::Read;

use anyhow::{Context, Result, bail, ensure};

/// The first bytes of each format.
const MAGICS: [(&[u8], Compression); 5] = [
    (b"\xfd7zXZ\0", Compression::Xz),
    (b"\x28\xb5\x2f\xfd", Compression::Zstd),
    (b"\x1f\x8b\x08", Compression::Gzip),
    (b"\x02\x21\x4c\x18", Compression::Lz4),
    (b"\x7fELF", Compression::None),
];

#[derive(Clone, Copy)]
enum Compression {
    Xz,
    Zstd,
    Gzip,
    Lz4,
    None,
}

/// The largest kernel or module that is accepted, in bytes: a small file can decompress to any size.
const BYTES_MAX: usize = 512 << 20;

/// Memory for xz, in KiB: the kernel's build uses a dictionary of 128 MiB; the rest is overhead.
const DICTIONARY_KIB: u32 = (128 << 10) + 1024;

/// Decompresses a kernel or module; returns an ELF file unchanged. Ignores trailing bytes: the
/// kernel's build appends the uncompressed size.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    decompress_within(bytes, BYTES_MAX)
}

fn decompress_within(bytes: &[u8], largest: usize) -> Result<Vec<u8>> {
    let Some((_, kind)) = MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
        bail!("unknown compression: knee reads xz, zstd, gzip and lz4");
    };
    match kind {
        Compression::Xz => {
            read_within(lzma_rust2::XzReader::new_mem_limit(bytes, false, DICTIONARY_KIB), largest)
        }
        Compression::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes).context("decompressing");
            read_within(decoder?.single_frame(), largest)
        }
        Compression::Gzip => read_within(flate2::bufread::GzDecoder::new(bytes), largest),
        Compression::Lz4 => lz4_blocks(&bytes[4..], largest),
        Compression::None => Ok(bytes.to_vec()),
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
        "decompressing: the result exceeds {} MiB, more than any kernel or module",
        largest >> 20
    );
    Ok(())
}

/// Decompresses blocks of 8 MiB, each preceded by its length: the "legacy" format of lz4(1), which
/// the kernel's build uses. The uncompressed size follows the last block.
fn lz4_blocks(mut bytes: &[u8], largest: usize) -> Result<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let (mut plain, mut room) = (Vec::new(), vec![0; BLOCK]);
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        // A number without a block after it is the uncompressed size.
        if rest.is_empty() {
            break;
        }
        ensure!(length <= rest.len(), "decompressing: the data is cut off");
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

    /// Compresses as xz(1) does, with a small dictionary.
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

    /// Compresses into one block.
    pub fn lz4(plain: &[u8]) -> Vec<u8> {
        let block = lz4_flex::block::compress(plain);
        [&[2, 0x21, 0x4c, 0x18][..], &(block.len() as u32).to_le_bytes(), &block].concat()
    }

    #[test]
    fn compressed_data_is_recognized_by_its_first_bytes_and_trailing_bytes_are_ignored() {
        let plain = b"\x7fELF and so on".repeat(50);
        let lz4 = lz4(&plain);
        assert!(decompress(&lz4[..lz4.len() - 1]).is_err());
        for compressed in [zstd(&plain), gzip(&plain), lz4, xz(&plain), plain.clone()] {
            if compressed != plain {
                let error = decompress_within(&compressed, 100).unwrap_err().to_string();
                assert!(error.contains("exceeds 0 MiB"), "{error}");
            }
            let is_plain = compressed == plain;
            let with_size = [compressed, if is_plain { vec![] } else { vec![9, 0, 0, 0] }].concat();
            assert_eq!(decompress(&with_size).unwrap(), plain);
        }
        let error = decompress(b"LZOP").unwrap_err().to_string();
        assert!(error.contains("xz, zstd, gzip and lz4"), "{error}");
    }
}
