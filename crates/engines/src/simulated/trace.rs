//! What happened, access by access, for people to read.

use machine::Region;

use super::Time;
use super::coherence::{Use, Word};

/// One access.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    pub task: u16,
    pub word: Word,
    pub how: Use,
    pub old: u64,
    /// Known where accesses are written down.
    pub new: u64,
    /// When the task asked for it.
    pub at: Time,
    /// When it was done.
    pub end: Time,
}

/// So many accesses, from a time on.
#[derive(Clone, Copy, Debug)]
pub struct Traced {
    /// From when on.
    pub from: Time,
    /// How many at most.
    pub accesses: usize,
}

/// The accesses themselves.
#[derive(Clone, Debug)]
pub struct Trace {
    want: Traced,
    pub accesses: Vec<Access>,
}

impl Trace {
    pub fn new(want: Traced) -> Trace {
        Trace { want, accesses: Vec::new() }
    }

    pub fn add(&mut self, access: Access) {
        if access.at >= self.want.from && self.accesses.len() < self.want.accesses {
            self.accesses.push(access);
        }
    }

    /// The accesses in words, a line each: when, who, what, how long.
    pub fn told(&self, region: &Region) -> Vec<String> {
        // Accesses are told in the order in which lines were asked for; a store, or a look after
        // one, is asked for before its time.
        let mut accesses = self.accesses.clone();
        accesses.sort_by_key(|access| access.at);
        let from = accesses.first().map_or(0, |first| first.at);
        let line = |access: &Access| {
            let name = region.name(access.word.offset as usize);
            let what = match (access.how, access.new == access.old) {
                (Use::Load, _) => format!("reads {name}: {}", access.old),
                (Use::Store, _) => format!("writes {name}: {} -> {}", access.old, access.new),
                (Use::Atomic, false) => format!("changes {name}: {} -> {}", access.old, access.new),
                (Use::Atomic, true) => format!("tries {name}: {}", access.old),
            };
            let (at, took) =
                ((access.at - from) as f64 / 1e3, (access.end - access.at) as f64 / 1e3);
            format!("{at:9.1} ns  t{:<3} {took:6.1} ns  {what}", access.task)
        };
        accesses.iter().map(line).collect()
    }
}
