//! What cannot be done is refused before anything is measured, or fails the runs it
//! concerns and no others; either way the words say what is wrong and what to do.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use records::Outcome;

use crate::home::Home;
use crate::skip::{is_root, skip};

/// `knee` with these arguments says all these parts, ends with this status, and leaves
/// nothing.
#[track_caller]
fn check(arguments: &str, parts: &[&str], status: i32) {
    check_in(&Home::new(), arguments, parts, status);
}

#[track_caller]
fn check_in(home: &Home, arguments: &str, parts: &[&str], status: i32) {
    let ended = home.run(arguments);
    assert_eq!(ended.status.code(), Some(status), "knee {arguments}: {}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
    assert_eq!(ended.stdout, "");
    assert!(home.records().is_empty(), "a record of nothing");
    home.check_nothing_is_left();
}

#[test]
fn unknown_names_suggest_the_nearest() {
    check(
        "run getpid",
        &["no workload, experiment or command is called \"getpid\"", "did you mean \"getppid\""],
        2,
    );
    check("run posix_lock_sharde", &["did you mean \"posix_lock_shared\""], 2);
    check("run first-lok", &["did you mean \"first-look\""], 2);
    check("run stres-ng", &["did you mean \"command:stress-ng\""], 2);
    let all = "`knee list workloads|experiments|commands` shows all";
    check("run zzz", &["is called \"zzz\"; ", all], 2);
    check(
        "simulate replay I9",
        &["no incident or publication is called \"I9\"; there are I1, I2", "cna-lock2"],
        2,
    );
    check("rnu", &["no verb is called \"rnu\"; did you mean \"run\"?", "`knee --help` shows"], 2);
    check("--width 80 forcast", &["did you mean \"forecast\"?"], 2);
    check("fleet stauts", &["no verb of knee fleet is called", "did you mean \"status\"?"], 2);
    check("--width 80", &["Where does it stop scaling, and why?", "knee --help"], 2);
    let lists = "run --command true --axis";
    check(&format!("{lists} n=1,,2"), &["has an empty value: write 1,2,4"], 2);
    check(&format!("{lists} n=8-1"), &["'8-1': write 1,2,4 or 1..64"], 2);
    check("scale none.csv", &["none.csv: No such file"], 2);
    check("scale forecast --to 0", &["0 is not in 1..=16384"], 2);
    check("run brk --budget 1m", &["--budget and --knee-within are for --cpus adaptive"], 2);
    check("run brk --cpus adaptive --budget 5", &["must be a time such as 90s"], 2);
    check("run brk --cpus adaptive --budget 1ms", &["must be a time"], 2);
    check("run brk --cpus adaptive --budget 1s", &["a budget of 1 s is too short"], 2);
    check("run brk --cpus adaptive --tasks 4", &["one task a CPU"], 2);
    check("run --command true --cpus adaptive", &["workloads of knee"], 2);
    check("compare fragile", &["no record"], 2);
    check("compare fragile a b c", &["3 names: a verdict is about two"], 2);
    check("compare fragile --blocks 2", &["2 is not in 3..=1000"], 2);
    check("scale forecast --to 8 --held 5", &["must be a duration such as 200ns"], 2);
    check("compare base.data new.data", &["there is no file base.data"], 2);
    check(
        "explain base.data",
        &["reading the recording base.data: opening base.data: No such file"],
        2,
    );
    check("run getppid first-look", &["first-look is an experiment: run it alone"], 2);
    check("run", &["<WHAT>", "`knee run -h` shows all options"], 2);
}

#[test]
fn words_that_are_not_utf_8_are_refused_and_never_a_panic() {
    let home = Home::new();
    let word = |text: &[u8]| OsStr::from_bytes(text).to_os_string();
    let odd = home.path("odd").join(word(b"a\xff"));
    fs::create_dir_all(&odd).expect("a directory");
    for verb in ["run getppid --plan --json", "run getppid --plan", "run getppid --seconds 0.02"] {
        let ended = home.start(home.knee(&format!("{verb} --cpus 1 --dir")).arg(&odd)).end();
        assert_eq!(ended.status.code(), Some(2), "{verb}: {}", ended.stderr);
        assert!(ended.stderr.contains("is not UTF-8"), "{verb}: {}", ended.stderr);
    }
    for verb in
        ["compare", "explain", "show", "record export", "record import", "simulate", "record rm"]
    {
        let ended = home.start(home.knee(verb).arg(word(b"b\xff"))).end();
        assert_eq!(ended.status.code(), Some(2), "{verb}: {}", ended.stderr);
        assert!(!ended.stderr.contains("panicked"), "{verb}: {}", ended.stderr);
    }
}

#[test]
fn cpus_and_tasks_that_cannot_be_had_are_named() {
    check("run getppid --cpus 65536", &["this host allows", "65536 were asked for", "1..all"], 2);
    check("run getppid --cpus 0", &["'0' asks for 0 CPUs"], 2);
    check("run getppid --cpus many", &["'many' is not a number of CPUs: use a number, cores"], 2);
    check("run getppid --cpus 1-18446744073709551616", &["is not a number of CPUs"], 2);
    check("run getppid --tasks 0", &["0 tasks are asked for, at least 1 is needed"], 2);
    check("run getppid --tasks 5000", &["a run has 1 to 4096"], 2);
    check("run getppid --tasks-per-cpu 4294967295", &["a run has 1 to 4096"], 2);
    check("run getppid --tasks 1 --tasks-per-cpu 1", &["cannot be used with"], 2);
    check("run getppid --placement dense", &["'dense' is no placement", "one-per-llc"], 2);
}

#[test]
fn options_that_would_change_nothing_are_refused() {
    check("check ticket --over queued", &["--over names the lock that guards a mechanism"], 2);
    check("simulate ticket --over queued", &["--over names the lock that guards a mechanism"], 2);
    check("simulate log_commit_list --hold 1us", &["--hold is the time in a lock", "--set"], 2);
    check("simulate ticket --reads 50", &["--reads applies only to read-write locks"], 2);
    check("simulate file_locks --data 4", &["--locks, --data and --read are of locks"], 2);
    check("simulate file_locks --work 1us~exp", &["varies by half of it: leave ~exp out"], 2);
    check(
        "simulate ticket --work 1us~often",
        &["~often: must be one of constant, uniform, exp"],
        2,
    );
    check(
        "simulate ticket --data 5000",
        &["--data 5000: all locks together guard at most 4096"],
        2,
    );
    let short = "simulate ticket --cpus 1 --draws 0 --hold 1ms --length 10us";
    check(short, &["ticket: no operation ended at 1 CPU in 10 us", "--length 100us"], 2);
}

#[test]
fn parameters_and_forms_that_a_workload_lacks_are_named() {
    check("run getppid --set hold_ns=3", &["getppid has no parameter 'hold_ns'", "idle_ns"], 2);
    check("run create_files --set sync=often", &["sync=often: must be one of none, fdatasync"], 2);
    check("run getppid --set idle_ns=-1", &["idle_ns=-1: must be a time from 0 to"], 2);
    check("run getppid --set idle_ns", &["must be NAME=1,2,4"], 2);
    check("run getppid --as fibres", &["must be processes or threads"], 2);
    check("run brk --as threads", &["brk runs only as processes: all threads share"], 2);
}

#[test]
fn lengths_that_cannot_be_run_are_named() {
    check("run getppid --seconds 0", &["seconds is 0, must be between 0.001 and"], 2);
    check("run getppid --seconds nan", &["seconds is NaN, must be"], 2);
    check("run getppid --seconds inf", &["seconds is inf, must be"], 2);
    check("run getppid --operations 0", &["operations_per_task is 0"], 2);
    check("run getppid --seconds 1 --operations 1", &["cannot be used with"], 2);
    check("run getppid --blocks 0", &["blocks is 0, must be at least 1"], 2);
    check("run getppid --blocks 4294967295", &["at most 100000 runs", "fewer blocks"], 2);
    check("run getppid --timeout nan", &["timeout_s is NaN, must be above 0 s"], 2);
    check("run getppid --stop-grace 0", &["stop_grace_s is 0, must be above 0 s"], 2);
    check("run getppid --resume", &["no partial record of this experiment", "without --resume"], 2);
}

#[test]
fn a_damaged_experiment_is_named_by_file_line_and_what_was_expected() {
    let experiment = |text: &str, parts: &[&str]| {
        let home = Home::new();
        fs::write(home.path("mine.toml"), text).unwrap();
        check_in(&home, "run mine.toml", &[&["in mine.toml"], parts].concat(), 2);
    };
    experiment("blocks = 2\n[[load]\nworkload = 'brk'", &["line 2, column 8", "expected `]`"]);
    experiment("[[load]]\nworkload = 3", &["line 2, column 12", "expected a string"]);
    experiment("[[load]]\nworklod = 'brk'", &["line 2", "unknown key `load.0.worklod`"]);
    experiment("blocks = 2", &["missing field `load`"]);
    experiment("load = []", &["has no [[load]]: name at least one workload"]);
    experiment(
        "[axes]\ncpus = []\n[[load]]\nworkload = 'brk'",
        &["[axes]", "cpus is an empty list"],
    );
    check("run no-such.toml", &["reading the experiment no-such.toml", "No such file"], 2);
    let home = Home::new();
    fs::create_dir(home.path("folder.toml")).unwrap();
    check_in(&home, "run folder.toml", &["reading the experiment folder.toml"], 2);
    fs::write(home.path("binary.toml"), [0xff, 0xfe, 0]).unwrap();
    check_in(&home, "run binary.toml", &["reading the experiment binary.toml", "UTF-8"], 2);
    let wide = "a = [0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]\n";
    let hostile: String = (0..9).map(|i| wide.replace('a', &format!("p{i}"))).collect();
    fs::write(
        home.path("wide.toml"),
        format!("[[load]]\nworkload='brk'\n[load.parameters]\n{hostile}"),
    )
    .unwrap();
    check_in(&home, "run wide.toml", &["planning brk", "at most 100000 runs"], 2);
}

#[test]
fn directories_that_cannot_be_used_are_named_before_anything_is_measured() {
    check("run getppid --dir /no/such", &["looking for the directory /no/such (--dir)"], 2);
    check("run getppid --dir /etc/passwd", &["/etc/passwd is not a directory (--dir)"], 2);
    // Nobody may make anything here, not even root.
    check("run getppid --dir /proc", &["creating a directory in /proc: choose another --dir"], 2);
    check("--records /proc/records run getppid", &["creating /proc/records"], 2);
    let home = Home::new();
    fs::set_permissions(home.path("measured"), fs::Permissions::from_mode(0o555)).unwrap();
    if is_root() {
        return skip("a directory without permission to write", "root may write everywhere");
    }
    check_in(&home, "run getppid", &["Permission denied", "choose another --dir"], 2);
}

/// A run of two points, of which one cannot work: it fails with a reason that has these
/// parts, the other one finishes, and the status says that some failed.
#[track_caller]
fn check_one_fails(home: &Home, command: &mut Command, parts: &[&str]) {
    let ended = home.start(command).end();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let record = home.record();
    let reasons: Vec<&str> = record
        .runs
        .iter()
        .filter_map(|run| match &run.outcome {
            Outcome::Failed { reason } => Some(reason.as_str()),
            Outcome::Finished { .. } => None,
        })
        .collect();
    assert_eq!((record.runs.len(), reasons.len()), (2, 1), "{reasons:?}");
    for part in parts {
        assert!(reasons[0].contains(part), "no '{part}' in:\n{}", reasons[0]);
        assert!(ended.stderr.contains(part), "not told on standard error: {part}");
    }
    home.check_nothing_is_left();
}

#[test]
fn a_full_directory_fails_the_runs_that_fill_it_and_no_others() {
    if !is_root() {
        return skip("a full directory", "only root may mount a small file system");
    }
    let home = Home::new();
    let script = "knee=$1; shift; ls -A \"$TMPDIR\" > before; \"$knee\" \"$@\"; status=$?; \
                  ls -A \"$TMPDIR\" > after; exit $status";
    let arguments =
        "run create_files getppid --set size_bytes=4k --cpus 1 --blocks 1 --seconds 0.3 --json";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh", env!("CARGO_BIN_EXE_knee")]);
    // create_files has the parameter, getppid does not: an experiment tells them apart.
    let experiment = "[[load]]\nworkload = 'create_files'\nparameters = { size_bytes = '4k' }\n\
                      [[load]]\nworkload = 'getppid'\n";
    fs::write(home.path("fill.toml"), experiment).unwrap();
    let arguments = arguments.replace("create_files getppid --set size_bytes=4k", "fill.toml");
    command.args(arguments.split(' '));
    home.move_in(&mut command);
    // SAFETY: system calls only. The mounts are of the child's own namespace and end with it.
    unsafe {
        let target = std::ffi::CString::new(home.path("measured").to_str().unwrap()).unwrap();
        command.pre_exec(move || {
            let private = libc::MS_REC | libc::MS_PRIVATE;
            let none = std::ptr::null();
            let size = c"size=1m".as_ptr().cast();
            let mounted = libc::unshare(libc::CLONE_NEWNS) == 0
                && libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()) == 0
                && libc::mount(c"none".as_ptr(), target.as_ptr(), c"tmpfs".as_ptr(), 0, size) == 0;
            if mounted { Ok(()) } else { Err(std::io::Error::last_os_error()) }
        });
    }
    check_one_fails(&home, &mut command, &["task 0", "No space left on device"]);
    assert_eq!((home.said("before").as_str(), home.said("after").as_str()), ("", ""));
}

