//! Whether a waiter can starve: how often others enter while a task waits, with more and more acquires.

use anyhow::Result;
use engines::checker::{Bypass, Memory, Options, search};

use super::{CheckSize, Mutation, with_tasks};
use crate::subject::Subject;

/// Acquires of each task that are tried, one after the other until a search gives up.
const ACQUIRES: [u32; 4] = [2, 4, 8, 16];

/// Tasks that are tried: some locks are fair to two.
const TASKS: [usize; 2] = [2, TASKS_MOST];

/// The largest number of tasks that is tried.
pub const TASKS_MOST: usize = 3;

/// States after which one search gives up.
const STATES_MAX: u64 = 50_000;

/// The task that waits: alone on its memory node where there are two nodes.
const WATCHED: usize = 1;

/// How often others enter while a task waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Bound {
    /// At most this often: more acquires do not raise it.
    AtMost(Counted),
    /// More often with every acquire more: a waiter can starve.
    None(Counted),
    /// The searches were too large.
    Unknown(Counted),
}

/// What was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The tasks of the searches.
    pub tasks: usize,
    /// The acquires of each task, and the most entries of others.
    pub entries: Vec<(u32, u8)>,
}

/// Acquires from which on a count that has always grown is taken for one without bound.
const MANY: u32 = 8;

impl Counted {
    /// The most entries of others that were seen.
    pub fn most(&self) -> u8 {
        self.entries.iter().map(|&(_, entries)| entries).max().unwrap_or(0)
    }

    /// `is_complete`: whether the last search did not give up, which counts too few entries.
    fn bound(mut self, is_complete: bool) -> Bound {
        let unbounded = |entries: &[(u32, u8)]| match entries {
            [.., (fewer_acquires, fewer), (acquires, entries)] => {
                let grows_by = u32::from(entries.saturating_sub(*fewer));
                *acquires >= MANY && grows_by >= acquires - fewer_acquires
            }
            _ => false,
        };
        if unbounded(&self.entries) {
            return Bound::None(self);
        }
        let most = self.entries.clone();
        if !is_complete {
            self.entries.pop();
        }
        match self.entries[..] {
            [.., (_, fewer), (_, entries)] if entries <= fewer => Bound::AtMost(self),
            _ => Bound::Unknown(Counted { entries: most, ..self }),
        }
    }
}

/// The bounds for those that enter alone and those that share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fairness {
    /// Entries of any task while one waited that enters alone; `None` if none waited.
    pub exclusive: Option<Bound>,
    /// Entries of tasks that enter alone while one waited that shares.
    pub shared: Option<Bound>,
    /// Whether some search did not give up.
    pub is_known: bool,
}

/// Searches of one number of tasks, by acquires.
struct Searched {
    tasks: usize,
    counted: Vec<(u32, Bypass)>,
    /// Whether the last one did not give up.
    is_complete: bool,
}

/// Measures a lock.
pub fn fairness(subject: &Subject) -> Result<Fairness> {
    // Where a loop counts thousands of tries, each step may run it to its end.
    let counts = matches!(subject, Subject::InC(program) if program.counts_tries());
    let states_max = if counts { STATES_MAX / 10 } else { STATES_MAX };
    let options = Options {
        memory: Memory::SequentiallyConsistent,
        // A reduction would leave out orders that count more entries.
        symmetry: false,
        reduction: false,
        states_max,
        watched_task: Some(WATCHED),
        ..Options::default()
    };
    let mut searches: Vec<Searched> = Vec::new();
    for tasks in TASKS {
        searches.push(Searched { tasks, counted: Vec::new(), is_complete: true });
        for acquires in ACQUIRES {
            let size = CheckSize { threads: tasks, acquires, locks: 1 };
            let found = with_tasks(subject, size, Mutation::None, |s| search(s, &options))??;
            // A lock that is at fault was made for fewer tasks.
            if found.failure.is_some() {
                break;
            }
            let searched = searches.last_mut().expect("it was pushed");
            searched.counted.push((acquires, found.bypass));
            searched.is_complete = !found.gave_up;
            // Nothing is left to learn; a lock that backs off takes seconds for each further search.
            if can_all_starve(&searches) {
                return Ok(Fairness::of(&searches));
            }
            if found.gave_up {
                break;
            }
        }
    }
    Ok(Fairness::of(&searches))
}

impl Fairness {
    fn of(searches: &[Searched]) -> Fairness {
        Fairness {
            exclusive: bound(searches, |bypass| bypass.exclusive),
            shared: bound(searches, |bypass| bypass.shared),
            is_known: searches.iter().any(|one| one.is_complete || one.counted.len() > 1),
        }
    }
}

/// Whether each kind of waiter that was seen has no bound.
fn can_all_starve(searches: &[Searched]) -> bool {
    let Fairness { exclusive, shared, .. } = Fairness::of(searches);
    let is_none = |bound: Bound| matches!(bound, Bound::None(_));
    exclusive.is_some_and(is_none) && shared.is_none_or(is_none)
}

/// The bound of one kind of waiter, by number of tasks.
fn bound(searches: &[Searched], of: fn(&Bypass) -> Option<u8>) -> Option<Bound> {
    let bounds = searches.iter().filter_map(|Searched { tasks, counted, is_complete }| {
        let count = |(acquires, bypass): &(u32, Bypass)| Some((*acquires, of(bypass)?));
        let entries: Vec<(u32, u8)> = counted.iter().filter_map(count).collect();
        let counted = Counted { tasks: *tasks, entries };
        (!counted.entries.is_empty()).then(|| counted.bound(*is_complete))
    });
    let bounds: Vec<Bound> = bounds.collect();
    let is_none = |bound: &&Bound| matches!(bound, Bound::None(_));
    let is_known = |bound: &&Bound| matches!(bound, Bound::AtMost(_));
    let bound = bounds.iter().find(is_none).or(bounds.iter().rfind(is_known));
    bound.or(bounds.last()).cloned()
}
