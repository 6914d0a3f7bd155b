//! Ceilings that `knee conflicts OPERATION --json` has traced, for the curves of the same operations.

use std::path::Path;

use answers::{Ceiling, CurveCeiling, CurveIdentity, RATE};
use anyhow::{Context, Result, bail, ensure};
use host::{Limit, given_file};
use laws::Sweep;
use serde::Deserialize;

const LIMIT: Limit = Limit { bytes: 64 << 20, what: "an answer of knee conflicts" };

/// The part of an answer that curves need.
#[derive(Deserialize)]
struct Answer {
    traced: Vec<TracedOperation>,
}

#[derive(Deserialize)]
struct TracedOperation {
    operation: String,
    on: String,
    ceilings: Vec<Ceiling>,
}

/// The ceilings of a file.
pub struct Ceilings(Vec<CurveCeiling>);

impl Ceilings {
    /// Reads a file that `knee conflicts … --json` printed. `metric` is what the curves are of.
    pub fn read(path: &Path, metric: &str) -> Result<Ceilings> {
        ensure!(metric == RATE, "--ceiling is of operations a second, and --metric is {metric}");
        let text = given_file::read_text(path, LIMIT)?;
        Ceilings::parse(&text).with_context(|| format!("reading {}", path.display()))
    }

    fn parse(text: &str) -> Result<Ceilings> {
        const WANTED: &str = "write one by `knee conflicts OPERATION --json > FILE`";
        let answer: Answer = serde_json::from_str(text)
            .with_context(|| format!("no traced operations: {WANTED}"))?;
        let all =
            answer.traced.into_iter().flat_map(|TracedOperation { operation, on, ceilings }| {
                let of = move |ceiling| CurveCeiling {
                    operation: operation.clone(),
                    on: on.clone(),
                    ceiling,
                };
                ceilings.into_iter().map(of)
            });
        let all: Vec<CurveCeiling> = all.collect();
        ensure!(!all.is_empty(), "no line bounds a traced operation: {WANTED}");
        for CurveCeiling { operation, ceiling, .. } in &all {
            let [low, high] = ceiling.operations_per_s;
            ensure!(
                low > 0.0 && high >= low && high.is_finite(),
                "{operation}: {low} to {high} operations/s is no range of rates: {WANTED}"
            );
        }
        Ok(Ceilings(all))
    }

    /// Those of a curve, which meets them from its rate on one CPU if it has one.
    pub fn of(&self, curve: &CurveIdentity, sweep: Option<&Sweep>) -> Vec<CurveCeiling> {
        let is_of = |ceiling: &&CurveCeiling| match curve {
            CurveIdentity::File { .. } => true,
            CurveIdentity::Measured { workload, .. } => *workload == ceiling.operation,
        };
        let first = sweep.and_then(|sweep| sweep.points().first()).filter(|point| point.cpus == 1);
        let one_cpu = first.map(|point| point.rates.iter().sum::<f64>() / point.rates.len() as f64);
        let mut all: Vec<CurveCeiling> = self.0.iter().filter(is_of).cloned().collect();
        for found in &mut all {
            if let Some(rate) = one_cpu.filter(|rate| *rate > 0.0) {
                found.ceiling.met_from(rate, "measured");
            }
        }
        all
    }

    /// Fails where the file is of other operations than the curves.
    pub fn check_use<'a>(&self, curves: impl Iterator<Item = &'a CurveIdentity>) -> Result<()> {
        let mut loads = Vec::new();
        for curve in curves {
            match curve {
                CurveIdentity::Measured { workload, .. } => loads.push(workload.as_str()),
                CurveIdentity::File { .. } => {
                    let first = &self.0[0].operation;
                    let others = self.0.iter().find(|one| one.operation != *first);
                    ensure!(
                        others.is_none(),
                        "--ceiling has several operations, and a file of rates says not which: trace one"
                    );
                    return Ok(());
                }
            }
        }
        if self.0.iter().any(|one| loads.contains(&one.operation.as_str())) {
            return Ok(());
        }
        let mut traced: Vec<&str> = self.0.iter().map(|one| one.operation.as_str()).collect();
        traced.dedup();
        loads.dedup();
        bail!("--ceiling is of {}, and the curves are of {}", traced.join(", "), loads.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = r#"{"traced": [{"operation": "stat", "on": "6.12", "lines": [], "ceilings": [{
        "host": "icelake-2s", "member": "dentry.d_lockref", "transfers": [2, 2], "transfer_ns": [36, 158],
        "held_instructions": 0, "slowest_member": "dentry.d_lockref", "operations_per_s": [3e6, 14e6],
        "meets": null}]}]}"#;

    fn file() -> CurveIdentity {
        CurveIdentity::File { file: "rates.csv".to_string() }
    }

    #[test]
    fn a_curve_of_a_file_meets_the_ceiling_from_its_first_rate() {
        let ceilings = Ceilings::parse(STAT).unwrap();
        ceilings.check_use([file()].iter()).unwrap();
        let runs = [1, 2, 4, 8].map(|cpus| (cpus, vec![1e6 * f64::from(cpus)]));
        let sweep = Sweep::new(runs.to_vec()).unwrap();
        let found = ceilings.of(&file(), Some(&sweep));
        assert_eq!(found[0].ceiling.meets.as_ref().unwrap().cpus, [3.0, 14.0]);
        assert_eq!(ceilings.of(&file(), None)[0].ceiling.meets, None);
    }

    #[test]
    fn other_files_and_operations_are_refused() {
        let error = |text: &str| format!("{:#}", Ceilings::parse(text).err().unwrap());
        assert!(error("[]").contains("write one by `knee conflicts OPERATION --json > FILE`"));
        assert!(error(r#"{"traced": []}"#).starts_with("no line bounds a traced operation"));
        let none = error(&STAT.replace("[3e6, 14e6]", "[-1, 0]"));
        assert!(none.starts_with("stat: -1 to 0 operations/s is no range of rates"), "{none}");
        let two =
            STAT.replace("]}]}", r#"]}, {"operation": "rename", "on": "6.12", "ceilings": []}]}"#);
        Ceilings::parse(&two).unwrap().check_use([file()].iter()).unwrap();
    }
}
