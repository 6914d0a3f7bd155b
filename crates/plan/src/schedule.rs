//! The schedule: which runs a block holds, and in which order. A pure function of the record, its seed
//! and the runs of the blocks before, so that a resumed record continues as if never interrupted.
//!
//!     block 0:  cell 2: b a | cell 0: a b b' | cell 1: b a      (b' a placebo)
//!     block 1:  cell 0: b a | cell 1: a b    | cell 2: a b

use std::collections::BTreeMap;

use analysis::sequential;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::{Gate, PointOrder, ProfileKind, Record, Run};

use crate::adaptive;

/// Share of a gate's budget in which cells that were set aside are looked at again; the rest is for those that stay open.
const REEXAMINED: f64 = 0.75;

/// Share of a gate's budget in which all cases run, where they are too many for a look at each; and of that in which all run once.
const SCREENED: f64 = 0.5;
const SCREENED_ONCE: f64 = 0.7;

/// A run that is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Assignment {
    /// The block it belongs to.
    pub block: u32,
    /// The index of its point in the record.
    pub point: usize,
    /// Whether it repeats a run of the block, to measure how much equal runs differ.
    pub placebo: bool,
    /// Its number among several runs of the point in one boot.
    pub repeat: u32,
}

/// The steps of an assignment: its run (`None`), and the profiles that explain it, in a random order of
/// their own, so that no drift favours one of them. Placebos and repeats have no profiles.
pub fn steps(record: &Record, assignment: Assignment) -> Vec<Option<ProfileKind>> {
    let profiles = record.experiment.explain.iter().flat_map(|explain| &explain.profiles);
    let is_command = record.points[assignment.point].command.is_some();
    // A program does as many calls in each run, and each of its profiles is a whole run.
    let every = |kind: &ProfileKind| match kind {
        ProfileKind::Time => 1,
        ProfileKind::Counts if is_command => 2,
        ProfileKind::Names if is_command => 4,
        ProfileKind::Counts | ProfileKind::Names => 1,
    };
    let is_due = |kind: &&ProfileKind| assignment.block.is_multiple_of(every(kind));
    let profiles = profiles
        .filter(|_| !assignment.placebo && assignment.repeat == 0)
        .filter(is_due)
        .copied()
        .map(Some);
    let mut steps: Vec<Option<ProfileKind>> = std::iter::once(None).chain(profiles).collect();
    let of_point = record.seed.rotate_left(32) ^ assignment.point as u64;
    steps.shuffle(&mut random(of_point, assignment.block));
    steps
}

/// The runs of one block in their order, given the runs of the blocks before it. Empty if nothing is left
/// to do.
pub fn block(record: &Record, before: &[&Run], block: u32) -> Vec<Assignment> {
    let mut cells = cells(record);
    let gate = record.experiment.compare.gate;
    let spent_s = adaptive::spent_s(record, before);
    if gate.is_some_and(|gate| spent_s >= gate.budget_s || has_screened(gate, spent_s, block)) {
        return Vec::new();
    }
    match record.variants.len() {
        0 | 1 if record.experiment.adaptive.is_some() => {
            let chosen = adaptive::points_to_run(record, before, block);
            cells.iter_mut().for_each(|cell| cell.retain(|point| chosen.contains(point)));
        }
        0 | 1 if block < record.experiment.blocks() => (),
        0 | 1 => cells.iter_mut().for_each(Vec::clear),
        _ if let Some(gate) = gate => {
            let runs = runs_of_cells(&cells, before);
            let may_reexamine = spent_s < REEXAMINED * gate.budget_s;
            cells = analysis::gate_points_to_run(record, &cells, &runs, block, may_reexamine);
        }
        _ => {
            let runs = runs_of_cells(&cells, before);
            for (cell, runs) in cells.iter_mut().zip(&runs) {
                *cell = analysis::points_to_run(record, cell, runs, block);
            }
        }
    }
    let active: Vec<usize> = (0..cells.len()).filter(|cell| !cells[*cell].is_empty()).collect();
    let mut random = random(record.seed, block);
    match record.experiment.compare.order {
        PointOrder::Adjacent => adjacent(record, &cells, active, block, &mut random),
        PointOrder::Grouped => grouped(record, &cells, active, block, &mut random),
        PointOrder::UpDown => up_down(record, &cells, active, block, &mut random),
    }
}

/// Whether so many blocks of a gate took so long that the first look at all cases lies beyond its budget, and that one block
/// more would take the time that the most suspicious of them need.
fn has_screened(gate: Gate, spent_s: f64, blocks: u32) -> bool {
    let block_s = spent_s / f64::from(blocks.max(1));
    let looks_s = block_s * sequential::LOOKS[0] as f64;
    let is_before = (1..sequential::LOOKS[0] as u32).contains(&blocks);
    is_before && looks_s > gate.budget_s && spent_s + block_s > SCREENED * gate.budget_s
}

