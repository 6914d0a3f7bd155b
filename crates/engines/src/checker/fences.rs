//! Fences, and addresses that order accesses: what a task knows after them. Rows for both exist once a task has used one.

use machine::{CodeSite, Ordering};

use super::happens_before::{FENCE_ROWS, FENCED, PENDING};
use super::request::{acquires, releases};
use super::state::BUFFER;
use super::trace::{How, PastAccess};
use super::world::{FaultFound, World};

impl World {
    /// A row that fences of a task need; `None` before the first fence.
    pub fn fence_row(&self, task: usize, which: usize) -> Option<usize> {
        let buffers = if self.has_buffers { self.tasks() * BUFFER } else { 0 };
        let first = self.tasks() + self.layout.rows.len() + buffers;
        self.layout.has_fences.then_some(first + task * FENCE_ROWS + which)
    }

    /// The search begins again, with rows for fences.
    fn need_fences(&mut self) -> bool {
        self.grown |= !self.layout.has_fences;
        self.layout.has_fences = true;
        self.check_races && !self.grown
    }

    /// Whether a full fence has to wait for the task's store buffer.
    pub fn must_drain(&self, task: usize) -> bool {
        self.state.tasks[task].buffered > 0
    }

    /// An acquire fence makes earlier reads acquire, a release fence makes later writes release.
    pub fn fence(
        &mut self,
        task: usize,
        ordering: Ordering,
        site: CodeSite,
    ) -> Result<(), FaultFound> {
        let (how, ordering_used) = (How::Fence, Some(ordering));
        self.note(PastAccess { task, offset: 0, size: 0, how, ordering: ordering_used, site });
        self.note_barrier(task, ordering == Ordering::SeqCst);
        if self.rules.is_some() {
            self.allowed_fence(task, ordering, site);
            return if self.fault.is_some() { Err(FaultFound) } else { Ok(()) };
        }
        if !self.need_fences() {
            return if self.grown { Err(FaultFound) } else { Ok(()) };
        }
        let rows = [PENDING, FENCED].map(|which| self.fence_row(task, which));
        if let [Some(pending), Some(fenced)] = rows {
            if acquires(ordering) {
                self.state.happens_before.join(task, pending);
            }
            if releases(ordering) {
                self.state.happens_before.copy(fenced, task);
            }
        }
        self.weak_fence(task, ordering);
        if self.grown { Err(FaultFound) } else { Ok(()) }
    }

    /// Where values order accesses, whoever reads what a task wrote also knows of that write: accesses to one word are
    /// coherent.
    pub fn publish_itself(&mut self, row: usize, task: usize, word: usize) {
        if let Some(column) = self.layout.column(word).filter(|_| self.layout.has_dependencies) {
            self.state.happens_before.add_read(row, task, column);
        }
    }

    /// Orders the task's next accesses to these words after what led to the values that it has read.
    pub fn depend(&mut self, task: usize, offset: u32, size: u8) -> Result<(), FaultFound> {
        if self.rules.is_some() {
            return Ok(());
        }
        let is_new = !std::mem::replace(&mut self.layout.has_dependencies, true);
        self.grown |= is_new;
        if !self.need_fences() {
            return if self.grown { Err(FaultFound) } else { Ok(()) };
        }
        for word in self.layout.touched(offset, size) {
            if let (Some(column), Some(pending)) =
                (self.layout.column(word), self.fence_row(task, PENDING))
            {
                self.state.happens_before.join_column(task, pending, column);
            }
        }
        self.weak_depend(task, offset, size);
        Ok(())
    }
}
