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
fn one_cpu_executes_instructions_beside_atomic_ones_and_two_inside_the_lock_too() {
    let ns_of = |operation: &str, instructions: u32, cpus: usize| {
        let source = source(operation).unwrap();
        let host = described_hosts::find("icelake-2s").unwrap();
        let host = host.with_value("costs.instruction", 1000.0);
        let operation = RecordedOperation { then: instructions, ..RecordedOperation::default() };
        let recorded =
            RecordedOperations { tasks: vec![vec![operation]], ..RecordedOperations::default() };
        let conditions = Conditions::new(&host, 1, 400_000 * NS);
        let rate = point(&source, &recorded, &conditions, cpus).unwrap().middle.rate();
        cpus as f64 * 1e9 / rate
    };
    let one = |instructions: u32| ns_of("lock_test_and_set", instructions, 1);
    let check = |found: f64, expected: f64, what: &str| {
        assert!((found - expected).abs() <= 1.0, "{what}: {found} ns, expected {expected}");
    };
    check(one(40), one(0).hypot(40.0), "beside");
    check(one(4), one(0).hypot(4.0), "hidden");
    // Its store, behind which they are executed, gives the lock back.
    let more = |operation: &str| ns_of(operation, 400, 2) - ns_of(operation, 200, 2);
    check(more("lock_test_and_set"), 200.0, "outside");
    let inside = more("mechanism_file_locks");
    assert!(inside >= 250.0, "two CPUs that execute 200 instructions more take {inside} ns longer");
}
