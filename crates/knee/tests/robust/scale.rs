//! `knee scale`, `knee scale forecast` and `knee compare fragile` from the command line, on curves in files and on short runs.

use std::fs;

use serde_json::Value;

use crate::home::{Ended, Home};
use crate::skip::{is_root, skip};

/// Three runs each of one lock, held for 100 ns of 1 us, at these numbers of CPUs.
fn one_lock(counts: &[u32]) -> String {
    let rate = |cpus: u32| -> f64 {
        // The closed queue by mean value analysis: the time at the lock grows by the tasks that are found there.
        let (mut at_lock, mut rate) = (0.0, 0.0);
        for tasks in 1..=cpus {
            let passing_ns = 100.0 * (1.0 + at_lock);
            rate = f64::from(tasks) / (900.0 + passing_ns);
            at_lock = rate * passing_ns;
        }
        1e9 * rate
    };
    let line = |&cpus: &u32| {
        let rate = rate(cpus);
        format!("{cpus},{},{rate},{}\n", 0.99 * rate, 1.01 * rate)
    };
    let lines: String = counts.iter().map(line).collect();
    format!("cpus,a,b,c\n{lines}")
}

fn run(arguments: &str, curve: &str) -> Ended {
    let home = Home::new();
    fs::write(home.path("curve.csv"), curve).unwrap();
    let mut command = home.knee(&format!("{arguments} {}", home.path("curve.csv").display()));
    home.start(&mut command).end()
}

#[test]
fn a_curve_in_a_file_has_a_knee_and_a_law() {
    let curve = one_lock(&[1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64]);
    let text = run("scale --rate a,b,c", &curve).stdout;
    let parts = [
        "knee at 12 CPUs (12 to 12): the fewest with 90 % of the highest rate",
        "explained by one lock: held 100 ns (",
        "linear growth: does not fit",
    ];
    for part in parts {
        assert!(text.contains(part), "no '{part}' in:\n{text}");
    }
    let json = run("scale --rate a,b,c --json", &curve).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    let scaling = &json[0]["scaling"];
    assert_eq!(scaling["law"], "queue");
    assert!((scaling["knee"]["value"].as_f64().unwrap() - 11.5).abs() < 0.5, "{scaling}");
    assert_eq!(scaling["peak"]["place"], "approached");
}

#[test]
fn forecasts_say_what_they_rest_on_and_refuse_to_go_far() {
    let curve = one_lock(&[1, 2, 3, 4, 6, 8]);
    let near = run("scale forecast --rate a,b,c --to 12,16", &curve).stdout;
    for part in
        ["a forecast, not measured, by one lock", "the time that the lock is held accounts for"]
    {
        assert!(near.contains(part), "no '{part}' in:\n{near}");
    }
    let far = run("scale forecast --rate a,b,c --to 32", &curve);
    assert_eq!(far.status.code(), Some(2));
    assert!(far.stderr.contains("a curve up to 8 CPUs says nothing beyond 16"), "{}", far.stderr);
    let known = run("scale forecast --rate a,b,c --to 64 --held 100ns --hand-over 1ns", &curve);
    assert_eq!(known.status.code(), Some(0), "{}", known.stderr);
    // So noisy that it contradicts no hand-over.
    let rates = |n: u32| [0.8, 1.0, 1.25].map(|share| (share * 1e6 * f64::from(n)).to_string());
    let noisy = [1, 2, 3, 4, 6, 8].map(|n| format!("{n},{}\n", rates(n).join(",")));
    let host = "scale forecast --rate a,b,c --to 64 --held 100ns --host generic-2s --lock mcs";
    let simulated = run(host, &("cpus,a,b,c\n".to_string() + &noisy.concat()));
    let part = "host's numbers): mcs, simulated on generic-2s with 2 to";
    let text = simulated.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(part), "{}{}", simulated.stdout, simulated.stderr);
}

#[test]
fn zeros_are_left_out_and_mixed_units_are_asked_about() {
    let zero = run("scale", "1 2\n2 4\n3 0\n4 8\n8 15\n16 20\n");
    assert!(zero.stdout.contains("left out: 3 CPUs, where a run completed"), "{}", zero.stdout);
    let mixed = run("scale", "1 2\n2 4\n4 8\n8 15000\n16 20000\n");
    let text = mixed.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        text.contains("rates at 4 and 8 CPUs differ by a factor of 1.88k: are both in one unit?"),
        "{}",
        mixed.stdout
    );
}

