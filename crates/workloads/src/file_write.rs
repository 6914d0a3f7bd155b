//! Overwriting blocks of a file.
//!
//! All blocks exist and are in the page cache before the start: an operation copies `write_bytes` there and marks the
//! page dirty. With `file=own` the inode lock is the task's own, so what bends the curve lies below: memory bandwidth
//! when `size_bytes` exceeds the caches, dirty-page counters, and the flusher that writes the pages back.
//!
//! With `file=regions` no two tasks touch the same byte or page, and each has its own file description. Still they take
//! turns on most file systems: a buffered write holds the inode lock exclusively. Operations per second then cannot
//! grow, and the curve shows how far they fall. With `file=same` they also write the same page. `cache=direct` writes to
//! the device, where some file systems (ext4, XFS) take that lock for reading only. `sync` makes every write wait for the
//! device; on journalling file systems tasks then wait for the same commits.

use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::file_region::{self, Addressing, Layout, Region};
use crate::files::{self, FileSharing};
use crate::stamp::{STAMP_BYTES, Stamped};
use crate::{
    CacheLine, Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Shared, Spec,
    Task, sys,
};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &["pwrite1", "pwrite_own"],
    family: Family::Files,
    operation: "one write over the next block, with the lseek that `how` needs, synced as `sync` says",
    forms: Forms::Both,
    parameters: &[
        file_region::FILE,
        Parameter {
            name: "how",
            about: "pwrite: at an offset; write: at the file's position; seek_write: lseek, then write",
            default: "pwrite",
            kind: ParameterKind::Choice(&["pwrite", "write", "seek_write"]),
        },
        file_region::CACHE,
        WRITE_BYTES,
        Parameter {
            name: "size_bytes",
            about: "length of the region that is overwritten repeatedly, from start to end",
            default: "4k",
            kind: ParameterKind::Number { min: 1, max: 1 << 40 },
        },
        SYNC,
    ],
    needs: &[Need::OpenFiles(1), file_region::FREE_BYTES, file_region::DIRECT_NEED],
    prepare,
};

/// The length of one write call.
pub(crate) const WRITE_BYTES: Parameter = Parameter {
    name: "write_bytes",
    about: "length of one write",
    default: "4k",
    kind: ParameterKind::Number { min: 1, max: 1 << 30 },
};

/// What each write waits for.
pub(crate) const SYNC: Parameter = Parameter {
    name: "sync",
    about: "none, or fdatasync or fsync after each write",
    default: "none",
    kind: ParameterKind::Choice(&["none", "fdatasync", "fsync"]),
};

/// What a write is followed by (parameter `sync`).
#[derive(Clone, Copy)]
pub(crate) enum Sync {
    Nothing,
    Data,
    All,
}

impl Sync {
    pub(crate) fn from_load(load: &Load) -> Sync {
        match load.values.choice(SYNC.name) {
            "none" => Sync::Nothing,
            "fdatasync" => Sync::Data,
            _ => Sync::All,
        }
    }

    /// Syncs an open file.
    #[inline(always)]
    pub(crate) fn run(self, file: &std::fs::File) -> Result<(), Failure> {
        let file = file.as_raw_fd();
        match self {
            Sync::Nothing => Ok(()),
            // SAFETY: the file is open.
            Sync::Data => sys("fdatasync of the file", unsafe { libc::fdatasync(file) }).map(drop),
            // SAFETY: the file is open.
            Sync::All => sys("fsync of the file", unsafe { libc::fsync(file) }).map(drop),
        }
    }
}

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let addressing = match load.values.choice("how") {
        "pwrite" => Addressing::Offset,
        "write" => Addressing::Position,
        _ => Addressing::Seek,
    };
    let layout = Layout::new(load, WRITE_BYTES.name, addressing)?;
    if layout.all_use_one() && layout.blocks.bytes < STAMP_BYTES as u64 {
        return Err(Failure::new(format!(
            "{}={}: with file=same it must be {STAMP_BYTES} or more, to tell whose write is in the file",
            WRITE_BYTES.name, layout.blocks.bytes
        )));
    }
    // SAFETY: atomics of zero bytes are 0.
    let turns = unsafe { Shared::zeroed(load.tasks)? };
    Ok(Box::new(Setup { layout, sync: Sync::from_load(load), turns }))
}

