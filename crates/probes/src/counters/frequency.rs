//! scaling_cur_freq of the measured CPUs, in the later snapshot only: either the kernel's
//! estimate from the last ticks before the tasks stopped, or the frequency that the governor
//! requested, depending on the driver (Documentation/admin-guide/pm/cpufreq.rst).

use std::path::{Path, PathBuf};

use super::files::SourceFiles;
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource =
    CounterSource { name: "frequency_mhz", paths: SourcePaths::Found(paths), parse };

fn paths(_root: &Path, cpus: &[u32]) -> Result<Vec<PathBuf>, String> {
    Ok(cpus.iter().map(path).collect())
}

fn path(cpu: &u32) -> PathBuf {
    format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq").into()
}

fn parse(files: &SourceFiles, cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    if cpus.is_empty() {
        return Err("no CPU was measured".to_owned());
    }
    let sum_khz = files.sum()?;
    values.gauge("frequency_mhz", sum_khz as f64 / cpus.len() as f64 / 1000.0);
    Ok(())
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    #[test]
    fn the_mean_over_the_measured_cpus_is_of_the_end() {
        check(
            &SOURCE,
            &[0, 1],
            &[
                (path(&0).to_str().unwrap(), "800000\n", "3000000\n"),
                (path(&1).to_str().unwrap(), "800000\n", "2500000\n"),
            ],
            expect![[r#"
                frequency_mhz = 2750
            "#]],
        );
    }

    #[test]
    fn what_is_no_number_is_unavailable() {
        check(
            &SOURCE,
            &[],
            &[],
            expect![[r#"
                unavailable frequency_mhz: no CPU was measured
            "#]],
        );
        check(
            &SOURCE,
            &[0],
            &[(path(&0).to_str().unwrap(), "1\n", "<unknown>\n")],
            expect![[r#"
                unavailable frequency_mhz: /sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq: not a number
            "#]],
        );
    }
}
