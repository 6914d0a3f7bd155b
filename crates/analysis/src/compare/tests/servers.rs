//! The time of a server and its client is not that of other programs.

use serde_json::json;

use super::record;
use crate::compare::blocks::disturbance;

/// A run of one second on one CPU of four, which its tasks used for half of it. Of the others, `outside` ticks went to
/// user mode, and `inside` more on its own; `ends` are metrics of the other end.
fn check(inside: u32, outside: u32, ends: &[(&str, f64)], expected: &str) {
    let user = 50 + inside;
    let mut run = json!({
        "operations_per_s": 1.0, "wall_s": 1.0, "time.user_time": 0.5,
        "stat.cpus.user_ticks": user, "stat.cpus.nice_ticks": 0,
        "stat.all.user_ticks": user + outside, "stat.all.nice_ticks": 0, "stat.all.system_ticks": 0,
        "stat.all.idle_ticks": 400 - user - outside, "stat.all.iowait_ticks": 0, "stat.all.irq_ticks": 0,
        "stat.all.softirq_ticks": 0, "stat.all.steal_ticks": 0,
    });
    for (name, value) in ends {
        run[name] = json!(value);
    }
    let opened = record("r", "", &["a"], json!([[[run]]]));
    let why = disturbance(&opened.record, &opened.record.points[0], &opened.runs[0]);
    assert_eq!(why.unwrap_or_default(), expected);
}

#[test]
fn the_other_end_of_a_run_with_a_server_disturbs_nothing() {
    let outside = "other programs took 39.7 % of the other CPUs";
    let inside = "other programs took 29.0 % of the CPUs used";
    check(0, 120, &[], outside);
    check(30, 0, &[], inside);
    let apart = [("client.user_s", 1.2), ("client.cpus", 3.0)];
    check(0, 120, &apart, "");
    check(30, 120, &apart, inside);
    let shared = [("client.user_s", 0.3), ("client.cpus", 0.0)];
    check(30, 0, &shared, "");
    check(30, 120, &shared, outside);
    // A daemon may be anywhere, beside a server, too.
    check(30, 120, &[("daemon.user_s", 1.2)], "");
    check(30, 0, &[("daemon.user_s", 0.3), ("client.cpus", 3.0)], "");
    // A server that the user runs may be anywhere.
    check(30, 0, &[("server.user_s", 0.3)], "");
    check(0, 120, &[("server.user_s", 1.2)], "");
}
