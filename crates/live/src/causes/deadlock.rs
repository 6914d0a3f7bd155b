//! Locks whose holders wait for each other: none of their waiters ever goes on.

use records::live::HolderState;

use super::{LiveCause, LiveCauseKind};

/// A holder that waits for the other lock for less of the time goes on by itself.
const ALWAYS: f64 = 0.95;

/// The causes, with the locks of each circle of waiting as one.
pub fn joined(locks: Vec<LiveCause>) -> Vec<LiveCause> {
    let next: Vec<Option<usize>> = locks.iter().map(|lock| waits_for(lock, &locks)).collect();
    let circles: Vec<Vec<usize>> = (0..locks.len()).filter_map(|at| circle(at, &next)).collect();
    let is_in_one = |at: &usize| circles.iter().any(|circle| circle.contains(at));
    let deadlocks = circles.iter().map(|circle| deadlock(circle, &locks));
    let others = (0..locks.len()).filter(|at| !is_in_one(at)).map(|at| locks[at].clone());
    deadlocks.chain(others).collect()
}

/// The lock that the holder of this one always waits for.
fn waits_for(lock: &LiveCause, locks: &[LiveCause]) -> Option<usize> {
    let waits = lock.holder.iter().find(|one| one.reason == HolderState::Lock)?;
    let is_always = lock.share >= ALWAYS && waits.share >= ALWAYS;
    let other = locks.iter().position(|other| waits.by.as_ref() == Some(&other.name));
    other.filter(|_| is_always)
}

/// The locks from this one on to it again, if it is the first in the list of those.
fn circle(first: usize, next: &[Option<usize>]) -> Option<Vec<usize>> {
    let mut circle = vec![first];
    while let Some(at) = next[circle[circle.len() - 1]] {
        if at == first {
            return (circle.iter().min() == Some(&first)).then_some(circle);
        }
        if circle.contains(&at) {
            return None;
        }
        circle.push(at);
    }
    None
}

fn deadlock(circle: &[usize], locks: &[LiveCause]) -> LiveCause {
    let members = || circle.iter().map(|at| &locks[*at]);
    let mut waited_in: Vec<String> = members().flat_map(|lock| lock.waited_in.clone()).collect();
    waited_in.dedup();
    LiveCause {
        cause: LiveCauseKind::Deadlock,
        name: members().map(|lock| lock.name.as_str()).collect::<Vec<_>>().join(", "),
        gain: None,
        threads: members().map(|lock| lock.threads).sum(),
        waited_in,
        held_in: Vec::new(),
        holder: Vec::new(),
        ..locks[circle[0]].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::HolderShare;
    use super::*;

    fn lock(name: &str, waits: (HolderState, &str, f64)) -> LiveCause {
        let (reason, by, share) = waits;
        LiveCause {
            cause: LiveCauseKind::Lock,
            name: name.to_string(),
            share: 1.0,
            share_half: None,
            gain: None,
            threads: 1.0,
            waited_in: vec![format!("take_{name}")],
            held_in: Vec::new(),
            holder: vec![HolderShare { reason, by: Some(by.to_string()), share, gain: None }],
        }
    }

    #[test]
    fn locks_whose_holders_wait_for_each_other_are_a_deadlock() {
        let waits = |by, share| (HolderState::Lock, by, share);
        let check = |locks: &[LiveCause], expected: &[(LiveCauseKind, &str)]| {
            let causes = joined(locks.to_vec());
            let found: Vec<_> = causes.iter().map(|one| (one.cause, one.name.as_str())).collect();
            assert_eq!(found, expected);
        };
        let (deadlock, one) = (LiveCauseKind::Deadlock, LiveCauseKind::Lock);
        let a = lock("a", waits("b", 1.0));
        // Behind a circle is not in it.
        check(
            &[lock("c", waits("a", 1.0)), a.clone(), lock("b", waits("a", 1.0))],
            &[(deadlock, "a, b"), (one, "c")],
        );
        // A thread that takes a lock that it has.
        check(&[lock("a", waits("a", 1.0))], &[(deadlock, "a")]);
        check(
            &[a.clone(), lock("b", waits("c", 1.0)), lock("c", waits("a", 1.0))],
            &[(deadlock, "a, b, c")],
        );
        // Nested locks, and a holder that goes on now and then.
        check(&[a.clone(), lock("b", (HolderState::Running, "", 1.0))], &[(one, "a"), (one, "b")]);
        check(&[a, lock("b", waits("a", 0.9))], &[(one, "a"), (one, "b")]);
    }
}
