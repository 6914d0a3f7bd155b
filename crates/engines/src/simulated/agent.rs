//! The machine that a simulated task sees: it goes on as long as nobody else is due before it,
//! and pays for each access with its own time.

use std::cell::{RefCell, RefMut};
use std::ptr;

use machine::{Annotation, Atom, Field, IpiTarget, Machine, Op, Ordering, Sleepers, Until, Value};

use super::Time;
use super::coherence::{Use, Word};
use super::ledger::Row;
use super::tasks::{Ask, Asked, Watch};
use super::world::{World, below};
use crate::steppable::Yielder;

/// The view of one simulated task.
pub struct Simulated<'a> {
    /// Takes who goes on instead.
    pub(super) yielder: &'a Yielder<(), Option<u16>>,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: u16,
    /// Whether it may be on another CPU than at first; what `cpu` says if not.
    pub(super) moves: bool,
    pub(super) cpu: usize,
    pub(super) node: usize,
    /// The address of the region.
    pub(super) base: usize,
    /// What it does when interrupted.
    pub(super) handler: Option<&'a Handler<'a>>,
}

/// What a CPU does when interrupted; it is told its number.
pub type Handler<'a> = dyn Fn(&Simulated, usize) + 'a;

impl Simulated<'_> {
    #[inline]
    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// Stops until it is due. What happens before that happens here: up to where a task goes on,
    /// which may be this one again.
    #[inline(always)]
    fn suspend<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        let next = world.pass();
        drop(world);
        self.stop(next)
    }

    /// Has the next task go on until this one is due, and sees to interrupts meanwhile.
    #[inline(always)]
    pub(super) fn stop(&self, next: Option<u16>) -> RefMut<'_, World> {
        match self.goes_on_after(next) {
            (world, false) => world,
            (world, true) => self.interrupted(world),
        }
    }

    /// Has the next task go on; when this one does, the world, and whether it is interrupted.
    #[inline(always)]
    fn goes_on_after(&self, next: Option<u16>) -> (RefMut<'_, World>, bool) {
        if next != Some(self.task) {
            self.yielder.suspend(next);
        }
        let mut world = self.world();
        let is_called = world.is_called(self.task);
        (world, is_called)
    }

    /// Sees to interrupts until it is due.
    #[cold]
    fn interrupted<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        let mut is_called = true;
        while is_called {
            drop(world);
            self.handle();
            let next = self.world().pass();
            (world, is_called) = self.goes_on_after(next);
        }
        world
    }

    /// Does what it has to when interrupted.
    fn handle(&self) {
        let handler = self.handler.expect("only who can be interrupted is");
        loop {
            self.spend(Row::Interrupted, |world| world.costs.interrupt_entry);
            self.uninterrupted_until_done(|| handler(self, self.cpu()));
            if !self.world().handled(self.task) {
                return;
            }
        }
    }

    fn uninterrupted_until_done(&self, body: impl FnOnce()) {
        self.world().tasks[usize::from(self.task)].masked += 1;
        body();
        self.world().tasks[usize::from(self.task)].masked -= 1;
    }

    /// Says that an operation is done.
    pub fn operation_done(&self) {
        let mut world = self.world();
        if world.cpus_are_shared {
            // Who else wants the CPU is known only when nobody is due before.
            world = self.turn(world);
        }
        if world.operation_done(self.task) {
            self.suspend(world);
        }
    }

    /// Whether the time counts for this task.
    pub fn counts(&self) -> bool {
        let world = self.world();
        world.tasks[usize::from(self.task)].time >= world.window.0
    }

    /// Whether the time is over for this task, so that it should end.
    pub fn is_over(&self) -> bool {
        let world = self.world();
        world.tasks[usize::from(self.task)].time >= world.window.1
    }

    #[inline(always)]
    fn word<C>(&self, cell: &C) -> Word {
        let offset = (ptr::from_ref(cell) as usize - self.base) as u32;
        Word { offset, size: size_of::<C>() as u8 }
    }

    /// Waits until nobody else is due before. Apart: where it is a matter of course not to wait, that
    /// should cost nothing.
    #[inline(never)]
    pub(super) fn turn<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        match world.must_wait(self.task) {
            true => self.suspend(world),
            false => world,
        }
    }

    /// Gets a line to read it, or to read and write it.
    #[inline(always)]
    fn get_line(&self, ask: Ask) -> (RefMut<'_, World>, Asked) {
        let mut world = self.world();
        loop {
            if let Some(asked) = world.wants(self.task, ask) {
                return (world, asked);
            }
            world = self.suspend(world);
            // An interrupt that comes before it was asked for ends that.
            if let Some(asked) = world.tasks[usize::from(self.task)].asked.take() {
                return (world, asked);
            }
        }
    }

    /// Waits until all its stores are out: what the kernel does comes after them.
    fn enter_kernel(&self) -> RefMut<'_, World> {
        let mut world = self.turn(self.world());
        while !world.tasks[usize::from(self.task)].stores.is_empty() {
            world.drain(self.task);
            world = self.turn(world);
        }
        world
    }

    /// Reads a word, which then is `new` of that, if anything; returns what it was before.
    #[inline(always)]
    fn access(&self, word: Word, ask: Ask, new: impl FnOnce(u64) -> Option<u64>) -> u64 {
        let (mut world, asked) = self.get_line(ask);
        world.used(self.task, word, ask.how, asked, new)
    }

    /// For words of all sizes, as `modify` and `store`: all that an access does is compiled together,
    /// and once.
    fn load(&self, word: Word) -> u64 {
        let ask = Ask { line: word.line(), how: Use::Load, after_stores: false };
        self.access(word, ask, |_| None)
    }

    fn modify(&self, word: Word, op: Op<u64>) -> u64 {
        let ask = Ask { line: word.line(), how: Use::Atomic, after_stores: true };
        self.access(word, ask, |old| op.written(old, word.size))
    }

    fn store(&self, word: Word, new: u64) {
        let mut world = self.world();
        if world.must_wait(self.task) {
            world = self.suspend(world);
        }
        world.store(self.task, word, new);
    }

    #[inline]
    fn spend(&self, row: Row, cost: impl FnOnce(&World) -> Time) {
        let mut world = self.world();
        let cost = cost(&world);
        world.spend(self.task, row, cost);
    }

    /// Waits for the word, until the deadline; what it was seen to be.
    fn watch(&self, word: Word, until: Until<u64>, patience: Time) -> Option<u64> {
        let seen = self.load(word);
        if until.holds(seen) {
            return Some(seen);
        }
        let mut world = self.world();
        let deadline = world.tasks[usize::from(self.task)].time.saturating_add(patience);
        world.watch(self.task, Watch { word, until, deadline });
        self.suspend(world).tasks[usize::from(self.task)].seen
    }

    /// Sleeps if the word is as expected.
    fn sleep(&self, word: Word, expected: u32) {
        let ask = Ask { line: word.line(), how: Use::Load, after_stores: true };
        if self.access(word, ask, |_| None) == u64::from(expected) {
            let mut world = self.world();
            world.sleep(self.task, word.offset);
            self.suspend(world);
        }
    }

    fn wake_sleepers(&self, word: Word, whom: Sleepers) {
        self.enter_kernel().wake(self.task, word.offset, whom);
    }

    /// It has paused, and leaves its guest if it does nothing else for long.
    #[cold]
    fn leave_guest<'w>(&'w self, mut world: RefMut<'w, World>, paused: Time) {
        if !world.has_paused(self.task, paused) {
            return;
        }
        let mut world = self.turn(world);
        if world.paused_for_long(self.task) {
            self.suspend(world);
        }
    }

    /// Uses a plain field, without a look at who else is due; nothing where it is not there to be used.
    #[inline(always)]
    fn at_hand(&self, word: Word, how: Use) -> Option<RefMut<'_, World>> {
        let mut guard = self.world();
        let world = &mut *guard;
        let who = &world.tasks[usize::from(self.task)];
        if !who.stores.is_empty() || !world.lines.hit(word.line(), who.cpu, how, who.time) {
            return None;
        }
        world.accesses += 1;
        let cost = if how == Use::Load { world.costs.load } else { world.costs.store };
        world.spend(self.task, Row::Local, cost);
        Some(guard)
    }

    /// Reads a plain field.
    fn take(&self, word: Word) -> u64 {
        match self.at_hand(word, Use::Load) {
            Some(world) => world.read(word),
            None => self.load(word),
        }
    }

    /// Writes a plain field.
    fn put(&self, word: Word, new: u64) {
        match self.at_hand(word, Use::Store) {
            Some(world) => world.write(word, new),
            None => self.store(word, new),
        }
    }

    fn arrives(&self) {
        self.world().watched.arrives(self.task);
    }

    fn enters(&self, annotation: Annotation) {
        let mut world = self.world();
        world.tasks[usize::from(self.task)].inside = true;
        if let Err(why) = world.watched.enters(self.task, annotation) {
            drop(world);
            panic!("{why}");
        }
    }

    fn leaves(&self, annotation: Annotation) {
        let who = &mut self.world().tasks[usize::from(self.task)];
        // Its work inside is paid for, but that time has not come yet.
        (who.inside, who.leaving) = (false, Some(annotation));
    }
}

