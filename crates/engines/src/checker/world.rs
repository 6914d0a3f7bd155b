//! The rules: what each task may do next, and what comes of it.

use std::panic::Location;

use machine::{Annotation, Op, Ordering, Region, Until};

use super::failure::Fault;
use super::happens_before::{Orders, Unordered};
use super::hash::mix;
use super::layout::Layout;
use super::request::{Kind, Reply, Request, acquires, ones, releases, written};
use super::schedule::{FLUSH, INTERRUPT, SPURIOUS, Turn};
use super::state::{BUFFER, Entry, State};
use super::{Memory, Options, Setup};

/// Steps without a cut after which a task counts as spinning.
const STEPS_MAX: u32 = 2000;
/// Plain accesses between two steps after which it counts as running in circles.
const PLAIN_MAX: u32 = 100_000;

/// A task was found at fault.
#[derive(Debug)]
pub struct Caught;

/// The live state and its rules.
pub struct World {
    pub state: State,
    pub layout: Layout,
    base: *mut u8,
    buffers: bool,
    pub races: bool,
    /// Whether accesses that something else orders are no steps.
    pub quiet: bool,
    /// How many of them there were since this was last set to 0.
    pub quiet_steps: u32,
    /// How many each task did before its first step.
    pub quiet_at_first: Vec<u32>,
    spurious: bool,
    fifo: bool,
    pub interrupts: bool,
    /// Whether CPUs that values name are kept apart from the values.
    pub alike: bool,
    /// What is wrong, once something is.
    pub fault: Option<Fault>,
    /// Whether the layout got a new row or column: then the table of orders must be made
    /// anew, and the search begun again.
    pub grown: bool,
    /// Whether a task got its place in a queue, which others can see.
    pub arrived: bool,
    /// What happened, where somebody wants to read it.
    pub trace: Option<Vec<String>>,
    plain: u32,
}

impl World {
    pub fn new(setup: &Setup, options: &Options) -> World {
        World {
            state: State::default(),
            layout: Layout::of(setup.region),
            base: Region::start(setup.region),
            buffers: options.memory == Memory::TotalStoreOrder,
            races: options.races,
            quiet_steps: 0,
            quiet_at_first: Vec::new(),
            // Who arrives first could be seen by the order of such accesses.
            quiet: options.reduction
                && options.races
                && !setup.alike
                && setup.interrupted.is_none()
                && !setup.fifo
                && options.memory == Memory::SequentiallyConsistent,
            spurious: options.spurious,
            fifo: setup.fifo,
            interrupts: setup.interrupted.is_some(),
            // What is pending is compared by name.
            alike: options.symmetry && setup.alike && !options.check_cuts,
            fault: None,
            grown: false,
            arrived: false,
            trace: None,
            plain: 0,
        }
    }

    /// A table of orders for the rows and columns that are known now.
    pub fn new_orders(&self, tasks: usize) -> Orders {
        let entries = if self.buffers { tasks * BUFFER } else { 0 };
        Orders::new(tasks, tasks + self.layout.rows.len() + entries, self.layout.columns.len())
    }

    /// The store buffers of this many tasks, empty.
    pub fn new_entries(&self, tasks: usize) -> Vec<Entry> {
        vec![Entry::default(); if self.buffers { tasks * BUFFER } else { 0 }]
    }

    /// All that can happen next. What only its task can see goes first, alone: no order with
    /// other tasks makes a difference.
    pub fn turns(&self, into: &mut Vec<Turn>) {
        into.clear();
        let tasks = 0..self.state.tasks.len();
        if let Some(task) = tasks.clone().find(|&task| self.unseen(task)) {
            let ways = match self.state.tasks[task].request.kind {
                Kind::Choose(below) => below as u8,
                _ => 1,
            };
            into.extend((0..ways).map(|way| (task as u8, way)));
            return;
        }
        for task in tasks {
            let ways = self.ways(task);
            into.extend((0..ways).map(|way| (task as u8, way)));
            if self.state.tasks[task].buffered > 0 {
                into.push((task as u8, FLUSH));
            }
            if self.spurious && self.state.tasks[task].request.kind == Kind::Asleep {
                into.push((task as u8, SPURIOUS));
            }
            if self.can_be_interrupted(task) {
                into.push((task as u8, INTERRUPT));
            }
        }
    }

    fn can_be_interrupted(&self, task: usize) -> bool {
        let task = &self.state.tasks[task];
        task.interrupt && task.masked == 0 && task.request.kind != Kind::Stuck
    }

