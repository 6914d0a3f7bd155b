//! The age of a lease, by watching it not change: clocks of hosts are never compared.

use std::time::Duration;

/// A beat that is being watched, by the watcher's own monotonic clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watch {
    beat: Option<u64>,
    since: Duration,
    has_changed: bool,
}

impl Watch {
    /// Begins to watch a claim whose beat is this now.
    pub fn new(beat: Option<u64>, now: Duration) -> Watch {
        Watch { beat, since: now, has_changed: false }
    }

    /// Looks again.
    pub fn look(&mut self, beat: Option<u64>, now: Duration) {
        if beat != self.beat {
            *self = Watch { beat, since: now, has_changed: true };
        }
    }

    /// Whether the owner has shown a sign of life since watching began.
    pub fn has_changed(&self) -> bool {
        self.has_changed
    }

    /// Whether the owner has shown no sign of life for as long as its lease.
    pub fn has_lapsed(&self, lease: Duration, now: Duration) -> bool {
        now.saturating_sub(self.since) >= lease
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_lapses_when_its_beat_stands_still_for_as_long() {
        let second = Duration::from_secs;
        let mut watch = Watch::new(Some(3), second(100));
        watch.look(Some(3), second(109));
        assert!(!watch.has_lapsed(second(10), second(109)) && !watch.has_changed());
        watch.look(Some(4), second(109));
        assert!(!watch.has_lapsed(second(10), second(118)) && watch.has_changed());
        assert!(watch.has_lapsed(second(10), second(119)));
    }
}
