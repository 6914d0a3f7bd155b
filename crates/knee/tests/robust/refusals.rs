//! Hosts that refuse what every host has: threads, random numbers, a large stack, /sys, parts of /proc, room on the disk.
//! Each verb works without it or says in one sentence what is missing; none panics, and nothing stays behind.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use rand::RngExt;

use crate::home::{Ended, Home, entries};
use crate::random::{choices, times};
use crate::skip::{is_root, skip};
use crate::terminal::{golden, home_with_a_record};

/// What a host refuses.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Refusal {
    Threads,
    /// As a kernel before 3.17 or a filter does; /dev/urandom is there.
    GetRandom,
    AllRandomNumbers,
    StackAbove64Kib,
    Sys,
    WritesToSys,
    Sysctls,
    /// Files of /proc that containers hide.
    HostFiles,
    /// Processes of others, as /proc with `hidepid` and no right to trace.
    OtherProcesses,
}

const RUN: &str =
    "run getppid pthread_mutex --cpus 1 --tasks 2 --seconds 0.02 --blocks 1 --as processes,threads";

/// A measurement, a search, a simulation, statistics, and what only reads.
const VERBS: &[&str] = &[
    RUN,
    "list",
    "list workloads",
    "doctor",
    "check ticket --threads 2",
    "simulate ticket --cpus 1,2 --draws 0 --length 100us",
    "show 20261120",
    "compare 20261120 --layout curves",
    "bisect log",
];

#[test]
fn every_verb_survives_a_host_that_refuses_something() {
    // What goes on as if nothing was, at least.
    for (refusal, unimpressed) in [
        (Refusal::Threads, &VERBS[1..8]),
        (Refusal::GetRandom, &VERBS[..8]),
        (Refusal::AllRandomNumbers, &VERBS[..0]),
        (Refusal::StackAbove64Kib, &VERBS[..8]),
        (Refusal::Sys, &VERBS[..8]),
        (Refusal::WritesToSys, &VERBS[..8]),
        (Refusal::Sysctls, &VERBS[..8]),
        (Refusal::HostFiles, &VERBS[..8]),
        (Refusal::OtherProcesses, &VERBS[..8]),
    ] {
        if !is_root() && refusal.is_of_mounts() {
            skip(&format!("a host without {refusal:?}"), "only root may mount");
            continue;
        }
        let home = home_with_a_record();
        for verb in VERBS {
            let ended = home.start(&mut refusal.suffered_by(home.knee(verb))).end();
            check(&home, &format!("{refusal:?}: knee {verb}"), &ended);
            let is_expected = !unimpressed.contains(verb) || ended.status.success();
            assert!(is_expected, "{refusal:?}: knee {verb}: {}", ended.stderr);
        }
    }
}

/// A command has ended by itself, with one sentence if it failed, and left nothing.
#[track_caller]
fn check(home: &Home, what: &str, ended: &Ended) {
    let Ended { status, stderr, .. } = ended;
    assert!(matches!(status.code(), Some(0..=2)), "{what}: {status}: {stderr}");
    assert!(!stderr.contains("panicked"), "{what}: {stderr}");
    let last = stderr.lines().last().unwrap_or_default();
    assert!(status.code() != Some(2) || last.starts_with("knee: "), "{what}: {stderr}");
    home.check_nothing_is_left();
}

#[test]
fn what_is_missing_is_said() {
    for (refusal, verb, sentence) in [
        (Refusal::AllRandomNumbers, "list", "knee: this host gives no random numbers"),
        (
            Refusal::Threads,
            "run getppid --as threads --cpus 1 --seconds 0.02",
            "starting task 0 of 1 as threads: ",
        ),
        (
            Refusal::Sys,
            "run getppid --cpus 1 --seconds 0.02",
            "each CPU counts as a core of its own",
        ),
    ] {
        if !is_root() && refusal.is_of_mounts() {
            return skip(&format!("a host without {refusal:?}"), "only root may mount");
        }
        let home = Home::new();
        let ended = home.start(&mut refusal.suffered_by(home.knee(verb))).end();
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(sentence), "{refusal:?}: knee {verb}: {said}");
    }
}

impl Refusal {
    fn is_of_mounts(self) -> bool {
        use Refusal::{AllRandomNumbers, HostFiles, OtherProcesses, Sys, Sysctls, WritesToSys};
        [AllRandomNumbers, HostFiles, OtherProcesses, Sys, Sysctls, WritesToSys].contains(&self)
    }

