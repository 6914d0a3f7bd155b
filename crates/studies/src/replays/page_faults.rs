//! I4: write faults on three file systems. Each of 160 processes faults pages of its own file; now and
//! then a fault has something to log.

use anyhow::Result;
use engines::simulated::TimeRow;
use host::Placement;

use super::{
    DrawnInputs, Figure, Incident, Input, MechanismModel, Model, NullPredictions, PredictedValue,
    Prediction, Reported, Standing, Target, share, texts,
};
use crate::simulations::mechanisms::MechanismRun;
use crate::subject::MechanismDesign;

pub fn incident() -> Incident {
    Incident {
        name: "I4".to_string(),
        title: "write faults on three file systems, 160 processes".to_string(),
        sources: texts(&["D. Hansen, page fault scalability (ext3, ext4, xfs), 2013-08-14"]),
        hosts: texts(&["westmere-ex-8s"]),
        fitted: None,
        targets: vec![
            Target::new(
                "more time in spinlocks on xfs",
                Reported::Share(0.1249),
                Standing::Claimed,
            ),
            Target::new("faults/s, xfs / ext4", Reported::Ratio(0.70 / 0.80), Standing::Claimed),
            Target::new("faults/s, ext4 / ext3", Reported::Ratio(0.80), Standing::Open),
        ],
        model: Model::Mechanism(MechanismModel {
            inputs,
            nulls: || vec![NullPredictions::default(); 3],
            predict,
            figure: Some(curve),
        }),
        limitations: texts(&[
            "a file's time stamp changes with the tick, for all tasks at once: each tick all 160 come to \
         the lock of the list. How long a tick was is not reported",
            "ext3 and ext4 differ by the lengths of their code paths, which the model does not have. It has the \
         locks of their journals, which make ext3 slower",
        ]),
    }
}

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
            "a fault that finds a page in the cache and marks it dirty, through a file system",
        ),
        Input::assumed(
            "work under the lock",
            50.0,
            200.0,
            "ns",
            "one to a few hundred instructions besides the list",
        ),
    ]
}

const EXT3: &str = "one-lock";
const EXT4: &str = "read-side";
const XFS: &str = "counters+list";

fn predict(drawn: &DrawnInputs) -> Result<Prediction> {
    let tasks = drawn.whole("tasks") as usize;
    let run = |design| anyhow::Ok(run(drawn, design, tasks)?.simulated);
    let (ext3, ext4, xfs) = (run(EXT3)?, run(EXT4)?, run(XFS)?);
    let waiting = |run| share(run, &[TimeRow::Spinning, TimeRow::Transfer]);
    let more = waiting(&xfs) - waiting(&ext4);
    let values = vec![
        PredictedValue::plain(more),
        PredictedValue::rates(&xfs, &ext4),
        PredictedValue::rates(&ext4, &ext3),
    ];
    Ok(Prediction { fitted: None, values })
}

fn run(drawn: &DrawnInputs, design: &str, tasks: usize) -> Result<MechanismRun> {
    let host = drawn.cpus("westmere-ex-8s", Placement::Cores, tasks);
    let (tick, fault) = (drawn.get("tick") * 1e6, drawn.get("work of a fault"));
    let design = MechanismDesign::new("fault_path", design)?
        .with("tick_faults", (tick / fault).round())
        .with("credits", 8)
        .with("in_lock_ns", drawn.whole("work under the lock"));
    // Four ticks.
    drawn.run(design, fault.round() as u64, &host, tasks, (4.0 * tick / 1e3) as u64)
}

/// Throughput over that of one task.
fn curve(drawn: &DrawnInputs, _: Option<f64>) -> Result<Figure> {
    let single_task = run(drawn, EXT4, 1)?.simulated.rate();
    let row = |tasks: usize| {
        let times = |design| anyhow::Ok(run(drawn, design, tasks)?.simulated.rate() / single_task);
        Ok(vec![tasks as f64, times(EXT3)?, times(EXT4)?, times(XFS)?])
    };
    let rows = [1, 10, 20, 40, 60, 80, 120, 160].into_iter().map(row);
    Ok(Figure {
        title: "faults/s, over those of one task on ext4".to_string(),
        columns: ["tasks", "ext3", "ext4", "xfs"].map(str::to_string).to_vec(),
        rows: rows.collect::<Result<_>>()?,
    })
}
