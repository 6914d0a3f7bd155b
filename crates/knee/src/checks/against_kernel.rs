//! File locks against the running kernel: the same random calls to both, on a file, and the
//! same answers expected of both, call by call.
//!
//! Owners are this process (POSIX locks, which go with any close of the file) and several open
//! files, with POSIX ranges (open file description locks) and with flock. No call waits, so
//! nothing is said of deadlocks, which only several processes could make.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};

use algorithms::locks::ticket::Ticket;
use algorithms::mechanisms::file_locks::{
    Design, FileLocks, Kind, Owner, Range, Refused, TO_THE_END,
};
use anyhow::{Context, Result, bail};
use machine::{Native, Region};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Open files.
const FILES: usize = 4;

/// Bytes that locks end and begin at; one more ends at the end of all files.
const BYTES: u64 = 24;

/// Records for all that the owners could ever hold at once.
const RECORDS: usize = 512;

/// What was compared.
#[derive(Default)]
pub struct Compared {
    pub calls: u64,
    pub granted: u64,
    pub refused: u64,
    pub asked: u64,
}

/// Does so many calls with both; fails at the first difference, which it names.
pub fn compare(calls: u64, design: Design, seed: u64) -> Result<Compared> {
    let region = Region::new(256 << 10).context("mapping memory for file locks")?;
    let mut both = Both {
        ours: FileLocks::new(&region, 1, 1, RECORDS, design),
        m: Native::new(0, 0),
        kernel: Kernel::open()?,
        random: Xoshiro256PlusPlus::seed_from_u64(seed),
    };
    let mut compared = Compared { calls: 0, granted: 0, refused: 0, asked: 0 };
    while compared.calls < calls {
        both.call(&mut compared)
            .with_context(|| format!("call {} of seed {seed}", compared.calls + 1))?;
        compared.calls += 1;
    }
    both.end(&mut compared)?;
    Ok(compared)
}

struct Both {
    ours: FileLocks<Ticket>,
    m: Native,
    kernel: Kernel,
    random: Xoshiro256PlusPlus,
}

impl Both {
    fn call(&mut self, compared: &mut Compared) -> Result<()> {
        let owner = self.owner();
        match self.random.random_range(0..100_u32) {
            0..70 => self.set(owner, compared),
            70..97 => self.get(owner, compared),
            _ => self.close(owner),
        }
    }

    fn owner(&mut self) -> Owner {
        let file = self.random.random_range(0..FILES) as u32;
        match self.random.random_range(0..5_u32) {
            0 => Owner::Process(0),
            1 => Owner::Flock(file),
            _ => Owner::OpenFile(file),
        }
    }

    fn range(&mut self, owner: Owner) -> Range {
        let kinds = [Kind::Read, Kind::Write, Kind::Unlock];
        let kind = kinds[self.random.random_range(0..3_usize)];
        let start = self.random.random_range(0..BYTES);
        let (start, end) = match (owner, self.random.random_range(0..12_u32)) {
            (Owner::Flock(_), _) => (0, TO_THE_END),
            (_, 0) => (0, TO_THE_END),
            (_, 1) => (start, TO_THE_END),
            _ => (start, start + self.random.random_range(0..BYTES / 2)),
        };
        Range { owner, kind, start, end }
    }

    fn set(&mut self, owner: Owner, compared: &mut Compared) -> Result<()> {
        let range = self.range(owner);
        let ours = self.ours.try_set(&self.m, 0, range);
        let kernel = self.kernel.set(range)?;
        if ours.is_ok() {
            compared.granted += 1
        } else {
            compared.refused += 1
        }
        if ours != kernel {
            bail!("{range:?}: ours {ours:?}, the kernel's {kernel:?}");
        }
        Ok(())
    }

    fn get(&mut self, owner: Owner, compared: &mut Compared) -> Result<()> {
        let mut range = self.range(owner);
        // flock has no such call, and nobody can ask who unlocks.
        if let Owner::Flock(file) = owner {
            range.owner = Owner::OpenFile(file);
        }
        if range.kind == Kind::Unlock {
            range.kind = Kind::Write;
        }
        compared.asked += 1;
        self.same_answer(range)
    }

    fn same_answer(&self, range: Range) -> Result<()> {
        let ours = self.ours.get(&self.m, 0, range).map(|in_the_way| {
            let process = matches!(in_the_way.owner, Owner::Process(_));
            Answer { kind: in_the_way.kind, start: in_the_way.start, end: in_the_way.end, process }
        });
        let kernel = self.kernel.get(range)?;
        if ours != kernel {
            bail!("who is in the way of {range:?}: ours {ours:?}, the kernel's {kernel:?}");
        }
        Ok(())
    }

