//! I2: the lock at the threshold. Nine tasks commit extended attributes to XFS's log, on two sockets;
//! one exclusive miss more or less under the lock of the list decides.

use anyhow::{Context, Result};
use engines::simulated::Row;
use records::Placement;

use super::null_models::closed;
use super::{
    Drawn, Figure, Fitted, Incident, Input, Nulls, Predicted, Reported, Standing, Target, fitted,
    share,
};
use crate::simulations::mechanisms::{Operated, Ran};

pub const INCIDENT: Incident = Incident {
    name: "I2",
    title: "the lock of the commit list at the threshold: operations/s over those of the baseline",
    sources: &[
        "D. Chinner, Re: [LKP] Re: [xfs] 016a23388c: stress-ng.xattr.ops_per_sec 58.4% improvement, 2022-08-02",
        "F. Yin, in the same thread, 2022-08-02; kernel test robot, 2022-07-21 (host, tasks, profile)",
    ],
    hosts: &["icelake-2s"],
    inputs,
    fitted: Some(Fitted {
        name: "work of a transaction outside of the lock, ns",
        to: "25.64 % of the baseline's cycles waiting for the lock of the list",
    }),
    targets: &[
        target("order ids, items stay where they are", 2385.0 / 1544.0),
        target("lists per CPU", 2531.0 / 1544.0),
        target("order ids, items moved to the tail", 1.0),
    ],
    nulls,
    predict,
    figure: Some(threshold),
    lacks: &[
        "where the scheduler puts nine tasks is not known; they are spread over both sockets, as a \
         balancer does",
        "with order ids the lock is still taken, and in the model by nine tasks on two sockets still \
         queued for: it gives ids too little",
        "memory traffic of others, which the analysis of the report has on the edge, is not there",
    ],
};

const WAITING: f64 = 0.2564;

const fn target(what: &'static str, ratio: f64) -> Target {
    Target { what, reported: Reported::Ratio(ratio), standing: Standing::Claimed }
}

fn inputs() -> Vec<Input> {
    vec![
        Input::found("tasks", 9.0, "nr_threads=10% of 96"),
        Input::assumed(
            "work under the lock",
            20.0,
            80.0,
            "ns",
            "some tens of instructions beside the list",
        ),
        Input::assumed(
            "share of the lock's transfers in its slow path",
            0.0,
            0.6,
            "",
            "of lines that come only because of the lock and its list, some come in the slow path \
             itself, the others after it",
        ),
        Input::assumed(
            "items of a task",
            2.0,
            4.0,
            "",
            "an inode and a leaf of its attributes, of the one file of each stressor",
        ),
    ]
}

/// With what the profile says: nine customers of whose cycles a quarter is waiting. Without the lock
/// that is gone; of items that move nothing is known.
fn nulls() -> Vec<Nulls> {
    let gain = Nulls { usl: None, queueing: Some(gain_without_waiting(WAITING)) };
    vec![gain, gain, Nulls::default()]
}

/// How much faster nine customers are without the queue in which they wait for this share.
fn gain_without_waiting(waiting: f64) -> f64 {
    let (mut low, mut high) = (1e-6, 1.0 - 1e-6);
    for _ in 0..60 {
        let serial = (low + high) / 2.0;
        let rate = closed(9, 1.0 - serial, |_| serial);
        match 1.0 - rate / 9.0 < waiting {
            true => low = serial,
            false => high = serial,
        }
    }
    9.0 / closed(9, 1.0 - low, |_| low)
}

const BASELINE: &str = "before+per-cpu-space";
const IDS: &str = "after+one-list";
const MOVED: &str = "after+moved";

fn predict(drawn: &Drawn) -> Result<Predicted> {
    let outside = fitted([300.0, 30_000.0], WAITING, |outside| slow_path(drawn, outside))?;
    let rate = |design| {
        let in_lock = drawn.whole("work under the lock");
        anyhow::Ok(run(drawn, design, outside, in_lock, 4_000)?.outcome.rate())
    };
    let baseline = rate(BASELINE)?;
    let ratio = |design| Ok(rate(design)? / baseline);
    let values = [IDS, "after", MOVED].into_iter().map(ratio).collect::<Result<_>>()?;
    Ok(Predicted { fitted: Some(outside), values })
}

fn run(drawn: &Drawn, design: &str, outside: f64, in_lock: u64, length_us: u64) -> Result<Ran> {
    let tasks = drawn.whole("tasks") as usize;
    let host = drawn.cpus("icelake-2s", Placement::Scatter, tasks);
    let operated = Operated::new("log_commit_list", design)?
        .with("own_items", drawn.whole("items of a task"))
        .with("shared_one_in", 1_000_000)
        .with("in_lock_ns", in_lock);
    let operated =
        Operated { work_ns: outside.round() as u64, over: "queued".to_string(), ..operated };
    drawn.run(&operated, &host, tasks, length_us)
}

/// The share of the baseline's time in the slow path of the lock: its queue, and some of the
/// transfers that are not there without the lock.
fn slow_path(drawn: &Drawn, outside: f64) -> Result<f64> {
    let in_lock = drawn.whole("work under the lock");
    let transfers = |ran: &Ran| share(&ran.outcome, &[Row::Transfer]) / ran.outcome.rate();
    let with = run(drawn, BASELINE, outside, in_lock, 1_000)?;
    let without = run(drawn, "after", outside, in_lock, 1_000)?;
    let more = (transfers(&with) - transfers(&without)) * with.outcome.rate();
    let of_them = drawn.get("share of the lock's transfers in its slow path");
    Ok(share(&with.outcome, &[Row::Spinning]) + of_them * more.max(0.0))
}

/// Throughput over what is added under the lock: a cliff, not a slope.
fn threshold(drawn: &Drawn, outside: Option<f64>) -> Result<Figure> {
    let outside = outside.context("the work outside is fitted")?;
    let without = run(drawn, "after", outside, 0, 4_000)?.outcome.rate();
    let row = |in_lock: u64| {
        let share = |design| {
            anyhow::Ok(run(drawn, design, outside, in_lock, 4_000)?.outcome.rate() / without)
        };
        Ok(vec![in_lock as f64, share(BASELINE)?, share(MOVED)?, share(IDS)?])
    };
    let rows = [0, 20, 40, 60, 80, 120, 160, 240, 320].into_iter().map(row);
    Ok(Figure {
        title: "operations/s, over those with lists per CPU, by what is added under the lock",
        columns: vec!["added, ns", "baseline", "ids, moved", "ids"],
        rows: rows.collect::<Result<_>>()?,
    })
}
