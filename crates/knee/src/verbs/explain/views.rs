//! Views known from other tools (perf, flame graphs, the Firefox Profiler), made from profiles.

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use explanations::recording::{self, FlameGraph, NamedRecording};
use ledger::{Ipis, Locks, ipis, locks, recording_from_looks};
use records::recording::{Origin, Recording};
use records::{Opened, Profile};
use text::Style;

/// A form in which `knee explain` shows profiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfileView {
    /// Ledger that adds up to the whole time; for two, the changes, ranked
    Ledger,
    /// Call tree of each function: percent, symbol, callers
    Tree,
    /// Comparison of two, like perf diff but per operation: baseline, delta, object, symbol
    Diff,
    /// Folded stacks for flame graphs, one per line; for two, with both counts
    Folded,
    /// JSON for the Firefox Profiler
    Firefox,
    /// Lock contention: how often and how long tasks spin and sleep, and which tasks
    Locks,
    /// Inter-processor interrupts: how many, their cost, and their senders
    Ipis,
}

impl ProfileView {
    /// Whether the view compares two variants if there are two.
    pub fn is_of_pairs(self) -> bool {
        matches!(self, ProfileView::Diff | ProfileView::Folded)
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// A point of a record with its profiles.
pub struct ProfiledPoint<'a> {
    title: String,
    record: &'a Opened,
    looks: Vec<&'a Profile>,
    point: usize,
}

/// The view of each point. Views that are a file for another program allow only one point.
pub fn of_points(view: ProfileView, points: &[ProfiledPoint], style: Style) -> Result<String> {
    let text = |point: &ProfiledPoint| -> Result<String> {
        Ok(match view {
            ProfileView::Locks => explanations::ledger::locks(&point.locks()?, style),
            ProfileView::Ipis => explanations::ledger::ipis(&point.ipis()?, style),
            ProfileView::Tree => {
                let (recording, operations) = point.workload_samples()?;
                recording::callers(&point.named(&recording, operations))
            }
            ProfileView::Folded | ProfileView::Firefox => {
                ensure!(points.len() == 1, too_many(view, points.iter().map(|p| &p.title)));
                let (recording, operations) = point.samples()?;
                let named = point.named(&recording, operations);
                let is_folded = view == ProfileView::Folded;
                if is_folded { recording::folded(&named) } else { recording::firefox(&named) }
            }
            ProfileView::Diff => bail!("--view diff compares two: name two variants or records"),
            ProfileView::Ledger => bail!("bug in knee: the ledger is not a view of profiles"),
        })
    };
    let is_file = matches!(view, ProfileView::Folded | ProfileView::Firefox);
    let titled = |point: &ProfiledPoint| -> Result<String> {
        let text = text(point)?;
        Ok(if is_file { text } else { style.bold(&point.title) + "\n\n" + &text })
    };
    Ok(points.iter().map(titled).collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The view of each pair. Views that are a file for another program allow only one pair.
pub fn of_pairs(view: ProfileView, pairs: &[[ProfiledPoint; 2]], style: Style) -> Result<String> {
    let text = |[base, new]: &[ProfiledPoint; 2]| -> Result<String> {
        let samples = |point: &ProfiledPoint| match view {
            ProfileView::Folded => point.samples(),
            _ => point.workload_samples(),
        };
        let sampled = [samples(base)?, samples(new)?];
        let named =
            [base.named(&sampled[0].0, sampled[0].1), new.named(&sampled[1].0, sampled[1].1)];
        let both = [&named[0], &named[1]];
        if view == ProfileView::Folded {
            let titles = pairs.iter().map(|[_, new]| &new.title);
            ensure!(pairs.len() == 1, too_many(view, titles));
            return Ok(recording::folded_pair(both));
        }
        let title = style.bold(&format!("{}, then {}", base.title, new.title));
        Ok(title + "\n\n" + &recording::functions(both, style))
    };
    Ok(pairs.iter().map(text).collect::<Result<Vec<_>>>()?.join("\n"))
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

fn too_many<'a>(view: ProfileView, titles: impl Iterator<Item = &'a String>) -> String {
    let titles: Vec<&str> = titles.map(String::as_str).collect();
    format!(
        "--view {} writes one file, but there are {}: {}; measure one workload with one --cpus",
        view.name(),
        text::prose::counted(titles.len(), "point"),
        titles.join("; ")
    )
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
    fn samples(&self) -> Result<(Recording, u64)> {
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
    fn workload_samples(&self) -> Result<(Recording, u64)> {
        let (mut recording, operations) = self.samples()?;
        let name = &self.record.record.points[self.point].workload;
        let tasks = &recording.tasks;
        recording.samples.retain(|sample| tasks[sample.task as usize] == *name);
        Ok((recording, operations))
    }

    fn locks(&self) -> Result<Locks> {
        locks(&self.looks).with_context(|| self.without("profile of its time"))
    }

    fn ipis(&self) -> Result<Ipis> {
        ipis(&self.looks).with_context(|| self.without("profile of its time"))
    }

    fn named<'b>(&'b self, recording: &'b Recording, operations: u64) -> NamedRecording<'b> {
        NamedRecording {
            name: &self.title,
            recording,
            operations: Some(operations).filter(|n| *n > 0),
        }
    }

    fn without(&self, what: &str) -> String {
        format!(
            "{} has no {what}: measure it as root with knee explain or knee run --explain; knee \
             doctor shows what is missing",
            self.title
        )
    }
}
