//! Memory under RC11: for each location its writes in modification order, and for each task the writes that it must not read
//! behind (its view). A write that releases carries the view of its writer.
//!
//!     messages of x:   x=0 ── x=1 ── x=2         view of t: x ≥ 1, so t reads 1 or 2, and writes behind 1
//!                              └─ row: what its writer knew, joined by whoever acquires from it
//!
//! Accesses of several sizes overlap in one cell of up to eight bytes. A message writes some words of its cell, all messages of a
//! cell are in one order, and an access to several words reads them as they were after one of these messages.
//!
//! Positions are indices, not times: messages that no task can read any more are dropped and the others are renumbered, so that
//! equal states are equal. A cell with one message that everybody knows is ordinary memory, and has no message here.

mod act;
mod order;
mod settle;

use machine::{CodeSite, Ordering};

pub use act::{Acted, Event};
pub use order::{FENCE, Node};
pub use settle::Settling;

/// No index of a message: memory itself.
pub const MEMORY: u8 = u8::MAX;
/// The most messages of a cell.
pub const MESSAGES_MAX: usize = 200;
/// The column of a word that has none.
pub const NO_COLUMN: u16 = u16::MAX;
const NO_ROW: u8 = u8::MAX;
/// Words of a cell at most.
const CELL_WORDS: usize = 8;

/// A write that a task may still read.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// The first word of its cell.
    pub cell: u16,
    /// The words that it writes, as bits from the cell's first.
    pub words: u8,
    /// The bits that it writes, of the eight bytes that hold the cell.
    pub mask: u64,
    /// Their values.
    pub value: u64,
    /// Whether it is a read-modify-write: nothing comes between it and the message that it read.
    pub is_update: bool,
    /// What whoever acquires from it gets to know, if that is more than nothing.
    row: u8,
    /// Its place among sequentially consistent events.
    pub marks: Marks,
    /// Who wrote it, for traces.
    pub author: Option<Author>,
}

/// The task and the line that wrote a message.
#[derive(Clone, Copy, Debug)]
pub struct Author {
    pub task: u8,
    pub ordering: Ordering,
    pub site: CodeSite,
}

/// Sequentially consistent events around a message, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// The write itself, and fences that happened before it.
    pub writes: u64,
    /// Reads of it, and fences that happened before reads of it.
    pub reads: u64,
    /// All such events of dropped messages before it.
    pub dropped: u64,
    /// The write itself, and fences that it happened before.
    pub known_by: u64,
    /// Fences that a read of it happened before.
    pub read_by: u64,
}

impl Marks {
    /// Events with an edge to whatever follows this message.
    pub fn sources(&self) -> u64 {
        self.writes | self.reads | self.dropped
    }
}

/// The words that an access touches.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub cell: u16,
    /// The words, as bits from the cell's first.
    pub words: u8,
    /// The columns of all words of the cell.
    pub columns: [u16; CELL_WORDS],
    /// The bits of the eight bytes that hold the cell.
    pub mask: u64,
    /// How far the access is from the start of these eight bytes, in bits.
    pub shift: u32,
}

impl Target {
    /// No word.
    pub const NOTHING: Target =
        Target { cell: NO_COLUMN, words: 0, columns: [NO_COLUMN; CELL_WORDS], mask: 0, shift: 0 };

    fn bits(&self) -> impl Iterator<Item = usize> + use<> {
        bits(self.words.into())
    }
}

/// The indices of set bits.
pub fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let index = mask.trailing_zeros() as usize;
        (mask != 0).then(|| mask &= mask - 1).map(|()| index)
    })
}

