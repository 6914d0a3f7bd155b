//! What accesses do to the world: they ask for a line, wait until it comes, change a word, and let
//! those who wait for it look.

use super::World;
use crate::simulated::Time;
use crate::simulated::coherence::{Served, Use, Word};
use crate::simulated::ledger::Row;
use crate::simulated::tasks::{Ask, Asked, Doing, Store, Watch};
use crate::simulated::trace::Access;
use crate::simulated::world::below;

impl World {
    /// Whether the task has to wait for its stores before this: what is locked waits for all, as
    /// on x86, and nothing sees a line that one of them is about to change.
    #[inline]
    fn waits_for_stores(&self, task: u16, ask: Ask) -> bool {
        let stores = &self.tasks[usize::from(task)].stores;
        let is_line = |store: &Store| store.word.line() == ask.line;
        !stores.is_empty() && (ask.after_stores || stores.iter().any(is_line))
    }

    /// Lets time pass until all stores of the task should be out of its CPU's buffer.
    pub fn drain(&mut self, task: u16) {
        let who = &mut self.tasks[usize::from(task)];
        who.time = who.time.max(who.drained);
        who.book(Row::Transfer, who.time);
    }

    /// The task wants a line to read it, or to read and write it, at its time; nothing where it must
    /// wait before it has it.
    #[inline(always)]
    pub fn wants(&mut self, task: u16, ask: Ask) -> Option<Asked> {
        if self.must_wait(task) {
            self.tasks[usize::from(task)].doing = Doing::Asking(ask);
            return None;
        }
        self.ask(task, ask)
    }

    /// Asks for a line, once nothing has to be waited for before; nothing where something else
    /// happens before it is there. The task is due when it comes, or when it can be asked for.
    #[inline(always)]
    pub(super) fn ask(&mut self, task: u16, ask: Ask) -> Option<Asked> {
        if self.waits_for_stores(task, ask) {
            self.drain(task);
            self.tasks[usize::from(task)].doing = Doing::Asking(ask);
            self.schedule(task, self.tasks[usize::from(task)].time);
            return None;
        }
        let who = &mut self.tasks[usize::from(task)];
        let at = who.time;
        (who.doing, who.asked) = (Doing::Running, None);
        let Some(served) = self.lines.serve(ask.line, who.cpu, ask.how, at) else {
            return Some(Asked { at, leaves: at, hit: true });
        };
        who.time = served.comes;
        who.book(Row::Transfer, served.comes);
        let asked = Asked { at, leaves: served.leaves, hit: false };
        if self.queue.is_first(served.comes) {
            return Some(asked);
        }
        who.asked = Some(asked);
        who.turn = self.queue.push(served.comes, task);
        None
    }

    /// The task, which has the line now, uses it: the word is then `new` of what it was, if anything;
    /// what it was.
    #[inline(always)]
    pub fn used(
        &mut self,
        task: u16,
        word: Word,
        how: Use,
        asked: Asked,
        new: impl FnOnce(u64) -> Option<u64>,
    ) -> u64 {
        let old = self.read(word);
        let who = &mut self.tasks[usize::from(task)];
        if asked.hit {
            who.time += if how == Use::Load { self.costs.load } else { self.costs.atomic };
            who.book(Row::Local, who.time);
        }
        let end = who.time;
        if let Some(new) = new(old) {
            self.write(word, new);
        }
        self.told(Access { task, word, how, old, new: 0, at: asked.at, end });
        if how != Use::Load {
            self.seen_by_waiters(word.line(), asked.leaves);
        }
        old
    }

    /// The task writes a word. It goes on at once; the word changes when the line is there and
    /// all that was written before has changed.
    #[inline]
    pub fn store(&mut self, task: u16, word: Word, new: u64) {
        let who = &mut self.tasks[usize::from(task)];
        let at = who.time;
        let served = self.lines.serve(word.line(), who.cpu, Use::Store, at);
        who.time += self.costs.store;
        who.book(Row::Local, who.time);
        if served.is_none() && who.stores.is_empty() {
            let end = who.time;
            return self.commit(task, Store { word, new, at, comes: at, leaves: at }, end);
        }
        let served = served.unwrap_or(Served { comes: at, leaves: at });
        let store = Store { word, new, at, comes: served.comes, leaves: served.leaves };
        who.drained = who.drained.max(served.comes);
        who.stores.push_back(store);
        if who.stores.len() == 1 {
            self.queue.push(served.comes, self.store_of(task));
        }
    }

