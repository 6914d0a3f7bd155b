//! Models that know nothing of a mechanism, to see what it adds to know it: the universal
//! scalability law, and a closed queueing model of one server.
//!
//! N. Gunther, Guerrilla Capacity Planning, 2007; M. Reiser and S. Lavenberg, Mean-value analysis of
//! closed multichain queuing networks, 1980; S. Boyd-Wickizer and others, Non-scalable locks are
//! dangerous, 2012, whose chain is the second with a service that grows with the queue.

/// The universal scalability law: how often one CPU's work n CPUs do, with this much contention
/// and this much coherency delay.
pub fn usl(cpus: f64, contention: f64, coherency: f64) -> f64 {
    cpus / (1.0 + contention * (cpus - 1.0) + coherency * cpus * (cpus - 1.0))
}

/// The contention of the law that gives this scaling at so many CPUs, without coherency delay: of one
/// measured point no more can be had.
pub fn contention_of(cpus: f64, scaling: f64) -> f64 {
    (cpus / scaling - 1.0) / (cpus - 1.0)
}

/// Passes through one server by n customers in a time, each of which thinks before it comes again.
/// `service` is the time of a pass while so many are there; with it constant this is mean-value
/// analysis of one station and a delay.
pub fn closed(customers: usize, think: f64, service: impl Fn(usize) -> f64) -> f64 {
    // The chain of births and deaths: k are at the server.
    let mut weight = 1.0;
    let (mut all, mut busy) = (1.0, 0.0);
    for k in 1..=customers {
        weight *= (customers - k + 1) as f64 / think * service(k);
        all += weight;
        busy += weight / service(k);
        // Only ratios matter.
        if all > 1e200 {
            (weight, all, busy) = (weight / 1e200, all / 1e200, busy / 1e200);
        }
    }
    busy / all
}

/// The share of an operation that is serial, of which two customers' mutual delay makes their
/// throughput this share of what it were without.
pub fn serial_share(slowed_to: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let serial = (low + high) / 2.0;
        let slowed = closed(2, 1.0 - serial, |_| serial) / 2.0;
        match slowed > slowed_to {
            true => low = serial,
            false => high = serial,
        }
    }
    (low + high) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a / b - 1.0).abs() < 1e-6, "{a} {b}");
    }

    /// Reiser and Lavenberg's recursion.
    #[test]
    fn a_constant_service_is_mean_value_analysis() {
        let (think, service) = (530.0, 60.0);
        let (mut queue, mut rate) = (0.0, 0.0);
        for customers in 1..=48 {
            let residence = service * (1.0 + queue);
            rate = customers as f64 / (think + residence);
            queue = rate * residence;
            near(closed(customers, think, |_| service), rate);
        }
        assert!(rate <= 1.0 / service && rate > 0.99 / service);
    }

    /// The chain of a ticket lock with c = 60, s = 120, a = 530 ns.
    #[test]
    fn a_service_that_grows_with_the_queue_collapses() {
        let rate = |n| closed(n, 530.0, |k| 120.0 + 60.0 * (k - 1) as f64 / 2.0) * 1e3;
        near(rate(1), 1e3 / 650.0);
        assert!(rate(48) < rate(6) / 3.0, "{} {}", rate(48), rate(6));
    }

    #[test]
    fn laws_are_inverted_by_what_finds_their_parameters() {
        near(usl(2.0, contention_of(2.0, 1.386), 0.0), 1.386);
        near(usl(32.0, 0.0, 0.0), 32.0);
        let serial = serial_share(0.693);
        near(closed(2, 1.0 - serial, |_| serial) / 2.0, 0.693);
    }
}
