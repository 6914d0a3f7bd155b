//! `knee check` from the command line: its status, its JSON, and what it refuses.

use std::path::Path;

use crate::home::Home;

#[track_caller]
fn refused(arguments: &str, parts: &[&str]) {
    let ended = Home::new().run(arguments);
    assert_eq!(ended.status.code(), Some(2), "knee {arguments}: {}", ended.stderr);
    for part in parts {
        assert!(ended.stderr.contains(part), "no '{part}' in:\n{}", ended.stderr);
    }
}

/// The status, and what was printed.
fn checked(arguments: &str) -> (Option<i32>, String) {
    let ended = Home::new().run(arguments);
    (ended.status.code(), ended.stdout)
}

#[test]
fn what_cannot_be_checked_is_refused() {
    refused("check", &["<NAMES>"]);
    refused("check tiket", &["no algorithm is called \"tiket\"; did you mean \"ticket\"?"]);
    refused("check ticket --threads 0", &["--threads 0: must be 1 to 15"]);
    refused("check ticket --threads 16", &["--threads 16: must be 1 to 15"]);
    refused("check ticket --acquires 100000", &["--acquires 100000: must be at most 1000"]);
    refused("check ticket --acquires 0", &["--acquires 0: no task would take the lock"]);
    refused("check ticket --states 0", &["--states 0: the search would give up at its start"]);
    refused("check ticket --sample 0", &["--sample 0: no schedule would be tried"]);
    refused("check file_locks --against-kernel 0", &["--against-kernel 0: no call is made"]);
    refused("check ticket --locks 5", &["--locks"]);
    refused(
        "check queued_read_write --locks 2",
        &["queued_read_write --locks 2", "take a single lock"],
    );
    refused("check ticket --replay 0.x", &["--replay: 'x' is not a step of a schedule"]);
    refused("check ticket --replay 7", &["step 1 of the schedule is impossible for t7"]);
    refused("check all --replay 0", &["--replay: name a single algorithm"]);
    refused("check ticket --mutants --tso", &["cannot be used with"]);
    refused("check ticket --mutants --sample 10", &["cannot be used with"]);
    refused(
        "check ticket --memory arm",
        &["possible values: lkmm-6.2, lkmm, rc11, armv8, x86, sc"],
    );
}

#[test]
fn a_lock_that_holds_ends_with_0_and_one_not_searched_to_the_end_with_3() {
    let (status, said) = checked("check ticket mcs --threads 2");
    assert_eq!(status, Some(0), "{said}");
    assert_eq!(said.matches("  holds  ").count(), 2, "{said}");
    let (status, said) = checked("check queued --states 10");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("not checked: the search gave up at 10 states"), "{said}");
    assert!(said.contains("way out: try fewer tasks") && !said.contains("holds:"), "{said}");
}

/// A lock in C in a folder of its own, and what `knee check` says of it.
fn checked_c(body: &str, flags: &str) -> (Option<i32>, String) {
    let home = Home::new();
    let file = home.path("my_lock.c");
    let start = "#include <knee_lock.h>\n#include <stdatomic.h>\n#include <stdlib.h>\nstruct my_lock { atomic_int word; };\n";
    let end = "\nKNEE_LOCK(struct my_lock, my_lock(lock), my_unlock(lock))\n";
    std::fs::write(&file, format!("{start}{body}{end}")).unwrap();
    let ended = home.run(&format!("check {} {flags}", file.display()));
    (ended.status.code(), format!("{}{}", ended.stdout, ended.stderr))
}

