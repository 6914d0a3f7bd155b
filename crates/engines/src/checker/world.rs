//! The rules of the checker: which steps each task may take next, and what they do.

use machine::{CodeSite, Op, Ordering, Region, Sleepers, SourceLine, Until};

use super::bypass::Bypass;
use super::executions::Rules;
use super::failure::Fault;
use super::happens_before::{FENCE_ROWS, FENCED, HappensBefore, PENDING};
use super::hash::mix;
use super::layout::Layout;
use super::request::{Reply, Request, RequestKind, acquires, ones, releases};
use super::schedule::{FLUSH, INTERRUPT, TIME_OUT, Turn, is_by_itself};
use super::state::{BUFFER, BufferedStore, SystemState};
use super::trace::{How, PastAccess, Trace, step_line};
use super::{Memory, Options, Setup};

/// Steps without forgetting history after which a task counts as spinning.
const STEPS_MAX: u32 = 2000;
/// Plain accesses between two steps after which a task counts as looping for ever.
const PLAIN_MAX: u32 = 100_000;

/// A fault was found and is kept in [`World::fault`].
#[derive(Debug)]
pub struct FaultFound;

/// The live state and its rules.
pub struct World {
    pub state: SystemState,
    pub layout: Layout,
    base: *mut u8,
    pub has_buffers: bool,
    /// Whether tasks may read old values: see `weak`.
    pub is_weak: bool,
    /// Whose rules, if executions are kept.
    pub rules: Option<Rules>,
    /// Whether plain accesses must be ordered, where executions are kept.
    pub checks_order: bool,
    /// The read-modify-write of this step, if it left the value that it found: a hash of where its task was, and the value.
    pub idle_update: Option<(u64, u64)>,
    pub check_races: bool,
    /// Lines whose atomic accesses race with nothing.
    pub exempt: &'static [SourceLine],
    /// Whether accesses that something else orders are local steps, tried in one order.
    pub has_local_steps: bool,
    /// Local steps since this was last cleared, as alternatives of their tasks.
    pub local_turns: Vec<u8>,
    /// Whether a local step is being performed.
    pub is_local: bool,
    /// Local steps since the last other step.
    pub local_in_a_row: u32,
    /// Local steps of each task before its first step.
    pub local_turns_at_start: Vec<Vec<u8>>,
    /// The task before which entries of others are counted.
    pub watched_task: Option<usize>,
    /// The task that has entered in this step.
    pub has_entered: Option<usize>,
    /// Whether the last step was unfair to a task, where one is watched.
    pub is_unfair: bool,
    /// Whether an execution ends here that has not happened: a promise is left.
    pub is_cut: bool,
    /// The most entries that were counted.
    pub bypass: Bypass,
    /// Critical sections that were entered.
    pub entries: u64,
    /// Whether loads pass buffered stores only once that was found to matter.
    pub passes_on_demand: bool,
    pub spurious_wakeups: bool,
    /// Whether a task has fallen asleep.
    pub has_slept: bool,
    pub bypasses: Option<u32>,
    pub interrupts: bool,
    /// Whether states are merged under renumbering: CPU numbers are then kept apart from the
    /// values that hold them.
    pub symmetric: bool,
    /// The first fault that was found.
    pub fault: Option<Fault>,
    /// Whether the layout got a new row or column: the search has to begin again, with a larger
    /// table of what happens before what.
    pub grown: bool,
    /// Whether a task has arrived, in the order of arrival that `bypasses` bounds.
    pub arrived: bool,
    /// The steps so far as text, where they are wanted.
    pub trace: Option<Trace>,
    plain_accesses: u32,
}

impl World {
    pub fn new(setup: &Setup, options: &Options) -> World {
        World {
            state: SystemState::default(),
            layout: Layout::new(setup.region),
            base: Region::start(setup.region),
            has_buffers: options.memory == Memory::TotalStoreOrder,
            is_weak: options.memory == Memory::Rc11,
            rules: options.memory.rules(),
            checks_order: options.check_races,
            idle_update: None,
            check_races: options.check_races && options.memory.rules().is_none(),
            exempt: options.exempt,
            local_turns: Vec::new(),
            is_local: false,
            local_in_a_row: 0,
            local_turns_at_start: Vec::new(),
            watched_task: options.watched_task,
            has_entered: None,
            is_unfair: false,
            is_cut: false,
            bypass: Bypass::default(),
            entries: 0,
            // Not with an order of arrival: local steps could decide which task arrives first.
            has_local_steps: options.reduction
                && options.memory.rules().is_none()
                && options.check_races
                && !setup.symmetric
                && setup.ipi_handler.is_none()
                && setup.bypasses.is_none(),
            passes_on_demand: options.memory == Memory::TotalStoreOrder
                && options.reduction
                && options.check_races,
            spurious_wakeups: options.spurious_wakeups,
            has_slept: false,
            bypasses: setup.bypasses,
            interrupts: setup.ipi_handler.is_some(),
            // Pending accesses are compared by task number.
            symmetric: options.symmetry && setup.symmetric && !options.check_forgetting,
            fault: World::unsupported(setup, options),
            grown: false,
            arrived: false,
            trace: None,
            plain_accesses: 0,
        }
    }

