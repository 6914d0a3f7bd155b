//! Descendants: all processes below this one, whatever process group or session they moved to. As
//! their subreaper (prctl(2)) this process inherits those whose parent has died, so that none
//! escapes by forking twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

use crate::mounts::{self, Mount};

/// How long killed processes may take to disappear: one in uninterruptible sleep takes its time.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

/// How often [`stop`] looks whether all have stopped: one in uninterruptible sleep may take its time.
const STOP_PASSES: usize = 100;

/// From now on, orphans below this process become its children.
pub fn adopt() {
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}

/// Whether this process has a child, zombies included.
pub fn has_children() -> bool {
    // NOWAIT leaves every child as it is.
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    rustix::process::waitid(WaitId::All, options).is_ok()
}

/// The living descendants of this process.
pub fn living() -> BTreeSet<i32> {
    descendants().into_iter().collect()
}

/// The descendants of this process, also those that have ended and whose status nobody has collected yet: to spare them when
/// others are killed and reaped.
pub fn present() -> BTreeSet<i32> {
    all_below(&processes(), std::process::id() as i32, &BTreeSet::new()).into_iter().collect()
}

/// The living descendants of this process, parents before children.
pub(crate) fn descendants() -> Vec<i32> {
    below(&processes(), &BTreeSet::new())
}

/// What processes have used, each with those of its children that it waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TreeUsage {
    pub user_us: u64,
    pub system_us: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl TreeUsage {
    /// In user mode and in the kernel together.
    pub fn cpu_us(self) -> u64 {
        self.user_us + self.system_us
    }

    /// What was used since an earlier reading. A process that ended unseen may have taken its part with it.
    pub fn since(self, before: TreeUsage) -> TreeUsage {
        TreeUsage {
            user_us: self.user_us.saturating_sub(before.user_us),
            system_us: self.system_us.saturating_sub(before.system_us),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
        }
    }
}

/// What the living descendants of this process have used.
pub fn usage() -> TreeUsage {
    usage_of(&descendants())
}

/// What a process and its living descendants have used; `None` if there is no such process.
pub fn usage_from(root: i32) -> Option<TreeUsage> {
    let processes = processes();
    processes.get(&root).filter(|process| !process.dead)?;
    let mut tree = below_root(&processes, root, &BTreeSet::new());
    tree.push(root);
    Some(usage_of(&tree))
}

fn usage_of(pids: &[i32]) -> TreeUsage {
    // SAFETY: sysconf has no preconditions.
    let tick_us = 1_000_000 / unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.max(1) as u64;
    let mut sum = TreeUsage::default();
    for pid in pids {
        let Some([minor, of_children, major, of_children_too, times @ ..]) = counts(*pid) else {
            continue;
        };
        sum.minor_faults += minor + of_children;
        sum.major_faults += major + of_children_too;
        sum.user_us += tick_us * (times[0] + times[2]);
        sum.system_us += tick_us * (times[1] + times[3]);
    }
    sum
}

/// The fields minflt to cstime of /proc/PID/stat (proc_pid_stat(5)).
fn counts(pid: i32) -> Option<[u64; 8]> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    let fields: Vec<u64> = after.split(' ').skip(7).take(8).flat_map(str::parse).collect();
    fields.try_into().ok()
}

