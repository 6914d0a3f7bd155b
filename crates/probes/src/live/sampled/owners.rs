//! Who has a mutex, as its word says, looked at once more right after it was read.

use std::collections::BTreeMap;

use records::sampled::{Round, Sighted};

use super::{ProcWatch, Walks};
use crate::live::task_files::futex_words;

/// Mutexes whose owners are looked at again in a round.
const OWNERS_MAX: usize = 64;

impl ProcWatch {
    /// Looks at the owners of mutexes once more, right after their names are read: a round of many threads takes so long
    /// that a mutex changes hands meanwhile.
    pub(super) fn find_owners(&mut self, round: &mut Round, walks: &mut Walks) {
        let mut waiting: BTreeMap<(u32, u64), Vec<usize>> = BTreeMap::new();
        for (index, sighting) in round.sightings.iter().enumerate() {
            if let (Some(address), Some(thread)) =
                (mutex_of(&sighting.doing), self.threads.get(&sighting.task))
            {
                waiting.entry((thread.process, address)).or_default().push(index);
            }
        }
        for ((process, address), waiters) in waiting.into_iter().take(OWNERS_MAX) {
            let owner = self.owner(process, address, round, walks);
            for index in waiters {
                if let Sighted::Waits(wait) = &mut round.sightings[index].doing {
                    wait.words[2] = owner;
                }
            }
        }
    }

    /// The owner of a mutex, whose sighting is renewed; 0 if it is not known.
    fn owner(&mut self, process: u32, address: u64, round: &mut Round, walks: &mut Walks) -> u32 {
        const TRIES: usize = 3;
        let mut owner = futex_words(process, address)[2];
        for _ in 0..TRIES {
            if owner == 0 {
                return self.successor(address, round);
            }
            let Ok(index) = round.sightings.binary_search_by_key(&owner, |s| s.task) else {
                return 0;
            };
            let Some((doing, stack)) = self.look(owner, walks) else { return 0 };
            let now = futex_words(process, address)[2];
            if now == owner {
                // A thread that waits for what it owns has just got or given it.
                if mutex_of(&doing) != Some(address) {
                    round.sightings[index].doing = doing;
                    round.sightings[index].stack = stack;
                }
                return owner;
            }
            owner = now;
        }
        owner
    }

    /// A thread that waited for a mutex in the round before and was woken: it is about to take the mutex. 0 if there is
    /// none.
    fn successor(&self, address: u64, round: &Round) -> u32 {
        let Some(before) = self.samples.rounds.last() else { return 0 };
        let was_waiting = before.sightings.iter().filter(|s| mutex_of(&s.doing) == Some(address));
        let is_woken = |task: &u32| {
            let now = round.sightings.binary_search_by_key(task, |sighting| sighting.task);
            now.is_ok_and(|at| matches!(round.sightings[at].doing, Sighted::Runnable(_)))
        };
        was_waiting.map(|sighting| sighting.task).find(is_woken).unwrap_or(0)
    }
}

/// The address of the mutex of the C library, or of one alike, that a thread waits for: its word is 2 then.
pub(super) fn mutex_of(doing: &Sighted) -> Option<u64> {
    match doing {
        Sighted::Waits(wait) if wait.call == "futex" && wait.words[0] == 2 => {
            Some(wait.arguments[0])
        }
        _ => None,
    }
}
