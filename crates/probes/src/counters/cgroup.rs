//! cpu.stat of this process's control group and of those above it: how often a quota
//! throttled tasks, and for how long. A quota on any level does, so all levels are summed;
//! those above a container's own mount are invisible from inside.

use std::path::{Path, PathBuf};

use super::files::SourceFiles;
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};
use crate::cgroups;

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "cgroup", paths: SourcePaths::Found(paths), parse };

fn paths(root: &Path, _cpus: &[u32]) -> Result<Vec<PathBuf>, String> {
    let directories = cgroups::directories(root, "cpu")?;
    Ok(directories.paths.into_iter().map(|directory| directory.join("cpu.stat")).collect())
}

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    // The root group and groups without the cpu controller have no such lines: nothing
    // throttles tasks there, which is a true zero.
    let (mut periods, mut throttled_ns, mut has_numbers) = (0, 0, false);
    for file in files.iter() {
        for (name, number) in file.entries(' ')? {
            let Ok(number) = number.parse::<i64>() else { continue };
            has_numbers = true;
            match name {
                "nr_throttled" => periods += number,
                "throttled_usec" => throttled_ns += number * 1000,
                "throttled_time" => throttled_ns += number,
                _ => {}
            }
        }
    }
    if has_numbers {
        values.count("cgroup.throttled_periods", periods);
        values.count("cgroup.throttled_us", throttled_ns / 1000);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    const V1: (&str, &str, &str) =
        ("proc/self/cgroup", "3:cpu,cpuacct:/job\n", "3:cpu,cpuacct:/job\n");
    const V1_MOUNT: &str = "31 23 0:28 / /cg rw - cgroup cgroup rw,cpu,cpuacct\n";
    const V2: (&str, &str, &str) = ("proc/self/cgroup", "0::/pod/job\n", "0::/pod/job\n");
    const V2_MOUNT: &str = "31 23 0:28 / /cg rw - cgroup2 cgroup2 rw\n";

    #[test]
    fn version_1_counts_in_nanoseconds() {
        let before = "nr_periods 1\nnr_throttled 1\nthrottled_time 5000000\n";
        let after = "nr_periods 9\nnr_throttled 4\nthrottled_time 8500000\n";
        check(
            &SOURCE,
            &[],
            &[
                V1,
                ("proc/self/mountinfo", V1_MOUNT, V1_MOUNT),
                ("cg/cpu.stat", "nr_throttled 0\n", "nr_throttled 0\n"),
                ("cg/job/cpu.stat", before, after),
            ],
            expect![[r#"
                cgroup.throttled_periods 3
                cgroup.throttled_us 3500
            "#]],
        );
    }

    #[test]
    fn version_2_is_summed_over_all_levels() {
        let quota =
            |periods, us| format!("usage_usec 1\nnr_throttled {periods}\nthrottled_usec {us}\n");
        check(
            &SOURCE,
            &[],
            &[
                V2,
                ("proc/self/mountinfo", V2_MOUNT, V2_MOUNT),
                ("cg/cpu.stat", "usage_usec 5\n", "usage_usec 6\n"),
                ("cg/pod/cpu.stat", &quota(1, 100), &quota(3, 900)),
                ("cg/pod/job/cpu.stat", &quota(0, 0), &quota(1, 50)),
            ],
            expect![[r#"
                cgroup.throttled_periods 3
                cgroup.throttled_us 850
            "#]],
        );
    }

    #[test]
    fn an_unreadable_group_is_unavailable() {
        check(
            &SOURCE,
            &[],
            &[V2, ("proc/self/mountinfo", V2_MOUNT, V2_MOUNT)],
            expect![[r#"
                unavailable cgroup: /cg/pod/job/cpu.stat: No such file or directory (os error 2)
            "#]],
        );
    }
}
