//! The contract that every listed lock keeps on every machine: what the users of a lock do, and
//! what must then hold. A new lock needs no test of its own.
//!
//! Each task takes the lock several times and changes a plain field inside. Natively, a lock that
//! does not exclude loses counts. The checker reports each unordered access, and each state
//! in which two tasks are inside.

use machine::{Annotation, Field, Machine, image};

use crate::{Hold, Lock, SharedLock};

image! {
    /// The data that the lock guards.
    pub struct Guarded {
        /// How often a task wrote it.
        pub writes: Field<u32>,
    }
}

/// Takes the lock this often, and counts inside. Given two locks, it always takes the second, and
/// before that sometimes the first, so that a task holds both and either may be used first.
pub fn exclusive<L: Lock, M: Machine>(
    lock: &L,
    m: &M,
    locks: &[L::Mem],
    guarded: &Guarded,
    acquires: u32,
) {
    let (inner, outer_locks) = locks.split_last().expect("there is a lock to take");
    let start = m.history_mark();
    for turn in 0..acquires {
        let outer = outer_locks.first().filter(|_| m.chance(2));
        let outer = outer.map(|mem| (mem, lock.lock(m, mem)));
        let outer_hold = outer.as_ref().map(|(_, hold)| hold);
        m.forget_history(start, live(turn, outer_hold, None));
        let hold = lock.lock(m, inner);
        m.forget_history(start, live(turn, outer_hold, Some(&hold)));
        m.annotate(Annotation::Enter);
        guarded.writes.set(m, guarded.writes.get(m) + 1);
        m.annotate(Annotation::Leave);
        m.forget_history(start, live(turn, outer_hold, Some(&hold)));
        lock.unlock(m, inner, hold);
        m.forget_history(start, live(turn, outer_hold, None));
        if let Some((mem, hold)) = outer {
            lock.unlock(m, mem, hold);
        }
        m.forget_history(start, u64::from(turn));
    }
}

/// Takes the lock this often, each time to read or to write; returns the number of writes.
pub fn shared<L: SharedLock, M: Machine>(
    lock: &L,
    m: &M,
    mem: &L::Mem,
    guarded: &Guarded,
    acquires: u32,
) -> u32 {
    let mut writes = 0;
    let start = m.history_mark();
    for turn in 0..acquires {
        if m.random(2) == 0 {
            writes += 1;
            let hold = lock.write_lock(m, mem);
            m.forget_history(start, live(turn, None, Some(&hold)));
            m.annotate(Annotation::Enter);
            guarded.writes.set(m, guarded.writes.get(m) + 1);
            m.annotate(Annotation::Leave);
            m.forget_history(start, live(turn, None, Some(&hold)));
            lock.write_unlock(m, mem, hold);
        } else {
            let hold = lock.read_lock(m, mem);
            m.forget_history(start, live(turn, None, Some(&hold)));
            m.annotate(Annotation::EnterShared);
            let _ = guarded.writes.get(m);
            m.annotate(Annotation::LeaveShared);
            m.forget_history(start, live(turn, None, Some(&hold)));
            lock.read_unlock(m, mem, hold);
        }
        m.forget_history(start, u64::from(turn));
    }
    writes
}

/// All of a task's past that affects its future, as one number.
fn live(turn: u32, outer: Option<&Hold>, inner: Option<&Hold>) -> u64 {
    let number = |hold: Option<&Hold>| u64::from(hold.map_or(0, |hold| hold.0 + 1));
    u64::from(turn) << 32 | number(outer) << 16 | number(inner)
}
