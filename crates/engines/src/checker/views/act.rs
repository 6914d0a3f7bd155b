//! One access under RC11: what it reads, what it acquires, and the message that it leaves.

use machine::Ordering;

use super::{MEMORY, NewMessage, Target, Views};
use crate::checker::request::{acquires, releases};

/// An access, with all that was chosen.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    pub task: usize,
    pub tasks: usize,
    pub target: &'a Target,
    pub ordering: Ordering,
    /// The message that it reads.
    pub read: Option<u8>,
    /// The index that its own message gets in the cell, and that message.
    pub write: Option<(u8, NewMessage)>,
    /// Whether there are sequentially consistent events.
    pub has_order: bool,
    /// What the task will acquire, and did release, by fences.
    pub fence_rows: Option<[usize; 2]>,
    /// The bytes of the cell, as memory holds them, and those of each word.
    pub memory: u64,
    pub masks: &'a [u64],
}

/// What an access did to views.
#[derive(Clone, Debug, Default)]
pub struct Acted {
    /// Rows of the messages that it read.
    pub read_rows: Vec<usize>,
    /// The row of the message that it left.
    pub row: Option<usize>,
    /// Whether no other access can ever be there too: a cycle of sequentially consistent events.
    pub is_impossible: bool,
    /// Whether there are more messages than can be kept.
    pub is_too_much: bool,
}

impl Views {
    /// Performs an access.
    pub fn act(&mut self, event: &Event) -> Acted {
        let Event { task, target, ordering, has_order, .. } = *event;
        let mut acted = Acted::default();
        let (mut read, mut added) = (event.read, 0);
        let marks_reads = ordering == Ordering::SeqCst || self.marks_reads(task, 0);
        if let (true, Some(from)) = (has_order && marks_reads, read) {
            added = self.add_base(target, event.memory, event.masks, event.tasks);
            read = Some(if from == MEMORY { added as u8 - 1 } else { from + added as u8 });
        }
        if let Some(read) = read {
            let messages = self.read_from(target, read);
            acted.read_rows = messages.into_iter().filter_map(|index| self.row_of(index)).collect();
            self.read(task, target, read);
            let known =
                if acquires(ordering) { Some(task) } else { event.fence_rows.map(|rows| rows[0]) };
            if let Some(known) = known {
                acted.read_rows.iter().for_each(|&row| self.join(known, row));
            }
        }
        let mut node = 0;
        if has_order {
            if ordering == Ordering::SeqCst && self.has_room() {
                node = self.access_node(task, target.cell);
            } else if ordering == Ordering::SeqCst {
                acted.is_too_much = true;
            }
            if let Some(read) = read {
                acted.is_impossible |= !self.order_read(task, target, read, node);
            }
            self.passes(task, target.cell);
        }
        if let Some((index, new)) = event.write {
            added += self.add_base(target, event.memory, event.masks, event.tasks);
            self.leave(event, usize::from(index) + added, new, node, &mut acted);
        }
        acted
    }

    /// Leaves a message.
    fn leave(
        &mut self,
        event: &Event,
        index: usize,
        new: NewMessage,
        node: u64,
        acted: &mut Acted,
    ) {
        let Event { task, target, ordering, has_order, .. } = *event;
        let at = self.write(task, target, index, new);
        let released =
            if releases(ordering) { Some(task) } else { event.fence_rows.map(|rows| rows[1]) };
        let continues = new.is_update && !acted.read_rows.is_empty();
        if released.is_some() || continues {
            if !self.add_row(at) {
                acted.is_too_much = true;
                return;
            }
            let row = self.row_of(at).expect("a row that was just added");
            if let Some(released) = released {
                self.copy(row, released);
            }
            if continues {
                acted.read_rows.iter().for_each(|&from| self.join(row, from));
            }
            acted.row = Some(row);
        }
        if has_order {
            acted.is_impossible |= !self.order_write(task, target, at, node);
        }
    }
}
