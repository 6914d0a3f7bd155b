//! Searches over runs with little noise, whose answers are certain.

use super::{Next, Search, Settings};
use crate::answer::{Answer, NotReproduced, Unresolved};
use crate::commits::Commits;

/// What commits do when they are built and run.
struct World<'a> {
    level: &'a dyn Fn(usize) -> f64,
    key: &'a dyn Fn(usize) -> String,
    broken: &'a [usize],
}

/// Searches to the end. Returns the answer, the runs and the builds.
fn search(commits: Commits, world: &World) -> (Answer, u32, usize) {
    let weights = vec![1.0; commits.changes() + 1];
    let mut search = Search::new(commits, weights, Settings::default());
    let mut builds = std::collections::BTreeSet::new();
    for _ in 0..1000 {
        let wanted = match search.next_step() {
            Next::Answer(answer) => return (answer, search.runs(), builds.len()),
            Next::Measure(wanted) => wanted,
        };
        search.begin_step();
        for (commit, runs) in wanted {
            if world.broken.contains(&commit) {
                search.skip(commit);
                continue;
            }
            if builds.insert(commit) && search.built(commit, &(world.key)(commit)).is_some() {
                continue;
            }
            for run in 0..runs {
                search.measured(commit, (world.level)(commit) + 0.001 * f64::from(run % 3));
            }
        }
    }
    panic!("the search does not end");
}

fn own_key(commit: usize) -> String {
    commit.to_string()
}

#[test]
fn a_clear_change_is_named_in_few_runs() {
    for change in [1, 2, 37, 99, 100] {
        let level = |commit| if commit >= change { 0.5 } else { 0.0 };
        let world = World { level: &level, key: &own_key, broken: &[] };
        let (answer, runs, builds) = search(Commits::linear(100), &world);
        assert!(
            matches!(answer, Answer::Named { change: named, .. } if named == change),
            "{answer:?}"
        );
        assert!(runs < 30 && builds < 12, "{runs} runs, {builds} builds");
    }
}

#[test]
fn a_step_has_a_single_run_once_the_noise_is_known() {
    for (runs_of_ends, expected) in [(8, 3), (12, 1)] {
        let mut search = Search::new(Commits::linear(100), vec![1.0; 101], Settings::default());
        search.begin_step();
        for run in 0..runs_of_ends {
            search.measured(0, 0.001 * f64::from(run % 3));
            search.measured(100, 0.1 + 0.001 * f64::from(run % 3));
        }
        let Next::Measure(wanted) = search.next_step() else { panic!("nothing is measured") };
        assert_eq!(wanted, [(50, expected)], "after {runs_of_ends} runs of each end");
    }
}

#[test]
fn large_segments_are_halved_as_well_as_small_ones() {
    // A line, and two branches that take turns in the order of the commits.
    let in_turn = |commit: usize| vec![commit.saturating_sub(2)];
    let branches: Vec<Vec<usize>> = (1..2999).map(in_turn).chain([vec![2998, 2997]]).collect();
    for commits in [Commits::linear(3000), Commits::from_parents(&branches)] {
        let changes = commits.changes();
        let mut search = Search::new(commits.clone(), vec![1.0; changes + 1], Settings::default());
        search.begin_step();
        for run in 0..8 {
            search.measured(0, 0.001 * f64::from(run % 3));
            search.measured(changes, 0.1 + 0.001 * f64::from(run % 3));
        }
        let Next::Measure(wanted) = search.next_step() else { panic!("nothing is measured") };
        let contained = commits.contained(wanted[0].0).count_ones(..) as f64;
        assert!((contained / changes as f64 - 0.5).abs() < 0.001, "{contained} of {changes}");
    }
}