/// The live messages, and the view of each row. Rows are those of `HappensBefore`: tasks, their fences, the futexes of the
/// kernel, messages.
#[derive(Debug, Default)]
pub struct Views {
    /// By cell, and in modification order.
    pub messages: Vec<Message>,
    /// By row and column: 1 + the index, in its cell, of the last message that must not be read behind; 0: none.
    seen: Vec<u8>,
    /// As `seen`, of writes that happened before.
    known: Vec<u8>,
    columns: usize,
    rows: usize,
    /// Rows before those of messages.
    fixed: usize,
    /// Rows of messages in use, as bits.
    used: u64,
    /// By row: sequentially consistent events that happened before, and those of them that did so by way of another location.
    events: Vec<[u64; 2]>,
    pub nodes: Vec<Node>,
    /// Which of the nodes are fences.
    fences: u64,
}

impl Views {
    /// Views with this many rows before those of messages.
    pub fn new(fixed: usize) -> Views {
        Views { fixed, rows: fixed, events: vec![[0; 2]; fixed], ..Views::default() }
    }

    pub fn clone_from(&mut self, other: &Views) {
        self.messages.clone_from(&other.messages);
        self.seen.clone_from(&other.seen);
        self.known.clone_from(&other.known);
        self.events.clone_from(&other.events);
        self.nodes.clone_from(&other.nodes);
        (self.columns, self.rows, self.fixed) = (other.columns, other.rows, other.fixed);
        (self.used, self.fences) = (other.used, other.fences);
    }

    pub fn copied(&self) -> Views {
        let mut copy = Views::default();
        copy.clone_from(self);
        copy
    }

    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The row of a message.
    pub fn row_of(&self, index: usize) -> Option<usize> {
        let row = self.messages[index].row;
        (row != NO_ROW).then(|| self.fixed + usize::from(row))
    }

    /// The messages of a cell.
    pub fn cell(&self, cell: u16) -> std::ops::Range<usize> {
        let Some(first) = self.messages.iter().position(|message| message.cell == cell) else {
            let end = self.messages.iter().take_while(|message| message.cell < cell).count();
            return end..end;
        };
        let length =
            self.messages[first..].iter().take_while(|message| message.cell == cell).count();
        first..first + length
    }

    pub fn seen(&self, row: usize, column: u16) -> u8 {
        let column = usize::from(column);
        if column < self.columns { self.seen[row * self.columns + column] } else { 0 }
    }

    pub fn known(&self, row: usize, column: u16) -> u8 {
        let column = usize::from(column);
        if column < self.columns { self.known[row * self.columns + column] } else { 0 }
    }

    /// The columns that this row is ahead in, with how far it has seen and known them.
    pub fn entries(&self, row: usize) -> impl Iterator<Item = (usize, u8, u8)> {
        let from = row * self.columns;
        let seen = &self.seen[from..from + self.columns];
        let known = &self.known[from..from + self.columns];
        let entries = seen.iter().zip(known).enumerate();
        entries.map(|(column, (seen, known))| (column, *seen, *known))
    }

    pub fn events(&self, row: usize) -> [u64; 2] {
        self.events[row]
    }

    fn see(&mut self, row: usize, column: u16, seen: u8) {
        let at = row * self.columns + usize::from(column);
        self.seen[at] = self.seen[at].max(seen);
    }

    fn know(&mut self, row: usize, column: u16, known: u8) {
        let at = row * self.columns + usize::from(column);
        self.known[at] = self.known[at].max(known);
    }

    /// Makes room for this column.
    fn add_column(&mut self, column: u16) {
        let (before, columns) = (self.columns, usize::from(column) + 1);
        if columns <= before {
            return;
        }
        for table in [&mut self.seen, &mut self.known] {
            let mut wider = vec![0; self.rows * columns];
            for row in 0..self.rows {
                wider[row * columns..][..before].copy_from_slice(&table[row * before..][..before]);
            }
            *table = wider;
        }
        self.columns = columns;
    }

