//! Operations whose source is at hand: those of the workloads that run knee's own locks and mechanisms. A simulation runs the
//! source in place of the recording. Recorded tasks hardly met, and how one waits for another is not in their accesses.

use algorithms::mechanisms::ListedMechanism;
use anyhow::Result;
use engines::simulated::NS;
use records::operations::RecordedOperations;

use crate::simulations::{Conditions, LockLoad, OneDraw, SimulatedPoint, draw as simulated, draws};
use crate::{MechanismDesign, Subject};

/// What the workloads `lock_NAME` and `mechanism_NAME` run with their defaults. `None` of another operation.
pub fn source(operation: &str) -> Option<Subject> {
    if let Some(lock) = operation.strip_prefix("lock_") {
        return Subject::lock(lock).ok();
    }
    let name = operation.strip_prefix("mechanism_")?;
    let design = *ListedMechanism::named(name)?.designs().first()?;
    let design = MechanismDesign::new(name, design).ok()?;
    Some(Subject::Mechanism(MechanismDesign { over: "queued".to_string(), ..design }))
}

/// The source on this many CPUs, a task on each, with all draws.
///
/// The time of an instruction has accesses to lines at hand. Where lines come from other CPUs, the other instructions wait
/// for them. On one CPU they are executed beside atomic ones: both times add like the sides of a right angle, which is no
/// law, but within a sixth of 20 of 27 locks and mechanisms on an EPYC. Of a lock, the other instructions are charged
/// inside of it: the CPU asks for the next line while it executes what lies before.
///
/// # Errors
/// A host that cannot run the source.
pub fn point(
    subject: &Subject,
    recorded: &RecordedOperations,
    conditions: &Conditions,
    cpus: usize,
) -> Result<SimulatedPoint> {
    let host = conditions.host.with_value("costs.load", 0.0).with_value("costs.store", 0.0);
    let conditions = Conditions { host: &host, ..conditions.clone() };
    let (mut runs, mut placements) = (Vec::new(), Vec::new());
    for (draw, conditions) in draws(&conditions) {
        placements.push(conditions.placement);
        let run = |own_ns: f64, cpus: usize| {
            let load = load(subject, own_ns.round() as u64);
            let once = OneDraw { load, conditions: &conditions, draw, cpus, tasks: cpus };
            simulated(subject, &once)
        };
        let own_ns = recorded.instructions() * host.pace(draw).instruction / NS as f64;
        let beside_ns = match cpus {
            1 => {
                let atomic_ns = 1e9 / run(0.0, 1)?.rate();
                atomic_ns.hypot(own_ns) - atomic_ns
            }
            _ => own_ns,
        };
        runs.push(run(beside_ns, cpus)?);
    }
    let rates = runs.iter().map(|run| run.rate()).collect();
    let middle = runs.swap_remove(0);
    Ok(SimulatedPoint { cpus, tasks: cpus, middle, rates, placements, effects: Vec::new() })
}

/// The load of the workload with its defaults: nine readers to a writer, where a lock has readers.
fn load(subject: &Subject, own_ns: u64) -> LockLoad {
    const READS_OF_100: u32 = 90;
    let (work_ns, hold_ns) = if subject.is_lock() { (0, own_ns) } else { (own_ns, 0) };
    LockLoad { start_within_ns: 100, ..LockLoad::steady(work_ns, hold_ns, READS_OF_100) }
}
