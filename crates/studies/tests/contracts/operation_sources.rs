//! Operations whose source is at hand.

use engines::simulated::NS;
use records::operations::{RecordedOperation, RecordedOperations};
use studies::operation_sources::{point, source};
use studies::simulations::Conditions;

#[test]
fn workloads_of_locks_and_mechanisms_have_a_source() {
    let check = |operation: &str, expected: Option<&str>| {
        let name = source(operation).map(|subject| subject.name());
        assert_eq!(name.as_deref(), expected, "{operation}");
    };
    check("lock_mcs", Some("mcs"));
    check("mechanism_counter", Some("counter:compare"));
    check("lock_of_mine", None);
    check("lock_mcs hold_ns=200", None);
    check("open_close_own", None);
}

#[test]
fn one_cpu_executes_instructions_beside_atomic_ones_and_two_wait_for_lines_first() {
    let ns_of = |instructions: u32, cpus: usize| {
        let host = described_hosts::find("icelake-2s").unwrap();
        let host = host.with_value("costs.instruction", 1000.0);
        let operation = RecordedOperation { then: instructions, ..RecordedOperation::default() };
        let recorded =
            RecordedOperations { tasks: vec![vec![operation]], ..RecordedOperations::default() };
        let conditions = Conditions::new(&host, 1, 400_000 * NS);
        let lock = source("lock_test_and_set").unwrap();
        let rate = point(&lock, &recorded, &conditions, cpus).unwrap().middle.rate();
        cpus as f64 * 1e9 / rate
    };
    let atomic = ns_of(0, 1);
    let check = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() <= 1.0, "{what}: {found} ns, expected {expected}");
    };
    check(ns_of(40, 1), atomic.hypot(40.0), "beside");
    check(ns_of(4, 1), atomic.hypot(4.0), "hidden");
    let more = ns_of(400, 2) - ns_of(200, 2);
    assert!(more >= 300.0, "two CPUs that hold the lock 200 ns longer take {more} ns longer");
}
