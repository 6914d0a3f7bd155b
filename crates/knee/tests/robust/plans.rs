//! A plan says what the same command without --plan does, and does nothing.

use crate::home::Home;

/// The standard output of `knee` with these arguments.
#[track_caller]
fn said(home: &Home, arguments: &str) -> String {
    let ended = home.run(arguments);
    assert!(ended.status.success(), "knee {arguments}: {}", ended.stderr);
    ended.stdout
}

#[test]
fn a_plan_of_fixed_operations_learns_from_any_record_of_the_workload() {
    let home = Home::new();
    let fixed = "run getppid --operations 1000000 --cpus 1 --plan";
    assert!(said(&home, fixed).contains("time: not known; runs of 1 point last until"));
    said(&home, "run getppid --cpus 1 --seconds 0.05 --blocks 1 --json");
    let plan = said(&home, fixed);
    assert!(plan.contains("time: about ") && plan.contains(", from record "), "{plan}");
}

#[test]
fn a_plan_as_json_has_points_times_and_effects_and_explain_plans_too() {
    let home = Home::new();
    let plan = said(&home, "run getppid --cpus 1 --seconds 1 --blocks 3 --plan --json");
    let plan: serde_json::Value = serde_json::from_str(&plan).unwrap();
    assert_eq!((&plan["runs"], &plan["points"][0]["workload"]), (&3.into(), &"getppid".into()));
    assert!(plan["seconds"]["low"].as_f64().unwrap() >= 3.0, "{plan}");
    assert_eq!(plan["effects"], serde_json::json!([]));
    let explained = said(&home, "explain getppid --cpus 1 --seconds 1 --blocks 3 --plan --json");
    let explained: serde_json::Value = serde_json::from_str(&explained).unwrap();
    let seconds = |plan: &serde_json::Value| plan["seconds"]["low"].as_f64().unwrap();
    assert!(seconds(&explained) > 3.0 * seconds(&plan), "profiles take time: {explained}");
    assert!(said(&home, "explain getppid --cpus 1 --plan").contains("nothing was run"));
    assert!(home.records().is_empty());
    home.check_nothing_is_left();
}

#[test]
fn a_size_that_does_not_fit_this_host_is_named_with_one_that_may() {
    let home = Home::new();
    std::fs::write(
        home.path("x.toml"),
        "[[load]]\nworkload = 'getppid'\n[sizes.huge]\naxes.cpus = 4096\n",
    )
    .unwrap();
    assert!(said(&home, "run x.toml --plan").contains("nothing was run"));
    let ended = home.run("run x.toml --size huge --plan");
    assert_eq!(ended.status.code(), Some(2));
    for part in
        ["x at the size huge does not fit this host; --size here may", "4096 were asked for"]
    {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
}

#[test]
fn a_plan_says_what_would_be_refused() {
    let home = Home::new();
    let plan = said(&home, "run getppid --cpus 1 --fs xfs --on /dev/null --plan");
    assert!(plan.contains("destroys      /dev/null   # all data on this device"), "{plan}");
    assert!(plan.contains("the same command without --plan is refused: "), "{plan}");
}
