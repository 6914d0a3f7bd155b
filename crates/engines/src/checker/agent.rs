//! The machine that the checker gives to a task: it stops the task before each atomic access.

use std::cell::{Cell, RefCell};
use std::ptr;

use machine::{
    Annotation, Atom, CodeSite, Dependencies, Field, IpiTarget, Machine, Op, Ordering, Requeue,
    Sleep, SleepEnd, Sleepers, Until, Value,
};

use super::IpiHandler;
use super::executions::Barrier;
use super::hash::mix;
use super::request::{Reply, Request, RequestKind, SIGNALLED};
use super::state::CheckedTask;
use super::world::{FaultFound, World};
use crate::steppable::Yielder;

/// The machine of one checked task.
pub struct Checked<'a> {
    pub(super) yielder: &'a Yielder<Reply, Request>,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: usize,
    pub(super) node: usize,
    /// The address of the region.
    pub(super) base: usize,
    pub(super) ipi_handler: Option<&'a IpiHandler<'a>>,
    /// Where the next accesses stand, if not where this machine is called.
    pub(super) site: Cell<Option<CodeSite>>,
    /// How the next compare-exchange orders if it fails.
    pub(super) failure: Cell<Ordering>,
}

/// Stands in a task's history for an interrupt that it is handling.
const HANDLING: u64 = 0x1A7E_22F7;

/// A point in a task's history to which it can be cut back.
#[derive(Clone, Copy, Debug)]
pub struct HistoryMark {
    history: u64,
    named_cpus: u8,
}

impl Checked<'_> {
    /// Where the access stands that the task does now.
    #[track_caller]
    fn site(&self) -> CodeSite {
        let called_at = CodeSite::caller();
        self.site.get().unwrap_or(called_at)
    }

    fn offset<W>(&self, word: &W) -> u32 {
        (ptr::from_ref(word) as usize - self.base) as u32
    }

    #[track_caller]
    fn request_access<T: Value>(
        &self,
        atom: &Atom<T>,
        kind: RequestKind,
        ordering: Ordering,
    ) -> Reply {
        let (offset, size) = (self.offset(atom), size_of::<T>() as u8);
        let location = self.site();
        let failure = self.failure.replace(Ordering::Relaxed);
        let request = Request { kind, offset, size, ordering, failure, location };
        match self.without_step(|world| world.local_step(self.task, &request)) {
            Some(reply) => reply,
            None => self.request(request),
        }
    }

    /// Requests a step that accesses no word.
    #[track_caller]
    fn request_other(&self, kind: RequestKind) -> Reply {
        let (ordering, location) = (Ordering::Relaxed, self.site());
        self.request(Request { kind, offset: 0, size: 0, ordering, failure: ordering, location })
    }

    /// Stops the task until the search takes its step, and handles interrupts in between. A
    /// handler leaves the history of the task unchanged: it gives the task no value.
    fn request(&self, request: Request) -> Reply {
        loop {
            let reply = self.yielder.suspend(request);
            if !reply.interrupted {
                return reply;
            }
            let before = self.history_mark();
            self.with_state(|task| task.history = mix(task.history, HANDLING));
            let handler = self.ipi_handler.expect("a task without a handler is not interrupted");
            handler(self, self.task);
            self.with_state(|task| {
                (task.history, task.steps) = (before.history, 0);
                task.named_cpus.truncate(before.named_cpus);
                task.irqs_off_depth -= 1;
            });
        }
    }

    fn with_state(&self, change: impl FnOnce(&mut CheckedTask)) {
        change(&mut self.world.borrow_mut().state.tasks[self.task]);
    }

    /// A fence that the kernel has and C11 has not: there, one of this order stands for it.
    #[track_caller]
    fn barrier(&self, barrier: Barrier, ordering: Ordering) {
        let site = self.site();
        if self.world.borrow().rules.is_none() {
            return self.fence(ordering);
        }
        self.without_step(|world| {
            world.allowed_barrier(self.task, barrier, site);
            if world.fault.is_some() { Err(FaultFound) } else { Ok(()) }
        });
    }

    /// Idles for the rest of the check, once the task has ended.
    pub(super) fn idle(&self) {
        let start = HistoryMark { history: 0, named_cpus: 0 };
        self.forget_history(start, 0);
        self.request_other(RequestKind::Idle);
    }

    /// Does something that is no step of the search. After a fault the task stops for ever.
    #[track_caller]
    fn without_step<R>(&self, act: impl FnOnce(&mut World) -> Result<R, FaultFound>) -> R {
        let location = self.site();
        let result = act(&mut self.world.borrow_mut());
        result.unwrap_or_else(|FaultFound| {
            let (kind, ordering) = (RequestKind::Stuck, Ordering::Relaxed);
            let failure = ordering;
            self.yielder.suspend(Request { kind, offset: 0, size: 0, ordering, failure, location });
            unreachable!("a task at fault takes no step")
        })
    }
}

