//! Events in the layout of live.bpf.c.

use std::borrow::Cow;

use records::live::{
    Arriving, FoundDoing, FoundTask, GoroutineEvent, Leaving, Left, StackTaken, Switch, TracedWait,
    WaitsOn, Woken,
};

use super::compat_calls;
use super::cpython::PYTHON_FRAMES;
use super::user_registers::{REGISTERS, UserRegisters};
use crate::ledger::calls;

/// `enum event_kind`.
const SWITCH: u32 = 1;
const STACK: u32 = 2;
const FOUND: u32 = 3;

/// Reasons of a stack that are about goroutines.
const GOROUTINE_WAITS: u32 = 4;
const GOROUTINE_WAKES: u32 = 5;

/// Bits of a switch.
const PREV_FOLLOWED: u32 = 1;
const NEXT_FOLLOWED: u32 = 2;
const RUNNABLE: u32 = 4;
const FOR_IO: u32 = 8;
const FOR_MEMORY: u32 = 16;
const THROTTLED: u32 = 32;
const ENDS: u32 = 64;
const STOPPED: u32 = 128;
const NEXT_IDLE: u32 = 256;
const ON_CPU: u32 = 512;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Head {
    at_ns: u64,
    kind: u32,
    cpu: u32,
    task: u32,
    process: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Wake {
    at_ns: u64,
    argument: u64,
    waker: u32,
    call: i32,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct SwitchEvent {
    head: Head,
    next: u32,
    next_process: u32,
    flags: u32,
    call: i32,
    arguments: [u64; 2],
    words: [u32; 5],
    file_kind: u32,
    lock: u64,
    lock_flags: u32,
    cpus_allowed: u32,
    woken: Wake,
    prev_woken: Wake,
    prev_ran_ns: u64,
    prev_name: [u8; 16],
    next_name: [u8; 16],
}

const KERNEL_FRAMES: usize = 32;

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct StackHead {
    head: Head,
    reason: u32,
    kernel_frames: u32,
    stack_bytes: u32,
    call: i32,
    ip: u64,
    sp: u64,
    bp: u64,
    link: u64,
    registers: [u64; REGISTERS],
    goroutine: u64,
    address: u64,
    frames: [u64; KERNEL_FRAMES],
    python_frames: u64,
    python: [u64; PYTHON_FRAMES],
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub enum RawEvent {
    Switch(RawSwitch),
    /// Much larger than a switch, and rare.
    Stack(Box<RawStack>),
    /// A task that is followed again.
    Found(RawTask, FoundTask),
}

/// A switch, with the processes and names of its tasks.
#[derive(Clone, Debug, PartialEq)]
pub struct RawSwitch {
    pub switch: Switch,
    /// Those of the two that are followed: the one that leaves, the one that arrives.
    pub tasks: [Option<RawTask>; 2],
}

/// A followed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawTask {
    pub task: u32,
    pub process: u32,
    name: [u8; 16],
}

impl RawTask {
    /// Its name, as far as it is text: most often one that is known already.
    pub fn name(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(up_to_end(&self.name))
    }
}

/// A stack before it is walked.
#[derive(Clone, Debug, PartialEq)]
pub struct RawStack {
    pub at_ns: u64,
    pub task: u32,
    pub process: u32,
    pub why: StackTaken,
    /// Addresses in the kernel, innermost first.
    pub kernel: Vec<u64>,
    /// The system call that the task is in; empty outside of calls.
    pub call: String,
    pub registers: UserRegisters,
    /// All registers, on x86-64.
    pub all_registers: [u64; REGISTERS],
    /// What lies at the program's stack pointer and above.
    pub stack: Vec<u8>,
    /// The frames of a thread of CPython, in the words of cpython.bpf.h.
    pub python: Vec<u64>,
    /// What a goroutine does, if this is about one.
    pub goroutine: Option<GoroutineEvent>,
}

impl RawEvent {
    /// Reads an event; `None` if it is none of this build's.
    pub fn read(bytes: &[u8]) -> Option<RawEvent> {
        match copied::<Head>(bytes)?.kind {
            SWITCH => Some(RawEvent::Switch(copied::<SwitchEvent>(bytes)?.read())),
            FOUND => Some(copied::<SwitchEvent>(bytes)?.found()),
            STACK => copied::<StackHead>(bytes)?.read(&bytes[size_of::<StackHead>()..]),
            _ => None,
        }
    }
}

impl SwitchEvent {
    fn read(&self) -> RawSwitch {
        let has = |flag: u32| self.flags & flag != 0;
        let mut other = String::new();
        let from = has(PREV_FOLLOWED).then(|| Leaving {
            task: self.head.task,
            cpus_allowed: self.cpus_allowed,
            unseen: self.prev_woken.read(),
            ran_ns: self.prev_ran_ns,
            why: self.why(),
        });
        let to = has(NEXT_FOLLOWED).then(|| Arriving { task: self.next, woken: self.woken.read() });
        let next = RawTask { task: self.next, process: self.next_process, name: self.next_name };
        let tasks = [from.is_some().then_some(self.prev()), to.is_some().then_some(next)];
        if from.is_none() && self.head.task != 0 {
            other = name_of(&self.prev_name);
        } else if to.is_none() && !has(NEXT_IDLE) {
            other = name_of(&self.next_name);
        }
        let switch = Switch { at_ns: self.head.at_ns, cpu: self.head.cpu, from, to, other };
        RawSwitch { switch, tasks }
    }

    fn prev(&self) -> RawTask {
        RawTask { task: self.head.task, process: self.head.process, name: self.prev_name }
    }

    fn found(&self) -> RawEvent {
        let does = match self.flags {
            flags if flags & ON_CPU != 0 => FoundDoing::Runs,
            flags if flags & RUNNABLE != 0 => FoundDoing::CouldRun,
            _ => FoundDoing::Waits(self.wait()),
        };
        let found = FoundTask { at_ns: self.head.at_ns, task: self.head.task, does };
        RawEvent::Found(self.prev(), found)
    }

    fn why(&self) -> Left {
        let has = |flag: u32| self.flags & flag != 0;
        if has(ENDS) {
            return Left::Ends;
        }
        if has(RUNNABLE) {
            return if has(THROTTLED) { Left::Throttled } else { Left::Preempted };
        }
        Left::Waits(self.wait())
    }

    fn wait(&self) -> TracedWait {
        let has = |flag: u32| self.flags & flag != 0;
        let on = match self.file_kind {
            _ if has(STOPPED) => WaitsOn::Stopped,
            _ if has(FOR_MEMORY) => WaitsOn::Memory,
            _ if has(FOR_IO) => WaitsOn::Disk,
            1 => WaitsOn::Pipe,
            2 => WaitsOn::Socket,
            3 => WaitsOn::Device,
            _ => WaitsOn::Call,
        };
        let call = call_name(self.call);
        let (arguments, words) = (self.arguments, self.words);
        TracedWait { call, arguments, words, on, lock: self.lock }
    }
}

impl Wake {
    /// The wake-up; `None` if there was none.
    fn read(&self) -> Option<Woken> {
        let futex = (i64::from(self.call) == libc::SYS_futex).then_some(self.argument);
        let by_signal = WAKING_CALLS[..SIGNAL_CALLS].contains(&i64::from(self.call));
        let Wake { at_ns, waker, .. } = *self;
        (at_ns > 0).then_some(Woken { at_ns, waker, futex, by_signal })
    }
}

/// The name of a call; empty outside of calls.
fn call_name(call: i32) -> String {
    match u64::try_from(call) {
        Ok(_) if call == i32::from(compat_calls::OTHER) => "a 32-bit call".to_string(),
        Ok(number) => calls::name(number),
        Err(_) => String::new(),
    }
}

/// Calls whose wake-ups show who gave something back, as in `config.waking_calls`: the first ones send signals, the others
/// unlock files.
pub const WAKING_CALLS: [i64; SIGNAL_CALLS + 2] = [
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_pidfd_send_signal,
    libc::SYS_flock,
    libc::SYS_fcntl,
];
const SIGNAL_CALLS: usize = 4;

impl StackHead {
    fn read(&self, stack: &[u8]) -> Option<RawEvent> {
        let why = match self.reason {
            1 => StackTaken::Sampled,
            2 => StackTaken::Waits,
            3 => StackTaken::Wakes,
            GOROUTINE_WAITS => StackTaken::Waits,
            GOROUTINE_WAKES => StackTaken::Wakes,
            _ => return None,
        };
        let goroutine = (self.reason >= GOROUTINE_WAITS).then_some(GoroutineEvent {
            at_ns: self.head.at_ns,
            task: self.head.task,
            goroutine: self.goroutine,
            waits_at: (self.reason == GOROUTINE_WAITS).then_some(self.address),
        });
        let frames = (self.kernel_frames as usize).min(KERNEL_FRAMES);
        let python = (self.python_frames as usize).min(PYTHON_FRAMES);
        Some(RawEvent::Stack(Box::new(RawStack {
            at_ns: self.head.at_ns,
            task: self.head.task,
            process: self.head.process,
            why,
            kernel: self.frames[..frames].to_vec(),
            call: call_name(self.call),
            registers: UserRegisters { ip: self.ip, sp: self.sp, bp: self.bp, link: self.link },
            all_registers: self.registers,
            stack: stack.get(..self.stack_bytes as usize)?.to_vec(),
            python: self.python[..python].to_vec(),
            goroutine,
        })))
    }
}

/// A plain value at the beginning of these bytes.
fn copied<T: Copy + Default>(bytes: &[u8]) -> Option<T> {
    let bytes = bytes.get(..size_of::<T>())?;
    // SAFETY: the bytes are as many as the value has, and T is one of the structures above, of which every pattern of
    // bits is a value. It need not be aligned.
    Some(unsafe { std::ptr::read_unaligned(bytes.as_ptr().cast::<T>()) })
}

/// The name of a task, up to its end in a field of fixed length.
pub fn name_of(bytes: &[u8]) -> String {
    String::from_utf8_lossy(up_to_end(bytes)).into_owned()
}

fn up_to_end(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes<T: Copy>(value: &T) -> Vec<u8> {
        // SAFETY: a plain structure without padding, read as bytes.
        unsafe { std::slice::from_raw_parts((&raw const *value).cast::<u8>(), size_of::<T>()) }
            .to_vec()
    }

    fn named(text: &str) -> [u8; 16] {
        let mut name = [0; 16];
        name[..text.len()].copy_from_slice(text.as_bytes());
        name
    }

    #[test]
    fn a_switch_says_who_leaves_for_what_and_who_arrives_woken_by_whom() {
        let futex = SwitchEvent {
            head: Head { at_ns: 90, kind: SWITCH, cpu: 1, task: 7, process: 6 },
            next: 8,
            next_process: 6,
            flags: PREV_FOLLOWED | NEXT_FOLLOWED,
            call: libc::SYS_futex as i32,
            arguments: [0x1000, 128],
            words: [2, 0, 8, 1, 0],
            cpus_allowed: 2,
            woken: Wake { at_ns: 80, argument: 0x1000, waker: 7, call: libc::SYS_futex as i32 },
            prev_ran_ns: 5,
            prev_name: named("a"),
            next_name: named("b"),
            ..SwitchEvent::default()
        };
        let Some(RawEvent::Switch(read)) = RawEvent::read(&bytes(&futex)) else { panic!() };
        let tasks = read.tasks.map(|task| task.unwrap());
        let told = tasks.each_ref().map(|task| (task.task, task.process, task.name()));
        assert_eq!(told, [(7, 6, "a".into()), (8, 6, "b".into())]);
        let wait = TracedWait {
            call: "futex".to_string(),
            arguments: [0x1000, 128],
            words: [2, 0, 8, 1, 0],
            ..TracedWait::default()
        };
        let from =
            Leaving { task: 7, cpus_allowed: 2, unseen: None, ran_ns: 5, why: Left::Waits(wait) };
        assert_eq!(read.switch.from, Some(from));
        let woken = Woken { at_ns: 80, waker: 7, futex: Some(0x1000), by_signal: false };
        assert_eq!(read.switch.to, Some(Arriving { task: 8, woken: Some(woken) }));
        let preempted = SwitchEvent {
            flags: PREV_FOLLOWED | RUNNABLE,
            prev_name: named("a"),
            next_name: named("hog"),
            ..futex
        };
        let read = preempted.read().switch;
        assert_eq!((read.from.unwrap().why, read.other.as_str()), (Left::Preempted, "hog"));
    }

    #[test]
    fn a_stack_has_as_many_bytes_as_it_says_or_is_none() {
        let head = StackHead {
            head: Head { at_ns: 5, kind: STACK, cpu: 0, task: 7, process: 6 },
            reason: 2,
            kernel_frames: 2,
            stack_bytes: 4,
            ..StackHead::default()
        };
        let whole = [bytes(&head), vec![1, 2, 3, 4]].concat();
        let Some(RawEvent::Stack(read)) = RawEvent::read(&whole) else { panic!() };
        assert_eq!(
            (read.why, read.kernel.len(), read.stack),
            (StackTaken::Waits, 2, vec![1, 2, 3, 4])
        );
        assert_eq!(RawEvent::read(&whole[..whole.len() - 1]), None);
        assert_eq!(RawEvent::read(&[1, 2]), None);
    }
}
