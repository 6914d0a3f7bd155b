//! The one operation behind all file-lock workloads: take a lock on a file, hold it,
//! release it. The workloads differ in the kind of lock, in whether tasks share a file,
//! and in what the lock excludes.
//!
//!     wait:  acquire ──(blocks)──> held ──hold_ns──> release
//!     try:   acquire ─┬─ granted > held ──hold_ns──> release
//!                     └─ refused > end of the operation

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::files::{self, FileSharing};
use crate::{
    CacheLine, Failure, Load, Parameter, ParameterKind, Prepared, Shared, Spin, Task, sys,
};

/// Parameters of workloads whose lock can wait.
pub(crate) const PARAMETERS: &[Parameter] = &[MODE, HOLD];

/// Whether taking the lock waits; see [`LockMode`].
pub(crate) const MODE: Parameter = Parameter {
    name: "mode",
    about: "wait: block until granted (F_SETLKW, LOCK_EX); try: an operation is one attempt, \
            granted or refused (F_SETLK, LOCK_NB)",
    default: "wait",
    kind: ParameterKind::Choice(&["wait", "try"]),
};

/// CPU work while the lock is held.
pub(crate) const HOLD: Parameter = Parameter {
    name: "hold_ns",
    about: "CPU work while the lock is held, in ns; part of the operation",
    default: "0",
    kind: ParameterKind::Number { min: 0, max: 1_000_000_000 },
};

/// Whether taking a lock waits (parameter `mode`).
#[derive(Clone, Copy)]
pub(crate) enum LockMode {
    /// Block until granted.
    Wait,
    /// One attempt.
    Try,
}

impl LockMode {
    pub(crate) fn from_load(load: &Load) -> LockMode {
        if load.values.choice("mode") == "wait" { LockMode::Wait } else { LockMode::Try }
    }
}

/// One kind of lock on one open file.
pub(crate) trait Locking {
    /// Takes the lock; `false` if it was refused (only without waiting).
    fn acquire(&self) -> Result<bool, Failure>;
    fn release(&self) -> Result<(), Failure>;
    /// Whether any owner holds the lock, found out otherwise than by [`Locking::acquire`].
    fn is_held(&self) -> Result<bool, Failure>;
}

/// Whether one task's lock excludes the other tasks.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Exclusion {
    /// At most one task holds the lock at a time.
    Exclusive,
    /// Tasks hold their locks independently of each other.
    Independent,
    /// Tasks own the lock together and may release it for each other: threads lose all POSIX
    /// locks on a file when one of them closes any descriptor of it, as a task does at its end.
    CommonOwner,
}

/// Prepares a workload that repeatedly takes and releases the lock that `open` makes of the
/// path of a file and the index of a task.
pub(crate) fn prepare<L: Locking + 'static>(
    load: &Load,
    sharing: FileSharing,
    exclusion: Exclusion,
    open: impl Fn(&Path, usize) -> Result<L, Failure> + Sync + 'static,
) -> Result<Box<dyn Prepared>, Failure> {
    Ok(Box::new(Locks {
        paths: files::task_files(load, sharing)?,
        uncontended: load.directory.join("uncontended"),
        sharing,
        exclusion,
        hold: load.spin("hold_ns"),
        open,
        // SAFETY: an atomic of zero bytes is 0.
        witness: unsafe { Shared::zeroed(1)? },
    }))
}

struct Locks<F> {
    paths: Vec<PathBuf>,
    /// A file on which to try the lock after all tasks have ended.
    uncontended: PathBuf,
    sharing: FileSharing,
    exclusion: Exclusion,
    hold: Spin,
    open: F,
    /// Counts turns inside the lock during verification; see [`LockTask::verify`].
    witness: Shared<CacheLine<AtomicU64>>,
}

/// How often task `index` takes the lock during verification. Only the first tasks do:
/// enough to collide, few enough that the herd of waiters stays small.
fn witness_turns(index: usize) -> u64 {
    if index < 64 { 50 } else { 0 }
}

impl<L, F> Prepared for Locks<F>
where
    L: Locking + 'static,
    F: Fn(&Path, usize) -> Result<L, Failure> + Sync,
{
    fn task(&self, index: usize) -> Result<Box<dyn Task + '_>, Failure> {
        let path = &self.paths[index];
        if self.sharing == FileSharing::Own {
            files::create(path)?;
        }
        Ok(Box::new(LockTask {
            lock: (self.open)(path, index)?,
            hold: self.hold,
            granted: 0,
            sharing: self.sharing,
            exclusion: self.exclusion,
            witness: &self.witness[0],
            witness_turns: witness_turns(index),
        }))
    }

    /// The lock works on a file that no other task uses, and excluded where it should have.
    fn verify(&self, _: u64) -> Result<(), Failure> {
        files::create(&self.uncontended)?;
        check_uncontended((self.open)(&self.uncontended, 0)?)?;
        if self.exclusion != Exclusion::Exclusive {
            return Ok(());
        }
        let expected = (0..self.paths.len()).map(witness_turns).sum::<u64>();
        let counted = self.witness[0].load(Relaxed);
        if counted == expected {
            return Ok(());
        }
        Err(Failure::new(format!(
            "the lock did not exclude: {expected} turns inside it were counted as {counted}"
        )))
    }
}