/// Whether a gate ends within its first block: the cases are so many that one run of each takes what the most suspicious of
/// them need. Which cases the block has not come to is as random as its order.
pub fn ends_within_block(record: &Record, runs: &[&Run], block: u32) -> bool {
    let Some(gate) = record.experiment.compare.gate.filter(|_| block == 0) else { return false };
    adaptive::spent_s(record, runs) >= SCREENED_ONCE * gate.budget_s
}

/// The points of each cell, in the order of its variants. Without variants each point is a cell.
pub fn cells(record: &Record) -> Vec<Vec<usize>> {
    let mut cells: BTreeMap<(Option<u32>, usize), Vec<usize>> = BTreeMap::new();
    for (index, point) in record.points.iter().enumerate() {
        let key = (point.cell, if point.cell.is_some() { 0 } else { index });
        cells.entry(key).or_default().push(index);
    }
    cells.into_values().collect()
}

/// The runs of each cell.
fn runs_of_cells<'a>(cells: &[Vec<usize>], runs: &[&'a Run]) -> Vec<Vec<&'a Run>> {
    let cell_of: BTreeMap<usize, usize> = cells
        .iter()
        .enumerate()
        .flat_map(|(cell, points)| points.iter().map(move |point| (*point, cell)))
        .collect();
    let mut of_cells = vec![Vec::new(); cells.len()];
    for run in runs {
        if let Some(cell) = cell_of.get(&(run.point as usize)) {
            of_cells[*cell].push(*run);
        }
    }
    of_cells
}

