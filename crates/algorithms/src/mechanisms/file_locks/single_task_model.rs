//! A model of file locks, and a single task that plays all owners of a file. It compares the answer
//! of each call with the model's, and checks the invariants of the manager after it. Errors in
//! lists and trees show without a second task, but only after many calls.

use machine::Machine;

use super::invariants::bit;
use super::{
    Deadlocks, Design, FileLocks, LockKind, LockOutcome, Owner, Range, Refused, TO_THE_END,
    WaitingRequest,
};
use crate::Lock;

/// Records of the manager, sometimes too few.
pub const RECORDS: usize = 8;

/// Number of calls, each with a random kind, owner and range.
const CALLS: u32 = 400;

/// Parts of the file that are locked: the first bytes, one each, and all bytes after them.
const PARTS: usize = 7;

/// Two of the processes are in the same bucket of the hash table.
const OWNERS: [Owner; 6] = [
    Owner::Process(0),
    Owner::Process(1),
    Owner::Process(16),
    Owner::OpenFile(1),
    Owner::Flock(0),
    Owner::Flock(1),
];

/// A request of one of the owners, from the first to the last of these parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Request {
    owner: usize,
    kind: LockKind,
    first: usize,
    last: usize,
}

impl Request {
    fn range(self) -> Range {
        let end = if self.last == PARTS - 1 { TO_THE_END } else { self.last as u64 };
        Range { owner: OWNERS[self.owner], kind: self.kind, start: self.first as u64, end }
    }
}

/// A waiting request, and the owner that it waits for.
#[derive(Clone, Copy)]
struct Wait {
    request: Request,
    waiting: WaitingRequest,
    obstacle: usize,
}

/// The answer that a call must give.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Granted,
    Refused(Refused),
    Waits,
}

/// The locks of each owner, part by part, and the waiting requests.
struct Model {
    deadlocks: Deadlocks,
    held: [[LockKind; PARTS]; OWNERS.len()],
    waits: [Option<Wait>; OWNERS.len()],
}

/// Plays all owners, and releases everything at the end.
pub fn calls<L: Lock, M: Machine>(locks: &FileLocks<L>, m: &M, design: Design) {
    let deadlocks = design.deadlocks;
    let mut model = Model {
        deadlocks,
        held: [[LockKind::Unlock; PARTS]; OWNERS.len()],
        waits: [None; OWNERS.len()],
    };
    let mut random = Random(1);
    let begin = m.history_mark();
    for call in 0..CALLS {
        m.forget_history(begin, call.into());
        model.one_call(locks, m, &mut random);
        model.assert_agrees(locks, m);
        model.retry_woken(locks, m);
    }
    for owner in 0..OWNERS.len() {
        m.forget_history(begin, u64::from(CALLS) + owner as u64);
        model.give_up(locks, m, owner);
        model.close(locks, m, owner);
        model.assert_agrees(locks, m);
        model.retry_woken(locks, m);
    }
    m.forget_history(begin, 0);
}

impl Model {
    fn one_call<L: Lock, M: Machine>(&mut self, locks: &FileLocks<L>, m: &M, random: &mut Random) {
        let owner = random.below(OWNERS.len());
        match random.below(12) {
            0 => self.give_up(locks, m, owner),
            _ if self.waits[owner].is_some() => {}
            1 => self.close(locks, m, owner),
            choice => {
                let request = random.request(owner);
                let wait = choice < 7;
                let obstacle = self.obstacle(locks, m, request);
                let expected = self.expected(locks, m, request, obstacle, wait);
                let outcome = locks.attempt(m, 0, request.range(), wait);
                self.apply(request, obstacle, expected, outcome);
                if let Some(wait) = self.waits[owner] {
                    assert!(!locks.is_woken(m, wait.waiting), "a request is woken too early");
                }
            }
        }
    }

