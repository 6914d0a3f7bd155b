//! Who uses CPU time in a run of a command: the command alone, a server and its client, or the client of a
//! server that the user runs. Their times are reported apart, so that none is taken for that of other programs.

use host::descendants::{self, TreeUsage};
use records::{Job, Usage};

use crate::program::{ProgramRun, Served};
use crate::server::RunningServer;

/// The processes that a run is about.
pub enum CpuUsers<'a, 's> {
    /// The command.
    Command,
    /// A server on the CPUs of the job, and the command as its client on these CPUs.
    Server(&'a mut RunningServer<'s>, &'a [u32]),
    /// The command on the CPUs of the job, and a process that the user runs as its server.
    BesideProcess(u32),
}

/// What was used while the command ran.
#[derive(Default)]
pub struct Used {
    /// By the processes that have the CPUs of the job.
    pub usage: Usage,
    /// CPU time of all processes of the run on the CPUs of the job.
    pub on_measured_cpus_us: u64,
    /// Metrics of the other end: its CPU time and its CPUs.
    pub gauges: Vec<(String, f64)>,
}

impl CpuUsers<'_, '_> {
    /// The CPUs that the command runs on.
    pub fn command_cpus(&self, job: &Job) -> Vec<u32> {
        match self {
            CpuUsers::Server(_, cpus) => cpus.to_vec(),
            CpuUsers::Command | CpuUsers::BesideProcess(_) => job.cpus.clone(),
        }
    }

    /// The server to watch while the command runs.
    pub fn served(&mut self) -> Option<Served<'_>> {
        match self {
            CpuUsers::Server(server, _) => Some(server.served()),
            CpuUsers::Command | CpuUsers::BesideProcess(_) => None,
        }
    }

    /// What the server has used so far. The command must not be running.
    pub fn server_usage(&self) -> Result<TreeUsage, String> {
        match self {
            CpuUsers::Command => Ok(TreeUsage::default()),
            CpuUsers::Server(..) => Ok(descendants::usage()),
            CpuUsers::BesideProcess(pid) => {
                let usage = descendants::usage_from(*pid as i32);
                usage.ok_or_else(|| {
                    format!("the server, process {pid}, does not run: give its id anew")
                })
            }
        }
    }

    /// What a run of the command and its server used.
    pub fn used(&self, job: &Job, run: &ProgramRun, server: TreeUsage) -> Used {
        let client_us = run.usage.user_us + run.usage.system_us;
        match self {
            CpuUsers::Command => {
                Used { usage: run.usage, on_measured_cpus_us: client_us, gauges: Vec::new() }
            }
            CpuUsers::BesideProcess(_) => Used {
                usage: run.usage,
                on_measured_cpus_us: client_us,
                gauges: times("server", server.user_us, server.system_us).to_vec(),
            },
            CpuUsers::Server(_, cpus) => {
                let is_shared = cpus.iter().any(|cpu| job.cpus.contains(cpu));
                let own_cpus = if is_shared { 0 } else { cpus.len() };
                let server_us = server.user_us + server.system_us;
                let mut gauges = times("client", run.usage.user_us, run.usage.system_us).to_vec();
                gauges.push(("client.cpus".to_string(), own_cpus as f64));
                let busy = (!is_shared).then(|| busy_percent(run, client_us, cpus.len()));
                gauges.extend(busy.map(|percent| ("client.busy_percent".to_string(), percent)));
                Used {
                    usage: usage(server),
                    on_measured_cpus_us: server_us + if is_shared { client_us } else { 0 },
                    gauges,
                }
            }
        }
    }
}

/// How much of the CPUs that the client can use it used: with fewer threads than CPUs, it leaves some idle.
fn busy_percent(run: &ProgramRun, used_us: u64, cpus: usize) -> f64 {
    let busy_cpus = 1000.0 * used_us as f64 / run.wall_ns.max(1) as f64;
    let threads = run.threads.filter(|threads| busy_cpus <= 1.05 * *threads as f64);
    100.0 * busy_cpus / threads.map_or(cpus, |threads| threads.min(cpus)) as f64
}

fn times(role: &str, user_us: u64, system_us: u64) -> [(String, f64); 3] {
    let metric = |name: &str, us: u64| (format!("{role}.{name}"), us as f64 / 1e6);
    [metric("cpu_s", user_us + system_us), metric("user_s", user_us), metric("system_s", system_us)]
}

/// The parts of a tree's usage that are known.
fn usage(tree: TreeUsage) -> Usage {
    Usage {
        user_us: tree.user_us,
        system_us: tree.system_us,
        minor_faults: tree.minor_faults,
        major_faults: tree.major_faults,
        ..Usage::default()
    }
}
