//! A fleet on other hosts, by ssh and by Slurm: both are started here, on the loopback, with files in the
//! test's home. Skipped where their programs are missing or the user is not root.

mod slurm;
mod ssh;

use std::path::PathBuf;

use records::{Opened, Point};

/// Two variants in eight blocks, which become four chunks.
const EXPERIMENT: &str = "getppid --cpus 1 --seconds 0.01 --variant p=as=processes --variant t=as=threads \
                          --blocks 8 --seed 7 --chunk 2s --lease 600s";

/// What of a record is neither the host's nor the time's: the experiment, its points, and which runs there are in
/// which order. Without fleets, blocks are added for those that the host disturbed: they are left out.
fn essence(record: &Opened) -> Vec<String> {
    let planned = record.runs.iter().filter(|run| run.block < 8);
    let runs = planned.map(|run| {
        let [block, point, repeat] = [run.block, run.point, run.repeat];
        format!("{block} {point} {} {repeat} {}", run.placebo, run.finished())
    });
    let points = record
        .record
        .points
        .iter()
        .map(|point| format!("{:?}", Point { dir: PathBuf::new(), ..point.clone() }));
    let experiment = format!("{:?}", record.record.experiment);
    runs.chain(points).chain([experiment]).collect()
}
