//! Sessions of two sides: records taken in turn are compared in pairs.

use super::*;

/// Sessions of one side: records of 12 runs each, by the hour at which they start, with the speed of the
/// host at the time. The side itself is slower or faster by `factor`.
fn sessions(name: &str, factor: f64, sessions: &[(u32, f64)]) -> Opened {
    let session = |(hour, host): &(u32, f64)| {
        let mut record = alone(&format!("{name}{hour}"), factor * host);
        for run in &mut record.runs {
            run.started = format!("2026-11-20T{hour:02}:00:{:02}Z", run.run).parse().unwrap();
        }
        record
    };
    join_sessions(sessions.iter().map(session).collect()).unwrap()
}

#[test]
fn sessions_in_turn_are_compared_in_pairs() {
    check_records(
        &sessions("a", 1.0, &[(0, 1.0), (2, 0.8), (4, 1.2), (6, 1.0)]),
        &sessions("b", 1.1, &[(1, 1.01), (3, 0.8), (5, 1.19), (7, 1.02)]),
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.1059 [+0.0846, +0.1276] n=4 Relative Student Better { at_least: true }
        "#]],
    );
    // The host changed between two sessions that are no neighbours; twice in turn is too few.
    check_records(
        &sessions("a", 1.0, &[(0, 1.0), (2, 0.8)]),
        &sessions("b", 1.1, &[(1, 1.0), (3, 0.8)]),
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.1000 [-, -] n=2 Relative None Unjudged { needs: 4, why: "too few sessions in turn" }
        "#]],
    );
    // Not in turn: all sessions of one side, then all of the other.
    check_records(
        &sessions("a", 1.0, &[(0, 1.0), (1, 0.8), (2, 1.2), (3, 1.0)]),
        &sessions("b", 1.1, &[(4, 1.0), (5, 0.8), (6, 1.2), (7, 1.0)]),
        &CompareOptions::default(),
        expect![[r#"
            1 CPU operations_per_s b: +0.1000 [-0.5828, +1.1742] n=4 Relative Drift CannotTell { more: None, why: "the sessions of `a0,a1,a2,a3` all came before those of `b4,b5,b6,b7`, so drift of the host may be the difference" }
            warning: the sessions of one variant all came before those of the other: intervals allow for a drift of the host like that within each side, but a step just between the sides would look like a change; sessions of both taken in turn exclude that
        "#]],
    );
}

#[test]
fn sessions_of_different_kernels_or_points_are_not_one_side() {
    let check = |other: Opened, expected: Expect| {
        let joined = join_sessions(vec![alone("x", 1.0), other]);
        expected.assert_eq(&joined.map(|joined| joined.record.id).unwrap_or_else(|why| why));
    };
    check(alone("y", 1.0), expect!["x,y"]);
    let mut kernel = alone("y", 1.0);
    kernel.record.host.kernel_release = Some("6.19.0".to_string());
    check(
        kernel,
        expect!["x and y cannot be sessions of one side: they are of different hosts or kernels"],
    );
    let mut point = alone("y", 1.0);
    point.record.points[0].cpus = 7;
    check(point, expect!["x and y cannot be sessions of one side: they have different points"]);
}
