//! The POSIX ranges of a file as a tree beside the list, so that the place of a range, and
//! who is in its way, are found without a walk over all.
//!
//!                 d            in order, left to right: the list. Each node knows the least
//!               ╱   ╲          start and the greatest end below it; where a request lies
//!             b       f        outside of these, nobody below is in its way.
//!            ╱ ╲     ╱
//!           a   c   e          a b c │ d e f : the ranges of two owners
//!                                ╰─────╯       first ones, chained: where an owner begins
//!
//! The answers are those of the list: the first in its order. A treap: heaped by a hash of
//! the record's name, which balances it (Seidel and Aragon 1996, Randomized search trees).
//! Owners are looked for one after the other; of one owner's n ranges about log n are seen.

use machine::{Field, Machine, image};

use super::soundness::bit;
use super::{FileLocks, Owner, Range, code_of, in_the_way};
use crate::Lock;

image! {
    /// The place of a record in the tree; what guards the file guards it.
    pub(super) struct Branch {
        left: Field<u32>,
        right: Field<u32>,
        parent: Field<u32>,
        /// Of the first range of an owner: that of another owner.
        next_owner: Field<u32>,
        /// The least start below it, itself too.
        low: Field<u64>,
        /// The greatest end.
        high: Field<u64>,
    }
}

/// Which of two nodes lies above.
fn weight(name: u32) -> u32 {
    let mixed = (name ^ name >> 16).wrapping_mul(0x85EB_CA6B);
    (mixed ^ mixed >> 13).wrapping_mul(0xC2B2_AE35)
}

impl<L: Lock> FileLocks<L> {
    fn branch(&self, name: u32) -> &Branch {
        &self.branches[name as usize - 1]
    }

    /// The first record in order that is in the way of this range.
    pub(super) fn obstacle_in_tree<M: Machine>(
        &self,
        m: &M,
        file: usize,
        range: Range,
    ) -> Option<u32> {
        let first = self.files[file].owners.get(m);
        if first != 0 && self.is_alone(m, first) && self.is_of(m, first, range.owner) {
            return None;
        }
        self.obstacle_below(m, self.files[file].root.get(m), range)
    }

    fn obstacle_below<M: Machine>(&self, m: &M, at: u32, range: Range) -> Option<u32> {
        if at == 0 {
            return None;
        }
        let branch = self.branch(at);
        if branch.low.get(m) > range.end || branch.high.get(m) < range.start {
            return None;
        }
        let itself = || in_the_way(self.range(m, at), range).then_some(at);
        self.obstacle_below(m, branch.left.get(m), range)
            .or_else(itself)
            .or_else(|| self.obstacle_below(m, branch.right.get(m), range))
    }

    /// The first range of an owner; 0 if it has none.
    pub(super) fn first_of<M: Machine>(&self, m: &M, file: usize, owner: Owner) -> u32 {
        let mut at = self.files[file].owners.get(m);
        while at != 0 && !self.is_of(m, at, owner) {
            at = self.branch(at).next_owner.get(m);
        }
        at
    }

    fn is_of<M: Machine>(&self, m: &M, name: u32, owner: Owner) -> bool {
        self.record(name).owner.get(m) == code_of(owner)
    }

    /// Whether the owner whose first range this is has all ranges of the file: it is the last in
    /// the chain, and the first in the tree.
    fn is_alone<M: Machine>(&self, m: &M, first: u32) -> bool {
        self.branch(first).next_owner.get(m) == 0 && self.record(first).before.get(m) == 0
    }

    /// Of the ranges of an owner that begin with `first`, the one before the last that starts
    /// no later than this: no earlier one meets or touches what starts there.
    pub(super) fn near<M: Machine>(&self, m: &M, file: usize, first: u32, start: u64) -> u32 {
        let owner = self.record(first).owner.get(m);
        let is_before = |name: u32| {
            let record = self.record(name);
            record.owner.get(m) == owner && record.start.get(m) <= start
        };
        let mut best = first;
        let mut at = if self.is_alone(m, first) {
            self.files[file].root.get(m)
        } else {
            best = self.above(m, first, is_before);
            self.branch(best).right.get(m)
        };
        while at != 0 {
            if is_before(at) {
                (best, at) = (at, self.branch(at).right.get(m));
            } else {
                at = self.branch(at).left.get(m);
            }
        }
        match self.record(best).before.get(m) {
            before if best != first && before != 0 => before,
            _ => best,
        }
    }

