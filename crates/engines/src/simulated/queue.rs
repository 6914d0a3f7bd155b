//! What will happen when, in one order: by time, and at the same time by who asked first.

use super::Time;

/// Events, the next one last. They are few, some for each CPU that is not waiting for another one,
/// and a new one is mostly due before all but some of them: looking from there, and moving what is
/// passed on the way, is cheaper than a search or the jumps of a heap.
#[derive(Clone, Debug, Default)]
pub struct Queue {
    events: Vec<Due>,
    turns: u64,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub time: Time,
    /// Whom it is for, and which of all that was ever asked for it is: unique.
    turn_and_who: u64,
}

const WHO_BITS: u32 = 16;

impl Due {
    /// Which of all that was ever asked for: unique.
    #[inline]
    pub fn turn(self) -> u64 {
        self.turn_and_who >> WHO_BITS
    }

    /// Whom it is for.
    #[inline]
    pub fn who(self) -> u16 {
        self.turn_and_who as u16
    }
}

impl Queue {
    /// Asks for an event; returns its turn, never 0.
    #[inline]
    pub fn push(&mut self, time: Time, who: u16) -> u64 {
        if self.events.len() == self.events.capacity() {
            return self.push_to_full(time, who);
        }
        self.turns += 1;
        let new = Due { time, turn_and_who: self.turns << WHO_BITS | u64::from(who) };
        let mut place = self.events.len();
        self.events.push(new);
        // Those of the same time were asked for before.
        while place > 0 && self.events[place - 1].time <= time {
            self.events[place] = self.events[place - 1];
            place -= 1;
        }
        self.events[place] = new;
        self.turns
    }

    #[cold]
    #[inline(never)]
    fn push_to_full(&mut self, time: Time, who: u16) -> u64 {
        self.events.reserve(1);
        self.push(time, who)
    }

    /// The time of the next event; the end of time where there is none.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.events.last().map_or(Time::MAX, |next| next.time)
    }

    /// Takes the next event.
    #[inline]
    pub fn pop(&mut self) -> Option<Due> {
        self.events.pop()
    }
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
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|due| due.who()).collect();
        assert_eq!(order, [9, 2, 1, 0, 5]);
    }
}
