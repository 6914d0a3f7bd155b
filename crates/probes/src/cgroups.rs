//! The directories of this process's control group and of every group above it: the
//! tightest limit in any of them binds. Version 1 has one hierarchy per controller,
//! version 2 one for all (cgroups(7)).

use std::path::{Path, PathBuf};

use crate::tree;

/// The version of a hierarchy, on which its file names depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CgroupVersion {
    V1,
    V2,
}

/// This process's directories in the hierarchy of one controller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct CgroupDirectories {
    pub version: CgroupVersion,
    /// Relative to the root of the tree: first the process's own group, then upwards to the
    /// mount point. Groups above the mount are invisible from here.
    pub paths: Vec<PathBuf>,
}

/// The directories that can limit this process by `controller`.
pub(crate) fn directories(root: &Path, controller: &str) -> Result<CgroupDirectories, String> {
    directories_of(root, "self", controller)
}

/// The directories that can limit a process, by its number, by `controller`.
pub(crate) fn directories_of(
    root: &Path,
    process: &str,
    controller: &str,
) -> Result<CgroupDirectories, String> {
    let path = format!("proc/{process}/cgroup");
    let groups = tree::text(root, &path)?;
    let (version, group) = own_group(&groups, controller)
        .ok_or_else(|| format!("/{path} names no group for {controller}"))?;
    let mounts = host::mounts::parse(&tree::text(root, "proc/self/mountinfo")?);
    let mount = mounts
        .iter()
        .find(|mount| match version {
            CgroupVersion::V1 => {
                mount.file_system == "cgroup"
                    && mount.super_options.split(',').any(|option| option == controller)
            }
            CgroupVersion::V2 => mount.file_system == "cgroup2",
        })
        .ok_or_else(|| format!("the hierarchy of {controller} control groups is not mounted"))?;
    let below = Path::new(group).strip_prefix(&mount.root).map_err(|_| {
        format!("the control group {group} is outside the mounted {}", mount.root.display())
    })?;
    let mount_point = mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point);
    let paths = below.ancestors().map(|group| mount_point.join(group)).collect();
    Ok(CgroupDirectories { version, paths })
}

/// This process's group in the version 1 hierarchy that has the controller, otherwise in
/// version 2, whose line lists no controllers.
fn own_group<'a>(groups: &'a str, controller: &str) -> Option<(CgroupVersion, &'a str)> {
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|c| c == controller));
    let v2 = lines().find(|(controllers, _)| controllers.is_empty());
    v1.map(|(_, group)| (CgroupVersion::V1, group))
        .or(v2.map(|(_, group)| (CgroupVersion::V2, group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cgroup: &str, mountinfo: &str, expected: Result<(CgroupVersion, &[&str]), &str>) {
        let root = tree::fake(&[("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mountinfo)]);
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let expected = expected
            .map(|(version, list)| CgroupDirectories { version, paths: paths(list) })
            .map_err(str::to_owned);
        assert_eq!(directories(root.path(), "cpu"), expected);
    }

    #[test]
    fn a_group_and_all_above_it_can_limit() {
        check(
            "0::/user.slice/session\n",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            Ok((
                CgroupVersion::V2,
                &["sys/fs/cgroup/user.slice/session", "sys/fs/cgroup/user.slice", "sys/fs/cgroup/"],
            )),
        );
    }

    #[test]
    fn the_version_1_hierarchy_of_the_controller_wins_in_a_mixed_set_up() {
        check(
            "4:cpu,cpuacct:/docker/1f\n2:cpuset:/\n0::/x\n",
            "31 23 0:28 /docker/1f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n\
             32 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
            Ok((CgroupVersion::V1, &["sys/fs/cgroup/cpu/"])),
        );
    }

    #[test]
    fn missing_groups_and_mounts_are_errors() {
        check("", "", Err("/proc/self/cgroup names no group for cpu"));
        check("0::/\n", "", Err("the hierarchy of cpu control groups is not mounted"));
        check(
            "0::/elsewhere\n",
            "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            Err("the control group /elsewhere is outside the mounted /pod"),
        );
    }
}
