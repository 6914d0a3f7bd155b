//! A lock with two states, whose true fragility is known: how often a verdict is called fragile or robust, and two modes
//! found.
//!
//! In its slow state the lock is held some times as long. A run is in the slow state with a probability that rises with
//! the load, steeply at a threshold. Two sides differ in the time that the lock is held, as before and after a patch.

use host::in_parallel;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::Serialize;

use super::{between, share, stream};
use crate::chance::gaussian;
use crate::fragility::{Change, FRAGILE, Fragility, FragilityAnswer, Situation, fragility};
use crate::law::closed_queue;

/// Verdicts about locks with two states, by what share of the changed loads of a kind truly flips them.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThresholdCheck {
    /// Number of locks of each kind.
    pub trials: u32,
    /// What was said of each kind of lock.
    pub rows: Vec<ThresholdRow>,
    /// Share of locks with runs of one state alone in which two modes are seen.
    pub modes_wrongly: f64,
    /// Share of locks in which two modes are seen that each side or one of them has, of at least two runs each.
    pub modes_found: f64,
}

/// Locks of which such a share of changed loads flips the verdict.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ThresholdRow {
    /// What the locks are.
    pub what: String,
    /// Locks in the row.
    pub locks: usize,
    /// Share that is called fragile; null without such locks.
    #[schemars(with = "Option<f64>")]
    pub fragile: f64,
    /// Share that is called sensitive; null without such locks.
    #[schemars(with = "Option<f64>")]
    pub sensitive: f64,
    /// Share that is called robust; null without such locks.
    #[schemars(with = "Option<f64>")]
    pub robust: f64,
    /// Share of which nothing is said; null without such locks.
    #[schemars(with = "Option<f64>")]
    pub cannot_tell: f64,
    /// Mean of the estimated shares of flips of the kind that flips most.
    pub flips: f64,
}

/// Blocks of a simulated comparison, and the noise of a run.
const BLOCKS: usize = 10;
const NOISE: f64 = 0.02;
/// The smallest difference that counts.
const SMALLEST: f64 = 0.02;

/// Lock and load. Times are shares of an operation of one task alone.
#[derive(Clone, Copy, Debug)]
struct TwoStateLock {
    tasks: f64,
    hold: f64,
    outside: f64,
    /// How much longer the lock is held in its slow state.
    slower: f64,
    /// The load of which half of the runs are slow, and how steeply their share rises there.
    threshold: f64,
    width: f64,
}

impl TwoStateLock {
    /// A lock, three of four near their threshold. Its load is the time that it is asked for, over all time.
    fn draw(random: &mut Xoshiro256PlusPlus) -> TwoStateLock {
        let tasks = random.random_range(4..=32) as f64;
        let load = random.random_range(0.4..1.2_f64);
        let hold = (load / tasks).min(0.5);
        let is_near = random.random::<f64>() < 0.75;
        let off = if is_near {
            random.random_range(-0.1..0.1_f64)
        } else {
            random.random_range(0.3..0.8)
        };
        TwoStateLock {
            tasks,
            hold,
            outside: 1.0 - hold,
            slower: between(random, 1.5, 4.0),
            threshold: tasks * hold * off.exp(),
            width: between(random, 0.005, 0.05),
        }
    }

    fn load(&self) -> f64 {
        self.tasks * self.hold / (self.hold + self.outside)
    }

    /// The probability that a run is slow.
    fn slow(&self) -> f64 {
        1.0 / (1.0 + (-(self.load() / self.threshold).ln() / self.width).exp())
    }

    /// The logarithms of rates in both states.
    fn log_rates(&self) -> [f64; 2] {
        [1.0, self.slower]
            .map(|slower| closed_queue(self.tasks, self.outside, self.hold * slower, 0.0).ln())
    }

    /// The mean logarithm of a run's rate.
    fn mean(&self) -> f64 {
        let ([fast, slow], share) = (self.log_rates(), self.slow());
        fast + share * (slow - fast)
    }

    fn run(&self, random: &mut Xoshiro256PlusPlus) -> (f64, bool) {
        let is_slow = random.random::<f64>() < self.slow();
        let [fast, slow] = self.log_rates();
        ((if is_slow { slow } else { fast } + NOISE * gaussian(random)).exp(), is_slow)
    }

    /// The changed loads: tasks by one, and 1, 2 and 5 % more work inside and outside.
    fn around(&self) -> Vec<(Change, TwoStateLock)> {
        let mut around = vec![
            (Change::Tasks, TwoStateLock { tasks: self.tasks + 1.0, ..*self }),
            (Change::Tasks, TwoStateLock { tasks: self.tasks - 1.0, ..*self }),
        ];
        for more in [0.01, 0.02, 0.05] {
            around.push((Change::Inside, TwoStateLock { hold: self.hold + more, ..*self }));
            around.push((Change::Outside, TwoStateLock { outside: self.outside + more, ..*self }));
        }
        around
    }

