//! From events to metrics and warnings.

use expect_test::{Expect, expect};
use host::Placement;
use records::{Form, Pass, Usage};

use super::*;

fn point(tasks: u32, until: Until) -> Point {
    Point {
        workload: "getppid".into(),
        semantics: 1,
        parameters: [("idle_ns".to_string(), "0".to_string())].into(),
        form: Form::Processes,
        cpus: 2,
        placement: Placement::Cores,
        cpu_list: vec![0, 1],
        tasks,
        until,
        pass: Pass::Rate,
        dir: "/tmp".into(),
        variant: String::new(),
        cell: None,
        command: None,
        other: BTreeMap::new(),
    }
}

/// A task that starts and stops at these times after the release.
fn task(task: u32, operations: u64, start_ms: u64, stop_ms: u64) -> Event {
    Event::Task(TaskReport {
        task,
        operations,
        start_ns: start_ms * 1_000_000,
        stop_ns: stop_ms * 1_000_000,
        effects: [("granted".to_string(), operations as f64 / 2.0)].into(),
        ..TaskReport::default()
    })
}

/// A run on two CPUs, with their ticks.
fn measured(wall_ms: u64, ticks: &[(&str, i64)]) -> Event {
    let name = |kind: &str| format!("stat.cpus.{kind}_ticks");
    Event::Measured(Measured {
        wall_ns: wall_ms * 1_000_000,
        drain_ns: Some(1_000_000),
        usage: Usage { user_us: 300_000, system_us: 1_500_000, ..Usage::default() },
        worker_us: 10_000,
        deltas: ticks.iter().map(|(kind, n)| (name(kind), *n)).collect(),
        ..Measured::default()
    })
}

fn check(point: &Point, events: &[Event], shown: &[&str], expected: Expect) {
    let reduced = reduce(point, KernelThreads::OfOthers, events, "was killed by SIGKILL");
    let text = match &reduced.outcome {
        Outcome::Failed { reason } => format!("failed: {reason}\n"),
        Outcome::Finished { metrics, .. } => shown
            .iter()
            .map(|name| match metrics.get(name) {
                Some(value) => format!("{name} {value}\n"),
                None => format!("{name} missing\n"),
            })
            .collect(),
    };
    let warnings: String =
        reduced.warnings.iter().map(|w| format!("warning: {}\n", w.text)).collect();
    expected.assert_eq(&(text + &warnings));
}

const ONE_SECOND: Until = Until::Seconds(1.0);
const QUIET: &[(&str, i64)] = &[("user", 30), ("system", 150), ("idle", 20)];

