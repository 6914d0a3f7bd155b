//! Store buffers, as on x86: what a store into one does, and how the oldest becomes visible.

use super::happens_before::FENCED;
use super::request::ones;
use super::state::{BUFFER, BufferedStore};
use super::world::World;

impl World {
    pub fn buffer_row(&self, task: usize, index: usize) -> usize {
        self.tasks() + self.layout.rows.len() + task * BUFFER + index
    }

    pub fn buffer_store(&mut self, task: usize, store: BufferedStore, releasing: bool) {
        let index = usize::from(self.state.tasks[task].buffered);
        assert!(index < BUFFER, "plain writes follow too many stores to the same word");
        self.state.buffers[task * BUFFER + index] = store;
        self.state.tasks[task].has_stored = self.watches_loads();
        self.state.tasks[task].buffered += 1;
        if self.check_races && !self.grown {
            for word in self.layout.touched(store.offset, store.size) {
                let publishes = releasing || self.layout.has_fences;
                if publishes && self.row(word).is_none() {
                    return;
                }
            }
            let row = self.buffer_row(task, index);
            match (releasing, self.fence_row(task, FENCED)) {
                (true, _) => self.state.happens_before.copy(row, task),
                (false, Some(fenced)) => {
                    self.state.happens_before.copy(row, fenced);
                    for word in self.layout.touched(store.offset, store.size) {
                        self.publish_itself(row, task, word);
                    }
                }
                (false, None) => self.state.happens_before.clear(row),
            }
        }
    }

    /// Makes the oldest buffered store of a task visible.
    pub fn flush(&mut self, task: usize) {
        let first = task * BUFFER;
        let BufferedStore { offset, size, value } = self.state.buffers[first];
        self.write(offset, size, value & ones(size));
        if self.check_races && !self.grown {
            for word in self.layout.touched(offset, size) {
                if let Some(row) = self.layout.row(word) {
                    self.state.happens_before.copy(self.tasks() + row, self.buffer_row(task, 0));
                }
            }
            for index in 1..BUFFER {
                self.state
                    .happens_before
                    .copy(self.buffer_row(task, index - 1), self.buffer_row(task, index));
            }
            self.state.happens_before.clear(self.buffer_row(task, BUFFER - 1));
        }
        self.state.buffers.copy_within(first + 1..first + BUFFER, first);
        self.state.buffers[first + BUFFER - 1] = BufferedStore::default();
        self.state.tasks[task].buffered -= 1;
        if self.trace.is_some() {
            let step = self.written(offset, size, value);
            self.trace_line(format!("t{task} {step} becomes visible"), None);
        }
    }
}
