//! The machine that a simulated task sees: it goes on as long as nobody else is due before it,
//! and pays for each access with its own time.

use std::cell::RefCell;
use std::ptr;

use machine::{
    Atom, Field, Interrupted, Machine, Native, Note, Op, Ordering, Sleepers, Until, Value,
};

use super::Time;
use super::ledger::Row;
use super::lines::{Use, Word};
use super::tasks::{Ask, Asked, Watch};
use super::world::{World, below};
use crate::explored::request::widened_until;
use crate::steppable::Yielder;

/// The view of one simulated task.
pub struct Simulated<'a> {
    pub(super) yielder: &'a Yielder<(), ()>,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: u16,
    /// Whether it may be on another CPU than at first; what `cpu` says if not.
    pub(super) moves: bool,
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
            self.uninterrupted_until_done(|| handler(self, self.cpu()));
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

    /// Whether the time counts for this task.
    pub fn counts(&self) -> bool {
        let world = self.world.borrow();
        world.tasks[usize::from(self.task)].time >= world.window.0
    }

    /// Whether the time is over for this task, so that it should end.
    pub fn is_over(&self) -> bool {
        let world = self.world.borrow();
        world.tasks[usize::from(self.task)].time >= world.window.1
    }

    fn word<C>(&self, cell: &C) -> Word {
        let offset = (ptr::from_ref(cell) as usize - self.base) as u32;
        Word { offset, size: size_of::<C>() as u8 }
    }

    /// Waits until nobody else is due before.
    #[inline]
    pub(super) fn turn(&self) {
        let waits = self.world.borrow_mut().must_wait(self.task);
        if waits {
            self.suspend();
        }
    }

    /// Gets the line of a word to read it, or to read and write it.
    #[inline]
    fn get_line(&self, word: Word, how: Use, after_stores: bool) -> Asked {
        let ask = Ask { line: word.line(), how, after_stores };
        loop {
            let must_wait = self.world.borrow_mut().wants(self.task, ask);
            if must_wait {
                self.suspend();
            }
            // An interrupt that comes before it was asked for ends that.
            if let Some(asked) = self.world.borrow_mut().tasks[usize::from(self.task)].asked.take()
            {
                return asked;
            }
        }
    }

    /// Waits until all its stores are out: what the kernel does comes after them.
    fn enter_kernel(&self) {
        self.turn();
        while !self.world.borrow().tasks[usize::from(self.task)].stores.is_empty() {
            self.world.borrow_mut().drain(self.task);
            self.turn();
        }
    }

    /// Does something to a word that may read it; returns what that returns.
    #[inline]
    fn access<C, T: Value>(&self, cell: &C, how: Use, touch: impl FnOnce() -> T) -> T {
        let word = self.word(cell);
        let asked = self.get_line(word, how, how == Use::Atomic);
        let old = touch();
        self.world.borrow_mut().used(self.task, word, how, old.bits(), asked);
        old
    }

    #[inline]
    fn store<C>(&self, cell: &C, new: u64) {
        self.turn();
        self.world.borrow_mut().store(self.task, self.word(cell), new);
    }

    #[inline]
    fn spend(&self, row: Row, cost: impl FnOnce(&World) -> Time) {
        let mut world = self.world.borrow_mut();
        let cost = cost(&world);
        world.spend(self.task, row, cost);
    }

    /// Waits for the word, until the deadline; what it was seen to be.
    fn watch<T: Value>(&self, atom: &Atom<T>, until: Until<T>, patience: Time) -> Option<T> {
        let seen = self.access(atom, Use::Load, || atom.load(&self.native, Ordering::Relaxed));
        if until.holds(seen) {
            return Some(seen);
        }
        let mut world = self.world.borrow_mut();
        let deadline = world.tasks[usize::from(self.task)].time.saturating_add(patience);
        let watch = Watch { word: self.word(atom), until: widened_until(until), deadline };
        world.watch(self.task, watch);
        drop(world);
        self.suspend();
        self.world.borrow().tasks[usize::from(self.task)].seen.map(T::of_bits)
    }

    /// Sleeps if the word is as expected.
    fn sleep(&self, atom: &Atom<u32>, expected: u32) {
        let word = self.word(atom);
        let asked = self.get_line(word, Use::Load, true);
        let seen = atom.load(&self.native, Ordering::Relaxed);
        self.world.borrow_mut().used(self.task, word, Use::Load, seen.into(), asked);
        if seen == expected {
            self.world.borrow_mut().sleep(self.task, word.offset);
            self.suspend();
        }
    }

    fn wake_sleepers(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.enter_kernel();
        self.world.borrow_mut().wake(self.task, self.word(atom).offset, whom);
    }

    /// It has paused, and leaves its guest if it does nothing else for long.
    #[cold]
    fn leave_guest(&self, paused: Time) {
        let must_leave = self.world.borrow_mut().has_paused(self.task, paused);
        if !must_leave {
            return;
        }
        self.turn();
        let gives_way = self.world.borrow_mut().paused_for_long(self.task);
        if gives_way {
            self.suspend();
        }
    }

    /// Whether a plain field is there to be used, without a look at who else is due.
    #[inline]
    fn is_at_hand<C>(&self, cell: &C, how: Use) -> bool {
        let world = &mut *self.world.borrow_mut();
        let who = &mut world.tasks[usize::from(self.task)];
        let is_at_hand = who.stores.is_empty()
            && world.lines.hit(self.word(cell).line(), who.cpu, how, who.time);
        if is_at_hand {
            world.accesses += 1;
            let cost = if how == Use::Load { world.costs.load } else { world.costs.store };
            world.spend(self.task, Row::Local, cost);
        }
        is_at_hand
    }

    /// Writes a plain field.
    fn put<C>(&self, cell: &C, new: u64, touch: impl FnOnce()) {
        match self.is_at_hand(cell, Use::Store) {
            true => touch(),
            false => self.store(cell, new),
        }
    }
}

