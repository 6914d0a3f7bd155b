//! From the steps of traced operations to what a simulation repeats on other CPUs.
//!
//!     step ─ on a line that other tasks use? ─ no ──> time, and atomic instructions, of its own
//!                    │ yes
//!                    ├─ by a lock's function ──> the lock is taken, or given back; how it waited is left out
//!                    └─ else ──────────────────> load, store, atomic

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use guests::tracer::{Access, Actor, How, Line, Step, StepKind, Steps, Trace, Transfers};
use records::operations::{
    Copies, HELD_MAX, LINES_MAX, RecordedLine, RecordedLock, RecordedLockKind, RecordedOperation,
    RecordedOperations, RecordedStep,
};

use super::calls::{Call, call_of, is_of_all_calls};
use super::{Lines, OfLine, is_contended, is_write, shared_writes};
use crate::image::Place;

/// The recorded operations of a trace, of which `lines` has made the rows. The first window has this many operations.
pub fn recorded(trace: &Trace, lines: &Lines, operations: f64) -> RecordedOperations {
    let mut recording = Recording::new(trace, lines, operations);
    recording.owns_alone &= trace.steps.iter().all(|of_cpu| recording.owns_alone(&of_cpu.steps));
    let tasks: Vec<Vec<RecordedOperation>> =
        trace.steps.iter().map(|of_cpu| recording.operations(of_cpu)).collect();
    let operations = tasks.iter().map(Vec::len).sum();
    let (waits, warnings) = (recording.waits(operations), recording.warnings(operations));
    RecordedOperations {
        lines: recording.lines,
        locks: recording.locks,
        user_share: Some(user_share(trace)),
        call_instructions: call_instructions(trace, lines, &tasks),
        tasks,
        waits,
        warnings,
        ..RecordedOperations::default()
    }
}

/// Lines that moved between CPUs less often than this, an operation, are each CPU's own: objects that come back seldom.
const SELDOM_MOVED: f64 = 1.0 / 64.0;

/// How often a line moved in the first window.
fn moves(line: &Line) -> u32 {
    let Transfers { owned, copied, .. } = line.windows[1];
    owned + copied
}

/// A line, and whether by a user address.
type LineAt = (bool, u64);

/// A lock: the address of its word, and whether by a user address.
type LockAt = (bool, u64);

/// Steps to record before those with these indices.
type StepsBefore = BTreeMap<usize, Vec<RecordedStep>>;

struct Recording<'a> {
    known: &'a Lines<'a>,
    /// The indices of contended lines.
    contended: BTreeMap<LineAt, u16>,
    lines: Vec<RecordedLine>,
    locks: Vec<RecordedLock>,
    lock_at: HashMap<LockAt, u16>,
    /// What the functions at addresses of instructions do.
    calls: HashMap<u64, Call>,
    /// Operations that wait for what is not simulated, by the function that calls `schedule` first.
    waiting: BTreeMap<String, usize>,
    /// Whether a task waited for an object that another one owned.
    met: bool,
    /// Operations that own an object which all tasks share, where no task waited for one.
    unmet: usize,
    /// Whether an object never has two owners.
    owns_alone: bool,
    /// Whether operations wait, recorded ones or others, and whether recorded ones do.
    waited: bool,
    waits_recorded: bool,
    /// How many times as many instructions as a recorded operation one of the second window has, in the mean.
    later: f64,
    /// Operations that interrupt other CPUs.
    interrupting: usize,
    /// Operations that took a lock and did not give it back.
    unbalanced: usize,
}

