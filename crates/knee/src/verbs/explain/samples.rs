//! A point of a record with its profiles: its samples, locks and interrupts.

use anyhow::{Context, Result};
use explanations::ledger::{LedgerPart, ipis_part, locks_part};
use explanations::recording::{self, FlameGraph, NamedRecording};
use ledger::{ipis, locks, recording_from_looks};
use records::recording::{Origin, Recording};
use records::{Opened, Profile};

/// A point of a record with its profiles.
pub struct ProfiledPoint<'a> {
    pub title: String,
    record: &'a Opened,
    looks: Vec<&'a Profile>,
    point: usize,
}

impl<'a> ProfiledPoint<'a> {
    /// A point of a record, with its own of the record's profiles.
    pub fn new(record: &'a Opened, looks: &'a [Profile], point: usize) -> ProfiledPoint<'a> {
        ProfiledPoint {
            title: explanations::ledger::title(&record.record.points[point]),
            record,
            looks: looks.iter().filter(|look| look.point as usize == point).collect(),
            point,
        }
    }

    /// The samples of all tasks, and the number of operations.
    pub fn samples(&self) -> Result<(Recording, u64)> {
        let host = &self.record.record.host;
        let origin = Origin {
            host: host.hostname.clone().unwrap_or_default(),
            release: host.kernel_release.clone().unwrap_or_default(),
            ..Origin::default()
        };
        let workload = &self.record.record.points[self.point].workload;
        recording_from_looks(&self.looks, workload, origin).with_context(|| self.without("samples"))
    }

    /// The samples of the workload's own tasks, and the number of operations.
    pub fn workload_samples(&self) -> Result<(Recording, u64)> {
        let (mut recording, operations) = self.samples()?;
        let name = &self.record.record.points[self.point].workload;
        let tasks = &recording.tasks;
        recording.samples.retain(|sample| tasks[sample.task as usize] == *name);
        Ok((recording, operations))
    }

    /// The locks that its tasks waited for.
    pub fn locks(&self) -> Result<LedgerPart> {
        let locks = locks(&self.looks).with_context(|| self.without("profile of its time"))?;
        Ok(locks_part(&self.title, &locks))
    }

    /// Its interrupts from other CPUs.
    pub fn ipis(&self) -> Result<LedgerPart> {
        let ipis = ipis(&self.looks).with_context(|| self.without("profile of its time"))?;
        Ok(ipis_part(&self.title, &ipis))
    }

    /// Samples under its title.
    pub fn named<'b>(&'b self, recording: &'b Recording, operations: u64) -> NamedRecording<'b> {
        NamedRecording {
            name: &self.title,
            recording,
            operations: Some(operations).filter(|n| *n > 0),
        }
    }

    fn without(&self, what: &str) -> String {
        if let Some(source) = &self.record.record.source {
            return format!(
                "{} has no {what}: {} recorded results only; knee run --explain measures where time goes",
                self.title, source.format
            );
        }
        format!(
            "{} has no {what}: measure it as root with knee explain or knee run --explain; knee \
             doctor shows what is missing",
            self.title
        )
    }
}

/// The stacks of the workload's own tasks in points of one load, each with its name; `None` without samples.
pub fn flame(points: &[(String, ProfiledPoint)]) -> Option<FlameGraph> {
    let samples = points.iter().map(|(_, point)| point.workload_samples().ok());
    let samples: Vec<(Recording, u64)> = samples.collect::<Option<_>>()?;
    let named = points.iter().zip(&samples).map(|((name, _), (recording, operations))| {
        let operations = Some(*operations).filter(|n| *n > 0);
        NamedRecording { name, recording, operations }
    });
    recording::flame(&named.collect::<Vec<_>>())
}
