//! Words whose accesses are already ordered by something else, such as the lock of a list that
//! is used only under the lock of its file. Accesses to them are no steps of their own.
//!
//! The search starts by assuming that of every atomic word. Two accesses that nothing orders,
//! or a wait that does not hold immediately, disprove it: words of that kind are then contended,
//! and the search begins again. The argument is that of plain fields: if no two accesses were
//! unordered in all that was searched, no other order of them is possible, and none was left
//! out.

use machine::{Op, Ordering};

use super::happens_before::{HappensBefore, Unordered};
use super::request::{Reply, Request, RequestKind};
use super::schedule::FLUSH;
use super::trace::PastAccess;
use super::world::{FaultFound, World};

/// Local steps in a row after which a task counts as waiting for the word that it accesses: a loop that forgets its
/// history would have no end.
const LOCAL_MAX: u32 = 10_000;

impl World {
    /// Performs an access that need be no step. `None` where it must be one.
    pub fn local_step(
        &mut self,
        task: usize,
        request: &Request,
    ) -> Result<Option<Reply>, FaultFound> {
        let Request { kind, offset, size, ordering, failure, location } = *request;
        self.check_bounds(task, offset, size, location)?;
        let contended = |word| self.layout.is_contended(word);
        if !self.has_local_steps || self.layout.touched(offset, size).all(contended) {
            return Ok(None);
        }
        self.check_reach(task, offset, size, location)?;
        let is_ordered = self.is_weak && [ordering, failure].contains(&Ordering::SeqCst);
        if is_ordered || self.is_exempt(location) {
            // It is in an order with others of its kind, or a race that is accepted.
            self.layout.touched(offset, size).for_each(|word| self.layout.contend(word));
            self.grown = true;
            return Err(FaultFound);
        }
        let reads = matches!(
            kind,
            RequestKind::Access(Op::Load) | RequestKind::Await(_) | RequestKind::AwaitFor(_)
        );
        let rule = if reads { HappensBefore::read } else { HappensBefore::write };
        for word in self.layout.touched(offset, size) {
            self.layout.note_local(word);
            let column = self.column(word, task, true);
            let ordered = column
                .is_none_or(|column| rule(&mut self.state.happens_before, task, column).is_ok());
            // Of several words in one access, either all are contended or none is.
            let partly_contended =
                self.layout.touched(offset, size).any(|word| self.layout.is_contended(word));
            let waits = !self.completes_now(task, request) || self.local_in_a_row == LOCAL_MAX;
            if !ordered || partly_contended || waits {
                self.layout.contend(word);
                self.grown = true;
            }
        }
        if self.grown {
            return Err(FaultFound);
        }
        // Behind buffered stores, only loads are local.
        if !reads && self.state.tasks[task].buffered > 0 {
            return Ok(None);
        }
        self.state.tasks[task].request = *request;
        // Where each access is a step, a store goes into the buffer by itself, and becomes visible by a turn.
        let is_buffered = self.has_buffers && self.can_buffer(task);
        self.local_turns.push(if is_buffered { FLUSH } else { 0 });
        let in_a_row = self.local_in_a_row + 1;
        self.is_local = true;
        let reply = self.perform((task as u8, 0));
        self.is_local = false;
        self.local_in_a_row = in_a_row;
        if self.fault.is_some() { Err(FaultFound) } else { Ok(reply) }
    }

    /// Reports a plain access that is not ordered after another one; if that may have been an atomic one that was no step, the
    /// search begins again.
    pub fn race_of_plain(&mut self, now: &PastAccess, word: usize, unordered: Unordered) {
        if self.has_local_steps && self.layout.was_local(word) {
            self.layout.contend(word);
            self.grown = true;
        } else {
            self.report_race(now, word, unordered);
        }
    }

    /// Whether the access can be done immediately, and wakes no task.
    fn completes_now(&self, task: usize, request: &Request) -> bool {
        match request.kind {
            RequestKind::Access(_) | RequestKind::AwaitFor(_) => true,
            RequestKind::Await(until) => {
                until.holds(self.value_seen(task, request.offset, request.size))
            }
            _ => false,
        }
    }
}
