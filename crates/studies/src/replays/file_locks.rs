//! I5: file locks without the global lock. 128 processes lock and unlock one file, or one file each.
//! The report has the time that takes, summed over processes.
//!
//! All processes start together and take turns on the CPUs. So the sum is their number times the time
//! of the test, and its ratio is that of throughputs, including the waits for a CPU.

use anyhow::Result;
use host::Placement;

use super::null_models::{closed_network, contention_of, serial_share, usl};
use super::{
    DrawnInputs, FittedInput, Incident, Input, MechanismModel, Model, NullPredictions,
    PredictedValue, Prediction, Reported, Standing, Target, fit, texts,
};
use crate::subject::MechanismDesign;

pub fn incident() -> Incident {
    Incident {
        name: "I5".to_string(),
        title: "file locks off the global lock: time to lock and unlock, after / before"
            .to_string(),
        sources: texts(&[
            "J. Layton, Re: [PATCH v2 00/14] locks: scalability improvements for file locking, 2013-06-11",
            "J. Layton, locks: protect most of the file_lock handling with i_lock, Linux 3.11",
        ]),
        hosts: texts(&["uma-2", "opteron-32"]),
        fitted: Some(FittedInput {
            name: "work of a pair of flock calls outside of all locks, ns".to_string(),
            to: "flock02 on 2 CPUs, 0.693".to_string(),
        }),
        targets: vec![
            target("posix01, one file,  2 CPUs", 420.179 / 780.505, Standing::Claimed),
            target("posix02, own files, 2 CPUs", 257.242 / 319.866, Standing::Claimed),
            target("flock01, one file,  2 CPUs", 729.303 / 704.610, Standing::Claimed),
            target("flock02, own files, 2 CPUs", FLOCK02_ON_2, Standing::Anchor),
            target("posix01, one file,  32 CPUs", 25504.77 / 30889.16, Standing::Claimed),
            target("posix02, own files, 32 CPUs", 541.355 / 1354.737, Standing::Claimed),
            target("flock01, one file,  32 CPUs", 24743.348 / 23617.876, Standing::Claimed),
            target("flock02, own files, 32 CPUs", 8.476 / 1348.646, Standing::Claimed).in_a_test(),
        ],
        model: Model::Mechanism(MechanismModel { inputs, nulls, predict, figure: None }),
        limitations: texts(&[
            "with one file on 2 CPUs one or two tasks sleep at a time, in the model. So the walk over all \
         sleepers, which was made faster, is short, and posix01 is missed. The times of the report, 5 us a \
         pair of calls, leave no room for long walks either: what made posix01 faster there is not known. If \
         each woken task took the CPU immediately, the ratio would be 0.6 to 1.05: tasks fall into step \
         differently",
            "busy CPUs do not balance",
            "the CPU of the 2-way host is not known; its transfers are those within an Intel socket",
        ]),
    }
}

const FLOCK02_ON_2: f64 = 167.231 / 241.263;

fn target(what: &str, ratio: f64, standing: Standing) -> Target {
    Target::new(what, Reported::Ratio(ratio), standing)
}

fn inputs() -> Vec<Input> {
    let report = "the report";
    vec![
        Input::found("processes", 128.0, report),
        Input::assumed(
            "work under the lock",
            50.0,
            200.0,
            "ns",
            "one to a few hundred instructions besides the accesses to shared data",
        ),
        Input::assumed(
            "work under the locks beside",
            5.0,
            20.0,
            "ns",
            "ten to forty instructions for each: the list of waiters, and that of locks held on this CPU",
        )
        .chosen_late("2026-11-22, after a day of replays with the list of waiters only"),
        Input::assumed(
            "the lock of everything beside the list of all",
            0.0,
            1.0,
            "",
            "declared one after the other, they share a cache line at 5 of 8 addresses; 0.5 and more: they do",
        )
        .chosen_late("2026-11-21, two hours after the first replay, which missed posix01"),
        Input::assumed(
            "more work of a pair of fcntl calls",
            50.0,
            350.0,
            "ns",
            "locking allocates, clears and frees two more records; both calls copy a structure from the user",
        ),
    ]
}

/// What the only anchor, flock02 on 2 CPUs, says about flock02 on 32.
fn nulls() -> Vec<NullPredictions> {
    let serial = serial_share(FLOCK02_ON_2);
    let flock02 = NullPredictions {
        usl: Some(usl(32.0, contention_of(2.0, 2.0 * FLOCK02_ON_2), 0.0) / 32.0),
        queueing: Some(closed_network(32, 1.0 - serial, |_| serial) / 32.0),
    };
    let mut nulls = vec![NullPredictions::default(); 8];
    nulls[7] = flock02;
    nulls
}

/// A test of the report: the kind of locks, and the number of files.
#[derive(Clone, Copy)]
struct ReportedTest {
    kind: &'static str,
    files: u64,
}

const POSIX01: ReportedTest = ReportedTest { kind: "posix", files: 1 };
const POSIX02: ReportedTest = ReportedTest { kind: "posix", files: 128 };
const FLOCK01: ReportedTest = ReportedTest { kind: "flock", files: 1 };
const FLOCK02: ReportedTest = ReportedTest { kind: "flock", files: 128 };

fn predict(drawn: &DrawnInputs) -> Result<Prediction> {
    let outside = fit([50.0, 20_000.0], FLOCK02_ON_2, |outside| {
        Ok(ratio(drawn, outside, ("uma-2", 2), FLOCK02)?.value)
    })?;
    let mut values = Vec::new();
    for host in [("uma-2", 2), ("opteron-32", 32)] {
        for test in [POSIX01, POSIX02, FLOCK01, FLOCK02] {
            values.push(ratio(drawn, outside, host, test)?);
        }
    }
    Ok(Prediction { fitted: Some(outside), values })
}

/// The time after the change over that before, which is throughput before over throughput after.
fn ratio(
    drawn: &DrawnInputs,
    outside: f64,
    (host, cpus): (&str, usize),
    test: ReportedTest,
) -> Result<PredictedValue> {
    let host = drawn.cpus(host, Placement::Cores, cpus);
    let fcntl_work = drawn.get("more work of a pair of fcntl calls");
    // All of it before the lock is taken.
    let more = if test.kind == "posix" { fcntl_work } else { 0.0 };
    // Long enough for some hundred operations of the slowest test.
    let length_us = match (test.files, cpus) {
        (1, 32) => 60_000,
        (1, _) => 30_000,
        (_, 32) => 8_000,
        _ => 2_000,
    };
    let run = |design, length_us| {
        let design = MechanismDesign::new("file_locks", design)?
            .with("kind", test.kind)
            .with("files", test.files)
            .with("in_lock_ns", drawn.whole("work under the lock"))
            .with("in_beside_ns", drawn.whole("work under the locks beside"))
            // Half of the work of a pair is between its calls.
            .with("held_ns", (outside / 2.0).round());
        let work_ns = (outside / 2.0 + more).round() as u64;
        let tasks = drawn.whole("processes") as usize;
        anyhow::Ok(drawn.run(design, work_ns, &host, tasks, length_us)?.simulated)
    };
    // The patches as posted woke tasks under the lock of blocked requests. The test of the last
    // row does some hundred times as many operations.
    let after_us = if test.files > 1 && test.kind == "flock" { 1_000 } else { length_us };
    let shares_line = drawn.get("the lock of everything beside the list of all") >= 0.5;
    let before = if shares_line { "before+together" } else { "before" };
    Ok(PredictedValue::times(&run("after+wake-locked", after_us)?, &run(before, length_us)?))
}
