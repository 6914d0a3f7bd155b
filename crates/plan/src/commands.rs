//! Commands: any existing program as a load. The definitions that come with knee, which definition a load
//! means, and what a definition becomes for a point and for a run.
//! docs/guide/commands.md is the page for users.

mod command_job;
mod placeholders;
mod remote_client;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::unknown;
use records::{
    Command, CommandLine, DescribedMetric, Experiment, Extract, Load, LoadWork, Obtained, Point,
    Record, Scalar, Variant,
};

pub use self::command_job::{RunId, command_job, copy_of_image, values, with_port};
pub use self::placeholders::{IMAGE, Values, check, split, uses, words};
pub use self::remote_client::{check_remote, client_on, with_client};

macro_rules! commands {
    ($($name:literal,)*) => {
        /// The commands that come with knee, by name: the files of `commands/`.
        pub const COMMANDS: &[(&str, &str)] = &[$(
            ($name, include_str!(concat!("../../../commands/", $name, ".toml"))),
        )*];
    };
}

commands! {
    "dbench",
    "e2fsck",
    "fio",
    "fs_mark",
    "hackbench",
    "iperf3",
    "kernel_build",
    "lmbench_bw",
    "lmbench_lat",
    "locktorture",
    "mcperf",
    "memcached",
    "memtier_memcached",
    "memtier_redis",
    "netperf_rr",
    "netperf_stream",
    "nginx",
    "perf_epoll_wait",
    "perf_futex_hash",
    "perf_futex_lock_pi",
    "perf_futex_requeue",
    "perf_futex_wake",
    "perf_mem_memcpy",
    "perf_sched_messaging",
    "perf_sched_pipe",
    "perf_syscall",
    "postgresql",
    "rcuscale",
    "redis",
    "schbench",
    "sockperf",
    "stress-ng",
    "sysbench",
    "sysbench_oltp",
    "tbench",
    "test_vmalloc",
    "unixbench",
    "usemem",
    "xfs_repair",
}

/// The prefix of a command that comes with knee: some have the name of a workload.
pub const PREFIX: &str = "command:";

/// The key of the server's line in points: with another server, the same client measures something else.
pub(crate) const SERVER: &str = "server";

pub(crate) use self::remote_client::CLIENT_ON;

/// What points have in place of the line of a server that the user runs.
pub(crate) const RUNS_ALREADY: &str = "runs already";

/// The text of a command that comes with knee.
pub fn built_in(name: &str) -> Option<&'static str> {
    let name = name.strip_prefix(PREFIX).unwrap_or(name);
    COMMANDS.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The definition of a command that comes with knee.
pub fn read(name: &str) -> Result<Command> {
    let bare = name.strip_prefix(PREFIX).unwrap_or(name);
    let Some(text) = built_in(bare) else {
        let known = COMMANDS.iter().map(|(known, _)| *known);
        bail!("{}", unknown("command that comes with knee", bare, known, "knee list commands"));
    };
    // As a load, so that its keys are checked as those of an experiment are.
    let whole = format!("[[load]]\n[load.command]\nname = '{bare}'\n{text}");
    let experiment = Experiment::read(&whole).with_context(|| format!("in the command {bare}"))?;
    let command = experiment.loads.into_iter().next().and_then(|load| load.command().cloned());
    command.with_context(|| format!("the command {bare} is empty"))
}

/// The definition that a load means, with its name; `None` if the load is a workload of knee.
pub fn for_load(load: &Load) -> Result<Option<Command>> {
    let command = match &load.work {
        LoadWork::Workload(name) if name.starts_with(PREFIX) => return read(name).map(Some),
        LoadWork::Workload(_) | LoadWork::Own(_) => return Ok(None),
        LoadWork::Command(command) => command,
    };
    let name =
        if command.name.is_empty() { program_name(&command.run)? } else { command.name.clone() };
    ensure!(
        workloads::WORKLOADS.iter().all(|workload| workload.name != name),
        "the command has the name of knee's workload {name}: give it another `name`"
    );
    Ok(Some(Command { name, ..(**command).clone() }))
}

/// The metric that a pattern of `--operations-from` or `--value` means ([`records::pattern`]).
pub fn operations_from(pattern: &str) -> Result<Extract> {
    let extract = records::pattern::extract(pattern).map_err(anyhow::Error::msg);
    let extract = extract.with_context(|| format!("the pattern '{pattern}'"))?;
    Ok(Extract { name: "operations_reported".to_string(), ..extract })
}

/// Several command lines as the variants of one load, named after their programs, or `before` and
/// `after` where these have one name.
pub fn alternatives(lines: &[String]) -> Result<(String, Vec<Variant>)> {
    const LINE: &str = "command";
    let name = |line: &String| program_name(&CommandLine::Text(line.clone()));
    let mut names = lines.iter().map(name).collect::<Result<Vec<String>>>()?;
    if names.iter().collect::<BTreeSet<_>>().len() < names.len() {
        names = match lines.len() {
            2 => vec!["before".to_string(), "after".to_string()],
            n => (1..=n).map(|number| format!("command-{number}")).collect(),
        };
    }
    let variant = |(name, line): (String, &String)| Variant {
        name,
        parameters: BTreeMap::from([(LINE.to_string(), Scalar(line.clone()))]),
        ..Variant::default()
    };
    Ok((format!("{{{LINE}...}}"), names.into_iter().zip(lines).map(variant).collect()))
}

