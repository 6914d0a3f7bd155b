//! The rate that no number of CPUs passes: a line goes from CPU to CPU one transfer after the other, so operations that
//! each need it k times are at least k transfers apart.
//!
//! That holds of one line. Of rows with a line for each object, different CPUs may hold different ones.

use answers::{Ceiling, ConflictLine};
use described_hosts::DescribedHost;

/// Lines that an operation needs less often do not decide.
const LEAST: f64 = 0.05;

/// The lowest ceiling that a single line sets on a host; `None` if no line is needed by all.
pub fn ceiling(lines: &[ConflictLine], host: &DescribedHost) -> Option<Ceiling> {
    let single = lines.iter().filter(|line| line.lines == 1 && line.transfers[0] >= LEAST);
    let worst = single.max_by(|a, b| a.transfers[0].total_cmp(&b.transfers[0]))?;
    let transfer_ns = transfer_ns(host)?;
    let [fewest, most] = worst.transfers;
    Some(Ceiling {
        host: host.name.clone(),
        member: worst.member.clone(),
        transfers: worst.transfers,
        transfer_ns,
        operations_per_s: [1e9 / (most * transfer_ns[1]), 1e9 / (fewest * transfer_ns[0])],
    })
}

/// How long an atomic instruction on a line takes that another core has modified: from the mean over all pairs of nodes,
/// each at its lowest, to the farthest at its highest, in ns.
fn transfer_ns(host: &DescribedHost) -> Option<[f64; 2]> {
    let number =
        |distance: &str| host.numbers().get(&format!("transfer.{distance}.atomic_modified"));
    let own = number("node")?;
    let hops = ["hop1", "hop2", "hop3"].map(number);
    let hops: Vec<_> = hops.into_iter().flatten().collect();
    let low: f64 = hops.iter().map(|number| number.low).chain([own.low]).sum();
    let low = low / (hops.len() + 1) as f64;
    let high = hops.iter().map(|number| number.high).fold(own.high, f64::max);
    // From picoseconds.
    Some([low / 1000.0, high / 1000.0])
}
