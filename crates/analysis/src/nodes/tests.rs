//! How often normal nodes are named, and how often odd ones are. KNEE_NODE_RECORDS=2000 KNEE_NODE_SEED=1 makes
//! the table with more records, of another seed.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;
use crate::compare::{EFFECT_ALPHA, LEVEL_ALPHA};

const MARGIN: f64 = 0.0198;

/// Some nodes and their blocks.
#[derive(Clone, Copy)]
struct Case {
    nodes: usize,
    /// Blocks of each node; 0: from 2 to 10, drawn for each node.
    blocks: usize,
    /// Standard deviation of levels between nodes, and of runs within a block.
    between: f64,
    runs: f64,
    /// How far the first node's level lies from the others', and what the variant does more there.
    level: f64,
    effect: f64,
}

const NORMAL: Case =
    Case { nodes: 8, blocks: 4, between: 0.01, runs: 0.01, level: 0.0, effect: 0.0 };

/// The sum of twelve uniform numbers is close to normal.
fn normal(random: &mut Xoshiro256PlusPlus) -> f64 {
    (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
}

/// Levels and differences of each node's blocks, of two variants that do the same but on an odd node.
fn draw(case: Case, random: &mut Xoshiro256PlusPlus) -> (Vec<Vec<f64>>, Vec<Vec<f64>>) {
    let (mut levels, mut differences) = (Vec::new(), Vec::new());
    for node in 0..case.nodes {
        let odd = |by: f64| if node == 0 { by.ln_1p() } else { 0.0 };
        let level = case.between * normal(random) + odd(case.level);
        let blocks = if case.blocks > 0 { case.blocks } else { random.random_range(2..=10) };
        let pairs: Vec<[f64; 2]> = (0..blocks)
            .map(|_| {
                let [a, b] = [(); 2].map(|()| level + case.runs * normal(random));
                [a, b + odd(case.effect)]
            })
            .collect();
        levels.push(pairs.iter().map(|[a, _]| *a).collect());
        differences.push(pairs.iter().map(|[a, b]| b - a).collect());
    }
    (levels, differences)
}

/// How often the first node and nobody else is named, and how often any other is, in percent: by level, by
/// effect; and how often anything is said at all.
#[derive(Debug, Default)]
struct Rates {
    level: f64,
    level_other: f64,
    effect: f64,
    effect_other: f64,
    said: f64,
}

fn rates(case: Case, records: u64, seed: u64) -> Rates {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut rates = Rates::default();
    let each = 100.0 / records as f64;
    for _ in 0..records {
        let (levels, differences) = draw(case, &mut random);
        let odd: Vec<usize> = odd_levels(&levels, LEVEL_ALPHA).iter().map(|o| o.node).collect();
        let disagreement = disagreement(&differences, EFFECT_ALPHA, MARGIN);
        let effects: Vec<usize> =
            disagreement.iter().flat_map(|d| &d.departures).map(|d| d.node).collect();
        let mut count = |rate: fn(&mut Rates) -> &mut f64, is: bool| {
            *rate(&mut rates) += if is { each } else { 0.0 };
        };
        count(|r| &mut r.level, odd == [0]);
        count(|r| &mut r.level_other, odd.iter().any(|node| *node != 0));
        count(|r| &mut r.effect, effects == [0]);
        count(|r| &mut r.effect_other, effects.iter().any(|node| *node != 0));
        count(|r| &mut r.said, !odd.is_empty() || disagreement.is_some());
    }
    rates
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |text| text.parse().expect("a number"))
}

#[test]
fn normal_nodes_are_seldom_named() {
    let (records, seed) = (setting("KNEE_NODE_RECORDS", 300), setting("KNEE_NODE_SEED", 24));
    // Of this many records, 5 % and three standard errors.
    let limit = 5.0 + 300.0 * (0.05 * 0.95 / records as f64).sqrt();
    println!("nodes blocks between  runs   something said of normal nodes, % of {records} records");
    for nodes in [3, 8, 30] {
        for blocks in [2, 4, 10, 0] {
            for (between, runs) in [(0.0, 0.01), (0.01, 0.01), (0.03, 0.01), (0.01, 0.05)] {
                let case = Case { nodes, blocks, between, runs, ..NORMAL };
                let said = rates(case, records, seed).said;
                println!("{nodes:5} {blocks:6} {between:7} {runs:5}   {said:.1}");
                assert!(said <= limit, "{said} % of {nodes} nodes with {blocks} blocks");
            }
        }
    }
}

