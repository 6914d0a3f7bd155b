//! How many runs and builds a bisection will still take: it goes on in worlds drawn from what the runs so far leave
//! open, which are the culprit, the size of the change, the noise of runs, what builds and steps add, and how often
//! the host disturbs a run.

use std::collections::BTreeMap;

use analysis::sequential::LOOKS;
use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::{Answer, Unresolved};
use crate::bisected::{Bisected, Comparing, Drawn, bisected};
use crate::choice::Costs;
use crate::commits::Commits;
use crate::evidence::Build;
use crate::forecast::Forecast;
use crate::posterior::{Hypothesis, Posterior};
use crate::search::Search;
use crate::simulated::gaussian;

/// Worlds that are searched, for ranges of few commits and of many.
const WORLDS: (usize, usize) = (30, 12);
/// Commits times worlds: what a short wait allows.
const EFFORT: usize = 12_000;
/// Worlds that would take more runs than this are counted by the formula instead.
const RUNS_MAX: u32 = 3000;
/// In one of so many worlds, the host disturbs more or fewer runs later than while the ends were run.
const HOST_CHANGES: usize = 5;
/// The quantiles that are told beside the median.
const LOW: f64 = 0.1;
const HIGH: f64 = 0.9;

/// What the host and the user add to a search.
#[derive(Clone, Copy, Debug)]
pub struct Means {
    /// What is compared before a commit is blamed; `None` without comparisons.
    pub comparing: Option<Comparing>,
    /// Blocks of the ends so far, and how many of them the host disturbed.
    pub blocks: u32,
    pub disturbed: u32,
}

/// What a bisection will take, by simulated ones.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Foresight {
    /// Size of the change in standard deviations of a run.
    pub distance: f64,
    /// The number of simulated bisections.
    pub simulated: u32,
    /// The search alone.
    pub search: Expected,
    /// Comparisons before a commit is blamed, those included that send the search on.
    pub comparisons: Expected,
    /// The search and the comparisons.
    pub all: Expected,
    /// Seconds still to come, at what runs and builds took so far.
    pub seconds_left: Quantiles,
    /// Runs so far.
    pub runs_done: u32,
}

/// Runs and builds of a part of the bisection, what is done already included.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Expected {
    /// Number of runs, simulated.
    pub runs: Quantiles,
    /// Number of builds, simulated.
    pub builds: Quantiles,
}

/// One of ten bisections takes less than `low`, one more than `high`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Quantiles {
    /// One of ten takes less.
    pub low: f64,
    /// Half take less.
    pub middle: f64,
    /// One of ten takes more.
    pub high: f64,
}

impl Search {
    /// What the bisection takes in all, whose ends were shown to differ.
    pub fn foresee(&self, means: &Means, seed: u64) -> Foresight {
        let posterior = self.posterior();
        let worlds = (EFFORT / self.commits().changes()).clamp(WORLDS.1, WORLDS.0);
        let found = in_parallel(worlds, |world| {
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(world as u64);
            let mut drawn = World::draw(self, &posterior, means, seed);
            drawn.disturbed = changed_host(world, worlds).unwrap_or(drawn.disturbed);
            drawn.bisected(self, means)
        });
        let (runs_done, builds_done) = (f64::from(self.runs()), self.builds().len() as f64);
        let Costs { run, build } = self.settings().costs;
        let seconds_left = |one: &Taken| {
            let runs = (one.runs + one.compared - runs_done).max(0.0);
            let builds = (one.builds + one.compared_builds - builds_done).max(0.0);
            runs * run + builds * build
        };
        let expected = |runs: fn(&Taken) -> f64, builds: fn(&Taken) -> f64| Expected {
            runs: Quantiles::new(found.iter().map(runs)),
            builds: Quantiles::new(found.iter().map(builds)),
        };
        Foresight {
            distance: posterior.distance(),
            simulated: worlds as u32,
            search: expected(|one| one.runs, |one| one.builds),
            comparisons: expected(|one| one.compared, |one| one.compared_builds),
            all: expected(|one| one.runs + one.compared, |one| one.builds + one.compared_builds),
            seconds_left: Quantiles::new(found.iter().map(seconds_left)),
            runs_done: self.runs(),
        }
    }
}

impl Quantiles {
    fn new(values: impl Iterator<Item = f64>) -> Quantiles {
        let mut sorted: Vec<f64> = values.collect();
        sorted.sort_by(f64::total_cmp);
        let at = |share: f64| sorted[(share * (sorted.len() - 1) as f64).round() as usize];
        Quantiles { low: at(LOW), middle: at(0.5), high: at(HIGH) }
    }
}

