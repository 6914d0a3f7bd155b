//! Causes of known differences; and by simulation, how often equal loads have a cause, and how often
//! a planted cause is named first.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use records::Obtained;

use super::super::{Ledger, LedgerRow, LedgerUnit, RowEvents, difference, split};
use super::*;

/// A ledger of five units of 1000 operations. Rows have a name, ns per operation, and events per
/// operation.
fn ledger(rows: &[(&str, f64, Option<f64>)], noise: f64, seed: u64) -> Ledger {
    const OPERATIONS: u64 = 1000;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut uniform = || random.random::<f64>() - 0.5;
    let rows: Vec<LedgerRow> = rows
        .iter()
        .map(|(name, ns, times)| {
            let noisy = |_| ((ns * (1.0 + noise * uniform())) * OPERATIONS as f64) as u64;
            let row = LedgerRow::new(*name, Obtained::Exact, (0..5).map(noisy).collect());
            match times {
                Some(times) => row.with_events(RowEvents {
                    what: "spin".to_string(),
                    counts: vec![(times * OPERATIONS as f64) as u64; 5],
                    operations: vec![OPERATIONS; 5],
                }),
                None => row,
            }
        })
        .map(|row| if row.name == "other tasks" { row.belonging_to_time() } else { row })
        .collect();
    let root = LedgerRow::from_parts("all", Obtained::Exact, rows);
    let ledger = Ledger::of_runs(units(&root.ns, OPERATIONS), root);
    assert_eq!(ledger.broken(), None);
    ledger
}

/// Runs of as many operations, in one block each.
fn units(budgets: &[u64], operations: u64) -> Vec<LedgerUnit> {
    let unit =
        |(block, ns): (u32, &u64)| LedgerUnit { operations, budget_ns: *ns, block: Some(block) };
    (0..).zip(budgets).map(unit).collect()
}

#[test]
fn many_processes_are_one_cause_and_not_their_page_faults() {
    let rows = |processes: f64| {
        [
            ("user code", 1000.0, None),
            ("page faults", 25.0 * processes, Some(100.0 * processes)),
            ("system call vfork", 4.0 * processes, Some(processes)),
            ("system call execve", 12.0 * processes, Some(processes)),
            ("system call exit_group", 5.0 * processes, Some(processes)),
        ]
    };
    let difference = difference(&ledger(&rows(1.0), 0.01, 1), &ledger(&rows(60.0), 0.01, 2));
    let causes = causes(&difference);
    let names: Vec<&str> = causes.iter().map(|cause| cause.change.name.as_str()).collect();
    assert_eq!(names, ["processes"]);
    assert!((causes[0].own_ns / (59.0 * 46.0) - 1.0).abs() < 0.02, "{}", causes[0].own_ns);

    // Where the times of all rows are too noisy to be causes, the workload as a whole may still be one.
    let whole = Cause {
        path: vec![WORK.to_string()],
        own_ns: difference.own_ns,
        change: RowChange { name: WORK.to_string(), ..difference.clone() },
        p: 0.001,
        parts: Vec::new(),
        with: Vec::new(),
    };
    let folded = folding::fold(vec![whole], &difference);
    assert_eq!(
        folded.iter().map(|cause| cause.change.name.as_str()).collect::<Vec<_>>(),
        ["processes"]
    );
}

/// Checks the names of causes of a difference, each with those of what is told with it.
fn check_told(
    before: &[(&str, f64, Option<f64>)],
    after: &[(&str, f64, Option<f64>)],
    expected: &[(&str, &[&str])],
) {
    let difference = difference(&ledger(before, 0.01, 1), &ledger(after, 0.01, 2));
    let causes = causes(&difference);
    let told: Vec<(&str, Vec<&str>)> = causes
        .iter()
        .map(|c| (c.change.name.as_str(), c.with.iter().map(|w| w.name.as_str()).collect()))
        .collect();
    let told: Vec<(&str, &[&str])> = told.iter().map(|(a, b)| (*a, b.as_slice())).collect();
    assert_eq!(told, expected);
}

const ENTRIES: &str = "system call entry and exit";

