//! The board: the memory through which the worker and its tasks communicate, shared by processes
//! and threads alike.
//!
//!     worker:  phase  Wait ──────────────> Run ─────> (stop = 1) ──> Report ───> reap
//!     task:           set up ─ arrive(1) ─ drive ────── arrive(2) ── verify ─ arrive(3)
//!
//! In any phase the worker may set `Abort` instead; tasks then leave immediately. A load that counts by
//! itself is in `WarmUp` before `Run`, and signals tell its tasks of both `Run` and the stop.
//!
//! The board lies in files in memory, which the harness of a user's own load maps too: crates/own_loads/c
//! has its side.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use std::time::Duration;

use host::memfd;
use records::Form;
use workloads::{CacheLine, Failure, Shared};

/// What the tasks do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// Set up, then wait.
    Wait = 0,
    /// Repeat the operation.
    Run = 1,
    /// Verify and report.
    Report = 2,
    /// Leave.
    Abort = 3,
    /// Repeat the operation, which does not count yet.
    WarmUp = 4,
}

/// The memory shared by the worker and all tasks.
pub struct Board {
    head: Shared<Head>,
    counts: Shared<CacheLine<Count>>,
    tids: Shared<AtomicI32>,
    tasks: u32,
    files: BoardFiles,
    /// The process whose threads are the tasks; 0 for the worker itself.
    process: AtomicI32,
}

/// The files that the parts of the board lie in.
pub struct BoardFiles {
    pub head: OwnedFd,
    pub counts: OwnedFd,
    pub tids: OwnedFd,
}

/// Words on cache lines of their own, so that stores to the others do not disturb the stop flag,
/// which every task reads after each operation.
#[derive(Default)]
#[repr(C)]
struct Head {
    phase: CacheLine<AtomicU32>,
    stop: CacheLine<AtomicU32>,
    /// Arrivals so far, three for each task.
    arrived: CacheLine<AtomicU32>,
    /// Bumped when all tasks have arrived; the worker sleeps on it.
    gate: CacheLine<AtomicU32>,
    failed: CacheLine<AtomicU32>,
    released_ns: CacheLine<AtomicU64>,
}

/// The operation count of one task, stored to after each operation.
///
/// Not at the start of its line, which may be the start of a page: there the kernel keeps
/// what every system call reads of its CPU, and a CPU that compares the low 12 bits of
/// addresses first holds that read back behind our store (3 ns a call on AMD EPYC, Linux
/// 6.18, `make bench`).
#[repr(C)]
struct Count {
    padding: [u64; 8],
    operations: AtomicU64,
}

const _: () =
    assert!(size_of::<CacheLine<Count>>() == 128, "the probes read counts by this layout");

impl Board {
    /// A board for `tasks` tasks. With `counts`, the operation counts lie in that memory, 128 zero
    /// bytes for each task, where the probes read them.
    pub fn new(tasks: u32, counts: Option<BorrowedFd>) -> Result<Board, Failure> {
        let n = tasks as usize;
        let duplicate = |memory: BorrowedFd| {
            let duplicate = memory.try_clone_to_owned();
            duplicate.map_err(|e| Failure::from_error("duplicating a descriptor of the probes", e))
        };
        let files = BoardFiles {
            head: memory(size_of::<Head>())?,
            counts: counts.map_or_else(|| memory(n * size_of::<CacheLine<Count>>()), duplicate)?,
            tids: memory(n * size_of::<AtomicI32>())?,
        };
        // SAFETY: all three hold only integers, which are valid when zero.
        let (head, counts, tids) = unsafe {
            (
                Shared::from_descriptor(files.head.as_fd(), 1)?,
                Shared::from_descriptor(files.counts.as_fd(), n)?,
                Shared::from_descriptor(files.tids.as_fd(), n)?,
            )
        };
        Ok(Board { head, counts, tids, tasks, files, process: AtomicI32::new(0) })
    }

    /// The files of the board, for a program that maps them.
    pub fn files(&self) -> &BoardFiles {
        &self.files
    }

    /// Says that the tasks, as threads, belong to another process than the worker.
    pub fn set_process(&self, process: i32) {
        self.process.store(process, Relaxed);
    }

    // The tasks' side.

    /// Registers the calling thread as a task, for [`Board::kick_all`].
    pub fn register(&self, task: usize) {
        // SAFETY: no preconditions.
        self.tids[task].store(unsafe { libc::gettid() }, Relaxed);
    }

    /// Counts this task as arrived at the end of stage 1, 2 or 3; the last one wakes the worker.
    pub fn arrive(&self, stage: u32) {
        // Release: what the task wrote before is visible to the worker, which acquires
        // in `arrived`.
        let arrived = self.head[0].arrived.fetch_add(1, Release) + 1;
        if arrived == self.tasks * stage {
            self.open_gate();
        }
    }

    /// Marks the run as failed, and stops all tasks.
    pub fn fail(&self) {
        self.head[0].failed.store(1, Relaxed);
        self.head[0].stop.store(1, Relaxed);
        self.open_gate();
    }

    /// Waits for the phase after `phase` and returns it.
    pub fn next_phase(&self, phase: Phase) -> Phase {
        let word = &self.head[0].phase;
        loop {
            // Acquire: pairs with the release in `set_phase`.
            let now = word.load(Acquire);
            if now != phase as u32 {
                return [Phase::Wait, Phase::Run, Phase::Report, Phase::Abort, Phase::WarmUp]
                    [now as usize];
            }
            futex_wait(word, now, None);
        }
    }