    fn unseen(&self, task: usize) -> bool {
        matches!(self.state.tasks[task].request.kind, Kind::Choose(_) | Kind::Woken)
    }

    /// Whether a task can do its store at once: nobody sees it, and nothing could come between.
    pub fn need_not_stop(&self, task: usize) -> bool {
        !self.interrupts && self.holds_back(task)
    }

    /// Whether a task can issue its store without anybody seeing it: into its buffer.
    fn holds_back(&self, task: usize) -> bool {
        let Request { kind, ordering, .. } = self.state.tasks[task].request;
        self.buffers
            && matches!(kind, Kind::Access(Op::Store(_)))
            && ordering != Ordering::SeqCst
            && usize::from(self.state.tasks[task].buffered) < BUFFER
    }

    /// In how many ways a task can do its next step now.
    pub fn ways(&self, task: usize) -> u8 {
        let Request { kind, offset, size, .. } = self.state.tasks[task].request;
        if self.state.tasks[task].ended {
            return 0;
        }
        let drained = self.state.tasks[task].buffered == 0;
        let can = match kind {
            Kind::Access(Op::Load) | Kind::AwaitFor(_) => true,
            Kind::Await(until) => until.holds(self.seen(task, offset, size)),
            Kind::Access(Op::Store(_)) if self.interrupts && self.holds_back(task) => true,
            Kind::Access(_) | Kind::Park(_) | Kind::WakeAll | Kind::Interrupt(_) => drained,
            Kind::WakeOne if drained => {
                return self.state.asleep_on(offset).count().max(1) as u8;
            }
            Kind::WakeOne | Kind::Asleep | Kind::Idle | Kind::Stuck => false,
            Kind::Woken | Kind::Choose(_) | Kind::Work => true,
        };
        u8::from(can)
    }

    /// Does what a task asked for, or the oldest store in its buffer. The reply it gets, if
    /// it goes on.
    pub fn perform(&mut self, (task, way): Turn) -> Option<Reply> {
        let task = usize::from(task);
        if way == FLUSH {
            self.flush(task);
            return None;
        }
        let request = self.state.tasks[task].request;
        if way == INTERRUPT {
            self.tell(task, &request, "is interrupted");
            let task = &mut self.state.tasks[task];
            (task.interrupt, task.masked) = (false, 1);
            return Some(Reply { interrupted: true, ..Reply::default() });
        }
        let Request { kind, offset, size, .. } = request;
        let mut reply = Reply { value: 0, held: true, interrupted: false };
        match kind {
            Kind::Access(op) => reply.value = self.access(task, &request, op),
            Kind::Await(until) | Kind::AwaitFor(until) => {
                reply = self.look(task, &request, until);
            }
            Kind::Park(expected) => {
                reply.value = self.seen(task, offset, size);
                if reply.value == expected {
                    self.tell(task, &request, "falls asleep");
                    self.state.tasks[task].request.kind = Kind::Asleep;
                    return None;
                }
            }
            Kind::WakeOne => {
                let sleeper = self.state.asleep_on(offset).nth(usize::from(way));
                self.wake(sleeper);
            }
            Kind::WakeAll => {
                for sleeper in self.state.asleep_on(offset).collect::<Vec<_>>() {
                    self.wake(Some(sleeper));
                }
            }
            Kind::Choose(_) => reply.value = u64::from(way),
            Kind::Interrupt(whom) => {
                for (t, task) in self.state.tasks.iter_mut().enumerate() {
                    task.interrupt |= whom >> t & 1 != 0;
                }
            }
            Kind::Work | Kind::Asleep | Kind::Woken | Kind::Idle | Kind::Stuck => {}
        }
        if self.trace.is_some() {
            let held = if reply.held { "" } else { " in vain" };
            self.tell(task, &request, &format!("-> {}{held}", reply.value));
        }
        self.remember(task, &request, reply);
        Some(reply)
    }

    fn wake(&mut self, sleeper: Option<usize>) {
        if let Some(sleeper) = sleeper {
            self.state.tasks[sleeper].request.kind = Kind::Woken;
        }
    }

    /// The history of a task grows by a reply.
    fn remember(&mut self, task: usize, request: &Request, reply: Reply) {
        let value = self.without_names(task, request.offset, request.size, reply.value);
        let task_state = &mut self.state.tasks[task];
        task_state.history = mix(task_state.history, value << 1 ^ u64::from(reply.held));
        task_state.steps += 1;
        if task_state.steps > STEPS_MAX {
            self.accuse(Fault::Endless(format!(
                "t{task} has taken {STEPS_MAX} steps without a cut, the last at {}",
                request.location
            )));
        }
        self.plain = 0;
    }

