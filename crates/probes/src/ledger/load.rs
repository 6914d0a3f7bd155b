//! Loads the BPF programs and attaches those that a look needs. If this kernel lacks a tracepoint,
//! the look goes on without its events.

use std::collections::BTreeMap;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::{KprobeOpts, Link, Object, ObjectBuilder, OpenObject};
use records::ProfileKind;

use crate::bpf_programs::unpacked;
use crate::libbpf_log::{self, with_log};

use super::counters::COUNTERS;
use super::{WatchPlan, steal};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o.gz"));

/// Programs that knee runs and never attaches.
const CALLED: &[&str] = &["mark_me", "snapshot", "describe"];

/// The program attached to a perf event of each CPU.
pub const SAMPLER: &str = "take_sample";

/// Programs without which there is no ledger.
const ESSENTIAL: &[&str] = &["sched_switch", "sched_process_fork"];

/// The program that counts calls of a function, identified by its cookie; attached to each function
/// that the user named.
const FUNCTION: &str = "count_function";

/// The kfunc that keeps interrupts out of updates of the totals.
const DISABLE_IRQS: &str = "bpf_local_irq_save";
/// The kfunc that finds the slab cache of an address.
const SLAB_CACHE: &str = "bpf_get_kmem_cache";

/// The programs that a look attaches.
fn wanted(kind: ProfileKind) -> Vec<&'static str> {
    match kind {
        ProfileKind::Time => TIMED.to_vec(),
        ProfileKind::Counts => COUNTERS.iter().map(|counter| counter.program).collect(),
        ProfileKind::Names => NAMED.to_vec(),
    }
}

/// The programs that see who waits for locks, who has them and who sends interrupts.
const NAMED: &[&str] =
    &["hand_over", "stack_contention_begin", "stack_ipi_send_cpu", "stack_ipi_send_cpumask"];

/// The programs that time states, in the order of attaching: those that end a state before those
/// that begin it, so that no state is entered and never left.
const TIMED: &[&str] = &[
    "local_timer_exit",
    "reschedule_exit",
    "call_function_exit",
    "call_function_single_exit",
    "irq_work_exit",
    "irq_handler_exit",
    "x86_platform_ipi_exit",
    "thermal_apic_exit",
    "error_apic_exit",
    "spurious_apic_exit",
    "softirq_exit",
    "contention_end",
    "sched_waking",
    "sched_wakeup",
    "local_timer_entry",
    "reschedule_entry",
    "call_function_entry",
    "call_function_single_entry",
    "irq_work_entry",
    "irq_handler_entry",
    "x86_platform_ipi_entry",
    "thermal_apic_entry",
    "error_apic_entry",
    "spurious_apic_entry",
    "softirq_entry",
    "contention_begin",
];

/// `config` of `state.bpf.h`.
#[repr(C)]
struct ProgramConfig {
    worker_pid: u32,
    knee_pid: u32,
    tasks: u32,
    stack_every: u32,
    cpus: u32,
    file_calls: [u32; 4],
    unused: u32,
    steal_offset: i64,
}