    /// An empty table for the rows and columns that are known now.
    pub fn new_happens_before(&self, tasks: usize) -> HappensBefore {
        let buffers = if self.has_buffers { tasks * BUFFER } else { 0 };
        let fences = if self.layout.has_fences { tasks * FENCE_ROWS } else { 0 };
        let futexes = usize::from(self.is_weak);
        let rows = tasks + self.layout.rows.len() + buffers + fences + futexes;
        HappensBefore::new(tasks, rows, self.layout.columns.len())
    }

    /// The empty store buffers of this many tasks.
    pub fn new_buffers(&self, tasks: usize) -> Vec<BufferedStore> {
        vec![BufferedStore::default(); if self.has_buffers { tasks * BUFFER } else { 0 }]
    }

    /// All turns that are possible now. A step that only its own task can see is taken first,
    /// alone: its order with other tasks' steps makes no difference.
    pub fn turns(&self, into: &mut Vec<Turn>) {
        into.clear();
        let tasks = 0..self.state.tasks.len();
        if let Some(task) = tasks.clone().find(|&task| self.is_invisible(task)) {
            let alternatives = match self.state.tasks[task].request.kind {
                RequestKind::Choose(below) => below as u8,
                _ => 1,
            };
            into.extend((0..alternatives).map(|alternative| (task as u8, alternative)));
            return;
        }
        for task in tasks {
            let alternatives = self.alternatives(task);
            let possible = |&alternative: &u8| self.is_possible(task, alternative);
            let alternatives = (0..alternatives).filter(possible);
            into.extend(alternatives.map(|alternative| (task as u8, alternative)));
            if self.rules.is_some() {
                self.promise_turns(task, into);
            }
            if self.state.tasks[task].buffered > 0 {
                into.push((task as u8, FLUSH));
            }
            if let RequestKind::Asleep(_, sleep) = self.state.tasks[task].request.kind {
                self.turns_by_itself(task, sleep, into);
                into.extend(sleep.timed.then_some((task as u8, TIME_OUT)));
            }
            if self.can_be_interrupted(task) {
                into.push((task as u8, INTERRUPT));
            }
        }
    }

    fn can_be_interrupted(&self, task: usize) -> bool {
        let task = &self.state.tasks[task];
        task.interrupt_pending
            && task.irqs_off_depth == 0
            && task.request.kind != RequestKind::Stuck
    }

    fn is_invisible(&self, task: usize) -> bool {
        matches!(self.state.tasks[task].request.kind, RequestKind::Choose(_) | RequestKind::Woken)
    }

    /// Whether the pending store of a task is no step: it goes into the buffer, where no other
    /// task sees it, and no interrupt can come before it.
    pub fn need_not_stop(&self, task: usize) -> bool {
        !self.interrupts && self.can_buffer(task)
    }

    /// Whether the pending access of a task is a store that its buffer can take.
    pub fn can_buffer(&self, task: usize) -> bool {
        let Request { kind, ordering, .. } = self.state.tasks[task].request;
        self.has_buffers
            && matches!(kind, RequestKind::Access(Op::Store(_)))
            && ordering != Ordering::SeqCst
            && usize::from(self.state.tasks[task].buffered) < BUFFER
    }