/// Kills and reaps all descendants except the `spared` processes and their descendants. The error
/// names processes that are still alive after [`KILL_TIMEOUT`].
pub fn kill(spared: &BTreeSet<i32>) -> Result<(), String> {
    let since = Instant::now();
    while has_children() {
        reap(spared);
        let left = below(&processes(), spared);
        if left.is_empty() {
            return Ok(());
        }
        if since.elapsed() > KILL_TIMEOUT {
            let names: Vec<String> = left.iter().take(3).map(|pid| described(*pid)).collect();
            return Err(format!(
                "{} of its processes cannot be killed: {}",
                left.len(),
                names.join(", ")
            ));
        }
        signal(&left, Signal::KILL);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Stops all descendants outside this process's own group, which the terminal stops itself. Returns
/// those that it stopped, parents before children.
pub fn stop() -> Vec<i32> {
    let own_group = rustix::process::getpgrp().as_raw_nonzero().get();
    let mut signalled: Vec<i32> = Vec::new();
    // A process may start others until it has stopped, and stops only when it returns to user mode.
    for _ in 0..STOP_PASSES {
        let processes = processes();
        let running: Vec<i32> = below(&processes, &BTreeSet::new())
            .into_iter()
            .filter(|pid| {
                let process = processes.get(pid);
                process.is_some_and(|process| !process.stopped && process.group != own_group)
            })
            .collect();
        if running.is_empty() {
            break;
        }
        let new: Vec<i32> = running.into_iter().filter(|pid| !signalled.contains(pid)).collect();
        signal(&new, Signal::STOP);
        signalled.extend(new);
        std::thread::sleep(Duration::from_micros(500));
    }
    signalled
}

/// Continues processes that [`stop`] has stopped: children before parents, which could take them for
/// stopped otherwise.
pub fn resume(stopped: &[i32]) {
    let children_first: Vec<i32> = stopped.iter().rev().copied().collect();
    signal(&children_first, Signal::CONT);
}

pub(crate) fn signal(pids: &[i32], signal: Signal) {
    for pid in pids.iter().copied().filter_map(Pid::from_raw) {
        // A descendant's id is not reused before it is reaped, by this process or by a parent that is
        // about to be killed or is stopped.
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Reaps dead children, except the spared ones.
fn reap(spared: &BTreeSet<i32>) {
    if spared.is_empty() {
        while let Ok(Some(_)) = rustix::process::wait(WaitOptions::NOHANG) {}
        return;
    }
    let own = std::process::id() as i32;
    for (pid, process) in processes() {
        if process.parent == own && process.dead && !spared.contains(&pid) {
            let _ = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::NOHANG);
        }
    }
}

struct Process {
    parent: i32,
    group: i32,
    dead: bool,
    stopped: bool,
}

/// All processes in /proc, by id.
fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // State, parent and group follow the name, which may hold any character.
        let (_, after) = stat.rsplit_once(") ")?;
        let mut fields = after.split(' ');
        let state = fields.next()?;
        let (dead, stopped) = (["Z", "X"].contains(&state), state == "T");
        let mut number = || fields.next()?.parse().ok();
        Some((pid, Process { parent: number()?, group: number()?, dead, stopped }))
    };
    pids.filter_map(read).collect()
}

/// The living descendants of this process, parents before children, without the `spared` ones and their
/// descendants.
fn below(processes: &BTreeMap<i32, Process>, spared: &BTreeSet<i32>) -> Vec<i32> {
    below_root(processes, std::process::id() as i32, spared)
}

fn below_root(processes: &BTreeMap<i32, Process>, root: i32, spared: &BTreeSet<i32>) -> Vec<i32> {
    let mut descendants = all_below(processes, root, spared);
    descendants.retain(|pid| processes.get(pid).is_some_and(|process| !process.dead));
    descendants
}

fn all_below(processes: &BTreeMap<i32, Process>, root: i32, spared: &BTreeSet<i32>) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, process) in processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let mut descendants = vec![root];
    let mut next = 0;
    while let Some(parent) = descendants.get(next) {
        let found = children.remove(parent).unwrap_or_default();
        descendants.extend(found.into_iter().filter(|pid| !spared.contains(pid)));
        next += 1;
    }
    descendants.remove(0);
    descendants
}

/// Why a child cannot run, if something has stopped it: a signal, or the freezer of its control group.
pub fn why_stopped(child: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
    let (_, after) = stat.rsplit_once(") ")?;
    if after.starts_with("T ") {
        return Some("it is stopped (state T)".to_string());
    }
    frozen_group(child).map(|group| format!("its control group {group} is frozen"))
}

/// The control group of a process, if it is frozen.
pub fn frozen_group(process: u32) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).ok()?;
    let mounts = mounts::current();
    // Number, controllers and path; version 2 names no controllers.
    let frozen = groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let is_frozen = match controllers {
            "" => has_frozen(&mounts, "cgroup2", "", group, "cgroup.events", "frozen 1"),
            _ => {
                controllers.split(',').any(|one| one == "freezer")
                    && has_frozen(&mounts, "cgroup", "freezer", group, "freezer.state", "FROZEN")
            }
        };
        is_frozen.then_some(group)
    });
    frozen.map(str::to_string)
}

/// Whether a file of a control group has this word, wherever groups of this kind and controller are mounted.
fn has_frozen(
    mounts: &[Mount],
    kind: &str,
    controller: &str,
    group: &str,
    file: &str,
    word: &str,
) -> bool {
    let has_groups = |mount: &&Mount| {
        let mut options = mount.super_options.split(',');
        mount.file_system == kind
            && (controller.is_empty() || options.any(|option| option == controller))
    };
    mounts.iter().filter(has_groups).any(|mount| {
        let below = Path::new(group).strip_prefix(&mount.root);
        let below = below.unwrap_or(Path::new(group.trim_start_matches('/')));
        let text = fs::read_to_string(mount.mount_point.join(below).join(file));
        text.is_ok_and(|text| text.contains(word))
    })
}

/// A process in words, such as "77 (sleep)".
pub fn described(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}
