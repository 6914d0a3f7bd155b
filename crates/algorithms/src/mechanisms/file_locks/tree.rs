//! The POSIX ranges of a file as a tree beside the list. It finds the position of a range, and the
//! obstacle of a request, without a walk over all ranges.
//!
//!                 d            In order, left to right, the tree is the list. Each node has the
//!               ╱   ╲          least start and the greatest end of its subtree. If a request
//!             b       f        lies outside them, no range of the subtree is in its way.
//!            ╱ ╲     ╱
//!           a   c   e          a b c │ d e f   the ranges of two owners
//!                              ╰───────╯       each owner's first range, chained
//!
//! The answers are those of the list: the first match in list order. The tree is a treap: a hash of
//! the record's name is the priority, which balances it (Seidel and Aragon 1996, Randomized search
//! trees). Owners are searched one after the other; of an owner's n ranges about log n are visited.

use machine::{Field, Machine, image};

use super::invariants::bit;
use super::{FileLocks, Owner, Range, code_of, in_the_way};
use crate::Lock;

image! {
    /// The tree node of a record. The lock of the file guards it.
    pub(super) struct Branch {
        left: Field<u32>,
        right: Field<u32>,
        parent: Field<u32>,
        /// In an owner's first range: another owner's first range.
        next_owner: Field<u32>,
        /// The least start in the subtree.
        low: Field<u64>,
        /// The greatest end in the subtree.
        high: Field<u64>,
    }
}