    /// A value without the CPUs that it names, which go to the task's list.
    fn without_names(&mut self, task: usize, offset: u32, size: u8, value: u64) -> u64 {
        if !self.alike || value == 0 || size == 0 {
            return value;
        }
        let mut rest = value;
        for index in self.layout.touched(offset, size) {
            let word = &self.layout.words[index];
            let Some(shift) = word.cpu_shift else { continue };
            assert!(word.offset >= offset, "a name is read in parts");
            let start = 8 * (word.offset - offset);
            let name = (value >> start & ones(word.size)) >> shift;
            if let Some(cpu) = name.checked_sub(1).filter(|cpu| (*cpu as usize) < self.tasks()) {
                self.state.tasks[task].names.push(cpu as u8, word.role);
                rest ^= (name ^ 1) << shift << start;
            }
        }
        rest
    }

    fn tasks(&self) -> usize {
        self.state.tasks.len()
    }

    fn look(&mut self, task: usize, request: &Request, until: Until<u64>) -> Reply {
        let value = self.seen(task, request.offset, request.size);
        let held = until.holds(value);
        if held && acquires(request.ordering) {
            self.acquire(task, request);
        }
        self.touch(task, request);
        Reply { value, held, interrupted: false }
    }

    fn access(&mut self, task: usize, request: &Request, op: Op<u64>) -> u64 {
        let Request { offset, size, ordering, .. } = *request;
        if let Op::Store(value) = op {
            self.touch(task, request);
            if self.holds_back(task) {
                self.hold_back(task, Entry { offset, size, value }, releases(ordering));
            } else {
                self.write(offset, size, value & ones(size));
                self.release(task, request, Sequence::Starts);
            }
            return 0;
        }
        let old = self.seen(task, offset, size);
        let new = written(op, old, size);
        if acquires(ordering) && (new.is_some() || op == Op::Load) {
            self.acquire(task, request);
        }
        self.touch(task, request);
        if let Some(new) = new {
            self.write(offset, size, new);
            self.release(task, request, Sequence::GoesOn);
        }
        old
    }

    // Plain accesses, which are no steps.

    pub fn get(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: &'static Location<'static>,
    ) -> Result<u64, Caught> {
        self.count_plain(task, location)?;
        self.reaches(task, offset, size, location)?;
        let value = self.seen(task, offset, size);
        let plain = Plain { task, offset, size, location, what: "reads" };
        self.ordered(&plain, Orders::read)?;
        let kept = self.without_names(task, offset, size, value);
        let history = &mut self.state.tasks[task].history;
        *history = mix(*history, kept);
        Ok(value)
    }

    pub fn set(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        value: u64,
        location: &'static Location<'static>,
    ) -> Result<(), Caught> {
        self.count_plain(task, location)?;
        self.reaches(task, offset, size, location)?;
        let plain = Plain { task, offset, size, location, what: "writes" };
        self.ordered(&plain, Orders::write)?;
        if self.trace.is_some() {
            let name = self.layout.name(offset, size);
            let line = told_line(task, &format!("{name} = {value}"), location);
            self.trace.get_or_insert_default().push(line);
        }
        let overlaps = |entry: &Entry| {
            entry.offset < offset + u32::from(size) && offset < entry.offset + u32::from(entry.size)
        };
        // Only behind an own store to the same word does it matter when others see it: who
        // may read it is ordered after it.
        if self.state.held_back(task).iter().any(overlaps) {
            self.hold_back(task, Entry { offset, size, value }, false);
            return Ok(());
        }
        self.write(offset, size, value);
        for word in self.layout.touched(offset, size) {
            if let Some(row) = self.layout.row(word) {
                self.state.orders.clear(self.tasks() + row);
            }
        }
        Ok(())
    }

    /// Whether a task is where it can be.
    pub fn reaches(
        &mut self,
        task: usize,
        offset: u32,
        size: u8,
        location: &'static Location<'static>,
    ) -> Result<(), Caught> {
        if self.find_reach(task, offset, size) {
            return Ok(());
        }
        let name = self.layout.name(offset, size);
        self.accuse(Fault::Cut(format!(
            "t{task} is at {name} at {}, of a CPU whose name it has forgotten",
            short(location)
        )));
        Err(Caught)
    }

    fn count_plain(
        &mut self,
        task: usize,
        location: &'static Location<'static>,
    ) -> Result<(), Caught> {
        self.plain += 1;
        if self.plain <= PLAIN_MAX {
            return Ok(());
        }
        self.plain = 0;
        self.accuse(Fault::Endless(format!("t{task} runs in circles at {location}")));
        Err(Caught)
    }

