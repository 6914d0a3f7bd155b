//! Accesses: they request a cache line, wait until it arrives, change a word, and make the tasks
//! that wait for the line check their words.

use super::World;
use crate::simulated::Time;
use crate::simulated::coherence::{LineArrival, LineUse, SharedLine, WordAddress};
use crate::simulated::ledger::TimeRow;
use crate::simulated::random::below;
use crate::simulated::store_buffer::PendingStore;
use crate::simulated::tasks::{LineGrant, LineRequest, TaskState, WordWait};
use crate::simulated::trace::TracedAccess;
use crate::simulated::waiters::Waiter;

/// Lines that a CPU can wait for at a time: the line fill buffers of its L1 cache. Intel has 10 from Nehalem to
/// Broadwell and 12 in Skylake (Optimization Reference Manual, 2.1 and 2.6).
const MISSES_MAX: usize = 12;

impl World {
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
        let this = &mut self.tasks[usize::from(task)];
        if this.waits_for_stores(request) {
            self.drain(task);
            let this = &mut self.tasks[usize::from(task)];
            this.state = TaskState::Requesting(request);
            this.event = self.queue.push(this.time, task);
            return None;
        }
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
        let this = &mut self.tasks[usize::from(task)];
        if !this.waits_for_stores(request)
            && this.prefetched.len() < MISSES_MAX
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

    /// Accesses a word as [`World::use_line`] does, if the task's CPU has its line and nothing is due before: what most
    /// accesses are. `None` where that is not so.
    #[inline(always)]
    pub fn use_own_line(
        &mut self,
        task: u16,
        word: WordAddress,
        request: LineRequest,
        new: impl FnOnce(u64) -> Option<u64>,
    ) -> Option<u64> {
        let this = &mut self.tasks[usize::from(task)];
        let at = this.time;
        if !self.queue.is_first(at)
            || this.waits_for_stores(request)
            || !self.lines.hit(request.line, this.cpu, request.how, at)
        {
            return None;
        }
        this.leave(&mut self.invariants);
        this.granted = None;
        Some(self.use_line(task, word, request.how, LineGrant { at, leaves: at, hit: true }, new))
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
        this.stores.push(PendingStore { word, new, at, arrives, leaves });
        if this.stores.len() == 1 {
            self.queue.push(arrives, self.store_event(task));
        }
    }

    /// Completes the first store in the buffer of a task, if its line is still there, and those after it that are due
    /// before anything else.
    pub(super) fn store_due(&mut self, task: u16, mut now: Time) {
        while let Some(due) = self.complete_store(task, now) {
            self.lines.passed(due);
            now = due;
        }
    }

    /// Completes the first store in the buffer of a task, if its line is still there. Returns when the one after it is
    /// due, if it is due before anything else; if not, it is queued.
    #[inline(always)]
    fn complete_store(&mut self, task: u16, now: Time) -> Option<Time> {
        let event = self.store_event(task);
        let this = &mut self.tasks[usize::from(task)];
        let store = this.stores.first().expect("a store that is due is in the buffer");
        // While it waited for earlier stores, another CPU may have taken the line away.
        if store.arrives < now && !self.lines.has(store.word.line(), this.cpu, LineUse::Store, now)
        {
            let arrival = self.lines.fetch(store.word.line(), this.cpu, LineUse::Store, now);
            (store.arrives, store.leaves) = (arrival.arrives, arrival.leaves);
            this.drained = this.drained.max(arrival.arrives);
            self.queue.push(arrival.arrives, event);
            return None;
        }
        let store = *store;
        this.stores.pop();
        let next = this.stores.first().map(|next| next.arrives.max(now));
        let Some(due) = next.filter(|&due| self.queue.is_first(due)) else {
            if let Some(due) = next {
                self.queue.push(due, event);
            }
            self.commit(task, store, now);
            return None;
        };
        // What the store causes comes after the next one, at the same time.
        let number = self.queue.next_number();
        self.commit(task, store, now);
        if self.queue.is_due_before(due) {
            self.queue.push_numbered(due, event, number);
            return None;
        }
        Some(due)
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
        self.hash = hash_with(self.hash, identity(task, word, how), old, end);
        let new = self.trace.is_some().then(|| self.read(word));
        if let (Some(trace), Some(new)) = (&mut self.trace, new) {
            trace.add(TracedAccess { new, ..access });
        }
    }

    /// Makes the tasks that wait for a word of the line request it again once it is gone. Which of
    /// them comes first is random: arbitration knows no order of arrival.
    #[inline(always)]
    fn notify_waiters(&mut self, line: u32, gone: Time) {
        if !self.waiters[line as usize].is_empty() {
            self.recheck_waiters(line, gone);
        }
    }

    fn recheck_waiters(&mut self, line: u32, gone: Time) {
        if let Some(waiter) = self.waiters[line as usize].only() {
            let waiter = *waiter;
            return self.recheck_waiter(waiter, gone);
        }
        let mut waiters = std::mem::take(&mut self.waiters[line as usize]);
        waiters.rotate(below(&mut self.random, waiters.len() as u32) as usize);
        for part in waiters.parts() {
            let mut reread = 0;
            while reread < part.len() {
                if self.trace.is_none()
                    && let Some(shared) = self.lines.shared(line)
                {
                    let rest = &mut part[reread..];
                    let rereads = Rereads { shared, gone, load: self.costs.load, base: self.base };
                    self.hash = rereads.run(rest, &mut self.ended_waits, self.hash);
                    self.accesses += rest.len() as u64;
                    break;
                }
                let first = &mut part[reread];
                if let Some(seen) = self.reread(first, gone) {
                    self.ended_waits.push((first.task, first.time, seen));
                }
                reread += 1;
            }
        }
        for (task, time, seen) in self.ended_waits.drain(..) {
            waiters.remove(task);
            let noticed = time + self.costs.notice;
            self.tasks[usize::from(task)].end_wait(task, noticed, seen, &mut self.queue);
        }
        self.waiters[line as usize] = waiters;
    }

