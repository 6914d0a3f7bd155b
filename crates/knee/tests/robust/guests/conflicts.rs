//! Contended lines of real operations on a Debian kernel, and of a program: counts of writes are exact, so they are
//! pinned.

use std::fs;
use std::process::Command;
use std::sync::PoisonError;

use serde_json::Value;

use crate::guests::{ALONE, PATIENCE, kernel};
use crate::home::Home;
use crate::skip::skip;

/// What must be found for an operation: members, with writes an operation.
const EXPECTED: &[(&str, &[(&str, f64)])] = &[
    // Each task has its own.
    ("getppid", &[]),
    ("dup_close", &[]),
    ("posix_lock_own", &[]),
    // AppArmor counts references to the label of all unconfined tasks: 5 at open, 1 at close.
    ("open_close_own", &[("aa_profile.label.count?", 6.0)]),
    // tmpfs's own lock and counts, and the super block's list of inodes.
    (
        "create_unlink",
        &[
            ("aa_profile.label.count?", 6.0),
            ("super_block.s_inode_list_lock?", 6.0),
            ("super_block.s_remove_count?", 2.0),
            ("shmem_sb_info.stat_lock?", 5.0),
            ("shmem_sb_info.free_inodes?", 2.0),
        ],
    ),
    ("posix_lock_shared", &[("file_lock_context.flc_lock", 0.0)]),
];

/// Rows that an operation needs less often are chance.
const OFTEN: f64 = 0.9;

#[test]
fn contended_lines_have_names_and_exact_counts() {
    let Some(kernel) = kernel("contended lines of a Debian kernel") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let names: Vec<&str> = EXPECTED.iter().map(|(operation, _)| *operation).collect();
    let asked = format!(
        "conflicts {} --operations 64 --json --kernel {}",
        names.join(" "),
        kernel.display()
    );
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    for ((operation, expected), traced) in EXPECTED.iter().zip(answer["traced"].as_array().unwrap())
    {
        assert_eq!(traced["operation"], *operation);
        assert_eq!(traced["warnings"], Value::Array(Vec::new()), "{operation}");
        let lines = traced["lines"].as_array().unwrap();
        let often = |line: &&Value| line["transfers"][0].as_f64().unwrap() > OFTEN;
        let often: Vec<&Value> = lines.iter().filter(often).collect();
        for (member, writes) in *expected {
            let line = often.iter().find(|line| line["member"] == *member);
            let line = line.unwrap_or_else(|| panic!("{operation}: no {member} in {often:#?}"));
            let found = line["writes"].as_f64().unwrap();
            assert!(
                *writes == 0.0 || (found - writes).abs() < 0.1,
                "{operation}: {member} {found}"
            );
        }
        assert!(!expected.is_empty() || often.is_empty(), "{operation}: {often:#?}");
        let instructions = &traced["instructions"];
        assert_eq!(instructions["kernel"], instructions["kernel_again"], "{operation}");
    }
}

#[test]
fn traced_operations_are_simulated_on_other_cpus() {
    let Some(kernel) = kernel("operations traced to be simulated") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let asked = format!(
        "simulate operation open_close_own posix_lock_own --operations 64 --host skylake-28-2s --cpus 1,56 --draws 0 \
         --length 300us --json --kernel {}",
        kernel.display()
    );
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let grows = |index: usize| {
        let points = &answer["operations"][index]["points"];
        let rate = |point: usize| points[point]["operations_per_s"].as_f64().unwrap();
        rate(1) / rate(0)
    };
    // All tasks count references to one label.
    assert!(grows(0) < 25.0, "{}", grows(0));
    assert_eq!(answer["operations"][0]["stops"][0]["member"], "aa_profile.label.count?");
    assert!(grows(1) > 50.0, "{}", grows(1));
    assert_eq!(answer["operations"][1]["stops"], Value::Array(Vec::new()));
}

/// Two threads, each on a CPU of its own: a counter each in one line, one for both in another, one each in lines of their own.
const PROGRAM: &str = "
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
static pthread_barrier_t begin;
struct { volatile long first, second; char apart[48]; } neighbours __attribute__((aligned(64)));
struct { _Atomic long count; char apart[56]; } both __attribute__((aligned(64)));
struct { volatile long count; char apart[56]; } own[2] __attribute__((aligned(64)));
static void *work(void *mine)
{
	long me = (long)mine;
	cpu_set_t own_cpu;

	CPU_ZERO(&own_cpu);
	CPU_SET(me, &own_cpu);
	sched_setaffinity(0, sizeof own_cpu, &own_cpu);
	pthread_barrier_wait(&begin);
	for (int i = 0; i < 10000; i++) {
		if (me)
			neighbours.second++;
		else
			neighbours.first++;
		both.count++;
		own[me].count++;
	}
	return 0;
}
int main(void)
{
	pthread_t other;

	pthread_barrier_init(&begin, 0, 2);
	pthread_create(&other, 0, work, (void *)1);
	work(0);
	return pthread_join(other, 0);
}";

