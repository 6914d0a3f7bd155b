//! Which plain accesses are ordered before what: a check for data races without clocks.
//!
//! Clocks count, so states that are equal would have different ones. Instead each word with
//! plain accesses has one event for its last write and one for each task's last read, and
//! each task has the set of events that it knows to lie behind it. Acquire takes over the
//! set that the word was given, release gives the own. An access that conflicts with an
//! event which its task does not know is a race. So a release that is too weak is found in
//! a search that is otherwise sequentially consistent.
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

/// The table.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    cells: Vec<Events>,
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

impl Orders {
    /// A table where every task knows everything, and nothing was released.
    pub fn new(tasks: usize, rows: usize, columns: usize) -> Orders {
        let mut cells = vec![0; rows * columns];
        cells[..tasks * columns].fill(all(tasks));
        Orders { cells, columns, tasks }
    }

    pub fn clone_from(&mut self, other: &Orders) {
        self.cells.clone_from(&other.cells);
        (self.columns, self.tasks) = (other.columns, other.tasks);
    }

    pub fn row(&self, row: usize) -> &[Events] {
        &self.cells[row * self.columns..][..self.columns]
    }

    fn row_mut(&mut self, row: usize) -> &mut [Events] {
        &mut self.cells[row * self.columns..][..self.columns]
    }

    /// A plain write: it must know all that was done to the word.
    pub fn write(&mut self, task: usize, column: usize) -> Result<(), Unordered> {
        let known = self.row(task)[column] | read_by(task);
        let missing = all(self.tasks) & !known;
        if missing & WRITE != 0 {
            return Err(Unordered::Write);
        }
        if missing != 0 {
            return Err(Unordered::Read(missing.trailing_zeros() as usize - 1));
        }
        let (all, columns) = (all(self.tasks), self.columns);
        for row in self.cells.chunks_exact_mut(columns) {
            row[column] = all & !WRITE;
        }
        self.row_mut(task)[column] = all;
        Ok(())
    }

    /// A plain read, or an atomic access to a word that is also written plainly: it must
    /// know the last write.
    pub fn read(&mut self, task: usize, column: usize) -> Result<(), Unordered> {
        if self.row(task)[column] & WRITE == 0 {
            return Err(Unordered::Write);
        }
        let columns = self.columns;
        for row in self.cells.chunks_exact_mut(columns) {
            row[column] &= !read_by(task);
        }
        self.row_mut(task)[column] |= read_by(task);
        Ok(())
    }

    /// One row learns what another knows.
    pub fn learn(&mut self, row: usize, from: usize) {
        for column in 0..self.columns {
            let known = self.cells[from * self.columns + column];
            self.cells[row * self.columns + column] |= known;
        }
    }

    /// One row becomes another.
    pub fn copy(&mut self, row: usize, from: usize) {
        let from = from * self.columns;
        self.cells.copy_within(from..from + self.columns, row * self.columns);
    }

    /// One row forgets everything.
    pub fn clear(&mut self, row: usize) {
        self.row_mut(row).fill(0);
    }
}

/// All events of a word.
pub fn all(tasks: usize) -> Events {
    (1 << (tasks + 1)) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_ordered_only_by_a_release_that_was_acquired() {
        const WORD: usize = 2;
        let mut orders = Orders::new(2, 3, 1);
        assert_eq!(orders.write(0, 0), Ok(()));
        assert_eq!(orders.read(1, 0), Err(Unordered::Write));
        orders.copy(WORD, 0);
        orders.learn(1, WORD);
        assert_eq!(orders.read(1, 0), Ok(()));
        assert_eq!(orders.write(0, 0), Err(Unordered::Read(1)));
        assert_eq!(orders.write(1, 0), Ok(()));
        assert_eq!(orders.write(0, 0), Err(Unordered::Write));
    }
}
