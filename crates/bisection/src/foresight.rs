//! How many runs and builds a search will still take: it is searched on in worlds drawn from what the runs so far leave
//! open, which are the culprit, the size of the change, the noise of runs, and what builds and steps add.

use std::collections::BTreeMap;

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::evidence::Build;
use crate::forecast::{Forecast, Quantiles};
use crate::posterior::{Hypothesis, Posterior};
use crate::search::{Next, Search};
use crate::simulated::gaussian;

/// Worlds that are searched, for ranges of few commits and of many.
const WORLDS: (usize, usize) = (30, 12);
/// Commits times worlds: what a short wait allows.
const EFFORT: usize = 12_000;
/// Worlds that would take more runs than this are counted by the formula instead.
const RUNS_MAX: u32 = 3000;
/// The quantiles that are told beside the median.
const LOW: f64 = 0.1;
const HIGH: f64 = 0.9;

impl Search {
    /// What the search takes in all, whose ends were shown to differ.
    pub fn foresee(&self, seed: u64) -> Forecast {
        let posterior = self.posterior();
        let worlds = (EFFORT / self.commits().changes()).clamp(WORLDS.1, WORLDS.0);
        let found = in_parallel(worlds, |world| {
            let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(world as u64);
            World::draw(self, &posterior, seed).searched(self)
        });
        let [runs, builds] = [|found: &Taken| found.runs, |found: &Taken| found.builds]
            .map(|of: fn(&Taken) -> f64| sorted(found.iter().map(of)));
        Forecast {
            runs: quantile(&runs, 0.5),
            builds: quantile(&builds, 0.5),
            distance: posterior.distance(),
            quantiles: Some(Quantiles {
                runs: [LOW, HIGH].map(|at| quantile(&runs, at)),
                builds: [LOW, HIGH].map(|at| quantile(&builds, at)),
                searches: worlds as u32,
            }),
        }
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn quantile(sorted: &[f64], share: f64) -> f64 {
    sorted[(share * (sorted.len() - 1) as f64).round() as usize]
}

/// Runs and builds of one search.
struct Taken {
    runs: f64,
    builds: f64,
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
    layouts: BTreeMap<usize, f64>,
}

impl World {
    fn draw(search: &Search, posterior: &Posterior, seed: u64) -> World {
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
        let mut world = World {
            random,
            culprit,
            levels,
            noise: variance.sqrt(),
            layout: (layout * variance).sqrt(),
            drift: (drift * variance).sqrt(),
            layouts: BTreeMap::new(),
        };
        for build in search.builds() {
            let level = world.level(search, build.commit);
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
        self.layouts.insert(build.commit, adds);
    }

    fn level(&self, search: &Search, commit: usize) -> f64 {
        self.levels[usize::from(search.commits().contains(commit, self.culprit))]
    }

    /// Searches on to the end.
    fn searched(mut self, search: &Search) -> Taken {
        let mut search = search.clone();
        let (mut builds, known) = (search.builds().len(), search.runs());
        search.set_runs_max(None);
        while let Next::Measure(wanted) = search.next_step() {
            if search.runs() - known > RUNS_MAX {
                let distance = (self.levels[1] - self.levels[0]).abs() / self.noise;
                let least = search.settings().runs_min;
                let formula = Forecast::new(search.candidates(), distance, least);
                let runs = formula.runs.max(f64::from(search.runs()));
                return Taken { runs, builds: formula.builds.max(builds as f64) };
            }
            search.begin_step();
            let drift = self.drift * gaussian(&mut self.random);
            for (commit, runs) in wanted {
                builds += usize::from(!search.is_measured(commit));
                let level = drift + self.level(&search, commit) + self.adds(commit);
                for _ in 0..runs {
                    search.measured(commit, level + self.noise * gaussian(&mut self.random));
                }
            }
        }
        Taken { runs: f64::from(search.runs()), builds: builds as f64 }
    }

    fn adds(&mut self, commit: usize) -> f64 {
        let World { random, layout, .. } = self;
        *self.layouts.entry(commit).or_insert_with(|| *layout * gaussian(random))
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
    use crate::commits::Commits;
    use crate::forecast::Quantiles;
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

    #[test]
    fn smaller_changes_take_more_runs_and_quantiles_are_in_order() {
        let [near, far] = [1.5, 6.0].map(|distance| with_ends(distance).foresee(1));
        for forecast in [&near, &far] {
            let Some(Quantiles { runs, builds, .. }) = forecast.quantiles else { panic!() };
            assert!(runs[0] <= forecast.runs && forecast.runs <= runs[1], "{forecast:?}");
            assert!(builds[0] <= forecast.builds && forecast.builds <= builds[1], "{forecast:?}");
            assert!(runs[0] > 40.0, "the runs so far are counted: {forecast:?}");
        }
        assert!(near.runs - 40.0 > 2.0 * (far.runs - 40.0), "{near:?} {far:?}");
        assert!(near.builds > 5.0 && far.builds > 5.0, "{near:?} {far:?}");
    }

    #[test]
    fn a_forecast_is_a_function_of_the_runs() {
        let search = with_ends(2.0);
        assert_eq!(search.foresee(3), search.foresee(3));
    }
}
