//! The rules of the Linux kernel's memory model, without RCU: `tools/memory-model` in the kernel
//! tree, in our words.
//!
//!     happens before   dependencies, fences, acquire and release keep the order of a task; a write comes before its readers
//!                      elsewhere; so does what a task must have propagated to another before that one goes on
//!     propagates       full fences, releases and `smp_wmb` carry what came before them along, and so do writes that were read
//!                      before a full fence or a release; so does a spinlock's release together with the taking after it
//!     allowed          if neither the first, nor what a full fence lets come before what, has a cycle
//!
//! The model is not multicopy atomic: two tasks may see two writes of others in different order, unless full fences forbid it.
//!
//! Until Linux 6.2 it was weaker: what is passed on by a fence went no further through updates of what was written, and a plain
//! access carried no dependency (Linux 6.3 added `rmw-sequence` and `carry-dep`).

use super::relation::Relation;
use super::{Barrier, Bits, Event, Executions, Kind, NOBODY, Strength, set};

/// Which of the kernel's models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    Today,
    /// As it stood until Linux 6.2.
    Until62,
}

/// Whether an execution is allowed, that was so before these events, the last of their task.
pub fn is_allowed(executions: &Executions, new: Bits, version: Version) -> bool {
    // A new event that nothing comes after closes no cycle.
    let is_last = |id: usize| executions.external_after(id) == 0;
    if executions.read_by_others(new) == 0 && set(new).all(is_last) {
        return true;
    }
    let orders = Orders::new(executions, version);
    orders.happens.is_acyclic() && orders.passes.is_acyclic() && orders.are_coherent(executions)
}

/// Accesses of other tasks that a new one is ordered after, whatever it reads or overwrites.
pub fn ordered_before(executions: &Executions, id: usize, version: Version) -> Bits {
    let orders = Orders::new(executions, version);
    let event = &executions.events[id];
    let [after_write, after_read] = match event.kind {
        Kind::Write => {
            let visible = orders.visible(&orders.bounded_write);
            let read = orders.after_reads();
            let is_marked = |event: &Event| !event.is_plain;
            let seen = orders.visible(&orders.bounded_read);
            // Two writes, of which a plain one may be read back by the compiler.
            let both = Relation::new(executions.events.len(), |a, b| {
                let [first, second] = [&executions.events[a], &executions.events[b]];
                visible.has(a, b)
                    && (is_marked(first) || read.has(a, b))
                    && (is_marked(second) || seen.has(a, b))
            });
            [both, read]
        }
        _ => [orders.visible(&orders.bounded_read), Relation::empty(executions.events.len())],
    };
    let writes = |a: usize| executions.events[a].kind == Kind::Write;
    let is_before = |a: &usize| {
        if writes(*a) { after_write.has(*a, id) } else { after_read.has(*a, id) }
    };
    (0..executions.events.len()).filter(is_before).fold(0, |all, a| all | 1 << a)
}

/// Events of a task that come before all that it will ever do: acquires, and what a full fence follows.
pub fn before_all(executions: &Executions, task: u8) -> Bits {
    let fences = executions.of_task(task).filter(|(_, e)| e.kind == Kind::Fence(Barrier::Full));
    let last = fences.map(|(_, fence)| fence.local).max();
    let acquires = |e: &Event| matches!(e.strength, Strength::Acquire | Strength::AcquirePc);
    let before = executions.of_task(task).filter(|(_, e)| acquires(e) || Some(e.local) < last);
    before.fold(0, |all, (id, _)| all | 1 << id)
}

/// Events of its own task that the rules order before an event.
pub fn before_of_own(executions: &Executions, id: usize, version: Version) -> Bits {
    let kept = Orders::new(executions, version).kept.closed();
    let before = (0..executions.events.len()).filter(|&other| kept.has(other, id));
    before.fold(0, |all, other| all | 1 << other)
}

/// The relations of an execution.
struct Orders {
    /// What the rules keep of the order of each task.
    kept: Relation,
    marked: Bits,
    /// What fences order: any of them, full ones, and those that order a load with a store.
    fence: Relation,
    strong: Relation,
    reads_from_other: Relation,
    updates: Relation,
    cumulative: Relation,
    happens: Relation,
    passes: Relation,
    /// How a plain write, and a plain read, is bound to a marked access before it.
    bounded_write: Relation,
    bounded_read: Relation,
    /// How a plain read is bound to a marked access after it.
    read_bounded: Relation,
    own: Relation,
}

