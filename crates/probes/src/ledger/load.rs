//! Loads the programs and attaches those that a look needs. A tracepoint that this kernel does not
//! have costs what it would have told, not the look.

use std::collections::BTreeMap;
use std::sync::Mutex;

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::types::{Func, Typedef};
use libbpf_rs::{KprobeOpts, Link, Object, ObjectBuilder, OpenObject, PrintLevel};
use records::ProfileKind;

use super::counters::COUNTERS;
use super::{Plan, steal};

static PROGRAMS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/ledger.bpf.o"));

/// Run by knee, never attached.
const CALLED: &[&str] = &["mark_me", "snapshot", "describe"];

/// Attached to a perf event of each CPU.
pub const SAMPLER: &str = "take_sample";

/// Without these there is no ledger.
const ESSENTIAL: &[&str] = &["sched_switch", "sched_process_fork"];

/// Counts calls of one function, told by its cookie; attached to each that the user named.
const FUNCTION: &str = "count_function";

/// Keeps interrupts out of updates of the totals.
const UNINTERRUPTED: &str = "bpf_local_irq_save";
/// Tells which slab object an address lies in.
const SLABS: &str = "bpf_get_kmem_cache";

/// What a look attaches.
fn wanted(kind: ProfileKind) -> Vec<&'static str> {
    match kind {
        ProfileKind::Time => TIMED.to_vec(),
        ProfileKind::Counts => COUNTERS.iter().map(|counter| counter.program).collect(),
        ProfileKind::Names => {
            vec!["stack_contention_begin", "stack_ipi_send_cpu", "stack_ipi_send_cpumask"]
        }
    }
}

/// In this order: what ends a state before what begins it, so that nothing that is never left is
/// entered.
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
struct Config {
    worker_pid: u32,
    knee_pid: u32,
    tasks: u32,
    stack_every: u32,
    steal_offset: i64,
}

