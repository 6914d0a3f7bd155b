//! The simulated machine: its laws, on algorithms of a few lines.

use std::cell::Cell;

use engines::simulated::{
    Costs, Cpu, Host, NS, Options, Outcome, Preemption, ROWS, Row, Setup, Simulated, Time, Traced,
    Transfer, simulate,
};
use machine::{Array, Atom, Line, Machine, Note, Ordering, Region, Sleepers, Until, image};

image! {
    /// What the tests use.
    struct Words {
        turn: Line<Atom<u32>>,
        other: Line<Atom<u32>>,
        pair: [Atom<u32>; 2],
    }
}

const TRANSFER: Time = 40 * NS;

/// Nodes of CPUs; a line takes 40 ns within a node and twice that to another one, and is busy
/// for half of it.
fn host(nodes: usize, cpus: usize) -> Host {
    let place = |cpu: usize| Cpu { core: cpu as u16, node: (cpu / cpus) as u16 };
    let distance = |a, b| if a == b { 1 } else { 2 };
    let transfer = |time| Transfer {
        load_modified: time,
        load_shared: time,
        load_memory: 2 * time,
        store_modified: time,
        store_shared: time,
        atomic_modified: time,
        atomic_shared: time,
    };
    Host {
        cpus: (0..nodes * cpus).map(place).collect(),
        distances: (0..nodes).map(|a| (0..nodes).map(|b| distance(a, b)).collect()).collect(),
        transfers: vec![transfer(2 * NS), transfer(TRANSFER), transfer(2 * TRANSFER)],
        costs: Costs {
            load: NS,
            store: NS,
            atomic: 9 * NS,
            busy_per_mille: 500,
            busy_shared: TRANSFER / 2,
            hold: 0,
            pause: 5 * NS,
            both_threads_per_mille: 1500,
            park: 1000 * NS,
            wake: 500 * NS,
            wake_each: 200 * NS,
            wake_latency: 2000 * NS,
            switch: 1500 * NS,
            slice: 100_000 * NS,
        },
    }
}

const OPTIONS: Options = Options {
    seed: 1,
    warm_up: 10_000 * NS,
    length: 1_000_000 * NS,
    preemption: Preemption::BetweenOperations,
    trace: None,
};

/// Runs the same task on so many CPUs of a host.
fn run(
    host: &Host,
    tasks: usize,
    options: &Options,
    task: impl Fn(&Simulated, &Words, usize),
) -> Result<Outcome, String> {
    let region = Region::new(4096).unwrap();
    let words: Array<Words> = region.array("words", 1);
    let places: Vec<usize> = (0..host.cpus.len()).collect();
    let task = |m: &Simulated, i: usize| task(m, &words[0], i);
    let setup = Setup {
        region: &region,
        host,
        tasks,
        places: &places,
        task: &task,
        exclusive: true,
        fifo: true,
    };
    simulate(&setup, options).map_err(|why| why.to_string())
}

fn add_forever(m: &Simulated, words: &Words) {
    loop {
        words.turn.fetch_add(m, 1, Ordering::Relaxed);
        m.operation_done();
    }
}

#[track_caller]
fn within(measured: f64, expected: f64, share: f64) {
    assert!(
        (measured / expected - 1.0).abs() < share,
        "{measured} is not {expected} within {share}"
    );
}

#[test]
fn one_line_serves_one_change_at_a_time() {
    // Time per change and CPU grows by 18.05 ns a CPU, as measured by rouming/ccont on one node
    // of 4 CPUs; alone it takes 8.9 ns.
    let mut found = host(1, 4);
    found.costs.atomic = 8900;
    found.transfers[1].atomic_modified = 36_100;
    for (cpus, expected) in [(1, 8.9), (2, 36.1), (3, 54.2), (4, 72.2)] {
        let outcome = run(&found, cpus, &OPTIONS, |m, words, _| add_forever(m, words)).unwrap();
        within(1e9 / (outcome.rate() / cpus as f64), expected, 0.05);
    }
}