impl Orders {
    fn new(executions: &Executions, version: Version) -> Orders {
        let events = &executions.events;
        let identity = Relation::empty(events.len()).maybe();
        let parts = Parts::new(executions);
        let marked = parts.where_(|event| !event.is_plain);
        let all = Bits::MAX;
        let (reads, writes) =
            (parts.where_(|event| event.kind == Kind::Read), parts.where_(is_write));
        let Fences { strong, release, stores, both_ways, any: fence } = parts.fences(reads, writes);
        let reads_from_other = parts.reads_from.and(&parts.other);
        let own_reads_from = parts.reads_from.and(&parts.own);
        let [address, data, control] = parts.dependencies(executions, &own_reads_from, version);
        let depends = address.or(&data);
        let overwrites = &parts.overwrites;
        let plain_writes = address.only(all, !marked).then(&stores);
        let handed_over = parts.handed_over();
        let kept = depends
            .or(&control)
            .only(all, writes)
            .or(&overwrites.and(&parts.own))
            .or(&plain_writes)
            .or(&address.only(all, reads))
            .or(&depends.only(all, marked).then(&own_reads_from))
            .or(&fence)
            .or(&handed_over.and(&parts.own));
        let carried = reads_from_other.only(all, marked).maybe();
        let sequence = match version {
            Version::Today => parts.reads_from.then(&parts.updates).closed().maybe(),
            Version::Until62 => identity.clone(),
        };
        let cumulative = carried.then(&strong.or(&release)).or(&stores).or(&handed_over);
        let cumulative = cumulative.only(marked, marked).then(&sequence);
        let propagates = overwrites
            .and(&parts.other)
            .maybe()
            .only(marked, all)
            .then(&cumulative.closed().maybe())
            .only(all, marked)
            .then(&reads_from_other.maybe())
            .only(all, marked);
        let mut within = propagates.and(&parts.own);
        within.0.iter_mut().enumerate().for_each(|(a, row)| *row &= !(1 << a));
        let happens = kept.or(&reads_from_other).or(&within).only(marked, marked);
        let passes = propagates.then(&strong).then(&happens.closed().maybe()).only(all, marked);
        let bounded_write = identity.or(&address).or(&fence).only(marked, all);
        let bounded_read = identity
            .or(&address)
            .or(&both_ways)
            .or(&parts.between(Barrier::Loads, reads, reads | writes))
            .only(marked, all);
        let read_bounded = identity
            .or(&both_ways)
            .or(&parts.between(Barrier::Loads, reads | writes, reads))
            .only(all, marked);
        Orders {
            kept,
            marked,
            fence,
            strong,
            reads_from_other,
            updates: sequence,
            cumulative,
            happens,
            passes,
            bounded_write,
            bounded_read,
            read_bounded,
            own: parts.own,
        }
    }

    /// What comes before what, in any number of steps.
    fn executes(&self) -> Relation {
        self.happens.or(&self.passes).closed().maybe()
    }

    /// Writes that are visible where an access, bounded so, is done.
    fn visible(&self, bounded: &Relation) -> Relation {
        let (all, executes) = (Bits::MAX, self.executes());
        let strongly = self.strong.only(all, self.marked).then(&executes);
        let seen = self
            .cumulative
            .closed()
            .maybe()
            .then(&self.reads_from_other.maybe())
            .only(all, self.marked)
            .then(&strongly.or(&executes.and(&self.own.maybe())));
        let written = self.fence.maybe().only(all, self.marked).then(&self.updates);
        let by_strong = self.strong.then(&executes).then(bounded);
        self.fence.or(&by_strong).or(&written.then(&seen).then(bounded))
    }

    /// Whether plain accesses are in the order that others give them.
    fn are_coherent(&self, executions: &Executions) -> bool {
        let events = &executions.events;
        let n = events.len();
        if events.iter().all(|event| !event.is_plain) {
            return true;
        }
        let [visible, seen] =
            [&self.bounded_write, &self.bounded_read].map(|bounded| self.visible(bounded));
        let read = self.after_reads();
        let is_against = |a: usize, b: usize| {
            let (first, second) = (&events[a], &events[b]);
            let is_plain = first.is_plain || second.is_plain && first.task != NOBODY;
            let is_other = first.task != second.task;
            let follows = match (first.kind, second.kind) {
                (Kind::Write, Kind::Write) => visible.has(b, a),
                (Kind::Read, _) => seen.has(b, a),
                _ => read.has(b, a),
            };
            is_plain && is_other && follows
        };
        (0..n).all(|a| {
            let rf = (0..n).filter(|&b| events[b].from >> a & 1 != 0);
            set(executions.after(a)).chain(rf).all(|b| !is_against(a, b))
        })
    }

