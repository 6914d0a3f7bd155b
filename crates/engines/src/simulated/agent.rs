//! The machine that a simulated task sees: it goes on as long as nobody else is due before it,
//! and pays for each access with its own time.

use std::cell::RefCell;
use std::ptr;

use machine::{
    Atom, Field, Interrupted, Machine, Native, Note, Op, Ordering, Sleepers, Until, Value,
};

use super::Time;
use super::ledger::Row;
use super::lines::Use;
use super::tasks::Watch;
use super::world::{World, below};
use crate::explored::request::widened_until;
use crate::steppable::Yielder;

/// The view of one simulated task.
pub struct Simulated<'a> {
    pub(super) yielder: &'a Yielder<(), ()>,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: u16,
    /// What `cpu` says.
    pub(super) cpu: usize,
    pub(super) node: usize,
    /// The address of the region.
    pub(super) base: usize,
    /// What it does when interrupted.
    pub(super) interrupted: Option<&'a Handler<'a>>,
    /// Does to the memory what has been priced.
    pub(super) native: Native,
}

/// What a CPU does when interrupted; it is told its number.
pub type Handler<'a> = dyn Fn(&Simulated, usize) + 'a;

impl Simulated<'_> {
    /// Stops until it is due, and sees to interrupts meanwhile.
    pub(super) fn suspend(&self) {
        loop {
            self.yielder.suspend(());
            let called = self.world.borrow_mut().is_called(self.task);
            if !called {
                return;
            }
            self.handle();
        }
    }

    /// Does what it has to when interrupted.
    fn handle(&self) {
        let handler = self.interrupted.expect("only who can be interrupted is");
        loop {
            self.spend(Row::Interrupted, |world| world.costs.interrupt_entry);
            self.uninterrupted_until_done(|| handler(self, self.cpu));
            if !self.world.borrow_mut().handled(self.task) {
                return;
            }
        }
    }

    fn uninterrupted_until_done(&self, body: impl FnOnce()) {
        self.world.borrow_mut().tasks[usize::from(self.task)].masked += 1;
        body();
        self.world.borrow_mut().tasks[usize::from(self.task)].masked -= 1;
    }

    /// Says that an operation is done.
    pub fn operation_done(&self) {
        if self.world.borrow().cpus_are_shared {
            // Who else wants the CPU is known only when nobody is due before.
            self.turn();
        }
        let waits = self.world.borrow_mut().operation_done(self.task);
        if waits {
            self.suspend();
        }
    }

    /// Whether the time is over for this task, so that it should end.
    pub fn is_over(&self) -> bool {
        let world = self.world.borrow();
        world.tasks[usize::from(self.task)].time >= world.window.1
    }

    fn offset<C>(&self, cell: &C) -> u32 {
        (ptr::from_ref(cell) as usize - self.base) as u32
    }

    /// Waits until nobody else is due before.
    #[inline]
    pub(super) fn turn(&self) {
        let waits = self.world.borrow_mut().must_wait(self.task);
        if waits {
            self.suspend();
        }
    }

    #[inline]
    fn access<C>(&self, word: &C, how: Use, old: u64) {
        let (offset, size) = (self.offset(word), size_of::<C>() as u8);
        self.world.borrow_mut().access(self.task, offset, size, how, old);
    }

    #[inline]
    fn spend(&self, row: Row, cost: impl FnOnce(&World) -> Time) {
        let mut world = self.world.borrow_mut();
        let cost = cost(&world);
        world.spend(self.task, row, cost);
    }

    /// Waits for the word, until the deadline; what it was seen to be.
    fn watch<T: Value>(&self, atom: &Atom<T>, until: Until<T>, patience: Time) -> Option<T> {
        self.turn();
        let word = atom.load(&self.native, Ordering::Relaxed);
        self.access(atom, Use::Load, word.bits());
        if until.holds(word) {
            return Some(word);
        }
        let mut world = self.world.borrow_mut();
        let deadline = world.tasks[usize::from(self.task)].time.saturating_add(patience);
        let (offset, size) = (self.offset(atom), size_of::<T>() as u8);
        world.watch(self.task, Watch { offset, size, until: widened_until(until), deadline });
        drop(world);
        self.suspend();
        self.world.borrow().tasks[usize::from(self.task)].seen.map(T::of_bits)
    }

    /// A plain field is a cache hit, or else an access like any other.
    fn field<C>(&self, field: &C, how: Use, touch: impl FnOnce() -> u64) -> u64 {
        let mut world = self.world.borrow_mut();
        let who = &world.tasks[usize::from(self.task)];
        let (line, cpu, time) = (super::lines::Lines::of(self.offset(field)), who.cpu, who.time);
        let is_hit = world.lines.has(line, cpu, how, time);
        if is_hit {
            let cost = if how == Use::Load { world.costs.load } else { world.costs.store };
            world.spend(self.task, Row::Local, cost);
            world.accesses += 1;
            return touch();
        }
        drop(world);
        self.turn();
        let value = touch();
        self.access(field, how, value);
        value
    }
}

