//! The list of committed log items that are not yet written: XFS's CIL, in several designs.
//! Transactions commit items to the current context. When the context is full, a task pushes all
//! of it to the log, each item once however often it was committed.
//!
//!     item:     clean ──commit──> listed ──commit──> listed, with newer content
//!                 ▲                  │ push: the content goes to the chain
//!                 └──────────────────┘
//!     context:  open ──(space used up: one pusher)──> closed ──> chain taken, next context open
//!               commits hold the context's lock shared, the pusher holds it exclusively
//!     chain:    sorted by order, written; one chain at a time
//!
//! Designs: what happens to an item that is listed already (it moves to the tail, which gives the
//! order that log replay needs; it stays, and the order of commits is lost; or each CPU has a
//! list, and the item stays in the list of the CPU that committed it first); the order of a push
//! (list order, or ids taken from a counter and sorted during the push); the space used (counted
//! under the lock of the list, or on each CPU and added to the sum from time to time); the lock of
//! the context (one word that all committing tasks write, or one lock per CPU).
//!
//! Invariants: each committed item is in exactly one push, with its last content; if the design
//! claims an order, a push has the items that one task committed last in the order of its
//! commits; the ids of an item grow with its commits, whichever task commits it; the space
//! counted is the space of the items pushed; at the end the lists are empty.
//!
//! Items of a transaction (`items`), counted on XFS of Linux 6.18 by the tracepoints xfs_trans_add_item and
//! xfs_trans_commit, 3000 calls each: creating a file 9.7, mkdir 10.1, unlink 8.2, rename 7.4; utimes, chmod, and setting or
//! removing a short attribute 1. Setting and removing one are three transactions. The default of 2 stands for none of them:
//! it is an inode and a buffer.
//!
//! Differs from Linux: the task that finds the context full pushes it, where Linux wakes a worker;
//! reservations of transactions are not counted; the lock of the context spins.
//!
//! Linux fs/xfs/xfs_log_cil.c of 3.x to 5.19 (`before`) and of 6.0 (`after`), by Dave Chinner:
//! xfs: Introduce delayed logging core code, 2010; xfs: implement percpu cil space used
//! calculation, xfs: Add order IDs to log items in CIL, xfs: convert CIL to unordered per cpu
//! lists, xfs: move CIL ordering to the logvec chain, all 2022.

mod design;

use machine::{Array, Atom, Field, Image, Line, Machine, Ordering, Region, image};

use super::{Mechanism, Scenario, Setting, Settings};
use crate::locks::per_cpu_read_write::PerCpuReadWrite;
use crate::locks::queued_read_write::{QueuedReadWrite, QueuedReadWriteMem};
use crate::{Equivalent, Hold, Lock, Shape, SharedLock, digest};
pub use design::{Context, Design, Lists, Order, Space};

image! {
    /// An object that transactions change. Its name contains its task (under the checker, its
    /// CPU): (task + 1) << 16 | index. Shared items have the number of tasks in place of a task.
    struct Item<L: Image> {
        /// Guards the content of a shared item, from its change to the end of the commit.
        lock: L,
        /// The content: a count of changes.
        content: Field<u32>,
        /// The content as last committed; 0 if the item is not listed.
        formatted: Field<u32>,
        /// The neighbours in the list.
        next: Field<u32>,
        before: Field<u32>,
        /// The id of the last commit.
        order: Field<u64>,
        /// The task of the last commit, plus one.
        by: Field<u32>,
        /// The number of the last commit among its task's commits.
        turn: Field<u32>,
        /// The content in the log. Only the pusher uses it.
        logged: Field<u32>,
        /// The last push that had the item. Only the pusher uses it.
        pushed_in: Field<u32>,
    }

    /// A list of items, of all CPUs or of one.
    struct List<L: Image> {
        lock: L,
        first: Field<u32>,
        last: Field<u32>,
        /// Space used and not yet added to the sum.
        space: Field<u64>,
        /// Items listed in all, to compare with the items pushed.
        listed: Field<u64>,
    }

    /// The state of pushes. All but `pushing` belongs to the pusher.
    struct Pusher {
        /// 1 while a task pushes.
        pushing: Atom<u32>,
        /// The number of the push.
        sequence: Field<u32>,
        /// The length of the chain.
        length: Field<u32>,
        /// Items pushed in all.
        pushed: Field<u64>,
    }

    /// A link of the chain: what is to be written of an item.
    struct ChainLink {
        name: Field<u32>,
        content: Field<u32>,
        order: Field<u64>,
        by: Field<u32>,
        turn: Field<u32>,
    }
}

