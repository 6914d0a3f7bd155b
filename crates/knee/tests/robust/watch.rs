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
    let words = "init line.toml --git project --cpus 1 --count --command";
    let mut words: Vec<&str> = words.split(' ').collect();
    let build = "cat level id > bench.bin";
    words.extend(["sh bench.sh", "--value", "cost: {}", "--build", build]);
    words.extend(["--anchor", &project.ids[0]]);
    done(&project, &words);
    project
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
    assert_eq!(
        (&equal["record"], &equal["change"]),
        (&serde_json::Value::Null, &answer["points"][3]["change"])
    );
    let open = watch(&project, &["check", "line.toml"]);
    assert_eq!(open.status.code(), Some(3), "{}", open.stderr);
    assert!(open.stderr.contains(project.short(6)), "{}", open.stderr);
    let text = done(&project, &["show", "line.toml"]).stdout;
    assert!(text.contains("is worse by +") && text.contains(" ^"), "{text}");

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
