//! Accesses: they request a cache line, wait until it arrives, change a word, and make the tasks
//! that wait for the line check their words.

use super::World;
use crate::simulated::Time;
use crate::simulated::coherence::{LineArrival, LineUse, WordAddress};
use crate::simulated::ledger::TimeRow;
use crate::simulated::tasks::{LineGrant, LineRequest, PendingStore, TaskState, WordWait};
use crate::simulated::trace::TracedAccess;
use crate::simulated::world::below;

/// Lines that a CPU can wait for at a time: the line fill buffers of its L1 cache. Intel has 10 from Nehalem to
/// Broadwell and 12 in Skylake (Optimization Reference Manual, 2.1 and 2.6).
const MISSES_MAX: usize = 12;

impl World {
    /// Whether the task has to wait for its buffered stores before this request. A locked
    /// instruction waits for all of them, as on x86; no access sees a line that one of them is
    /// about to change.
    #[inline]
    fn waits_for_stores(&self, task: u16, request: LineRequest) -> bool {
        let stores = &self.tasks[usize::from(task)].stores;
        let is_to_line = |store: &PendingStore| store.word.line() == request.line;
        !stores.is_empty() && (request.after_stores || stores.iter().any(is_to_line))
    }

    /// Advances the task's time until all its stores should have left the buffer.
    pub fn drain(&mut self, task: u16) {
        let this = &mut self.tasks[usize::from(task)];
        this.time = this.time.max(this.drained);
        this.book(TimeRow::Transfer, this.time);
    }

    /// Requests a line to read it, or to read and write it, at the task's time. `None` where the
    /// task has to stop before it has the line.
    #[inline(always)]
    pub fn request_line(&mut self, task: u16, request: LineRequest) -> Option<LineGrant> {
        if self.must_yield(task) {
            self.tasks[usize::from(task)].state = TaskState::Requesting(request);
            return None;
        }
        self.issue_request(task, request)
    }

    /// Issues a request whose turn has come. `None` where another event is due before the line
    /// arrives: then an event continues the task when it arrives, or when it can be requested.
    #[inline(always)]
    pub(super) fn issue_request(&mut self, task: u16, request: LineRequest) -> Option<LineGrant> {
        if self.waits_for_stores(task, request) {
            self.drain(task);
            self.tasks[usize::from(task)].state = TaskState::Requesting(request);
            self.schedule(task, self.tasks[usize::from(task)].time);
            return None;
        }
        let this = &mut self.tasks[usize::from(task)];
        let at = this.time;
        (this.state, this.granted) = (TaskState::Running, None);
        let Some(arrival) = self.lines.request(request.line, this.cpu, request.how, at) else {
            return Some(LineGrant { at, leaves: at, hit: true });
        };
        this.time = arrival.arrives;
        this.book(TimeRow::Transfer, arrival.arrives);
        let grant = LineGrant { at, leaves: arrival.leaves, hit: false };
        if self.queue.is_first(arrival.arrives) {
            return Some(grant);
        }
        this.granted = Some(grant);
        this.event = self.queue.push(arrival.arrives, task);
        None
    }

    /// Requests a line that the task will read, at the task's time. Does nothing where the CPU has the line, has
    /// requested as many as it can wait for, or is about to change it.
    pub fn prefetch(&mut self, task: u16, line: u32) {
        let request = LineRequest { line, how: LineUse::Load, after_stores: false };
        if self.waits_for_stores(task, request) {
            return;
        }
        let this = &mut self.tasks[usize::from(task)];
        if this.prefetched.len() < MISSES_MAX
            && let Some(arrival) = self.lines.request(line, this.cpu, LineUse::Load, this.time)
        {
            this.prefetched.push((line, arrival.arrives));
        }
    }

    /// Advances the task's time until a line that it requested before has arrived.
    #[inline(always)]
    pub fn await_prefetched(&mut self, task: u16, line: u32) {
        let this = &mut self.tasks[usize::from(task)];
        if let Some(index) = this.prefetched.iter().position(|&(requested, _)| requested == line) {
            let (_, arrives) = this.prefetched.swap_remove(index);
            this.time = this.time.max(arrives);
            this.book(TimeRow::Transfer, this.time);
        }
    }

    /// Accesses a word whose line the task has been granted: writes what `new` makes of its value,
    /// if anything. Returns the old value.
    #[inline(always)]
    pub fn use_line(
        &mut self,
        task: u16,
        word: WordAddress,
        how: LineUse,
        grant: LineGrant,
        new: impl FnOnce(u64) -> Option<u64>,
    ) -> u64 {
        let old = self.read(word);
        let this = &mut self.tasks[usize::from(task)];
        if grant.hit {
            this.time += if how == LineUse::Load { self.costs.load } else { self.costs.atomic };
            this.book(TimeRow::Local, this.time);
        }
        let end = this.time;
        if let Some(new) = new(old) {
            self.write(word, new);
        }
        self.record(TracedAccess { task, word, how, old, new: 0, at: grant.at, end });
        if how != LineUse::Load {
            self.notify_waiters(word.line(), grant.leaves);
        }
        old
    }

    /// Writes a word. The task continues immediately; the word changes when the line has arrived
    /// and all earlier stores of the task are done.
    #[inline]
    pub fn store(&mut self, task: u16, word: WordAddress, new: u64) {
        let this = &mut self.tasks[usize::from(task)];
        let at = this.time;
        let arrival = self.lines.request(word.line(), this.cpu, LineUse::Store, at);
        this.time += self.costs.store;
        this.book(TimeRow::Local, this.time);
        if arrival.is_none() && this.stores.is_empty() {
            let end = this.time;
            return self.commit(task, PendingStore { word, new, at, arrives: at, leaves: at }, end);
        }
        let arrival = arrival.unwrap_or(LineArrival { arrives: at, leaves: at });
        let LineArrival { arrives, leaves } = arrival;
        this.drained = this.drained.max(arrives);
        this.stores.push_back(PendingStore { word, new, at, arrives, leaves });
        if this.stores.len() == 1 {
            self.queue.push(arrives, self.store_event(task));
        }
    }

