//! Which orders of an algorithm's accesses are needed: each is weakened alone, and then as many as possible at a time.
//!
//!     access        today     alone                           in a weakest set
//!     tail swap     acq_rel   acq_rel: without release, …     acq_rel
//!     next load     acquire   relaxed                         relaxed, or acquire where another one is weaker
//!
//! What holds with an order holds with a stronger one, too: so the weakest order of an access is the first that holds, and
//! whoever finds that a set fails has found it of all weaker sets.

use anyhow::Result;
use engines::checker::{Failure, Memory, Options, search};
use engines::{OrderLimit, Ordered, OrderedAccess, Unsupported, common_order};
use host::in_parallel;
use machine::Ordering;

use super::mutants::{PossibleMutants, line_of, possible};
use super::{CheckSize, Mutation, with_tasks};
use crate::subject::Subject;

/// Sizes in which the algorithm as it is has more states are not searched whole.
const STATES_MAX: u64 = 60_000;

/// How many states more a weakened one may have.
const WEAKENED_STATES_MAX: u64 = 4 * STATES_MAX;

/// How much of larger sizes is searched for what holds in all others: a fault takes few states where there is one.
const PARTIAL_STATES_MAX: u64 = 20_000;

/// The most sets that are considered, and states of all their searches, if every set is to be tried.
const SETS_MAX: usize = 4096;
const SETS_STATES_MAX: u64 = 3_000_000;

/// The orders of an algorithm, judged under a memory model.
pub struct Orderings {
    /// The memory model.
    pub memory: Memory,
    /// The sizes that were searched whole, and those of which a part was.
    pub sizes: [Vec<CheckSize>; 2],
    /// All accesses and fences that are not relaxed, in the order of the source.
    pub accesses: Vec<JudgedOrder>,
    /// Orders that are all weakened at a time.
    pub set: WeakestSet,
}

/// An access or a fence, and how strong it must be.
pub struct JudgedOrder {
    /// The access.
    pub access: OrderedAccess,
    /// Its source line.
    pub line: String,
    /// Its order in the source.
    pub today: Ordering,
    /// The weakest order that holds while all others are as they are.
    pub alone: Ordering,
    /// That order under x86, if the model is a weaker one.
    pub on_x86: Option<Ordering>,
    /// Its order in the weakest set.
    pub in_set: Ordering,
    /// What shows that the order alone cannot be weaker: one execution for each order right below it.
    pub refutations: Vec<Refutation>,
    /// Weaker orders of which nothing is known: their searches gave up.
    pub unknown: Vec<Ordering>,
    /// All orders that hold, the weakest first, today's last.
    holding: Vec<Ordering>,
}

/// What fails with an order that is too weak.
pub struct Refutation {
    /// The order.
    pub order: Ordering,
    /// The tasks.
    pub size: CheckSize,
    /// The fault, and a shortest execution that leads to it.
    pub failure: Failure,
}

/// Orders that hold together, none of which can be weaker while the others are as they are here.
pub struct WeakestSet {
    /// How many such sets there are, if all sets were tried. `None`: accesses were weakened one after the other, the
    /// costliest first.
    pub of: Option<usize>,
    /// How many sets were searched.
    pub searched: usize,
    /// The states of the last check, of the set in all sizes.
    pub states: u64,
    /// A fault of the last check, which covers more than the searches that led to the set.
    pub failure: Option<Failure>,
}

/// What judging came to.
pub enum Judged {
    /// The orders were judged.
    Orders(Orderings),
    /// The algorithm as it is has a fault, which hides those of weaker orders.
    Faulty(CheckSize, Box<Failure>),
}

