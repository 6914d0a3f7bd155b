//! What the checks judge: read once, all together.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use probes::{Activity, Limits, Permissions};
use records::{Directory, HostFacts};
use setup::ownership::DIRECTORY_PREFIX;

/// Everything the checks may ask.
pub struct Facts {
    /// Whether this binary has the BPF programs of `knee explain`.
    pub built_with_bpf: bool,
    pub host: HostFacts,
    pub limits: Limits,
    pub permissions: Permissions,
    pub activity: Activity,
    /// The directory asked about, if one was.
    pub directory: Option<DoctorDirectory>,
}

/// A directory where workloads would work.
pub struct DoctorDirectory {
    pub facts: Directory,
    /// Whether a file can be made there, or why not.
    pub writable: Result<(), String>,
    /// Directories of runs: left behind, or of one that is going on.
    pub leftovers: Vec<PathBuf>,
}

/// Long enough for a hundred ticks of the kernel's clock.
const WINDOW: Duration = Duration::from_secs(1);

impl Facts {
    /// Reads them of this host; takes a little more than [`WINDOW`].
    pub fn gather(directory: Option<&Path>, built_with_bpf: bool) -> Facts {
        let root = Path::new("/");
        Facts {
            built_with_bpf,
            host: probes::host(root),
            limits: probes::limits(root),
            permissions: probes::permissions(root),
            activity: probes::activity(root, WINDOW),
            directory: directory.map(place),
        }
    }

    /// A setting of the host.
    pub fn knob(&self, name: &str) -> Option<&str> {
        self.host.knobs.get(name).map(String::as_str)
    }

    /// The CPUs that this process may use, as far as that is known.
    pub fn cpus(&self) -> usize {
        self.limits.cpus_allowed.as_ref().map_or(1, Vec::len)
    }
}

fn place(path: &Path) -> DoctorDirectory {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let is_leftover = |path: &PathBuf| {
        path.is_dir()
            && path.file_name().is_some_and(|n| n.to_string_lossy().starts_with(DIRECTORY_PREFIX))
    };
    DoctorDirectory {
        facts: probes::directory(path),
        writable: try_to_write(path),
        leftovers: entries.map(|entry| entry.path()).filter(is_leftover).collect(),
    }
}

fn try_to_write(directory: &Path) -> Result<(), String> {
    let path = directory.join(format!(".knee-doctor-{}", std::process::id()));
    File::create_new(&path)
        .and_then(|_| fs::remove_file(&path))
        .map_err(|error| format!("creating a file in {}: {error}", directory.display()))
}

/// A host on which nothing is wrong.
#[cfg(test)]
pub fn quiet() -> Facts {
    let unlimited = probes::Limit { soft: None, hard: None };
    let knobs = [
        ("clocksource", "tsc"),
        ("frequency.boost", "0"),
        ("frequency.governor", "performance"),
        ("irqbalance", "not running"),
        ("nmi_watchdog", "0"),
        ("numa_balancing", "0"),
        ("perf_event_paranoid", "-1"),
        ("randomize_va_space", "2"),
        ("smt.active", "0"),
        ("thp.enabled", "madvise"),
    ];
    Facts {
        built_with_bpf: true,
        host: HostFacts {
            knobs: knobs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..HostFacts::default()
        },
        limits: Limits {
            cpus_allowed: Ok(vec![0, 1, 2, 3]),
            cpus_online: Some(vec![0, 1, 2, 3]),
            cpu_quota: Ok(None),
            open_files: unlimited,
            tasks_of_user: unlimited,
            tasks_of_group: Ok(None),
            tasks_of_host: Some(100_000),
        },
        permissions: Permissions {
            user_id: 0,
            perf_software: Ok(()),
            perf_hardware: Ok(()),
            perf_system: Ok(()),
            tracefs: Ok("/sys/kernel/tracing".into()),
            btf: Ok(()),
            bpf: Ok(()),
            kprobes: Ok(()),
        },
        activity: Activity {
            window_s: 1.0,
            steal_percent: Some(0.0),
            steal_since_boot_percent: Some(0.0),
            others_cpus: Some(0.01),
            busiest: Vec::new(),
            load: Some([0.1, 0.2, 0.3]),
            swap_used_bytes: Some(0),
            throttled: Some(0),
            waiting_for_file_locks: Some(0),
            namesakes: Vec::new(),
        },
        directory: None,
    }
}

/// A rented virtual machine in use.
#[cfg(test)]
pub fn troubled() -> Facts {
    let mut facts = quiet();
    facts.host.hypervisor = Some("KVM".to_owned());
    facts.host.knobs.remove("frequency.governor");
    facts.host.knobs.remove("frequency.boost");
    facts.host.knobs.insert("mitigation.retbleed".to_owned(), "Vulnerable".to_owned());
    facts.host.knobs.insert("thp.enabled".to_owned(), "always".to_owned());
    facts.limits.cpu_quota = Ok(Some(1.5));
    facts.permissions.perf_hardware =
        Err("perf_event_open: No such file or directory (os error 2)".to_owned());
    facts.permissions.kprobes =
        Err("/sys/bus/event_source/devices/kprobe/type: No such file or directory (os error 2)"
            .to_owned());
    facts.activity.steal_percent = Some(3.21);
    facts.activity.others_cpus = Some(1.25);
    facts.activity.busiest =
        vec![probes::BusyProcess { process_id: 4711, name: "cc1plus".to_owned(), percent: 99.4 }];
    facts.activity.throttled = None;
    facts.directory = Some(DoctorDirectory {
        facts: Directory {
            path: "/dev/shm".into(),
            file_system: Some("tmpfs".to_owned()),
            source: Some("tmpfs".to_owned()),
            bytes_total: Some(1 << 30),
            bytes_free: Some(100 << 20),
            ..Directory::default()
        },
        writable: Ok(()),
        leftovers: Vec::new(),
    });
    facts
}
