//! A schedule as text: a line for each step, and for a race both accesses and what is missing between them.

use std::fmt;

use machine::{CodeSite, Op, Ordering};

use super::happens_before::Unordered;
use super::layout::Layout;
use super::request::{acquires, releases};

/// The steps so far, and what they did to memory.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    pub steps: Vec<String>,
    /// Where each step stands in the source.
    pub sites: Vec<Option<CodeSite>>,
    pub past: Vec<PastAccess>,
    /// The accesses of the race that was found.
    pub race: Option<Race>,
}

/// One of the two accesses of a data race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RacingAccess {
    /// Where it stands.
    pub site: CodeSite,
    /// What it does, in the word of traces.
    pub how: How,
    /// Whether it is no atomic access.
    pub is_plain: bool,
}

impl fmt::Display for RacingAccess {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {}", if self.is_plain { "plain" } else { "atomic" }, self.how.noun())
    }
}

/// The two accesses of a data race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Race {
    /// The one that came first, where it is known.
    pub earlier: Option<RacingAccess>,
    /// The one that is not ordered after it.
    pub last: RacingAccess,
}

/// An access, or a fence, which has no word.
#[derive(Clone, Copy, Debug)]
pub struct PastAccess {
    pub task: usize,
    pub offset: u32,
    pub size: u8,
    pub how: How,
    /// `None`: a plain access.
    pub ordering: Option<Ordering>,
    pub site: CodeSite,
}

/// What an access does to its word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Reads,
    Writes,
    /// Reads and writes in one step.
    Modifies,
    Fence,
}

impl How {
    /// What an operation did, if it wrote or not.
    pub fn of(op: Op<u64>, wrote: bool) -> How {
        match (op, wrote) {
            (Op::Store(_), _) => How::Writes,
            (_, true) => How::Modifies,
            (_, false) => How::Reads,
        }
    }

    fn reads(self) -> bool {
        matches!(self, How::Reads | How::Modifies)
    }

    fn writes(self) -> bool {
        matches!(self, How::Writes | How::Modifies)
    }

    fn past(self) -> &'static str {
        match self {
            How::Reads => "read",
            How::Writes => "wrote",
            How::Modifies | How::Fence => "changed",
        }
    }

    pub fn noun(self) -> &'static str {
        match self {
            How::Reads => "load",
            How::Writes => "store",
            How::Modifies => "read-modify-write",
            How::Fence => "fence",
        }
    }
}

impl PastAccess {
    fn overlaps(&self, offset: u32, size: u8) -> bool {
        self.offset < offset + u32::from(size) && offset < self.offset + u32::from(self.size)
    }

    /// As an access of a race.
    pub fn racing(&self) -> RacingAccess {
        RacingAccess { site: self.site, how: self.how, is_plain: self.ordering.is_none() }
    }

    /// The present tense of what it does.
    pub fn verb(&self) -> &'static str {
        match (self.ordering, self.how) {
            (Some(_), _) => "accesses",
            (None, How::Reads) => "reads",
            (None, _) => "writes",
        }
    }
}

impl Trace {
    /// Both accesses of a race and what is missing between them, if the earlier one is known.
    pub fn find_race(
        &mut self,
        layout: &Layout,
        now: &PastAccess,
        word: usize,
        unordered: Unordered,
        buffered: &[String],
    ) -> Option<String> {
        let word = &layout.words[word];
        let is_other = |access: &PastAccess| match unordered {
            Unordered::Write => access.how.writes() && access.ordering.is_none(),
            // An atomic store counts as a read: it must come before or after a plain write, too.
            Unordered::Read(reader) => {
                access.task == reader && (access.how.reads() || access.ordering.is_some())
            }
        };
        let earlier = self.past.iter().rposition(|access| {
            access.task != now.task && access.overlaps(word.offset, word.size) && is_other(access)
        });
        let racing = earlier.map(|at| self.past[at].racing());
        // Later ones may follow from the first.
        self.race.get_or_insert(Race { earlier: racing, last: now.racing() });
        let earlier = earlier?;
        let PastAccess { task, how, site, .. } = self.past[earlier];
        let missing = self.missing(layout, earlier, now, buffered);
        Some(format!("t{task} {} it at {site}; nothing orders them: {missing}", how.past()))
    }

    /// What would order an access after an earlier one: the last word by which one task handed over to the other.
    fn missing(
        &self,
        layout: &Layout,
        earlier: usize,
        now: &PastAccess,
        buffered: &[String],
    ) -> String {
        let giver = self.past[earlier].task;
        let handed_over = (earlier + 1..self.past.len()).rev().find_map(|read| {
            let reader = &self.past[read];
            let takes = reader.task == now.task && reader.how.reads() && reader.ordering.is_some();
            let writes = |access: &PastAccess| {
                access.how.writes() && access.overlaps(reader.offset, reader.size)
            };
            let given = |written: &usize| self.past[*written].task == giver;
            let written = (earlier + 1..read).rev().find(|&i| writes(&self.past[i]))?;
            (takes && self.past[written].ordering.is_some() && given(&written))
                .then_some((written, read))
        });
        let barrier = || {
            let stores = buffered.join(", ");
            format!(
                "no full barrier between a store that still waits in its store buffer ({stores}) and the loads after it"
            )
        };
        let Some((written, read)) = handed_over else {
            return match buffered {
                [] => format!(
                    "t{} read no atomic word that t{giver} wrote in between (a store with release order, a load with acquire order)",
                    now.task
                ),
                _ => barrier(),
            };
        };
        let fence = |task: usize, from: usize, to: usize, orders: fn(Ordering) -> bool| {
            self.past[from..to].iter().any(|access| {
                access.task == task
                    && access.how == How::Fence
                    && access.ordering.is_some_and(orders)
            })
        };
        let lacks = |at: usize, orders: fn(Ordering) -> bool, need: &str, has_fence: bool| {
            let PastAccess { offset, size, how, ordering, site, .. } = self.past[at];
            let is_ordered = ordering.is_some_and(orders) || has_fence;
            let (noun, name) = (how.noun(), layout.name(offset, size));
            let has = ordering.map_or("plain", name_of);
            (!is_ordered)
                .then(|| format!("the {noun} of {name} at {site} is {has} and needs {need} order"))
        };
        let release = lacks(written, releases, "release", fence(giver, earlier, written, releases));
        let acquire =
            lacks(read, acquires, "acquire", fence(now.task, read, self.past.len(), acquires));
        match (release, acquire) {
            (Some(release), Some(acquire)) => format!("{release}, and {acquire}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) if !buffered.is_empty() => barrier(),
            (None, None) => {
                let PastAccess { offset, size, site, .. } = self.past[read];
                let name = layout.name(offset, size);
                format!("the load of {name} at {site} did not read what t{giver} released")
            }
        }
    }
}

pub fn name_of(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Relaxed => "relaxed",
        Ordering::Acquire => "acquire",
        Ordering::Release => "release",
        Ordering::AcqRel => "acquire-release",
        _ => "sequentially consistent",
    }
}

pub fn step_line(task: usize, step: &str, site: CodeSite) -> String {
    // Two blanks at least, where the place begins.
    format!("{:<59}  {site}", format!("t{task} {step}"))
}
