//! A command's definition with the values of one point and one run put in, as the worker gets it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use host::executables::find_program;
use host::{Cpu, Topology};
use records::{
    Command, CommandJob, CommandLine, Extract, OperationCount, OutputSource, Point, ProgramProbe,
    Readiness, Scalar, Server, ServerJob, StartedServer, Stop, stop,
};

use super::placeholders::{IMAGE, Values, fill, words};
use super::remote_client::{ADDRESS, client_values};
use super::{RUNS_ALREADY, SERVER};

/// Identifies one run of a record, with the seed that makes its random choices repeatable.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunId {
    /// The number of its block.
    pub block: u32,
    /// Its number in the record.
    pub run: u32,
    /// The record's seed.
    pub seed: u64,
}

/// The path of a run's copy of the experiment's image.
pub fn copy_of_image(scratch: &Path) -> PathBuf {
    scratch.with_file_name(IMAGE)
}

/// The job of the worker in one run, with the values of all placeholders, and its client on this host.
pub fn command_job(command: &Command, values: &Values, scratch: &Path) -> Result<CommandJob> {
    let lines = |lines: &[CommandLine]| -> Result<Vec<Vec<String>>> {
        lines.iter().map(|line| words(line, command.shell, values)).collect()
    };
    let directory = match &command.directory {
        Some(text) => scratch.join(fill(text, values)?),
        None => scratch.to_path_buf(),
    };
    let extract = |extract: &Extract| -> Result<Extract> {
        let from = match &extract.from {
            OutputSource::File(path) => {
                let path = directory.join(fill(path, values)?);
                OutputSource::File(path.to_string_lossy().into_owned())
            }
            from => from.clone(),
        };
        Ok(Extract { from, ..extract.clone() })
    };
    let run_words = words(&command.run, command.shell, values)?;
    let environment = command.environment.iter();
    let environment = environment.map(|(name, word)| Ok((name.clone(), fill(&word.0, values)?)));
    let operations = command.operations.as_ref().map(|text| -> Result<OperationCount> {
        let text = fill(&text.0, values)?;
        if ProgramProbe::is_meant(&text) {
            return passes(ProgramProbe::parse(&text)?, &run_words[0]);
        }
        Ok(match text.parse() {
            Ok(n) => OperationCount::Number(n),
            Err(_) => OperationCount::Metric(text),
        })
    });
    Ok(CommandJob {
        operations: operations.transpose()?,
        server: command.server.as_ref().map(|server| server_job(server, values)).transpose()?,
        client: None,
        run: run_words.clone(),
        prepare: lines(&command.prepare)?,
        cleanup: lines(&command.cleanup)?,
        environment: environment.collect::<Result<_>>()?,
        success: command.success.clone(),
        timeout_s: command.timeout_s,
        metrics: command.metrics.iter().map(extract).collect::<Result<_>>()?,
        directory,
    })
}

/// The server of a run, with the values of all placeholders.
fn server_job(server: &Server, values: &Values) -> Result<ServerJob> {
    if let Some(pid) = server.pid {
        return Ok(ServerJob::Running(pid));
    }
    let value = |name: &str| {
        values
            .get(name)
            .with_context(|| format!("a server cannot be started here: {{{name}}} is unknown"))
    };
    let line = |line: &CommandLine| words(line, false, values);
    let command = |text: &CommandLine| line(text).map(CommandLine::Words);
    let ready = match server.ready.as_ref().context("nothing says when the server is ready")? {
        Readiness::Port(port) => Readiness::Port(Scalar(fill(&port.0, values)?)),
        Readiness::Line(pattern) => Readiness::Line(pattern.clone()),
        Readiness::File(path) => Readiness::File(fill(path, values)?),
        Readiness::Command(text) => Readiness::Command(command(text)?),
        Readiness::AliveMs(ms) => Readiness::AliveMs(*ms),
    };
    let stop = match stop(&server.stop)? {
        Stop::Signal(_) => server.stop.clone(),
        Stop::Command(text) => command(text)?,
    };
    let environment = server.environment.iter();
    let environment = environment.map(|(name, word)| Ok((name.clone(), fill(&word.0, values)?)));
    let cpu = |text: &str| Ok(text.parse()?);
    let client_cpus = match server.client_on {
        Some(_) => Vec::new(),
        None => value(CLIENT_CPU_LIST)?.split(',').map(cpu).collect::<Result<_>>()?,
    };
    let template = server.template.as_ref().map(|path| fill(path, values)).transpose()?;
    Ok(ServerJob::Start(Box::new(StartedServer {
        run: line(&server.run)?,
        data: value(DATA)?.into(),
        template: template.map(PathBuf::from),
        user: server.user.clone(),
        setup: server.setup.iter().map(line).collect::<Result<_>>()?,
        ready,
        ready_timeout_s: server.ready_timeout_s,
        warmup_s: server.warmup_s,
        drain_s: server.drain_s,
        stop,
        stop_timeout_s: server.stop_timeout_s,
        environment: environment.collect::<Result<_>>()?,
        address: value(ADDRESS)?.clone(),
        client_cpus,
    })))
}