impl Machine for Simulated<'_> {
    type Mark = ();

    #[inline]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        let how = match op {
            Op::Load => Use::Load,
            Op::Store(_) => Use::Store,
            _ => Use::Atomic,
        };
        self.turn();
        // A store returns nothing, but a trace shows what it replaced.
        let before = self.native.op(atom, Op::Load, Ordering::Relaxed);
        let old = self.native.op(atom, op, ordering);
        self.access(atom, how, before.bits());
        old
    }

    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, _: Ordering) -> T {
        let seen = self.watch(atom, until, Time::MAX);
        seen.expect("a wait without a deadline ends with what it waited for")
    }

    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        _: Ordering,
        tries: u32,
    ) -> Option<T> {
        let turn = self.world.borrow().costs.pause;
        self.watch(atom, until, turn * Time::from(tries))
    }

    fn get<T: Value>(&self, field: &Field<T>) -> T {
        T::of_bits(self.field(field, Use::Load, || self.native.get(field).bits()))
    }

    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        self.field(field, Use::Store, || {
            self.native.set(field, value);
            value.bits()
        });
    }

    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        self.field(atom, Use::Store, || {
            self.native.init(atom, value);
            value.bits()
        });
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.spend(Row::System, |world| world.costs.park);
        self.turn();
        let word = atom.load(&self.native, Ordering::Relaxed);
        self.access(atom, Use::Load, word.into());
        if word == expected {
            self.world.borrow_mut().sleep(self.task, self.offset(atom));
            self.suspend();
        }
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.spend(Row::System, |world| world.costs.wake);
        self.turn();
        self.world.borrow_mut().wake(self.task, self.offset(atom), whom);
    }

    fn interrupt(&self, whom: Interrupted) {
        let mut world = self.world.borrow_mut();
        match whom {
            Interrupted::One(number) => world.send(self.task, [number].into_iter()),
            Interrupted::Others => {
                let (own, all) = (self.cpu, world.tasks.len() - world.workers);
                world.send(self.task, (0..all).filter(|&number| number != own));
            }
        }
    }

    fn uninterrupted<R>(&self, body: impl FnOnce() -> R) -> R {
        self.world.borrow_mut().tasks[usize::from(self.task)].masked += 1;
        let done = body();
        let comes_now = {
            let who = &mut self.world.borrow_mut().tasks[usize::from(self.task)];
            who.masked -= 1;
            who.masked == 0 && std::mem::take(&mut who.pending)
        };
        if comes_now {
            self.handle();
        }
        done
    }

    fn pause(&self, turns: u32) {
        self.spend(Row::Spinning, |world| world.costs.pause * Time::from(turns));
    }

    fn back_off(&self, below: u32) {
        let turns = self.random(below);
        self.pause(turns);
    }

    fn work(&self, ns: u64) {
        let inside = self.world.borrow().tasks[usize::from(self.task)].inside;
        self.spend(if inside { Row::Inside } else { Row::Work }, |_| ns * super::NS);
        if self.world.borrow().is_watched(self.task) {
            self.turn();
        }
    }

    fn cpu(&self) -> usize {
        self.cpu
    }

    fn node(&self) -> usize {
        self.node
    }

    fn random(&self, bound: u32) -> u32 {
        below(&mut self.world.borrow_mut().tasks[usize::from(self.task)].random, bound)
    }

    fn chance(&self, one_in: u32) -> bool {
        self.random(one_in) == 0
    }

    fn mark(&self) {}

    fn cut(&self, (): (), _: u64) {}

    fn note(&self, note: Note) {
        let mut world = self.world.borrow_mut();
        let inside = match note {
            Note::Enter | Note::EnterShared => Some(true),
            Note::Leave | Note::LeaveShared => Some(false),
            Note::Arrive => None,
        };
        if let Some(inside) = inside {
            world.tasks[usize::from(self.task)].inside = inside;
        }
        let noted = world.watched.noted(self.task, note);
        drop(world);
        if let Err(why) = noted {
            panic!("{why}");
        }
    }
}