/// Programs loaded into the kernel.
pub struct Loaded {
    /// The programs and their maps.
    pub object: Object,
    /// The attached programs, by name; dropping a link detaches its program.
    attached: Vec<(&'static str, Link)>,
    /// Functions whose calls are counted, each with its number among those that the user named.
    functions: Vec<(String, usize, Link)>,
    /// Programs that could not be attached, and why.
    pub unavailable_probes: BTreeMap<String, String>,
}

/// Loads the programs that `plan` needs, and attaches all but those that count in bursts.
pub fn load(plan: &WatchPlan) -> Result<Loaded, String> {
    libbpf_log::keep();
    let kernel = Btf::from_vmlinux()
        .map_err(|e| format!("reading the kernel's types, /sys/kernel/btf/vmlinux: {e}"))?;
    let mut unavailable_probes = missing_kfuncs(&kernel);
    let mut open = ObjectBuilder::default()
        .open_memory(&unpacked(PROGRAMS))
        .map_err(|e| with_log("opening knee's BPF programs", &e))?;
    configure(&mut open, plan, steal::offset(&kernel))?;
    choose(&mut open, plan, &kernel, &mut unavailable_probes)?;
    let object = open.load().map_err(|e| with_log("loading knee's BPF programs", &e))?;
    let mut loaded =
        Loaded { object, attached: Vec::new(), functions: Vec::new(), unavailable_probes };
    for name in ESSENTIAL {
        loaded.attach(name);
        if let Some(why) = loaded.unavailable_probes.get(*name) {
            return Err(format!("{name}: {why}"));
        }
    }
    plan.functions.iter().zip(0..).for_each(|(function, index)| loaded.count(function, index));
    if !plan.bursts {
        wanted(plan.kind).into_iter().for_each(|name| loaded.attach(name));
    }
    Ok(loaded)
}

impl Loaded {
    /// Attaches a program, or notes in `unavailable_probes` why not.
    pub fn attach(&mut self, name: &'static str) {
        if self.attached.iter().any(|(known, _)| *known == name)
            || self.unavailable_probes.contains_key(name)
        {
            return;
        }
        let program = self.object.progs_mut().find(|program| program.name() == name);
        match program.map(|program| program.attach()) {
            Some(Ok(link)) => self.attached.push((name, link)),
            Some(Err(e)) => {
                let why = with_log("attaching the program", &e);
                self.unavailable_probes.insert(name.to_string(), why);
            }
            None => {}
        }
    }

    /// Counts the calls of a function, or notes in `unavailable_probes` why not.
    fn count(&mut self, function: &str, index: usize) {
        let options = KprobeOpts { cookie: index as u64, ..KprobeOpts::default() };
        let program = self.object.progs_mut().find(|program| program.name() == FUNCTION);
        match program.map(|program| program.attach_kprobe_with_opts(false, function, options)) {
            Some(Ok(link)) => self.functions.push((function.to_string(), index, link)),
            Some(Err(e)) => {
                let why = with_log("attaching a kprobe", &e);
                self.unavailable_probes.insert(format!("function {function}"), why);
            }
            None => {}
        }
    }

    /// The functions whose calls are counted, with their numbers among those that the user named.
    pub fn functions(&self) -> Vec<(String, usize)> {
        self.functions.iter().map(|(name, index, _)| (name.clone(), *index)).collect()
    }

    pub fn detach(&mut self, name: &str) {
        self.attached.retain(|(known, _)| *known != name);
    }

    pub fn detach_all(&mut self) {
        self.attached.clear();
        self.functions.clear();
    }
}

fn configure(
    open: &mut OpenObject,
    plan: &WatchPlan,
    steal_offset: Option<i64>,
) -> Result<(), String> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| format!("counting CPUs: {e}"))? as u32;
    let config = ProgramConfig {
        worker_pid: std::process::id(),
        knee_pid: plan.knee,
        tasks: plan.tasks,
        stack_every: 16,
        cpus: plan.cpus.len() as u32,
        file_calls: [libc::SYS_read, libc::SYS_write, libc::SYS_readv, libc::SYS_writev]
            .map(|call| call as u32),
        unused: 0,
        steal_offset: steal_offset.unwrap_or(0),
    };
    for mut map in open.maps_mut() {
        let name = map.name().to_string_lossy().into_owned();
        let sized = match name.as_str() {
            "cpus" | "snapshots" => map.set_max_entries(cpus),
            "operations" => map.set_max_entries(plan.tasks.max(1)),
            "samples" => map.set_max_entries(ring_bytes(plan)),
            _ if name.ends_with(".rodata") => {
                fill(map.initial_value_mut(), &config)?;
                Ok(())
            }
            _ => Ok(()),
        };
        sized.map_err(|e| format!("sizing the BPF map {name}: {e}"))?;
    }
    Ok(())
}

/// The size of the ring of samples: a power of two, and whole pages.
fn ring_bytes(plan: &WatchPlan) -> u32 {
    const SAMPLE_BYTES_MAX: f64 = 560.0;
    // Waits for locks have no fixed rate.
    let hertz = if plan.kind == ProfileKind::Names { 5000 } else { plan.hertz };
    let samples = plan.room.as_secs_f64() * f64::from(hertz) * plan.cpus.len() as f64;
    let bytes = (samples * SAMPLE_BYTES_MAX) as u64;
    bytes.next_power_of_two().clamp(1 << 16, 1 << 28) as u32
}