#[test]
fn runs_in_other_layouts_tell_a_change_from_the_place_of_the_code() {
    let mut search = Search::new(Commits::linear(10), vec![1.0; 11], Settings::default());
    let noise = |run: u32| 0.002 * (f64::from(run * 7 % 5) - 2.0);
    search.begin_step();
    // Commit 6 adds 5 %. The build of commit 5 is nearly as slow, by its layout.
    for (commit, level) in [(0, 0.0), (10, 0.05), (4, 0.0), (5, 0.035), (6, 0.05)] {
        (0..10).for_each(|run| search.measured(commit, level + noise(run)));
    }
    let most_probable = |search: &Search| {
        let changes = search.probabilities(&search.posterior());
        changes.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(change, _)| change)
    };
    assert_eq!(most_probable(&search), Some(5));
    search.begin_step();
    for layout in 1..=4 {
        for commit in [4, 5] {
            (0..10).for_each(|run| search.measured_in(layout, commit, noise(run)));
        }
    }
    assert_eq!(most_probable(&search), Some(6));
    assert_eq!(search.builds().len(), 5 + 8);
}

#[test]
fn a_change_on_a_branch_is_named() {
    // 1 ─ 2 ─ 3 ─ 4 ─ 5 ─┐
    //  └─ 6 ─ 7 ─ 8 ─ 9 ─ 10 ─ 11
    let mut parents: Vec<Vec<usize>> = (0..5).map(|parent| vec![parent]).collect();
    parents.extend([vec![1], vec![6], vec![7], vec![8], vec![5, 9], vec![10]]);
    for change in 1..=11 {
        let commits = Commits::from_parents(&parents);
        let graph = commits.clone();
        let level = move |commit| if graph.contains(commit, change) { 0.1 } else { 0.0 };
        let world = World { level: &level, key: &own_key, broken: &[] };
        let (answer, ..) = search(commits, &world);
        assert!(
            matches!(answer, Answer::Named { change: named, .. } if named == change),
            "{answer:?}"
        );
    }
}

#[test]
fn equal_ends_are_not_reproduced() {
    let world = World { level: &|_| 0.0, key: &own_key, broken: &[] };
    let (answer, runs, _) = search(Commits::linear(100), &world);
    assert!(matches!(answer, Answer::NotReproduced { why: NotReproduced::Same, .. }), "{answer:?}");
    assert!(runs <= 200);
    let one = World { key: &|_| "one".to_string(), ..world };
    let (answer, runs, _) = search(Commits::linear(100), &one);
    let equal = matches!(answer, Answer::NotReproduced { why: NotReproduced::EqualBuilds, .. });
    assert!(equal && runs <= 8, "{answer:?}");
}

#[test]
fn commits_that_cannot_be_built_end_as_a_set() {
    let level = |commit| if commit >= 50 { 0.1 } else { 0.0 };
    let broken: Vec<usize> = (45..55).collect();
    let world = World { level: &level, key: &own_key, broken: &broken };
    let (answer, ..) = search(Commits::linear(100), &world);
    let Answer::Set { changes, why } = answer else { panic!("{answer:?}") };
    let mut changes: Vec<usize> = changes.iter().map(|(change, _)| *change).collect();
    changes.sort_unstable();
    assert_eq!((changes, why), ((45..=55).collect(), Unresolved::Untestable));
}

#[test]
fn a_commit_that_leaves_the_build_equal_is_never_named() {
    // Only every tenth commit changes the build.
    let level = |commit| if commit >= 50 { 0.1 } else { 0.0 };
    let world = World { level: &level, key: &|commit| (commit / 10).to_string(), broken: &[] };
    let (answer, _, builds) = search(Commits::linear(100), &world);
    assert!(matches!(answer, Answer::Named { change: 50, .. }), "{answer:?}");
    assert!(builds < 12, "{builds}");
}

#[test]
fn two_changes_are_both_found() {
    let level = |commit| f64::from(u8::from(commit >= 30) + u8::from(commit >= 70)) * 0.05;
    let world = World { level: &level, key: &own_key, broken: &[] };
    let (answer, ..) = search(Commits::linear(100), &world);
    let Answer::Several { brackets } = answer else { panic!("{answer:?}") };
    let places: Vec<_> = brackets.iter().map(|bracket| (bracket.without, bracket.with)).collect();
    assert_eq!(places, [(29, 30), (69, 70)]);
}