    /// In how many ways a task can take its next step now; 0 where it is disabled.
    pub fn alternatives(&self, task: usize) -> u8 {
        let Request { kind, offset, size, .. } = self.state.tasks[task].request;
        if self.state.tasks[task].ended {
            return 0;
        }
        let is_chosen = kind.is_access() || kind.looks_in_kernel();
        if self.rules.is_some() && is_chosen && !self.grown {
            return self.allowed_alternatives(task) * self.requeues(task);
        }
        if self.is_weak && is_chosen && !self.grown {
            return self.weak_alternatives(task) * self.requeues(task);
        }
        let buffer_is_empty = self.state.tasks[task].buffered == 0;
        let is_enabled = match kind {
            RequestKind::Access(Op::Load) | RequestKind::AwaitFor(_) => self.may_load(task),
            RequestKind::Await(until) => {
                until.holds(self.value_seen(task, offset, size)) && self.may_load(task)
            }
            RequestKind::Access(Op::Store(_)) if self.interrupts && self.can_buffer(task) => true,
            RequestKind::Access(_)
            | RequestKind::Drain
            | RequestKind::Park(..)
            | RequestKind::Wake(Sleepers::All, _)
            | RequestKind::Interrupt(_) => buffer_is_empty,
            RequestKind::Wake(Sleepers::One, bits) if buffer_is_empty => {
                return self.state.asleep_on(offset, bits).count().max(1) as u8;
            }
            RequestKind::Requeue(..) if buffer_is_empty => return self.requeues(task),
            RequestKind::Wake(..)
            | RequestKind::Requeue(..)
            | RequestKind::Asleep(..)
            | RequestKind::Idle
            | RequestKind::Stuck => false,
            RequestKind::Woken | RequestKind::Choose(_) | RequestKind::Work => true,
        };
        u8::from(is_enabled)
    }

    /// Performs a task's pending step, or makes the oldest store in its buffer visible. Returns
    /// the reply to the task, where it goes on.
    pub fn perform(&mut self, (task, alternative): Turn) -> Option<Reply> {
        let task = usize::from(task);
        self.local_in_a_row = 0;
        if alternative == FLUSH {
            self.flush(task);
            return None;
        }
        let request = self.state.tasks[task].request;
        if alternative == INTERRUPT {
            return Some(self.interrupt(task, &request));
        }
        let Request { kind, offset, size, .. } = request;
        let mut reply = Reply { held: true, ..Reply::default() };
        let buffered = self.state.tasks[task].buffered;
        let before = if self.trace.is_some() { self.value_seen(task, offset, size) } else { 0 };
        let (mut woken, mut note) = (0, String::new());
        if self.reads_old() && kind.touches_memory() {
            (reply, note) = self.old_perform(task, alternative / self.requeues(task))?;
        }
        match kind {
            _ if self.reads_old() && kind.is_access() => {}
            RequestKind::Access(op) => reply.value = self.access(task, &request, op),
            RequestKind::Await(until) | RequestKind::AwaitFor(until) => {
                reply = self.perform_wait(task, &request, until);
            }
            RequestKind::Park(expected, sleep) => {
                self.note_barrier(task, true);
                if !self.reads_old() {
                    reply.value = self.value_seen(task, offset, size);
                }
                if reply.value == expected {
                    self.trace_step(task, &request, 0, "falls asleep");
                    self.has_slept = true;
                    self.state.tasks[task].request.kind = RequestKind::Asleep(expected, sleep);
                    return None;
                }
            }
            RequestKind::Asleep(..) => {
                (reply.held, reply.slept) = (alternative != TIME_OUT, true);
                if is_by_itself(alternative) {
                    note = self.wake_by_itself(task, alternative, &mut reply).to_string();
                }
            }
            RequestKind::Woken => reply.slept = true,
            RequestKind::Wake(whom, bits) => {
                self.note_barrier(task, true);
                woken = self.wake_sleepers(offset, whom, bits, alternative);
            }
            RequestKind::Requeue(how, to) => {
                woken = self.perform_requeue(task, &request, (how, to), alternative, &mut reply);
            }
            RequestKind::Choose(_) => reply.value = u64::from(alternative),
            RequestKind::Drain => self.note_barrier(task, true),
            RequestKind::Interrupt(targets) => {
                self.note_barrier(task, true);
                for (i, task) in self.state.tasks.iter_mut().enumerate() {
                    task.interrupt_pending |= targets >> i & 1 != 0;
                }
            }
            RequestKind::Work | RequestKind::Idle | RequestKind::Stuck => {}
        }
        if self.trace.is_some() {
            let was_buffered = self.state.tasks[task].buffered > buffered;
            self.trace_result(task, &request, before, reply, was_buffered, &note);
        }
        self.remember(task, &request, reply);
        // Algorithms that use how many were woken forget their history themselves.
        Some(Reply { value: reply.value + woken, ..reply })
    }

