//! Differences whose truth is known.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::super::Unit;
use super::*;

const UNITS: usize = 8;

/// A ledger of rows that vary a little: name, ns per unit, events per unit.
fn ledger(seed: u64, operations: u64, rows: &[(&str, u64, Option<u64>)]) -> Ledger {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let row = |&(name, ns, events): &(&str, u64, Option<u64>)| {
        let ns = (0..UNITS).map(|_| ns + random.random_range(0..=ns / 50)).collect();
        let row = Row::new(name, Obtained::Exact, ns);
        match events {
            None => row,
            Some(count) => row.with_events(Events {
                what: "call".to_string(),
                counts: vec![count; UNITS],
                operations: vec![operations; UNITS],
            }),
        }
    };
    let root = Row::sum_of("all", Obtained::Exact, rows.iter().map(row).collect());
    let units = root.ns.iter().map(|ns| Unit { operations, budget_ns: *ns }).collect();
    Ledger { units, root }
}

fn check_sums(change: &Change) {
    let sum: f64 = change.rows.iter().map(|row| row.new - row.base).sum();
    if !change.rows.is_empty() {
        assert!((sum - (change.new - change.base)).abs() < 1e-6, "{}", change.name);
    }
    let parts = match change.split {
        Split::Unknown => return,
        Split::Counted { by_count, by_cost, .. } => by_count + by_cost,
        Split::Shared { by_share, by_length, .. } => by_share + by_length,
    };
    assert!((parts - (change.new - change.base)).abs() < 1e-6, "{}", change.name);
}

#[test]
fn a_dearer_call_is_cost_and_a_doubled_one_is_count() {
    let base = ledger(1, 1000, &[("dear", 500_000, Some(1000)), ("twice", 300_000, Some(1000))]);
    let new = ledger(2, 1000, &[("dear", 900_000, Some(1000)), ("twice", 600_000, Some(2000))]);
    let difference = difference(&base, &new);
    let causes = difference.causes(0.05);
    let names: Vec<&str> = causes.found.iter().map(|cause| cause.path[0]).collect();
    assert_eq!(names, ["dear", "twice"]);
    for (cause, is_cost) in causes.found.iter().zip([true, false]) {
        check_sums(cause.change);
        let Split::Counted { by_count, by_cost, .. } = cause.change.split else { panic!() };
        assert_eq!(by_cost.abs() > 10.0 * by_count.abs(), is_cost, "{cause:?}");
    }
    let told: f64 = causes.found.iter().map(|cause| cause.explains).sum();
    let all = difference.root.new - difference.root.base;
    assert!((told + causes.below_noise + causes.with_length - all).abs() < 1e-9);
}

#[test]
fn the_split_does_not_depend_on_the_order() {
    let a = ledger(1, 1000, &[("call", 500_000, Some(700))]);
    let b = ledger(2, 900, &[("call", 900_000, Some(1800))]);
    let parts = |difference: Difference| match difference.root.rows[0].split {
        Split::Counted { by_count, by_cost, .. } => (by_count, by_cost),
        _ => panic!(),
    };
    let (there, back) = (parts(difference(&a, &b)), parts(difference(&b, &a)));
    assert!((there.0 + back.0).abs() < 1e-9 && (there.1 + back.1).abs() < 1e-9);
}

#[test]
fn what_is_new_or_gone_is_all_count() {
    let base = ledger(1, 1000, &[("stays", 500_000, None), ("goes", 90_000, Some(10))]);
    let new = ledger(2, 1000, &[("stays", 500_000, None), ("comes", 80_000, Some(20))]);
    let difference = difference(&base, &new);
    let row = |name: &str| difference.root.rows.iter().find(|row| row.name == name).unwrap();
    assert_eq!(row("comes").presence, Presence::New);
    assert_eq!(row("goes").presence, Presence::Gone);
    assert_eq!(row("stays").presence, Presence::Both);
    assert_eq!(row("stays").split, Split::Unknown);
    for name in ["comes", "goes"] {
        let Split::Counted { by_cost, .. } = row(name).split else { panic!() };
        assert_eq!(by_cost, 0.0);
        check_sums(row(name));
    }
}

#[test]
fn a_neighbour_is_not_blamed_for_longer_operations() {
    let neighbour = |mut ledger: Ledger| {
        ledger.root.rows[1].belongs = Belongs::Time;
        ledger
    };
    let base =
        neighbour(ledger(1, 1000, &[("work", 500_000, None), ("other tasks", 50_000, None)]));
    // Half as many operations in the same time: each has twice as much of the neighbour.
    let new = neighbour(ledger(2, 500, &[("work", 500_000, None), ("other tasks", 50_000, None)]));
    let difference = difference(&base, &new);
    check_sums(&difference.root.rows[1]);
    let causes = difference.causes(0.05);
    assert_eq!(causes.found.len(), 1, "{causes:?}");
    assert_eq!(causes.found[0].path, ["work"]);
    assert!((causes.with_length - 50.0).abs() < 2.0);
    assert!(causes.below_noise.abs() < 5.0);
}

#[test]
fn equal_things_differ_by_nothing_that_is_told() {
    let mut invented = 0;
    for seed in 0..200 {
        let rows: Vec<(String, u64)> =
            (0..30).map(|i| (format!("row {i}"), 1000 << (i % 8))).collect();
        let rows: Vec<(&str, u64, Option<u64>)> =
            rows.iter().map(|(name, ns)| (name.as_str(), *ns, None)).collect();
        let (base, new) = (ledger(2 * seed, 100, &rows), ledger(2 * seed + 1, 100, &rows));
        invented += usize::from(!difference(&base, &new).causes(0.05).found.is_empty());
    }
    assert!(invented <= 20, "{invented} of 200");
}

#[test]
fn a_sampled_row_is_no_surer_than_its_samples() {
    // Five and nine samples in a thousand, evenly over units: no variance, and no certainty.
    let sampled = |samples: u64| {
        let row = |name: &str, n: u64| Row {
            samples: Some(n * UNITS as u64),
            ..Row::new(name, Obtained::Sampled, vec![n * 1_000_000; UNITS])
        };
        let root =
            Row::sum_of("all", Obtained::Sampled, vec![row("a", samples), row("b", 100 - samples)]);
        let units = root.ns.iter().map(|ns| Unit { operations: 100, budget_ns: *ns }).collect();
        Ledger { units, root }
    };
    assert!(difference(&sampled(1), &sampled(2)).causes(0.05).found.is_empty());
    assert_eq!(difference(&sampled(1), &sampled(50)).causes(0.05).found.len(), 2);
}