/// Judges the orders of a lock or a program in C.
///
/// # Errors
/// It is a mechanism, or the checker lacks something: `Unsupported`.
pub fn judge(subject: &Subject, memory: Memory) -> Result<Judged> {
    if let Subject::Mechanism(_) = subject {
        let why = "orders of mechanisms are not judged";
        return Err(Unsupported::new(why, "name a lock, or a file with one in C").into());
    }
    if let Some((size, failure)) = fault(subject, &[], &SMALL, memory, STATES_MAX)?.fault {
        return Ok(Judged::Faulty(size, failure));
    }
    let PossibleMutants { orders, mut sizes, mut larger_sizes, .. } = possible(subject)?;
    if !subject.is_lock() || subject.is_read_write_lock() {
        // Their tasks take a single lock.
        sizes.retain(|size| size.locks == 1);
        larger_sizes.retain(|size| size.locks == 1);
    }
    let mut searched = [Vec::new(), larger_sizes];
    for size in sizes {
        match fault(subject, &[], &[size], memory, STATES_MAX)? {
            Searched { fault: Some((size, failure)), .. } => {
                return Ok(Judged::Faulty(size, failure));
            }
            Searched { unsupported: Some(why), .. } if size == SMALL[0] => return Err(why.into()),
            Searched { unsupported: Some(_), .. } => {}
            Searched { gave_up, .. } => searched[usize::from(gave_up)].push(size),
        }
    }
    let judge = Judge { subject, memory, sizes: searched };
    let orders: Vec<_> = orders.into_iter().collect();
    let judged = in_parallel(orders.len(), |i| judge.alone(orders[i].0, orders[i].1));
    let mut accesses = judged.into_iter().collect::<Result<Vec<_>>>()?;
    let set = judge.weakest_set(&mut accesses)?;
    Ok(Judged::Orders(Orderings { memory, sizes: judge.sizes, accesses, set }))
}

/// The size in which most locks that are wrong fail already.
const SMALL: [CheckSize; 1] = [CheckSize { threads: 2, acquires: 1, locks: 1 }];

/// What searches of several sizes found.
#[derive(Default)]
struct Searched {
    fault: Option<(CheckSize, Box<Failure>)>,
    /// A search ended at its number of states, or was not possible.
    gave_up: bool,
    unsupported: Option<Unsupported>,
    states: u64,
}

/// Searches these sizes with these limits until one has a fault.
fn fault(
    subject: &Subject,
    limits: &[OrderLimit],
    sizes: &[CheckSize],
    memory: Memory,
    states_max: u64,
) -> Result<Searched> {
    let mut all = Searched::default();
    let options = Options { memory, states_max, ..Options::default() };
    for &size in sizes {
        let mutation = Mutation::Weaken(limits);
        let searched = with_tasks(subject, size, mutation, |setup| search(setup, &options))??;
        all.states += searched.states;
        all.gave_up |= searched.gave_up;
        let Some(failure) = searched.failure else { continue };
        if let Some(unsupported) = failure.unsupported() {
            (all.gave_up, all.unsupported) = (true, Some(unsupported.clone()));
            continue;
        }
        all.fault = Some((size, Box::new(failure)));
        break;
    }
    Ok(all)
}

/// What is judged, and how.
struct Judge<'a> {
    subject: &'a Subject,
    memory: Memory,
    sizes: [Vec<CheckSize>; 2],
}