fn fill(section: Option<&mut [u8]>, config: &ProgramConfig) -> Result<(), String> {
    let section = section.ok_or("internal error: the BPF programs have no configuration")?;
    let length = size_of::<ProgramConfig>();
    if section.len() < length {
        return Err(format!(
            "internal error: the BPF programs' configuration has {} bytes, not {length}",
            section.len()
        ));
    }
    // SAFETY: a plain struct without padding, read as bytes.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const *config).cast::<u8>(), length) };
    section[..length].copy_from_slice(bytes);
    Ok(())
}

/// Loads neither programs that the look does not need nor those whose tracepoint this kernel lacks.
fn choose(
    open: &mut OpenObject,
    plan: &WatchPlan,
    kernel: &Btf,
    unavailable_probes: &mut BTreeMap<String, String>,
) -> Result<(), String> {
    for mut program in open.progs_mut() {
        let name = program.name().to_string_lossy().into_owned();
        if CALLED.contains(&name.as_str()) {
            continue;
        }
        let is_sampler = name == SAMPLER && plan.kind == ProfileKind::Time;
        let is_wanted = is_sampler
            || (name == FUNCTION && !plan.functions.is_empty())
            || ESSENTIAL.contains(&name.as_str())
            || wanted(plan.kind).contains(&name.as_str());
        let section = program.section().to_string_lossy().into_owned();
        let tracepoint = section.strip_prefix("tp_btf/");
        let missing = tracepoint.filter(|tracepoint| !has_tracepoint(kernel, tracepoint));
        if let Some(tracepoint) = missing.filter(|_| is_wanted) {
            let why = format!("this kernel has no tracepoint {tracepoint}");
            if ESSENTIAL.contains(&name.as_str()) {
                return Err(why);
            }
            unavailable_probes.insert(name, why);
        }
        program.set_autoload(is_wanted && missing.is_none());
    }
    Ok(())
}

/// The kfuncs that this kernel lacks and the programs do without, and the consequence of each.
fn missing_kfuncs(kernel: &Btf) -> BTreeMap<String, String> {
    let kfuncs = [
        (DISABLE_IRQS, "Linux 6.14", "an interrupt during an update may lose some microseconds"),
        (SLAB_CACHE, "Linux 6.13", "locks are named after the functions that wait for them"),
    ];
    let is_missing = |name: &str| {
        let function: Option<Func> = kernel.type_by_name(name);
        function.is_none()
    };
    let missing = kfuncs.into_iter().filter(|(name, ..)| is_missing(name));
    let reason = |(name, release, consequence): (&str, &str, &str)| {
        (name.to_string(), format!("this kernel lacks it (new in {release}): {consequence}"))
    };
    missing.map(reason).collect()
}

fn has_tracepoint(kernel: &Btf, name: &str) -> bool {
    let named: Option<Typedef> = kernel.type_by_name(&format!("btf_trace_{name}"));
    named.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tracepoint_is_distinguished_from_an_existing_one() {
        // Kernels without BTF have tests of their own.
        let Ok(kernel) = Btf::from_vmlinux() else { return };
        assert!(has_tracepoint(&kernel, "sched_switch"));
        assert!(!has_tracepoint(&kernel, "no_such_tracepoint"));
    }

    #[test]
    fn what_is_not_attached_has_a_reason() {
        for kind in [ProfileKind::Time, ProfileKind::Counts, ProfileKind::Names] {
            let (cpus, room) = (vec![0], std::time::Duration::ZERO);
            let functions = Vec::new();
            let (bursts, knee) = (false, 0);
            let plan = WatchPlan { kind, hertz: 0, room, cpus, tasks: 0, bursts, knee, functions };
            // Without permission; tests/ledger.rs reports that.
            let Ok(loaded) = load(&plan) else { return };
            for name in wanted(kind) {
                let attached = loaded.attached.iter().any(|(known, _)| *known == name);
                assert_ne!(attached, loaded.unavailable_probes.contains_key(name), "{name}");
            }
        }
    }
}