    /// Checks that a plain access is ordered after those it conflicts with.
    fn ordered(
        &mut self,
        plain: &Plain,
        rule: fn(&mut Orders, usize, usize) -> Result<(), Unordered>,
    ) -> Result<(), Caught> {
        if !self.races {
            return Ok(());
        }
        for word in self.layout.touched(plain.offset, plain.size) {
            let Some(column) = self.column(word, plain.task, true) else { continue };
            if let Err(unordered) = rule(&mut self.state.orders, plain.task, column) {
                let after = match unordered {
                    Unordered::Write => "the last write".to_string(),
                    Unordered::Read(reader) => format!("the last read by t{reader}"),
                };
                let Plain { task, what, location, .. } = plain;
                let name = &self.layout.words[word].name;
                self.accuse(Fault::Race(format!(
                    "t{task} {what} {name} at {}, not ordered after {after}",
                    short(location)
                )));
                return Err(Caught);
            }
        }
        Ok(())
    }

    /// The column of a word, which it gets when a second task uses it.
    pub fn column(&mut self, word: usize, task: usize, plainly: bool) -> Option<usize> {
        self.grown |= self.layout.use_word(word, task, plainly);
        self.layout.column(word).filter(|_| !self.grown)
    }

    /// The row of a word, which it gets when it first releases something.
    fn row(&mut self, word: usize) -> Option<usize> {
        let row = self.layout.row(word);
        if row.is_none() {
            self.layout.add_row(word);
            self.grown = true;
        }
        row.filter(|_| !self.grown).map(|row| self.tasks() + row)
    }

    // What atomic accesses order.

    /// An atomic access to a word that is also accessed plainly must know the last write.
    fn touch(&mut self, task: usize, request: &Request) {
        if !self.races || self.grown {
            return;
        }
        for word in self.layout.touched(request.offset, request.size) {
            let Some(column) = self.column(word, task, false) else { continue };
            if self.state.orders.read(task, column).is_err() {
                let name = &self.layout.words[word].name;
                self.accuse(Fault::Race(format!(
                    "t{task} accesses {name} at {}, not ordered after the plain write to it",
                    short(request.location)
                )));
            }
        }
    }

    /// A task that begins to wait looks at the word before its condition holds, too.
    pub fn looks(&mut self, task: usize) {
        let request = self.state.tasks[task].request;
        if matches!(request.kind, Kind::Await(_) | Kind::AwaitFor(_)) {
            self.touch(task, &request);
        }
    }

    fn acquire(&mut self, task: usize, request: &Request) {
        if !self.races || self.grown {
            return;
        }
        for word in self.layout.touched(request.offset, request.size) {
            if let Some(row) = self.layout.row(word) {
                self.state.orders.learn(task, self.tasks() + row);
            }
        }
    }

    fn release(&mut self, task: usize, request: &Request, sequence: Sequence) {
        if !self.races || self.grown {
            return;
        }
        for word in self.layout.touched(request.offset, request.size) {
            if releases(request.ordering) {
                let Some(row) = self.row(word) else { return };
                match sequence {
                    Sequence::Starts => self.state.orders.copy(row, task),
                    Sequence::GoesOn => self.state.orders.learn(row, task),
                }
            } else if let (Some(row), Sequence::Starts) = (self.layout.row(word), sequence) {
                self.state.orders.clear(self.tasks() + row);
            }
        }
    }

    // Store buffers.

    pub fn entry_row(&self, task: usize, entry: usize) -> usize {
        self.tasks() + self.layout.rows.len() + task * BUFFER + entry
    }

    fn hold_back(&mut self, task: usize, entry: Entry, releasing: bool) {
        let place = usize::from(self.state.tasks[task].buffered);
        assert!(place < BUFFER, "plain writes follow too many stores to the same word");
        self.state.entries[task * BUFFER + place] = entry;
        self.state.tasks[task].buffered += 1;
        if self.races && !self.grown {
            for word in self.layout.touched(entry.offset, entry.size) {
                if releasing && self.row(word).is_none() {
                    return;
                }
            }
            let row = self.entry_row(task, place);
            match releasing {
                true => self.state.orders.copy(row, task),
                false => self.state.orders.clear(row),
            }
        }
    }

