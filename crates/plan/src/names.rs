//! Names of workloads that users type, and suggestions for misspelt ones.

use host::unknown;
use workloads::{WORKLOADS, Workload};

use crate::commands::{COMMANDS, PREFIX};
use crate::experiments::EXPERIMENTS;

/// The workload of this name or alias; otherwise an error with the nearest names.
pub fn workload(name: &str) -> anyhow::Result<&'static Workload> {
    Workload::find(name).ok_or_else(|| {
        let aliases = WORKLOADS.iter().flat_map(|w| w.spec.aliases.iter().copied());
        let experiments = EXPERIMENTS.iter().map(|(name, _)| *name);
        let commands: Vec<String> =
            COMMANDS.iter().map(|(name, _)| format!("{PREFIX}{name}")).collect();
        let known = WORKLOADS.iter().map(|w| w.name).chain(aliases).chain(experiments);
        let known = known.chain(commands.iter().map(String::as_str));
        let list = "knee list workloads|experiments|commands";
        anyhow::Error::msg(unknown("workload, experiment or command", name, known, list))
    })
}

#[cfg(test)]
mod tests {
    use crate::names::workload;

    fn check(name: &str, part: &str) {
        let error = workload(name).err().map(|e| e.to_string()).unwrap_or_default();
        assert!(error.contains(part), "{name}: {error}");
    }

    #[test]
    fn a_misspelt_workload_suggests_the_nearest() {
        check("posix_lock_sharde", "did you mean \"posix_lock_shared\"");
        check("getpid", "\"getppid\"");
        check("page_fault", "\"page_fault_");
        check("zzz", "no workload, experiment or command is called \"zzz\"; `knee list");
        check("first-lok", "did you mean \"first-look\"?");
        check("xfs_repiar", "\"command:xfs_repair\"");
        assert_eq!(workload("posix01").unwrap().name, "posix_lock_shared");
    }
}
