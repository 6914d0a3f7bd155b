//! Every patch of a short series at once: all commits in each block, and the effect of each patch from its neighbours.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use analysis::{Judgement, Rule, judge, looks};
use anyhow::{Context, Result, bail, ensure};
use records::Opened;
use runner::End;
use setup::foreign::Permitted;
use store::Store;

use crate::Request;
use crate::build::{Build, Built};
use crate::folder::Bisection;
use crate::kernels;
use crate::measurement::{
    Blocks, Measurement, Repeats, Subject, Values, differences, experiment, logs_by_block, measure,
    measure_while, values,
};
use crate::range::Range;
use crate::workshop::Workshop;

/// Longer series are searched, not measured whole.
pub const PATCHES_MAX: usize = 30;

/// Probability of a change where none is, over all patches.
const ALPHA: f64 = 0.05;

/// A series that was measured.
pub struct Series {
    pub record: Opened,
    pub patches: Vec<Patch>,
}

/// What one patch does.
pub struct Patch {
    /// Its commit, by number.
    pub commit: usize,
    /// Whether it leaves the build equal.
    pub is_equal: bool,
    /// Against the commit before it; `None` if equal or not measured.
    pub own: Option<Judgement>,
    /// Against the base.
    pub from_base: Option<Judgement>,
    /// Why it was not measured.
    pub failed: Option<String>,
}

/// Builds and measures all commits of a line, until each patch is decided or so many blocks are over. `None` if a signal
/// asked knee to end.
pub fn series(
    request: &Permitted<Request>,
    range: &Range,
    blocks: u32,
    resume: bool,
    store: &Store,
    mut tell: impl FnMut(&str),
) -> Result<Option<Series>> {
    ensure!(
        range.changes() <= PATCHES_MAX,
        "{} patches are too many to measure each in every block, at most {PATCHES_MAX}: search with knee bisect",
        range.changes()
    );
    let bisection = Bisection::new(store)?;
    let workshop = Workshop::open(&bisection, request.clone())?;
    let name = |number: usize| range.commits[number].short().to_string();
    // A kernel may not boot, or be emulated, where the metric says nothing.
    let try_base = |base: &Build| match request.kernels {
        Some(_) => try_base(request, base, &name(0), &bisection.records()),
        None => Ok(true),
    };
    let built = build_all(&workshop, range, &mut tell, try_base);
    workshop.close()?;
    let Some((built, failed)) = built? else { return Ok(None) };
    // The commit whose runs stand for each.
    let mut stands_for: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, build) in &built {
        let first = built.iter().find(|(_, other)| other.key == build.key);
        stands_for.insert(*number, first.map_or(*number, |(first, _)| *first));
    }
    let subjects: Vec<Subject> = built
        .iter()
        .filter(|(number, _)| stands_for[number] == **number)
        .map(|(number, build)| Subject::new(name(*number), &build.folder))
        .collect();
    let title = format!("series {}..{}", name(0), name(range.changes()));
    let repeats = Repeats::UntilStepsDecided(blocks);
    let experiment = experiment(request, &subjects, repeats, &title)?;
    let mut forecast = Forecast::new(subjects.len(), blocks);
    let measurement = measure_while(experiment, store, resume, |record, run| {
        forecast.finished(&mut tell);
        runner::go_on(record, run)
    })?;
    let Measurement { end, record } = measurement;
    let (End::Complete, Some(record)) = (end, record) else { return Ok(None) };
    let patches = judged(request, range, &record, &stands_for, &failed, blocks);
    workshop.remove_all()?;
    Ok(Some(Series { record, patches }))
}

/// How long a series takes, by its first block.
struct Forecast {
    commits: usize,
    blocks: u32,
    started: Instant,
    runs: usize,
}

impl Forecast {
    fn new(commits: usize, blocks: u32) -> Forecast {
        Forecast { commits, blocks, started: Instant::now(), runs: 0 }
    }

