//! Files of two variants from a host that drifts, as people have them: without blocks. How often
//! `judge_taken` finds a change where there is none, and one of 10 %.

use host::in_parallel;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Limit, Promise, Proportion, SMALLEST_EFFECT};
use crate::judge::{Decision, Rule, judge_taken};
use crate::noise::gaussian;

/// The change that is to be found.
const EFFECT: f64 = 0.10;
/// Standard deviation of a file.
const NOISE: f64 = 0.03;

/// How a host moves from file to file.
#[derive(Clone, Copy)]
enum DriftKind {
    Still,
    /// By 10 % in all, in a straight line.
    Line,
    /// By steps of 10 %, before every tenth file.
    Steps,
    /// By 1.5 % from each file to the next.
    Walk,
}

const DRIFTS: [DriftKind; 4] =
    [DriftKind::Still, DriftKind::Line, DriftKind::Steps, DriftKind::Walk];

/// How the files were taken, and whether knee knows it.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    InTurn,
    InSequence,
    /// In sequence, and their times are lost.
    Lost,
}

/// What knee promises of files, with how often it kept it.
pub fn promises(trials: u32, seed: u64) -> Vec<Promise> {
    let row =
        |what: &str, n: usize, order: Order, effect: f64, drifts: &[DriftKind], limit: Limit| {
            let hits: u32 =
                drifts.iter().map(|drift| found(trials, seed, n, order, *drift, effect)).sum();
            let share = Proportion::new(hits, trials * drifts.len() as u32);
            Promise::new(what, share.share, Some(share.interval), limit)
        };
    let (none, all) = (Limit::AtMost(0.05), Limit::AtLeast(0.9));
    let (in_turn, sequence, lost) = (Order::InTurn, Order::InSequence, Order::Lost);
    let still = &DRIFTS[..1];
    vec![
        row("10 files in turn, equal: changed", 10, in_turn, 0.0, &DRIFTS, none),
        row("10 files in turn, 10 %: changed", 10, in_turn, EFFECT, &DRIFTS, all),
        row("10, then 10 files, equal: changed", 10, sequence, 0.0, &DRIFTS, none),
        row("14, then 14 files, 10 %: changed", 14, sequence, EFFECT, still, all),
        row("10 files, any order, equal: changed", 10, lost, 0.0, &DRIFTS, none),
        row("14 files, any order, 10 %: changed", 14, lost, EFFECT, still, all),
    ]
}

/// The number of trials in which a change was found: that change, where there is one.
fn found(trials: u32, seed: u64, n: usize, order: Order, drift: DriftKind, effect: f64) -> u32 {
    const PARTS: usize = 16;
    let parts = in_parallel(PARTS, |part| {
        let which = (part as u64) << 48 | (n as u64) << 32 | (order as u64) << 24;
        let which = which | (drift as u64) << 16 | (effect * 1000.0) as u64;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ which);
        let own = (trials as usize + part) / PARTS;
        (0..own).filter(|_| is_found(&mut random, n, order, drift, effect)).count() as u32
    });
    parts.iter().sum()
}

fn is_found(
    random: &mut Xoshiro256PlusPlus,
    n: usize,
    order: Order,
    drift: DriftKind,
    effect: f64,
) -> bool {
    let mut level = 0.0;
    let files: Vec<(bool, f64)> = (0..2 * n)
        .map(|file| {
            level += match drift {
                DriftKind::Still => 0.0,
                DriftKind::Line => 0.10 / (2 * n) as f64,
                DriftKind::Steps if random.random::<f64>() < 0.1 => 0.10 * gaussian(random),
                DriftKind::Steps => 0.0,
                DriftKind::Walk => 0.015 * gaussian(random),
            };
            let is_variant = if order == Order::InTurn { file % 2 == 1 } else { file >= n };
            let own = if is_variant { effect.ln_1p() } else { 0.0 };
            (is_variant, level + own + NOISE * gaussian(random))
        })
        .collect();
    let mut orders = vec![files];
    if order == Order::Lost {
        let (a, b) = orders[0].split_at(n);
        let in_turn = a.iter().zip(b).flat_map(|(a, b)| [*a, *b]).collect();
        orders = vec![[a, b].concat(), [b, a].concat(), in_turn];
    }
    let margin = SMALLEST_EFFECT.ln_1p();
    let rule = Rule { alpha: 0.05, margin, sequential: false, cap: u32::MAX };
    let judged = judge_taken(&orders, &rule);
    let is_right = effect == 0.0 || judged.estimate.is_some_and(|estimate| estimate > 0.0);
    matches!(judged.decision, Decision::Changed { .. }) && is_right
}
