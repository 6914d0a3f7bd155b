//! Future events in a total order: by time, then by the order in which they were queued.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Time;

/// A queue of events. They are few, some for each CPU that does not wait for another one. A new
/// event is mostly due before all others but a few: to insert it by shifting those is cheaper
/// than the jumps of a heap, where those go that are due after more. The next event is kept apart
/// from the others, because the most frequent question is whether a task is due before it.
///
/// The end of time is an event too, which is never popped.
#[derive(Clone, Debug)]
pub struct EventQueue {
    next: QueuedEvent,
    /// Other events, by falling time.
    later: Vec<QueuedEvent>,
    /// Events that were due after many of `later` when they were queued. Virtual CPUs with pause-loop
    /// exiting leave thousands that no task waits for any more.
    far: BinaryHeap<Reverse<QueuedEvent>>,
    /// When the first of `far` is due; the end of all times if there is none.
    far_due: Time,
    sequence: u64,
    end: Time,
}

/// An event for a target, which is a task, a store buffer, a timer or an interrupt.
///
/// Events are ordered by time, then by their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuedEvent {
    /// When it is due.
    pub time: Time,
    sequence_and_target: u64,
}

const TARGET_BITS: u32 = 16;

/// How many events are shifted at most.
const NEAR: usize = 16;

impl QueuedEvent {
    /// Its number among all events ever queued, from 1.
    #[inline]
    pub fn sequence(self) -> u64 {
        self.sequence_and_target >> TARGET_BITS
    }

    #[inline]
    pub fn target(self) -> u16 {
        self.sequence_and_target as u16
    }
}

impl EventQueue {
    /// An empty queue; no event is due from `end` on.
    pub fn new(end: Time) -> EventQueue {
        let next = QueuedEvent { time: end, sequence_and_target: 0 };
        let far = BinaryHeap::new();
        EventQueue { next, later: Vec::new(), far, far_due: Time::MAX, sequence: 0, end }
    }

    /// Queues an event; returns its sequence number, never 0.
    #[inline]
    pub fn push(&mut self, time: Time, target: u16) -> u64 {
        if self.later.len() == self.later.capacity() {
            return self.push_into_full(time, target);
        }
        self.sequence += 1;
        let new = QueuedEvent {
            time,
            sequence_and_target: self.sequence << TARGET_BITS | u64::from(target),
        };
        if time < self.next.time {
            self.later.push(self.next);
            self.next = new;
            return self.sequence;
        }
        if self.is_far(time) {
            self.push_far(new);
            return self.sequence;
        }
        let mut index = self.later.len();
        self.later.push(new);
        // Events of the same time were queued before, and stay before.
        while index > 0 && self.later[index - 1].time <= time {
            self.later[index] = self.later[index - 1];
            index -= 1;
        }
        self.later[index] = new;
        self.sequence
    }

    /// A function of its own, so that `push` costs nothing for it where there is room.
    #[cold]
    #[inline(never)]
    fn push_into_full(&mut self, time: Time, target: u16) -> u64 {
        self.later.reserve(1);
        self.push(time, target)
    }

    /// Whether an event at this time is due after so many of `later` that it goes to `far`.
    #[inline(always)]
    fn is_far(&self, time: Time) -> bool {
        let far = self.later.len().saturating_sub(NEAR);
        far > 0 && self.later[far].time <= time
    }

    #[cold]
    #[inline(never)]
    fn push_far(&mut self, new: QueuedEvent) {
        self.far.push(Reverse(new));
        self.far_due = self.far_due.min(new.time);
    }

    /// Numbers an event that may be queued later with [`EventQueue::push_numbered`], in its place among those of the same
    /// time that are queued from now on.
    #[inline]
    pub fn next_number(&mut self) -> u64 {
        self.sequence += 1;
        self.sequence
    }

