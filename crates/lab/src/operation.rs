//! `knee simulate operation`: recorded operations on the CPUs of a described host.

pub mod page;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use answers::{OperationCurves, OperationPoint, RateError, SimulatedOperation, StoppingLine};
use anyhow::{Result, ensure};
use described_hosts::{DescribedHost, Draw};
use engines::simulated::NS;
use host::terminal::hint;
use host::{Placement, in_parallel, topology::points};
use records::operations::{Copies, RecordedOperations, RecordedStep};
use studies::domain::{Class, grades};
use studies::operation_grades::graded_rates;
use studies::simulations::{Conditions, SimulatedPoint};
use studies::{Subject, operation_sources, operations};

/// What stops operations that clear or copy more than the memory of a node can serve, among members that do.
const MEMORY: &str = "memory bandwidth";

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
        hint(format_args!("simulating {}: {:.0} accesses each …", one.operation, one.steps()));
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
    let all = in_parallel(counts.len(), |index| {
        point(recorded, &conditions(recorded, host, flags, counts[index]), counts[index])
    });
    let all: Vec<SimulatedPoint> = all.into_iter().collect::<Result<_>>()?;
    let most = counts.last().copied().unwrap_or(1);
    let conditions = conditions(recorded, host, flags, most);
    let stops = all.last().map(|last| stops(recorded, &conditions, last)).transpose()?;
    let stops = stops.unwrap_or_default();
    let source = operation_sources::source(&recorded.operation);
    let model_error = if source.is_none() { rate_error(&stops) } else { None };
    let (waits, warnings) = match source {
        Some(source) => (None, source_warnings(&source)),
        None => (recorded.waits.clone(), recorded.warnings.clone()),
    };
    Ok(SimulatedOperation {
        operation: recorded.operation.clone(),
        on: recorded.on.clone(),
        recorded: recorded.tasks.iter().map(Vec::len).collect(),
        instructions: recorded.instructions(),
        one_cpu,
        instruction_ns: host.pace(Draw::Middle, recorded.user_share).instruction / NS as f64,
        length_us: conditions.length as f64 / (1000 * NS) as f64,
        points: all.iter().map(operation_point).collect(),
        stops,
        waits,
        model_error,
        warnings,
    })
}

/// What is simulated in place of the recording, and how far it may be off.
fn source_warnings(source: &Subject) -> Vec<String> {
    let recorded = format!(
        "the source of {} is simulated, not its recorded accesses: these lack how a task waits for others",
        source.name()
    );
    let grade = grades().of(Class::Empty);
    let empty = format!(
        "nothing is done inside the lock, where the model is least sure: {} of {} published ratios of such locks lie in the \
         interval of the draws, all once it is widened by {:.1} on both sides",
        grade.inside, grade.rows, grade.factor
    );
    [recorded].into_iter().chain(source.is_lock().then_some(empty)).collect()
}

