//! Words to which tasks come in an order that something else gives, such as the lock of a list
//! that is only used under the lock of its file: accesses to them are no steps of their own.
//!
//! Atomic words are taken for such until two accesses are found that nothing orders, or a
//! wait that does not hold at once; then words of their kind are contended, and the search
//! begins anew. So it is as with plain fields: if in all that was searched no two accesses
//! were unordered, no other order of them is possible, and none was left out.

use machine::Op;

use super::happens_before::Orders;
use super::request::{Kind, Reply, Request};
use super::world::{Caught, World};

impl World {
    /// Does an access that need be no step. None where it must be one.
    pub fn quiet(&mut self, task: usize, request: &Request) -> Result<Option<Reply>, Caught> {
        let Request { kind, offset, size, location, .. } = *request;
        let contended = |word| self.layout.is_contended(word);
        if !self.quiet || self.layout.touched(offset, size).all(contended) {
            return Ok(None);
        }
        self.reaches(task, offset, size, location)?;
        let reads = matches!(kind, Kind::Access(Op::Load) | Kind::Await(_) | Kind::AwaitFor(_));
        let rule = if reads { Orders::read } else { Orders::write };
        for word in self.layout.touched(offset, size) {
            let column = self.column(word, task, true);
            let ordered = column.is_none_or(|at| rule(&mut self.state.orders, task, at).is_ok());
            // Of several words that are accessed at once all are contended, or none.
            let in_part = self.layout.touched(offset, size).any(|w| self.layout.is_contended(w));
            if !ordered || in_part || !self.is_quiet(task, request) {
                self.layout.contend(word);
                self.grown = true;
            }
        }
        if self.grown {
            return Err(Caught);
        }
        self.state.tasks[task].request = *request;
        self.quiet_steps += 1;
        let reply = self.perform((task as u8, 0));
        if self.fault.is_some() { Err(Caught) } else { Ok(reply) }
    }

    /// Whether it can be done at once, and wakes nobody.
    fn is_quiet(&self, task: usize, request: &Request) -> bool {
        match request.kind {
            Kind::Access(_) | Kind::AwaitFor(_) => true,
            Kind::Await(until) => until.holds(self.seen(task, request.offset, request.size)),
            _ => false,
        }
    }
}
