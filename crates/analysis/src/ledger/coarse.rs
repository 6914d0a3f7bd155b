//! The ledger that /proc alone can give, where nothing may be attached to the kernel: who had the
//! CPUs, but not what for. It adds up as well, because what the tasks did not use is divided by
//! the ticks of the CPUs.

use records::{Obtained, Outcome, Point, Run};

use super::build::{IDLE, OTHERS, STOLEN, WORK};
use super::{Ledger, Row, Unit, split};

/// The time of one run.
struct Times {
    unit: Unit,
    user_ns: u64,
    system_ns: u64,
    /// Idle, stolen, other tasks.
    rest_ns: [u64; 3],
}

/// The ledger of runs that were not watched; nothing where they lack what it is made of.
pub fn coarse(runs: &[&Run], point: &Point) -> Option<Ledger> {
    let times: Vec<Times> = runs.iter().filter_map(|run| times(run, point)).collect();
    if times.is_empty() {
        return None;
    }
    let each = |value: &dyn Fn(&Times) -> u64| times.iter().map(value).collect::<Vec<u64>>();
    let row = |name: &str, ns| Row::new(name, Obtained::Sampled, ns);
    let work = vec![
        row("user code", each(&|times| times.user_ns)),
        row("in the kernel", each(&|times| times.system_ns)),
    ];
    let rest = |index: usize| each(&|times| times.rest_ns[index]);
    let rows = vec![
        Row::sum_of(WORK, Obtained::Sampled, work),
        row(IDLE, rest(0)),
        Row { obtained: Obtained::Apportioned, ..row(OTHERS, rest(2)) }.of_time(),
        row(STOLEN, rest(1)).of_time(),
    ];
    let rows = rows.into_iter().filter(|row| row.total_ns() > 0).collect();
    let root = Row::sum_of("all", Obtained::Sampled, rows);
    Some(Ledger { units: times.iter().map(|times| times.unit).collect(), root })
}

fn times(run: &Run, point: &Point) -> Option<Times> {
    let Outcome::Finished { metrics, counters, .. } = &run.outcome else { return None };
    let ns = |name: &str| metrics.get(name).map(|seconds| (seconds * 1e9).round() as u64);
    let budget_ns = ns(records::WALL)? * u64::from(point.cpus);
    let ticks = |names: &[&str]| -> Option<u64> {
        let tick = |name: &&str| counters.get(&format!("stat.cpus.{name}_ticks"));
        names.iter().map(|name| tick(name).map(|n| (*n).max(0) as u64)).sum()
    };
    let (idle, stolen) = (ticks(&["idle", "iowait"])?, ticks(&["steal"])?);
    let busy = ticks(&["user", "nice", "system", "irq", "softirq"])?;
    let (user_ns, system_ns) = (ns("time.user_time")?, ns("time.system_time")?);
    // Clocks of tasks may run past the wall's by a little: nothing is left then.
    let parts = match user_ns + system_ns <= budget_ns {
        true => vec![user_ns, system_ns],
        false => split(budget_ns, &[user_ns, system_ns]),
    };
    let work_ns = parts[0] + parts[1];
    let tick_ns = budget_ns / (idle + stolen + busy).max(1);
    let others_ns = (busy * tick_ns).saturating_sub(work_ns);
    let weights = [idle * tick_ns, stolen * tick_ns, others_ns];
    let rest = budget_ns - work_ns;
    let divided = match weights.iter().sum::<u64>() {
        // What no tick has seen was too short for one.
        0 => vec![0, 0, rest],
        _ => split(rest, &weights),
    };
    let operations = metrics.get("operations").map_or(1, |n| *n as u64);
    Some(Times {
        unit: Unit { operations, budget_ns, block: Some(run.block) },
        user_ns: parts[0],
        system_ns: parts[1],
        rest_ns: [divided[0], divided[1], divided[2]],
    })
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand::{RngExt, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    #[test]
    fn whatever_proc_tells_the_rows_add_up() {
        let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        let opened = store::open(&golden).unwrap();
        let point = Point { cpus: 2, ..opened.record.points[0].clone() };
        let mut run = opened.runs.iter().find(|run| run.finished()).unwrap().clone();
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        for _ in 0..1000 {
            let Outcome::Finished { metrics, counters, .. } = &mut run.outcome else { panic!() };
            for name in [records::WALL, "time.user_time", "time.system_time"] {
                metrics.insert(name.to_string(), random.random_range(0.001..2.0));
            }
            for name in ["user", "nice", "system", "irq", "softirq", "idle", "iowait", "steal"] {
                let ticks = random.random_range(-1..100);
                counters.insert(format!("stat.cpus.{name}_ticks"), ticks);
            }
            let ledger = coarse(&[&run], &point).unwrap();
            assert_eq!(ledger.broken(), None);
        }
        if let Outcome::Finished { counters, .. } = &mut run.outcome {
            counters.clear();
        }
        assert_eq!(coarse(&[&run], &point), None);
    }
}
