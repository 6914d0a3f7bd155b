//! Processes that do one call after the other, as they are told, and say what came of it.
//!
//!     we ── command ──> process ── fcntl, flock, open, dup, close, fork, exit ──> kernel
//!        <── reply ───
//!
//! All run on one CPU, whose list in /proc/locks says what was granted after what. They are
//! forks of this process and of each other, so that open files are shared as after
//! any fork(2). Each reads from a socket of its own; when we are gone it reads the end and
//! exits. What they do between calls is system calls only: nothing of a process that may
//! have had other threads is used.

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use libc::{c_int, c_void, pid_t};

/// Processes at most.
pub const PROCESSES: usize = 5;

/// Descriptors of the file in each.
pub const DESCRIPTORS: usize = 3;

/// Time for a call that does not wait, in ms.
const PATIENCE_MS: c_int = 10_000;

/// What a process is to do.
#[derive(Clone, Copy)]
pub enum Command {
    /// Opens the file.
    Open {
        descriptor: usize,
    },
    /// Duplicates one descriptor into another.
    Duplicate {
        from: usize,
        to: usize,
    },
    Close {
        descriptor: usize,
    },
    /// Forks a process that answers as this one.
    Fork {
        into: usize,
    },
    Exit,
    /// fcntl(2) with this command.
    Fcntl {
        descriptor: usize,
        command: c_int,
        lock: libc::flock,
    },
    /// flock(2).
    Flock {
        descriptor: usize,
        operation: c_int,
    },
}

/// What came of it.
#[derive(Clone, Copy)]
pub struct Reply {
    /// What the call returned, or the error below zero.
    pub value: c_int,
    /// The lock after fcntl(2).
    pub lock: libc::flock,
}

/// The processes, by number.
pub struct Processes {
    sockets: [OwnedFd; PROCESSES],
    alive: [Option<Alive>; PROCESSES],
}

struct Alive {
    pid: pid_t,
    /// Readable once it has exited, with all its files closed.
    exited: OwnedFd,
}

impl Processes {
    /// Starts them all, with the file closed.
    pub fn start(file: &File) -> Result<Processes> {
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            let [our, their] = socket_pair().context("making a pair of sockets")?;
            ours.push(our);
            theirs.push(their);
        }
        let sockets: [OwnedFd; PROCESSES] = ours.try_into().expect("one for each process");
        let mut processes = Processes { sockets, alive: [const { None }; PROCESSES] };
        let ends = Ends {
            ours: std::array::from_fn(|i| processes.sockets[i].as_raw_fd()),
            theirs: std::array::from_fn(|i| theirs[i].as_raw_fd()),
            cpu: this_cpu(),
        };
        for process in 0..PROCESSES {
            // SAFETY: the child only makes system calls, on memory that it has a copy of.
            let pid = match unsafe { libc::fork() } {
                // SAFETY: this is that child, and the path has its zero.
                0 => unsafe { serve(process, &ends, path.as_ptr().cast()) },
                pid => pid,
            };
            if pid < 0 {
                return Err(io::Error::last_os_error()).context("starting a process");
            }
            processes.born(process, pid)?;
        }
        Ok(processes)
    }

    /// A process of this number is there now.
    pub fn born(&mut self, process: usize, pid: pid_t) -> Result<()> {
        // SAFETY: no preconditions; what is returned is a descriptor of ours.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as c_int;
        if descriptor < 0 {
            return Err(io::Error::last_os_error()).context("watching a process");
        }
        // SAFETY: as just said.
        let exited = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.alive[process] = Some(Alive { pid, exited });
        Ok(())
    }

    pub fn pid(&self, process: usize) -> Option<pid_t> {
        self.alive[process].as_ref().map(|alive| alive.pid)
    }

    pub fn tell(&self, process: usize, command: Command) -> Result<()> {
        let socket = self.sockets[process].as_raw_fd();
        // SAFETY: the command is live and plain data.
        let sent = unsafe { libc::send(socket, pointer(&command), size_of::<Command>(), 0) };
        if sent != size_of::<Command>() as isize {
            return Err(io::Error::last_os_error()).context("telling a process what to do");
        }
        Ok(())
    }

    /// What came of the last command. An error if that takes too long.
    pub fn reply(&self, process: usize) -> Result<Reply> {
        let socket = self.sockets[process].as_raw_fd();
        if !readable(socket, PATIENCE_MS)? {
            bail!("the kernel lets it wait, ours does not");
        }
        // SAFETY: plain data, valid when zero, and live.
        let mut reply: Reply = unsafe { zeroed() };
        let to = (&raw mut reply).cast::<c_void>();
        // SAFETY: that many bytes are there.
        let got = unsafe { libc::recv(socket, to, size_of::<Reply>(), 0) };
        if got != size_of::<Reply>() as isize {
            return Err(io::Error::last_os_error()).context("hearing from a process");
        }
        Ok(reply)
    }

    pub fn has_replied(&self, process: usize) -> Result<bool> {
        readable(self.sockets[process].as_raw_fd(), 0)
    }

    /// Waits until a process that was told to exit, or is killed now, is gone.
    pub fn gone(&mut self, process: usize, kill: bool) -> Result<()> {
        let Some(Alive { pid, exited }) = self.alive[process].take() else { return Ok(()) };
        if kill {
            let none = std::ptr::null_mut::<libc::siginfo_t>();
            let (exited, signal) = (exited.as_raw_fd(), libc::SIGKILL);
            // SAFETY: a descriptor of this very process, which no other can become.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, exited, signal, none, 0) };
        }
        if !readable(exited.as_raw_fd(), PATIENCE_MS)? {
            bail!("process {pid} does not exit");
        }
        // SAFETY: no preconditions. Of a grandchild that is not ours to wait for, an error.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in 0..PROCESSES {
            // Nothing more can be done about one that stays; it exits when its socket closes.
            let _ = self.gone(process, true);
        }
    }
}

