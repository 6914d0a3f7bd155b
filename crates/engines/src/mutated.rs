//! Mutants: a machine on which one access of the source code does less than it says. A check
//! that cannot tell the mutant from the original does not test that access.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use machine::{
    Annotation, Atom, CodeSite, Dependencies, Field, IpiTarget, Machine, Op, Ordering, Requeue,
    Sleep, SleepEnd, Sleepers, Until, Value,
};

use crate::orders::{OrderLimit, Ordered, OrderedAccess, common_order, union};

/// What a mutant changes about an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AccessChange {
    /// The access is relaxed.
    Relaxed,
    /// The read-modify-write no longer acquires, but still releases.
    NoAcquire,
    /// The read-modify-write no longer releases, but still acquires.
    NoRelease,
    /// Nothing is written, no task is woken, or no interrupt is sent.
    Skipped,
    /// The value written is too large by one.
    OffByOne,
    /// The wait returns immediately.
    NoWait,
    /// The read-modify-write is a load and then a store.
    Torn,
    /// The wait runs with interrupts off.
    IrqsOff,
}

/// An algorithm with one access changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mutant {
    /// Where the access is in the algorithm's source.
    pub site: CodeSite,
    /// What the access does instead.
    pub change: AccessChange,
}

impl fmt::Display for AccessChange {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            AccessChange::Relaxed => "relaxed",
            AccessChange::NoAcquire => "no acquire",
            AccessChange::NoRelease => "no release",
            AccessChange::Skipped => "skipped",
            AccessChange::OffByOne => "off by one",
            AccessChange::NoWait => "no wait",
            AccessChange::Torn => "torn",
            AccessChange::IrqsOff => "interrupts off",
        })
    }
}

/// What an algorithm's accesses are, for those who change them.
#[derive(Debug, Default)]
pub struct Collected {
    /// The possible changes of each access.
    pub mutants: BTreeSet<Mutant>,
    /// All accesses that are ordered, with the strongest order that each has had.
    pub orders: BTreeMap<OrderedAccess, Ordering>,
}

impl Collected {
    /// Adds an access of this order.
    fn add_order(&mut self, access: OrderedAccess, order: Ordering) {
        if order != Ordering::Relaxed {
            let strongest = self.orders.entry(access).or_insert(order);
            *strongest = union(*strongest, order);
        }
    }
}

/// A machine that applies a mutant, limits orders, or collects what can be changed.
#[derive(Debug)]
pub struct Mutated<'a, M> {
    machine: &'a M,
    mutant: Option<Mutant>,
    limits: &'a [OrderLimit],
    collected: Option<&'a RefCell<Collected>>,
    /// Where the next accesses stand, if not where this machine is called.
    site: Cell<Option<CodeSite>>,
}

impl<'a, M> Mutated<'a, M> {
    /// A machine that changes nothing.
    pub fn unchanged(machine: &'a M) -> Mutated<'a, M> {
        Mutated { machine, mutant: None, limits: &[], collected: None, site: Cell::new(None) }
    }

    /// A machine that applies this mutant.
    pub fn new(machine: &'a M, mutant: Mutant) -> Mutated<'a, M> {
        Mutated { mutant: Some(mutant), ..Mutated::unchanged(machine) }
    }

    /// A machine whose accesses order no more than these limits say.
    pub fn weakened(machine: &'a M, limits: &'a [OrderLimit]) -> Mutated<'a, M> {
        Mutated { limits, ..Mutated::unchanged(machine) }
    }

    /// A machine that changes nothing, and collects the possible mutants and the order of each access.
    pub fn collecting(machine: &'a M, collected: &'a RefCell<Collected>) -> Mutated<'a, M> {
        Mutated { collected: Some(collected), ..Mutated::unchanged(machine) }
    }

    /// The change to apply at the caller's site.
    #[track_caller]
    fn change(&self, possible: &[AccessChange]) -> Option<AccessChange> {
        let called_at = CodeSite::caller();
        let at = self.site.get().unwrap_or(called_at);
        if let Some(collected) = self.collected {
            let mutants = possible.iter().map(|&change| Mutant { site: at, change });
            collected.borrow_mut().mutants.extend(mutants);
        }
        let Mutant { site, change } = self.mutant?;
        (site == at).then_some(change)
    }

    /// The order of an access at the caller's site.
    #[track_caller]
    fn order(&self, ordered: Ordered, order: Ordering) -> Ordering {
        if self.limits.is_empty() && self.collected.is_none() {
            return order;
        }
        let called_at = CodeSite::caller();
        let access = OrderedAccess { site: self.site.get().unwrap_or(called_at), ordered };
        if let Some(collected) = self.collected {
            collected.borrow_mut().add_order(access, order);
        }
        let limits = self.limits.iter().filter(|limit| limit.access == access);
        limits.fold(order, |order, limit| common_order(order, limit.order))
    }
}