impl<'a> Recording<'a> {
    fn new(trace: &Trace, known: &'a Lines<'a>, operations: f64) -> Recording<'a> {
        let stepped: HashSet<LineAt> = trace
            .steps
            .iter()
            .flat_map(|of_cpu| &of_cpu.steps)
            .filter_map(|step| accessed(step).map(|(is_user, address)| (is_user, address & !63)))
            .collect();
        let mut by_line: BTreeMap<LineAt, OfLine> = BTreeMap::new();
        for access in &trace.accesses {
            let line = (access.is_user_address, access.line);
            if stepped.contains(&line) {
                by_line.entry(line).or_default().push(access);
            }
        }
        by_line.retain(|_, accesses| is_contended(accesses));
        let often = used_often(&trace.steps);
        let moved: HashMap<u64, u32> =
            trace.lines.iter().map(|line| (line.line, moves(line))).collect();
        let mut alike: BTreeMap<_, usize> = BTreeMap::new();
        let keys = by_line.iter().map(|((is_user, line), of)| known.key(*is_user, *line, of));
        let keys: Vec<_> = keys.collect();
        keys.iter().for_each(|key| *alike.entry(key.clone()).or_default() += 1);
        let mut lines = Vec::new();
        let mut contended = BTreeMap::new();
        for ((line, accesses), key) in by_line.iter().zip(&keys) {
            let Some(index) = u16::try_from(lines.len()).ok().filter(|_| lines.len() < LINES_MAX)
            else {
                break;
            };
            let are_many = alike[key] > 1 && !often.contains(line);
            let moves = moved.get(&line.1).copied().unwrap_or_default();
            if f64::from(moves) < operations * SELDOM_MOVED {
                continue;
            }
            let copies = known.copies(*line, accesses, are_many);
            lines.push(RecordedLine { member: known.name_of_line(*line, accesses), copies });
            contended.insert(*line, index);
        }
        let executes = |function: &str| {
            let is_it = |at: u64| known.image.function(at).is_some_and(|name| name == function);
            trace.executions.iter().any(|executed| is_it(executed.instruction))
        };
        // Who finds a file locked waits by this function.
        let met = executes("__locks_insert_block");
        Recording {
            known,
            contended,
            lines,
            locks: Vec::new(),
            lock_at: HashMap::new(),
            calls: HashMap::new(),
            met,
            unmet: 0,
            owns_alone: met,
            waiting: BTreeMap::new(),
            waited: executes("schedule"),
            waits_recorded: false,
            later: executed_by_operation(trace, 2) / executed_by_operation(trace, 1).max(1.0),
            interrupting: 0,
            unbalanced: 0,
        }
    }

    fn call(&mut self, instruction: u64) -> Call {
        let known = self.known;
        *self.calls.entry(instruction).or_insert_with(|| {
            known.image.function(instruction).map_or(Call::Other, |function| call_of(&function))
        })
    }

    /// The operations of a CPU.
    fn operations(&mut self, of_cpu: &Steps) -> Vec<RecordedOperation> {
        let ends = |step: &Step| step.what == StepKind::Ends;
        let mut before: Option<BTreeSet<u64>> = None;
        let mut ever = BTreeSet::new();
        let mut operations = Vec::new();
        for steps in of_cpu.steps.split_inclusive(ends) {
            let Made { mut operation, own, copied, .. } = self.operation(steps);
            let copied: BTreeSet<u64> = copied.difference(&own).copied().collect();
            operation.copied_lines = copied.len() as u32;
            // The first follows on operations that were not recorded.
            let fetched = before.as_ref().map_or(0, |before| own.difference(before).count());
            operation.own_lines = fetched as u32;
            let streamed = before.as_ref().map_or(0, |_| copied.difference(&ever).count());
            operation.streamed_lines = streamed as u32;
            ever.extend(copied.iter().chain(&own));
            before = Some(own);
            operations.push(operation);
        }
        operations
    }

    fn operation(&mut self, steps: &[Step]) -> Made {
        let calls: Vec<Call> = steps.iter().map(|step| self.call(instruction(step))).collect();
        self.interrupting += usize::from(calls.contains(&Call::Interrupts));
        let owns =
            |(step, call): (&Step, &Call)| *call == Call::Owns && self.object(step).is_some();
        self.unmet += usize::from(!self.met && steps.iter().zip(&calls).any(owns));
        let takings = self.takings(steps, &calls);
        let ownings = self.ownings(steps, &calls, &takings);
        let copying = copying(steps);
        let mut made = Made::default();
        let runs_of = |wanted: Call| {
            let runs = calls.chunk_by(|a, b| (*a == wanted) == (*b == wanted));
            runs.filter(|run| run.first() == Some(&wanted)).count() as u32
        };
        made.operation.faults = runs_of(Call::Faults);
        made.operation.entries = runs_of(Call::Enters) + made.operation.faults;
        made.operation.sleeps = self.sleeps(steps, &calls, !ownings.is_empty());
        for (index, (step, call)) in steps.iter().zip(&calls).enumerate() {
            let StepKind::Access { how, .. } = step.what else { continue };
            let Some((is_user, address)) = accessed(step) else { continue };
            let enters = *call == Call::Enters && (index == 0 || calls[index - 1] != Call::Enters);
            if enters && !ownings.is_empty() {
                made.add(step.at, RecordedStep::Enter);
            }
            let owning = ownings.get(&index).into_iter().flatten();
            owning.for_each(|owning| made.add(step.at, *owning));
            match (self.contended.get(&(is_user, address & !63)), takings.get(&index)) {
                (Some(_), Some(step_of_lock)) => made.add(step.at, *step_of_lock),
                // How a lock waits is what its simulation does.
                (Some(_), None) if *call == Call::Waits => (),
                (Some(_), None)
                    if how == How::Load && matches!(call, Call::Take(_) | Call::TakeShared(_)) => {}
                (Some(line), None) => made.add(step.at, shared_step(how, *call, *line)),
                (None, _) if copying[index] => {
                    made.copied.insert(address & !63);
                }
                (None, _) => {
                    made.own.insert(address & !63);
                    if how == How::Atomic {
                        made.add(step.at, RecordedStep::OwnAtomic);
                    }
                }
            }
        }
        let end = steps.last().map_or(0, |step| step.at);
        made.operation.then = end.saturating_sub(made.at);
        made
    }

    /// How often an operation goes to sleep for what is not simulated: not for a lock, nor for an object that it owns later.
    fn sleeps(&mut self, steps: &[Step], calls: &[Call], owns: bool) -> u32 {
        let mut sleeps = 0;
        for (step, call) in steps.iter().zip(calls) {
            let StepKind::Waits { instruction } = step.what else { continue };
            self.waits_recorded = true;
            if owns || matches!(call, Call::Waits | Call::Yields) {
                continue;
            }
            if sleeps == 0 {
                let function = self.known.image.function(instruction).unwrap_or_default();
                *self.waiting.entry(function).or_default() += 1;
            }
            sleeps += 1;
        }
        sleeps
    }

    /// Whether each object is listed by its first owner: both words of an empty list change then, and one of a list that has
    /// owners. Tasks that do not exclude each other may never meet, and look the same: one task must have waited, too.
    fn owns_alone(&mut self, steps: &[Step]) -> bool {
        let calls: Vec<Call> = steps.iter().map(|step| self.call(instruction(step))).collect();
        let all: Vec<(&Step, Call)> = steps.iter().zip(calls).collect();
        all.chunk_by(|(_, a), (_, b)| a == b).filter(|run| run[0].1 == Call::Owns).all(|run| {
            let stores: BTreeSet<u64> =
                run.iter().filter_map(|(step, _)| self.object(step)).map(|(_, at)| at).collect();
            is_first_owner(&stores)
        })
    }

    /// What a step stores on a line that all tasks share.
    fn object(&self, step: &Step) -> Option<LockAt> {
        let StepKind::Access { how: How::Store, .. } = step.what else { return None };
        let (is_user, at) = accessed(step)?;
        let line = self.contended.get(&(is_user, at & !63))?;
        let is_one = self.lines[usize::from(*line)].copies == Copies::One;
        is_one.then_some((is_user, at))
    }

    /// The steps before which an object gets an owner or loses it, by their indices: before the lock is taken that guards the
    /// object, so that who waits does not hold it.
    fn ownings(
        &mut self,
        steps: &[Step],
        calls: &[Call],
        takings: &BTreeMap<usize, RecordedStep>,
    ) -> StepsBefore {
        let mut pairs = StepsBefore::new();
        if !self.owns_alone {
            return pairs;
        }
        let mut owned: BTreeMap<LockAt, usize> = BTreeMap::new();
        let mut locked_at = None;
        for (index, (step, call)) in steps.iter().zip(calls).enumerate() {
            match takings.get(&index) {
                Some(RecordedStep::Unlock(_)) => locked_at = None,
                Some(_) => locked_at = locked_at.or(Some(index)),
                None => (),
            }
            let Some((is_user, at)) = self.object(step) else { continue };
            // Not at the word of a lock on the same line.
            let object = (is_user, at | 63);
            if *call == Call::Owns && owned.len() < HELD_MAX / 2 {
                owned.entry(object).or_insert(locked_at.unwrap_or(index));
            } else if *call == Call::Disowns {
                let Some(since) = owned.remove(&object) else { continue };
                let Some((number, _)) = self.lock(object, Call::Owns) else { continue };
                add_pair(&mut pairs, since, index, number);
            }
        }
        pairs
    }

    /// The steps that take locks and give them back, by their indices: those of pairs only.
    fn takings(&mut self, steps: &[Step], calls: &[Call]) -> BTreeMap<usize, RecordedStep> {
        let mut pairs = BTreeMap::new();
        let mut held: BTreeMap<LockAt, (usize, Call)> = BTreeMap::new();
        for (index, (step, call)) in steps.iter().zip(calls).enumerate() {
            let StepKind::Access { how, bytes, .. } = step.what else { continue };
            let Some(lock) = accessed(step).filter(|_| how != How::Load) else { continue };
            if !self.contended.contains_key(&(lock.0, lock.1 & !63)) {
                continue;
            }
            let is_held = held.contains_key(&lock);
            // A spin lock may also be given back by code that was inlined: it stores a byte.
            let gives = *call == Call::Give || (how == How::Store && bytes == 1);
            if matches!(call, Call::Take(_) | Call::TakeShared(_)) && how == How::Atomic {
                if !is_held && held.len() < HELD_MAX {
                    held.insert(lock, (index, *call));
                }
            } else if is_held && gives {
                let Some((taken, by)) = held.remove(&lock) else { continue };
                let Some((number, shared)) = self.lock(lock, by) else { continue };
                let take = if shared { RecordedStep::LockShared } else { RecordedStep::Lock };
                pairs.insert(taken, take(number));
                pairs.insert(index, RecordedStep::Unlock(number));
            }
        }
        self.unbalanced += usize::from(!held.is_empty());
        pairs
    }

    /// The number of a lock, and whether it was taken to read.
    fn lock(&mut self, at: LockAt, by: Call) -> Option<(u16, bool)> {
        let (kind, shared) = match by {
            Call::Take(kind) => (kind, false),
            Call::TakeShared(kind) => (kind, true),
            Call::Owns => (RecordedLockKind::Sleeping, false),
            _ => return None,
        };
        let line = *self.contended.get(&(at.0, at.1 & !63))?;
        let next = u16::try_from(self.locks.len()).ok()?;
        let number = *self.lock_at.entry(at).or_insert(next);
        if number == next {
            self.locks.push(RecordedLock { line, kind });
        }
        Some((number, shared))
    }

    /// What operations wait for that is not simulated.
    fn waits(&self, operations: usize) -> Option<String> {
        let waiting: usize = self.waiting.values().sum();
        let mut functions: Vec<(&String, &usize)> = self.waiting.iter().collect();
        functions.sort_by_key(|(_, count)| Reverse(**count));
        let names: Vec<&str> =
            functions.iter().take(3).map(|(function, _)| function.as_str()).collect();
        if !names.is_empty() {
            let names = names.join(", ");
            return Some(format!(
                "{waiting} of {operations} operations wait for something (in {names})"
            ));
        }
        let owns = self.locks.iter().any(|lock| lock.kind == RecordedLockKind::Sleeping);
        let waits_later = self.waited && !self.waits_recorded && !owns;
        waits_later.then(|| {
            format!(
                "none of {operations} recorded operations waits for something, but later ones do"
            )
        })
    }

    fn warnings(&self, operations: usize) -> Vec<String> {
        const MUCH_MORE: f64 = 2.0;
        let mut warnings = Vec::new();
        if self.later > MUCH_MORE {
            warnings.push(format!(
                "later operations execute {:.0} times as many instructions: what only some of them do is not simulated, such as \
                 faults on huge pages (--cmdline transparent_hugepage=never)",
                self.later
            ));
        }
        if self.interrupting > 0 {
            warnings.push(format!(
                "{} of {operations} operations interrupt other CPUs: the simulation does not",
                self.interrupting
            ));
        }
        if self.unmet > 0 {
            warnings.push(format!(
                "{} of {operations} operations lock a file that others lock, and none was seen to wait: if they exclude each \
                 other, more CPUs are slower than simulated: trace them again",
                self.unmet
            ));
        }
        if self.unbalanced > 0 {
            warnings.push(format!(
                "{} of {operations} operations took a lock that they did not give back: of it the simulation has the \
                 accesses only",
                self.unbalanced
            ));
        }
        warnings
    }
}