    fn suffered_by(self, mut command: Command) -> Command {
        let suffer = move || match self {
            Refusal::Threads => filter(&without_threads()),
            Refusal::GetRandom => filter(&without(libc::SYS_getrandom, libc::ENOSYS)),
            Refusal::AllRandomNumbers => hide(&[c"/dev/urandom", c"/dev/random"])
                .and_then(|()| filter(&without(libc::SYS_getrandom, libc::EPERM))),
            Refusal::StackAbove64Kib => limit_stack(64 << 10),
            Refusal::Sys => cover(c"/sys"),
            Refusal::WritesToSys => make_read_only(c"/sys"),
            Refusal::Sysctls => cover(c"/proc/sys"),
            Refusal::HostFiles => hide(&[
                c"/proc/stat",
                c"/proc/interrupts",
                c"/proc/cpuinfo",
                c"/proc/meminfo",
                c"/proc/vmstat",
                c"/proc/uptime",
            ]),
            Refusal::OtherProcesses => hide_processes(),
        };
        // SAFETY: system calls only. Mounts are of the child's own namespace and end with it.
        unsafe { command.pre_exec(suffer) };
        command
    }
}

/// The error of a system call that returned this.
fn outcome(result: i32) -> io::Result<()> {
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn limit_stack(bytes: u64) -> io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes, rlim_max: bytes };
    // SAFETY: a live struct.
    outcome(unsafe { libc::setrlimit(libc::RLIMIT_STACK, &limit) })
}

/// Gives the process mounts of its own.
fn leave_mounts() -> io::Result<()> {
    let private = libc::MS_REC | libc::MS_PRIVATE;
    let none = std::ptr::null();
    // SAFETY: live strings; no data.
    unsafe {
        outcome(libc::unshare(libc::CLONE_NEWNS))?;
        outcome(libc::mount(c"none".as_ptr(), c"/".as_ptr(), none, private, none.cast()))
    }
}

fn mount(source: &CStr, target: &CStr, kind: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: live strings; no data.
    outcome(unsafe {
        libc::mount(source.as_ptr(), target.as_ptr(), kind.as_ptr(), flags, std::ptr::null())
    })
}

/// Puts an empty folder over one.
fn cover(folder: &CStr) -> io::Result<()> {
    leave_mounts()?;
    mount(c"none", folder, c"tmpfs", libc::MS_RDONLY)
}

/// Makes files look empty. Those that this kernel lacks need no hiding.
fn hide(files: &[&CStr]) -> io::Result<()> {
    leave_mounts()?;
    for file in files {
        match mount(c"/dev/null", file, c"none", libc::MS_BIND) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
            _ => (),
        }
    }
    Ok(())
}

/// Mounts a /proc that shows only the processes which this one may trace, and takes the right to trace all.
fn hide_processes() -> io::Result<()> {
    const CAP_SYS_PTRACE: libc::c_ulong = 19;
    leave_mounts()?;
    let (none, proc, target) = (c"none".as_ptr(), c"proc".as_ptr(), c"/proc".as_ptr());
    // SAFETY: live strings.
    unsafe {
        outcome(libc::mount(none, target, proc, 0, c"hidepid=ptraceable".as_ptr().cast()))
            .or_else(|_| {
                outcome(libc::mount(none, target, proc, 0, c"hidepid=2".as_ptr().cast()))
            })?;
        outcome(libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_PTRACE, 0, 0, 0))
    }
}

fn make_read_only(folder: &CStr) -> io::Result<()> {
    leave_mounts()?;
    mount(folder, folder, c"none", libc::MS_BIND | libc::MS_REC)?;
    mount(c"none", folder, c"none", libc::MS_BIND | libc::MS_REMOUNT | libc::MS_RDONLY)
}

const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
const IF_EQUAL: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
const IF_SET: u32 = libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K;
const RETURN: u32 = libc::BPF_RET | libc::BPF_K;
/// Offsets in what a filter sees: the call's number, the lower half of its first argument.
const NUMBER: u32 = 0;
const FIRST_ARGUMENT: u32 = 16;

/// An instruction of a filter; `jt` and `jf` are instructions to skip.
fn instruction(code: u32, k: u32, jt: u8, jf: u8) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt, jf, k }
}

fn refused(errno: i32) -> u32 {
    libc::SECCOMP_RET_ERRNO | errno as u32
}

/// Refuses a system call.
fn without(call: libc::c_long, errno: i32) -> [libc::sock_filter; 4] {
    [
        instruction(LOAD, NUMBER, 0, 0),
        instruction(IF_EQUAL, call as u32, 0, 1),
        instruction(RETURN, refused(errno), 0, 0),
        instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]
}

