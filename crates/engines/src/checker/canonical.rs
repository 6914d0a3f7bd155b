//! The fingerprint of a state. Where tasks are alike, states that differ only in who is who
//! have the same one: each task is given a place by what it is doing, not by its number, and
//! all that names tasks is hashed by their places.
//!
//! The places come from a sketch of each task that does not depend on numbers: its history,
//! the words of its CPU, and, twice over, the sketches of those it knows and of those that
//! know it. Tasks with equal sketches keep their order. Any order would be right, for the
//! fingerprint is one of the state under that renaming; a poor one only merges less.

use super::TASKS_MAX;
use super::happens_before::{Events, all};
use super::hash::mix;
use super::layout::LaidWord;
use super::request::{Kind, ones};
use super::state::Task;
use super::world::World;

/// The place of each task.
type Places = [u8; TASKS_MAX];

/// What hashing needs besides the state, kept to save allocations.
pub struct Canonical {
    nodes: Vec<usize>,
    /// Who knows whom, and how.
    knows: Vec<(u8, u8, u64)>,
    /// The words that are not zero: index and value.
    words: Vec<(u16, u64)>,
    /// By column, what all know who still run.
    known_to_all: Vec<Events>,
}

// Kinds of things that are hashed; no two kinds mix alike.
const SELF: u64 = 1 << 60;
const WORD: u64 = 2 << 60;
const ENTRY: u64 = 3 << 60;
const ARRIVED: u64 = 4 << 60;
const KNOWN: u64 = 5 << 60;
const ASLEEP: u64 = 6 << 60;

impl Canonical {
    pub fn new(nodes: &[usize]) -> Canonical {
        let (knows, words, known_to_all) = (Vec::new(), Vec::new(), Vec::new());
        Canonical { nodes: nodes.to_vec(), knows, words, known_to_all }
    }

    /// The fingerprint of the live state.
    pub fn fingerprint(&mut self, world: &World) -> u64 {
        self.read_words(world);
        let places = if world.alike { self.places(world) } else { identity() };
        self.hash(world, &places)
    }