#[test]
fn calls_of_one_loop_are_one_cause() {
    // A loop with a smaller buffer reads and writes more often, and enters the kernel for both.
    check_told(
        &[
            (ENTRIES, 200.0, Some(2.0)),
            ("system call read", 500.0, Some(1.0)),
            ("system call write", 400.0, Some(1.0)),
            ("system call lseek", 400.0, Some(1.0)),
        ],
        &[
            (ENTRIES, 2300.0, Some(23.0)),
            ("system call read", 2500.0, Some(11.0)),
            ("system call write", 2600.0, Some(11.0)),
            ("system call lseek", 700.0, Some(2.0)),
        ],
        &[("system call write", &["system call read", ENTRIES]), ("system call lseek", &[])],
    );
}

#[test]
fn what_follows_from_a_cause_is_told_with_it() {
    // A new call enters the kernel once more.
    check_told(
        &[("user code", 500.0, None), (ENTRIES, 100.0, Some(1.0))],
        &[
            ("user code", 500.0, None),
            (ENTRIES, 200.0, Some(2.0)),
            ("system call stat", 800.0, Some(1.0)),
        ],
        &[("system call stat", &[ENTRIES])],
    );
    // A call so short that its own row says nothing: its count does.
    check_told(
        &[
            ("user code", 5000.0, None),
            (ENTRIES, 100.0, Some(1.0)),
            ("system call lseek", 1.0, Some(0.0)),
        ],
        &[
            ("user code", 5000.0, None),
            (ENTRIES, 200.0, Some(2.0)),
            ("system call lseek", 2.0, Some(1.0)),
        ],
        &[("system call lseek", &[ENTRIES])],
    );
    // The interpreter takes longer to make the call than the kernel takes for it.
    check_told(
        &[("user code", 5000.0, None), ("system call stat", 800.0, Some(1.0))],
        &[("user code", 6200.0, None), ("system call stat", 1600.0, Some(2.0))],
        &[("system call stat", &["user code"])],
    );
    // Much more user code than a call explains is a change of its own.
    check_told(
        &[("user code", 5000.0, None), ("system call stat", 800.0, Some(1.0))],
        &[("user code", 9000.0, None), ("system call stat", 1600.0, Some(2.0))],
        &[("user code", &[]), ("system call stat", &[])],
    );
    // Nothing counts, as in recordings: the call that likely changed makes the entries.
    check_told(
        &[
            ("system call stat", 150.0, None),
            ("system call poll", 150.0, None),
            (ENTRIES, 100.0, None),
        ],
        &[
            ("system call stat", 157.0, None),
            ("system call poll", 150.0, None),
            (ENTRIES, 200.0, None),
        ],
        &[("system call stat", &[ENTRIES])],
    );
    // Twice the entries, but only a fifth of them by this call: something else enters too.
    check_told(
        &[("system call stat", 150.0, Some(0.2)), (ENTRIES, 100.0, Some(1.0))],
        &[("system call stat", 300.0, Some(0.4)), (ENTRIES, 200.0, Some(2.0))],
        &[("system call stat", &[]), (ENTRIES, &[])],
    );
}

#[test]
fn a_doubled_row_is_count_and_a_slowed_one_is_cost_and_both_add_up() {
    let before = ledger(&[("a", 100.0, Some(1.0)), ("b", 300.0, Some(2.0))], 0.01, 1);
    let after = ledger(&[("a", 200.0, Some(2.0)), ("b", 600.0, Some(2.0))], 0.01, 2);
    let difference = difference(&before, &after);
    for row in difference.walk() {
        if let Split::CountAndCost { count_ns, cost_ns, .. } = row.split {
            assert!((count_ns + cost_ns - row.change).abs() < 1e-9);
        }
        let parts: f64 = row.rows.iter().map(|part| part.change).sum();
        assert!(row.rows.is_empty() || (parts - row.change).abs() < 1e-6);
    }
    let causes = causes(&difference);
    let named: Vec<_> =
        causes.iter().map(|c| (c.path[0].as_str(), is_mostly_count(&c.change.split))).collect();
    assert_eq!(named, [("b", Some(false)), ("a", Some(true))]);
}

#[test]
fn a_call_of_which_few_were_sampled_is_no_dearer_for_that() {
    let side = |times: f64, ns: f64, samples: u64| {
        let ledger = ledger(&[("a", 3000.0, None), ("stat", ns, Some(times))], 0.01, samples);
        let mut root = ledger.root;
        root.rows[1].samples = Some(samples);
        Ledger { root, ..ledger }
    };
    let difference = difference(&side(0.05, 1.0, 1), &side(1.05, 1400.0, 300));
    let stat = difference.walk().into_iter().find(|row| row.name == "stat").unwrap();
    assert_eq!(is_mostly_count(&stat.split), Some(true));
}

