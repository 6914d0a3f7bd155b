//! The one operation behind all file-lock workloads: take a lock on a file, hold it,
//! release it. The workloads differ in the kind of lock, in whose file it is, and in
//! what it excludes.
//!
//!     wait:  acquire ──(blocks)──> held ──hold_ns──> release
//!     try:   acquire ─┬─ granted > held ──hold_ns──> release
//!                     └─ refused > that was the operation

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::{Failure, Kind, Line, Load, Parameter, Prepared, Shared, Spin, Task, files, sys};

/// Parameters of lock workloads whose lock can be waited for.
pub(crate) const PARAMETERS: &[Parameter] = &[MODE, HOLD];

/// Whether the lock is waited for; see [`Mode`].
pub(crate) const MODE: Parameter = Parameter {
    name: "mode",
    about: "wait: block until granted (F_SETLKW, LOCK_EX); try: one attempt, granted or \
            refused, is the operation (F_SETLK, LOCK_NB)",
    default: "wait",
    kind: Kind::Choice(&["wait", "try"]),
};

/// CPU work while the lock is held.
pub(crate) const HOLD: Parameter = Parameter {
    name: "hold_ns",
    about: "CPU work while the lock is held, in ns; part of the operation",
    default: "0",
    kind: Kind::Number { min: 0, max: 1_000_000_000 },
};

/// Whether a lock is waited for (parameter `mode`).
#[derive(Clone, Copy)]
pub(crate) enum Mode {
    /// Block until granted.
    Wait,
    /// One attempt.
    Try,
}

impl Mode {
    /// What the load asks for.
    pub(crate) fn of(load: &Load) -> Mode {
        if load.values.choice("mode") == "wait" { Mode::Wait } else { Mode::Try }
    }
}

/// One kind of lock on one open file.
pub(crate) trait Locking {
    /// Takes the lock; `false` when it was refused (only without waiting).
    fn acquire(&self) -> Result<bool, Failure>;
    /// Gives it back.
    fn release(&self) -> Result<(), Failure>;
    /// Whether anybody holds it, asked in another way than by taking it as our own.
    fn is_held(&self) -> Result<bool, Failure>;
}

/// Whose file the tasks lock.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Whose {
    /// All tasks lock one file.
    Shared,
    /// Each task locks a file of its own.
    Own,
}

/// What the lock of one task does to the other tasks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Excludes {
    /// At most one task holds it at a time.
    Others,
    /// Others may hold theirs meanwhile, but ours stays ours.
    Nobody,
    /// Others may even take ours away: threads own POSIX locks together, and lose all of
    /// them when one of them closes any descriptor of the file, as a task does at its end.
    NotEvenItself,
}

/// A workload that repeats the lock which `make` opens on a file for a task.
pub(crate) fn prepare<L: Locking + 'static>(
    load: &Load,
    whose: Whose,
    excludes: Excludes,
    make: impl Fn(&Path, usize) -> Result<L, Failure> + Sync + 'static,
) -> Result<Box<dyn Prepared>, Failure> {
    let path = |index| match whose {
        Whose::Shared => load.directory.join("file"),
        Whose::Own => load.task_path(index),
    };
    if whose == Whose::Shared {
        files::create(&path(0))?;
    }
    Ok(Box::new(Locks {
        paths: (0..load.tasks).map(path).collect(),
        alone: load.directory.join("alone"),
        whose,
        excludes,
        hold: load.spin("hold_ns"),
        make,
        // SAFETY: an atomic of zero bytes is 0.
        witness: unsafe { Shared::zeroed(1)? },
    }))
}

struct Locks<F> {
    paths: Vec<PathBuf>,
    /// A file to try the lock on when all tasks are gone.
    alone: PathBuf,
    whose: Whose,
    excludes: Excludes,
    hold: Spin,
    make: F,
    /// Counts turns inside the lock during verification; see [`LockTask::verify`].
    witness: Shared<Line<AtomicU64>>,
}

impl<F> Locks<F> {
    /// How often each of the first tasks takes the lock to verify it: enough to collide,
    /// few enough that the herd of waiters stays small.
    fn witness_turns(&self, index: usize) -> u64 {
        if index < 64 { 50 } else { 0 }
    }
}

