//! Recorded operations simulated on described hosts: from a file of steps, without a guest.

use std::fs;
use std::path::Path;

use expect_test::expect_file;
use serde_json::Value;

use crate::home::Home;

/// Two operations of two tasks, as `knee conflicts open_close_own --steps --json` printed them.
pub const STEPS: &str = include_str!("open_close_own.json");

fn home_with_steps() -> Home {
    let home = Home::new();
    fs::write(home.path("steps.json"), STEPS).unwrap();
    home
}

fn answer(home: &Home, line: &str) -> Value {
    let ended = home.run(line);
    assert!(ended.status.success(), "{line}: {}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

#[test]
fn an_operation_stops_at_the_line_that_all_tasks_write() {
    let home = home_with_steps();
    let line =
        "simulate operation steps.json --host skylake-28-2s --cpus 1,2,56 --draws 2 --length 300us";
    let page = home.run(line).stdout;
    for said in [
        "`open_close_own` of 6.1.",
        "At 56 CPUs without `aa_profile.label.count?` it would be",
        "simulated, not measured",
        "an instruction takes 0.30 ns, by the host's costs.instruction",
    ] {
        assert!(page.replace("\n  ", " ").contains(said), "{said}: {page}");
    }
    let answer = answer(&home, &format!("{line} --json"));
    let golden = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = golden.join("../answers/tests/golden/simulate-operation.json");
    expect_file![golden].assert_eq(&format!("{answer:#}\n"));
}

#[test]
fn the_source_of_a_lock_of_knee_is_simulated_in_place_of_its_trace() {
    let home = Home::new();
    fs::write(home.path("steps.json"), STEPS.replace("\"open_close_own\"", "\"lock_mcs\""))
        .unwrap();
    let line = "simulate operation steps.json --host skylake-28-2s --cpus 1,56 --draws 0";
    let page = home.run(line).stdout.replace("\n  ", " ");
    assert!(page.contains("the source of mcs is simulated"), "{page}");
    assert!(!page.contains("stops it"), "{page}");
    let answer = answer(&home, &format!("{line} --json"));
    let rate = |point: usize| {
        answer["operations"][0]["points"][point]["operations_per_s"].as_f64().unwrap()
    };
    // A part of the operation is inside the lock, where one task is at a time.
    assert!(rate(1) < rate(0) * 6.0, "{answer:#}");
}

#[test]
fn the_time_of_an_instruction_is_fitted_to_one_cpus_rate() {
    let home = home_with_steps();
    let line = "simulate --operation steps.json --host skylake-28-2s --cpus 1 --draws 0 --rate 500k/s --json";
    let answer = answer(&home, line);
    let rate = answer["operations"][0]["points"][0]["operations_per_s"].as_f64().unwrap();
    assert!((rate / 500e3 - 1.0).abs() < 0.02, "{rate}");
}

#[test]
fn what_cannot_be_simulated_is_said() {
    let home = home_with_steps();
    let mut without: Value = serde_json::from_str(STEPS).unwrap();
    without["traced"][0].as_object_mut().unwrap().remove("recorded");
    fs::write(home.path("without.json"), without.to_string()).unwrap();
    let cut = STEPS.replace("\"unlock\"", "\"lock\"").replace("\"tasks\":[[{", "\"tasks\":[[],[{");
    fs::write(home.path("cut.json"), cut).unwrap();
    fs::write(home.path("text.json"), "no answer").unwrap();
    let check = |line: &str, said: &str| {
        let ended = home.run(&format!("simulate operation {line}"));
        assert!(!ended.status.success(), "{line}");
        assert!(ended.stderr.contains(said), "{line}: {}", ended.stderr);
    };
    check(
        "without.json",
        "without.json has no operation step by step: `knee conflicts LOAD --steps --json` adds them",
    );
    check("cut.json", "a task has no whole operation");
    check("text.json", "text.json is no answer of `knee conflicts --json`");
    check("missing.json", "reading missing.json");
    check("steps.json --host nowhere", "nowhere");
    check("steps.json --host uma-2 --cpus 4", "2");
    check("steps.json --rate 100M/s --cpus 1", "leave no time for");
    check("steps.json steps.json --rate 1M/s", "--rate is of one operation, and 2 are simulated");
}
