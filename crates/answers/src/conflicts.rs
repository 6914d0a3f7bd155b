//! Lines of memory that several CPUs need for an operation.

use records::operations::RecordedOperations;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The lines that an operation's CPUs contend for, counted on emulated CPUs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Conflicts {
    /// The operation, as it was asked for.
    pub operation: String,
    /// Where it ran: the release of the guest's kernel, or the program.
    pub on: String,
    /// Number of tasks, each on a CPU of its own.
    pub tasks: u32,
    /// Operations of each task in the first window and in the second. Of a program, those that it did in all, and 0; where
    /// nobody said how many, counts are those of the whole program, and both are 0.
    pub window_operations: [u64; 2],
    /// Instructions of an operation; absent where operations were not counted.
    pub instructions: Option<Instructions>,
    /// The lines, the most contended first.
    pub lines: Vec<ConflictLine>,
    /// Lines with fewer transfers, an operation, do not matter: less than once in 32 operations; of a whole program, less
    /// than once in 40 000 instructions, which is below 1 % of its time, or than 4 times a thread, as at its start and end.
    pub least_transfers: f64,
    /// The rate that no number of CPUs passes, for each described host asked for.
    pub ceilings: Vec<Ceiling>,
    /// What limits the answer, a sentence each.
    pub warnings: Vec<String>,
    /// The first operations of each task, step by step, where asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<RecordedOperations>,
}

/// Instructions of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instructions {
    /// In the kernel, of the median operation of the first window: exact, as background reaches few operations.
    pub kernel: f64,
    /// In the kernel, of the mean operation of the first window: with what only some operations do.
    pub kernel_mean: f64,
    /// In the task's own code, for each operation of the first window.
    pub user: f64,
    /// As `kernel`, in the second window: another number means that the operation is not in a steady state.
    pub kernel_again: f64,
}

/// One line, or lines of one kind of object that are used alike.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictLine {
    /// What the line is part of: `dentry`, `inode_hash_lock`, `runqueues`.
    pub place: String,
    /// What of it is contended, and whether by the same bytes.
    pub sharing: Sharing,
    /// What the member that is written most is.
    pub kind: LineKind,
    /// The name of the member that is written most, or its candidates. A name that ends in ? is a guess, by the functions
    /// that access it.
    pub member: String,
    /// Transfers that an operation needs: where many CPUs want one line, at least one for each burst, at most one for
    /// each write; of lines of many objects, those of operations that took turns.
    pub transfers: [f64; 2],
    /// Times an operation that a CPU had to get the only copy from another, as the operations took turns.
    pub owned: f64,
    /// Times an operation that a CPU had to get a copy to read which another had written.
    pub copied: f64,
    /// Bursts of accesses with a write, an operation: where many CPUs want the line, each has to get it.
    pub bursts: f64,
    /// Loads an operation.
    pub reads: f64,
    /// Stores an operation, of which `atomics` are atomic.
    pub writes: f64,
    /// Atomic read-modify-writes an operation.
    pub atomics: f64,
    /// `bursts` in the second window, which has twice the operations.
    pub bursts_again: f64,
    /// Whether both windows agree.
    pub is_steady: bool,
    /// Number of lines that are one row.
    pub lines: usize,
    /// What an operation needs of the one of them that it needs most.
    pub one_line: OneLine,
    /// Whether the objects do not begin at lines: then the allocator decides which members share one.
    pub is_placed_by_chance: bool,
    /// What is accessed on the line, the most written first.
    pub members: Vec<ConflictMember>,
    /// Where interrupts and other tasks accessed it, too: the first few functions.
    pub background: Vec<String>,
}

/// What an operation needs of one line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OneLine {
    /// Transfers where many CPUs want the line: at least one for each burst, at most one for each write.
    pub transfers: [f64; 2],
    /// Loads an operation.
    pub reads: f64,
    /// Stores an operation, of which `atomics` are atomic.
    pub writes: f64,
    /// Atomic read-modify-writes an operation.
    pub atomics: f64,
    /// Kernel instructions of an operation from taking a lock on the line to giving it back, where only one can have it.
    pub held: f64,
    /// How CPUs wait for a lock on the line.
    pub wait: LockWait,
}

/// How CPUs wait for what is on a line.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LockWait {
    /// There is no lock.
    #[default]
    None,
    /// They try again; while the lock beside the count is taken, they spin for it: for a lockref.
    FallsBack,
    /// They spin: for a spin lock, or a queued reader-writer lock.
    Spins,
    /// They may sleep: for a mutex or a semaphore.
    Sleeps,
}

/// Accesses to one member.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictMember {
    /// `dentry.d_lockref.count`; with several possible types, the candidates.
    pub names: Vec<String>,
    /// First byte, from the line's first.
    pub offset: u32,
    /// Bytes.
    pub bytes: u32,
    /// Loads an operation.
    pub reads: f64,
    /// Stores an operation, of which `atomics` are atomic.
    pub writes: f64,
    /// Atomic read-modify-writes an operation.
    pub atomics: f64,
    /// Number of tasks that write it.
    pub writers: u32,
    /// The functions that write it, the most often first; of a program with debug information, with the line of its source:
    /// `consume at ring.c:21`.
    pub written_by: Vec<String>,
    /// The functions that read it, as those that write it.
    pub read_by: Vec<String>,
}

