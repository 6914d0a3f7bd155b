//! What a task may do next where the rules are those of hardware or of the kernel, and what it adds to the execution. See
//! `executions`.

use machine::{CodeSite, Dependencies, Op, Ordering};

use super::executions::{
    Barrier, Bits, EVENTS_MAX, Event, Executions, Kind, NOBODY, PROMISES, Rules, Strength, armv8,
    lkmm, set,
};
use super::failure::Fault;
use super::request::{Reply, Request, RequestKind, acquires, ones, releases};
use super::trace::name_of;
use super::views::Target;
use super::weak::WeakStep;
use super::world::{FaultFound, World};

/// Events of one step at most: a read-modify-write between two fences, and what memory held.
const EVENTS_OF_STEP: usize = 5;

impl World {
    /// An execution in which nothing has happened.
    pub fn new_executions(&self, tasks: usize) -> Executions {
        self.rules.map_or_else(Executions::default, |_| Executions::new(tasks))
    }

    /// Whether accesses may read older values than the newest.
    pub fn reads_old(&self) -> bool {
        self.is_weak || self.rules.is_some()
    }

    /// What the pending access of a task may do: the newest first.
    pub fn allowed_steps(&self, task: usize) -> Vec<WeakStep> {
        let request = self.state.tasks[task].request;
        let Request { kind, offset, size, .. } = request;
        let target = self.layout.target(offset, size);
        let mut trial = self.state.executions.copied();
        self.begin(&mut trial, &target, offset, request.location);
        let value = |read: usize| trial.value(target.cell, read) >> target.shift & ones(size);
        let steps: Vec<WeakStep> = if let RequestKind::Access(Op::Store(_)) = kind {
            let places = trial.writable(task, &target).into_iter();
            places.map(|place| WeakStep::Writes(place as u8)).collect()
        } else {
            let readable = trial.readable(task, &target);
            self.steps_of_reading(task, &request, &readable, &|read| {
                (value(read), trial.can_update(&target, read))
            })
        };
        let mut allowed = self.fulfilling_steps(&trial, task, &request, &target);
        for step in steps {
            if self.is_allowed(&mut trial, task, &request, &target, step) {
                allowed.push(step);
            }
        }
        let may_stay = matches!(kind, RequestKind::Await(_))
            || self.state.tasks[task].spins_on.is_some()
            || self.has_promises();
        debug_assert!(may_stay || !allowed.is_empty(), "the newest write can always be read");
        allowed
    }

    /// The steps of an access that reads at one of these places. `at` tells the value there, and whether a write may follow.
    fn steps_of_reading(
        &self,
        task: usize,
        request: &Request,
        readable: &[usize],
        at: &dyn Fn(usize) -> (u64, bool),
    ) -> Vec<WeakStep> {
        // What a task has only promised, it cannot read, and nothing older behind that.
        let Some(&newest) = readable.first() else { return Vec::new() };
        let newest = newest as u8;
        let reads = |&read: &usize| WeakStep::Reads(read as u8);
        match request.kind {
            // The kernel looks at the word under a lock of its own, behind a full fence.
            _ if request.kind.looks_in_kernel() => vec![WeakStep::Reads(newest)],
            RequestKind::Await(until) => {
                let ending = readable.iter().filter(|&&read| until.holds(at(read).0));
                let mut steps: Vec<WeakStep> = ending.map(reads).collect();
                if !until.holds(at(readable[0]).0) && !steps.is_empty() {
                    steps.push(WeakStep::Misses(newest));
                }
                steps
            }
            RequestKind::Access(op) if op != Op::Load => readable
                .iter()
                .filter_map(|&read| {
                    let (value, can_update) = at(read);
                    match op.written(value, request.size) {
                        _ if self.state.tasks[task].spins_on == Some(value) => None,
                        None => Some(WeakStep::Reads(read as u8)),
                        Some(_) => can_update.then_some(WeakStep::Updates(read as u8)),
                    }
                })
                .collect(),
            _ => readable.iter().map(reads).collect(),
        }
    }

