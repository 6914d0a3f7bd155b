//! Which processes belong to what the user named: a process and its descendants, a control group, a systemd unit, a
//! container, all of a name, or all.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// Running processes, as the user named them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A process with its descendants.
    Process(u32),
    /// A control group with those below it, by its path below the mount, as /proc/PID/cgroup has it.
    ControlGroup(String),
    /// All processes of a name, with their descendants.
    Named(String),
    /// All programs of the host. Threads of the kernel are none.
    Host,
}

/// A running process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningProcess {
    pub parent: u32,
    pub name: String,
    /// Its control group (version 2), or that of its CPU controller (version 1).
    pub control_group: String,
}

/// The parent of the kernel's threads (kernel/kthread.c).
const KTHREADD: u32 = 2;

/// All running processes, by number.
pub fn all() -> BTreeMap<u32, RunningProcess> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers.filter_map(|number| Some((number, process(number)?))).collect()
}

/// The last number that was given to a process or thread here; `None` if the kernel does not say: proc_loadavg(5).
pub fn last_begun() -> Option<u32> {
    fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().nth(4)?.parse().ok()
}

fn process(number: u32) -> Option<RunningProcess> {
    let stat = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name is in parentheses and may contain any character.
    let (before, after) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_string();
    let parent = after.split_whitespace().nth(1)?.parse().ok()?;
    let groups = fs::read_to_string(format!("/proc/{number}/cgroup")).unwrap_or_default();
    Some(RunningProcess { parent, name, control_group: control_group(&groups) })
}

/// The control group of a process, from lines `HIERARCHY:CONTROLLERS:PATH`.
fn control_group(lines: &str) -> String {
    let parts = lines.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        Some((parts.next()?, parts.next()?, parts.next()?))
    });
    let parts: Vec<(&str, &str, &str)> = parts.collect();
    let of_cpu =
        parts.iter().find(|(_, controllers, _)| controllers.split(',').any(|c| c == "cpu"));
    let unified = parts.iter().find(|(hierarchy, ..)| *hierarchy == "0");
    of_cpu.or(unified).map(|(.., path)| path.to_string()).unwrap_or_default()
}

impl Subject {
    /// The numbers of the processes that belong to it now. This process and its ancestors never do.
    pub fn processes(&self, running: &BTreeMap<u32, RunningProcess>) -> BTreeSet<u32> {
        let own = ancestors(std::process::id(), running);
        let is_first = |number: u32, process: &RunningProcess| match self {
            Subject::Process(wanted) => number == *wanted,
            Subject::Named(name) => process.name == *name,
            Subject::ControlGroup(path) => is_below(&process.control_group, path),
            Subject::Host => number != KTHREADD && process.parent != KTHREADD,
        };
        let mut chosen: BTreeSet<u32> = running
            .iter()
            .filter(|(number, process)| is_first(**number, process))
            .map(|(number, _)| *number)
            .collect();
        if !matches!(self, Subject::ControlGroup(_)) {
            add_descendants(&mut chosen, running);
        }
        if !matches!(self, Subject::Process(_)) {
            chosen.retain(|number| !own.contains(number));
        }
        chosen.remove(&std::process::id());
        chosen
    }

    /// The control group of a systemd unit, or of a container by the start of its number or by its name in the
    /// group's path.
    ///
    /// # Errors
    /// Says that nothing runs in such a group, or in several.
    pub fn in_group(
        word: &str,
        running: &BTreeMap<u32, RunningProcess>,
    ) -> Result<Subject, String> {
        let part_of = |path: &str| {
            let mut whole = String::new();
            path.split('/').filter(|part| !part.is_empty()).find_map(|part| {
                whole = format!("{whole}/{part}");
                is_named(part, word).then(|| whole.clone())
            })
        };
        let groups: BTreeSet<String> =
            running.values().filter_map(|process| part_of(&process.control_group)).collect();
        let mut groups = groups.into_iter();
        match (groups.next(), groups.next()) {
            (Some(group), None) => Ok(Subject::ControlGroup(group)),
            (Some(one), Some(another)) => {
                Err(format!("several control groups are called {word}: {one}, {another}"))
            }
            (None, _) => Err(format!(
                "no process runs in a control group called {word}: see systemd-cgls, or name a process by --pid"
            )),
        }
    }
}

