//! The tasks that wait for words of one cache line.

use machine::Until;

use super::Time;
use super::coherence::WordAddress;

/// A task that waits for a word, with all that is needed to read the word again.
#[derive(Clone, Copy, Debug)]
pub struct Waiter {
    /// The time up to which the task has run, which its `time` is set to when it continues.
    pub time: Time,
    pub until: Until<u64>,
    pub word: WordAddress,
    pub task: u16,
    pub cpu: u16,
    /// What the hash of a run has of a read of the word by the task.
    pub identity: u64,
}

/// The tasks that wait for words of a line, in an order that begins anywhere.
#[derive(Clone, Debug, Default)]
pub struct Waiters {
    waiters: Vec<Waiter>,
    /// The index of the first in order. The last one is the one before it.
    first: usize,
}

impl Waiters {
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.waiters.len()
    }

    /// Removes the only task.
    #[inline(always)]
    pub fn clear(&mut self) {
        self.waiters.clear();
        self.first = 0;
    }

    /// The only task; `None` if there are several, or none.
    #[inline(always)]
    pub fn only(&mut self) -> Option<&mut Waiter> {
        if let [waiter] = &mut self.waiters[..] { Some(waiter) } else { None }
    }

    /// Adds a task at the end.
    pub fn push(&mut self, waiter: Waiter) {
        if self.first == 0 {
            self.waiters.push(waiter);
        } else {
            self.waiters.insert(self.first, waiter);
            self.first += 1;
        }
    }

    /// Lets the order begin this many tasks later.
    #[inline(always)]
    pub fn rotate(&mut self, by: usize) {
        self.first += by;
        if self.first >= self.waiters.len() {
            self.first -= self.waiters.len();
        }
    }

    /// All tasks in order, in two parts.
    #[inline(always)]
    pub fn parts(&mut self) -> [&mut [Waiter]; 2] {
        let (later, sooner) = self.waiters.split_at_mut(self.first);
        [sooner, later]
    }

    /// Removes a task.
    pub fn remove(&mut self, task: u16) -> Option<Waiter> {
        let index = self.waiters.iter().position(|waiter| waiter.task == task)?;
        let waiter = self.waiters.remove(index);
        self.first -= usize::from(index < self.first);
        if self.first == self.waiters.len() {
            self.first = 0;
        }
        Some(waiter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiter(task: u16) -> Waiter {
        let word = WordAddress { offset: 0, size: 8 };
        Waiter { time: 0, until: Until::equals(1), word, task, cpu: task, identity: 0 }
    }

    #[test]
    fn the_order_is_kept_wherever_it_begins() {
        let mut waiters = Waiters::default();
        let mut expected = std::collections::VecDeque::new();
        let mut state = 1_u64;
        for number in 0..2000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let choice = (state >> 33) as usize;
            match expected.len() {
                length if length < 2 || choice % 5 < 2 => {
                    waiters.push(waiter(number));
                    expected.push_back(number);
                }
                length if choice % 5 < 4 => {
                    let by = choice / 5 % length;
                    waiters.rotate(by);
                    expected.rotate_left(by);
                }
                length => {
                    let task = expected.remove(choice / 5 % length).expect("an index below");
                    assert_eq!(waiters.remove(task).map(|waiter| waiter.task), Some(task));
                }
            }
            let order = waiters.parts().into_iter().flatten().map(|waiter| waiter.task);
            assert!(order.eq(expected.iter().copied()), "{expected:?}");
            assert_eq!(waiters.len(), expected.len());
        }
        assert!(waiters.remove(9999).is_none());
    }
}
