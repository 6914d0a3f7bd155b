//! Why the kernel does not show what threads of a process do, and what would change that.

use std::fs;

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
