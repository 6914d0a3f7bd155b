//! `knee simulate`: runs algorithms on a described host, in virtual time.

mod compared;
pub mod page;
pub mod tables;

use std::path::Path;
use std::process::ExitCode;

use algorithms::locks::LOCKS;
use algorithms::mechanisms::{ListedMechanism, MECHANISMS};
use answers::{
    AlgorithmCurves, AlgorithmPoint, NativeAgreement, NativeAgreements, PlacementRatio,
    SimulatedAlgorithm, SimulatedLoad, SimulatedRatio,
};
use anyhow::{Context, Result, bail, ensure};
use calibration::native_check::{self, Agreement, Agreements};
use described_hosts::DescribedHost;
use engines::simulated::{NS, Noise, Preemption, Time};
use host::terminal::{hint, print};
use host::topology::{self, points};
use host::{Placement, in_parallel, nearest, unknown};
use pages::{View, ViewFlags};
use records::parse;
use studies::checks::refuse_faulty;
use studies::simulations::{
    self, Conditions, LINES_MAX, LOCKS_MAX, LockLoad, RateRatio, SimulatedCurve, SimulatedPoint,
    Variation,
};
use studies::{MechanismDesign, Subject};
use text::prose::counted;
use text::quantity::duration_ns as duration_text;

use crate::c_files::{self, CompilerFlags};
use compared::{Comparison, compare};

/// What to simulate, and whether to ask first.
#[derive(clap::Args)]
pub struct SimulateArguments {
    #[command(flatten)]
    what: Arguments,
    #[command(flatten)]
    view: ViewFlags,
    /// Compile and run what files of others decide without asking (`knee help safety`)
    #[arg(long, hide_short_help = true)]
    yes: bool,
}

/// What to simulate, and on which host model.
#[derive(clap::Args)]
pub struct Arguments {
    /// Locks, `all` locks, mechanisms, or files with a lock in C
    ///
    /// A file my_lock.c includes knee_lock.h (see `knee show knee_lock.h`).
    /// A mechanism is simulated in all its designs, or in one, as in `file_locks:after` (see `knee list
    /// algorithms`).
    #[arg(required = true, value_delimiter = ',')]
    names: Vec<String>,
    #[command(flatten)]
    flags: CompilerFlags,
    /// Host to simulate, from `knee list hosts`
    ///
    /// A built-in host, NAME for hosts/NAME.toml in the current directory (see `knee doctor calibrate`), or the
    /// path of a file.
    #[arg(long, default_value = "generic-2s")]
    host: String,
    /// CPU counts: 1..all, 1-8, 4, cores or all
    ///
    /// 1..all takes powers of two and the boundaries of the topology, 1-8 each count.
    #[arg(long, default_value = "1..all")]
    cpus: String,
    /// Number of tasks [default: one per CPU]
    ///
    /// At least the number of CPUs.
    #[arg(long)]
    tasks: Option<usize>,
    /// Simulate only these designs of a mechanism
    #[arg(long, value_delimiter = ',', value_name = "DESIGN")]
    design: Vec<String>,
    /// Lock that guards a mechanism [default: ticket]
    #[arg(long, value_name = "LOCK")]
    over: Option<String>,
    /// Set a parameter of a mechanism
    ///
    /// Such as `in_lock_ns=300` (see `knee show mechanism_NAME`). May be repeated.
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Mean time outside the lock between two operations
    ///
    /// Such as 500ns, 2us or 2us~uniform: how it varies is exp (as the time until the next of independent
    /// events), uniform (by half of it) or constant. Mechanisms have uniform.
    #[arg(long, default_value = "1us", value_parser = work, value_name = "TIME[~HOW]")]
    work: Work,
    /// Time for which a lock is held [default: 200ns]
    #[arg(long, value_parser = parse::time_ns)]
    hold: Option<u64>,
    /// Locks, of which each operation takes one at random [default: 1]
    #[arg(long, value_name = "LOCKS", hide_short_help = true)]
    locks: Option<usize>,
    /// Cache lines that are written while a lock is held [default: 2]
    #[arg(long, value_name = "LINES", hide_short_help = true)]
    data: Option<usize>,
    /// Cache lines that are only read while a lock is held [default: 2]
    #[arg(long, value_name = "LINES", hide_short_help = true)]
    read: Option<usize>,
    /// Percent of operations that only read [default: 90]
    ///
    /// They take a read-write lock for reading.
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=100), hide_short_help = true)]
    reads: Option<u32>,
    /// Order in which CPUs are used
    ///
    /// One of compact, cores, scatter, one-per-llc, one-per-node.
    #[arg(long, default_value = "cores")]
    placement: Placement,
    /// Draw placements too: compact, cores or scatter
    ///
    /// Then ranges contain what the placement does. With --baseline, knee says where it decides which is
    /// faster.
    #[arg(long, conflicts_with_all = ["trace", "check"], hide_short_help = true)]
    any_placement: bool,
    /// Preempt tasks anywhere, as hosts do with vCPUs
    ///
    /// Even while they hold or wait for a lock. Without this option only between operations or when
    /// asleep, as in the kernel.
    #[arg(long, hide_short_help = true)]
    preempt_anywhere: bool,
    /// Let tasks migrate on wakeup and to idle CPUs
    ///
    /// As Linux does with unpinned tasks.
    #[arg(long, hide_short_help = true)]
    unpinned: bool,
    /// Take each CPU from its task for a while, at random
    ///
    /// Such as 20us@1ms: for 20us on average, 1ms after the last time on average, also while the task holds or
    /// awaits a lock, as interrupts, firmware or a busy host of virtual CPUs do. `rtla osnoise` measures it.
    #[arg(long, value_parser = noise, value_name = "TIME@INTERVAL", hide_short_help = true)]
    noise: Option<Noise>,
    /// Random draws of uncertain host parameters
    ///
    /// Draws of those that are known only as a range, in addition to a simulation with the middle values.
    #[arg(long, default_value_t = 8)]
    draws: u64,
    /// Also show rates as multiples of this algorithm's
    ///
    /// One of those that are simulated. What a draw of the host's numbers does to both cancels, so ratios say
    /// more than rates.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["trace", "check"])]
    baseline: Option<String>,
    /// Simulated time to measure
    ///
    /// The default is 2ms, and 200ms with --tasks.
    #[arg(long, value_parser = parse::time_ns)]
    length: Option<u64>,
    /// Seed of all random choices
    ///
    /// A seed gives the same results on every computer.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Show this many memory accesses of a run
    ///
    /// From the middle of the run at the highest CPU count.
    #[arg(long, value_name = "ACCESSES", hide_short_help = true)]
    trace: Option<usize>,
    /// Also run the tasks natively, and compare
    ///
    /// On this host, after `knee doctor calibrate > hosts/mine.toml`, with `--host mine`.
    #[arg(long, conflicts_with_all = ["trace", "tasks", "preempt_anywhere", "unpinned", "noise"])]
    check: bool,
}

