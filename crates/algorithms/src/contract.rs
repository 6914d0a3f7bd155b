//! What a user of a lock does, and what must then hold: the contract that every listed lock
//! keeps on every machine. A new lock needs no test of its own.
//!
//! Each task takes the lock several times and changes a plain field inside. Natively, turns
//! would get lost if the lock did not exclude; a search sees each access that nothing
//! orders, and each state where two are inside.

use machine::{Annotation, Field, Machine, image};

use crate::{Hold, Lock, SharedLock};

image! {
    /// What the lock guards.
    pub struct Guarded {
        /// How often it was written.
        pub writes: Field<u32>,
    }
}

/// Takes the lock this often, and counts inside. Of two locks it takes the second, and
/// before that the first or not: so locks are held at once, and first used at once.
pub fn exclusive<L: Lock, M: Machine>(
    lock: &L,
    m: &M,
    locks: &[L::Mem],
    guarded: &Guarded,
    acquires: u32,
) {
    let (inner, outer) = locks.split_last().expect("there is a lock to take");
    let start = m.history_mark();
    for turn in 0..acquires {
        let outer = outer.first().filter(|_| m.chance(2));
        let outer = outer.map(|at| (at, lock.lock(m, at)));
        let held_outer = outer.as_ref().map(|(_, hold)| hold);
        m.forget_history(start, round(turn, held_outer, None));
        let held = lock.lock(m, inner);
        m.forget_history(start, round(turn, held_outer, Some(&held)));
        m.annotate(Annotation::Enter);
        guarded.writes.set(m, guarded.writes.get(m) + 1);
        m.annotate(Annotation::Leave);
        m.forget_history(start, round(turn, held_outer, Some(&held)));
        lock.unlock(m, inner, held);
        m.forget_history(start, round(turn, held_outer, None));
        if let Some((at, hold)) = outer {
            lock.unlock(m, at, hold);
        }
        m.forget_history(start, u64::from(turn));
    }
}

/// Takes the lock this often, each time to read or to write; returns how often to write.
pub fn shared<L: SharedLock, M: Machine>(
    lock: &L,
    m: &M,
    at: &L::Mem,
    guarded: &Guarded,
    acquires: u32,
) -> u32 {
    let mut writes = 0;
    let start = m.history_mark();
    for turn in 0..acquires {
        if m.random(2) == 0 {
            writes += 1;
            let hold = lock.write_lock(m, at);
            m.forget_history(start, round(turn, None, Some(&hold)));
            m.annotate(Annotation::Enter);
            guarded.writes.set(m, guarded.writes.get(m) + 1);
            m.annotate(Annotation::Leave);
            m.forget_history(start, round(turn, None, Some(&hold)));
            lock.write_unlock(m, at, hold);
        } else {
            let hold = lock.read_lock(m, at);
            m.forget_history(start, round(turn, None, Some(&hold)));
            m.annotate(Annotation::EnterShared);
            let _ = guarded.writes.get(m);
            m.annotate(Annotation::LeaveShared);
            m.forget_history(start, round(turn, None, Some(&hold)));
            lock.read_unlock(m, at, hold);
        }
        m.forget_history(start, u64::from(turn));
    }
    writes
}

/// All that a task still knows of the past, in one number.
fn round(turn: u32, outer: Option<&Hold>, inner: Option<&Hold>) -> u64 {
    let held = |hold: Option<&Hold>| u64::from(hold.map_or(0, |hold| hold.0 + 1));
    u64::from(turn) << 32 | held(outer) << 16 | held(inner)
}
