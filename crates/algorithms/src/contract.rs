//! What a user of a lock does, and what must then hold: the contract that every listed lock
//! keeps on every machine. A new lock needs no test of its own.
//!
//! Each task takes the lock several times and changes a plain field inside. Natively, turns
//! would get lost if the lock did not exclude; a search sees each access that nothing
//! orders, and each state where two are inside.

use machine::{Atom, Field, Machine, Note, Ordering, image};

use crate::{Lock, SharedLock};

image! {
    /// What the lock guards.
    pub struct Guarded {
        /// How often it was written.
        pub writes: Field<u32>,
    }

    /// How often readers were inside.
    pub struct Reads {
        /// Not guarded by anything.
        pub reads: Atom<u32>,
    }
}

/// Takes the lock this often, and counts inside.
pub fn exclusive<L: Lock, M: Machine>(
    lock: &L,
    m: &M,
    at: &L::Mem,
    guarded: &Guarded,
    acquires: u32,
) {
    let start = m.mark();
    for turn in 0..acquires {
        let hold = lock.lock(m, at);
        m.cut(start, round(turn, &hold.0));
        m.note(Note::Enter);
        guarded.writes.set(m, guarded.writes.get(m) + 1);
        m.note(Note::Leave);
        m.cut(start, round(turn, &hold.0));
        lock.unlock(m, at, hold);
        m.cut(start, u64::from(turn));
    }
}

/// Takes the lock this often, each time to read or to write.
pub fn shared<L: SharedLock, M: Machine>(
    lock: &L,
    m: &M,
    at: &L::Mem,
    guarded: &Guarded,
    acquires: u32,
) {
    let start = m.mark();
    for turn in 0..acquires {
        if m.random(2) == 0 {
            let hold = lock.write_lock(m, at);
            m.cut(start, round(turn, &hold.0));
            m.note(Note::Enter);
            guarded.writes.set(m, guarded.writes.get(m) + 1);
            m.note(Note::Leave);
            m.cut(start, round(turn, &hold.0));
            lock.write_unlock(m, at, hold);
        } else {
            let hold = lock.read_lock(m, at);
            m.cut(start, round(turn, &hold.0));
            m.note(Note::EnterShared);
            let _ = guarded.writes.get(m);
            m.note(Note::LeaveShared);
            m.cut(start, round(turn, &hold.0));
            lock.read_unlock(m, at, hold);
        }
        m.cut(start, u64::from(turn));
    }
}

/// All that a task still knows of the past, in one number.
fn round(turn: u32, hold: &u32) -> u64 {
    u64::from(turn) << 32 | u64::from(*hold)
}

/// Counts a read, natively: a search has no use for it.
pub fn count_read<M: Machine>(m: &M, reads: &Reads) {
    reads.reads.fetch_add(m, 1, Ordering::Relaxed);
}
