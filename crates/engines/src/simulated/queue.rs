//! What will happen when, in one order: by time, and at the same time by who asked first.

use super::Time;

/// Events, the next one last. They are few, some for each CPU that is not waiting for another one:
/// moving those behind a new one by a copy is cheaper than the jumps of a heap.
///
/// One number an event, so that comparing is one instruction or two: time, turn, who.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    events: Vec<u128>,
    turns: u64,
}

const WHO_BITS: u32 = 16;
const TURN_BITS: u32 = 48;

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub time: Time,
    /// Which of all that was ever asked for: unique.
    pub turn: u64,
    /// Whom it is for.
    pub who: u16,
}

impl Queue {
    /// Asks for an event; returns its turn, never 0.
    pub fn push(&mut self, time: Time, who: u16) -> u64 {
        self.turns += 1;
        let low = u128::from(self.turns) << WHO_BITS | u128::from(who);
        let event = u128::from(time) << (WHO_BITS + TURN_BITS) | low;
        let place = self.events.partition_point(|other| *other > event);
        self.events.insert(place, event);
        self.turns
    }

    /// The time of the next event; the end of time where there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.events.last().map_or(Time::MAX, |next| time(*next))
    }

    /// Takes the next event.
    pub fn pop(&mut self) -> Option<Due> {
        let next = self.events.pop()?;
        let turn = (next >> WHO_BITS) as u64 & ((1 << TURN_BITS) - 1);
        Some(Due { time: time(next), turn, who: next as u16 })
    }
}

fn time(entry: u128) -> Time {
    (entry >> (WHO_BITS + TURN_BITS)) as Time
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_who_asked_first() {
        let mut queue = Queue::default();
        for (time, who) in [(7, 1), (3, 9), (7, 0), (Time::MAX >> 1, 5), (3, 2)] {
            queue.push(time, who);
        }
        assert_eq!(queue.next_time(), 3);
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|due| due.who).collect();
        assert_eq!(order, [9, 2, 1, 0, 5]);
    }
}