fn add_descendants(chosen: &mut BTreeSet<u32>, running: &BTreeMap<u32, RunningProcess>) {
    loop {
        let is_child = |(number, process): &(&u32, &RunningProcess)| {
            chosen.contains(&process.parent) && !chosen.contains(number)
        };
        let children: Vec<u32> = running.iter().filter(is_child).map(|(n, _)| *n).collect();
        if children.is_empty() {
            return;
        }
        chosen.extend(children);
    }
}

/// Whether a part of a group's path is a unit of this name, or a container of this number.
fn is_named(part: &str, word: &str) -> bool {
    const ID_MIN: usize = 6;
    let bare = part.trim_end_matches(".service").trim_end_matches(".scope");
    let id = bare.rsplit('-').next().unwrap_or(bare);
    let is_id = |text: &str| text.len() >= 12 && text.bytes().all(|b| b.is_ascii_hexdigit());
    part == word || bare == word || (word.len() >= ID_MIN && is_id(id) && id.starts_with(word))
}

fn is_below(path: &str, group: &str) -> bool {
    let group = group.trim_end_matches('/');
    path == group || path.strip_prefix(group).is_some_and(|rest| rest.starts_with('/'))
}

fn ancestors(of: u32, running: &BTreeMap<u32, RunningProcess>) -> BTreeSet<u32> {
    let mut line = BTreeSet::from([of]);
    let mut number = of;
    while let Some(process) = running.get(&number) {
        number = process.parent;
        if number <= 1 || !line.insert(number) {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn running(processes: &[(u32, u32, &str, &str)]) -> BTreeMap<u32, RunningProcess> {
        let process = |(number, parent, name, group): &(u32, u32, &str, &str)| {
            let (name, control_group) = (name.to_string(), group.to_string());
            (*number, RunningProcess { parent: *parent, name, control_group })
        };
        processes.iter().map(process).collect()
    }

    #[test]
    fn a_process_has_its_descendants_and_a_group_those_below_it() {
        let running = running(&[
            (10, 1, "postgres", "/system.slice/postgresql.service"),
            (11, 10, "postgres", "/system.slice/postgresql.service/worker"),
            (12, 11, "sort", "/user.slice"),
            (13, 1, "other", "/system.slice/postgresql.service2"),
            (2, 0, "kthreadd", "/"),
            (14, 2, "kworker/0:1", "/"),
        ]);
        let check = |subject: &Subject, expected: &[u32]| {
            assert_eq!(subject.processes(&running).into_iter().collect::<Vec<_>>(), expected);
        };
        check(&Subject::Process(10), &[10, 11, 12]);
        check(&Subject::Process(12), &[12]);
        check(&Subject::Named("postgres".into()), &[10, 11, 12]);
        check(&Subject::ControlGroup("/system.slice/postgresql.service".into()), &[10, 11]);
        check(&Subject::Host, &[10, 11, 12, 13]);
        let unit = Subject::in_group("postgresql", &running).unwrap();
        assert_eq!(unit, Subject::ControlGroup("/system.slice/postgresql.service".into()));
        assert!(Subject::in_group("nginx", &running).unwrap_err().contains("called nginx"));
    }

    #[test]
    fn a_thread_that_begins_takes_another_number() {
        let before = last_begun().unwrap();
        std::thread::spawn(|| ()).join().unwrap();
        assert_ne!(last_begun(), Some(before));
    }

    #[test]
    fn a_container_goes_by_the_start_of_its_number() {
        let id = "0123456789abcdef0123";
        let group = format!("/system.slice/docker-{id}.scope");
        let running = running(&[(10, 1, "redis", &group)]);
        assert_eq!(Subject::in_group("012345", &running), Ok(Subject::ControlGroup(group)));
        assert!(Subject::in_group("0123", &running).is_err());
    }

    #[test]
    fn groups_are_read_as_the_kernel_writes_them() {
        assert_eq!(control_group("0::/a/b\n"), "/a/b");
        assert_eq!(control_group("4:cpu,cpuacct:/c\n0::/a\n"), "/c");
    }
}