    /// An open file is closed and opened again: its locks go, and those of this process too.
    fn close(&mut self, owner: Owner) -> Result<()> {
        let file = match owner {
            Owner::Process(_) => 0,
            Owner::OpenFile(file) | Owner::Flock(file) => file,
        };
        for owner in [Owner::OpenFile(file), Owner::Flock(file), Owner::Process(0)] {
            self.ours.close(&self.m, 0, owner);
        }
        self.kernel.reopen(file as usize)
    }

    /// The final table: every byte is asked for, by a stranger, to read and to write.
    fn end(&mut self, compared: &mut Compared) -> Result<()> {
        self.kernel.open_another()?;
        let stranger = Owner::OpenFile(FILES as u32);
        for byte in (0..2 * BYTES).chain([TO_THE_END]) {
            for kind in [Kind::Read, Kind::Write] {
                let range = Range { owner: stranger, kind, start: byte, end: byte };
                self.same_answer(range).context("the final table")?;
                compared.asked += 1;
            }
        }
        Ok(())
    }
}

/// What is in the way, as far as the kernel tells.
#[derive(Debug, PartialEq)]
struct Answer {
    kind: Kind,
    start: u64,
    end: u64,
    /// Of a process, or of an open file.
    process: bool,
}

struct Kernel {
    /// A file in memory, without a name: nothing can stay behind.
    locked: File,
    files: Vec<File>,
}

impl Kernel {
    fn open() -> Result<Kernel> {
        // SAFETY: the name is a string with its end.
        let descriptor = unsafe { libc::memfd_create(c"locked".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error()).context("making a file in memory");
        }
        // SAFETY: a descriptor that is open and nobody else's.
        let locked = unsafe { File::from_raw_fd(descriptor) };
        let mut kernel = Kernel { locked, files: Vec::new() };
        for _ in 0..FILES {
            kernel.open_another()?;
        }
        Ok(kernel)
    }

    fn open_another(&mut self) -> Result<()> {
        let path = format!("/proc/self/fd/{}", self.locked.as_raw_fd());
        let file = File::options().read(true).write(true).open(path);
        self.files.push(file.context("opening the file to lock once more")?);
        Ok(())
    }

    fn reopen(&mut self, file: usize) -> Result<()> {
        self.open_another()?;
        drop(self.files.swap_remove(file));
        Ok(())
    }

    fn set(&self, range: Range) -> Result<Result<(), Refused>> {
        let answer = match range.owner {
            Owner::Flock(file) => {
                let command = match range.kind {
                    Kind::Read => libc::LOCK_SH,
                    Kind::Write => libc::LOCK_EX,
                    Kind::Unlock => libc::LOCK_UN,
                };
                let file = self.files[file as usize].as_raw_fd();
                // SAFETY: the descriptor is open.
                unsafe { libc::flock(file, command | libc::LOCK_NB) }
            }
            Owner::Process(_) => self.fcntl(libc::F_SETLK, &mut flock_of(range), range.owner),
            Owner::OpenFile(_) => self.fcntl(libc::F_OFD_SETLK, &mut flock_of(range), range.owner),
        };
        if answer == 0 {
            return Ok(Ok(()));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EAGAIN | libc::EACCES) => Ok(Err(Refused::Again)),
            Some(libc::ENOLCK) => Ok(Err(Refused::NoRecords)),
            _ => Err(error).with_context(|| format!("locking {range:?}")),
        }
    }

    fn get(&self, range: Range) -> Result<Option<Answer>> {
        let mut lock = flock_of(range);
        let command = match range.owner {
            Owner::Process(_) => libc::F_GETLK,
            _ => libc::F_OFD_GETLK,
        };
        if self.fcntl(command, &mut lock, range.owner) != 0 {
            return Err(io::Error::last_os_error()).context("asking who is in the way");
        }
        let kind = match i32::from(lock.l_type) {
            libc::F_UNLCK => return Ok(None),
            libc::F_RDLCK => Kind::Read,
            _ => Kind::Write,
        };
        let start = lock.l_start as u64;
        let end = if lock.l_len == 0 { TO_THE_END } else { start + lock.l_len as u64 - 1 };
        Ok(Some(Answer { kind, start, end, process: lock.l_pid != -1 }))
    }

    fn fcntl(&self, command: libc::c_int, lock: &mut libc::flock, owner: Owner) -> libc::c_int {
        let file = match owner {
            Owner::Process(_) => 0,
            Owner::OpenFile(file) | Owner::Flock(file) => file as usize,
        };
        // SAFETY: the descriptor is open, the lock live.
        unsafe { libc::fcntl(self.files[file].as_raw_fd(), command, lock) }
    }
}

fn flock_of(range: Range) -> libc::flock {
    // SAFETY: plain data, valid when zero; the process must be 0 for open files.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = match range.kind {
        Kind::Read => libc::F_RDLCK,
        Kind::Write => libc::F_WRLCK,
        Kind::Unlock => libc::F_UNLCK,
    } as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = range.start as libc::off_t;
    lock.l_len = if range.end == TO_THE_END { 0 } else { (range.end - range.start + 1) as _ };
    lock
}