    /// Notes what memory held, before the first access to a cell.
    pub fn begin(&self, executions: &mut Executions, target: &Target, offset: u32, site: CodeSite) {
        let masks = self.layout.masks(target);
        let words = (0..8).filter(|&bit| {
            self.layout.cell_of.get(usize::from(target.cell) + bit) == Some(&target.cell)
        });
        let (mut all, mut mask) = (0, 0);
        for bit in words {
            all |= 1 << bit;
            mask |= masks[bit];
        }
        executions.begin_cell(target, all, (mask, self.read(offset & !7, 8) & mask), site);
    }

    fn is_allowed(
        &self,
        trial: &mut Executions,
        task: usize,
        request: &Request,
        target: &Target,
        step: WeakStep,
    ) -> bool {
        let first = trial.events.len();
        self.add(trial, task, request, target, step);
        let new = (first..trial.events.len()).fold(0, |all, id| all | 1 << id);
        let is_allowed = self.is_execution_allowed(trial, new);
        while trial.events.len() > first {
            trial.pop();
        }
        is_allowed
    }

    /// Whether the rules allow an execution with these events, the last of their task.
    pub fn is_execution_allowed(&self, executions: &Executions, new: Bits) -> bool {
        match self.rules {
            Some(Rules::Lkmm(version)) => lkmm::is_allowed(executions, new, version),
            _ => armv8::is_allowed(executions, new),
        }
    }

    pub fn order_before(&self, executions: &Executions, event: &Event) -> u128 {
        match self.rules {
            Some(Rules::Armv8) => armv8::before(executions, event),
            _ => 0,
        }
    }

    /// Adds the events of a step.
    pub fn add(
        &self,
        executions: &mut Executions,
        task: usize,
        request: &Request,
        target: &Target,
        step: WeakStep,
    ) {
        let Request { kind, size, location: site, .. } = *request;
        let ordering = super::weak::ordering_of(step, request);
        let new = NewAccess { task, target, site, ordering, is_plain: false };
        let is_full = self.is_full(ordering);
        match (step, kind) {
            (WeakStep::Writes(place), RequestKind::Access(Op::Store(value))) => {
                self.add_write(executions, &new, place.into(), value & ones(size), false);
            }
            (WeakStep::Updates(read), RequestKind::Access(op)) => {
                let old = executions.value(target.cell, read.into()) >> target.shift & ones(size);
                let value = op.written(old, size).expect("an update writes");
                if is_full {
                    self.add_fence(executions, task, Barrier::Full, site);
                }
                self.add_read(executions, &new, read.into(), true);
                self.add_write(executions, &new, usize::from(read) + 1, value, true);
                self.depends_on_old(executions, executions.events.len() - 1, op);
                if is_full {
                    self.add_fence(executions, task, Barrier::Full, site);
                }
            }
            (WeakStep::Reads(read) | WeakStep::Misses(read), _) => {
                self.add_read(executions, &new, read.into(), false);
            }
            (WeakStep::Fulfils(id), RequestKind::Access(op)) => {
                self.fulfil(executions, &new, op, size, id.into());
            }
            (WeakStep::Writes(_) | WeakStep::Updates(_) | WeakStep::Fulfils(_), _) => {
                unreachable!("a load writes nothing")
            }
        }
    }

    pub fn strength_of_write(&self, new: &NewAccess, is_update: bool) -> Strength {
        let is_full = is_update && self.is_full(new.ordering);
        let releases = !new.is_plain && releases(new.ordering) && !is_full;
        if releases { Strength::Release } else { Strength::Relaxed }
    }

    /// Whether a read-modify-write of this order stands between two full fences, as the kernel's do.
    fn is_full(&self, ordering: Ordering) -> bool {
        matches!(self.rules, Some(Rules::Lkmm(_))) && ordering == Ordering::SeqCst
    }

    pub fn add_read(
        &self,
        executions: &mut Executions,
        new: &NewAccess,
        read: usize,
        updates: bool,
    ) {
        let NewAccess { ordering, .. } = *new;
        let strength = match ordering {
            _ if new.is_plain || !acquires(ordering) || self.is_full(ordering) => Strength::Relaxed,
            Ordering::Acquire if !updates => Strength::AcquirePc,
            _ => Strength::Acquire,
        };
        let from = executions.sources(new.target, read);
        let event = self.event(executions, new, Kind::Read);
        let event = Event { strength, from, data: 0, is_update: updates, ..event };
        let before = self.order_before(executions, &event);
        executions.push(Event { before, ..event }, None);
    }