/// An operation while its steps are added.
#[derive(Default)]
struct Made {
    operation: RecordedOperation,
    /// When the last step was.
    at: u32,
    /// Lines of its own, and those that string instructions used.
    own: BTreeSet<u64>,
    copied: BTreeSet<u64>,
}

impl Made {
    fn add(&mut self, at: u32, step: RecordedStep) {
        self.operation.steps.push((at.saturating_sub(self.at), step));
        self.at = self.at.max(at);
    }
}

/// The share of all operations' instructions that user code executes.
fn user_share(trace: &Trace) -> f64 {
    let executed = |actor: Actor| -> u64 {
        trace.instructions.iter().filter(|all| all.actor == actor).map(|all| all.count).sum()
    };
    let [user, kernel] = [Actor::User, Actor::Kernel].map(executed);
    user as f64 / (user + kernel).max(1) as f64
}

/// Instructions that every system call executes, by call.
fn call_instructions(trace: &Trace, lines: &Lines, tasks: &[Vec<RecordedOperation>]) -> f64 {
    let recorded = || tasks.iter().flatten();
    let calls: u32 =
        recorded().map(|operation| operation.entries.saturating_sub(operation.faults)).sum();
    let calls = f64::from(calls) / recorded().count().max(1) as f64;
    let traced: usize = trace.operations.iter().map(|all| all.instructions.len()).sum();
    let is_of_all = |at: u64| lines.image.function(at).is_some_and(|name| is_of_all_calls(&name));
    let executions = trace.executions.iter().filter(|executed| is_of_all(executed.instruction));
    let executed: u64 = executions.map(|executed| executed.count).sum();
    let each = executed as f64 / traced.max(1) as f64;
    if calls > 0.0 { each / calls } else { 0.0 }
}