#[test]
fn a_lock_that_is_wrong_ends_with_1_and_one_that_cannot_be_checked_with_3() {
    let unlock = "static void my_unlock(struct my_lock *lock) { lock->word = 0; }\n";
    let torn = "static void my_lock(struct my_lock *lock) { while (lock->word) ; lock->word = 1; }";
    let (status, said) = checked_c(&format!("{unlock}{torn}"), "--threads 2");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("WRONG: race") && !said.contains("holds"), "{said}");
    let elsewhere = "int elsewhere(void); static void my_lock(struct my_lock *lock) { lock->word = elsewhere(); }";
    let (status, said) = checked_c(&format!("{unlock}{elsewhere}"), "--threads 2");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("not checked: line 6: it calls"), "{said}");
    assert!(said.contains("way out: include its source"), "{said}");
    assert!(!said.contains("WRONG") && !said.contains("holds"), "{said}");
    let (status, said) = checked_c(&format!("{unlock}{elsewhere}"), "--mutants");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("not checked") && said.contains("way out"), "{said}");
    let (status, said) = checked_c(&format!("{unlock}{elsewhere}"), "--json");
    assert_eq!(status, Some(3), "{said}");
    let json = &said[said.find('[').unwrap()..=said.rfind(']').unwrap()];
    let all: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(all[0]["verdict"], "not checked");
    assert!(all[0]["way_out"].as_str().unwrap().contains("include its source"), "{said}");
}

/// A lock with a hint that its tasks write and read plainly: lines 5 to 12.
const HINTED: &str = "static int hint;
static void my_lock(struct my_lock *lock)
{
    hint = 1;
    while (atomic_exchange_explicit(&lock->word, 1, memory_order_acquire))
        ;
    atomic_store_explicit(&lock->word, hint, memory_order_relaxed);
}
static void my_unlock(struct my_lock *lock) { atomic_store_explicit(&lock->word, 0, memory_order_release); }
";

#[test]
fn a_race_that_its_author_accepts_is_named_in_the_verdict() {
    let (status, said) = checked_c(HINTED, "--threads 2");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("data race: t1 writes hint at my_lock.c:8"), "{said}");
    let (status, said) =
        checked_c(HINTED, "--threads 2 --accept-race my_lock.c:8 --accept-race my_lock.c:9");
    assert_eq!(status, Some(0), "{said}");
    for part in [
        "2 races accepted: my_lock.c:8 (plain store beside the plain store of :8);",
        "my_lock.c:8 (plain store beside the plain load of :11)",
        "accepted, but no race was found there: my_lock.c:9 (leave it out)",
        "holds, 2 races accepted",
    ] {
        assert!(said.replace("\n  ", " ").contains(part), "no '{part}' in:\n{said}");
    }
    let (_, said) = checked_c(HINTED, "--threads 2 --accept-race my_lock.c:8 --json");
    let json = &said[said.find('[').unwrap()..=said.rfind(']').unwrap()];
    let all: serde_json::Value = serde_json::from_str(json).unwrap();
    let races = all[0]["accepted_races"].as_array().unwrap();
    assert_eq!(
        (&races[1]["at"], &races[1]["beside"]),
        (&"my_lock.c:8".into(), &"my_lock.c:11".into())
    );
}

/// Line 11 takes part in an accepted race only, so races of it with itself stay errors.
#[test]
fn what_races_with_an_accepted_line_may_race_with_no_other() {
    let twice = HINTED.replace("&lock->word, hint,", "&lock->word, hint++,");
    let (status, said) = checked_c(&twice, "--threads 2 --accept-race my_lock.c:8");
    assert_eq!(status, Some(0), "the lock orders line 11: {said}");
    let outside = twice.replace("while (", "atomic_signal_fence(5); hint += 2; while (");
    let (status, said) = checked_c(&outside, "--threads 2 --accept-race my_lock.c:8");
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("data race") && said.contains("my_lock.c:9"), "{said}");
    let rerun = said.lines().skip_while(|line| !line.contains("knee check"));
    let rerun = rerun.map(|line| line.trim().trim_end_matches('\\')).collect::<Vec<_>>().join(" ");
    assert!(rerun.contains("--accept-race my_lock.c:8 --replay"), "{said}");
}

#[test]
fn accepted_lines_are_those_of_a_file_that_is_checked() {
    refused("check ticket --accept-race ticket.rs:5", &["--accept-race is for locks in C"]);
    for (line, why) in [
        ("my_lock.c", "--accept-race my_lock.c: write FILE:LINE, as in queue.c:41"),
        ("my_lock.c:0", "--accept-race my_lock.c:0: write FILE:LINE"),
        ("my_lock.c:400", "--accept-race my_lock.c:400: my_lock.c has 15 lines"),
        ("other.c:4", "--accept-race other.c:4: no other.c is compiled here, only my_lock.c"),
    ] {
        let (status, said) = checked_c(HINTED, &format!("--accept-race {line}"));
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(why), "no '{why}' in:\n{said}");
    }
    refused("check ticket --accept-race a.c:4 --mutants", &["cannot be used with"]);
}