    /// The lock after a patch that shortens the hold by this share.
    fn patched(&self, share: f64) -> TwoStateLock {
        TwoStateLock { hold: self.hold * (1.0 - share), ..*self }
    }
}

/// One comparison of a lock before and after a patch.
struct Tried {
    /// The largest share of the changed loads of a kind that truly flip the verdict; `None` if there is none at the operating point, the true
    /// difference being as near to the smallest that counts as noise reaches.
    truly: Option<f64>,
    found: Fragility,
    /// Slow runs of both sides at the operating point.
    slow: [usize; 2],
}

/// Compares this number of locks.
pub fn thresholds(trials: u32, seed: u64) -> ThresholdCheck {
    let tried = in_parallel(trials as usize, |index| try_lock(&mut stream(seed, 500, index)));
    let classes: [(&'static str, std::ops::Range<f64>); 3] = [
        ("no changed load flips the verdict", 0.0..1e-9),
        ("less than half of each kind flip it", 1e-9..FRAGILE),
        ("half or more of a kind flip it", FRAGILE..1.1),
    ];
    let rows = classes.into_iter().map(|(what, range)| {
        let is_in = |one: &&Tried| one.truly.is_some_and(|truly| range.contains(&truly));
        let of: Vec<&Tried> = tried.iter().filter(is_in).collect();
        let called = |answer| share(of.iter().map(|one| one.found.answer == answer));
        ThresholdRow {
            what: what.to_string(),
            locks: of.len(),
            fragile: called(FragilityAnswer::Fragile),
            sensitive: called(FragilityAnswer::Sensitive),
            robust: called(FragilityAnswer::Robust),
            cannot_tell: called(FragilityAnswer::CannotTell),
            flips: of.iter().map(|one| one.found.flips).sum::<f64>() / of.len().max(1) as f64,
        }
    });
    let has_two = |slow: &usize| (2..=BLOCKS - 2).contains(slow);
    let seen = |of: &dyn Fn(&Tried) -> bool| {
        let those = tried.iter().filter(|one| of(one));
        share(those.map(|one| one.found.modes.is_some()))
    };
    ThresholdCheck {
        trials,
        rows: rows.collect(),
        modes_wrongly: seen(&|one| one.slow.iter().all(|slow| [0, BLOCKS].contains(slow))),
        modes_found: seen(&|one| one.slow.iter().any(has_two)),
    }
}

fn try_lock(random: &mut Xoshiro256PlusPlus) -> Tried {
    let lock = TwoStateLock::draw(random);
    let patch = [0.0, 0.02, 0.05, 0.1, 0.2][random.random_range(0..5)];
    let mut situation = |change: Change, lock: &TwoStateLock, load| {
        let after = lock.patched(patch);
        let mut slow = [0, 0];
        let pairs = (0..BLOCKS).map(|_| {
            let [before, after] = [lock, &after].map(|side| side.run(random));
            slow[0] += usize::from(before.1);
            slow[1] += usize::from(after.1);
            (before.0, after.0)
        });
        (Situation { name: format!("{change:?}"), change, load, pairs: pairs.collect() }, slow)
    };
    let (at, slow) = situation(Change::Tasks, &lock, Some(0.0));
    let around: Vec<Situation> = lock
        .around()
        .iter()
        .map(|(change, changed)| {
            let load = (changed.tasks != lock.tasks).then(|| (changed.tasks / lock.tasks).ln());
            situation(*change, changed, load).0
        })
        .collect();
    let truth = |lock: &TwoStateLock| lock.patched(patch).mean() - lock.mean();
    let margin = (1.0 + SMALLEST).ln();
    let here = truth(&lock);
    let survives = |there: f64| match here {
        here if here > margin => there > margin.max(here / 2.0),
        here if here < -margin => there < (-margin).min(here / 2.0),
        _ => there.abs() <= margin,
    };
    let flipping = |kind: Change| {
        let of_kind: Vec<bool> = lock
            .around()
            .iter()
            .filter(|one| one.0 == kind)
            .map(|one| !survives(truth(&one.1)))
            .collect();
        of_kind.iter().filter(|flips| **flips).count() as f64 / of_kind.len().max(1) as f64
    };
    let truly = Change::ALL.into_iter().map(flipping).fold(0.0, f64::max);
    let is_clear = (here.abs() - margin).abs() > 2.0 * NOISE / (BLOCKS as f64 / 2.0).sqrt();
    let found = fragility(&at, &around, SMALLEST).expect("simulated rates are positive");
    Tried { truly: is_clear.then_some(truly), found, slow }
}
