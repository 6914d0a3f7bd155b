//! The files of a thread in /proc that say what it does now: opened once, read again and again.
//!
//! /proc/PID/task/TID/schedstat and stat are for everybody. What a thread waits for (syscall), and the memory of its
//! process, are for those who may attach to it with ptrace(2): its own user, unless a security module forbids it.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;

use records::live::{TracedWait, WaitsOn};

use super::kernel_waits::{KernelWait, kernel_wait};
use crate::ledger::calls;

/// The open files of a thread.
pub struct TaskFiles {
    process: u32,
    task: u32,
    schedstat: File,
    stat: File,
    /// Absent where it may not be read.
    syscall: Option<File>,
}

/// The counters of a thread since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    pub run_ns: u64,
    pub delay_ns: u64,
    pub arrivals: u64,
}

/// What a thread was charged with since it was started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Charged {
    /// Page faults that needed no storage.
    pub faults: u64,
    /// Ticks in the program, and in the kernel.
    pub user: u64,
    pub system: u64,
}

/// What a thread does.
#[derive(Clone, Debug, PartialEq)]
pub enum Seen {
    /// It runs on this CPU, or could.
    Runnable(u32),
    Waits(TracedWait, Option<Place>),
    /// It waits for a lock of the kernel.
    WaitsInKernel(TracedWait, Option<Place>, KernelWait),
}

/// Where a waiting thread is in its program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    pub sp: u64,
    pub ip: u64,
}

impl TaskFiles {
    /// Opens the files of a thread.
    ///
    /// # Errors
    /// The thread has ended, or this process may open no more files.
    pub fn open(process: u32, task: u32) -> io::Result<TaskFiles> {
        let open = |name: &str| File::open(format!("/proc/{process}/task/{task}/{name}"));
        let syscall = open("syscall").ok().filter(|file| text(file, &mut [0; 256]).is_some());
        Ok(TaskFiles { process, task, schedstat: open("schedstat")?, stat: open("stat")?, syscall })
    }

    /// Whether what the thread waits for can be read.
    pub fn shows_waits(&self) -> bool {
        self.syscall.is_some()
    }

    /// The counters; `None` once the thread has ended.
    pub fn counters(&self) -> Option<Counters> {
        counters(text(&self.schedstat, &mut [0; 128])?)
    }

    /// What the thread was charged with; `None` once it has ended.
    pub fn charged(&self) -> Option<Charged> {
        charged(text(&self.stat, &mut [0; 1024])?)
    }

    /// What the thread does now; `None` once it has ended.
    pub fn seen(&self) -> Option<Seen> {
        let mut bytes = [0; 256];
        let call = match &self.syscall {
            Some(file) => Call::read(text(file, &mut bytes)?)?,
            None => Call::Unknown,
        };
        // What only a wait in an interruptible state can be needs no second file.
        if let Call::In(number, arguments, place) = call {
            let name = calls::name(number);
            if sleeps_interruptibly(&name) {
                return Some(Seen::Waits(self.wait(name, arguments, 'S'), Some(place)));
            }
        }
        let mut bytes = [0; 1024];
        let (state, cpu) = state_and_cpu(text(&self.stat, &mut bytes)?)?;
        Some(match call {
            Call::Running => Seen::Runnable(cpu),
            _ if matches!(state, 'Z' | 'X' | 'x') => return None,
            Call::Unknown if state == 'R' => Seen::Runnable(cpu),
            Call::Unknown => Seen::Waits(self.wait(String::new(), [0; 6], state), None),
            Call::Outside(place) => self.waiting(String::new(), [0; 6], state, place),
            Call::In(number, arguments, place) => {
                self.waiting(calls::name(number), arguments, state, place)
            }
        })
    }

    fn waiting(&self, call: String, arguments: [u64; 6], state: char, place: Place) -> Seen {
        let wait = self.wait(call, arguments, state);
        let in_kernel = (state == 'D').then(|| kernel_wait(self.process, self.task)).flatten();
        match in_kernel {
            Some(kernel) => {
                let wait = TracedWait { lock: kernel.lock, on: WaitsOn::Call, ..wait };
                Seen::WaitsInKernel(wait, Some(place), kernel)
            }
            None => Seen::Waits(wait, Some(place)),
        }
    }