impl<L, F> Prepared for Locks<F>
where
    L: Locking + 'static,
    F: Fn(&Path, usize) -> Result<L, Failure> + Sync,
{
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        if self.whose == Whose::Own {
            files::create(path)?;
        }
        Ok(Box::new(LockTask {
            lock: (self.make)(path, index)?,
            hold: self.hold,
            granted: 0,
            whose: self.whose,
            excludes: self.excludes,
            witness: &self.witness[0],
            witness_turns: self.witness_turns(index),
        }))
    }

    /// The lock locks where nobody interferes, and it excluded where it should have.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        files::create(&self.alone)?;
        check_alone((self.make)(&self.alone, 0)?)?;
        if self.excludes != Excludes::Others {
            return Ok(());
        }
        let expected = (0..self.paths.len()).map(|i| self.witness_turns(i)).sum::<u64>();
        let counted = self.witness[0].load(Relaxed);
        if counted == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the lock did not exclude: {expected} turns inside it were counted as {counted}"
        )))
    }
}

fn check_alone(lock: impl Locking) -> Result<(), Failure> {
    until_granted(&lock)?;
    if !lock.is_held()? {
        return Err(Failure::new("the lock was granted but nobody holds it"));
    }
    lock.release()?;
    if lock.is_held()? {
        return Err(Failure::new("the lock was released but is still held"));
    }
    Ok(())
}

/// Takes the lock to verify it. A signal sent to stop the run may arrive this late.
fn until_granted(lock: &impl Locking) -> Result<(), Failure> {
    loop {
        match lock.acquire() {
            Ok(true) => return Ok(()),
            Ok(false) => std::thread::yield_now(),
            Err(failure) if failure.interrupted() => {}
            Err(failure) => return Err(failure),
        }
    }
}

struct LockTask<'a, L> {
    lock: L,
    hold: Spin,
    granted: u64,
    whose: Whose,
    excludes: Excludes,
    witness: &'a AtomicU64,
    witness_turns: u64,
}

impl<L: Locking> Task for LockTask<'_, L> {
    #[inline(always)]
    fn operate(&mut self) -> Result<(), Failure> {
        if self.lock.acquire()? {
            self.hold.run();
            self.lock.release()?;
            self.granted += 1;
        }
        Ok(())
    }

    /// Locks leave nothing behind to count. So, after the measured part, each task takes
    /// its lock some more times, asks whether it is really held, and adds 1 to the shared
    /// witness by a load and a store apart: turns get lost unless the lock excludes.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.excludes != Excludes::Others && self.granted != operations {
            return Err(Failure::new(format!(
                "{operations} operations, but {} locks that nobody can refuse",
                self.granted
            )));
        }
        if self.excludes == Excludes::NotEvenItself {
            return Ok(());
        }
        for _ in 0..self.witness_turns {
            until_granted(&self.lock)?;
            let before = self.witness.load(Relaxed);
            if !self.lock.is_held()? {
                return Err(Failure::new("the lock was granted but nobody holds it"));
            }
            self.witness.store(before + 1, Relaxed);
            self.lock.release()?;
            if self.whose == Whose::Own && self.lock.is_held()? {
                return Err(Failure::new("the lock was released but is still held"));
            }
        }
        Ok(())
    }

    fn effects(&self) -> Vec<(&'static str, f64)> {
        vec![("granted", self.granted as f64)]
    }
}

/// A POSIX record lock (`fcntl` `F_SETLK`, owned by the process) or an open file
/// description lock (`F_OFD_SETLK`, owned by the description; Linux 3.15).
pub(crate) struct RecordLock {
    file: File,
    /// A second description of the same file, to ask as a stranger. Kept open: closing
    /// any descriptor of a file drops the POSIX locks that the process has on it.
    stranger: File,
    command: i32,
    lock: libc::flock,
    unlock: libc::flock,
}

/// Who owns a record lock.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    /// The process: POSIX.
    Process,
    /// The open file description: OFD.
    Description,
}

