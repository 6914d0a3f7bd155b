//! How long work takes on the CPUs of a run: measured before it, to do as much as was asked for, and after
//! it, to say how long that took.

use std::collections::BTreeMap;

use host::clock::now_ns;
use host::pinned::together;
use workloads::{Load, Pace};

/// Measures all of these CPUs simultaneously, since a CPU is slower while others are busy.
pub fn measure(cpus: &[u32]) -> Pace {
    // A task that cannot be pinned fails the run soon, and says why.
    let paces = together(cpus, |_, _| Pace::measure(now_ns)).unwrap_or_default();
    Pace::mean(&paces)
}

/// How long the work of each parameter that asks for some took, in ns, by the name of its metric.
pub fn work_took(load: &Load, cpus: &[u32]) -> BTreeMap<String, f64> {
    let work = load.values.work();
    if work.is_empty() {
        return BTreeMap::new();
    }
    let after = measure(cpus);
    let took = |(name, ns)| (format!("work.{name}"), after.ns(load.pace.turns(ns)));
    work.into_iter().map(took).collect()
}
