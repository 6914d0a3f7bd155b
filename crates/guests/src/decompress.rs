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

/// What was compressed, or the bytes themselves if they are an ELF file. What follows the
/// compressed data is passed over: the kernel's build appends its size.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    let Some((_, kind)) = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
        bail!("compressed in a way that is not known here (known: xz, zstd, gzip, lz4)");
    };
    let mut plain = Vec::with_capacity(4 * bytes.len());
    match kind {
        Kind::Xz => lzma_rust2::XzReader::new(bytes, false).read_to_end(&mut plain),
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map(|d| d.single_frame());
            decoder.and_then(|mut decoder| decoder.read_to_end(&mut plain))
        }
        Kind::Gzip => flate2::bufread::GzDecoder::new(bytes).read_to_end(&mut plain),
        Kind::Lz4 => return lz4_blocks(&bytes[4..]),
        Kind::Not => return Ok(bytes.to_vec()),
    }
    .context("decompressing")?;
    Ok(plain)
}

/// Blocks of 8 MiB, each after the number of its bytes: the "legacy" format of lz4(1), which the
/// kernel's build uses. The kernel's own size follows the last one.
fn lz4_blocks(mut bytes: &[u8]) -> Result<Vec<u8>> {
    const BLOCK: usize = 8 << 20;
    let mut plain = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<4>() {
        let length = u32::from_le_bytes(*length) as usize;
        // A number with nothing behind it is the size.
        if rest.is_empty() {
            break;
        }
        ensure!(length <= rest.len(), "decompressing: cut off");
        let (block, after) = rest.split_at(length);
        let so_far = plain.len();
        plain.resize(so_far + BLOCK, 0);
        let written = lz4_flex::block::decompress_into(block, &mut plain[so_far..]);
        plain.truncate(so_far + written.context("decompressing")?);
        bytes = after;
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn compressed_data_is_told_by_its_beginning_and_what_follows_is_left() {
        let plain = b"\x7fELF and so on".repeat(50);
        let zstd = zstd::encode_all(plain.as_slice(), 3).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&plain).unwrap();
        let block = lz4_flex::block::compress(&plain);
        let lz4 =
            [&[2, 0x21, 0x4c, 0x18][..], &(block.len() as u32).to_le_bytes(), &block].concat();
        assert!(decompress(&lz4[..lz4.len() - 1]).is_err());
        for compressed in [zstd, gzip.finish().unwrap(), lz4, plain.clone()] {
            let is_plain = compressed == plain;
            let with_size = [compressed, if is_plain { vec![] } else { vec![9, 0, 0, 0] }].concat();
            assert_eq!(decompress(&with_size).unwrap(), plain);
        }
        let error = decompress(b"LZOP").unwrap_err().to_string();
        assert!(error.contains("known: xz, zstd, gzip, lz4"), "{error}");
    }
}
