//! /proc/pressure: for how long some tasks, or all of them simultaneously, waited for a
//! CPU, for memory or for I/O. The kernel times each CPU exactly and weighs CPUs by how
//! busy they were (Documentation/accounting/psi.rst). If it was built without PSI, or
//! booted with psi=0, the files are absent or cannot be read.

use super::files::{FileText, SourceFiles};
use super::values::CounterValues;
use super::{CounterSource, SourcePaths};

pub(super) const SOURCE: CounterSource = CounterSource {
    name: "pressure",
    paths: SourcePaths::Fixed(&["proc/pressure/cpu", "proc/pressure/memory", "proc/pressure/io"]),
    parse,
};

fn parse(files: &SourceFiles, _cpus: &[u32], values: &mut CounterValues) -> Result<(), String> {
    for file in files.iter() {
        if let Err(why) = totals(file, values) {
            values.unavailable(format!("pressure.{}", file.name()), why);
        }
    }
    Ok(())
}

fn totals(file: FileText, values: &mut CounterValues) -> Result<(), String> {
    let mut parsed_lines = 0;
    for line in file.lines()? {
        let tasks = line.split(' ').next().filter(|tasks| matches!(*tasks, "some" | "full"));
        let total = line.rsplit_once("total=").and_then(|(_, total)| total.parse().ok());
        if let (Some(tasks), Some(total)) = (tasks, total) {
            values.count(format!("pressure.{}.{tasks}_us", file.name()), total);
            parsed_lines += 1;
        }
    }
    if parsed_lines > 0 { Ok(()) } else { Err(file.failed("no line could be parsed")) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::super::check::check;
    use super::*;

    #[test]
    fn each_resource_has_its_own_times_and_failures() {
        check(
            &SOURCE,
            &[],
            &[
                (
                    "proc/pressure/cpu",
                    "some avg10=0.81 avg60=0.47 avg300=0.41 total=7995937\n",
                    "some avg10=9.81 avg60=0.47 avg300=0.41 total=8995937\n",
                ),
                (
                    "proc/pressure/io",
                    "some avg10=0.36 avg60=0.73 avg300=1.11 total=100\nfull total=50\n",
                    "some avg10=0.36 avg60=0.73 avg300=1.11 total=300\nfull total=5",
                ),
                ("proc/pressure/memory", "some total=1\n", "some total=\nsome\nmany total=1\n"),
            ],
            expect![[r#"
                pressure.cpu.some_us 1000000
                pressure.io.some_us 200
                unavailable pressure.io.full_us: disappeared between the snapshots
                unavailable pressure.memory: /proc/pressure/memory: no line could be parsed
            "#]],
        );
    }
}
