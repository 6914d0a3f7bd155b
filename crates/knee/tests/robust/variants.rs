//! Variants change the host only as far as they say, for as long as they run: whatever
//! becomes of knee, kernel settings are what they were before.

use std::collections::BTreeMap;
use std::fs;

use records::{RecordState, Run};

use crate::home::Home;
use crate::skip::{is_root, skip};

/// A setting that changes nothing that tests could notice, and is changed by no other test.
const SETTING: &str = "/proc/sys/vm/stat_interval";

fn setting() -> String {
    fs::read_to_string(SETTING).unwrap().trim().to_string()
}

/// A value that it does not have.
fn other() -> String {
    if setting() == "2" { "3".to_string() } else { "2".to_string() }
}

/// One after the other: there is only one such setting.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

#[test]
fn settings_are_changed_for_their_variant_alone_and_put_back() {
    if !is_root() {
        return skip("a kernel setting as a variant", "only root may change one");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let before = setting();
    let variant = format!("--variant other=sysctl.vm.stat_interval={}", other());
    let plain = "run getppid --cpus 1 --blocks 2 --json --variant base= --seconds";
    let mut running = home.start(&mut home.knee(&format!("{plain} 0.3 {variant}")));
    let mut seen = BTreeMap::new();
    while !running.has_ended() {
        *seen.entry(setting()).or_insert(0) += 1;
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(running.end().status.success());
    assert_eq!(setting(), before);
    assert!(seen.contains_key(&other()) && seen.contains_key(&before), "{seen:?}");
    home.check_nothing_is_left();
}

#[test]
fn settings_that_a_killed_knee_changed_are_put_back_by_the_next() {
    if !is_root() {
        return skip("a killed kernel setting", "only root may change one");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let (before, changed) = (setting(), other());
    let long = format!(
        "run getppid --cpus 1 --seconds 600 --variant a=sysctl.vm.stat_interval={changed} --variant \
         b=sysctl.vm.stat_interval={changed}"
    );
    let running = home.start(&mut home.knee(&long));
    running.wait_for_tasks(1, 2);
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(setting(), changed);
    let ended = home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
    assert_eq!(setting(), before, "{}", ended.stderr);
    assert!(ended.stderr.contains("changed by a knee that was killed"), "{}", ended.stderr);
    home.check_nothing_is_left();
}

/// A setting whose value is one of several words, in brackets.
const CHOICE: &str = "/sys/kernel/mm/transparent_hugepage/defrag";

#[test]
fn a_choice_in_brackets_is_put_back_after_an_interrupt_and_by_the_next_after_a_kill() {
    let read = || fs::read_to_string(CHOICE).unwrap_or_default();
    let before = read();
    if !is_root() || !before.contains('[') || fs::write(CHOICE, "madvise").is_err() {
        return skip("a kernel setting in brackets", "there is none here that may be written");
    }
    let _turn = TURN.lock();
    let chosen = |text: &str| text.split(['[', ']']).nth(1).map(str::to_string).unwrap();
    fs::write(CHOICE, chosen(&before)).unwrap();
    let other = if before.contains("[defer]") { "never" } else { "defer" };
    for signal in [libc::SIGINT, libc::SIGKILL] {
        let home = Home::new();
        let running = home.start(&mut home.knee(&format!(
            "run getppid --cpus 1 --seconds 600 --variant a={CHOICE}={other} --variant b={CHOICE}={other}"
        )));
        running.wait_for_tasks(1, 2);
        assert_eq!(chosen(&read()), other);
        running.signal(signal);
        running.end();
        if signal == libc::SIGKILL {
            assert_eq!(chosen(&read()), other);
            home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
        }
        assert_eq!(read(), before);
        home.check_nothing_is_left();
    }
}

#[test]
fn a_setting_that_somebody_changed_since_is_left_alone() {
    if !is_root() {
        return skip("a kernel setting changed since", "only root may change one");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let before = setting();
    let long = format!(
        "run getppid --cpus 1 --seconds 600 --variant a=sysctl.vm.stat_interval={0} --variant \
         b=sysctl.vm.stat_interval={0}",
        other()
    );
    let running = home.start(&mut home.knee(&long));
    running.wait_for_tasks(1, 2);
    running.signal(libc::SIGKILL);
    running.end();
    fs::write(SETTING, "4").unwrap();
    home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
    let found = setting();
    fs::write(SETTING, before).unwrap();
    assert_eq!(found, "4");
    home.check_nothing_is_left();
}

#[test]
fn a_setting_that_is_not_there_is_refused_before_anything_is_measured() {
    let home = Home::new();
    let ended = home.run("run getppid --variant a= --variant b=sysctl.vm.stat_intervall=1");
    assert_eq!(ended.status.code(), Some(2));
    for part in ["variant 'b'", "/proc/sys/vm/stat_intervall"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    home.check_nothing_is_left();
}

#[test]
fn a_value_that_reads_back_otherwise_is_put_back_too() {
    if !is_root() {
        return skip("a kernel setting that reads otherwise", "only root may change one");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let before = setting();
    let long = "run getppid --cpus 1 --seconds 600 --variant a=sysctl.vm.stat_interval=0x5 \
                --variant b=sysctl.vm.stat_interval=0x5";
    let running = home.start(&mut home.knee(long));
    running.wait_for_tasks(1, 2);
    running.signal(libc::SIGKILL);
    running.end();
    assert_eq!(setting(), "5");
    home.run("run getppid --cpus 1 --blocks 1 --seconds 0.02");
    assert_eq!(setting(), before);
    home.check_nothing_is_left();
}

#[test]
fn two_knees_do_not_change_settings_at_once() {
    if !is_root() {
        return skip("two knees with kernel settings", "only root may change one");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let before = setting();
    let run = |seconds: &str| {
        format!(
            "run getppid --cpus 1 --seconds {seconds} --variant a=sysctl.vm.stat_interval={0} \
             --variant b=sysctl.vm.stat_interval={0}",
            other()
        )
    };
    let first = home.start(&mut home.knee(&run("600")));
    first.wait_for_tasks(1, 2);
    let second = home.run(&run("0.02"));
    assert_eq!(second.status.code(), Some(2));
    assert!(
        second.stderr.contains("another knee is changing kernel settings"),
        "{}",
        second.stderr
    );
    first.signal(libc::SIGINT);
    first.end();
    assert_eq!(setting(), before);
    home.check_nothing_is_left();
}

#[test]
fn a_setting_that_cannot_be_put_back_is_refused() {
    let path = "/proc/sys/vm/dirty_bytes";
    if !is_root() || fs::write(path, fs::read_to_string(path).unwrap_or_default()).is_ok() {
        return skip("a setting that cannot be put back", "vm.dirty_bytes takes its value here");
    }
    let _turn = TURN.lock();
    let home = Home::new();
    let ended = home.run("run getppid --variant a= --variant b=sysctl.vm.dirty_bytes=1000000000");
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("could not be put back"), "{}", ended.stderr);
    home.check_nothing_is_left();
}

#[test]
fn effects_and_metrics_are_checked_before_anything_is_measured() {
    let home = Home::new();
    for (flag, part) in [
        ("--smallest-effect=2", "'2' must be a percentage with its sign"),
        ("--smallest-effect=0.3", "'0.3' must be a percentage with its sign"),
        ("--smallest-effect=-5%", "'-5%' must be a percentage"),
        ("--metric=operatons_per_s", "did you mean \"operations_per_s\""),
    ] {
        let ended = home.run(&format!("run getppid --variant a= --variant b=as=threads {flag}"));
        assert_eq!(ended.status.code(), Some(2), "{flag}");
        assert!(ended.stderr.contains(part), "{flag}: {}", ended.stderr);
    }
    assert!(home.records().is_empty());
}

/// Runs by the name of their variant.
fn by_variant(home: &Home) -> BTreeMap<String, Vec<Run>> {
    let opened = home.record();
    assert_eq!(opened.record.state, RecordState::Whole);
    let mut runs: BTreeMap<String, Vec<Run>> = BTreeMap::new();
    for run in opened.runs {
        let variant = opened.record.points[run.point as usize].variant.clone();
        runs.entry(variant).or_default().push(run);
    }
    runs
}

#[test]
fn each_block_has_every_variant_and_the_worker_is_started_as_it_says() {
    let home = Home::new();
    // What starts the worker writes down that it did, and with which environment.
    let script = home.path("under.sh");
    fs::write(&script, "echo \"$WHO\" >>\"$1\"\nshift\nexec \"$@\"\n").unwrap();
    let mut command = home.knee("run getppid --cpus 1 --blocks 4 --seconds 0.02 --json");
    let under = format!("under=sh {} {};env.WHO=me", script.display(), home.path("log").display());
    command.args(["--variant", "base=", "--variant", &format!("wrapped={under}")]);
    command.args(["--variant", "idle=idle_ns=100"]);
    let ended = home.start(&mut command).end();
    assert!(ended.status.success(), "{}", ended.stderr);
    let runs = by_variant(&home);
    let blocks = |name: &str| -> Vec<u32> {
        let plain = runs[name].iter().filter(|run| !run.placebo);
        plain.map(|run| run.block).collect()
    };
    // Blocks that the host disturbs are run again, so there may be more than asked for.
    assert!(blocks("base").starts_with(&[0, 1, 2, 3]), "{:?}", blocks("base"));
    for name in ["wrapped", "idle"] {
        assert_eq!(blocks(name), blocks("base"), "{name}");
    }
    let log = fs::read_to_string(home.path("log")).unwrap();
    assert_eq!(log, "me\n".repeat(runs["wrapped"].len()));
    home.check_nothing_is_left();
}

#[test]
fn each_run_says_how_long_its_work_took_if_it_was_asked_for_some() {
    let home = Home::new();
    let run = "run lock_ticket --cpus 1 --blocks 1 --seconds 0.02 --variant none= --variant";
    assert!(home.run(&format!("{run} some=hold_ns=2000;idle_ns=500")).status.success());
    let runs = by_variant(&home);
    let work = |variant: &str| -> Vec<String> {
        let metrics = runs[variant][0].metrics().expect("the run finished");
        metrics.keys().filter(|name| name.starts_with("work.")).map(str::to_string).collect()
    };
    assert_eq!(work("none"), [""; 0]);
    assert_eq!(work("some"), ["work.hold_ns", "work.idle_ns"]);
}

#[test]
fn a_worker_under_a_command_dies_with_knee() {
    let home = Home::new();
    // Stays between knee and the worker.
    let script = home.path("between.sh");
    fs::write(&script, "\"$@\"\nexit $?\n").unwrap();
    let mut command = home.knee("run getppid --cpus 1 --tasks 2 --blocks 1 --seconds 600");
    let under = format!("x=under=sh {}", script.display());
    command.args(["--variant", &under, "--variant", "base="]);
    // In random order; either way somebody is at work, and must go.
    let running = home.start(&mut command);
    crate::process::wait_for("tasks at work", || (home.processes().len() >= 3).then_some(()));
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
}

#[test]
fn a_variant_that_cannot_be_started_fails_its_runs_and_no_others() {
    let home = Home::new();
    let ended = home.run(
        "run getppid --cpus 1 --blocks 3 --seconds 0.02 --variant base= --variant b=binary=/bin/false",
    );
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let runs = by_variant(&home);
    assert!(runs["base"].iter().all(Run::finished));
    assert!(runs["b"].iter().all(|run| !run.finished()));
    home.check_nothing_is_left();
}

#[test]
fn separate_records_get_no_verdict_until_they_are_measured_in_turn() {
    let home = Home::new();
    let short = "--cpus 1 --seconds 0.02";
    for (label, value) in [("old", 5000), ("new", 6000), ("far", 50_000)] {
        let run = format!("run getppid {short} --blocks 8 --set idle_ns={value} --label {label}");
        let ended = home.run(&run);
        assert!(ended.status.success(), "{}", ended.stderr);
    }
    let contrasts = |what: &str| {
        let text = home.run(&format!("compare --json {what}")).stdout;
        let comparison: serde_json::Value = serde_json::from_str(&text).expect("a comparison");
        let cells = comparison["cells"].as_array().expect("cells").iter();
        let metrics = cells.flat_map(|cell| cell["metrics"].as_array().expect("metrics"));
        metrics.map(|metric| metric["contrasts"][0].clone()).collect::<Vec<_>>()
    };
    let is = |contrast: &serde_json::Value| contrast["verdict"]["is"].as_str().unwrap().to_string();
    let known = |is: &str| ["not_interleaved", "unjudged"].contains(&is);
    // The second is slower, and still: who knows what the host did meanwhile?
    for contrast in contrasts("old new --force") {
        // A busy host may slow one record, all of it, by more than any host is said to drift.
        let drifted = contrast["interval"].as_array().is_some_and(|ends| {
            let [low, high] = [0, 1].map(|end| ends[end].as_f64().unwrap());
            high < -0.5 || low > 1.0
        });
        assert!(known(&is(&contrast)) || drifted, "{contrast}");
    }
    // No host drifts by a factor of ten.
    let distant = is(&contrasts("old far --force")[0]);
    // Of a busy host, too few blocks may be left.
    assert!(distant == "worse" || distant == "unjudged", "{distant}");
    let ended = home.run("run new --against old --blocks 10");
    assert!(ended.status.success(), "{}", ended.stderr);
    let in_turn: Vec<String> = contrasts("last").iter().map(is).collect();
    // What the verdict is then depends on how busy this host is.
    let judged = !in_turn.iter().any(|is| is == "not_interleaved");
    assert!(!in_turn.is_empty() && judged, "{in_turn:?}");
}