impl Arguments {
    /// What is to be simulated, as it was named.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// The parameters of mechanisms that were set.
    pub fn settings(&self) -> impl Iterator<Item = &str> {
        self.set.iter().map(|(name, _)| name.as_str())
    }
}

/// Simulates the algorithms and prints their curves.
pub fn run(arguments: &SimulateArguments) -> Result<ExitCode> {
    let SimulateArguments { what: arguments, view, yes } = arguments;
    if let Some(accesses) = arguments.trace {
        ensure!(view.view() == View::Terminal, "--trace prints lines of text: leave --view out");
        return trace(arguments, accesses, *yes);
    }
    let prepared = prepared(arguments, *yes)?;
    let again = page::this_command;
    if arguments.check {
        let conditions = conditions(arguments, &prepared.host)?;
        let found = check(arguments, &prepared, &conditions)?;
        let Prepared { host, load, .. } = &prepared;
        view.print(
            || Ok(native_agreements(&found, host, *load)),
            || Ok(page::agreements(&found, host, *load, again())),
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    hint(format_args!("simulating {} …", prepared.names().join(", ")));
    let simulation = simulated(arguments, prepared)?;
    view.print(
        || Ok(algorithm_curves(&simulation, arguments)),
        || Ok(page::page(&simulation, again())),
    )?;
    Ok(ExitCode::SUCCESS)
}

/// A simulation with what it was made of.
pub struct Simulation {
    pub curves: Vec<SimulatedCurve>,
    /// The curve that the others are compared with.
    pub baseline: Option<String>,
    pub host: DescribedHost,
    pub load: LockLoad,
    /// Whether a lock is among them: mechanisms have only the work of the load.
    pub has_locks: bool,
    pub noise: Option<Noise>,
    /// The other algorithms against the baseline, if there is one.
    pub comparisons: Vec<Comparison>,
    /// What was simulated, in the order of the curves.
    pub subjects: Vec<Subject>,
}

/// Simulates what the arguments name. With `yes`, locks in C of others are compiled without asking.
pub fn simulation(arguments: &Arguments, yes: bool) -> Result<Simulation> {
    simulated(arguments, prepared(arguments, yes)?)
}

/// The curves of all algorithms. Each algorithm at each CPU count, with all draws, is simulated by itself.
fn simulated(arguments: &Arguments, prepared: Prepared) -> Result<Simulation> {
    let conditions = conditions(arguments, &prepared.host)?;
    let (names, counts) = (prepared.names(), &prepared.counts);
    let points = in_parallel(names.len() * counts.len(), |part| {
        let cpus = counts[part % counts.len()] as usize;
        let (subject, tasks) = (&prepared.subjects[part / counts.len()], arguments.tasks);
        simulations::point(subject, prepared.load, &conditions, cpus, tasks.unwrap_or(cpus))
    });
    let mut points = points.into_iter();
    let curve = |name: String| {
        let points = points.by_ref().take(counts.len()).collect::<Result<_>>()?;
        with_operations(name, points, &conditions)
    };
    let curves = names.into_iter().map(curve).collect::<Result<Vec<_>>>()?;
    let comparisons = match &arguments.baseline {
        Some(baseline) => {
            compare(&curves, &prepared.subjects, baseline, prepared.load, &conditions)?
        }
        None => Vec::new(),
    };
    let Prepared { subjects, host, load, .. } = prepared;
    Ok(Simulation {
        comparisons,
        curves,
        baseline: arguments.baseline.clone(),
        has_locks: subjects.iter().any(Subject::is_lock),
        host,
        load,
        noise: arguments.noise,
        subjects,
    })
}

/// What is to be simulated, and where.
struct Prepared {
    /// Mechanisms, then locks.
    subjects: Vec<Subject>,
    host: DescribedHost,
    counts: Vec<u32>,
    load: LockLoad,
}

impl Prepared {
    fn names(&self) -> Vec<String> {
        self.subjects.iter().map(Subject::name).collect()
    }
}

fn prepared(arguments: &Arguments, yes: bool) -> Result<Prepared> {
    let is_mechanism = |name: &&String| {
        let name = name.split(':').next();
        MECHANISMS.iter().any(|mechanism| Some(mechanism.name) == name)
    };
    let (mechanisms, locks): (Vec<&String>, Vec<&String>) =
        arguments.names.iter().partition(is_mechanism);
    let programs = c_files::compiled(&arguments.names, &arguments.flags, yes)?;
    refuse_for_c(arguments, &programs)?;
    let locks = locks_named(&locks, &programs)?;
    let subjects = [mechanisms_named(&mechanisms, arguments)?, locks].concat();
    refuse_useless(arguments, &subjects)?;
    check_baseline(arguments, &subjects)?;
    let host = described_hosts::find(&arguments.host)?;
    let counts = points(&arguments.cpus, &host.topology(), arguments.placement)?;
    let load = lock_load(arguments)?;
    if let (Some(tasks), Some(&most)) = (arguments.tasks, counts.last()) {
        ensure!(
            tasks >= most as usize,
            "--tasks {tasks}: fewer than the {most} CPUs; use --cpus 1..{tasks}"
        );
    }
    Ok(Prepared { subjects, host, counts, load })
}

/// Prints the first accesses of each lock.
fn trace(arguments: &Arguments, accesses: usize, yes: bool) -> Result<ExitCode> {
    let Prepared { subjects, host, counts, load } = prepared(arguments, yes)?;
    let conditions = conditions(arguments, &host)?;
    let are_locks = subjects.iter().all(Subject::is_lock);
    ensure!(are_locks, "--trace: works only for locks, not for mechanisms");
    let cpus = counts.last().map_or(1, |&cpus| cpus as usize);
    for subject in &subjects {
        let lines = simulations::trace(subject, load, &conditions, cpus, accesses)?;
        let (name, at) = (subject.name(), counted(cpus, "CPU"));
        print(format!("{name} at {at} of {}:\n{}\n", host.name, lines.join("\n")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// What the tasks of a lock do.
fn lock_load(arguments: &Arguments) -> Result<LockLoad> {
    // A section that changes two objects and looks at two more: an assumption, which --data and --read replace.
    const LINES: usize = 2;
    let (work_ns, hold_ns) = (arguments.work.ns, arguments.hold.unwrap_or(200));
    let lines_written = arguments.data.unwrap_or(LINES);
    let lines_read = arguments.read.unwrap_or(LINES);
    let locks = arguments.locks.unwrap_or(1);
    ensure!((1..=LOCKS_MAX).contains(&locks), "--locks {locks}: must be 1 to {LOCKS_MAX}");
    for (flag, lines) in [("--data", lines_written), ("--read", lines_read)] {
        ensure!(
            lines.saturating_mul(locks) <= LINES_MAX,
            "{flag} {lines}: all locks together guard at most {LINES_MAX} cache lines"
        );
    }
    Ok(LockLoad {
        work_ns,
        variation: arguments.work.variation.unwrap_or(Variation::Exponential),
        hold_ns,
        reads: arguments.reads.unwrap_or(90),
        locks,
        lines_written,
        lines_read,
        start_within_ns: work_ns + hold_ns,
    })
}

/// Locks by their names, of which some are C files.
fn locks_named(names: &[&String], programs: &[Subject]) -> Result<Vec<Subject>> {
    let mut subjects = Vec::new();
    for name in names {
        let program = c_files::named(programs, name);
        let listed = LOCKS.iter().find(|lock| lock.name == **name).map(Subject::Lock);
        match program.cloned().or(listed) {
            Some(subject) => subjects.push(subject),
            None if *name == "all" => subjects.extend(LOCKS.iter().map(Subject::Lock)),
            None => {
                let mechanisms = MECHANISMS.iter().map(|mechanism| mechanism.name);
                let known = LOCKS.iter().map(|lock| lock.name).chain(mechanisms);
                bail!("{}", unknown("lock or mechanism", name, known, "knee list algorithms"))
            }
        }
    }
    Ok(subjects)
}

/// Refuses what locks in C do not have, and flags for them where there is none.
fn refuse_for_c(arguments: &Arguments, programs: &[Subject]) -> Result<()> {
    arguments.flags.refuse_unused(programs.len())?;
    let native = [("--trace", arguments.trace.is_some()), ("--check", arguments.check)];
    for (flag, _) in native.iter().filter(|(_, given)| *given) {
        ensure!(programs.is_empty(), "{flag}: works only for locks of knee, not for C files");
    }
    programs.iter().try_for_each(refuse_faulty)
}

/// Refuses a baseline that is not simulated.
fn check_baseline(arguments: &Arguments, subjects: &[Subject]) -> Result<()> {
    let Some(baseline) = &arguments.baseline else { return Ok(()) };
    let all: Vec<String> = subjects.iter().map(Subject::name).collect();
    ensure!(
        all.contains(baseline),
        "--baseline {baseline}: not among what is simulated ({}){}",
        all.join(", "),
        nearest(baseline, all.iter().map(String::as_str))
    );
    Ok(())
}

/// Refuses options that change nothing of what is simulated.
fn refuse_useless(arguments: &Arguments, subjects: &[Subject]) -> Result<()> {
    let has_locks = subjects.iter().any(Subject::is_lock);
    let has_mechanisms = subjects.iter().any(|one| matches!(one, Subject::Mechanism(_)));
    ensure!(
        arguments.over.is_none() || has_mechanisms,
        "--over names the lock that guards a mechanism, and no mechanism is simulated: leave it out"
    );
    let variation = arguments.work.variation.filter(|how| *how != Variation::Uniform);
    ensure!(
        variation.is_none() || has_locks,
        "--work: the work of a mechanism varies by half of it: leave ~{} out",
        variation.map_or("", Variation::name)
    );
    let of_locks = [arguments.data, arguments.read, arguments.locks].into_iter().flatten();
    ensure!(
        of_locks.count() == 0 || has_locks,
        "--locks, --data and --read are of locks and the lines that they guard; a mechanism has its own: \
         leave them out"
    );
    ensure!(
        arguments.hold.is_none() || has_locks,
        "--hold is the time in a lock; a mechanism holds its lock for as long as its own code takes: \
         leave it out, or use --set (see knee show mechanism_NAME)"
    );
    ensure!(
        arguments.reads.is_none() || subjects.iter().any(Subject::is_read_write_lock),
        "--reads applies only to read-write locks, and none is simulated: leave it out"
    );
    Ok(())
}

/// A curve in which operations ended at each point; an error that says how long to simulate if not.
fn with_operations(
    name: String,
    points: Vec<SimulatedPoint>,
    conditions: &Conditions,
) -> Result<SimulatedCurve> {
    let is_empty = |point: &&SimulatedPoint| point.middle.operations.iter().sum::<u64>() == 0;
    if let Some(point) = points.iter().find(is_empty) {
        let length_ns = (conditions.length / NS) as f64;
        bail!(
            "{name}: no operation ended at {} in {} of simulated time: simulate longer (--length {}), or \
             less work and shorter holds",
            counted(point.cpus, "CPU"),
            duration_text(length_ns),
            duration_text(10.0 * length_ns).replace(' ', "")
        );
    }
    Ok(SimulatedCurve { name, points })
}

/// Compares native runs on this host with their simulation.
fn check(
    arguments: &Arguments,
    prepared: &Prepared,
    conditions: &Conditions,
) -> Result<Agreements> {
    let Prepared { subjects, counts, load, .. } = prepared;
    let locks: Vec<Subject> = subjects.iter().filter(|one| one.is_lock()).cloned().collect();
    let allowed = host::affinity::get().context("reading the CPU affinity")?;
    let (here, _) = topology::of_process(Path::new("/sys"), &allowed);
    let cpus = here.order(arguments.placement);
    let most = *counts.last().context("no CPU counts")? as usize;
    ensure!(
        most <= cpus.len(),
        "{most} CPUs: this host allows {}; use --cpus 1..{}",
        cpus.len(),
        cpus.len()
    );
    hint(format_args!("running {} natively …", counted(locks.len(), "lock")));
    native_check::agreements(&locks, *load, conditions, counts, &cpus)
}

fn native_agreements(found: &Agreements, host: &DescribedHost, load: LockLoad) -> NativeAgreements {
    let one = |one: &Agreement| NativeAgreement {
        agrees: one.agrees(),
        name: one.name.clone(),
        cpus: one.cpus,
        native_operations_per_s: one.native,
        simulated_operations_per_s: one.simulated,
        ratio: one.ratio,
    };
    NativeAgreements {
        host: host.name.clone(),
        load: simulated_load(load),
        transfer_ns_meanwhile: found.transfer_ns,
        agreements: found.all.iter().map(one).collect(),
    }
}

fn simulated_load(load: LockLoad) -> SimulatedLoad {
    SimulatedLoad {
        work_ns: load.work_ns,
        work_varies: load.variation.name(),
        hold_ns: load.hold_ns,
        locks: load.locks,
        lines_written: load.lines_written,
        lines_read: load.lines_read,
    }
}

fn conditions<'a>(arguments: &Arguments, host: &'a DescribedHost) -> Result<Conditions<'a>> {
    let is_crowded = arguments.tasks.is_some();
    if let Some(tasks) = arguments.tasks {
        ensure!((1..=4096).contains(&tasks), "--tasks {tasks}: must be 1 to 4096");
    }
    let default_ns = if is_crowded { 200_000_000 } else { 2_000_000 };
    let length_ns = arguments.length.unwrap_or(default_ns);
    let allowed_ns = 1000..=60_000_000_000;
    ensure!(allowed_ns.contains(&length_ns), "--length: must be 1us to 60s of simulated time");
    ensure!(arguments.draws <= 10_000, "--draws {}: must be at most 10000", arguments.draws);
    Ok(Conditions {
        host,
        placement: arguments.placement,
        any_placement: arguments.any_placement,
        preemption: if arguments.preempt_anywhere {
            Preemption::Anywhere
        } else {
            Preemption::BetweenOperations
        },
        pinned: !arguments.unpinned,
        noise: arguments.noise,
        seed: arguments.seed,
        draws: arguments.draws,
        length: length_ns as Time * NS,
    })
}

/// The mechanisms with these names, in the designs and with the settings of the arguments.
fn mechanisms_named(names: &[&String], arguments: &Arguments) -> Result<Vec<Subject>> {
    let has_settings = !arguments.set.is_empty() || !arguments.design.is_empty();
    ensure!(!has_settings || !names.is_empty(), "--set and --design apply only to a mechanism");
    let mut subjects = Vec::new();
    for name in names {
        let (name, design) = name.split_once(':').unwrap_or((name, ""));
        let all_designs = ListedMechanism::named(name).map(ListedMechanism::designs);
        let designs = match (design, &arguments.design[..]) {
            ("", []) => all_designs.unwrap_or_default(),
            ("", requested) => requested.iter().map(String::as_str).collect(),
            (design, _) => vec![design],
        };
        for design in designs {
            let over = arguments.over.clone().unwrap_or_else(|| "ticket".to_string());
            let (given, design) = (arguments.set.clone(), MechanismDesign::new(name, design)?);
            subjects.push(Subject::Mechanism(MechanismDesign { over, given, ..design }));
        }
    }
    Ok(subjects)
}

/// `NAME=VALUE`.
fn setting(text: &str) -> Result<(String, String)> {
    let (name, value) = text.split_once('=').context("must be NAME=VALUE")?;
    Ok((name.to_string(), value.to_string()))
}

/// The work between two operations.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Mean ns.
    ns: u64,
    /// How it varies, if the user says so.
    variation: Option<Variation>,
}

/// `20us@1ms`.
fn noise(text: &str) -> Result<Noise> {
    let (mean, interval) =
        text.split_once('@').context("must be TIME@INTERVAL, such as 20us@1ms")?;
    let time = |text: &str| -> Result<Time> {
        let ns = parse::time_ns(text)?;
        ensure!((1..=60_000_000_000).contains(&ns), "{text}: must be 1ns to 60s");
        Ok(ns * NS)
    };
    Ok(Noise { mean: time(mean)?, interval: time(interval)? })
}

/// `1us`, `1us~exp`.
fn work(text: &str) -> Result<Work> {
    let Some((time, how)) = text.split_once('~') else {
        return Ok(Work { ns: parse::time_ns(text)?, variation: None });
    };
    let variation = Variation::ALL.into_iter().find(|variation| variation.name() == how);
    let names = Variation::ALL.map(Variation::name);
    let variation =
        variation.with_context(|| format!("~{how}: must be one of {}", names.join(", ")))?;
    Ok(Work { ns: parse::time_ns(time)?, variation: Some(variation) })
}

fn algorithm_curves(simulation: &Simulation, arguments: &Arguments) -> AlgorithmCurves {
    let Simulation { curves: all, host, load, comparisons, .. } = simulation;
    let baseline = arguments.baseline.as_ref();
    let baseline = baseline.and_then(|name| all.iter().find(|one| one.name == *name));
    let one = |simulated: &SimulatedCurve| {
        let comparison = comparisons.iter().find(|one| one.name == simulated.name);
        let ratio = |at: usize| {
            let comparison = comparison?;
            let is_last = at + 1 == comparison.points.len();
            Some(comparison.points[at].answer(comparison.decided.as_deref().filter(|_| is_last)))
        };
        let points = simulated.points.iter().enumerate();
        let points = points.map(|(at, point)| {
            algorithm_point(point, baseline.map(|other| &other.points[at]), ratio(at))
        });
        SimulatedAlgorithm { name: simulated.name.clone(), points: points.collect() }
    };
    AlgorithmCurves {
        obtained: "simulated",
        host: host.name.clone(),
        placement: arguments.placement.name().to_string(),
        any_placement: arguments.any_placement,
        preemption: if arguments.preempt_anywhere { "anywhere" } else { "between operations" },
        pinned: !arguments.unpinned,
        noise_mean_ns: arguments.noise.map(|noise| noise.mean / NS),
        noise_interval_ns: arguments.noise.map(|noise| noise.interval / NS),
        load: simulated_load(*load),
        seed: arguments.seed,
        draws: arguments.draws,
        baseline: arguments.baseline.clone(),
        algorithms: all.iter().map(one).collect(),
    }
}

fn algorithm_point(
    point: &SimulatedPoint,
    baseline: Option<&SimulatedPoint>,
    ratio: Option<SimulatedRatio>,
) -> AlgorithmPoint {
    let (low, high) = point.range();
    let of_placement = |(placement, ratio): (Placement, RateRatio)| PlacementRatio {
        placement: placement.name().to_string(),
        lowest: ratio.low,
        highest: ratio.high,
    };
    let decided = |baseline| point.decided_by_placement(baseline).into_iter().map(of_placement);
    let rows = point.ns_per_operation().map(|rows| rows.into_iter());
    AlgorithmPoint {
        cpus: point.cpus,
        tasks: point.tasks,
        operations_per_s: point.middle.rate(),
        operations_per_s_lowest: low,
        operations_per_s_highest: high,
        ratio_to_baseline: ratio,
        decided_by_placement: baseline.map(|baseline| decided(baseline).collect()),
        cpu_ns_per_operation: rows
            .map(|rows| rows.map(|(row, ns)| (row.to_string(), ns)).collect()),
        effects_per_operation: point.effects.iter().cloned().collect(),
        sleeps_per_operation: point.sleeps_per_operation(),
        accesses: point.middle.accesses,
        hash: format!("{:016x}", point.middle.hash),
    }
}