/// The committed-item list of a log.
#[derive(Debug)]
pub struct LogCommitList<L: Lock> {
    design: Design,
    tasks: usize,
    /// Items of each task.
    own: usize,
    /// How many of them a transaction changes.
    changed: usize,
    /// Items that all tasks share.
    shared: usize,
    shared_one_in: u32,
    limit: u64,
    work_ns: u64,
    format_ns: u64,
    in_lock_ns: u64,
    write_ns: u64,
    lock: L,
    context: Array<Line<QueuedReadWriteMem>>,
    context_lock: QueuedReadWrite,
    contexts: PerCpuReadWrite,
    lists: Array<Line<List<L::Mem>>>,
    ids: Array<Line<Atom<u64>>>,
    space: Array<Line<Atom<u64>>>,
    pusher: Array<Line<Pusher>>,
    items: Array<Line<Item<L::Mem>>>,
    chain: Array<ChainLink>,
}

/// The most items of its own that a transaction changes.
const CHANGED_MAX: usize = 16;

/// The space that an item takes in the log.
const ITEM_BYTES: u64 = 256;

/// A task that commits transactions.
#[derive(Clone, Copy, Debug, Default)]
pub struct Committer {
    task: u32,
    /// The number of its transactions.
    turn: u32,
    pushes: u64,
    pushed: u64,
}