    /// The first store in the buffer is due.
    pub(super) fn stored(&mut self, task: u16, now: Time) {
        let who = &mut self.tasks[usize::from(task)];
        let store = who.stores.front_mut().expect("a store that is due is in the buffer");
        // It waited for those before it, and the line may be gone again.
        if store.comes < now && !self.lines.has(store.word.line(), who.cpu, Use::Store, now) {
            let served = self.lines.fetch(store.word.line(), who.cpu, Use::Store, now);
            (store.comes, store.leaves) = (served.comes, served.leaves);
            who.drained = who.drained.max(served.comes);
            self.queue.push(served.comes, self.store_of(task));
            return;
        }
        let store = *store;
        who.stores.pop_front();
        if let Some(next) = who.stores.front() {
            let due = next.comes.max(now);
            self.queue.push(due, self.store_of(task));
        }
        self.commit(task, store, now);
    }

    #[inline(always)]
    fn commit(&mut self, task: u16, store: Store, now: Time) {
        let Store { word, new, at, leaves, .. } = store;
        let old = self.read(word);
        self.write(word, new);
        self.told(Access { task, word, how: Use::Store, old, new, at, end: now });
        self.seen_by_waiters(word.line(), leaves);
    }

    /// Books an access in the hash, and in the trace if there is one.
    #[inline(always)]
    fn told(&mut self, access: Access) {
        let Access { task, word, how, old, end, .. } = access;
        self.accesses += 1;
        let what = u64::from(task) << 48 ^ u64::from(word.offset) << 16 ^ how as u64;
        let mixed = (self.hash ^ what ^ end).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.hash = mixed.rotate_left(29) ^ old;
        let new = self.trace.is_some().then(|| self.read(word));
        if let (Some(trace), Some(new)) = (&mut self.trace, new) {
            trace.add(Access { new, ..access });
        }
    }

    /// All who wait for a word of the line ask for it again once it is gone, and find it changed or
    /// not. Who of them is first is chance: arbitration knows no order of arrival.
    #[inline(always)]
    fn seen_by_waiters(&mut self, line: u32, gone: Time) {
        if !self.lines.waiters(line).is_empty() {
            self.let_waiters_look(line, gone);
        }
    }

    fn let_waiters_look(&mut self, line: u32, gone: Time) {
        let mut waiters = std::mem::take(self.lines.waiters(line));
        let first = below(&mut self.random, waiters.len() as u32) as usize;
        waiters.rotate_left(first);
        waiters.retain(|&waiter| !self.look(waiter, gone));
        *self.lines.waiters(line) = waiters;
    }

    /// A waiting task looks at its word; whether that ended its wait.
    #[inline(always)]
    pub(super) fn look(&mut self, waiter: u16, now: Time) -> bool {
        let task = &self.tasks[usize::from(waiter)];
        let (Doing::Watching(watch) | Doing::Looking(watch)) = task.doing else {
            unreachable!("task {waiter} waits for no word: {:?}", task.doing);
        };
        let (word, now) = (watch.word, now.max(task.time));
        let served = self.lines.serve(word.line(), task.cpu, Use::Load, now);
        let end = served.map_or(now + self.costs.load, |served| served.comes);
        let seen = self.read(word);
        self.told(Access { task: waiter, word, how: Use::Load, old: seen, new: 0, at: now, end });
        let task = &mut self.tasks[usize::from(waiter)];
        task.time = end;
        if !watch.until.holds(seen) {
            return false;
        }
        task.seen = Some(seen);
        task.doing = Doing::Running;
        task.book(Row::Spinning, end);
        self.schedule(waiter, end);
        true
    }

    /// The task waits from now on; it was not so when it looked.
    pub fn watch(&mut self, task: u16, watch: Watch) {
        self.lines.waiters(watch.word.line()).push(task);
        self.tasks[usize::from(task)].doing = Doing::Watching(watch);
        match watch.deadline.min(self.leaves_guest_at(task)) {
            Time::MAX => self.tasks[usize::from(task)].turn = 0,
            due => self.schedule(task, due),
        }
    }

    pub(super) fn watch_no_more(&mut self, task: u16, watch: Watch) {
        let waiters = self.lines.waiters(watch.word.line());
        waiters.retain(|&waiter| waiter != task);
    }

    pub fn read(&self, word: Word) -> u64 {
        let at = (self.base + word.offset as usize) as *const u8;
        // SAFETY: a word of the region, of that size and so aligned; nobody else runs now.
        unsafe {
            match word.size {
                1 => u64::from(at.read()),
                2 => u64::from(at.cast::<u16>().read()),
                4 => u64::from(at.cast::<u32>().read()),
                _ => at.cast::<u64>().read(),
            }
        }
    }

    pub fn write(&self, word: Word, new: u64) {
        let at = (self.base + word.offset as usize) as *mut u8;
        // SAFETY: as for `read`.
        unsafe {
            match word.size {
                1 => at.write(new as u8),
                2 => at.cast::<u16>().write(new as u16),
                4 => at.cast::<u32>().write(new as u32),
                _ => at.cast::<u64>().write(new),
            }
        }
    }
}
