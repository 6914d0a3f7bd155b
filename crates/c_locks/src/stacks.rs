//! Stacks in the region, for programs whose tasks share local variables: a waiter on its task's stack, say. A search begins with
//! the stacks of its coroutines, which cost nothing. Once a task is found to reach for the stack of another, the program
//! is placed again with its stacks apart. What parts their words have is learned likewise: from the accesses to them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use machine::{Member, NamedArray, Region, Word};

use crate::entry::{STACK_ALIGN, STACK_GUARD};
use crate::parts::pieces;

/// Where a stack begins, from its lowest address: above are two words of the ways in and out.
pub const STACK_BEGIN: usize = STACK_ALIGN - 16;

/// Bytes of the largest frame of a function: what lies below the guard is not looked at.
pub const FRAME_MAX: usize = STACK_GUARD;

/// What is known about the stacks of a program.
#[derive(Debug, Default)]
pub struct Stacks {
    apart: AtomicBool,
    has_learned: AtomicBool,
    parts: Mutex<Parts>,
}

#[derive(Clone, Debug, Default)]
struct Parts {
    /// Where words begin and end, besides multiples of eight.
    cuts: BTreeSet<usize>,
    /// By start and size.
    names: BTreeMap<(usize, usize), String>,
}

impl Stacks {
    /// Whether they lie in the region.
    pub fn are_apart(&self) -> bool {
        self.apart.load(Relaxed)
    }

    /// Puts them there from the next time on.
    pub fn set_apart(&self) {
        if !self.apart.swap(true, Relaxed) {
            self.has_learned.store(true, Relaxed);
        }
    }

    /// Whether something was learned since the last call, so that the program has to be placed again.
    pub fn take_learned(&self) -> bool {
        self.has_learned.swap(false, Relaxed)
    }

    /// Notes a word, for the next time.
    pub fn cut(&self, start: usize, size: usize) {
        let mut parts = self.parts.lock().expect("no thread panics while holding it");
        parts.cuts.extend([start, start + size]);
        self.has_learned.store(true, Relaxed);
    }

    /// Notes what a word, or several, are called. In the frames of other functions other variables may be there.
    pub fn name(&self, start: usize, size: usize, name: &str) {
        let mut parts = self.parts.lock().expect("no thread panics while holding it");
        let names = parts.names.entry((start, size)).or_default();
        if !has_name(names, name) {
            names.push_str(if names.is_empty() { "" } else { OR });
            names.push_str(name);
        }
    }
}

/// The stacks of all tasks in a region.
#[derive(Debug)]
pub struct PlacedStacks {
    start: usize,
    tasks: usize,
    /// By offset in a stack: whether a word begins there.
    begins: Vec<bool>,
    named: BTreeMap<(usize, usize), String>,
    /// Where names are those of KNEE_ONCE.
    once: BTreeSet<usize>,
}

impl PlacedStacks {
    /// Bytes of a region that stacks take.
    pub fn bytes(tasks: usize) -> usize {
        (tasks + 1) * STACK_ALIGN
    }

    /// How many words each stack has at most.
    pub const WORDS_MAX: usize = STACK_ALIGN - STACK_GUARD;

    /// Places the stacks of tasks. `is_once` tells of the name of a local variable whether KNEE_ONCE names it.
    pub fn new(
        stacks: &Stacks,
        region: &Region,
        tasks: usize,
        is_once: impl Fn(&str) -> bool,
    ) -> PlacedStacks {
        let parts = stacks.parts.lock().expect("no thread panics while holding it").clone();
        let mut begins: Vec<bool> = (0..STACK_ALIGN).map(|at| at.is_multiple_of(8)).collect();
        parts.cuts.iter().for_each(|cut| begins[*cut] = true);
        let words = words(&begins, &parts.names);
        let array = NamedArray {
            name: "stack".to_string(),
            offset: 0,
            stride: STACK_ALIGN,
            length: tasks,
            per_cpu: false,
            words,
            members: parts.names.iter().map(member).collect(),
        };
        let start = region.laid_out(array, STACK_ALIGN) as usize;
        let of_once = parts.names.iter().filter(|(_, names)| names.split(OR).any(&is_once));
        let once = of_once.map(|((start, _), _)| *start).collect();
        PlacedStacks { start, tasks, begins, named: parts.names, once }
    }

