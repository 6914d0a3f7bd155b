//! The machine of a simulated task: the task runs as long as no other event is due before it, and
//! each access costs it simulated time.

use std::cell::{RefCell, RefMut};
use std::ptr;

use machine::{
    Annotation, Atom, Field, IpiTarget, Machine, Op, Ordering, Requeue, Sleep, SleepEnd, Sleepers,
    Until, Value,
};

use super::Time;
use super::coherence::{LineUse, WordAddress};
use super::host::Costs;
use super::ledger::TimeRow;
use super::random::below;
use super::tasks::{LineGrant, LineRequest, WordWait};
use super::threads::Threads;
use super::world::World;
use crate::Unsupported;

/// The machine of one simulated task.
pub struct Simulated<'a> {
    pub(super) threads: &'a Threads,
    pub(super) world: &'a RefCell<World>,
    pub(super) task: u16,
    /// Whether the task may move to another CPU. If not, `cpu` and `node` say where it is.
    pub(super) moves: bool,
    pub(super) cpu: usize,
    pub(super) node: usize,
    /// The address of the region.
    pub(super) base: usize,
    pub(super) ipi_handler: Option<&'a IpiHandler<'a>>,
}

/// What a CPU does when interrupted; called with the CPU's number.
pub type IpiHandler<'a> = dyn Fn(&Simulated, usize) + 'a;

