//! The contract that every listed lock keeps on every machine: what the users of a lock do, and
//! what must then hold. A new lock needs no test of its own.
//!
//! Each task takes the lock several times and changes a plain field inside. Natively, a lock that
//! does not exclude loses counts. The checker reports each unordered access, and each state
//! in which two tasks are inside.

use std::ops::Range;

use machine::{Annotation, Field, Machine, image};

use crate::{Hold, Locks, digest};

image! {
    /// The data that the lock guards.
    pub struct Guarded {
        /// How often a task wrote it.
        pub writes: Field<u32>,
    }
}

/// The most locks that a task holds at a time: as many as a CPU has queue nodes.
pub const NESTED_MAX: usize = 4;

/// Takes a lock this often, and counts inside. Given several, it always takes the last, and before that each of the
/// others or not, in order, so that a task holds up to all of them.
pub fn exclusive<L: Locks, M: Machine>(
    locks: &L,
    m: &M,
    numbers: Range<usize>,
    guarded: &Guarded,
    acquires: u32,
) {
    assert!((1..=NESTED_MAX).contains(&numbers.len()), "locks {numbers:?} are nested");
    let (first, inner, start) = (numbers.start, numbers.end - 1, m.history_mark());
    for turn in 0..acquires {
        let mut holds = [const { None }; NESTED_MAX - 1];
        for number in first..inner {
            if m.chance(2) {
                holds[number - first] = Some(locks.lock(m, number));
            }
            m.forget_history(start, live(turn, &holds[..=number - first], None));
        }
        m.forget_history(start, live(turn, &holds, None));
        m.annotate(Annotation::Want);
        let hold = locks.lock(m, inner);
        m.forget_history(start, live(turn, &holds, Some(&hold)));
        m.annotate(Annotation::Enter);
        guarded.writes.set(m, guarded.writes.get(m) + 1);
        m.annotate(Annotation::Leave);
        m.forget_history(start, live(turn, &holds, Some(&hold)));
        locks.unlock(m, inner, hold);
        m.forget_history(start, live(turn, &holds, None));
        for number in (first..inner).rev() {
            if let Some(hold) = holds[number - first].take() {
                locks.unlock(m, number, hold);
            }
            m.forget_history(start, live(turn, &holds, None));
        }
        m.forget_history(start, u64::from(turn));
    }
}

/// Takes the first lock this often, each time to read or to write; returns the number of writes.
pub fn shared<L: Locks, M: Machine>(locks: &L, m: &M, guarded: &Guarded, acquires: u32) -> u32 {
    let mut writes = 0;
    let start = m.history_mark();
    for turn in 0..acquires {
        if m.random(2) == 0 {
            writes += 1;
            m.annotate(Annotation::Want);
            let hold = locks.lock(m, 0);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            m.annotate(Annotation::Enter);
            guarded.writes.set(m, guarded.writes.get(m) + 1);
            m.annotate(Annotation::Leave);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            locks.unlock(m, 0, hold);
        } else {
            m.annotate(Annotation::WantShared);
            let hold = locks.read_lock(m, 0);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            m.annotate(Annotation::EnterShared);
            let _ = guarded.writes.get(m);
            m.annotate(Annotation::LeaveShared);
            m.forget_history(start, live(turn, &[], Some(&hold)));
            locks.read_unlock(m, 0, hold);
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