    /// The oldest store of a task becomes visible.
    fn flush(&mut self, task: usize) {
        let first = task * BUFFER;
        let Entry { offset, size, value } = self.state.entries[first];
        self.write(offset, size, value & ones(size));
        if self.races && !self.grown {
            for word in self.layout.touched(offset, size) {
                if let Some(row) = self.layout.row(word) {
                    self.state.orders.copy(self.tasks() + row, self.entry_row(task, 0));
                }
            }
            for entry in 1..BUFFER {
                self.state
                    .orders
                    .copy(self.entry_row(task, entry - 1), self.entry_row(task, entry));
            }
            self.state.orders.clear(self.entry_row(task, BUFFER - 1));
        }
        self.state.entries.copy_within(first + 1..first + BUFFER, first);
        self.state.entries[first + BUFFER - 1] = Entry::default();
        self.state.tasks[task].buffered -= 1;
        if let Some(trace) = &mut self.trace {
            let name = self.layout.name(offset, size);
            trace.push(format!("t{task} {name} = {value} becomes visible"));
        }
    }

    // Memory.

    /// What a task sees in a word: the memory, with its own stores over it.
    pub fn seen(&self, task: usize, offset: u32, size: u8) -> u64 {
        let mut value = self.read(offset, size);
        for entry in self.state.held_back(task) {
            for byte in 0..u32::from(entry.size) {
                let Some(place) = (entry.offset + byte).checked_sub(offset) else { continue };
                if place < u32::from(size) {
                    let bits = entry.value >> (8 * byte) & 0xFF;
                    value = value & !(0xFF << (8 * place)) | bits << (8 * place);
                }
            }
        }
        value
    }

    pub fn read(&self, offset: u32, size: u8) -> u64 {
        // SAFETY: a word of the region at its own alignment; the tasks, which would use it
        // through atomics, are all stopped or wait for this very call.
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

    fn write(&mut self, offset: u32, size: u8, value: u64) {
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

    // Properties.

    pub fn noted(&mut self, task: usize, annotation: Annotation) -> Result<(), Caught> {
        let state = &mut self.state;
        match annotation {
            // Where nobody claims an order, who came first tells no states apart.
            Annotation::Arrive if self.fifo => {
                state.arrivals.push(task as u8);
                self.arrived = true;
            }
            Annotation::Arrive => {}
            Annotation::Enter => {
                let alone = state.inside == 0 && state.sharing == 0;
                state.inside += 1;
                self.entered(task, alone)?;
            }
            Annotation::EnterShared => {
                let no_writer = state.inside == 0;
                state.sharing += 1;
                self.entered(task, no_writer)?;
            }
            Annotation::Leave => state.inside -= 1,
            Annotation::LeaveShared => state.sharing -= 1,
        }
        if let Some(trace) = &mut self.trace {
            let what = match annotation {
                Annotation::Arrive => "has its place in the queue",
                Annotation::Enter => "is inside",
                Annotation::EnterShared => "is inside, sharing",
                Annotation::Leave | Annotation::LeaveShared => "leaves",
            };
            trace.push(format!("t{task}   {what}"));
        }
        Ok(())
    }

    fn entered(&mut self, task: usize, allowed: bool) -> Result<(), Caught> {
        if !allowed {
            self.accuse(Fault::Together(format!("t{task} enters while another is inside")));
            return Err(Caught);
        }
        let place = self.state.arrivals.iter().position(|&t| usize::from(t) == task);
        if let Some(place) = place {
            let first = self.state.arrivals[0];
            self.state.arrivals.remove(place);
            if self.fifo && place > 0 {
                self.accuse(Fault::Overtaken(format!("t{task} enters, t{first} came before")));
                return Err(Caught);
            }
        }
        Ok(())
    }

    /// Only the first fault counts.
    pub fn accuse(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
    }

    fn tell(&mut self, task: usize, request: &Request, what: &str) {
        let Some(trace) = &mut self.trace else { return };
        let Request { kind, offset, size, location, .. } = *request;
        let name = if size > 0 { self.layout.name(offset, size) } else { String::new() };
        trace.push(told_line(task, &format!("{name} {kind} {what}"), location));
    }
}

/// A plain access.
struct Plain {
    task: usize,
    offset: u32,
    size: u8,
    location: &'static Location<'static>,
    what: &'static str,
}

/// What a write does to what its word has released: a store starts anew, a
/// read-modify-write goes on.
#[derive(Clone, Copy)]
enum Sequence {
    Starts,
    GoesOn,
}

fn told_line(task: usize, what: &str, location: &Location) -> String {
    format!("{:<60} {}", format!("t{task} {what}"), short(location))
}

/// The file's name and the line.
pub fn short(location: &Location) -> String {
    let file = location.file().rsplit('/').next().unwrap_or_default();
    format!("{file}:{}", location.line())
}
