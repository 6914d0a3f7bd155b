//! Clock ticks of the run's CPUs: where their time went.

use records::Measured;

use super::KernelThreads;

/// Kinds of ticks in which a CPU does something. Guest time is in user time already.
pub const BUSY: &[&str] = &["user", "nice", "system", "irq", "softirq"];

/// Kinds of ticks that threads of the kernel never have.
const USER_MODE: &[&str] = &["user", "nice"];

/// Ticks of the run's CPUs that went to `kinds`.
pub fn ticks(measured: &Measured, kinds: &[&str]) -> f64 {
    let ticks = |kind: &&str| measured.deltas.get(&format!("stat.cpus.{kind}_ticks")).copied();
    kinds.iter().filter_map(ticks).sum::<i64>() as f64
}

/// All ticks of the run's CPUs.
pub fn all_ticks(measured: &Measured) -> f64 {
    ticks(measured, BUSY) + ticks(measured, &["idle", "iowait", "steal"])
}

/// The number of CPUs that a client had for itself; in runs without a server of knee's it is absent.
pub const CLIENT_CPUS: &str = "client.cpus";

/// CPU time, in s, of the other end of a run with a server, as far as it may be on the run's CPUs, and of a daemon:
/// all of it (`cpu_s`), or that in user mode (`user_s`).
fn other_end_s(measured: &Measured, metric: &str) -> f64 {
    let value = |name: &str| measured.gauges.get(name).copied().unwrap_or(0.0);
    let time_s = |role: &str| value(&format!("{role}.{metric}"));
    let client_s = if value(CLIENT_CPUS) > 0.0 { 0.0 } else { time_s("client") };
    client_s + time_s("server") + time_s("daemon")
}

/// Busy time of the run's CPUs that the CPU time of tasks and worker does not explain, in
/// percent of these CPUs. A tick is 1 % of a CPU in a second, so a little is rounding.
/// Where the kernel's threads are the load, only time in user mode is known to be of others.
pub fn other_busy_percent(measured: &Measured, kernel_threads: KernelThreads) -> f64 {
    let all = all_ticks(measured);
    let usage = &measured.usage;
    let (kinds, own_us, metric) = match kernel_threads {
        KernelThreads::OfOthers => (BUSY, usage.user_us + usage.system_us, "cpu_s"),
        KernelThreads::OfLoad => (USER_MODE, usage.user_us, "user_s"),
    };
    // The worker's time is little, and its modes are not known.
    let own = (own_us + measured.worker_us) as f64 / 1e4;
    let rest = ticks(measured, kinds) - own - 100.0 * other_end_s(measured, metric);
    if all > 0.0 && rest > 4.0 { 100.0 * rest / all } else { 0.0 }
}
