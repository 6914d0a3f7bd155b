//! Loads that users wrote: compiled, measured like workloads, and whatever one does costs its own run.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::time::Duration;

use records::{Outcome, RecordState};

use crate::home::{Ended, Home, entries};
use crate::process::wait_for;
use crate::skip::skip;

/// A test of will-it-scale's interface around a body of C.
const TEST: &str = "#include <stdio.h>\n#include <stdlib.h>\n#include <unistd.h>\n#include <assert.h>\n\
    #include <signal.h>\nchar *testcase_description = \"t\";\nvoid testcase(unsigned long long *iterations, \
    unsigned long nr) { BODY }\n";

/// A home with these files, unless this host cannot compile them.
fn home(test: &str, files: &[(&str, &str)]) -> Option<Home> {
    if Command::new("cc").arg("--version").output().is_err() {
        skip(test, "no C compiler (cc)");
        return None;
    }
    let home = Home::new();
    for (name, text) in files {
        fs::write(home.path(name), text).unwrap();
    }
    Some(home)
}

fn run(home: &Home, words: &str) -> Ended {
    home.start(&mut home.knee(&format!("run {words} --json --blocks 1 --seconds 0.1"))).end()
}

/// Running the file fails its runs for a reason with this part, and leaves nothing.
#[track_caller]
fn check_fails(body: &str, form: &str, part: &str) {
    let Some(home) = home("own_loads", &[("t.c", &TEST.replace("BODY", body))]) else { return };
    // Only what waits for the grace to end has a short one: a busy host may keep a task from its CPU that long.
    let waits = ["counted no operation", "did not stop"].iter().any(|end| part.starts_with(end));
    let grace = if waits { 0.5 } else { 60.0 };
    // A host that stops for the whole of a run lets it end well: then a longer one.
    let mut tries = [0.5, 2.0, 8.0].iter().map(|seconds| {
        home.run(&format!(
            "run t.c --json --blocks 1 --cpus 1 --as {form} --stop-grace {grace} --seconds {seconds}"
        ))
    });
    let ended = tries.find(|ended| ended.status.code() != Some(0)).expect("a run that fails");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let record = home.records().into_iter().next_back().unwrap();
    assert_eq!((record.runs.len(), record.record.state), (1, RecordState::Whole));
    match &record.runs[0].outcome {
        Outcome::Failed { reason } => assert!(reason.contains(part), "no '{part}' in: {reason}"),
        Outcome::Finished { .. } => panic!("it finished: {:?}", record.runs[0]),
    }
    home.check_nothing_is_left();
}

/// The file is refused with an error that has this part.
#[track_caller]
fn check_refused(name: &str, text: &str, part: &str) {
    let Some(home) = home("own_loads", &[(name, text)]) else { return };
    let ended = run(&home, name);
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains(part), "no '{part}' in: {}", ended.stderr);
}

#[test]
fn tests_in_the_interface_of_will_it_scale_run_as_processes_and_threads() {
    let files = [
        ("parent_id.c", include_str!("../../../own_loads/tests/loads/parent_id.c")),
        ("shared_file.c", include_str!("../../../own_loads/tests/loads/shared_file.c")),
        ("ping_pong.c", include_str!("../../../own_loads/tests/loads/ping_pong.c")),
    ];
    let Some(home) = home("own_loads", &files) else { return };
    // So long that each task counts in it, however busy the host is.
    let line = "run parent_id.c shared_file.c ping_pong.c --cpus 1 --tasks 3 --as processes,threads \
                --json --blocks 1 --seconds 0.5";
    let ended = home.start(&mut home.knee(line)).end();
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.runs.len(), 6);
    for run in &record.runs {
        let Outcome::Finished { metrics, .. } = &run.outcome else { panic!("{run:?}") };
        assert!(metrics.get("operations").is_some_and(|n| n > 0.0), "{run:?}");
    }
    let own = record.record.own_load("ping_pong.c").and_then(|own| own.compiled.clone()).unwrap();
    assert_eq!(own.text, files[2].1);
    assert!(own.compiler.len() > 3 && own.command.contains(&"-O2".to_string()), "{own:?}");
    let operation = &record.record.operations["shared_file.c"];
    assert!(operation.starts_with("operations as the test counts them (Write one"), "{operation}");
    home.check_nothing_is_left();
}

