//! What keeps the thread that has a lock from giving it back: each reason alone, planted in a program that runs already. And
//! what a killed look leaves: nothing.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::RngExt;
use serde_json::Value;

use crate::explain_running::{Running, looked_at};
use crate::home::Home;
use crate::random::choices;
use crate::skip::{is_root, skip};

/// Three threads that take turns with a mutex. What they do with it is the first argument; the second is a file for them.
const SERVER: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t inner_lock = PTHREAD_MUTEX_INITIALIZER;
static const char *reason;
static int file;
static volatile uint64_t sum;
static int is(const char *name) { return !strcmp(reason, name); }
__attribute__((noinline)) void burn(void)
{
	for (int i = 0; i < 400000; i++)
		sum += i;
}
__attribute__((noinline)) void touch_memory(void)
{
	size_t length = 4 << 20;
	char *pages = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	madvise(pages, length, MADV_NOHUGEPAGE);
	for (size_t at = 0; at < length; at += 4096)
		pages[at] = 1;
	munmap(pages, length);
}
__attribute__((noinline)) void save(void)
{
	static char block[65536];
	if (pwrite(file, block, sizeof(block), 0) > 0)
		fdatasync(file);
}
__attribute__((noinline)) void update(void)
{
	pthread_mutex_lock(&table_lock);
	if (is("sleeping"))
		usleep(2000);
	if (is("running") || is("preempted"))
		burn();
	if (is("page_fault"))
		touch_memory();
	if (is("input_output"))
		save();
	if (is("lock")) {
		pthread_mutex_lock(&inner_lock);
		pthread_mutex_unlock(&inner_lock);
	}
	pthread_mutex_unlock(&table_lock);
}
static void *serve(void *unused)
{
	for (;;)
		update();
	return unused;
}
static void *keep_inner(void *unused)
{
	for (;;) {
		pthread_mutex_lock(&inner_lock);
		usleep(2000);
		pthread_mutex_unlock(&inner_lock);
		usleep(10);
	}
	return unused;
}
int main(int count, char **arguments)
{
	pthread_t thread;
	reason = arguments[1];
	file = open(arguments[2], O_CREAT | O_RDWR, 0600);
	cpu_set_t one;
	CPU_ZERO(&one);
	CPU_SET(0, &one);
	if (is("preempted")) {
		sched_setaffinity(0, sizeof(one), &one);
		setpriority(PRIO_PROCESS, 0, 19);
	}
	if (is("lock"))
		pthread_create(&thread, 0, keep_inner, 0);
	for (int i = 0; i < 3; i++)
		pthread_create(&thread, 0, serve, 0);
	return pause();
}
"#;

fn compiled(home: &Home, text: &str) -> PathBuf {
    let (source, program) = (home.path("server.c"), home.path("server"));
    fs::write(&source, text).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source);
    assert!(compiler.status().unwrap().success());
    program
}

/// What the thread that had `table_lock` did, in shares, as the answer about a server with this reason has it.
fn reasons(answer: &Value, reason: &str) -> Vec<(String, f64)> {
    let locks = answer["locks"].as_array().unwrap();
    let lock = locks.iter().find(|lock| lock["name"] == "table_lock");
    let lock = lock.unwrap_or_else(|| panic!("{reason}: table_lock is not waited for: {locks:#?}"));
    let sum =
        |ns: &Value| ns.as_array().unwrap().iter().map(|ns| ns.as_f64().unwrap()).sum::<f64>();
    let whole = sum(&lock["contended_ns"]);
    let share = |time: &Value| {
        (time["reason"].as_str().unwrap().to_string(), sum(&time["ns"]) / whole.max(1.0))
    };
    lock["holder"].as_array().unwrap().iter().map(share).collect()
}

fn serving(home: &Home, program: &PathBuf, reason: &str) -> Running {
    let mut server = Command::new(program);
    server.args([reason, home.path("file").to_str().unwrap()]);
    Running(server.spawn().unwrap())
}

/// A program that is always busy on CPU 0.
fn hog() -> Running {
    let busy = Command::new("taskset").args(["-c", "0", "sh", "-c", "while :; do :; done"]).spawn();
    Running(busy.unwrap())
}