impl Judge<'_> {
    /// Searches with these limits: all of the small sizes, then a part of the large ones.
    fn search(&self, limits: &[OrderLimit], memory: Memory) -> Result<Searched> {
        let [whole, partial] = &self.sizes;
        let searched = fault(self.subject, limits, whole, memory, WEAKENED_STATES_MAX)?;
        if searched.fault.is_some() || searched.gave_up {
            return Ok(searched);
        }
        let part = fault(self.subject, limits, partial, memory, PARTIAL_STATES_MAX)?;
        let states = searched.states + part.states;
        Ok(Searched { fault: part.fault, states, ..Searched::default() })
    }

    /// Weakens one access alone.
    fn alone(&self, access: OrderedAccess, today: Ordering) -> Result<JudgedOrder> {
        let weakened = self.weaken(access, today, self.memory, &[])?;
        let on_x86 = match self.memory {
            // What x86 shows, RC11 does: what holds there need not be searched again.
            Memory::Rc11 => {
                let x86 = Memory::TotalStoreOrder;
                Some(self.weaken(access, today, x86, &weakened.holding)?.holding[0])
            }
            _ => None,
        };
        let alone = weakened.holding[0];
        let below = access.ordered.weaker_than(alone);
        let is_right_below = |order: &Ordering| {
            let mut above = below.iter().filter(|&&other| other != *order);
            !above.any(|&other| is_at_most(*order, other))
        };
        let refuted = weakened.refuted.into_iter().filter(|(order, ..)| is_right_below(order));
        let refutations = refuted
            .map(|(order, size, failure)| self.shown(access, order, size, *failure))
            .collect::<Result<_>>()?;
        Ok(JudgedOrder {
            line: line_of(&access.site, &self.subject.sources()),
            access,
            today,
            alone,
            on_x86,
            in_set: today,
            refutations,
            unknown: weakened.unknown,
            holding: weakened.holding,
        })
    }

    /// Searches with each weaker order, but for those that are known to hold.
    fn weaken(
        &self,
        access: OrderedAccess,
        today: Ordering,
        memory: Memory,
        known: &[Ordering],
    ) -> Result<WeakenedAccess> {
        let mut weakened = WeakenedAccess::default();
        for &order in access.ordered.weaker_than(today) {
            let holds = |&holding: &Ordering| is_at_most(holding, order);
            if known.contains(&order) || weakened.holding.iter().any(holds) {
                weakened.holding.push(order);
                continue;
            }
            let searched = self.search(&[OrderLimit { access, order }], memory)?;
            match searched.fault {
                Some((size, failure)) => weakened.refuted.push((order, size, failure)),
                None if searched.gave_up => weakened.unknown.push(order),
                None => weakened.holding.push(order),
            }
        }
        weakened.holding.push(today);
        Ok(weakened)
    }

    /// A refutation with a shortest execution.
    fn shown(
        &self,
        access: OrderedAccess,
        order: Ordering,
        size: CheckSize,
        found: Failure,
    ) -> Result<Refutation> {
        let limits = [OrderLimit { access, order }];
        let states_max = WEAKENED_STATES_MAX;
        let options =
            Options { memory: self.memory, states_max, shortest: true, ..Options::default() };
        let mutation = Mutation::Weaken(&limits);
        let searched = with_tasks(self.subject, size, mutation, |s| search(s, &options))??;
        let shortest = searched.failure.filter(|failure| failure.unsupported().is_none());
        Ok(Refutation { order, size, failure: shortest.unwrap_or(found) })
    }

    /// Weakens as many accesses as possible at a time.
    fn weakest_set(&self, accesses: &mut [JudgedOrder]) -> Result<WeakestSet> {
        let mut sets = Sets { judge: self, accesses, searched: 0, states: 0 };
        let (chosen, of) = match sets.exhaustive()? {
            Some((chosen, of)) => (chosen, Some(of)),
            None => (sets.greedy()?, None),
        };
        let searched = sets.searched;
        let last = self.search(&limits(accesses, &chosen), self.memory)?;
        for (access, order) in accesses.iter_mut().zip(chosen) {
            access.in_set = order;
        }
        let failure = last.fault.map(|(_, failure)| *failure);
        Ok(WeakestSet { of, searched, states: last.states, failure })
    }
}

/// What each weaker order of an access comes to.
#[derive(Default)]
struct WeakenedAccess {
    holding: Vec<Ordering>,
    refuted: Vec<(Ordering, CheckSize, Box<Failure>)>,
    unknown: Vec<Ordering>,
}

fn is_at_most(one: Ordering, other: Ordering) -> bool {
    common_order(one, other) == one
}