impl Machine for Checked<'_> {
    type HistoryMark = HistoryMark;

    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        T::from_bits(self.request_access(atom, RequestKind::Access(op.widened()), ordering).value)
    }

    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        T::from_bits(self.request_access(atom, RequestKind::Await(until.widened()), ordering).value)
    }

    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        _: u32,
    ) -> Option<T> {
        let reply = self.request_access(atom, RequestKind::AwaitFor(until.widened()), ordering);
        reply.held.then(|| T::from_bits(reply.value))
    }

    fn get<T: Value>(&self, field: &Field<T>) -> T {
        let (offset, location) = (self.offset(field), self.site());
        let size = size_of::<T>() as u8;
        T::from_bits(self.without_step(|world| world.get(self.task, offset, size, location)))
    }

    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        let (offset, location) = (self.offset(field), self.site());
        let (size, value) = (size_of::<T>() as u8, value.bits());
        if self.without_step(|world| Ok(world.must_wait_for_buffer(self.task, offset, size))) {
            self.request_other(RequestKind::Drain);
        }
        self.without_step(|world| world.set(self.task, offset, size, value, location));
    }

    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        let (offset, location) = (self.offset(atom), self.site());
        let (size, value) = (size_of::<T>() as u8, value.bits());
        self.without_step(|world| world.set(self.task, offset, size, value, location));
    }

    /// Fills the word with ones. An access that is not ordered after this is a race, one
    /// without an `init` before it reads nonsense, and the old value distinguishes no states.
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        self.init(atom, T::ALL);
    }

    fn poison_field<T: Value>(&self, field: &Field<T>) {
        self.set(field, T::ALL);
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.park_as(atom, expected, Sleep::UNTIL_WOKEN);
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.wake_bits(atom, whom, u32::MAX);
    }

    fn park_as(&self, atom: &Atom<u32>, expected: u32, sleep: Sleep) -> SleepEnd {
        let kind = RequestKind::Park(expected.into(), sleep);
        let reply = self.request_access(atom, kind, Ordering::Relaxed);
        match (reply.held, reply.slept) {
            (false, _) => SleepEnd::TimedOut,
            (true, true) if reply.value == SIGNALLED => SleepEnd::Interrupted,
            (true, true) => SleepEnd::Woken,
            (true, false) => SleepEnd::Differed,
        }
    }

    fn wake_bits(&self, atom: &Atom<u32>, whom: Sleepers, bits: u32) -> u32 {
        let kind = RequestKind::Wake(whom, bits);
        self.request_access(atom, kind, Ordering::Relaxed).value as u32
    }

    fn requeue(&self, atom: &Atom<u32>, to: &Atom<u32>, how: Requeue) -> Option<[u32; 2]> {
        let kind = RequestKind::Requeue(how, self.offset(to));
        let reply = self.request_access(atom, kind, Ordering::Relaxed);
        // Both are at most the number of tasks.
        let counts = [reply.value as u8, (reply.value >> 8) as u8];
        reply.held.then_some(counts.map(u32::from))
    }

    fn send_ipi(&self, whom: IpiTarget) {
        let all_tasks = (1_u16 << self.world.borrow().state.tasks.len()) - 1;
        let others = all_tasks & !(1 << self.task);
        let targets = match whom {
            IpiTarget::One(cpu) => others & 1 << cpu,
            IpiTarget::Others => others,
        };
        self.request_other(RequestKind::Interrupt(targets));
    }

    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.with_state(|task| task.irqs_off_depth += 1);
        let result = body();
        self.with_state(|task| task.irqs_off_depth -= 1);
        result
    }

    fn cpu_relax(&self, _: u32) {}

    fn random_backoff(&self, _: u32) {}

    fn work(&self, ns: u64) {
        let irqs_are_on = self.world.borrow().state.tasks[self.task].irqs_off_depth == 0;
        if self.ipi_handler.is_some() && irqs_are_on && ns > 0 {
            self.request_other(RequestKind::Work);
        }
    }

    fn cpu(&self) -> usize {
        self.task
    }

    fn node(&self) -> usize {
        self.node
    }

    fn random(&self, below: u32) -> u32 {
        self.request_other(RequestKind::Choose(below)).value as u32
    }

    fn chance(&self, _: u32) -> bool {
        self.random(2) == 1
    }

    fn history_mark(&self) -> HistoryMark {
        let task = &self.world.borrow().state.tasks[self.task];
        HistoryMark { history: task.history, named_cpus: task.named_cpus.len() }
    }

    fn forget_history(&self, since: HistoryMark, live: u64) {
        let location = CodeSite::caller();
        let site = u64::from(location.line) << 32 | u64::from(location.column);
        let task = &mut self.world.borrow_mut().state.tasks[self.task];
        task.history = mix(mix(since.history, site), live);
        task.named_cpus.truncate(since.named_cpus);
        task.steps = 0;
    }

    fn fence(&self, ordering: Ordering) {
        let is_full = ordering == Ordering::SeqCst;
        if is_full && self.without_step(|world| Ok(world.must_drain(self.task))) {
            self.request_other(RequestKind::Drain);
        }
        let site = self.site();
        self.without_step(|world| world.fence(self.task, ordering, site));
    }

    fn fence_loads(&self) {
        self.barrier(Barrier::Loads, Ordering::Acquire);
    }

    fn fence_stores(&self) {
        self.barrier(Barrier::Stores, Ordering::Release);
    }

    fn names_dependencies(&self) -> bool {
        self.world.borrow().rules.is_some()
    }

    fn peek<T: Value>(&self, atom: &Atom<T>) -> Option<T> {
        let world = self.world.borrow();
        let value = || world.value_seen(self.task, self.offset(atom), size_of::<T>() as u8);
        (!world.reads_old()).then(|| T::from_bits(value()))
    }

    fn is_timeless(&self) -> bool {
        true
    }

    fn reads_old_values(&self) -> bool {
        self.world.borrow().reads_old()
    }

    fn last_read(&self) -> Option<u8> {
        let world = self.world.borrow();
        world.rules.and_then(|_| world.state.executions.last_reads[self.task])
    }

    fn open_reads(&self) -> u128 {
        self.world.borrow().open_reads(self.task)
    }

    fn access_mark(&self) -> u8 {
        self.world.borrow().state.executions.counts.get(self.task).copied().unwrap_or_default()
    }

    fn forget_accesses(&self, since: u8) {
        self.world.borrow_mut().state.executions.forget(self.task, since);
    }

    fn depends_on(&self, dependencies: Dependencies) {
        let mut world = self.world.borrow_mut();
        if world.rules.is_some() {
            world.layout.names_reads = true;
            world.state.executions.pending[self.task] = dependencies;
            world.state.executions.controls[self.task] |= dependencies.control;
        }
    }

    fn depend<T: Value>(&self, atom: &Atom<T>) {
        let (offset, size) = (self.offset(atom), size_of::<T>() as u8);
        self.without_step(|world| world.depend(self.task, offset, size));
    }

    fn fails_with(&self, ordering: Ordering) {
        self.failure.set(ordering);
    }

    fn at(&self, site: Option<CodeSite>) {
        self.site.set(site);
    }

    fn annotate(&self, annotation: Annotation) {
        self.without_step(|world| world.annotated(self.task, annotation));
    }
}