#[test]
fn a_row_that_is_new_or_gone_is_count() {
    let with = ledger(&[("a", 100.0, None), ("b", 300.0, Some(2.0))], 0.01, 1);
    let without = ledger(&[("a", 100.0, None)], 0.01, 2);
    for (before, after, sign) in [(&without, &with, 1.0), (&with, &without, -1.0)] {
        let causes = causes(&difference(before, after));
        assert_eq!(causes.len(), 1);
        assert_eq!(is_mostly_count(&causes[0].change.split), Some(true));
        assert_eq!(causes[0].own_ns.signum(), sign);
    }
}

#[test]
fn other_tasks_are_not_blamed_for_longer_operations() {
    // A third of the time before and after: what is added is the workload's alone.
    let before = ledger(&[("work", 600.0, None), ("other tasks", 300.0, None)], 0.002, 1);
    let after = ledger(&[("work", 1600.0, None), ("other tasks", 800.0, None)], 0.002, 2);
    let causes = causes(&difference(&before, &after));
    assert_eq!(causes.len(), 1);
    assert_eq!(causes[0].path, ["work"]);
    let before = ledger(&[("work", 600.0, None), ("other tasks", 30.0, None)], 0.002, 3);
    let after = ledger(&[("work", 600.0, None), ("other tasks", 300.0, None)], 0.002, 4);
    let blamed = super::causes(&difference(&before, &after));
    assert_eq!(blamed[0].path, ["other tasks"]);
}

#[test]
fn equal_ledgers_have_no_cause() {
    let rows = [("a", 100.0, Some(1.0)), ("b", 300.0, None), ("other tasks", 50.0, None)];
    let invented = (0..1000).filter(|seed| {
        let before = ledger(&rows, 0.2, 2 * seed + 10);
        let after = ledger(&rows, 0.2, 2 * seed + 11);
        !causes(&difference(&before, &after)).is_empty()
    });
    assert!(invented.count() <= 20, "at most 1 %, with some tolerance");
}

/// A simulated load on a host: looks of 0.4 s on a CPU, sampled at 199 Hz. Other tasks use the CPU
/// more in some blocks than in others.
#[derive(Clone)]
struct Load {
    /// Length of an operation.
    operation_ns: f64,
    /// The workload's calls: name, share of the samples, calls per operation, number of functions.
    calls: Vec<(&'static str, f64, f64, usize)>,
    /// Share of the workload's time that it spins for one lock.
    spinning: f64,
    /// How much units of one block vary, as a share; blocks vary three times as much.
    noise: f64,
}

const BLOCKS: usize = 5;

impl Load {
    /// A load with a hundred functions.
    fn wide(noise: f64) -> Load {
        let calls = vec![
            ("user code", 0.2, 0.0, 20),
            ("system call fcntl", 0.4, 2.0, 40),
            ("system call fstat", 0.1, 1.0, 20),
            ("page faults", 0.3, 1.0, 20),
        ];
        Load { operation_ns: 1000.0, calls, spinning: 0.1, noise }
    }

    /// This load with one call made `times` as often and taking `longer` times the time.
    fn with(mut self, call: usize, times: f64, longer: f64) -> Load {
        let sampled = 1.0 - self.spinning;
        let more_ns = self.operation_ns * sampled * self.calls[call].1 * (longer - 1.0);
        let spin_ns = self.operation_ns * self.spinning;
        let grown = sampled * self.operation_ns + more_ns;
        self.calls[call].1 *= longer;
        self.calls[call].2 *= times;
        let sum: f64 = self.calls.iter().map(|call| call.1).sum();
        self.calls.iter_mut().for_each(|call| call.1 /= sum);
        self.operation_ns += more_ns;
        self.spinning = spin_ns / (spin_ns + grown);
        self
    }

