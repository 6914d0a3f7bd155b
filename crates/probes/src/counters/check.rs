//! How a source is tested: recorded texts of its files before and after, and the expected
//! counters.

use std::fmt::Write;

use expect_test::Expect;
use records::find_counter;

use super::{CounterSource, Snapshot};
use crate::tree;

/// Compares two snapshots of one source. A file is its path, its text before and after.
pub(super) fn check(
    source: &'static CounterSource,
    cpus: &[u32],
    files: &[(&str, &str, &str)],
    expected: Expect,
) {
    let before: Vec<_> = files.iter().map(|&(path, before, _)| (path, before)).collect();
    let after: Vec<_> = files.iter().map(|&(path, _, after)| (path, after)).collect();
    let [before, after] = [tree::fake(&before), tree::fake(&after)]
        .map(|root| Snapshot::take([source].into_iter(), root.path(), cpus));
    let counters = after.since(&before);

    let mut text = String::new();
    for (name, delta) in &counters.deltas {
        assert!(find_counter(name).is_some(), "{name} is not in records::COUNTERS");
        writeln!(text, "{name} {delta}").unwrap();
    }
    for (name, value) in &counters.gauges {
        assert!(find_counter(name).is_some(), "{name} is not in records::COUNTERS");
        writeln!(text, "{name} = {value}").unwrap();
    }
    for (name, why) in &counters.unavailable {
        writeln!(text, "unavailable {name}: {why}").unwrap();
    }
    expected.assert_eq(&text);
}