/// The share of blocks that the host disturbs in a world where it changes. The ends say little about the hours that follow,
/// so these worlds have all shares between them.
fn changed_host(world: usize, worlds: usize) -> Option<f64> {
    let changes = world % HOST_CHANGES == HOST_CHANGES - 1;
    let number = worlds / HOST_CHANGES;
    changes.then(|| ((world / HOST_CHANGES) as f64 + 0.5) / number as f64)
}

/// Runs and builds of one bisection: of its search, and of its comparisons.
struct Taken {
    runs: f64,
    builds: f64,
    compared: f64,
    compared_builds: f64,
}

impl Taken {
    fn new(found: &Bisected) -> Taken {
        let Bisected { runs, builds, compared, compared_builds, .. } = found;
        let [runs, builds, compared, compared_builds] =
            [runs, builds, compared, compared_builds].map(|number| f64::from(*number));
        Taken { runs, builds, compared, compared_builds }
    }
}

/// What may be true.
struct World {
    random: Xoshiro256PlusPlus,
    culprit: usize,
    /// The levels without and with the change.
    levels: [f64; 2],
    /// Standard deviations of a run, of a build and of a step.
    noise: f64,
    layout: f64,
    drift: f64,
    /// What each build adds.
    layouts: BTreeMap<(usize, u32), f64>,
    /// The changes that each commit contains.
    commits: Commits,
    /// Probability that the host disturbs a block.
    disturbed: f64,
}

impl World {
    fn draw(search: &Search, posterior: &Posterior, means: &Means, seed: u64) -> World {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let Hypothesis { segment, layout, levels, error, variance, .. } =
            *drawn(&posterior.hypotheses, |one| one.probability, &mut random);
        let (_, freedom) = search.variance();
        let variance = variance * f64::from(freedom.max(1)) / chi_square(freedom, &mut random);
        let off = 0.5 * error * variance.sqrt() * gaussian(&mut random);
        let levels = [levels[0].mean - off, levels[1].mean + off];
        let changes = search.changes_of(segment);
        let culprit = drawn(&changes, |(_, weight)| *weight, &mut random).0;
        let (drift, _) = *drawn(&posterior.drifts, |(_, probability)| *probability, &mut random);
        // A draw from what the blocks so far leave open about the host, by Jeffreys's prior.
        let undisturbed = means.blocks - means.disturbed.min(means.blocks);
        let [disturbed, rest] =
            [means.disturbed, undisturbed].map(|blocks| chi_square(2 * blocks + 1, &mut random));
        let disturbed = disturbed / (disturbed + rest);
        let mut world = World {
            random,
            culprit,
            levels,
            noise: variance.sqrt(),
            layout: (layout * variance).sqrt(),
            drift: (drift * variance).sqrt(),
            layouts: BTreeMap::new(),
            commits: search.commits().clone(),
            disturbed,
        };
        for build in search.builds() {
            let level = world.level(build.commit);
            world.add_known(build, level, layout);
        }
        world
    }

    /// What a build with runs adds: its runs tell most of it.
    fn add_known(&mut self, build: &Build, level: f64, layout: f64) {
        let runs = f64::from(build.runs);
        let known = layout * runs / (1.0 + layout * runs);
        let left = self.layout / (1.0 + layout * runs).sqrt();
        let adds = known * (build.mean - level) + left * gaussian(&mut self.random);
        self.layouts.insert((build.commit, build.layout), adds);
    }

    fn level(&self, commit: usize) -> f64 {
        self.levels[usize::from(self.commits.contains(commit, self.culprit))]
    }

    /// Goes on to the end.
    fn bisected(mut self, search: &Search, means: &Means) -> Taken {
        let mut search = search.clone();
        search.set_runs_max(Some(search.runs() + RUNS_MAX));
        let found = bisected(&mut search, &mut self, means.comparing);
        if !matches!(found.answer, Answer::Set { why: Unresolved::Budget, .. }) {
            return Taken::new(&found);
        }
        let distance = (self.levels[1] - self.levels[0]).abs() / self.noise;
        let formula = Forecast::new(search.candidates(), distance, search.settings().runs_min);
        let runs = formula.runs.max(f64::from(search.runs()));
        let builds = formula.builds.max(search.builds().len() as f64);
        // As many blocks as a comparison may have.
        let compared = means.comparing.map_or(0.0, |_| 2.0 * LOOKS[LOOKS.len() - 1] as f64);
        Taken { runs, builds, compared, compared_builds: 0.0 }
    }
}

impl Drawn for World {
    fn run_laid_out(&mut self, commit: usize, layout: u32) -> f64 {
        let World { random, layout: spread, .. } = self;
        let of_build = self.layouts.entry((commit, layout));
        let adds = *of_build.or_insert_with(|| *spread * gaussian(random));
        self.level(commit) + adds + self.noise * gaussian(&mut self.random)
    }