#[test]
fn a_fault_of_weak_memory_says_on_which_models_the_lock_holds() {
    let body = "static void my_lock(struct my_lock *lock) { while (atomic_exchange_explicit(&lock->word, 1, memory_order_ACQUIRE)) ; }
static void my_unlock(struct my_lock *lock) { static atomic_int last; atomic_store_explicit(&last, 1, memory_order_relaxed);
 atomic_store_explicit(&lock->word, 0, memory_order_release); }\n";
    let (status, said) =
        checked_c(&body.replace("ACQUIRE", "acquire"), "--threads 2 --memory rc11");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains(" rc11 ") && said.contains("holds"), "{said}");
    let home = Home::new();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c_locks/tests/locks/mcs_orders.c");
    let command =
        format!("--width 80 check {} --threads 2 --cflags=-DPUBLISH=relaxed", file.display());
    let ended = home.run(&command);
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let level = "mcs_orders.c is WRONG: holds on x86 and sc, fails under rc11: deadlock";
    assert!(ended.stdout.contains(level), "{}", ended.stdout);
    assert!(ended.stdout.contains("comes before the write of"), "{}", ended.stdout);
    assert!(ended.stdout.contains("--memory rc11 --cflags"), "{}", ended.stdout);
    let ended = home.run(&format!("{command} --memory x86"));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stdout);
}

/// Without the order that x86 gives them, a store and a load that others race with order nothing.
#[test]
fn accepted_accesses_have_the_order_of_x86_where_the_file_says_so() {
    let body =
        "static void my_lock(struct my_lock *lock) { while (atomic_exchange(&lock->word, 1)) ; }
static void my_unlock(struct my_lock *lock) { *(int *)&lock->word = 0; }
";
    let accept = "--threads 2 --memory x86 --accept-race my_lock.c:6";
    let (status, said) = checked_c(&format!("{body}KNEE_X86_ORDER"), accept);
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("race accepted: my_lock.c:6 (plain store"), "{said}");
    let (status, said) = checked_c(body, accept);
    assert_eq!(status, Some(1), "{said}");
    let said = said.replace("\n  ", " ");
    assert!(said.contains("my_lock.c:6 is relaxed and needs release order"), "{said}");
}

#[test]
fn a_loop_over_a_plain_access_may_wait_for_an_accepted_race() {
    let body = "static int is_taken;
static void my_lock(struct my_lock *lock)
{
    while (atomic_exchange(&lock->word, 1))
        while (is_taken)
            __asm__ volatile(\"pause\" ::: \"memory\");
    is_taken = 1;
}
static void my_unlock(struct my_lock *lock) { is_taken = 0; atomic_store(&lock->word, 0); }
";
    let (status, said) = checked_c(body, "--threads 2 --accept-race my_lock.c:9");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.contains("accepted: my_lock.c:9 (plain load beside the plain store of"), "{said}");
}

/// A waiter whose store buffer takes turns with it.
const BUFFERED_SPIN: &str = "static atomic_int tries;
static void my_lock(struct my_lock *lock)
{
    int mine = 0;
    while (atomic_exchange_explicit(&lock->word, 1, memory_order_acquire))
        atomic_store_explicit(&tries, ++mine, memory_order_relaxed);
}
static void my_unlock(struct my_lock *lock) { atomic_store_explicit(&lock->word, FREE, memory_order_release); }
";

