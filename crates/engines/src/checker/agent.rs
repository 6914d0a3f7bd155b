//! The machine that an explored task sees: it stops before each atomic access.

use std::cell::RefCell;
use std::panic::Location;
use std::ptr;

use machine::{Annotation, Atom, Field, IpiTarget, Machine, Op, Ordering, Sleepers, Until, Value};

use super::Handler;
use super::hash::mix;
use super::request::{Kind, Reply, Request, widened, widened_until};
use super::state::Task;
use super::world::{Caught, World};
use crate::steppable::Yielder;

/// The view of one explored task.
pub struct Checked<'a> {
    pub(super) yielder: &'a Yielder<Reply, Request>,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: usize,
    pub(super) node: usize,
    /// The address of the region.
    pub(super) base: usize,
    /// What it does when interrupted.
    pub(super) interrupted: Option<&'a Handler<'a>>,
}

/// Stands in a history for having been interrupted.
const HANDLING: u64 = 0x1A7E_22F7;

/// A moment in a task's history.
#[derive(Clone, Copy, Debug)]
pub struct HistoryMark {
    history: u64,
    names: u8,
}

impl Checked<'_> {
    fn offset<C>(&self, cell: &C) -> u32 {
        (ptr::from_ref(cell) as usize - self.base) as u32
    }

    #[track_caller]
    fn ask<T: Value>(&self, atom: &Atom<T>, kind: Kind, ordering: Ordering) -> Reply {
        let (offset, size) = (self.offset(atom), size_of::<T>() as u8);
        let location = Location::caller();
        let request = Request { kind, offset, size, ordering, location };
        match self.aside(|world| world.quiet(self.task, &request)) {
            Some(reply) => reply,
            None => self.request(request),
        }
    }

    /// Something that is of no word.
    #[track_caller]
    fn ask_alone(&self, kind: Kind) -> Reply {
        let (ordering, location) = (Ordering::Relaxed, Location::caller());
        self.request(Request { kind, offset: 0, size: 0, ordering, location })
    }

    /// Stops with a request until it is replied to, and sees to interrupts meanwhile. Those
    /// leave the history as it was: whatever they did, they told the task nothing.
    fn request(&self, request: Request) -> Reply {
        loop {
            let reply = self.yielder.suspend(request);
            if !reply.interrupted {
                return reply;
            }
            let before = self.history_mark();
            self.task_state(|task| task.history = mix(task.history, HANDLING));
            let handler = self.interrupted.expect("only who can be interrupted is");
            handler(self, self.task);
            self.task_state(|task| {
                (task.history, task.steps) = (before.history, 0);
                task.names.truncate(before.names);
                task.masked -= 1;
            });
        }
    }

    fn task_state(&self, change: impl FnOnce(&mut Task)) {
        change(&mut self.world.borrow_mut().state.tasks[self.task]);
    }

    /// What a CPU does that has nothing to do.
    pub(super) fn idle(&self) {
        let nothing = HistoryMark { history: 0, names: 0 };
        self.forget_history(nothing, 0);
        self.ask_alone(Kind::Idle);
    }

    /// Does something that is no step. Where that is a fault, the task never goes on.
    #[track_caller]
    fn aside<R>(&self, what: impl FnOnce(&mut World) -> Result<R, Caught>) -> R {
        let location = Location::caller();
        let done = what(&mut self.world.borrow_mut());
        done.unwrap_or_else(|Caught| {
            let ordering = Ordering::Relaxed;
            let stuck = Request { kind: Kind::Stuck, offset: 0, size: 0, ordering, location };
            self.yielder.suspend(stuck);
            unreachable!("a task at fault goes on")
        })
    }
}

impl Machine for Checked<'_> {
    type HistoryMark = HistoryMark;

    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        T::from_bits(self.ask(atom, Kind::Access(widened(op)), ordering).value)
    }

    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        T::from_bits(self.ask(atom, Kind::Await(widened_until(until)), ordering).value)
    }

    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        _: u32,
    ) -> Option<T> {
        let reply = self.ask(atom, Kind::AwaitFor(widened_until(until)), ordering);
        reply.held.then(|| T::from_bits(reply.value))
    }

    fn get<T: Value>(&self, field: &Field<T>) -> T {
        let (offset, location) = (self.offset(field), Location::caller());
        let size = size_of::<T>() as u8;
        T::from_bits(self.aside(|world| world.get(self.task, offset, size, location)))
    }

    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        let (offset, location) = (self.offset(field), Location::caller());
        let (size, value) = (size_of::<T>() as u8, value.bits());
        self.aside(|world| world.set(self.task, offset, size, value, location));
    }

    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        let (offset, location) = (self.offset(atom), Location::caller());
        let (size, value) = (size_of::<T>() as u8, value.bits());
        self.aside(|world| world.set(self.task, offset, size, value, location));
    }

    /// All ones from now on: an access that is not ordered after this is a race, one without
    /// an `init` before it sees nonsense, and what the word held tells no states apart.
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        self.init(atom, T::ALL);
    }

    fn poison_field<T: Value>(&self, field: &Field<T>) {
        self.set(field, T::ALL);
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.ask(atom, Kind::Park(expected.into()), Ordering::Relaxed);
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        let kind = match whom {
            Sleepers::One => Kind::WakeOne,
            Sleepers::All => Kind::WakeAll,
        };
        self.ask(atom, kind, Ordering::Relaxed);
    }

    fn send_ipi(&self, whom: IpiTarget) {
        let all = (1_u16 << self.world.borrow().state.tasks.len()) - 1;
        let others = all & !(1 << self.task);
        let whom = match whom {
            IpiTarget::One(cpu) => others & 1 << cpu,
            IpiTarget::Others => others,
        };
        self.ask_alone(Kind::Interrupt(whom));
    }

    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.task_state(|task| task.masked += 1);
        let done = body();
        self.task_state(|task| task.masked -= 1);
        done
    }

    fn cpu_relax(&self, _: u32) {}

    fn random_backoff(&self, _: u32) {}

    fn work(&self, ns: u64) {
        let masked = self.world.borrow().state.tasks[self.task].masked > 0;
        if self.interrupted.is_some() && !masked && ns > 0 {
            self.ask_alone(Kind::Work);
        }
    }

    fn cpu(&self) -> usize {
        self.task
    }

    fn node(&self) -> usize {
        self.node
    }

    fn random(&self, below: u32) -> u32 {
        self.ask_alone(Kind::Choose(below)).value as u32
    }

    fn chance(&self, _: u32) -> bool {
        self.random(2) == 1
    }

    fn history_mark(&self) -> HistoryMark {
        let task = &self.world.borrow().state.tasks[self.task];
        HistoryMark { history: task.history, names: task.names.len() }
    }

    fn forget_history(&self, since: HistoryMark, live: u64) {
        let location = Location::caller();
        let place = u64::from(location.line()) << 32 | u64::from(location.column());
        let task = &mut self.world.borrow_mut().state.tasks[self.task];
        task.history = mix(mix(since.history, place), live);
        task.names.truncate(since.names);
        task.steps = 0;
    }

    fn annotate(&self, annotation: Annotation) {
        self.aside(|world| world.noted(self.task, annotation));
    }
}