/// Lets a command have at most so many of something, as its soft and its hard limit.
fn limit(command: &mut Command, what: libc::__rlimit_resource_t, most: u64) {
    // SAFETY: a system call only, on a live struct.
    unsafe {
        command.pre_exec(move || {
            let limit = libc::rlimit { rlim_cur: most, rlim_max: most };
            match libc::setrlimit(what, &limit) {
                0 => Ok(()),
                _ => Err(std::io::Error::last_os_error()),
            }
        });
    }
}

#[test]
fn too_few_open_files_fail_the_run_with_advice() {
    let home = Home::new();
    let mut command = home.knee(
        "run open_close_own --as threads --cpus 1 --tasks 1,40 --blocks 1 --seconds 0.05 --json",
    );
    limit(&mut command, libc::RLIMIT_NOFILE, 60);
    let parts =
        ["40 tasks need 136 open files, but the hard limit is 60", "ulimit -Hn", "fewer tasks"];
    check_one_fails(&home, &mut command, &parts);
}

#[test]
fn too_few_processes_are_refused_with_advice() {
    if !is_root() {
        return skip("too few processes", "without root, others of this user count too");
    }
    for form in ["processes", "threads"] {
        let home = Home::new();
        let everybody = fs::Permissions::from_mode(0o777);
        for name in ["", "records", "state", "cache", "measured"] {
            fs::set_permissions(home.path(name), everybody.clone()).unwrap();
        }
        // A copy that this user can reach.
        home.copy_knee();
        let mut command = Command::new(home.path("knee"));
        let arguments = format!(
            "run getppid --as {form} --cpus 1 --tasks 1,40 --blocks 1 --seconds 0.05 --json"
        );
        command.args(arguments.split(' '));
        home.move_in(&mut command);
        // A user that nobody is; the limit counts by user.
        command.uid(64_321);
        limit(&mut command, libc::RLIMIT_NPROC, 20);
        let ended = home.start(&mut command).end();
        let part = "42 tasks are needed, this user may have 20: use fewer, or raise";
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
        assert_eq!(ended.status.code(), Some(2));
        home.check_nothing_is_left();
    }
}