    /// From a range up, as long as those above come later, and not too late: the last of them.
    fn above<M: Machine>(&self, m: &M, first: u32, is_before: impl Fn(u32) -> bool) -> u32 {
        let (mut best, mut at) = (first, first);
        loop {
            let above = self.branch(at).parent.get(m);
            if above == 0 {
                return best;
            }
            if self.branch(above).left.get(m) == at {
                if !is_before(above) {
                    return best;
                }
                best = above;
            }
            at = above;
        }
    }

    /// The last range of a file; 0 if there is none.
    pub(super) fn last_in_tree<M: Machine>(&self, m: &M, file: usize) -> u32 {
        let (mut last, mut at) = (0, self.files[file].root.get(m));
        while at != 0 {
            (last, at) = (at, self.branch(at).right.get(m));
        }
        last
    }

    /// A record has got its place in the list, and gets it in the tree.
    pub(super) fn grow<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let (before, next) = self.neighbours(m, name);
        let branch = self.branch(name);
        branch.left.set(m, 0);
        branch.right.set(m, 0);
        branch.low.set(m, 0);
        branch.high.set(m, 0);
        // One of the two has room on the side where the record lies.
        if next != 0 && self.branch(next).left.get(m) == 0 {
            self.branch(next).left.set(m, name);
            branch.parent.set(m, next);
        } else if before != 0 {
            self.branch(before).right.set(m, name);
            branch.parent.set(m, before);
        } else {
            self.files[file].root.set(m, name);
            branch.parent.set(m, 0);
        }
        self.measure(m, name);
        loop {
            let above = branch.parent.get(m);
            if above == 0 || weight(above) >= weight(name) {
                break;
            }
            self.lift(m, file, name);
        }
        self.resized(m, branch.parent.get(m));
        if !self.same_owner(m, before, name) {
            let heir = if self.same_owner(m, next, name) { next } else { 0 };
            self.chain(m, file, heir, name);
        }
    }

    /// A record is about to lose its place in the list, and loses it in the tree.
    pub(super) fn shrink<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let (before, next) = self.neighbours(m, name);
        if !self.same_owner(m, before, name) {
            let heir = if self.same_owner(m, next, name) { next } else { 0 };
            self.chain(m, file, name, heir);
        }
        let branch = self.branch(name);
        loop {
            let (left, right) = (branch.left.get(m), branch.right.get(m));
            match (left, right) {
                (0, 0) => break,
                (0, below) | (below, 0) => self.lift(m, file, below),
                _ => self.lift(m, file, if weight(left) > weight(right) { left } else { right }),
            }
        }
        let above = branch.parent.get(m);
        self.put_below(m, file, above, name, 0);
        self.resized(m, above);
        for field in [&branch.left, &branch.right, &branch.parent, &branch.next_owner] {
            m.poison_field(field);
        }
        m.poison_field(&branch.low);
        m.poison_field(&branch.high);
    }

    /// The range of a record, or what lies below it, is another: those above are told, as far
    /// up as that makes a difference.
    pub(super) fn resized<M: Machine>(&self, m: &M, name: u32) {
        let mut at = name;
        while at != 0 && self.measure(m, at) {
            at = self.branch(at).parent.get(m);
        }
    }

    /// Looks what lies below a node and at it; whether that is not what it was.
    fn measure<M: Machine>(&self, m: &M, name: u32) -> bool {
        let (branch, record) = (self.branch(name), self.record(name));
        let (mut low, mut high) = (record.start.get(m), record.end.get(m));
        for below in [branch.left.get(m), branch.right.get(m)] {
            if below != 0 {
                low = low.min(self.branch(below).low.get(m));
                high = high.max(self.branch(below).high.get(m));
            }
        }
        let differs = (low, high) != (branch.low.get(m), branch.high.get(m));
        branch.low.set(m, low);
        branch.high.set(m, high);
        differs
    }

    /// Turns a node and the one above it about.
    ///
    /// ```text
    ///       p            n
    ///     ╱   ╲        ╱   ╲
    ///    n     z  ──> x     p       and the other way round
    ///   ╱ ╲                ╱ ╲
    ///  x   y              y   z
    /// ```
    fn lift<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let node = self.branch(name);
        let above = node.parent.get(m);
        let parent = self.branch(above);
        self.put_below(m, file, parent.parent.get(m), above, name);
        node.parent.set(m, parent.parent.get(m));
        let (towards, away) = match parent.left.get(m) == name {
            true => (&parent.left, &node.right),
            false => (&parent.right, &node.left),
        };
        let between = away.get(m);
        towards.set(m, between);
        if between != 0 {
            self.branch(between).parent.set(m, above);
        }
        away.set(m, above);
        parent.parent.set(m, name);
        self.measure(m, above);
        self.measure(m, name);
    }

    /// In place of one node another, or none, comes below this one, or at the root.
    fn put_below<M: Machine>(&self, m: &M, file: usize, above: u32, old: u32, new: u32) {
        let place = match above {
            0 => &self.files[file].root,
            above if self.branch(above).left.get(m) == old => &self.branch(above).left,
            above => &self.branch(above).right,
        };
        place.set(m, new);
    }

    /// In the chain of first ranges one takes the place of another; 0 is none.
    fn chain<M: Machine>(&self, m: &M, file: usize, old: u32, new: u32) {
        let mut place = &self.files[file].owners;
        while place.get(m) != old {
            place = &self.branch(place.get(m)).next_owner;
        }
        if new == 0 {
            return place.set(m, self.branch(old).next_owner.get(m));
        }
        let after = if old == 0 { 0 } else { self.branch(old).next_owner.get(m) };
        self.branch(new).next_owner.set(m, after);
        place.set(m, new);
    }

    fn neighbours<M: Machine>(&self, m: &M, name: u32) -> (u32, u32) {
        let record = self.record(name);
        (record.before.get(m), record.next.get(m))
    }

    fn same_owner<M: Machine>(&self, m: &M, other: u32, name: u32) -> bool {
        other != 0 && self.record(other).owner.get(m) == self.record(name).owner.get(m)
    }
}

