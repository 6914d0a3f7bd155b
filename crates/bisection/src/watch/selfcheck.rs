//! How often a watcher is right, by simulation: lines of points whose changes are known, beside rules that see the values
//! of each point alone and run nothing again.

use host::in_parallel;
use schemars::JsonSchema;
use serde::Serialize;

use super::simulated::{LineKind, Watcher, World};
use crate::baselines::{beyond_share, otava};

/// Points of a line.
const POINTS: usize = 40;

/// The result of the check.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct WatchCheck {
    /// Simulated lines of each kind.
    pub trials: u32,
    /// Seed of the simulations.
    pub seed: u64,
    /// Points of a line.
    pub points: usize,
    /// A row for each kind of line and rule.
    pub rows: Vec<WatchRow>,
}

/// One rule on one kind of line.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct WatchRow {
    /// What the lines are.
    pub about: String,
    /// Standard deviation between builds of equal speed, as a share.
    pub layout: f64,
    /// The rule.
    pub rule: String,
    /// Share of lines of which it says exactly what was planted, once all points are there.
    pub exact: f64,
    /// Share of lines in which it finds the newest planted change at its first point; absent without one.
    pub at_once: Option<f64>,
    /// Share of lines in which it calls something a change that was not planted.
    pub wrong: f64,
    /// Mean runs to measure a line's points.
    pub runs: f64,
    /// Mean runs of comparisons when the newest planted change came; absent without one, and for rules that run nothing again.
    pub more_runs: Option<f64>,
    /// Mean runs of all comparisons of a line.
    pub compared_runs: f64,
    /// Mean number of comparisons of a line.
    pub compared: f64,
}

/// What a rule says of a line.
struct Said {
    changes: Vec<usize>,
    /// Whether the newest planted change was found when it was the newest point.
    at_once: bool,
    runs: u32,
    more_runs: u32,
    compared_runs: u32,
    compared: u32,
}

#[derive(Clone, Copy)]
enum Rule {
    Knee,
    Otava,
    Threshold,
}

impl Rule {
    const ALL: [Rule; 3] = [Rule::Knee, Rule::Otava, Rule::Threshold];

    fn name(self) -> &'static str {
        match self {
            Rule::Knee => "knee watch",
            Rule::Otava => "as Otava",
            Rule::Threshold => "5 % threshold",
        }
    }
}

/// The kinds of lines, with what each is. `layout` is the standard deviation between builds, as a share.
fn kinds(layout: f64) -> Vec<(&'static str, LineKind)> {
    let none = LineKind {
        points: POINTS,
        changes: Vec::new(),
        host_step: None,
        host_drift: 0.0,
        layout,
        two_modes: false,
        series: 1,
    };
    let with = |changes: &[(usize, f64)]| LineKind { changes: changes.to_vec(), ..none.clone() };
    let drift = LineKind { host_drift: 0.005, ..none.clone() };
    vec![
        ("nothing changes", none.clone()),
        ("nothing, one of 100 series", LineKind { series: 100, ..none.clone() }),
        ("nothing, runs in two modes", LineKind { two_modes: true, ..none.clone() }),
        ("+5 % at the newest point", with(&[(POINTS - 1, 0.05)])),
        ("+5 % in the middle", with(&[(POINTS / 2, 0.05)])),
        ("+3 % in the middle", with(&[(POINTS / 2, 0.03)])),
        ("-4 %, then +4 %", with(&[(14, -0.04), (27, 1.0 / 0.96 - 1.0)])),
        ("the host steps by 5 %", LineKind { host_step: Some((POINTS / 2, 0.05)), ..none.clone() }),
        ("the host drifts by 0.5 % a point", drift.clone()),
        (
            "drift, +5 % at the newest point",
            LineKind { changes: vec![(POINTS - 1, 0.05)], ..drift },
        ),
    ]
}

/// How much builds of equal speed differ through their layouts, in the two parts of the check.
const LAYOUTS: [f64; 2] = [0.0, 0.01];