#[test]
fn two_that_answer_each_other_take_a_transfer_each_way() {
    for (nodes, transfers) in [(1, 1), (2, 2)] {
        let host = host(nodes, 2 / nodes);
        let answer = |m: &Simulated, words: &Words, i: usize| {
            let (mine, theirs) = (&words.turn, &words.other);
            let (mine, theirs) = if i == 0 { (mine, theirs) } else { (theirs, mine) };
            for round in 1.. {
                match i {
                    0 => mine.store(m, round, Ordering::Release),
                    _ => (),
                }
                m.await_until(theirs, Until::equals(round), Ordering::Acquire);
                match i {
                    0 => (),
                    _ => mine.store(m, round, Ordering::Release),
                }
                m.operation_done();
            }
        };
        let outcome = run(&host, 2, &OPTIONS, answer).unwrap();
        let round = 1e9 / (outcome.rate() / 2.0);
        // Each way: the store takes the line from who reads it, who then reads it again.
        within(round, (4 * transfers * TRANSFER / NS) as f64, 0.05);
    }
}

#[test]
fn the_time_of_all_tasks_adds_up_and_so_does_that_of_all_cpus() {
    for (tasks, preemption) in [
        (3, Preemption::BetweenOperations),
        (9, Preemption::BetweenOperations),
        (9, Preemption::Anywhere),
    ] {
        let host = host(2, 2);
        let options = Options { preemption, ..OPTIONS };
        let outcome = run(&host, tasks, &options, |m, words, i| {
            loop {
                words.turn.fetch_add(m, 1, Ordering::Relaxed);
                m.work(300);
                if i == 0 {
                    m.wake(&words.other, Sleepers::All);
                } else if m.chance(50) {
                    m.park(&words.other, 0);
                }
                m.operation_done();
            }
        })
        .unwrap();
        let time = |rows: &dyn Fn(Row) -> bool| -> Time {
            ROWS.iter().zip(outcome.rows).filter(|(row, _)| rows(**row)).map(|(_, time)| time).sum()
        };
        assert_eq!(time(&|_| true), tasks as u64 * OPTIONS.length);
        assert_eq!(time(&Row::runs) + outcome.idle, tasks.min(4) as u64 * OPTIONS.length);
        assert!(outcome.operations.iter().all(|&operations| operations > 0), "{outcome:?}");
    }
}

#[test]
fn the_same_seed_gives_the_same_run_and_another_one_another() {
    let host = host(2, 4);
    let with = |seed| {
        let options = Options { seed, ..OPTIONS };
        let wait = |m: &Simulated, words: &Words, i: usize| {
            for round in 0.. {
                if m.random(8) == i as u32 {
                    words.turn.fetch_add(m, 1, Ordering::Relaxed);
                }
                let _ = m.await_for(&words.turn, Until::any(1), Ordering::Relaxed, round % 20);
                m.operation_done();
            }
        };
        run(&host, 8, &options, wait).unwrap().hash
    };
    assert_eq!(with(1), with(1));
    assert_ne!(with(1), with(2));
    // On every computer.
    assert_eq!(format!("{:016x}", with(1)), "c45b02b7fc87c299");
}

#[test]
fn who_waits_for_ever_is_named() {
    let host = host(1, 2);
    let why = run(&host, 2, &OPTIONS, |m, words, i| match i {
        0 => drop(m.await_until(&words.pair[1], Until::differs(0), Ordering::Acquire)),
        _ => m.park(&words.other, 0),
    });
    assert_eq!(
        why.unwrap_err(),
        "nobody can go on: t0 waits at words.pair[1]; t1 sleeps on words.other"
    );
}