/// What only happens where it is planted. Any holder runs, and on a busy host any may be preempted or be woken late.
const PLANTED: [&str; 4] = ["sleeping", "page_fault", "input_output", "lock"];
const REASONS: [&str; 6] =
    ["running", "sleeping", "page_fault", "input_output", "lock", "preempted"];

/// Whether a reason is told, and none that was not planted as much.
fn is_told_alone(seen: &[(String, f64)], reason: &str) -> bool {
    let share = |name: &str| {
        seen.iter().filter(|(seen, _)| seen == name).map(|(_, share)| share).sum::<f64>()
    };
    let mut others = PLANTED.into_iter().filter(|other| *other != reason);
    share(reason) > 0.1 && others.all(|other| share(other) < share(reason))
}

/// Looks at a server of each reason, unless the host lacks what looks need: the longer the fewer of its turns a busy host lets a look see.
fn check_each(how: &str, needs: &str) {
    let home = Home::new();
    let program = compiled(&home, SERVER);
    for reason in REASONS {
        let _hog = (reason == "preempted").then(hog);
        let server = serving(&home, &program, reason);
        let mut looks = Vec::new();
        for seconds in [2, 8, 30] {
            let words = format!("--pid {} {how} --seconds {seconds}", server.0.id());
            let ended = home.run(&format!("explain {words} --json"));
            if ended.stderr.contains(needs) {
                return skip(&format!("reasons of holders {how}"), &ended.stderr);
            }
            assert_eq!(ended.status.code(), Some(0), "{}", ended.stderr);
            let answer: Value = serde_json::from_str(&ended.stdout).unwrap();
            looks.push(reasons(&answer, reason));
            if is_told_alone(&looks[looks.len() - 1], reason) {
                break;
            }
        }
        let last = looks.last().is_some_and(|seen| is_told_alone(seen, reason));
        assert!(last, "{reason}: {looks:?}");
    }
}

#[test]
fn each_reason_of_a_holder_is_told_alone() {
    check_each("", "BPF");
}

#[test]
fn each_reason_of_a_holder_is_told_alone_without_bpf() {
    check_each("--without-bpf", "ptrace");
}

/// Number of loaded BPF programs of looks: of `live_switch`.
fn loaded_programs() -> usize {
    const BPF_PROG_GET_NEXT_ID: i32 = 11;
    const BPF_PROG_GET_FD_BY_ID: i32 = 13;
    const BPF_OBJ_GET_INFO_BY_FD: i32 = 15;
    // union bpf_attr and struct bpf_prog_info of linux/bpf.h, in words of 32 bits.
    const INFO_BYTES: u32 = 80;
    const NAME_AT: usize = 64;
    let call = |command: i32, words: &mut [u32; 32]| -> i64 {
        // SAFETY: the kernel reads and writes within the length that is given.
        unsafe { libc::syscall(libc::SYS_bpf, command, words.as_mut_ptr(), size_of_val(words)) }
    };
    let (mut id, mut found) = (0, 0);
    loop {
        let mut next = [0_u32; 32];
        next[0] = id;
        if call(BPF_PROG_GET_NEXT_ID, &mut next) != 0 {
            return found;
        }
        id = next[1];
        let mut by_id = [0_u32; 32];
        by_id[0] = id;
        let Ok(program) = i32::try_from(call(BPF_PROG_GET_FD_BY_ID, &mut by_id)) else { continue };
        if program < 0 {
            continue;
        }
        let mut info = [0_u8; INFO_BYTES as usize];
        let place = info.as_mut_ptr() as u64;
        let mut by_descriptor = [0_u32; 32];
        by_descriptor[..4].copy_from_slice(&[
            program as u32,
            INFO_BYTES,
            place as u32,
            (place >> 32) as u32,
        ]);
        call(BPF_OBJ_GET_INFO_BY_FD, &mut by_descriptor);
        // SAFETY: the descriptor is this function's.
        unsafe { libc::close(program) };
        found += usize::from(info[NAME_AT..].starts_with(b"live_switch"));
    }
}