/// Checks all rules on all kinds of lines.
pub fn watch_check(trials: u32, seed: u64) -> WatchCheck {
    let mut rows = Vec::new();
    for layout in LAYOUTS {
        for (about, kind) in &kinds(layout) {
            let said = in_parallel(trials as usize, |trial| {
                let seed = seed << 32 | trial as u64;
                Rule::ALL.map(|rule| said(rule, kind, seed))
            });
            for (index, rule) in Rule::ALL.into_iter().enumerate() {
                let of_rule: Vec<&Said> = said.iter().map(|line| &line[index]).collect();
                rows.push(row(about, rule, kind, &of_rule));
            }
        }
    }
    WatchCheck { trials, seed, points: POINTS, rows }
}

fn row(about: &str, rule: Rule, kind: &LineKind, said: &[&Said]) -> WatchRow {
    let planted: Vec<usize> = kind.changes.iter().map(|(at, _)| *at).collect();
    let lines = said.len().max(1) as f64;
    let share =
        |is: &dyn Fn(&Said) -> bool| said.iter().filter(|one| is(one)).count() as f64 / lines;
    let mean =
        |of: &dyn Fn(&Said) -> u32| said.iter().map(|one| f64::from(of(one))).sum::<f64>() / lines;
    let has_change = !planted.is_empty();
    let compares = matches!(rule, Rule::Knee);
    WatchRow {
        about: about.to_string(),
        layout: kind.layout,
        rule: rule.name().to_string(),
        exact: share(&|one| one.changes == planted),
        at_once: has_change.then(|| share(&|one| one.at_once)),
        wrong: share(&|one| one.changes.iter().any(|change| !planted.contains(change))),
        runs: mean(&|one| one.runs),
        more_runs: (has_change && compares).then(|| mean(&|one| one.more_runs)),
        compared_runs: mean(&|one| one.compared_runs),
        compared: mean(&|one| one.compared),
    }
}

fn said(rule: Rule, kind: &LineKind, seed: u64) -> Said {
    let mut world = World::new(kind, seed);
    let newest = kind.changes.last().map(|(at, _)| *at);
    match rule {
        Rule::Knee => watched(&mut world, newest, kind.series),
        Rule::Otava => passive(&mut world, newest, &otava),
        Rule::Threshold => passive(&mut world, newest, &|values| beyond_share(values, 0.05)),
    }
}

fn watched(world: &mut World, newest: Option<usize>, series: usize) -> Said {
    let mut watched = Watcher::new(series);
    let (mut at_once, mut more_runs, mut compared_runs) = (false, 0, 0);
    for point in 0..world.points() {
        watched.add(world);
        compared_runs += watched.compared_runs;
        if newest == Some(point) {
            at_once = watched.changes().contains(&point);
            more_runs = watched.compared_runs;
        }
    }
    let runs = world.runs - compared_runs;
    let compared = watched.compared;
    Said { changes: watched.changes(), at_once, runs, more_runs, compared_runs, compared }
}

/// A rule that sees the mean of each point.
fn passive(world: &mut World, newest: Option<usize>, rule: &dyn Fn(&[f64]) -> Vec<usize>) -> Said {
    let mut values: Vec<f64> = Vec::new();
    let mut at_once = false;
    for point in 0..world.points() {
        let logs = world.alone(point);
        values.push(logs.iter().sum::<f64>() / logs.len() as f64);
        if newest == Some(point) {
            at_once = rule(&values).contains(&point);
        }
    }
    let (more_runs, compared_runs, compared) = (0, 0, 0);
    Said { changes: rule(&values), at_once, runs: world.runs, more_runs, compared_runs, compared }
}

#[cfg(test)]
mod tests {
    use super::watch_check;

    #[test]
    fn a_watcher_keeps_its_promises_in_a_small_simulation() {
        let check = watch_check(20, 4);
        for row in check.rows.iter().filter(|row| row.rule == "knee watch") {
            assert!(row.wrong <= 0.1, "{row:?}");
            assert!(!row.about.contains("+5 %") || row.exact >= 0.8, "{row:?}");
        }
    }
}
