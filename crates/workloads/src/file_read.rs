//! The one operation behind the pread workloads: read a block of a file that was written before, from the page
//! cache. The file is the task's own, or one that all tasks share.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::files::{self, FileSharing, Pieces};
use crate::mapping::page_bytes;
use crate::{Failure, Load, Need, Parameter, ParameterKind, Prepared, Task, sys};

/// The length of one read call.
const READ_BYTES: Parameter = Parameter {
    name: "read_bytes",
    about: "length of one read",
    default: "4k",
    kind: ParameterKind::Number { min: STAMP_BYTES as u64, max: 1 << 30 },
};

/// The length of what is read again and again.
const SIZE_BYTES: Parameter = Parameter {
    name: "size_bytes",
    about: "length of the region that is read repeatedly, from start to end",
    default: "4k",
    kind: ParameterKind::Number { min: STAMP_BYTES as u64, max: 1 << 40 },
};

/// The parameters of the pread workload with a file for each task.
pub(crate) const PARAMETERS: &[Parameter] = &[READ_BYTES, SIZE_BYTES];

/// The parameters of the pread workload with a shared file.
pub(crate) const PARAMETERS_OF_SHARED: &[Parameter] = &[
    READ_BYTES,
    SIZE_BYTES,
    Parameter {
        name: REGION,
        about: "own: each task reads its own region of the file; same: all tasks read one",
        default: "own",
        kind: ParameterKind::Choice(&["own", "same"]),
    },
];

const REGION: &str = "region";

/// The needs of the pread workloads.
pub(crate) const NEEDS: &[Need] =
    &[Need::OpenFiles(1), Need::FreeBytes(|load| load.tasks as u64 * region_bytes(load))];

/// Each block starts with its number, so that a sum of what was read says which blocks they were.
const STAMP_BYTES: usize = size_of::<u64>();

/// Regions have whole pages, so that no two tasks read one page.
fn region_bytes(load: &Load) -> u64 {
    load.values.number(SIZE_BYTES.name).next_multiple_of(page_bytes() as u64)
}

/// Prepares a pread workload.
pub(crate) fn prepare(load: &Load, sharing: FileSharing) -> Result<Box<dyn Prepared>, Failure> {
    let region_bytes = match sharing {
        FileSharing::Shared if load.values.choice(REGION) == "same" => 0,
        _ => region_bytes(load),
    };
    Ok(Box::new(Setup {
        paths: files::task_files(load, sharing)?,
        sharing,
        blocks: Pieces::new(load, READ_BYTES.name)?,
        region_bytes,
    }))
}

struct Setup {
    paths: Vec<PathBuf>,
    sharing: FileSharing,
    blocks: Pieces,
    /// From the start of one task's region to that of the next; 0 if all tasks read one.
    region_bytes: u64,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let (file, start) = match self.sharing {
            FileSharing::Own => (files::create(path)?, 0),
            FileSharing::Shared => (files::open(path)?, index as u64 * self.region_bytes),
        };
        let mut block = vec![0; self.blocks.bytes as usize];
        for number in 0..self.blocks.count {
            block[..STAMP_BYTES].copy_from_slice(&stamp(start, number).to_ne_bytes());
            let written = file.write_all_at(&block, start + number * self.blocks.bytes);
            written.map_err(|e| Failure::from_error("writing the file to read", e))?;
        }
        let blocks = self.blocks.count;
        Ok(Box::new(Reader { file, block, start, blocks, next: 0, sum: 0 }))
    }
}

/// What the block of this number has at its start: its number from 1, and where its region is.
fn stamp(start: u64, number: u64) -> u64 {
    start.wrapping_add(number + 1)
}

struct Reader {
    file: File,
    block: Vec<u8>,
    /// Offset of the region in the file.
    start: u64,
    /// Number of blocks in the region.
    blocks: u64,
    /// The next block; `blocks` at the end of a pass.
    next: u64,
    /// The sum of the stamps that were read.
    sum: u64,
}

impl Task for Reader {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.blocks {
            self.next = 0;
        }
        let length = self.block.len();
        let offset = self.start + self.next * length as u64;
        // SAFETY: the file is open and `block` live.
        let read = sys("reading a block of the file", unsafe {
            libc::pread(
                self.file.as_raw_fd(),
                self.block.as_mut_ptr().cast(),
                length,
                offset as i64,
            )
        })?;
        if read as usize != length {
            return Err(Failure::new(format!("{read} of {length} bytes were read at {offset}")));
        }
        let (stamp, _) = self.block.split_first_chunk().expect("a block holds a stamp");
        self.sum = self.sum.wrapping_add(u64::from_ne_bytes(*stamp));
        self.next += 1;
        Ok(())
    }

    /// The stamps read are those of whole passes and of a part of one.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let sum_of = |blocks: u64| {
            let numbers = u128::from(blocks) * u128::from(blocks + 1) / 2;
            (numbers as u64).wrapping_add(blocks.wrapping_mul(self.start))
        };
        let (passes, rest) = (operations / self.blocks, operations % self.blocks);
        let expected = passes.wrapping_mul(sum_of(self.blocks)).wrapping_add(sum_of(rest));
        if self.sum == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the blocks that {operations} operations read sum up to {}, not {expected}",
            self.sum
        )))
    }
}