impl Machine for Simulated<'_> {
    type Mark = ();

    #[inline]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        let how = match op {
            Op::Load => Use::Load,
            Op::Store(new) => {
                self.store(atom, new.bits());
                return T::ZERO;
            }
            _ => Use::Atomic,
        };
        self.access(atom, how, || self.native.op(atom, op, ordering))
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
        let touch = || self.native.get(field);
        match self.is_at_hand(field, Use::Load) {
            true => touch(),
            false => self.access(field, Use::Load, touch),
        }
    }

    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        self.put(field, value.bits(), || self.native.set(field, value));
    }

    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        self.put(atom, value.bits(), || self.native.init(atom, value));
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.spend(Row::System, |world| world.costs.park);
        self.sleep(atom, expected);
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.spend(Row::System, |world| world.costs.wake);
        self.wake_sleepers(atom, whom);
    }

    fn halt(&self, atom: &Atom<u32>, expected: u32) {
        self.spend(Row::System, |world| world.guest.map_or(world.costs.park, |guest| guest.exit));
        self.sleep(atom, expected);
    }

    fn kick(&self, atom: &Atom<u32>) {
        self.spend(Row::System, |world| world.guest.map_or(world.costs.wake, |guest| guest.kick));
        self.wake_sleepers(atom, Sleepers::One);
    }

    fn interrupt(&self, whom: Interrupted) {
        self.enter_kernel();
        let own = self.cpu();
        let mut world = self.world.borrow_mut();
        match whom {
            Interrupted::One(number) => world.send(self.task, [number].into_iter()),
            Interrupted::Others => {
                let all = world.tasks.len() - world.workers;
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
        let cost = |world: &World| world.costs.pause * Time::from(turns);
        self.spend(Row::Spinning, cost);
        let noticed = {
            let world = self.world.borrow();
            world.pause_loops.is_some().then(|| cost(&world))
        };
        if let Some(paused) = noticed {
            self.leave_guest(paused);
        }
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

    fn call_ends(&self) {
        if !self.world.borrow().cpus_are_shared {
            return;
        }
        // Who else wants the CPU is known only when nobody is due before.
        self.turn();
        let waits = self.world.borrow_mut().call_ends(self.task);
        if waits {
            self.suspend();
        }
    }

    fn cpu(&self) -> usize {
        match self.moves {
            true => self.world.borrow().tasks[usize::from(self.task)].cpu.into(),
            false => self.cpu,
        }
    }

    fn node(&self) -> usize {
        match self.moves {
            true => self.world.borrow().lines.node(self.cpu()),
            false => self.node,
        }
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
        if matches!(note, Note::Leave | Note::LeaveShared) {
            // Its work inside is paid for, but that time has not come yet.
            world.tasks[usize::from(self.task)].leaving = Some(note);
            return;
        }
        let noted = world.watched.noted(self.task, note);
        drop(world);
        if let Err(why) = noted {
            panic!("{why}");
        }
    }
}