/// Instructions that tasks executed in a window, by operation.
fn executed_by_operation(trace: &Trace, window: u8) -> f64 {
    let executed = trace.instructions.iter().filter(|executed| {
        executed.window == window && matches!(executed.actor, Actor::Kernel | Actor::User)
    });
    let ended = trace.operations.iter().filter(|all| all.window == window);
    let operations: usize = ended.map(|all| all.instructions.len()).sum();
    executed.map(|executed| executed.count).sum::<u64>() as f64 / operations.max(1) as f64
}

/// By step: whether it is of an instruction that loads, or stores, more than once: a string instruction, which is counted when
/// it begins.
fn copying(steps: &[Step]) -> Vec<bool> {
    let same = |a: &Step, b: &Step| a.at == b.at && instruction(a) == instruction(b);
    let mut copying = Vec::with_capacity(steps.len());
    for of_one in steps.chunk_by(same) {
        let count = |wanted: How| {
            let is_wanted =
                |step: &&Step| matches!(step.what, StepKind::Access { how, .. } if how == wanted);
            of_one.iter().filter(is_wanted).count()
        };
        let is_string = count(How::Load) > 1 || count(How::Store) > 1;
        copying.extend(of_one.iter().map(|_| is_string));
    }
    copying
}

/// Takes a lock before one step and gives it back before another one. Two objects may get their owner at once.
fn add_pair(steps: &mut StepsBefore, since: usize, until: usize, lock: u16) {
    steps.entry(since).or_default().push(RecordedStep::Lock(lock));
    steps.entry(until).or_default().push(RecordedStep::Unlock(lock));
}