#[test]
fn threads_of_a_program_share_what_it_was_written_to_share() {
    let test = "contended lines of a program";
    if Command::new("qemu-x86_64").arg("--version").output().is_err() {
        return skip(test, "no qemu-x86_64 (qemu-user)");
    }
    let home = Home::new();
    fs::write(home.path("program.c"), PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler
        .args(["-g", "-O1", "-pthread", "-o", "program", "program.c"])
        .current_dir(home.path(""));
    if !compiler.status().is_ok_and(|status| status.success()) {
        return skip(test, "no C compiler");
    }
    let ended =
        home.start(&mut home.knee("conflicts --user ./program --json")).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let lines = answer["traced"][0]["lines"].as_array().unwrap();
    let row = |name: &str| {
        let named = |line: &&Value| line["member"].as_str().unwrap().contains(name);
        lines
            .iter()
            .find(named)
            .map(|line| (line["sharing"].clone(), line["writes"].as_f64().unwrap()))
    };
    let (sharing, writes) = row("neighbours.first beside second").unwrap();
    assert_eq!(sharing, "false");
    assert_eq!(writes, 20_000.0);
    let (sharing, writes) = row("both.count").unwrap();
    assert_eq!(sharing, "true");
    assert_eq!(writes, 20_000.0);
    assert_eq!(row("own"), None);
    let both = lines.iter().find(|line| line["member"] == "both.count").unwrap();
    let writers = both["members"][0]["written_by"].to_string();
    assert!(writers.contains(&line_of("both.count++")), "{writers}");
}

/// The function and the line of the program that have this text, as rows name them.
fn line_of(text: &str) -> String {
    let line = PROGRAM.lines().position(|line| line.contains(text)).unwrap() + 1;
    format!("work at program.c:{line}")
}

/// A load: each operation adds to a word of all tasks, to one beside another task's, and to one apart.
const LOAD: &str = "
#include \"knee.h\"
const char *const knee_description = \"Words of the tasks.\";
const char *const knee_operation = \"one addition to each\";
const unsigned knee_semantics = 1;
static _Atomic long all __attribute__((aligned(64)));
static volatile long beside[8] __attribute__((aligned(64)));
static struct { volatile long own; char apart[56]; } apart[64] __attribute__((aligned(64)));
int knee_task(const struct knee_run *run, unsigned index, void **task)
{
	*task = (void *)(long)index;
	return 0;
}
int knee_operate(void *task)
{
	all++;
	beside[(long)task]++;
	apart[(long)task].own++;
	return 0;
}";

/// A test of will-it-scale, which counts its operations by itself.
const TEST: &str = "
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>
char *testcase_description = \"open and close\";
void testcase(unsigned long long *iterations, unsigned long number)
{
	char name[] = \"/tmp/willitscale.XX\" \"XX\" \"XX\";

	close(mkstemp(name));
	for (;;) {
		close(open(name, O_RDWR));
		(*iterations)++;
	}
}";

#[test]
fn loads_in_c_and_commands_have_lines_of_program_and_kernel() {
    let Some(kernel) = kernel("contended lines of loads and commands") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    for (name, text) in [("load.c", LOAD), ("test.c", TEST), ("program.c", PROGRAM)] {
        fs::write(home.path(name), text).unwrap();
    }
    let mut compiler = Command::new("cc");
    compiler
        .args(["-g", "-O1", "-pthread", "-o", "program", "program.c"])
        .current_dir(home.path(""));
    if !compiler.status().is_ok_and(|status| status.success()) {
        return skip("contended lines of loads and commands", "no C compiler");
    }
    let asked = format!(
        "conflicts load.c test.c --command ./program --threads --operations 64 --json --kernel {}",
        kernel.display()
    );
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let check = |operation: usize, member: &str, sharing: &str, writes: std::ops::Range<f64>| {
        let lines = answer["traced"][operation]["lines"].as_array().unwrap();
        let row = lines.iter().find(|line| line["member"].as_str().unwrap().starts_with(member));
        let row = row.unwrap_or_else(|| panic!("no {member} in {:#}", answer["traced"][operation]));
        assert_eq!(row["sharing"], sharing, "{member}");
        assert!(writes.contains(&row["writes"].as_f64().unwrap()), "{row:#?}");
    };
    check(0, "all", "true", 0.99..1.01);
    check(0, "beside", "false", 0.99..1.01);
    assert!(!answer["traced"][0]["lines"].to_string().contains("apart"));
    check(1, "aa_profile.label.count", "true", 5.9..6.1);
    // 20 000 of the whole program, and what cleared the page.
    check(2, "neighbours.first beside second", "false", 312.0..313.0);
    check(2, "both.count", "true", 312.0..313.0);
    let command = answer["traced"][2]["lines"].to_string();
    assert!(command.contains(&line_of("both.count++")), "{command}");
    assert!(command.contains("pthread_barrier_wait"), "no function of the C library: {command}");
    assert!(answer["traced"][0]["lines"].to_string().contains(" at load.c:"));
}

#[test]
fn objects_of_modules_have_members() {
    let test = "contended lines of a module";
    let Some(kernel) = kernel(test) else { return };
    if Command::new("mkfs.xfs").arg("-V").output().is_err() {
        return skip(test, "no mkfs.xfs (xfsprogs)");
    }
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let asked = format!(
        "conflicts create_unlink --fs xfs --operations 16 --json --kernel {}",
        kernel.display()
    );
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let lines = answer["traced"][0]["lines"].as_array().unwrap();
    for member in ["xlog.l_reserve_head.grant?", "xfs_cil.xc_ctx_lock.count?"] {
        assert!(lines.iter().any(|line| line["member"] == member), "no {member} in {lines:#?}");
    }
}

#[test]
fn pairs_contend_for_what_both_need() {
    let Some(kernel) = kernel("contended lines of pairs") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let asked = format!(
        "conflicts --matrix getppid,open_close_own,create_unlink --json --kernel {}",
        kernel.display()
    );
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let pairs = answer["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 6);
    for pair in pairs {
        assert_eq!(pair["failure"], Value::Null);
        let transfers = pair["transfers"].as_f64().unwrap();
        if pair["first"] == "getppid" || pair["second"] == "getppid" {
            assert!(transfers < 0.1, "{pair:#?}");
        } else {
            assert!(transfers > 1.0, "{pair:#?}");
            assert!(pair["lines"].to_string().contains("aa_profile.label.count"), "{pair:#?}");
        }
    }
}

#[test]
fn calls_meet_in_one_directory_and_on_one_file() {
    let Some(kernel) = kernel("contended lines of calls on one file") else { return };
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let home = Home::new();
    let kernel = kernel.display();
    let asked =
        format!("conflicts --matrix stat,rename --objects own,file --json --kernel {kernel}");
    let ended = home.start(&mut home.knee(&asked)).end_within(PATIENCE);
    assert!(ended.status.success(), "{}", ended.stderr);
    let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
    let pairs = answer["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 6);
    let pair = |first: &str, second: &str, objects: &str| {
        let is_it = |pair: &&Value| {
            pair["first"] == first && pair["second"] == second && pair["objects"] == objects
        };
        let pair = pairs.iter().find(is_it).unwrap();
        (pair["transfers"].as_f64().unwrap(), pair["lines"].to_string())
    };
    assert!(pair("stat", "stat", "own").0 < 0.1, "{pairs:#?}");
    let (transfers, lines) = pair("stat", "stat", "file");
    assert!(transfers >= 1.0 && lines.contains("dentry.d_lockref"), "{lines}");
    // What a rename changes of the dentry, a stat of the same path reads: not of another one.
    let [own, shared] = ["own", "file"].map(|objects| pair("stat", "rename", objects));
    assert!(own.0 < 1.0 && !own.1.contains("dentry"), "{}", own.1);
    assert!(shared.0 > 2.0 && shared.1.contains("dentry"), "{}", shared.1);
}

#[test]
fn what_cannot_be_traced_is_refused_by_name() {
    let home = Home::new();
    let check = |arguments: &str, part: &str| {
        let ended = home.run(&format!("conflicts {arguments}"));
        assert_eq!(ended.status.code(), Some(2), "{arguments}: {}", ended.stderr);
        assert!(ended.stderr.contains(part), "{arguments}: {}", ended.stderr);
    };
    check("getpid --kernel /bin/true", "did you mean");
    check("getppid --kernel /nonexistent", "looking for /nonexistent");
    check("getppid --kernel /bin/true", "does not contain the text");
    check("getppid --kernel /bin/true --set size=4k", "size");
    check("getppid --kernel /bin/true --host nowhere", "nowhere");
    check("getppid --tasks 1", "2..=64");
    check("--kernel /bin/true", "required");
    check("getppid --operations 100000000 --kernel /bin/true", "more than 1000000 operations");
    let arm64 = [&[0; 0x38][..], b"ARM\x64\0Linux version 6.1.0-arm64 (me) #1\0"].concat();
    fs::write(home.path("Image"), arm64).unwrap();
    check("getppid --kernel Image", "is for arm64: only kernels for x86-64 can be watched");
    fs::write(home.path("script"), "#!/bin/sh\n").unwrap();
    check("--command ./script --kernel /bin/true", "is a script");
    check("--command no-such-program --kernel /bin/true", "not in PATH");
    check("--matrix getppid --objects file --kernel /bin/true", "calls on files, which are chmod");
    check("--matrix stat --objects path --kernel /bin/true", "must be own, directory or file");
    check("--matrix command:hackbench --kernel /bin/true", "hackbench");
    fs::write(home.path("load.c"), LOAD).unwrap();
    check("--matrix load.c,stat --kernel /bin/true", "load.c: only workloads of knee run in pairs");
}
