//! The golden record of format 1: a small record with a bit of everything, which every
//! later version must load. Made once by the code below and never again; the reports'
//! tests print it.
//!
//! To make the golden record of a new format:
//!     KNEE_WRITE_GOLDEN=/tmp/golden cargo test -p store --test record

use std::collections::BTreeMap;
use std::path::PathBuf;

use host::{Cpu, Placement, Topology};
use records::{
    Directory, Experiment, Form, HostFacts, Outcome, Pass, Point, Record, RecordState, Run, Sample,
    Session, Until, Warmup, Warning,
};
use store::Id;

pub const ID: &str = "20261120-115530-7f3a9c";

/// Where the golden record of format 1 lies.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/v1").join(ID)
}

pub fn id() -> Id {
    Id::read(ID).expect("an id")
}

pub fn at(seconds: i64) -> jiff::Timestamp {
    let start: jiff::Timestamp = "2026-11-20T11:55:30Z".parse().expect("a time");
    start + jiff::SignedDuration::from_secs(seconds)
}

const CPUS: [u32; 4] = [1, 2, 4, 8];
/// The last run is missing: the record is partial.
pub const RUNS: u32 = 31;

/// The record as its writer begins it.
pub fn plan() -> Record {
    Record {
        format: 1,
        id: ID.to_string(),
        state: RecordState::Growing,
        label: String::new(),
        note: String::new(),
        experiment: Experiment::read(EXPERIMENT).expect("an experiment"),
        seed: 42,
        points: points(),
        blocks: None,
        variants: Vec::new(),
        source: None,
        metrics: BTreeMap::new(),
        commands: BTreeMap::new(),
        operations: BTreeMap::new(),
        programs: BTreeMap::new(),
        image: None,
        hypervisor: None,
        sessions: vec![
            session(&["knee", "run", "golden.toml", "--dir", "/mnt/a b"], 0, 0, Some(29)),
            session(&["knee", "run", "golden.toml", "--resume", "last"], 600, 27, Some(640)),
        ],
        host: host(),
        clients: BTreeMap::new(),
        topology: topology(),
        directories: vec![directory()],
        warnings: vec![Warning::new(
            "the frequency governor is 'powersave'",
            "knee doctor says how to fix it",
        )],
        runs_finished: 0,
        runs_failed: 0,
        files: BTreeMap::new(),
    }
}

const EXPERIMENT: &str = "
name = 'golden'
description = 'one POSIX lock, all tasks'
blocks = 2
latency = true
axes = { cpus = '1..all', as = ['processes', 'threads'] }
[[load]]
workload = 'posix_lock_shared'
parameters = { idle_ns = 100 }";

fn points() -> Vec<Point> {
    let mut points = Vec::new();
    for pass in [Pass::Rate, Pass::Latency] {
        for form in [Form::Processes, Form::Threads] {
            points.extend(CPUS.map(|cpus| point(pass, form, cpus)));
        }
    }
    points
}

fn point(pass: Pass, form: Form, cpus: u32) -> Point {
    let parameters = [("hold_ns", "0"), ("idle_ns", "100"), ("mode", "wait")];
    Point {
        workload: "posix_lock_shared".to_string(),
        semantics: 1,
        parameters: parameters.map(|(k, v)| (k.to_string(), v.to_string())).into(),
        form,
        cpus,
        placement: Placement::Cores,
        cpu_list: [0, 2, 4, 6, 1, 3, 5, 7][..cpus as usize].to_vec(),
        tasks: cpus,
        until: Until::Seconds(1.0),
        pass,
        dir: PathBuf::from("/mnt/a b"),
        variant: String::new(),
        cell: None,
        command: None,
        other: BTreeMap::new(),
    }
}

