//! What this process may observe, found out by trying: many settings decide it
//! (capabilities, lockdown, seccomp, paranoia levels) and none is the whole truth. Every
//! trial is closed again immediately and changes nothing.

use std::fs;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use crate::perf_event::{self, EventAttributes, PerfTarget};
use crate::tree;

/// What this process may observe; an error is the reason why not.
#[derive(Clone, Debug)]
pub struct Permissions {
    /// The effective user.
    pub user_id: u32,
    /// perf: a software event of this process, in user mode and in the kernel.
    pub perf_software: Result<(), String>,
    /// perf: CPU cycles of this process, in user mode and in the kernel.
    pub perf_hardware: Result<(), String>,
    /// perf: an event of a whole CPU, whichever task runs there.
    pub perf_system: Result<(), String>,
    /// The mount point of tracefs, if it is readable.
    pub tracefs: Result<PathBuf, String>,
    /// The running kernel's types (BTF), for BPF programs that fit any kernel.
    pub btf: Result<(), String>,
    /// Loading a tracing BPF program.
    pub bpf: Result<(), String>,
    /// kprobes through perf.
    pub kprobes: Result<(), String>,
}

/// The permissions of this process. `root` is `/`, except in tests; the trials always use
/// the running kernel.
pub fn permissions(root: &Path) -> Permissions {
    Permissions {
        // SAFETY: geteuid has no preconditions and cannot fail.
        user_id: unsafe { libc::geteuid() },
        perf_software: perf(
            perf_event::TYPE_SOFTWARE,
            perf_event::COUNT_SW_TASK_CLOCK,
            OWN_PROCESS,
        ),
        perf_hardware: perf(
            perf_event::TYPE_HARDWARE,
            perf_event::COUNT_HW_CPU_CYCLES,
            OWN_PROCESS,
        ),
        perf_system: perf(perf_event::TYPE_SOFTWARE, perf_event::COUNT_SW_CPU_CLOCK, any_cpu()),
        tracefs: tracefs(root),
        btf: readable(root, "sys/kernel/btf/vmlinux"),
        bpf: bpf(),
        kprobes: readable(root, "sys/bus/event_source/devices/kprobe/type"),
    }
}

fn readable(root: &Path, path: &str) -> Result<(), String> {
    fs::File::open(root.join(path)).map(drop).map_err(|e| format!("/{path}: {e}"))
}

/// Where tracefs is mounted, if its events can be read.
pub(crate) fn tracefs(root: &Path) -> Result<PathBuf, String> {
    let mounts = host::mounts::parse(&tree::text(root, "proc/self/mountinfo")?);
    let mount = mounts.iter().find(|mount| mount.file_system == "tracefs");
    let mount_point = &mount.ok_or("tracefs is not mounted")?.mount_point;
    let events = mount_point.join("events");
    let inside = root.join(events.strip_prefix("/").unwrap_or(&events));
    match fs::read_dir(inside) {
        Ok(_) => Ok(mount_point.clone()),
        Err(error) => Err(format!("{}: {error}", events.display())),
    }
}

const OWN_PROCESS: PerfTarget = (0, -1);

/// All processes on one online CPU, the current one.
fn any_cpu() -> PerfTarget {
    // SAFETY: sched_getcpu has no preconditions.
    (-1, unsafe { libc::sched_getcpu() }.max(0))
}

fn perf(kind: u32, config: u64, target: PerfTarget) -> Result<(), String> {
    let event = EventAttributes::new(kind, config, 0, perf_event::DISABLED);
    perf_event::open(&event, target).map(drop)
}

// include/uapi/linux/bpf.h
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_PROG_TYPE_TRACEPOINT: u32 = 5;
/// `r0 = 0; exit`, the shortest program that the verifier accepts.
const PROGRAM: [u64; 2] = [0xb7, 0x95];

/// The part of union bpf_attr that BPF_PROG_LOAD needs.
#[repr(C)]
struct BpfLoad {
    kind: u32,
    instructions_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log_buffer: u64,
    kernel_version: u32,
    flags: u32,
}

fn bpf() -> Result<(), String> {
    let load = BpfLoad {
        kind: BPF_PROG_TYPE_TRACEPOINT,
        instructions_count: PROGRAM.len() as u32,
        instructions: PROGRAM.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        log_level: 0,
        log_size: 0,
        log_buffer: 0,
        kernel_version: 0,
        flags: 0,
    };
    // SAFETY: the attributes and what they point to are live; the kernel only reads them.
    let descriptor = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_PROG_LOAD, &raw const load, size_of::<BpfLoad>())
    };
    close("bpf(BPF_PROG_LOAD)", descriptor)
}

/// Closes the descriptor that a trial opened, or says why the trial failed.
fn close(call: &str, descriptor: libc::c_long) -> Result<(), String> {
    if descriptor < 0 {
        return Err(format!("{call}: {}", io::Error::last_os_error()));
    }
    // SAFETY: a system call has just returned this descriptor; nothing else owns it.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor as i32) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracefs_must_be_mounted_and_readable() {
        let mounted = "40 23 0:12 / /sys/kernel/tracing rw - tracefs tracefs rw\n";
        let check = |files: &[(&str, &str)]| tracefs(tree::fake(files).path());
        assert_eq!(
            check(&[("proc/self/mountinfo", mounted), ("sys/kernel/tracing/events/enable", "0")]),
            Ok(PathBuf::from("/sys/kernel/tracing"))
        );
        assert!(check(&[("proc/self/mountinfo", mounted)]).unwrap_err().contains("tracing/events"));
        assert_eq!(check(&[("proc/self/mountinfo", "")]), Err("tracefs is not mounted".to_owned()));
    }

    #[test]
    fn every_refused_trial_names_its_call_or_file() {
        let permissions = permissions(Path::new("/"));
        let reasons = [
            (permissions.perf_software, "perf_event_open: "),
            (permissions.perf_hardware, "perf_event_open: "),
            (permissions.perf_system, "perf_event_open: "),
            (permissions.bpf, "bpf(BPF_PROG_LOAD): "),
            (permissions.kprobes, "/sys/bus/event_source/devices/kprobe"),
        ];
        for (trial, prefix) in reasons {
            assert!(trial.is_ok() || trial.unwrap_err().starts_with(prefix));
        }
    }
}