impl<L: Lock> Mechanism for LogCommitList<L> {
    const NAME: &'static str = "log_commit_list";
    type Design = Design;
    type Task = Committer;
    const OPERATION: &'static str = "one transaction that changes and commits some items";
    const TASKS_SHARE_CPUS: bool = true;
    const DESIGNS: &'static [(&'static str, Design)] = &[
        ("before", Design::BEFORE),
        ("before+once", Design { lists: Lists::Once, ..Design::BEFORE }),
        ("before+per-cpu-space", Design { space: Space::PerCpu, ..Design::BEFORE }),
        ("before+per-cpu-context", Design { context: Context::PerCpu, ..Design::BEFORE }),
        ("before+ids", Design { lists: Lists::Once, order: Order::Ids, ..Design::BEFORE }),
        ("before+ids+moved", Design { order: Order::Ids, ..Design::BEFORE }),
        ("after", Design::AFTER),
        ("after+one-list", Design { lists: Lists::Once, ..Design::AFTER }),
        ("after+moved", Design { lists: Lists::Moved, ..Design::AFTER }),
        ("after+one-sum", Design { space: Space::OneSum, ..Design::AFTER }),
        ("after+per-cpu-context", Design { context: Context::PerCpu, ..Design::AFTER }),
    ];
    const SETTINGS: &'static [Setting] = &[
        Setting {
            name: "own_items",
            about: "items of each task that no other task changes",
            default: 16,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "items",
            about: "own items that a transaction changes, in a row; no more than own_items",
            default: 2,
            min: 1,
            max: CHANGED_MAX as u64,
            searched: 2,
        },
        Setting {
            name: "shared_items",
            about: "items that all tasks change",
            default: 4,
            min: 1,
            max: 4096,
            searched: 1,
        },
        Setting {
            name: "shared_one_in",
            about: "one transaction in this many also changes a shared item",
            default: 8,
            min: 1,
            max: 1_000_000,
            searched: 2,
        },
        Setting {
            name: "limit_items",
            about: "items that fill the context",
            default: 1024,
            min: 1,
            max: 1 << 20,
            searched: 2,
        },
        Setting::time("work_ns", "work of a transaction before it commits, in ns", 0),
        Setting::time(
            "format_ns",
            "work to format the items, under the context's shared lock, in ns",
            0,
        ),
        Setting::time("in_lock_ns", "work under the lock of the single list, in ns", 0),
        Setting::time("write_ns", "work to write a pushed item, in ns", 0),
    ];
    const EQUIVALENT: &'static [Equivalent] = &[
        Equivalent {
            change: "skipped",
            line: "item.turn.set(m, task.turn)",
            why: "it only serves the check of the order",
        },
        Equivalent {
            change: "skipped",
            line: "item.pushed_in.set(m, sequence)",
            why: "it only serves the check that no item is pushed twice",
        },
        Equivalent {
            change: "off by one",
            line: "self.ids[0].fetch_add",
            why: "ids only need to grow",
        },
        Equivalent {
            change: "off by one",
            line: "pusher.pushing.swap(m, 1,",
            why: "every value but 0 means that a task pushes",
        },
    ];
    const SCENARIOS: &'static [Scenario] = &[
        Scenario::new(2, 1),
        Scenario::new(2, 2),
        // A push of three items, of which the last was committed first.
        Scenario::new(2, 3).with_settings(&[("limit_items", 4)]),
    ];

    fn bytes(_: &Design, tasks: usize, settings: &Settings) -> usize {
        let items =
            tasks * settings.get("own_items") as usize + settings.get("shared_items") as usize;
        (64 << 10) + tasks * 2048 + items * 256
    }

    fn new(region: &Region, design: Design, tasks: usize, settings: &Settings) -> Self {
        let (own, shared) = (settings.get("own_items"), settings.get("shared_items"));
        let (own, shared) = (own as usize, shared as usize);
        let items = tasks * own + shared;
        let shape = Shape::new(tasks, shared + 1);
        LogCommitList {
            design,
            tasks,
            own,
            changed: own.min(settings.get("items") as usize),
            shared,
            shared_one_in: settings.get("shared_one_in") as u32,
            limit: settings.get("limit_items") * ITEM_BYTES,
            work_ns: settings.get("work_ns"),
            format_ns: settings.get("format_ns"),
            in_lock_ns: settings.get("in_lock_ns"),
            write_ns: settings.get("write_ns"),
            lock: L::new(region, shape),
            context: region.array("context", 1),
            context_lock: QueuedReadWrite::new(region, Shape::new(tasks, 1)),
            contexts: PerCpuReadWrite::new(region, Shape::new(tasks, 1)),
            // A single list is the list of CPU 0.
            lists: region.per_cpu("list", tasks),
            ids: region.array("ids", 1),
            space: region.array("space", 1),
            pusher: region.array("pusher", 1),
            items: region.array("item", items),
            chain: region.array("chain", items),
        }
    }

    fn start<M: Machine>(&self, _: &M, task: usize) -> Committer {
        Committer { task: task as u32, ..Committer::default() }
    }

    /// Runs one transaction, and pushes the context if that is full now.
    #[inline]
    fn operate<M: Machine>(&self, m: &M, task: &mut Committer) {
        let start = m.history_mark();
        task.turn = task.turn.wrapping_add(1);
        m.work(self.work_ns);
        let (items, shared) = self.choose(m, task.task);
        let items = &items[..=self.changed];
        let chosen = digest(items.iter().map(|&name| name.into()));
        m.forget_history(start, chosen);
        let hold = (shared != 0).then(|| self.lock.lock(m, &self.item(shared).lock));
        let chosen = digest([chosen, hold.as_ref().map_or(0, |hold| u64::from(hold.0) + 1)]);
        m.forget_history(start, chosen);
        for item in self.each(items) {
            item.content.set(m, item.content.get(m) + 1);
        }
        let context = self.open(m);
        let chosen = digest([chosen, context.0.into()]);
        m.forget_history(start, chosen);
        let full = self.commit(m, items, task);
        m.forget_history(start, digest([chosen, full.into()]));
        if let Some(hold) = hold {
            self.lock.unlock(m, &self.item(shared).lock, hold);
        }
        m.forget_history(start, digest([context.0.into(), full.into()]));
        self.close(m, context);
        m.forget_history(start, full.into());
        if full {
            self.push(m, task);
        }
        m.forget_history(start, 0);
    }

    /// Pushes what is left in the context.
    fn finish<M: Machine>(&self, m: &M, task: &mut Committer) {
        self.push(m, task);
    }

    fn live(task: &Committer) -> u64 {
        task.turn.into()
    }

    fn check<M: Machine>(&self, m: &M, _: u64) -> Result<(), String> {
        // A task that finished while another task pushed has left its items.
        self.push(m, &mut Committer::default());
        let listed: u64 = self.lists.iter().map(|list| list.listed.get(m)).sum();
        let pushed = self.pusher[0].pushed.get(m);
        if listed != pushed {
            return Err(format!("{listed} items were listed, but {pushed} were pushed"));
        }
        for (i, item) in self.items.iter().enumerate() {
            let (content, logged) = (item.content.get(m), item.logged.get(m));
            if content != logged || item.formatted.get(m) != 0 {
                return Err(format!(
                    "item {i} was changed {content} times, but the log has {logged}"
                ));
            }
        }
        let sum = self.space[0].load(m, Ordering::Relaxed);
        let parts: u64 = self.lists.iter().map(|list| list.space.get(m)).sum();
        if sum != 0 || parts != 0 {
            return Err(format!("the lists are empty, but use {sum} + {parts} bytes"));
        }
        let at_rest = self.lists.iter().all(|list| self.lock.at_rest(m, &list.lock))
            && self.items.iter().all(|item| self.lock.at_rest(m, &item.lock))
            && self.context_lock.at_rest(m, &self.context[0])
            && self.contexts.at_rest(m, &());
        if at_rest { Ok(()) } else { Err("a lock is still in use".to_string()) }
    }

    fn effects(task: &Committer) -> Vec<(&'static str, u64)> {
        vec![("pushes", task.pushes), ("pushed_items", task.pushed)]
    }
}