#[test]
fn the_rate_is_all_operations_over_the_wall_time_and_not_a_sum_of_rates() {
    // The second task alone did 100 operations in a tenth of the time.
    check(
        &point(2, ONE_SECOND),
        &[measured(1000, QUIET), task(0, 900, 0, 1000), task(1, 100, 0, 100), Event::Finished],
        &["operations_per_s", "operations", "task_time_s", "task_operations_min", "fairness"],
        expect![[r#"
            operations_per_s 1000
            operations 1000
            task_time_s 1.1
            task_operations_min 100
            fairness 0.6097560975609756
        "#]],
    );
}

#[test]
fn fairness_of_a_fixed_count_is_that_of_the_rates() {
    check(
        &point(2, Until::OperationsPerTask(100)),
        &[measured(900, QUIET), task(0, 100, 0, 300), task(1, 100, 0, 900), Event::Finished],
        &["fairness", "operations_per_s"],
        expect![[r#"
            fairness 0.7999999999999999
            operations_per_s 222.22222222222223
        "#]],
    );
}

#[test]
fn idle_and_steal_are_shares_of_the_cpus_used_and_absent_without_ticks() {
    let ticks = [("user", 20), ("system", 120), ("idle", 38), ("iowait", 2), ("steal", 20)];
    let tasks = [task(0, 1, 0, 1000), task(1, 1, 0, 1000)];
    let run = |ticks| [&[measured(1000, ticks)], &tasks[..], &[Event::Finished]].concat();
    let shown = ["idle_percent", "steal_percent", "time.percent_of_cpu_this_job_got"];
    check(
        &point(2, ONE_SECOND),
        &run(&ticks),
        &shown,
        expect![[r#"
        idle_percent 20
        steal_percent 10
        time.percent_of_cpu_this_job_got 180
        warning: the hypervisor took 10 % of the CPUs used
    "#]],
    );
    check(
        &point(2, ONE_SECOND),
        &run(&[]),
        &shown,
        expect![[r#"
        idle_percent missing
        steal_percent missing
        time.percent_of_cpu_this_job_got 180
    "#]],
    );
}

/// The run of a server that used 1.8 s of two CPUs, and its client.
fn with_client(ticks: &[(&str, i64)], gauges: &[(&str, f64)]) -> [Event; 3] {
    let Event::Measured(mut measured) = measured(1000, ticks) else { unreachable!() };
    measured.gauges = gauges.iter().map(|(name, value)| (name.to_string(), *value)).collect();
    let ended = Event::Ended {
        exit_status: 0,
        values: [].into(),
        units: [].into(),
        missing: [].into(),
        operations: None,
    };
    [Event::Measured(measured), ended, Event::Finished]
}

#[test]
fn a_client_is_no_other_task_and_its_limits_are_warnings() {
    let shown = ["cpu_s", "client.cpu_s", "time.voluntary_context_switches"];
    let point = Point { command: Some("ask".to_string()), ..point(1, Until::End) };
    let apart = [("client.cpu_s", 0.97), ("client.cpus", 1.0), ("client.busy_percent", 97.0)];
    check(
        &point,
        &with_client(QUIET, &apart),
        &shown,
        expect![[r#"
        cpu_s 1.8
        client.cpu_s 0.97
        time.voluntary_context_switches missing
        warning: the client is the limit: its CPUs are 97 % used
    "#]],
    );
    let shared = [("client.cpu_s", 0.2), ("client.cpus", 0.0)];
    let busy = [("user", 40), ("system", 160), ("idle", 0)];
    check(
        &point,
        &with_client(&busy, &shared),
        &shown,
        expect![[r#"
        cpu_s 1.8
        client.cpu_s 0.2
        time.voluntary_context_switches missing
        warning: client and server share CPUs
    "#]],
    );
    // The same time of a client that has CPUs of its own is that of others.
    let apart = [("client.cpu_s", 0.2), ("client.cpus", 2.0)];
    check(
        &point,
        &with_client(&busy, &apart),
        &shown,
        expect![[r#"
        cpu_s 1.8
        client.cpu_s 0.2
        time.voluntary_context_switches missing
        warning: other tasks took 10 % of the CPUs used
    "#]],
    );
    // A module that the command loads works in threads of the kernel, and they are the load.
    let of_load = |ticks: &[(&str, i64)]| {
        let reduced = reduce(&point, KernelThreads::OfLoad, &with_client(ticks, &apart), "");
        reduced.warnings.into_iter().map(|warning| warning.text).collect::<Vec<_>>()
    };
    assert_eq!(of_load(&[("user", 30), ("system", 170)]), [] as [&str; 0]);
    // Programs beside it run in user mode, too; the command did so for 0.3 s, its worker for at most 0.01 s.
    assert_eq!(
        of_load(&[("user", 40), ("nice", 11), ("system", 149)]),
        ["other tasks took 10 % of the CPUs used in user mode alone"]
    );
    // A server of the user's may run anywhere.
    check(
        &point,
        &with_client(&busy, &[("server.cpu_s", 0.2)]),
        &shown,
        expect![[r#"
        cpu_s 1.8
        client.cpu_s missing
        time.voluntary_context_switches 0
    "#]],
    );
}

#[test]
fn busy_time_that_tasks_and_worker_do_not_explain_is_a_warning() {
    let ticks = [("user", 30), ("system", 170), ("idle", 0)];
    let events =
        [measured(1000, &ticks), task(0, 5, 60, 1000), task(1, 5, 0, 1000), Event::Finished];
    check(
        &point(2, ONE_SECOND),
        &events,
        &["start_skew_s"],
        expect![[r#"
        start_skew_s 0.06
        warning: the first and the last task started 6 % of the run apart
        warning: other tasks took 10 % of the CPUs used
    "#]],
    );
}

#[test]
fn work_between_operations_leaves_no_task_time_and_effects_are_summed() {
    let mut point = point(1, ONE_SECOND);
    point.parameters.insert("idle_ns".to_string(), "500".to_string());
    let events = [measured(1000, QUIET), task(0, 900, 0, 1000), Event::Finished];
    check(
        &point,
        &events,
        &["task_time_s", "effect.granted"],
        expect![[r#"
        task_time_s missing
        effect.granted 450
    "#]],
    );
}

#[test]
fn work_that_took_another_time_than_was_asked_for_is_a_warning() {
    let run = |asked_ns: &str, real_ns: f64, expected: Expect| {
        let mut point = point(1, ONE_SECOND);
        point.parameters.insert("hold_ns".to_string(), asked_ns.to_string());
        let mut measured = measured(1000, QUIET);
        if let Event::Measured(measured) = &mut measured {
            measured.gauges.insert("work.hold_ns".to_string(), real_ns);
        }
        let events = [measured, task(0, 900, 0, 1000), Event::Finished];
        check(&point, &events, &["work.hold_ns"], expected);
    };
    run(
        "1000",
        1050.0,
        expect![[r#"
        work.hold_ns 1050
    "#]],
    );
    run(
        "1000",
        1060.0,
        expect![[r#"
        work.hold_ns 1060
        warning: the work of hold_ns=1000 took 1060 ns, 6 % off
    "#]],
    );
    run(
        "1000",
        800.0,
        expect![[r#"
        work.hold_ns 800
        warning: the work of hold_ns=1000 took 800 ns, 20 % off
    "#]],
    );
    // Of so short work, 5 % is less than a turn of its loop.
    run(
        "20",
        21.9,
        expect![[r#"
        work.hold_ns 21.9
    "#]],
    );
    run(
        "20",
        23.0,
        expect![[r#"
        work.hold_ns 23
        warning: the work of hold_ns=20 took 23 ns, 15 % off
    "#]],
    );
}

#[test]
fn a_run_counts_only_if_every_task_reported_and_the_worker_finished() {
    let two = point(2, ONE_SECOND);
    let tasks = [task(0, 1, 0, 1), task(1, 1, 0, 1)];
    check(
        &two,
        &[measured(1000, QUIET), tasks[0].clone(), Event::Finished],
        &[],
        expect![[r#"
        failed: 1 of 2 tasks reported
    "#]],
    );
    check(
        &two,
        &[&[measured(1000, QUIET)], &tasks[..]].concat(),
        &[],
        expect![[r#"
        failed: the worker was killed by SIGKILL before the run was over
    "#]],
    );
    check(
        &two,
        &[&tasks[..], &[Event::Finished]].concat(),
        &[],
        expect![[r#"
        failed: the worker was killed by SIGKILL before the run was over
    "#]],
    );
    let failed = Event::Failed { reason: "task 1: writing: No space left".into() };
    check(
        &two,
        &[failed],
        &[],
        expect![[r#"
        failed: task 1: writing: No space left
    "#]],
    );
    check(
        &two,
        &[],
        &[],
        expect![[r#"
        failed: the worker was killed by SIGKILL before the run was over
    "#]],
    );
}

#[test]
fn a_command_has_its_time_and_its_own_numbers_and_no_operations() {
    let command = Point { command: Some("sleep 1".to_string()), ..point(2, Until::End) };
    let why = "the regex 'n (.*)' of stdout: found nothing, so n is missing";
    let missing = BTreeMap::from([("n".to_string(), why.to_string())]);
    let ended = Event::Ended {
        exit_status: 3,
        values: [("rate".to_string(), 17.5)].into(),
        units: BTreeMap::new(),
        missing: missing.clone(),
        operations: None,
    };
    let events = [measured(1000, QUIET), ended, Event::Finished];
    assert_eq!(reduce(&command, KernelThreads::OfOthers, &events, "").missing, missing);
    let shown = ["wall_s", "exit_status", "rate", "operations", "time.user_time", "steal_percent"];
    check(
        &command,
        &events,
        &shown,
        expect![[r#"
            wall_s 1
            exit_status 3
            rate 17.5
            operations missing
            time.user_time 0.3
            steal_percent 0
            warning: the regex 'n (.*)' of stdout: found nothing, so n is missing
        "#]],
    );
    check(
        &command,
        &[measured(1000, QUIET), Event::Finished],
        &[],
        expect![[r#"
            failed: the worker did not report how the command ended
        "#]],
    );
}

#[test]
fn a_command_whose_operations_are_counted_has_a_rate() {
    let command = Point { command: Some("sleep 1".to_string()), ..point(2, Until::End) };
    let ended = Event::Ended {
        exit_status: 0,
        values: BTreeMap::new(),
        units: BTreeMap::new(),
        missing: BTreeMap::new(),
        operations: Some(5000),
    };
    check(
        &command,
        &[measured(1000, QUIET), ended, Event::Finished],
        &["operations", "operations_per_s"],
        expect![[r#"
            operations 5000
            operations_per_s 5000
        "#]],
    );
}
