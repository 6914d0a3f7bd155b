//! Data races that the author of a program in C accepts, by line.
//!
//!     plain search ──race on an accepted line──> both its lines count as relaxed atomics: search again
//!          │ nothing more
//!          └─> accepted lines race with nothing, all others are as they are: search a last time
//!
//! A search stops at its first race, so it is repeated until none is left. The last search finds a race between two accesses
//! that only took part in accepted ones.

use std::collections::BTreeSet;

use anyhow::Result;
use c_locks::Program;
use engines::checker::{Failure, Fault, Options, Race, RacingAccess};
use engines::{CodeSite, SourceLine, Unsupported};

use crate::subject::Subject;

/// A line on which races are accepted.
#[derive(Clone, Debug)]
pub struct AcceptedLine {
    /// The line as the user wrote it: `queue.c:41`.
    pub text: String,
    /// The lines that it names in the program.
    pub lines: BTreeSet<SourceLine>,
}

/// A race that was found and accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcceptedRace {
    /// The access on an accepted line.
    pub access: RacingAccess,
    /// The other access, where it is known.
    pub other: Option<RacingAccess>,
}

/// What became of accepted lines in the searches of one program.
#[derive(Clone, Debug, Default)]
pub struct Accepted {
    /// The races that were found, each once.
    pub races: Vec<AcceptedRace>,
    /// All lines whose accesses counted as relaxed atomics in the last search.
    pub lines: BTreeSet<SourceLine>,
    /// The accepted lines with no race, as the user wrote them.
    pub without_race: Vec<String>,
}

impl Accepted {
    /// Adds what other searches of the program have found.
    pub fn merge(&mut self, other: Accepted) {
        let new: Vec<_> = other.races.into_iter().filter(|it| !self.races.contains(it)).collect();
        self.races.extend(new);
        self.lines.extend(other.lines);
        self.without_race.retain(|line| other.without_race.contains(line));
    }
}

/// Has the accesses of these lines of a program, and of no others, race with nothing, as far as they are single accesses: for
/// a schedule that is replayed.
pub fn accept_all(subject: &Subject, given: &[AcceptedLine], options: &mut Options) {
    if let Subject::InC(program) = subject {
        let lines: BTreeSet<_> = given.iter().flat_map(|line| line.lines.clone()).collect();
        options.exempt = exempt(&lines);
        program.set_once_lines(lines);
    }
}

/// As long as the program runs, as the names of source files.
fn exempt(lines: &BTreeSet<SourceLine>) -> &'static [SourceLine] {
    let lines: Vec<SourceLine> = lines.iter().copied().collect();
    if lines.is_empty() { &[] } else { lines.leak() }
}

/// The searches of a program with accepted lines, one after the other.
pub struct Acceptance<'a> {
    program: &'a Program,
    given: &'a [AcceptedLine],
    accepted: BTreeSet<SourceLine>,
    /// Lines whose accesses count as relaxed atomics.
    once: BTreeSet<SourceLine>,
    /// Lines of plain accesses that took part in an accepted race.
    beside: BTreeSet<SourceLine>,
    /// Plain accesses that took part in one.
    plain: BTreeSet<CodeSite>,
    races: Vec<AcceptedRace>,
    /// Whether all accepted lines were taken for races that a task waits for, without being found one by one.
    waited_for: bool,
    is_last: bool,
}

impl<'a> Acceptance<'a> {
    /// None where nothing is accepted.
    pub fn new(subject: &'a Subject, given: &'a [AcceptedLine]) -> Option<Acceptance<'a>> {
        let Subject::InC(program) = subject else { return None };
        if given.is_empty() {
            return None;
        }
        program.set_once_lines(BTreeSet::new());
        Some(Acceptance {
            program,
            given,
            accepted: given.iter().flat_map(|line| line.lines.clone()).collect(),
            once: BTreeSet::new(),
            beside: BTreeSet::new(),
            plain: BTreeSet::new(),
            races: Vec::new(),
            waited_for: false,
            is_last: false,
        })
    }

    /// The options of the next search.
    pub fn options(&self, options: &Options) -> Options {
        let exempt = if self.is_last { exempt(&self.accepted) } else { &[] };
        Options { exempt, ..*options }
    }

    /// Whether to search again, after a search that ended so.
    ///
    /// # Errors
    /// An accepted race is one of a copy: `Unsupported`.
    pub fn searches_again(&mut self, failure: Option<&Failure>) -> Result<bool> {
        let is_endless = failure.is_some_and(|it| matches!(it.fault, Fault::Endless(_)));
        if is_endless && !self.is_last && !self.accepted.is_subset(&self.once) {
            // A loop over a plain access may wait for a race.
            self.once.extend(&self.accepted);
            self.waited_for = true;
            self.program.set_once_lines(self.once.clone());
            return Ok(true);
        }
        match failure.map(|failure| failure.details.race.as_ref()) {
            Some(Some(race)) => self.accepts(race),
            None if !self.is_last && !self.beside.is_empty() => {
                self.is_last = true;
                self.program.set_once_lines(self.accepted.clone());
                Ok(true)
            }
            None | Some(None) => Ok(false),
        }
    }

    fn accepts(&mut self, race: &Race) -> Result<bool> {
        let &Race { earlier, last } = race;
        let is_accepted = |it: &RacingAccess| self.accepted.contains(&it.site.source_line());
        let mut both: Vec<RacingAccess> = earlier.into_iter().chain([last]).collect();
        // What raced before counts as atomic by now.
        let was_plain =
            |it: &RacingAccess| self.plain.contains(&it.site) || self.waited_for && is_accepted(it);
        both.iter_mut().for_each(|it| it.is_plain |= was_plain(it));
        self.plain.extend(both.iter().filter(|it| it.is_plain).map(|it| it.site));
        let Some(&access) = both.iter().find(|it| is_accepted(it)) else { return Ok(false) };
        let other = both.iter().copied().find(|it| it.site != access.site);
        let other = other.or(both.first().copied().filter(|_| both.len() == 2));
        let lines: Vec<SourceLine> = both.iter().map(|it| it.site.source_line()).collect();
        if lines.iter().all(|line| self.once.contains(line)) {
            let why = format!(
                "the accepted race at {} is one of a copy, and a search knows single accesses only",
                access.site
            );
            return Err(Unsupported::new(why, "copy what is raced for member by member").into());
        }
        self.once.extend(lines);
        let is_beside = |it: &&RacingAccess| it.is_plain && !is_accepted(it);
        self.beside.extend(both.iter().filter(is_beside).map(|it| it.site.source_line()));
        self.races.push(AcceptedRace { access, other });
        self.program.set_once_lines(self.once.clone());
        Ok(true)
    }

    /// What was found. Later searches of the program have single accesses on all lines of accepted races.
    pub fn end(self) -> Accepted {
        let lines = if self.is_last { self.accepted } else { self.once.clone() };
        self.program.set_once_lines(self.once);
        let has_race = |given: &&AcceptedLine| {
            let both = self.races.iter().flat_map(|race| [Some(race.access), race.other]);
            both.flatten().any(|it| given.lines.contains(&it.site.source_line()))
        };
        let without_race = self.given.iter().filter(|it| !self.waited_for && !has_race(it));
        let without_race = without_race.map(|given| given.text.clone()).collect();
        Accepted { races: self.races, lines, without_race }
    }
}