    /// Begins the task's interrupt, which is pending.
    fn interrupt(&mut self, task: usize, request: &Request) -> Reply {
        self.trace_step(task, request, 0, "is interrupted");
        let task = &mut self.state.tasks[task];
        (task.interrupt_pending, task.irqs_off_depth) = (false, 1);
        Reply { interrupted: true, ..Reply::default() }
    }

    /// Adds a reply to the history of a task.
    fn remember(&mut self, task: usize, request: &Request, reply: Reply) {
        let value = self.without_cpu_numbers(task, request.offset, request.size, reply.value);
        let task_state = &mut self.state.tasks[task];
        // Only a time-out leaves a sleep without `held`.
        task_state.slept_after = task_state.slept_after.filter(|_| reply.slept && !reply.held);
        task_state.history = mix(task_state.history, value << 1 ^ u64::from(reply.held));
        task_state.steps += 1;
        if task_state.steps > STEPS_MAX {
            self.report_fault(Fault::Endless(format!(
                "t{task} has taken {STEPS_MAX} steps without forgetting its history, the last at {}",
                request.location
            )));
        }
        self.plain_accesses = 0;
    }

    /// A value without the CPU numbers in it, which go to the task's list.
    fn without_cpu_numbers(&mut self, task: usize, offset: u32, size: u8, value: u64) -> u64 {
        if !self.symmetric || value == 0 || size == 0 {
            return value;
        }
        let mut rest = value;
        for index in self.layout.touched(offset, size) {
            let word = &self.layout.words[index];
            let Some(shift) = word.cpu_shift else { continue };
            assert!(word.offset >= offset, "a CPU number is read in parts");
            let start = 8 * (word.offset - offset);
            let number = (value >> start & ones(word.size)) >> shift;
            if let Some(cpu) = number.checked_sub(1).filter(|cpu| (*cpu as usize) < self.tasks()) {
                self.state.tasks[task].named_cpus.push(cpu as u8, word.role);
                rest ^= (number ^ 1) << shift << start;
            }
        }
        rest
    }

    pub fn tasks(&self) -> usize {
        self.state.tasks.len()
    }

    fn perform_wait(&mut self, task: usize, request: &Request, until: Until<u64>) -> Reply {
        let value = self.value_seen(task, request.offset, request.size);
        let held = until.holds(value);
        if held {
            self.acquire(task, request);
        }
        self.touch(task, request, How::Reads);
        Reply { value, held, ..Reply::default() }
    }

    fn access(&mut self, task: usize, request: &Request, op: Op<u64>) -> u64 {
        let Request { offset, size, ordering, .. } = *request;
        if let Op::Store(value) = op {
            self.touch(task, request, How::Writes);
            if self.can_buffer(task) && !self.is_local {
                self.buffer_store(task, BufferedStore { offset, size, value }, releases(ordering));
            } else {
                self.note_barrier(task, ordering == Ordering::SeqCst);
                self.write(offset, size, value & ones(size));
                self.release(task, request, ReleaseSequence::Starts);
            }
            return 0;
        }
        let old = self.value_seen(task, offset, size);
        self.note_barrier(task, op != Op::Load);
        let new = op.written(old, size);
        let how = How::of(op, new.is_some());
        if new.is_some() || op == Op::Load {
            self.acquire(task, request);
        } else {
            self.acquire(task, &Request { ordering: request.failure, ..*request });
        }
        self.touch(task, request, how);
        if let Some(new) = new {
            self.write(offset, size, new);
            self.release(task, request, ReleaseSequence::Continues);
        }
        old
    }

    // Plain accesses, which are no steps of their own.

    pub fn get(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: CodeSite,
    ) -> Result<u64, FaultFound> {
        self.count_plain(task, location)?;
        self.check_bounds(task, offset, size, location)?;
        self.check_reach(task, offset, size, location)?;
        let value = if self.rules.is_some() {
            self.allowed_get(task, offset, size, location)?
        } else {
            self.value_seen(task, offset, size)
        };
        self.find_triangle(task, offset, size);
        self.check_ordered(task, offset, size, How::Reads, location)?;
        self.check_newest(task, offset, size, location)?;
        let rest = self.without_cpu_numbers(task, offset, size, value);
        let history = &mut self.state.tasks[task].history;
        *history = mix(*history, rest);
        Ok(value)
    }