fn check_uncontended(lock: impl Locking) -> Result<(), Failure> {
    acquire_for_verification(&lock)?;
    if !lock.is_held()? {
        return Err(Failure::new("the lock was granted but is not held"));
    }
    lock.release()?;
    if lock.is_held()? {
        return Err(Failure::new("the lock was released but is still held"));
    }
    Ok(())
}

/// Takes the lock, whatever its mode. A signal that was to stop the run may arrive even now.
fn acquire_for_verification(lock: &impl Locking) -> Result<(), Failure> {
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
    sharing: FileSharing,
    exclusion: Exclusion,
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
    /// its lock some more times, checks that it is really held, and adds 1 to the shared
    /// witness by a separate load and store: turns are lost unless the lock excludes.
    fn verify(&mut self, operations: u64) -> Result<(), Failure> {
        if self.exclusion != Exclusion::Exclusive && self.granted != operations {
            return Err(Failure::new(format!(
                "{operations} operations, but {} locks granted, although no other task can \
                 conflict",
                self.granted
            )));
        }
        if self.exclusion == Exclusion::CommonOwner {
            return Ok(());
        }
        for _ in 0..self.witness_turns {
            acquire_for_verification(&self.lock)?;
            let before = self.witness.load(Relaxed);
            if !self.lock.is_held()? {
                return Err(Failure::new("the lock was granted but is not held"));
            }
            self.witness.store(before + 1, Relaxed);
            self.lock.release()?;
            if self.sharing == FileSharing::Own && self.lock.is_held()? {
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
    /// A second open file description, to query the lock as another owner. Kept open: closing
    /// any descriptor of a file drops the POSIX locks that the process has on it.
    other_owner: File,
    command: i32,
    lock: libc::flock,
    unlock: libc::flock,
}

/// Who owns a record lock.
#[derive(Clone, Copy)]
pub(crate) enum LockOwner {
    /// The process: POSIX.
    Process,
    /// The open file description: OFD.
    Description,
}

impl RecordLock {
    /// Opens the file at `path` for the lock `range`.
    pub(crate) fn open(
        path: &Path,
        owner: LockOwner,
        mode: LockMode,
        range: libc::flock,
    ) -> Result<RecordLock, Failure> {
        let command = match (owner, mode) {
            (LockOwner::Process, LockMode::Wait) => libc::F_SETLKW,
            (LockOwner::Process, LockMode::Try) => libc::F_SETLK,
            (LockOwner::Description, LockMode::Wait) => libc::F_OFD_SETLKW,
            (LockOwner::Description, LockMode::Try) => libc::F_OFD_SETLK,
        };
        Ok(RecordLock {
            file: files::open(path)?,
            other_owner: files::open(path)?,
            command,
            lock: range,
            unlock: libc::flock { l_type: libc::F_UNLCK as i16, ..range },
        })
    }

    /// Opens the file at `path` for an exclusive lock on all of it.
    pub(crate) fn whole(
        path: &Path,
        owner: LockOwner,
        mode: LockMode,
    ) -> Result<RecordLock, Failure> {
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
        let mut query = libc::flock { l_type: libc::F_WRLCK as i16, ..self.lock };
        // SAFETY: the kernel reads and writes the live struct.
        let result =
            unsafe { libc::fcntl(self.other_owner.as_raw_fd(), libc::F_OFD_GETLK, &mut query) };
        sys("fcntl(F_OFD_GETLK)", result)?;
        Ok(query.l_type != libc::F_UNLCK as i16)
    }
}

/// A lock on a file by flock(2), owned by the open file description.
pub(crate) struct Flock {
    file: File,
    /// A second open file description, to try the lock as another owner.
    other_owner: File,
    operation: i32,
}

impl Flock {
    /// Opens the file at `path` for an exclusive lock.
    pub(crate) fn open(path: &Path, mode: LockMode) -> Result<Flock, Failure> {
        let operation = match mode {
            LockMode::Wait => libc::LOCK_EX,
            LockMode::Try => libc::LOCK_EX | libc::LOCK_NB,
        };
        Ok(Flock { file: files::open(path)?, other_owner: files::open(path)?, operation })
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
        let fd = self.other_owner.as_raw_fd();
        // SAFETY: the descriptor is open.
        let result = unsafe { libc::flock(fd, libc::LOCK_EX | libc::LOCK_NB) };
        if !granted("flock(LOCK_EX|LOCK_NB) as another owner", result)? {
            return Ok(true);
        }
        // SAFETY: the descriptor is open.
        sys("flock(LOCK_UN) as another owner", unsafe { libc::flock(fd, libc::LOCK_UN) })?;
        Ok(false)
    }
}

/// Whether a call took the lock. A refusal is a result, not a failure.
#[inline(always)]
pub(crate) fn granted(what: &'static str, result: i32) -> Result<bool, Failure> {
    if result == 0 { Ok(true) } else { refused(what) }
}

#[cold]
fn refused(what: &'static str) -> Result<bool, Failure> {
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(Failure::from_error(what, error)),
    }
}
