//! `knee simulate operation`: recorded operations on the CPUs of a described host.

pub mod page;

use answers::{OperationCurves, OperationPoint, RateError, SimulatedOperation, StoppingLine};
use anyhow::{Result, ensure};
use described_hosts::{DescribedHost, Draw};
use engines::simulated::NS;
use host::terminal::hint;
use host::{Placement, in_parallel, topology::points};
use records::operations::{Copies, RecordedOperations, RecordedStep};
use studies::operation_grades::graded_rates;
use studies::simulations::{Conditions, SimulatedPoint};
use studies::{operation_sources, operations};

/// The host that operations are simulated on, and for how long.
#[derive(clap::Args)]
pub struct HostFlags {
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
    /// Order in which CPUs are used
    ///
    /// One of compact, cores, scatter, one-per-llc, one-per-node.
    #[arg(long, default_value = "cores")]
    placement: Placement,
    /// Random draws of uncertain host parameters
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u64).range(..=1000))]
    draws: u64,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Simulated time to measure [default: of some hundred operations]
    #[arg(long, value_parser = records::parse::time_ns, hide_short_help = true)]
    length: Option<u64>,
}

/// Simulates each operation. `one_cpu` is the rate of one CPU, where somebody knows it.
pub fn curves(
    recorded: &[RecordedOperations],
    flags: &HostFlags,
    one_cpu: impl Fn(&str) -> Option<f64>,
) -> Result<OperationCurves> {
    let host = described_hosts::find(&flags.host)?;
    let counts = points(&flags.cpus, &host.topology(), flags.placement)?;
    let counts: Vec<usize> = counts.iter().map(|count| *count as usize).collect();
    let mut operations = Vec::new();
    for one in recorded {
        hint(format_args!("simulating {} …", one.operation));
        operations.push(curve(one, (&host, flags), &counts, one_cpu(&one.operation))?);
    }
    Ok(OperationCurves {
        obtained: "simulated".to_string(),
        host: host.name,
        placement: flags.placement.name().to_string(),
        seed: flags.seed,
        draws: flags.draws,
        operations,
    })
}

/// One operation at all CPU counts, and what stops it.
fn curve(
    recorded: &RecordedOperations,
    (host, flags): (&DescribedHost, &HostFlags),
    counts: &[usize],
    one_cpu: Option<f64>,
) -> Result<SimulatedOperation> {
    if let Some(why) = recorded.contradiction() {
        anyhow::bail!("{}: {why}", recorded.operation);
    }
    let host = &match one_cpu {
        Some(rate) => fitted(recorded, host, flags, rate)?,
        None => host.clone(),
    };
    let conditions = conditions(recorded, host, flags);
    let all = in_parallel(counts.len(), |index| point(recorded, &conditions, counts[index]));
    let all: Vec<SimulatedPoint> = all.into_iter().collect::<Result<_>>()?;
    let stops = all.last().map(|last| stops(recorded, &conditions, last)).transpose()?;
    let stops = stops.unwrap_or_default();
    let source = operation_sources::source(&recorded.operation);
    let model_error = if source.is_none() { rate_error(&stops) } else { None };
    let warnings = match source {
        Some(source) => vec![format!(
            "the source of {} is simulated, not its recorded accesses: these lack how a task waits for others",
            source.name()
        )],
        None => recorded.warnings.clone(),
    };
    Ok(SimulatedOperation {
        operation: recorded.operation.clone(),
        on: recorded.on.clone(),
        recorded: recorded.tasks.iter().map(Vec::len).collect(),
        instructions: recorded.instructions(),
        one_cpu,
        instruction_ns: host.pace(Draw::Middle).instruction / NS as f64,
        points: all.iter().map(operation_point).collect(),
        stops,
        model_error,
        warnings,
    })
}

/// The model's error in rates of operations that such a line stops; of those that nothing stops none was published.
fn rate_error(stops: &[StoppingLine]) -> Option<RateError> {
    let compares = stops.first()?.compares;
    let (rates, factor) = graded_rates().error(compares)?;
    Some(RateError { factor, rates, compares })
}

