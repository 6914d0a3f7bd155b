//! thermal_throttle of the measured CPUs: how often heat slowed their core or their
//! package. The kernel keeps the package's events for each CPU that handled one, and
//! all CPUs of a package may; so package counts say "it happened", not how often. Only
//! x86 hosts with an Intel CPU have these files, virtual machines have none.

use std::path::{Path, PathBuf};

use super::Source;
use super::files::Files;
use super::values::Values;

pub(super) const SOURCE: Source = Source { name: "throttle", files, parse };

const SCOPES: [&str; 2] = ["core", "package"];

fn files(_root: &Path, cpus: &[u32]) -> Result<Vec<PathBuf>, String> {
    let of = |cpu| SCOPES.map(|scope| path(cpu, scope));
    Ok(cpus.iter().flat_map(of).collect())
}

fn path(cpu: &u32, scope: &str) -> PathBuf {
    format!("sys/devices/system/cpu/cpu{cpu}/thermal_throttle/{scope}_throttle_count").into()
}

fn parse(files: &Files, _cpus: &[u32], values: &mut Values) -> Result<(), String> {
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
                unavailable throttle: /sys/devices/system/cpu/cpu0/thermal_throttle/core_throttle_count: holds no number
            "#]],
        );
    }
}