/// What a process needs: both ends of the sockets, which it has all at first, and its CPU.
struct Ends {
    ours: [c_int; PROCESSES],
    theirs: [c_int; PROCESSES],
    /// The CPU of all.
    cpu: libc::cpu_set_t,
}

/// The life of a process.
///
/// # Safety
/// To be called in a fork of this process; `path` names the file, with a zero at its end.
unsafe fn serve(mut process: usize, ends: &Ends, path: *const libc::c_char) -> ! {
    let mut descriptors = [-1; DESCRIPTORS];
    // SAFETY: system calls on descriptors and on memory of this process; replies and
    // commands are plain data.
    unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &ends.cpu);
        // Whom it forks nobody waits for.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        for end in ends.ours {
            libc::close(end);
        }
        loop {
            let mut command: Command = zeroed();
            let socket = ends.theirs[process];
            let into = (&raw mut command).cast::<c_void>();
            let got = libc::recv(socket, into, size_of::<Command>(), 0);
            if got != size_of::<Command>() as isize {
                libc::_exit(0);
            }
            let mut reply: Reply = zeroed();
            let value = match command {
                Command::Open { descriptor } => {
                    descriptors[descriptor] = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC);
                    descriptors[descriptor].min(0)
                }
                Command::Duplicate { from, to } => {
                    descriptors[to] = libc::dup(descriptors[from]);
                    descriptors[to].min(0)
                }
                Command::Close { descriptor } => libc::close(descriptors[descriptor]),
                Command::Fork { into } => match libc::fork() {
                    0 => {
                        process = into;
                        continue;
                    }
                    pid => pid,
                },
                Command::Exit => libc::_exit(0),
                Command::Fcntl { descriptor, command, mut lock } => {
                    let done = libc::fcntl(descriptors[descriptor], command, &raw mut lock);
                    reply.lock = lock;
                    done
                }
                Command::Flock { descriptor, operation } => {
                    libc::flock(descriptors[descriptor], operation)
                }
            };
            reply.value = if value < 0 { -*libc::__errno_location() } else { value };
            libc::send(socket, pointer(&reply), size_of::<Reply>(), 0);
        }
    }
}

fn pointer<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}

/// The CPU that this runs on.
fn this_cpu() -> libc::cpu_set_t {
    // SAFETY: plain data, valid when zero; a CPU that there is lies in the set.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        set
    }
}

fn socket_pair() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: room for two descriptors, which are ours then.
    unsafe {
        match libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) {
            0 => Ok(ends.map(|end| OwnedFd::from_raw_fd(end))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn readable(descriptor: c_int, patience_ms: c_int) -> Result<bool> {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    match unsafe { libc::poll(&raw mut poll, 1, patience_ms) } {
        -1 => Err(io::Error::last_os_error()).context("waiting for a process"),
        ready => Ok(ready > 0),
    }
}
