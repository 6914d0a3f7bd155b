//! The contract that every listed lock keeps on every machine: what the users of a lock do, and
//! what must then hold. A new lock needs no test of its own.
//!
//! Each task takes the lock several times and changes a plain field inside. Natively, a lock that
//! does not exclude loses counts. The checker reports each unordered access, and each state
//! in which two tasks are inside.

use machine::{Annotation, Field, Machine, image};

use crate::{Hold, Lock, SharedLock, digest};

image! {
    /// The data that the lock guards.
    pub struct Guarded {
        /// How often a task wrote it.
        pub writes: Field<u32>,
    }
}

/// The most locks that a task holds at a time: as many as a CPU has queue nodes.
pub const NESTED_MAX: usize = 4;

/// Takes the lock this often, and counts inside. Given several locks, it always takes the last, and
/// before that each of the others or not, in their order, so that a task holds up to all of them and any
/// may be used first.
pub fn exclusive<L: Lock, M: Machine>(
    lock: &L,
    m: &M,
    locks: &[L::Mem],
    guarded: &Guarded,
    acquires: u32,
) {
    let (inner, outer_locks) = locks.split_last().expect("there is a lock to take");
    assert!(locks.len() <= NESTED_MAX, "{} locks are nested", locks.len());
    let start = m.history_mark();
    for turn in 0..acquires {
        let mut holds = [const { None }; NESTED_MAX - 1];
        for (index, mem) in outer_locks.iter().enumerate() {
            if m.chance(2) {
                holds[index] = Some(lock.lock(m, mem));
            }
            m.forget_history(start, live(turn, &holds[..=index], None));
        }
        m.forget_history(start, live(turn, &holds, None));
        m.annotate(Annotation::Want);
        let hold = lock.lock(m, inner);
        m.forget_history(start, live(turn, &holds, Some(&hold)));
        m.annotate(Annotation::Enter);
        guarded.writes.set(m, guarded.writes.get(m) + 1);
        m.annotate(Annotation::Leave);
        m.forget_history(start, live(turn, &holds, Some(&hold)));
        lock.unlock(m, inner, hold);
        m.forget_history(start, live(turn, &holds, None));
        for (index, mem) in outer_locks.iter().enumerate().rev() {
            if let Some(hold) = holds[index].take() {
                lock.unlock(m, mem, hold);
            }
            m.forget_history(start, live(turn, &holds, None));
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
            m.annotate(Annotation::Want);
            let hold = lock.write_lock(m, mem);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            m.annotate(Annotation::Enter);
            guarded.writes.set(m, guarded.writes.get(m) + 1);
            m.annotate(Annotation::Leave);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            lock.write_unlock(m, mem, hold);
        } else {
            m.annotate(Annotation::WantShared);
            let hold = lock.read_lock(m, mem);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            m.annotate(Annotation::EnterShared);
            let _ = guarded.writes.get(m);
            m.annotate(Annotation::LeaveShared);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            lock.read_unlock(m, mem, hold);
        }
        m.forget_history(start, u64::from(turn));
    }
    writes
}

/// All of a task's past that affects its future, as one number.
fn live(turn: u32, outer: &[Option<Hold>], inner: Option<&Hold>) -> u64 {
    let number = |hold: Option<&Hold>| u64::from(hold.map_or(0, |hold| hold.0 + 1));
    let outer = outer.iter().map(|hold| number(hold.as_ref()));
    digest([u64::from(turn), number(inner)].into_iter().chain(outer))
}