impl Simulated<'_> {
    #[inline]
    fn world(&self) -> RefMut<'_, World> {
        self.world.borrow_mut()
    }

    /// Stops until the task is due. Handles the events before that, up to one with which a task
    /// continues, which may be this task again.
    #[inline(always)]
    fn suspend<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        let next = world.advance();
        drop(world);
        self.stop(next)
    }

    /// Lets the next task continue until this one is due, and handles interrupts in between.
    #[inline(always)]
    fn stop(&self, next: Option<u16>) -> RefMut<'_, World> {
        self.switch_to(next);
        self.continues()
    }

    /// Lets the next task continue until this one does.
    #[inline(always)]
    fn switch_to(&self, next: Option<u16>) {
        if next != Some(self.task) {
            self.threads.switch(self.task, next);
        }
    }

    /// Begins or continues when the task is due or interrupted; handles interrupts until it is due.
    #[inline(always)]
    pub(super) fn continues(&self) -> RefMut<'_, World> {
        let mut world = self.world();
        let is_interrupted = world.take_interrupt(self.task);
        if is_interrupted { self.handle_interrupts(world) } else { world }
    }

    /// Handles interrupts until the task is due.
    #[cold]
    fn handle_interrupts<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        let mut is_interrupted = true;
        while is_interrupted {
            drop(world);
            self.handle_interrupt();
            let next = self.world().advance();
            self.switch_to(next);
            world = self.world();
            is_interrupted = world.take_interrupt(self.task);
        }
        world
    }

    /// Handles an interrupt, and all others that come in the meantime.
    fn handle_interrupt(&self) {
        let handler = self.ipi_handler.expect("a task without a handler is not interrupted");
        loop {
            self.spend(TimeRow::Interrupted, |world| world.costs.interrupt_entry);
            self.world().tasks[usize::from(self.task)].irqs_off_depth += 1;
            handler(self, self.cpu());
            self.world().tasks[usize::from(self.task)].irqs_off_depth -= 1;
            if !self.world().end_interrupt(self.task) {
                return;
            }
        }
    }

    /// Clears or copies lines of this node's memory, in `alone` ps where nobody else does: it waits for its turn at that memory.
    pub fn stream(&self, lines: u32, alone: Time) {
        let mut world = self.turn(self.world());
        world.stream(self.task, lines, alone);
        if world.can_be_delayed(self.task) {
            self.turn(world);
        }
    }

    /// Ends an operation of the task.
    pub fn operation_done(&self) {
        let mut world = self.world();
        if world.cpus_are_shared {
            // Which other tasks want the CPU is known only once all earlier events are handled.
            world = self.turn(world);
        }
        if world.operation_done(self.task) {
            self.suspend(world);
        }
    }

    /// Whether the window has begun for this task.
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
    fn word<W>(&self, word: &W) -> WordAddress {
        let offset = (ptr::from_ref(word) as usize - self.base) as u32;
        WordAddress { offset, size: size_of::<W>() as u8 }
    }

    /// Waits until no other event is due before the task. Never inlined, so that callers which
    /// seldom need it pay nothing for it.
    #[inline(never)]
    pub(super) fn turn<'w>(&'w self, mut world: RefMut<'w, World>) -> RefMut<'w, World> {
        if world.must_yield(self.task) { self.suspend(world) } else { world }
    }

    /// Gets a line to read it, or to read and write it.
    #[inline(always)]
    fn get_line(&self, request: LineRequest) -> (RefMut<'_, World>, LineGrant) {
        let mut world = self.world();
        loop {
            if let Some(grant) = world.request_line(self.task, request) {
                return (world, grant);
            }
            world = self.suspend(world);
            // Nothing was granted if an interrupt came before the request was issued.
            if let Some(grant) = world.tasks[usize::from(self.task)].granted.take() {
                return (world, grant);
            }
        }
    }

    /// Waits until all stores of the task are done: what the kernel does comes after them.
    fn enter_kernel(&self) -> RefMut<'_, World> {
        let mut world = self.turn(self.world());
        while !world.tasks[usize::from(self.task)].stores.is_empty() {
            world.drain(self.task);
            world = self.turn(world);
        }
        world
    }

    // `load`, `modify` and `store` are for words of all sizes, so that everything an access does is
    // compiled together, and once. What seldom happens is a function of its own: the others then save
    // no registers for it.

    fn load(&self, word: WordAddress) -> u64 {
        self.load_in(self.world(), word, false)
    }

    #[inline(always)]
    fn load_in(&self, mut world: RefMut<World>, word: WordAddress, after_stores: bool) -> u64 {
        let request = LineRequest { line: word.line(), how: LineUse::Load, after_stores };
        match world.use_own_line(self.task, word, request, |_| None) {
            Some(value) => value,
            None => {
                drop(world);
                self.load_after_request(word, request)
            }
        }
    }

    #[inline(never)]
    fn load_after_request(&self, word: WordAddress, request: LineRequest) -> u64 {
        let (mut world, grant) = self.get_line(request);
        world.use_line(self.task, word, request.how, grant, |_| None)
    }

    fn modify(&self, word: WordAddress, op: Op<u64>) -> u64 {
        let request = LineRequest { line: word.line(), how: LineUse::Atomic, after_stores: true };
        let (mut world, grant) = self.get_line(request);
        world.use_line(self.task, word, request.how, grant, |old| op.written(old, word.size))
    }

    fn store(&self, word: WordAddress, new: u64) {
        self.store_in(self.world(), word, new);
    }

    #[inline(always)]
    fn store_in<'w>(&'w self, mut world: RefMut<'w, World>, word: WordAddress, new: u64) {
        if world.must_yield(self.task) {
            world = self.suspend(world);
        }
        world.store(self.task, word, new);
    }

    #[inline]
    fn spend(&self, row: TimeRow, cost: impl FnOnce(&World) -> Time) {
        let mut world = self.world();
        let cost = cost(&world);
        world.spend(self.task, row, cost);
    }

    /// Waits for a word, but no longer than `timeout`. Returns the value that ended the wait.
    fn wait(&self, word: WordAddress, until: Until<u64>, timeout: Time) -> Option<u64> {
        let seen = self.load(word);
        if until.holds(seen) {
            return Some(seen);
        }
        let mut world = self.world();
        let deadline = world.tasks[usize::from(self.task)].time.saturating_add(timeout);
        world.wait(self.task, WordWait { word, until, deadline });
        self.suspend(world).tasks[usize::from(self.task)].seen
    }

    /// Sleeps if the word has the expected value, after the time that leaving the CPU takes.
    fn sleep(&self, word: WordAddress, expected: u32, leaving: Time) {
        if self.load_in(self.world(), word, true) == u64::from(expected) {
            let mut world = self.world();
            world.sleep(self.task, word.offset, leaving);
            self.suspend(world);
        }
    }

    fn wake_sleepers(&self, word: WordAddress, whom: Sleepers) {
        self.enter_kernel().wake(self.task, word.offset, whom);
    }

    /// Exits to the host if the task, which has just paused for this long, has done nothing else
    /// for the window of pause-loop exiting.
    #[cold]
    fn exit_if_pause_loop<'w>(&'w self, mut world: RefMut<'w, World>, paused: Time) {
        if !world.is_pause_loop(self.task, paused) {
            return;
        }
        let mut world = self.turn(world);
        if world.exit_for_pausing(self.task) {
            self.suspend(world);
        }
    }

    /// Pays for the use of a plain field whose line the CPU has, without a look at other events.
    /// Returns whether it has the line, and no stores are pending.
    #[inline(always)]
    fn uses_cached(&self, world: &mut World, word: WordAddress, how: LineUse) -> bool {
        let this = &world.tasks[usize::from(self.task)];
        if !this.stores.is_empty() || !world.lines.hit(word.line(), this.cpu, how, this.time) {
            return false;
        }
        world.accesses += 1;
        let cost = if how == LineUse::Load { world.costs.load } else { world.costs.store };
        world.spend(self.task, TimeRow::Local, cost);
        true
    }

    fn prefetch_line(&self, line: u32) {
        let mut world = self.world();
        if world.must_yield(self.task) {
            world = self.suspend(world);
        }
        world.prefetch(self.task, line);
    }

    fn load_field(&self, word: WordAddress) -> u64 {
        let mut world = self.world();
        world.await_prefetched(self.task, word.line());
        if self.uses_cached(&mut world, word, LineUse::Load) {
            world.read(word)
        } else {
            self.load_in(world, word, false)
        }
    }

    fn store_field(&self, word: WordAddress, new: u64) {
        let mut world = self.world();
        if self.uses_cached(&mut world, word, LineUse::Store) {
            world.write(word, new);
        } else {
            self.store_in(world, word, new);
        }
    }

    fn arrives(&self) {
        self.world().invariants.arrives(self.task);
    }

    fn enters(&self, annotation: Annotation) {
        let mut world = self.world();
        world.tasks[usize::from(self.task)].inside = true;
        if let Err(why) = world.invariants.enters(self.task, annotation) {
            drop(world);
            panic!("{why}");
        }
    }

    fn leaves(&self, annotation: Annotation) {
        let this = &mut self.world().tasks[usize::from(self.task)];
        // The task's own time is ahead: it leaves once that time has come.
        (this.inside, this.leaving) = (false, Some(annotation));
    }
}

