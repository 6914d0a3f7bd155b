//! A command as the load: prepared, run on its CPUs, measured from outside and cleaned up after. Its
//! numbers are read from its output, and every process that it started is dead before the run is over. If it has a
//! server, that is started first and ended last.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use host::clock::now_ns;
use host::descendants::{self, TreeUsage};
use host::marks::Marks;
use probes::counters::Snapshot;
use probes::{AllocationCounter, CountFrom, Passes};
use records::{
    CommandJob, Event, Job, Measured, OperationCount, OutputSource, ServerJob, StartedServer,
    Warning,
};

use crate::client::Client;
use crate::cpu_users::{ClientCpus, CpuUsers, Used};
use crate::output::KeptOutput;
use crate::priority::{self, SchedulingPolicy};
use crate::profiler::Profiler;
use crate::program::{
    HelperError, INTERRUPTED, ProgramEnd, ProgramRun, TerminationSignals, described,
    with_last_words,
};
use crate::server::RunningServer;
use crate::{allocations, daemon, say, usage};

/// A file that numbers are read from is read up to this size.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How long each line of the cleanup may take after a signal to end.
const HURRIED_CLEANUP: Duration = Duration::from_secs(10);

const SERVER_ENDED: &str = "the server ended while its client ran";

/// Runs the command of a job and prints its events, from `ready` to `ended`.
pub fn run(job: &Job, command_job: &CommandJob, started_ns: u64) -> Result<(), String> {
    let signals = TerminationSignals::block()?;
    descendants::adopt();
    let context = CommandRun { job, command_job, signals: &signals, started_ns };
    let result = match &command_job.server {
        Some(ServerJob::Start(server)) => run_with_server(&context, server),
        Some(ServerJob::Running(pid)) => run_alone(&context, CpuUsers::BesideProcess(*pid)),
        None => run_alone(&context, CpuUsers::Command),
    };
    let none = BTreeSet::new();
    let killed = descendants::kill(&none).map_err(|why| format!("after the command, {why}"));
    let events = result?;
    killed?;
    events.iter().for_each(say);
    Ok(())
}

/// A command that is run for a job.
struct CommandRun<'a> {
    job: &'a Job,
    command_job: &'a CommandJob,
    signals: &'a TerminationSignals,
    started_ns: u64,
}

/// Runs the command where the worker starts no server. Returns its events.
fn run_alone(context: &CommandRun, cpu_users: CpuUsers) -> Result<Vec<Event>, String> {
    let mut client = Client::Here;
    let result = prepare(context, &mut client)
        .and_then(|()| run_and_measure(context, &mut client, cpu_users, None));
    clean(context, &mut client, &result);
    result
}

/// Starts the server, runs the command as its client, and ends the server whatever happened. Returns their
/// events.
fn run_with_server(context: &CommandRun, server: &StartedServer) -> Result<Vec<Event>, String> {
    let CommandRun { job, command_job, signals, .. } = *context;
    // Before the server, so that it is marked as a part of the workload.
    let profiler = Profiler::begin(job);
    let mut running = RunningServer::start("server", server, &job.cpus, profiler.marker(), signals);
    let mut client = Client::Here;
    let result = match &mut running {
        Ok(running) => Client::open(command_job, signals).and_then(|opened| {
            client = opened;
            ask_server(context, &mut client, server, running, profiler)
        }),
        Err(why) => Err(why.clone()),
    };
    // On another host first, since nobody keeps its connection alive while the server is stopped.
    if matches!(client, Client::There(_)) {
        clean(context, &mut client, &result);
        client = Client::Here;
    }
    let result = match running {
        Ok(running) => end_server(context, running, result),
        Err(why) => Err(why),
    };
    if command_job.client.is_none() {
        clean(context, &mut client, &result);
    }
    result
}

/// Prepares and runs the command as the client of a server. Returns its events.
fn ask_server(
    context: &CommandRun,
    client: &mut Client,
    server: &StartedServer,
    running: &mut RunningServer,
    mut profiler: Profiler,
) -> Result<Vec<Event>, String> {
    prepare(context, client)?;
    warm_up(context, client, server, running, &mut profiler)?;
    let cpu_users = CpuUsers::Server(running, ClientCpus::of(context.command_job, server));
    run_and_measure(context, client, cpu_users, Some(profiler))
}

/// Ends the server, and adds what it says to the result of its client.
fn end_server(
    context: &CommandRun,
    running: RunningServer,
    result: Result<Vec<Event>, String>,
) -> Result<Vec<Event>, String> {
    let result = match (result, running.check_alive()) {
        (Err(why), _) if why == INTERRUPTED => Err(why),
        (_, Err(why)) => Err(why),
        (Err(why), Ok(())) => Err(running.with_last_words(why)),
        (Ok(events), Ok(())) => Ok(events),
    };
    let interrupted = result.as_ref().is_err_and(|why| why == INTERRUPTED);
    let complaint = running.stop(interrupted, context.signals);
    result.map(|events| [events, complaint.into_iter().map(Event::Warning).collect()].concat())
}

