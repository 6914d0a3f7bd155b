//! Processes that make system calls on command, one after the other, and reply with the results.
//!
//!     we ── command ──> process ── fcntl, flock, open, dup, close, fork, exit ──> kernel
//!        <── reply ───
//!
//! All run on one CPU, because /proc/locks lists the locks taken on one CPU in their order. They
//! are forks of this process and of each other, so that open files are shared as after any
//! fork(2). Each reads commands from a socket of its own, and exits at the end of file, when we
//! are gone. They make system calls only: this process may have other threads, so after a fork
//! neither its heap nor its locks can be used.

use std::fs::File;
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use anyhow::{Context, Result, bail};
use libc::{c_int, c_void, pid_t};

/// The largest number of processes.
pub const PROCESSES: usize = 5;

/// The largest number of descriptors of the file in a process.
pub const DESCRIPTORS: usize = 3;

/// Time limit in ms for a call that does not wait.
const TIMEOUT_MS: c_int = 10_000;

/// A system call for a process to make.
#[derive(Clone, Copy)]
pub enum ProcessCommand {
    Open {
        descriptor: usize,
    },
    Duplicate {
        from: usize,
        to: usize,
    },
    Close {
        descriptor: usize,
    },
    /// Forks a process of this number.
    Fork {
        into: usize,
    },
    Exit,
    Fcntl {
        descriptor: usize,
        command: c_int,
        lock: libc::flock,
    },
    Flock {
        descriptor: usize,
        operation: c_int,
    },
}

/// The result of a system call.
#[derive(Clone, Copy)]
pub struct ProcessReply {
    /// The return value, or the negated error number.
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
    /// Starts all processes, each without an open descriptor of the file.
    pub fn start(file: &File) -> Result<Processes> {
        let path = format!("/proc/self/fd/{}\0", file.as_raw_fd());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..PROCESSES {
            let [our, their] = socket_pair().context("creating a pair of sockets")?;
            ours.push(our);
            theirs.push(their);
        }
        let sockets: [OwnedFd; PROCESSES] = ours.try_into().expect("one socket a process");
        let mut processes = Processes { sockets, alive: [const { None }; PROCESSES] };
        let inherited = Sockets {
            ours: std::array::from_fn(|i| processes.sockets[i].as_raw_fd()),
            theirs: std::array::from_fn(|i| theirs[i].as_raw_fd()),
            cpu: this_cpu(),
        };
        for process in 0..PROCESSES {
            // SAFETY: the child only makes system calls, on its copy of the memory.
            let pid = match unsafe { libc::fork() } {
                // SAFETY: this is the child, and the path ends with a zero.
                0 => unsafe { serve(process, &inherited, path.as_ptr().cast()) },
                pid => pid,
            };
            if pid < 0 {
                return Err(io::Error::last_os_error()).context("forking a process");
            }
            processes.started(process, pid)?;
        }
        Ok(processes)
    }

    /// Notes that the process of this number was forked.
    pub fn started(&mut self, process: usize, pid: pid_t) -> Result<()> {
        // SAFETY: no preconditions; the call returns a new descriptor.
        let descriptor = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) } as c_int;
        if descriptor < 0 {
            return Err(io::Error::last_os_error()).context("opening a pidfd of a process");
        }
        // SAFETY: the descriptor is open and no one else's.
        let exited = unsafe { OwnedFd::from_raw_fd(descriptor) };
        self.alive[process] = Some(Alive { pid, exited });
        Ok(())
    }

    pub fn pid(&self, process: usize) -> Option<pid_t> {
        self.alive[process].as_ref().map(|alive| alive.pid)
    }

    pub fn send(&self, process: usize, command: ProcessCommand) -> Result<()> {
        let socket = self.sockets[process].as_raw_fd();
        // SAFETY: the command is plain data and outlives the call.
        let sent = unsafe { libc::send(socket, pointer(&command), size_of::<ProcessCommand>(), 0) };
        if sent != size_of::<ProcessCommand>() as isize {
            return Err(io::Error::last_os_error()).context("sending a command to a process");
        }
        Ok(())
    }

    /// The result of the last command. An error if the call takes too long.
    pub fn reply(&self, process: usize) -> Result<ProcessReply> {
        let socket = self.sockets[process].as_raw_fd();
        if !readable(socket, TIMEOUT_MS)? {
            bail!("the call waits in the kernel, and does not in ours");
        }
        // SAFETY: plain data, valid when zero.
        let mut reply: ProcessReply = unsafe { zeroed() };
        let to = (&raw mut reply).cast::<c_void>();
        // SAFETY: `reply` has this many bytes.
        let got = unsafe { libc::recv(socket, to, size_of::<ProcessReply>(), 0) };
        if got != size_of::<ProcessReply>() as isize {
            return Err(io::Error::last_os_error()).context("receiving a reply from a process");
        }
        Ok(reply)
    }

    pub fn has_replied(&self, process: usize) -> Result<bool> {
        readable(self.sockets[process].as_raw_fd(), 0)
    }

    /// Waits until a process is gone that was commanded to exit, or that is killed here.
    pub fn wait_for_exit(&mut self, process: usize, kill: bool) -> Result<()> {
        let Some(Alive { pid, exited }) = self.alive[process].take() else { return Ok(()) };
        if kill {
            let none = std::ptr::null_mut::<libc::siginfo_t>();
            let (exited, signal) = (exited.as_raw_fd(), libc::SIGKILL);
            // SAFETY: a pidfd names this process only, even after it has exited.
            unsafe { libc::syscall(libc::SYS_pidfd_send_signal, exited, signal, none, 0) };
        }
        if !readable(exited.as_raw_fd(), TIMEOUT_MS)? {
            bail!("process {pid} does not exit");
        }
        // SAFETY: no preconditions. Fails for a grandchild, which is not ours to wait for.
        unsafe { libc::waitpid(pid, std::ptr::null_mut(), 0) };
        Ok(())
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in 0..PROCESSES {
            // Nothing more can be done about a process that stays; it exits when its socket closes.
            let _ = self.wait_for_exit(process, true);
        }
    }
}

