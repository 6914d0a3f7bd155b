//! Runs of several hosts in one record: hosts that differ by 20 % must not become a verdict about variants
//! that do not differ, and a host on which a variant does something else must be named.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const NODES: usize = 3;
const BLOCKS: usize = 12;
const TRIALS: u64 = 200;

/// A record of equal variants in blocks over nodes, whose speeds differ by 20 %. Runs of a block are on one
/// node, or with `split` each variant on another.
fn on_nodes(seed: u64, split: bool) -> Opened {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    // The sum of twelve uniform numbers is close to normal.
    let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
    let speeds = [1.0, 1.2, 1.2 * 1.2];
    let mut value = |node: usize| json!(1e6 * speeds[node] * (1.0 + 0.02 * normal()));
    let block = |block: usize| {
        let node = block / (BLOCKS / NODES);
        let nodes = if split { [0, 1] } else { [node, node] };
        json!([value(nodes[0]), value(nodes[1])])
    };
    let values: Vec<Value> = (0..BLOCKS).map(block).collect();
    let mut record = record("joined", "", &["a", "b"], json!([values]));
    let first = record.record.sessions.remove(0);
    record.record.sessions = (0..NODES)
        .map(|node| records::Session {
            node: Some(format!("n{node}")),
            boot_id: format!("boot {node}"),
            first_run: (node * 2 * BLOCKS / NODES) as u32,
            ..first.clone()
        })
        .collect();
    record
}

fn compared(record: &Opened) -> Comparison {
    let arms = ["a", "b"].map(|name| Arm { name, record, variant: name });
    compare(&arms, &CompareOptions::default()).expect("a comparison")
}

fn false_verdicts(split: bool) -> usize {
    let is_change = |seed: &u64| {
        let comparison = compared(&on_nodes(*seed, split));
        let metrics = comparison.cells.iter().flat_map(|cell| &cell.metrics);
        let mut contrasts = metrics.flat_map(|metric| &metric.contrasts);
        contrasts.any(|contrast| contrast.verdict.is_change())
    };
    (0..TRIALS).filter(is_change).count()
}

#[test]
fn a_difference_between_hosts_is_no_difference_between_variants() {
    let (kept, split) = (false_verdicts(false), false_verdicts(true));
    println!(
        "false verdicts of {TRIALS}: {kept} with blocks on one node, {split} with variants on two"
    );
    // 5 % and three standard errors of 200 trials.
    assert!(kept <= 19, "{kept} of {TRIALS}");
    assert!(split as u64 >= TRIALS * 19 / 20, "{split} of {TRIALS}");
}

#[test]
fn the_variance_between_hosts_is_a_level_of_its_own() {
    let shares = compared(&on_nodes(7, false)).variance;
    let levels: Vec<&str> = shares.iter().map(|share| share.level.as_str()).collect();
    assert_eq!(levels, ["node", "run"]);
    assert_eq!(shares[0].units, NODES);
    // ln 1, ln 1.2, ln 1.44: a standard deviation of 0.18.
    assert!((0.15..0.22).contains(&shares[0].deviation), "{:?}", shares[0]);
    assert!(shares[0].share > 0.9);
}

/// A record of two variants on four nodes of four blocks each: their levels, and what `b` does there.
fn with_effects(levels: [f64; 4], effects: [f64; 4]) -> Opened {
    let value = |block: usize, variant: usize| {
        let node = block / 4;
        let noise = 1.0 + 0.002 * ((block * 5 + variant * 3) % 7) as f64;
        1e6 * levels[node] * noise * if variant == 1 { effects[node] } else { 1.0 }
    };
    let values: Vec<Value> = (0..16).map(|n| json!([value(n, 0), value(n, 1)])).collect();
    let mut record = record("joined", "[compare]\nplacebo = 0", &["a", "b"], json!([values]));
    let first = record.record.sessions.remove(0);
    let session = |node: usize| records::Session {
        node: Some(format!("n{node}")),
        first_run: 8 * node as u32,
        ..first.clone()
    };
    record.record.sessions = (0..4).map(session).collect();
    record
}

fn verdict(comparison: &Comparison) -> &Verdict {
    &comparison.cells[0].metrics[0].contrasts[0].verdict
}

#[test]
fn an_odd_node_is_named_and_the_verdict_stands() {
    let comparison = compared(&with_effects([1.0, 1.01, 0.99, 0.5], [1.1; 4]));
    let nodes = comparison.nodes.as_ref().expect("several nodes");
    let [odd] = &nodes.odd[..] else { panic!("{nodes:?}") };
    assert_eq!(odd.node, "n3");
    assert!((odd.change + 0.5).abs() < 0.01 && odd.interval.1 < -0.4, "{odd:?}");
    assert!(nodes.disagreements.is_empty());
    assert_eq!(*verdict(&comparison), Verdict::Better { at_least: true });
    assert_eq!(nodes.nodes.iter().map(|node| node.blocks).collect::<Vec<_>>(), [4; 4]);
}

#[test]
fn a_verdict_that_one_node_contradicts_is_withdrawn_and_the_node_named() {
    let comparison = compared(&with_effects([1.0; 4], [1.3, 1.3, 0.95, 1.3]));
    let nodes = comparison.nodes.as_ref().expect("several nodes");
    assert!(nodes.odd.is_empty());
    let [one] = &nodes.disagreements[..] else { panic!("{nodes:?}") };
    assert!(one.withdrawn && one.nodes[0].node == "n2" && one.others[0].nodes == 3, "{one:?}");
    assert!((one.nodes[0].change + 0.05).abs() < 0.02 && (one.others[0].change - 0.3).abs() < 0.02);
    assert!(matches!(verdict(&comparison), Verdict::CannotTell { .. }));
    // On average nothing changes.
    let halves = compared(&with_effects([1.0; 4], [1.1, 0.9, 0.9, 1.1]));
    let one = &halves.nodes.as_ref().expect("several nodes").disagreements[0];
    assert!(one.nodes.is_empty() && one.others.len() == 2, "{one:?}");
    assert!(matches!(verdict(&halves), Verdict::CannotTell { .. }));
}

#[test]
fn a_change_that_all_nodes_show_stands_though_one_shows_more() {
    let comparison = compared(&with_effects([1.0; 4], [1.1, 1.1, 1.3, 1.1]));
    let one = &comparison.nodes.as_ref().expect("several nodes").disagreements[0];
    assert!(!one.withdrawn && one.nodes[0].node == "n2", "{one:?}");
    assert!(verdict(&comparison).is_change());
}

#[test]
fn a_record_of_one_host_has_no_nodes() {
    let alone = record("alone", "", &["a", "b"], json!([blocks(8, &[1.0, 1.1])]));
    assert_eq!(compared(&alone).nodes, None);
}