    fn add_write(
        &self,
        executions: &mut Executions,
        new: &NewAccess,
        place: usize,
        value: u64,
        is_update: bool,
    ) {
        let strength = self.strength_of_write(new, is_update);
        let event = self.event(executions, new, Kind::Write);
        let (mask, value) = (new.target.mask, value << new.target.shift);
        let event = Event { strength, is_update, mask, value, ..event };
        let before = self.order_before(executions, &event);
        executions.push(Event { before, ..event }, Some(place));
    }

    /// What a read-modify-write computes depends on what it has read: it has a data dependency of its own. An exchange computes
    /// nothing, and a compare-exchange only decides.
    pub fn depends_on_old(&self, executions: &mut Executions, id: usize, op: Op<u64>) {
        let computes = matches!(op, Op::Add(_) | Op::Or(_) | Op::And(_) | Op::Xor(_));
        if let (true, Some(read)) = (computes, executions.update_of(id)) {
            executions.events[id].data |= 1 << read;
        }
    }

    /// An event of a task, with what it depends on.
    pub fn event(&self, executions: &Executions, new: &NewAccess, kind: Kind) -> Event {
        let task = new.task;
        let Dependencies { address, data, control, of_spinlock } = executions.pending[task];
        let control = control | executions.controls[task];
        let named = |locals| executions.named(task, locals);
        Event {
            task: task as u8,
            local: executions.counts[task],
            kind,
            strength: Strength::Relaxed,
            is_plain: new.is_plain,
            is_promise: false,
            is_update: false,
            of_spinlock,
            cell: new.target.cell,
            words: new.target.words,
            mask: 0,
            value: 0,
            from: 0,
            address: named(address),
            data: named(data),
            control: named(control),
            before: 0,
            ordering: new.ordering,
            site: new.site,
        }
    }

    fn add_fence(
        &self,
        executions: &mut Executions,
        task: usize,
        barrier: Barrier,
        site: CodeSite,
    ) {
        let target = Target::NOTHING;
        let new =
            NewAccess { task, target: &target, site, ordering: Ordering::SeqCst, is_plain: false };
        let event = self.event(executions, &new, Kind::Fence(barrier));
        let event = Event { address: 0, data: 0, control: 0, ..event };
        let before = self.order_before(executions, &event);
        executions.push(Event { before, ..event }, None);
    }

    /// In how many ways a task can do its pending access.
    pub fn allowed_alternatives(&self, task: usize) -> u8 {
        self.allowed_steps(task).len() as u8
    }

    /// Performs the pending access of a task, which may read old values.
    pub fn old_perform(&mut self, task: usize, alternative: u8) -> Option<(Reply, String)> {
        if self.rules.is_some() {
            self.allowed_perform(task, alternative)
        } else {
            self.weak_perform(task, alternative)
        }
    }