#[test]
fn a_sampled_schedule_that_a_fair_one_ends_is_no_fault() {
    let flags = "--sample 300 --memory x86 --threads 3";
    let (status, said) = checked_c(&BUFFERED_SPIN.replace("FREE", "0"), flags);
    assert_eq!(status, Some(0), "{said}");
    for part in [
        "nothing found in 300 random schedules",
        "of the schedules differ; in 3 tasks with store buffers and",
        "a fault of depth 3 is missed with a probability of at most",
    ] {
        assert!(said.replace("\n  ", " ").contains(part), "no '{part}' in:\n{said}");
    }
    let (status, said) = checked_c(&BUFFERED_SPIN.replace("FREE", "1"), flags);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains("never ends"), "{said}");
}

#[test]
fn what_orders_of_a_wrong_lock_refer_to_has_the_flags_that_were_given() {
    let (status, said) = checked_c(
        &BUFFERED_SPIN.replace("_release", "_relaxed"),
        "--orderings --memory x86 --cflags=-DFREE=0",
    );
    assert_eq!(status, Some(1), "{said}");
    let said = said.replace("\n  ", " ");
    assert!(said.contains("--threads 2 --acquires 1 --memory x86 --cflags '-DFREE=0'"), "{said}");
}

/// The names that SARIF 2.1.0 requires of the objects that are written.
const SARIF_REQUIRES: [(&str, &[&str]); 6] = [
    ("", &["version", "runs"]),
    ("runs", &["tool"]),
    ("tool", &["driver"]),
    ("driver", &["name"]),
    ("results", &["message"]),
    ("codeFlows", &["threadFlows"]),
];

/// What an object, or all objects in it, lack.
fn lacking(name: &str, value: &serde_json::Value) -> Vec<String> {
    let mut missing = Vec::new();
    let required = SARIF_REQUIRES.iter().filter(|(of, _)| *of == name);
    let required = required.flat_map(|(_, required)| required.iter()).copied();
    let required = match name {
        "threadFlows" => vec!["locations"],
        "rules" => vec!["id"],
        "message" | "shortDescription" => vec!["text"],
        "invocations" => vec!["executionSuccessful"],
        "toolExecutionNotifications" => vec!["message"],
        _ => required.collect(),
    };
    match value {
        serde_json::Value::Array(all) => {
            all.iter().for_each(|one| missing.extend(lacking(name, one)));
        }
        serde_json::Value::Object(members) => {
            let absent = required.iter().filter(|member| !members.contains_key(**member));
            missing.extend(absent.map(|member| format!("{name}: {member}")));
            members.iter().for_each(|(name, one)| missing.extend(lacking(name, one)));
        }
        _ => {}
    }
    missing
}

