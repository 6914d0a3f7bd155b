//! How long the quotas of control groups keep CPUs from processes: cpu.stat of their groups, and of those above.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The groups of the followed processes, with how long they were throttled.
#[derive(Default)]
pub struct Throttling {
    /// Files cpu.stat.
    files: BTreeSet<PathBuf>,
    last_ns: Vec<(PathBuf, u64)>,
}

impl Throttling {
    /// Watches the groups of these processes too.
    pub fn follow(&mut self, processes: &[u32]) {
        for process in processes {
            let groups = fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default();
            self.files.extend(files(&groups).into_iter().filter(|file| file.exists()));
        }
    }

    /// Begins the first window.
    pub fn start(&mut self) {
        self.last_ns = self.now();
    }

    /// How long CPUs were kept from the most throttled group since the last window, ns of all CPUs together.
    pub fn window_ns(&mut self) -> u64 {
        let now = self.now();
        let since = |(file, ns): &(PathBuf, u64)| {
            let before = self.last_ns.iter().find(|(known, _)| known == file);
            ns.saturating_sub(before.map_or(*ns, |(_, ns)| *ns))
        };
        let most = now.iter().map(since).max().unwrap_or(0);
        self.last_ns = now;
        most
    }

    fn now(&self) -> Vec<(PathBuf, u64)> {
        let of_file = |file: &PathBuf| {
            let text = fs::read_to_string(file).ok()?;
            Some((file.clone(), throttled_ns(&text)?))
        };
        self.files.iter().filter_map(of_file).collect()
    }
}

/// The files cpu.stat of a process's groups, from lines `HIERARCHY:CONTROLLERS:PATH`.
fn files(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let mounts: &[&str] = match controllers {
            "" => &["/sys/fs/cgroup", "/sys/fs/cgroup/unified"],
            _ if controllers.split(',').any(|controller| controller == "cpu") => {
                &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            }
            _ => continue,
        };
        let below = Path::new(path.trim_start_matches('/'));
        for mount in mounts {
            let mut group = Path::new(mount).join(below);
            while group.starts_with(mount) {
                files.push(group.join("cpu.stat"));
                group.pop();
            }
        }
    }
    files
}

/// `throttled_usec` of version 2, `throttled_time` in ns of version 1.
fn throttled_ns(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| match line.split_once(' ')? {
        ("throttled_usec", us) => Some(us.trim().parse::<u64>().ok()? * 1000),
        ("throttled_time", ns) => ns.trim().parse().ok(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_say_how_long() {
        assert_eq!(throttled_ns("usage_usec 5\nnr_throttled 2\nthrottled_usec 7\n"), Some(7000));
        assert_eq!(throttled_ns("nr_periods 0\nthrottled_time 7\n"), Some(7));
        assert_eq!(throttled_ns("usage_usec 5\n"), None);
    }

    #[test]
    fn a_group_and_those_above_it_have_files() {
        let check = |groups: &str, expected: &[&str]| {
            let files = files(groups);
            for path in expected {
                assert!(files.contains(&PathBuf::from(path)), "{path} in {files:?}");
            }
        };
        check(
            "0::/a/b\n",
            &[
                "/sys/fs/cgroup/a/b/cpu.stat",
                "/sys/fs/cgroup/a/cpu.stat",
                "/sys/fs/cgroup/cpu.stat",
            ],
        );
        check("4:cpu,cpuacct:/c\n", &["/sys/fs/cgroup/cpu,cpuacct/c/cpu.stat"]);
        assert!(files("3:memory:/c\n").is_empty());
    }
}
