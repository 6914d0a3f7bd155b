//! Where nobody listens, or nothing can be written, knee goes on with what matters: it never
//! panics, keeps every run, and says once that a result could not be written.

use std::fs::File;
use std::io::{PipeWriter, pipe};

use records::RecordState;

use crate::home::Home;

const RUN: &str = "run getppid --cpus 1 --blocks 2 --seconds 0.02";

/// A pipe that nobody reads.
fn closed() -> PipeWriter {
    pipe().expect("making a pipe").1
}

fn full() -> File {
    File::options().write(true).open("/dev/full").expect("opening /dev/full")
}

#[track_caller]
fn check_whole(home: &Home) {
    assert_eq!(home.record().record.state, RecordState::Whole);
    home.check_nothing_is_left();
}

#[test]
fn nobody_who_listens_to_the_talk_costs_nothing() {
    let home = Home::new();
    // One run fails, which is said at once.
    let arguments =
        format!("{RUN} --set idle_ns=0 --operations 1000000000 --timeout 0.1 --stop-grace 0.1");
    for arguments in [RUN.to_string(), arguments.replace(" --seconds 0.02", "")] {
        let ended = home.start(home.knee(&arguments).stderr(closed())).end();
        assert!(matches!(ended.status.code(), Some(0 | 1)), "{:?}", ended.status);
    }
    assert!(home.records().iter().all(|record| record.record.state == RecordState::Whole));
    let ended = home.start(home.knee("run nothing").stderr(closed())).end();
    assert_eq!(ended.status.code(), Some(2));
}

#[test]
fn a_reader_who_has_gone_away_costs_nothing() {
    for arguments in [RUN.to_string(), format!("{RUN} --json")] {
        let home = Home::new();
        let ended = home.start(home.knee(&arguments).stdout(closed())).end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        check_whole(&home);
        for verb in ["list", "list workloads", "show", "record export", "show getppid"] {
            let ended = home.start(home.knee(verb).stdout(closed())).end();
            assert_eq!(ended.stderr, "", "knee {verb}");
        }
    }
}

#[test]
fn a_result_that_cannot_be_written_is_an_error_said_once() {
    let home = Home::new();
    for arguments in [RUN.to_string(), format!("{RUN} --json")] {
        let ended = home.start(home.knee(&arguments).stdout(full())).end();
        check(ended.status.code(), &ended.stderr, &arguments);
        assert!(ended.stderr.contains("record "), "where the record is");
    }
    assert!(home.records().iter().all(|record| record.record.state == RecordState::Whole));
    let lists =
        ["list", "list --json", "list workloads", "list experiments", "list metrics --json"];
    let others =
        ["show", "show --json", "record export", "record export --format json", "show getppid"];
    for verb in lists.iter().chain(&others).chain(&["show first-look", "doctor"]) {
        let ended = home.start(home.knee(verb).stdout(full())).end();
        check(ended.status.code(), &ended.stderr, verb);
    }
}

#[track_caller]
fn check(status: Option<i32>, said: &str, arguments: &str) {
    assert_eq!(status, Some(2), "{arguments}: {said}");
    let why = "writing the result: No space left on device";
    assert_eq!(said.matches(why).count(), 1, "{arguments}: {said}");
}
