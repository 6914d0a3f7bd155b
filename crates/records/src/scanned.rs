//! Names of what people scan: numbers of CPUs, and of what works at the same time. Three of them are a curve already; of other
//! parameters, as few are settings to compare.

/// Names of numbers of CPUs; knee's own records have these, too.
pub const CPUS: [&str; 6] = ["cpu", "cpus", "core", "cores", "ncpus", "nproc"];

/// Other names of what is scanned. The curve keeps the name.
pub const SCANNED: [&str; 17] = [
    "threads",
    "nthreads",
    "num_threads",
    "tasks",
    "procs",
    "processes",
    "clients",
    "connections",
    "users",
    "workers",
    "jobs",
    "goroutines",
    "concurrency",
    "parallelism",
    "senders",
    "readers",
    "streams",
];

/// Whether a parameter is one that people scan.
pub fn is_scanned(name: &str) -> bool {
    CPUS.contains(&name) || SCANNED.contains(&name)
}

/// The fewest numbers of a parameter that make an axis.
pub fn numbers_min(name: &str) -> usize {
    if is_scanned(name) { 3 } else { 4 }
}
