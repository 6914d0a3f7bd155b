//! Compressed kernels and modules, told apart by how they begin.

use std::io::Read;

use anyhow::{Context, Result, bail};

/// What is compressed how: the first bytes, and the name.
const KINDS: [(&[u8], Kind); 4] = [
    (b"\xfd7zXZ\0", Kind::Xz),
    (b"\x28\xb5\x2f\xfd", Kind::Zstd),
    (b"\x1f\x8b\x08", Kind::Gzip),
    (b"\x7fELF", Kind::Not),
];

#[derive(Clone, Copy)]
enum Kind {
    Xz,
    Zstd,
    Gzip,
    Not,
}

/// What was compressed, or the bytes themselves if they are an ELF file. What follows the
/// compressed data is passed over: the kernel's build appends its size.
pub fn decompress(bytes: &[u8]) -> Result<Vec<u8>> {
    let Some((_, kind)) = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)) else {
        bail!("compressed in a way that is not known here (known: xz, zstd, gzip)");
    };
    let mut plain = Vec::with_capacity(4 * bytes.len());
    match kind {
        Kind::Xz => lzma_rust2::XzReader::new(bytes, false).read_to_end(&mut plain),
        Kind::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(bytes).map(|d| d.single_frame());
            decoder.and_then(|mut decoder| decoder.read_to_end(&mut plain))
        }
        Kind::Gzip => flate2::bufread::GzDecoder::new(bytes).read_to_end(&mut plain),
        Kind::Not => return Ok(bytes.to_vec()),
    }
    .context("decompressing")?;
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
        for compressed in [zstd, gzip.finish().unwrap(), plain.clone()] {
            let is_plain = compressed == plain;
            let with_size = [compressed, if is_plain { vec![] } else { vec![9, 0, 0, 0] }].concat();
            assert_eq!(decompress(&with_size).unwrap(), plain);
        }
        let error = decompress(b"LZOP").unwrap_err().to_string();
        assert!(error.contains("known: xz, zstd, gzip"), "{error}");
    }
}