/// The priority of a node: a parent's is never lower than its children's.
fn priority(name: u32) -> u32 {
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
        if first != 0 && self.is_only_owner(m, first) && self.is_owned_by(m, first, range.owner) {
            return None;
        }
        self.obstacle_below(m, self.files[file].root.get(m), range)
    }

    /// The first record of the subtree below `top` that is in the way of this range.
    fn obstacle_below<M: Machine>(&self, m: &M, top: u32, range: Range) -> Option<u32> {
        if top == 0 {
            return None;
        }
        let branch = self.branch(top);
        if branch.low.get(m) > range.end || branch.high.get(m) < range.start {
            return None;
        }
        let itself = || in_the_way(self.range(m, top), range).then_some(top);
        self.obstacle_below(m, branch.left.get(m), range)
            .or_else(itself)
            .or_else(|| self.obstacle_below(m, branch.right.get(m), range))
    }

    /// The first range of an owner; 0 if it has none.
    pub(super) fn first_of<M: Machine>(&self, m: &M, file: usize, owner: Owner) -> u32 {
        let mut name = self.files[file].owners.get(m);
        while name != 0 && !self.is_owned_by(m, name, owner) {
            name = self.branch(name).next_owner.get(m);
        }
        name
    }

    fn is_owned_by<M: Machine>(&self, m: &M, name: u32, owner: Owner) -> bool {
        self.record(name).owner.get(m) == code_of(owner)
    }

    /// Whether the owner whose first range this is has all ranges of the file: the range is the last
    /// of the chain and the first of the list.
    fn is_only_owner<M: Machine>(&self, m: &M, first: u32) -> bool {
        self.branch(first).next_owner.get(m) == 0 && self.record(first).before.get(m) == 0
    }

    /// Searches the ranges of the owner whose first range is `first` for the last that starts no
    /// later than `start`, and returns the range before it. No earlier range of the owner meets or
    /// touches a request that starts at `start`.
    pub(super) fn near<M: Machine>(&self, m: &M, file: usize, first: u32, start: u64) -> u32 {
        let owner = self.record(first).owner.get(m);
        let is_before = |name: u32| {
            let record = self.record(name);
            record.owner.get(m) == owner && record.start.get(m) <= start
        };
        let mut last = first;
        let mut name = if self.is_only_owner(m, first) {
            self.files[file].root.get(m)
        } else {
            last = self.last_ancestor_before(m, first, is_before);
            self.branch(last).right.get(m)
        };
        while name != 0 {
            if is_before(name) {
                (last, name) = (name, self.branch(name).right.get(m));
            } else {
                name = self.branch(name).left.get(m);
            }
        }
        match self.record(last).before.get(m) {
            before if last != first && before != 0 => before,
            _ => last,
        }
    }

    /// Climbs from a range to its ancestors that come later in the list, as long as `is_before`
    /// holds for them; returns the last of them.
    fn last_ancestor_before<M: Machine>(
        &self,
        m: &M,
        first: u32,
        is_before: impl Fn(u32) -> bool,
    ) -> u32 {
        let (mut last, mut name) = (first, first);
        loop {
            let parent = self.branch(name).parent.get(m);
            if parent == 0 {
                return last;
            }
            if self.branch(parent).left.get(m) == name {
                if !is_before(parent) {
                    return last;
                }
                last = parent;
            }
            name = parent;
        }
    }

    /// The last range of a file; 0 if there is none.
    pub(super) fn last_in_tree<M: Machine>(&self, m: &M, file: usize) -> u32 {
        let (mut last, mut name) = (0, self.files[file].root.get(m));
        while name != 0 {
            (last, name) = (name, self.branch(name).right.get(m));
        }
        last
    }

    /// Inserts a record in the tree, after it was inserted in the list.
    pub(super) fn insert_in_tree<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let (before, next) = self.neighbours(m, name);
        let branch = self.branch(name);
        branch.left.set(m, 0);
        branch.right.set(m, 0);
        branch.low.set(m, 0);
        branch.high.set(m, 0);
        // One of the two neighbours has no child on the side of the new record.
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
        self.update_bounds(m, name);
        loop {
            let parent = branch.parent.get(m);
            if parent == 0 || priority(parent) >= priority(name) {
                break;
            }
            self.rotate_up(m, file, name);
        }
        self.update_bounds_from(m, branch.parent.get(m));
        if !self.same_owner(m, before, name) {
            let old_first = if self.same_owner(m, next, name) { next } else { 0 };
            self.replace_first(m, file, old_first, name);
        }
    }

    /// Removes a record from the tree, before it is removed from the list.
    pub(super) fn remove_from_tree<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let (before, next) = self.neighbours(m, name);
        if !self.same_owner(m, before, name) {
            let new_first = if self.same_owner(m, next, name) { next } else { 0 };
            self.replace_first(m, file, name, new_first);
        }
        let branch = self.branch(name);
        loop {
            let (left, right) = (branch.left.get(m), branch.right.get(m));
            let child = match (left, right) {
                (0, 0) => break,
                (0, child) | (child, 0) => child,
                _ if priority(left) > priority(right) => left,
                _ => right,
            };
            self.rotate_up(m, file, child);
        }
        let parent = branch.parent.get(m);
        self.replace_child(m, file, parent, name, 0);
        self.update_bounds_from(m, parent);
        for field in [&branch.left, &branch.right, &branch.parent, &branch.next_owner] {
            m.poison_field(field);
        }
        m.poison_field(&branch.low);
        m.poison_field(&branch.high);
    }

    /// Updates the bounds of a node whose range or subtree has changed, and of its ancestors, as far
    /// up as they change.
    pub(super) fn update_bounds_from<M: Machine>(&self, m: &M, name: u32) {
        let mut changed = name;
        while changed != 0 && self.update_bounds(m, changed) {
            changed = self.branch(changed).parent.get(m);
        }
    }

    /// Computes the bounds of a node from its range and its children; returns whether they changed.
    fn update_bounds<M: Machine>(&self, m: &M, name: u32) -> bool {
        let (branch, record) = (self.branch(name), self.record(name));
        let (mut low, mut high) = (record.start.get(m), record.end.get(m));
        for child in [branch.left.get(m), branch.right.get(m)] {
            if child != 0 {
                low = low.min(self.branch(child).low.get(m));
                high = high.max(self.branch(child).high.get(m));
            }
        }
        let changed = (low, high) != (branch.low.get(m), branch.high.get(m));
        branch.low.set(m, low);
        branch.high.set(m, high);
        changed
    }

    /// Rotates a node above its parent.
    ///
    /// ```text
    ///       p            n
    ///     ╱   ╲        ╱   ╲
    ///    n     z  ──> x     p       or mirrored
    ///   ╱ ╲                ╱ ╲
    ///  x   y              y   z
    /// ```
    fn rotate_up<M: Machine>(&self, m: &M, file: usize, name: u32) {
        let node = self.branch(name);
        let parent_name = node.parent.get(m);
        let parent = self.branch(parent_name);
        self.replace_child(m, file, parent.parent.get(m), parent_name, name);
        node.parent.set(m, parent.parent.get(m));
        let (parents_link, nodes_link) = if parent.left.get(m) == name {
            (&parent.left, &node.right)
        } else {
            (&parent.right, &node.left)
        };
        let middle = nodes_link.get(m);
        parents_link.set(m, middle);
        if middle != 0 {
            self.branch(middle).parent.set(m, parent_name);
        }
        nodes_link.set(m, parent_name);
        parent.parent.set(m, name);
        self.update_bounds(m, parent_name);
        self.update_bounds(m, name);
    }

    /// Replaces a child of this node, or the root if that is 0, by another node or by none.
    fn replace_child<M: Machine>(&self, m: &M, file: usize, parent: u32, old: u32, new: u32) {
        let link = match parent {
            0 => &self.files[file].root,
            parent if self.branch(parent).left.get(m) == old => &self.branch(parent).left,
            parent => &self.branch(parent).right,
        };
        link.set(m, new);
    }

    /// Replaces an owner's first range in the chain. 0 as `old` adds the owner, 0 as `new` removes
    /// it.
    fn replace_first<M: Machine>(&self, m: &M, file: usize, old: u32, new: u32) {
        let mut link = &self.files[file].owners;
        while link.get(m) != old {
            link = &self.branch(link.get(m)).next_owner;
        }
        if new == 0 {
            return link.set(m, self.branch(old).next_owner.get(m));
        }
        let next_owner = if old == 0 { 0 } else { self.branch(old).next_owner.get(m) };
        self.branch(new).next_owner.set(m, next_owner);
        link.set(m, new);
    }

    fn neighbours<M: Machine>(&self, m: &M, name: u32) -> (u32, u32) {
        let record = self.record(name);
        (record.before.get(m), record.next.get(m))
    }

    fn same_owner<M: Machine>(&self, m: &M, other: u32, name: u32) -> bool {
        other != 0 && self.record(other).owner.get(m) == self.record(name).owner.get(m)
    }
}