    fn wait(&self, call: String, arguments: [u64; 6], state: char) -> TracedWait {
        let words = if call == "futex" { self.words(&arguments) } else { [0; 5] };
        let on = match state {
            'T' | 't' => WaitsOn::Stopped,
            'D' => WaitsOn::Disk,
            _ if of_file(&call) => self.file_kind(arguments[0]),
            // Nothing tells: it waits interruptibly, which page faults and storage do not.
            _ if call.is_empty() => WaitsOn::Device,
            _ => WaitsOn::Call,
        };
        TracedWait { call, arguments: [arguments[0], arguments[1]], words, on, lock: 0 }
    }

    /// What lies at a futex. Its word is the one that the thread expects there, which may have changed since: it says
    /// what kind of lock it is. With priority inheritance nothing is expected.
    fn words(&self, arguments: &[u64; 6]) -> [u32; 5] {
        const COMMAND: u64 = 127;
        const FUTEX_WAIT: u64 = 0;
        const FUTEX_WAIT_BITSET: u64 = 9;
        let mut words = futex_words(self.process, arguments[0]);
        if matches!(arguments[1] & COMMAND, FUTEX_WAIT | FUTEX_WAIT_BITSET) {
            words[0] = arguments[2] as u32;
        }
        words
    }

    /// What a thread reads or writes that waits interruptibly: storage is waited for uninterruptibly.
    fn file_kind(&self, descriptor: u64) -> WaitsOn {
        let link = fs::read_link(format!("/proc/{}/fd/{descriptor}", self.process));
        match link.ok().as_deref().and_then(|path| path.to_str()) {
            Some(path) if path.starts_with("pipe:") => WaitsOn::Pipe,
            Some(path) if path.starts_with("socket:") => WaitsOn::Socket,
            _ => WaitsOn::Device,
        }
    }
}

/// The five words at an address of a process, as far as they can be read.
pub fn futex_words(process: u32, address: u64) -> [u32; 5] {
    let mut bytes = [0; 20];
    read_memory(process, address, &mut bytes);
    std::array::from_fn(|at| {
        let word = &bytes[4 * at..4 * at + 4];
        u32::from_ne_bytes([word[0], word[1], word[2], word[3]])
    })
}

/// Reads memory of another process, and says how many bytes could be read.
pub fn read_memory(process: u32, address: u64, bytes: &mut [u8]) -> usize {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local vector describes live memory of that length; the remote one is checked by the kernel.
    let read = unsafe {
        libc::process_vm_readv(process as libc::pid_t, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(read).unwrap_or(0)
}

fn text<'b>(file: &File, bytes: &'b mut [u8]) -> Option<&'b str> {
    let length = file.read_at(bytes, 0).ok().filter(|length| *length > 0)?;
    // A name may be no text.
    bytes[..length].iter_mut().filter(|byte| !byte.is_ascii()).for_each(|byte| *byte = b'?');
    std::str::from_utf8(&bytes[..length]).ok()
}

/// What /proc/PID/task/TID/syscall says: proc_pid_syscall(5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Call {
    Running,
    /// It waits in a system call: its number and arguments.
    In(u64, [u64; 6], Place),
    /// It waits, and not in a call: as in a page fault.
    Outside(Place),
    Unknown,
}

impl Call {
    fn read(text: &str) -> Option<Call> {
        let text = text.trim_end();
        if text == "running" {
            return Some(Call::Running);
        }
        let words: Vec<&str> = text.split(' ').collect();
        let hex = |word: &&str| u64::from_str_radix(word.trim_start_matches("0x"), 16).ok();
        let numbers: Option<Vec<u64>> = words[1..].iter().map(hex).collect();
        let numbers = numbers?;
        Some(match (words[0].parse::<i64>().ok()?, numbers.as_slice()) {
            (-1, &[sp, ip]) => Call::Outside(Place { sp, ip }),
            (number, &[a, b, c, d, e, f, sp, ip]) => {
                Call::In(u64::try_from(number).ok()?, [a, b, c, d, e, f], Place { sp, ip })
            }
            _ => return None,
        })
    }
}