    /// Reads that are done before an access that is bounded as a write.
    fn after_reads(&self) -> Relation {
        self.fence.or(&self.read_bounded.then(&self.executes()).then(&self.bounded_write))
    }
}

fn is_write(event: &Event) -> bool {
    event.kind == Kind::Write
}

/// What fences order, and acquires and releases with them.
struct Fences {
    strong: Relation,
    release: Relation,
    stores: Relation,
    /// All that may stand between a load and a store.
    both_ways: Relation,
    any: Relation,
}

/// Program order, and what was chosen.
struct Parts<'a> {
    events: &'a [Event],
    order: Relation,
    own: Relation,
    other: Relation,
    reads_from: Relation,
    /// A read before later writes of what it read, a write before later ones.
    overwrites: Relation,
    /// The read of a read-modify-write before its write.
    updates: Relation,
}

impl Parts<'_> {
    fn new(executions: &Executions) -> Parts<'_> {
        let events = &executions.events[..];
        let n = events.len();
        let is_own =
            |a: usize, b: usize| events[a].task == events[b].task && events[a].task != NOBODY;
        let own = Relation::new(n, is_own);
        let other = Relation::new(n, |a, b| !is_own(a, b));
        let order = Relation::new(n, |a, b| is_own(a, b) && events[a].local < events[b].local);
        let reads_from = Relation::new(n, |a, b| events[b].from >> a & 1 != 0);
        let mut overwrites = Relation::empty(n);
        for id in 0..n {
            overwrites.0[id] = executions.after(id);
        }
        let updates = Relation::new(n, |a, b| {
            let is_pair = is_own(a, b) && events[b].local.checked_sub(1) == Some(events[a].local);
            is_pair && events[b].is_update && is_write(&events[b])
        });
        Parts { events, order, own, other, reads_from, overwrites, updates }
    }

    /// What a fence of this kind stands between.
    fn between(&self, barrier: Barrier, before: Bits, after: Bits) -> Relation {
        let fences = self.where_(|event| event.kind == Kind::Fence(barrier));
        self.order.only(before, fences).then(&self.order.only(fences, after))
    }

    fn fences(&self, reads: Bits, writes: Bits) -> Fences {
        let memory = reads | writes;
        let strong = self.between(Barrier::Full, memory, memory);
        let released = self.where_(|event| event.strength == Strength::Release);
        let acquired =
            self.where_(|e| matches!(e.strength, Strength::Acquire | Strength::AcquirePc));
        let release = self.between(Barrier::Release, memory, writes);
        let release = release.or(&self.order.only(memory, released));
        let acquire = self.between(Barrier::Acquire, reads, memory);
        let acquire = acquire.or(&self.order.only(acquired, memory));
        let stores = self.between(Barrier::Stores, writes, writes);
        let loads = self.between(Barrier::Loads, reads, reads);
        let both_ways = strong.or(&release).or(&acquire);
        let any = both_ways.or(&stores).or(&loads);
        Fences { strong, release, stores, both_ways, any }
    }

    /// What stands before the release of a spinlock, with what follows the taking that comes after it in its task, or that
    /// takes it from it (`po-unlock-lock-po`).
    fn handed_over(&self) -> Relation {
        let unlocks = self.where_(|event| event.of_spinlock && !event.is_update && is_write(event));
        let takings =
            self.where_(|event| event.of_spinlock && event.is_update && event.kind == Kind::Read);
        let (all, next) = (Bits::MAX, self.order.or(&self.reads_from).only(unlocks, takings));
        self.order.only(all, unlocks).then(&next).then(&self.order.only(takings, all))
    }

    fn where_(&self, is_in: impl Fn(&Event) -> bool) -> Bits {
        let ids = self.events.iter().enumerate().filter(|(_, event)| is_in(event));
        ids.fold(0, |all, (id, _)| all | 1 << id)
    }

    /// Address, data and control dependencies, also by way of a value that the task has written and read back.
    fn dependencies(
        &self,
        executions: &Executions,
        own_reads_from: &Relation,
        version: Version,
    ) -> [Relation; 3] {
        let of = |which: fn(&Event) -> Bits| {
            let mut relation = Relation::empty(self.events.len());
            for (id, event) in executions.events.iter().enumerate() {
                set(which(event)).for_each(|source| relation.0[source] |= 1 << id);
            }
            relation
        };
        let data = of(|event| event.data);
        let carried = match version {
            Version::Today => data.then(own_reads_from).closed().maybe(),
            Version::Until62 => Relation::empty(self.events.len()).maybe(),
        };
        let [address, control] = [of(|event| event.address), of(|event| event.control)];
        [address, data, control].map(|dependency| carried.then(&dependency))
    }
}
