//! What knee sees of tasks that it did not start: events as they came ([`Trace`]), and what they amount to, window by
//! window ([`Observation`]), which can be saved and compared with another.
//!
//!     attach ─ events ─→ Trace ─ `live` ─→ Observation ─ `live` ─→ causes
//!
//! The time of a thread is divided among its states without a rest: each row adds up to how long the thread lived.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Events of followed tasks, in the order of time. Times are CLOCK_MONOTONIC, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Where windows begin, and where the last one ends.
    pub edges_ns: Vec<u64>,
    /// Times in which nothing was followed, each between two windows: from one edge to the next.
    pub gaps_ns: Vec<(u64, u64)>,
    /// What tasks did when the trace began, and when they were followed again after a gap, by time.
    pub found: Vec<FoundTask>,
    /// The tasks that were followed, by number.
    pub tasks: BTreeMap<u32, TracedTask>,
    pub switches: Vec<Switch>,
    pub stacks: Vec<TracedStack>,
    /// Waits of goroutines, whose threads do other work meanwhile.
    pub goroutines: Vec<GoroutineEvent>,
    /// What frames of stacks mean.
    pub functions: Vec<TracedFunction>,
    /// Names of what lies at addresses of processes, where it is a variable.
    pub variables: BTreeMap<(u32, u64), String>,
    /// How the CPUs were used, in each window.
    pub cpus: Vec<CpuUse>,
    /// Number of CPUs that are online.
    pub online_cpus: u32,
    /// Samples per second of each CPU.
    pub hertz: u32,
}

/// A followed task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedTask {
    pub process: u32,
    pub name: String,
    /// What it did when it was found, if it was not running or runnable.
    pub waited: Option<TracedWait>,
    /// When it was started, if that was seen.
    pub since_ns: u64,
}

/// What a task did at an instant.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FoundTask {
    pub at_ns: u64,
    pub task: u32,
    pub does: FoundDoing,
}

/// What a task that was found does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum FoundDoing {
    #[default]
    Runs,
    /// It could run, and other threads of the subject have the CPUs.
    CouldRun,
    /// It could run, and a task of this name has the CPU.
    CouldRunBehind(String),
    /// It could run, but its control group has used up its quota.
    Throttled,
    /// It was woken, and an idle CPU takes its time to switch to it.
    WakesUp,
    Waits(TracedWait),
}

/// What goes on where a trace is cut: the next trace begins with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Carried {
    /// What each task that lives does.
    pub tasks: Vec<CarriedTask>,
    /// Waits of goroutines that have not ended.
    pub goroutines: Vec<GoroutineEvent>,
}

/// A task where a trace is cut.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CarriedTask {
    pub found: FoundTask,
    /// When it began to do that, or to be followed.
    pub since_ns: u64,
}

/// A switch from one task to another on a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Switch {
    pub at_ns: u64,
    pub cpu: u32,
    /// The task that leaves, if it is followed.
    pub from: Option<Leaving>,
    /// The task that arrives, if it is followed.
    pub to: Option<Arriving>,
    /// The name of the task that is not followed, of the two; empty if that is the idle task, or if both are.
    pub other: String,
}

/// A task that leaves its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leaving {
    pub task: u32,
    /// How many CPUs it may run on.
    pub cpus_allowed: u32,
    /// What ended its last wait, if the switch to it after that was not seen.
    pub unseen: Option<Woken>,
    /// Its CPU time since it left a CPU before, ns; 0 if that was not seen.
    pub ran_ns: u64,
    pub why: Left,
}

/// Why a task leaves its CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Left {
    /// It could go on, and another task runs.
    #[default]
    Preempted,
    /// It could go on, but its control group has used up its quota.
    Throttled,
    Waits(TracedWait),
    Ends,
}

/// What a task waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedWait {
    /// The name of the system call; empty outside of calls, as in a page fault.
    pub call: String,
    /// The call's first two arguments.
    pub arguments: [u64; 2],
    /// What lies at the address of a futex: its word, and the four words behind it.
    pub words: [u32; 5],
    pub on: WaitsOn,
    /// The kernel lock that it waits for; 0 if none.
    pub lock: u64,
}

/// What a wait is for, beside the call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitsOn {
    /// Nothing is known but the call.
    #[default]
    Call,
    Pipe,
    Socket,
    Device,
    /// The kernel counts it as waiting for input and output.
    Disk,
    /// The kernel frees memory for it.
    Memory,
    /// A signal or a debugger stopped it.
    Stopped,
}

/// A task that gets a CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arriving {
    pub task: u32,
    /// Its wake-up; `None` if it was runnable already.
    pub woken: Option<Woken>,
}

/// A wake-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    pub at_ns: u64,
    /// The task that ran where the wake-up came from. An interrupt has nothing to do with it.
    pub waker: u32,
    /// The address that the waker gave to futex(2), if it is in that call and followed.
    pub futex: Option<u64>,
    /// Whether the waker is followed, and in a call that sends a signal, as kill(2).
    pub by_signal: bool,
}

