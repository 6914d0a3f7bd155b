//! Stores that run ahead of earlier loads: which ones can, learned from executions in which they do not, and what becomes of them.
//! See `executions::promises`.

use machine::{CodeSite, Op};

use super::allowed::NewAccess;
use super::executions::{
    Ahead, Bits, Event, Executions, Kind, PROMISES, Rules, Strength, armv8, lkmm,
};
use super::layout::Layout;
use super::request::{Request, RequestKind, ones};
use super::schedule::Turn;
use super::trace::step_line;
use super::views::{Target, bits};
use super::weak::WeakStep;
use super::world::World;

/// Places that are tried for each.
const PLACES: u8 = 5;
/// Learned stores at most.
const LEARNED_MAX: usize = 30;
/// Promises of a task at a time.
const PROMISED_MAX: usize = 2;

impl Layout {
    /// In `users`: tasks that read a word, and that write it.
    pub const READS: usize = 0;
    pub const WRITES: usize = 1;

    /// Whether other tasks read, or write, a word of this access.
    fn is_used_by_others(&self, event: &Event, task: usize, how: usize) -> bool {
        let first = usize::from(event.cell);
        bits(event.words.into()).any(|bit| self.users[first + bit][how] & !(1 << task) != 0)
    }

    /// Adds what was learned. Returns whether it is new.
    fn learn_ahead(&mut self, learned: Ahead) -> bool {
        let Some(known) = self.ahead.iter_mut().find(|known| known.is_same(&learned)) else {
            self.ahead.push(learned);
            return true;
        };
        let new = learned.over.iter().filter(|site| !known.over.contains(site));
        let new: Vec<CodeSite> = new.copied().collect();
        known.over.extend(&new);
        !new.is_empty()
    }
}

impl World {
    /// Whether a task has promised a store that it has not come to.
    pub fn has_promises(&self) -> bool {
        self.rules.is_some() && self.state.executions.promised() != 0
    }

    /// Learns that the store which a task has just done may run ahead of an earlier load.
    pub fn learn_promise(&mut self, task: usize, request: &Request) {
        let executions = &self.state.executions;
        let own = executions.of_task(task as u8).filter(|(_, event)| event.kind == Kind::Write);
        let Some((id, event)) = own.max_by_key(|(_, event)| event.local) else { return };
        let may_run_ahead = event.strength == Strength::Relaxed && !event.is_plain;
        // Without dependencies, stores that have some would run ahead.
        let is_known = self.layout.names_reads;
        if !is_known || !may_run_ahead || self.layout.ahead.len() >= LEARNED_MAX {
            return;
        }
        let ordered = match self.rules {
            Some(Rules::Lkmm(version)) => lkmm::before_of_own(executions, id, version),
            _ => armv8::before_of_own(executions, id),
        };
        let Request { offset, size, ordering, location: site, .. } = *request;
        let target = self.layout.target(offset, size);
        let (value, is_update) = (event.value >> target.shift & ones(size), event.is_update);
        if !self.layout.is_used_by_others(event, task, Layout::READS) {
            return;
        }
        let loads = executions.overtaken(id, ordered).filter(|load| {
            // Only what others write can be another value, had the store come first.
            self.layout.is_used_by_others(load, task, Layout::WRITES)
        });
        let over: Vec<CodeSite> = loads.map(|load| load.site).collect();
        if over.is_empty() {
            return;
        }
        let learned = Ahead { over, task, offset, size, value, is_update, ordering, site };
        self.grown |= self.layout.learn_ahead(learned);
    }

    /// Notes which tasks read and write the words of an access: only what several use can be seen to run ahead.
    pub fn note_use(&mut self, task: usize, (offset, size): (u32, u8), reads: bool, writes: bool) {
        let both = [(reads, Layout::READS), (writes, Layout::WRITES)];
        for (_, how) in both.into_iter().filter(|(does, _)| *does && self.rules.is_some()) {
            for word in self.layout.touched(offset, size) {
                let users = &mut self.layout.users[word][how];
                self.grown |= *users & 1 << task == 0;
                *users |= 1 << task;
            }
        }
    }

    /// Adds the promises that a task may make before its next load.
    pub fn promise_turns(&self, task: usize, into: &mut Vec<Turn>) {
        let request = &self.state.tasks[task].request;
        let reads =
            request.kind.is_access() && !matches!(request.kind, RequestKind::Access(Op::Store(_)));
        if self.layout.ahead.is_empty() || !reads || self.state.tasks[task].ended || self.grown {
            return;
        }
        if self.state.executions.promised_by(task).count() >= PROMISED_MAX {
            return;
        }
        for (number, ahead) in self.layout.ahead.iter().enumerate() {
            if ahead.task != task || !ahead.over.contains(&request.location) {
                continue;
            }
            for nth in 0..PLACES {
                if self.promised(number, nth).is_some() {
                    into.push((task as u8, PROMISES + number as u8 * PLACES + nth));
                }
            }
        }
    }

