//! The hash of views: messages, what each task has seen, and the order of sequentially consistent events.

use super::happens_before::{FENCED, PENDING};
use super::hash::mix;
use super::request::ones;
use super::views::{Message, Node, bits};
use super::world::World;

// Kinds of things that are hashed.
const SEEN: u64 = 8 << 60;
const MESSAGE: u64 = 9 << 60;
const NODE: u64 = 10 << 60;

/// What a renumbering of the tasks makes of words and values.
pub struct Renumbering<'a> {
    /// The canonical number of each task.
    pub numbers: &'a [u8],
    /// The identity of a word.
    pub word_id: &'a dyn Fn(usize) -> u64,
    /// A value of a word.
    pub value: &'a dyn Fn(usize, u64) -> u64,
}

impl World {
    /// A hash of the views under this renumbering, without what happened before them.
    pub fn hash_views(&self, renumbering: &Renumbering) -> u64 {
        let views = &self.state.views;
        if views.messages.is_empty() && views.nodes.is_empty() {
            return 0;
        }
        let order = self.node_order(renumbering.numbers);
        let mut sum = 0_u64;
        for (task, &number) in renumbering.numbers.iter().enumerate().take(self.tasks()) {
            if self.state.tasks[task].ended {
                continue;
            }
            let id = SEEN | u64::from(number) << 8;
            sum = sum.wrapping_add(self.hash_row(task, None, id, &order, renumbering));
            for which in [PENDING, FENCED] {
                if let Some(row) = self.fence_row(task, which) {
                    let beyond = (which == PENDING).then_some(task);
                    let id = id | (1 + which as u64);
                    sum = sum.wrapping_add(self.hash_row(row, beyond, id, &order, renumbering));
                }
            }
        }
        let kernel = self.kernel_row(self.tasks());
        sum = sum.wrapping_add(self.hash_row(kernel, None, SEEN | 3, &order, renumbering));
        let mut index = 0;
        for (i, message) in views.messages.iter().enumerate() {
            let is_first = i == 0 || views.messages[i - 1].cell != message.cell;
            index = if is_first { 0 } else { index + 1 };
            let hash = self.hash_message(i, message, index, &order, renumbering);
            sum = sum.wrapping_add(hash);
        }
        for (i, node) in views.nodes.iter().enumerate() {
            sum = sum.wrapping_add(self.hash_node(i, node, &order, renumbering));
        }
        sum
    }

    /// The identity of the row of each message.
    pub fn message_rows(&self, word_id: impl Fn(usize) -> u64) -> Vec<(usize, u64)> {
        let views = &self.state.views;
        let rows = views.messages.iter().enumerate().filter_map(|(i, message)| {
            let index = i - views.cell(message.cell).start;
            let id = MESSAGE ^ word_id(message.cell.into()) << 8 ^ index as u64;
            Some((views.row_of(i)?, id))
        });
        rows.collect()
    }

    /// For each event, where it comes by its task's number.
    fn node_order(&self, numbers: &[u8]) -> Vec<u64> {
        let nodes = &self.state.views.nodes;
        let mut by_number: Vec<usize> = (0..nodes.len()).collect();
        by_number.sort_by_key(|&node| numbers[usize::from(nodes[node].task)]);
        let mut order = vec![0; nodes.len()];
        for (position, node) in by_number.into_iter().enumerate() {
            order[node] = 1 << position;
        }
        order
    }

    fn hash_row(
        &self,
        row: usize,
        beyond: Option<usize>,
        id: u64,
        order: &[u64],
        renumbering: &Renumbering,
    ) -> u64 {
        let (views, has_order) = (&self.state.views, self.layout.has_order);
        let mut sum = 0_u64;
        for (column, mut seen, mut known) in views.entries(row) {
            if let Some(other) = beyond {
                let column = column as u16;
                seen = if seen > views.seen(other, column) { seen } else { 0 };
                known = if known > views.known(other, column) { known } else { 0 };
            }
            known = if has_order { known } else { 0 };
            if seen > 0 || known > 0 {
                let word = usize::from(self.layout.viewed[column]);
                let entry = u64::from(seen) << 8 | u64::from(known);
                sum = sum.wrapping_add(mix(mix(id, (renumbering.word_id)(word)), entry));
            }
        }
        let [happened, by_way] = views.events(row);
        if happened | by_way != 0 {
            let happened = mix(id, renumbered(happened, order));
            sum = sum.wrapping_add(mix(happened, renumbered(by_way, order)));
        }
        sum
    }

    fn hash_message(
        &self,
        at: usize,
        message: &Message,
        index: u64,
        order: &[u64],
        renumbering: &Renumbering,
    ) -> u64 {
        let first = usize::from(message.cell);
        let mut hash = mix(MESSAGE | (renumbering.word_id)(first), index << 1);
        hash = mix(hash, u64::from(message.words) << 1 | u64::from(message.is_update));
        for bit in bits(message.words.into()) {
            let word = &self.layout.words[first + bit];
            let value = message.value >> (8 * (word.offset & 7)) & ones(word.size);
            hash = mix(hash, (renumbering.value)(first + bit, value));
        }
        let marks = message.marks;
        if marks != Default::default() {
            for mask in [marks.writes, marks.reads, marks.dropped, marks.known_by, marks.read_by] {
                hash = mix(hash, renumbered(mask, order));
            }
        }
        match self.state.views.row_of(at) {
            Some(row) => mix(hash, self.hash_row(row, None, MESSAGE, order, renumbering)),
            None => hash,
        }
    }

    fn hash_node(&self, index: usize, node: &Node, order: &[u64], by: &Renumbering) -> u64 {
        let word = usize::from(node.cell);
        let cell = if word < self.layout.words.len() { (by.word_id)(word) } else { u64::MAX };
        let mut hash = mix(mix(NODE, order[index]), cell);
        hash = mix(hash, renumbered(node.before, order));
        let mut reached = 0_u64;
        for task in 0..self.tasks() {
            let cell = match node.reached[task] {
                0 => continue,
                u16::MAX => u64::MAX,
                cell => (by.word_id)(usize::from(cell - 1)),
            };
            reached = reached.wrapping_add(mix(u64::from(by.numbers[task]), cell));
        }
        mix(hash, reached)
    }
}

fn renumbered(mask: u64, order: &[u64]) -> u64 {
    bits(mask).fold(0, |new, node| new | order[node])
}
