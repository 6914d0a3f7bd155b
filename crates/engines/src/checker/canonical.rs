//! The fingerprint of a state. With symmetry, states that differ only by a renumbering of the
//! tasks have the same one: each task gets a canonical number by what it is doing, and
//! everything that holds task numbers is hashed with the canonical ones.
//!
//! The canonical order comes from a sketch of each task that does not depend on its number: its
//! history, the words of its CPU, and, in two rounds, the sketches of the tasks that it refers
//! to and of those that refer to it. Tasks with equal sketches keep their order. Any order is
//! correct, because each gives the fingerprint of the state under some renumbering; a poor
//! order only merges fewer states.

use super::TASKS_MAX;
use super::canonical_views::Renumbering;
use super::happens_before::{Events, FENCED, PENDING, all_events};
use super::hash::mix;
use super::layout::WordLayout;
use super::request::{RequestKind, ones};
use super::state::{Arrival, CheckedTask};
use super::world::World;

/// The canonical number of each task.
type Numbering = [u8; TASKS_MAX];

/// Computes fingerprints; keeps its buffers to save allocations.
pub struct Canonicalizer {
    nodes: Vec<usize>,
    /// Which task refers to which, and a hash of how.
    references: Vec<(u8, u8, u64)>,
    /// The words that are not zero: index and value.
    words: Vec<(u16, u64)>,
    /// By column, the events that happened before the next step of every running task.
    happened_before_all: Vec<Events>,
}

// Kinds of things that are hashed, so that no two kinds hash alike.
const SELF: u64 = 1 << 60;
const WORD: u64 = 2 << 60;
const STORE: u64 = 3 << 60;
const ARRIVED: u64 = 4 << 60;
const KNOWN: u64 = 5 << 60;
const ASLEEP: u64 = 6 << 60;
const FENCE: u64 = 7 << 60;

impl Canonicalizer {
    pub fn new(nodes: &[usize]) -> Canonicalizer {
        let (references, words, happened_before_all) = (Vec::new(), Vec::new(), Vec::new());
        Canonicalizer { nodes: nodes.to_vec(), references, words, happened_before_all }
    }

    /// The fingerprint of the live state.
    pub fn fingerprint(&mut self, world: &World) -> u64 {
        self.read_words(world);
        let numbers = if world.symmetric { self.numbers(world) } else { identity() };
        self.hash(world, &numbers)
    }

    /// How many states have this fingerprint: the different renumberings of the live one.
    pub fn renumberings(&mut self, world: &World) -> u64 {
        self.read_words(world);
        let tasks = world.state.tasks.len();
        let mut fingerprints = Vec::new();
        let mut numbers = identity();
        let nodes = self.nodes.clone();
        permutations(&mut numbers, 0, tasks, &mut |numbers| {
            if (0..tasks).all(|task| nodes[task] == nodes[usize::from(numbers[task])]) {
                fingerprints.push(self.hash(world, numbers));
            }
        });
        fingerprints.sort_unstable();
        fingerprints.dedup();
        fingerprints.len() as u64
    }

    fn read_words(&mut self, world: &World) {
        self.words.clear();
        for (chunk, words) in world.layout.chunks() {
            if world.read(chunk, 8) == 0 {
                continue;
            }
            for index in words {
                let word = &world.layout.words[usize::from(index)];
                let value = world.read(word.offset, word.size);
                if value != 0 {
                    self.words.push((index, value));
                }
            }
        }
    }

    fn numbers(&mut self, world: &World) -> Numbering {
        let tasks = world.state.tasks.len();
        let mut sketches = self.phases(world);
        if !self.distinct(&sketches[..tasks]) {
            sketches = self.sketches(world);
        }
        for _ in 0..2 {
            let before = sketches;
            for &(from, to, how) in &self.references {
                let (from, to) = (usize::from(from), usize::from(to));
                sketches[from] = sketches[from].wrapping_add(mix(how, before[to]));
                sketches[to] = sketches[to].wrapping_add(mix(!how, before[from]));
            }
        }
        let mut order = identity();
        order[..tasks]
            .sort_by_key(|&task| (self.nodes[usize::from(task)], sketches[usize::from(task)]));
        let mut numbers = identity();
        for (number, &task) in order[..tasks].iter().enumerate() {
            numbers[usize::from(task)] = number as u8;
        }
        numbers
    }

    /// A hash of the history and phase of each task: most often that tells all tasks apart.
    fn phases(&mut self, world: &World) -> [u64; TASKS_MAX] {
        self.references.clear();
        let mut phases = [0; TASKS_MAX];
        for (phase, task) in phases.iter_mut().zip(&world.state.tasks) {
            *phase = mix(task.history, self::phase(task));
        }
        phases
    }

    fn distinct(&self, sketches: &[u64]) -> bool {
        let differs = |(i, sketch): (usize, &u64)| {
            sketches[..i]
                .iter()
                .zip(&self.nodes)
                .all(|(other, node)| other != sketch || *node != self.nodes[i])
        };
        sketches.iter().enumerate().all(differs)
    }

