//! Who uses CPU time in a run of a command: the command alone, a server and its client, or the client of a
//! server that the user runs. Their times are reported apart, so that none is taken for that of other programs.

use host::descendants::{self, TreeUsage};
use records::{CommandJob, Job, RemoteClient, StartedServer, Usage};

use crate::program::{ProgramRun, Served};
use crate::server::RunningServer;

/// The processes that a run is about.
pub enum CpuUsers<'a, 's> {
    /// The command.
    Command,
    /// A server on the CPUs of the job, and the command as its client elsewhere.
    Server(&'a mut RunningServer<'s>, ClientCpus<'a>),
    /// The command on the CPUs of the job, and a process that the user runs as its server.
    BesideProcess(u32),
}

/// The CPUs of a client.
#[derive(Clone, Copy)]
pub enum ClientCpus<'a> {
    /// These of this host.
    Here(&'a [u32]),
    /// All of another host.
    There(&'a RemoteClient),
}

impl<'a> ClientCpus<'a> {
    /// Those of a server's client.
    pub fn of(job: &'a CommandJob, server: &'a StartedServer) -> ClientCpus<'a> {
        match &job.client {
            Some(client) => ClientCpus::There(client),
            None => ClientCpus::Here(&server.client_cpus),
        }
    }

    /// How many it has for itself: none if the server has some of them, too.
    fn own(self, job: &Job) -> Option<usize> {
        let (cpus, is_shared) = match self {
            ClientCpus::Here(cpus) => (cpus.len(), cpus.iter().any(|cpu| job.cpus.contains(cpu))),
            ClientCpus::There(client) => (client.cpus as usize, client.is_here),
        };
        (!is_shared).then_some(cpus)
    }
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
    /// The CPUs of this host that the command runs on.
    pub fn command_cpus(&self, job: &Job) -> Vec<u32> {
        match self {
            CpuUsers::Server(_, ClientCpus::Here(cpus)) => cpus.to_vec(),
            CpuUsers::Server(_, ClientCpus::There(_)) => Vec::new(),
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
                let own_cpus = cpus.own(job);
                let server_us = server.cpu_us();
                let mut gauges = times("client", run.usage.user_us, run.usage.system_us).to_vec();
                let mut add = |name: &str, value| gauges.push((name.to_string(), value));
                add("client.cpus", own_cpus.unwrap_or(0) as f64);
                if let Some(cpus) = own_cpus {
                    add("client.busy_percent", busy_percent(run, client_us, cpus));
                    run.host_busy_percent
                        .iter()
                        .for_each(|busy| add("client.host_busy_percent", *busy));
                }
                Used {
                    usage: usage(server),
                    on_measured_cpus_us: server_us + if own_cpus.is_none() { client_us } else { 0 },
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
