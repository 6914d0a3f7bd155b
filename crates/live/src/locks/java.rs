//! Waits of Java: a thread is parked at one place of its own for all locks and conditions, so that the place does not tell
//! them apart.

use std::collections::BTreeMap;

use records::live::Trace;

use super::{LockWait, LockWaits};
use crate::java_locks::JavaWait;
use crate::places::{java_wait, place, user_frames};

/// What a wait is for, and the method that waits.
type For = (JavaWait, Option<String>);

impl<'t> LockWaits<'t> {
    /// The waits for each lock and for conditions, if these are waits of Java; else all waits as they are. A wait without a
    /// stack is taken to be for what the wait before it was for.
    pub(super) fn by_java_lock(self, trace: &Trace) -> Vec<LockWaits<'t>> {
        let known: Vec<Option<For>> = self.waits.iter().map(|wait| purpose(trace, wait)).collect();
        let Some(first) = known.iter().flatten().next().cloned() else { return vec![self] };
        let mut by_purpose: BTreeMap<For, Vec<LockWait<'t>>> = BTreeMap::new();
        let mut last = first;
        for (wait, known) in self.waits.into_iter().zip(known) {
            last = known.unwrap_or(last);
            by_purpose.entry(last.clone()).or_default().push(wait);
        }
        let lock = |((java, _), waits): (For, Vec<LockWait<'t>>)| LockWaits {
            places: self.places.clone(),
            at: self.at,
            java: Some(java),
            waits,
        };
        by_purpose.into_iter().map(lock).collect()
    }
}

fn purpose(trace: &Trace, wait: &LockWait) -> Option<For> {
    let frames = user_frames(trace, wait.stack?);
    let wait = java_wait(&frames)?;
    let method = match wait {
        JavaWait::Condition => None,
        JavaWait::Lock(..) => place(&frames).map(|place| place.function),
    };
    Some((wait, method))
}
