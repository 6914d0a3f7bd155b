//! Judging: each kind of outcome, and senseless inputs.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

const FIXED: Rule = Rule { alpha: 0.05, margin: 0.02, sequential: false, cap: 60 };
const LOOKING: Rule = Rule { sequential: true, ..FIXED };

/// `n` differences around `center`, evenly spread over ± `half`.
fn spread_out(n: usize, center: f64, half: f64) -> Vec<f64> {
    // Steps through all positions in an order that looks random.
    let step = (n * 5 / 8..)
        .find(|step| (2..=n).all(|d| !n.is_multiple_of(d) || !step.is_multiple_of(d)))
        .unwrap();
    let position = |i: usize| ((i * step) % n) as f64 / (n - 1) as f64;
    (0..n).map(|i| center + half * (2.0 * position(i) - 1.0)).collect()
}

fn check(differences: &[f64], rule: &Rule, method: Method, expected: Decision) -> Judgement {
    let judged = judge(differences, rule);
    assert_eq!((judged.method, judged.decision), (method, expected), "{judged:?}");
    if let (Some((low, high)), Some(p)) = (judged.interval, judged.p) {
        assert_eq!(low > 0.0 || high < 0.0, p <= rule.alpha, "{judged:?}");
    }
    judged
}

#[test]
fn clear_changes_are_changed_and_beyond_the_margin_at_least() {
    use Method::*;
    let changed = |at_least| Decision::Changed { at_least };
    check(&spread_out(20, 0.10, 0.03), &FIXED, SignedRank, changed(true));
    check(&spread_out(20, -0.10, 0.03), &FIXED, SignedRank, changed(true));
    check(&spread_out(20, 0.025, 0.02), &FIXED, SignedRank, changed(false));
    check(&spread_out(6, 0.10, 0.01), &FIXED, Student, changed(true));
    check(&spread_out(20, 0.10, 0.03), &LOOKING, SignedRankSequential, changed(true));
}

#[test]
fn a_change_that_surely_lies_within_the_margin_is_the_same_even_if_it_is_not_zero() {
    let judged = check(&spread_out(40, 0.005, 0.01), &FIXED, Method::SignedRank, Decision::Same);
    assert!(judged.interval.unwrap().0 > 0.0);
    check(&spread_out(5, 0.0, 0.005), &FIXED, Method::Student, Decision::Same);
    let same = Decision::Same;
    assert!(check(&spread_out(60, 0.0, 0.02), &LOOKING, Method::SignedRankSequential, same).stop);
}

#[test]
fn noise_is_undecided_with_a_number_of_further_blocks() {
    let judged = judge(&spread_out(20, 0.01, 0.2), &FIXED);
    let Decision::CannotTell { more: Some(more) } = judged.decision else { panic!("{judged:?}") };
    // Half-width about 0.06, wanted 0.01: 36 times as many.
    assert!((500..1000).contains(&more), "{more}");
    assert!(!judged.stop);
    let without_margin = Rule { margin: 0.0, ..FIXED };
    let judged = judge(&spread_out(21, 0.0, 0.2), &without_margin);
    assert_eq!(judged.decision, Decision::CannotTell { more: None });
}

#[test]
fn too_few_get_no_verdict() {
    for n in 0..4 {
        let judged = check(&vec![0.1; n], &FIXED, Method::None, Decision::TooFew { needs: 4 });
        assert_eq!((judged.interval, judged.p), (None, None));
        assert_eq!(judged.estimate.is_some(), n > 0);
    }
    let judged = judge(&spread_out(7, 0.5, 0.001), &LOOKING);
    assert_eq!(judged.decision, Decision::TooFew { needs: 8 });
    assert_eq!(judged.method, Method::Student);
    assert!(judged.interval.is_some() && !judged.stop);
}

#[test]
fn equal_differences_wait_for_ranks() {
    let changed = Decision::Changed { at_least: true };
    check(&[0.1; 4], &FIXED, Method::None, Decision::TooFew { needs: 8 });
    check(&[0.0; 7], &FIXED, Method::None, Decision::TooFew { needs: 8 });
    let judged = check(&[0.1; 8], &FIXED, Method::SignedRank, changed);
    assert_eq!((judged.interval, judged.p), (Some((0.1, 0.1)), Some(2.0 / 256.0)));
    let judged = check(&[0.0; 8], &FIXED, Method::SignedRank, Decision::Same);
    assert_eq!((judged.interval, judged.p), (Some((0.0, 0.0)), Some(1.0)));
    // The first look can only say "same".
    assert!(check(&[0.0; 8], &LOOKING, Method::None, Decision::Same).stop);
    let judged = check(&[0.1; 9], &LOOKING, Method::None, Decision::CannotTell { more: None });
    assert_eq!((judged.n, judged.stop), (8, false));
    assert!(check(&[0.1; 10], &LOOKING, Method::SignedRankSequential, changed).stop);
    let strict = Rule { alpha: 0.05 / 16.0, ..FIXED };
    check(&[0.1; 8], &strict, Method::None, Decision::TooFew { needs: 10 });
    check(
        &[0.0; 8],
        &Rule { margin: 0.0, ..FIXED },
        Method::SignedRank,
        Decision::CannotTell { more: None },
    );
}

