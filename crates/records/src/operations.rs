//! Operations as they were executed: which lines they share, which locks they take, and how many instructions lie between.
//! A simulation repeats them on other CPUs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Operations of some tasks, step by step.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedOperations {
    /// What an operation is: `stat`.
    pub operation: String,
    /// Where it ran: the release of the guest's kernel.
    pub on: String,
    /// Lines that operations of more than one task use, and one of them writes. Steps name them by their index.
    pub lines: Vec<RecordedLine>,
    /// Locks on these lines. Steps name them by their index.
    pub locks: Vec<RecordedLock>,
    /// The operations of each task, in their order.
    pub tasks: Vec<Vec<RecordedOperation>>,
    /// The share of all instructions that user code executes, where it is known.
    #[serde(default)]
    pub user_share: Option<f64>,
    /// Instructions of a system call from its entry to the function that it is for, and from there to user code, in the mean: a
    /// call that does nothing executes them too. 0 where it is not known.
    #[serde(default)]
    pub call_instructions: f64,
    /// What they wait for that a simulation does not have, as a clause, if they wait: its curve is a ceiling then.
    #[serde(default)]
    pub waits: Option<String>,
    /// What a simulation cannot repeat, a sentence each.
    pub warnings: Vec<String>,
}

/// A line that several tasks use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedLine {
    /// The member that is written most: `dentry.d_lockref`.
    pub member: String,
    /// How many of it there are.
    pub copies: Copies,
}

/// How many of a line there are on a host of any size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Copies {
    /// All tasks use the same.
    One,
    /// The tasks of each memory node have their own.
    PerNode,
    /// Two tasks at a time have their own: objects that travel between them, or neighbours on a line.
    PerPair,
}

/// A lock on a line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedLock {
    /// The index of its line.
    pub line: u16,
    /// How tasks wait for it.
    pub kind: RecordedLockKind,
}

/// How tasks wait for a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedLockKind {
    /// A queued spin lock.
    Spin,
    /// A queued read-write spin lock.
    ReadWriteSpin,
    /// A semaphore with readers and writers, who poll for a moment and then sleep.
    Semaphore,
    /// A mutex, whose waiters queue and spin while its owner runs.
    Mutex,
    /// An object that one task owns from one system call to the next, such as a locked file. Others sleep at once.
    Sleeping,
}

/// One operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedOperation {
    /// Instructions executed, and what came then.
    pub steps: Vec<(u32, RecordedStep)>,
    /// Instructions after the last step.
    pub then: u32,
    /// Lines of the task's own that it uses and the operation before it did not, without its stack and `copied_lines`.
    pub own_lines: u32,
    /// Lines of the task's own that string instructions read or write, which count as one instruction however many lines they
    /// copy or clear.
    #[serde(default)]
    pub copied_lines: u32,
    /// Those of `copied_lines` that no recorded operation before it used: memory has them, not a cache.
    #[serde(default)]
    pub streamed_lines: u32,
    /// How often it enters the kernel: system calls, and `faults`.
    #[serde(default = "one")]
    pub entries: u32,
    /// How often it enters the kernel by an exception such as a page fault.
    #[serde(default)]
    pub faults: u32,
    /// How often it goes to sleep.
    #[serde(default)]
    pub sleeps: u32,
}

fn one() -> u32 {
    1
}

/// What an operation does in a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecordedStep {
    /// Reads a line.
    Load(u16),
    /// Writes a line.
    Store(u16),
    /// Changes a line by one atomic instruction.
    Atomic(u16),
    /// Changes a line by compare-and-exchanges, until no other task came between.
    Compare(u16),
    /// An atomic instruction on a line of its own.
    OwnAtomic,
    /// Enters the kernel by a system call, one of `entries`: where it owns an object between two.
    Enter,
    /// Takes a lock, of those with readers to write.
    Lock(u16),
    /// Takes a lock to read.
    LockShared(u16),
    /// Gives a lock back.
    Unlock(u16),
}

impl RecordedOperation {
    /// The instructions that it executes.
    pub fn instructions(&self) -> u64 {
        self.steps.iter().map(|(after, _)| u64::from(*after)).sum::<u64>() + u64::from(self.then)
    }
}

impl RecordedOperations {
    /// All operations of all tasks.
    pub fn all(&self) -> impl Iterator<Item = &RecordedOperation> {
        self.tasks.iter().flatten()
    }

