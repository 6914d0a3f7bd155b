//! The contract of file locks under the checker: what processes do with the locks, and what must
//! then hold. Only the task that write-locks a byte changes it; read-locked bytes stay the same.

use machine::{Field, Machine, image};

use super::{Deadlocks, Design, FileLocks, LockKind, Owner, Range};
use crate::Lock;

/// Bytes of the file.
const BYTES: usize = 2;

image! {
    /// The bytes that the locks guard.
    pub struct Bytes {
        bytes: [Field<u32>; BYTES],
    }
}

/// The kind, the first and the last byte.
type Call = (LockKind, u64, u64);

/// The calls of each task. Two tasks take two bytes crosswise, one upgrades a lock and one splits
/// a lock.
const CROSSWISE: [[Call; 3]; 4] = [
    [(LockKind::Write, 0, 0), (LockKind::Write, 1, 1), (LockKind::Unlock, 0, 0)],
    [(LockKind::Write, 1, 1), (LockKind::Write, 0, 0), (LockKind::Read, 0, 1)],
    [(LockKind::Read, 0, 1), (LockKind::Write, 0, 0), (LockKind::Unlock, 1, 1)],
    [(LockKind::Write, 0, 1), (LockKind::Unlock, 0, 0), (LockKind::Read, 1, 1)],
];

/// Calls that cannot deadlock, for a manager that does not detect deadlocks.
const IN_ORDER: [[Call; 3]; 4] = [
    [(LockKind::Write, 0, 0), (LockKind::Write, 1, 1), (LockKind::Unlock, 0, 0)],
    [(LockKind::Write, 0, 0), (LockKind::Write, 1, 1), (LockKind::Read, 0, 1)],
    [(LockKind::Read, 0, 1), (LockKind::Unlock, 0, 0), (LockKind::Unlock, 1, 1)],
    [(LockKind::Write, 0, 1), (LockKind::Unlock, 0, 0), (LockKind::Read, 1, 1)],
];

/// Makes the calls of a task, uses the locked bytes after each call, and closes the file.
pub fn calls<L: Lock, M: Machine>(
    locks: &FileLocks<L>,
    m: &M,
    design: Design,
    bytes: &Bytes,
    task: u32,
) {
    let scripts = match design.deadlocks {
        Deadlocks::Found => &CROSSWISE,
        Deadlocks::Ignored => &IN_ORDER,
    };
    let owner = Owner::Process(task);
    let mut held = [LockKind::Unlock; BYTES];
    let begin = m.history_mark();
    for (call, &(kind, start, end)) in scripts[task as usize % scripts.len()].iter().enumerate() {
        // A request that fails because of a deadlock leaves the owner's locks unchanged.
        if locks.set(m, 0, Range { owner, kind, start, end }).is_ok() {
            held[start as usize..=end as usize].fill(kind);
        }
        m.forget_history(begin, live(call, held));
        use_bytes(m, bytes, held);
        m.forget_history(begin, live(call, held));
    }
    locks.close(m, 0, owner);
    m.forget_history(begin, 0);
}

fn use_bytes<M: Machine>(m: &M, bytes: &Bytes, held: [LockKind; BYTES]) {
    for (byte, kind) in bytes.bytes.iter().zip(held) {
        match kind {
            LockKind::Write => byte.set(m, byte.get(m) + 1),
            LockKind::Read => drop(byte.get(m)),
            LockKind::Unlock => {}
        }
    }
}

/// What a task still knows and needs, as one number.
fn live(call: usize, held: [LockKind; BYTES]) -> u64 {
    held.into_iter().fold(call as u64 + 1, |live, kind| live << 2 | kind as u64)
}