    /// A hash of what each task is doing, without other tasks; fills `references`.
    fn sketches(&mut self, world: &World) -> [u64; TASKS_MAX] {
        let state = &world.state;
        let tasks = state.tasks.len();
        let mut sketches = [0; TASKS_MAX];
        self.references.clear();
        let references = &mut self.references;
        let mut refer = |sketches: &mut [u64; TASKS_MAX], from: usize, to: usize, how: u64| {
            if from == to {
                sketches[from] = sketches[from].wrapping_add(mix(SELF, how));
            } else {
                references.push((from as u8, to as u8, how));
            }
        };
        for (t, task) in state.tasks.iter().enumerate() {
            let doing = mix(task.history, phase(task));
            sketches[t] = mix(doing, u64::from(task.buffered));
            for (i, cpu) in task.named_cpus.iter().enumerate() {
                refer(&mut sketches, t, usize::from(cpu), KNOWN | i as u64);
            }
            for (i, store) in state.buffered_stores(t).iter().enumerate() {
                let word = world.layout.touched(store.offset, store.size).next();
                let word = &world.layout.words[word.expect("a store is to some word")];
                let how = mix(STORE | i as u64, u64::from(word.role));
                sketches[t] = sketches[t].wrapping_add(how);
                if let Some(cpu) = word.cpu {
                    refer(&mut sketches, t, usize::from(cpu), how);
                }
            }
        }
        for &(index, value) in &self.words {
            let word = &world.layout.words[usize::from(index)];
            let (rest, cpu) = without_cpu_number(word, value, tasks);
            let how = mix(WORD | u64::from(word.role), rest);
            match (word.cpu.map(usize::from), cpu) {
                (Some(owner), Some(named)) => refer(&mut sketches, owner, named, how),
                (Some(owner), None) if owner < tasks => {
                    sketches[owner] = sketches[owner].wrapping_add(how);
                }
                (None, Some(named)) => sketches[named] = sketches[named].wrapping_add(how),
                _ => {}
            }
        }
        for (i, arrival) in state.arrivals.iter().enumerate() {
            let (task, how) = (usize::from(arrival.task), mix(ARRIVED, i as u64));
            sketches[task] = sketches[task].wrapping_add(how);
        }
        sketches
    }

    /// The hash of the state under this numbering.
    fn hash(&mut self, world: &World, numbers: &Numbering) -> u64 {
        let state = &world.state;
        let tasks = state.tasks.len();
        let mut sum = 0_u64;
        for (t, task) in state.tasks.iter().enumerate() {
            let mut own = mix(u64::from(numbers[t]), task.history);
            own = mix(own, phase(task));
            if let RequestKind::Asleep(..) = task.request.kind {
                own = mix(own, word_id_at(world, task.request.offset, numbers) | ASLEEP);
            }
            for cpu in task.named_cpus.iter() {
                own = mix(own, u64::from(numbers[usize::from(cpu)]));
            }
            for store in state.buffered_stores(t) {
                let value = renumbered_value(world, store.offset, store.size, store.value, numbers);
                own = mix(own, word_id_at(world, store.offset, numbers) | STORE);
                own = mix(own, u64::from(store.size));
                own = mix(own, value);
            }
            sum = sum.wrapping_add(own);
        }
        for &(index, value) in &self.words {
            let word = &world.layout.words[usize::from(index)];
            let value =
                if world.symmetric { renumbered(word, value, tasks, numbers) } else { value };
            sum = sum.wrapping_add(mix(word_id(word, numbers) | WORD, value));
        }
        let mut hash = mix(sum, self.hash_happens_before(world, numbers));
        if world.reads_old() {
            let renumbering = Renumbering {
                numbers,
                word_id: &|word| word_id(&world.layout.words[word], numbers),
                value: &|word, value| {
                    let word = &world.layout.words[word];
                    if world.symmetric { renumbered(word, value, tasks, numbers) } else { value }
                },
            };
            hash = match world.rules {
                None => mix(hash, world.hash_views(&renumbering)),
                Some(_) => mix(hash, world.hash_executions(&renumbering)),
            };
        }
        for &Arrival { task, bypassed } in &state.arrivals {
            let number = u64::from(numbers[usize::from(task)]);
            hash = mix(hash, ARRIVED | u64::from(bypassed) << 8 | number);
        }
        if world.watched_task.is_some() {
            hash = mix(hash, state.watched.hash());
        }
        mix(hash, u64::from(state.inside) << 8 | u64::from(state.sharing))
    }

