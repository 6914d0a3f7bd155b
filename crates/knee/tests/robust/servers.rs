//! Commands with a server: it is started, ready, and ended with its client; what is wrong with it costs one
//! run, and no process or file of it is left.

use std::fs;
use std::net::TcpListener;
use std::process::Command;

use records::{Outcome, Run};

use crate::home::{Ended, Home};
use crate::process::wait_for;
use crate::skip::skip;

/// A server that says when it serves, answers by a file, and ends on SIGTERM.
const SERVER: &str = r#"run = ["sh", "-c", "echo starting; echo up; echo 41 > answer; exec sleep 600"]
ready = { line = '^up$' }"#;

fn knee(home: &Home, client: &str, server: &str, more: &[&str]) -> Command {
    let home_path = home.path("").display().to_string();
    let lines = format!("{client}\n[load.command.server]\n{server}").replace("{home}", &home_path);
    let text = format!("blocks = 2\n[axes]\ncpus = 1\n[[load]]\n[load.command]\n{lines}\n");
    fs::write(home.path("x.toml"), text).unwrap();
    let mut command = home.knee("run x.toml --json");
    command.args(more);
    command
}

fn run(home: &Home, client: &str, server: &str) -> Ended {
    home.start(&mut knee(home, client, server, &[])).end()
}

fn reason(run: &Run) -> &str {
    match &run.outcome {
        Outcome::Failed { reason } => reason,
        Outcome::Finished { .. } => panic!("it finished: {run:?}"),
    }
}

/// All runs failed for a reason with these parts, and nothing is left.
#[track_caller]
fn check_fails(client: &str, server: &str, parts: &[&str]) {
    let home = Home::new();
    let ended = run(&home, client, server);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let runs = home.record().runs;
    assert_eq!(runs.len(), 2);
    for run in &runs {
        for part in parts {
            assert!(reason(run).contains(part), "no '{part}' in: {}", reason(run));
        }
    }
    home.check_nothing_is_left();
}

/// All runs finished; returns them.
#[track_caller]
fn check_runs(client: &str, server: &str) -> Vec<Run> {
    let home = Home::new();
    let ended = run(&home, client, server);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    home.check_nothing_is_left();
    home.record().runs.to_vec()
}

#[test]
fn a_server_is_set_up_ready_warm_and_stopped() {
    let home = Home::new();
    fs::create_dir(home.path("template")).unwrap();
    fs::write(home.path("template/known"), "7").unwrap();
    let client = r#"shell = true
run = "echo asked >> {home}/asked; test $(cat {data}/answer) = 417 && echo rate 5 && exec sleep 0.2"
prepare = ["test -e {data}/answer"]
primary = "rate"
metric = [{ name = "rate", regex = 'rate (\d+)' }]"#;
    let server = r#"template = "{home}/template"
setup = [["sh", "-c", "echo $WORD-{run} >> {home}/set-up; echo 41$(cat known) > answer"]]
run = ["sh", "-c", "trap 'echo end >> {home}/ended; exit' TERM; touch socket; while :; do sleep 0.01; done"]
ready = { file = "socket" }
warmup_s = 0.05
drain_s = 0.01
environment = { WORD = "word" }"#;
    let ended = run(&home, client, server);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let lines = |name: &str| fs::read_to_string(home.path(name)).unwrap().lines().count();
    // Once to warm up and once to be measured, in each of two runs.
    assert_eq!((lines("asked"), lines("set-up"), lines("ended")), (4, 2, 2));
    assert!(fs::read_to_string(home.path("set-up")).unwrap().contains("word-0"));
    for run in &home.record().runs {
        assert_eq!(run.value("rate"), Some(5.0));
        assert!(run.value("client.cpu_s").is_some() && run.value("client.cpus").is_some());
        assert!(run.value("time.user_time").is_some());
        assert_eq!(run.value("time.voluntary_context_switches"), None);
    }
    home.check_nothing_is_left();
}

#[test]
fn a_server_is_ready_when_a_line_a_port_or_a_program_says_so() {
    check_runs("run = 'cat {data}/answer'", SERVER);
    let ready = "ready = { command = 'test -e {data}/late' }";
    check_runs(
        "run = 'cat {data}/late'",
        &format!("run = ['sh', '-c', 'sleep 0.1; touch late; exec sleep 600']\n{ready}"),
    );
    let port = "run = '{knee} serve --port {port} --records {data}'\nready = { port = '{port}' }";
    let knee = env!("CARGO_BIN_EXE_knee");
    check_runs("run = 'test -n {port}'", &port.replace("{knee}", knee));
}