/// Refuses threads: clone(2) for one as at the limit of processes, and clone3(2), whose flags no filter sees, as a kernel
/// without it.
fn without_threads() -> [libc::sock_filter; 8] {
    [
        instruction(LOAD, NUMBER, 0, 0),
        instruction(IF_EQUAL, libc::SYS_clone3 as u32, 0, 1),
        instruction(RETURN, refused(libc::ENOSYS), 0, 0),
        instruction(IF_EQUAL, libc::SYS_clone as u32, 0, 3),
        instruction(LOAD, FIRST_ARGUMENT, 0, 0),
        instruction(IF_SET, libc::CLONE_THREAD as u32, 0, 1),
        instruction(RETURN, refused(libc::EAGAIN), 0, 0),
        instruction(RETURN, libc::SECCOMP_RET_ALLOW, 0, 0),
    ]
}

/// Filters the system calls of this process and of all that it starts.
fn filter(program: &[libc::sock_filter]) -> io::Result<()> {
    let program =
        libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program is live during the calls, which do not change it.
    unsafe {
        outcome(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))?;
        outcome(libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &program))
    }
}

/// Strikes knee at random instants of its first 150 ms, in which it makes the folders and locks that it will need.
#[test]
fn an_interrupt_while_knee_starts_leaves_nothing() {
    let mut random = choices("an_interrupt_while_knee_starts_leaves_nothing");
    for strike in 0..times("KNEE_STRIKES", 60) {
        let home = Home::new();
        let running = home
            .start(&mut home.knee("run getppid create_files --cpus 1 --seconds 0.3 --blocks 3"));
        let delay = Duration::from_micros(random.random_range(0..150_000));
        std::thread::sleep(delay);
        running.signal(libc::SIGINT);
        let Ended { status, stderr, .. } = running.end();
        // Before it has begun anything, the signal itself ends it: a shell shows 130 then, too.
        let is_ended = status.code() == Some(130) || status.signal() == Some(libc::SIGINT);
        assert!(is_ended, "strike {strike} after {delay:?}: {status}: {stderr}");
        home.check_nothing_is_left();
        let hidden = hidden(&home);
        assert!(hidden.is_empty(), "strike {strike} after {delay:?}: {hidden:?}");
    }
}

/// Folders of records that have begun and are not over.
fn hidden(home: &Home) -> Vec<PathBuf> {
    let folders = entries(&home.path("records")).into_iter().flat_map(|shard| entries(&shard));
    folders
        .filter(|path| path.file_name().is_some_and(|n| n.as_encoded_bytes()[0] == b'.'))
        .collect()
}

/// Runs a shell line with `$KNEE` in a home whose folder of records is a full file system, and lists that afterwards.
fn on_a_full_disk(home: &Home, line: &str) -> (Ended, BTreeSet<String>) {
    let script = format!(
        "head -c 4m /dev/zero > \"$KNEE_RECORDS/fill\" 2> /dev/null; {line}; status=$?; \
         find \"$KNEE_RECORDS\" -type f -o -name '.*' > after; exit $status"
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    home.move_in(&mut command);
    command.env("KNEE", env!("CARGO_BIN_EXE_knee"));
    let target = CString::new(home.path("records").to_str().unwrap()).unwrap();
    // SAFETY: system calls only.
    unsafe {
        command.pre_exec(move || {
            leave_mounts()?;
            let size = c"size=1m".as_ptr().cast();
            let (none, kind) = (c"none".as_ptr(), c"tmpfs".as_ptr());
            outcome(libc::mount(none, target.as_ptr(), kind, 0, size))
        });
    }
    let ended = home.start(&mut command).end();
    let after = fs::read_to_string(home.path("after")).unwrap();
    let name = |path: &str| path.rsplit('/').next().unwrap_or_default().to_string();
    (ended, after.lines().map(name).filter(|name| name != "fill").collect())
}

#[test]
fn a_full_disk_is_named_and_keeps_nothing_half_written() {
    if !is_root() {
        return skip("a full disk", "only root may mount a small file system");
    }
    let golden = golden();
    let report =
        format!("\"$KNEE\" report {} --html \"$KNEE_RECORDS/page.html\"", golden.display());
    for (line, part) in [
        ("\"$KNEE\" run getppid --cpus 1 --seconds 0.02 --blocks 1", "plan.json, "),
        (report.as_str(), "page.html: "),
    ] {
        let home = Home::new();
        let (ended, left) = on_a_full_disk(&home, line);
        assert_eq!(ended.status.code(), Some(2), "{line}: {}", ended.stderr);
        let records = home.path("records");
        for part in [&format!("{} has 0 KiB free", records.display()), part] {
            assert!(ended.stderr.contains(part), "{line}: no '{part}' in {}", ended.stderr);
        }
        assert!(left.is_empty(), "{line}: {left:?}");
    }
}