#[test]
fn broken_promises_are_found_while_time_passes() {
    let host = host(1, 2);
    let why = run(&host, 2, &OPTIONS, |m, words, _| {
        m.note(Note::Arrive);
        words.turn.fetch_add(m, 1, Ordering::Relaxed);
        m.note(Note::Enter);
        words.turn.fetch_add(m, 1, Ordering::Relaxed);
        m.note(Note::Leave);
    });
    assert_eq!(why.unwrap_err(), "t1 enters while t0 is inside alone");
    let why = run(&host, 2, &OPTIONS, |m, words, i| {
        m.note(Note::Arrive);
        if i == 0 {
            m.await_until(&words.turn, Until::equals(1), Ordering::Acquire);
        }
        m.note(Note::Enter);
        m.note(Note::Leave);
        words.turn.fetch_add(m, 1, Ordering::Relaxed);
    });
    assert_eq!(why.unwrap_err(), "t1 enters before t0, which arrived first");
}

#[test]
fn a_holder_that_loses_its_cpu_keeps_all_waiting_only_where_it_may() {
    // Two tasks on one CPU, and a third that wants what the first holds for long.
    let times = [Preemption::BetweenOperations, Preemption::Anywhere].map(|preemption| {
        let mut host = host(1, 2);
        host.costs.slice = 20_000 * NS;
        let waited = Cell::new(0);
        let options = Options { preemption, ..OPTIONS };
        let outcome = run(&host, 3, &options, |m, words, i| match i {
            0 => {
                words.turn.store(m, 1, Ordering::Relaxed);
                m.work(30_000);
                words.turn.store(m, 2, Ordering::Release);
                m.operation_done();
            }
            1 => {
                m.await_until(&words.turn, Until::equals(2), Ordering::Acquire);
                waited.set(waited.get() + 1);
                m.operation_done();
            }
            _ => m.work(500_000),
        });
        assert_eq!(waited.get(), 1);
        outcome.unwrap().rows[Row::Spinning as usize]
    });
    // Up to 10 us nothing is booked. 30 us of work, and 20 us more for the other's slice.
    assert!((19_000 * NS..22_000 * NS).contains(&times[0]), "{times:?}");
    assert!((39_000 * NS..45_000 * NS).contains(&times[1]), "{times:?}");
}

#[test]
fn a_trace_reads_as_what_happened() {
    let host = host(1, 2);
    let trace = Some(Traced { from: 0, accesses: 10 });
    let options = Options { warm_up: 0, trace, ..OPTIONS };
    let hand_over = |m: &Simulated, words: &Words, i: usize| match i {
        0 => {
            m.work(200);
            words.turn.store(m, 7, Ordering::Release);
        }
        _ => drop(m.await_until(&words.turn, Until::equals(7), Ordering::Acquire)),
    };
    let outcome = run(&host, 2, &options, hand_over).unwrap();
    assert_eq!(
        outcome.trace,
        [
            "      0.0 ns  t1     80.0 ns  reads words.turn: 0",
            "    200.0 ns  t0     40.0 ns  writes words.turn: 0 -> 7",
            "    240.0 ns  t1     40.0 ns  reads words.turn: 7",
        ]
    );
}

#[test]
fn hosts_that_contradict_themselves_are_refused() {
    let check = |change: fn(&mut Host), words: &str| {
        let mut host = host(2, 2);
        change(&mut host);
        let why = run(&host, 2, &OPTIONS, |_, _, _| ()).unwrap_err();
        assert_eq!(why, words);
    };
    check(|host| host.cpus.clear(), "0 CPUs: 1 to 256 can be simulated");
    check(|host| host.cpus[3].node = 2, "a CPU is on node 2, of 2");
    check(|host| host.distances[1].truncate(1), "node 1 has 1 distances, of 2");
    check(|host| host.distances[0][1] = 3, "nodes 0 and 1 have no costs of distance 3");
    check(|host| host.distances[0][0] = 2, "the distance of nodes 0 and 0 contradicts itself");
    check(
        |host| host.costs.busy_per_mille = 1001,
        "a transfer keeps its line busy for 1001 of 1000 of its time",
    );
}
