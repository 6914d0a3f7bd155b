//! Operations whose source is at hand.

use studies::operation_sources::source;

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