/// What a process inherits: both ends of all sockets, and its CPU.
struct Sockets {
    ours: [c_int; PROCESSES],
    theirs: [c_int; PROCESSES],
    /// The CPU of all processes.
    cpu: libc::cpu_set_t,
}

/// The main loop of a process.
///
/// # Safety
/// To be called in a fork of this process; `path` names the file and ends with a zero.
unsafe fn serve(mut process: usize, sockets: &Sockets, path: *const libc::c_char) -> ! {
    let mut descriptors = [-1; DESCRIPTORS];
    // SAFETY: system calls on descriptors and memory of this process; commands and replies are
    // plain data.
    unsafe {
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &sockets.cpu);
        // It does not wait for its children.
        libc::signal(libc::SIGCHLD, libc::SIG_IGN);
        for socket in sockets.ours {
            libc::close(socket);
        }
        loop {
            let mut command: ProcessCommand = zeroed();
            let socket = sockets.theirs[process];
            let into = (&raw mut command).cast::<c_void>();
            let got = libc::recv(socket, into, size_of::<ProcessCommand>(), 0);
            if got != size_of::<ProcessCommand>() as isize {
                libc::_exit(0);
            }
            let mut reply: ProcessReply = zeroed();
            let value = match command {
                ProcessCommand::Open { descriptor } => {
                    descriptors[descriptor] = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC);
                    descriptors[descriptor].min(0)
                }
                ProcessCommand::Duplicate { from, to } => {
                    descriptors[to] = libc::dup(descriptors[from]);
                    descriptors[to].min(0)
                }
                ProcessCommand::Close { descriptor } => libc::close(descriptors[descriptor]),
                ProcessCommand::Fork { into } => match libc::fork() {
                    0 => {
                        process = into;
                        continue;
                    }
                    pid => pid,
                },
                ProcessCommand::Exit => libc::_exit(0),
                ProcessCommand::Fcntl { descriptor, command, mut lock } => {
                    let result = libc::fcntl(descriptors[descriptor], command, &raw mut lock);
                    reply.lock = lock;
                    result
                }
                ProcessCommand::Flock { descriptor, operation } => {
                    libc::flock(descriptors[descriptor], operation)
                }
            };
            reply.value = if value < 0 { -*libc::__errno_location() } else { value };
            libc::send(socket, pointer(&reply), size_of::<ProcessReply>(), 0);
        }
    }
}

fn pointer<T>(value: &T) -> *const c_void {
    std::ptr::from_ref(value).cast()
}

/// The CPU that this thread runs on.
fn this_cpu() -> libc::cpu_set_t {
    // SAFETY: plain data, valid when zero; the number of an existing CPU fits the set.
    unsafe {
        let mut set: libc::cpu_set_t = zeroed();
        libc::CPU_SET(libc::sched_getcpu().max(0) as usize, &mut set);
        set
    }
}

fn socket_pair() -> io::Result<[OwnedFd; 2]> {
    let mut ends = [0; 2];
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC;
    // SAFETY: `ends` has room for two descriptors, which are ours afterwards.
    unsafe {
        match libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) {
            0 => Ok(ends.map(|end| OwnedFd::from_raw_fd(end))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

fn readable(descriptor: c_int, timeout_ms: c_int) -> Result<bool> {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one live entry.
    match unsafe { libc::poll(&raw mut poll, 1, timeout_ms) } {
        -1 => Err(io::Error::last_os_error()).context("waiting for a process"),
        ready => Ok(ready > 0),
    }
}