/// Whether CPUs need the same bytes of a line.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// CPUs use the same bytes: the data is shared.
    True,
    /// CPUs use different bytes of one line: the layout is at fault.
    False,
}

/// What a contended member is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LineKind {
    Lock,
    ReferenceCount,
    List,
    Counter,
    /// Written seldom, read often.
    Flag,
    Data,
}

/// A rate that no number of CPUs passes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ceiling {
    /// The described host.
    pub host: String,
    /// The line that sets the highest rate.
    pub member: String,
    /// Transfers of the line that each operation needs, at least and at most.
    pub transfers: [f64; 2],
    /// How long a transfer takes between the nearest CPUs and between the farthest, in ns.
    pub transfer_ns: [f64; 2],
    /// Instructions that an operation holds a lock on the line.
    pub held_instructions: f64,
    /// The line that sets the lowest rate, where all waiting is the longest.
    pub slowest_member: String,
    /// Operations a second at which more CPUs stop to help: the lowest, and the highest, which none passes.
    pub operations_per_s: [f64; 2],
    /// Where the rate of one CPU, times the CPUs, meets them; null unless that rate is known.
    pub meets: Option<CeilingMet>,
}

/// Where the rate of one CPU, times the CPUs, meets a ceiling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CeilingMet {
    /// Operations a second of one CPU.
    pub one_cpu_per_s: f64,
    /// Where that rate comes from.
    pub from: String,
    /// Numbers of CPUs at the lowest and at the highest rate.
    pub cpus: [f64; 2],
}

impl Ceiling {
    /// Says where the rate of one CPU, times the CPUs, meets it.
    pub fn met_from(&mut self, one_cpu_per_s: f64, from: &str) {
        let cpus = self.operations_per_s.map(|rate| (rate / one_cpu_per_s).max(1.0));
        self.meets = Some(CeilingMet { one_cpu_per_s, from: from.to_string(), cpus });
    }
}

/// Lines of operations, and how they differ between kernels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictAnswer {
    /// One for each operation on each kernel.
    pub traced: Vec<Conflicts>,
    /// One for each operation and each kernel but the first.
    pub differences: Vec<ConflictDifference>,
    /// With --matrix, one for each pair of operations on each kernel; then `traced` is empty.
    pub pairs: Vec<ConflictPair>,
}

/// What two operations contend for that run beside each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictPair {
    /// The operation of tasks of even number.
    pub first: String,
    /// The operation of tasks of odd number.
    pub second: String,
    /// The release of the guest's kernel.
    pub on: String,
    /// What the two operations work on; null where that is up to each workload.
    #[serde(default)]
    pub objects: Option<PairObjects>,
    /// Transfers of all lines that an operation needs at least, where many CPUs want them; absent where the pair did not
    /// run.
    pub transfers: Option<f64>,
    /// The lines, the most contended first.
    pub lines: Vec<PairLine>,
    /// Why the pair did not run.
    pub failure: Option<String>,
}

/// What two calls on files have in common.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum PairObjects {
    /// Nothing: each task has its own directory and file.
    Own,
    /// The directory, in which each task has its own file.
    Directory,
    /// The path of one file.
    File,
}

impl PairObjects {
    /// All of them, from nothing in common to everything.
    pub const ALL: [PairObjects; 3] = [PairObjects::Own, PairObjects::Directory, PairObjects::File];

    /// The word used on the command line, and in the parameter of the workload.
    pub fn name(self) -> &'static str {
        match self {
            PairObjects::Own => "own",
            PairObjects::Directory => "directory",
            PairObjects::File => "file",
        }
    }
}

/// A line that two operations contend for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PairLine {
    /// Name of the member that is written most.
    pub member: String,
    /// What the line is part of.
    pub place: String,
    /// Whether CPUs need the same bytes.
    pub sharing: Sharing,
    /// What the member is.
    pub kind: LineKind,
    /// Transfers that an operation needs, at least and at most.
    pub transfers: [f64; 2],
}

/// How the lines of an operation differ between two kernels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ConflictDifference {
    /// The operation.
    pub operation: String,
    /// What it ran on before.
    pub before: String,
    /// What it ran on after.
    pub after: String,
    /// The lines that differ, the largest difference first.
    pub changed: Vec<ChangedLine>,
    /// Instructions of an operation in the kernel, before and after.
    pub instructions: Option<[f64; 2]>,
}

/// A line that differs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangedLine {
    /// Name of the member that is written most.
    pub member: String,
    /// What the line is part of.
    pub place: String,
    /// What became of the line.
    pub change: LineChange,
    /// Transfers that an operation needs at least, before and after.
    pub transfers: [f64; 2],
    /// Writes an operation before and after.
    pub writes: [f64; 2],
    /// Members that an operation accessed on the line before, and that are elsewhere after.
    pub left: Vec<String>,
    /// Members that an operation accesses on the line after, and that were elsewhere before.
    pub joined: Vec<String>,
}

/// What became of a line.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum LineChange {
    Gone,
    New,
    Fewer,
    More,
    /// As many transfers, but members that others read have left the line.
    Split,
    /// As many transfers, but members that others read have come to the line.
    Joined,
}
