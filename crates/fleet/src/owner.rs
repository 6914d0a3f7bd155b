//! Who claims a chunk, and whether that process can be known to be gone without waiting for its lease.

use std::collections::BTreeMap;
use std::fs;

use serde::{Deserialize, Serialize};

/// A process that claims chunks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// Name of its host.
    pub host: String,
    /// The boot of its host.
    pub boot_id: String,
    /// The namespace that its process id is of: containers of one kernel have several.
    pub pid_namespace: String,
    pub pid: u32,
    /// When the process started, in ticks since boot: process ids are used again.
    pub started_ticks: u64,
    /// The scheduler's job, if one started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Job>,
}

/// A job of a scheduler, which may start it again after a node failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub id: String,
    /// How often the scheduler has started it again.
    pub restarts: u32,
}

/// The contents of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    pub owner: Owner,
    /// Hash of the plan that the owner read.
    pub plan: String,
    /// Blocks that earlier claims measured whole, each with the number of its claim.
    pub keeps: BTreeMap<u32, u32>,
}

impl Owner {
    /// This process.
    pub fn new() -> Owner {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_string();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let pid = std::process::id();
        Owner {
            host: read("/proc/sys/kernel/hostname"),
            boot_id: read("/proc/sys/kernel/random/boot_id"),
            pid_namespace: namespace.to_string_lossy().into_owned(),
            pid,
            started_ticks: started_ticks(pid).unwrap_or_default(),
            job: job(|name| std::env::var(name).ok()),
        }
    }

    /// Whether this owner provably ended: its process on this host, or its scheduler started the job
    /// again. `started` gives when a process of this host started, if it lives.
    pub fn is_gone(&self, me: &Owner, started: impl Fn(u32) -> Option<u64>) -> bool {
        let is_restarted = match (&self.job, &me.job) {
            (Some(before), Some(now)) => before.id == now.id && before.restarts < now.restarts,
            _ => false,
        };
        let is_visible = !self.boot_id.is_empty()
            && (&self.boot_id, &self.pid_namespace) == (&me.boot_id, &me.pid_namespace);
        is_restarted || (is_visible && started(self.pid) != Some(self.started_ticks))
    }
}

impl Default for Owner {
    fn default() -> Owner {
        Owner::new()
    }
}

/// When a process of this host started, in ticks since boot; `None` if it does not live.
pub fn started_ticks(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // Fields after the name, which may hold anything: the first is the state, the 20th the start; proc(5).
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    let is_dead = ["Z", "X"].contains(fields.first()?);
    fields.get(19).filter(|_| !is_dead)?.parse().ok()
}

/// The job of Slurm that this process is of.
fn job(variable: impl Fn(&str) -> Option<String>) -> Option<Job> {
    let restarts = variable("SLURM_RESTART_COUNT").and_then(|text| text.parse().ok());
    Some(Job { id: variable("SLURM_JOB_ID")?, restarts: restarts.unwrap_or(0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(boot: &str, pid: u32, job: Option<(&str, u32)>) -> Owner {
        Owner {
            host: "a".to_string(),
            boot_id: boot.to_string(),
            pid_namespace: "1".to_string(),
            pid,
            started_ticks: 7,
            job: job.map(|(id, restarts)| Job { id: id.to_string(), restarts }),
        }
    }

    #[test]
    fn only_what_is_seen_or_told_by_the_scheduler_is_gone() {
        let me = owner("x", 1, Some(("8", 1)));
        let lives = |_| Some(7);
        assert!(!owner("x", 2, None).is_gone(&me, lives));
        assert!(owner("x", 2, None).is_gone(&me, |_| None), "its process ended");
        assert!(owner("x", 2, None).is_gone(&me, |_| Some(9)), "its id is another's now");
        assert!(!owner("y", 2, None).is_gone(&me, |_| None), "another host is not seen");
        assert!(!owner("", 2, None).is_gone(&owner("", 1, None), |_| None), "any host");
        assert!(owner("y", 2, Some(("8", 0))).is_gone(&me, |_| None), "the job was requeued");
        assert!(!owner("y", 2, Some(("9", 0))).is_gone(&me, |_| None), "another job");
    }

    #[test]
    fn this_process_lives() {
        let me = Owner::new();
        assert!(me.started_ticks > 0 && !me.is_gone(&me, started_ticks));
    }
}