/// The file name of the program.
fn program_name(run: &CommandLine) -> Result<String> {
    let words = placeholders::split(run)?;
    let program = words.first().map(String::as_str).unwrap_or_default();
    let name = Path::new(program).file_name().unwrap_or_default().to_string_lossy();
    let plain = |c: char| !c.is_control() && !",{}".contains(c);
    let name = name.replace("...}", "}");
    Ok(name.chars().filter(|c| plain(*c)).take(100).collect())
}

/// The definitions that the loads of an experiment mean in its variants, by name.
pub fn for_experiment(
    experiment: &Experiment,
    variants: &[Variant],
) -> Result<BTreeMap<String, Command>> {
    let mut commands: BTreeMap<String, Command> = BTreeMap::new();
    let plain = [Variant::default()];
    let variants = if variants.is_empty() { &plain[..] } else { variants };
    for load in &experiment.loads {
        for variant in variants {
            let (load, _) = variant.apply(load, &load.axes);
            let Some(command) = for_load(&load)? else { continue };
            let known = commands.entry(command.name.clone()).or_insert_with(|| command.clone());
            ensure!(
                *known == command,
                "two different commands are called {}: give one of them another `name`",
                command.name
            );
        }
    }
    Ok(commands)
}

/// Unit and direction of the metrics that the commands of a record yield.
pub fn described(
    commands: &BTreeMap<String, Command>,
) -> Result<BTreeMap<String, DescribedMetric>> {
    let mut metrics: BTreeMap<String, DescribedMetric> = BTreeMap::new();
    for extract in commands.values().flat_map(|command| &command.metrics) {
        let described = DescribedMetric {
            unit: extract.unit.clone(),
            better: extract.better,
            obtained: Obtained::Imported,
            kind: extract.kind,
        };
        let known = metrics.entry(extract.name.clone()).or_insert_with(|| described.clone());
        ensure!(
            *known == described,
            "two commands have a metric {} with different units, directions or kinds: rename one",
            extract.name
        );
    }
    Ok(metrics)
}

/// The directories of the points that need a copy of the experiment's image.
pub fn image_directories(record: &Record) -> Vec<PathBuf> {
    let mut directories: Vec<PathBuf> = Vec::new();
    for point in record.points.iter().filter(|point| needs_image(record, point)) {
        let is_new = !directories.contains(&point.dir);
        directories.extend(is_new.then(|| point.dir.clone()));
    }
    directories
}

/// Whether the runs of a point get a copy of the experiment's image.
pub fn needs_image(record: &Record, point: &Point) -> bool {
    let command = || record.command(point).ok().flatten();
    record.experiment.image.is_some()
        && command().is_some_and(|command| uses(command).contains(IMAGE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_listed_and_reads() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../commands");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        files.sort();
        let listed: Vec<String> = COMMANDS.iter().map(|(n, _)| format!("{n}.toml")).collect();
        assert_eq!(files, listed);
        for (name, _) in COMMANDS {
            let command = read(name).unwrap();
            assert_eq!(command.name, *name);
            assert!(!command.description.is_empty(), "{name} has no description");
            // What has no default is to be given.
            let always = |name: &String| {
                let of_servers = placeholders::OF_CLIENTS.iter().chain(&placeholders::OF_SERVERS);
                placeholders::ALWAYS.iter().chain(of_servers).any(|(n, _)| n == name)
            };
            let all: Vec<String> = uses(&command).into_iter().filter(|n| !always(n)).collect();
            assert!(command.parameters.keys().all(|name| all.contains(name)), "{name}");
            check(&command, all.iter(), false).unwrap();
            let primary = command.primary();
            let is_counted = command.operations.is_some() && primary == records::RATE;
            let known = primary == records::WALL
                || is_counted
                || command.metrics.iter().any(|extract| extract.name == primary);
            assert!(known, "{name} decides by {primary}, which it does not yield");
        }
    }

    #[test]
    fn a_command_is_called_like_its_program() {
        let check = |run: &str, expected: &str| {
            let command = Command { run: CommandLine::Text(run.to_string()), ..Command::default() };
            let name = match for_load(&Load::new(command)) {
                Ok(command) => command.unwrap().name,
                Err(error) => format!("{error:#}"),
            };
            assert_eq!(name, expected);
        };
        check("sleep 0.1", "sleep");
        check("'/opt/a b/sort' -u x", "sort");
        check("{program} x", "program");
        check("sleep 'a", "'sleep 'a' has an unclosed quote or ends with a backslash");
        check(
            "/bin/stat x",
            "the command has the name of knee's workload stat: give it another `name`",
        );
    }
}
