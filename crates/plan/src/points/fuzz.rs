//! Hostile experiments for the planner: it refuses, or gives points that can be run.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use fuzz::fuzz;
use host::{Cpu, Topology};
use records::{Command, Experiment, Point};

use super::{RUNS_MAX, TASKS_MAX, Usable, points};
use crate::commands::{RunId, command_job, for_experiment, values};
use crate::experiments::EXPERIMENTS;
use crate::variants::combined;

/// Every axis, with every kind of value.
const ALL_AXES: &str = "
blocks = 3
seed = 7
latency = true
[axes]
cpus = [1, '1-3', '2..all', 'cores']
as = ['processes', 'threads']
placement = ['compact', 'cores', 'scatter', 'one-per-llc', 'one-per-node']
dir = ['/tmp', '/']
seconds = [0.5, 1]
[[load]]
workload = 'create_files'
parameters = { size_bytes = [0, '4k', '1M'], sync = ['none', 'fsync'], idle_ns = [0, 100] }
axes = { tasks = [1, 2, 64] }
[[load]]
workload = 'posix01'
axes = { tasks_per_cpu = [1, 4], operations_per_task = 100 }
";

/// Two factors of variants with every kind of setting, and an exclusion.
const ALL_VARIANTS: &str = "
[axes]
cpus = [1, 2]
[[load]]
workload = 'posix01'
[compare]
metric = 'task_time_s'
smallest_effect = 0.05
until_decided = true
placebo = 0.1
order = 'grouped'
[[variant]]
name = 'wait'
factor = 'mode'
[[variant]]
name = 'try'
factor = 'mode'
parameters = { mode = 'try' }
as = 'threads'
[[variant]]
name = 'plain'
[[variant]]
name = 'all'
workload = 'flock01'
placement = 'scatter'
dir = '/tmp'
file_system = { kind = 'xfs', mkfs = '-m crc=1', mount = 'noatime' }
environment = { A = 1 }
sysctl = { 'vm.swappiness' = 10 }
under = ['setarch', '-R']
binary = '/bin/true'
[[exclude]]
mode = 'try'
'' = ['all']
";

/// A command with every key, and one that comes with knee.
const ALL_COMMANDS: &str = r#"
[axes]
cpus = [1, 2]
tasks_per_cpu = 2
[[load]]
parameters = { options = ['ag_stride=-1', 'bhash=101073'] }
[load.command]
name = 'xfs_repair'
run = 'xfs_repair -n -o {options} {more...} {scratch}/{{x}} {cpus}'
shell = false
prepare = ['cp master.img {scratch}/image', ['sync', '{dir}']]
cleanup = ['rm {scratch}/image']
directory = '{scratch}'
environment = { A = '{tasks}', B = 2 }
success = [0, 1]
timeout_s = 60
version = 'xfs_repair -V'
primary = 'phase_s'
parameters = { more = '-a "b c"' }
[[load.command.metric]]
name = 'phase_s'
from = 'stderr'
regex = '(\d+) seconds'
[[load.command.metric]]
name = 'iops'
from = 'file:out.json'
json = '/jobs/0/write/iops'
[[load.command.metric]]
name = 'rate'
column = { heading = 'Files/sec', row = 2 }
[load.command.server]
run = 'serve --port {port} {data}'
user = 'nobody'
template = '{dir}/template'
setup = ['touch {data}/x']
ready = { port = '{port}' }
ready_timeout_s = 5
warmup_s = 1
drain_s = 1
stop = 'ask {port} {client_cpus} {client_cpu_list} end'
stop_timeout_s = 1
environment = { A = '{more}' }
[[load]]
workload = 'command:fs_mark'
parameters = { files = [10, 20] }
[[variant]]
name = 'a'
parameters = { options = 'x' }
"#;

#[test]
fn fuzzed_experiments_are_refused_or_planned() {
    let mut examples: Vec<Vec<u8>> =
        EXPERIMENTS.iter().map(|(_, text)| text.as_bytes().to_vec()).collect();
    examples.extend([ALL_AXES, ALL_VARIANTS, ALL_COMMANDS].map(|text| text.as_bytes().to_vec()));
    let hosts = [host(1), host(4), host(64)];
    fuzz(48_000, "cargo test -p plan fuzzed", |fuzzer| {
        let input = fuzzer.damage(&examples);
        let host = fuzzer.pick(&hosts);
        let Ok(experiment) = Experiment::read(&String::from_utf8_lossy(&input)) else {
            return Ok(());
        };
        match combined(&experiment).and_then(|variants| points(&experiment, &variants, host)) {
            Ok(points) => match for_experiment(&experiment, &experiment.variants) {
                Ok(commands) => check(&experiment, &commands, &points, host),
                Err(_) => Ok(()),
            },
            Err(error) if format!("{error:#}").is_empty() => Err("refused without a word".into()),
            Err(_) => Ok(()),
        }
    });
}

fn host(cpus: u32) -> Usable {
    let cpu = |cpu| Cpu { cpu, core: cpu & !1, llc: cpu / 8, node: cpu / 64, package: cpu / 64 };
    Usable {
        topology: Topology { cpus: (0..cpus).map(cpu).collect() },
        at_once: None,
        directory: |path| Ok(path.to_path_buf()),
        without_history: None,
    }
}

fn check(
    experiment: &Experiment,
    commands: &BTreeMap<String, Command>,
    points: &[Point],
    host: &Usable,
) -> Result<(), String> {
    let runs = points.len() * experiment.blocks() as usize;
    if runs > RUNS_MAX {
        return Err(format!("{runs} runs were planned"));
    }
    for point in points {
        let cpus: BTreeSet<u32> = point.cpu_list.iter().copied().collect();
        let can_be_run = cpus.len() == point.cpus as usize
            && cpus.len() == point.cpu_list.len()
            && cpus.last().is_some_and(|last| (*last as usize) < host.topology.cpus.len())
            && (1..=TASKS_MAX).contains(&point.tasks)
            && (point.command.is_some() || point.until.check().is_ok());
        if !can_be_run {
            return Err(format!("cannot be run: {point:?}"));
        }
        if let Some(command) = commands.get(&point.workload).filter(|_| point.command.is_some()) {
            // A command is refused or filled before anything runs.
            let filled = command_job(
                command,
                &values(point, &host.topology, Path::new("/scratch"), RunId::default()),
                Path::new("/scratch"),
            );
            if let Some(Err(why)) = filled.ok().map(|job| job.check()) {
                return Err(format!("made what a worker refuses: {why:#}"));
            }
        }
    }
    Ok(())
}
