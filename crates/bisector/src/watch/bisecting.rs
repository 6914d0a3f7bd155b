//! The commits between both neighbours of a change, for a bisection, and what it came to.

use anyhow::{Context, Result};
use bisection::watch::Fate;
use setup::foreign::Permitted;

use super::events::{BisectedChange, LineEvent};
use super::{POINTS, Series, WatchChange, WatchedLine};
use crate::Request;
use crate::lines::Lines;
use crate::range::{Commit, Range, Source};

/// What lies between both neighbours of a change.
pub enum Between {
    /// The commit of the change alone.
    One(Commit),
    /// Several, to be bisected: by this request, unless a bisection of them was begun.
    Several { request: Box<Permitted<Request>>, range: Range, begun: Option<String> },
}

/// A change of a line whose commits are bisected.
pub struct WatchBisection<'a> {
    line: &'a WatchedLine,
    /// The change.
    pub change: WatchChange,
}

impl WatchedLine {
    /// The confirmed change whose id begins so, to be bisected.
    pub fn bisection(&self, id: &str) -> Result<WatchBisection<'_>> {
        let change = self.change(id)?;
        anyhow::ensure!(
            change.is != Fate::False,
            "{} was declared to be no change: {}",
            change.id,
            change.why
        );
        Ok(WatchBisection { line: self, change })
    }
}

impl WatchBisection<'_> {
    /// What lies between both neighbours. `request` is the line's own.
    pub fn between(&self, request: Permitted<Request>) -> Result<Between> {
        let line = self.line.read()?;
        let largest = self.change.sizes.first().map(|size| size.series.as_str());
        let series = line.series.iter().find(|series| Some(series.name.as_str()) == largest);
        let request = request.map(|request| self.request(request, series));
        let range = Range::read(&request.source).with_context(|| {
            format!("looking for the commits between both points of {}", self.change.id)
        })?;
        if range.changes() == 1 {
            return Ok(Between::One(range.commits[1].clone()));
        }
        let own = line.bisected.iter().rev().find(|one| one.change == self.change.after);
        let begun = own.filter(|one| one.named.is_none()).and_then(|one| one.bisection.clone());
        Ok(Between::Several { request: Box::new(request), range, begun })
    }

    /// The request that measures the series that changed the most, of the commits between both neighbours.
    fn request(&self, request: Request, series: Option<&Series>) -> Request {
        let directory = match &request.source {
            Source::Git { directory, .. } | Source::Steps { directory } => directory.clone(),
        };
        let source = Source::Git {
            directory,
            good: self.change.before.clone(),
            bad: self.change.after.clone(),
            first_parent: true,
            skip: Vec::new(),
        };
        let Some(series) = series else { return Request { source, ..request } };
        let mut extracts = self.line.extracts.iter();
        let extract = extracts.find(|extract| extract.name == series.metric).cloned();
        let command = match &series.case {
            Some(case) => request.command.replace("{case}", case),
            None => request.command.clone(),
        };
        Request { source, command, metric: series.metric.clone(), extract, ..request }
    }

    /// Keeps that a bisection was begun, so that the same command goes on with it.
    pub fn keep_begun(&self, bisection: &str) -> Result<()> {
        self.keep(Some(bisection.to_string()), None, String::new())
    }

    /// Keeps what a bisection came to.
    pub fn keep_answer(
        &self,
        bisection: Option<&str>,
        named: &[Commit],
        came_to: &str,
    ) -> Result<()> {
        let name = |commit: &Commit| (commit.id.clone(), commit.subject.clone());
        let named = Some(named.iter().map(name).collect());
        self.keep(bisection.map(str::to_string), named, came_to.to_string())
    }

    fn keep(
        &self,
        bisection: Option<String>,
        named: Option<Vec<(String, String)>>,
        came_to: String,
    ) -> Result<()> {
        let (mut lines, _) = Lines::open::<LineEvent>(&self.line.points_path(), POINTS)?;
        let change = self.change.after.clone();
        let at = jiff::Timestamp::now();
        let bisected = BisectedChange { change, at, bisection, named, came_to };
        lines.append(&LineEvent::Bisected(Box::new(bisected)))
    }
}
