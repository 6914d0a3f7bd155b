//! Why the kernel does not show what threads of a process do, and what would change that.

use std::fs;
use std::path::Path;

/// Why a process may not be looked into, and what to do.
pub fn refused(process: u32) -> String {
    let user = |number: &str| {
        use std::os::unix::fs::MetadataExt;
        fs::metadata(format!("/proc/{number}")).ok().map(|metadata| metadata.uid())
    };
    match (user(&process.to_string()), user("self")) {
        (Some(theirs), Some(own)) if theirs != own => format!(
            "process {process} belongs to user {theirs}: what its threads wait for (/proc/{process}/syscall) is shown to \
             that user and to root. Run knee as root, or as that user"
        ),
        _ => format!(
            "the kernel does not show what the threads of process {process} wait for (/proc/{process}/syscall): \
             ptrace(2) is restricted. Set kernel.yama.ptrace_scope=0, or run knee as root"
        ),
    }
}

/// Why running threads have no functions, and what would give them some.
pub fn functions_refused(why: &str) -> String {
    let paranoia = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoia.trim().parse::<i32>() {
        Ok(level) if level > 2 => {
            format!("kernel.perf_event_paranoid is {level}; with 2 or less they are sampled")
        }
        _ => why.to_string(),
    }
}

/// What it takes to follow tasks by BPF where that was refused for this reason, by the files of the host below `root`.
pub fn bpf_needs(root: &Path, why: &str) -> String {
    if !root.join("sys/kernel/btf/vmlinux").exists() {
        return "a kernel with its own types (CONFIG_DEBUG_INFO_BTF=y)".to_string();
    }
    let file = |path: &str| fs::read_to_string(root.join(path)).unwrap_or_default();
    // BPF reads the kernel's memory, which this forbids to everyone: kernel_lockdown(7).
    if file("sys/kernel/security/lockdown").contains("[confidentiality]") {
        return "a kernel without lockdown=confidentiality".to_string();
    }
    if may_use_bpf(&file("proc/self/status")) {
        return format!("BPF, which this kernel refused ({why}),");
    }
    "root, or CAP_BPF and CAP_PERFMON,".to_string()
}

/// Whether a process whose /proc/PID/status this is has the capabilities: capabilities(7).
fn may_use_bpf(status: &str) -> bool {
    const SYS_ADMIN: u32 = 21;
    const PERFMON_AND_BPF: [u32; 2] = [38, 39];
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let effective = effective.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
    let has = |bit: u32| effective.unwrap_or(0) >> bit & 1 == 1;
    has(SYS_ADMIN) || PERFMON_AND_BPF.into_iter().all(has)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_bpf_needs_follows_from_the_host() {
        let check = |files: &[(&str, &str)], expected: &str| {
            let root = tempfile::tempdir().unwrap();
            for (path, text) in files {
                let path = root.path().join(path);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            assert_eq!(bpf_needs(root.path(), "verifier"), expected);
        };
        let types = ("sys/kernel/btf/vmlinux", "");
        let status = |caps: &'static str| ("proc/self/status", caps);
        check(&[], "a kernel with its own types (CONFIG_DEBUG_INFO_BTF=y)");
        let none = status("Name:\tknee\nCapEff:\t0000000000000000\n");
        check(&[types, none], "root, or CAP_BPF and CAP_PERFMON,");
        let perfmon = status("CapEff:\t0000004000000000\n");
        check(&[types, perfmon], "root, or CAP_BPF and CAP_PERFMON,");
        let root = status("CapEff:\t000001ffffffffff\n");
        check(&[types, root], "BPF, which this kernel refused (verifier),");
        let locked = ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n");
        check(&[types, root, locked], "a kernel without lockdown=confidentiality");
    }
}