#[test]
fn odd_nodes_are_named_where_their_number_allows() {
    let (records, seed) = (setting("KNEE_NODE_RECORDS", 100), setting("KNEE_NODE_SEED", 24));
    println!("nodes blocks  odd by | level: it, another | effect: it, another | % of {records}");
    for nodes in [3, 8, 30] {
        for blocks in [2, 4, 10] {
            for by in [0.05, 0.10, 0.20] {
                let case = Case { nodes, blocks, ..NORMAL };
                let level = rates(Case { level: by, ..case }, records, seed);
                let effect = rates(Case { effect: by, ..case }, records, seed);
                println!(
                    "{nodes:5} {blocks:6}  {by:6} | {:5.1} {:5.1} | {:5.1} {:5.1}",
                    level.level, level.level_other, effect.effect, effect.effect_other
                );
                if nodes >= 8 && by >= 0.1 {
                    assert!(level.level > 80.0 && effect.effect > 80.0, "{level:?} {effect:?}");
                }
            }
        }
    }
}

#[test]
fn two_odd_nodes_do_not_hide_each_other() {
    let node = |level: f64| [-0.01, 0.0, 0.01].map(|noise| level + noise).to_vec();
    let levels = [0.0, 0.2, 0.01, 0.21, -0.01, 0.005, -0.005, 0.0, 0.01].map(node);
    let mut odd: Vec<usize> = odd_levels(&levels, LEVEL_ALPHA).iter().map(|odd| odd.node).collect();
    odd.sort();
    assert_eq!(odd, [1, 3]);
    let [first, ..] = &odd_levels(&levels, LEVEL_ALPHA)[..] else { panic!("an odd node") };
    assert!(first.interval.0 > 0.15 && first.interval.1 < 0.25, "{first:?}");
    assert!(first.normal < 0.1 && first.p < LEVEL_ALPHA);
}

#[test]
fn where_half_the_nodes_disagree_none_is_named() {
    let node = |effect: f64| [-0.01, 0.0, 0.01].map(|noise| effect + noise).to_vec();
    let halves = [0.1, -0.1, 0.1, -0.1].map(node);
    let found = disagreement(&halves, EFFECT_ALPHA, MARGIN).expect("a disagreement");
    assert!(found.departures.is_empty() && found.p < EFFECT_ALPHA);
    let two = disagreement(&[0.1, -0.1].map(node), EFFECT_ALPHA, MARGIN).expect("a disagreement");
    assert!(two.departures.is_empty());
    let one =
        disagreement(&[0.0, 0.0, 0.1].map(node), EFFECT_ALPHA, MARGIN).expect("a disagreement");
    let [departure] = one.departures[..] else { panic!("{one:?}") };
    assert!(departure.node == 2 && (departure.distance - 0.1).abs() < 1e-9);
    assert!(departure.interval.0 > MARGIN);
    // Shown to differ, but by less than matters.
    let small = [0.0, 0.0, 0.01].map(|e| (0..40).map(|i| e + 1e-3 * (i % 2) as f64).collect());
    assert_eq!(disagreement(&small, EFFECT_ALPHA, MARGIN), None);
}

#[test]
fn nodes_without_blocks_repetition_or_spread_say_nothing() {
    assert!(odd_levels(&[], LEVEL_ALPHA).is_empty());
    assert!(odd_levels(&[vec![1.0], vec![5.0]], LEVEL_ALPHA).is_empty());
    assert!(odd_levels(&[vec![1.0; 3], vec![1.0; 3], vec![1.0; 3]], LEVEL_ALPHA).is_empty());
    assert!(odd_levels(&[vec![], vec![1.0], vec![], vec![2.0]], LEVEL_ALPHA).is_empty());
    assert_eq!(disagreement(&[], EFFECT_ALPHA, MARGIN), None);
    assert_eq!(disagreement(&[vec![0.0], vec![1.0], vec![2.0]], EFFECT_ALPHA, MARGIN), None);
    assert_eq!(disagreement(&[vec![0.0; 4], vec![1.0; 4], vec![]], EFFECT_ALPHA, MARGIN), None);
}
