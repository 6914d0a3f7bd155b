//! /proc/pressure: for how long some tasks, or all of them at once, waited for a CPU,
//! for memory or for I/O. The kernel times each CPU exactly and weighs CPUs by how busy
//! they were (Documentation/accounting/psi.rst). Where it was built without PSI, or booted
//! with psi=0, the files are absent or refuse to be read.

use std::path::PathBuf;

use super::Source;
use super::files::{Files, Text};
use super::values::Values;

pub(super) const SOURCE: Source = Source {
    name: "pressure",
    files: |_, _| {
        Ok(["cpu", "memory", "io"].map(|on| PathBuf::from("proc/pressure").join(on)).into())
    },
    parse,
};

fn parse(files: &Files, _cpus: &[u32], values: &mut Values) -> Result<(), String> {
    for file in files.iter() {
        if let Err(why) = totals(file, values) {
            values.unavailable(format!("pressure.{}", file.name()), why);
        }
    }
    Ok(())
}

fn totals(file: Text, values: &mut Values) -> Result<(), String> {
    let mut understood = 0;
    for line in file.lines()? {
        let who = line.split(' ').next().filter(|who| matches!(*who, "some" | "full"));
        let total = line.rsplit_once("total=").and_then(|(_, total)| total.parse().ok());
        if let (Some(who), Some(total)) = (who, total) {
            values.count(format!("pressure.{}.{who}_us", file.name()), total);
            understood += 1;
        }
    }
    (understood > 0).then_some(()).ok_or_else(|| file.failed("no line is understood"))
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
                unavailable pressure.io.full_us: gone between the snapshots
                unavailable pressure.memory: /proc/pressure/memory: no line is understood
            "#]],
        );
    }
}