#[test]
fn the_example_load_is_measured_timed_counted_and_verified() {
    let Some(home) = home("own_loads", &[]) else { return };
    let written = home.start(&mut home.knee("new load x.c")).end();
    assert_eq!(written.status.code(), Some(0), "{}", written.stderr);
    let again = home.start(&mut home.knee("new load x.c")).end();
    assert!(again.stderr.contains("exists already"), "{}", again.stderr);
    let ended =
        run(&home, "x.c --set size=4k,8k --cpus 1 --tasks 2 --as processes,threads --latency");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let record = home.record();
    assert_eq!(record.runs.len(), 8);
    let sizes = record.record.points.iter().map(|point| point.parameters["size"].as_str());
    assert_eq!(sizes.filter(|size| *size == "8192").count(), 4);
    for run in &record.runs {
        let Outcome::Finished { metrics, .. } = &run.outcome else { panic!("{run:?}") };
        let timed = record.record.points[run.point as usize].pass == records::Pass::Latency;
        assert_eq!(metrics.contains_key("latency.p99_ns"), timed, "{metrics:?}");
    }
    let counted =
        home.start(&mut home.knee("run x.c --operations 1000 --cpus 1 --blocks 1 --json")).end();
    assert!(counted.stdout.contains("\"operations\":1000.0"), "{}", counted.stdout);
    home.check_nothing_is_left();
}

#[test]
fn a_load_that_miscounts_is_found_by_its_own_verification() {
    let text = include_str!("../../../own_loads/c/example.c");
    let text = text.replace("mine->bytes += (size_t)written;", "mine->bytes += 1;");
    let Some(home) = home("own_loads", &[("x.c", &text)]) else { return };
    let ended = run(&home, "x.c --cpus 1");
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stdout.contains("operations wrote"), "{}", ended.stdout);
}

#[test]
fn whatever_a_test_does_costs_its_own_run() {
    let count = "while (1) { getppid(); (*iterations)++; }";
    for form in ["processes", "threads"] {
        check_fails(
            "while (1) if (++*iterations == 9999) *(volatile int *)0 = 1;",
            form,
            "killed by",
        );
        check_fails(
            "while (1) assert(++*iterations < 9999);",
            form,
            "Assertion `++*iterations < 9999'",
        );
        check_fails("while (1) getppid();", form, "counted no operation within");
        check_fails(
            "*iterations = 1ull << 40; while (1) { getppid(); --*iterations; }",
            form,
            "ran backwards",
        );
        check_fails("*iterations = 7;", form, "testcase() returned after it had counted to 7");
        let blocks = "sigset_t all; sigfillset(&all); pthread_sigmask(SIG_BLOCK, &all, 0); ";
        check_fails(&format!("{blocks}{count}"), form, "did not stop");
    }
    check_fails("while (1) if (++*iterations == 9999) exit(3);", "processes", "called exit(3)");
    check_fails("while (1) if (++*iterations == 9999) exit(3);", "threads", "ended with status 3");
}

#[test]
fn what_forks_or_prints_is_measured_and_leaves_nothing() {
    let body =
        "if (fork() == 0) while (1) pause(); while (1) { puts(\"again\"); (*iterations)++; }";
    let Some(home) = home("own_loads", &[("t.c", &TEST.replace("BODY", body))]) else { return };
    let ended = run(&home, "t.c --cpus 1 --as processes,threads");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    let warnings = home.record().runs.into_iter().flat_map(|run| run.warnings);
    let printed = warnings.filter(|warning| warning.text.contains("t.c printed: again"));
    assert_eq!(printed.count(), 2);
    home.check_nothing_is_left();
}

/// A server that knee_prepare has forked outlives the tasks, and ends with the run. Flags name another source and a folder
/// from where knee is called; the load is made again if either changes.
#[test]
fn a_load_of_two_files_with_a_server_is_measured() {
    const LOAD: &str = "#include <signal.h>\n#include <unistd.h>\n#include <two.h>\n#include \"knee.h\"\n\
        const char *const knee_description = \"d\";\nconst char *const knee_operation = \"o\";\n\
        const unsigned knee_semantics = 1;\nstatic unsigned long count;\n\
        int knee_prepare(const struct knee_run *run) { if (fork() == 0) for (;;) pause(); return 0; }\n\
        int knee_operate(void *task) { count += two(); return 0; }\n\
        int knee_verify(void *task, unsigned long long n) { return count == TWO * n ? 0 : knee_fail(\"%lu\", count); }\n";
    let files = [("load.c", LOAD), ("two.c", "#include <two.h>\nint two(void) { return TWO; }\n")];
    let Some(home) = home("own_loads", &files) else { return };
    fs::create_dir(home.path("include")).unwrap();
    let header = |two: u32| {
        let text = format!("#define TWO {two}\nint two(void);\n");
        fs::write(home.path("include/two.h"), text).unwrap();
    };
    for two in [2, 3] {
        header(two);
        let mut knee =
            home.knee("run load.c --json --blocks 1 --seconds 0.1 --cpus 1 --as processes");
        let ended = home.start(knee.args(["--cflags", "two.c -I include"])).end();
        assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    }
    home.check_nothing_is_left();
}

