//! What will happen when, in one order: by time, and at the same time by who asked first.

use super::Time;

/// Events. They are few, some for each CPU that is not waiting for another one, and a new one is
/// mostly due before all but some of them: looking from there, and moving what is passed on the
/// way, is cheaper than a search or the jumps of a heap. The next one is apart: whether a task may
/// go on is asked more often than anything else.
///
/// That the time is over is an event too, which never happens.
#[derive(Clone, Debug)]
pub struct Queue {
    next: Due,
    /// All others, those that are due first last.
    later: Vec<Due>,
    turns: u64,
    over: Time,
}

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Due {
    /// When.
    pub time: Time,
    /// Which of all that was ever asked for it is, and whom it is for.
    turn_and_who: u64,
}

const WHO_BITS: u32 = 16;

/// How many events are passed before the place of a new one is searched for instead.
const NEAR: usize = 16;

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
    /// Nothing is due from `over` on.
    pub fn new(over: Time) -> Queue {
        let next = Due { time: over, turn_and_who: 0 };
        Queue { next, later: Vec::new(), turns: 0, over }
    }

    /// Asks for an event; returns its turn, never 0.
    #[inline]
    pub fn push(&mut self, time: Time, who: u16) -> u64 {
        if self.later.len() == self.later.capacity() {
            return self.push_where_full(time, who);
        }
        self.turns += 1;
        let new = Due { time, turn_and_who: self.turns << WHO_BITS | u64::from(who) };
        if time < self.next.time {
            self.later.push(self.next);
            self.next = new;
            return self.turns;
        }
        let far = self.later.len().saturating_sub(NEAR);
        if far > 0 && self.later[far].time <= time {
            self.insert_far(new, far);
            return self.turns;
        }
        let mut place = self.later.len();
        self.later.push(new);
        // Those of the same time were asked for before.
        while place > 0 && self.later[place - 1].time <= time {
            self.later[place] = self.later[place - 1];
            place -= 1;
        }
        self.later[place] = new;
        self.turns
    }

    /// Virtual CPUs whose spinning is noticed leave hundreds of events that nobody waits for any more.
    #[cold]
    fn insert_far(&mut self, new: Due, far: usize) {
        let place = self.later[..far].partition_point(|other| other.time > new.time);
        self.later.insert(place, new);
    }

    /// Apart, so that it costs nothing where there is room.
    #[cold]
    #[inline(never)]
    fn push_where_full(&mut self, time: Time, who: u16) -> u64 {
        self.later.reserve(1);
        self.push(time, who)
    }

    /// Whether nothing is due up to this time.
    #[inline]
    pub fn is_first(&self, time: Time) -> bool {
        time < self.next.time
    }

    /// Takes the next event; nothing where the time is over.
    #[inline]
    pub fn pop(&mut self) -> Option<Due> {
        let next = self.next;
        if next.time >= self.over {
            return None;
        }
        self.next = self.later.pop()?;
        Some(next)
    }

    /// Whether there is no event at all, also none after all is over.
    pub fn is_empty(&self) -> bool {
        self.later.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_by_who_asked_first() {
        let mut queue = Queue::new(100);
        for (time, who) in [(7, 1), (3, 9), (7, 0), (99, 5), (100, 6), (3, 2), (200, 7)] {
            queue.push(time, who);
        }
        assert!(queue.is_first(2) && !queue.is_first(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|due| due.who()).collect();
        assert_eq!(order, [9, 2, 1, 0, 5]);
        assert!(!queue.is_empty());
    }

    #[test]
    fn a_place_among_many_is_found() {
        let mut queue = Queue::new(1000);
        let asked: Vec<(Time, u16)> =
            (0..200).map(|who| (u64::from(who) * 7919 % 97, who)).collect();
        for &(time, who) in &asked {
            queue.push(time, who);
        }
        let mut expected = asked;
        expected.sort_by_key(|&(time, _)| time);
        let order = std::iter::from_fn(|| queue.pop()).map(|due| (due.time, due.who()));
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }
}
