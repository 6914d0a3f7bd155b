//! Commands as loads: whatever a program does, a run of it is measured or has failed with a
//! reason, what was prepared is undone, and no process of it is left.

use std::fs;
use std::process::Command;

use records::{Opened, Outcome, RecordState, Run};

use crate::home::{Ended, Home};
use crate::process::wait_for;
use crate::skip::{is_root, skip};

/// Runs an experiment of one command, whose lines these are, and `more` arguments.
fn run(home: &Home, lines: &str, more: &[&str]) -> Ended {
    home.start(&mut knee(home, lines, more)).end()
}

fn knee(home: &Home, lines: &str, more: &[&str]) -> Command {
    // `{home}` is none of knee's placeholders.
    let lines = lines.replace("{home}", &home.path("").display().to_string());
    let text = format!("blocks = 2\n[axes]\ncpus = 1\n[[load]]\n[load.command]\n{lines}\n");
    fs::write(home.path("x.toml"), text).unwrap();
    let mut command = home.knee("run x.toml --json");
    command.args(more);
    command
}

fn reason(run: &Run) -> &str {
    match &run.outcome {
        Outcome::Failed { reason } => reason,
        Outcome::Finished { .. } => panic!("it finished: {run:?}"),
    }
}

/// All runs failed for a reason with these parts, and nothing is left.
#[track_caller]
fn check_fails(lines: &str, parts: &[&str]) -> Home {
    let home = Home::new();
    let ended = run(&home, lines, &[]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let record = home.record();
    assert_eq!((record.runs.len(), record.record.state), (2, RecordState::Whole));
    for run in &record.runs {
        for part in parts {
            assert!(reason(run).contains(part), "no '{part}' in: {}", reason(run));
        }
    }
    home.check_nothing_is_left();
    home
}

/// Refused before anything was run.
#[track_caller]
fn check_refused(arguments: &[&str], parts: &[&str]) {
    let home = Home::new();
    let ended = home.start(home.knee("run").args(arguments)).end();
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert!(home.records().is_empty());
    home.check_nothing_is_left();
}

#[test]
fn a_command_is_measured_and_its_numbers_are_read() {
    let home = Home::new();
    let lines = "run = \"sh -c 'echo rate 17.5; pwd; echo $A {cpus} >&2; echo 9 >out; exit 3'\"
name = 'it'
success = [0, 3]
environment = { A = 'x{tasks}' }
version = 'sh -c \"echo it 1.2\"'
[[load.command.metric]]
name = 'rate'
unit = '1/s'
better = 'higher'
regex = 'rate (\\S+)'
[[load.command.metric]]
name = 'from_file'
from = 'file:out'
regex = '(\\d+)'
[[load.command.metric]]
name = 'from_stderr'
from = 'stderr'
regex = 'x1 (\\d+)'";
    let ended = run(&home, lines, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    for run in &record.runs {
        let value = |name: &str| run.value(name);
        assert_eq!(value("rate"), Some(17.5), "{run:?}");
        assert_eq!(value("from_file"), Some(9.0));
        assert_eq!(value("from_stderr"), Some(1.0));
        assert_eq!(value("exit_status"), Some(3.0));
        assert!(value("wall_s").is_some_and(|s| s > 0.0));
        assert!(value("time.user_time").is_some() && value("stat.ctxt").is_some());
        assert_eq!(value("operations"), None);
    }
    let Opened { record, .. } = record;
    assert_eq!(record.points[0].workload, "it");
    assert!(record.points[0].command.as_ref().is_some_and(|line| line.contains("{cpus}")));
    let program = record.programs.values().next().expect("the program is described");
    assert_eq!(program.version.as_deref(), Some("it 1.2"));
    assert!(program.file.is_some());
    home.check_nothing_is_left();
    for arguments in
        ["show last", "show last --time --counters", "show last --json", "record export last"]
    {
        let ended = home.run(arguments);
        assert_eq!(ended.status.code(), Some(0), "{arguments}: {}", ended.stderr);
        assert!(ended.stdout.contains("rate"), "{arguments}: {}", ended.stdout);
    }
}

#[test]
fn a_command_that_fails_fails_its_run_with_its_last_words() {
    let lines = "run = \"sh -c 'echo first; echo it broke >&2; exit 3'\"";
    check_fails(lines, &["sh ended with status 3, saying: it broke"]);
    check_fails("run = \"sh -c 'kill -SEGV $$'\"", &["sh was killed by SIGSEGV"]);
    check_fails("run = ['{scratch}/made_later']", &["starting", "made_later", "No such file"]);
}

#[test]
fn a_command_that_takes_too_long_is_killed_with_all_it_started() {
    let lines = "timeout_s = 2\nrun = \"sh -c 'setsid sleep 600 & echo waiting; sleep 600'\"\n\
                 cleanup = ['touch {home}/cleaned']";
    let home = check_fails(lines, &["took longer than 2 s and was killed, saying: waiting"]);
    assert!(home.path("cleaned").exists());
}

#[test]
fn what_a_command_leaves_behind_is_dead_before_the_next_run() {
    let home = Home::new();
    let lines = r#"shell = true
run = '''
flock -n {home}/lock true || exit 9
(setsid sh -c 'flock {home}/lock sleep 600 & sleep 601 & exec env -i sleep 602' &)
while flock -n {home}/lock true; do :; done'''"#;
    let ended = run(&home, lines, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(home.record().runs.len(), 2);
    home.check_nothing_is_left();
}

#[test]
fn a_server_that_was_prepared_lives_until_it_is_cleaned_up() {
    let home = Home::new();
    let lines = r#"shell = true
prepare = ["setsid sleep 600 & echo $! >server"]
run = "kill -0 $(cat server)"
cleanup = ["kill $(cat server)"]"#;
    let ended = run(&home, lines, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    let cleaned = |run: &Run| !run.warnings.iter().any(|w| w.text.contains("cleaning up"));
    assert!(record.runs.iter().all(cleaned), "{:?}", record.runs);
    home.check_nothing_is_left();
}

#[test]
fn a_preparation_that_fails_fails_the_run_and_is_cleaned_up_after() {
    let lines = "prepare = ['true', \"sh -c 'echo not ready >&2; exit 4'\"]\nrun = 'true'\n\
                 cleanup = ['touch {home}/cleaned']";
    let home = check_fails(lines, &["preparing the run", "ended with status 4, saying: not ready"]);
    assert!(home.path("cleaned").exists());
}

#[test]
fn a_cleanup_that_fails_is_told_and_costs_no_run() {
    let home = Home::new();
    let ended = run(&home, "run = 'true'\ncleanup = ['false']", &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for run in &home.record().runs {
        assert!(run.warnings.iter().any(|w| w.text.contains("cleaning up: 'false'")), "{run:?}");
    }
    home.check_nothing_is_left();
}

const UNFOUND: &str = "run = 'echo nothing'\n[[load.command.metric]]\nname = 'rate'\n\
                       regex = 'rate (\\S+)'";

#[test]
fn a_pattern_that_finds_nothing_is_a_warning_or_where_it_decides_a_failure() {
    let home = Home::new();
    let ended = run(&home, UNFOUND, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let wanted = "the regex 'rate (\\S+)' of stdout: found nothing, so rate is missing";
    for run in &home.record().runs {
        assert!(run.warnings.iter().any(|w| w.text == wanted), "{run:?}");
        assert_eq!(run.value("rate"), None);
    }
    let home = Home::new();
    let ended = run(&home, UNFOUND, &["--metric", "rate"]);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(home.record().runs.iter().all(|run| reason(run) == wanted));
}

#[test]
fn a_command_that_writes_without_end_costs_no_memory_without_end() {
    let home = Home::new();
    let lines = "timeout_s = 60\nrun = \"sh -c 'yes | head -c 100000000; echo rate 5'\"\n\
                 [[load.command.metric]]\nname = 'rate'\nregex = 'rate (.*)'";
    let ended = run(&home, lines, &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for run in &home.record().runs {
        assert_eq!(run.value("rate"), Some(5.0));
        assert!(run.warnings.iter().any(|w| w.text.contains("were not searched for metrics")));
    }
}

#[test]
fn what_cannot_work_is_refused_before_anything_runs() {
    check_refused(&["--command", "slepp 1"], &["no program 'slepp' is in PATH", "\"sleep\"?"]);
    check_refused(&["--command", "./no/such"], &["looking for", "no/such"]);
    check_refused(&["--command", "sleep '1"], &["has an unclosed quote"]);
    let unknown = ["no placeholder of sleep is called \"opions\"", "here are cpus"];
    check_refused(&["--command", "sleep {opions}"], &unknown);
    let unused = ["no parameter of sleep is called \"n\"", "no {n} is in 'sleep 1'"];
    check_refused(&["--command", "sleep 1", "--axis", "n=1|2"], &unused);
    check_refused(&["--command", "sleep 1", "--seconds", "5"], &["runs to its own end"]);
    check_refused(&["--command", "sleep 1", "--metric", "wal_s"], &["did you mean \"wall_s\""]);
    check_refused(&["--command", "sleep 1", "--as", "threads"], &["only as processes"]);
    check_refused(&["command:fs_marc"], &["did you mean \"fs_mark\""]);
    check_refused(&["xfs_repare"], &["did you mean \"command:xfs_repair\""]);
    let same = ["two different commands are called sleep"];
    check_refused(&["--command", "sleep 0", "--command", "sleep 1"], &same);
}

#[test]
fn parameters_make_a_matrix_and_variants_are_compared() {
    let home = Home::new();
    let arguments = ["--command", "sh -c 'exit $((X - X + {a} - {a} + {b} - {b}))'"];
    let axes = ["--axis", "a=1,2", "--axis", "b=3-4"];
    let variants = ["--variant", "one=env.X=1", "--variant", "two=env.X=2"];
    let mut command = home.knee("run --cpus 1 --blocks 4");
    let ended = home.start(command.args(arguments).args(axes).args(variants)).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.record.points.len(), 8);
    assert!(record.runs.len() >= 32);
    let layouts = ["lkp", "mean-stddev", "matrix", "passes"].map(|name| format!("--layout {name}"));
    let views = ["terminal", "markdown", "json"].map(|name| format!("--view {name}"));
    for form in layouts.iter().chain(&views) {
        let ended = home.run(&format!("compare last {form}"));
        assert_eq!(ended.status.code(), Some(0), "{form}: {}", ended.stderr);
        let metric = ["wall_s", "time.elapsed_time", "Elapsed", "wall"];
        assert!(metric.iter().any(|name| ended.stdout.contains(name)), "{form}: {}", ended.stdout);
    }
    assert!(home.run("compare last --layout matrix").stdout.contains("a=1,b=3"));
    home.check_nothing_is_left();
}

#[test]
fn commands_and_workloads_stand_in_one_record() {
    let home = Home::new();
    let mut command = home.knee("run getppid --cpus 1 --blocks 2 --seconds 0.02");
    let ended = home.start(command.args(["--command", "sleep 0.01"])).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    for part in ["operations/s", "sleep 0.01", "wall_s"] {
        assert!(ended.stdout.contains(part), "no '{part}' in:\n{}", ended.stdout);
    }
    assert_eq!(home.run("run --plan --command true getppid").status.code(), Some(0));
    home.check_nothing_is_left();
}

const LONG: &str = "run = \"sh -c '(setsid sleep 600 &) ; sleep 601 & sleep 602'\"\n\
                    cleanup = ['touch {home}/cleaned']";

/// Whether all three sleeps of [`LONG`] live: the worker, knee, a shell and they.
fn is_at_work(home: &Home) -> Option<()> {
    (home.processes().len() >= 6).then_some(())
}

#[test]
fn kill_9_of_knee_leaves_no_process() {
    let home = Home::new();
    let running = home.start(&mut knee(&home, LONG, &[]));
    wait_for("the command", || is_at_work(&home));
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
    wait_for("cleanup", || home.path("cleaned").exists().then_some(()));
    // Removes the directory, as it does after any kill.
    assert_eq!(run(&home, "run = 'true'", &[]).status.code(), Some(0));
    home.check_nothing_is_left();
}

#[test]
fn kill_9_of_the_worker_fails_its_run_and_leaves_no_process() {
    let home = Home::new();
    let running =
        home.start(&mut knee(&home, &format!("timeout_s = 600\n{LONG}"), &["--blocks", "1"]));
    wait_for("the command", || is_at_work(&home));
    let worker = running.worker().expect("the worker lives");
    worker.kill(libc::SIGKILL);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(reason(&home.record().runs[0]).contains("the worker was killed by SIGKILL"));
    home.check_nothing_is_left();
}

#[test]
fn a_wish_to_end_cleans_up_and_resuming_does_the_rest() {
    let home = Home::new();
    // The first run ends by itself, the second one waits to be ended.
    let lines = "run = \"sh -c 'test {run} = 0 || test -e {home}/go || sleep 600'\"\n\
                 cleanup = ['touch {home}/cleaned{run}']";
    let mut running = home.start(&mut knee(&home, lines, &[]));
    running.wait_for_runs(1);
    wait_for("the second run", || (home.processes().len() >= 4).then_some(()));
    running.signal(libc::SIGINT);
    let ended = running.end();
    assert_eq!(ended.status.code(), Some(130), "{}", ended.stderr);
    assert!(home.path("cleaned1").exists());
    home.check_nothing_is_left();
    assert_eq!(home.record().runs.len(), 1);
    fs::write(home.path("go"), "").unwrap();
    let ended = run(&home, lines, &["--resume"]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!((record.runs.len(), record.record.state), (2, RecordState::Whole));
    home.check_nothing_is_left();
}

/// Something of ours is mounted in the directory of a run, and the run does not undo it.
const MOUNTS: &str = "prepare = ['mkdir m', 'mount --bind {home}/precious m']";

#[test]
fn what_a_preparation_mounted_is_unmounted_and_never_removed() {
    if !is_root() {
        return skip("mounts that a command leaves", "only root may mount");
    }
    let home = Home::new();
    fs::create_dir(home.path("precious")).unwrap();
    fs::write(home.path("precious/file"), "mine").unwrap();
    let ended = run(&home, &format!("run = 'cat m/file'\n{MOUNTS}"), &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    home.check_nothing_is_left();
    // Knee and its worker killed at once: the next start finds the mount.
    let lines = format!("run = 'sleep 600'\n{MOUNTS}");
    let running = home.start(&mut knee(&home, &lines, &[]));
    wait_for("the command", || (home.processes().len() >= 3).then_some(()));
    wait_for("the command itself", || is_sleeping(&home));
    let worker = running.worker().expect("the worker lives");
    running.signal(libc::SIGSTOP);
    worker.kill(libc::SIGKILL);
    running.signal(libc::SIGKILL);
    running.end();
    home.wait_for_quiet();
    let ended = run(&home, "run = 'true'", &[]);
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert_eq!(fs::read_to_string(home.path("precious/file")).unwrap(), "mine");
    home.check_nothing_is_left();
}

fn is_sleeping(home: &Home) -> Option<()> {
    let name = |pid: i32| fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    home.processes().iter().any(|process| name(process.pid) == "sleep\n").then_some(())
}

/// A definition that comes with knee finds its numbers in what the program here writes.
fn check_ready(program: &str, arguments: &str, metrics: &[&str]) {
    if Command::new(program).arg("--help").output().is_err() {
        return skip(&format!("the ready definition of {program}"), "it is not installed");
    }
    let home = Home::new();
    let ended = home.run(&format!("run command:{program} {arguments} --blocks 2"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.runs.len(), 2);
    for run in &record.runs {
        let Outcome::Finished { metrics: found, .. } = &run.outcome else {
            panic!("{}", reason(run))
        };
        for name in metrics {
            assert!(found.get(name).is_some_and(|value| value > 0.0), "no {name}: {found:?}");
        }
    }
    home.check_nothing_is_left();
}

#[test]
fn the_ready_fs_mark_is_read() {
    check_ready(
        "fs_mark",
        "--set files=100 --set loops=2",
        &["fs_mark.files_per_s", "fs_mark.app_overhead_us"],
    );
}

#[test]
fn the_ready_stress_ng_is_read() {
    let arguments = "--set stressor=null --set seconds=1 --cpus 1";
    check_ready("stress-ng", arguments, &["bogo_ops_per_s", "bogo_ops"]);
}

#[test]
fn a_command_is_prepared_warmed_up_and_may_fail() {
    let home = Home::new();
    let lines =
        |name: &str| fs::read_to_string(home.path(name)).unwrap_or_default().lines().count();
    let run = |more: &[&str]| {
        let mut command = home.knee("run --cpus 1 --blocks 2 --json");
        let ended = home.start(command.args(more)).end();
        (ended.status.code(), ended.stderr)
    };
    let (status, stderr) = run(&[
        "--command=sh -c 'echo >> ran; exit {status}'",
        "--axis=status=2..4",
        "--prepare=sh -c 'echo >> prepared'",
        "--warmup=3",
        "--ignore-failure",
    ]);
    assert_eq!(status, Some(0), "{stderr}");
    // Two points, three runs each that are not kept and two that are.
    assert_eq!((lines("ran"), lines("prepared")), (10, 10));
    let record = home.record();
    assert_eq!((record.runs.len(), record.record.experiment.warmup_runs), (4, 3));
    assert!(record.runs.iter().all(|run| run.value("exit_status").is_some_and(|s| s >= 2.0)));
    // What a shell interprets needs a shell.
    let (status, stderr) = run(&["--command=echo x > through && exit 0", "--shell"]);
    assert_eq!((status, lines("through")), (Some(0), 1), "{stderr}");
    let (status, stderr) = run(&["--command=true", "--prepare=false"]);
    assert_eq!(status, Some(1));
    assert!(stderr.contains("'false' ended with status 1"), "{stderr}");
    assert_eq!(home.run("run getppid --prepare true").status.code(), Some(2));
}

/// A program that passes a static tracepoint as often as its argument says; with `ENABLER`, only while
/// somebody listens. The note is what SystemTap's sys/sdt.h writes.
const TRACED: &str = r#"
#include <stdlib.h>
#ifdef ENABLER
unsigned short enabler __attribute__((section(".probes"), used));
#define ADDRESS "enabler"
#define LISTENED() (*(volatile unsigned short *)&enabler)
#else
#define ADDRESS "0"
#define LISTENED() 1
#endif
int main(int c, char **words)
{
	for (volatile int i = 0; i < atoi(words[c - 1]); i++)
		if (LISTENED())
			__asm__ volatile("990: nop\n"
				".pushsection .note.stapsdt,\"?\",\"note\"\n.balign 4\n"
				".4byte 992f-991f,994f-993f,3\n991: .asciz \"stapsdt\"\n992: .balign 4\n"
				"993: .8byte 990b\n.8byte _.stapsdt.base\n.8byte " ADDRESS "\n"
				".asciz \"app\"\n.asciz \"operation\"\n.asciz \"\"\n994: .balign 4\n.popsection\n"
				".pushsection .stapsdt.base,\"aG\",\"progbits\",.stapsdt.base,comdat\n"
				".weak _.stapsdt.base\n.hidden _.stapsdt.base\n_.stapsdt.base: .space 1\n.popsection\n");
	return 0;
}
"#;

#[test]
fn passes_of_a_static_tracepoint_are_operations() {
    if !is_root() || !std::path::Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return skip("static tracepoints", "uprobes need root and a kernel that has them");
    }
    let home = Home::new();
    fs::write(home.path("traced.c"), TRACED).unwrap();
    for define in ["PLAIN", "ENABLER"] {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-D", define, "-o"]).arg(home.path("traced")).arg(home.path("traced.c"));
        if !cfg!(target_arch = "x86_64") || !cc.status().is_ok_and(|status| status.success()) {
            return skip("static tracepoints", "no C compiler for x86-64");
        }
        let lines = "run = '{home}traced 4321'\noperations = 'usdt:app:operation'";
        let ended = run(&home, lines, &[]);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        for run in &home.record().runs {
            assert_eq!(run.value("operations"), Some(4321.0), "{define}: {run:?}");
        }
        fs::remove_dir_all(home.path("records")).unwrap();
    }
}

#[test]
fn passes_of_a_function_are_operations() {
    if !is_root() || !std::path::Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return skip("passes of a function", "uprobes need root and a kernel that has them");
    }
    let home = Home::new();
    // A small program of our own: a probe counts the passes of all processes, and knee's symbols take seconds to read.
    fs::write(home.path("passes.c"), "int main(void) { return 0; }").unwrap();
    let (program, source) = (home.path("passes"), home.path("passes.c"));
    if !Command::new("cc").arg("-o").args([&program, &source]).status().is_ok_and(|s| s.success()) {
        return skip("passes of a function", "no C compiler");
    }
    let passes = program.display().to_string();
    let check = |probe: &str, operations: f64| {
        let lines = format!(
            "run = \"sh -c '{passes}; {passes}; {passes}'\"\n\
             name = 'thrice'\noperations = '{probe}'"
        );
        let ended = run(&home, &lines, &[]);
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
        for run in &home.record().runs {
            assert_eq!(run.value("operations"), Some(operations), "{run:?}");
        }
        std::fs::remove_dir_all(home.path("records")).unwrap();
    };
    check(&format!("uprobe:{passes}:main"), 3.0);
    let fails = |probe: &str, part: &str| {
        let ended = run(&home, &format!("run = \"sh -c true\"\noperations = '{probe}'"), &[]);
        let all = ended.stdout + &ended.stderr;
        assert!(ended.status.code() != Some(0) && all.contains(part), "no '{part}' in: {all}");
    };
    fails(&format!("uprobe:{passes}:no_such_function"), "has no symbol of a function");
    fails("uprobe:./no-such-file:main", "no file ./no-such-file is found");
    fails("uprobe:", "a probe is uprobe:");
}

#[test]
fn a_number_keeps_the_unit_that_its_output_tells() {
    let measured = |script: &str| {
        let home = Home::new();
        let script = script.replace("{seen}", &home.path("seen").display().to_string());
        fs::write(home.path("x.sh"), script).unwrap();
        let mut command = home.knee("run --cpus 1 --blocks 2 --json --value");
        let line = format!("sh {}", home.path("x.sh").display());
        command.args(["took {}", "--command", &line]);
        home.start(&mut command).end();
        home.record()
    };
    let units = |script| {
        let record = measured(script);
        let values: Vec<Option<f64>> = record.runs.iter().map(|run| run.value("took")).collect();
        (record.record.metrics["took"].unit.clone(), values)
    };
    // The scale of a number may change from run to run.
    let scales = "[ -e {seen} ] && echo took 900us || echo took 12.5ms\ntouch {seen}\n";
    assert_eq!(units(scales), ("s".to_string(), vec![Some(0.0125), Some(0.0009)]));
    let counts = units("echo took 1.2k\n");
    assert_eq!(counts, ("1".to_string(), vec![Some(1200.0), Some(1200.0)]));
    let kinds = "[ -e {seen} ] && echo took 900us || echo took 3.2GB/s\ntouch {seen}\n";
    let record = measured(kinds);
    assert_eq!(record.record.metrics["took"].unit, "GB/s");
    assert_eq!(record.runs[0].value("took"), Some(3.2));
    let why = "took is 0.0009 s, but the runs before had GB/s, so it is missing";
    assert!(reason(&record.runs[1]).contains(why), "{}", reason(&record.runs[1]));
}