fn session(command: &[&str], start: i64, first_run: u32, end: Option<i64>) -> Session {
    Session {
        command: command.iter().map(|word| word.to_string()).collect(),
        knee: "0.1.0".to_string(),
        started: at(start),
        finished: end.map(at),
        boot_id: "b7b8c7e0-2c54-4c5e-9d0c-0a51a3b5f3d1".to_string(),
        node: None,
        first_run,
        host_changes: None,
    }
}

fn host() -> HostFacts {
    let text = |text: &str| Some(text.to_string());
    HostFacts {
        hostname: text("lab1"),
        kernel_release: text("6.12.8"),
        kernel_version: text("Linux version 6.12.8 (gcc 14.2.0) #1 SMP PREEMPT_DYNAMIC"),
        architecture: text("x86_64"),
        cpu_model: text("AMD EPYC 7763 64-Core Processor"),
        memory_bytes: Some(34_359_738_368),
        boot_id: text("b7b8c7e0-2c54-4c5e-9d0c-0a51a3b5f3d1"),
        hypervisor: text("KVM"),
        knobs: BTreeMap::from([("cpufreq.governor".to_string(), "powersave".to_string())]),
        ..HostFacts::default()
    }
}

fn topology() -> Topology {
    let cpu = |cpu: u32| Cpu { cpu, core: cpu & !1, llc: 0, node: cpu / 4, package: 0 };
    Topology { cpus: (0..8).map(cpu).collect() }
}

fn directory() -> Directory {
    let text = |text: &str| Some(text.to_string());
    Directory {
        path: PathBuf::from("/mnt/a b"),
        file_system: text("ext4"),
        source: text("/dev/vdb"),
        mount_point: Some(PathBuf::from("/mnt")),
        mount_options: text("rw,noatime,data=ordered"),
        bytes_total: Some(10_737_418_240),
        bytes_free: Some(10_200_547_328),
        inodes_free: Some(655_349),
        device: BTreeMap::from([("name".to_string(), "vdb".to_string())]),
    }
}

/// Run `number`, of points in an order that looks random and never changes.
pub fn run(number: u32) -> (Run, Vec<Sample>) {
    let points = points();
    let block = number / points.len() as u32;
    let index = (number * 5 + block * 3) % points.len() as u32;
    let point = &points[index as usize];
    // ±2 % of noise that is the same for ever.
    let noise = 0.98 + 0.04 * f64::from(number.wrapping_mul(2_654_435_761) >> 24) / 255.0;
    let outcome = match number {
        20 => Outcome::Failed { reason: "task 3: fcntl F_SETLKW: No locks available".to_string() },
        _ => finished(point, number, noise),
    };
    let samples = if number == 20 { Vec::new() } else { samples(point, &outcome) };
    let run = Run {
        placebo: false,
        run: number,
        point: index,
        block,
        started: at(i64::from(number) + if number < 27 { 1 } else { 601 }),
        file_system: None,
        boot: None,
        repeat: 0,
        outcome,
        warnings: warnings(number),
    };
    (run, samples)
}

fn warnings(number: u32) -> Vec<Warning> {
    let advice = "run longer (--seconds)";
    match number {
        3 => vec![Warning::new("tasks started over 31.0 ms, 3 % of the run", advice)],
        9 => vec![Warning::new("tasks started over 40.2 ms, 4 % of the run", advice)],
        11 => vec![Warning::new("the weather was strange", "")],
        _ => Vec::new(),
    }
}

/// Rates that rise a little and then fall, as those of one contended lock do.
fn rate(point: &Point) -> f64 {
    let of_processes = [1_200_000.0, 1_510_000.0, 980_000.0, 610_000.0];
    let of_threads = [1_150_000.0, 1_900_000.0, 2_700_000.0, 2_950_000.0];
    let step = CPUS.iter().position(|cpus| *cpus == point.cpus).expect("a planned count");
    let slower = if point.pass == Pass::Latency { 0.9 } else { 1.0 };
    slower * if point.form == Form::Processes { of_processes[step] } else { of_threads[step] }
}