impl Machine for Simulated<'_> {
    type HistoryMark = ();

    #[inline(always)]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        let word = self.word(atom);
        T::from_bits(match op {
            Op::Load => self.load(word),
            // As compilers for x86 have it: an exchange, which no later load passes.
            Op::Store(new) if ordering == Ordering::SeqCst => {
                self.modify(word, Op::Swap(new).widened())
            }
            Op::Store(new) => {
                self.store(word, new.bits());
                0
            }
            op => self.modify(word, op.widened()),
        })
    }

    #[inline(always)]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, _: Ordering) -> T {
        let seen = self.wait(self.word(atom), until.widened(), Time::MAX);
        T::from_bits(seen.expect("a wait without a deadline ends when its condition holds"))
    }

    #[inline(always)]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        _: Ordering,
        tries: u32,
    ) -> Option<T> {
        let timeout = self.world().costs.pause * Time::from(tries);
        self.wait(self.word(atom), until.widened(), timeout).map(T::from_bits)
    }

    #[inline(always)]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        T::from_bits(self.load_field(self.word(field)))
    }

    fn prefetch<T: Value>(&self, field: &Field<T>) {
        self.prefetch_line(self.word(field).line());
    }

    #[inline(always)]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        self.store_field(self.word(field), value.bits());
    }

    #[inline(always)]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        self.store_field(self.word(atom), value.bits());
    }

    fn park(&self, atom: &Atom<u32>, expected: u32) {
        // The kernel queues the task and compares the word as soon as it has found the queue, which
        // is all that a call which wakes no task does. Only then does the task leave its CPU.
        let Costs { park, wake, .. } = self.world().costs;
        let entry = park.min(wake);
        self.spend(TimeRow::System, |_| entry);
        self.sleep(self.word(atom), expected, park - entry);
    }

    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        self.spend(TimeRow::System, |world| world.costs.wake);
        self.wake_sleepers(self.word(atom), whom);
    }

    fn park_as(&self, atom: &Atom<u32>, expected: u32, sleep: Sleep) -> SleepEnd {
        if sleep.timed || sleep.bits != u32::MAX {
            let what =
                if sleep.timed { "a sleep with a time-out" } else { "a sleep for some bits" };
            Unsupported::new(
                format!("{what} cannot be simulated"),
                "simulate the lock with sleeps that any wake-up ends",
            )
            .stop();
        }
        self.park(atom, expected);
        SleepEnd::Woken
    }

    /// How many were woken is not known before they run.
    fn wake_bits(&self, atom: &Atom<u32>, whom: Sleepers, _: u32) -> u32 {
        self.wake(atom, whom);
        0
    }

    fn requeue(&self, _: &Atom<u32>, _: &Atom<u32>, _: Requeue) -> Option<[u32; 2]> {
        Unsupported::new(
            "a requeue of sleepers (FUTEX_REQUEUE) cannot be simulated".to_string(),
            "simulate the lock with wake-ups of all instead",
        )
        .stop();
    }

    fn halt(&self, atom: &Atom<u32>, expected: u32) {
        let cost = |world: &World| world.guest.map_or(world.costs.park, |guest| guest.vm_exit);
        self.spend(TimeRow::System, cost);
        self.sleep(self.word(atom), expected, 0);
    }

    fn kick(&self, atom: &Atom<u32>) {
        let cost = |world: &World| world.guest.map_or(world.costs.wake, |guest| guest.kick);
        self.spend(TimeRow::System, cost);
        self.wake_sleepers(self.word(atom), Sleepers::One);
    }

    fn send_ipi(&self, whom: IpiTarget) {
        let own = self.cpu();
        let mut world = self.enter_kernel();
        match whom {
            IpiTarget::One(number) => world.send_ipi(self.task, [number].into_iter()),
            IpiTarget::Others => {
                let numbers = 0..world.tasks.len() - world.task_count;
                world.send_ipi(self.task, numbers.filter(|&number| number != own));
            }
        }
    }

    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.world().tasks[usize::from(self.task)].irqs_off_depth += 1;
        let result = body();
        let is_interrupted = {
            let this = &mut self.world().tasks[usize::from(self.task)];
            this.irqs_off_depth -= 1;
            this.irqs_off_depth == 0 && std::mem::take(&mut this.interrupt_pending)
        };
        if is_interrupted {
            self.handle_interrupt();
        }
        result
    }

    fn cpu_relax(&self, turns: u32) {
        let mut world = self.world();
        let cost = world.costs.pause * Time::from(turns);
        world.spend(self.task, TimeRow::Spinning, cost);
        if world.pause_loops.is_some() {
            self.exit_if_pause_loop(world, cost);
        }
    }

    fn random_backoff(&self, below: u32) {
        let turns = self.random(below);
        self.cpu_relax(turns);
    }

    fn work(&self, ns: u64) {
        let mut world = self.world();
        let inside = world.tasks[usize::from(self.task)].inside;
        world.spend(
            self.task,
            if inside { TimeRow::Inside } else { TimeRow::Work },
            ns * super::NS,
        );
        if world.can_be_delayed(self.task) {
            self.turn(world);
        }
    }

    fn preemption_point(&self) {
        let world = self.world();
        if !world.cpus_are_shared {
            return;
        }
        // Which other tasks want the CPU is known only once all earlier events are handled.
        let mut world = self.turn(world);
        if world.preemption_point(self.task) {
            self.suspend(world);
        }
    }

    fn cpu(&self) -> usize {
        if self.moves {
            self.world.borrow().tasks[usize::from(self.task)].cpu.into()
        } else {
            self.cpu
        }
    }

    fn node(&self) -> usize {
        if self.moves { self.world.borrow().lines.node(self.cpu()) } else { self.node }
    }

    fn task(&self) -> usize {
        self.task.into()
    }

    fn random(&self, bound: u32) -> u32 {
        below(&mut self.world().tasks[usize::from(self.task)].random, bound)
    }

    fn chance(&self, one_in: u32) -> bool {
        self.random(one_in) == 0
    }

    /// A full fence waits until the stores are done. The other fences cost nothing: x86 keeps that order anyway.
    fn fence(&self, ordering: Ordering) {
        if ordering == Ordering::SeqCst {
            drop(self.enter_kernel());
            self.spend(TimeRow::Local, |world| world.costs.atomic);
        }
    }

    fn history_mark(&self) {}

    fn forget_history(&self, (): (), _: u64) {}

    #[inline(always)]
    fn annotate(&self, annotation: Annotation) {
        match annotation {
            Annotation::Want | Annotation::WantShared => {}
            Annotation::Arrive => self.arrives(),
            Annotation::Enter | Annotation::EnterShared => self.enters(annotation),
            Annotation::Leave | Annotation::LeaveShared => self.leaves(annotation),
        }
    }
}
