//! Enumerates the executions of a program, whatever the machine does: which write each read reads from, and the order of the
//! writes of each location. `armv8` and `lkmm` say which of them are allowed.

use std::collections::BTreeSet;

use machine::Ordering;

use crate::program::{
    Access, Action, Barrier, LOCATIONS, Outcome, Program, REGISTERS, Statement, THREADS_MAX,
};

/// Candidates at most, beyond which a program is not enumerated.
const CANDIDATES_MAX: u64 = 40_000;

/// A relation over up to 64 events: a row for each.
#[derive(Clone, Debug, PartialEq)]
pub struct Relation(pub Vec<u64>);

impl Relation {
    pub fn of(events: usize, holds: impl Fn(usize, usize) -> bool) -> Relation {
        let row = |a| (0..events).filter(|&b| holds(a, b)).fold(0, |row, b| row | 1 << b);
        Relation((0..events).map(row).collect())
    }

    pub fn has(&self, a: usize, b: usize) -> bool {
        self.0[a] >> b & 1 != 0
    }

    pub fn then(&self, other: &Relation) -> Relation {
        let row = |row: &u64| {
            let next = (0..self.0.len()).filter(|&b| row >> b & 1 != 0);
            next.fold(0, |all, b| all | other.0[b])
        };
        Relation(self.0.iter().map(row).collect())
    }

    pub fn or(&self, other: &Relation) -> Relation {
        Relation(self.0.iter().zip(&other.0).map(|(a, b)| a | b).collect())
    }

    pub fn maybe(&self) -> Relation {
        Relation(self.0.iter().enumerate().map(|(a, row)| row | 1 << a).collect())
    }

    pub fn closed(&self) -> Relation {
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

    pub fn is_acyclic(&self) -> bool {
        let closed = self.closed();
        (0..self.0.len()).all(|a| !closed.has(a, a))
    }
}

/// An event. Of a read-modify-write, the read comes right before the write.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    /// `None`: the initial write of its location.
    pub thread: Option<usize>,
    pub location: Option<usize>,
    /// Which register of its thread it reads into.
    pub reads: Option<usize>,
    pub writes: Option<u32>,
    pub ordering: Ordering,
    pub fence: Option<Barrier>,
    /// The value that it must read to be followed by its write.
    pub expects: Option<u32>,
    /// Whether its write belongs to the read before it.
    pub is_update: bool,
    /// Whether it belongs to a read-modify-write.
    pub is_of_update: bool,
    /// Whether it writes the sum of its value and of what the read before it has read.
    pub adds: bool,
    /// Events that it depends on.
    pub address: u64,
    pub data: u64,
    pub control: u64,
}

const NOTHING: Event = Event {
    thread: None,
    location: None,
    reads: None,
    writes: None,
    ordering: Ordering::Relaxed,
    fence: None,
    expects: None,
    is_update: false,
    is_of_update: false,
    adds: false,
    address: 0,
    data: 0,
    control: 0,
};

fn events(program: &Program) -> Vec<Event> {
    let initial = |location| Event { location: Some(location), writes: Some(0), ..NOTHING };
    let mut events: Vec<Event> = (0..LOCATIONS).map(initial).collect();
    for (thread, statements) in program.threads.iter().enumerate() {
        let (mut reads, mut control) = (Vec::new(), 0);
        for &statement in statements {
            let base = Event { thread: Some(thread), ..NOTHING };
            match statement {
                Statement::Fence(barrier) => events.push(Event { fence: Some(barrier), ..base }),
                Statement::Branch(mask) => control |= named(&reads, mask),
                Statement::Access(access) => {
                    let register = reads.len();
                    if access.action.reads() {
                        reads.push(events.len());
                    }
                    let Access { location, ordering, .. } = access;
                    let before = &reads[..register];
                    let address = named(before, access.address);
                    let data = named(before, access.data);
                    let at = Event { location: Some(location), ordering, address, control, ..base };
                    push(&mut events, access.action, at, data, register);
                }
            }
        }
    }
    events
}