/// An operation on this many CPUs: its source where knee has it, else its recorded accesses.
fn point(
    recorded: &RecordedOperations,
    conditions: &Conditions,
    cpus: usize,
) -> Result<SimulatedPoint> {
    match operation_sources::source(&recorded.operation) {
        Some(source) => operation_sources::point(&source, recorded, conditions, cpus),
        None => operations::point(recorded, conditions, cpus, None),
    }
}

fn operation_point(point: &SimulatedPoint) -> OperationPoint {
    let (lowest, highest) = point.range();
    OperationPoint {
        cpus: point.cpus,
        operations_per_s: point.middle.rate(),
        operations_per_s_lowest: lowest,
        operations_per_s_highest: highest,
    }
}

fn conditions<'a>(
    recorded: &RecordedOperations,
    host: &'a DescribedHost,
    flags: &HostFlags,
) -> Conditions<'a> {
    // Where all wait for each other, each task does some.
    const OPERATIONS: f64 = 300.0;
    const LEAST_NS: f64 = 1e6;
    let operation_ns = recorded.instructions() * host.pace(Draw::Middle).instruction / NS as f64;
    let length = flags.length.unwrap_or((OPERATIONS * operation_ns).max(LEAST_NS) as u64);
    Conditions {
        placement: flags.placement,
        draws: flags.draws,
        ..Conditions::new(host, flags.seed, length * NS)
    }
}

/// The host whose time of an instruction makes one CPU as fast as it is known to be.
fn fitted(
    recorded: &RecordedOperations,
    host: &DescribedHost,
    flags: &HostFlags,
    rate: f64,
) -> Result<DescribedHost> {
    let conditions = Conditions { draws: 0, ..conditions(recorded, host, flags) };
    let instruction = host.pace(Draw::Middle).instruction;
    let work_ps = recorded.instructions() * instruction;
    let one_ps = |host: &DescribedHost| -> Result<f64> {
        Ok(1e12 / point(recorded, &Conditions { host, ..conditions.clone() }, 1)?.middle.rate())
    };
    let wanted_ps = match operation_sources::source(&recorded.operation) {
        // See there how both times add.
        Some(_) => {
            let atomic_ps = one_ps(&host.with_value("costs.instruction", 0.0))?;
            ((1e12 / rate).powi(2) - atomic_ps.powi(2)).max(0.0).sqrt()
        }
        None => 1e12 / rate - (one_ps(host)? - work_ps),
    };
    ensure!(
        wanted_ps >= 0.0,
        "{}: one CPU's {rate:.0} operations/s leave no time for {:.0} instructions: is that the rate of this operation?",
        recorded.operation,
        recorded.instructions()
    );
    Ok(host.with_value("costs.instruction", instruction * wanted_ps / work_ps))
}

/// Lines without which more operations would be done, the most first.
fn stops(
    recorded: &RecordedOperations,
    conditions: &Conditions,
    last: &SimulatedPoint,
) -> Result<Vec<StoppingLine>> {
    /// What is less than this is within the noise of a simulation.
    const FASTER: f64 = 1.05;
    if operation_sources::source(&recorded.operation).is_some() {
        return Ok(Vec::new());
    }
    let once = Conditions { draws: 0, ..conditions.clone() };
    let shared =
        recorded.lines.iter().enumerate().filter(|(_, line)| line.copies != Copies::PerPair);
    let shared: Vec<usize> = shared.map(|(index, _)| index).collect();
    let without = in_parallel(shared.len(), |index| {
        operations::point(recorded, &once, last.cpus, Some(shared[index]))
    });
    let steps = || recorded.tasks.iter().flatten().flat_map(|operation| &operation.steps);
    let mut stops = Vec::new();
    for (index, without) in shared.into_iter().zip(without) {
        let line = &recorded.lines[index];
        stops.push(StoppingLine {
            member: line.member.clone(),
            copies: line.copies,
            has_lock: recorded.locks.iter().any(|lock| usize::from(lock.line) == index),
            compares: steps().any(|(_, step)| *step == RecordedStep::Compare(index as u16)),
            faster: without?.middle.rate() / last.middle.rate(),
        });
    }
    stops.retain(|stop| stop.faster >= FASTER);
    stops.sort_by(|a, b| b.faster.total_cmp(&a.faster));
    Ok(stops)
}
