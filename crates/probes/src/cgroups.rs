//! Where the limits of this process's own control group are: in its own directory
//! and in that of every group above, whichever is the tightest. Version 1 has a
//! hierarchy a controller, version 2 one for all (cgroups(7)).

use std::path::{Path, PathBuf};

use crate::{mounts, tree};

/// The hierarchies differ in their file names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

/// This process's directories in the hierarchy of one controller.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Directories {
    pub version: Version,
    /// Relative to the root of the tree: the own group's first, then upwards to the
    /// mount point. Groups above the mount are invisible from here.
    pub paths: Vec<PathBuf>,
}

/// The directories that can limit this process by `controller`.
pub(crate) fn directories(root: &Path, controller: &str) -> Result<Directories, String> {
    let groups = tree::text(root, "proc/self/cgroup")?;
    let (version, group) = own_group(&groups, controller)
        .ok_or_else(|| format!("/proc/self/cgroup names no group for {controller}"))?;
    let mounts = mounts::parse(&tree::text(root, "proc/self/mountinfo")?);
    let mount = mounts
        .iter()
        .find(|mount| match version {
            Version::V1 => {
                mount.file_system == "cgroup"
                    && mount.super_options.split(',').any(|option| option == controller)
            }
            Version::V2 => mount.file_system == "cgroup2",
        })
        .ok_or_else(|| format!("the hierarchy of {controller} control groups is not mounted"))?;
    let below = Path::new(group).strip_prefix(&mount.root).map_err(|_| {
        format!("own control group {group} lies outside the mounted {}", mount.root.display())
    })?;
    let mount_point = mount.mount_point.strip_prefix("/").unwrap_or(&mount.mount_point);
    let paths = below.ancestors().map(|group| mount_point.join(group)).collect();
    Ok(Directories { version, paths })
}

/// The own group: of the version 1 hierarchy that has the controller, otherwise of
/// version 2, which lists none.
fn own_group<'a>(groups: &'a str, controller: &str) -> Option<(Version, &'a str)> {
    let lines = || groups.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let v1 = lines().find(|(controllers, _)| controllers.split(',').any(|c| c == controller));
    let v2 = lines().find(|(controllers, _)| controllers.is_empty());
    v1.map(|(_, group)| (Version::V1, group)).or(v2.map(|(_, group)| (Version::V2, group)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(cgroup: &str, mountinfo: &str, expected: Result<(Version, &[&str]), &str>) {
        let root = tree::fake(&[("proc/self/cgroup", cgroup), ("proc/self/mountinfo", mountinfo)]);
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        let expected = expected
            .map(|(version, list)| Directories { version, paths: paths(list) })
            .map_err(str::to_owned);
        assert_eq!(directories(root.path(), "cpu"), expected);
    }

    #[test]
    fn a_group_and_all_above_it_can_limit() {
        check(
            "0::/user.slice/session\n",
            "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            Ok((
                Version::V2,
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
            Ok((Version::V1, &["sys/fs/cgroup/cpu/"])),
        );
    }

    #[test]
    fn what_cannot_be_found_is_said() {
        check("", "", Err("/proc/self/cgroup names no group for cpu"));
        check("0::/\n", "", Err("the hierarchy of cpu control groups is not mounted"));
        check(
            "0::/elsewhere\n",
            "30 23 0:26 /pod /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            Err("own control group /elsewhere lies outside the mounted /pod"),
        );
    }
}