    /// Where the stack of a task ends, upwards.
    pub fn top(&self, task: usize) -> usize {
        self.start + (task + 1) * STACK_ALIGN
    }

    /// The task on whose stack this address is, and the offset there.
    pub fn owner(&self, address: usize) -> Option<(usize, usize)> {
        let offset = address.checked_sub(self.start)?;
        let task = offset / STACK_ALIGN;
        (task < self.tasks).then_some((task, offset % STACK_ALIGN))
    }

    /// Whether an access to so many bytes is to whole words.
    pub fn is_whole(&self, start: usize, size: usize) -> bool {
        let begins = |at: usize| self.begins.get(at).is_none_or(|begins| *begins);
        begins(start) && begins(start + size)
    }

    /// Whether the word here has this name.
    pub fn is_named(&self, start: usize, size: usize, name: &str) -> bool {
        self.named.get(&(start, size)).is_some_and(|names| has_name(names, name))
    }

    /// Whether accesses to the word here are single ones.
    pub fn is_once(&self, start: usize) -> bool {
        self.once.contains(&start)
    }

    /// Notes where the live part of a task's stack ends.
    pub fn set_end(&self, task: usize, end: usize) {
        // SAFETY: a word of the region that is no part of the stack proper; tasks take turns.
        unsafe { *((self.top(task) - 8) as *mut usize) = end };
    }

    /// Where the live part of a task's stack ends; 0 if the task is in no function.
    pub fn end(&self, task: usize) -> usize {
        // SAFETY: as above.
        unsafe { *((self.top(task) - 8) as *const usize) }
    }
}

/// Between the names of variables that share a place.
const OR: &str = " or ";

fn has_name(names: &str, name: &str) -> bool {
    names.split(OR).any(|one| one == name)
}

fn member((&(offset, size), name): (&(usize, usize), &String)) -> Member {
    Member { path: format!(".{name}"), offset, size, bits: None }
}

fn words(begins: &[bool], names: &BTreeMap<(usize, usize), String>) -> Vec<Word> {
    let cuts: Vec<usize> = (STACK_GUARD..=STACK_BEGIN).filter(|at| begins[*at]).collect();
    let word = |(start, size)| {
        let unnamed = || format!("+{}", STACK_BEGIN - start);
        let path = names.get(&(start, size)).map_or_else(unnamed, |name| format!(".{name}"));
        Word { path, offset: start, size, cpu_shift: None }
    };
    pieces(&cuts).into_iter().map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_cut_where_accesses_begin_and_end() {
        let stacks = Stacks::default();
        assert!(!stacks.are_apart() && !stacks.take_learned());
        stacks.set_apart();
        stacks.cut(2048, 4);
        stacks.name(2048, 4, "waiter.type");
        stacks.name(2048, 4, "tries");
        assert!(stacks.are_apart() && stacks.take_learned() && !stacks.take_learned());
        let region = Region::new(4096 + PlacedStacks::bytes(2)).unwrap();
        let placed = PlacedStacks::new(&stacks, &region, 2, |name| name == "waiter.type");
        assert!(placed.is_whole(2048, 4) && placed.is_whole(2052, 4) && !placed.is_whole(2056, 4));
        assert_eq!(placed.owner(placed.top(1) - 8).map(|(task, _)| task), Some(1));
        assert!(placed.is_once(2048) && !placed.is_once(2052));
        assert_eq!(placed.owner(placed.top(1)), None);
        let offset = placed.top(0) - STACK_ALIGN + 2048 - region.start() as usize;
        assert_eq!(region.name(offset), "stack[0].waiter.type or tries");
    }
}