// What must hold of it.

impl<L: Lock> FileLocks<L> {
    /// The tree in its order is the list, it is heaped, knows what lies below each node, and
    /// the chain has the first range of each owner once.
    ///
    /// # Panics
    /// Where that is not so.
    pub(super) fn assert_tree<M: Machine>(&self, m: &M) {
        let file = &self.files[0];
        let mut next = file.posix.get(m);
        self.assert_below(m, file.root.get(m), 0, &mut next);
        assert_eq!(next, 0, "a range of the list is not in the tree");
        let (mut firsts, mut at) = (0, file.posix.get(m));
        while at != 0 {
            if !self.same_owner(m, self.record(at).before.get(m), at) {
                firsts |= bit(at);
            }
            at = self.record(at).next.get(m);
        }
        let (mut chained, mut at) = (0, file.owners.get(m));
        while at != 0 {
            assert_eq!(chained & bit(at), 0, "the chain of owners leads back to itself");
            chained |= bit(at);
            at = self.branch(at).next_owner.get(m);
        }
        assert_eq!(chained, firsts, "the chain has the first range of each owner");
    }

    /// Goes through what is below a place, in order, along the list.
    fn assert_below<M: Machine>(&self, m: &M, at: u32, parent: u32, next: &mut u32) {
        if at == 0 {
            return;
        }
        let branch = self.branch(at);
        assert_eq!(branch.parent.get(m), parent, "a node of the tree knows the one above");
        assert!(parent == 0 || weight(parent) >= weight(at), "the tree is heaped");
        self.assert_below(m, branch.left.get(m), at, next);
        assert_eq!(*next, at, "the tree has the order of the list");
        *next = self.record(at).next.get(m);
        self.assert_below(m, branch.right.get(m), at, next);
        assert!(!self.measure(m, at), "a node knows what lies below it");
    }
}