    /// The execution with a promise: a learned store, at one of its places. `None` if it cannot be there.
    fn promised(&self, number: usize, nth: u8) -> Option<Executions> {
        let &Ahead { task, offset, size, value, is_update, ordering, site, .. } =
            self.layout.ahead.get(number)?;
        let target = self.layout.target(offset, size);
        let mut executions = self.state.executions.copied();
        let (mut behind, value) = (None, value << target.shift);
        for id in executions.promised_by(task) {
            let event = &executions.events[id];
            if event.cell == target.cell && event.words & target.words != 0 {
                if event.value == value {
                    return None;
                }
                behind = behind.max(Some(executions.place_of(id)));
            }
        }
        self.begin(&mut executions, &target, offset, site);
        let places = executions.writable(task, &target).into_iter();
        let place = places.filter(|&place| Some(place) > behind).nth(nth.into())?;
        let new = NewAccess { task, target: &target, site, ordering, is_plain: false };
        let event = self.event(&executions, &new, Kind::Write);
        let mask = target.mask;
        let (address, data, control) = (0, 0, 0);
        let event = Event { mask, value, is_update, address, data, control, ..event };
        let id = executions.events.len();
        executions.promise(event, place);
        self.is_execution_allowed(&executions, 1 << id).then_some(executions)
    }

    /// Makes a promise.
    pub fn make_promise(&mut self, task: usize, alternative: u8) {
        let (number, nth) = ((alternative - PROMISES) / PLACES, (alternative - PROMISES) % PLACES);
        let Some(executions) = self.promised(number.into(), nth) else { return };
        self.state.executions = executions;
        let Ahead { offset, size, value, site, .. } = self.layout.ahead[usize::from(number)];
        let target = self.layout.target(offset, size);
        let executions = &self.state.executions;
        let newest = executions.order(target.cell).len() - 1;
        let mask = executions.cell_mask(target.cell);
        let memory = self.read(offset & !7, 8) & !mask | executions.value(target.cell, newest);
        self.write(offset & !7, 8, memory);
        let step = format!("{} (ahead of loads before it)", self.written(offset, size, value));
        self.trace_line(step_line(task, &step, site), Some(site));
    }

    /// The promises that the pending access of a task may be.
    pub fn fulfilling_steps(
        &self,
        executions: &Executions,
        task: usize,
        request: &Request,
        target: &Target,
    ) -> Vec<WeakStep> {
        let RequestKind::Access(op) = request.kind else { return Vec::new() };
        let mut steps = Vec::new();
        for id in executions.promised_by(task) {
            let event = &executions.events[id];
            if (event.cell, event.words) != (target.cell, target.words) || op == Op::Load {
                continue;
            }
            let Some(before) = executions.place_before(id) else { continue };
            let old = executions.value(target.cell, before) >> target.shift & ones(request.size);
            let writes = op.written(old, request.size).map(|value| value & ones(request.size));
            let is_update = !matches!(op, Op::Store(_));
            let is_it = writes == Some(event.value >> target.shift)
                && is_update == event.is_update
                && executions.can_fulfil(id);
            let step = WeakStep::Fulfils(id as u8);
            if is_it && self.can_come_to(executions, task, request, target, step) {
                steps.push(step);
            }
        }
        steps
    }

    fn can_come_to(
        &self,
        executions: &Executions,
        task: usize,
        request: &Request,
        target: &Target,
        step: WeakStep,
    ) -> bool {
        let WeakStep::Fulfils(id) = step else { return false };
        let mut trial = executions.copied();
        let first = trial.events.len();
        self.add(&mut trial, task, request, target, step);
        let new = (first..trial.events.len()).fold(1 << id, |all: Bits, id| all | 1 << id);
        self.is_execution_allowed(&trial, new)
    }

    /// Makes a promise an event: the task has come to its store.
    pub fn fulfil(
        &self,
        executions: &mut Executions,
        new: &NewAccess,
        op: Op<u64>,
        size: u8,
        id: usize,
    ) {
        let is_update = !matches!(op, Op::Store(_));
        if is_update {
            let before = executions.place_before(id).unwrap_or_default();
            self.add_read(executions, new, before, true);
        }
        let event = self.event(executions, new, Kind::Write);
        let Event { mask, value, .. } = executions.events[id];
        debug_assert!(size > 0);
        let strength = self.strength_of_write(new, is_update);
        let event = Event { strength, is_update, mask, value, ..event };
        let before = self.order_before(executions, &event);
        executions.fulfil(id, Event { before, ..event });
        self.depends_on_old(executions, id, op);
    }
}
