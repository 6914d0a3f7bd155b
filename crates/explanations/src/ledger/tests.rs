//! Differences of ledgers made by hand, as people get them.

use expect_test::expect;
use ledger::{Explained, Ledger, LedgerRow, LedgerUnit, OTHERS, RowEvents, WORK, answer};
use records::Obtained;
use text::prose::wrapped;

use crate::ledger::*;

const OPERATIONS: u64 = 1_000_000;

/// A row of five units, a little noisy, with how often it happens.
fn row(name: &str, obtained: Obtained, ns: f64, times: Option<f64>) -> LedgerRow {
    let noise = [1.0, 1.01, 0.99, 1.005, 0.995];
    let unit = |noise: f64| (ns * noise * OPERATIONS as f64) as u64;
    let row = LedgerRow::new(name, obtained, noise.map(unit).to_vec());
    let samples = (obtained == Obtained::Sampled).then(|| row.total_ns() / 5_000_000);
    let row = LedgerRow { samples, ..row };
    match times {
        None => row,
        Some(times) => row.with_events(RowEvents {
            what: "call".to_string(),
            counts: vec![(times * OPERATIONS as f64) as u64; 5],
            operations: vec![OPERATIONS; 5],
        }),
    }
}

/// A sampled row of parts.
fn sampled(name: &str, parts: &[(&str, f64)], times: Option<f64>) -> LedgerRow {
    let part = |(name, ns): &(&str, f64)| row(name, Obtained::Sampled, *ns, None);
    let sum = LedgerRow::from_parts(name, Obtained::Sampled, parts.iter().map(part).collect());
    let samples = Some(sum.rows.iter().filter_map(|row| row.samples).sum());
    let events = row(name, Obtained::Sampled, 1.0, times).events;
    LedgerRow { samples, events, ..sum }
}

/// An operation of these rows while others have so many ns of it.
fn ledger(rows: Vec<LedgerRow>, others_ns: f64) -> Ledger {
    let work = LedgerRow::from_parts(WORK, Obtained::Exact, rows);
    let others = row(OTHERS, Obtained::Exact, others_ns, None).belonging_to_time();
    let root = LedgerRow::from_parts("all", Obtained::Exact, vec![work, others]);
    let unit = |(block, ns): (usize, &u64)| LedgerUnit {
        operations: OPERATIONS,
        budget_ns: *ns,
        block: Some(block as u32),
    };
    let ledger = Ledger::of_runs(root.ns.iter().enumerate().map(unit).collect(), root);
    assert_eq!(ledger.broken(), None);
    ledger
}

fn told(before: &Ledger, after: &Ledger, per: &str) -> String {
    let explained = |ledger: &Ledger| Explained {
        point: 0,
        ledger: Some(ledger.clone()),
        coarse: false,
        counts: Default::default(),
        waits: Default::default(),
        wall: None,
        costs: Vec::new(),
        check: Default::default(),
        unavailable_probes: Default::default(),
        failures: Default::default(),
        emulated: false,
        hot_instructions: Default::default(),
        parallel: false,
        run_lengths: None,
    };
    let answer = answer(&explained(before), &explained(after), false).expect("two ledgers");
    let first = causes::in_a_sentence(&answer, ["a", "b"], per);
    let paragraphs = [vec![first], causes::paragraphs(&answer, per, None)].concat();
    assert!(paragraphs.iter().all(|one| one.is_ascii() && !one.contains('\n')));
    paragraphs.iter().map(|one| wrapped(one, 100, 2)).collect()
}