    /// Queues an event that has been numbered.
    #[cold]
    pub fn push_numbered(&mut self, time: Time, target: u16, number: u64) {
        let mut new =
            QueuedEvent { time, sequence_and_target: number << TARGET_BITS | u64::from(target) };
        if new < self.next {
            std::mem::swap(&mut new, &mut self.next);
        }
        let index = self.later.partition_point(|other| *other > new);
        self.later.insert(index, new);
    }

    /// Whether an event is due before this time.
    #[inline]
    pub fn is_due_before(&self, time: Time) -> bool {
        self.next.time < time
    }

    /// Whether no event is due up to this time.
    #[inline]
    pub fn is_first(&self, time: Time) -> bool {
        time < self.next.time
    }

    /// Takes the next event; `None` at the end.
    #[inline]
    pub fn pop(&mut self) -> Option<QueuedEvent> {
        let next = self.next;
        if next.time >= self.end {
            return None;
        }
        let near = self.later.last()?;
        if self.far_due <= near.time {
            self.next_of_both();
        } else {
            self.next = *near;
            self.later.pop();
        }
        Some(next)
    }

    /// Takes the next event from `later` or `far`, where neither is empty.
    #[cold]
    #[inline(never)]
    fn next_of_both(&mut self) {
        let is_far = self.far.peek().is_some_and(|Reverse(far)| Some(far) < self.later.last());
        let first = if is_far { self.far.pop().map(|Reverse(far)| far) } else { self.later.pop() };
        self.next = first.expect("neither is empty");
        self.far_due = self.far.peek().map_or(Time::MAX, |Reverse(far)| far.time);
    }

    /// Whether no event is left, not even one after the end.
    pub fn is_empty(&self) -> bool {
        self.later.is_empty() && self.far.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_by_time_and_then_in_the_order_in_which_they_were_queued() {
        let mut queue = EventQueue::new(100);
        for (time, target) in [(7, 1), (3, 9), (7, 0), (99, 5), (100, 6), (3, 2), (200, 7)] {
            queue.push(time, target);
        }
        assert!(queue.is_first(2) && !queue.is_first(3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).map(|due| due.target()).collect();
        assert_eq!(order, [9, 2, 1, 0, 5]);
        assert!(!queue.is_empty());
    }

    #[test]
    fn many_events_are_sorted() {
        let mut queue = EventQueue::new(1000);
        let queued: Vec<(Time, u16)> =
            (0..200).map(|target| (u64::from(target) * 7919 % 97, target)).collect();
        for &(time, target) in &queued {
            queue.push(time, target);
        }
        let mut expected = queued;
        expected.sort_by_key(|&(time, _)| time);
        let order = std::iter::from_fn(|| queue.pop()).map(|due| (due.time, due.target()));
        assert_eq!(order.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn events_far_and_near_come_in_one_order_while_more_are_queued() {
        let mut queue = EventQueue::new(Time::MAX);
        let mut expected = BinaryHeap::new();
        let mut random = 1_u64;
        let (mut now, mut far_ones) = (0, 0);
        for _ in 0..20_000 {
            random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            // Many times are equal, some far away.
            let delay = if random >> 63 == 0 { random >> 40 & 7 } else { random >> 40 & 0xFFF };
            let target = (random >> 33) as u16 & 0xFF;
            let number = (random >> 20 & 3 == 0).then(|| queue.next_number());
            let sequence = queue.push(now + delay, target);
            expected.push(Reverse((now + delay, sequence)));
            if let Some(number) = number {
                let time = now + (random >> 50 & 7);
                queue.push_numbered(time, target, number);
                expected.push(Reverse((time, number)));
            }
            far_ones += usize::from(!queue.far.is_empty());
            if expected.len() > 300 || random >> 60 & 3 == 0 {
                let Reverse(first) = expected.pop().expect("one has just been queued");
                let popped = queue.pop().map(|event| (event.time, event.sequence()));
                assert_eq!(popped, Some(first));
                now = first.0;
            }
        }
        assert!(far_ones > 10_000, "{far_ones}");
    }
}