#[test]
fn a_server_that_fails_fails_its_run_with_its_last_words() {
    let ready = "ready = { file = 'never' }";
    let server =
        |script: &str, more: &str| format!("run = ['sh', '-c', '{script}']\n{ready}\n{more}");
    check_fails(
        "run = 'true'",
        &server("echo no luck; exit 3", ""),
        &["the server sh ended with status 3 before it was ready, saying: no luck"],
    );
    check_fails(
        "run = 'true'",
        &server("sleep 600 &", ""),
        &["a server has to stay in the foreground"],
    );
    check_fails(
        "run = 'true'",
        &server("echo waiting; exec sleep 600", "ready_timeout_s = 0.2"),
        &["was not ready after 0.2 s", "never exists", "saying: waiting"],
    );
    check_fails(
        "run = 'true'",
        &server("exec sleep 600", "setup = ['false']"),
        &["setting up the server: 'false' ended with status 1"],
    );
    check_fails(
        "run = 'sleep 600'",
        "run = ['sh', '-c', 'echo up; sleep 0.1; echo it broke; kill -SEGV $$']\nready = { line = 'up' }",
        &["the server sh was killed by SIGSEGV while its client ran, saying: up / it broke"],
    );
}

#[test]
fn a_client_that_fails_is_reported_with_what_its_server_said() {
    check_fails(
        "run = ['sh', '-c', 'echo no answer; exit 9']",
        SERVER,
        &["sh ended with status 9, saying: no answer", "its server sh said last: starting / up"],
    );
    check_fails("run = 'sleep 600'\ntimeout_s = 0.2", SERVER, &["took longer than 0.2 s"]);
    check_fails(
        "run = 'false'",
        &format!("{SERVER}\nwarmup_s = 5"),
        &["warming up: false ended with status 1"],
    );
}

#[test]
fn a_server_that_does_not_end_is_killed_with_all_it_started() {
    let server = r#"run = ["sh", "-c", "trap '' TERM; (setsid sleep 600 &); echo up; while :; do sleep 1; done"]
ready = { line = "up" }
stop_timeout_s = 0.2"#;
    for run in check_runs("run = 'true'", server) {
        let text = "the server sh did not end within 0.2 s of SIGTERM and was killed";
        assert!(run.warnings.iter().any(|warning| warning.text == text), "{:?}", run.warnings);
    }
    let stop = "stop = 'touch {data}/end'";
    let server = "run = ['sh', '-c', 'echo up; until test -e end; do sleep 0.01; done']";
    let runs = check_runs("run = 'true'", &format!("{server}\nready = {{ line = 'up' }}\n{stop}"));
    let killed = |run: &Run| run.warnings.iter().any(|warning| warning.text.contains("was killed"));
    assert!(!runs.iter().any(killed));
}

#[test]
fn a_port_that_another_program_has_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    check_fails(
        "run = 'true'",
        &format!("run = 'sleep 600'\nready = {{ port = {port} }}"),
        &[&format!("port {port} of 127.0.0.1 is taken"), "let knee choose a free port ({port})"],
    );
}

#[test]
fn what_no_run_could_start_is_refused_before_the_first() {
    let check = |client: &str, server: &str, part: &str| {
        let home = Home::new();
        let ended = run(&home, client, server);
        assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
        assert!(home.records().is_empty());
        home.check_nothing_is_left();
    };
    check("run = 'true'", "run = 'sleep 9'", "nothing says when the server is ready");
    check(
        "run = 'true'",
        "run = 'no-such-server'\nready = { line = 'x' }",
        "no program 'no-such-server'",
    );
    check("run = 'true'", "run = 'sleep {for}'\nready = { line = 'x' }", "is called \"for\"");
    check("run = 'true'", "run = 'sleep 9'\nready = { line = 'x' }\nhome = 1", "unknown key");
    check("run = 'true'", "pid = 1\nuser = 'nobody'", "give pid alone");
}

#[test]
fn a_server_that_the_user_runs_is_left_alone() {
    let home = Home::new();
    let mut server = Command::new("sleep").arg("600").spawn().unwrap();
    let line = format!("run --command true --blocks 2 --json --server-pid {}", server.id());
    let ended = home.run(&line);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(server.try_wait().unwrap().is_none(), "it was ended");
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(home.record().runs.iter().all(|run| run.value("server.cpu_s").is_some()));
    let ended = home.run(&line);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.stderr.contains("no process has the id"), "{}", ended.stderr);
    let ended = home.run("run getppid --server-pid 1");
    assert!(ended.stderr.contains("--server-pid is for a command"), "{}", ended.stderr);
}