impl<L: Lock> LogCommitList<L> {
    /// Chooses a shared item, sometimes, and then neighbours of the task's own. The shared one is also returned by
    /// itself. 0 is no item.
    fn choose<M: Machine>(&self, m: &M, task: u32) -> ([u32; 1 + CHANGED_MAX], u32) {
        let choices = (self.own - self.changed + 1) as u32;
        let first = if self.own > 1 { m.random(choices) } else { 0 };
        let mut shared = 0;
        if m.chance(self.shared_one_in) {
            let index = if self.shared > 1 { m.random(self.shared as u32) } else { 0 };
            shared = (self.tasks as u32 + 1) << 16 | index;
        }
        let mut items = [0; 1 + CHANGED_MAX];
        items[0] = shared;
        for (item, index) in items[1..=self.changed].iter_mut().zip(first..) {
            *item = (task + 1) << 16 | index;
        }
        (items, shared)
    }

    fn item(&self, name: u32) -> &Item<L::Mem> {
        &self.items[((name >> 16) as usize - 1) * self.own + (name & 0xFFFF) as usize]
    }

    fn each<'a>(&'a self, names: &'a [u32]) -> impl Iterator<Item = &'a Item<L::Mem>> {
        names.iter().filter(|name| **name != 0).map(|name| self.item(*name))
    }

    // The context.

    fn open<M: Machine>(&self, m: &M) -> Hold {
        match self.design.context {
            Context::Shared => self.context_lock.read_lock(m, &self.context[0]),
            Context::PerCpu => self.contexts.read_lock(m, &()),
        }
    }

    fn close<M: Machine>(&self, m: &M, hold: Hold) {
        match self.design.context {
            Context::Shared => self.context_lock.read_unlock(m, &self.context[0], hold),
            Context::PerCpu => self.contexts.read_unlock(m, &(), hold),
        }
    }

    /// Commits items under the context's shared lock (xlog_cil_insert_items). Returns whether the
    /// context is full now.
    fn commit<M: Machine>(&self, m: &M, items: &[u32], task: &Committer) -> bool {
        m.work(self.format_ns);
        let mut space = 0;
        for item in self.each(items) {
            space += if item.formatted.get(m) == 0 { ITEM_BYTES } else { 0 };
            item.formatted.set(m, item.content.get(m));
            item.by.set(m, task.task + 1);
            item.turn.set(m, task.turn);
        }
        if self.design.order == Order::Ids {
            // Relaxed: only the numbers matter; the items have guards of their own.
            let id = self.ids[0].fetch_add(m, 1, Ordering::Relaxed) + 1;
            for item in self.each(items) {
                assert!(item.order.get(m) < id, "a later commit of an item has no later id");
                item.order.set(m, id);
            }
        }
        if self.design.lists == Lists::PerCpu {
            let list = &self.lists[m.cpu()];
            self.insert(m, list, items, space);
            return self.count(m, space);
        }
        let list = &self.lists[0];
        let hold = self.lock.lock(m, &list.lock);
        m.work(self.in_lock_ns);
        self.insert(m, list, items, space);
        if self.design.space == Space::OneSum {
            let used = list.space.get(m) + space;
            list.space.set(m, used);
            self.lock.unlock(m, &list.lock, hold);
            return used >= self.limit;
        }
        self.lock.unlock(m, &list.lock, hold);
        self.count(m, space)
    }