    pub fn set(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        value: u64,
        location: CodeSite,
    ) -> Result<(), FaultFound> {
        self.count_plain(task, location)?;
        self.check_bounds(task, offset, size, location)?;
        self.check_reach(task, offset, size, location)?;
        self.check_ordered(task, offset, size, How::Writes, location)?;
        if self.trace.is_some() {
            let line = step_line(task, &self.written(offset, size, value), location);
            self.trace_line(line, Some(location));
        }
        if self.rules.is_some() {
            return self.allowed_set(task, (offset, size), value, location);
        }
        // A plain write need be buffered only behind a buffered store to the same word. Otherwise
        // it does not matter when others see it: any task that may read it is ordered after it.
        if self.has_buffered(task, offset, size) {
            self.buffer_store(task, BufferedStore { offset, size, value }, false);
            return Ok(());
        }
        self.write(offset, size, value);
        self.forget_messages(task, offset, size);
        for word in self.layout.touched(offset, size) {
            if let Some(row) = self.layout.row(word) {
                self.state.happens_before.clear(self.tasks() + row);
            }
        }
        Ok(())
    }

    /// Whether a task's store to one of these bytes is still in its buffer.
    fn has_buffered(&self, task: usize, offset: u32, size: u8) -> bool {
        let overlaps = |store: &BufferedStore| {
            store.offset < offset + u32::from(size) && offset < store.offset + u32::from(store.size)
        };
        self.state.buffered_stores(task).iter().any(overlaps)
    }

    /// Whether a plain write finds no place in the store buffer that it has to go through.
    pub fn must_wait_for_buffer(&self, task: usize, offset: u32, size: u8) -> bool {
        usize::from(self.state.tasks[task].buffered) == BUFFER
            && self.has_buffered(task, offset, size)
    }

    /// Reports a task that accesses another CPU's memory without knowing that CPU's number.
    pub fn check_reach(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: CodeSite,
    ) -> Result<(), FaultFound> {
        if self.learn_reach(task, offset, size) {
            return Ok(());
        }
        let name = self.layout.name(offset, size);
        self.report_fault(Fault::Forgotten(format!(
            "t{task} accesses {name} at {}, of a CPU whose number it has forgotten",
            location
        )));
        Err(FaultFound)
    }

    fn count_plain(&mut self, task: usize, location: CodeSite) -> Result<(), FaultFound> {
        self.plain_accesses += 1;
        if self.plain_accesses <= PLAIN_MAX {
            return Ok(());
        }
        self.plain_accesses = 0;
        self.report_fault(Fault::Endless(format!(
            "t{task} loops over plain accesses at {location}"
        )));
        Err(FaultFound)
    }

    /// Checks that a plain access is ordered after those it conflicts with.
    fn check_ordered(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        how: How,
        site: CodeSite,
    ) -> Result<(), FaultFound> {
        let now = PastAccess { task, offset, size, how, ordering: None, site };
        let rule = if how == How::Reads { HappensBefore::read } else { HappensBefore::write };
        let check_races = self.check_races;
        for word in self.layout.touched(offset, size).filter(|_| check_races) {
            let Some(column) = self.column(word, task, true) else { continue };
            if let Err(unordered) = rule(&mut self.state.happens_before, task, column) {
                self.race_of_plain(&now, word, unordered);
                return Err(FaultFound);
            }
        }
        self.note(now);
        Ok(())
    }

    /// The column of a word. A word gets one when a second task uses it.
    pub fn column(&mut self, word: usize, task: usize, plainly: bool) -> Option<usize> {
        self.grown |= self.layout.use_word(word, task, plainly);
        self.layout.column(word).filter(|_| !self.grown)
    }

    /// The row of a word. A word gets one with its first release.
    pub fn row(&mut self, word: usize) -> Option<usize> {
        let row = self.layout.row(word);
        if row.is_none() {
            self.layout.add_row(word);
            self.grown = true;
        }
        row.filter(|_| !self.grown).map(|row| self.tasks() + row)
    }

    // Orderings of atomic accesses.

    /// Checks an atomic access to a word that is also accessed plainly: the last plain write
    /// must have happened before it.
    pub fn touch(&mut self, task: usize, request: &Request, how: How) {
        let Request { offset, size, ordering, location: site, .. } = *request;
        let now = PastAccess { task, offset, size, how, ordering: Some(ordering), site };
        if !self.check_races || self.grown || self.is_exempt(site) {
            return;
        }
        for word in self.layout.touched(request.offset, request.size) {
            let Some(column) = self.column(word, task, false) else { continue };
            if let Err(unordered) = self.state.happens_before.read(task, column) {
                self.report_race(&now, word, unordered);
            }
        }
        self.note(now);
    }

