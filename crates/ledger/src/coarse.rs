//! The ledger that /proc alone can give, if nothing may be attached to the kernel: who had the
//! CPUs, but not what for. It adds up as well, because the time that the tasks did not use is
//! divided by the ticks of the CPUs.

use records::{Obtained, Outcome, Point, Run};

use super::{IDLE, Ledger, LedgerRow, LedgerUnit, OTHERS, STOLEN, WORK, split};

/// Where the time of one run went.
struct RunTimes {
    unit: LedgerUnit,
    user_ns: u64,
    system_ns: u64,
    idle_ns: u64,
    stolen_ns: u64,
    others_ns: u64,
}

/// The ledger of runs that were not watched. `None` if they lack the metrics and counters for it.
pub fn coarse(runs: &[&Run], point: &Point) -> Option<Ledger> {
    let times: Vec<RunTimes> = runs.iter().filter_map(|run| times(run, point)).collect();
    if times.is_empty() {
        return None;
    }
    let each = |value: &dyn Fn(&RunTimes) -> u64| times.iter().map(value).collect::<Vec<u64>>();
    let row = |name: &str, ns| LedgerRow::new(name, Obtained::Sampled, ns);
    let work = vec![
        row("user code", each(&|times| times.user_ns)),
        row("in the kernel", each(&|times| times.system_ns)),
    ];
    let rows = vec![
        LedgerRow::from_parts(WORK, Obtained::Sampled, work),
        row(IDLE, each(&|times| times.idle_ns)),
        LedgerRow {
            obtained: Obtained::Apportioned,
            ..row(OTHERS, each(&|times| times.others_ns))
        }
        .belonging_to_time(),
        row(STOLEN, each(&|times| times.stolen_ns)).belonging_to_time(),
    ];
    let rows = rows.into_iter().filter(|row| row.total_ns() > 0).collect();
    let root = LedgerRow::from_parts("all", Obtained::Sampled, rows);
    Some(Ledger::of_runs(times.iter().map(|times| times.unit).collect(), root))
}

fn times(run: &Run, point: &Point) -> Option<RunTimes> {
    let Outcome::Finished { metrics, counters, .. } = &run.outcome else { return None };
    let ns = |name: &str| metrics.get(name).map(|seconds| (seconds * 1e9).round() as u64);
    let budget_ns = ns(records::WALL)? * u64::from(point.cpus);
    let ticks = |names: &[&str]| -> Option<u64> {
        let tick = |name: &&str| counters.get(&format!("stat.cpus.{name}_ticks"));
        names.iter().map(|name| tick(name).map(|n| n.max(0) as u64)).sum()
    };
    let (idle, stolen) = (ticks(&["idle", "iowait"])?, ticks(&["steal"])?);
    let busy = ticks(&["user", "nice", "system", "irq", "softirq"])?;
    let (user_ns, system_ns) = (ns("time.user_time")?, ns("time.system_time")?);
    // The tasks' clocks may exceed the wall clock by a little: then nothing is left for the rest.
    let parts = if user_ns + system_ns <= budget_ns {
        vec![user_ns, system_ns]
    } else {
        split(budget_ns, &[user_ns, system_ns])
    };
    let work_ns = parts[0] + parts[1];
    let tick_ns = budget_ns / (idle + stolen + busy).max(1);
    let others_ns = (busy * tick_ns).saturating_sub(work_ns);
    let weights = [idle * tick_ns, stolen * tick_ns, others_ns];
    let rest = budget_ns - work_ns;
    let divided = match weights.iter().sum::<u64>() {
        // Without any tick, the rest was too short for one.
        0 => vec![0, 0, rest],
        _ => split(rest, &weights),
    };
    let operations = metrics.get("operations").map_or(1, |n| n as u64);
    Some(RunTimes {
        unit: LedgerUnit { operations, budget_ns, block: Some(run.block) },
        user_ns: parts[0],
        system_ns: parts[1],
        idle_ns: divided[0],
        stolen_ns: divided[1],
        others_ns: divided[2],
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;
    use records::Values;

    use super::*;

    #[test]
    fn rows_add_up_whatever_proc_says() {
        let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        let opened = store::open(&golden).unwrap();
        let point = Point { cpus: 2, ..opened.record.points[0].clone() };
        let mut run = opened.runs.iter().find(|run| run.finished()).unwrap().clone();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..1000 {
            let Outcome::Finished { metrics, counters, .. } = &mut run.outcome else { panic!() };
            for name in [records::WALL, "time.user_time", "time.system_time"] {
                metrics.insert(name, random.random_range(0.001..2.0));
            }
            for name in ["user", "nice", "system", "irq", "softirq", "idle", "iowait", "steal"] {
                let ticks = random.random_range(-1..100);
                counters.insert(&format!("stat.cpus.{name}_ticks"), ticks);
            }
            let ledger = coarse(&[&run], &point).unwrap();
            assert_eq!(ledger.broken(), None);
        }
        if let Outcome::Finished { counters, .. } = &mut run.outcome {
            *counters = Values::new();
        }
        assert_eq!(coarse(&[&run], &point), None);
    }
}
