//! Limits of what a file of samples may declare. Few kilobytes of Parquet can stand for any number of rows, and pages
//! that are unpacked into gigabytes: what is declared is added up before anything is unpacked.

use std::fs::File;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result, ensure};
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

/// Rows in all.
const ROWS_MAX: i64 = 1 << 26;
/// Rows for each byte of the file: equal rows take next to nothing, but pages have heads.
const ROWS_PER_BYTE_MAX: i64 = 1000;
/// Rows in a row group, as [`crate::samples`] writes them.
pub const GROUP_ROWS: usize = 1 << 20;
/// Bytes of one column of a row group, packed or not.
const CHUNK_BYTES_MAX: i64 = 256 << 20;
/// Values of a type that is nested in others, as nothing is in a head of a page.
const DEPTH_MAX: usize = 8;

/// Refuses a file that declares more than samples of runs can be.
pub fn check(file: &File, metadata: &ParquetMetaData) -> Result<()> {
    let bytes = i64::try_from(file.metadata().context("its length")?.len()).unwrap_or(i64::MAX);
    let mut rows: i64 = 0;
    for group in metadata.row_groups() {
        ensure!(
            (0..=GROUP_ROWS as i64).contains(&group.num_rows()),
            "a group of {} rows, more than the {GROUP_ROWS} that knee writes",
            group.num_rows()
        );
        rows += group.num_rows();
        group.columns().iter().try_for_each(|chunk| check_chunk(file, bytes, chunk))?;
    }
    let most = ROWS_MAX.min(bytes.saturating_mul(ROWS_PER_BYTE_MAX));
    ensure!(
        rows <= most,
        "it declares {rows} rows, more than the {most} that its {bytes} bytes may be"
    );
    Ok(())
}

fn check_chunk(file: &File, bytes: i64, chunk: &ColumnChunkMetaData) -> Result<()> {
    let (start, length) = (chunk.dictionary_page_offset(), chunk.compressed_size());
    let start = start.unwrap_or(chunk.data_page_offset()).min(chunk.data_page_offset());
    ensure!(
        start >= 0 && (0..=CHUNK_BYTES_MAX.min(bytes)).contains(&length) && start <= bytes - length,
        "a column of {length} bytes at byte {start} of {bytes}"
    );
    let mut pages = vec![0; length as usize];
    file.read_exact_at(&mut pages, start as u64).context("its pages")?;
    let mut rest = Bytes(&pages);
    let mut unpacked: i64 = 0;
    while !rest.0.is_empty() {
        let head = rest.page_head().context("the head of a page")?;
        unpacked = unpacked.saturating_add(head.unpacked);
        ensure!(
            head.unpacked >= 0 && unpacked <= CHUNK_BYTES_MAX,
            "pages of a column unpack into more than {} MiB",
            CHUNK_BYTES_MAX >> 20
        );
        ensure!(
            (0..=GROUP_ROWS as i64).contains(&head.values),
            "a page of {} values, in a group of at most {GROUP_ROWS}",
            head.values
        );
        let packed = usize::try_from(head.packed).ok();
        packed
            .and_then(|packed| rest.take(packed))
            .context("a page that ends behind its column")?;
    }
    Ok(())
}

/// What the head of a page declares.
#[derive(Default)]
struct PageHead {
    unpacked: i64,
    packed: i64,
    values: i64,
}

/// Bytes in the compact protocol of Thrift, of which a little suffices for heads of pages. `None`: they are wrong.
struct Bytes<'a>(&'a [u8]);

const TYPE_TRUE: u8 = 1;
const TYPE_FALSE: u8 = 2;
const TYPE_BYTE: u8 = 3;
const TYPES_INTEGER: [u8; 3] = [4, 5, 6];
const TYPE_DOUBLE: u8 = 7;
const TYPE_BINARY: u8 = 8;
const TYPES_LIST: [u8; 2] = [9, 10];
const TYPE_STRUCT: u8 = 12;

impl Bytes<'_> {
    fn page_head(&mut self) -> Option<PageHead> {
        let mut head = PageHead::default();
        let mut id = 0;
        while let Some(kind) = self.field(&mut id)? {
            match id {
                2 => head.unpacked = self.integer()?,
                3 => head.packed = self.integer()?,
                // The heads of a page of values, of a dictionary, and of newer pages begin with their numbers.
                5 | 7 | 8 if kind == TYPE_STRUCT => {
                    let mut inner = 0;
                    while let Some(kind) = self.field(&mut inner)? {
                        match inner {
                            1 => head.values = head.values.max(self.integer()?),
                            _ => self.skip(kind, 0)?,
                        }
                    }
                }
                _ => self.skip(kind, 0)?,
            }
        }
        Some(head)
    }

    fn take(&mut self, count: usize) -> Option<&[u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        Some(self.take(1)?[0])
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn integer(&mut self) -> Option<i64> {
        let coded = self.unsigned()?;
        Some((coded >> 1) as i64 ^ -((coded & 1) as i64))
    }

    /// The type of the next field, whose number is put into `id`; nothing inside at the end of a structure.
    fn field(&mut self, id: &mut i64) -> Option<Option<u8>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *id = match byte >> 4 {
            0 => self.integer()?,
            more => *id + i64::from(more),
        };
        Some(Some(byte & 0x0f))
    }

    fn skip(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            _ if depth > DEPTH_MAX => return None,
            TYPE_TRUE | TYPE_FALSE => (),
            TYPE_BYTE => drop(self.byte()?),
            TYPE_DOUBLE => drop(self.take(8)?),
            TYPE_BINARY => {
                let length = usize::try_from(self.unsigned()?).ok()?;
                self.take(length)?;
            }
            TYPE_STRUCT => {
                let mut id = 0;
                while let Some(kind) = self.field(&mut id)? {
                    self.skip(kind, depth + 1)?;
                }
            }
            kind if TYPES_INTEGER.contains(&kind) => drop(self.unsigned()?),
            kind if TYPES_LIST.contains(&kind) => {
                let head = self.byte()?;
                let count = if head >> 4 == 15 { self.unsigned()? } else { u64::from(head >> 4) };
                for _ in 0..count {
                    match head & 0x0f {
                        TYPE_TRUE | TYPE_FALSE => drop(self.byte()?),
                        kind => self.skip(kind, depth + 1)?,
                    }
                }
            }
            _ => return None,
        }
        Some(())
    }
}
