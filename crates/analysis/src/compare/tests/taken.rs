//! Files without blocks: single values in an order that is known or not.

use super::*;

/// Imported files of two variants, one run each, in this order; `a` and `b` say whose they are. `b` is higher by
/// `factor`. The host is at the level of each time.
fn files(order: &str, factor: f64, timed: bool, host: impl Fn(usize) -> f64) -> Opened {
    let noise = |i: usize| 1.0 + [0.01, -0.02, 0.015, 0.0, -0.01, 0.02, -0.005, 0.01][i % 8];
    let value = |(i, side): (usize, char)| {
        100.0 * host(i) * noise(i) * if side == 'b' { factor } else { 1.0 }
    };
    let all: Vec<(usize, char)> = order.chars().enumerate().collect();
    let of = |side: char| all.iter().copied().filter(move |(_, own)| *own == side);
    let n = of('a').count();
    let blocks: Vec<[f64; 2]> = of('a').zip(of('b')).map(|(a, b)| [value(a), value(b)]).collect();
    let mut opened = record("r", "", &["a", "b"], json!([blocks]));
    // As an import has them: the files of one variant after those of the other.
    let mut runs: Vec<Run> = opened.runs.iter().cloned().collect();
    runs.sort_by_key(|run| (run.point, run.block));
    for (number, run) in runs.iter_mut().enumerate() {
        let (at, _) =
            if number < n { of('a').nth(number) } else { of('b').nth(number - n) }.unwrap();
        run.run = number as u32;
        run.started = format!("2026-11-20T12:{at:02}:00Z").parse().unwrap();
    }
    opened.runs = runs.into();
    opened.record.source = Some(records::Source {
        format: "sysbench".to_string(),
        files: (0..2 * n)
            .map(|i| (format!("{i}.log"), host::durable::Seal::for_bytes(b"x")))
            .collect(),
        unit: ReplicationUnit::Run,
        blocks: false,
        sessions: (0..2 * n as u32).collect(),
        timed,
        lacks: Vec::new(),
    });
    opened
}

const IN_TURN: &str = "abababababab";
const IN_SEQUENCE: &str = "aaaaaabbbbbb";

#[test]
fn files_in_turn_have_verdicts_beside_a_drift() {
    let falling = |i: usize| 1.0 - 0.03 * i as f64;
    check(
        &files(IN_TURN, 1.1, true, falling),
        expect![[r#"
        1 CPU operations_per_s b: +0.0912 [+0.0673, +0.1155] n=6 Relative Drift Better { at_least: true }
    "#]],
    );
    check(
        &files(IN_TURN, 1.0, true, falling),
        expect![[r#"
        1 CPU operations_per_s b: -0.0080 [-0.0297, +0.0141] n=6 Relative Drift CannotTell { more: Some(24), why: "" }
    "#]],
    );
}

#[test]
fn files_of_one_side_after_the_other_must_differ_more() {
    let still = |_: usize| 1.0;
    check(
        &files(IN_SEQUENCE, 10.0, true, still),
        expect![[r#"
        1 CPU operations_per_s b: +8.9920 [+8.4306, +9.4100] n=6 Relative Drift Better { at_least: true }
        warning: the files of one variant all came before those of the other: intervals allow for a drift of the host like that within each side, but a step just between the sides would look like a change; files of both taken in turn exclude that
    "#]],
    );
    check(
        &files(IN_SEQUENCE, 1.03, true, still),
        expect![[r#"
        1 CPU operations_per_s b: +0.0292 [-0.0286, +0.0722] n=6 Relative Drift CannotTell { more: None, why: "the files of `a` all came before those of `b`, so drift of the host may be the difference" }
        warning: the files of one variant all came before those of the other: intervals allow for a drift of the host like that within each side, but a step just between the sides would look like a change; files of both taken in turn exclude that
    "#]],
    );
    // The step is in the order of the files, not in their variant.
    let rising = |i: usize| 1.0 + 0.03 * i as f64;
    check(
        &files(IN_SEQUENCE, 1.0, true, rising),
        expect![[r#"
        1 CPU operations_per_s b: -0.0090 [-0.0601, +0.0427] n=6 Relative Drift CannotTell { more: None, why: "the files of `a` all came before those of `b`, so drift of the host may be the difference" }
        warning: the files of one variant all came before those of the other: intervals allow for a drift of the host like that within each side, but a step just between the sides would look like a change; files of both taken in turn exclude that
    "#]],
    );
}

#[test]
fn files_without_times_have_verdicts_that_hold_in_each_order() {
    let still = |_: usize| 1.0;
    check(
        &files(IN_TURN, 1.5, false, still),
        expect![[r#"
        1 CPU operations_per_s b: +0.4887 [+0.4214, +0.5403] n=6 Relative Drift Better { at_least: true }
        warning: the order of the files is not known: a verdict holds whether one side came first or both in turn, but a step of the host just between the sides would look like a change; files of both taken in turn exclude that
    "#]],
    );
    check(
        &files(IN_TURN, 1.02, false, still),
        expect![[r#"
        1 CPU operations_per_s b: +0.0123 [-0.0334, +0.0474] n=6 Relative Drift CannotTell { more: None, why: "the order of the files is not known, so drift of the host may be the difference" }
        warning: the order of the files is not known: a verdict holds whether one side came first or both in turn, but a step of the host just between the sides would look like a change; files of both taken in turn exclude that
    "#]],
    );
}

#[test]
fn each_run_with_a_boot_of_its_own_counts() {
    let mut boots = files(IN_TURN, 1.5, false, |_| 1.0);
    boots.record.source.as_mut().unwrap().unit = ReplicationUnit::Boot;
    check(
        &boots,
        expect![[r#"
        1 CPU operations_per_s b: +0.4887 [+0.4623, +0.5156] n=6 Relative Welch Better { at_least: true }
        warning: the boots were not in turn: what changed on the host between those of one variant and those of the other counts as a difference too
    "#]],
    );
}

#[test]
fn values_in_two_modes_are_judged_within_them() {
    let mode = |i: usize| if [0, 3, 5, 8].contains(&i) { 1.4 } else { 1.0 };
    check(
        &files(IN_TURN, 1.1, true, mode),
        expect![[r#"
        1 CPU operations_per_s b: +0.0917 [+0.0727, +0.1092] n=6 Relative Drift Better { at_least: true }
    "#]],
    );
}
