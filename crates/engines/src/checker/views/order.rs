//! The order of sequentially consistent events: RC11 asks that their partial order `psc` has no cycle (Lahav, Vafeiadis, Kang,
//! Hur, Dreyer, PLDI 2017, with fences and accesses mixed).
//!
//!     psc_base = ([access] | [fence];hb?) ; scb ; ([access] | hb?;[fence])
//!     scb      = po | po≠loc;hb;po≠loc | hb|loc | mo | fr
//!     psc_F    = [fence] ; (hb | hb;eco;hb) ; [fence]
//!
//! The order is kept as its transitive closure over the events that can still be in a new cycle. An edge into an old event comes
//! only from a write that goes before an old one, or from a read of an old one; so an event is dropped once no task can do that
//! to any message that leads to it. Edges which add no cycle may be left in: from an event to each fence that it happened before,
//! and from a fence to each access that it happened before.
//!
//! A loop that waits reads the same again and again. A read that no edge leads to is dropped, too, once a later access of its task to
//! the location gives every edge that it can give.

use super::{Marks, Target, Views, bits};
use crate::checker::TASKS_MAX;

/// The cell of a fence.
pub const FENCE: u16 = u16::MAX;
/// The most sequentially consistent events that are kept.
pub const NODES_MAX: usize = 64;
/// In `Node::reached`: by accesses to several locations, or to one that no other access is to.
const SEVERAL: u16 = u16::MAX;

/// A sequentially consistent access or fence.
#[derive(Clone, Copy, Debug)]
pub struct Node {
    pub task: u8,
    /// The cell that it accesses, or `FENCE`.
    pub cell: u16,
    /// The events that are before it.
    pub before: u64,
    /// By task: 1 + the cell that the task has accessed since this event happened before it by way of another location; 0: none.
    pub reached: [u16; TASKS_MAX],
}

impl Views {
    /// Whether another event can be kept.
    pub fn has_room(&self) -> bool {
        self.nodes.len() < NODES_MAX
    }

    fn add_node(&mut self, task: usize, cell: u16, after: u64) -> u64 {
        let before = after | bits(after).fold(0, |all, node| all | self.nodes[node].before);
        let bit = 1 << self.nodes.len();
        self.nodes.push(Node { task: task as u8, cell, before, reached: [0; TASKS_MAX] });
        if cell == FENCE {
            self.fences |= bit;
        }
        bit
    }

    /// Adds an edge from each to each. `false`: there is a cycle.
    fn add_edges(&mut self, from: u64, to: u64) -> bool {
        if from == 0 || to == 0 {
            return true;
        }
        let all = from | bits(from).fold(0, |all, node| all | self.nodes[node].before);
        if all & to != 0 {
            return false;
        }
        for node in 0..self.nodes.len() {
            if to >> node & 1 != 0 || self.nodes[node].before & to != 0 {
                self.nodes[node].before |= all;
            }
        }
        true
    }

    /// A sequentially consistent access of this task, which has acquired what it acquires.
    pub fn access_node(&mut self, task: usize, cell: u16) -> u64 {
        let [happened, by_way] = self.events[task];
        let is_before = |&(index, node): &(usize, &Node)| {
            let has_happened = happened >> index & 1 != 0;
            let reached = node.reached[task];
            let is_by_way = reached == SEVERAL || reached != 0 && reached - 1 != cell;
            usize::from(node.task) == task
                || has_happened && (node.cell == FENCE || node.cell == cell)
                || by_way >> index & 1 != 0 && is_by_way
        };
        let before = self.nodes.iter().enumerate().filter(is_before);
        let after = before.fold(0, |after, (index, _)| after | 1 << index);
        let node = self.add_node(task, cell, after);
        self.events[task][0] |= node;
        node
    }