fn limits(accesses: &[JudgedOrder], orders: &[Ordering]) -> Vec<OrderLimit> {
    let limit = |(one, &order): (&JudgedOrder, &Ordering)| OrderLimit { access: one.access, order };
    accesses.iter().zip(orders).map(limit).collect()
}

/// What an order costs on hardware that must be told, roughly: a fence more than an access.
fn cost(ordered: Ordered, order: Ordering) -> u32 {
    let cost = match order {
        Ordering::Relaxed => 0,
        Ordering::Acquire | Ordering::Release => 1,
        Ordering::AcqRel => 2,
        _ => 3,
    };
    if ordered == Ordered::Fence { 2 * cost } else { cost }
}

/// Sets of orders, one for each access.
struct Sets<'a> {
    judge: &'a Judge<'a>,
    accesses: &'a [JudgedOrder],
    searched: usize,
    states: u64,
}

type Set = Vec<Ordering>;

impl Sets<'_> {
    fn holds(&mut self, set: &[Ordering]) -> Result<bool> {
        let searched = self.judge.search(&limits(self.accesses, set), self.judge.memory)?;
        self.searched += 1;
        self.states += searched.states;
        Ok(searched.fault.is_none() && !searched.gave_up)
    }

    fn cost(&self, set: &[Ordering]) -> u32 {
        let costs = self.accesses.iter().zip(set).map(|(one, &o)| cost(one.access.ordered, o));
        costs.sum()
    }

    /// The cheapest of all weakest sets, and how many of these there are; `None` if there are too many sets to try.
    fn exhaustive(&mut self) -> Result<Option<(Set, usize)>> {
        let all_weakest: Set = self.accesses.iter().map(|one| one.holding[0]).collect();
        let is_only =
            |one: &JudgedOrder| one.holding.iter().all(|&o| is_at_most(one.holding[0], o));
        if self.accesses.iter().all(is_only) && self.holds(&all_weakest)? {
            return Ok(Some((all_weakest, 1)));
        }
        let choices = self.accesses.iter().map(|one| one.holding.len());
        let sets = choices.fold(1, |sets: usize, choices| sets.saturating_mul(choices));
        if sets > SETS_MAX {
            return Ok(None);
        }
        let mut all: Vec<Set> = vec![Vec::new()];
        for one in self.accesses {
            let with = |set: &Set| {
                let set = set.clone();
                one.holding.iter().map(move |&order| [&set[..], &[order]].concat())
            };
            all = all.iter().flat_map(with).collect();
        }
        all.sort_by_key(|set| self.cost(set));
        all.retain(|set| self.searched == 0 || *set != all_weakest);
        let is_weaker =
            |one: &Set, other: &Set| one.iter().zip(other).all(|(&a, &b)| is_at_most(a, b));
        let (mut weakest, mut failing): (Vec<Set>, Vec<Set>) = (Vec::new(), Vec::new());
        for set in all {
            if weakest.iter().any(|holding| is_weaker(holding, &set))
                || failing.iter().any(|failing| is_weaker(&set, failing))
            {
                continue;
            }
            if self.states > SETS_STATES_MAX {
                return Ok(None);
            }
            if self.holds(&set)? { &mut weakest } else { &mut failing }.push(set);
        }
        let of = weakest.len();
        Ok(weakest.into_iter().next().map(|set| (set, of)))
    }

    /// Weakens one access after the other, the costliest first.
    fn greedy(&mut self) -> Result<Set> {
        let mut set: Set = self.accesses.iter().map(|one| one.today).collect();
        let mut costliest_first: Vec<usize> = (0..set.len()).collect();
        let of = |&index: &usize| cost(self.accesses[index].access.ordered, set[index]);
        costliest_first.sort_by_key(|index| std::cmp::Reverse(of(index)));
        for index in costliest_first {
            let today = set[index];
            for &order in &self.accesses[index].holding {
                set[index] = order;
                if order == today || self.holds(&set)? {
                    break;
                }
            }
        }
        Ok(set)
    }
}