    /// A hash of the events of each row, without those that happened before all running tasks.
    fn hash_happens_before(&mut self, world: &World, numbers: &Numbering) -> u64 {
        let (state, layout) = (&world.state, &world.layout);
        let tasks = state.tasks.len();
        let to_all = &mut self.happened_before_all;
        to_all.clear();
        to_all.resize(layout.columns.len(), all_events(tasks));
        for task in (0..tasks).filter(|&task| !state.tasks[task].ended) {
            for (known, row) in to_all.iter_mut().zip(state.happens_before.row(task)) {
                *known &= row;
            }
        }
        let column_id = |&column: &u16| word_id(&layout.words[usize::from(column)], numbers) << 24;
        let mut sum = 0_u64;
        let mut add = |row: usize, row_id: u64| {
            let row = state.happens_before.row(row);
            let more = row.iter().zip(&*to_all).map(|(row, to_all)| row & !to_all);
            // Most rows have nothing more, which this sees without a branch for each column.
            if more.clone().fold(0, |any, more| any | more) == 0 {
                return;
            }
            for (more, column) in more.zip(&layout.columns).filter(|(more, _)| *more != 0) {
                let event_hash = mix(row_id ^ column_id(column), renumbered_events(more, numbers));
                sum = sum.wrapping_add(event_hash);
            }
        };
        for (task, &number) in numbers[..tasks].iter().enumerate() {
            if !state.tasks[task].ended {
                add(task, KNOWN | u64::from(number));
            }
            for which in [PENDING, FENCED] {
                if let Some(row) = world.fence_row(task, which) {
                    add(row, FENCE | u64::from(number) << 8 | which as u64);
                }
            }
            for index in 0..state.buffered_stores(task).len() {
                let row_id = STORE | u64::from(number) << 8 | index as u64;
                add(world.buffer_row(task, index), row_id);
            }
        }
        if world.is_weak {
            for (row, row_id) in world.message_rows(|word| word_id(&layout.words[word], numbers)) {
                add(row, row_id);
            }
        }
        for (row, &index) in layout.rows.iter().enumerate() {
            add(tasks + row, WORD | word_id(&layout.words[usize::from(index)], numbers));
        }
        sum
    }
}

/// What distinguishes tasks with equal histories.
fn phase(task: &CheckedTask) -> u64 {
    let phase = match (task.ended, task.request.kind) {
        (true, _) => 1,
        (false, RequestKind::Asleep(..)) => 2,
        (false, RequestKind::Woken) => 3,
        _ => 0,
    };
    let flags = u64::from(task.interrupt_pending) << 8
        | u64::from(task.has_stored) << 9
        | u64::from(task.has_woken_by_itself) << 10;
    let spins = task.spins_on.map_or(0, |value| mix(u64::MAX, value));
    let slept = task.slept_after.map_or(0, |(place, value)| mix(place, value));
    spins ^ slept ^ (phase | flags | u64::from(task.irqs_off_depth) << 16)
}

fn identity() -> Numbering {
    std::array::from_fn(|i| i as u8)
}

/// A value without the CPU number in it, and that CPU.
fn without_cpu_number(word: &WordLayout, value: u64, tasks: usize) -> (u64, Option<usize>) {
    let Some(shift) = word.cpu_shift else { return (value, None) };
    let number = value >> shift;
    match number.checked_sub(1).map(|cpu| cpu as usize).filter(|&cpu| cpu < tasks) {
        Some(cpu) => (value ^ (number ^ 1) << shift, Some(cpu)),
        None => (value, None),
    }
}

/// A value with the canonical number of the CPU in it.
fn renumbered(word: &WordLayout, value: u64, tasks: usize, numbers: &Numbering) -> u64 {
    let (rest, cpu) = without_cpu_number(word, value, tasks);
    match (cpu, word.cpu_shift) {
        (Some(cpu), Some(shift)) => rest ^ (1 ^ (u64::from(numbers[cpu]) + 1)) << shift,
        _ => rest,
    }
}

/// A value that may lie over several words, with canonical CPU numbers.
fn renumbered_value(world: &World, offset: u32, size: u8, value: u64, numbers: &Numbering) -> u64 {
    if !world.symmetric {
        return value;
    }
    let tasks = world.state.tasks.len();
    let part = |index: usize| {
        let word = &world.layout.words[index];
        let shift = 8 * (word.offset - offset);
        renumbered(word, value >> shift & ones(word.size), tasks, numbers) << shift
    };
    world.layout.touched(offset, size).map(part).fold(0, |parts, part| parts | part)
}

/// The identity of a word under this numbering.
fn word_id(word: &WordLayout, numbers: &Numbering) -> u64 {
    let number = word.cpu.map_or(0, |cpu| match numbers.get(usize::from(cpu)) {
        Some(number) => u64::from(*number) + 1,
        None => u64::from(cpu) + 1,
    });
    u64::from(word.role) << 8 | number
}

fn word_id_at(world: &World, offset: u32, numbers: &Numbering) -> u64 {
    let word = world.layout.touched(offset, 1).next().expect("an offset in some word");
    word_id(&world.layout.words[word], numbers)
}

fn renumbered_events(events: Events, numbers: &Numbering) -> u64 {
    let mut renumbered = u64::from(events & 1);
    let mut reads = events >> 1;
    while reads != 0 {
        let task = reads.trailing_zeros() as usize;
        renumbered |= 2 << numbers[task];
        reads &= reads - 1;
    }
    renumbered
}

/// Calls `each` with every order of the elements from `from` to `to`.
fn permutations(
    numbers: &mut Numbering,
    from: usize,
    to: usize,
    each: &mut impl FnMut(&Numbering),
) {
    if from == to {
        return each(numbers);
    }
    for other in from..to {
        numbers.swap(from, other);
        permutations(numbers, from + 1, to, each);
        numbers.swap(from, other);
    }
}
