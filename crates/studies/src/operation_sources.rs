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
/// The other instructions are spread over the accesses of the source that are not atomic: so they lie inside locks and
/// outside as they do in the source. Where lines come from other CPUs, they wait for them. On one CPU they are executed
/// beside atomic ones: both times add like the sides of a right angle, which is no law, but within a sixth of 20 of 27
/// locks and mechanisms on an EPYC.
///
/// # Errors
/// A host that cannot run the source.
pub fn point(
    subject: &Subject,
    recorded: &RecordedOperations,
    conditions: &Conditions,
    cpus: usize,
) -> Result<SimulatedPoint> {
    let (mut runs, mut placements) = (Vec::new(), Vec::new());
    for (draw, conditions) in draws(conditions) {
        placements.push(conditions.placement);
        let run = |access_ps: f64, outside_ns: f64, cpus: usize| {
            let host = ["costs.load", "costs.store"]
                .iter()
                .fold(conditions.host.clone(), |host, cost| host.with_value(cost, access_ps));
            let conditions = Conditions { host: &host, ..conditions.clone() };
            let load = load(outside_ns.round() as u64);
            simulated(subject, &OneDraw { load, conditions: &conditions, draw, cpus, tasks: cpus })
        };
        let alone_ns = |access_ps: f64| -> Result<f64> { Ok(1e9 / run(access_ps, 0.0, 1)?.rate()) };
        let atomic_ns = alone_ns(0.0)?;
        let accesses = (alone_ns(NS as f64)? - atomic_ns).round();
        let pace = conditions.host.pace(draw, Some(1.0));
        // What the kernel does for a source has costs of its own: going to sleep, waking, interrupts.
        let instructions = recorded.instructions() * recorded.user_share.unwrap_or(1.0);
        let own_ns = instructions * pace.instruction / NS as f64;
        let beside_ns = if cpus == 1 { atomic_ns.hypot(own_ns) - atomic_ns } else { own_ns };
        runs.push(if accesses > 0.0 {
            run(beside_ns * NS as f64 / accesses, 0.0, cpus)?
        } else {
            run(0.0, beside_ns, cpus)?
        });
    }
    let rates = runs.iter().map(|run| run.rate()).collect();
    let middle = runs.swap_remove(0);
    Ok(SimulatedPoint { cpus, tasks: cpus, middle, rates, placements, effects: Vec::new() })
}

/// The load of the workload with its defaults: nine readers to a writer, where a lock has readers.
fn load(outside_ns: u64) -> LockLoad {
    const READS_OF_100: u32 = 90;
    LockLoad { start_within_ns: 100, ..LockLoad::steady(outside_ns, 0, READS_OF_100) }
}