    /// Completes the first store in the buffer of a task, if its line is still there.
    pub(super) fn store_due(&mut self, task: u16, now: Time) {
        let this = &mut self.tasks[usize::from(task)];
        let store = this.stores.front_mut().expect("a store that is due is in the buffer");
        // While it waited for earlier stores, another CPU may have taken the line away.
        if store.arrives < now && !self.lines.has(store.word.line(), this.cpu, LineUse::Store, now)
        {
            let arrival = self.lines.fetch(store.word.line(), this.cpu, LineUse::Store, now);
            (store.arrives, store.leaves) = (arrival.arrives, arrival.leaves);
            this.drained = this.drained.max(arrival.arrives);
            self.queue.push(arrival.arrives, self.store_event(task));
            return;
        }
        let store = *store;
        this.stores.pop_front();
        if let Some(next) = this.stores.front() {
            let due = next.arrives.max(now);
            self.queue.push(due, self.store_event(task));
        }
        self.commit(task, store, now);
    }

    #[inline(always)]
    fn commit(&mut self, task: u16, store: PendingStore, now: Time) {
        let PendingStore { word, new, at, leaves, .. } = store;
        let old = self.read(word);
        self.write(word, new);
        self.record(TracedAccess { task, word, how: LineUse::Store, old, new, at, end: now });
        self.notify_waiters(word.line(), leaves);
    }

    /// Records an access in the hash, and in the trace if there is one.
    #[inline(always)]
    fn record(&mut self, access: TracedAccess) {
        let TracedAccess { task, word, how, old, end, .. } = access;
        self.accesses += 1;
        let identity = u64::from(task) << 48 ^ u64::from(word.offset) << 16 ^ how as u64;
        let mixed = (self.hash ^ identity ^ end).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.hash = mixed.rotate_left(29) ^ old;
        let new = self.trace.is_some().then(|| self.read(word));
        if let (Some(trace), Some(new)) = (&mut self.trace, new) {
            trace.add(TracedAccess { new, ..access });
        }
    }

    /// Makes the tasks that wait for a word of the line request it again once it is gone. Which of
    /// them comes first is random: arbitration knows no order of arrival.
    #[inline(always)]
    fn notify_waiters(&mut self, line: u32, gone: Time) {
        if !self.lines.waiters(line).is_empty() {
            self.recheck_waiters(line, gone);
        }
    }

    fn recheck_waiters(&mut self, line: u32, gone: Time) {
        let mut waiters = std::mem::take(self.lines.waiters(line));
        let first = below(&mut self.random, waiters.len() as u32) as usize;
        waiters.rotate_left(first);
        waiters.retain(|&waiter| !self.recheck(waiter, gone));
        *self.lines.waiters(line) = waiters;
    }

    /// Reads the word of a waiting task; returns whether that ended its wait.
    #[inline(always)]
    pub(super) fn recheck(&mut self, waiter: u16, now: Time) -> bool {
        let task = &self.tasks[usize::from(waiter)];
        let (TaskState::Waiting(wait) | TaskState::Rechecking(wait)) = task.state else {
            unreachable!("task {waiter} waits for no word: {:?}", task.state);
        };
        let (word, how, now) = (wait.word, LineUse::Load, now.max(task.time));
        let arrival = self.lines.request(word.line(), task.cpu, how, now);
        let end = arrival.map_or(now + self.costs.load, |arrival| arrival.arrives);
        let seen = self.read(word);
        self.record(TracedAccess { task: waiter, word, how, old: seen, new: 0, at: now, end });
        let task = &mut self.tasks[usize::from(waiter)];
        task.time = end;
        if !wait.until.holds(seen) {
            return false;
        }
        task.seen = Some(seen);
        task.state = TaskState::Running;
        task.book(TimeRow::Spinning, end);
        self.schedule(waiter, end);
        true
    }

    /// Makes the task wait for a word whose condition did not hold when it read it.
    pub fn wait(&mut self, task: u16, wait: WordWait) {
        self.lines.waiters(wait.word.line()).push(task);
        self.tasks[usize::from(task)].state = TaskState::Waiting(wait);
        match wait.deadline.min(self.pause_loop_exit_at(task)) {
            Time::MAX => self.tasks[usize::from(task)].event = 0,
            due => self.schedule(task, due),
        }
    }

    pub(super) fn stop_waiting(&mut self, task: u16, wait: WordWait) {
        let waiters = self.lines.waiters(wait.word.line());
        waiters.retain(|&waiter| waiter != task);
    }

    pub fn read(&self, word: WordAddress) -> u64 {
        let address = (self.base + word.offset as usize) as *const u8;
        // SAFETY: a word of the region, of that size and aligned to it; no task runs now.
        unsafe {
            match word.size {
                1 => u64::from(address.read()),
                2 => u64::from(address.cast::<u16>().read()),
                4 => u64::from(address.cast::<u32>().read()),
                _ => address.cast::<u64>().read(),
            }
        }
    }

    pub fn write(&self, word: WordAddress, new: u64) {
        let address = (self.base + word.offset as usize) as *mut u8;
        // SAFETY: as for `read`.
        unsafe {
            match word.size {
                1 => address.write(new as u8),
                2 => address.cast::<u16>().write(new as u16),
                4 => address.cast::<u32>().write(new as u32),
                _ => address.cast::<u64>().write(new),
            }
        }
    }
}
