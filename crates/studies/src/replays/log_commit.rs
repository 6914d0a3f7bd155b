//! I2: a lock at the threshold of collapse. Nine tasks on two sockets commit extended attributes to
//! XFS's log; one exclusive miss more or less under the lock of the commit list decides.

use anyhow::{Context, Result};
use engines::simulated::TimeRow;
use host::Placement;

use super::null_models::closed_network;
use super::{
    DrawnInputs, Figure, FittedInput, Incident, Input, MechanismModel, Model, NullPredictions,
    PredictedValue, Prediction, Reported, Standing, Target, fit, share, texts,
};
use crate::simulations::mechanisms::MechanismRun;
use crate::subject::MechanismDesign;

pub fn incident() -> Incident {
    Incident {
        name: "I2".to_string(),
        title:
            "the lock of the commit list at the threshold: operations/s over those of the baseline"
                .to_string(),
        sources: texts(&[
            "D. Chinner, Re: [LKP] Re: [xfs] 016a23388c: stress-ng.xattr.ops_per_sec 58.4% improvement, 2022-08-02",
            "F. Yin, in the same thread, 2022-08-02; kernel test robot, 2022-07-21 (host, tasks, profile)",
        ]),
        hosts: texts(&["icelake-2s"]),
        fitted: Some(FittedInput {
            name: "work of a transaction outside of the lock, ns".to_string(),
            to: "25.64 % of the baseline's cycles waiting for the lock of the list".to_string(),
        }),
        targets: vec![
            target("order ids, items stay where they are", 2385.0 / 1544.0),
            target("lists per CPU", 2531.0 / 1544.0),
            target("order ids, items moved to the tail", 1.0),
        ],
        model: Model::Mechanism(MechanismModel { inputs, nulls, predict, figure: Some(threshold) }),
        limitations: texts(&[
            "where the scheduler put the nine tasks is not known; here they are spread over both sockets, as a \
         load balancer would",
            "with order ids the lock is still taken, and in the model nine tasks on two sockets still queue \
         for it: the model predicts too little for ids",
            "the model has no other memory traffic, which the report's analysis says is at its limit",
        ]),
    }
}

const WAITING: f64 = 0.2564;

fn target(what: &str, ratio: f64) -> Target {
    Target::new(what, Reported::Ratio(ratio), Standing::Claimed)
}

fn inputs() -> Vec<Input> {
    vec![
        Input::found("tasks", 9.0, "nr_threads=10% of 96"),
        Input::assumed(
            "work under the lock",
            20.0,
            80.0,
            "ns",
            "some tens of instructions besides the list",
        ),
        Input::assumed(
            "share of the lock's transfers in its slow path",
            0.0,
            0.6,
            "",
            "some of the lines that move only because of the lock and its list move in the slow path, \
             the others after it",
        ),
        Input::assumed(
            "items of a task",
            2.0,
            4.0,
            "",
            "each stressor has one file: its inode and a leaf of its attributes",
        ),
    ]
}

/// What the profile alone says: nine customers spend a quarter of their cycles waiting, which they
/// do not without the lock. It says nothing about items that are moved.
fn nulls() -> Vec<NullPredictions> {
    let gain = NullPredictions { usl: None, queueing: Some(gain_without_waiting(WAITING)) };
    vec![gain, gain, NullPredictions::default()]
}

/// How many times faster nine customers are without the queue in which they wait for this share
/// of their time.
fn gain_without_waiting(waiting: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let serial = (low + high) / 2.0;
        let rate = closed_network(9, 1.0 - serial, |_| serial);
        if 1.0 - rate / 9.0 < waiting {
            low = serial;
        } else {
            high = serial;
        }
    }
    9.0 / closed_network(9, 1.0 - low, |_| low)
}

const BASELINE: &str = "before+per-cpu-space";
const IDS: &str = "after+one-list";
const MOVED: &str = "after+moved";

fn predict(drawn: &DrawnInputs) -> Result<Prediction> {
    let outside = fit([300.0, 30_000.0], WAITING, |outside| slow_path(drawn, outside))?;
    let run = |design| {
        let in_lock = drawn.whole("work under the lock");
        anyhow::Ok(run(drawn, design, outside, in_lock, 4_000)?.simulated)
    };
    let baseline = run(BASELINE)?;
    let ratio = |design| Ok(PredictedValue::rates(&run(design)?, &baseline));
    let values = [IDS, "after", MOVED].into_iter().map(ratio).collect::<Result<_>>()?;
    Ok(Prediction { fitted: Some(outside), values })
}

fn run(
    drawn: &DrawnInputs,
    design: &str,
    outside: f64,
    in_lock: u64,
    length_us: u64,
) -> Result<MechanismRun> {
    let tasks = drawn.whole("tasks") as usize;
    let host = drawn.cpus("icelake-2s", Placement::Scatter, tasks);
    let design = MechanismDesign::new("log_commit_list", design)?
        .with("own_items", drawn.whole("items of a task"))
        .with("shared_one_in", 1_000_000)
        .with("in_lock_ns", in_lock);
    let design = MechanismDesign { over: "queued".to_string(), ..design };
    drawn.run(design, outside.round() as u64, &host, tasks, length_us)
}

/// The share of the baseline's time in the slow path of the lock: queueing, and some of the
/// transfers that the design without the lock does not have.
fn slow_path(drawn: &DrawnInputs, outside: f64) -> Result<f64> {
    let in_lock = drawn.whole("work under the lock");
    let transfers =
        |run: &MechanismRun| share(&run.simulated, &[TimeRow::Transfer]) / run.simulated.rate();
    let with = run(drawn, BASELINE, outside, in_lock, 1_000)?;
    let without = run(drawn, "after", outside, in_lock, 1_000)?;
    let lock_transfers = (transfers(&with) - transfers(&without)) * with.simulated.rate();
    let in_slow_path = drawn.get("share of the lock's transfers in its slow path");
    Ok(share(&with.simulated, &[TimeRow::Spinning]) + in_slow_path * lock_transfers.max(0.0))
}

/// Throughput by the work added under the lock: a cliff, not a slope.
fn threshold(drawn: &DrawnInputs, outside: Option<f64>) -> Result<Figure> {
    let outside = outside.context("the work outside is fitted")?;
    let without = run(drawn, "after", outside, 0, 4_000)?.simulated.rate();
    let row = |in_lock: u64| {
        let share = |design| {
            anyhow::Ok(run(drawn, design, outside, in_lock, 4_000)?.simulated.rate() / without)
        };
        Ok(vec![in_lock as f64, share(BASELINE)?, share(MOVED)?, share(IDS)?])
    };
    let rows = [0, 20, 40, 60, 80, 120, 160, 240, 320].into_iter().map(row);
    Ok(Figure {
        title: "operations/s, over those with lists per CPU, by the work added under the lock"
            .to_string(),
        columns: ["added, ns", "baseline", "ids, moved", "ids"].map(str::to_string).to_vec(),
        rows: rows.collect::<Result<_>>()?,
    })
}
