//! I1: spinlocks under file creation, in a guest of 16 CPUs and on a native host. An operation is
//! some work, and a critical section under the lock of the commit list.
//!
//! The native host has a load of its own: so much work between two passes that a ticket lock creates as many
//! files a second as reported, and tasks on all nodes, over which Linux spreads new tasks.

use anyhow::Result;
use engines::simulated::{NS, Preemption, TimeRow};
use host::Placement;

use super::{
    DrawnInputs, FittedInput, Incident, Input, MechanismModel, Model, NullPredictions,
    PredictedValue, Prediction, Reported, Standing, Target, fit, share, texts,
};
use crate::simulations::{Conditions, LockLoad, OneDraw, draw};
use crate::subject::Subject;

pub fn incident() -> Incident {
    Incident {
        name: "I1".to_string(),
        title: "queued, ticket and test-and-set spinlocks under file creation, 16 tasks"
            .to_string(),
        sources: texts(&[
            "P. Zijlstra, Re: [4.2, Regression] Queued spinlocks cause major XFS performance regression, 2015-09-04",
            "D. Chinner, in the same thread, 2015-09-04 (the guest, its profile, the delay that restored it)",
        ]),
        hosts: texts(&["ivybridge-ex-4s"]),
        fitted: Some(FittedInput {
            name: "work between two passes, ns".to_string(),
            to: "37.2 % of the guest's time in the slow path of test-and-set; on the native host the work is fitted to \
             the files a second of the ticket lock".to_string(),
        }),
        targets: vec![
            claimed("guest: test-and-set / ticket", Reported::Less),
            claimed("guest: with delay / without", Reported::More),
            claimed("guest: ticket preempted / not, a CPU", Reported::Less),
            claimed("guest preempted: ticket / with delay", Reported::Less),
            Target {
                reported_ns: Some([1e9 / QUEUED_FILES_PER_S, 1e9 / TICKET_FILES_PER_S]),
                ..Target::new(
                    "native: queued / ticket",
                    Reported::Ratio(QUEUED_FILES_PER_S / TICKET_FILES_PER_S),
                    Standing::Open,
                )
            },
        ],
        model: Model::Mechanism(MechanismModel {
            inputs,
            nulls: || vec![NullPredictions::default(); 5],
            predict,
            figure: None,
        }),
        limitations: texts(&[
            "for the guest the report has directions and no numbers, so no better grade is possible",
            "pause-loop exiting is the default of the guest's host, but not in the report; without it, ticket \
         preempted does 0.0752 (0.0551..1.75) times the operations of ticket not preempted",
            "that ticket is faster than queued on a native host was reported with four runs a side; with all \
         numbers tried the model says that they are equal without a queue, as with the load that gives the \
         reported rate, and that queued is faster with one",
        ]),
    }
}

/// Files per second on the native host.
const QUEUED_FILES_PER_S: f64 = 287_874.0;
const TICKET_FILES_PER_S: f64 = 325_907.0;

fn claimed(what: &str, reported: Reported) -> Target {
    Target::new(what, reported, Standing::Claimed)
}

const SLOW_PATH: f64 = 0.372;
const VCPUS: usize = 16;

fn inputs() -> Vec<Input> {
    vec![
        Input::found("tasks", VCPUS as f64, "the report"),
        Input::assumed(
            "work inside",
            200.0,
            800.0,
            "ns",
            "an insertion of some items into a list; most of its lines come from another CPU",
        ),
        Input::found(
            "native: passes of a file",
            1.0,
            "xfs_trans_commit of open(O_CREAT), counted on Linux 6.18",
        )
        .chosen_late("2026-11-25: until then the native host had the load of the guest"),
    ]
}

fn predict(inputs: &DrawnInputs) -> Result<Prediction> {
    let between_operations = Preemption::BetweenOperations;
    let run_on = |placement, name, work: f64, cpus, preemption, length_us: u64| {
        let conditions = Conditions {
            placement,
            preemption,
            ..Conditions::new(
                inputs.described("ivybridge-ex-4s"),
                inputs.seed,
                length_us * 1000 * NS,
            )
        };
        let load = LockLoad::steady(work.round() as u64, inputs.whole("work inside"), 0);
        let (conditions, drawn) = (&conditions, inputs.draw);
        draw(&Subject::lock(name)?, &OneDraw { load, conditions, draw: drawn, cpus, tasks: VCPUS })
    };
    let run = |name, work, cpus, preemption, length_us| {
        run_on(Placement::Cores, name, work, cpus, preemption, length_us)
    };
    let native =
        |name, work| run_on(Placement::Scatter, name, work, VCPUS, between_operations, 4_000);
    let native_rate = TICKET_FILES_PER_S * inputs.get("native: passes of a file");
    let native_work =
        fit([500.0, 200_000.0], native_rate, |work| Ok(native("ticket", work)?.rate()))?;
    let work = fit([500.0, 100_000.0], SLOW_PATH, |work| {
        let run = run("test_and_set", work, VCPUS, between_operations, 2_000)?;
        Ok(share(&run, &[TimeRow::Spinning, TimeRow::Transfer]))
    })?;
    let guest = |name| run(name, work, VCPUS, between_operations, 4_000);
    let (ticket, test_and_set) = (guest("ticket")?, guest("test_and_set")?);
    // Two virtual CPUs share each CPU: the host is overcommitted twice. Long enough for some slices.
    let cpus = VCPUS / 2;
    let crowded = |name| run(name, work, cpus, Preemption::Anywhere, 80_000);
    let crowded_ticket = crowded("ticket")?;
    let per_cpu = PredictedValue::rates(&crowded_ticket, &ticket);
    let values = vec![
        PredictedValue::rates(&test_and_set, &ticket),
        PredictedValue::rates(&guest("test_and_set_delayed")?, &test_and_set),
        PredictedValue { value: per_cpu.value * VCPUS as f64 / cpus as f64, ..per_cpu },
        PredictedValue::rates(&crowded_ticket, &crowded("test_and_set_delayed")?),
        PredictedValue::rates(&native("queued", native_work)?, &native("ticket", native_work)?),
    ];
    Ok(Prediction { fitted: Some(work), values })
}
