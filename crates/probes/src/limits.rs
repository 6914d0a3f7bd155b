//! How much of the host this process may use: CPUs, CPU time, files, tasks.

use std::path::Path;

use host::{affinity, parse_cpu_list};

use crate::cgroups::{self, CgroupVersion};
use crate::tree;

/// The limits of this process and its children.
#[derive(Clone, Debug)]
pub struct Limits {
    /// CPUs it may run on; or why they are unknown.
    pub cpus_allowed: Result<Vec<u32>, String>,
    pub cpus_online: Option<Vec<u32>>,
    /// CPU time over wall time that its control groups grant: `None` if unlimited, an error
    /// if unknown.
    pub cpu_quota: Result<Option<f64>, String>,
    /// Open files per process (RLIMIT_NOFILE).
    pub open_files: Limit,
    /// Processes and threads of this user (RLIMIT_NPROC), which does not bind root.
    pub tasks_of_user: Limit,
    /// Processes and threads that its control groups let it add: `None` if unlimited, an
    /// error if unknown.
    pub tasks_of_group: Result<Option<u64>, String>,
    /// Processes and threads of the whole host (threads-max, pid_max).
    pub tasks_of_host: Option<u64>,
}

/// A resource limit; `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// The limit in force.
    pub soft: Option<u64>,
    /// The value up to which the process may raise it.
    pub hard: Option<u64>,
}

/// The limits of this process. `root` is `/`, except in tests.
pub fn limits(root: &Path) -> Limits {
    let online = tree::value(root, "sys/devices/system/cpu/online");
    let host_limits = ["proc/sys/kernel/threads-max", "proc/sys/kernel/pid_max"];
    Limits {
        cpus_allowed: affinity::get().map_err(|e| format!("sched_getaffinity: {e}")),
        cpus_online: online.and_then(|list| parse_cpu_list(&list)),
        cpu_quota: cpu_quota(root, "self"),
        open_files: resource(libc::RLIMIT_NOFILE),
        tasks_of_user: resource(libc::RLIMIT_NPROC),
        tasks_of_group: tasks_of_group(root),
        tasks_of_host: host_limits.iter().filter_map(|path| tree::number(root, path)).min(),
    }
}

fn resource(resource: libc::__rlimit_resource_t) -> Limit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the call fills one live rlimit; with a valid resource it cannot fail.
    unsafe { libc::getrlimit(resource, &mut limit) };
    let finite = |value| (value != libc::RLIM_INFINITY).then_some(value);
    Limit { soft: finite(limit.rlim_cur), hard: finite(limit.rlim_max) }
}

/// The tightest quota, in CPUs, of a process's control group and of those above it.
///
/// # Errors
/// The process has ended, or its groups are not mounted here.
pub fn cpu_quota(root: &Path, process: &str) -> Result<Option<f64>, String> {
    let groups = cgroups::directories_of(root, process, "cpu")?;
    let quota = |directory: &Path| match groups.version {
        CgroupVersion::V1 => {
            let number = |file| tree::value(directory, file)?.parse::<f64>().ok();
            Some((number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?))
        }
        CgroupVersion::V2 => {
            let limit = tree::value(directory, "cpu.max")?;
            let (quota_us, period_us) = limit.split_once(' ')?;
            Some((quota_us.parse().ok()?, period_us.parse().ok()?))
        }
    };
    // "max" is no number, and -1 is no quota.
    let quotas = groups.paths.iter().filter_map(|path| quota(&root.join(path)));
    let finite = quotas.filter(|&(quota_us, period_us)| quota_us > 0.0 && period_us > 0.0);
    Ok(finite.map(|(quota_us, period_us)| quota_us / period_us).min_by(f64::total_cmp))
}

/// The number of tasks that this process's control group and those above it let it add.
fn tasks_of_group(root: &Path) -> Result<Option<u64>, String> {
    let groups = cgroups::directories(root, "pids")?;
    let room = |directory: &Path| {
        let (max, current) =
            (tree::number(directory, "pids.max")?, tree::number(directory, "pids.current")?);
        Some(max.saturating_sub(current))
    };
    Ok(groups.paths.iter().filter_map(|path| room(&root.join(path))).min())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(files: &[(&str, &str)], cpu_quota: Option<f64>, tasks: Option<u64>) {
        let limits = limits(tree::fake(files).path());
        assert_eq!(limits.cpu_quota, Ok(cpu_quota));
        assert_eq!(limits.tasks_of_group, Ok(tasks));
    }

    #[test]
    fn the_tightest_group_binds() {
        check(
            &[
                ("proc/self/cgroup", "0::/pod/job\n"),
                ("proc/self/mountinfo", "30 23 0:26 / /cg rw - cgroup2 cgroup2 rw\n"),
                ("cg/pod/cpu.max", "150000 100000\n"),
                ("cg/pod/pids.max", "100\n"),
                ("cg/pod/pids.current", "40\n"),
                ("cg/pod/job/cpu.max", "max 100000\n"),
                ("cg/pod/job/pids.max", "max\n"),
                ("cg/pod/job/pids.current", "1\n"),
            ],
            Some(1.5),
            Some(60),
        );
    }

    #[test]
    fn a_version_1_quota_is_two_files_and_minus_one_is_none() {
        let files = |quota| {
            [
                ("proc/self/cgroup", "1:cpu:/\n2:pids:/\n"),
                (
                    "proc/self/mountinfo",
                    "30 23 0:26 / /cpu rw - cgroup cgroup rw,cpu\n31 23 0:27 / /pids rw - cgroup cgroup rw,pids\n",
                ),
                ("cpu/cpu.cfs_quota_us", quota),
                ("cpu/cpu.cfs_period_us", "100000\n"),
            ]
        };
        check(&files("50000\n"), Some(0.5), None);
        check(&files("-1\n"), None, None);
    }

    #[test]
    fn an_unknown_group_is_an_error() {
        let limits = limits(tree::fake(&[]).path());
        assert!(limits.cpu_quota.is_err() && limits.tasks_of_group.is_err());
        assert_eq!(limits.tasks_of_host, None);
    }

    #[test]
    fn this_process_may_run_somewhere() {
        assert!(!limits(Path::new("/")).cpus_allowed.unwrap().is_empty());
    }
}