#[test]
fn files_of_will_it_scale_are_read() {
    let rows = [1, 2, 4, 8].map(|tasks| format!("{tasks},{},0,1,0,{tasks}\n", 100 * tasks));
    let head = "tasks,processes,processes_idle,threads,threads_idle,linear\n0,0,100,0,100,0\n";
    let ended = run("scale --rate processes", &(head.to_string() + &rows.concat()));
    assert!(
        ended.stdout.contains("explained by linear growth"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn curves_that_say_too_little_are_refused() {
    for (curve, part) in [
        ("1 2\n2 3\n", "rates at 4 or more CPU counts; here are 2 (1, 2)"),
        ("1 2\n2 3\n3 0\n4 5\n", "here are 3 (1, 2, 4), and those with a rate of 0 (3), which"),
        ("1 2\n2 3\n3 -1\n4 5\n", "a rate of -1 at 3 CPUs: rates must be above 0"),
        ("cpus a b\n1 2 3\n", "it has the columns a, b: name those with the rate by --rate"),
    ] {
        let ended = run("scale", curve);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
}

/// What each unusual curve still says, or why it says nothing.
#[test]
fn unusual_curves_say_what_can_be_said() {
    let three = |rate: fn(u32) -> f64| -> String {
        let line = |cpus: u32| {
            let rate = rate(cpus);
            format!("{cpus},{rate},{},{}\n", 0.99 * rate, 1.01 * rate)
        };
        "cpus,a,b,c\n".to_string() + &[1, 2, 4, 8].map(line).concat()
    };
    let falls = three(|cpus| 1000.0 / f64::from(cpus));
    let level = three(|_| 100.0);
    for (curve, part, status) in [
        // Falls from the start.
        (falls.as_str(), "past 1 CPU the rate falls, by 87.5 %", 0),
        (level.as_str(), "knee at 1 CPU (1 to 1)", 0),
        // One run a point.
        ("1,100\n2,190\n4,350\n8,600\n16,800\n", "no interval: each point ran once", 0),
        // Points twice: they are runs.
        ("1,100\n2,190\n2,191\n4,350\n4,352\n8,600\n8,610\n", "measured at 1, 2, 4, 8 CPUs", 0),
        // Missing CPUs, units, and what is no number.
        ("1,100\n,190\n4,350\n8,600\n", "line 2: \"\" is not a whole number of CPUs", 2),
        ("1,100 calls\n2,190\n4,350\n8,600\n", "\"100 calls\" is not a rate", 2),
        ("1,1\n2,2\n4,3\n8,nan\n", "\"nan\" is not a rate", 2),
        ("1,1\n2,2\n4,3\n8,-5\n", "a rate of -5 at 8 CPUs", 2),
        ("", "it is empty", 2),
    ] {
        let rates = if curve.starts_with("cpus") { " --rate a,b,c" } else { "" };
        let ended = run(&format!("scale{rates}"), curve);
        let all = ended.stdout + &ended.stderr;
        assert!(all.contains(part), "no '{part}' in:\n{all}");
        assert_eq!(ended.status.code(), Some(status), "{all}");
    }
}

#[test]
fn doses_larger_than_the_run_are_said_not_to_fit() {
    let home = Home::new();
    let dosed = "run lock_mcs --cpus 1 --as threads --seconds 0.05 --blocks 1";
    let ended = home.run(&format!("{dosed} --dose inside=0,2s,4s"));
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
    assert!(ended.stderr.contains("hold_ns="), "{}", ended.stderr);
    let ended = home.run(&format!("{dosed} --dose inside=0,5ms,10ms"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let part = "runs of 50 ms complete too few operations of 10 ms to say anything";
    assert!(ended.stdout.contains(part), "{}", ended.stdout);
}

#[test]
fn kernel_locks_are_held_longer_by_their_dose() {
    if !is_root() || !doctor_finds_bpf() {
        return skip("doses of kernel locks", "BPF needs root, and a knee built with it");
    }
    let home = Home::new();
    let run = "run posix_lock_shared posix_lock_ranges --cpus all --tasks-per-cpu 2 --seconds 0.1 --blocks 1";
    let ended = home.run(&format!("{run} --dose spinlock=0,5us,20us"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let [record] = &home.records()[..] else { panic!("no record") };
    let mut all = 0.0;
    for run in &record.runs {
        let point = &record.record.points[run.point as usize];
        let dose_ns: f64 = point.parameters["spinlock_delay_ns"].parse().unwrap();
        let [times, s] = ["delayed_locks", "delayed_s"].map(|metric| run.value(metric).unwrap());
        // A delay ends at the first look at the clock after its end.
        assert!(1e9 * s >= times * dose_ns - 1.0, "{times} times {dose_ns} ns: {s} s");
        all += times;
    }
    assert!(ended.stdout.contains("doses spinlock: posix_lock_shared"), "{}", ended.stdout);
    println!("{all} locks were delayed");
    let ended =
        home.run("run getppid --set mutex_delay_ns=5 --set rwsem_delay_ns=5 --seconds 0.01");
    assert!(ended.stderr.contains("one kind are delayed at a time"), "{}", ended.stderr);
}

/// Whether this binary has its programs.
fn doctor_finds_bpf() -> bool {
    !Home::new().run("doctor").stdout.contains("built without BPF")
}

#[test]
fn a_search_measures_the_counts_that_it_needs_and_ends_as_asked() {
    let home = Home::new();
    let ended = home.run("run getppid --cpus adaptive --budget 60s --seconds 0.02 --seed 1");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let [record] = &home.records()[..] else { panic!("no record") };
    let all = record.record.topology.cpus.len();
    assert_eq!(record.record.points.iter().map(|point| point.cpus).max(), Some(all as u32));
    let tried: std::collections::BTreeSet<u32> = record.runs.iter().map(|run| run.point).collect();
    // Too few counts for a law: each is measured five times.
    assert!(all >= 4 || record.runs.len() == 5 * tried.len(), "{} runs", record.runs.len());
    assert_eq!(record.record.state, records::RecordState::Whole);
    let again =
        home.resume("run getppid --cpus adaptive --budget 60s --seconds 0.02 --seed 1 --resume");
    assert!(again.stderr.contains("no partial record"), "{}", again.stderr);
}

#[test]
fn a_verdict_is_measured_again_at_changed_loads() {
    let home = Home::new();
    let run = "run lock_ticket --cpus 1 --as threads --seconds 0.02 --blocks 4 --seed 2 \
               --variant few=idle_ns=100 --variant many=idle_ns=1000";
    assert_eq!(home.run(run).status.code(), Some(0));
    let ended = home.run("compare fragile few many --blocks 3");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    // How far the verdict is from flipping depends on how busy this host is.
    for part in ["'many' is worse than 'few'", "one task more", "more inside ("] {
        assert!(ended.stdout.contains(part), "no '{part}' in:\n{}", ended.stdout);
    }
    // Its time between operations is what the variants differ in.
    assert!(!ended.stdout.contains("more outside"), "{}", ended.stdout);
    let json: Value =
        serde_json::from_str(&home.run("compare fragile last --json").stdout).unwrap();
    let answer = json["fragile"]["fragility"]["answer"].as_str().unwrap_or_default();
    assert!(["robust", "sensitive"].contains(&answer), "{json}");
    let alone = home.run("run brk --cpus 1 --seconds 0.02 --blocks 1");
    assert_eq!(alone.status.code(), Some(0));
    let refused = home.run("compare fragile last");
    assert!(refused.stderr.contains("a verdict is about two variants"), "{}", refused.stderr);
}

#[test]
fn sweeps_up_and_down_and_doses_beside_a_curve_are_told() {
    let home = Home::new();
    let run = "run getppid --up-down --cpus 1,2 --tasks-per-cpu 1 --seconds 0.2 --blocks 4";
    if std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2) {
        let ended = home.run(run);
        assert!(ended.stdout.contains("over 2 pairs of sweeps"), "{}", ended.stdout);
    }
    let dosed = "run lock_mcs --set hold_ns=500 --cpus 1 --as threads --seconds 0.2 --blocks 3 \
                 --dose inside=0,200ns,400ns,800ns";
    let ended = home.run(dosed);
    assert!(
        ended.stdout.contains("in brackets: where a gain will lie that is measured"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
}

#[test]
fn three_numbers_of_threads_are_a_curve_without_a_law() {
    let home = Home::new();
    let row =
        |threads: u32, run: f64| format!("{threads},{}\n", 100.0 * f64::from(threads) * 0.9 + run);
    let rows: String =
        [1, 2, 4].iter().flat_map(|n| [row(*n, 0.0), row(*n, 1.0), row(*n, 2.0)]).collect();
    fs::write(home.path("pool.csv"), format!("threads,tps\n{rows}")).unwrap();
    assert_eq!(home.run("record import pool.csv").status.code(), Some(0));
    let shown: Value = serde_json::from_str(&home.run("show last --json").stdout).unwrap();
    let curves = shown["curves"].as_array().unwrap();
    assert_eq!(curves.len(), 1, "{shown}");
    assert_eq!(curves[0]["cells"].as_array().map(Vec::len), Some(3));
    let ended = home.run("scale last");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stdout);
    for part in
        ["4 or more numbers of threads; here are 3 (1, 2, 4)", "knee show", "has the rates there"]
    {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    // Three sizes are settings to compare, no axis.
    fs::write(home.path("sizes.csv"), "metric,value,size\nms,5,1\nms,6,2\nms,7,4\n").unwrap();
    assert_eq!(home.run("record import sizes.csv").status.code(), Some(0));
    let shown: Value = serde_json::from_str(&home.run("show last --json").stdout).unwrap();
    let curves = shown["curves"].as_array().unwrap();
    assert!(
        curves.iter().all(|curve| curve["cells"].as_array().map(Vec::len) == Some(1)),
        "{shown}"
    );
}
