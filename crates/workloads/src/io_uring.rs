//! Reads and writes of a file through an io_uring of the task's own.
//!
//! One operation puts `depth` requests into the ring, submits them by one io_uring_enter and waits for all of them. From
//! the page cache, reads complete within that call, so a large `depth` shows what the kernel spends for one request
//! without the system call; multiply the rate by `depth` to get requests. With `cache=direct` the requests are at the device
//! at the same time. `request=nop` asks for nothing: what is left is the ring. Tasks share the file's inode with
//! `file=regions`, and what the block layer shares.

use std::os::fd::AsRawFd;

use ::io_uring::{IoUring, opcode, squeue, types};

use crate::aligned::Aligned;
use crate::file_region::{self, Addressing, Layout, Region};
use crate::stamp::Stamped;
use crate::{
    Failure, Family, Forms, Load, Need, Parameter, ParameterKind, Prepared, Spec, Task, each_task,
};
use crate::{file_read, file_write};

pub(crate) static SPEC: Spec = Spec {
    semantics: 1,
    aliases: &[],
    family: Family::Files,
    operation: "`depth` requests submitted and completed by one io_uring_enter",
    forms: Forms::Both,
    parameters: &[
        Parameter {
            name: "request",
            about: "read or write the next block of the task's region, or nop",
            default: "read",
            kind: ParameterKind::Choice(&["read", "write", "nop"]),
        },
        Parameter {
            name: "depth",
            about: "requests that are submitted together",
            default: "1",
            kind: ParameterKind::Number { min: 1, max: 4096 },
        },
        Parameter {
            about: "own: each task has its own file; regions: all tasks share one file, and each has a region of its own",
            kind: ParameterKind::Choice(&["own", "regions"]),
            ..file_region::FILE
        },
        file_region::CACHE,
        Parameter {
            name: BLOCK_BYTES,
            about: "length of one read or write",
            default: "4k",
            kind: ParameterKind::Number { min: 8, max: 1 << 30 },
        },
        Parameter {
            name: "size_bytes",
            about: "length of each task's region, used from start to end; at least `depth` blocks",
            default: "64k",
            kind: ParameterKind::Number { min: 8, max: 1 << 40 },
        },
    ],
    needs: &[
        Need::Kernel("io_uring (Linux 5.6, and /proc/sys/kernel/io_uring_disabled)", || {
            IoUring::new(1).map(drop)
        }),
        Need::OpenFiles(2),
        file_region::FREE_BYTES,
        file_region::DIRECT_NEED,
    ],
    prepare,
};

const BLOCK_BYTES: &str = "block_bytes";

#[derive(Clone, Copy, PartialEq)]
enum Request {
    Read,
    Write,
    Nop,
}

fn prepare(load: &Load) -> Result<Box<dyn Prepared>, Failure> {
    let request = match load.values.choice("request") {
        "read" => Request::Read,
        "write" => Request::Write,
        _ => Request::Nop,
    };
    let layout = Layout::new(load, BLOCK_BYTES, Addressing::Offset)?;
    let depth = load.values.number("depth");
    if layout.blocks.count < depth {
        return Err(Failure::new(format!(
            "depth={depth} blocks of {} bytes do not fit into size_bytes={}: requests of one operation would meet",
            layout.blocks.bytes,
            load.values.number("size_bytes")
        )));
    }
    let depth = depth as usize;
    each_task(move |index| {
        let ring = IoUring::new(depth as u32);
        let ring = ring.map_err(|e| Failure::from_error("io_uring_setup", e))?;
        let length = layout.blocks.bytes as usize;
        let tasks = layout.paths.len();
        let mut written = vec![];
        let mut read = vec![];
        let region = match request {
            Request::Write => {
                written.extend((0..depth).map(|_| Stamped::new(tasks, index, length)));
                layout.open(index, |region| file_write::fill(region, &mut written[0]))?
            }
            Request::Read | Request::Nop => {
                read.extend((0..depth).map(|_| Aligned::new(length, 0)));
                layout.open(index, |region| file_read::fill(region, &mut read[0]))?
            }
        };
        let (request, turn) = (request, region.blocks.count);
        Ok(Submitter {
            ring,
            region,
            request,
            read,
            written,
            turn,
            pending: 0,
            completed: 0,
            sum: 0,
        })
    })
}