struct Setup {
    layout: Layout,
    sync: Sync,
    /// How many blocks each task has written; stored when it verifies.
    turns: Shared<CacheLine<AtomicU64>>,
}

impl Prepared for Setup {
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let layout = &self.layout;
        let mut block = Stamped::new(layout.paths.len(), index, layout.blocks.bytes as usize);
        let region = layout.open(index, |region| fill(region, &mut block))?;
        let turn = region.blocks.count;
        Ok(Box::new(Writer { setup: self, index, region, block, turn }))
    }

    /// The shared file ends with the region of the last task, and a region that all write holds what one of them wrote.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        let layout = &self.layout;
        if layout.sharing == FileSharing::Own {
            return Ok(());
        }
        let path = &layout.paths[0];
        let length = files::length(path)?;
        let last_region = (layout.paths.len() as u64 - 1) * layout.region_bytes;
        let expected = last_region + layout.blocks.count * layout.blocks.bytes;
        if length != expected {
            return Err(Failure::new(format!("{} is {length} bytes long, not {expected}", path.display())));
        }
        if layout.all_use_one() { self.check_shared_blocks() } else { Ok(()) }
    }
}

impl Setup {
    /// Each block holds what some task wrote to it.
    fn check_shared_blocks(&self) -> Result<(), Failure> {
        /// Few enough to be read in no time.
        const BLOCKS_MAX: u64 = 1024;
        let (blocks, tasks) = (self.layout.blocks, self.turns.len() as u64);
        let file = files::open(&self.layout.paths[0])?;
        for number in 0..blocks.count.min(BLOCKS_MAX) {
            let mut stamp = [0; STAMP_BYTES];
            file.read_exact_at(&mut stamp, number * blocks.bytes)
                .map_err(|e| Failure::from_error("reading back what was written", e))?;
            let stamp = u64::from_le_bytes(stamp);
            let (task, turn) = (stamp % tasks, stamp / tasks);
            if turn >= self.turns[task as usize].load(Relaxed) || turn % blocks.count != number {
                return Err(Failure::new(format!("block {number} holds what no task wrote there")));
            }
        }
        Ok(())
    }
}

/// Writes each block once, so that operations overwrite and do not allocate.
pub(crate) fn fill(region: &Region, block: &mut Stamped) -> Result<(), Failure> {
    for turn in 0..region.blocks.count {
        block.stamp(turn);
        let written = region.file.write_all_at(block.bytes(), region.start + turn * region.blocks.bytes);
        written.map_err(|e| Failure::from_error("writing the file to overwrite", e))?;
    }
    Ok(())
}

struct Writer<'a> {
    setup: &'a Setup,
    index: usize,
    region: Region,
    block: Stamped,
    /// Number of blocks written, including those that filled the region.
    turn: u64,
}

impl Task for Writer<'_> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        self.block.stamp(self.turn);
        let offset = self.region.next_offset()?;
        let (file, block) = (self.region.file.as_raw_fd(), self.block.bytes());
        let (start, length) = (block.as_ptr().cast(), block.len());
        // SAFETY: the file is open and `block` live.
        let written = sys("writing a block of the file", unsafe {
            match offset {
                Some(offset) => libc::pwrite(file, start, length, offset),
                None => libc::write(file, start, length),
            }
        })?;
        self.block.all_written(written)?;
        self.setup.sync.run(&self.region.file)?;
        self.turn += 1;
        Ok(())
    }

    /// The region holds the last pass over it.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        self.setup.turns[self.index].store(self.turn, Relaxed);
        let count = self.region.blocks.count;
        if self.turn != count + operations {
            return Err(Failure::new(format!("{operations} writes counted, but {} done", self.turn - count)));
        }
        if self.setup.layout.all_use_one() {
            return Ok(());
        }
        self.region.use_page_cache()?;
        self.block.check_last(&self.region.file, self.region.start, count, operations..self.turn)
    }
}