    /// Instructions of an operation, in the mean. 0 without operations.
    pub fn instructions(&self) -> f64 {
        let all: u64 = self.all().map(RecordedOperation::instructions).sum();
        all as f64 / self.all().count().max(1) as f64
    }

    /// Instructions of an operation in the mean, without those of entering and leaving the kernel by system calls.
    pub fn instructions_within_calls(&self) -> f64 {
        let calls: u32 =
            self.all().map(|operation| operation.entries.saturating_sub(operation.faults)).sum();
        let each = f64::from(calls) / self.all().count().max(1) as f64;
        (self.instructions() - each * self.call_instructions).max(0.0)
    }

    /// Steps of an operation, in the mean. 0 without operations.
    pub fn steps(&self) -> f64 {
        let all: usize = self.all().map(|operation| operation.steps.len()).sum();
        all as f64 / self.all().count().max(1) as f64
    }

    /// Why the operations name lines or locks that are not there, or do not give locks back as they took them, if so.
    pub fn contradiction(&self) -> Option<String> {
        if self.tasks.iter().any(Vec::is_empty) || self.tasks.is_empty() {
            return Some("a task has no whole operation".to_string());
        }
        if self.lines.len() > LINES_MAX {
            return Some(format!("{} lines are shared, more than {LINES_MAX}", self.lines.len()));
        }
        if self.locks.iter().any(|lock| usize::from(lock.line) >= self.lines.len()) {
            return Some("a lock lies on a line that is not listed".to_string());
        }
        self.all().find_map(|operation| self.fault_of(operation))
    }

    fn fault_of(&self, operation: &RecordedOperation) -> Option<String> {
        let mut held = Vec::new();
        for (_, step) in &operation.steps {
            let (index, count) = match *step {
                RecordedStep::Load(line)
                | RecordedStep::Store(line)
                | RecordedStep::Atomic(line)
                | RecordedStep::Compare(line) => (line, self.lines.len()),
                RecordedStep::OwnAtomic | RecordedStep::Enter => continue,
                RecordedStep::Lock(lock)
                | RecordedStep::LockShared(lock)
                | RecordedStep::Unlock(lock) => (lock, self.locks.len()),
            };
            if usize::from(index) >= count {
                return Some(format!("a step names {index} of {count}"));
            }
            match *step {
                RecordedStep::Lock(lock) | RecordedStep::LockShared(lock) => {
                    if held.contains(&lock) {
                        return Some(format!("lock {lock} is taken twice"));
                    }
                    held.push(lock);
                }
                RecordedStep::Unlock(lock) => match held.iter().position(|held| *held == lock) {
                    Some(at) => drop(held.swap_remove(at)),
                    None => return Some(format!("lock {lock} is given back and was not taken")),
                },
                _ => (),
            }
            if held.len() > HELD_MAX {
                return Some(format!("more than {HELD_MAX} locks are held at a time"));
            }
        }
        held.first().map(|lock| format!("lock {lock} is held at the end of an operation"))
    }
}

/// The most lines that operations may share: a simulation has copies of each for all CPUs.
pub const LINES_MAX: usize = 4096;

/// The most locks that an operation may hold at a time.
pub const HELD_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_give_locks_back_as_they_took_them() {
        use RecordedStep::{Load, Lock, LockShared, OwnAtomic, Unlock};
        let check = |steps: &[RecordedStep], expected: Option<&str>| {
            let steps = steps.iter().map(|step| (10, *step)).collect();
            let operation = RecordedOperation { steps, then: 5, ..Default::default() };
            let recorded = RecordedOperations {
                lines: vec![RecordedLine { member: "a".into(), copies: Copies::One }],
                locks: vec![RecordedLock { line: 0, kind: RecordedLockKind::Spin }],
                tasks: vec![vec![operation]],
                ..RecordedOperations::default()
            };
            assert_eq!(recorded.contradiction().as_deref(), expected);
        };
        check(&[Lock(0), Load(0), OwnAtomic, Unlock(0)], None);
        check(&[LockShared(0), Unlock(0), Lock(0), Unlock(0)], None);
        check(&[Load(1)], Some("a step names 1 of 1"));
        check(&[Unlock(0)], Some("lock 0 is given back and was not taken"));
        check(&[Lock(0), Lock(0)], Some("lock 0 is taken twice"));
        check(&[Lock(0)], Some("lock 0 is held at the end of an operation"));
    }
}