    /// Performs the pending access of a task. The reply is `None` where the task stays at it.
    fn allowed_perform(&mut self, task: usize, alternative: u8) -> Option<(Reply, String)> {
        let request = self.state.tasks[task].request;
        let Request { kind, offset, size, location, .. } = request;
        let reply = Reply { held: true, ..Reply::default() };
        if self.is_too_long() {
            return Some((reply, String::new()));
        }
        if kind.is_futex() {
            self.with_executions(|world, all| world.add_fence(all, task, Barrier::Full, location));
        }
        if kind.is_futex() && !kind.looks_in_kernel() {
            return Some((reply, String::new()));
        }
        if alternative >= PROMISES {
            self.make_promise(task, alternative);
            return None;
        }
        let step = self.allowed_steps(task)[usize::from(alternative)];
        let target = self.layout.target(offset, size);
        let note = if self.trace.is_some() {
            self.note_of_allowed(task, &request, step)
        } else {
            String::new()
        };
        let mut reply = reply;
        self.with_executions(|world, all| {
            world.begin(all, &target, offset, location);
            if let (WeakStep::Fulfils(id), RequestKind::Access(op)) = (step, kind) {
                let place = all.place_before(id.into()).unwrap_or_default();
                let value = all.value(target.cell, place) >> target.shift & ones(size);
                reply.value = if matches!(op, Op::Store(_)) { 0 } else { value };
            }
            if let WeakStep::Reads(read) | WeakStep::Updates(read) = step {
                reply.value = all.value(target.cell, read.into()) >> target.shift & ones(size);
            }
            world.add(all, task, &request, &target, step);
        });
        if let RequestKind::AwaitFor(until) = kind {
            reply.held = until.holds(reply.value);
        }
        self.follow_allowed(task, &request, &target, step, reply.value);
        if let WeakStep::Misses(_) = step {
            self.trace_step(task, &request, 0, &format!("does not see it in time{note}"));
            return None;
        }
        self.state.executions.pending[task] = Dependencies::default();
        Some((reply, note))
    }

    fn with_executions(&mut self, act: impl FnOnce(&World, &mut Executions)) {
        let mut executions = std::mem::take(&mut self.state.executions);
        act(self, &mut executions);
        self.state.executions = executions;
    }

    /// Does to memory what was done to the execution, and looks for races.
    fn follow_allowed(
        &mut self,
        task: usize,
        request: &Request,
        target: &Target,
        step: WeakStep,
        value: u64,
    ) {
        let Request { kind, offset, size, location, .. } = *request;
        // So does one that fails: each time, it would only be another event.
        if let (WeakStep::Updates(_) | WeakStep::Reads(_), RequestKind::Access(op)) = (step, kind)
            && op != Op::Load
            && op.written(value, size).is_none_or(|new| new == value)
        {
            self.idle_update = Some((self.place_of(task), value));
        }
        if matches!(kind, RequestKind::Await(_)) {
            // A wait is a loop: what follows depends on its end.
            let executions = &mut self.state.executions;
            executions.controls[task] |= 1 << (executions.counts[task] - 1);
        }
        let executions = &self.state.executions;
        let newest = executions.order(target.cell).len() - 1;
        let reads = !matches!(kind, RequestKind::Access(Op::Store(_)));
        let writes = !matches!(step, WeakStep::Reads(_) | WeakStep::Misses(_));
        self.note_use(task, (offset, size), reads, writes);
        if matches!(step, WeakStep::Writes(_) | WeakStep::Updates(_)) {
            self.learn_promise(task, request);
        }
        let executions = &self.state.executions;
        if matches!(step, WeakStep::Writes(_) | WeakStep::Updates(_)) {
            let mask = executions.cell_mask(target.cell);
            let memory = self.read(offset & !7, 8) & !mask | executions.value(target.cell, newest);
            self.write(offset & !7, 8, memory);
        }
        // The read of a read-modify-write is ordered as its write is.
        let is_access = |event: &Event| !matches!(event.kind, Kind::Fence(_));
        let of_task = self.state.executions.of_task(task as u8);
        let mut ids: Vec<(u8, usize)> =
            of_task.filter(|(_, it)| is_access(it)).map(|(id, it)| (it.local, id)).collect();
        ids.sort_unstable();
        let is_update = match step {
            WeakStep::Updates(_) => true,
            WeakStep::Fulfils(_) => !matches!(kind, RequestKind::Access(Op::Store(_))),
            _ => false,
        };
        for &(_, id) in ids.iter().rev().take(1 + usize::from(is_update)) {
            let _ = self.find_unordered(id, offset, size, location);
        }
    }

    /// Whether the execution is longer than can be kept, which ends the check.
    fn is_too_long(&mut self) -> bool {
        let executions = &self.state.executions;
        let longest = executions.counts.iter().map(|&count| usize::from(count)).max();
        let most = longest.unwrap_or_default().max(executions.events.len());
        let is_too_long = most + EVENTS_OF_STEP > EVENTS_MAX;
        if is_too_long {
            let most = EVENTS_MAX;
            self.refuse(format!("an execution with more than {most} accesses at a time"));
        }
        is_too_long
    }