    /// The ledger of a run of this load; `blocks` is how much the host slows each block.
    fn ledger(&self, blocks: &[f64; BLOCKS], random: &mut Xoshiro256PlusPlus) -> Ledger {
        const BUDGET_NS: u64 = 400_000_000;
        const SAMPLE_NS: f64 = 1e9 / 199.0;
        // Now and then a unit is far off, as on a real host.
        let noisy = |random: &mut Xoshiro256PlusPlus| {
            let normal = (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
            let far = if random.random_range(0..10) == 0 { 3.0 } else { 1.0 };
            (self.noise * far * normal).exp()
        };
        let mut units = Vec::new();
        let (mut work, mut spun, mut others) = (Vec::new(), Vec::new(), Vec::new());
        let functions: usize = self.calls.iter().map(|call| call.3).sum();
        let mut sampled: Vec<Vec<u64>> = vec![Vec::new(); functions];
        for (block, slower) in blocks.iter().enumerate() {
            let share = (0.2 * slower * noisy(random)).min(0.8);
            let work_ns = ((1.0 - share) * BUDGET_NS as f64) as u64;
            let operation_ns = self.operation_ns * slower * noisy(random);
            let spin_ns = (self.spinning * work_ns as f64 * noisy(random).min(2.0)) as u64;
            let mut counts = vec![0_u64; functions];
            // Shares vary by more than the number of samples explains.
            let shares: Vec<f64> = self.calls.iter().map(|call| call.1 * noisy(random)).collect();
            for _ in 0..(work_ns as f64 / SAMPLE_NS) as usize {
                counts[self.function(&shares, random)] += 1;
            }
            sampled.iter_mut().zip(&counts).for_each(|(function, count)| function.push(*count));
            let operations = (work_ns as f64 / operation_ns) as u64;
            units.push(LedgerUnit { operations, budget_ns: BUDGET_NS, block: Some(block as u32) });
            work.push(work_ns);
            spun.push(spin_ns);
            others.push(BUDGET_NS - work_ns);
        }
        let rest: Vec<u64> = work.iter().zip(&spun).map(|(work, spin)| work - spin).collect();
        let operations: Vec<u64> = units.iter().map(|unit| unit.operations).collect();
        let mut rows = self.sampled(&sampled, &rest, &operations);
        rows.push(LedgerRow::new("spinning for locks", Obtained::Exact, spun));
        let work = LedgerRow::from_parts(WORK, Obtained::Exact, rows);
        let names = (0..8).map(|task| format!("task {task}"));
        let parts = names.map(|name| LedgerRow::new(name, Obtained::Exact, others.clone()));
        let parts =
            parts.map(|row| LedgerRow { ns: row.ns.iter().map(|ns| ns / 8).collect(), ..row });
        let mut parts: Vec<LedgerRow> = parts.collect();
        parts[0].ns.iter_mut().zip(&others).for_each(|(ns, all)| *ns += all - 8 * (all / 8));
        let others = LedgerRow::from_parts(OTHERS, Obtained::Exact, parts).belonging_to_time();
        let root = LedgerRow::from_parts("all", Obtained::Exact, vec![work, others]);
        let ledger = Ledger::of_runs(units, root);
        assert_eq!(ledger.broken(), None);
        ledger
    }

    /// The function in which a sample falls: each function of a call is rarer than the one before.
    fn function(&self, shares: &[f64], random: &mut Xoshiro256PlusPlus) -> usize {
        let mut position: f64 = random.random::<f64>() * shares.iter().sum::<f64>();
        let mut first = 0;
        for (share, (_, _, _, functions)) in shares.iter().zip(&self.calls) {
            if position < *share {
                let within = (position / share).powi(2) * *functions as f64;
                return first + (within as usize).min(functions - 1);
            }
            position -= share;
            first += functions;
        }
        first - 1
    }

    fn sampled(&self, sampled: &[Vec<u64>], rest: &[u64], operations: &[u64]) -> Vec<LedgerRow> {
        let mut ns: Vec<Vec<u64>> = vec![Vec::new(); sampled.len()];
        for (unit, whole) in rest.iter().enumerate() {
            let weights: Vec<u64> = sampled.iter().map(|counts| counts[unit]).collect();
            let parts = split(*whole, &weights);
            ns.iter_mut().zip(parts).for_each(|(function, ns)| function.push(ns));
        }
        let mut functions = ns.into_iter().zip(sampled).enumerate().map(|(index, (ns, counts))| {
            let row = LedgerRow::new(format!("function {index}"), Obtained::Sampled, ns);
            LedgerRow { samples: Some(counts.iter().sum()), ..row }
        });
        let call = |(name, _, times, count): &(&str, f64, f64, usize)| {
            let rows: Vec<LedgerRow> = functions.by_ref().take(*count).collect();
            let samples = rows.iter().filter_map(|row| row.samples).sum();
            let row = LedgerRow {
                samples: Some(samples),
                ..LedgerRow::from_parts(*name, Obtained::Sampled, rows)
            };
            let calls = |n: &u64| (*n as f64 * times).round() as u64;
            let counts = operations.iter().map(calls).collect();
            let operations = operations.to_vec();
            let events = RowEvents { what: "call".to_string(), counts, operations };
            if *times > 0.0 { row.with_events(events) } else { row }
        };
        self.calls.iter().map(call).collect()
    }
}

/// The causes of a difference of two loads on one host, by seed.
fn simulated(before: &Load, after: &Load, seed: u64) -> Vec<Cause> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let normal = |random: &mut Xoshiro256PlusPlus| {
        (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0
    };
    let blocks = [0; BLOCKS].map(|_| (3.0 * before.noise * normal(&mut random)).exp());
    let before = before.ledger(&blocks, &mut random);
    let after = after.ledger(&blocks, &mut random);
    causes(&difference(&before, &after))
}

/// Seeds of simulations: 100 show a rate that is far off; the 400 of `make fuzz` measure it.
fn seeds() -> Range<u64> {
    let seeds = std::env::var("KNEE_SIMULATIONS").ok().and_then(|number| number.parse().ok());
    0..seeds.unwrap_or(100)
}

#[test]
fn equal_loads_with_a_hundred_functions_have_no_cause() {
    for noise in [0.01, 0.05, 0.15] {
        let load = Load::wide(noise);
        let invented = seeds().filter(|seed| !simulated(&load, &load, *seed).is_empty()).count();
        assert!(
            invented <= 2 + seeds().count() / 50,
            "at most 1 %, with some tolerance: {invented} with noise of {noise}"
        );
    }
}

#[test]
fn what_was_planted_is_named_first() {
    let check = |name: &str, how, call, times, longer, noise| {
        let before = Load::wide(noise);
        let after = before.clone().with(call, times, longer);
        let is_right = |seed: &u64| {
            let causes = simulated(&before, &after, *seed);
            let is_planted = |cause: &Cause| {
                cause.path[..] == [WORK, name] && is_mostly_count(&cause.change.split) == how
            };
            causes.first().is_some_and(is_planted)
        };
        let (right, all) = (seeds().filter(is_right).count(), seeds().count());
        assert!(
            right as f64 >= 0.95 * all as f64,
            "{name}: right in {right} of {all} with noise of {noise}"
        );
    };
    check("system call fcntl", Some(true), 1, 2.0, 2.0, 0.02);
    check("system call fcntl", Some(false), 1, 1.0, 2.0, 0.02);
    check("page faults", Some(false), 3, 1.0, 3.0, 0.05);
}

/// A call more in each operation counts, however long the operation sleeps.
#[test]
fn a_change_of_the_workload_does_not_drown_in_idle_time() {
    let side = |call_ns: f64| {
        let value = |ns: f64| vec![(ns * 1000.0) as u64; 5].into_iter().enumerate();
        let noisy = |ns: f64, noise: u64| value(ns).map(|(i, ns)| ns + i as u64 * noise).collect();
        let call = LedgerRow::new("system call stat", Obtained::Exact, noisy(call_ns, 300));
        let user = LedgerRow::new("user code", Obtained::Exact, noisy(8_000.0, 3000));
        let work = LedgerRow::from_parts(WORK, Obtained::Exact, vec![call, user]);
        let idle = LedgerRow::new("sleep", Obtained::Exact, noisy(1_000_000.0, 500_000));
        let idle = LedgerRow::from_parts(IDLE, Obtained::Exact, vec![idle]);
        let root = LedgerRow::from_parts("all", Obtained::Exact, vec![work, idle]);
        Ledger::of_runs(units(&root.ns, 1000), root)
    };
    let check = |after_ns: f64, expected: &[&str]| {
        let causes = causes(&difference(&side(700.0), &side(after_ns)));
        let named: Vec<&str> = causes.iter().map(|cause| cause.change.name.as_str()).collect();
        assert_eq!(named, expected);
    };
    check(3_000.0, &["system call stat"]);
    check(700.0, &[]);
}