    /// A row for a message, all empty; `None` if there are too many.
    fn new_row(&mut self) -> Option<u8> {
        let free = (!self.used).trailing_zeros();
        if free == 64 {
            return None;
        }
        self.used |= 1 << free;
        let row = self.fixed + free as usize;
        if row >= self.rows {
            self.rows = row + 1;
            self.seen.resize(self.rows * self.columns, 0);
            self.known.resize(self.rows * self.columns, 0);
            self.events.resize(self.rows, [0; 2]);
        }
        self.clear(row);
        Some(free as u8)
    }

    /// Adds one row to another.
    pub fn join(&mut self, row: usize, from: usize) {
        for table in [&mut self.seen, &mut self.known] {
            for column in 0..self.columns {
                let other = table[from * self.columns + column];
                let own = &mut table[row * self.columns + column];
                *own = (*own).max(other);
            }
        }
        let [before, by_way] = self.events[from];
        self.events[row][0] |= before;
        self.events[row][1] |= by_way;
    }

    /// Replaces a row by a copy of another.
    pub fn copy(&mut self, row: usize, from: usize) {
        let range = from * self.columns..(from + 1) * self.columns;
        self.seen.copy_within(range.clone(), row * self.columns);
        self.known.copy_within(range, row * self.columns);
        self.events[row] = self.events[from];
    }

    /// Empties a row.
    pub fn clear(&mut self, row: usize) {
        self.seen[row * self.columns..][..self.columns].fill(0);
        self.known[row * self.columns..][..self.columns].fill(0);
        self.events[row] = [0; 2];
    }

    /// Adds what one row has seen, but not what happened before, to another.
    pub fn join_seen(&mut self, row: usize, from: usize) {
        for column in 0..self.columns {
            let other = self.seen[from * self.columns + column];
            let own = &mut self.seen[row * self.columns + column];
            *own = (*own).max(other);
        }
    }

    /// Adds what one row has seen of these words to another.
    pub fn join_words(&mut self, row: usize, from: usize, target: &Target) {
        for bit in target.bits() {
            let column = target.columns[bit];
            if usize::from(column) < self.columns {
                self.see(row, column, self.seen(from, column));
                self.know(row, column, self.known(from, column));
            }
        }
    }

    // What a task may read and where it may write.

    /// The last message up to this one, of those of a cell, that writes the word.
    fn last(&self, cell: &[Message], up_to: usize, bit: usize) -> Option<usize> {
        (0..=up_to).rev().find(|&index| cell[index].words >> bit & 1 != 0)
    }

    /// 1 + the index of the last message of a word that these rows must not read behind.
    fn floor(&self, cell: &[Message], rows: &[usize], column: u16, bit: usize) -> usize {
        let seen = rows.iter().map(|&row| self.seen(row, column)).max().unwrap_or(0);
        if seen > 0 {
            return seen.into();
        }
        let first = cell.iter().position(|message| message.words >> bit & 1 != 0);
        first.map_or(0, |first| first + 1)
    }

    /// Adds the messages that may be read by whoever has these rows: the newest first. Whoever reads one of them reads each word
    /// as it was after that message.
    pub fn readable(&self, rows: &[usize], target: &Target, into: &mut Vec<u8>) {
        let cell = &self.messages[self.cell(target.cell)];
        let from = into.len();
        for up_to in (0..cell.len()).rev() {
            if cell[up_to].words & target.words == 0 {
                continue;
            }
            let is_late = |bit: usize| {
                let floor = self.floor(cell, rows, target.columns[bit], bit);
                floor == 0 || self.last(cell, up_to, bit).is_some_and(|last| last + 1 >= floor)
            };
            if !target.bits().all(is_late) {
                break;
            }
            into.push(up_to as u8);
        }
        if into.len() == from {
            into.push(MEMORY);
        }
    }

    /// Adds the indices that a new message of this task may get: the last first.
    pub fn writable(&self, task: usize, target: &Target, into: &mut Vec<u8>) {
        let cell = &self.messages[self.cell(target.cell)];
        for index in (0..=cell.len()).rev() {
            let is_late = |bit: usize| index >= self.floor(cell, &[task], target.columns[bit], bit);
            if !target.bits().all(is_late) {
                break;
            }
            if !self.splits_update(cell, index, target) {
                into.push(index as u8);
            }
        }
    }