#[test]
fn where_ranks_cannot_reach_the_level_student_stands_in() {
    let strict = Rule { alpha: 0.05 / 16.0, ..FIXED };
    let changed = Decision::Changed { at_least: true };
    check(&spread_out(9, 0.2, 0.02), &strict, Method::Student, changed);
    check(&spread_out(10, 0.2, 0.02), &strict, Method::SignedRank, changed);
    // With looks it decides only where there is no later one.
    let looking = Rule { sequential: true, ..strict };
    let early = judge(&spread_out(10, 0.2, 0.02), &looking);
    assert_eq!(early.method, Method::Student);
    assert!(matches!(early.decision, Decision::CannotTell { .. }) && !early.stop);
    let last = judge(&spread_out(10, 0.2, 0.02), &Rule { cap: 10, ..looking });
    assert_eq!((last.decision, last.stop), (changed, true));
}

#[test]
fn between_looks_the_last_look_stands() {
    let mut differences = spread_out(20, 0.1, 0.05);
    let at_look = judge(&differences, &LOOKING);
    differences.extend([-3.0; 7]);
    assert_eq!(judge(&differences, &LOOKING), at_look);
    assert_eq!(at_look.n, 20);
    differences.push(-3.0);
    assert_eq!(judge(&differences, &LOOKING).n, 28);
}

#[test]
fn blocks_stop_at_the_last_look() {
    let noise = spread_out(60, 0.0, 0.3);
    assert!(judge(&noise, &LOOKING).stop);
    assert!(!judge(&noise[..40], &LOOKING).stop);
    assert!(judge(&noise[..40], &Rule { cap: 50, ..LOOKING }).stop);
    // One look only: the whole level, as without looks.
    let one_look = Rule { cap: 9, ..LOOKING };
    assert_eq!(
        judge(&noise[..9], &one_look),
        judge(&noise[..9], &Rule { sequential: false, ..one_look })
    );
    assert!(judge(&noise[..9], &one_look).stop && !judge(&noise[..8], &one_look).stop);
}

#[test]
fn separate_samples_by_ranks_by_welch_or_not_at_all() {
    let a = spread_out(10, 5.0, 0.05);
    let b = spread_out(12, 5.2, 0.05);
    let judged = judge_separate(&a, &b, &FIXED);
    assert_eq!((judged.n, judged.method), (10, Method::RankSum));
    assert_eq!(judged.decision, Decision::Changed { at_least: true });
    assert!((judged.estimate.unwrap() - 0.2).abs() < 0.02);
    let judged = judge_separate(&a, &a, &FIXED);
    assert!(matches!(judged.decision, Decision::CannotTell { more: Some(_) }), "{judged:?}");
    let judged = judge_separate(&a, &b[..4], &FIXED);
    assert_eq!((judged.n, judged.method), (4, Method::Welch));
    let needs = |a: &[f64], b: &[f64]| judge_separate(a, b, &FIXED).decision;
    assert_eq!(needs(&a, &b[..3]), Decision::TooFew { needs: 4 });
    assert_eq!(needs(&[], &[]), Decision::TooFew { needs: 4 });
    assert_eq!(needs(&[1.0; 5], &[1.0; 5]), Decision::TooFew { needs: 8 });
    assert_eq!(needs(&[1.0; 8], &[1.0; 8]), Decision::Same);
    assert_eq!(needs(&[1.0; 8], &[2.0; 8]), Decision::Changed { at_least: true });
}

#[test]
fn values_that_are_not_finite_are_left_out() {
    let mut differences = spread_out(20, 0.1, 0.05);
    let clean = judge(&differences, &FIXED);
    differences.splice(3..3, [f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
    assert_eq!(judge(&differences, &FIXED), clean);
    assert_eq!(judge(&[f64::NAN; 9], &FIXED), judge(&[], &FIXED));
    let separate = judge_separate(&[f64::NAN, 1.0], &[f64::INFINITY], &FIXED);
    assert_eq!((separate.n, separate.method), (0, Method::None));
}

#[test]
fn no_input_and_no_rule_panics() {
    let seed = 5;
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let odd = [0.0, -0.0, 1e308, -1e308, f64::MIN_POSITIVE, f64::NAN, f64::INFINITY, 0.01, -0.03];
    let odd_rule = [0.0, 1.0, 2.0, -1.0, f64::NAN, 1e-300, 0.05, 0.5, f64::INFINITY];
    for _ in 0..20_000 {
        let mut pick = |from: &[f64]| from[random.random_range(0..from.len())];
        let (alpha, margin) = (pick(&odd_rule), pick(&odd_rule));
        let a: Vec<f64> = (0..random.random_range(0..25))
            .map(|_| odd[random.random_range(0..odd.len())])
            .collect();
        let sequential = random.random();
        let rule = Rule { alpha, margin, sequential, cap: random.random_range(0..70) };
        let cut = random.random_range(0..=a.len());
        judge(&a, &rule);
        judge_separate(&a[..cut], &a[cut..], &rule);
    }
}

#[test]
fn with_looks_false_findings_are_no_more_frequent_than_promised() {
    let (seed, trials) = (17, 4000);
    println!("seed {seed}");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut findings = 0;
    for _ in 0..trials {
        // Exponential noise has one tail: differences are symmetric only because the order is random.
        let mut value = || -random.random::<f64>().ln();
        let differences: Vec<f64> = (0..60).map(|_| value() - value()).collect();
        let rule = Rule { margin: 0.1, ..LOOKING };
        findings += u32::from(looks(60).into_iter().any(|look| {
            matches!(judge(&differences[..look], &rule).decision, Decision::Changed { .. })
        }));
    }
    // 5 % and four standard deviations.
    assert!((100..256).contains(&findings), "{findings} of {trials}");
}
