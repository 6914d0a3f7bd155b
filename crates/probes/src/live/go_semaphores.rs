//! Goroutines that wait at semaphores, as those of Go's mutexes and read-write locks do: their threads do other work
//! meanwhile, so that only the memory of the process shows them (runtime/sema.go).
//!
//!     runtime.semtable: 251 roots ─ a tree of addresses ─ a list of those that wait at each ─> goroutine, its stack
//!
//! The tree changes while it is read. A waiter whose address does not belong to its root is none.

use std::collections::HashMap;
use std::path::PathBuf;

use perf_data::Variables;

use super::cpython::Memory;
use super::task_files::Place;
use super::user_stacks::{UserStacks, bias};
use crate::ledger::programs::root_of;

/// Variables of Go's runtime, which its linker keeps unless it is told to strip all symbols (`-s`).
const NAMES: [&str; 2] = ["runtime.semtable", "runtime.buildVersion"];
/// Number of roots, and the words between them: a cache line.
const ROOTS: usize = 251;
const ROOT_WORDS: usize = 8;
/// More are not read of a process at once.
const WAITERS_MAX: usize = 128;

/// A goroutine that waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitingGoroutine {
    /// Where it lies, which tells it from others.
    pub goroutine: u64,
    /// The address of the semaphore.
    pub semaphore: u64,
    pub place: Place,
}

/// Processes that run Go.
#[derive(Default)]
pub struct GoSemaphores {
    processes: HashMap<u32, Process>,
    files: HashMap<PathBuf, Option<Variables>>,
}

#[derive(Default)]
struct Process {
    /// Which reading of its maps was looked through.
    maps: u64,
    table: Option<Table>,
}

/// Where a runtime has its semaphores.
#[derive(Clone, Copy, Debug)]
struct Table {
    roots: u64,
    waiter: Waiter,
}

/// Where members of a waiter lie, in words (runtime/runtime2.go, `sudog`). The first are the same in all versions:
/// goroutine, the right and the left one in the tree, address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Waiter {
    /// The next one at the same address.
    next_there: usize,
}

const WAITER_WORDS: usize = 10;

impl Waiter {
    /// The members of a version, as `go1.26.8`; `None` if it is older than the tree, or none of Go's.
    fn of_version(version: &str) -> Option<Waiter> {
        const FIRST: u32 = 18;
        /// Since then, the address has two words: a pointer that the collector may be made to forget, and a number.
        const TWO_WORDS: u32 = 26;
        let minor = version.trim_start_matches("devel ").strip_prefix("go1.")?;
        let digits = minor.split(|letter: char| !letter.is_ascii_digit()).next()?;
        let minor: u32 = digits.parse().ok()?;
        (minor >= FIRST).then_some(Waiter { next_there: if minor < TWO_WORDS { 8 } else { 9 } })
    }
}

impl GoSemaphores {
    /// The goroutines of a process that wait; none if it does not run Go, or was stripped of all symbols.
    pub fn waiting(&mut self, stacks: &UserStacks, number: u32) -> Vec<WaitingGoroutine> {
        let maps = stacks.maps_read(number);
        let process = self.processes.entry(number).or_default();
        if process.maps != maps {
            *process = Process { maps, table: find(&mut self.files, stacks, number) };
        }
        let table = process.table;
        table.map_or(Vec::new(), |table| table.waiting(Memory { process: number }))
    }
}

fn find(
    files: &mut HashMap<PathBuf, Option<Variables>>,
    stacks: &UserStacks,
    process: u32,
) -> Option<Table> {
    let root = root_of(process);
    // The runtime is a part of the program, which is mapped first.
    let mapping = stacks.code(process).next()?;
    let path = PathBuf::from(format!("{root}{}", mapping.path));
    let file = files.entry(path.clone());
    let file = file.or_insert_with(|| perf_data::named(&path, &NAMES).ok()).as_ref()?;
    let bias = bias(mapping, file)?;
    let [roots, version] = NAMES.map(|name| {
        let known = file.variables.iter().find(|variable| variable.name == name);
        known.map(|variable| variable.address.wrapping_add(bias))
    });
    let memory = Memory { process };
    let mut text = [0; 2];
    memory.words(version?, &mut text)?;
    const LETTERS_MAX: u64 = 64;
    let letters = memory.bytes(text[0], text[1].min(LETTERS_MAX) as usize)?;
    let waiter = Waiter::of_version(std::str::from_utf8(&letters).ok()?)?;
    Some(Table { roots: roots?, waiter })
}

