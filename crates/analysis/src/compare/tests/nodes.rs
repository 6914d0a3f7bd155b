//! Runs of several hosts in one record: hosts that differ by 20 % must not become a verdict about variants
//! that do not differ.

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