/// The CPUs of the client while the server has those of the point: the other ones, without hardware
/// threads of the server's cores unless there are no others. Those of the point, if the server has all, or runs
/// wherever the user started it.
fn client_cpus(point: &Point, topology: &Topology) -> Vec<u32> {
    let is_of_server = |cpu: &&Cpu| point.cpu_list.contains(&cpu.cpu);
    let cores: Vec<u32> = topology.cpus.iter().filter(is_of_server).map(|cpu| cpu.core).collect();
    let others = || topology.cpus.iter().filter(|cpu| !is_of_server(cpu));
    let apart: Vec<&Cpu> = others().filter(|cpu| !cores.contains(&cpu.core)).collect();
    let is_elsewhere = point.other.get(SERVER).is_some_and(|line| line == RUNS_ALREADY);
    let cpus = if is_elsewhere {
        Vec::new()
    } else if apart.is_empty() {
        others().collect()
    } else {
        apart
    };
    match cpus[..] {
        [] => point.cpu_list.clone(),
        _ => cpus.into_iter().map(|cpu| cpu.cpu).collect(),
    }
}

/// Counts passes of a probe, in the program that is run unless the probe names another.
fn passes(probe: ProgramProbe, program: &str) -> Result<OperationCount> {
    let program = probe.program.as_deref().unwrap_or(program);
    let file = file_of(program)
        .with_context(|| format!("counting operations by {probe}: no file {program} is found"))?;
    Ok(OperationCount::Passes { file, probe: Box::new(probe) })
}

/// The file of a program, without links.
fn file_of(program: &str) -> Option<PathBuf> {
    find_program(program)?.canonicalize().ok()
}

const PORT: &str = "port";
const DATA: &str = "data";
const CLIENT_CPU_LIST: &str = "client_cpu_list";

/// The values with a port in the place of `{port}`, which is chosen when a run begins.
pub fn with_port(mut values: Values, port: u16) -> Values {
    values.insert(PORT.to_string(), port.to_string());
    values
}

/// The values of all placeholders in a run on a host with these CPUs.
pub fn values(point: &Point, topology: &Topology, scratch: &Path, run: RunId) -> Values {
    let list = |cpus: &[u32]| cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
    let client_cpus = client_cpus(point, topology);
    let always = [
        ("cpus", point.cpus.to_string()),
        ("tasks", point.tasks.to_string()),
        ("cpu_list", list(&point.cpu_list)),
        (CLIENT_CPU_LIST, list(&client_cpus)),
        (PORT, format!("{{{PORT}}}")),
        (DATA, scratch.join(DATA).display().to_string()),
        ("dir", point.dir.display().to_string()),
        ("scratch", scratch.display().to_string()),
        ("block", run.block.to_string()),
        ("run", run.run.to_string()),
        (IMAGE, copy_of_image(scratch).display().to_string()),
        // Many programs read a seed into a signed number of 32 bits.
        ("seed", (run.seed.wrapping_add(run.block as u64) % (1 << 31)).to_string()),
    ];
    let of_client = client_values(point, client_cpus.len());
    let always = always.into_iter().chain(of_client);
    let always = always.map(|(name, value)| (name.to_string(), value));
    always.chain(point.parameters.clone()).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use host::Placement;
    use records::{Form, Pass, Until};

    use super::*;

    /// Two hardware threads for each of two cores.
    fn topology() -> Topology {
        let cpu = |cpu| Cpu { cpu, core: cpu & !1, llc: 0, node: 0, package: 0 };
        Topology { cpus: (0..4).map(cpu).collect() }
    }

    fn check(server: &[u32], line: &str, client: &[u32]) {
        let point = Point {
            workload: "ask".into(),
            semantics: 0,
            parameters: BTreeMap::new(),
            form: Form::Processes,
            cpus: server.len() as u32,
            placement: Placement::Cores,
            cpu_list: server.to_vec(),
            tasks: 1,
            until: Until::End,
            pass: Pass::Rate,
            dir: "/tmp".into(),
            variant: String::new(),
            cell: None,
            command: Some("ask".into()),
            other: [(SERVER.to_string(), line.into())].into(),
        };
        assert_eq!(client_cpus(&point, &topology()), client, "{server:?} {line}");
    }

    #[test]
    fn a_client_gets_cores_of_its_own_then_threads_then_the_servers_cpus() {
        check(&[0], "serve", &[2, 3]);
        check(&[0, 2], "serve", &[1, 3]);
        check(&[0, 1, 2, 3], "serve", &[0, 1, 2, 3]);
        check(&[0, 1], RUNS_ALREADY, &[0, 1]);
    }
}
