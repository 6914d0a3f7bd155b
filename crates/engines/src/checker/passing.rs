//! Loads that pass the stores in their task's buffer, where that matters.
//!
//! A store that waits in its buffer while its task goes on to load makes more states, and often without consequence: every
//! execution is equal to one without buffers unless there is a triangle (Owens 2010, Reasoning about the implementation of
//! concurrency abstractions on x86-TSO):
//!
//!     t: store y; no full barrier; about to load x            u: about to store x
//!
//! There t may load x before u's store, while y becomes visible after it. So the search begins with loads that wait until their
//! task's buffer is empty, and watches for triangles. If it sees one, it begins again with loads that pass all stores.
//!
//! Take the shortest execution with buffers in which a store still waits while a word that its task has loaded since is written.
//! Before that write, every load that passed a store can be moved behind it, as nobody has written what it read. Then the task
//! can come to that very load while the other is about to write, which is the triangle that the search sees.

use machine::Op;

use super::request::RequestKind;
use super::world::World;

impl World {
    /// Whether a task may load now.
    pub fn may_load(&self, task: usize) -> bool {
        !self.watches_loads() || self.state.tasks[task].buffered == 0
    }

    /// Whether loads pass no stores, and triangles are looked for.
    pub fn watches_loads(&self) -> bool {
        self.passes_on_demand && !self.layout.loads_pass
    }

    /// Notes that a task's buffer is empty, if its step waits for that.
    pub fn note_barrier(&mut self, task: usize, is_full: bool) {
        if is_full {
            self.state.tasks[task].has_stored = false;
        }
    }

    /// Looks for triangles in the live state.
    pub fn find_triangles(&mut self) {
        for task in 0..self.tasks() {
            let request = self.state.tasks[task].request;
            let loads = matches!(
                request.kind,
                RequestKind::Access(Op::Load) | RequestKind::Await(_) | RequestKind::AwaitFor(_)
            );
            if loads {
                self.find_triangle(task, request.offset, request.size);
            }
        }
    }

    /// Whether a task that loads these bytes makes a triangle.
    pub fn find_triangle(&mut self, task: usize, offset: u32, size: u8) {
        if !self.state.tasks[task].has_stored {
            return;
        }
        let overlaps =
            |at: u32, bytes: u8| at < offset + u32::from(size) && offset < at + u32::from(bytes);
        let is_written = (0..self.tasks()).filter(|&other| other != task).any(|other| {
            let request = &self.state.tasks[other].request;
            let writes = matches!(request.kind, RequestKind::Access(op) if op != Op::Load);
            let mut buffered = self.state.buffered_stores(other).iter();
            writes && overlaps(request.offset, request.size)
                || buffered.any(|store| overlaps(store.offset, store.size))
        });
        if is_written {
            self.layout.loads_pass = true;
            self.grown = true;
        }
    }
}