/// Whether the words of shared lines that are stored when an object gets an owner are both of an empty list, or none.
fn is_first_owner(stores: &BTreeSet<u64>) -> bool {
    stores.is_empty() || stores.iter().any(|at| stores.contains(&(at + 8)))
}

fn shared_step(how: How, call: Call, line: u16) -> RecordedStep {
    match how {
        How::Load => RecordedStep::Load(line),
        How::Store => RecordedStep::Store(line),
        How::Atomic if call == Call::Compares => RecordedStep::Compare(line),
        How::Atomic => RecordedStep::Atomic(line),
    }
}

/// The address that a step accesses, and whether it is a user address.
fn accessed(step: &Step) -> Option<(bool, u64)> {
    match step.what {
        StepKind::Access { address, is_user_address, .. } => Some((is_user_address, address)),
        _ => None,
    }
}

fn instruction(step: &Step) -> u64 {
    match step.what {
        StepKind::Access { instruction, .. } | StepKind::Waits { instruction } => instruction,
        StepKind::Ends => 0,
    }
}

/// Lines that at least every second operation of each CPU uses.
fn used_often(steps: &[Steps]) -> HashSet<LineAt> {
    let of_cpu = |of_cpu: &Steps| {
        let mut uses: HashMap<LineAt, usize> = HashMap::new();
        let mut operations = 0;
        for steps in of_cpu.steps.split_inclusive(|step| step.what == StepKind::Ends) {
            operations += 1;
            let lines = steps.iter().filter_map(accessed);
            let lines: HashSet<LineAt> = lines.map(|(user, at)| (user, at & !63)).collect();
            lines.into_iter().for_each(|line| *uses.entry(line).or_default() += 1);
        }
        uses.retain(|_, uses| *uses * 2 >= operations);
        uses.into_keys().collect::<HashSet<LineAt>>()
    };
    let both = steps.iter().map(of_cpu).reduce(|a, b| a.intersection(&b).copied().collect());
    both.unwrap_or_default()
}