    fn drift(&mut self) -> f64 {
        self.drift * gaussian(&mut self.random)
    }

    fn size(&self, change: usize) -> f64 {
        if change == self.culprit { self.levels[1] - self.levels[0] } else { 0.0 }
    }

    fn can_build(&self, _: usize) -> bool {
        true
    }

    fn key(&self, _: usize) -> Option<String> {
        None
    }

    fn disturbs(&mut self) -> bool {
        self.random.random::<f64>() < self.disturbed
    }
}

/// One of the entries, each as often as its weight says.
fn drawn<'a, T>(
    all: &'a [T],
    weight: impl Fn(&T) -> f64,
    random: &mut Xoshiro256PlusPlus,
) -> &'a T {
    let total: f64 = all.iter().map(&weight).sum();
    let mut left = total * random.random::<f64>();
    let passes = |one: &&T| {
        left -= weight(one);
        left <= 0.0
    };
    all.iter().find(passes).unwrap_or(&all[all.len() - 1])
}

/// A draw from the distribution of the sum of this number of squared normal draws; 1 for none.
fn chi_square(freedom: u32, random: &mut Xoshiro256PlusPlus) -> f64 {
    match freedom {
        0 => 1.0,
        _ => (0..freedom).map(|_| gaussian(random).powi(2)).sum(),
    }
}

#[cfg(test)]
mod tests {
    use super::{Expected, Foresight, Means, Quantiles, changed_host};
    use crate::bisected::{Comparing, Relinked};
    use crate::commits::Commits;
    use crate::search::{Search, Settings};

    /// A search whose ends differ by this many standard deviations of a run.
    fn with_ends(distance: f64) -> Search {
        let mut search = Search::new(Commits::linear(30), vec![1.0; 31], Settings::default());
        for pair in 0..20 {
            search.begin_step();
            let noise = 0.01 * f64::from(pair % 5 - 2) / 2f64.sqrt();
            search.measured(0, noise);
            search.measured(30, noise * f64::from(1 - 2 * (pair / 5 % 2)) + 0.01 * distance);
        }
        while !search.are_ends_apart() {
            search.next_step();
            assert!(search.are_ends_apart(), "the ends differ");
        }
        search
    }

    const RELINKED: Relinked = Relinked { layouts: 4, runs: 10 };
    const COMPARING: Comparing =
        Comparing { margin: 0.01, without: true, relinked: Some(RELINKED), times: 3 };

    #[test]
    fn the_host_changes_in_one_of_five_worlds() {
        let changed: Vec<_> = (0..12).filter_map(|world| changed_host(world, 12)).collect();
        assert_eq!(changed, [0.25, 0.75]);
    }

    fn foreseen(distance: f64, comparing: Option<Comparing>, disturbed: u32) -> Foresight {
        let means = Means { comparing, blocks: 20, disturbed };
        let foreseen = with_ends(distance).foresee(&means, 1);
        for Expected { runs, builds } in [foreseen.search, foreseen.comparisons, foreseen.all] {
            for Quantiles { low, middle, high } in [runs, builds] {
                assert!(low <= middle && middle <= high, "{foreseen:?}");
            }
        }
        foreseen
    }

    #[test]
    fn smaller_changes_take_more_runs() {
        let [near, far] = [1.5, 6.0].map(|distance| foreseen(distance, None, 0).search.runs.middle);
        assert!(far > 40.0, "the runs so far are counted: {far}");
        assert!(near - 40.0 > 2.0 * (far - 40.0), "{near} {far}");
    }

    #[test]
    fn comparisons_take_runs_of_their_own_and_more_on_a_busy_host() {
        let [none, quiet, busy] = [(None, 0), (Some(COMPARING), 0), (Some(COMPARING), 12)]
            .map(|(comparing, disturbed)| foreseen(4.0, comparing, disturbed));
        assert_eq!((none.comparisons.runs.high, none.all), (0.0, none.search));
        // Two comparisons of 8 blocks at least, and the layouts.
        assert!(quiet.comparisons.runs.middle >= 80.0 + 2.0 * 16.0, "{quiet:?}");
        assert!(quiet.comparisons.builds.middle >= 8.0, "{quiet:?}");
        assert!(busy.comparisons.runs.middle > quiet.comparisons.runs.middle + 16.0, "{busy:?}");
        assert!(quiet.comparisons.runs.high >= 80.0 + 2.0 * 20.0, "the host may change: {quiet:?}");
    }

    #[test]
    fn a_forecast_is_a_function_of_the_runs() {
        assert_eq!(foreseen(2.0, Some(COMPARING), 3), foreseen(2.0, Some(COMPARING), 3));
    }
}
