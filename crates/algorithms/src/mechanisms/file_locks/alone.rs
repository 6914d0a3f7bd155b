//! One task that plays all owners of a file, call after call, beside a model of them: what each call
//! must answer, and that nothing of the manager is out of order after it. What lists and trees
//! can do wrong needs no second task to be seen, but many calls.

use machine::Machine;

use super::soundness::bit;
use super::{Deadlocks, Design, FileLocks, Kind, Outcome, Owner, Range, Refused, TO_THE_END, Waiting};
use crate::Lock;

/// Records of the file: sometimes too few.
pub const RECORDS: usize = 8;

/// Calls, each of a kind, an owner and a range by chance.
const CALLS: u32 = 400;

/// Places of the file: the bytes of these numbers, and the last one to the end.
const PLACES: usize = 7;

/// Two of the processes are in one bucket of the hash.
const OWNERS: [Owner; 6] = [
    Owner::Process(0),
    Owner::Process(1),
    Owner::Process(16),
    Owner::OpenFile(1),
    Owner::Flock(0),
    Owner::Flock(1),
];

/// A request of one of the owners, for these places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    owner: usize,
    kind: Kind,
    first: usize,
    last: usize,
}

impl Request {
    fn range(self) -> Range {
        let end = if self.last == PLACES - 1 { TO_THE_END } else { self.last as u64 };
        Range { owner: OWNERS[self.owner], kind: self.kind, start: self.first as u64, end }
    }
}

/// Who waits for whom.
#[derive(Clone, Copy)]
struct Wait {
    request: Request,
    waiting: Waiting,
    obstacle: usize,
}

/// What is expected of a call.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    Refused(Refused),
    Waits,
}

/// Who has what, place by place.
struct Model {
    deadlocks: Deadlocks,
    held: [[Kind; PLACES]; OWNERS.len()],
    waits: [Option<Wait>; OWNERS.len()],
}

/// Plays all owners, and lets go of everything at the end.
pub fn calls<L: Lock, M: Machine>(locks: &FileLocks<L>, m: &M, design: Design) {
    let deadlocks = design.deadlocks;
    let mut model = Model {
        deadlocks,
        held: [[Kind::Unlock; PLACES]; OWNERS.len()],
        waits: [None; OWNERS.len()],
    };
    let mut chance = Chance(1);
    let begin = m.history_mark();
    for call in 0..CALLS {
        m.forget_history(begin, call.into());
        model.one_call(locks, m, &mut chance);
        model.assert_same(locks, m);
        model.let_woken_go_on(locks, m);
    }
    for owner in 0..OWNERS.len() {
        m.forget_history(begin, u64::from(CALLS) + owner as u64);
        model.give_up(locks, m, owner);
        model.close(locks, m, owner);
        model.assert_same(locks, m);
        model.let_woken_go_on(locks, m);
    }
    m.forget_history(begin, 0);
}

impl Model {
    fn one_call<L: Lock, M: Machine>(
        &mut self,
        locks: &FileLocks<L>,
        m: &M,
        chance: &mut Chance,
    ) {
        let owner = chance.below(OWNERS.len());
        match chance.below(12) {
            0 => self.give_up(locks, m, owner),
            _ if self.waits[owner].is_some() => {}
            1 => self.close(locks, m, owner),
            choice => {
                let request = chance.request(owner);
                let wait = choice < 7;
                let obstacle = self.obstacle(locks, m, request);
                let expected = self.expected(locks, m, request, obstacle, wait);
                let outcome = locks.attempt(m, 0, request.range(), wait);
                self.done(request, obstacle, expected, outcome);
                if let Some(wait) = self.waits[owner] {
                    assert!(!locks.is_woken(m, wait.waiting), "nothing has changed yet");
                }
            }
        }
    }

    /// Whoever was woken tries again, and all others have a reason to wait on.
    fn let_woken_go_on<L: Lock, M: Machine>(&mut self, locks: &FileLocks<L>, m: &M) {
        let woken = |wait: &Option<Wait>| wait.filter(|wait| locks.is_woken(m, wait.waiting));
        while let Some(Wait { request, waiting, .. }) = self.waits.iter().find_map(woken) {
            self.waits[request.owner] = None;
            let obstacle = self.obstacle(locks, m, request);
            let expected = self.expected(locks, m, request, obstacle, true);
            let outcome = locks.again(m, 0, request.range(), waiting);
            self.done(request, obstacle, expected, outcome);
            self.assert_same(locks, m);
        }
        for wait in self.waits.iter().flatten() {
            assert!(self.in_the_way(wait.request).any(|_| true), "{:?} is not woken", wait.request);
        }
    }

    fn give_up<L: Lock, M: Machine>(&mut self, locks: &FileLocks<L>, m: &M, owner: usize) {
        if let Some(wait) = self.waits[owner].take() {
            locks.give_up(m, 0, wait.waiting);
        }
    }

    fn close<L: Lock, M: Machine>(&mut self, locks: &FileLocks<L>, m: &M, owner: usize) {
        locks.close(m, 0, OWNERS[owner]);
        self.held[owner].fill(Kind::Unlock);
    }