    fn finished(&mut self, tell: &mut impl FnMut(&str)) {
        self.runs += 1;
        if self.runs != self.commits {
            return;
        }
        let block_s = self.started.elapsed().as_secs_f64();
        let first = looks(self.blocks).first().map_or(self.blocks, |look| *look as u32);
        let time = |blocks: u32| match block_s * f64::from(blocks) {
            seconds if seconds < 120.0 => format!("{seconds:.1} s"),
            seconds => format!("{:.0} min", seconds / 60.0),
        };
        tell(&format!(
            "a block of {} commits takes {}: {} to {}, until each patch is decided or {} blocks are over",
            self.commits,
            time(1),
            time(first),
            time(self.blocks),
            self.blocks
        ));
    }
}

/// The builds of all commits by number, and why others failed.
type AllBuilds = (BTreeMap<usize, Build>, BTreeMap<usize, String>);

/// Runs the base once, before the other commits are built for nothing. Whether it came to its end.
fn try_base(
    request: &Permitted<Request>,
    base: &Build,
    name: &str,
    records: &Store,
) -> Result<bool> {
    let subject = Subject::new(name, &base.folder);
    let title = "series trial of the base";
    let experiment = experiment(request, &[subject], Repeats::Times(1), title)?;
    let Measurement { end, record } = measure(experiment, records, false)?;
    if end == End::Interrupted {
        return Ok(false);
    }
    let record = record.context("the run of the trial was not kept")?;
    kernels::check_record(&record.record, &request.metric)?;
    if let Values::Failed(why) = values(&record, name, &request.metric, Blocks::All)? {
        let cause = kernels::missing_option(&request.metric, &base.folder);
        let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
        bail!("the base, {name}, cannot be measured: {why}{cause}");
    }
    Ok(true)
}

/// Builds all commits. `None` if a signal asked knee to end. `try_base`: whether to go on once the base is built.
fn build_all(
    workshop: &Workshop,
    range: &Range,
    tell: &mut impl FnMut(&str),
    try_base: impl Fn(&Build) -> Result<bool>,
) -> Result<Option<AllBuilds>> {
    let mut built = BTreeMap::new();
    let mut failed = BTreeMap::new();
    for (number, commit) in range.commits.iter().enumerate() {
        match workshop.build(commit, None)? {
            Built::Done(build) => {
                tell(&format!("built {} in {:.1} s", commit.short(), build.seconds));
                if number == 0 && !try_base(&build)? {
                    return Ok(None);
                }
                built.insert(number, build);
            }
            Built::Failed(why) if number == 0 => bail!("the base cannot be tested: {why}"),
            Built::Failed(why) => {
                tell(&format!("{} is skipped: {why}", commit.short()));
                failed.insert(number, why);
            }
            Built::Interrupted => return Ok(None),
        }
    }
    Ok(Some((built, failed)))
}

/// What each patch does, by the runs of a record.
fn judged(
    request: &Request,
    range: &Range,
    record: &Opened,
    stands_for: &BTreeMap<usize, usize>,
    failed: &BTreeMap<usize, String>,
    blocks: u32,
) -> Vec<Patch> {
    let name = |number: usize| range.commits[number].short().to_string();
    let logs = |number: usize| {
        logs_by_block(record, &name(stands_for[&number]), &request.metric, Blocks::All)
    };
    // As many as decide when the blocks end: equal builds are not compared.
    let builds: BTreeSet<usize> = stands_for.values().copied().collect();
    let rule = Rule {
        alpha: ALPHA / builds.len().saturating_sub(1).max(1) as f64,
        margin: request.smallest_effect.ln_1p(),
        sequential: true,
        cap: blocks,
    };
    let mut patches = Vec::new();
    let mut before = 0;
    for number in 1..=range.changes() {
        let is_built = stands_for.contains_key(&number);
        let is_equal = is_built && stands_for[&number] == stands_for[&before];
        let against = |other: usize| {
            let is_measured = is_built && stands_for[&number] != stands_for[&other];
            is_measured.then(|| judge(&differences(&logs(other), &logs(number)), &rule))
        };
        let (own, from_base) = (against(before), against(0));
        patches.push(Patch {
            commit: number,
            is_equal,
            own,
            from_base,
            failed: failed.get(&number).cloned(),
        });
        if is_built {
            before = number;
        }
    }
    patches
}
