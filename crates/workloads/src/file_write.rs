//! The one operation behind the pwrite workloads: overwrite a block of the task's own
//! region, in a file of its own or in one that all tasks share.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::files::{self, FileSharing, Pieces};
use crate::mapping::page_bytes;
use crate::stamp::Stamped;
use crate::{Failure, Load, Need, Parameter, ParameterKind, Prepared, Task, sys};

/// The length of one write call.
pub(crate) const WRITE_BYTES: Parameter = Parameter {
    name: "write_bytes",
    about: "length of one write",
    default: "4k",
    kind: ParameterKind::Number { min: 1, max: 1 << 30 },
};

/// The parameters of the pwrite workloads.
pub(crate) const PARAMETERS: &[Parameter] = &[
    WRITE_BYTES,
    Parameter {
        name: "size_bytes",
        about: "length of the region that each task overwrites repeatedly, from start to end",
        default: "4k",
        kind: ParameterKind::Number { min: 1, max: 1 << 40 },
    },
];

/// The needs of the pwrite workloads.
pub(crate) const NEEDS: &[Need] = &[
    Need::OpenFiles(1),
    Need::FreeBytes(|load| {
        load.tasks as u64 * load.values.number("size_bytes").next_multiple_of(page_bytes() as u64)
    }),
];

/// Prepares a pwrite workload. In a shared file, each task has its own region of whole pages.
pub(crate) fn prepare(load: &Load, sharing: FileSharing) -> Result<Box<dyn Prepared>, Failure> {
    let blocks = Pieces::new(load, WRITE_BYTES.name)?;
    Ok(Box::new(Setup {
        paths: files::task_files(load, sharing)?,
        sharing,
        blocks,
        region_bytes: load.values.number("size_bytes").next_multiple_of(page_bytes() as u64),
    }))
}

struct Setup {
    paths: Vec<PathBuf>,
    sharing: FileSharing,
    /// The blocks of one region.
    blocks: Pieces,
    /// From the start of one region to the start of the next.
    region_bytes: u64,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let (file, start) = match self.sharing {
            FileSharing::Own => (files::create(path)?, 0),
            FileSharing::Shared => (files::open(path)?, index as u64 * self.region_bytes),
        };
        let block = Stamped::new(self.paths.len(), index, self.blocks.bytes as usize);
        let blocks = self.blocks.count;
        let mut writer = Writer { file, block, start, blocks, next: 0, turn: 0 };
        writer.fill()?;
        Ok(Box::new(writer))
    }

    /// The shared file ends with the region of the last task.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        if self.sharing == FileSharing::Own {
            return Ok(());
        }
        let path = &self.paths[0];
        let length = files::length(path)?;
        let last_region = (self.paths.len() as u64 - 1) * self.region_bytes;
        let expected = last_region + self.blocks.count * self.blocks.bytes;
        if length == expected {
            return Ok(());
        }
        Err(Failure::new(format!("{} is {length} bytes long, not {expected}", path.display())))
    }
}

struct Writer {
    file: File,
    block: Stamped,
    /// Offset of the region in the file.
    start: u64,
    /// Number of blocks in the region.
    blocks: u64,
    /// The next block; `blocks` at the end of a pass.
    next: u64,
    /// Number of blocks written, including those that filled the region.
    turn: u64,
}

impl Task for Writer {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.next == self.blocks {
            self.next = 0;
        }
        self.block.stamp(self.turn);
        let block = self.block.bytes();
        let offset = self.start + self.next * block.len() as u64;
        // SAFETY: the file is open and `block` live.
        let written = sys("writing a block of the file", unsafe {
            libc::pwrite(self.file.as_raw_fd(), block.as_ptr().cast(), block.len(), offset as i64)
        })?;
        self.block.all_written(written)?;
        self.next += 1;
        self.turn += 1;
        Ok(())
    }

    /// The region holds the last pass over it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let turns = self.blocks + operations;
        self.block.check_last(&self.file, self.start, self.blocks, operations..turns)
    }
}

impl Writer {
    /// Writes each block once, so that operations overwrite and do not allocate.
    fn fill(&mut self) -> Result<(), Failure> {
        while self.turn < self.blocks {
            self.operate()?;
        }
        Ok(())
    }
}