    /// Makes the only task that waits for a word of the line check it.
    fn recheck_waiter(&mut self, mut waiter: Waiter, gone: Time) {
        // As for several, so that the random numbers after it are the same.
        below(&mut self.random, 1);
        let (task, line) = (waiter.task, waiter.word.line() as usize);
        match self.reread(&mut waiter, gone) {
            Some(seen) => {
                self.waiters[line].clear();
                let noticed = waiter.time + self.costs.notice;
                self.tasks[usize::from(task)].end_wait(task, noticed, seen, &mut self.queue);
            }
            None => {
                if let Some(only) = self.waiters[line].only() {
                    only.time = waiter.time;
                }
            }
        }
    }

    /// Reads the word of a waiting task once its CPU has lost the line. Returns the value if that ends the wait.
    #[inline(always)]
    fn reread(&mut self, waiter: &mut Waiter, gone: Time) -> Option<u64> {
        let &mut Waiter { time, until, word, task, cpu, .. } = waiter;
        let (how, now) = (LineUse::Load, gone.max(time));
        let arrival = self.lines.request(word.line(), cpu, how, now);
        let end = arrival.map_or(now + self.costs.load, |arrival| arrival.arrives);
        let seen = self.read(word);
        self.record(TracedAccess { task, word, how, old: seen, new: 0, at: now, end });
        waiter.time = end;
        until.holds(seen).then_some(seen)
    }

    /// A task that waits, at the time of its last look.
    fn waiter(&self, task: u16, wait: WordWait) -> Waiter {
        let this = &self.tasks[usize::from(task)];
        let WordWait { word, until, .. } = wait;
        let identity = identity(task, word, LineUse::Load);
        Waiter { time: this.time, until, word, task, cpu: this.cpu, identity }
    }

    /// Reads the word of a task that has got a CPU again; returns whether that ended its wait.
    pub(super) fn recheck(&mut self, task: u16, wait: WordWait, now: Time) -> bool {
        let mut waiter = self.waiter(task, wait);
        let ended = self.reread(&mut waiter, now);
        let this = &mut self.tasks[usize::from(task)];
        this.time = waiter.time;
        if let Some(seen) = ended {
            this.end_wait(task, waiter.time, seen, &mut self.queue);
        }
        ended.is_some()
    }

    /// Makes the task wait for a word whose condition did not hold when it read it.
    pub fn wait(&mut self, task: u16, wait: WordWait) {
        self.tasks[usize::from(task)].state = TaskState::Waiting(wait);
        let waiter = self.waiter(task, wait);
        self.waiters[wait.word.line() as usize].push(waiter);
        match wait.deadline.min(self.pause_loop_exit_at(task)) {
            Time::MAX => self.tasks[usize::from(task)].event = 0,
            due => self.schedule(task, due),
        }
    }

    /// Takes the task from those that wait for the word, at the time of its last look.
    pub(super) fn stop_waiting(&mut self, task: u16, wait: WordWait) {
        let waiter = self.waiters[wait.word.line() as usize].remove(task);
        self.tasks[usize::from(task)].time = waiter.expect("the task waits for the word").time;
    }

    #[inline(always)]
    pub fn read(&self, word: WordAddress) -> u64 {
        read(self.base, word)
    }

    #[inline(always)]
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

/// Reads a word of the region that begins at `base`.
#[inline(always)]
fn read(base: usize, word: WordAddress) -> u64 {
    const UNIT: u32 = size_of::<u64>() as u32;
    let unit = (base + (word.offset & !(UNIT - 1)) as usize) as *const u64;
    // SAFETY: eight aligned bytes of the region, which consists of whole cache lines; no task runs now.
    let bits = unsafe { unit.read() } >> (word.offset % UNIT * 8);
    bits & u64::MAX >> ((UNIT - u32::from(word.size)) * 8 % 64)
}

/// Tasks that wait for words of a shared line read them again, one after the other.
struct Rereads<'a> {
    shared: SharedLine<'a>,
    /// When the CPUs of the tasks lose the line.
    gone: Time,
    /// What a load costs.
    load: Time,
    /// The address of the region.
    base: usize,
}

impl Rereads<'_> {
    /// Lets these tasks read their words, in a loop that fits the registers. Returns the hash of the run.
    #[inline(never)]
    fn run(
        mut self,
        waiters: &mut [Waiter],
        ended: &mut Vec<(u16, Time, u64)>,
        mut hash: u64,
    ) -> u64 {
        let mut word = WordAddress { offset: u32::MAX, size: 0 };
        let mut seen = 0;
        for waiter in waiters {
            let now = self.gone.max(waiter.time);
            let end = self.shared.request(waiter.cpu, now).unwrap_or(now + self.load);
            // Most wait for the same word.
            if waiter.word != word {
                word = waiter.word;
                seen = read(self.base, word);
            }
            hash = hash_with(hash, waiter.identity, seen, end);
            waiter.time = end;
            if waiter.until.holds(seen) {
                ended.push((waiter.task, end, seen));
            }
        }
        self.shared.end();
        hash
    }
}

/// The hash of a run after an access.
#[inline(always)]
fn hash_with(hash: u64, identity: u64, old: u64, end: Time) -> u64 {
    let mixed = (hash ^ identity ^ end).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.rotate_left(29) ^ old
}

/// What an access is, as a number.
#[inline(always)]
fn identity(task: u16, word: WordAddress, how: LineUse) -> u64 {
    u64::from(task) << 48 ^ u64::from(word.offset) << 16 ^ how as u64
}