    /// Whether a message before this index would come between a read-modify-write and what it read.
    fn splits_update(&self, cell: &[Message], index: usize, target: &Target) -> bool {
        target.bits().any(|bit| {
            let next = cell[index..].iter().find(|message| message.words >> bit & 1 != 0);
            next.is_some_and(|next| next.is_update)
        })
    }

    /// Whether a read-modify-write can read this message.
    pub fn can_update(&self, target: &Target, read: u8) -> bool {
        let cell = &self.messages[self.cell(target.cell)];
        read == MEMORY || !self.splits_update(cell, usize::from(read) + 1, target)
    }

    /// The value of the cell's bytes after this message, where memory holds the newest.
    pub fn value(&self, target: &Target, read: u8, memory: u64) -> u64 {
        if read == MEMORY {
            return memory;
        }
        let cell = &self.messages[self.cell(target.cell)][..=usize::from(read)];
        cell.iter().fold(memory, |value, message| value & !message.mask | message.value)
    }

    /// The messages that a read of this one reads, as indices among all: one, or several of a cell.
    pub fn read_from(&self, target: &Target, read: u8) -> Vec<usize> {
        if read == MEMORY {
            return Vec::new();
        }
        let range = self.cell(target.cell);
        let cell = &self.messages[range.clone()];
        let last = target.bits().filter_map(|bit| self.last(cell, read.into(), bit));
        let mut last: Vec<usize> = last.map(|index| range.start + index).collect();
        last.sort_unstable();
        last.dedup();
        last
    }

    /// Whether a read of several words that acquires can read this message: what it acquires with one word must not be newer
    /// than what it reads of another.
    pub fn is_coherent(&self, target: &Target, read: u8) -> bool {
        if target.words.count_ones() < 2 || read == MEMORY {
            return true;
        }
        let cell = &self.messages[self.cell(target.cell)];
        let rows = self.read_from(target, read).into_iter().filter_map(|index| self.row_of(index));
        let rows: Vec<usize> = rows.collect();
        target.bits().all(|bit| {
            let last = self.last(cell, read.into(), bit).map_or(0, |last| last + 1);
            let seen = |&row: &usize| usize::from(self.seen(row, target.columns[bit]));
            rows.iter().all(|row| seen(row) <= last)
        })
    }

    /// The first message of this cell behind `read` that writes one of these words: what the reader has not seen.
    pub fn next_unread(&self, target: &Target, read: u8) -> Option<&Message> {
        if read == MEMORY {
            return None;
        }
        let cell = &self.messages[self.cell(target.cell)];
        let mut later = cell[usize::from(read) + 1..].iter();
        later.find(|message| message.words & target.words != 0)
    }

    // Steps.

    /// Gives each of these words a message, if it has none: what memory holds. Returns how many were added, all at the start.
    pub fn add_base(&mut self, target: &Target, memory: u64, masks: &[u64], tasks: usize) -> usize {
        let mut added = 0;
        for bit in target.bits() {
            let range = self.cell(target.cell);
            let start = range.start;
            if self.messages[range].iter().any(|message| message.words >> bit & 1 != 0) {
                continue;
            }
            self.add_column(target.columns[bit]);
            self.shift(target, 0);
            let (mask, marks) = (masks[bit], Marks::default());
            self.messages.insert(
                start,
                Message {
                    cell: target.cell,
                    words: 1 << bit,
                    mask,
                    value: memory & mask,
                    is_update: false,
                    row: NO_ROW,
                    marks,
                    author: None,
                },
            );
            for task in 0..tasks {
                self.know(task, target.columns[bit], 1);
            }
            added += 1;
        }
        added
    }

