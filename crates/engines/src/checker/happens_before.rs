//! Which plain accesses happen before which: a check for data races without vector clocks.
//!
//! Clocks count, so equal states would have different clocks. Instead each word with plain
//! accesses has one event for its last write and one for each task's last read, and each task
//! has the set of events that happened before its next step. A release stores the task's set
//! in the word; an acquire adds the word's set to the task's. An access that conflicts with an
//! event outside its task's set is a race. So a release that is too weak is found even by a
//! sequentially consistent search.
//!
//!     row: a task, a word that released, an entry of a store buffer
//!     column: a word with plain accesses; bit 0 its last write, bit 1+t the last read by t

use super::TASKS_MAX;

/// Events of one word, as bits.
pub type Events = u16;

const WRITE: Events = 1;

fn read_by(task: usize) -> Events {
    const { assert!(TASKS_MAX < Events::BITS as usize) };
    2 << task
}

/// Rows of `HappensBefore` that each task has for fences: what an acquire fence would add to what it knows, and what it
/// knew at its last release fence.
pub const FENCE_ROWS: usize = 2;
pub const PENDING: usize = 0;
pub const FENCED: usize = 1;

/// For each row, the events that happened before it, by column.
#[derive(Clone, Debug, Default)]
pub struct HappensBefore {
    events: Vec<Events>,
    columns: usize,
    tasks: usize,
}

/// What an access is not ordered after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unordered {
    /// The last write.
    Write,
    /// The last read by this task.
    Read(usize),
}

impl HappensBefore {
    /// A table in which all events happened before all tasks, and no word has released anything.
    pub fn new(tasks: usize, rows: usize, columns: usize) -> HappensBefore {
        let mut events = vec![0; rows * columns];
        events[..tasks * columns].fill(all_events(tasks));
        HappensBefore { events, columns, tasks }
    }

    pub fn clone_from(&mut self, other: &HappensBefore) {
        self.events.clone_from(&other.events);
        (self.columns, self.tasks) = (other.columns, other.tasks);
    }

    /// Makes room for this many rows.
    pub fn add_rows(&mut self, rows: usize) {
        if self.events.len() < rows * self.columns {
            self.events.resize(rows * self.columns, 0);
        }
    }

    /// Whether a task knows all that a row does.
    pub fn knows(&self, task: usize, row: usize) -> bool {
        (row + 1) * self.columns > self.events.len()
            || self.row(task).iter().zip(self.row(row)).all(|(known, events)| events & !known == 0)
    }

    pub fn row(&self, row: usize) -> &[Events] {
        &self.events[row * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [Events] {
        &mut self.events[row * self.columns..][..self.columns]
    }

    /// A plain write: all earlier accesses to the word must have happened before it.
    pub fn write(&mut self, task: usize, column: usize) -> Result<(), Unordered> {
        let known = self.row(task)[column] | read_by(task);
        let missing = all_events(self.tasks) & !known;
        if missing & WRITE != 0 {
            return Err(Unordered::Write);
        }
        if missing != 0 {
            return Err(Unordered::Read(missing.trailing_zeros() as usize - 1));
        }
        let (all, columns) = (all_events(self.tasks), self.columns);
        for row in self.events.chunks_exact_mut(columns) {
            row[column] = all & !WRITE;
        }
        self.row_mut(task)[column] = all;
        Ok(())
    }

    /// A plain read, or an atomic access to a word that is also written plainly: the last
    /// write must have happened before it.
    pub fn read(&mut self, task: usize, column: usize) -> Result<(), Unordered> {
        if self.row(task)[column] & WRITE == 0 {
            return Err(Unordered::Write);
        }
        let columns = self.columns;
        for row in self.events.chunks_exact_mut(columns) {
            row[column] &= !read_by(task);
        }
        self.row_mut(task)[column] |= read_by(task);
        Ok(())
    }

    /// Adds the events of one row to another.
    pub fn join(&mut self, row: usize, from: usize) {
        for column in 0..self.columns {
            let known = self.events[from * self.columns + column];
            self.events[row * self.columns + column] |= known;
        }
    }

    /// Adds the events of one column of a row to another row.
    pub fn join_column(&mut self, row: usize, from: usize, column: usize) {
        let known = self.row(from)[column];
        self.row_mut(row)[column] |= known;
    }

    /// Adds the last read of a column by a task to a row.
    pub fn add_read(&mut self, row: usize, task: usize, column: usize) {
        self.row_mut(row)[column] |= read_by(task);
    }

    /// Replaces a row by a copy of another.
    pub fn copy(&mut self, row: usize, from: usize) {
        let from = from * self.columns;
        self.events.copy_within(from..from + self.columns, row * self.columns);
    }

    /// Empties a row.
    pub fn clear(&mut self, row: usize) {
        self.row_mut(row).fill(0);
    }
}

/// All events of a word.
pub fn all_events(tasks: usize) -> Events {
    (1 << (tasks + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_ordered_only_by_a_release_that_was_acquired() {
        const WORD: usize = 2;
        let mut table = HappensBefore::new(2, 3, 1);
        assert_eq!(table.write(0, 0), Ok(()));
        assert_eq!(table.read(1, 0), Err(Unordered::Write));
        table.copy(WORD, 0);
        table.join(1, WORD);
        assert_eq!(table.read(1, 0), Ok(()));
        assert_eq!(table.write(0, 0), Err(Unordered::Read(1)));
        assert_eq!(table.write(1, 0), Ok(()));
        assert_eq!(table.write(0, 0), Err(Unordered::Write));
    }
}
