//! `knee watch` as a nightly job calls it: on repositories made here, whose programs print their costs, so that answers are
//! known and no test depends on the speed of a host.

use std::fs;
use std::process::Command;
use std::time::Duration;

use crate::bisect::{BENCH, Project};
use crate::home::Ended;

/// A repository whose commits have these levels, and equal builds where the ids are equal, too.
fn project(commits: &[(u32, u32)]) -> Project {
    Project::new(commits.len(), |commit| {
        let (level, id) = commits[commit];
        vec![
            ("bench.sh".to_string(), BENCH.to_string()),
            ("level".to_string(), level.to_string()),
            ("id".to_string(), id.to_string()),
            (format!("notes/{commit}"), commit.to_string()),
        ]
    })
}

fn watch(project: &Project, words: &[&str]) -> Ended {
    let mut knee = project.home.knee("watch");
    project.home.start(knee.args(words)).end_within(Duration::from_secs(500))
}

/// Runs a verb that must succeed.
fn done(project: &Project, words: &[&str]) -> Ended {
    let ended = watch(project, words);
    assert_eq!(ended.status.code(), Some(0), "{words:?}: {}", ended.stderr);
    ended
}

/// A project with a line that begins at its first commit.
fn line(commits: &[(u32, u32)]) -> Project {
    let project = project(commits);
    begin(&project);
    project
}

/// Begins a line at the first commit.
fn begin(project: &Project) {
    let words = "init line.toml --git project --cpus 1 --count --command";
    let mut words: Vec<&str> = words.split(' ').collect();
    let build = "cat level id > bench.bin";
    words.extend(["sh bench.sh", "--value", "cost: {}", "--build", build]);
    words.extend(["--anchor", &project.ids[0]]);
    done(project, &words);
}

fn shown(project: &Project) -> serde_json::Value {
    let ended = done(project, &["show", "line.toml", "--json"]);
    serde_json::from_str(&ended.stdout).unwrap()
}

/// The points by the numbers of their commits.
fn points(project: &Project) -> Vec<usize> {
    let answer = shown(project);
    let number = |point: &serde_json::Value| {
        project.ids.iter().position(|id| point["commit"] == id.as_str()).unwrap_or(99)
    };
    answer["points"].as_array().unwrap().iter().map(number).collect()
}

/// The changes that were said: the commit's number, and what became of it.
fn said(project: &Project) -> Vec<(usize, String)> {
    let answer = shown(project);
    let changes = answer["changes"].as_array().unwrap().iter();
    let said = changes.filter(|change| change["is"] != "not_confirmed").map(|change| {
        let number = project.ids.iter().position(|id| change["after"] == id.as_str()).unwrap();
        (number, change["is"].as_str().unwrap().to_string())
    });
    said.collect()
}