#[test]
fn causes_are_told_with_what_they_rest_on() {
    let user = |ns| row("user code", Obtained::Sampled, ns, None);
    let fcntl = |ns| {
        let parts = [("posix_lock_inode", ns), ("fcntl_setlk", 300.0)];
        sampled("system call fcntl", &parts, Some(2.0))
    };
    let flock = sampled("system call flock", &[("flock_lock_inode", 400.0)], Some(2.0));
    let before = ledger(vec![user(50.0), fcntl(200.0)], 100.0);
    let dearer = ledger(vec![user(50.0), fcntl(2200.0)], 100.0 * 2550.0 / 550.0);
    expect![[r#"
        `b` takes 2 us more per operation than `a` (550 ns -> 2.55 us), mostly because each fcntl call takes
          5.00 times as long: 250 ns -> 1.25 us
        CPUs x time per operation: 650 ns -> 3.01 us; +364 ns of that goes to other tasks, unused CPUs, the
          host and timers, which take more of any longer operation
        1. +2 us of +2 us: system call fcntl: as often as before (2.000 -> 2.000 calls per operation), 5.00
          times the cost (250 ns -> 1.25 us each); including +2 us in posix_lock_inode (+1 us a call)
          (sampled, 498 -> 2498 samples; +1.94 us to +2.07 us at 95 %; expected by chance less than once in
          a million comparisons). To confirm: perf record -g on both, or a kernel in which that function is
          changed
    "#]].assert_eq(&told(&before, &dearer, "operation"));
    let other = ledger(vec![user(50.0), flock], 100.0 * 450.0 / 550.0);
    expect![[r#"
        `b` takes 100 ns less per run than `a` (550 ns -> 450 ns), mostly because fcntl calls are gone:
          2.000 per run, 250 ns each
        CPUs x time per run: 650 ns -> 532 ns; -18.2 ns of that goes to other tasks, unused CPUs, the host
          and timers, which take less of any shorter run
        1. -500 ns of -100 ns: system call fcntl: gone: 2.000 calls per run, 250 ns each; including -300 ns
          in fcntl_setlk, -200 ns in posix_lock_inode; replaced by system call flock (sampled, 498 -> 0
          samples; -579 ns to -432 ns at 95 %; expected by chance less than once in a million comparisons).
          To confirm: strace -c -f, or perf trace -s, on both must show the same counts
        2. +400 ns against -100 ns: system call flock: new: 2.000 calls per run, 200 ns each; including +400
          ns in flock_lock_inode; replaces system call fcntl (sampled, 0 -> 399 samples; +345 ns to +464 ns
          at 95 %; expected by chance less than once in a million comparisons). To confirm: strace -c -f, or
          perf trace -s, on both must show the same counts
    "#]].assert_eq(&told(&before, &other, "run"));
    expect![[r#"
        no cause: `a` and `b` take the same time per operation, as far as these runs tell (-1.0 % to +1.0 %
          at 95 %)
    "#]]
    .assert_eq(&told(&before, &before, "operation"));
}

#[test]
fn the_printed_rows_of_a_difference_add_up() {
    // Rows below 1 % and rows that changed less than noise are among them.
    let functions = |more: f64| -> Vec<(String, f64)> {
        let ns = |i: usize| 3.0 * i as f64 + if i % 7 == 3 { more } else { 0.0 };
        (1..60).map(|i| (format!("function_{i}"), ns(i))).collect()
    };
    let side = |more| {
        let functions = functions(more);
        let parts: Vec<(&str, f64)> = functions.iter().map(|(n, ns)| (n.as_str(), *ns)).collect();
        let calls = sampled("system call read", &parts[..30], Some(1.0));
        let faults = sampled("page faults", &parts[30..], Some(0.5));
        ledger(vec![calls, faults, row("user code", Obtained::Sampled, 17.0, None)], 500.0)
    };
    let tree =
        difference::tree(&::ledger::difference(&side(0.0), &side(40.0)), "operation", ["a", "b"]);
    assert!(added_up(&tree.root) > 20);
}

/// Checks each row against those below it, as printed: values and change. Returns how many rows there are.
#[track_caller]
fn added_up(row: &LedgerNode) -> usize {
    let printed = |row: &LedgerNode| {
        let cells = row.values.iter().chain(row.details.first());
        cells.map(|cell| cell.parse::<f64>().unwrap()).collect::<Vec<f64>>()
    };
    let rounding = 0.05 * (row.rows.len() + 1) as f64 + 1e-9;
    for (column, whole) in printed(row).into_iter().enumerate() {
        let sum: f64 = row.rows.iter().map(|part| printed(part)[column]).sum();
        let name = &row.name;
        assert!(row.rows.is_empty() || (sum - whole).abs() <= rounding, "{name}: {whole}, {sum}");
    }
    1 + row.rows.iter().map(added_up).sum::<usize>()
}

/// The rows of a tree, a line each.
fn lines(row: &LedgerNode, depth: usize) -> String {
    let cells: Vec<&String> = row.values.iter().chain(&row.details).collect();
    let cells = cells.iter().map(|cell| format!("{cell:>7}")).collect::<String>();
    let line = format!("{:<24}{cells}", format!("{}{}", "  ".repeat(depth), row.name));
    let below = row.rows.iter().map(|part| lines(part, depth + 1));
    format!("{}\n", line.trim_end()) + &below.collect::<String>()
}

#[test]
fn rows_that_grow_with_the_cpus_say_how_fast_and_why() {
    let on = |cpus: f64| {
        let rows = vec![
            row("user code", Obtained::Sampled, 50.0, None),
            row("spinning for locks", Obtained::Exact, 20.0 * cpus, Some(0.5)),
        ];
        ledger(rows, 10.0)
    };
    let ledgers = [1, 2, 4].map(|cpus| (cpus, on(f64::from(cpus))));
    let ledgers: Vec<(u32, &Ledger)> =
        ledgers.iter().map(|(cpus, ledger)| (*cpus, ledger)).collect();
    let tree = growth::tree(&ledgers, "operation");
    expect![[r#"
        all: CPUs x time           80.0  100.0  140.0  +0.40   0.01
          the workload             70.0   90.0  130.0  +0.45   0.01
            user code              50.0   50.0   50.0  +0.00   0.01
            spinning for locks     20.0   40.0   80.0  +1.00   0.01  +0.00  +1.00
          other tasks              10.0   10.0   10.0  +0.00   0.01
    "#]]
    .assert_eq(&lines(&tree.root, 0));
}