#[test]
fn faults_are_written_for_editors() {
    let home = Home::new();
    let (file, locks) = (home.path("check.sarif"), Path::new(env!("CARGO_MANIFEST_DIR")));
    let lock = locks.join("../c_locks/tests/locks/mcs_orders.c").canonicalize().unwrap();
    let command = format!("check {} ticket --threads 2 --sarif {}", lock.display(), file.display());
    let ended = home.run(&format!("{command} --cflags=-DPUBLISH=relaxed"));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stdout);
    let text = std::fs::read_to_string(&file).unwrap();
    let log: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(lacking("", &log), Vec::<String>::new(), "{text}");
    let results = log["runs"][0]["results"].as_array().unwrap();
    let [result] = &results[..] else { panic!("{text}") };
    assert_eq!(result["ruleId"], "knee-deadlock");
    let message = result["message"]["text"].as_str().unwrap();
    assert!(message.contains("holds on x86 and sc, fails under rc11: deadlock"), "{message}");
    let place = &result["locations"][0]["physicalLocation"];
    assert!(place["artifactLocation"]["uri"].as_str().unwrap().ends_with("mcs_orders.c"), "{text}");
    let flows = result["codeFlows"][0]["threadFlows"].as_array().unwrap();
    let names: Vec<_> = flows.iter().map(|flow| flow["id"].as_str().unwrap()).collect();
    assert_eq!(names, ["t0", "t1"]);
    let orders = flows.iter().flat_map(|flow| flow["locations"].as_array().unwrap());
    let mut orders: Vec<u64> =
        orders.map(|step| step["executionOrder"].as_u64().unwrap()).collect();
    orders.sort();
    assert!(orders.iter().copied().eq(1..=orders.len() as u64), "{orders:?}");
    let ended = home.run("check ticket --threads 2 --sarif /nowhere/a.sarif");
    assert_eq!(ended.status.code(), Some(2), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("--sarif /nowhere/a.sarif: writing the file"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_wide_terminal_shows_a_column_for_each_task() {
    let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c_locks/tests/locks/names.c");
    let command = format!("check {} --threads 2", lock.display());
    let (_, wide) = checked(&format!("--width 120 {command}"));
    assert!(wide.contains("at "), "{wide}");
    let heading = wide.lines().find(|line| line.starts_with("at ")).unwrap();
    assert!(heading.contains(" t0"), "{wide}");
    assert!(wide.contains("shared.packed.all add 131073 -> 0"), "{wide}");
    assert!(wide.contains("(held 0 -> 1, tail 0 -> 2)"), "{wide}");
    let (_, narrow) = checked(&format!("--width 80 {command}"));
    assert!(!narrow.lines().any(|line| line.starts_with("at ")), "{narrow}");
}

#[test]
fn litmus_tests_are_searched_by_file_and_by_folder() {
    let home = Home::new();
    let file = home.path("MP.litmus");
    let test = "C MP\n{}\nP0 (atomic_int* x) { *x = 1; }\nP1 (atomic_int* x) { int r0 = *x; }\nexists (1:r0=1)\n";
    std::fs::write(&file, test).unwrap();
    let ended = home.run(&format!("check --litmus {}", file.display()));
    assert_eq!(ended.status.code(), Some(0), "{}", ended.stdout);
    assert!(ended.stdout.contains("1 litmus test under rc11: 1 sometimes"), "{}", ended.stdout);
    std::fs::write(home.path("loop.litmus"), test.replace("*x = 1;", "while (1) {}")).unwrap();
    let folder = file.parent().unwrap().display();
    let ended = home.run(&format!("check --litmus {folder} --memory sc --json"));
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stdout);
    let all: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(
        (&all[0]["observed"], &all[1]["why"]),
        (&"sometimes".into(), &"a loop (while)".into())
    );
    refused("check --litmus /nowhere", &["/nowhere"]);
    refused("check ticket --litmus /nowhere", &["cannot be used with"]);
}

#[test]
fn json_has_the_numbers() {
    let (status, said) = checked("check ticket --threads 2 --tso --json");
    assert_eq!(status, Some(0), "{said}");
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(all[0]["states"], 12);
    assert_eq!(all[0]["memory"], "x86");
    assert_eq!((&all[0]["complete"], &all[0]["verdict"]), (&true.into(), &"holds".into()));
    let (_, said) = checked("check test_and_set --mutants --json");
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(all[0]["mutants"].as_array().unwrap().len(), 7);
    let (_, said) = checked("check queued --threads 9 --sample 50 --seed 3 --json");
    let all: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!((&all[0]["schedules"], &all[0]["complete"]), (&50.into(), &false.into()));
}

#[test]
fn a_schedule_is_followed_step_by_step() {
    let (status, said) = checked("--width 80 check ticket --threads 2 --replay 0x2.1");
    assert_eq!(status, Some(0), "{said}");
    assert!(said.starts_with("nothing is wrong\n"), "{said}");
    assert!(said.contains("\nt0    lock.next add 1 -> 0 "), "{said}");
}

#[test]
fn algorithms_are_listed_and_described() {
    let (_, said) = checked("list algorithms");
    assert!(said.contains("\nqueued                       Queued spin lock"), "{said}");
    let (_, said) = checked("show queued");
    assert!(said.contains("0-7 locked") && said.contains("knee check queued"), "{said}");
    let (_, said) = checked("show icelake-2s");
    assert!(said.contains(r#"memory = { found = "175.7 GB/s", source = "mlc" }"#), "{said}");
    let (_, said) = checked("show icelake-2s --json");
    let host: serde_json::Value = serde_json::from_str(&said).unwrap();
    assert_eq!(host["numbers"]["costs.memory"]["origin"], "found", "{said}");
    let (_, said) = checked("list algorithms --json");
    assert!(serde_json::from_str::<serde_json::Value>(&said).is_ok(), "{said}");
}