#[test]
fn a_look_that_is_killed_leaves_nothing_behind() {
    if !is_root() {
        return skip("looks that are killed", "root is needed to see what is loaded");
    }
    let home = Home::new();
    let mut server = Command::new(compiled(&home, SERVER));
    server.args(["sleeping", home.path("file").to_str().unwrap()]);
    let server = Running(server.spawn().unwrap());
    let mut random = choices("holder_reasons::a_look_that_is_killed");
    for _ in 0..5 {
        let mut look = home.knee(&format!("explain --pid {} --seconds 30", server.0.id()));
        look.stdout(Stdio::null()).stderr(Stdio::null());
        let mut look: Child = look.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(random.random_range(0..1500)));
        look.kill().unwrap();
        look.wait().unwrap();
    }
    let status = fs::read_to_string(format!("/proc/{}/status", server.0.id())).unwrap();
    assert!(status.contains("TracerPid:\t0") && !status.contains("State:\tT"), "{status}");
    // The kernel frees programs a while after their process. Other tests look at programs, too, each for a few seconds.
    let begin = Instant::now();
    while loaded_programs() > 0 {
        assert!(begin.elapsed() < Duration::from_secs(180), "programs are still loaded");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A thread that never gives its lock back, and two that have waited for it since before anybody looks.
const HANGING: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
__attribute__((noinline)) void update(void)
{
	pthread_mutex_lock(&table_lock);
	pthread_mutex_unlock(&table_lock);
}
static void *serve(void *unused)
{
	update();
	return unused;
}
int main(void)
{
	pthread_t thread;
	pthread_mutex_lock(&table_lock);
	for (int i = 0; i < 2; i++)
		pthread_create(&thread, 0, serve, 0);
	return pause();
}
"#;

#[test]
fn a_program_that_hangs_is_told_where_it_waits() {
    let home = Home::new();
    let server = Running(Command::new(compiled(&home, HANGING)).spawn().unwrap());
    std::thread::sleep(Duration::from_millis(500));
    let Some(answer) = looked_at(&home, &format!("--pid {}", server.0.id())) else { return };
    let cause = &answer["causes"][0];
    assert_eq!(cause["name"], "table_lock", "{answer:#}");
    assert_eq!(cause["waited_in"][0], "update");
    assert_eq!(cause["holder"][0]["reason"], "sleeping");
    assert_eq!(cause["holder"][0]["by"], "pause");
}

/// Two threads that take two locks in opposite orders. With an argument, there are none.
const CROSSED: &str = r#"
#include <pthread.h>
#include <unistd.h>
static pthread_mutex_t accounts = PTHREAD_MUTEX_INITIALIZER, orders = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t both;
__attribute__((noinline)) void *pay(void *unused)
{
	pthread_mutex_lock(&accounts);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&orders);
	return unused;
}
__attribute__((noinline)) void *ship(void *unused)
{
	pthread_mutex_lock(&orders);
	pthread_barrier_wait(&both);
	pthread_mutex_lock(&accounts);
	return unused;
}
int main(int count, char **arguments)
{
	pthread_t thread;
	pthread_barrier_init(&both, 0, 2);
	if (count == 1) {
		pthread_create(&thread, 0, pay, 0);
		pthread_create(&thread, 0, ship, 0);
	}
	for (;;)
		pause();
}
"#;

#[test]
fn a_program_that_hangs_is_told_why() {
    let home = Home::new();
    let program = compiled(&home, CROSSED);
    let first_cause = |stop: bool| {
        let mut command = Command::new(&program);
        command.args(stop.then_some("alone"));
        let server = Running(command.spawn().unwrap());
        if stop {
            // SAFETY: stops a process of this test.
            unsafe { libc::kill(server.0.id() as i32, libc::SIGSTOP) };
        }
        Some(looked_at(&home, &format!("--pid {}", server.0.id()))?["causes"][0].clone())
    };
    let Some(deadlock) = first_cause(false) else { return };
    assert_eq!(deadlock["cause"], "deadlock", "{deadlock:#}");
    let name = deadlock["name"].as_str().unwrap();
    assert!(["accounts, orders", "orders, accounts"].contains(&name), "{name}");
    let stopped = first_cause(true).unwrap();
    assert_eq!(stopped["cause"], "stopped", "{stopped:#}");
}
