//! The rules of RC11: which messages a task may read, where its own may go, and what becomes known by that. See `views`.

use machine::{CodeSite, Op, Ordering};

use super::executions::{Rules, lkmm};
use super::failure::Fault;
use super::happens_before::{FENCED, PENDING};
use super::hash::mix;
use super::request::{Reply, Request, RequestKind, acquires, ones, releases};
use super::state::CheckedTask;
use super::trace::{How, name_of};
use super::views::{
    Acted, Author, Event, FENCE, MEMORY, MESSAGES_MAX, NewMessage, Settling, Target, Views,
};
use super::world::{FaultFound, World};
use super::{Memory, Options, Setup};
use crate::Unsupported;

/// What a task may do next with a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeakStep {
    /// Reads this message.
    Reads(u8),
    /// Writes a message at this index.
    Writes(u8),
    /// Reads this message and writes one right behind it.
    Updates(u8),
    /// Comes to a write that was promised: this event.
    Fulfils(u8),
    /// Goes on waiting, and has seen the newest message: what it waited for was there, and is over.
    Misses(u8),
}

impl World {
    /// What no search has from the start.
    pub fn unsupported(setup: &Setup, options: &Options) -> Option<Fault> {
        let has_interrupts = options.memory.reads_old() && setup.ipi_handler.is_some();
        let unsupported = || {
            let why = format!("interrupts are not searched under {}", options.memory.name());
            Unsupported::new(why, "check it with --memory x86")
        };
        has_interrupts.then(|| Fault::Unsupported(unsupported()))
    }

    /// Views in which everybody knows everything.
    pub fn new_views(&self, tasks: usize) -> Views {
        if !self.is_weak {
            return Views::default();
        }
        Views::new(self.kernel_row(tasks) + 1)
    }

    /// The row of what futexes order: behind those of tasks, words and fences.
    pub fn kernel_row(&self, tasks: usize) -> usize {
        let fences = if self.layout.has_fences { 2 * tasks } else { 0 };
        tasks + self.layout.rows.len() + fences
    }

    fn fence_rows(&self, task: usize) -> Option<[usize; 2]> {
        Some([self.fence_row(task, PENDING)?, self.fence_row(task, FENCED)?])
    }

    /// Prepares for an access: its cell, its columns.
    pub fn expect_access(&mut self, request: &Request) {
        let Request { kind, offset, size, ordering, failure, location } = *request;
        if !self.reads_old() || size == 0 || !self.layout.is_in_words(offset, size) {
            return;
        }
        if !self.layout.is_whole(offset, size) {
            let name = self.layout.name(offset, size);
            return self.refuse(
                format!("an access to a part of {name} at {location}, of another size than the variable (a mixed size)"),
            );
        }
        self.grown |= self.layout.join_cell(offset, size);
        if !self.layout.has_small_cell(offset) {
            return self.refuse(format!(
                "words of more than eight bytes that accesses join, at {location}"
            ));
        }
        let is_futex = kind.is_futex();
        let loads_or_stores = matches!(
            kind,
            RequestKind::Access(Op::Load | Op::Store(_))
                | RequestKind::Await(_)
                | RequestKind::AwaitFor(_)
        );
        let is_of_kernel = matches!(self.rules, Some(Rules::Lkmm(_)));
        if loads_or_stores && ordering == Ordering::SeqCst && is_of_kernel {
            let way_out = "use the kernel's primitives, or check it with --memory rc11";
            let why = format!(
                "a sequentially consistent load or store at {location}, which the kernel's model has not"
            );
            return self.report_fault(Fault::Unsupported(Unsupported::new(why, way_out)));
        }
        let is_in_order = [ordering, failure].contains(&Ordering::SeqCst) || is_futex;
        if is_in_order && self.is_weak {
            self.need_order();
        }
    }

    /// The search begins again, with an order of sequentially consistent events.
    fn need_order(&mut self) {
        self.grown |= !self.layout.has_order;
        self.layout.has_order = true;
    }