#[test]
fn the_worker_refuses_what_is_no_job() {
    check_job("", &["reading the job", "EOF"]);
    check_job("{", &["reading the job", "line 1 column 1"]);
    check_job("[]", &["reading the job", "line 1 column 2"]);
    check_job(r#"{"protocol":99}"#, &["the job has protocol 99, but this worker has 2"]);
    check_job(r#"{"protocol":2}"#, &["missing field `work`"]);
    check_job(&job("\"tasks\":2", "\"tasks\":0"), &["tasks is 0, must be 1 to 4096"]);
    check_job(&job("\"cpus\":[0]", "\"cpus\":[]"), &["cpus is empty"]);
    check_job(&job("SCRATCH", "here"), &["scratch is here, must be an absolute path"]);
    check_job(&job("\"tasks\":2", "\"tasks\":2,\"task\":2"), &["unknown field `task`"]);
    check_job(&"[".repeat(1 << 20), &["reading the job", "line 1 column 1"]);
}

#[test]
fn the_worker_refuses_what_is_no_command() {
    let end = r#"{"seconds":0.01}"#;
    let job = |from: &str, to: &str| job(from, to).replace("SCRATCH", "/no/such");
    check_job(&job(end, "\"end\""), &["a workload does not end by itself"]);
    let errand = |more: &str| job(NATIVE, &format!(r#""command":{{"run":["true"],{more}}}"#));
    let whole = r#""directory":"/","success":[0],"timeout_s":1"#;
    check_job(&errand(whole), &["a command runs until its \"end\""]);
    let errand = |more: &str| errand(more).replace(end, "\"end\"");
    let here = whole.replace("\"/\"", "\"here\"");
    check_job(&errand(&here), &["the command's directory is here, must be an absolute path"]);
    check_job(&errand(&format!("{whole},\"prepare\":[[]]")), &["a command has no program"]);
    check_job(&errand(&format!("{whole},\"shell\":true")), &["unknown field `shell`"]);
}

#[test]
fn the_worker_says_why_a_job_cannot_be_done() {
    check_event(&job("getppid", "getppip"), "this knee has no workload 'getppip'");
    check_event(&job("\"semantics\":1", "\"semantics\":7"), "the job was planned for 7");
    check_event(
        &job("getppid", "brk").replace("processes", "threads"),
        "brk does not run as threads",
    );
    check_event(&job("SCRATCH", "/no/such"), "creating the directory /no/such");
    check_event(&job("idle_ns", "idle"), "getppid has no parameter 'idle'");
    check_event(&job("[0]", "[60000]"), "pinning to CPU 60000");
}

/// What the job does.
const NATIVE: &str = r#""workload":{"name":"getppid","semantics":1,"parameters":{"idle_ns":"0"}}"#;

/// A job that could be done, with one thing changed.
fn job(from: &str, to: &str) -> String {
    let job = r#"{"protocol":2,"work":{"workload":{"name":"getppid","semantics":1,"parameters":{"idle_ns":"0"}}},"as":"processes","tasks":2,"cpus":[0],"until":{"seconds":0.01},"pass":"rate","scratch":"SCRATCH","stop_grace_s":1}"#;
    assert!(job.contains(from));
    job.replace(from, to)
}

/// Status, standard output and standard error of a worker with this input.
fn worker(home: &Home, input: &str) -> (Option<i32>, String, String) {
    let mut command = home.knee("worker");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // It may have seen enough before the end.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[track_caller]
fn check_job(input: &str, parts: &[&str]) {
    let home = Home::new();
    let (status, stdout, stderr) = worker(&home, input);
    assert_eq!((status, stdout.as_str()), (Some(2), ""), "{stderr}");
    for part in parts {
        assert!(stderr.contains(part), "no '{part}' in:\n{stderr}");
    }
    home.check_nothing_is_left();
}

#[track_caller]
fn check_event(input: &str, part: &str) {
    let home = Home::new();
    let scratch = home.path("measured/scratch");
    let (status, stdout, _) = worker(&home, &input.replace("SCRATCH", scratch.to_str().unwrap()));
    let last = stdout.lines().last().unwrap_or_default();
    assert!(
        last.contains(r#""event":"failed""#) && last.contains(part),
        "no '{part}' in:\n{stdout}"
    );
    assert_eq!(status, Some(0), "a run that failed is an event, not a status");
    home.check_nothing_is_left();
}