fn named(reads: &[usize], mask: u8) -> u64 {
    let named = reads.iter().enumerate().filter(|(i, _)| mask >> i & 1 != 0);
    named.fold(0, |all, (_, &event)| all | 1 << event)
}

fn push(events: &mut Vec<Event>, action: Action, at: Event, data: u64, register: usize) {
    let reads = Some(register);
    match action {
        Action::Load => events.push(Event { reads, ..at }),
        Action::Store(value) => events.push(Event { writes: Some(value), data, ..at }),
        Action::Swap(new) | Action::Add(new) | Action::CompareExchange(_, new) => {
            let expects = match action {
                Action::CompareExchange(old, _) => Some(old),
                _ => None,
            };
            events.push(Event { reads, expects, is_of_update: true, ..at });
            let (is_update, is_of_update, writes) = (true, true, Some(new));
            let adds = matches!(action, Action::Add(_));
            events.push(Event { writes, is_update, is_of_update, adds, data, ..at });
        }
    }
}

/// An execution: what was chosen.
pub struct Execution<'a> {
    pub events: &'a [Event],
    pub happens: &'a [bool],
    /// Program order, which write each read reads from, the order of writes of a location, what a read comes before, and the
    /// read of a read-modify-write with its write.
    pub po: Relation,
    pub rf: Relation,
    pub co: Relation,
    pub fr: Relation,
    pub rmw: Relation,
}

impl Execution<'_> {
    pub fn relation(&self, holds: impl Fn(usize, usize) -> bool) -> Relation {
        Relation::of(self.events.len(), holds)
    }

    pub fn is_read(&self, event: usize) -> bool {
        self.events[event].reads.is_some()
    }

    pub fn is_write(&self, event: usize) -> bool {
        self.events[event].writes.is_some()
    }

    pub fn is_external(&self, a: usize, b: usize) -> bool {
        self.events[a].thread != self.events[b].thread || self.events[a].thread.is_none()
    }

    /// Only what is between two threads, or within one.
    pub fn external(&self, relation: &Relation) -> Relation {
        self.relation(|a, b| relation.has(a, b) && self.is_external(a, b))
    }

    pub fn internal(&self, relation: &Relation) -> Relation {
        self.relation(|a, b| relation.has(a, b) && !self.is_external(a, b))
    }

    /// A dependency of this kind.
    pub fn dependency(&self, of: impl Fn(&Event) -> u64) -> Relation {
        self.relation(|a, b| self.happens[b] && of(&self.events[b]) >> a & 1 != 0)
    }

    /// The data dependency that a read-modify-write has of its own, if it computes what it writes.
    pub fn computed(&self) -> Relation {
        self.relation(|a, b| self.rmw.has(a, b) && self.events[b].adds)
    }

    pub fn fenced(
        &self,
        barrier: Barrier,
        before: impl Fn(usize) -> bool,
        after: impl Fn(usize) -> bool,
    ) -> Relation {
        let is_one = |event: usize| self.events[event].fence == Some(barrier);
        let into = self.relation(|a, b| self.po.has(a, b) && is_one(b) && before(a));
        into.then(&self.relation(|a, b| self.po.has(a, b) && is_one(a) && after(b)))
    }

    /// Whether accesses to each location have an order, and nothing comes between a read-modify-write and what it read.
    fn is_coherent(&self) -> bool {
        let at_same = |a: usize, b: usize| {
            self.events[a].location.is_some() && self.events[a].location == self.events[b].location
        };
        let here = self.relation(|a, b| self.po.has(a, b) && at_same(a, b));
        let coherent = here.or(&self.rf).or(&self.co).or(&self.fr).is_acyclic();
        let between = self.external(&self.fr).then(&self.external(&self.co));
        coherent && (0..self.events.len()).all(|a| self.rmw.0[a] & between.0[a] == 0)
    }
}

/// Which executions are allowed.
pub type Rules = fn(&Execution) -> bool;