impl Lines<'_> {
    /// The member of a line that operations write most.
    fn name_of_line(&self, (is_user, line): LineAt, accesses: &[&Access]) -> String {
        let operations = |access: &&&Access| matches!(access.actor, Actor::Kernel | Actor::User);
        let writes = accesses.iter().filter(operations).filter(|access| is_write(access));
        match writes.max_by_key(|access| access.count) {
            Some(access) => self.part(is_user, line, access).names.join(" or "),
            None => self.key(is_user, line, accesses).place,
        }
    }

    /// How many of a line there are. `are_many`: there are lines like it, which operations use in turns.
    fn copies(&self, (is_user, line): LineAt, accesses: &[&Access], are_many: bool) -> Copies {
        const OF_NODES: [&str; 4] =
            ["kmem_cache_node", "pglist_data", "zone", "mem_cgroup_per_node"];
        let place = |access: &&&Access| {
            let first = u64::from(access.bytes.trailing_zeros());
            self.image.place(is_user, line + first)
        };
        let label = self.key(is_user, line, accesses).place;
        if OF_NODES.iter().any(|name| label.trim_end_matches('?') == *name) {
            return Copies::PerNode;
        }
        let is_of_cpus = accesses.iter().any(|a| matches!(place(&a), Place::PerCpu { .. }));
        // Neighbours: no two CPUs use a byte that one of them writes, nor the same object.
        let starts = |cpu: u16| {
            let of_cpu = accesses.iter().filter(|access| access.cpu == cpu);
            of_cpu.filter_map(|a| place(&a).start()).collect::<BTreeSet<u64>>()
        };
        let cpus: BTreeSet<u16> = accesses.iter().map(|access| access.cpu).collect();
        let are_neighbours = shared_writes(accesses)[0] == 0
            && cpus
                .iter()
                .map(|cpu| starts(*cpu))
                .reduce(|a, b| &a & &b)
                .is_some_and(|s| s.is_empty());
        if are_many || is_of_cpus || are_neighbours { Copies::PerPair } else { Copies::One }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_one_owner_if_its_list_is_empty_before() {
        let check = |stores: &[u64], expected: bool| {
            assert_eq!(is_first_owner(&stores.iter().copied().collect()), expected, "{stores:x?}");
        };
        check(&[0x1010, 0x1018], true);
        // The last word of the list, and the owner before.
        check(&[0x1018, 0x2040], false);
        check(&[0x1018], false);
        check(&[], true);
    }

    #[test]
    fn two_objects_may_get_their_owner_at_one_step() {
        use RecordedStep::{Lock, Unlock};
        let mut steps = StepsBefore::new();
        add_pair(&mut steps, 3, 9, 0);
        add_pair(&mut steps, 3, 7, 1);
        let expected = [(3, vec![Lock(0), Lock(1)]), (7, vec![Unlock(1)]), (9, vec![Unlock(0)])];
        assert_eq!(steps, StepsBefore::from(expected));
    }

    #[test]
    fn string_instructions_load_or_store_more_than_once() {
        use How::{Atomic, Load, Store};
        let check = |accesses: &[(u32, u64, How)], expected: &[bool]| {
            let step = |(at, instruction, how): &(u32, u64, How)| Step {
                at: *at,
                what: StepKind::Access {
                    address: 0,
                    bytes: 8,
                    is_user_address: false,
                    how: *how,
                    instruction: *instruction,
                },
            };
            let steps: Vec<Step> = accesses.iter().map(step).collect();
            assert_eq!(copying(&steps), expected, "{accesses:?}");
        };
        // An addition to memory, and a move from memory to memory.
        check(&[(5, 100, Load), (5, 100, Store)], &[false; 2]);
        // Stores of a loop: the same instruction, later.
        check(&[(5, 100, Store), (8, 100, Store)], &[false; 2]);
        check(&[(5, 100, Load), (5, 100, Store), (5, 100, Load), (5, 100, Store)], &[true; 4]);
        check(&[(4, 90, Store), (5, 100, Store), (5, 100, Store)], &[false, true, true]);
        check(&[(4, 90, Atomic), (5, 100, Load)], &[false; 2]);
        check(&[], &[]);
    }
}