/// Runs the client until its server is warm.
fn warm_up(
    context: &CommandRun,
    client: &mut Client,
    server: &StartedServer,
    running: &mut RunningServer,
    profiler: &mut Profiler,
) -> Result<(), String> {
    if server.warmup_s == 0.0 {
        return Ok(());
    }
    let CommandRun { command_job, signals, .. } = *context;
    let spared = descendants::present();
    let job = CommandJob { timeout_s: server.warmup_s, ..command_job.clone() };
    let placed = (&server.client_cpus[..], SchedulingPolicy::current());
    let run = client.run_measured(&job, placed, signals, profiler, Some(running.served()))?;
    let killed = descendants::kill(&spared);
    if !matches!(run.end, ProgramEnd::TimedOut) {
        accepted_status(&job, &run).map_err(|why| format!("warming up: {why}"))?;
    }
    killed.map_err(|why| format!("after the warm-up, {why}"))
}

fn timeout(command_job: &CommandJob) -> Duration {
    Duration::from_secs_f64(command_job.timeout_s)
}

fn prepare(context: &CommandRun, client: &mut Client) -> Result<(), String> {
    let CommandRun { command_job, signals, .. } = *context;
    for words in &command_job.prepare {
        let limit = timeout(command_job);
        let done = client.run_helper(words, &command_job.into(), limit, Some(signals));
        done.map_err(|error| match error {
            HelperError::Failed(why) => format!("preparing the run: {why}"),
            HelperError::Interrupted => INTERRUPTED.to_string(),
        })?;
    }
    Ok(())
}

/// Undoes what was prepared. A failure is only a warning: the run has its numbers all the same.
fn clean(context: &CommandRun, client: &mut Client, result: &Result<Vec<Event>, String>) {
    let command_job = context.command_job;
    let interrupted = result.as_ref().is_err_and(|why| why == INTERRUPTED);
    let timeout = timeout(command_job);
    let timeout = if interrupted { HURRIED_CLEANUP.min(timeout) } else { timeout };
    for words in &command_job.cleanup {
        let cleaned = client.run_helper(words, &command_job.into(), timeout, None);
        if let Err(HelperError::Failed(why)) = cleaned {
            let advice = "check the cleanup of the command: later runs may not start alike";
            say(&Event::Warning(Warning::new(format!("cleaning up: {why}"), advice)));
        }
    }
}

/// Begins to count where a program passes, if its operations are counted so.
fn passes(command_job: &CommandJob, cpus: &[u32]) -> Result<Option<Passes>, String> {
    match &command_job.operations {
        Some(OperationCount::Passes { file, probe }) => Passes::begin(file, probe, cpus).map(Some),
        _ => Ok(None),
    }
}

/// Runs the command itself. Returns its events, to print when its processes are gone. Without a `profiler`, one is
/// begun if the job asks for it.
fn run_and_measure(
    context: &CommandRun,
    client: &mut Client,
    mut cpu_users: CpuUsers,
    profiler: Option<Profiler>,
) -> Result<Vec<Event>, String> {
    let CommandRun { job, command_job, signals, started_ns } = *context;
    // Servers live until they are stopped, and those that the preparation started until the cleanup.
    let prepared = descendants::present();
    let policy = SchedulingPolicy::current();
    priority::raise();
    say(&Event::Ready { tasks: 1, startup_s: (now_ns() - started_ns) as f64 / 1e9 });
    let root = Path::new("/");
    let mut profiler = profiler.unwrap_or_else(|| Profiler::begin(job));
    let mut passes = passes(command_job, &job.cpus)?;
    let allocations = job.allocations.then(|| AllocationCounter::new(CountFrom::Execution));
    let [server_before, connection_before] = usage_of_ends(&cpu_users, client)?;
    let own_before = usage::process();
    let daemon_before = daemon::usage(job);
    let before = Snapshot::before(root, &job.cpus);
    profiler.edge_of_command(0)?;
    let marks = job.traced.then(Marks::arm).transpose();
    let marks = marks.map_err(|e| format!("mapping the page of marks: {e}"))?;
    marks.into_iter().for_each(Marks::program);
    let cpus = cpu_users.command_cpus(job);
    let served = cpu_users.served();
    let run = client.run_measured(command_job, (&cpus[..], policy), signals, &mut profiler, served);
    marks.into_iter().for_each(|marks| marks.window(0));
    let [by_server, connection] = usage_of_ends(&cpu_users, client)?;
    let by_server = by_server.since(server_before);
    let used =
        run.as_ref().map_or_else(|_| Used::default(), |run| cpu_users.used(job, run, by_server));
    profiler.edge_of_command(used.on_measured_cpus_us)?;
    let after = Snapshot::after(root, &job.cpus);
    let daemon = daemon::gauges(daemon_before, daemon::usage(job));
    let own = usage::between(&own_before, &usage::process());
    let _ = policy.apply();
    let killed = descendants::kill(&prepared);
    let run = run?;
    let status = accepted_status(command_job, &run)?;
    killed.map_err(|why| format!("after the command, {why}"))?;
    let counters = after.since(&before);
    let Numbers { values, units, missing, warnings } = read_numbers(command_job, &run);
    let mut measured = Measured {
        wall_ns: run.wall_ns,
        drain_ns: None,
        usage: used.usage,
        worker_us: own.user_us + own.system_us + connection.since(connection_before).cpu_us(),
        deltas: counters.deltas,
        gauges: counters.gauges.into_iter().chain(used.gauges).chain(daemon).collect(),
        unavailable: counters.unavailable,
    };
    if let Some(counter) = allocations {
        let counts = counter.and_then(|counter| counter.counts());
        allocations::put(&mut measured, counts);
    }
    let mut events = vec![Event::Measured(measured)];
    let passes = passes.as_mut().map(Passes::count).transpose()?;
    let operations = command_job.operations.as_ref().map(|count| count.of_run(&values, passes));
    // The run is the operation, unless its operations are counted; 0 if their number is not known.
    events.extend(profiler.end(operations.map_or(1, Option::unwrap_or_default)));
    events.extend(warnings.into_iter().map(Event::Warning));
    let exit_status = status.code().unwrap_or_default();
    let operations = operations.flatten();
    events.push(Event::Ended { exit_status, values, units, missing, operations });
    Ok(events)
}