/// All outcomes of executions that the rules allow. `None`: too many candidates.
pub fn outcomes(program: &Program, rules: Rules) -> Option<BTreeSet<Outcome>> {
    let events = events(program);
    if events.len() > 64 {
        return None;
    }
    let is_at = |event: &usize, location: usize| {
        events[*event].location == Some(location) && events[*event].writes.is_some()
    };
    let writes_of = |l: usize| (0..events.len()).filter(|e| is_at(e, l)).collect::<Vec<_>>();
    let writes: Vec<Vec<usize>> = (0..LOCATIONS).map(writes_of).collect();
    let reads: Vec<usize> = (0..events.len()).filter(|&e| events[e].reads.is_some()).collect();
    let choices = reads.iter().map(|&read| writes[events[read].location.unwrap()].len() as u64);
    let orders = writes.iter().map(|writes| (1..writes.len() as u64).product::<u64>());
    if choices.chain(orders).product::<u64>() > CANDIDATES_MAX {
        return None;
    }
    let (events, writes, reads) = (&events[..], &writes[..], &reads[..]);
    let outcomes = BTreeSet::new();
    let mut search = Candidates { events, writes, reads, rules, outcomes };
    search.choose(0, &mut vec![0; events.len()]);
    Some(search.outcomes)
}

struct Candidates<'a> {
    events: &'a [Event],
    writes: &'a [Vec<usize>],
    reads: &'a [usize],
    rules: Rules,
    outcomes: BTreeSet<Outcome>,
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

    /// What an event writes, with these choices. `None`: a sum of itself.
    fn value(&self, write: usize, from: &[usize]) -> Option<u32> {
        let (mut write, mut sum) = (write, 0_u32);
        for _ in 0..self.events.len() {
            let event = &self.events[write];
            sum = sum.wrapping_add(event.writes.unwrap());
            if !event.adds {
                return Some(sum);
            }
            write = from[write - 1];
        }
        None
    }

    /// Whether an event happens, with these choices: the write of a compare-exchange that failed does not.
    fn happens(&self, event: usize, from: &[usize]) -> bool {
        let fails = |read: usize| {
            let expects = self.events[read].expects;
            expects.is_some_and(|old| Some(old) != self.value(from[read], from))
        };
        !self.events[event].is_update || !fails(event - 1)
    }

    fn order(&mut self, from: &[usize]) {
        let is_one = |&read: &usize| {
            self.value(from[read], from).is_some() && self.happens(from[read], from)
        };
        if !self.reads.iter().all(is_one) {
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

    fn judge(&mut self, from: &[usize], order: &[&Vec<usize>]) {
        let (events, n) = (self.events, self.events.len());
        let happens: Vec<bool> = (0..n).map(|event| self.happens(event, from)).collect();
        let place = |e: usize| {
            let location = events[e].location.unwrap();
            order[location].iter().position(|&write| write == e)
        };
        let reads = |e: usize| events[e].reads.is_some();
        let writes = |e: usize| events[e].writes.is_some();
        let po = Relation::of(n, |a, b| {
            let is_same = events[a].thread.is_some() && events[a].thread == events[b].thread;
            happens[a] && happens[b] && a < b && is_same
        });
        let rf = Relation::of(n, |a, b| reads(b) && from[b] == a);
        let co = Relation::of(n, |a, b| {
            let at_same = events[a].location == events[b].location;
            writes(a) && writes(b) && happens[a] && happens[b] && at_same && place(a) < place(b)
        });
        let fr = Relation::of(n, |a, b| a != b && reads(a) && co.has(from[a], b));
        let rmw = Relation::of(n, |a, b| b == a + 1 && happens[b] && events[b].is_update);
        let execution = Execution { events, happens: &happens, po, rf, co, fr, rmw };
        if execution.is_coherent() && (self.rules)(&execution) {
            self.note(from, order);
        }
    }

    fn note(&mut self, from: &[usize], order: &[&Vec<usize>]) {
        let mut read = vec![0; THREADS_MAX * REGISTERS];
        for &event in self.reads {
            let Event { thread, reads, .. } = self.events[event];
            let register = thread.unwrap() * REGISTERS + reads.unwrap();
            read[register] = self.value(from[event], from).unwrap();
        }
        let last = |location: usize| self.value(*order[location].last().unwrap(), from).unwrap();
        let memory = (0..LOCATIONS).map(last).collect();
        self.outcomes.insert(Outcome { read, memory });
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