    /// Whatever a task accesses next, it has accessed this location, or executed a fence.
    pub fn passes(&mut self, task: usize, cell: u16) {
        let by_way = self.events[task][1];
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if by_way >> index & 1 != 0 {
                let reached = &mut node.reached[task];
                let is_one = cell != FENCE && (*reached == 0 || *reached - 1 == cell);
                *reached = if is_one { cell + 1 } else { SEVERAL };
            }
            if usize::from(node.task) == task && node.cell != cell && node.cell != FENCE {
                self.events[task][1] |= 1 << index;
            }
        }
    }

    /// The events that are before whatever reads or overwrites after an access of this task.
    fn sources(&self, task: usize, node: u64) -> u64 {
        node | self.events[task][0] & self.fences
    }

    /// Whether reads of this task have a place in the order.
    pub fn marks_reads(&self, task: usize, node: u64) -> bool {
        self.sources(task, node) != 0
    }

    /// Orders a read before all later writes. `false`: there is a cycle.
    pub fn order_read(&mut self, task: usize, target: &Target, read: u8, node: u64) -> bool {
        let sources = self.sources(task, node);
        if sources == 0 {
            return true;
        }
        for index in self.read_from(target, read) {
            self.messages[index].marks.reads |= sources;
        }
        let range = self.cell(target.cell);
        let from = range.start + usize::from(read) + 1;
        self.order_before_later(from, range.end, target.words, sources)
    }

    fn order_before_later(&mut self, from: usize, end: usize, words: u8, sources: u64) -> bool {
        (from..end).all(|later| {
            let Marks { known_by, read_by, .. } = self.messages[later].marks;
            self.messages[later].words & words == 0
                || self.add_edges(sources, known_by)
                    && self.add_edges(sources & self.fences, read_by)
        })
    }

    /// Orders a write, which is a message by now. `false`: there is a cycle.
    pub fn order_write(&mut self, task: usize, target: &Target, at: usize, node: u64) -> bool {
        if self.nodes.is_empty() {
            return true;
        }
        let range = self.cell(target.cell);
        let earlier = &self.messages[range.start..at];
        let overlapping = earlier.iter().filter(|message| message.words & target.words != 0);
        let before = overlapping.fold(0, |before, message| before | message.marks.sources());
        let sources = self.sources(task, node);
        // Its own read is part of the same event.
        let is_acyclic = self.add_edges(before & !node, node)
            && self.order_before_later(at + 1, range.end, target.words, sources);
        let marks = &mut self.messages[at].marks;
        (marks.writes, marks.known_by) = (sources, node);
        is_acyclic
    }

    /// A sequentially consistent fence of this task, which has acquired what it acquires. Each cell comes with its columns.
    pub fn order_fence(&mut self, task: usize, columns_of: impl Fn(u16) -> [u16; 8]) {
        let mut after = self.events[task][0];
        let (mut known_by, mut read_by) = (Vec::new(), Vec::new());
        let mut start = 0;
        while start < self.messages.len() {
            let range = self.cell(self.messages[start].cell);
            let columns = columns_of(self.messages[start].cell);
            let cell = &self.messages[range.clone()];
            let words = cell.iter().fold(0, |words, message| words | message.words);
            for bit in bits(words.into()) {
                let known = usize::from(self.known(task, columns[bit]));
                let seen = self.floor(cell, &[task], columns[bit], bit);
                for (index, message) in cell.iter().enumerate() {
                    if message.words >> bit & 1 == 0 {
                        continue;
                    }
                    let marks = message.marks;
                    let of = |up_to: usize| match index + 1 {
                        position if position < up_to => marks.sources(),
                        position if position == up_to => marks.dropped,
                        _ => 0,
                    };
                    let itself = if index < seen { marks.writes } else { 0 };
                    after |= of(known) | (of(seen) | itself) & self.fences;
                }
                known_by.extend(known.checked_sub(1).map(|index| range.start + index));
                read_by.extend(seen.checked_sub(1).map(|index| range.start + index));
            }
            start = range.end;
        }
        let node = self.add_node(task, FENCE, after);
        self.events[task][0] |= node;
        for message in known_by {
            self.messages[message].marks.known_by |= node;
        }
        for message in read_by {
            self.messages[message].marks.read_by |= node;
        }
    }

    /// Events that can still get an edge from a new one, and all that they lead to.
    pub(super) fn relevant(&self, open: u64) -> u64 {
        let leads =
            |&(index, node): &(usize, &Node)| open >> index & 1 != 0 || node.before & open != 0;
        let relevant = self.nodes.iter().enumerate().filter(leads);
        relevant.fold(0, |relevant, (index, _)| relevant | 1 << index)
    }

    /// Events that a later one stands for.
    pub(super) fn repeated(&self) -> u64 {
        let marks = self.messages.iter().map(|message| message.marks);
        let targets = marks.fold(0, |all, marks| all | marks.known_by | marks.read_by);
        let mut repeated = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let stands_for = |&(by, later): &(usize, &Node)| {
                (later.task, later.cell) == (node.task, node.cell)
                    && later.before >> index & 1 != 0
                    && self.gives_edges_of(by, index)
            };
            let is_read = targets >> index & 1 == 0 && node.cell != FENCE;
            let mut later = self.nodes.iter().enumerate().skip(index + 1);
            if is_read && later.any(|it| stands_for(&it)) {
                repeated |= 1 << index;
            }
        }
        repeated
    }

    /// Whether one event has an edge to whatever another one will have one to.
    fn gives_edges_of(&self, by: usize, index: usize) -> bool {
        let is_with = |mask: u64| mask >> index & 1 == 0 || mask >> by & 1 != 0;
        let reaches = |(by, other): (&u16, &u16)| by == other || *by == SEVERAL;
        self.messages.iter().all(|it| is_with(it.marks.sources()) && is_with(it.marks.dropped))
            && self.events.iter().all(|[happened, by_way]| is_with(*happened) && is_with(*by_way))
            && self.nodes[by].reached.iter().zip(&self.nodes[index].reached).all(reaches)
    }

    /// Keeps only these events.
    pub(super) fn keep_nodes(&mut self, keep: u64) {
        let all = if self.nodes.len() == 64 { u64::MAX } else { (1 << self.nodes.len()) - 1 };
        let keep = keep & all;
        if keep == all {
            return;
        }
        let squeezed = |mask: u64| {
            bits(keep).enumerate().fold(0, |new, (to, from)| new | (mask >> from & 1) << to)
        };
        let mut index = 0;
        self.nodes.retain(|_| {
            index += 1;
            keep >> (index - 1) & 1 != 0
        });
        self.nodes.iter_mut().for_each(|node| node.before = squeezed(node.before));
        self.fences = squeezed(self.fences);
        for [happened, by_way] in &mut self.events {
            (*happened, *by_way) = (squeezed(*happened), squeezed(*by_way));
        }
        for Marks { writes, reads, dropped, known_by, read_by } in
            self.messages.iter_mut().map(|message| &mut message.marks)
        {
            for mask in [writes, reads, dropped, known_by, read_by] {
                *mask = squeezed(*mask);
            }
        }
    }
}
