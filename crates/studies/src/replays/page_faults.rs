//! I4: write faults on three file systems. 160 processes fault pages of a file of their own each; now
//! and then a fault has something to log.

use anyhow::Result;
use engines::simulated::Row;
use records::Placement;

use super::{Drawn, Figure, Incident, Input, Nulls, Predicted, Reported, Standing, Target, share};
use crate::simulations::mechanisms::{Operated, Ran};

pub const INCIDENT: Incident = Incident {
    name: "I4",
    title: "write faults on three file systems, 160 processes",
    sources: &["D. Hansen, page fault scalability (ext3, ext4, xfs), 2013-08-14"],
    hosts: &["westmere-ex-8s"],
    inputs,
    fitted: None,
    targets: &[
        Target {
            what: "more time in spinlocks on xfs",
            reported: Reported::Share(0.1249),
            standing: Standing::Claimed,
        },
        Target {
            what: "faults/s, xfs / ext4",
            reported: Reported::Ratio(0.70 / 0.80),
            standing: Standing::Claimed,
        },
        Target {
            what: "faults/s, ext4 / ext3",
            reported: Reported::Ratio(0.80),
            standing: Standing::Open,
        },
    ],
    nulls: || vec![Nulls::default(); 3],
    predict,
    figure: Some(curve),
    lacks: &[
        "a file's time stamp changes with the tick, for all tasks at once: each tick all 160 come to the \
         lock of the list. How long a tick was is not reported",
        "ext4 against ext3 is the length of their paths, of which the model has nothing: it has the \
         locks of their journals, by which ext3 is the slower one",
    ],
};

fn inputs() -> Vec<Input> {
    vec![
        Input::found("tasks", 160.0, "the report"),
        Input::assumed(
            "tick",
            1.0,
            4.0,
            "ms",
            "1000, 300 or 250 ticks a second in kernels of that time",
        ),
        Input::assumed(
            "work of a fault",
            3000.0,
            8000.0,
            "ns",
            "a fault that finds a page of the cache and marks it dirty, through a file system",
        ),
        Input::assumed(
            "work under the lock",
            50.0,
            200.0,
            "ns",
            "one to some hundred instructions beside the list",
        ),
    ]
}

const EXT3: &str = "one-lock";
const EXT4: &str = "read-side";
const XFS: &str = "counters+list";

fn predict(drawn: &Drawn) -> Result<Predicted> {
    let tasks = drawn.whole("tasks") as usize;
    let run = |design| anyhow::Ok(run(drawn, design, tasks)?.outcome);
    let (ext3, ext4, xfs) = (run(EXT3)?, run(EXT4)?, run(XFS)?);
    let waiting = |outcome| share(outcome, &[Row::Spinning, Row::Transfer]);
    let more = waiting(&xfs) - waiting(&ext4);
    let values = vec![more, xfs.rate() / ext4.rate(), ext4.rate() / ext3.rate()];
    Ok(Predicted { fitted: None, values })
}

fn run(drawn: &Drawn, design: &str, tasks: usize) -> Result<Ran> {
    let host = drawn.cpus("westmere-ex-8s", Placement::Cores, tasks);
    let (tick, fault) = (drawn.get("tick") * 1e6, drawn.get("work of a fault"));
    let operated = Operated::new("fault_path", design)?
        .with("tick_faults", (tick / fault).round())
        .with("in_lock_ns", drawn.whole("work under the lock"));
    let operated = Operated { work_ns: fault.round() as u64, ..operated };
    // Some ticks.
    drawn.run(&operated, &host, tasks, (4.0 * tick / 1e3) as u64)
}

/// Faults over those of one task.
fn curve(drawn: &Drawn, _: Option<f64>) -> Result<Figure> {
    let one = run(drawn, EXT4, 1)?.outcome.rate();
    let row = |tasks: usize| {
        let times = |design| anyhow::Ok(run(drawn, design, tasks)?.outcome.rate() / one);
        Ok(vec![tasks as f64, times(EXT3)?, times(EXT4)?, times(XFS)?])
    };
    let rows = [1, 10, 20, 40, 60, 80, 120, 160].into_iter().map(row);
    Ok(Figure {
        title: "faults/s, over those of one task on ext4",
        columns: vec!["tasks", "ext3", "ext4", "xfs"],
        rows: rows.collect::<Result<_>>()?,
    })
}