/// A stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TracedStack {
    pub at_ns: u64,
    pub task: u32,
    pub why: StackTaken,
    /// Indices of functions, innermost first, those of the kernel before those of the program.
    pub frames: Vec<u32>,
    /// Number of frames in the kernel.
    pub kernel: u32,
    /// The system call that the task is in; empty outside of calls.
    pub call: String,
    /// Where the innermost frame of the program is, in its file.
    pub user_offset: u64,
    /// Whether the program's frames end where its thread began.
    pub is_whole: bool,
    /// What the instruction at the top accesses, or the one before it; of samples in the program alone.
    pub touches: Vec<Touch>,
}

/// An access to memory of an instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Touch {
    pub address: u64,
    pub is_write: bool,
}

/// A goroutine begins to wait at a semaphore, or is made ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GoroutineEvent {
    pub at_ns: u64,
    /// The thread that runs it, or that makes it ready.
    pub task: u32,
    pub goroutine: u64,
    /// The address of the semaphore; absent if it is made ready.
    pub waits_at: Option<u64>,
}

/// Why a stack was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum StackTaken {
    /// The sampling clock of the CPU fired.
    #[default]
    Sampled,
    /// The task began to wait.
    Waits,
    /// The task woke another.
    Wakes,
}

/// A function of a stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct TracedFunction {
    pub name: String,
    /// The name of the file that contains it; empty in the kernel. For a function in Python, `py:` and the path of its source.
    pub object: String,
    /// Whether a symbol names it; else `name` is a place in the file.
    pub is_named: bool,
}

/// How the CPUs were used in a window, in ns of all CPUs together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CpuUse {
    /// By the threads that were observed.
    pub subject_ns: u64,
    /// By no task.
    pub idle_ns: u64,
    /// By other tasks, knee's own among them.
    pub others_ns: u64,
    /// By the hypervisor, for other guests. It is contained in the others.
    pub stolen_ns: u64,
    /// By other tasks, by name, the longest first.
    pub others: Vec<OtherTask>,
}

/// CPU time of tasks of one name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherTask {
    pub name: String,
    pub ns: u64,
}

/// What running tasks did, window by window. Every `ns` has one value for each window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Observation {
    /// What was observed, as it was asked for: `pid 4711 (redis-server)`.
    pub subject: String,
    /// When it began.
    pub at: jiff::Timestamp,
    /// Name of the host.
    pub host: String,
    /// How it was seen.
    pub means: ObservedBy,
    /// Number of CPUs that are online.
    pub online_cpus: u32,
    /// How many CPUs most of the threads may use, by how often they leave one.
    pub allowed_cpus: u32,
    /// The CPUs' time that the control group of the processes may use, in CPUs; absent without a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_cpus: Option<f64>,
    /// The windows, in the order of time.
    pub windows: Vec<ObservedWindow>,
    /// What counted the operations of the windows; absent if nothing did, or if their rate was given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations_from: Option<String>,
    /// How long nothing was followed between windows, ns, because following all would have taken too much of the CPUs' time.
    #[serde(default)]
    pub gaps_ns: u64,
    /// The threads that lived in any window.
    pub threads: Vec<ObservedThread>,
    /// What threads waited for that another thread had to give back.
    pub locks: Vec<ObservedLock>,
    /// Cache lines that several threads were seen to access and at least one to write, the most often seen first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lines: Vec<ObservedLine>,
    /// What was not seen, and why.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub missing: BTreeMap<String, String>,
    /// Events that were lost because they came too fast.
    pub lost_events: u64,
    /// Share of stacks that were walked to their end.
    pub whole_stacks: f64,
    /// CPU time of knee and of its probes in each window, as far as it is known, in ns.
    pub own_ns: Vec<u64>,
}

/// How tasks were seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ObservedBy {
    /// Each switch of tasks was seen, by BPF.
    #[default]
    Switches,
    /// /proc was read many times a second, without privileges.
    Proc,
}

/// A window.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedWindow {
    /// Its length by the clock, ns.
    pub ns: u64,
    /// Operations of the server in it; absent if nothing counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operations: Option<f64>,
    /// How the host's CPUs were used.
    pub cpus: CpuUse,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedThread {
    pub task: u32,
    pub process: u32,
    /// Its own name, which is that of its program unless it has been given another.
    pub name: String,
    /// Where its time went; states add up to the time that it lived.
    pub states: Vec<StateTime>,
    /// Where it ran, by stacks that the sampling clock took: the first is the function that ran.
    pub samples: Vec<SampledAt>,
}

/// Time of a thread in a state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StateTime {
    pub state: ThreadState,
    pub ns: Vec<u64>,
    /// How often the state was entered.
    pub times: u64,
}

/// What a thread does.
#[derive(
    Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case", tag = "is", content = "of")]
