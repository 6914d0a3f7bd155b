//! thermal_throttle of the measured CPUs: how often heat slowed their core or their
//! package. The kernel counts a package event on each CPU that handled it, which may be
//! all CPUs of the package; so package counts say that it happened, not how often. Only
//! x86 hosts with an Intel CPU have these files, virtual machines have none.

use std::path::{Path, PathBuf};

use super::files::SourceFiles;
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "throttle", paths: SourcePaths::Found(paths), parse };

const SCOPES: [&str; 2] = ["core", "package"];

fn paths(_root: &Path, cpus: &[u32]) -> Result<Vec<PathBuf>, String> {
    Ok(cpus.iter().flat_map(|cpu| SCOPES.map(|scope| path(cpu, scope))).collect())
}

fn path(cpu: &u32, scope: &str) -> PathBuf {
    format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{scope}_throttle_count").into()
}

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    let mut sums = [0; SCOPES.len()];
    for (index, file) in files.iter().enumerate() {
        sums[index % SCOPES.len()] += file.number()?;
    }
    for (scope, sum) in SCOPES.iter().zip(sums) {
        values.count(format!("throttle.{scope}"), sum);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    #[test]
    fn events_are_summed_over_the_measured_cpus() {
        let file = |cpu, scope| path(cpu, scope).to_str().unwrap().to_owned();
        check(
            &SOURCE,
            &[0, 2],
            &[
                (&file(&0, "core"), "0\n", "3\n"),
                (&file(&0, "package"), "10\n", "11\n"),
                (&file(&1, "core"), "0\n", "100\n"),
                (&file(&2, "core"), "5\n", "6\n"),
                (&file(&2, "package"), "10\n", "11\n"),
            ],
            expect![[r#"
                throttle.core 4
                throttle.package 2
            "#]],
        );
    }

    #[test]
    fn what_is_no_number_is_unavailable() {
        check(
            &SOURCE,
            &[0],
            &[(path(&0, "core").to_str().unwrap(), "0\n", "no number\n")],
            expect![[r#"
                unavailable throttle: /sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count: not a number
            "#]],
        );
    }
}
