//! Models that know nothing of a mechanism, to show what knowing it adds: the universal
//! scalability law, and a closed queueing model of one server.
//!
//! N. Gunther, Guerrilla Capacity Planning, 2007; M. Reiser and S. Lavenberg, Mean-value analysis of
//! closed multichain queuing networks, 1980; S. Boyd-Wickizer and others, Non-scalable locks are
//! dangerous, 2012, whose Markov chain is the queueing model with a service time that grows with
//! the queue.

/// The universal scalability law: the throughput of n CPUs over that of one, with this contention
/// and this coherency delay.
pub fn usl(cpus: f64, contention: f64, coherency: f64) -> f64 {
    cpus / (1.0 + contention * (cpus - 1.0) + coherency * cpus * (cpus - 1.0))
}

/// The contention at which the law gives this scaling, without coherency delay. One measured point
/// does not determine more.
pub fn contention_of(cpus: f64, scaling: f64) -> f64 {
    (cpus / scaling - 1.0) / (cpus - 1.0)
}

/// The throughput of one server in a closed network of n customers. Each customer thinks for a
/// time before it comes to the server again. `service` gives the service time with k customers at
/// the server. If it is constant, this is the mean-value analysis of a station and a delay.
pub fn closed_network(customers: usize, think: f64, service: impl Fn(usize) -> f64) -> f64 {
    // A birth-death chain, with k customers at the server.
    let mut weight = 1.0;
    let (mut weights, mut throughput) = (1.0, 0.0);
    for k in 1..=customers {
        weight *= (customers - k + 1) as f64 / think * service(k);
        weights += weight;
        throughput += weight / service(k);
        // Scaled against overflow: only ratios matter.
        if weights > 1e200 {
            weight /= 1e200;
            weights /= 1e200;
            throughput /= 1e200;
        }
    }
    throughput / weights
}

/// The serial share of an operation at which two customers slow each other down to `slowed_to`
/// of their throughput without queueing.
pub fn serial_share(slowed_to: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let serial = (low + high) / 2.0;
        let slowed = closed_network(2, 1.0 - serial, |_| serial) / 2.0;
        if slowed > slowed_to {
            low = serial;
        } else {
            high = serial;
        }
    }
    (low + high) / 2.0
}