/// What the server, and a connection to its client's host, have used of this host so far.
fn usage_of_ends(cpu_users: &CpuUsers, client: &Client) -> Result<[TreeUsage; 2], String> {
    let connection = client.connection_usage();
    Ok([cpu_users.server_usage()?.since(connection), connection])
}

/// The exit status of the command, if it is one of those that mean success.
fn accepted_status(command_job: &CommandJob, run: &ProgramRun) -> Result<ExitStatus, String> {
    let name = &command_job.run[0];
    let last_words = || match run.stderr.last_words() {
        words if words.is_empty() => run.stdout.last_words(),
        words => words,
    };
    let success = &command_job.success;
    let why = match run.end {
        ProgramEnd::Exited(status) if status.code().is_some_and(|code| success.accepts(code)) => {
            return Ok(status);
        }
        ProgramEnd::Exited(status) => described(status),
        ProgramEnd::TimedOut => {
            format!("took longer than {} s and was killed", command_job.timeout_s)
        }
        ProgramEnd::Interrupted => return Err(INTERRUPTED.to_string()),
        ProgramEnd::ServerEnded => return Err(SERVER_ENDED.to_string()),
    };
    Err(with_last_words(&format!("{name} {why}"), &last_words()))
}

/// What was found in a command's output and files.
#[derive(Default)]
struct Numbers {
    values: BTreeMap<String, f64>,
    /// Units that stand at numbers whose metrics have none.
    units: BTreeMap<String, String>,
    /// Why other numbers are missing.
    missing: BTreeMap<String, String>,
    /// About the texts.
    warnings: Vec<Warning>,
}

fn read_numbers(command_job: &CommandJob, run: &ProgramRun) -> Numbers {
    let mut numbers = Numbers::default();
    let mut texts: BTreeMap<&OutputSource, Result<String, String>> = BTreeMap::new();
    for extract in &command_job.metrics {
        let warnings = &mut numbers.warnings;
        let text = texts.entry(&extract.from).or_insert_with(|| match &extract.from {
            OutputSource::Stdout => Ok(whole(&run.stdout, "standard output", warnings)),
            OutputSource::Stderr => Ok(whole(&run.stderr, "standard error", warnings)),
            OutputSource::File(path) => read_file(path),
        });
        let found = match text {
            Ok(text) => extract.quantity(text),
            Err(why) => Err(format!("{why}, so {} is missing", extract.name)),
        };
        let name = extract.name.clone();
        match found {
            Ok(found) => {
                if !found.unit.is_empty() && found.unit != extract.unit {
                    numbers.units.insert(name.clone(), found.unit);
                }
                numbers.values.insert(name, found.value);
            }
            Err(why) => drop(numbers.missing.insert(name, why)),
        }
    }
    numbers
}

fn whole(kept: &KeptOutput, what: &str, warnings: &mut Vec<Warning>) -> String {
    if kept.lost() > 0 {
        warnings.push(Warning::new(
            format!(
                "{} MiB in the middle of the command's {what} were not searched for metrics",
                kept.lost() >> 20
            ),
            "let the command write less, or write to a file",
        ));
    }
    kept.text()
}

fn read_file(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    // Not a pipe or a device, which might have no end or make us wait.
    let is_file = std::fs::metadata(path).map_err(|e| format!("reading {path}: {e}"))?.is_file();
    if !is_file {
        return Err(format!("{path} is not a regular file"));
    }
    let read = File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|e| format!("reading {path}: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