    // Plain accesses.

    /// A plain read, which must be ordered after all writes of others.
    pub fn allowed_get(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        site: CodeSite,
    ) -> Result<u64, FaultFound> {
        self.expect_plain(offset, size, site)?;
        let target = self.layout.target(offset, size);
        let ordering = Ordering::Relaxed;
        let mut value = 0;
        self.with_executions(|world, all| {
            world.begin(all, &target, offset, site);
            // Not what the task itself has only promised.
            let readable = all.readable(task, &target);
            let newest = readable.first().copied().unwrap_or(all.order(target.cell).len() - 1);
            value = all.value(target.cell, newest) >> target.shift & ones(size);
            let new = NewAccess { task, target: &target, site, ordering, is_plain: true };
            world.add_read(all, &new, newest, false);
        });
        self.state.executions.pending[task] = Dependencies::default();
        let id = self.state.executions.events.len() - 1;
        self.find_unordered(id, offset, size, site)?;
        Ok(value)
    }

    /// A plain write, which must be ordered after all accesses of others.
    pub fn allowed_set(
        &mut self,
        task: usize,
        (offset, size): (u32, u8),
        value: u64,
        site: CodeSite,
    ) -> Result<(), FaultFound> {
        self.expect_plain(offset, size, site)?;
        let target = self.layout.target(offset, size);
        let ordering = Ordering::Relaxed;
        self.with_executions(|world, all| {
            world.begin(all, &target, offset, site);
            let last = all.order(target.cell).len();
            let new = NewAccess { task, target: &target, site, ordering, is_plain: true };
            world.add_write(all, &new, last, value & ones(size), false);
        });
        self.state.executions.pending[task] = Dependencies::default();
        let id = self.state.executions.events.len() - 1;
        self.find_unordered(id, offset, size, site)?;
        self.write(offset, size, value);
        Ok(())
    }

    /// Makes one cell of the words of a plain access.
    fn expect_plain(&mut self, offset: u32, size: u8, site: CodeSite) -> Result<(), FaultFound> {
        self.grown |= self.layout.join_cell(offset, size);
        if !self.layout.has_small_cell(offset) {
            self.refuse(format!("words of more than eight bytes that accesses join, at {site}"));
            return Err(FaultFound);
        }
        if self.grown || self.is_too_long() { Err(FaultFound) } else { Ok(()) }
    }

    /// Reports an access of another task that conflicts with this one, where one of both is plain and nothing orders them.
    fn find_unordered(
        &mut self,
        id: usize,
        offset: u32,
        size: u8,
        site: CodeSite,
    ) -> Result<(), FaultFound> {
        if !self.checks_order {
            return Ok(());
        }
        let executions = &self.state.executions;
        let event = executions.events[id];
        let conflicts = |&(_, other): &(usize, &Event)| {
            other.task != event.task
                && other.task != NOBODY
                && (other.is_plain || event.is_plain)
                && other.cell == event.cell
                && other.words & event.words != 0
                && !matches!(other.kind, Kind::Fence(_))
                && (other.kind == Kind::Write || event.kind == Kind::Write)
        };
        let mut conflicting = executions.events.iter().enumerate().filter(conflicts).peekable();
        if conflicting.peek().is_none() {
            return Ok(());
        }
        let ordered = match self.rules {
            Some(Rules::Lkmm(version)) => lkmm::ordered_before(executions, id, version),
            _ => {
                let own = executions.update_of(id).map_or(0, |read| 1 << read);
                let before = set(own)
                    .fold(event.before, |all, read| all & !own | executions.events[read].before);
                armv8::ancestors(executions, before)
            }
        };
        let Some((_, other)) = conflicting.find(|&(other, _)| ordered >> other & 1 == 0) else {
            return Ok(());
        };
        let does = |event: &Event, what: &str| match (event.kind, event.is_plain) {
            (Kind::Read, true) => format!("reads {what} plainly"),
            (Kind::Read, false) => format!("loads {what}"),
            (_, true) => format!("writes {what} plainly"),
            (_, false) => format!("stores {what}"),
        };
        let name = self.layout.name(offset, size);
        let race = format!(
            "t{} {} at {site}, t{} {} at {}; nothing orders them",
            event.task,
            does(&event, &name),
            other.task,
            does(other, "it"),
            other.site
        );
        self.report_fault(Fault::Race(race));
        Err(FaultFound)
    }

