//! RC11 by its axioms: every choice of what each read reads and of the order of the writes of each location, of which those are
//! kept that are coherent, atomic, in an order of sequentially consistent events, and not out of thin air.
//!
//! Lahav, Vafeiadis, Kang, Hur, Dreyer: Repairing sequential consistency in C/C++11, PLDI 2017. Release sequences as in C++20:
//! a write, and read-modify-writes of it.

use std::collections::BTreeSet;

use machine::Ordering;

use crate::program::{LOCATIONS, Outcome, PLAIN, Program, REGISTERS, Statement, THREADS_MAX};

/// Candidates at most, beyond which a program is not enumerated.
const CANDIDATES_MAX: u64 = 60_000;

/// A relation over up to 32 events: a row for each.
#[derive(Clone)]
struct Relation(Vec<u32>);

impl Relation {
    fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let row = |a| (0..events).filter(|&b| holds(a, b)).fold(0, |row, b| row | 1 << b);
        Relation((0..events).map(row).collect())
    }

    fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    fn then(&self, other: &Relation) -> Relation {
        let row = |row: &u32| {
            let next = (0..self.0.len()).filter(|&b| row >> b & 1 != 0);
            next.fold(0, |all, b| all | other.0[b])
        };
        Relation(self.0.iter().map(row).collect())
    }

    fn or(&self, other: &Relation) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    fn maybe(&self) -> Relation {
        Relation(self.0.iter().enumerate().map(|(a, row)| row | 1 << a).collect())
    }

    fn closed(&self) -> Relation {
        let mut closed = self.clone();
        for middle in 0..self.0.len() {
            for a in 0..self.0.len() {
                if closed.has(a, middle) {
                    closed.0[a] |= closed.0[middle];
                }
            }
        }
        closed
    }

    fn is_irreflexive(&self) -> bool {
        (0..self.0.len()).all(|a| !self.has(a, a))
    }

    /// Only what begins, and what ends, with such an event.
    fn only(&self, begins: impl Fn(usize) -> bool, ends: impl Fn(usize) -> bool) -> Relation {
        Relation::of(self.0.len(), |a, b| begins(a) && ends(b) && self.has(a, b))
    }
}

/// An event. Of a read-modify-write, the read comes right before the write.
#[derive(Clone, Copy, Debug)]
struct Event {
    /// `None`: the initial write of its location.
    thread: Option<usize>,
    location: Option<usize>,
    /// Which register of its thread it reads into.
    reads: Option<usize>,
    writes: Option<u32>,
    /// `None`: a plain access.
    ordering: Option<Ordering>,
    is_fence: bool,
    /// The value that it must read to be followed by its write, and its order where it reads another.
    expects: Option<(u32, Ordering)>,
    /// Whether its write belongs to the read before it.
    is_update: bool,
}

const NOTHING: Event = Event {
    thread: None,
    location: None,
    reads: None,
    writes: None,
    ordering: None,
    is_fence: false,
    expects: None,
    is_update: false,
};

fn events(program: &Program) -> Vec<Event> {
    let initial = |location| Event { location: Some(location), writes: Some(0), ..NOTHING };
    let mut events: Vec<Event> = (0..=LOCATIONS).map(initial).collect();
    for (thread, statements) in program.threads.iter().enumerate() {
        let mut register = 0;
        for &statement in statements {
            let base = Event { thread: Some(thread), ..NOTHING };
            let reads = Some(register);
            register += usize::from(statement.reads());
            match statement {
                Statement::Load(location, ordering) => {
                    let (location, ordering) = (Some(location), Some(ordering));
                    events.push(Event { location, ordering, reads, ..base });
                }
                Statement::Store(location, value, ordering) => {
                    let (location, ordering) = (Some(location), Some(ordering));
                    events.push(Event { location, ordering, writes: Some(value), ..base });
                }
                Statement::Swap(location, new, ordering) => {
                    let at = Event { location: Some(location), ordering: Some(ordering), ..base };
                    events.push(Event { reads, ..at });
                    events.push(Event { writes: Some(new), is_update: true, ..at });
                }
                Statement::CompareExchange(location, old, new, [ordering, failure]) => {
                    let at = Event { location: Some(location), ordering: Some(ordering), ..base };
                    let expects = Some((old, failure));
                    events.push(Event { reads, expects, ..at });
                    events.push(Event { writes: Some(new), is_update: true, ..at });
                }
                Statement::Fence(ordering) => {
                    events.push(Event { ordering: Some(ordering), is_fence: true, ..base });
                }
                Statement::Read => events.push(Event { location: Some(PLAIN), reads, ..base }),
                Statement::Write(value) => {
                    events.push(Event { location: Some(PLAIN), writes: Some(value), ..base });
                }
            }
        }
    }
    events
}