#[test]
fn two_changes_of_a_graph_are_found_along_first_parents() {
    // Every tenth commit of the line merges a branch of two, so each round has twelve commits.
    let mut parents: Vec<Vec<usize>> = Vec::new();
    let mut tip = 0;
    for commit in 1..=120 {
        parents.push(match commit % 12 {
            10 => vec![tip],
            11 => vec![commit - 1],
            0 => vec![tip, commit - 1],
            _ => vec![tip],
        });
        tip = if [10, 11].contains(&(commit % 12)) { tip } else { commit };
    }
    let commits = Commits::from_parents(&parents);
    let graph = commits.clone();
    // One change on the line, one on a branch that 84 merges.
    let level = move |commit| {
        let has = |change| f64::from(u8::from(graph.contains(commit, change)));
        0.05 * (has(40) + has(83))
    };
    let world = World { level: &level, key: &own_key, broken: &[] };
    let (answer, ..) = search(commits, &world);
    let Answer::Several { brackets } = &answer else { panic!("{answer:?}") };
    let places: Vec<_> = brackets.iter().map(|b| (b.without, b.with, b.steps)).collect();
    assert_eq!(places, [(39, 40, 1), (81, 84, 1)]);
    assert_eq!(answer.blamed(), [40, 84]);
}

/// Noise of a spread of one, by the number of the run.
fn noise(run: u64) -> f64 {
    // The sum of four numbers spread evenly: nearly normal, variance 1/3.
    let spread = |salt: u64| {
        let mixed = (run * 4 + salt + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 11) as f64)
            / (1_u64 << 53) as f64
            - 0.5
    };
    (0..4).map(spread).sum::<f64>() * 3_f64.sqrt()
}

#[test]
fn ends_that_differ_by_luck_alone_end_as_not_reproduced() {
    // Nothing changes, but the first runs of the bad end are slow by chance.
    for (lucky, first) in [(4, 0), (12, 10_000), (30, 20_000)] {
        let commits = Commits::linear(1000);
        // Nothing but the search itself: no comparison refutes what luck names.
        let settings = Settings { compares: false, ..Settings::default() };
        let mut search = Search::new(commits, vec![1.0; 1001], settings);
        let (mut run, mut of_bad, mut was_apart) = (first, 0, false);
        let answer = loop {
            let wanted = match search.next_step() {
                Next::Answer(answer) => break answer,
                Next::Measure(wanted) => wanted,
            };
            was_apart |= search.are_ends_apart();
            search.begin_step();
            for (commit, runs) in wanted {
                for _ in 0..runs {
                    let is_lucky = commit == 1000 && of_bad < lucky && !was_apart;
                    of_bad += u32::from(commit == 1000);
                    let luck = if is_lucky { 2.0 + 6.0 / f64::from(lucky) } else { 0.0 };
                    search.measured(commit, 0.03 * (noise(run) + luck));
                    run += 1;
                }
            }
            assert!(search.runs() <= 1020, "{} runs", search.runs());
        };
        assert!(was_apart, "the luck sufficed to begin a search");
        let is_lost = matches!(answer, Answer::NotReproduced { why: NotReproduced::Lost, .. });
        assert!(is_lost, "not lost after {} runs", search.runs());
    }
}

#[test]
fn a_search_ends_within_its_bound_whatever_is_measured() {
    // Levels that no model expects: each build has another, and each step drifts.
    for salt in 0..3 {
        let mut search = Search::new(Commits::linear(60), vec![1.0; 61], Settings::default());
        let (mut run, mut step) = (0, 0);
        loop {
            let wanted = match search.next_step() {
                Next::Answer(_) => break,
                Next::Measure(wanted) => wanted,
            };
            step += 1;
            search.begin_step();
            for (commit, runs) in wanted {
                for _ in 0..runs {
                    run += 1;
                    let build = noise(1_000_000 * (salt + 1) + commit as u64);
                    let drift = noise(2_000_000 * (salt + 1) + step);
                    let level = if commit == 60 { 3.0 } else { 0.0 };
                    search.measured(
                        commit,
                        0.01 * (noise(run + 90_000 * salt) + build + drift + level),
                    );
                }
            }
            let most = search.bound().unwrap_or(1000);
            assert!(search.runs() <= most.max(1000) + 120, "{} runs of {most}", search.runs());
        }
    }
}