impl Machine for Simulated<'_> {
    type HistoryMark = ();

    #[inline(always)]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, _: Ordering) -> T {
        let word = self.word(atom);
        T::from_bits(match op {
            Op::Load => self.load(word),
            Op::Store(new) => {
                self.store(word, new.bits());
                0
            }
            op => self.modify(word, op.widened()),
        })
    }

    #[inline(always)]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, _: Ordering) -> T {
        let seen = self.watch(self.word(atom), until.widened(), Time::MAX);
        T::from_bits(seen.expect("a wait without a deadline ends with what it waited for"))
    }

    #[inline(always)]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        _: Ordering,
        tries: u32,
    ) -> Option<T> {
        let patience = self.world().costs.pause * Time::from(tries);
        self.watch(self.word(atom), until.widened(), patience).map(T::from_bits)
    }

    #[inline(always)]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        T::from_bits(self.take(self.word(field)))
    }

    #[inline(always)]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        self.put(self.word(field), value.bits());
    }

    #[inline(always)]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        self.put(self.word(atom), value.bits());
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        self.spend(Row::System, |world| world.costs.park);
        self.sleep(self.word(atom), expected);
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.spend(Row::System, |world| world.costs.wake);
        self.wake_sleepers(self.word(atom), whom);
    }

    fn halt(&self, atom: &Atom<u32>, expected: u32) {
        self.spend(Row::System, |world| world.guest.map_or(world.costs.park, |guest| guest.exit));
        self.sleep(self.word(atom), expected);
    }

    fn kick(&self, atom: &Atom<u32>) {
        self.spend(Row::System, |world| world.guest.map_or(world.costs.wake, |guest| guest.kick));
        self.wake_sleepers(self.word(atom), Sleepers::One);
    }

    fn send_ipi(&self, whom: IpiTarget) {
        let own = self.cpu();
        let mut world = self.enter_kernel();
        match whom {
            IpiTarget::One(number) => world.send(self.task, [number].into_iter()),
            IpiTarget::Others => {
                let all = world.tasks.len() - world.workers;
                world.send(self.task, (0..all).filter(|&number| number != own));
            }
        }
    }

    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.world().tasks[usize::from(self.task)].masked += 1;
        let done = body();
        let comes_now = {
            let who = &mut self.world().tasks[usize::from(self.task)];
            who.masked -= 1;
            who.masked == 0 && std::mem::take(&mut who.pending)
        };
        if comes_now {
            self.handle();
        }
        done
    }

    fn cpu_relax(&self, turns: u32) {
        let mut world = self.world();
        let cost = world.costs.pause * Time::from(turns);
        world.spend(self.task, Row::Spinning, cost);
        if world.pause_loops.is_some() {
            self.leave_guest(world, cost);
        }
    }

    fn random_backoff(&self, below: u32) {
        let turns = self.random(below);
        self.cpu_relax(turns);
    }

    fn work(&self, ns: u64) {
        let mut world = self.world();
        let inside = world.tasks[usize::from(self.task)].inside;
        world.spend(self.task, if inside { Row::Inside } else { Row::Work }, ns * super::NS);
        if world.is_watched(self.task) {
            self.turn(world);
        }
    }

    fn preemption_point(&self) {
        let world = self.world();
        if !world.cpus_are_shared {
            return;
        }
        // Who else wants the CPU is known only when nobody is due before.
        let mut world = self.turn(world);
        if world.call_ends(self.task) {
            self.suspend(world);
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
        below(&mut self.world().tasks[usize::from(self.task)].random, bound)
    }

    fn chance(&self, one_in: u32) -> bool {
        self.random(one_in) == 0
    }

    fn history_mark(&self) {}

    fn forget_history(&self, (): (), _: u64) {}

    #[inline(always)]
    fn annotate(&self, annotation: Annotation) {
        match annotation {
            Annotation::Arrive => self.arrives(),
            Annotation::Enter | Annotation::EnterShared => self.enters(annotation),
            Annotation::Leave | Annotation::LeaveShared => self.leaves(annotation),
        }
    }
}