    /// Who the manager says is in the way first; the model must agree that it is.
    fn obstacle<L: Lock, M: Machine>(
        &self,
        locks: &FileLocks<L>,
        m: &M,
        request: Request,
    ) -> Option<usize> {
        if request.kind == Kind::Unlock {
            return None;
        }
        let found = locks.get(m, 0, request.range()).map(|found| found.owner);
        let found = found.map(|found| {
            let is_it = |owner: &Owner| *owner == found;
            OWNERS.iter().position(is_it).expect("an owner of these")
        });
        match found {
            Some(owner) => assert!(self.in_the_way(request).any(|other| other == owner)),
            None => assert!(!self.in_the_way(request).any(|_| true), "{request:?} is not free"),
        }
        found
    }

    fn in_the_way(&self, request: Request) -> impl Iterator<Item = usize> {
        let others = (0..OWNERS.len()).filter(move |&other| {
            other != request.owner && is_flock(other) == is_flock(request.owner)
        });
        let writes = request.kind == Kind::Write;
        others.filter(move |&other| {
            let places = &self.held[other][request.first..=request.last];
            places.iter().any(|&kind| kind == Kind::Write || writes && kind == Kind::Read)
        })
    }

    fn expected<L: Lock, M: Machine>(
        &mut self,
        locks: &FileLocks<L>,
        m: &M,
        request: Request,
        obstacle: Option<usize>,
        wait: bool,
    ) -> Answer {
        let Request { owner, kind, first, last } = request;
        if is_flock(owner) {
            if self.held[owner][0] == kind {
                return Answer::Granted;
            }
            // A flock of another kind goes first, whatever comes of the request.
            self.held[owner].fill(Kind::Unlock);
        }
        let free = RECORDS - self.records();
        match obstacle {
            Some(_) if !wait => Answer::Refused(Refused::Again),
            Some(_) if free == 0 => Answer::Refused(Refused::NoRecords),
            Some(obstacle) if self.is_circle(locks, m, owner, obstacle) => {
                Answer::Refused(Refused::Deadlock)
            }
            Some(_) => Answer::Waits,
            None => {
                let everything = first == 0 && last == PLACES - 1;
                let needed = match kind {
                    Kind::Unlock if everything || is_flock(owner) => 0,
                    _ if is_flock(owner) => 1,
                    _ => 2,
                };
                if free < needed { Answer::Refused(Refused::NoRecords) } else { Answer::Granted }
            }
        }
    }

    /// Records that granted ranges and requests that wait need.
    fn records(&self) -> usize {
        let granted: usize = (0..OWNERS.len()).map(|owner| self.ranges_of(owner)).sum();
        granted + self.waits.iter().flatten().count()
    }

    /// Places of one kind that lie together are one range.
    fn ranges_of(&self, owner: usize) -> usize {
        let begins = |&place: &usize| {
            let held = &self.held[owner];
            held[place] != Kind::Unlock && (place == 0 || held[place - 1] != held[place])
        };
        (0..PLACES).filter(begins).count()
    }

    /// Whether to wait for this one would be to wait for oneself.
    /// Who was woken waits for nobody.
    fn is_circle<L: Lock, M: Machine>(
        &self,
        locks: &FileLocks<L>,
        m: &M,
        owner: usize,
        obstacle: usize,
    ) -> bool {
        let mut at = obstacle;
        for _ in 0..OWNERS.len() {
            if at == owner {
                return self.deadlocks == Deadlocks::Found && is_process(owner);
            }
            match self.waits[at].filter(|wait| !locks.is_woken(m, wait.waiting)) {
                Some(wait) if !is_flock(at) && is_process(wait.obstacle) => at = wait.obstacle,
                _ => return false,
            }
        }
        false
    }

    fn done(
        &mut self,
        request: Request,
        obstacle: Option<usize>,
        expected: Answer,
        outcome: Outcome,
    ) {
        let (answer, waiting) = match outcome {
            Outcome::Granted => (Answer::Granted, None),
            Outcome::Refused(why) => (Answer::Refused(why), None),
            Outcome::Waits(waiting) => (Answer::Waits, Some(waiting)),
        };
        assert_eq!(answer, expected, "{request:?}");
        if answer == Answer::Granted {
            self.held[request.owner][request.first..=request.last].fill(request.kind);
        }
        if let (Some(waiting), Some(obstacle)) = (waiting, obstacle) {
            self.waits[request.owner] = Some(Wait { request, waiting, obstacle });
        }
    }

    /// The manager has what the model has, and is in order.
    fn assert_same<L: Lock, M: Machine>(&self, locks: &FileLocks<L>, m: &M) {
        let woken = self.waits.iter().flatten().filter(|wait| locks.is_woken(m, wait.waiting));
        locks.assert_sound(m, woken.map(|wait| bit(wait.waiting.0)).sum());
        for (owner, &name) in OWNERS.iter().enumerate() {
            assert_eq!(locks.count_of(m, name), self.ranges_of(owner), "ranges of {name:?}");
        }
    }
}

fn is_flock(owner: usize) -> bool {
    matches!(OWNERS[owner], Owner::Flock(_))
}

fn is_process(owner: usize) -> bool {
    matches!(OWNERS[owner], Owner::Process(_))
}

/// The same sequence each time: not a choice of the machine, which a search would try all of.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        // Multiplier and increment of Knuth's MMIX.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn request(&mut self, owner: usize) -> Request {
        let kind = [Kind::Read, Kind::Read, Kind::Write, Kind::Unlock][self.below(4)];
        let (one, other) = (self.below(PLACES), self.below(PLACES));
        let (first, last) = if is_flock(owner) {
            (0, PLACES - 1)
        } else {
            (one.min(other), one.max(other))
        };
        Request { owner, kind, first, last }
    }
}