    // Fences, dependencies, and the end of events.

    /// A fence of C11.
    pub fn allowed_fence(&mut self, task: usize, ordering: Ordering, site: CodeSite) {
        let barriers: &[Barrier] = match (self.rules, ordering) {
            (_, Ordering::SeqCst) => &[Barrier::Full],
            (Some(Rules::Armv8), Ordering::Acquire) => &[Barrier::Loads],
            (Some(Rules::Armv8), _) => &[Barrier::Full],
            (_, Ordering::Acquire) => &[Barrier::Acquire],
            (_, Ordering::Release) => &[Barrier::Release],
            _ => &[Barrier::Release, Barrier::Acquire],
        };
        for &barrier in barriers {
            self.allowed_barrier(task, barrier, site);
        }
    }

    /// A fence, by what it orders.
    pub fn allowed_barrier(&mut self, task: usize, barrier: Barrier, site: CodeSite) {
        if !self.is_too_long() {
            self.with_executions(|world, all| world.add_fence(all, task, barrier, site));
        }
    }

    /// The reads of a task, by their numbers in it, that are not ordered before all that it will do.
    pub fn open_reads(&self, task: usize) -> Bits {
        let executions = &self.state.executions;
        let over = match self.rules {
            Some(Rules::Armv8) => armv8::before_all(executions, task as u8),
            Some(Rules::Lkmm(_)) => lkmm::before_all(executions, task as u8),
            None => return Bits::MAX,
        };
        let open = executions
            .of_task(task as u8)
            .filter(|(id, event)| event.kind == Kind::Read && over >> id & 1 == 0);
        open.fold(0, |all, (_, event)| all | 1 << event.local)
    }

    /// Drops events that no longer matter from the live state.
    pub fn settle_executions(&mut self) {
        if self.rules.is_none() || self.grown {
            return;
        }
        for task in 0..self.tasks() {
            let open = self.open_reads(task);
            self.state.executions.controls[task] &= open;
        }
        let live: Vec<u8> = (0..self.tasks())
            .filter(|&task| !self.state.tasks[task].ended)
            .map(|t| t as u8)
            .collect();
        if self.rules == Some(Rules::Armv8) {
            self.state.executions.settle(&live);
        } else if live.is_empty() && !self.has_promises() {
            self.state.executions.clear();
        }
    }

    /// What a trace says of a step: which write was read, or passed, that nothing orders before it.
    fn note_of_allowed(&self, task: usize, request: &Request, step: WeakStep) -> String {
        let target = self.layout.target(request.offset, request.size);
        let executions = &self.state.executions;
        let order = executions.order(target.cell);
        let next = |from: usize| {
            let later = order.get(from..).unwrap_or_default();
            let mut later = later.iter().map(|&id| executions.events[usize::from(id)]);
            later.find(|it| it.words & target.words != 0)
        };
        let said = |it: &Event| {
            let how = if it.is_plain { "plain" } else { name_of(it.ordering) };
            format!("t{} at {}, {how}", it.task, it.site)
        };
        match step {
            WeakStep::Reads(read) | WeakStep::Updates(read) | WeakStep::Misses(read) => {
                let next = next(usize::from(read) + 1).filter(|it| usize::from(it.task) != task);
                next.map_or_else(String::new, |it| {
                    format!(" (old: the write of {} is not ordered before this)", said(&it))
                })
            }
            WeakStep::Fulfils(_) => " (was visible before)".to_string(),
            WeakStep::Writes(place) => next(place.into()).map_or_else(String::new, |it| {
                format!(" (comes before the write of {}: nothing orders them)", said(&it))
            }),
        }
    }
}

/// An access that is added, before what it reads or writes is known.
pub struct NewAccess<'a> {
    pub task: usize,
    pub target: &'a Target,
    pub site: CodeSite,
    pub ordering: Ordering,
    pub is_plain: bool,
}