    /// The name of the memory model whose searches can refuse something.
    fn model(&self) -> &'static str {
        match self.rules {
            None => Memory::Rc11.name(),
            Some(Rules::Armv8) => Memory::Armv8.name(),
            Some(Rules::Lkmm(lkmm::Version::Today)) => Memory::Lkmm.name(),
            Some(Rules::Lkmm(lkmm::Version::Until62)) => Memory::LkmmUntil62.name(),
        }
    }

    /// Ends the check: what the code does may be right.
    pub fn refuse(&mut self, why: String) {
        let way_out = "check it with --memory x86";
        self.report_fault(Fault::Unsupported(Unsupported::new(
            format!("{why} is not searched under {}", self.model()),
            way_out,
        )));
    }

    /// What the pending access of a task may do: the newest first.
    pub fn weak_steps(&self, task: usize) -> Vec<WeakStep> {
        let Request { kind, offset, size, .. } = self.state.tasks[task].request;
        let target = self.layout.target(offset, size);
        let views = &self.state.views;
        let mut indices = Vec::new();
        if let RequestKind::Access(Op::Store(_)) = kind {
            views.writable(task, &target, &mut indices);
            return indices.into_iter().map(WeakStep::Writes).collect();
        }
        let kernel = self.kernel_row(self.tasks());
        let rows = [task, kernel];
        let is_futex = kind.looks_in_kernel();
        views.readable(if is_futex { &rows } else { &rows[..1] }, &target, &mut indices);
        let value = |read: u8| self.value_at(views, (offset, size), &target, read);
        let request = &self.state.tasks[task].request;
        let is_acquired = |read: u8| acquires(request.order_of_reading(value(read)));
        indices.retain(|&read| !is_acquired(read) || views.is_coherent(&target, read));
        match kind {
            RequestKind::Access(Op::Load)
            | RequestKind::AwaitFor(_)
            | RequestKind::Park(..)
            | RequestKind::Requeue(..) => indices.into_iter().map(WeakStep::Reads).collect(),
            RequestKind::Await(until) => {
                let newest = indices[0];
                let is_over = !until.holds(value(newest));
                indices.retain(|&read| until.holds(value(read)));
                let misses = (is_over && !indices.is_empty()).then_some(WeakStep::Misses(newest));
                indices.into_iter().map(WeakStep::Reads).chain(misses).collect()
            }
            RequestKind::Access(op) => indices
                .into_iter()
                .filter_map(|read| match op.written(value(read), size) {
                    None => Some(WeakStep::Reads(read)),
                    Some(_) if self.state.tasks[task].spins_on == Some(value(read)) => None,
                    Some(_) => views.can_update(&target, read).then_some(WeakStep::Updates(read)),
                })
                .collect(),
            _ => Vec::new(),
        }
    }

    /// In how many ways a task can do its pending access.
    pub fn weak_alternatives(&self, task: usize) -> u8 {
        let Request { offset, size, .. } = self.state.tasks[task].request;
        let target = self.layout.target(offset, size);
        if self.state.views.cell(target.cell).is_empty() {
            let Request { kind, .. } = self.state.tasks[task].request;
            let value = self.read(offset, size);
            return u8::from(match kind {
                RequestKind::Await(until) => until.holds(value),
                _ => self.state.tasks[task].spins_on != Some(value),
            });
        }
        self.weak_steps(task).len() as u8
    }

    /// Whether an alternative agrees with an order of sequentially consistent events.
    pub fn is_possible(&self, task: usize, alternative: u8) -> bool {
        let request = self.state.tasks[task].request;
        let in_order = self.is_weak && self.layout.has_order && request.size > 0;
        // The newest message can always be read, and a new one can always come last.
        let is_newest = alternative == 0 && !matches!(request.kind, RequestKind::Await(_));
        if !in_order || is_newest {
            return true;
        }
        let Some(&step) = self.weak_steps(task).get(usize::from(alternative)) else { return true };
        let mut views = self.state.views.copied();
        if request.kind.looks_in_kernel() {
            self.enter_kernel(&mut views, task);
        }
        !self.act(&mut views, task, &request, step).is_impossible
    }

    fn value_at(&self, views: &Views, (offset, size): (u32, u8), target: &Target, read: u8) -> u64 {
        let chunk = views.value(target, read, self.read(offset & !7, 8));
        chunk >> target.shift & ones(size)
    }

    /// Performs a step on these views.
    fn act(&self, views: &mut Views, task: usize, request: &Request, step: WeakStep) -> Acted {
        let Request { kind, offset, size, ordering, location, .. } = *request;
        let target = self.layout.target(offset, size);
        let author = Author { task: task as u8, ordering, site: location };
        let new =
            |value: u64, is_update| NewMessage { value: value << target.shift, is_update, author };
        let (read, write, ordering) = match (step, kind) {
            (WeakStep::Writes(index), RequestKind::Access(Op::Store(value))) => {
                (None, Some((index, new(value & ones(size), false))), ordering)
            }
            (WeakStep::Updates(read), RequestKind::Access(op)) => {
                let old = self.value_at(views, (offset, size), &target, read);
                let value = op.written(old, size).expect("an update writes");
                let index = if read == MEMORY { 0 } else { read + 1 };
                (Some(read), Some((index, new(value, true))), ordering)
            }
            (WeakStep::Reads(read) | WeakStep::Misses(read), _) => {
                (Some(read), None, ordering_of(step, request))
            }
            (WeakStep::Writes(_) | WeakStep::Updates(_) | WeakStep::Fulfils(_), _) => {
                unreachable!("a load writes nothing, and nothing is promised")
            }
        };
        let masks = self.layout.masks(&target);
        views.act(&Event {
            task,
            tasks: self.tasks(),
            target: &target,
            ordering,
            read,
            write,
            has_order: self.layout.has_order,
            fence_rows: self.fence_rows(task),
            memory: self.read(offset & !7, 8),
            masks: &masks,
        })
    }

    /// Performs the pending access of a task. The reply is `None` where the task stays at it.
    pub fn weak_perform(&mut self, task: usize, alternative: u8) -> Option<(Reply, String)> {
        let request = self.state.tasks[task].request;
        let Request { kind, offset, size, .. } = request;
        if self.is_local {
            return Some((self.weak_local(task, &request), String::new()));
        }
        if kind.is_futex() {
            let mut views = std::mem::take(&mut self.state.views);
            self.enter_kernel(&mut views, task);
            self.state.views = views;
            if !kind.looks_in_kernel() {
                self.leave_kernel(task);
                return Some((Reply { held: true, ..Reply::default() }, String::new()));
            }
        }
        let step = self.weak_steps(task)[usize::from(alternative)];
        let note =
            if self.trace.is_some() { self.note_of(task, &request, step) } else { String::new() };
        let mut reply = Reply { held: true, ..Reply::default() };
        let target = self.layout.target(offset, size);
        if let WeakStep::Reads(read) | WeakStep::Updates(read) = step {
            reply.value = self.value_at(&self.state.views, (offset, size), &target, read);
        }
        if let RequestKind::AwaitFor(until) = kind {
            reply.held = until.holds(reply.value);
        }
        let how = match step {
            WeakStep::Reads(_) | WeakStep::Misses(_) => How::Reads,
            WeakStep::Writes(_) | WeakStep::Fulfils(_) => How::Writes,
            WeakStep::Updates(_) => How::Modifies,
        };
        if !matches!(kind, RequestKind::Park(_, sleep) if sleep.is_of_condition) {
            self.touch(task, &request, how);
        }
        if let (WeakStep::Updates(_), RequestKind::Access(op)) = (step, kind)
            && op.written(reply.value, size) == Some(reply.value)
        {
            self.idle_update = Some((self.place_of(task), reply.value));
        }
        let mut views = std::mem::take(&mut self.state.views);
        let acted = self.act(&mut views, task, &request, step);
        self.state.views = views;
        self.follow(task, &request, step, &acted);
        if kind.looks_in_kernel() {
            self.leave_kernel(task);
        }
        if let WeakStep::Misses(_) = step {
            self.trace_step(task, &request, 0, &format!("does not see it in time{note}"));
            return None;
        }
        Some((reply, note))
    }

    /// A hash of what a task does next.
    pub fn place_of(&self, task: usize) -> u64 {
        let CheckedTask { request, history, .. } = self.state.tasks[task];
        let site = u64::from(request.location.line) << 32 | u64::from(request.location.column);
        mix(mix(history, site), u64::from(request.offset))
    }

    /// Notes whether a task has come back to a read-modify-write that has just changed nothing: it waits until the word has
    /// another value. What it does until then publishes no more than before. So does a task whose sleep in between was ended
    /// by its time-out alone; had it been woken, it might have to sleep again.
    pub fn find_spin(&mut self, task: usize) {
        let slept_after = self.state.tasks[task].slept_after.take();
        let before = self.idle_update.take().or(slept_after);
        if !self.reads_old() {
            return;
        }
        let place = self.place_of(task);
        let task = &mut self.state.tasks[task];
        let is_access = matches!(task.request.kind, RequestKind::Access(_));
        task.spins_on =
            before.filter(|&(last, _)| is_access && last == place).map(|(_, value)| value);
        let is_timed = matches!(task.request.kind, RequestKind::Park(_, sleep) if sleep.timed);
        task.slept_after = before.filter(|_| is_timed);
    }

    /// Does to memory, and to what happened before what, as was done to views.
    fn follow(&mut self, task: usize, request: &Request, step: WeakStep, acted: &Acted) {
        if self.grown {
            // The search begins again, with tables of other sizes.
            return;
        }
        let Request { offset, size, .. } = *request;
        let ordering = ordering_of(step, request);
        let rows = self.state.views.rows();
        self.state.happens_before.add_rows(rows);
        let pending = self.fence_row(task, PENDING);
        let known = if acquires(ordering) { Some(task) } else { pending };
        for (&row, known) in acted.read_rows.iter().zip(std::iter::repeat(known)) {
            if let Some(known) = known {
                self.state.happens_before.join(known, row);
            }
        }
        if acted.is_too_much {
            self.refuse("a search that must keep more than 64 events at a time".to_string());
        }
        if !matches!(step, WeakStep::Writes(_) | WeakStep::Updates(_)) {
            return;
        }
        if let Some(row) = acted.row {
            let fenced = self.fence_row(task, FENCED);
            let released = if releases(ordering) { Some(task) } else { fenced };
            match released {
                Some(released) => self.state.happens_before.copy(row, released),
                None => self.state.happens_before.clear(row),
            }
            if let (WeakStep::Updates(_), reads) = (step, &acted.read_rows) {
                reads.iter().for_each(|&from| self.state.happens_before.join(row, from));
            }
            for word in self.layout.touched(offset, size).filter(|_| !releases(ordering)) {
                self.publish_itself(row, task, word);
            }
        }
        let target = self.layout.target(offset, size);
        let cell = self.state.views.cell(target.cell);
        if cell.len() > MESSAGES_MAX {
            return self.refuse(format!("a word with more than {MESSAGES_MAX} values at a time"));
        }
        let newest = (cell.len() - 1) as u8;
        let memory = self.state.views.value(&target, newest, self.read(offset & !7, 8));
        self.write(offset & !7, 8, memory);
    }

    /// An access that something else orders: all that is to be known is known.
    fn weak_local(&mut self, task: usize, request: &Request) -> Reply {
        let Request { kind, offset, size, .. } = *request;
        let value = self.read(offset, size);
        let mut reply = Reply { value, held: true, ..Reply::default() };
        let mut how = How::Reads;
        match kind {
            RequestKind::Access(op) => {
                let new = op.written(value, size);
                how = How::of(op, new.is_some());
                if let Some(new) = new {
                    self.write(offset, size, new);
                }
                if let Op::Store(_) = op {
                    reply.value = 0;
                }
            }
            RequestKind::Await(until) | RequestKind::AwaitFor(until) => {
                reply.held = until.holds(value)
            }
            _ => {}
        }
        self.touch(task, request, how);
        self.passes_word(task, offset);
        reply
    }

    /// Notes that a task accesses a word, which is no step.
    fn passes_word(&mut self, task: usize, offset: u32) {
        if self.is_weak && self.layout.has_order {
            let cell = self.layout.cell_at(offset);
            self.state.views.passes(task, cell);
        }
    }

    // Plain accesses.

    /// Whether a plain read may read something older too: a race.
    pub fn check_newest(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: CodeSite,
    ) -> Result<(), FaultFound> {
        if !self.is_weak {
            return Ok(());
        }
        self.passes_word(task, offset);
        let views = &self.state.views;
        let is_behind = |word| views.is_behind(task, &self.layout.target_of(word));
        if views.messages.is_empty() || !self.layout.touched(offset, size).any(is_behind) {
            return Ok(());
        }
        if self.accepts_old_read(task, offset, size, location) {
            return Ok(());
        }
        let name = self.layout.name(offset, size);
        self.report_fault(Fault::Race(format!(
            "t{task} reads {name} plainly at {location}, not ordered after the last atomic write"
        )));
        Err(FaultFound)
    }

    /// A plain write has been ordered after all other accesses: its words hold one value for all.
    pub fn forget_messages(&mut self, task: usize, offset: u32, size: u8) {
        if self.is_weak {
            self.passes_word(task, offset);
            for word in self.layout.touched(offset, size) {
                let target = self.layout.target_of(word);
                self.state.views.forget_words(&target);
            }
        }
    }

    // Fences and futexes.

    /// What a fence does to views, after the search knows that there are fences.
    pub fn weak_fence(&mut self, task: usize, ordering: Ordering) {
        if !self.is_weak {
            return;
        }
        if ordering == Ordering::SeqCst {
            self.need_order();
        }
        let Some([pending, fenced]) = self.fence_rows(task).filter(|_| !self.grown) else { return };
        if acquires(ordering) {
            self.state.views.join(task, pending);
        }
        if self.layout.has_order {
            self.state.views.passes(task, FENCE);
        }
        if ordering == Ordering::SeqCst {
            self.order_fence(task);
        }
        if releases(ordering) {
            self.state.views.copy(fenced, task);
        }
    }

    fn order_fence(&mut self, task: usize) {
        if !self.state.views.has_room() {
            return self
                .refuse("a search that must keep more than 64 events at a time".to_string());
        }
        let layout = &self.layout;
        self.state.views.order_fence(task, |cell| layout.columns_of(cell));
    }

    /// A futex call begins with a full fence, and sees what earlier calls saw.
    fn enter_kernel(&self, views: &mut Views, task: usize) {
        let kernel = self.kernel_row(self.tasks());
        if self.layout.has_order && views.has_room() {
            views.passes(task, FENCE);
            views.order_fence(task, |cell| self.layout.columns_of(cell));
        }
        // Only of values: it orders no plain accesses.
        views.join_seen(task, kernel);
    }

    fn leave_kernel(&mut self, task: usize) {
        let kernel = self.kernel_row(self.tasks());
        self.state.views.join_seen(kernel, task);
    }

    /// An address that was computed from what was read: its words are as new as what was read says.
    pub fn weak_depend(&mut self, task: usize, offset: u32, size: u8) {
        if let (true, Some([pending, _])) = (self.is_weak, self.fence_rows(task)) {
            for word in self.layout.touched(offset, size) {
                let target = self.layout.target_of(word);
                self.state.views.join_words(task, pending, &target);
            }
        }
    }

    /// Drops what no longer matters from the live state.
    pub fn settle_views(&mut self) {
        if !self.is_weak || self.grown {
            return;
        }
        let views = std::mem::take(&mut self.state.views);
        self.state.views = self.settled(views);
    }

    fn settled(&self, mut views: Views) -> Views {
        let live: Vec<usize> =
            (0..self.tasks()).filter(|&task| !self.state.tasks[task].ended).collect();
        let happens_before = &self.state.happens_before;
        let is_known = |row: usize| live.iter().all(|&task| happens_before.knows(task, row));
        views.settle(&Settling {
            tasks: &live,
            has_order: self.layout.has_order,
            columns_of: &|cell| self.layout.columns_of(cell),
            is_known: &is_known,
        });
        views
    }

    /// What a trace says of a step: which message was read, and what was not ordered before that.
    fn note_of(&self, task: usize, request: &Request, step: WeakStep) -> String {
        let target = self.layout.target(request.offset, request.size);
        let views = &self.state.views;
        let said = |author: &Author| {
            let Author { task, ordering, site } = author;
            format!("t{task} at {site}, {}", name_of(*ordering))
        };
        match step {
            WeakStep::Reads(read) | WeakStep::Updates(read) | WeakStep::Misses(read) => {
                let next = views.next_unread(&target, read);
                let Some(next) = next.and_then(|next| next.author) else { return String::new() };
                let is_own = usize::from(next.task) == task;
                if is_own {
                    String::new()
                } else {
                    format!(" (old: the write of {} is not ordered before this)", said(&next))
                }
            }
            WeakStep::Fulfils(_) => String::new(),
            WeakStep::Writes(index) => {
                let cell = &views.messages[views.cell(target.cell)];
                let next =
                    cell[usize::from(index)..].iter().find(|next| next.words & target.words != 0);
                let Some(next) = next.and_then(|next| next.author) else { return String::new() };
                format!(" (comes before the write of {}: nothing orders them)", said(&next))
            }
        }
    }
}

/// How a step orders: a compare-exchange that fails as it says, a wait that goes on not at all.
pub fn ordering_of(step: WeakStep, request: &Request) -> Ordering {
    match (step, request.kind) {
        (WeakStep::Misses(_), _) => Ordering::Relaxed,
        (WeakStep::Reads(_), RequestKind::Access(op)) if op != Op::Load => request.failure,
        _ => request.ordering,
    }
}