fn finished(point: &Point, number: u32, noise: f64) -> Outcome {
    let rate = (rate(point) * noise).round();
    let cpus = f64::from(point.cpus);
    let idle = if point.form == Form::Processes { 12.5 * (cpus - 1.0) / 1.75 } else { 0.0 };
    let busy_s = cpus * (1.0 - idle / 100.0);
    let mut metrics = BTreeMap::from([
        ("operations_per_s", rate),
        ("operations", rate),
        ("wall_s", 1.0),
        ("fairness", 1.0 - 0.01 * (cpus - 1.0)),
        ("idle_percent", idle),
        ("steal_percent", 0.0),
        ("time.elapsed_time", 1.0),
        ("time.user_time", 0.25 * busy_s),
        ("time.system_time", 0.75 * busy_s),
        ("time.percent_of_cpu_this_job_got", 100.0 * busy_s),
        ("time.voluntary_context_switches", (rate * idle / 400.0).round()),
        ("time.involuntary_context_switches", f64::from(number % 4)),
        ("time.minor_page_faults", 120.0 + cpus),
    ]);
    if point.pass == Pass::Latency {
        metrics.extend([
            ("latency.mean_ns", 1e9 * cpus / rate),
            ("latency.stddev_ns", 2e9 / rate),
            ("latency.p50_ns", 0.7e9 * cpus / rate),
            ("latency.p99_ns", 9e9 / rate),
            ("latency.max_ns", 3e5 * cpus),
            ("latency.timing_cost_ns", 41.5),
        ]);
    }
    if point.cpus == 8 {
        // A source that could not be read: missing, not zero.
        metrics.remove("idle_percent");
    }
    let counter = |name: &str, value: f64| (name.to_string(), value.round() as i64);
    // Of the whole host, 8 CPUs for a second; the source says nothing at 8 CPUs.
    let busy = (cpus * (100.0 - idle)).round();
    let host = [("idle", 800.0 - busy), ("iowait", 0.0), ("user", busy - 1.0), ("nice", 0.0)]
        .into_iter()
        .chain([("system", 1.0), ("irq", 0.0), ("softirq", 0.0), ("steal", 0.0)])
        .filter(|_| point.cpus < 8)
        .map(|(kind, ticks)| counter(&format!("stat.all.{kind}_ticks"), ticks));
    let missing = ("stat.cpus".to_string(), "/proc/stat has 4 of 8 lines".to_string());
    Outcome::Finished {
        metrics: metrics.into_iter().map(|(name, value)| (name.to_string(), value)).collect(),
        counters: BTreeMap::from([
            counter("stat.ctxt", rate * idle / 200.0 + 1000.0),
            counter("interrupts.RES", rate * idle / 500.0),
            counter("interrupts.LOC", 250.0 * cpus),
            counter("softirqs.RCU", 77.0 * cpus),
        ])
        .into_iter()
        .chain(host)
        .collect(),
        unavailable: BTreeMap::from_iter((point.cpus == 8).then_some(missing)).into(),
        warmup: match number % 5 {
            0 => Some(Warmup::Until { seconds: 0.12, steady_operations_per_s: rate * 1.03 }),
            1 => None,
            _ => Some(Warmup::Steady),
        },
    }
}

fn samples(point: &Point, outcome: &Outcome) -> Vec<Sample> {
    let Outcome::Finished { metrics, .. } = outcome else {
        return Vec::new();
    };
    let rate = metrics.get("operations_per_s").unwrap();
    let of_task = |task| Sample {
        metric: "task.operations".to_string(),
        task: Some(task),
        at_ns: None,
        value: (rate / f64::from(point.tasks)).floor(),
    };
    let at_half = Sample {
        metric: "interval.operations".to_string(),
        task: None,
        at_ns: Some(500_000_000),
        value: (rate / 2.0).floor(),
    };
    (0..point.tasks).map(of_task).chain([at_half]).collect()
}
