//! Descendants: all processes below this one, whatever process group or session they moved to. As
//! their subreaper (prctl(2)) this process inherits those whose parent has died, so that none
//! escapes by forking twice.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, WaitOptions};

/// How long killed processes may take to disappear: one in uninterruptible sleep takes its time.
const KILL_TIMEOUT: Duration = Duration::from_secs(10);

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
    below(&BTreeSet::new())
}

/// Kills and reaps all descendants except the `spared` processes and their descendants. The error
/// names processes that are still alive after [`KILL_TIMEOUT`].
pub fn kill(spared: &BTreeSet<i32>) -> Result<(), String> {
    let since = Instant::now();
    while has_children() {
        reap(spared);
        let left = below(spared);
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
        for pid in left.into_iter().filter_map(Pid::from_raw) {
            // A descendant's id is not reused before it is reaped, by this process or by a
            // parent that is about to be killed.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
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
    dead: bool,
}

/// All processes in /proc, by id.
fn processes() -> BTreeMap<i32, Process> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid: i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // State and parent follow the name, which may hold any character.
        let (_, after) = stat.rsplit_once(") ")?;
        let mut fields = after.split(' ');
        let dead = ["Z", "X"].contains(&fields.next()?);
        Some((pid, Process { parent: fields.next()?.parse().ok()?, dead }))
    };
    pids.filter_map(read).collect()
}

/// The living descendants of this process, without the `spared` ones and their descendants.
fn below(spared: &BTreeSet<i32>) -> BTreeSet<i32> {
    let processes = processes();
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for (pid, process) in &processes {
        children.entry(process.parent).or_default().push(*pid);
    }
    let mut descendants = BTreeSet::new();
    let mut to_visit = vec![std::process::id() as i32];
    while let Some(parent) = to_visit.pop() {
        for pid in children.get(&parent).into_iter().flatten() {
            if !spared.contains(pid) && descendants.insert(*pid) {
                to_visit.push(*pid);
            }
        }
    }
    descendants.retain(|pid| processes.get(pid).is_some_and(|process| !process.dead));
    descendants
}

/// A process in words, such as "77 (sleep)".
pub fn described(pid: i32) -> String {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
    format!("{pid} ({})", name.trim())
}
