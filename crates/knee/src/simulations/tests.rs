//! Every listed lock on described hosts: none breaks its promise, and those that are known to
//! be flat or to collapse do.

use algorithms::locks::LOCKS;

use super::*;
use crate::hosts;

const LOAD: Load = Load { work_ns: 500, hold_ns: 100, reads: 90 };

fn place(host: &Described) -> Place<'_> {
    Place {
        host,
        placement: Placement::Cores,
        preemption: Preemption::BetweenOperations,
        seed: 1,
        draws: 0,
        length: 500_000 * NS,
    }
}

#[test]
fn every_lock_keeps_its_promise_with_one_task_a_cpu_with_more_and_on_virtual_cpus() {
    let host = hosts::find("opteron-32").unwrap();
    for lock in LOCKS {
        for (cpus, tasks, preemption) in [
            (1, 1, Preemption::BetweenOperations),
            (32, 32, Preemption::BetweenOperations),
            (8, 24, Preemption::BetweenOperations),
            (4, 8, Preemption::Anywhere),
        ] {
            let length = if tasks > cpus { 100_000_000 * NS } else { 500_000 * NS };
            let place = Place { preemption, length, ..place(&host) };
            let point = point(lock.name, LOAD, &place, cpus, tasks).unwrap();
            assert!(point.middle.rate() > 0.0, "{} with {tasks} tasks on {cpus} CPUs", lock.name);
            let runs = ROWS.iter().zip(point.middle.rows).filter(|(row, _)| row.runs());
            let time: Time = runs.map(|(_, time)| time).sum();
            assert_eq!(time + point.middle.idle, cpus as Time * length, "{}", lock.name);
        }
    }
}

#[test]
fn mcs_is_flat_where_ticket_collapses() {
    let host = hosts::find("westmere-ex-8s").unwrap();
    let rates = |name: &str| -> Vec<f64> {
        let at =
            |&cpus: &usize| point(name, LOAD, &place(&host), cpus, cpus).unwrap().middle.rate();
        [16, 24, 32, 48, 64, 80].iter().map(at).collect()
    };
    let mcs = rates("mcs");
    for rate in &mcs {
        assert!((rate / mcs[0] - 1.0).abs() < 0.1, "{mcs:?}");
    }
    let ticket = rates("ticket");
    assert!(ticket[5] < ticket[0] / 3.0, "{ticket:?}");
}

#[test]
fn the_same_seed_gives_the_same_hash_on_every_computer() {
    let host = hosts::find("icelake-2s").unwrap();
    let hash =
        |name| format!("{:016x}", point(name, LOAD, &place(&host), 8, 8).unwrap().middle.hash);
    expect_test::expect![[r#"
        6944ce7f24b72852
        be8f07293d2e092b
        42e0c11c431bf024
        2a53345e4c6f807d"#]]
    .assert_eq(&["ticket", "mcs", "queued", "parking"].map(hash).join("\n"));
}
