//! A line of a benchmark over months. A new point runs in blocks with the anchor; what the line then suggests is compared in runs
//! of its own before it is said.
//!
//!     commit ──> build ──equal to a point's──> shares its values
//!                  └──> blocks {new, anchor} ──> point ──> Line::next ──> both neighbours compared ──┐
//!                                                    ^──────────────────────────────────────────────┘
//!
//! The file of points is the log of all this: what it holds is never done again.

mod answer;
mod bisecting;
mod comparing;
mod events;
mod file;
mod line;
mod summed;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use bisection::watch::{Fate, POINT_BLOCKS};
use guests::kernels::Repository;
use records::{Better, Extract, known_metric};
use runner::End;
use setup::foreign::Permitted;
use store::Store;

use crate::Request;
use crate::build::{Build, Built};
use crate::builds_lock::BuildsLock;
use crate::folder::Bisection;
use crate::gate::{Cases, list};
use crate::lines::{self, Lines, LinesOf};
use crate::measurement::{Measurement, Repeats, Subject, disturbed_blocks, measure_while};
use crate::patience::Watch;
use crate::range::Commit;
use crate::workshop::Workshop;

pub use self::answer::{
    WatchAnswer, WatchBisected, WatchChange, WatchCulprit, WatchPoint, WatchSeries, WatchSize,
    WatchValue,
};
pub use self::bisecting::{Between, WatchBisection};
pub use self::events::Ack;
use self::events::{BegunLine, HostState, LineEvent, Point, VERSION};
pub use self::file::{LineFile, LineMetric, MetricFile, Series};
pub use self::line::Line;
use self::summed::Summing;
use self::values::{beside_anchor, experiment_of};

/// Builds of the newest points that are kept beside the anchor's.
const KEPT: usize = 3;

const POINTS: LinesOf =
    LinesOf { file: "the points of a line", owner: "line", go_on: "add the commit again" };
const ACKS: LinesOf =
    LinesOf { file: "the acks of a line", owner: "line", go_on: "ack the change again" };

/// A line with its files.
pub struct WatchedLine {
    /// The file that the user named.
    pub path: PathBuf,
    /// What it says.
    pub file: LineFile,
    /// The metrics of its runs, the deciding one first, and how those are read from the output that are not knee's own.
    pub metrics: Vec<LineMetric>,
    pub extracts: Vec<Extract>,
}

/// How adding ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Added {
    Done,
    /// Some commits have no point.
    SomeFailed,
    Interrupted,
}

impl WatchedLine {
    /// The file of points, which also decides which commits are built again.
    pub fn points_path(&self) -> PathBuf {
        self.path.with_extension("points.ndjson")
    }

    fn acks_path(&self) -> PathBuf {
        self.path.with_extension("acks.ndjson")
    }

    /// The line as its files have it. One without points has none.
    pub fn read(&self) -> Result<Line> {
        let (points, acks) = (self.points_path(), self.acks_path());
        let series = self.series(self.begun()?.as_ref());
        let summing = Summing::new(&series, self.file.smallest_effect);
        let mut events = Vec::new();
        if points.exists() {
            (events, _) = lines::read_as(&points, POINTS, |event| summing.event(event))?;
        }
        let acks = if acks.exists() { lines::read(&acks, ACKS)?.0 } else { Vec::new() };
        Ok(Line::new(events, acks, series, self.file.smallest_effect))
    }

    /// The whole line as an answer.
    pub fn answer(&self) -> Result<WatchAnswer> {
        Ok(self.read()?.answer(&self.path.display().to_string(), &self.file.anchor))
    }

    /// The series of the line, of the cases that it has.
    fn series(&self, begun: Option<&BegunLine>) -> Vec<Series> {
        let cases = match self.file.cases {
            None => &self.file.case[..],
            Some(_) => begun.map_or(&[][..], |begun| &begun.cases),
        };
        self.file.series(cases, &self.metrics)
    }