impl RecordLock {
    /// The lock `range` on the file of this path.
    pub(crate) fn open(
        path: &Path,
        owner: Owner,
        mode: Mode,
        range: libc::flock,
    ) -> Result<RecordLock, Failure> {
        let command = match (owner, mode) {
            (Owner::Process, Mode::Wait) => libc::F_SETLKW,
            (Owner::Process, Mode::Try) => libc::F_SETLK,
            (Owner::Description, Mode::Wait) => libc::F_OFD_SETLKW,
            (Owner::Description, Mode::Try) => libc::F_OFD_SETLK,
        };
        Ok(RecordLock {
            file: files::open(path)?,
            stranger: files::open(path)?,
            command,
            lock: range,
            unlock: libc::flock { l_type: libc::F_UNLCK as i16, ..range },
        })
    }

    /// An exclusive lock on the whole file.
    pub(crate) fn whole(path: &Path, owner: Owner, mode: Mode) -> Result<RecordLock, Failure> {
        RecordLock::open(path, owner, mode, range(libc::F_WRLCK, 0, 0))
    }
}

/// A lock of `kind` (`F_WRLCK`, `F_RDLCK`) on `length` bytes from `start`; length 0
/// reaches to the end of the file, however long it becomes.
pub(crate) fn range(kind: i32, start: i64, length: i64) -> libc::flock {
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

impl Locking for RecordLock {
    #[inline(always)]
    fn acquire(&self) -> Result<bool, Failure> {
        // SAFETY: the descriptor is open and the kernel only reads the live struct.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), self.command, &self.lock) };
        granted("fcntl(F_SETLK) to lock", result)
    }

    #[inline(always)]
    fn release(&self) -> Result<(), Failure> {
        // SAFETY: as in `acquire`. Unlocking never waits, whatever the command.
        let result = unsafe { libc::fcntl(self.file.as_raw_fd(), self.command, &self.unlock) };
        sys("fcntl(F_SETLK) to unlock", result).map(drop)
    }

    fn is_held(&self) -> Result<bool, Failure> {
        // A write lock by another description conflicts with every lock, POSIX or OFD,
        // read or write, of any process including our own.
        let mut asked = libc::flock { l_type: libc::F_WRLCK as i16, ..self.lock };
        // SAFETY: the kernel reads and writes the live struct.
        let result =
            unsafe { libc::fcntl(self.stranger.as_raw_fd(), libc::F_OFD_GETLK, &mut asked) };
        sys("fcntl(F_OFD_GETLK)", result)?;
        Ok(asked.l_type != libc::F_UNLCK as i16)
    }
}

/// A lock on a file by flock(2), owned by the open file description.
pub(crate) struct Flock {
    file: File,
    /// A second description of the same file, to try as a stranger.
    stranger: File,
    operation: i32,
}

impl Flock {
    /// An exclusive lock on the file of this path.
    pub(crate) fn open(path: &Path, mode: Mode) -> Result<Flock, Failure> {
        let operation = match mode {
            Mode::Wait => libc::LOCK_EX,
            Mode::Try => libc::LOCK_EX | libc::LOCK_NB,
        };
        Ok(Flock { file: files::open(path)?, stranger: files::open(path)?, operation })
    }
}

impl Locking for Flock {
    #[inline(always)]
    fn acquire(&self) -> Result<bool, Failure> {
        // SAFETY: the descriptor is open.
        let result = unsafe { libc::flock(self.file.as_raw_fd(), self.operation) };
        granted("flock(LOCK_EX)", result)
    }

    #[inline(always)]
    fn release(&self) -> Result<(), Failure> {
        // SAFETY: the descriptor is open.
        let result = unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_UN) };
        sys("flock(LOCK_UN)", result).map(drop)
    }

    fn is_held(&self) -> Result<bool, Failure> {
        let fd = self.stranger.as_raw_fd();
        // SAFETY: the descriptor is open.
        let result = unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) };
        if !granted("flock(LOCK_EX|LOCK_NB) as a stranger", result)? {
            return Ok(true);
        }
        // SAFETY: the descriptor is open.
        sys("flock(LOCK_UN) as a stranger", unsafe { libc::flock(fd, libc::LOCK_UN) })?;
        Ok(false)
    }
}

/// The result of a call that takes a lock: refused is an answer, not a failure.
#[inline(always)]
pub(crate) fn granted(what: &'static str, result: i32) -> Result<bool, Failure> {
    if result == 0 { Ok(true) } else { refused(what) }
}

#[cold]
fn refused(what: &'static str) -> Result<bool, Failure> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(Failure::of(what, error)),
    }
}
