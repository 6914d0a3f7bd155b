//! What can be judged of emulated guests. QEMU translates each instruction into others, so how long anything takes says
//! nothing about a processor, and a clock's events fall on more or less of the program than they would there. What the
//! program itself causes is as many as on any processor. A metric's declared kind tells these apart, never its name.

use std::collections::BTreeSet;

use records::{MetricKind, Outcome, Record, Run, Until, per_operation};

/// How many metrics a reason names.
const NAMED: usize = 3;

/// Why a metric of emulated runs of a point is not judged: `None` for counts of the program's events, over equal work.
pub fn hidden_by_emulation(
    record: &Record,
    metric: &str,
    until: Until,
    runs: &[&Run],
) -> Option<String> {
    let (name, _) = per_operation(metric);
    let why = match record.kind_of(metric) {
        Some(MetricKind::Count) if is_of_equal_work(metric, until, runs) => return None,
        Some(MetricKind::Count) => {
            format!("a run has more {name} the more it gets done in its time")
        }
        Some(kind) => format!("{name} is {}", kind.in_words()),
        None => format!(
            "nothing says what {name} is: kind = \"count\" beside its name in the experiment would declare a count of \
             what the program does"
        ),
    };
    let counts = counts(record, until, runs);
    let way_out = if counts.is_empty() {
        "no count of the program's events was measured".to_string()
    } else {
        format!("judge by a count of the program's events, such as {}", counts.join(", "))
    };
    // What a program of the user's executes is not counted.
    let instructions = match until {
        Until::End => "",
        _ => ", or by instructions: --metric instructions/op --operations 20000 --cpus 1",
    };
    Some(format!("the guest was emulated, and {why}; {way_out}{instructions}"))
}

/// Whether a metric is per operation, or of runs that all do the same number of operations.
fn is_of_equal_work(metric: &str, until: Until, runs: &[&Run]) -> bool {
    let (_, is_per_operation) = per_operation(metric);
    is_per_operation
        || match until {
            Until::Seconds(_) => false,
            Until::OperationsPerTask(_) => true,
            // A command that counts no operations is one itself.
            Until::End => {
                let numbers = runs.iter().map(|run| run.value("operations").map(f64::to_bits));
                numbers.collect::<BTreeSet<_>>().len() <= 1
            }
        }
}

/// Some metrics that can be judged: counts that no run lacks, those with most events first.
fn counts(record: &Record, until: Until, runs: &[&Run]) -> Vec<String> {
    let Some(Outcome::Finished { metrics, counters, .. }) = runs.first().map(|run| &run.outcome)
    else {
        return Vec::new();
    };
    let counted = |name: &&str| {
        record.kind_of(name) == Some(MetricKind::Count)
            && *name != "operations"
            // What a workload checks is the same in every kernel.
            && !name.starts_with("effect.")
            && runs.iter().all(|run| run.value(name).is_some_and(|value| value > 0.0))
    };
    let mut names: Vec<&str> = metrics.keys().chain(counters.keys()).filter(counted).collect();
    let value = |name: &str| runs[0].value(name).unwrap_or_default();
    names.sort_by(|a, b| value(b).total_cmp(&value(a)));
    let whole = |name: &str| is_of_equal_work(name, until, runs);
    let asked = |name| if whole(name) { name.to_string() } else { format!("{name}/op") };
    names.into_iter().map(asked).take(NAMED).collect()
}