/// All outcomes; `Some(None)`: there is a data race; `None`: too many candidates.
pub fn outcomes(program: &Program) -> Option<Option<BTreeSet<Outcome>>> {
    let events = events(program);
    if events.len() > 32 {
        return None;
    }
    let writes_of = |location: usize| {
        (0..events.len()).filter(|&e| events_at(&events, e, location)).collect::<Vec<_>>()
    };
    let writes: Vec<Vec<usize>> = (0..=LOCATIONS).map(writes_of).collect();
    let reads: Vec<usize> = (0..events.len()).filter(|&e| events[e].reads.is_some()).collect();
    let choices = reads.iter().map(|&read| writes[events[read].location.unwrap()].len() as u64);
    let orders = writes.iter().map(|writes| (1..writes.len() as u64).product::<u64>());
    if choices.chain(orders).product::<u64>() > CANDIDATES_MAX {
        return None;
    }
    let mut search = Candidates {
        events: &events,
        writes: &writes,
        reads: &reads,
        outcomes: BTreeSet::new(),
        has_race: false,
    };
    search.choose(0, &mut vec![0; events.len()]);
    Some((!search.has_race).then_some(search.outcomes))
}

fn events_at(events: &[Event], event: usize, location: usize) -> bool {
    events[event].location == Some(location) && events[event].writes.is_some()
}

struct Candidates<'a> {
    events: &'a [Event],
    writes: &'a [Vec<usize>],
    reads: &'a [usize],
    outcomes: BTreeSet<Outcome>,
    has_race: bool,
}

