//! The part of a file that a task reads or writes again and again, block after block, in a file of its own or in one
//! that all tasks share. What the file_read and file_write workloads have in common.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use crate::files::{self, FileSharing, Pieces};
use crate::mapping::page_bytes;
use crate::{Failure, Load, Need, Parameter, ParameterKind, sys};

/// Which file and which part of it a task uses.
pub(crate) const FILE: Parameter = Parameter {
    name: "file",
    about: "own: each task has its own file; regions: all tasks share one file, and each has a region of its own; \
            same: all tasks use one region of one file",
    default: "own",
    kind: ParameterKind::Choice(&["own", "regions", "same"]),
};

/// Whether the page cache is used.
pub(crate) const CACHE: Parameter = Parameter {
    name: "cache",
    about: "page: through the page cache; direct: past it (O_DIRECT), from and to the device",
    default: "page",
    kind: ParameterKind::Choice(&["page", "direct"]),
};

const DIRECT: &str = "direct";

/// Whether a file can be used past the page cache.
pub(crate) const DIRECT_NEED: Need = Need::Where {
    parameter: "cache",
    word: DIRECT,
    need: &Need::Feature("direct IO (O_DIRECT)", |file| {
        set_direct(file, true).map_err(|_| std::io::Error::last_os_error())
    }),
};

/// Open files and free space for the regions.
pub(crate) const FREE_BYTES: Need = Need::FreeBytes(|load| load.tasks as u64 * region_bytes(load));

/// Regions have whole pages, so that no two tasks use one page.
fn region_bytes(load: &Load) -> u64 {
    load.values.number("size_bytes").next_multiple_of(page_bytes() as u64)
}

/// How a call says where in the file it reads or writes.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Addressing {
    /// The call has an offset: pread, pwrite.
    Offset,
    /// The file's position, which each call moves; at the end of a pass one lseek moves it back.
    Position,
    /// The file's position, which an lseek sets before each call.
    Seek,
}

/// The files and regions of all tasks of a run.
pub(crate) struct Layout {
    pub(crate) paths: Vec<PathBuf>,
    pub(crate) sharing: FileSharing,
    /// The blocks of one region.
    pub(crate) blocks: Pieces,
    /// From the start of one task's region to that of the next; 0 if all tasks use one.
    pub(crate) region_bytes: u64,
    addressing: Addressing,
    direct: bool,
}

/// Device blocks have this length or a multiple of it.
const SECTOR_BYTES: u64 = 512;

impl Layout {
    /// The layout that the parameters ask for; `block` is the parameter with the length of a block.
    pub(crate) fn new(load: &Load, block: &str, addressing: Addressing) -> Result<Layout, Failure> {
        let sharing = match load.values.choice(FILE.name) {
            "own" => FileSharing::Own,
            _ => FileSharing::Shared,
        };
        let direct = load.values.choice(CACHE.name) == DIRECT;
        let blocks = Pieces::new(load, block)?;
        if direct && !blocks.bytes.is_multiple_of(SECTOR_BYTES) {
            return Err(Failure::new(format!(
                "{block}={}: with cache=direct it must be a multiple of {SECTOR_BYTES}",
                blocks.bytes
            )));
        }
        Ok(Layout {
            paths: files::task_files(load, sharing)?,
            sharing,
            blocks,
            region_bytes: if load.values.choice(FILE.name) == "same" {
                0
            } else {
                region_bytes(load)
            },
            addressing,
            direct,
        })
    }

    /// Whether all tasks use one region.
    pub(crate) fn all_use_one(&self) -> bool {
        self.region_bytes == 0
    }

    /// Opens the region of task `index`, which `fill` then fills, given the region.
    pub(crate) fn open(
        &self,
        index: usize,
        fill: impl FnOnce(&Region) -> Result<(), Failure>,
    ) -> Result<Region, Failure> {
        let path = &self.paths[index];
        let (file, start) = match self.sharing {
            FileSharing::Own => (files::create(path)?, 0),
            FileSharing::Shared => (files::open(path)?, index as u64 * self.region_bytes),
        };
        let (blocks, addressing) = (self.blocks, self.addressing);
        // Before the first block, the region starts again: so the position is set.
        let region = Region { file, start, blocks, next: blocks.count, addressing };
        fill(&region)?;
        if self.direct {
            let written = region.file.sync_all();
            written.map_err(|e| Failure::from_error("writing the file to the device", e))?;
            set_direct(&region.file, true)?;
        }
        Ok(region)
    }
}

/// One task's region of an open file.
pub(crate) struct Region {
    pub(crate) file: File,
    /// Offset of the region in the file.
    pub(crate) start: u64,
    pub(crate) blocks: Pieces,
    /// The next block; `blocks.count` at the end of a pass.
    next: u64,
    addressing: Addressing,
}

impl Region {
    /// The offset for the next call, after the file's position is where the call needs it: `None` if the call uses
    /// that position.
    #[inline(always)]
    pub(crate) fn next_offset(&mut self) -> Result<Option<i64>, Failure> {
        let wraps = self.next == self.blocks.count;
        if wraps {
            self.next = 0;
        }
        let offset = (self.start + self.next * self.blocks.bytes) as i64;
        self.next += 1;
        match self.addressing {
            Addressing::Offset => return Ok(Some(offset)),
            Addressing::Position if !wraps => {}
            Addressing::Position | Addressing::Seek => {
                // SAFETY: the file is open.
                sys("setting the file's position", unsafe {
                    libc::lseek(self.file.as_raw_fd(), offset, libc::SEEK_SET)
                })?;
            }
        }
        Ok(None)
    }

    /// Uses the page cache from now on: what is read need not be aligned any more.
    pub(crate) fn use_page_cache(&self) -> Result<(), Failure> {
        set_direct(&self.file, false)
    }
}

fn set_direct(file: &File, direct: bool) -> Result<(), Failure> {
    // SAFETY: the file is open.
    let flags = sys("F_GETFL", unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETFL) })?;
    let flags = if direct { flags | libc::O_DIRECT } else { flags & !libc::O_DIRECT };
    // SAFETY: the file is open.
    sys("choosing direct IO", unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) })
        .map(drop)
}
