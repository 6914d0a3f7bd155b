//! Reading blocks of a file.
//!
//! All blocks are written before the start, so with the page cache an operation is a lookup there and a copy. What
//! bends the curve depends on what tasks share. With `file=own` nothing but memory bandwidth, when `size_bytes` exceeds
//! the caches. With `file=regions` the inode: an access time to update, and on some file systems (XFS, tmpfs before
//! Linux 6.6) a lock taken for reading. With `file=same` also the page's reference count, which every read takes and
//! drops: the cost of one cache line that all CPUs write.
//!
//! `how=read` reads on at the file's position, and one lseek for each pass goes back; `how=seek_read` sets the position
//! before each read. Threads whose file table is shared also lock the position. `cache=direct` reads from the device:
//! each operation waits for it, and what tasks share is its queue. (tmpfs accepts O_DIRECT, and has no device.)

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;

use crate::aligned::Aligned;
use crate::file_region::{self, Addressing, Layout, Region};
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pread1"],
    family: Family::Files,
    operation: "one read of the next block, with the lseek that `how` needs",
    forms: Forms::Both,
    parameters: &[
        file_region::FILE,
        Parameter {
            name: "how",
            about: "pread: at an offset; read: at the file's position; seek_read: lseek, then read",
            default: "pread",
            kind: ParameterKind::Choice(&["pread", "read", "seek_read"]),
        },
        file_region::CACHE,
        Parameter {
            name: READ_BYTES,
            about: "length of one read",
            default: "4k",
            kind: ParameterKind::Number { min: STAMP_BYTES as u64, max: 1 << 30 },
        },
        Parameter {
            name: "size_bytes",
            about: "length of the region that is read repeatedly, from start to end",
            default: "4k",
            kind: ParameterKind::Number { min: STAMP_BYTES as u64, max: 1 << 40 },
        },
    ],
    needs: &[Need::OpenFiles(1), file_region::FREE_BYTES, file_region::DIRECT_NEED],
    prepare,
};

const READ_BYTES: &str = "read_bytes";

/// Each block starts with its number, so that a sum of what was read says which blocks they were.
const STAMP_BYTES: usize = size_of::<u64>();

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let addressing = match load.values.choice("how") {
        "pread" => Addressing::Offset,
        "read" => Addressing::Position,
        _ => Addressing::Seek,
    };
    Ok(Box::new(Setup(Layout::new(load, READ_BYTES, addressing)?)))
}

struct Setup(Layout);

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let mut block = Aligned::new(self.0.blocks.bytes as usize, 0);
        let region = self.0.open(index, |region| fill(region, &mut block))?;
        Ok(Box::new(Reader { region, block, sum: 0 }))
    }
}

/// Writes all blocks, each with its stamp.
pub(crate) fn fill(region: &Region, block: &mut Aligned) -> Result<(), Failure> {
    for number in 0..region.blocks.count {
        block[..STAMP_BYTES].copy_from_slice(&stamp(region.start, number).to_ne_bytes());
        let written = region.file.write_all_at(block, region.start + number * region.blocks.bytes);
        written.map_err(|e| Failure::from_error("writing the file to read", e))?;
    }
    Ok(())
}

/// What the block of this number has at its start: its number from 1, and where its region is.
fn stamp(start: u64, number: u64) -> u64 {
    start.wrapping_add(number + 1)
}

/// The stamp at the start of a block that was read.
#[inline(always)]
pub(crate) fn stamp_of(block: &[u8]) -> u64 {
    let (stamp, _) = block.split_first_chunk().expect("a block holds a stamp");
    u64::from_ne_bytes(*stamp)
}

/// Checks the sum of the stamps that were read: they are those of whole passes and of a part of one.
pub(crate) fn check_sum(region: &Region, reads: u64, sum: u64) -> Result<(), Failure> {
    let sum_of = |blocks: u64| {
        let numbers = u128::from(blocks) * u128::from(blocks + 1) / 2;
        (numbers as u64).wrapping_add(blocks.wrapping_mul(region.start))
    };
    let (passes, rest) = (reads / region.blocks.count, reads % region.blocks.count);
    let expected = passes.wrapping_mul(sum_of(region.blocks.count)).wrapping_add(sum_of(rest));
    if sum == expected {
        return Ok(());
    }
    Err(Failure::new(format!("the blocks of {reads} reads sum up to {sum}, not {expected}")))
}

struct Reader {
    region: Region,
    block: Aligned,
    /// The sum of the stamps that were read.
    sum: u64,
}

impl Task for Reader {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        let offset = self.region.next_offset()?;
        let file = self.region.file.as_raw_fd();
        let (start, length) = (self.block.as_mut_ptr().cast(), self.block.len());
        // SAFETY: the file is open and `block` live.
        let read = sys("reading a block of the file", unsafe {
            match offset {
                Some(offset) => libc::pread(file, start, length, offset),
                None => libc::read(file, start, length),
            }
        })?;
        if read as usize != length {
            return Err(Failure::new(format!("{read} of {length} bytes were read")));
        }
        self.sum = self.sum.wrapping_add(stamp_of(&self.block));
        Ok(())
    }

    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        check_sum(&self.region, operations, self.sum)
    }
}