    /// Makes room for a message at this index of a cell.
    fn shift(&mut self, target: &Target, index: usize) {
        for column in target.columns.into_iter().map(usize::from) {
            if column >= self.columns {
                continue;
            }
            for row in 0..self.rows {
                let at = row * self.columns + column;
                for entry in [&mut self.seen[at], &mut self.known[at]] {
                    *entry += u8::from(usize::from(*entry) > index);
                }
            }
        }
    }

    /// The task has read this message.
    pub fn read(&mut self, task: usize, target: &Target, read: u8) {
        if read == MEMORY {
            return;
        }
        let range = self.cell(target.cell);
        for bit in target.bits() {
            let last = self.last(&self.messages[range.clone()], read.into(), bit);
            if let Some(last) = last {
                self.add_column(target.columns[bit]);
                self.see(task, target.columns[bit], last as u8 + 1);
            }
        }
    }

    /// Adds a message of this task at this index of its cell; returns its absolute index.
    pub fn write(&mut self, task: usize, target: &Target, index: usize, new: NewMessage) -> usize {
        self.shift(target, index);
        let at = self.cell(target.cell).start + index;
        self.messages.insert(
            at,
            Message {
                cell: target.cell,
                words: target.words,
                mask: target.mask,
                value: new.value & target.mask,
                is_update: new.is_update,
                row: NO_ROW,
                marks: Marks::default(),
                author: Some(new.author),
            },
        );
        for bit in target.bits() {
            self.see(task, target.columns[bit], index as u8 + 1);
            self.know(task, target.columns[bit], index as u8 + 1);
        }
        at
    }

    /// Gives a message a row. `false` if there are too many.
    pub fn add_row(&mut self, message: usize) -> bool {
        let Some(row) = self.new_row() else { return false };
        self.messages[message].row = row;
        true
    }

    /// Whether a task must have seen more of these words than it has, to see the newest.
    pub fn is_behind(&self, task: usize, target: &Target) -> bool {
        let mut readable = Vec::new();
        self.readable(&[task], target, &mut readable);
        readable.len() > 1
    }

    /// Makes these words ordinary memory again, which everybody who uses them has seen.
    pub fn forget_words(&mut self, target: &Target) {
        let range = self.cell(target.cell);
        for message in &mut self.messages[range.clone()] {
            message.words &= !target.words;
            (message.mask, message.value) =
                (message.mask & !target.mask, message.value & !target.mask);
        }
        for bit in target.bits() {
            let column = usize::from(target.columns[bit]);
            if column < self.columns {
                for row in 0..self.rows {
                    self.seen[row * self.columns + column] = 0;
                    self.known[row * self.columns + column] = 0;
                }
            }
        }
        for index in range.rev() {
            if self.messages[index].words == 0 {
                self.remove(index, &target.columns);
            }
        }
    }

    /// Removes a message; whoever had seen it has seen none of its words.
    fn remove(&mut self, message: usize, columns: &[u16]) {
        let start = self.cell(self.messages[message].cell).start;
        let position = message - start + 1;
        let removed = self.messages.remove(message);
        if removed.row != NO_ROW {
            self.used &= !(1 << removed.row);
            self.clear(self.fixed + usize::from(removed.row));
        }
        for column in columns.iter().map(|&column| usize::from(column)) {
            if column >= self.columns {
                continue;
            }
            for row in 0..self.rows {
                let at = row * self.columns + column;
                for entry in [&mut self.seen[at], &mut self.known[at]] {
                    match usize::from(*entry) {
                        seen if seen == position => *entry = 0,
                        seen => *entry -= u8::from(seen > position),
                    }
                }
            }
        }
    }
}

/// What a new message is, besides where.
#[derive(Clone, Copy, Debug)]
pub struct NewMessage {
    /// In the bytes of its cell.
    pub value: u64,
    pub is_update: bool,
    pub author: Author,
}