pub enum ThreadState {
    Running,
    /// It could run, but another thread of the subject has the CPU.
    BehindOwn,
    /// It could run, but a task of this name has the CPU.
    BehindOther(String),
    /// It could run, but its control group has used up its quota.
    Throttled,
    /// It was woken, and an idle CPU takes its time to switch to it.
    WakeUp,
    /// It waits for a lock: index into [`Observation::locks`].
    Lock(usize),
    /// It waits for a condition, a queue or another thread's end: until another thread has something for it.
    Condition,
    /// It waits for input and output: in this call, or in a page fault.
    Disk(String),
    /// It waits for a page of memory.
    PageFault,
    /// It waits until the kernel has freed memory.
    Reclaim,
    /// It sleeps for a time that it asked for.
    Sleep,
    /// It waits in this call for what comes from outside: `epoll_wait`, `read of a socket`.
    Call(String),
    /// A signal or a debugger stopped it.
    Stopped,
}

/// A stack, with how often it was seen.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SampledAt {
    /// Functions, innermost first; those of the kernel end with `_[k]`.
    pub stack: Vec<String>,
    /// The system call; empty outside of calls.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub call: String,
    pub times: u64,
    /// Where the innermost frame of the program is, in its file.
    pub offset: u64,
}

/// A lock.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedLock {
    /// The variable, or what it is and where it is waited for: `table_lock`, `mutex waited for in serve`.
    pub name: String,
    /// What kind of lock it is.
    pub kind: WaitKind,
    /// The first of the processes that wait for it; 0 for a lock of the kernel.
    pub process: u32,
    /// Where it is, or the first of several.
    pub address: u64,
    /// How many words threads wait at: several locks of one place of a program are one here, and a read-write lock has two
    /// words.
    pub locks: u64,
    /// How often threads waited.
    pub waits: u64,
    /// How often threads began to wait in each window.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits_begun: Vec<u64>,
    /// How long threads waited, all together: until they ran again, where nothing but an idle CPU took its time for that.
    pub wait_ns: Vec<u64>,
    /// How long at least one thread waited so, by the clock.
    pub contended_ns: Vec<u64>,
    /// Where threads wait, the longest first.
    pub waited_in: Vec<LockPlace>,
    /// Where the threads that had it gave it back, by how long others waited for that.
    pub held_in: Vec<LockPlace>,
    /// What the thread that had it did while others waited; it adds up to `contended_ns`.
    pub holder: Vec<HolderTime>,
}

/// What kind of thing threads wait for.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum WaitKind {
    #[default]
    Mutex,
    ReadWriteLock,
    Semaphore,
    /// The lock of an interpreter, which only one of its threads has: CPython's.
    Interpreter,
    /// The lock of the memory allocator.
    Allocator,
    /// A runtime's lock whose kind is not known.
    Futex,
    /// A lock of a database, on rows or tables: a process that waits for it is woken by a signal.
    Database,
    /// A lock on a file: flock(2), fcntl(2).
    File,
    /// A lock of the kernel.
    Kernel,
    /// A condition variable, a queue, the end of another thread: no lock.
    Condition,
}

/// A cache line that threads take from each other.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ObservedLine {
    /// The variables that are accessed; empty where they have no names, as on the heap.
    pub variables: Vec<String>,
    /// Whether no two threads need the same bytes of it.
    pub is_false_sharing: bool,
    /// How many threads were seen to access it.
    pub threads: u64,
    /// Samples at instructions that access it.
    pub samples: u64,
    /// All samples of the threads, in the kernel, too.
    pub of: u64,
    /// The functions of these instructions, the most often seen first.
    pub functions: Vec<String>,
}

/// A place in the program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LockPlace {
    /// The function, without those of the lock itself.
    pub function: String,
    /// The functions that called it, innermost first.
    pub callers: Vec<String>,
    /// How often it was seen.
    pub times: u64,
    /// How long threads waited.
    pub ns: u64,
}

/// What the thread that had a lock did while others waited.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HolderTime {
    /// What it did.
    pub reason: HolderState,
    /// By whom, or in what: the program that had the CPU, the system call, the other lock.
    pub by: String,
    /// How long, in each window.
    pub ns: Vec<u64>,
}

/// What [`HolderTime::by`] says where other threads of the same program have the CPU.
pub const OWN_THREADS: &str = "threads of its own program";

/// What [`HolderTime::by`] says where the thread sleeps until others bring work.
pub const WORK_QUEUE: &str = "a queue of work";

/// What a thread that has a lock does.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum HolderState {
    Running,
    /// It could run, but another task has the CPU.
    Preempted,
    /// It was handed the lock, and an idle CPU takes its time to switch to it.
    WakeUp,
    PageFault,
    InputOutput,
    Lock,
    Quota,
    /// The hypervisor had the CPU.
    Stolen,
    Sleeping,
    /// Nothing tells which thread has it.
    #[default]
    Unknown,
}