impl Candidates<'_> {
    fn choose(&mut self, index: usize, from: &mut Vec<usize>) {
        let Some(&read) = self.reads.get(index) else { return self.order(from) };
        for &write in &self.writes[self.events[read].location.unwrap()] {
            if write != read + 1 || !self.events[write].is_update {
                from[read] = write;
                self.choose(index + 1, from);
            }
        }
    }

    /// Whether an event happens, with these choices: the write of a compare-exchange that failed does not.
    fn happens(&self, event: usize, from: &[usize]) -> bool {
        !self.events[event].is_update || !self.fails(event - 1, from)
    }

    fn fails(&self, read: usize, from: &[usize]) -> bool {
        let value = self.events[from[read]].writes.unwrap();
        self.events[read].expects.is_some_and(|(old, _)| old != value)
    }

    fn order(&mut self, from: &[usize]) {
        if !self.reads.iter().all(|&read| self.happens(from[read], from)) {
            return;
        }
        let orders: Vec<Vec<Vec<usize>>> = self
            .writes
            .iter()
            .map(|writes| {
                let happening = writes.iter().filter(|&&write| self.happens(write, from));
                let happening: Vec<usize> = happening.copied().collect();
                let mut all = Vec::new();
                permutations(&happening[1..], &mut vec![happening[0]], &mut all);
                all
            })
            .collect();
        let mut chosen = vec![0; orders.len()];
        loop {
            let order: Vec<&Vec<usize>> =
                orders.iter().zip(&chosen).map(|(orders, &index)| &orders[index]).collect();
            self.judge(from, &order);
            let Some(next) = (0..chosen.len()).find(|&i| chosen[i] + 1 < orders[i].len()) else {
                return;
            };
            chosen[..next].fill(0);
            chosen[next] += 1;
        }
    }

    /// The ordering of an event.
    fn ordering(&self, event: usize, from: &[usize]) -> Option<Ordering> {
        match self.events[event].expects {
            Some((_, failure)) if self.fails(event, from) => Some(failure),
            _ => self.events[event].ordering,
        }
    }

    fn judge(&mut self, from: &[usize], order: &[&Vec<usize>]) {
        let (events, n) = (self.events, self.events.len());
        let happens: Vec<bool> = (0..n).map(|event| self.happens(event, from)).collect();
        let ordering: Vec<_> = (0..n).map(|event| self.ordering(event, from)).collect();
        let is =
            |event: usize, list: &[Ordering]| ordering[event].is_some_and(|o| list.contains(&o));
        let acquires = |e: usize| is(e, &[Ordering::Acquire, Ordering::AcqRel, Ordering::SeqCst]);
        let releases = |e: usize| is(e, &[Ordering::Release, Ordering::AcqRel, Ordering::SeqCst]);
        let place = |e: usize| {
            let location = events[e].location.unwrap();
            order[location].iter().position(|&write| write == e)
        };
        let at_same = |a: usize, b: usize| {
            events[a].location.is_some() && events[a].location == events[b].location
        };
        let reads = |e: usize| events[e].reads.is_some();
        let writes = |e: usize| events[e].writes.is_some();
        let sb = Relation::of(n, |a, b| {
            happens[a]
                && happens[b]
                && a < b
                && match (events[a].thread, events[b].thread) {
                    (None, Some(_)) => true,
                    (a, b) => a.is_some() && a == b,
                }
        });
        let rf = Relation::of(n, |a, b| reads(b) && from[b] == a);
        let mo = Relation::of(n, |a, b| {
            writes(a)
                && writes(b)
                && happens[a]
                && happens[b]
                && at_same(a, b)
                && place(a) < place(b)
        });
        let fr = Relation::of(n, |a, b| a != b && reads(a) && mo.has(from[a], b));
        let rmw = Relation::of(n, |a, b| b == a + 1 && happens[b] && events[b].is_update);
        let hb = self.happens_before(&sb, &rf, &rmw, &acquires, &releases);
        let eco = rf.or(&mo).or(&fr).closed();
        let is_atomic = {
            let between = fr.then(&mo);
            !(0..n).any(|a| rmw.0[a] & between.0[a] != 0)
        };
        let is_coherent = hb.is_irreflexive() && hb.then(&eco).is_irreflexive();
        if !is_atomic || !is_coherent || !sb.or(&rf).closed().is_irreflexive() {
            return;
        }
        let is_sc = |e: usize| is(e, &[Ordering::SeqCst]) && happens[e];
        if !self.is_in_order(&is_sc, [&sb, &hb, &mo, &fr, &eco]) {
            return;
        }
        self.has_race |= (0..n).any(|a| {
            (0..a).any(|b| {
                let is_plain = ordering[a].is_none() || ordering[b].is_none();
                let both = events[a].thread.is_some() && events[b].thread.is_some();
                let conflict = at_same(a, b) && (writes(a) || writes(b));
                is_plain && both && conflict && !hb.has(a, b) && !hb.has(b, a)
            })
        });
        self.note(from, order);
    }

    /// Whether sequentially consistent events have an order.
    fn is_in_order(
        &self,
        is_sc: &dyn Fn(usize) -> bool,
        [sb, hb, mo, fr, eco]: [&Relation; 5],
    ) -> bool {
        let (events, n) = (self.events, self.events.len());
        let at_same = |a: usize, b: usize| {
            events[a].location.is_some() && events[a].location == events[b].location
        };
        let fence = |e: usize| is_sc(e) && events[e].is_fence;
        let access = |e: usize| is_sc(e) && !events[e].is_fence;
        let elsewhere = Relation::of(n, |a, b| sb.has(a, b) && !at_same(a, b));
        let here = Relation::of(n, |a, b| hb.has(a, b) && at_same(a, b));
        let scb = sb.or(&elsewhere.then(hb).then(&elsewhere)).or(&here).or(mo).or(fr);
        let identity = Relation::of(n, |a, b| a == b);
        let begins = identity.only(access, access).or(&hb.maybe().only(fence, |_| true));
        let ends = identity.only(access, access).or(&hb.maybe().only(|_| true, fence));
        let base = begins.then(&scb).then(&ends);
        let fences = hb.or(&hb.then(eco).then(hb)).only(fence, fence);
        base.or(&fences).closed().is_irreflexive()
    }

    fn happens_before(
        &self,
        sb: &Relation,
        rf: &Relation,
        rmw: &Relation,
        acquires: &dyn Fn(usize) -> bool,
        releases: &dyn Fn(usize) -> bool,
    ) -> Relation {
        let (events, n) = (self.events, self.events.len());
        let is_fence = |e: usize| events[e].is_fence;
        let is_atomic_write = |e: usize| events[e].writes.is_some() && events[e].ordering.is_some();
        let is_atomic_read = |e: usize| events[e].reads.is_some() && events[e].ordering.is_some();
        let sequence = rf.then(rmw).closed().maybe().only(is_atomic_write, |_| true);
        let identity = Relation::of(n, |a, b| a == b);
        let released = identity
            .only(|e| is_atomic_write(e) && releases(e), |_| true)
            .or(&sb.only(|e| is_fence(e) && releases(e), is_atomic_write));
        let acquired = identity
            .only(|e| is_atomic_read(e) && acquires(e), |_| true)
            .or(&sb.only(is_atomic_read, |e| is_fence(e) && acquires(e)));
        let sw = released.then(&sequence).then(rf).then(&acquired);
        sb.or(&sw).closed()
    }

    fn note(&mut self, from: &[usize], order: &[&Vec<usize>]) {
        let mut read = vec![0; THREADS_MAX * REGISTERS];
        for &event in self.reads {
            let Event { thread, reads, .. } = self.events[event];
            let register = thread.unwrap() * REGISTERS + reads.unwrap();
            read[register] = self.events[from[event]].writes.unwrap();
        }
        let last = |location: usize| self.events[*order[location].last().unwrap()].writes.unwrap();
        let memory = (0..LOCATIONS).map(last).collect();
        self.outcomes.insert(Outcome { read, memory, plain: last(PLAIN) });
    }
}

fn permutations(rest: &[usize], begun: &mut Vec<usize>, all: &mut Vec<Vec<usize>>) {
    if rest.is_empty() {
        return all.push(begun.clone());
    }
    for (index, &next) in rest.iter().enumerate() {
        let others: Vec<usize> =
            rest.iter().enumerate().filter(|(i, _)| *i != index).map(|(_, &e)| e).collect();
        begun.push(next);
        permutations(&others, begun, all);
        begun.pop();
    }
}
