//! What processes do with file locks when they are searched, and what must then hold: bytes
//! that a task holds to write are its own, and those that it holds to read stay as they are.

use machine::{Field, Machine, image};

use super::{Deadlocks, Design, FileLocks, Kind, Owner, Range};
use crate::Lock;

/// Bytes of the file.
pub const BYTES: usize = 2;

image! {
    /// What the locks guard.
    pub struct Bytes {
        bytes: [Field<u32>; BYTES],
    }
}

/// Kind, first and last byte.
type Call = (Kind, u64, u64);

/// The calls of each task. Two take two bytes crosswise, one upgrades and one splits.
const CROSSWISE: [&[Call]; 4] = [
    &[(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Unlock, 0, 0)],
    &[(Kind::Write, 1, 1), (Kind::Write, 0, 0), (Kind::Read, 0, 1)],
    &[(Kind::Read, 0, 1), (Kind::Write, 0, 0), (Kind::Unlock, 1, 1)],
    &[(Kind::Write, 0, 1), (Kind::Unlock, 0, 0), (Kind::Read, 1, 1)],
];

/// The same without circles, for a manager that does not look for them.
const IN_ORDER: [&[Call]; 4] = [
    &[(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Unlock, 0, 0)],
    &[(Kind::Write, 0, 0), (Kind::Write, 1, 1), (Kind::Read, 0, 1)],
    &[(Kind::Read, 0, 1), (Kind::Unlock, 0, 0), (Kind::Unlock, 1, 1)],
    &[(Kind::Write, 0, 1), (Kind::Unlock, 0, 0), (Kind::Read, 1, 1)],
];

/// The largest number of calls of a task.
pub const CALLS_MAX: u32 = 3;

/// Does so many calls, works on what it holds after each, and closes the file.
pub fn calls<L: Lock, M: Machine>(
    locks: &FileLocks<L>,
    m: &M,
    design: Design,
    bytes: &Bytes,
    calls: u32,
) {
    let scripts = match design.deadlocks {
        Deadlocks::Found => &CROSSWISE,
        Deadlocks::Ignored => &IN_ORDER,
    };
    let owner = Owner::Process(m.cpu() as u32);
    let mut held = [Kind::Unlock; BYTES];
    let begin = m.mark();
    let script = scripts[m.cpu() % scripts.len()].iter().take(calls as usize);
    for (call, &(kind, start, end)) in script.enumerate() {
        // A refusal, because it would wait for ever, leaves everything as it was.
        if locks.set(m, 0, Range { owner, kind, start, end }).is_ok() {
            held[start as usize..=end as usize].fill(kind);
        }
        m.cut(begin, live(call, held));
        work(m, bytes, held);
        m.cut(begin, live(call, held));
    }
    locks.close(m, 0, owner);
    m.cut(begin, 0);
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