// The invariants of the tree.

impl<L: Lock> FileLocks<L> {
    /// Checks that the tree in order is the list, that priorities and bounds are right, and that
    /// the chain has the first range of each owner once.
    ///
    /// # Panics
    /// If one of these does not hold.
    pub(super) fn assert_tree<M: Machine>(&self, m: &M) {
        let file = &self.files[0];
        let mut next = file.posix.get(m);
        self.assert_subtree(m, file.root.get(m), 0, &mut next);
        assert_eq!(next, 0, "a range of the list is not in the tree");
        let (mut first_ranges, mut name) = (0, file.posix.get(m));
        while name != 0 {
            if !self.same_owner(m, self.record(name).before.get(m), name) {
                first_ranges |= bit(name);
            }
            name = self.record(name).next.get(m);
        }
        let (mut chained, mut name) = (0, file.owners.get(m));
        while name != 0 {
            assert_eq!(chained & bit(name), 0, "the chain of owners is circular");
            chained |= bit(name);
            name = self.branch(name).next_owner.get(m);
        }
        assert_eq!(chained, first_ranges, "the chain differs from the owners' first ranges");
    }

    /// Walks the subtree below `top` in order, and the list with it from `next` on.
    fn assert_subtree<M: Machine>(&self, m: &M, top: u32, parent: u32, next: &mut u32) {
        if top == 0 {
            return;
        }
        let branch = self.branch(top);
        assert_eq!(branch.parent.get(m), parent, "a node has a wrong parent");
        assert!(
            parent == 0 || priority(parent) >= priority(top),
            "a parent has a lower priority than its child"
        );
        self.assert_subtree(m, branch.left.get(m), top, next);
        assert_eq!(*next, top, "the tree has another order than the list");
        *next = self.record(top).next.get(m);
        self.assert_subtree(m, branch.right.get(m), top, next);
        assert!(!self.update_bounds(m, top), "a node has wrong bounds");
    }
}