/// The model's error in rates of operations that such a line stops; of those that nothing stops none was published.
fn rate_error(stops: &[StoppingLine]) -> Option<RateError> {
    let compares = stops.iter().find(|stop| stop.member != MEMORY)?.compares;
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
        None => operations::point(recorded, conditions, cpus, &[]),
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
    cpus: usize,
) -> Conditions<'a> {
    // Where all wait for each other, each task does some.
    const OPERATIONS: f64 = 300.0;
    const LEAST_NS: f64 = 1e6;
    // Steps that a simulation does within seconds, and operations that a task does even so.
    const STEPS: f64 = 150e6;
    const FEWEST: f64 = 20.0;
    let pace = host.pace(Draw::Middle, recorded.user_share);
    let operation_ns = recorded.instructions() * pace.instruction / NS as f64;
    let steps = recorded.steps().max(1.0) * cpus as f64;
    let most_ns = operation_ns * (STEPS / steps).max(FEWEST);
    let length = (OPERATIONS * operation_ns).max(LEAST_NS);
    let length = if steps > 0.0 && operation_ns > 0.0 { length.min(most_ns) } else { length };
    let length = flags.length.unwrap_or((length as u64).max(1));
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
    let conditions = Conditions { draws: 0, ..conditions(recorded, host, flags, 1) };
    let instruction = host.pace(Draw::Middle, recorded.user_share).instruction;
    let work_ps = recorded.instructions_within_calls() * instruction;
    let one_ps = |host: &DescribedHost| -> Result<f64> {
        Ok(1e12 / point(recorded, &Conditions { host, ..conditions.clone() }, 1)?.middle.rate())
    };
    let wanted_ps = match operation_sources::source(&recorded.operation) {
        // See there how both times add.
        Some(_) => {
            let atomic_ps = one_ps(&host.with_slower_instructions(0.0))?;
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
    Ok(host.with_slower_instructions(wanted_ps / work_ps))
}

/// Members without whose lines more operations would be done, and the bandwidth of memory, if without it; the most first.
fn stops(
    recorded: &RecordedOperations,
    conditions: &Conditions,
    last: &SimulatedPoint,
) -> Result<Vec<StoppingLine>> {
    /// What is less than this is within the noise of a simulation.
    const FASTER: f64 = 1.05;
    if operation_sources::source(&recorded.operation).is_some() || last.cpus == 1 {
        return Ok(Vec::new());
    }
    let once = Conditions { draws: 0, ..conditions.clone() };
    let members = shared_members(recorded);
    let without = in_parallel(members.len(), |index| {
        operations::point(recorded, &once, last.cpus, &members[index])
    });
    let steps = || recorded.all().flat_map(|operation| &operation.steps);
    let mut stops = Vec::new();
    for (lines, without) in members.iter().zip(without) {
        let Some(line) = lines.first().map(|index| &recorded.lines[*index]) else { continue };
        let is_of = |index: u16| lines.contains(&usize::from(index));
        stops.push(StoppingLine {
            member: line.member.clone(),
            copies: line.copies,
            has_lock: recorded.locks.iter().any(|lock| is_of(lock.line)),
            compares: steps()
                .any(|(_, step)| matches!(step, RecordedStep::Compare(line) if is_of(*line))),
            faster: without?.middle.rate() / last.middle.rate(),
        });
    }
    stops.extend(memory(recorded, &once, last)?);
    stops.retain(|stop| stop.faster >= FASTER);
    stops.sort_by(|a, b| b.faster.total_cmp(&a.faster));
    Ok(stops)
}

/// The bandwidth of memory among what stops operations that clear or copy what no cache has.
fn memory(
    recorded: &RecordedOperations,
    conditions: &Conditions,
    last: &SimulatedPoint,
) -> Result<Option<StoppingLine>> {
    if recorded.all().all(|operation| operation.streamed_lines == 0) {
        return Ok(None);
    }
    let host = &conditions.host.with_value("costs.stream", 0.0);
    let conditions = Conditions { host, ..conditions.clone() };
    let without = operations::point(recorded, &conditions, last.cpus, &[])?;
    Ok(Some(StoppingLine {
        member: MEMORY.to_string(),
        copies: Copies::PerNode,
        has_lock: false,
        compares: false,
        faster: without.middle.rate() / last.middle.rate(),
    }))
}

/// The lines of each member that more than two tasks share, of the members that operations use most. An operation may use a
/// thousand lines of a buffer: one of them less would stop nothing, and as many simulations would have no end.
fn shared_members(recorded: &RecordedOperations) -> Vec<Vec<usize>> {
    const MEMBERS: usize = 32;
    let mut uses = vec![0_u64; recorded.lines.len()];
    for (_, step) in recorded.all().flat_map(|operation| &operation.steps) {
        let line = match *step {
            RecordedStep::Load(line)
            | RecordedStep::Store(line)
            | RecordedStep::Atomic(line)
            | RecordedStep::Compare(line) => line,
            RecordedStep::OwnAtomic | RecordedStep::Enter => continue,
            RecordedStep::Lock(lock)
            | RecordedStep::LockShared(lock)
            | RecordedStep::Unlock(lock) => recorded.locks[usize::from(lock)].line,
        };
        uses[usize::from(line)] += 1;
    }
    let mut members: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (index, line) in recorded.lines.iter().enumerate() {
        if line.copies != Copies::PerPair {
            let copies = page::copies(line.copies);
            members.entry((&line.member, copies)).or_default().push(index);
        }
    }
    let mut members: Vec<Vec<usize>> = members.into_values().collect();
    let used = |lines: &Vec<usize>| lines.iter().map(|index| uses[*index]).sum::<u64>();
    members.sort_by_key(|lines| Reverse(used(lines)));
    members.truncate(MEMBERS);
    members
}

#[cfg(test)]
mod tests {
    use records::operations::{RecordedLine, RecordedOperation};

    use super::*;

    /// Operations of 1000 instructions that read each of these lines.
    fn recorded(members: &[&str]) -> RecordedOperations {
        let line =
            |member: &&str| RecordedLine { member: (*member).to_string(), copies: Copies::One };
        let steps = (0..members.len()).map(|line| (0, RecordedStep::Load(line as u16))).collect();
        let operation = RecordedOperation { steps, then: 1000, ..RecordedOperation::default() };
        RecordedOperations {
            lines: members.iter().map(line).collect(),
            tasks: vec![vec![operation]],
            ..RecordedOperations::default()
        }
    }

    #[test]
    fn lines_of_a_member_are_asked_together_and_those_used_most_first() {
        assert_eq!(shared_members(&recorded(&["a", "b", "a", "c"]))[0], [0, 2]);
        let many: Vec<String> = (0..100).map(|member| member.to_string()).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert_eq!(shared_members(&recorded(&many)).len(), 32);
    }

    #[test]
    fn memory_stops_operations_that_clear_what_no_cache_has() {
        let host = described_hosts::find("icelake-2s").unwrap();
        let stops_of = |streamed_lines: u32| {
            let mut recorded = recorded(&["a"]);
            recorded.tasks[0][0].copied_lines = 64;
            recorded.tasks[0][0].streamed_lines = streamed_lines;
            let conditions = Conditions { draws: 0, ..Conditions::new(&host, 1, 300_000 * NS) };
            let last = point(&recorded, &conditions, 48).unwrap();
            let all = stops(&recorded, &conditions, &last).unwrap();
            all.into_iter().map(|stop| stop.member).collect::<Vec<_>>()
        };
        assert_eq!(stops_of(64), [MEMORY]);
        assert_eq!(stops_of(0), [""; 0]);
    }

    #[test]
    fn long_operations_on_many_cpus_are_simulated_for_less_time() {
        let host = described_hosts::find("icelake-2s").unwrap();
        let flags = HostFlags {
            host: host.name.clone(),
            cpus: "all".to_string(),
            placement: Placement::Cores,
            draws: 0,
            seed: 1,
            length: None,
        };
        let length = |lines: usize, cpus: usize| {
            conditions(&recorded(&vec!["a"; lines]), &host, &flags, cpus).length
        };
        assert_eq!(length(10, 1), length(10, 96));
        assert_eq!(length(4000, 1), length(10, 1));
        assert!(length(4000, 96) < length(4000, 1));
        let pace = host.pace(Draw::Middle, None).instruction;
        assert!(length(4000, 96) as f64 >= 20.0 * 1000.0 * pace - NS as f64, "some operations");
    }
}
