//! What processes do with file locks when they are searched, and what must then hold: bytes
//! that a task holds to write are its own, and those that it holds to read stay as they are.

use machine::{Field, Machine, image};

use super::{Deadlocks, Design, FileLocks, Kind, Owner, Range};
use crate::Lock;

/// Bytes of the file.
const BYTES: usize = 2;

image! {
    /// What the locks guard.
    pub struct Bytes {
        bytes: [Field<u32>; BYTES],
    }
}

/// Kind, first and last byte.
type Call = (Kind, u64, u64);

/// The calls of each task. Two take two bytes crosswise, one upgrades and one splits.
const CROSSWISE: [[Call; 3]; 4] = [
    [(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Unlock, 0, 0)],
    [(Kind::Write, 1, 1), (Kind::Write, 0, 0), (Kind::Read, 0, 1)],
    [(Kind::Read, 0, 1), (Kind::Write, 0, 0), (Kind::Unlock, 1, 1)],
    [(Kind::Write, 0, 1), (Kind::Unlock, 0, 0), (Kind::Read, 1, 1)],
];

/// The same without circles, for a manager that does not look for them.
const IN_ORDER: [[Call; 3]; 4] = [
    [(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Unlock, 0, 0)],
    [(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Read, 0, 1)],
    [(Kind::Read, 0, 1), (Kind::Unlock, 0, 0), (Kind::Unlock, 1, 1)],
    [(Kind::Write, 0, 1), (Kind::Unlock, 0, 0), (Kind::Read, 1, 1)],
];

/// Does the calls of a task, works on what it holds after each, and closes the file.
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
    let mut held = [Kind::Unlock; BYTES];
    let begin = m.history_mark();
    for (call, &(kind, start, end)) in scripts[task as usize % scripts.len()].iter().enumerate() {
        // A refusal, because it would wait for ever, leaves everything as it was.
        if locks.set(m, 0, Range { owner, kind, start, end }).is_ok() {
            held[start as usize..=end as usize].fill(kind);
        }
        m.forget_history(begin, live(call, held));
        work(m, bytes, held);
        m.forget_history(begin, live(call, held));
    }
    locks.close(m, 0, owner);
    m.forget_history(begin, 0);
}

fn work<M: Machine>(m: &M, bytes: &Bytes, held: [Kind; BYTES]) {
    for (byte, kind) in bytes.bytes.iter().zip(held) {
        match kind {
            Kind::Write => byte.set(m, byte.get(m) + 1),
            Kind::Read => drop(byte.get(m)),
            Kind::Unlock => {}
        }
    }
}

/// All that a task still knows.
fn live(call: usize, held: [Kind; BYTES]) -> u64 {
    held.into_iter().fold(call as u64 + 1, |live, kind| live << 2 | kind as u64)
}
