//! What futex calls do to tasks that sleep: wake them, or let them sleep on another word.

use machine::{Requeue, Sleep, Sleepers};

use super::request::{Reply, Request, RequestKind, SIGNALLED};
use super::schedule::{SIGNAL, SPURIOUS, Turn};
use super::world::World;

impl World {
    /// Whether a sleeper may wake without a wake-up. Where loads read old values, once: each time adds to an execution.
    fn wakes_by_itself(&self, task: usize) -> bool {
        self.spurious_wakeups && !self.state.tasks[task].has_woken_by_itself
    }

    /// The turns in which a sleeper wakes without a wake-up: for nothing, or by a signal.
    pub fn turns_by_itself(&self, task: usize, sleep: Sleep, into: &mut Vec<Turn>) {
        if self.wakes_by_itself(task) {
            into.push((task as u8, SPURIOUS));
            into.extend(sleep.tells_signals.then_some((task as u8, SIGNAL)));
        }
    }

    /// Lets a sleeper wake without a wake-up; returns what a trace says of it.
    pub fn wake_by_itself(
        &mut self,
        task: usize,
        alternative: u8,
        reply: &mut Reply,
    ) -> &'static str {
        self.state.tasks[task].has_woken_by_itself = self.reads_old();
        if alternative == SIGNAL {
            reply.value = SIGNALLED;
            return " (by a signal: EINTR)";
        }
        " (without a wake-up)"
    }

    /// Wakes the sleeper that the alternative says, or all; returns how many.
    pub fn wake_sleepers(
        &mut self,
        offset: u32,
        whom: Sleepers,
        bits: u32,
        alternative: u8,
    ) -> u64 {
        let sleepers = self.state.asleep_on(offset, bits);
        let woken: Vec<usize> = match whom {
            Sleepers::One => sleepers.skip(usize::from(alternative)).take(1).collect(),
            Sleepers::All => sleepers.collect(),
        };
        for &sleeper in &woken {
            self.state.tasks[sleeper].request.kind = RequestKind::Woken;
        }
        woken.len() as u64
    }

    /// In how many ways a requeue that a task is at can choose among the sleepers; 1 for all other steps.
    pub fn requeues(&self, task: usize) -> u8 {
        let Request { kind, offset, .. } = self.state.tasks[task].request;
        let RequestKind::Requeue(Requeue { woken, moved, .. }, _) = kind else { return 1 };
        let sleepers = self.state.asleep_on(offset, u32::MAX).count() as u32;
        let all_alike =
            [woken, moved].iter().any(|&many| many >= sleepers) && (woken == 0 || moved == 0);
        if sleepers < 2 || all_alike || woken >= sleepers { 1 } else { 2 * sleepers as u8 }
    }

    /// What a task's requeue does, if the word is as it expects. Where loads read old values, the reply has the word already.
    pub fn perform_requeue(
        &mut self,
        task: usize,
        request: &Request,
        (how, to): (Requeue, u32),
        alternative: u8,
        reply: &mut Reply,
    ) -> u64 {
        self.note_barrier(task, true);
        let found = if self.reads_old() {
            std::mem::take(&mut reply.value)
        } else {
            self.value_seen(task, request.offset, request.size)
        };
        reply.held = how.expected.is_none_or(|expected| u64::from(expected) == found);
        if !reply.held {
            return 0;
        }
        self.requeue_sleepers(request.offset, to, how, alternative % self.requeues(task))
    }

    /// Wakes sleepers, and lets others sleep on another word. Returns how many: the second number in the second byte. Of few
    /// that are woken or moved, the alternative says which: the sleepers from one on, up or down. So all pairs of three are there.
    fn requeue_sleepers(&mut self, offset: u32, to: u32, how: Requeue, alternative: u8) -> u64 {
        let mut sleepers: Vec<usize> = self.state.asleep_on(offset, u32::MAX).collect();
        if !sleepers.is_empty() {
            let from = usize::from(alternative) / 2 % sleepers.len();
            sleepers.rotate_left(from);
            if alternative % 2 == 1 {
                sleepers[1..].reverse();
            }
        }
        let (mut counts, now) = ([0, 0], self.read(to, 4));
        for &sleeper in &sleepers {
            let request = &mut self.state.tasks[sleeper].request;
            if counts[0] < u64::from(how.woken) {
                request.kind = RequestKind::Woken;
                counts[0] += 1;
            } else if counts[1] < u64::from(how.moved) {
                if let RequestKind::Asleep(_, sleep) = request.kind {
                    request.kind = RequestKind::Asleep(now, sleep);
                }
                request.offset = to;
                counts[1] += 1;
            }
        }
        counts[0] | counts[1] << 8
    }
}
