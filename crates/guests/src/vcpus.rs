//! The threads of QEMU that run a guest's vCPUs: where they may run, and how long they waited.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use host::affinity;

/// The ids of the vCPU threads, in the order of the vCPUs. QEMU names them "CPU 3/TCG"; with
/// emulation on one thread, that thread runs all vCPUs.
pub fn threads(process: u32) -> Result<Vec<u32>> {
    let tasks = format!("/proc/{process}/task");
    let mut threads = Vec::new();
    for entry in fs::read_dir(&tasks).with_context(|| format!("listing {tasks}"))? {
        let path = entry?.path();
        let name = fs::read_to_string(path.join("comm")).unwrap_or_default();
        let id = path.file_name().and_then(|id| id.to_str()).and_then(|id| id.parse().ok());
        if let (Some(cpu), Some(id)) = (cpu(&name), id) {
            threads.push((cpu, id));
        }
    }
    threads.sort();
    Ok(threads.into_iter().map(|(_, id)| id).collect())
}

/// The vCPU in a thread's name.
fn cpu(name: &str) -> Option<u32> {
    let rest = name.strip_prefix("CPU ").or_else(|| name.strip_prefix("ALL CPUs").map(|_| "0/"))?;
    rest.split('/').next()?.trim().parse().ok()
}

/// Pins each thread to one CPU of the host, in order; more threads than CPUs start over at the
/// first CPU.
pub fn pin(threads: &[u32], cpus: &[u32]) -> Result<()> {
    for (number, thread) in threads.iter().enumerate() {
        let cpu = cpus[number % cpus.len()];
        affinity::set_of_thread(*thread, &[cpu])
            .with_context(|| format!("pinning vCPU {number} to CPU {cpu} of the host"))?;
    }
    Ok(())
}

/// How long these threads have run, and how long they were runnable without a CPU, in ns
/// (schedstat of proc(5)).
pub fn times(process: u32, threads: &[u32]) -> Option<(u64, u64)> {
    let mut sum = (0, 0);
    for thread in threads {
        let path = format!("/proc/{process}/task/{thread}/schedstat");
        let text = fs::read_to_string(Path::new(&path)).ok()?;
        let mut numbers = text.split_whitespace().map(|number| number.parse::<u64>());
        sum.0 += numbers.next()?.ok()?;
        sum.1 += numbers.next()?.ok()?;
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vcpu_threads_are_recognized_by_name() {
        let names = ["CPU 0/TCG\n", "CPU 12/KVM\n", "ALL CPUs/TCG\n", "qemu-system-x86", "CPU x"];
        assert_eq!(names.map(cpu), [Some(0), Some(12), Some(0), None, None]);
    }
}
