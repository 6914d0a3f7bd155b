//! The contract of all workloads: every one in the list, in every form it allows, with
//! one task and with three, with each word of each of its choices, to a fixed count and
//! stopped. A new workload writes no test.
//!
//! No libtest: runs fork, which only a process of one thread may do safely, and libtest
//! has several. `cargo test -p workloads --test contract NAME` runs the part whose names
//! contain NAME. Runs that are impossible on this host are reported as ignored, with the
//! reason, and noted in the file that the environment variable KNEE_SKIPS names.

mod broken;
mod catalogue;
mod run;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Write;
use std::process::ExitCode;
use std::time::Instant;

use run::{Ending, Outcome, Run};
use workloads::{Forms, ParameterKind, TaskForm, Values, WORKLOADS, Workload};

fn main() -> ExitCode {
    let filter = std::env::args().skip(1).find(|a| !a.starts_with('-')).unwrap_or_default();
    let start = Instant::now();
    let mut tally = Tally::default();
    for (name, check) in catalogue::CHECKS.iter().chain(broken::CHECKS) {
        if name.contains(&filter) {
            tally.count(name, || result_of(check()));
        }
    }
    for workload in WORKLOADS.iter() {
        if workload.name.contains(&filter) {
            tally.count(workload.name, || check_workload(workload));
        }
    }
    tally.finish(start)
}

/// A check that runs no listed workload: its name, and a function that returns what is wrong.
type Check = (&'static str, fn() -> Result<(), String>);

/// The result of one check, in one line of the report.
enum Verdict {
    Passed,
    Ignored(String),
    Failed(String),
}

fn result_of(result: Result<(), String>) -> Verdict {
    result.map_or_else(Verdict::Failed, |()| Verdict::Passed)
}

/// All runs of one workload.
fn check_workload(workload: &'static Workload) -> Verdict {
    let (mut failures, mut skips, mut passed) = (Vec::new(), BTreeSet::new(), 0);
    for given in variants(workload) {
        let values = match Values::new(workload, &given) {
            Ok(values) => values,
            Err(error) => return Verdict::Failed(error),
        };
        for (form, tasks, ending) in shapes(workload) {
            let spec = workload.spec;
            match run::check(&Run { values: values.clone(), ..Run::new(spec, form, tasks, ending) })
            {
                Outcome::Passed => passed += 1,
                Outcome::Skipped(why) => drop(skips.insert(format!("{form:?}: {why}"))),
                Outcome::Failed(why) => {
                    failures
                        .push(format!("{form:?}, {tasks} tasks, {ending:?}, {given:?}:\n{why}"));
                }
            }
        }
    }
    note_skips(workload.name, &skips);
    let skips = skips.into_iter().collect::<Vec<_>>().join("; ");
    match (failures.is_empty(), passed) {
        (false, _) => Verdict::Failed(failures.join("\n")),
        (true, 0) => Verdict::Ignored(skips),
        (true, _) => Verdict::Passed,
    }
}

fn shapes(workload: &Workload) -> Vec<(TaskForm, usize, Ending)> {
    let forms = match workload.spec.forms {
        Forms::Both | Forms::Noted(..) => vec![TaskForm::Processes, TaskForm::Threads],
        Forms::Only(form, _) => vec![form],
    };
    let mut shapes = Vec::new();
    for form in forms {
        for tasks in [1, 3] {
            shapes.extend([Ending::Count, Ending::Stop].map(|ending| (form, tasks, ending)));
        }
    }
    shapes
}

/// Values for parameters whose large defaults would make a test slow and prove nothing more.
const REDUCED: &[(&str, u64)] = &[("files", 50), ("size_bytes", 64 << 10)];

/// The defaults, then every other word of every choice, one at a time.
fn variants(workload: &Workload) -> Vec<BTreeMap<String, String>> {
    let defaults = Values::new(workload, &BTreeMap::new()).expect("defaults are allowed values");
    let mut base = BTreeMap::new();
    for parameter in workload.parameters() {
        let reduced = REDUCED.iter().find(|(name, _)| *name == parameter.name);
        if let (Some(&(name, reduced)), ParameterKind::Number { min, .. }) =
            (reduced, parameter.kind)
            && defaults.number(name) > reduced
        {
            base.insert(name.to_string(), min.max(reduced).to_string());
        }
    }
    let mut variants = vec![base.clone()];
    for parameter in workload.parameters() {
        if let ParameterKind::Choice(words) = parameter.kind {
            for word in words.iter().filter(|word| **word != parameter.default) {
                let mut given = base.clone();
                given.insert(parameter.name.to_string(), word.to_string());
                variants.push(given);
            }
        }
    }
    variants
}

fn note_skips(workload: &str, skips: &BTreeSet<String>) {
    let Some(path) = std::env::var_os("KNEE_SKIPS") else { return };
    let mut file =
        File::options().create(true).append(true).open(path).expect("opening KNEE_SKIPS");
    for skip in skips {
        writeln!(file, "workloads contract: {workload}: {skip}").expect("writing to KNEE_SKIPS");
    }
}

#[derive(Default)]
struct Tally {
    passed: usize,
    ignored: usize,
    failures: Vec<String>,
}

impl Tally {
    fn count(&mut self, name: &str, check: impl FnOnce() -> Verdict) {
        let start = Instant::now();
        match check() {
            Verdict::Passed => {
                self.passed += 1;
                // As libtest prints it with --report-time.
                println!("test {name} ... ok <{:.3}s>", start.elapsed().as_secs_f64());
            }
            Verdict::Ignored(why) => {
                self.ignored += 1;
                println!("test {name} ... ignored, {why}");
            }
            Verdict::Failed(why) => {
                println!("test {name} ... FAILED");
                self.failures.push(format!("---- {name} ----\n{why}\n"));
            }
        }
    }

    fn finish(self, start: Instant) -> ExitCode {
        let failed = self.failures.len();
        if failed > 0 {
            println!("\nfailures:\n\n{}", self.failures.join("\n"));
        }
        println!(
            "\ntest result: {}. {} passed; {failed} failed; {} ignored; 0 measured; 0 filtered out; \
             finished in {:.2}s\n",
            if failed == 0 { "ok" } else { "FAILED" },
            self.passed,
            self.ignored,
            start.elapsed().as_secs_f64()
        );
        if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}