    /// Lists those items that this commit found unlisted. Only they take space.
    fn insert<M: Machine>(&self, m: &M, list: &List<L::Mem>, items: &[u32], space: u64) {
        let mut fresh = space / ITEM_BYTES;
        if fresh > 0 {
            list.listed.set(m, list.listed.get(m) + fresh);
        }
        for &name in items.iter().filter(|name| **name != 0) {
            let item = self.item(name);
            if item.next.get(m) == 0 {
                fresh -= 1;
                self.append(m, list, name);
            } else if self.design.lists == Lists::Moved && list.last.get(m) != name {
                // Not if it is the last already: so the list never becomes empty in between.
                self.unlink(m, list, name);
                self.append(m, list, name);
            }
        }
        assert_eq!(fresh, 0, "an item without committed content was listed already");
    }

    /// Appends an item. Every listed item has two neighbours: the first item is its own
    /// predecessor, the last one its own successor.
    fn append<M: Machine>(&self, m: &M, list: &List<L::Mem>, name: u32) {
        let (item, last) = (self.item(name), list.last.get(m));
        item.next.set(m, name);
        list.last.set(m, name);
        if last == 0 {
            item.before.set(m, name);
            return list.first.set(m, name);
        }
        item.before.set(m, last);
        self.item(last).next.set(m, name);
    }

    /// Removes an item that is not the last.
    fn unlink<M: Machine>(&self, m: &M, list: &List<L::Mem>, name: u32) {
        let item = self.item(name);
        let (before, next) = (item.before.get(m), item.next.get(m));
        if before == name {
            list.first.set(m, next);
            return self.item(next).before.set(m, next);
        }
        self.item(before).next.set(m, next);
        self.item(next).before.set(m, before);
    }

    /// Counts space. A CPU adds its part to the sum when the part exceeds the CPU's share of the
    /// limit, or when the sum has reached the limit. Returns whether the context is full.
    fn count<M: Machine>(&self, m: &M, space: u64) -> bool {
        if self.design.space == Space::OneSum {
            // Relaxed, as below.
            return self.space[0].fetch_add(m, space, Ordering::Relaxed) + space >= self.limit;
        }
        let part = &self.lists[m.cpu()].space;
        let unsummed = part.get(m) + space;
        // Relaxed: a push finds its items under the lock of the context, not by this number.
        let sum = self.space[0].load(m, Ordering::Relaxed);
        if sum < self.limit && unsummed <= self.limit / self.tasks as u64 {
            part.set(m, unsummed);
            return false;
        }
        part.set(m, 0);
        // Relaxed, as above.
        self.space[0].fetch_add(m, unsummed, Ordering::Relaxed) + unsummed >= self.limit
    }

    // A push.

    /// Pushes the context, unless another task is pushing (xlog_cil_push_work).
    fn push<M: Machine>(&self, m: &M, task: &mut Committer) {
        let start = m.history_mark();
        let pusher = &self.pusher[0];
        // 0 -> 1. Pairs with the release at the end.
        if pusher.pushing.swap(m, 1, Ordering::Acquire) != 0 {
            return;
        }
        m.forget_history(start, 0);
        let hold = match self.design.context {
            Context::Shared => self.context_lock.write_lock(m, &self.context[0]),
            Context::PerCpu => self.contexts.write_lock(m, &()),
        };
        m.forget_history(start, hold.0.into());
        self.take_all(m);
        m.forget_history(start, hold.0.into());
        match self.design.context {
            Context::Shared => self.context_lock.write_unlock(m, &self.context[0], hold),
            Context::PerCpu => self.contexts.write_unlock(m, &(), hold),
        }
        m.forget_history(start, 0);
        if self.design.order == Order::Ids {
            self.sort(m);
        }
        let length = self.write(m);
        task.pushes += 1;
        task.pushed += u64::from(length);
        // 1 -> 0. Pairs with the acquire above.
        pusher.pushing.store(m, 0, Ordering::Release);
        m.forget_history(start, 0);
    }