/// Programs in the kernel.
pub struct Loaded {
    /// The programs and their maps.
    pub object: Object,
    /// Those that are attached, by name; what detaches one is to drop its link.
    attached: Vec<(&'static str, Link)>,
    /// Functions whose calls are counted, each with its number among those that were named.
    functions: Vec<(String, usize, Link)>,
    /// What could not be attached, and why.
    pub blind: BTreeMap<String, String>,
}

/// Loads what `plan` needs, and attaches all of it but what is counted in bursts.
pub fn load(plan: &Plan) -> Result<Loaded, String> {
    libbpf_rs::set_print(Some((PrintLevel::Warn, |_, line| {
        SAID.lock().unwrap_or_else(|e| e.into_inner()).push(line);
    })));
    let kernel = Btf::from_vmlinux()
        .map_err(|e| format!("the kernel's types, /sys/kernel/btf/vmlinux: {e}"))?;
    let mut blind = lacking(&kernel);
    let mut open = ObjectBuilder::default()
        .open_memory(PROGRAMS)
        .map_err(|e| said("opening knee's BPF programs", &e))?;
    configure(&mut open, plan, steal::offset(&kernel))?;
    choose(&mut open, plan, &kernel, &mut blind)?;
    let object = open.load().map_err(|e| said("loading knee's BPF programs", &e))?;
    let mut loaded = Loaded { object, attached: Vec::new(), functions: Vec::new(), blind };
    for name in ESSENTIAL {
        loaded.attach(name);
        if let Some(why) = loaded.blind.get(*name) {
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
    /// Attaches a program, or says in `blind` why not.
    pub fn attach(&mut self, name: &'static str) {
        if self.attached.iter().any(|(known, _)| *known == name) || self.blind.contains_key(name) {
            return;
        }
        let program = self.object.progs_mut().find(|program| program.name() == name);
        match program.map(|program| program.attach()) {
            Some(Ok(link)) => self.attached.push((name, link)),
            Some(Err(e)) => drop(self.blind.insert(name.to_string(), said("attaching it", &e))),
            None => {}
        }
    }

    /// Counts the calls of a function, or says in `blind` why not.
    fn count(&mut self, function: &str, index: usize) {
        let options = KprobeOpts { cookie: index as u64, ..KprobeOpts::default() };
        let program = self.object.progs_mut().find(|program| program.name() == FUNCTION);
        match program.map(|program| program.attach_kprobe_with_opts(false, function, options)) {
            Some(Ok(link)) => self.functions.push((function.to_string(), index, link)),
            Some(Err(e)) => {
                let why = said("a kprobe on it", &e);
                self.blind.insert(format!("function {function}"), why);
            }
            None => {}
        }
    }

    /// The functions whose calls are counted, with their numbers among those that were named.
    pub fn functions(&self) -> Vec<(String, usize)> {
        self.functions.iter().map(|(name, index, _)| (name.clone(), *index)).collect()
    }

    /// Detaches a program.
    pub fn detach(&mut self, name: &str) {
        self.attached.retain(|(known, _)| *known != name);
    }

    /// Detaches all of them.
    pub fn detach_all(&mut self) {
        self.attached.clear();
        self.functions.clear();
    }
}

fn configure(open: &mut OpenObject, plan: &Plan, steal_offset: Option<i64>) -> Result<(), String> {
    let cpus = libbpf_rs::num_possible_cpus().map_err(|e| format!("counting CPUs: {e}"))? as u32;
    let config = Config {
        worker_pid: std::process::id(),
        knee_pid: plan.knee,
        tasks: plan.tasks,
        stack_every: 16,
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

/// A power of two, and whole pages.
fn ring_bytes(plan: &Plan) -> u32 {
    const SAMPLE_BYTES_MAX: f64 = 560.0;
    // Waits for locks come as they come.
    let hertz = if plan.kind == ProfileKind::Names { 5000 } else { plan.hertz };
    let samples = plan.room.as_secs_f64() * f64::from(hertz) * plan.cpus.len() as f64;
    let bytes = (samples * SAMPLE_BYTES_MAX) as u64;
    bytes.next_power_of_two().clamp(1 << 16, 1 << 28) as u32
}

fn fill(section: Option<&mut [u8]>, config: &Config) -> Result<(), String> {
    let section = section.ok_or("knee's own mistake: the BPF programs have no configuration")?;
    let length = size_of::<Config>();
    if section.len() < length {
        return Err(format!("knee's own mistake: {} bytes of configuration", section.len()));
    }
    // SAFETY: a plain struct without padding, read as the bytes it consists of.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const *config).cast::<u8>(), length) };
    section[..length].copy_from_slice(bytes);
    Ok(())
}

/// Leaves out what the look does not need, and what this kernel has no tracepoint for.
fn choose(
    open: &mut OpenObject,
    plan: &Plan,
    kernel: &Btf,
    blind: &mut BTreeMap<String, String>,
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
            blind.insert(name, why);
        }
        program.set_autoload(is_wanted && missing.is_none());
    }
    Ok(())
}

/// What a kernel may lack and the programs do without, and what that costs.
fn lacking(kernel: &Btf) -> BTreeMap<String, String> {
    let wanted = [
        (UNINTERRUPTED, "before Linux 6.14: an interrupt in an update may lose some microseconds"),
        (SLABS, "before Linux 6.13: locks are named by who waits for them"),
    ];
    let is_missing = |name: &str| {
        let function: Option<Func> = kernel.type_by_name(name);
        function.is_none()
    };
    let missing = wanted.into_iter().filter(|(name, _)| is_missing(name));
    missing
        .map(|(name, why)| (name.to_string(), format!("this kernel has it not, being from {why}")))
        .collect()
}

fn has_tracepoint(kernel: &Btf, name: &str) -> bool {
    let named: Option<Typedef> = kernel.type_by_name(&format!("btf_trace_{name}"));
    named.is_some()
}

/// What libbpf said since last asked: its errors are only numbers.
static SAID: Mutex<Vec<String>> = Mutex::new(Vec::new());

fn said(trying: &str, error: &libbpf_rs::Error) -> String {
    let text = std::mem::take(&mut *SAID.lock().unwrap_or_else(|e| e.into_inner())).concat();
    // Of the verifier's long reasoning only the end is the reason.
    let reasoning = |line: &&str| !line.starts_with("processed ") && !line.contains("-- END PROG");
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty()).filter(reasoning);
    let lines: Vec<&str> = lines.collect();
    let refused = lines.iter().position(|line| line.contains("failed to load"));
    let end = refused.unwrap_or(lines.len());
    match lines[end.saturating_sub(3)..end].join("; ") {
        telling if telling.is_empty() => format!("{trying}: {error}"),
        telling => format!("{trying}: {error} ({telling})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracepoint_that_the_kernel_lacks_is_told_apart_from_those_it_has() {
        // A kernel without its own types is for other tests.
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
            let plan = Plan { kind, hertz: 0, room, cpus, tasks: 0, bursts, knee, functions };
            // Not everybody may: the tests beside the crate say so.
            let Ok(loaded) = load(&plan) else { return };
            for name in wanted(kind) {
                let attached = loaded.attached.iter().any(|(known, _)| *known == name);
                assert_ne!(attached, loaded.blind.contains_key(name), "{name}");
            }
        }
    }

    #[test]
    fn the_reason_of_the_verifier_is_the_end_of_what_it_says() {
        let said_by_libbpf = "prog 'x': BPF program load failed: EPERM\n-- BEGIN PROG LOAD LOG --\n\
                              0: R1=ctx()\n5: invalid access to memory\nprocessed 6 insns\n\
                              -- END PROG LOAD LOG --\nprog 'x': failed to load: -1\n";
        SAID.lock().unwrap_or_else(|e| e.into_inner()).push(said_by_libbpf.to_string());
        let error = libbpf_rs::Error::from_raw_os_error(libc::EPERM);
        let told = said("loading knee's BPF programs", &error);
        assert!(told.contains("invalid access to memory"), "{told}");
        assert!(!told.contains("processed"), "{told}");
    }
}