/// The possible changes of an access. A slice, because a stopped task may not own heap memory.
fn changes<T>(op: &Op<T>, ordering: Ordering) -> &'static [AccessChange] {
    use AccessChange::{NoAcquire, NoRelease, OffByOne, Relaxed, Skipped, Torn};
    match (op, ordering) {
        (Op::Load, Ordering::Relaxed) => &[],
        (Op::Load, _) => &[Relaxed],
        (Op::Store(_), Ordering::Relaxed) => &[Skipped, OffByOne],
        (Op::Store(_), _) => &[Relaxed, Skipped, OffByOne],
        (_, Ordering::Relaxed) => &[Skipped, OffByOne, Torn],
        (_, Ordering::Acquire | Ordering::Release) => &[Relaxed, Skipped, OffByOne, Torn],
        _ => &[NoAcquire, NoRelease, Skipped, OffByOne, Torn],
    }
}

fn off_by_one<T: Value>(op: Op<T>) -> Op<T> {
    let plus_one = |value: T| T::from_bits(value.bits().wrapping_add(1));
    match op {
        Op::Load => Op::Load,
        Op::Store(value) => Op::Store(plus_one(value)),
        Op::Swap(value) => Op::Swap(plus_one(value)),
        Op::CompareExchange(old, new) => Op::CompareExchange(old, plus_one(new)),
        Op::Add(value) => Op::Add(plus_one(value)),
        Op::Or(bits) => Op::Or(plus_one(bits)),
        Op::And(bits) => Op::And(plus_one(bits)),
        Op::Xor(bits) => Op::Xor(plus_one(bits)),
    }
}

fn load_ordering(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Release => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    }
}

fn store_ordering(ordering: Ordering) -> Ordering {
    match ordering {
        Ordering::Acquire => Ordering::Relaxed,
        Ordering::AcqRel => Ordering::Release,
        other => other,
    }
}