    /// Moves all listed items and their committed content to the chain. No task commits now.
    fn take_all<M: Machine>(&self, m: &M) {
        let (pusher, mut length, mut space) = (&self.pusher[0], 0, 0);
        pusher.sequence.set(m, pusher.sequence.get(m) + 1);
        for list in self.lists.iter() {
            let mut name = list.first.get(m);
            while name != 0 {
                let (item, link) = (self.item(name), &self.chain[length]);
                link.name.set(m, name);
                link.content.set(m, item.formatted.get(m));
                link.order.set(m, item.order.get(m));
                link.by.set(m, item.by.get(m));
                link.turn.set(m, item.turn.get(m));
                item.formatted.set(m, 0);
                let next = item.next.get(m);
                item.next.set(m, 0);
                m.poison_field(&item.before);
                length += 1;
                name = if next == name { 0 } else { next };
            }
            list.first.set(m, 0);
            list.last.set(m, 0);
            space += list.space.get(m);
            list.space.set(m, 0);
        }
        // Relaxed: no task commits.
        space += self.space[0].load(m, Ordering::Relaxed);
        self.space[0].store(m, 0, Ordering::Relaxed);
        assert_eq!(space, length as u64 * ITEM_BYTES, "the space counted is not that of the items");
        pusher.length.set(m, length as u32);
    }

    /// Sorts the chain by order, after the lock of the context was dropped (Shell 1959).
    fn sort<M: Machine>(&self, m: &M) {
        let chain = &self.chain[..self.pusher[0].length.get(m) as usize];
        let mut gap = chain.len() / 2;
        while gap > 0 {
            for end in gap..chain.len() {
                let mut i = end;
                while i >= gap && chain[i - gap].order.get(m) > chain[i].order.get(m) {
                    chain[i].swap(m, &chain[i - gap]);
                    i -= gap;
                }
            }
            gap /= 2;
        }
    }

    /// Writes the chain to the log, and checks what the design claims. Returns its length.
    fn write<M: Machine>(&self, m: &M) -> u32 {
        let pusher = &self.pusher[0];
        let (length, sequence) = (pusher.length.get(m), pusher.sequence.get(m));
        let chain = &self.chain[..length as usize];
        for (i, link) in chain.iter().enumerate() {
            let item = self.item(link.name.get(m));
            assert_ne!(item.pushed_in.get(m), sequence, "an item is in a push twice");
            item.pushed_in.set(m, sequence);
            item.logged.set(m, link.content.get(m));
            m.work(self.write_ns);
            // The last link before it of the same task. Searching a few links is enough.
            let by = link.by.get(m);
            let mut nearby = chain[i.saturating_sub(8)..i].iter().rev();
            let earlier = nearby.find(|earlier| earlier.by.get(m) == by);
            if let Some(earlier) = earlier.filter(|_| self.design.ordered()) {
                let (earlier_turn, turn) = (earlier.turn.get(m), link.turn.get(m));
                assert!(earlier_turn <= turn, "a push is not in the order of commits");
            }
        }
        for link in chain {
            link.poison(m);
        }
        pusher.pushed.set(m, pusher.pushed.get(m) + u64::from(length));
        length
    }
}

impl ChainLink {
    fn swap<M: Machine>(&self, m: &M, other: &ChainLink) {
        for (a, b) in [
            (&self.name, &other.name),
            (&self.content, &other.content),
            (&self.by, &other.by),
            (&self.turn, &other.turn),
        ] {
            let value = a.get(m);
            a.set(m, b.get(m));
            b.set(m, value);
        }
        let order = self.order.get(m);
        self.order.set(m, other.order.get(m));
        other.order.set(m, order);
    }

    fn poison<M: Machine>(&self, m: &M) {
        for field in [&self.name, &self.content, &self.by, &self.turn] {
            m.poison_field(field);
        }
        m.poison_field(&self.order);
    }
}