    /// How the line began, if it did. An error if the points are of another experiment than the file says, or of a newer knee.
    fn begun(&self) -> Result<Option<BegunLine>> {
        let points = self.points_path();
        let Some(first) = lines::first(&points, POINTS)? else { return Ok(None) };
        let LineEvent::Begun(begun) = first else {
            bail!("{} does not begin a line", points.display())
        };
        self.check(&begun)?;
        Ok(Some(*begun))
    }

    fn check(&self, begun: &BegunLine) -> Result<()> {
        let points = self.points_path();
        let BegunLine { version, experiment, .. } = begun;
        ensure!(
            *version <= VERSION,
            "{} is of a newer knee: its version is {version}, this one reads {VERSION}",
            points.display()
        );
        ensure!(
            *version == VERSION,
            "{} was begun by a knee before its first release, which kept less of each run: begin a new line in another file",
            points.display()
        );
        let now = self.file.experiment();
        let differs = now.iter().filter(|(name, value)| experiment.get(*name) != Some(value));
        let differs: Vec<String> = differs
            .map(|(name, value)| {
                let before = experiment.get(name).cloned().unwrap_or_default();
                format!("{name} was '{before}' and is '{value}'")
            })
            .collect();
        ensure!(
            differs.is_empty(),
            "{}: {}: points of another experiment cannot be compared with those in {}. Undo that, or begin a new line \
             in another file (`knee watch init`)",
            self.path.display(),
            differs.join("; "),
            points.display()
        );
        Ok(())
    }

    /// Keeps a user's word about the change whose id begins so.
    pub fn ack(&self, id: &str, why: &str, is_false: bool) -> Result<WatchChange> {
        let change = self.change(id)?;
        let (mut acks, _) = Lines::open::<Ack>(&self.acks_path(), ACKS)?;
        let (change_of, why) = (change.after.clone(), why.to_string());
        acks.append(&Ack { change: change_of, why, is_false, at: jiff::Timestamp::now() })?;
        Ok(change)
    }

    /// The confirmed change whose id begins so.
    fn change(&self, id: &str) -> Result<WatchChange> {
        let changes = self.read()?.changes();
        let is_said = |change: &&WatchChange| change.is != Fate::NotConfirmed;
        let named = |change: &&WatchChange| !id.is_empty() && change.after.starts_with(id);
        let matching: Vec<&WatchChange> = changes.iter().filter(is_said).filter(named).collect();
        if let [change] = matching[..] {
            return Ok(change.clone());
        }
        ensure!(
            !changes.iter().any(|change| !is_said(&change) && named(&change)),
            "{id} was not confirmed, so there is no change"
        );
        let ids: Vec<&str> =
            changes.iter().filter(is_said).map(|change| change.id.as_str()).collect();
        let known = if ids.is_empty() { "it has none".to_string() } else { ids.join(", ") };
        bail!("no single change of this line begins with '{id}': {known}")
    }
}

/// The direction of a request's metric.
pub fn direction(metric: &str, extract: Option<&Extract>) -> Better {
    let named = || known_metric(metric).map_or(Better::Lower, |known| known.better);
    extract.map_or_else(named, |extract| extract.better)
}

/// Adds points to a line.
pub struct Adding<'a> {
    line: &'a WatchedLine,
    request: Permitted<Request>,
    store: &'a Store,
    workshop: Workshop,
    repository: Repository,
    anchor: Commit,
    anchor_build: Build,
    lines: Lines,
    state: Line,
    /// The commit whose runs ended last, in this process.
    newest_session: Option<String>,
    tell: &'a mut dyn FnMut(&str),
    _lock: BuildsLock,
}