    /// A task that begins to wait reads the word first, whether or not its condition holds.
    pub fn touch_awaited(&mut self, task: usize) {
        let request = self.state.tasks[task].request;
        if matches!(request.kind, RequestKind::Await(_) | RequestKind::AwaitFor(_)) {
            self.touch(task, &request, How::Reads);
        }
    }

    /// Adds what the words' last writers released: to what the task knows, or, where the access does not acquire, to
    /// what it will know after an acquire fence.
    fn acquire(&mut self, task: usize, request: &Request) {
        if !self.check_races || self.grown {
            return;
        }
        let known = if acquires(request.ordering) {
            task
        } else if let Some(pending) = self.fence_row(task, PENDING) {
            pending
        } else {
            return;
        };
        for word in self.layout.touched(request.offset, request.size) {
            if let Some(row) = self.layout.row(word) {
                self.state.happens_before.join(known, self.tasks() + row);
            }
        }
    }

    fn release(&mut self, task: usize, request: &Request, sequence: ReleaseSequence) {
        if !self.check_races || self.grown {
            return;
        }
        for word in self.layout.touched(request.offset, request.size) {
            if releases(request.ordering) {
                let Some(row) = self.row(word) else { return };
                match sequence {
                    ReleaseSequence::Starts => self.state.happens_before.copy(row, task),
                    ReleaseSequence::Continues => self.state.happens_before.join(row, task),
                }
            } else if let Some(fenced) = self.fence_row(task, FENCED) {
                // An earlier release fence makes this write publish what came before the fence.
                let Some(row) = self.row(word) else { return };
                match sequence {
                    ReleaseSequence::Starts => self.state.happens_before.copy(row, fenced),
                    ReleaseSequence::Continues => self.state.happens_before.join(row, fenced),
                }
                self.publish_itself(row, task, word);
            } else if let (Some(row), ReleaseSequence::Starts) = (self.layout.row(word), sequence) {
                self.state.happens_before.clear(self.tasks() + row);
            }
        }
    }

    // Memory.

    /// The value that a task sees in a word: the memory, overlaid by its buffered stores.
    pub fn value_seen(&self, task: usize, offset: u32, size: u8) -> u64 {
        let mut value = self.read(offset, size);
        for store in self.state.buffered_stores(task) {
            for byte in 0..u32::from(store.size) {
                let Some(target) = (store.offset + byte).checked_sub(offset) else { continue };
                if target < u32::from(size) {
                    let bits = store.value >> (8 * byte) & 0xFF;
                    value = value & !(0xFF << (8 * target)) | bits << (8 * target);
                }
            }
        }
        value
    }

    pub fn read(&self, offset: u32, size: u8) -> u64 {
        // SAFETY: a word of the region at its own alignment. The tasks, which would use it
        // through atomics, are all stopped or waiting for this call to return.
        unsafe {
            let word = self.base.add(offset as usize);
            match size {
                1 => u64::from(*word),
                2 => u64::from(*word.cast::<u16>()),
                4 => u64::from(*word.cast::<u32>()),
                8 => *word.cast::<u64>(),
                _ => 0,
            }
        }
    }

    pub fn write(&mut self, offset: u32, size: u8, value: u64) {
        // SAFETY: as for `read`.
        unsafe {
            let word = self.base.add(offset as usize);
            match size {
                1 => *word = value as u8,
                2 => *word.cast::<u16>() = value as u16,
                4 => *word.cast::<u32>() = value as u32,
                _ => *word.cast::<u64>() = value,
            }
        }
    }

    /// Keeps the first fault; later ones may follow from it.
    pub fn report_fault(&mut self, fault: Fault) {
        if self.has_promises() && !matches!(fault, Fault::Unsupported(_)) {
            // Another order shows it without, if it can happen.
            self.is_cut = true;
            return;
        }
        self.fault.get_or_insert(fault);
    }

    pub fn base_address(&self) -> u64 {
        self.base as u64
    }
}

/// What a write does to the release sequence of its word: a store starts a new one, a
/// read-modify-write continues it.
#[derive(Clone, Copy)]
enum ReleaseSequence {
    Starts,
    Continues,
}