impl Table {
    fn waiting(&self, memory: Memory) -> Vec<WaitingGoroutine> {
        let mut words = [0; ROOTS * ROOT_WORDS];
        let mut waiting = Vec::new();
        if memory.words(self.roots, &mut words).is_none() {
            return waiting;
        }
        for (number, root) in words.chunks_exact(ROOT_WORDS).enumerate() {
            // A lock, the tree, and how many wait.
            let mut left = vec![(root[1], true)];
            while let Some((at, is_in_tree)) = left.pop() {
                let mut waiter = [0; WAITER_WORDS];
                let is_read = at != 0 && memory.words(at, &mut waiter).is_some();
                let [goroutine, right, left_one, semaphore, ..] = waiter;
                let is_of_root = (semaphore >> 3) as usize % ROOTS == number;
                if !is_read || !is_of_root || waiting.len() >= WAITERS_MAX {
                    continue;
                }
                left.push((waiter[self.waiter.next_there], false));
                if is_in_tree {
                    left.extend([(right, true), (left_one, true)]);
                }
                let place = place(memory, goroutine);
                waiting.extend(place.map(|place| WaitingGoroutine { goroutine, semaphore, place }));
            }
        }
        waiting
    }
}

/// Where a goroutine goes on (runtime/runtime2.go, `g.sched`).
fn place(memory: Memory, goroutine: u64) -> Option<Place> {
    const SAVED: u64 = 56;
    let mut saved = [0; 2];
    memory.words(goroutine.wrapping_add(SAVED), &mut saved)?;
    let [sp, ip] = saved;
    (sp != 0 && ip != 0).then_some(Place { sp, ip })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_have_the_members_of_their_time() {
        let check = |version: &str, next_there: Option<usize>| {
            let expected = next_there.map(|next_there| Waiter { next_there });
            assert_eq!(Waiter::of_version(version), expected, "{version}");
        };
        check("go1.26.8", Some(9));
        check("go1.25rc1", Some(8));
        check("devel go1.27-abcdef", Some(9));
        check("go1.9", None);
        check("1.26", None);
    }

    /// A table in this process: one tree of two addresses, at one of which two goroutines wait.
    #[test]
    fn all_that_wait_are_found_and_what_does_not_belong_to_its_root_is_none() {
        let mut goroutines = [[0_u64; 16]; 4];
        goroutines.iter_mut().enumerate().for_each(|(at, g)| {
            (g[7], g[8]) = (0x1000 + at as u64, 0x2000);
        });
        let at = |goroutine: usize| goroutines[goroutine].as_ptr() as u64;
        let semaphore = 8 * 7_u64;
        let other = semaphore + 8 * ROOTS as u64;
        let second = [at(1), 0, 0, semaphore, semaphore, 0, 0, 0, 0, 0];
        let child = [at(2), 0, 0, other, other, 0, 0, 0, 0, 0];
        let stranger = [at(3), 0, 0, semaphore + 8, 0, 0, 0, 0, 0, 0];
        let mut first = [at(0), 0, 0, semaphore, semaphore, 0, 0, 0, 0, second.as_ptr() as u64];
        (first[1], first[2]) = (child.as_ptr() as u64, stranger.as_ptr() as u64);
        let mut roots = vec![0_u64; ROOTS * ROOT_WORDS];
        roots[7 * ROOT_WORDS + 1] = first.as_ptr() as u64;
        let waiter = Waiter::of_version("go1.26").unwrap();
        let table = Table { roots: roots.as_ptr() as u64, waiter };
        let found = table.waiting(Memory { process: std::process::id() });
        let mut found: Vec<(u64, u64, u64)> =
            found.iter().map(|one| (one.goroutine, one.semaphore, one.place.sp)).collect();
        found.sort_by_key(|(_, _, sp)| *sp);
        let expected = [(0, semaphore), (1, semaphore), (2, other)];
        let expected = expected.map(|(g, semaphore)| (at(g), semaphore, 0x1000 + g as u64));
        assert_eq!(found, expected);
    }
}
