//! Drops what no task can notice any more, so that states that are equal from now on have equal views.

use super::{Message, NO_COLUMN, NO_ROW, Views, bits};

/// How views are settled.
pub struct Settling<'a> {
    /// The tasks that have not ended.
    pub tasks: &'a [usize],
    /// Whether there are sequentially consistent events.
    pub has_order: bool,
    /// The columns of a cell's words.
    pub columns_of: &'a dyn Fn(u16) -> [u16; 8],
    /// Whether all tasks know already what happened before a row.
    pub is_known: &'a dyn Fn(usize) -> bool,
}

impl Views {
    /// Drops messages, views and events that no longer matter.
    pub fn settle(&mut self, settling: &Settling) {
        if settling.has_order && !self.nodes.is_empty() {
            let open = self.open(settling);
            let relevant = self.relevant(open);
            self.keep_nodes(relevant);
            self.keep_nodes(!self.repeated());
        }
        let mut start = 0;
        while start < self.messages.len() {
            let cell = self.messages[start].cell;
            self.settle_cell(cell, settling);
            start = self.cell(cell).end;
        }
        self.free_rows(settling);
        for index in (0..self.messages.len()).rev() {
            let columns = (settling.columns_of)(self.messages[index].cell);
            if self.is_memory(index, &columns, settling) {
                self.remove(index, &columns);
            }
        }
    }

    /// Events that can still get an edge from a new one.
    fn open(&self, settling: &Settling) -> u64 {
        let mut open = 0;
        for (index, message) in self.messages.iter().enumerate() {
            let marks = message.marks.known_by | message.marks.read_by;
            if marks != 0 && self.can_go_before(index, settling) {
                open |= marks;
            }
        }
        open
    }

    /// Whether some task may read older messages than this, or write before it.
    fn can_go_before(&self, message: usize, settling: &Settling) -> bool {
        let Message { cell, words, .. } = self.messages[message];
        let (range, columns) = (self.cell(cell), (settling.columns_of)(cell));
        let index = message - range.start;
        let messages = &self.messages[range];
        bits(words.into()).any(|bit| {
            let floor = |&task: &usize| self.floor(messages, &[task], columns[bit], bit);
            settling.tasks.iter().map(floor).any(|floor| floor < index + 1)
        })
    }

    /// The least that a live task has seen, and known, of each word of a cell.
    fn floors(&self, cell: u16, columns: &[u16; 8], settling: &Settling) -> [(usize, usize); 8] {
        let messages = &self.messages[self.cell(cell)];
        std::array::from_fn(|bit| {
            let (column, tasks) = (columns[bit], settling.tasks.iter());
            if column == NO_COLUMN {
                return (0, 0);
            }
            let seen = tasks.clone().map(|&task| self.floor(messages, &[task], column, bit)).min();
            let known = tasks.map(|&task| usize::from(self.known(task, column))).min();
            (seen.unwrap_or(usize::MAX), known.unwrap_or(usize::MAX))
        })
    }

    fn settle_cell(&mut self, cell: u16, settling: &Settling) {
        let columns = (settling.columns_of)(cell);
        let mut index = 0;
        while index < self.cell(cell).len() {
            let floors = self.floors(cell, &columns, settling);
            let start = self.cell(cell).start;
            let Message { words, marks, .. } = self.messages[start + index];
            let is_over = |bit: usize| {
                let (seen, known) = floors[bit];
                let is_known = !settling.has_order || marks.sources() == 0 || known > index + 1;
                seen > index + 1 && is_known
            };
            if !bits(words.into()).all(is_over) {
                index += 1;
                continue;
            }
            for bit in bits(words.into()) {
                let end = self.cell(cell).end;
                let mut later = self.messages[start + index + 1..end].iter_mut();
                if let Some(next) = later.find(|message| message.words >> bit & 1 != 0) {
                    next.marks.dropped |= marks.sources();
                }
            }
            self.remove(start + index, &columns);
        }
        self.normalise(cell, &columns, settling);
    }

    /// What all have seen counts as nothing; a read-modify-write whose message is gone is a write.
    fn normalise(&mut self, cell: u16, columns: &[u16; 8], settling: &Settling) {
        let floors = self.floors(cell, columns, settling);
        let messages = &self.messages[self.cell(cell)];
        let first: [usize; 8] = std::array::from_fn(|bit| {
            messages.iter().position(|message| message.words >> bit & 1 != 0).map_or(0, |i| i + 1)
        });
        for (bit, &column) in columns.iter().enumerate() {
            if usize::from(column) >= self.columns {
                continue;
            }
            for row in 0..self.rows {
                // A task that has seen nothing may read the first message, which may be kept only for its place in the order.
                let may_read_first = floors[bit].0 <= first[bit];
                let seen = &mut self.seen[row * self.columns + usize::from(column)];
                let is_known = usize::from(*seen) <= floors[bit].0;
                if is_known && (may_read_first || !settling.tasks.contains(&row)) {
                    *seen = 0;
                }
            }
        }
        let mut before = 0;
        for index in self.cell(cell) {
            let message = &mut self.messages[index];
            message.is_update &= message.words & before != 0;
            before |= message.words;
        }
    }

    /// Takes the rows of messages from which nobody learns anything.
    fn free_rows(&mut self, settling: &Settling) {
        let known_to_all = settling.tasks.iter().fold([u64::MAX; 2], |all, &task| {
            [all[0] & self.events[task][0], all[1] & self.events[task][1]]
        });
        for index in 0..self.messages.len() {
            let Some(row) = self.row_of(index) else { continue };
            let [happened, by_way] = self.events[row];
            let has_seen = self.seen[row * self.columns..][..self.columns].iter().any(|&s| s > 0);
            let has_known = settling.has_order && self.knows_more(row, settling);
            let has_events = happened & !known_to_all[0] != 0 || by_way & !known_to_all[1] != 0;
            if has_seen || has_known || has_events || !(settling.is_known)(row) {
                continue;
            }
            self.used &= !(1 << self.messages[index].row);
            self.messages[index].row = NO_ROW;
            self.clear(row);
        }
    }

    fn knows_more(&self, row: usize, settling: &Settling) -> bool {
        self.entries(row).any(|(column, _, known)| {
            let knows = |&task: &usize| self.known(task, column as u16) >= known;
            !settling.tasks.iter().all(knows)
        })
    }

    /// Whether a message is all there is of its words, and everybody has seen it.
    fn is_memory(&self, message: usize, columns: &[u16; 8], settling: &Settling) -> bool {
        let Message { cell, words, row, marks, .. } = self.messages[message];
        let range = self.cell(cell);
        let position = message - range.start + 1;
        let mut others = range.filter(|&other| other != message);
        let is_alone = others.all(|other| self.messages[other].words & words == 0);
        let is_known = |&task: &usize| {
            let known = |bit: usize| usize::from(self.known(task, columns[bit])) == position;
            bits(words.into()).all(known)
        };
        is_alone
            && row == NO_ROW
            && marks.sources() == 0
            && (!settling.has_order || settling.tasks.iter().all(is_known))
    }
}
