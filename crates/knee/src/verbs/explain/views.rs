//! The views that people know of other tools, of what looks have sampled and timed.

use analysis::ledger::{Ipis, Locks, ipis, locks, recording_from_looks};
use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use perf_data::{Origin, Recording};
use records::{Opened, Profile};
use reports;
use reports::Style;
use reports::recording::{self, NamedRecording};

/// How what was seen is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum View {
    /// A ledger that adds up; of two, what changed, ranked
    Ledger,
    /// Callers of each function: percent, symbol, chain
    Tree,
    /// Two: baseline, delta, object, symbol, like perf diff but per operation
    Diff,
    /// Stacks for flame graphs, a line each; of two, both counts
    Folded,
    /// JSON for the Firefox Profiler
    Firefox,
    /// Locks: how often spun and slept for, how long, by whom
    Locks,
    /// Interrupts from other CPUs: how often, how dear, who sends them
    Ipis,
}

impl View {
    /// Whether it is of two variants where there are two.
    pub fn is_of_pairs(self) -> bool {
        matches!(self, View::Diff | View::Folded)
    }

    /// The word for it on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// A point with its looks.
pub struct Place<'a> {
    title: String,
    record: &'a Opened,
    looks: Vec<&'a Profile>,
    point: usize,
}

/// The view of each point; of one alone where it is for another program.
pub fn of_points(view: View, places: &[Place], style: Style) -> Result<String> {
    let text = |place: &Place| -> Result<String> {
        Ok(match view {
            View::Locks => reports::locks(&place.locks()?, style),
            View::Ipis => reports::ipis(&place.ipis()?, style),
            View::Tree => {
                let (recording, operations) = place.worked()?;
                recording::callers(&place.told(&recording, operations))
            }
            View::Folded | View::Firefox => {
                ensure!(places.len() == 1, too_many(view, places.iter().map(|p| &p.title)));
                let (recording, operations) = place.sampled()?;
                let told = place.told(&recording, operations);
                let folded = view == View::Folded;
                if folded { recording::folded(&told) } else { recording::firefox(&told) }
            }
            View::Diff => bail!("--view diff is of two: name two variants or records"),
            View::Ledger => bail!("knee's own mistake: a ledger is no view of looks"),
        })
    };
    let is_file = matches!(view, View::Folded | View::Firefox);
    let titled = |place: &Place| -> Result<String> {
        let text = text(place)?;
        Ok(if is_file { text } else { style.bold(&place.title) + "\n\n" + &text })
    };
    Ok(places.iter().map(titled).collect::<Result<Vec<_>>>()?.join("\n"))
}

/// The view of each pair; of one alone where it is for another program.
pub fn of_pairs(view: View, pairs: &[[Place; 2]], style: Style) -> Result<String> {
    let text = |[base, new]: &[Place; 2]| -> Result<String> {
        let of = |place: &Place| match view {
            View::Folded => place.sampled(),
            _ => place.worked(),
        };
        let sampled = [of(base)?, of(new)?];
        let told = [base.told(&sampled[0].0, sampled[0].1), new.told(&sampled[1].0, sampled[1].1)];
        let both = [&told[0], &told[1]];
        if view == View::Folded {
            let titles = pairs.iter().map(|[_, new]| &new.title);
            ensure!(pairs.len() == 1, too_many(view, titles));
            return Ok(recording::folded_pair(both));
        }
        let title = style.bold(&format!("{}, then {}", base.title, new.title));
        Ok(title + "\n\n" + &recording::functions(both, style))
    };
    Ok(pairs.iter().map(text).collect::<Result<Vec<_>>>()?.join("\n"))
}

fn too_many<'a>(view: View, titles: impl Iterator<Item = &'a String>) -> String {
    let titles: Vec<&str> = titles.map(String::as_str).collect();
    format!(
        "--view {} is one file, and here are {}: {}; measure one workload with one --cpus",
        view.name(),
        reports::counted(titles.len(), "point"),
        titles.join("; ")
    )
}

impl<'a> Place<'a> {
    /// A point of a record and those of its looks that are of it.
    pub fn new(record: &'a Opened, looks: &'a [Profile], point: usize) -> Place<'a> {
        Place {
            title: reports::title(&record.record.points[point]),
            record,
            looks: looks.iter().filter(|look| look.point as usize == point).collect(),
            point,
        }
    }

    fn sampled(&self) -> Result<(Recording, u64)> {
        let host = &self.record.record.host;
        let origin = Origin {
            host: host.hostname.clone().unwrap_or_default(),
            release: host.kernel_release.clone().unwrap_or_default(),
            ..Origin::default()
        };
        let workload = &self.record.record.points[self.point].workload;
        recording_from_looks(&self.looks, workload, origin).with_context(|| self.without("samples"))
    }

    /// The same of the workload alone.
    fn worked(&self) -> Result<(Recording, u64)> {
        let (mut recording, operations) = self.sampled()?;
        let name = &self.record.record.points[self.point].workload;
        let tasks = &recording.tasks;
        recording.samples.retain(|sample| tasks[sample.task as usize] == *name);
        Ok((recording, operations))
    }

    fn locks(&self) -> Result<Locks> {
        locks(&self.looks).with_context(|| self.without("looks at its time"))
    }

    fn ipis(&self) -> Result<Ipis> {
        ipis(&self.looks).with_context(|| self.without("looks at its time"))
    }

    fn told<'b>(&'b self, recording: &'b Recording, operations: u64) -> NamedRecording<'b> {
        NamedRecording {
            name: &self.title,
            recording,
            operations: Some(operations).filter(|n| *n > 0),
        }
    }

    fn without(&self, what: &str) -> String {
        format!(
            "{} has no {what}: measure it as root with knee explain or knee run --explain; knee \
             doctor says what keeps knee from watching",
            self.title
        )
    }
}