fn random(seed: u64, block: u32) -> Xoshiro256PlusPlus {
    // Streams of one seed must not overlap: the golden ratio spreads the blocks.
    Xoshiro256PlusPlus::seed_from_u64(seed ^ (block as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// The cells in random order, and the variants of each in random order.
fn adjacent(
    record: &Record,
    cells: &[Vec<usize>],
    mut active: Vec<usize>,
    block: u32,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Assignment> {
    active.shuffle(random);
    let runs = |cell: usize| {
        let mut runs = runs_of_cell(record, cells, cell, block, random);
        runs.shuffle(random);
        placebos_last(runs)
    };
    active.into_iter().flat_map(runs).collect()
}

/// The cells by their CPU count, in random order where counts are equal; every other block from the most down.
fn up_down(
    record: &Record,
    cells: &[Vec<usize>],
    active: Vec<usize>,
    block: u32,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Assignment> {
    let mut runs = adjacent(record, cells, active, block, random);
    let cpus = |run: &Assignment| record.points[run.point].cpus;
    runs.sort_by_key(|run| if block.is_multiple_of(2) { cpus(run) } else { u32::MAX - cpus(run) });
    runs
}

/// The variants in an order that is reversed in every second block, so that such a block begins with the
/// variant that the last one ended with. The cells of each variant are in random order.
fn grouped(
    record: &Record,
    cells: &[Vec<usize>],
    active: Vec<usize>,
    block: u32,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Assignment> {
    let mut runs: Vec<Assignment> =
        active.iter().flat_map(|&cell| runs_of_cell(record, cells, cell, block, random)).collect();
    runs.shuffle(random);
    let mut order: Vec<usize> = (0..record.variants.len()).collect();
    order.shuffle(&mut self::random(record.seed, block / 2 + (1 << 31)));
    if block % 2 == 1 {
        order.reverse();
    }
    let position = |index: usize| order.iter().position(|&other| other == index);
    let rank = |run: &Assignment| {
        let name = &record.points[run.point].variant;
        let index = record.variants.iter().position(|variant| variant.name == *name);
        // Variants of one guest stay together: they share its boot.
        let guest = index.map(|index| record.experiment.booted(Some(&record.variants[index])));
        let together = |other: &&usize| {
            guest == Some(record.experiment.booted(Some(&record.variants[**other])))
        };
        let first = order.iter().find(together).copied();
        // A placebo has a boot of its own, after all boots that it could share.
        let is_last = run.placebo && guest.flatten().is_some();
        (is_last, first.and_then(position), index.and_then(position))
    };
    runs.sort_by_key(rank);
    if has_boots(record) { runs } else { placebos_last(runs) }
}

/// The runs of each point of a cell, and sometimes a placebo of one of them.
fn runs_of_cell(
    record: &Record,
    cells: &[Vec<usize>],
    cell: usize,
    block: u32,
    random: &mut Xoshiro256PlusPlus,
) -> Vec<Assignment> {
    let points = &cells[cell];
    let repeats = repeats(record);
    let run = |point: usize, placebo: bool| {
        (0..repeats).map(move |repeat| Assignment { block, point, placebo, repeat })
    };
    let mut runs: Vec<Assignment> = points.iter().flat_map(|point| run(*point, false)).collect();
    let twin = random.random_range(0..points.len());
    if record.variants.len() > 1 && has_placebo(record, cells.len(), cell, block) {
        runs.extend(run(points[twin], true));
    }
    runs
}

/// How often each point is run in a block: more than once only in a boot, and where a gate wants means.
fn repeats(record: &Record) -> u32 {
    if let Some(gate) = record.experiment.compare.gate {
        return gate.runs.max(1);
    }
    let guest = record.experiment.guest.as_ref().filter(|_| has_boots(record));
    guest.and_then(|guest| guest.runs).unwrap_or(1).max(1)
}

/// Whether kernels are booted for runs.
fn has_boots(record: &Record) -> bool {
    let variants = record.variants.iter().map(Some);
    let none = record.variants.is_empty().then_some(None);
    variants.chain(none).any(|variant| record.experiment.booted(variant).is_some())
}

/// Whether a cell has a placebo in this block. Exactly the placebo's share of all cells of all blocks has
/// one, evenly spread from a start that the seed decides.
fn has_placebo(record: &Record, cells: usize, cell: usize, block: u32) -> bool {
    let share = record.experiment.compare.placebo;
    let start: f64 = random(record.seed, u32::MAX).random();
    let number = block as f64 * cells as f64 + cell as f64;
    let so_far = |number: f64| (number * share + start).floor();
    so_far(number + 1.0) > so_far(number)
}

/// Makes the later one of two equal runs the placebo.
fn placebos_last(mut runs: Vec<Assignment>) -> Vec<Assignment> {
    for later in 0..runs.len() {
        // Repeats are no placebos of each other.
        let is_twin =
            |run: &Assignment| (run.point, run.repeat) == (runs[later].point, runs[later].repeat);
        let twin = runs[..later].iter().position(is_twin);
        if let Some(earlier) = twin {
            (runs[earlier].placebo, runs[later].placebo) = (false, true);
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use records::Experiment;

    /// A record with this many cells of this many variants.
    fn record(toml: &str, cells: u32, variants: usize) -> Record {
        let mut toml = format!("{toml}\n[[load]]\nworkload = 'getppid'\n");
        for index in 0..variants {
            toml += &format!("[[variant]]\nname = 'v{index}'\n");
        }
        let experiment = Experiment::read(&toml).unwrap();
        let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        let mut record = store::open(&golden).unwrap().record;
        record.experiment = experiment;
        record.variants = record.experiment.variants.clone();
        let point = record.points[0].clone();
        let of_cell = |cell| {
            let variants = record.variants.iter();
            variants.map(|v| (Some(cell), v.name.clone())).collect::<Vec<_>>()
        };
        let mut names: Vec<(Option<u32>, String)> = (0..cells).flat_map(of_cell).collect();
        if variants == 0 {
            names = (0..cells).map(|_| (None, String::new())).collect();
        }
        record.points = names
            .into_iter()
            .map(|(cell, variant)| records::Point { cell, variant, ..point.clone() })
            .collect();
        record
    }

    #[test]
    fn every_block_has_each_point_once_in_an_order_of_its_own() {
        let record = record("seed = 7\nblocks = 3", 20, 0);
        let points = |number| block(&record, &[], number).iter().map(|a| a.point).collect();
        let blocks: Vec<Vec<usize>> = (0..4).map(points).collect();
        for points in &blocks[..3] {
            let mut sorted = points.clone();
            sorted.sort();
            assert_eq!(sorted, (0..20).collect::<Vec<_>>());
        }
        assert_ne!(blocks[0], blocks[1]);
        assert!(blocks[3].is_empty());
        let other = Record { seed: record.seed ^ 1, ..record.clone() };
        assert_ne!(blocks[0], block(&other, &[], 0).iter().map(|a| a.point).collect::<Vec<_>>());
    }

    #[test]
    fn profiles_and_the_run_come_in_all_orders_and_placebos_are_not_profiled() {
        let plain = record("blocks = 3", 1, 0);
        let assignment = Assignment { block: 0, point: 0, placebo: false, repeat: 0 };
        assert_eq!(steps(&plain, assignment), [None]);
        let mut explained = plain.clone();
        explained.experiment.explain = Some(records::Explain::default());
        let orders: std::collections::BTreeSet<_> =
            (0..500).map(|block| steps(&explained, Assignment { block, ..assignment })).collect();
        assert_eq!(orders.len(), 24);
        assert_eq!(steps(&explained, Assignment { placebo: true, ..assignment }), [None]);
    }

    #[test]
    fn variants_of_a_cell_are_neighbours_in_random_order() {
        let record = record("[compare]\nplacebo = 0", 6, 3);
        let mut orders = std::collections::BTreeSet::new();
        for number in 0..10 {
            let runs = block(&record, &[], number);
            for neighbours in runs.chunks(3) {
                let cells: Vec<_> =
                    neighbours.iter().map(|run| record.points[run.point].cell).collect();
                assert!(cells.iter().all(|cell| *cell == cells[0]));
                orders.insert(neighbours.iter().map(|run| run.point % 3).collect::<Vec<_>>());
            }
        }
        assert_eq!(orders.len(), 6);
    }

    #[test]
    fn grouped_variants_turn_round_from_block_to_block() {
        let record = record("[compare]\norder = 'grouped'\nplacebo = 0", 5, 4);
        let variants = |number| -> Vec<usize> {
            let runs = block(&record, &[], number);
            runs.chunks(5)
                .map(|group| {
                    assert!(group.iter().all(|run| run.point % 4 == group[0].point % 4));
                    group[0].point % 4
                })
                .collect()
        };
        let mut reversed = variants(1);
        reversed.reverse();
        assert_eq!(variants(0), reversed);
        assert_ne!(variants(0), variants(2));
    }

    #[test]
    fn sweeps_go_up_and_then_down() {
        let mut record = record("blocks = 2\n[compare]\norder = 'up_down'", 5, 0);
        for (index, point) in record.points.iter_mut().enumerate() {
            point.cpus = [4, 1, 2, 8, 2][index];
        }
        let cpus = |number| -> Vec<u32> {
            block(&record, &[], number).iter().map(|run| record.points[run.point].cpus).collect()
        };
        assert_eq!(cpus(0), [1, 2, 2, 4, 8]);
        assert_eq!(cpus(1), [8, 4, 2, 2, 1]);
    }

    #[test]
    fn a_value_of_a_gate_is_the_mean_of_runs_that_all_count() {
        let record =
            record("[compare]\nplacebo = 0\ngate = { alpha = 0.01, budget_s = 9, runs = 4 }", 3, 2);
        let runs = block(&record, &[], 0);
        assert_eq!(runs.len(), 3 * 2 * 4);
        assert!(runs.iter().all(|run| !run.placebo), "{runs:?}");
        for cell in runs.chunks(8) {
            let repeats = |point: usize| -> BTreeSet<u32> {
                cell.iter().filter(|run| run.point % 2 == point).map(|run| run.repeat).collect()
            };
            assert_eq!([0, 1].map(repeats), [(0..4).collect(), (0..4).collect()]);
        }
    }

    #[test]
    fn cases_that_are_too_many_for_a_look_at_each_are_screened() {
        let gate = |budget_s| Gate { alpha: 0.01, budget_s, runs: 1 };
        let check = |budget_s: f64, spent_s: f64, blocks: u32, expected: bool| {
            assert_eq!(
                has_screened(gate(budget_s), spent_s, blocks),
                expected,
                "{spent_s} {blocks}"
            );
        };
        check(100.0, 0.0, 0, false);
        // Eight blocks fit.
        check(100.0, 12.0, 1, false);
        // They do not, but one more leaves half of the budget.
        check(100.0, 20.0, 1, false);
        check(100.0, 40.0, 2, true);
        check(100.0, 60.0, 1, true);
        check(100.0, 200.0, 8, false);
    }

    #[test]
    fn a_first_block_that_takes_most_of_a_gates_budget_ends() {
        let mut record = record("[compare]\ngate = { alpha = 0.01, budget_s = 20 }", 300, 2);
        record.sessions.truncate(1);
        let line = |number: u32| {
            format!(
                r#"{{"run":{number},"point":{number},"block":0,"started":"2026-11-24T00:00:{number:02}Z","state":"finished","metrics":{{}},"counters":{{}}}}"#
            )
        };
        let runs: Vec<Run> = (0..20).map(|number| Run::read(&line(number)).unwrap()).collect();
        let ends = |n: usize, block: u32| {
            ends_within_block(&record, &runs[..n].iter().collect::<Vec<_>>(), block)
        };
        assert_eq!([ends(13, 0), ends(16, 0), ends(20, 1)], [false, true, false]);
    }

    #[test]
    fn one_block_in_twenty_of_a_cell_has_a_placebo_that_comes_later() {
        let record = record("blocks = 40", 5, 2);
        let runs: Vec<Assignment> = (0..40).flat_map(|n| block(&record, &[], n)).collect();
        assert_eq!(runs.iter().filter(|run| run.placebo).count(), 10);
        for (index, run) in runs.iter().enumerate().filter(|(_, run)| run.placebo) {
            let twin = Assignment { placebo: false, ..*run };
            assert!(runs[..index].contains(&twin));
        }
    }
}