/// A publication names a lock in C beside it, which is compiled with the publication's flags.
#[test]
fn a_publication_names_a_lock_in_c() {
    const LOCK: &str = "#include <knee_lock.h>\n#include <own.h>\n\
        KNEE_LOCK(own, while (__atomic_exchange_n(lock, TAKEN, 2));, __atomic_store_n(lock, 0, 3))\n";
    let publication = |lock: &str, file: &str| {
        format!(
            "title = \"t\"\nlimitations = [\"l\"]\ncflags = \"-I .\"\n[sources]\ns = \"s\"\n[load]\nhost = \"icelake-4\"\nlock = \"{lock}\"\n\
             data = 1\nlength_ms = 1\n[[target]]\nwhat = \"w\"\nreported = 0.5\nof = {{ cpus = 2 }}\nover = {{ lock = \"{file}\", cpus = 2 }}\n"
        )
    };
    let files = [
        ("own.c", LOCK),
        ("own.h", "typedef int own;\n#define TAKEN 1\n"),
        ("p.toml", &publication("ticket", "own.c")),
        ("missing.toml", &publication("ticket", "none.c")),
        ("unknown.toml", &publication("tickets", "own.c")),
    ];
    let Some(home) = home("own_loads", &files) else { return };
    let replayed = |file: &str| {
        home.start(&mut home.knee(&format!("simulate replay {file} --draws 1 --json"))).end()
    };
    let ended = replayed("p.toml");
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
    assert!(ended.stdout.contains("\"grade\""), "{}", ended.stdout);
    for (file, part) in [("missing.toml", "none.c"), ("unknown.toml", "a lock in C is a file")] {
        let ended = replayed(file);
        assert_eq!(ended.status.code(), Some(2), "{file}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in: {}", ended.stderr);
    }
}

#[test]
fn what_is_no_load_is_refused_in_a_line() {
    let test = |body: &str| TEST.replace("BODY", body);
    check_refused("x.c", "int x;", "it is no load: it has neither knee_operate");
    check_refused("x.c", "int main(void) { return 0; }", "a load has none");
    check_refused("x.c", &test("undeclared;"), "error: 'undeclared' undeclared");
    check_refused(
        "x.c",
        "#include \"knee.h\"\nint knee_operate(void *t) { return 0; }",
        "it lacks knee_d",
    );
    check_refused("x.c --latency", "", "looking for the file");
    check_refused("missing.o", "not an object", "compiling");
    let Some(home) = home("own_loads", &[("t.c", &test("while (1) ++*iterations;"))]) else {
        return;
    };
    for (words, part) in [
        ("--latency", "leave --latency out"),
        ("--operations 10", "give --seconds instead"),
        ("--set size=1", "it has no parameters, and 'size' is set"),
        ("--cflags '-O3", "unclosed quote"),
        ("--cflags -fsanitize=undefined,address", "sanitizer"),
        ("--dose inside=0,1us,2us", "only workloads of knee take doses"),
    ] {
        let mut knee = home.knee("run t.c");
        let ended = match words.split_once(' ') {
            Some((name, value)) => home.start(knee.args([name, value])).end(),
            None => home.start(knee.arg(words)).end(),
        };
        assert_eq!(ended.status.code(), Some(2), "{words}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "no '{part}' in: {}", ended.stderr);
    }
}

#[test]
fn without_a_compiler_the_error_says_what_to_install() {
    let Some(home) = home("own_loads", &[("t.c", &TEST.replace("BODY", "while (1);"))]) else {
        return;
    };
    let ended = home.start(home.knee("run t.c").env("PATH", "/nonexistent").env_remove("CC")).end();
    assert!(ended.stderr.contains("no compiler is in PATH (cc, gcc, clang)"), "{}", ended.stderr);
}

#[test]
fn a_signal_while_the_compiler_works_ends_both_and_leaves_no_folder() {
    use std::os::unix::process::ExitStatusExt;
    let slow =
        "#!/bin/sh\ntouch \"$STARTED\"\nwhile kill -0 $PPID 2>/dev/null; do sleep 0.1; done\n";
    let home = Home::new();
    fs::write(home.path("t.c"), TEST.replace("BODY", "while (1);")).unwrap();
    fs::write(home.path("slow-cc"), slow).unwrap();
    fs::set_permissions(home.path("slow-cc"), PermissionsExt::from_mode(0o755)).unwrap();
    let root = home.path("cache/knee/own-loads");
    let building = || {
        let names =
            entries(&root).into_iter().filter_map(|path| path.file_name().map(|n| n.to_owned()));
        names.filter(|name| name.to_string_lossy().starts_with("building-")).count()
    };
    for (words, signal, left) in [
        ("show t.c", libc::SIGINT, 0),
        ("run t.c", libc::SIGTERM, 0),
        ("run t.c", libc::SIGKILL, 1),
    ] {
        let started = home.path("started");
        let mut knee = home.knee(words);
        knee.env("CC", home.path("slow-cc")).env("STARTED", &started);
        let mut running = home.start(&mut knee);
        while !started.exists() {
            assert!(!running.has_ended(), "{words}: {}", running.end().stderr);
            std::thread::sleep(Duration::from_millis(5));
        }
        fs::remove_file(&started).unwrap();
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.status.signal(), Some(signal), "{words}: {}", ended.stderr);
        assert_eq!(building(), left, "{words}, signal {signal}");
    }
    // The next compiler's start removes what the killed knee left.
    let refused = home.start(home.knee("run t.c").env("CC", "false")).end();
    assert!(refused.stderr.contains("false: exit status: 1"), "{}", refused.stderr);
    assert_eq!(building(), 0);
}