#[test]
fn a_line_of_twelve_builds_finds_what_changed_and_forgets_what_is_accepted() {
    let mut commits: Vec<(u32, u32)> =
        (0..12).map(|n| (if n < 6 { 100 } else { 108 }, n)).collect();
    // A commit that leaves the build equal.
    commits[4] = commits[3];
    let project = line(&commits);
    done(&project, &["add", "line.toml", &project.ids[0]]);
    done(&project, &["check", "line.toml"]);
    let range = format!("{}..main", project.ids[0]);
    done(&project, &["add", "line.toml", "--every", &range]);
    assert_eq!(points(&project), (0..12).collect::<Vec<_>>());
    assert_eq!(said(&project), [(6, "open".to_string())]);
    let answer = shown(&project);
    let equal = &answer["points"][4];
    assert_eq!(equal["same_build_as"], project.ids[3].as_str());
    let values = &answer["series"][0]["values"];
    assert_eq!((&equal["records"], &values[4]), (&serde_json::json!([]), &values[3]));
    let open = watch(&project, &["check", "line.toml"]);
    assert_eq!(open.status.code(), Some(3), "{}", open.stderr);
    assert!(open.stderr.contains(project.short(6)), "{}", open.stderr);
    let text = done(&project, &["line.toml", "--html", "line.html"]).stdout;
    assert_eq!(text, done(&project, &["show", "line.toml"]).stdout);
    let page = fs::read_to_string(project.home.path("line.html")).unwrap();
    assert!(page.contains("is worse by") && page.contains(project.short(6)), "{page}");
    assert!(text.contains("is worse by +") && text.contains(" ^"), "{text}");
    let open_metrics = done(&project, &["line.toml", "--openmetrics", "-"]).stdout;
    done(&project, &["show", "line.toml", "--openmetrics", "line.prom"]);
    assert_eq!(open_metrics, fs::read_to_string(project.home.path("line.prom")).unwrap());
    assert!(
        open_metrics.contains("\nknee_watch_open_for_the_worse{line=\"line.toml\"} 1\n"),
        "{open_metrics}"
    );
    assert!(open_metrics.ends_with("\n# EOF\n"), "{open_metrics}");

    let unknown = watch(&project, &["ack", "line.toml", "zzz", "--why", "x"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", unknown.stderr);
    assert!(unknown.stderr.contains(project.short(6)), "{}", unknown.stderr);
    done(&project, &["ack", "line.toml", project.short(6), "--why", "checks each block"]);
    assert_eq!(said(&project), [(6, "accepted".to_string())]);
    done(&project, &["check", "line.toml"]);
    done(&project, &["ack", "line.toml", &project.ids[6][..8], "--false", "--why", "no"]);
    let score = &shown(&project)["score"];
    assert_eq!((&score["right"], &score["said"]), (&0.into(), &1.into()));
    project.home.check_nothing_is_left();
}

/// Prints its cost; from the host's step on, all builds but the anchor's cost 6 % more.
const STEPPED: &str = "noise=$(od -An -N2 -tu2 /dev/urandom)\n\
    cost=$(( $(cat level) * 1000 + noise % 3000 ))\n\
    if [ -e ../../../step ] && [ \"$(cat id)\" != 0 ]; then cost=$(( cost * 106 / 100 )); fi\n\
    echo \"cost: $cost\"\n";

#[test]
fn a_line_of_sixty_builds_finds_two_changes_and_not_the_hosts_step() {
    let level = |n: usize| if (20..40).contains(&n) { 106 } else { 100 };
    let project = Project::new(60, |commit| {
        vec![
            ("bench.sh".to_string(), STEPPED.to_string()),
            ("level".to_string(), level(commit).to_string()),
            ("id".to_string(), commit.to_string()),
        ]
    });
    begin(&project);
    let add = |from: usize, to: usize| {
        let range = format!("{}..{}", project.ids[from], project.ids[to]);
        done(&project, &["add", "line.toml", "--every", &range]);
    };
    add(0, 49);
    fs::write(project.home.path("cache/knee/step"), "").unwrap();
    add(49, 59);
    assert_eq!(points(&project), (1..60).collect::<Vec<_>>());
    let gone = |at: usize| (at, "gone_again".to_string());
    assert_eq!(said(&project), [gone(20), gone(40)]);
    let answer = shown(&project);
    let change = |at: usize| answer["series"][0]["values"][at]["change"].as_f64().unwrap();
    assert!(change(58) > 0.03, "the points after the host's step differ: {}", change(58));
    project.home.check_nothing_is_left();
}

#[test]
fn adding_that_was_killed_goes_on_where_it_was() {
    let commits: Vec<(u32, u32)> = (0..5).map(|n| (100, n)).collect();
    let project = line(&commits);
    let range = format!("{}..main", project.ids[0]);
    let mut knee = project.home.knee("watch add line.toml --every");
    let running = project.home.start(knee.arg(&range));
    let lines = || fs::read_to_string(project.home.path("line.points.ndjson")).unwrap_or_default();
    let points_there = || lines().matches("\"event\":\"point\"").count();
    crate::process::wait_for("two points", || (points_there() >= 2).then_some(()));
    running.signal(libc::SIGKILL);
    running.end();
    project.home.wait_for_quiet();
    let before = lines();
    done(&project, &["add", "line.toml", "--every", &range]);
    assert_eq!(points(&project), [1, 2, 3, 4]);
    let whole = before.rfind('\n').map_or(0, |at| at + 1);
    assert!(lines().starts_with(&before[..whole]), "what was there stays");
    project.home.check_nothing_is_left();
}

#[test]
fn points_come_in_any_order_and_commits_may_vanish() {
    let commits: Vec<(u32, u32)> = (0..5).map(|n| (100, n)).collect();
    let mut project = line(&commits);
    done(&project, &["add", "line.toml", "main"]);
    done(&project, &["add", "line.toml", &project.ids[1], &project.ids[3]]);
    assert_eq!(points(&project), [1, 3, 4]);
    // The newest commit is taken back, and another takes its place.
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=A", "-c", "user.email=a@example.org"];
        let mut git = Command::new("git");
        git.args(who).args(words).current_dir(project.home.path("project"));
        let output = git.output().unwrap();
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).trim().to_string()
    };
    git(&["reset", "-q", "--hard", "main~1"]);
    git(&["reflog", "expire", "--expire=now", "--all"]);
    git(&["gc", "-q", "--prune=now"]);
    // The builds vanish, too: what is needed is built again.
    fs::remove_dir_all(project.home.path("cache/knee/bisect")).unwrap();
    fs::write(project.home.path("project/id"), "other").unwrap();
    git(&["commit", "-qam", "other"]);
    let other = git(&["rev-parse", "HEAD"]);
    done(&project, &["add", "line.toml"]);
    project.ids.push(other);
    assert_eq!(points(&project), [1, 3, 4, 5]);

    let path = project.home.path("line.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("sh bench.sh", "sh other.sh")).unwrap();
    for words in [&["add", "line.toml"][..], &["show", "line.toml"], &["check", "line.toml"]] {
        let refused = watch(&project, words);
        assert_eq!(refused.status.code(), Some(2), "{}", refused.stderr);
        let why = "command was 'sh bench.sh' and is 'sh other.sh': points of another experiment";
        assert!(refused.stderr.contains(why), "{}", refused.stderr);
    }
}

#[test]
fn a_change_between_two_nights_is_bisected_and_that_is_kept() {
    let levels = |n: u32| if n < 3 { 100 } else { 108 };
    let commits: Vec<(u32, u32)> = (0..6).map(|n| (levels(n), n)).collect();
    let project = line(&commits);
    done(&project, &["add", "line.toml", &project.ids[0], &project.ids[1], &project.ids[5]]);
    assert_eq!(said(&project), [(5, "open".to_string())]);
    done(&project, &["bisect", "line.toml", project.short(5)]);
    let change = shown(&project)["changes"].as_array().unwrap().last().unwrap().clone();
    assert_eq!(change["bisected"]["named"][0]["commit"], project.ids[3].as_str(), "{change}");
    let text = done(&project, &["line.toml"]).stdout;
    assert!(text.contains(&format!("bisected to {}", project.short(3))), "{text}");
    // Two points that are neighbours in the repository, too, leave nothing to search.
    done(&project, &["add", "line.toml", &project.ids[2], &project.ids[3]]);
    assert_eq!(said(&project), [(3, "open".to_string())]);
    let ended = done(&project, &["bisect", "line.toml", project.short(3)]);
    assert!(ended.stderr.contains("the only commit between both points"), "{}", ended.stderr);
    let unknown = watch(&project, &["bisect", "line.toml", "zzz"]);
    assert_eq!(unknown.status.code(), Some(2), "{}", unknown.stderr);
}

/// Prints costs of two phases of a case, which vary a little.
const PHASES: &str = "noise=$(od -An -N2 -tu2 /dev/urandom)\n\
    echo \"first: $(( $(cat first-$1) * 1000 + noise % 3000 )) second: $(( $(cat second-$1) * 1000 + noise % 2900 ))\"\n";

#[test]
fn cases_and_metrics_are_series_of_one_line_and_a_change_is_told_once() {
    let project = Project::new(5, |commit| {
        // The last commit makes one case slower, in both metrics.
        let level = |case: &str| if commit == 4 && case == "b" { 110 } else { 100 };
        let file = |phase: &str, case: &str| (format!("{phase}-{case}"), level(case).to_string());
        let mut files = vec![
            ("bench.sh".to_string(), PHASES.to_string()),
            ("id".to_string(), commit.to_string()),
        ];
        // The last commit has a case that the anchor lacks.
        for case in ["a", "b", "c"].into_iter().take(if commit == 4 { 3 } else { 2 }) {
            files.extend([file("first", case), file("second", case)]);
        }
        files
    });
    let init = |command: &str| {
        let words = "init line.toml --git project --cpus 1 --count --value";
        let mut words: Vec<&str> = words.split(' ').collect();
        words.splice(4..4, ["--cases", "ls first-* | cut -d- -f2"]);
        words.extend(["first: {}", "--value", "second: {}", "--build", "cat id > bench.bin"]);
        words.extend(["--command", command, "--anchor", &project.ids[0]]);
        watch(&project, &words)
    };
    let without_place = init("sh bench.sh a");
    assert_eq!(without_place.status.code(), Some(2), "{}", without_place.stderr);
    assert!(without_place.stderr.contains("has no {case}"), "{}", without_place.stderr);
    let begun = init("sh bench.sh {case}");
    assert_eq!(begun.status.code(), Some(0), "{}", begun.stderr);
    let range = format!("{}..main", project.ids[0]);
    let added = done(&project, &["add", "line.toml", "--every", &range]);
    assert!(added.stderr.contains("the anchor has no c, so the line has none"), "{}", added.stderr);
    let answer = shown(&project);
    let names: Vec<&str> = answer["series"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["a first", "a second", "b first", "b second"]);
    assert_eq!(said(&project), [(4, "open".to_string())]);
    let changes = answer["changes"].as_array().unwrap();
    let change = changes.iter().find(|change| change["is"] == "open").unwrap();
    let sizes = change["sizes"].as_array().unwrap();
    assert!(
        sizes.iter().all(|size| size["series"].as_str().unwrap().starts_with('b')),
        "{sizes:?}"
    );
    let text = done(&project, &["line.toml"]).stdout;
    assert!(text.contains("worse by +") && text.contains("in b "), "{text}");

    // A case may come later; it begins where it comes.
    let path = project.home.path("line.toml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("[\"a\", \"b\"]", "[\"a\", \"b\", \"c\"]")).unwrap();
    assert_eq!(shown(&project)["series"][4]["values"][0], serde_json::Value::Null);
}
