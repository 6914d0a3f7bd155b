//! The one operation behind the pwrite workloads: overwrites a block of a region that
//! is the task's own, in a file of its own or in one that all tasks share.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::mapping::page_bytes;
use crate::stamp::Stamped;
use crate::{Failure, Kind, Load, Need, Parameter, Prepared, Task, files, sys};

/// The parameters of both workloads.
pub(crate) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "write_bytes",
        about: "length of one write",
        default: "4k",
        kind: Kind::Number { min: 1, max: 1 << 30 },
    },
    Parameter {
        name: "size_bytes",
        about: "length of the region that each task overwrites from start to end, again and again",
        default: "4k",
        kind: Kind::Number { min: 1, max: 1 << 40 },
    },
];

/// The needs of both workloads.
pub(crate) const NEEDS: &[Need] = &[
    Need::OpenFiles(1),
    Need::FreeBytes(|load| {
        load.tasks as u64 * load.values.number("size_bytes").next_multiple_of(page_bytes() as u64)
    }),
];

/// Whose file the tasks write.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Whose {
    /// Each task a file of its own.
    Own,
    /// All tasks one file, each its own region of whole pages.
    Shared,
}

/// A workload that writes this file.
pub(crate) fn prepare(load: &Load, whose: Whose) -> Result<Box<dyn Prepared>, Failure> {
    let number = |name| load.values.number(name);
    let (write_bytes, size_bytes) = (number("write_bytes"), number("size_bytes"));
    if write_bytes > size_bytes {
        return Err(Failure::new(format!(
            "write_bytes={write_bytes} does not fit into size_bytes={size_bytes}"
        )));
    }
    let path = |index| match whose {
        Whose::Own => load.task_path(index),
        Whose::Shared => load.directory.join("file"),
    };
    if whose == Whose::Shared {
        files::create(&path(0))?;
    }
    Ok(Box::new(Prepare {
        paths: (0..load.tasks).map(path).collect(),
        whose,
        write_bytes: write_bytes as usize,
        blocks: size_bytes / write_bytes,
        region_bytes: size_bytes.next_multiple_of(page_bytes() as u64),
    }))
}

struct Prepare {
    paths: Vec<PathBuf>,
    whose: Whose,
    write_bytes: usize,
    /// Blocks in a region.
    blocks: u64,
    /// From the start of one region to that of the next.
    region_bytes: u64,
}

impl Prepared for Prepare {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        let (file, start) = match self.whose {
            Whose::Own => (files::create(path)?, 0),
            Whose::Shared => (files::open(path)?, index as u64 * self.region_bytes),
        };
        let block = Stamped::new(self.paths.len(), index, self.write_bytes);
        let blocks = self.blocks;
        let mut writer = Writer { file, block, start, blocks, next: 0, turn: 0 };
        writer.fill()?;
        Ok(Box::new(writer))
    }

    /// The writes of the last task end the shared file.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        if self.whose == Whose::Own {
            return Ok(());
        }
        let path = &self.paths[0];
        let length = std::fs::metadata(path)
            .map_err(|e| Failure::of(format!("looking at {}", path.display()), e))?
            .len();
        let last_region = (self.paths.len() as u64 - 1) * self.region_bytes;
        let expected = last_region + self.blocks * self.write_bytes as u64;
        if length == expected {
            return Ok(());
        }
        Err(Failure::new(format!("{} is {length} bytes long, not {expected}", path.display())))
    }
}

struct Writer {
    file: File,
    block: Stamped,
    /// Where the region starts in the file.
    start: u64,
    blocks: u64,
    /// The next block; `blocks` at the end of a pass.
    next: u64,
    /// Blocks written, those that filled the region included.
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

    /// The last pass over the region is found in it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        let turns = self.blocks + operations;
        for turn in turns - self.blocks.min(MOST_CHECKED)..turns {
            let offset = self.start + turn % self.blocks * self.block.bytes().len() as u64;
            self.block.check(&self.file, offset, turn)?;
        }
        Ok(())
    }
}

impl Writer {
    /// Writes each block once: the operations overwrite, they do not allocate.
    fn fill(&mut self) -> Result<(), Failure> {
        while self.turn < self.blocks {
            self.operate()?;
        }
        Ok(())
    }
}

/// Writes looked for in the file: the last ones, few enough to be read in no time.
const MOST_CHECKED: u64 = 1024;