#[test]
fn a_test_that_is_ended_early_puts_away_its_files() {
    let body = "while (1) { getppid(); (*iterations)++; if (getenv(\"CRASH\")) abort(); }";
    let Some(home) = home("own_loads", &[]) else { return };
    let made = home.path("made");
    let around = format!(
        "void testcase_prepare(unsigned long n) {{ fclose(fopen(\"{0}\", \"w\")); }}\n\
         void testcase_cleanup(void) {{ unlink(\"{0}\"); }}\n",
        made.display()
    );
    fs::write(home.path("t.c"), TEST.replace("BODY", body) + &around).unwrap();
    for (form, signal) in [
        ("processes", libc::SIGINT),
        ("threads", libc::SIGINT),
        ("processes", libc::SIGKILL),
        ("threads", libc::SIGKILL),
    ] {
        let arguments = format!("run t.c --cpus 1 --as {form} --blocks 1 --seconds 60");
        let running = home.start(&mut home.knee(&arguments));
        wait_for("the file of the test", || made.exists().then_some(()));
        running.signal(signal);
        let ended = running.end();
        assert!(!ended.status.success(), "{}", ended.stderr);
        wait_for("the file to go", || (!made.exists()).then_some(()));
    }
    let arguments = "run t.c --cpus 1 --as processes --blocks 1 --seconds 60";
    let ended = home.start(home.knee(arguments).env("CRASH", "1")).end();
    assert!(ended.stdout.contains("killed by"), "{}", ended.stdout);
    assert!(!made.exists());
}

#[test]
fn the_loads_of_a_folder_are_listed_with_their_descriptions() {
    let load = include_str!("../../../own_loads/tests/loads/parent_id.c");
    let by_macro = "char *testcase_description = ABOUT;\nvoid testcase(";
    let object = "an object file with the symbols testcase() and knee_operate";
    let files = [("a.c", load), ("b.c", "int x;"), ("c.c", by_macro), ("d.o", object)];
    let Some(home) = home("own_loads", &files) else { return };
    let listed = home.start(&mut home.knee("list loads .")).end();
    assert!(listed.stdout.contains("Ask for the parent's id"), "{}", listed.stdout);
    assert!(listed.stdout.ends_with("\nc.c\n"), "{}", listed.stdout);
    assert!(!listed.stdout.contains("b.c"), "{}", listed.stdout);
    let folder = home.start(&mut home.knee("run .")).end();
    assert!(
        folder.stderr.contains(". is a folder: name its files, as in ./*.c"),
        "{}",
        folder.stderr
    );
    let none = home.start(&mut home.knee("list workloads .")).end();
    assert!(none.stderr.contains("only `knee list loads` takes a folder"), "{}", none.stderr);
}

#[test]
fn a_new_lock_holds_and_is_never_written_over() {
    let Some(home) = home("own_locks", &[]) else { return };
    let ended = |words: &str| home.start(&mut home.knee(words)).end();
    let written = ended("new lock my_lock.c");
    assert_eq!(written.status.code(), Some(0), "{}", written.stderr);
    let checked = ended("check my_lock.c");
    assert!(checked.stdout.contains("holds"), "{} {}", checked.stdout, checked.stderr);
    let mutants = ended("check my_lock.c --mutants");
    assert_eq!(mutants.status.code(), Some(0), "{}", mutants.stdout);
    for (words, part) in [
        ("new lock my_lock.c", "exists already, and is left as it is"),
        ("new load my_lock.c", "exists already, and is left as it is"),
        ("new lock other", "a new lock is a file in C: name it other.c"),
    ] {
        let refused = ended(words);
        assert_eq!(refused.status.code(), Some(2), "{words}: {}", refused.stderr);
        assert!(refused.stderr.contains(part), "{words}: {}", refused.stderr);
    }
    assert!(!home.path("other").exists());
}