/// Parses /proc/PID/task/TID/schedstat: `RUN-NS DELAY-NS ARRIVALS` (Documentation/scheduler/sched-stats.rst).
fn counters(text: &str) -> Option<Counters> {
    let mut numbers = text.split_whitespace().map(|word| word.parse::<u64>().ok());
    let mut next = || numbers.next().flatten();
    Some(Counters { run_ns: next()?, delay_ns: next()?, arrivals: next()? })
}

/// The state and the last CPU, fields 3 and 39 of /proc/PID/stat. The name before them may contain anything.
fn state_and_cpu(stat: &str) -> Option<(char, u32)> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(39 - 4)?.trim_end().parse().ok()?))
}

/// Fields 10, 14 and 15 of /proc/PID/stat.
fn charged(stat: &str) -> Option<Charged> {
    let (_, rest) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = rest.split(' ').take(15 - 2).collect();
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some(Charged { faults: field(10)?, user: field(14)?, system: field(15)? })
}

/// Calls that wait for events and never for storage.
fn sleeps_interruptibly(call: &str) -> bool {
    const CALLS: [&str; 14] = [
        "futex",
        "epoll_wait",
        "epoll_pwait",
        "epoll_pwait2",
        "poll",
        "ppoll",
        "select",
        "pselect6",
        "nanosleep",
        "clock_nanosleep",
        "accept",
        "accept4",
        "recvfrom",
        "recvmsg",
    ];
    CALLS.contains(&call)
}

/// Calls that wait for what their first argument, a descriptor, is open for.
fn of_file(call: &str) -> bool {
    matches!(call, "read" | "write" | "readv" | "writev")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_read_as_the_kernel_writes_it() {
        let check = |text: &str, expected: Option<Call>| assert_eq!(Call::read(text), expected);
        let place = Place { sp: 0x7ffc, ip: 0x7f01 };
        check("running\n", Some(Call::Running));
        check("-1 0x7ffc 0x7f01\n", Some(Call::Outside(place)));
        check(
            "202 0x10 0x80 0x2 0x0 0x0 0x0 0x7ffc 0x7f01\n",
            Some(Call::In(202, [0x10, 0x80, 2, 0, 0, 0], place)),
        );
        check("202 0x10\n", None);
        check("", None);
    }

    #[test]
    fn names_with_spaces_and_parentheses_hide_no_field() {
        let fields: Vec<String> = (4..=52).map(|number| number.to_string()).collect();
        let check = |name: &str| {
            let stat = format!("42 ({name}) S {}\n", fields.join(" "));
            assert_eq!(state_and_cpu(&stat), Some(('S', 39)), "{name}");
            assert_eq!(charged(&stat), Some(Charged { faults: 10, user: 14, system: 15 }));
        };
        check("worker");
        check("a) R (b) 1 2");
        check("io pool)");
        assert_eq!(state_and_cpu("42 (a"), None);
        assert_eq!(state_and_cpu(""), None);
    }

    #[test]
    fn counters_are_three_numbers() {
        let expected = Counters { run_ns: 5, delay_ns: 6, arrivals: 7 };
        assert_eq!(counters("5 6 7\n"), Some(expected));
        assert_eq!(counters("5 6\n"), None);
    }

    #[test]
    fn this_thread_runs_and_its_memory_can_be_read() {
        // SAFETY: the call has no preconditions.
        let task = unsafe { libc::gettid() } as u32;
        let files = TaskFiles::open(std::process::id(), task).unwrap();
        assert!(files.seen().is_some());
        assert!(files.counters().unwrap().arrivals > 0);
        let words = [7_u32, 8, 9, 10, 11];
        assert_eq!(futex_words(std::process::id(), words.as_ptr() as u64), words);
        assert_eq!(futex_words(std::process::id(), 8), [0; 5]);
    }
}