    /// How many states have this fingerprint: those that renaming makes of the live one.
    pub fn renamings(&mut self, world: &World) -> u64 {
        self.read_words(world);
        let tasks = world.state.tasks.len();
        let mut found = Vec::new();
        let mut places = identity();
        let nodes = self.nodes.clone();
        permutations(&mut places, 0, tasks, &mut |places| {
            if (0..tasks).all(|task| nodes[task] == nodes[usize::from(places[task])]) {
                found.push(self.hash(world, places));
            }
        });
        found.sort_unstable();
        found.dedup();
        found.len() as u64
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

    fn places(&mut self, world: &World) -> Places {
        let tasks = world.state.tasks.len();
        let mut sketches = self.phases(world);
        if !self.distinct(&sketches[..tasks]) {
            sketches = self.sketches(world);
        }
        for _ in 0..2 {
            let before = sketches;
            for &(from, to, how) in &self.knows {
                let (from, to) = (usize::from(from), usize::from(to));
                sketches[from] = sketches[from].wrapping_add(mix(how, before[to]));
                sketches[to] = sketches[to].wrapping_add(mix(!how, before[from]));
            }
        }
        let mut order = identity();
        order[..tasks]
            .sort_by_key(|&task| (self.nodes[usize::from(task)], sketches[usize::from(task)]));
        let mut places = identity();
        for (place, &task) in order[..tasks].iter().enumerate() {
            places[usize::from(task)] = place as u8;
        }
        places
    }

    /// What each task was told and where it is: most often that is enough.
    fn phases(&mut self, world: &World) -> [u64; TASKS_MAX] {
        self.knows.clear();
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

    /// What each task is doing, by itself; fills `knows`.
    fn sketches(&mut self, world: &World) -> [u64; TASKS_MAX] {
        let state = &world.state;
        let tasks = state.tasks.len();
        let mut sketches = [0; TASKS_MAX];
        self.knows.clear();
        let knows = &mut self.knows;
        let mut know = |sketches: &mut [u64; TASKS_MAX], from: usize, to: usize, how: u64| {
            if from == to {
                sketches[from] = sketches[from].wrapping_add(mix(SELF, how));
            } else {
                knows.push((from as u8, to as u8, how));
            }
        };
        for (t, task) in state.tasks.iter().enumerate() {
            let doing = mix(task.history, phase(task));
            sketches[t] = mix(doing, u64::from(task.buffered));
            for (i, cpu) in task.names.iter().enumerate() {
                know(&mut sketches, t, usize::from(cpu), KNOWN | i as u64);
            }
            for (i, entry) in state.held_back(t).iter().enumerate() {
                let word = world.layout.touched(entry.offset, entry.size).next();
                let word = &world.layout.words[word.expect("an entry is of some word")];
                let how = mix(ENTRY | i as u64, u64::from(word.role));
                sketches[t] = sketches[t].wrapping_add(how);
                if let Some(cpu) = word.cpu {
                    know(&mut sketches, t, usize::from(cpu), how);
                }
            }
        }
        for &(index, value) in &self.words {
            let word = &world.layout.words[usize::from(index)];
            let (rest, cpu) = apart(word, value, tasks);
            let how = mix(WORD | u64::from(word.role), rest);
            match (word.cpu.map(usize::from), cpu) {
                (Some(owner), Some(named)) => know(&mut sketches, owner, named, how),
                (Some(owner), None) if owner < tasks => {
                    sketches[owner] = sketches[owner].wrapping_add(how);
                }
                (None, Some(named)) => sketches[named] = sketches[named].wrapping_add(how),
                _ => {}
            }
        }
        for (i, &task) in state.arrivals.iter().enumerate() {
            let task = usize::from(task);
            sketches[task] = sketches[task].wrapping_add(mix(ARRIVED, i as u64));
        }
        sketches
    }

    /// The hash of the state with each task at its place.
    fn hash(&mut self, world: &World, places: &Places) -> u64 {
        let state = &world.state;
        let tasks = state.tasks.len();
        let mut sum = 0_u64;
        for (t, task) in state.tasks.iter().enumerate() {
            let mut own = mix(u64::from(places[t]), task.history);
            own = mix(own, phase(task));
            if task.request.kind == Kind::Asleep {
                own = mix(own, place_of(world, task.request.offset, places) | ASLEEP);
            }
            for cpu in task.names.iter() {
                own = mix(own, u64::from(places[usize::from(cpu)]));
            }
            for entry in state.held_back(t) {
                own = mix(own, place_of(world, entry.offset, places) | ENTRY);
                own = mix(own, u64::from(entry.size));
                own = mix(own, renamed_value(world, entry.offset, entry.size, entry.value, places));
            }
            sum = sum.wrapping_add(own);
        }
        for &(index, value) in &self.words {
            let word = &world.layout.words[usize::from(index)];
            let value = if world.alike { renamed(word, value, tasks, places) } else { value };
            sum = sum.wrapping_add(mix(id(word, places) | WORD, value));
        }
        let mut all = mix(sum, self.orders(world, places));
        for &task in &state.arrivals {
            all = mix(all, ARRIVED | u64::from(places[usize::from(task)]));
        }
        mix(all, u64::from(state.inside) << 8 | u64::from(state.sharing))
    }

    /// What is known beyond what all know who still run, by row and column.
    fn orders(&mut self, world: &World, places: &Places) -> u64 {
        let (state, layout) = (&world.state, &world.layout);
        let tasks = state.tasks.len();
        let to_all = &mut self.known_to_all;
        to_all.clear();
        to_all.resize(layout.columns.len(), all(tasks));
        for task in (0..tasks).filter(|&task| !state.tasks[task].ended) {
            for (known, row) in to_all.iter_mut().zip(state.orders.row(task)) {
                *known &= row;
            }
        }
        let column_id = |&column: &u16| id(&layout.words[usize::from(column)], places) << 24;
        let mut sum = 0_u64;
        let mut add = |row: usize, row_id: u64| {
            let row = state.orders.row(row);
            let more = row.iter().zip(&*to_all).map(|(row, to_all)| row & !to_all);
            // Most rows have nothing; to see that takes no loop over columns.
            if more.clone().fold(0, |any, more| any | more) == 0 {
                return;
            }
            for (more, column) in more.zip(&layout.columns).filter(|(more, _)| *more != 0) {
                let what = mix(row_id ^ column_id(column), renamed_events(more, places));
                sum = sum.wrapping_add(what);
            }
        };
        for (task, &place) in places[..tasks].iter().enumerate() {
            if !state.tasks[task].ended {
                add(task, KNOWN | u64::from(place));
            }
            for entry in 0..state.held_back(task).len() {
                let row_id = ENTRY | u64::from(place) << 8 | entry as u64;
                add(world.entry_row(task, entry), row_id);
            }
        }
        for (row, &index) in layout.rows.iter().enumerate() {
            add(tasks + row, WORD | id(&layout.words[usize::from(index)], places));
        }
        sum
    }
}

/// What a task is at, beside its history: two tasks that were told the same may differ in it.
fn phase(task: &Task) -> u64 {
    let phase = match (task.ended, task.request.kind) {
        (true, _) => 1,
        (false, Kind::Asleep) => 2,
        (false, Kind::Woken) => 3,
        _ => 0,
    };
    phase | u64::from(task.interrupt) << 8 | u64::from(task.masked) << 16
}

fn identity() -> Places {
    std::array::from_fn(|i| i as u8)
}

/// A value without the CPU that it names, and that CPU.
fn apart(word: &LaidWord, value: u64, tasks: usize) -> (u64, Option<usize>) {
    let Some(shift) = word.cpu_shift else { return (value, None) };
    let name = value >> shift;
    match name.checked_sub(1).map(|cpu| cpu as usize).filter(|&cpu| cpu < tasks) {
        Some(cpu) => (value ^ (name ^ 1) << shift, Some(cpu)),
        None => (value, None),
    }
}

/// A value with the place of the CPU that it names.
fn renamed(word: &LaidWord, value: u64, tasks: usize, places: &Places) -> u64 {
    let (rest, cpu) = apart(word, value, tasks);
    match (cpu, word.cpu_shift) {
        (Some(cpu), Some(shift)) => rest ^ (1 ^ (u64::from(places[cpu]) + 1)) << shift,
        _ => rest,
    }
}

/// The same for a value that may lie over several words.
fn renamed_value(world: &World, offset: u32, size: u8, value: u64, places: &Places) -> u64 {
    if !world.alike {
        return value;
    }
    let tasks = world.state.tasks.len();
    let part = |index: usize| {
        let word = &world.layout.words[index];
        let shift = 8 * (word.offset - offset);
        renamed(word, value >> shift & ones(word.size), tasks, places) << shift
    };
    world.layout.touched(offset, size).map(part).fold(0, |parts, part| parts | part)
}

/// Which word it is, after renaming.
fn id(word: &LaidWord, places: &Places) -> u64 {
    let place = word.cpu.map_or(0, |cpu| match places.get(usize::from(cpu)) {
        Some(place) => u64::from(*place) + 1,
        None => u64::from(cpu) + 1,
    });
    u64::from(word.role) << 8 | place
}

fn place_of(world: &World, offset: u32, places: &Places) -> u64 {
    let word = world.layout.touched(offset, 1).next().expect("an offset in some word");
    id(&world.layout.words[word], places)
}

fn renamed_events(events: Events, places: &Places) -> u64 {
    let mut renamed = u64::from(events & 1);
    let mut reads = events >> 1;
    while reads != 0 {
        let task = reads.trailing_zeros() as usize;
        renamed |= 2 << places[task];
        reads &= reads - 1;
    }
    renamed
}

/// Calls `each` with every order of the elements from `from` to `to`.
fn permutations(places: &mut Places, from: usize, to: usize, each: &mut impl FnMut(&Places)) {
    if from == to {
        return each(places);
    }
    for other in from..to {
        places.swap(from, other);
        permutations(places, from + 1, to, each);
        places.swap(from, other);
    }
}