impl<M: Machine> Machine for Mutated<'_, M> {
    type HistoryMark = M::HistoryMark;

    #[track_caller]
    fn op<T: Value>(&self, atom: &Atom<T>, op: Op<T>, ordering: Ordering) -> T {
        let ordering = self.order(Ordered::of(&op), ordering);
        let relaxed = match self.change(changes(&op, ordering)) {
            None => ordering,
            Some(AccessChange::NoAcquire) => Ordering::Release,
            Some(AccessChange::NoRelease) => Ordering::Acquire,
            Some(AccessChange::Skipped) => match op {
                Op::Store(_) => return T::ZERO,
                _ => return self.machine.op(atom, Op::Load, load_ordering(ordering)),
            },
            Some(AccessChange::OffByOne) => return self.machine.op(atom, off_by_one(op), ordering),
            Some(AccessChange::Torn) => {
                let old = self.machine.op(atom, Op::Load, load_ordering(ordering));
                if let Some(new) = op.widened().written(old.bits(), size_of::<T>() as u8) {
                    let store = Op::Store(T::from_bits(new));
                    self.machine.op(atom, store, store_ordering(ordering));
                }
                return old;
            }
            Some(_) => Ordering::Relaxed,
        };
        self.machine.op(atom, op, relaxed)
    }

    #[track_caller]
    fn await_until<T: Value>(&self, atom: &Atom<T>, until: Until<T>, ordering: Ordering) -> T {
        let ordering = self.order(Ordered::Load, ordering);
        let relaxing = if ordering == Ordering::Relaxed { 1 } else { 0 };
        let changes = [AccessChange::Relaxed, AccessChange::NoWait, AccessChange::IrqsOff];
        // In other languages a wait is a loop over loads, which loads again whatever this returns.
        let possible = if self.site.get().is_some() { 1 } else { 3 };
        match self.change(&changes[relaxing.min(possible)..possible]) {
            None => self.machine.await_until(atom, until, ordering),
            Some(AccessChange::NoWait) => self.machine.op(atom, Op::Load, ordering),
            Some(AccessChange::IrqsOff) => {
                self.machine.with_irqs_off(|| self.machine.await_until(atom, until, ordering))
            }
            Some(_) => self.machine.await_until(atom, until, Ordering::Relaxed),
        }
    }

    #[track_caller]
    fn await_for<T: Value>(
        &self,
        atom: &Atom<T>,
        until: Until<T>,
        ordering: Ordering,
        tries: u32,
    ) -> Option<T> {
        let ordering = self.order(Ordered::Load, ordering);
        let relaxing = if ordering == Ordering::Relaxed { 1 } else { 0 };
        match self.change(&[AccessChange::Relaxed, AccessChange::NoWait][relaxing..]) {
            None => self.machine.await_for(atom, until, ordering, tries),
            Some(AccessChange::NoWait) => None,
            Some(_) => self.machine.await_for(atom, until, Ordering::Relaxed, tries),
        }
    }

    #[track_caller]
    fn get<T: Value>(&self, field: &Field<T>) -> T {
        self.machine.get(field)
    }

    #[track_caller]
    fn set<T: Value>(&self, field: &Field<T>, value: T) {
        if self.change(&[AccessChange::Skipped]).is_none() {
            self.machine.set(field, value);
        }
    }

    #[track_caller]
    fn init<T: Value>(&self, atom: &Atom<T>, value: T) {
        if self.change(&[AccessChange::Skipped]).is_none() {
            self.machine.init(atom, value);
        }
    }

    #[track_caller]
    fn poison<T: Value>(&self, atom: &Atom<T>) {
        self.machine.poison(atom);
    }

    #[track_caller]
    fn poison_field<T: Value>(&self, field: &Field<T>) {
        self.machine.poison_field(field);
    }

    #[track_caller]
    fn park(&self, atom: &Atom<u32>, expected: u32) {
        if self.change(&[AccessChange::NoWait]).is_none() {
            self.machine.park(atom, expected);
        }
    }

    #[track_caller]
    fn wake(&self, atom: &Atom<u32>, whom: Sleepers) {
        if self.change(&[AccessChange::Skipped]).is_none() {
            self.machine.wake(atom, whom);
        }
    }

    #[track_caller]
    fn park_as(&self, atom: &Atom<u32>, expected: u32, sleep: Sleep) -> SleepEnd {
        match self.change(&[AccessChange::NoWait]) {
            Some(_) => SleepEnd::Woken,
            None => self.machine.park_as(atom, expected, sleep),
        }
    }

    #[track_caller]
    fn wake_bits(&self, atom: &Atom<u32>, whom: Sleepers, bits: u32) -> u32 {
        match self.change(&[AccessChange::Skipped]) {
            Some(_) => 0,
            None => self.machine.wake_bits(atom, whom, bits),
        }
    }

    #[track_caller]
    fn requeue(&self, atom: &Atom<u32>, to: &Atom<u32>, how: Requeue) -> Option<[u32; 2]> {
        match self.change(&[AccessChange::Skipped]) {
            Some(_) => Some([0, 0]),
            None => self.machine.requeue(atom, to, how),
        }
    }

    #[track_caller]
    fn send_ipi(&self, whom: IpiTarget) {
        if self.change(&[AccessChange::Skipped]).is_none() {
            self.machine.send_ipi(whom);
        }
    }

    fn with_irqs_off<R>(&self, body: impl FnOnce() -> R) -> R {
        self.machine.with_irqs_off(body)
    }

    fn cpu_relax(&self, turns: u32) {
        self.machine.cpu_relax(turns);
    }

    fn random_backoff(&self, below: u32) {
        self.machine.random_backoff(below);
    }

    fn work(&self, ns: u64) {
        self.machine.work(ns);
    }

    fn preemption_point(&self) {
        self.machine.preemption_point();
    }

    fn cpu(&self) -> usize {
        self.machine.cpu()
    }

    fn node(&self) -> usize {
        self.machine.node()
    }

    fn task(&self) -> usize {
        self.machine.task()
    }

    #[track_caller]
    fn random(&self, below: u32) -> u32 {
        self.machine.random(below)
    }

    #[track_caller]
    fn chance(&self, one_in: u32) -> bool {
        self.machine.chance(one_in)
    }

    fn history_mark(&self) -> M::HistoryMark {
        self.machine.history_mark()
    }

    #[track_caller]
    fn forget_history(&self, since: M::HistoryMark, live: u64) {
        self.machine.forget_history(since, live);
    }

    #[track_caller]
    fn fence(&self, ordering: Ordering) {
        let ordering = self.order(Ordered::Fence, ordering);
        let is_there = self.change(&[AccessChange::Skipped]).is_none();
        if is_there && ordering != Ordering::Relaxed {
            self.machine.fence(ordering);
        }
    }

    fn names_dependencies(&self) -> bool {
        self.machine.names_dependencies()
    }

    fn peek<T: Value>(&self, atom: &Atom<T>) -> Option<T> {
        self.machine.peek(atom)
    }

    fn is_timeless(&self) -> bool {
        self.machine.is_timeless()
    }

    fn reads_old_values(&self) -> bool {
        self.machine.reads_old_values()
    }

    fn last_read(&self) -> Option<u8> {
        self.machine.last_read()
    }

    fn open_reads(&self) -> u128 {
        self.machine.open_reads()
    }

    fn access_mark(&self) -> u8 {
        self.machine.access_mark()
    }

    fn forget_accesses(&self, since: u8) {
        self.machine.forget_accesses(since);
    }

    fn depends_on(&self, dependencies: Dependencies) {
        self.machine.depends_on(dependencies);
    }

    fn depend<T: Value>(&self, atom: &Atom<T>) {
        self.machine.depend(atom);
    }

    #[track_caller]
    fn fails_with(&self, ordering: Ordering) {
        let ordering = self.order(Ordered::Failure, ordering);
        self.machine.fails_with(ordering);
    }

    fn at(&self, site: Option<CodeSite>) {
        self.site.set(site);
        self.machine.at(site);
    }

    fn annotate(&self, annotation: Annotation) {
        self.machine.annotate(annotation);
    }
}