struct Submitter {
    ring: IoUring,
    region: Region,
    request: Request,
    /// Blocks to read into, one for each request of an operation.
    read: Vec<Aligned>,
    /// Blocks to write, one for each request of an operation.
    written: Vec<Stamped>,
    /// Number of blocks written, including those that filled the region.
    turn: u64,
    /// Requests of the operation in progress that are not completed.
    pending: usize,
    completed: u64,
    /// The sum of the stamps that were read.
    sum: u64,
}

impl Task for Submitter {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        // After a signal, the operation goes on with the requests that are still in the kernel.
        if self.pending == 0 {
            self.push_all()?;
        }
        self.complete()
    }

    /// What was read are the blocks of whole passes, and what was written is in the file. An operation that the end of the
    /// run interrupted has been done too, but is not counted.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        self.finish()?;
        let depth = self.depth() as u64;
        let expected = operations * depth;
        if self.completed != expected && self.completed != expected + depth {
            return Err(Failure::new(format!(
                "{expected} requests counted, but {} completed",
                self.completed
            )));
        }
        match self.request {
            Request::Nop => Ok(()),
            Request::Read => file_read::check_sum(&self.region, self.completed, self.sum),
            Request::Write => {
                self.region.use_page_cache()?;
                let (start, count) = (self.region.start, self.region.blocks.count);
                self.written[0].check_last(
                    &self.region.file,
                    start,
                    count,
                    self.turn - count..self.turn,
                )
            }
        }
    }
}

impl Submitter {
    fn depth(&self) -> usize {
        self.read.len() + self.written.len()
    }

    /// Puts all requests of an operation into the ring.
    #[inline(always)]
    fn push_all(&mut self) -> Result<(), Failure> {
        for slot in 0..self.depth() {
            let entry = self.entry(slot)?;
            // SAFETY: the block of this slot lives as long as the ring, and nothing touches it until it is completed.
            unsafe { self.ring.submission().push(&entry) }
                .map_err(|_| Failure::new("the ring has no room for a request"))?;
            self.pending += 1;
        }
        Ok(())
    }

    #[inline(always)]
    fn entry(&mut self, slot: usize) -> Result<squeue::Entry, Failure> {
        if self.request == Request::Nop {
            return Ok(opcode::Nop::new().build().user_data(slot as u64));
        }
        let offset = self.region.next_offset()?.expect("blocks are addressed by offset") as u64;
        let file = types::Fd(self.region.file.as_raw_fd());
        let entry = if self.request == Request::Read {
            let block = &mut self.read[slot];
            opcode::Read::new(file, block.as_mut_ptr(), block.len() as u32).offset(offset).build()
        } else {
            self.written[slot].stamp(self.turn);
            self.turn += 1;
            let block = self.written[slot].bytes();
            opcode::Write::new(file, block.as_ptr(), block.len() as u32).offset(offset).build()
        };
        Ok(entry.user_data(slot as u64))
    }

    /// Submits what is in the ring and waits until everything is completed.
    #[inline(always)]
    fn complete(&mut self) -> Result<(), Failure> {
        while self.pending > 0 {
            let entered = self.ring.submit_and_wait(self.pending);
            entered.map_err(|e| Failure::from_error("io_uring_enter", e))?;
            self.take_completions()?;
        }
        Ok(())
    }

    #[inline(always)]
    fn take_completions(&mut self) -> Result<(), Failure> {
        let length = if self.request == Request::Nop { 0 } else { self.region.blocks.bytes as i32 };
        for completion in self.ring.completion() {
            self.pending -= 1;
            self.completed += 1;
            if completion.result() != length {
                return Err(unexpected(completion.result(), length));
            }
            if self.request == Request::Read {
                let stamp = file_read::stamp_of(&self.read[completion.user_data() as usize]);
                self.sum = self.sum.wrapping_add(stamp);
            }
        }
        Ok(())
    }

    /// Waits for requests that are still in the kernel, whatever signals come.
    fn finish(&mut self) -> Result<(), Failure> {
        loop {
            match self.complete() {
                Err(failure) if failure.interrupted() => continue,
                result => return result,
            }
        }
    }
}

#[cold]
fn unexpected(result: i32, length: i32) -> Failure {
    match result {
        errno if errno < 0 => {
            Failure::from_error("a request of io_uring", std::io::Error::from_raw_os_error(-errno))
        }
        bytes => Failure::new(format!("a request of {length} bytes transferred {bytes}")),
    }
}

impl Drop for Submitter {
    /// The kernel may still write to the blocks of requests that are not completed.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
