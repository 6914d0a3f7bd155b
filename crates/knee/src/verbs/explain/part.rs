//! What the samples of profiles say: locks, interrupts, functions, and files for other tools (flame graphs, the Firefox
//! Profiler).

use answers::Ledgers;
use anyhow::{Result, bail, ensure};
use clap::ValueEnum;
use explanations::ledger::LedgerPart;
use explanations::recording;
use host::terminal::print;
use pages::{View, ViewFlags, explanation};

use super::profiled::ProfiledRecords;
use super::samples::ProfiledPoint;

/// What of a profile `knee explain` shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProfilePart {
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

impl ProfilePart {
    /// Refuses the forms of answers for a part that is a file of another program.
    pub fn check_view(self, view: ViewFlags) -> Result<()> {
        let is_plain = view.view() == View::Terminal;
        ensure!(is_plain, "--part {} has one form only: leave --view and --json out", self.name());
        Ok(())
    }

    /// The name on the command line.
    pub fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// Prints what the samples of records say: pages, or files for other programs.
pub fn print_part(
    part: ProfilePart,
    profiled: &ProfiledRecords,
    force: bool,
    view: ViewFlags,
) -> Result<()> {
    match part {
        ProfilePart::Locks | ProfilePart::Ipis => {
            let points = profiled.points();
            let of_point = |point: &ProfiledPoint| match part {
                ProfilePart::Locks => point.locks(),
                _ => point.ipis(),
            };
            let parts = points.iter().map(of_point).collect::<Result<Vec<_>>>();
            view.print(|| no_json(part), || Ok(explanation(profiled.title(), parts?)))
        }
        ProfilePart::Diff => {
            let pairs = profiled.pairs(force)?;
            ensure!(!pairs.is_empty(), "--part diff compares two: name two variants or records");
            let parts = pairs.iter().map(|pair| compared(pair)).collect::<Result<Vec<_>>>();
            view.print(|| no_json(part), || Ok(explanation(profiled.title(), parts?)))
        }
        ProfilePart::Tree | ProfilePart::Folded | ProfilePart::Firefox | ProfilePart::Ledger => {
            part.check_view(view)?;
            print(file(part, profiled, force)?)
        }
    }
}

/// Says that a part is not among the published types.
pub fn no_json(part: ProfilePart) -> Result<Ledgers<'static>> {
    bail!("--part {} has no JSON form: leave --json out", part.name())
}

/// Functions of the workload in both points, by the change of their own time.
fn compared([base, new]: &[ProfiledPoint; 2]) -> Result<LedgerPart> {
    let sampled = [base.workload_samples()?, new.workload_samples()?];
    let named = [base.named(&sampled[0].0, sampled[0].1), new.named(&sampled[1].0, sampled[1].1)];
    let title = format!("{}, then {}", base.title, new.title);
    Ok(recording::functions_part(title, [&named[0], &named[1]]))
}

/// A part in the format of another program.
fn file(part: ProfilePart, profiled: &ProfiledRecords, force: bool) -> Result<String> {
    let points = profiled.points();
    if part == ProfilePart::Tree {
        let tree = |point: &ProfiledPoint| -> Result<String> {
            let (samples, operations) = point.workload_samples()?;
            let callers = recording::callers(&point.named(&samples, operations));
            Ok(format!("{}\n\n{callers}", point.title))
        };
        return Ok(points.iter().map(tree).collect::<Result<Vec<_>>>()?.join("\n"));
    }
    if part == ProfilePart::Folded && profiled.is_compared() {
        let pairs = profiled.pairs(force)?;
        let [[base, new]] = &pairs[..] else {
            bail!(too_many(part, pairs.iter().map(|[_, new]| &new.title)))
        };
        let sampled = [base.samples()?, new.samples()?];
        let named =
            [base.named(&sampled[0].0, sampled[0].1), new.named(&sampled[1].0, sampled[1].1)];
        return Ok(recording::folded_pair([&named[0], &named[1]]));
    }
    let [point] = &points[..] else {
        bail!(too_many(part, points.iter().map(|point| &point.title)))
    };
    let (samples, operations) = point.samples()?;
    let named = point.named(&samples, operations);
    let is_folded = part == ProfilePart::Folded;
    Ok(if is_folded { recording::folded(&named) } else { recording::firefox(&named) })
}

fn too_many<'a>(part: ProfilePart, titles: impl Iterator<Item = &'a String>) -> String {
    let titles: Vec<&str> = titles.map(String::as_str).collect();
    format!(
        "--part {} writes one file, but there are {}: {}; measure one workload with one --cpus",
        part.name(),
        text::prose::counted(titles.len(), "point"),
        titles.join("; ")
    )
}