    /// The time at which the tasks were released, by `now_ns`.
    pub fn released_ns(&self) -> u64 {
        self.head[0].released_ns.load(Relaxed)
    }

    /// The flag that stops the tasks.
    pub fn stop_flag(&self) -> &AtomicU32 {
        &self.head[0].stop
    }

    /// The operation count of one task, on a line of its own.
    pub fn count(&self, task: usize) -> &AtomicU64 {
        &self.counts[task].operations
    }

    // The worker's side.

    /// Releases the tasks and returns the time of that.
    pub fn release(&self, now_ns: fn() -> u64) -> u64 {
        let released_ns = now_ns();
        self.head[0].released_ns.store(released_ns, Relaxed);
        self.set_phase(Phase::Run);
        released_ns
    }

    /// Starts the next phase in all tasks.
    pub fn set_phase(&self, phase: Phase) {
        self.head[0].phase.store(phase as u32, Release);
        futex_wake_all(&self.head[0].phase);
    }

    /// Makes the tasks stop after their current operation.
    pub fn stop(&self) {
        self.head[0].stop.store(1, Relaxed);
    }

    /// Whether all tasks have arrived at the end of this stage.
    pub fn all_arrived(&self, stage: u32) -> bool {
        // Acquire: pairs with the release in `arrive`.
        self.head[0].arrived.load(Acquire) >= self.tasks * stage
    }

    /// The number of tasks that have arrived at the end of this stage.
    pub fn arrivals(&self, stage: u32) -> u32 {
        self.head[0].arrived.load(Acquire).saturating_sub(self.tasks * (stage - 1))
    }

    /// Whether a task has failed.
    pub fn has_failed(&self) -> bool {
        self.head[0].failed.load(Relaxed) != 0
    }

    /// A ticket for [`Board::sleep`]: taken before checking for arrivals, so that none is missed.
    pub fn gate(&self) -> u32 {
        self.head[0].gate.load(Acquire)
    }

    /// Sleeps until the last task arrives or one fails, at most for `time`.
    pub fn sleep(&self, gate: u32, time: Duration) {
        futex_wait(&self.head[0].gate, gate, Some(time));
    }

    /// The operations of all tasks so far.
    pub fn operations(&self) -> u64 {
        self.counts.iter().map(|count| count.operations.load(Relaxed)).sum()
    }

    /// Whether each task has counted an operation.
    pub fn all_count(&self) -> bool {
        self.counts.iter().all(|count| count.operations.load(Relaxed) > 0)
    }

    /// The tasks that have counted no operation.
    pub fn uncounted(&self) -> Vec<usize> {
        let counts = self.counts.iter().enumerate();
        let none = counts.filter(|(_, count)| count.operations.load(Relaxed) == 0);
        none.map(|(task, _)| task).collect()
    }

    /// Interrupts the system calls that tasks are waiting in.
    pub fn kick_all(&self, form: Form) {
        for task in 0..self.tasks as usize {
            let (process, tid) = self.thread_of(task, form);
            if tid > 0 {
                // SAFETY: a signal with a handler that does nothing, to a task of ours.
                unsafe { libc::syscall(libc::SYS_tgkill, process, tid, self.kick()) };
            }
        }
    }

    /// The process and thread id of a task; 0 until it has registered itself.
    pub fn thread_of(&self, task: usize, form: Form) -> (i32, i32) {
        let tid = self.tids[task].load(Relaxed);
        match form {
            Form::Processes => (tid, tid),
            Form::Threads => match self.process.load(Relaxed) {
                0 => (std::process::id() as i32, tid),
                process => (process, tid),
            },
        }
    }

    fn kick(&self) -> i32 {
        match self.process.load(Relaxed) {
            0 => KICK,
            _ => own_kick(),
        }
    }

    fn open_gate(&self) {
        self.head[0].gate.fetch_add(1, Release);
        futex_wake_all(&self.head[0].gate);
    }
}

/// Sent by [`Board::kick_all`].
const KICK: i32 = libc::SIGUSR1;

/// Sent by [`Board::kick_all`] to a user's own load, which may use SIGUSR1 itself.
fn own_kick() -> i32 {
    libc::SIGRTMAX() - 1
}

/// A file in memory with this many zero bytes.
fn memory(bytes: usize) -> Result<OwnedFd, Failure> {
    let made = memfd::create(c"board").map_err(io::Error::other).and_then(|file| {
        file.set_len(bytes.max(1) as u64)?;
        Ok(OwnedFd::from(file))
    });
    made.map_err(|e| Failure::from_error(format!("making {bytes} bytes of shared memory"), e))
}

/// Installs a handler that does nothing, so that a kick only interrupts system calls. All tasks
/// inherit it.
pub fn install_kick_handler() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: the struct is plain data; the handler touches nothing. Without SA_RESTART, so
    // that a waiting call returns EINTR.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
        libc::sigaction(KICK, &action, std::ptr::null_mut());
    }
}

/// Sleeps while the word is `expected`. Signals wake it too, so the caller must check again.
fn futex_wait(word: &AtomicU32, expected: u32, time: Option<Duration>) {
    let time = time
        .map(|t| libc::timespec { tv_sec: t.as_secs() as i64, tv_nsec: t.subsec_nanos() as i64 });
    let time = time.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: word and time are live; not FUTEX_PRIVATE, since processes share the word.
    let result =
        unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, time) };
    debug_assert!(
        result == 0
            || matches!(
                io::Error::last_os_error().raw_os_error(),
                Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT)
            )
    );
}

fn futex_wake_all(word: &AtomicU32) {
    // SAFETY: the word is live.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX) };
}