/// A server and a client that both leave the group that knee gave them.
const LONG_SERVER: &str = r#"run = ["sh", "-c", "(setsid sleep 601 &); echo up; sleep 600"]
ready = { line = "up" }"#;
const LONG_CLIENT: &str = r#"run = ["sh", "-c", "(setsid sleep 602 &); sleep 603"]"#;

/// Kills knee, its worker, or both once the client runs, or while the server is not ready yet.
fn check_killed(server: &str, processes: usize, kill_worker: bool, kill_knee: bool) {
    let home = Home::new();
    let running = home.start(&mut knee(&home, LONG_CLIENT, server, &["--blocks", "1"]));
    wait_for("server and client", || (home.processes().len() >= processes).then_some(()));
    let worker = running.worker().expect("the worker lives");
    if kill_worker {
        worker.kill(libc::SIGKILL);
    }
    if kill_knee {
        running.signal(libc::SIGKILL);
    }
    running.end();
    home.wait_for_quiet();
    // The next start removes the directory.
    assert_eq!(home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01").status.code(), Some(0));
    home.check_nothing_is_left();
}

#[test]
fn kill_9_leaves_neither_server_nor_client() {
    // Knee, the worker, the guard; a shell and two sleeps each.
    check_killed(LONG_SERVER, 9, false, true);
    check_killed(LONG_SERVER, 9, true, false);
    let never = LONG_SERVER.replace("\"up\" }", "\"never\" }");
    check_killed(&never, 6, false, true);
    check_killed(&never, 6, true, false);
}

#[test]
fn kill_9_of_knee_and_worker_at_once_leaves_no_process_of_the_servers_group() {
    let server = r#"run = ["sh", "-c", "sleep 605 & echo up; sleep 606"]
ready = { line = "up" }"#;
    let home = Home::new();
    let running = home.start(&mut knee(&home, "run = 'sleep 607'", server, &["--blocks", "1"]));
    wait_for("the client", || is_running(&home, "sleep 607 "));
    let worker = running.worker().expect("the worker lives");
    // A knee that is stopped cannot clean up after its worker.
    running.signal(libc::SIGSTOP);
    worker.kill(libc::SIGKILL);
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
    assert_eq!(home.run("run getppid --cpus 1 --blocks 1 --seconds 0.01").status.code(), Some(0));
    home.check_nothing_is_left();
}

#[test]
fn a_wish_to_end_stops_the_server_first() {
    let home = Home::new();
    let server = r#"run = ["sh", "-c", "trap 'echo > {home}/ended; exit' TERM; echo up; while :; do sleep 0.01; done"]
ready = { line = "up" }"#;
    let running = home.start(&mut knee(&home, "run = 'sleep 604'", server, &[]));
    wait_for("the client", || is_running(&home, "sleep 604 "));
    running.signal(libc::SIGINT);
    assert_eq!(running.end().status.code(), Some(130));
    assert!(home.path("ended").exists());
    home.check_nothing_is_left();
}

fn is_running(home: &Home, line: &str) -> Option<()> {
    let read = |pid: i32| {
        fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .unwrap_or_default()
            .replace(char::from(0), " ")
    };
    home.processes().iter().any(|process| read(process.pid) == line).then_some(())
}

/// A definition that comes with knee starts its server and finds its numbers.
fn check_comes_with_knee(name: &str, programs: &[&str], arguments: &str, metrics: &[&str]) {
    let is_missing = |program: &&&str| Command::new(program).arg("--version").output().is_err();
    if let Some(program) = programs.iter().find(is_missing) {
        return skip(&format!("command:{name}"), &format!("{program} is not installed"));
    }
    let home = Home::new();
    let ended = home.run(&format!("run command:{name} {arguments} --blocks 1"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let run = &home.record().runs[0];
    for metric in metrics {
        assert!(run.value(metric).is_some_and(|value| value > 0.0), "no {metric}: {run:?}");
    }
    home.check_nothing_is_left();
}

#[test]
fn servers_that_come_with_knee_are_asked() {
    check_comes_with_knee(
        "redis",
        &["redis-server", "redis-benchmark"],
        "--set requests=1000",
        &["requests_per_s", "latency_p50_ms", "latency_p99_ms"],
    );
    check_comes_with_knee(
        "nginx",
        &["nginx", "wrk"],
        "--set seconds=1",
        &["requests_per_s", "latency_p99_us"],
    );
    check_comes_with_knee(
        "memcached",
        &["memcached", "memcslap"],
        "--set requests=100",
        &["requests_per_s"],
    );
}