/// Builds and measures commits, oldest first, and compares what the line then suggests. Passes over commits that have a point.
pub fn add(
    line: &WatchedLine,
    request: Permitted<Request>,
    commits: &[Commit],
    store: &Store,
    tell: &mut dyn FnMut(&str),
) -> Result<Added> {
    let Some(mut adding) = Adding::begin(line, request, store, tell)? else {
        return Ok(Added::Interrupted);
    };
    // What an earlier one was killed in.
    if adding.compare_suspects()?.is_none() {
        return Ok(Added::Interrupted);
    }
    let mut added = Added::Done;
    for commit in commits {
        match adding.add(commit)? {
            Some(true) => (),
            Some(false) => added = Added::SomeFailed,
            None => return Ok(Added::Interrupted),
        }
        if adding.compare_suspects()?.is_none() {
            return Ok(Added::Interrupted);
        }
    }
    Ok(added)
}

/// A commit by its name.
pub fn commit(repository: &Repository, name: &str) -> Result<Commit> {
    let revision = repository.resolve(name)?;
    let (date, subject) = repository.date_and_subject(&revision)?;
    Ok(Commit { id: revision.commit, subject, date, parents: Vec::new() })
}

impl<'a> Adding<'a> {
    /// Opens the files and builds the anchor. `None` if a signal asked knee to end.
    fn begin(
        line: &'a WatchedLine,
        request: Permitted<Request>,
        store: &'a Store,
        tell: &'a mut dyn FnMut(&str),
    ) -> Result<Option<Adding<'a>>> {
        let crate::range::Source::Git { directory, .. } = &request.source else {
            unreachable!("a line is of commits")
        };
        let repository = Repository::open(directory)?;
        let named = line.path.canonicalize().unwrap_or(line.path.clone());
        let (bisection, lock) = Bisection::of_watch(store, &named.to_string_lossy())?;
        let workshop = Workshop::open(&bisection, request.clone())?;
        let begun = line.begun()?;
        let series = line.series(begun.as_ref());
        let summing = Summing::new(&series, line.file.smallest_effect);
        let points = line.points_path();
        let (lines, events) = Lines::open_as(&points, POINTS, |event| summing.event(event))?;
        ensure!(begun.is_some() || events.is_empty(), "another knee began the line: add again");
        let anchor = commit(&repository, &line.file.anchor).with_context(|| {
            format!("{}: the anchor is gone: begin a new line", line.path.display())
        })?;
        let state = Line::new(events, Vec::new(), series, line.file.smallest_effect);
        let newest = state.points.iter().rev().take(KEPT);
        let of_point = |point: &Point| Commit {
            id: point.commit.clone(),
            subject: String::new(),
            date: String::new(),
            parents: Vec::new(),
        };
        let newest: Vec<Commit> = newest.map(of_point).chain([anchor.clone()]).collect();
        workshop.remove_others(&newest.iter().collect::<Vec<_>>())?;
        let anchor_build = match workshop.kept_or_built(&anchor)? {
            Built::Done(build) => build,
            Built::Interrupted => return Ok(None),
            Built::Failed(why) => bail!("the anchor {} cannot be built: {why}", anchor.short()),
        };
        let mut adding = Adding {
            line,
            request,
            store,
            workshop,
            repository,
            anchor,
            anchor_build,
            lines,
            state,
            newest_session: None,
            tell,
            _lock: lock,
        };
        match begun {
            Some(begun) => adding.check_anchor(&begun)?,
            None => adding.begin_points()?,
        }
        Ok(Some(adding))
    }

    /// Begins the file of points.
    fn begin_points(&mut self) -> Result<()> {
        let cases = self.listed(&self.anchor_build)?.map_err(|why| {
            anyhow!("the cases of the anchor {} cannot be listed: {why}", self.anchor.short())
        })?;
        let begun = BegunLine {
            version: VERSION,
            knee: env!("CARGO_PKG_VERSION").to_string(),
            at: jiff::Timestamp::now(),
            experiment: self.line.file.experiment(),
            anchor_key: self.anchor_build.key.clone(),
            cases,
        };
        let series = self.line.series(Some(&begun));
        self.state = Line::new(Vec::new(), Vec::new(), series, self.line.file.smallest_effect);
        self.lines.append(&LineEvent::Begun(Box::new(begun)))
    }

    /// The cases of a build, if the line has them listed, or why they are not known.
    fn listed(&self, build: &Build) -> Result<Result<Vec<String>, String>> {
        let Some(line) = &self.line.file.cases else { return Ok(Ok(Vec::new())) };
        let words = ["sh", "-c", line].map(str::to_string).to_vec();
        list(&Cases::Listed { words, pattern: None }, &build.folder, None)
    }

    /// The cases in which a build runs beside the anchor: those that both have.
    fn cases(&mut self, commit: &Commit, new: &Build) -> Result<Result<Vec<String>, String>> {
        if self.line.file.cases.is_none() {
            return Ok(Ok(self.line.file.case.clone()));
        }
        let mut listed = match self.listed(new)? {
            Ok(listed) => listed,
            Err(why) => return Ok(Err(format!("its cases cannot be listed: {why}"))),
        };
        let of_line: BTreeSet<&String> =
            self.state.series.iter().filter_map(|series| series.case.as_ref()).collect();
        let new: Vec<&str> =
            listed.iter().filter(|case| !of_line.contains(case)).map(String::as_str).collect();
        if !new.is_empty() {
            (self.tell)(&format!(
                "{}: the anchor has no {}, so the line has none: begin another with a newer anchor",
                commit.short(),
                new.join(", ")
            ));
        }
        listed.retain(|case| of_line.contains(case));
        Ok(if listed.is_empty() {
            Err("it has no case of the line".to_string())
        } else {
            Ok(listed)
        })
    }

    /// Refuses an anchor that is another program today.
    fn check_anchor(&self, begun: &BegunLine) -> Result<()> {
        ensure!(
            begun.anchor_key == self.anchor_build.key,
            "the anchor {} builds into another program than when the line began: a compiler, a library or an option \
             changed, so new ratios to it mean something else. Put that back, or begin a new line",
            self.anchor.short()
        );
        Ok(())
    }

    /// Adds one commit. Whether it has a point now; `None` if a signal asked knee to end.
    fn add(&mut self, commit: &Commit) -> Result<Option<bool>> {
        let short = commit.short();
        if self.state.point(&commit.id).is_some() {
            (self.tell)(&format!("{short} is a point of the line already"));
            return Ok(Some(true));
        }
        let after = self.point_before(commit)?;
        let new = match self.workshop.kept_or_built(commit)? {
            Built::Done(build) => build,
            Built::Interrupted => return Ok(None),
            Built::Failed(why) => {
                (self.tell)(&format!("{short} has no point: {why}"));
                return Ok(Some(false));
            }
        };
        let point = Point {
            commit: commit.id.clone(),
            subject: commit.subject.clone(),
            date: commit.date.clone(),
            after,
            at: jiff::Timestamp::now(),
            key: new.key.clone(),
            records: Vec::new(),
            values: BTreeMap::new(),
            disturbed: 0,
            host: None,
        };
        let point = if let Some(known) = self.state.with_key(&new.key) {
            let as_known = format!("{short} builds the same program as {:.12}", known.commit);
            (self.tell)(&format!("{as_known}: it shares its values, and nothing is run"));
            point
        } else {
            match self.measure(commit, &new, point)? {
                Some(Ok(point)) => {
                    self.newest_session = Some(point.commit.clone());
                    point
                }
                Some(Err(why)) => {
                    (self.tell)(&format!("{short} has no point: {why}"));
                    return Ok(Some(false));
                }
                None => return Ok(None),
            }
        };
        self.append(LineEvent::Point(Box::new(point)))?;
        Ok(Some(true))
    }

    fn append(&mut self, event: LineEvent) -> Result<()> {
        self.lines.append(&event)?;
        let summing = Summing::new(&self.state.series, self.state.smallest);
        self.state.take(summing.event(event));
        Ok(())
    }

    /// The point after which a commit belongs: the last one that is an ancestor of it, or the last of all if the
    /// repository knows none.
    fn point_before(&self, commit: &Commit) -> Result<Option<String>> {
        let revision = self.repository.resolve(&commit.id)?;
        let points = &self.state.points;
        let mut known: Vec<_> = std::iter::repeat_with(|| None).take(points.len()).collect();
        // Mostly the last one is, and a long line asks git once.
        for at in (0..points.len()).rev() {
            known[at] = self.repository.resolve(&points[at].commit).ok();
            let is_ancestor = |known| self.repository.is_ancestor(known, &revision);
            if known[at].as_ref().is_some_and(is_ancestor) {
                // Points whose commits are gone were added after it.
                let gone = known[at + 1..].iter().take_while(|known| known.is_none()).count();
                return Ok(Some(points[at + gone].commit.clone()));
            }
        }
        let is_descendant = |known: &Option<_>| {
            known.as_ref().is_some_and(|known| self.repository.is_ancestor(&revision, known))
        };
        let first = known.iter().position(is_descendant).unwrap_or(known.len());
        let before = first.checked_sub(1).map(|at| self.state.points[at].commit.clone());
        Ok(before)
    }

    /// The build of a point, kept or built again. One that is another program today is none.
    fn build_point(&self, id: &str) -> Result<Built> {
        let named = Commit {
            id: id.to_string(),
            subject: String::new(),
            date: String::new(),
            parents: Vec::new(),
        };
        let is_there = self.workshop.kept(&named).is_some() || self.repository.resolve(id).is_ok();
        if !is_there {
            return Ok(Built::Failed("the repository no longer has it".to_string()));
        }
        let built = self.workshop.kept_or_built(&named)?;
        let key = self.state.point(id).map(|point| &point.key);
        Ok(match built {
            Built::Done(build) if key.is_some_and(|key| *key != build.key) => {
                Built::Failed("it builds into another program than when it was added".to_string())
            }
            built => built,
        })
    }

    /// Runs a new point in blocks. The inner error says why it has no values; `None` if a signal asked knee to end.
    fn measure(
        &mut self,
        commit: &Commit,
        new: &Build,
        point: Point,
    ) -> Result<Option<Result<Point, String>>> {
        let subjects = [subject("anchor", &self.anchor_build), subject("new", new)];
        let title = format!("watch {}", commit.short());
        let times = Repeats::Times(analysis::blocks_at_most(POINT_BLOCKS));
        let cases = match self.cases(commit, new)? {
            Ok(cases) => cases,
            Err(why) => return Ok(Some(Err(why))),
        };
        let experiment = experiment_of(self, &subjects, &cases, times, &title)?;
        let mut watch = Watch::new(0.0, subjects.len() * cases.len().max(1)).until(POINT_BLOCKS);
        let after = |record: &_, run: &_| watch.after(record, run, &mut |_| ());
        let Measurement { end, record } = measure_while(experiment, self.store, true, after)?;
        let (End::Complete, Some(record)) = (end, record) else { return Ok(None) };
        let values: BTreeMap<String, _> = self
            .state
            .series
            .iter()
            .map(|series| (series.name.clone(), beside_anchor(&record, series)))
            .filter(|(_, runs)| !runs.ratios.is_empty())
            .collect();
        if values.is_empty() {
            return Ok(Some(Err(values::why_none(&record, &self.state.series[0])?)));
        }
        for series in self.state.series.iter().filter(|series| !values.contains_key(&series.name)) {
            (self.tell)(&format!("{} has no value of {}", commit.short(), series.name));
        }
        Ok(Some(Ok(Point {
            records: vec![record.record.id.clone()],
            values,
            disturbed: disturbed_blocks(&record),
            host: Some(HostState {
                knee: env!("CARGO_PKG_VERSION").to_string(),
                facts: records::HostFacts { boot_id: None, ..record.record.host.clone() },
            }),
            ..point
        })))
    }
}

fn subject(name: &str, build: &Build) -> Subject {
    Subject { name: name.to_string(), folder: build.folder.clone(), step: None, program: None }
}