    /// Tries the woken requests again, and checks that all others have an obstacle.
    fn retry_woken<L: Lock, M: Machine>(&mut self, locks: &FileLocks<L>, m: &M) {
        let woken = |wait: &Option<Wait>| wait.filter(|wait| locks.is_woken(m, wait.waiting));
        while let Some(Wait { request, waiting, .. }) = self.waits.iter().find_map(woken) {
            self.waits[request.owner] = None;
            let obstacle = self.obstacle(locks, m, request);
            let expected = self.expected(locks, m, request, obstacle, true);
            let outcome = locks.again(m, 0, request.range(), waiting);
            self.apply(request, obstacle, expected, outcome);
            self.assert_agrees(locks, m);
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
        self.held[owner].fill(LockKind::Unlock);
    }

    /// The owner that the manager reports as the first obstacle. The model must agree.
    fn obstacle<L: Lock, M: Machine>(
        &self,
        locks: &FileLocks<L>,
        m: &M,
        request: Request,
    ) -> Option<usize> {
        if request.kind == LockKind::Unlock {
            return None;
        }
        let obstacle = locks.get(m, 0, request.range()).map(|obstacle| {
            let is_its_owner = |owner: &Owner| *owner == obstacle.owner;
            OWNERS.iter().position(is_its_owner).expect("the obstacle has one of these owners")
        });
        match obstacle {
            Some(owner) => assert!(self.in_the_way(request).any(|other| other == owner)),
            None => assert!(!self.in_the_way(request).any(|_| true), "{request:?} has an obstacle"),
        }
        obstacle
    }

    /// The owners in the way of a request, by the model.
    fn in_the_way(&self, request: Request) -> impl Iterator<Item = usize> {
        let others = (0..OWNERS.len()).filter(move |&other| {
            other != request.owner && is_flock(other) == is_flock(request.owner)
        });
        let writes = request.kind == LockKind::Write;
        others.filter(move |&other| {
            let parts = &self.held[other][request.first..=request.last];
            parts.iter().any(|&kind| kind == LockKind::Write || writes && kind == LockKind::Read)
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
            // A flock of another kind is removed first, even if the request then fails.
            self.held[owner].fill(LockKind::Unlock);
        }
        let free = RECORDS - self.records();
        match obstacle {
            Some(_) if !wait => Answer::Refused(Refused::Again),
            Some(_) if free == 0 => Answer::Refused(Refused::NoRecords),
            Some(obstacle) if self.is_cycle(locks, m, owner, obstacle) => {
                Answer::Refused(Refused::Deadlock)
            }
            Some(_) => Answer::Waits,
            None => {
                let everything = first == 0 && last == PARTS - 1;
                let needed = match kind {
                    LockKind::Unlock if everything || is_flock(owner) => 0,
                    _ if is_flock(owner) => 1,
                    _ => 2,
                };
                if free < needed { Answer::Refused(Refused::NoRecords) } else { Answer::Granted }
            }
        }
    }

    /// The number of records that granted ranges and waiting requests need.
    fn records(&self) -> usize {
        let granted: usize = (0..OWNERS.len()).map(|owner| self.ranges_of(owner)).sum();
        granted + self.waits.iter().flatten().count()
    }

    /// The number of an owner's ranges. Adjacent parts of the same kind are one range.
    fn ranges_of(&self, owner: usize) -> usize {
        let begins_range = |&part: &usize| {
            let held = &self.held[owner];
            held[part] != LockKind::Unlock && (part == 0 || held[part - 1] != held[part])
        };
        (0..PARTS).filter(begins_range).count()
    }

    /// Whether an owner that waits for this obstacle would wait for itself. A woken owner waits for
    /// no other.
    fn is_cycle<L: Lock, M: Machine>(
        &self,
        locks: &FileLocks<L>,
        m: &M,
        owner: usize,
        obstacle: usize,
    ) -> bool {
        let mut other = obstacle;
        for _ in 0..OWNERS.len() {
            if other == owner {
                return self.deadlocks == Deadlocks::Found && is_process(owner);
            }
            match self.waits[other].filter(|wait| !locks.is_woken(m, wait.waiting)) {
                Some(wait) if !is_flock(other) && is_process(wait.obstacle) => {
                    other = wait.obstacle
                }
                _ => return false,
            }
        }
        false
    }

    /// Compares the outcome of a call with the expected answer, and updates the model.
    fn apply(
        &mut self,
        request: Request,
        obstacle: Option<usize>,
        expected: Answer,
        outcome: LockOutcome,
    ) {
        let (answer, waiting) = match outcome {
            LockOutcome::Granted => (Answer::Granted, None),
            LockOutcome::Refused(why) => (Answer::Refused(why), None),
            LockOutcome::Waits(waiting) => (Answer::Waits, Some(waiting)),
        };
        assert_eq!(answer, expected, "{request:?}");
        if answer == Answer::Granted {
            self.held[request.owner][request.first..=request.last].fill(request.kind);
        }
        if let (Some(waiting), Some(obstacle)) = (waiting, obstacle) {
            self.waits[request.owner] = Some(Wait { request, waiting, obstacle });
        }
    }

    /// Checks that the manager has as many ranges as the model, and keeps its invariants.
    fn assert_agrees<L: Lock, M: Machine>(&self, locks: &FileLocks<L>, m: &M) {
        let woken = self.waits.iter().flatten().filter(|wait| locks.is_woken(m, wait.waiting));
        locks.assert_invariants(m, woken.map(|wait| bit(wait.waiting.0)).sum());
        for (index, &owner) in OWNERS.iter().enumerate() {
            assert_eq!(locks.count_of(m, owner), self.ranges_of(index), "ranges of {owner:?}");
        }
    }
}

fn is_flock(owner: usize) -> bool {
    matches!(OWNERS[owner], Owner::Flock(_))
}

fn is_process(owner: usize) -> bool {
    matches!(OWNERS[owner], Owner::Process(_))
}

/// A fixed pseudo-random sequence. Not `Machine::random`, of which the checker would try all values.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        // Multiplier and increment of Knuth's MMIX.
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }

    fn request(&mut self, owner: usize) -> Request {
        let kind =
            [LockKind::Read, LockKind::Read, LockKind::Write, LockKind::Unlock][self.below(4)];
        let (one, other) = (self.below(PARTS), self.below(PARTS));
        let (first, last) =
            if is_flock(owner) { (0, PARTS - 1) } else { (one.min(other), one.max(other)) };
        Request { owner, kind, first, last }
    }
}
