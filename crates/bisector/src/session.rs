//! One bisection from its log to its answer.

mod taking;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use bisection::{Answer, COMPARED_MAX, Comparing, Ends, Foresight, Means, Next, Relinked, Search};
use host::signals;
use records::Opened;
use runner::End;
use setup::foreign::Permitted;
use store::Store;

use crate::Request;
use crate::build::{Build, Built};
use crate::folder::Bisection;
use crate::kernels;
use crate::log::{self, Event, Limits, Log, StepRuns};
use crate::measurement::{
    Blocks, LAYOUT_RUNS, LAYOUTS, Measurement, Repeats, Subject, Values, disturbed_blocks,
    experiment, measure, values,
};
use crate::patience::{Wait, patience_s};
use crate::range::{Commit, Range, Source};
use crate::reads::{self, Reads};
use crate::step_line::Left;
use crate::workshop::Workshop;

/// Builds that take longer than this are not done twice just to see whether they are equal.
const REBUILT_MAX_S: f64 = 300.0;
/// A good end whose build took this long is run once before the bad end is built.
const TRIED_FROM_S: f64 = 20.0;
/// Makes the same forecast of the same runs.
const FORECAST_SEED: u64 = 1;
/// A search of more runs than this is hopeless.
const RUNS_HOPELESS: f64 = 20_000.0;

/// News for the user, one line each.
pub enum Progress<'a> {
    Built {
        commit: &'a Commit,
        seconds: f64,
    },
    /// The build of a commit is that of another, so no change between them matters.
    Equal {
        commit: &'a Commit,
        to: &'a Commit,
    },
    Skipped {
        commit: &'a Commit,
        why: &'a str,
    },
    /// Both ends are built.
    Candidates {
        all: usize,
        unread: usize,
        reproducible: Option<bool>,
    },
    /// The ends differ, and what the search will take.
    Apart(Foresight),
    /// It is sure that there is a change: the search takes no more than these runs in all.
    Bound {
        runs: u32,
    },
    /// Runs of both ends, before their difference is shown.
    Ends {
        ends: Ends,
    },
    /// A comparison is made again, since the host disturbed these of its blocks.
    Disturbed {
        left_out: usize,
        blocks: usize,
    },
    /// The host disturbed a block of a comparison, which waits for a quiet moment.
    Waiting(Wait),
    /// A step was measured: the values' geometric mean.
    Step {
        number: usize,
        commits: Vec<(&'a Commit, usize, f64)>,
        left: Option<Left>,
    },
}

/// How a session ended.
#[derive(Clone, Debug)]
pub enum Finished {
    Answer(Answer),
    /// A signal asked knee to end.
    Interrupted,
    /// The forecast exceeds the budget, or any reason.
    Refused(Foresight),
}

/// A bisection that goes on.
pub struct Session {
    pub bisection: Bisection,
    pub request: Request,
    pub range: Range,
    log: Log,
    workshop: Workshop,
    /// `None` until both ends are built.
    search: Option<Search>,
    built: BTreeMap<usize, Build>,
    unbuildable: BTreeMap<usize, String>,
    /// Builds done, and steps with their runs, for their costs.
    build_seconds: Vec<f64>,
    step_seconds: f64,
    step_runs: usize,
    steps: usize,
    /// Whether the log ends within a step, whose record may hold runs.
    may_resume: bool,
    /// While the log is read: whether its last event lies within a step.
    is_within_step: bool,
    /// Blocks of several commits, and how many of them the host disturbed.
    blocks: u32,
    disturbed: u32,
    /// Whether blamed commits will be compared with their parents.
    confirms: bool,
    /// The forecast made when the ends were apart.
    forecast: Option<Foresight>,
    is_bound_told: bool,
    /// The runs of the newest step, until it is told.
    untold: Option<Vec<StepRuns>>,
    /// The runs of each step so far.
    done: Vec<Vec<StepRuns>>,
    /// What comparisons of blamed commits said, and their runs and seconds.
    compared: Vec<String>,
    compared_runs: u32,
    compared_seconds: f64,
    /// Runs of comparisons that the search took as evidence.
    evidence_of_comparisons: u32,
    /// Seconds that comparisons waited for a quiet host.
    waited_s: f64,
}

impl Session {
    /// Begins a bisection.
    pub fn begin(request: Permitted<Request>, range: Range, store: &Store) -> Result<Session> {
        let bisection = Bisection::new(store)?;
        let (log, _) = Log::open(&bisection.log_path())?;
        let workshop = Workshop::open(&bisection, request.clone())?;
        let request = request.into_inner();
        let mut session = Session::new(bisection, request.clone(), range.clone(), log, workshop);
        let (knee, at) = (env!("CARGO_PKG_VERSION").to_string(), jiff::Timestamp::now());
        session.log.append(&Event::Begun { knee, at, request: Box::new(request), range })?;
        session.may_resume = false;
        Ok(session)
    }

    /// Goes on with a bisection, within other limits where there are some. Refuses to if the repository no longer has its
    /// commits.
    pub fn resume(bisection: Permitted<Bisection>, limits: Limits) -> Result<Session> {
        let (log, events) = Log::open(&bisection.log_path())?;
        let open =
            |request: &Request| Workshop::open(&bisection, bisection.part(|_| request.clone()));
        let mut session = Session::from_events(&bisection, log, events, open)?;
        if limits != Limits::default() {
            session.log.append(&Event::Limited(limits))?;
            session.take_limits(limits);
        }
        let Some(repository) = session.workshop.repository() else { return Ok(session) };
        for end in [0, session.range.changes()] {
            let commit = &session.range.commits[end];
            repository.resolve(&commit.id).with_context(|| {
                format!(
                    "the {} end {} is gone from the repository: fetch it again, or begin a new bisection",
                    end_name(end),
                    commit.short()
                )
            })?;
        }
        Ok(session)
    }

    /// A bisection as its log leaves it, without its lock, to look at.
    pub fn view(bisection: Bisection) -> Result<Session> {
        let (events, _) = log::read(&bisection.log_path())?;
        let look_at = |request: &Request| Workshop::to_look_at(&bisection, request);
        Session::from_events(&bisection, Log::closed()?, events, look_at)
    }

    fn from_events(
        bisection: &Bisection,
        log: Log,
        events: Vec<Event>,
        workshop: impl FnOnce(&Request) -> Result<Workshop>,
    ) -> Result<Session> {
        let mut events = events.into_iter();
        let Some(Event::Begun { request, range, .. }) = events.next() else {
            bail!("{} was killed before it began: begin it again", bisection.id)
        };
        let workshop = workshop(&request)?;
        let mut session = Session::new(bisection.clone(), *request, range, log, workshop);
        for event in events {
            session.replay(event)?;
        }
        Ok(session)
    }

    fn new(
        bisection: Bisection,
        request: Request,
        range: Range,
        log: Log,
        workshop: Workshop,
    ) -> Session {
        Session {
            bisection,
            request,
            range,
            log,
            workshop,
            search: None,
            built: BTreeMap::new(),
            unbuildable: BTreeMap::new(),
            build_seconds: Vec::new(),
            step_seconds: 0.0,
            step_runs: 0,
            steps: 0,
            may_resume: true,
            is_within_step: false,
            blocks: 0,
            disturbed: 0,
            confirms: true,
            forecast: None,
            is_bound_told: false,
            untold: None,
            done: Vec::new(),
            compared: Vec::new(),
            compared_runs: 0,
            compared_seconds: 0.0,
            evidence_of_comparisons: 0,
            waited_s: 0.0,
        }
    }

    /// Goes on to the answer, and tells each piece of news.
    pub fn run(&mut self, tell: &mut dyn FnMut(&Progress)) -> Result<Finished> {
        if self.search.is_none() && !self.prepare(tell)? {
            return Ok(Finished::Interrupted);
        }
        loop {
            if signals::received().is_some() {
                return Ok(Finished::Interrupted);
            }
            let search = self.search.as_mut().context("the ends are not built")?;
            let next = search.next_step();
            if let Some(runs) = self.untold.take() {
                self.tell_step(&runs, matches!(next, Next::Answer(_)), tell);
            }
            match next {
                Next::Answer(answer) => {
                    let (at, value) = (jiff::Timestamp::now(), serde_json::to_value(&answer)?);
                    self.log.append(&Event::Answered { at, answer: value })?;
                    return Ok(Finished::Answer(answer));
                }
                Next::Measure(wanted) => {
                    if let Some(hopeless) = self.hopeless(tell)? {
                        return Ok(Finished::Refused(hopeless));
                    }
                    self.tell_bound(tell);
                    if !self.step(&wanted, tell)? {
                        return Ok(Finished::Interrupted);
                    }
                }
            }
        }
    }

    /// Builds both ends, and learns which commits can matter. Whether it came to its end.
    fn prepare(&mut self, tell: &mut dyn FnMut(&Progress)) -> Result<bool> {
        let file = self.bisection.folder.join("reads.d");
        let needs_kvm = self.request.kernels.is_some() && !kernels::is_count(&self.request.metric);
        let last = self.range.changes();
        for end in [0, last] {
            if let Some(why) = self.unbuildable.get(&end) {
                bail!("the {} end cannot be tested: {why}", end_name(end));
            }
            if self.build(end, Some(file.clone()), tell)?.is_none() {
                return Ok(false);
            }
            if let Some(why) = self.unbuildable.get(&end) {
                let commit = self.range.commits[end].short();
                bail!("the {} end, {commit}, cannot be tested: {why}", end_name(end));
            }
            // Before the other end is built for nothing. Only a boot shows whether a KVM works, where the metric needs one.
            let is_worth_it = needs_kvm || kernels::build_s(&self.built[&end]) >= TRIED_FROM_S;
            if end == 0 && is_worth_it && !self.try_end(end)? {
                return Ok(false);
            }
        }
        let mut read = Reads::parse(&fs::read_to_string(&file).unwrap_or_default());
        let ends = [0, last].map(|end| &self.range.commits[end]);
        read.add(self.workshop.kernel_reads(&ends));
        let unread: Vec<usize> = match self.workshop.repository() {
            Some(repository) => {
                let weights = reads::weights(&self.range, repository, &read)?;
                (1..=last).filter(|commit| weights[*commit] < 1.0).collect()
            }
            None => Vec::new(),
        };
        let Some(reproducible) = self.is_reproducible()? else { return Ok(false) };
        let files_read = read.len();
        let event = Event::Candidates { unread: unread.clone(), files_read, reproducible };
        self.log.append(&event)?;
        tell(&Progress::Candidates { all: last, unread: unread.len(), reproducible });
        self.take_candidates(&unread)?;
        Ok(true)
    }

    /// Runs an end once, by itself, and refuses to go on if that gives no value. Whether it came to its end.
    fn try_end(&self, end: usize) -> Result<bool> {
        let subject = self.subject(end);
        let name = format!("bisect trial of the {} end", end_name(end));
        let experiment = experiment(
            self.workshop.permitted()?,
            std::slice::from_ref(&subject),
            Repeats::Times(1),
            &name,
        )?;
        let Measurement { end: ended, record } =
            measure(experiment, &self.bisection.records(), false)?;
        if ended == End::Interrupted {
            return Ok(false);
        }
        let record = record.context("the run of the trial was not kept")?;
        if self.request.kernels.is_some() {
            kernels::check_record(&record.record, &self.request.metric)?;
        }
        self.values_of(&record, end, &subject)?;
        Ok(true)
    }

    /// The values of a commit's runs, or why there are none. An error at an end, and whatever the commit, where no
    /// other commit would fare better.
    fn values_of(&self, record: &Opened, commit: usize, subject: &Subject) -> Result<Values> {
        let values = values(record, &subject.name, &self.request.metric, Blocks::All)?;
        if let Values::Failed(why) = &values
            && [0, self.range.changes()].contains(&commit)
        {
            let (end, name) = (end_name(commit), &subject.name);
            let cause = match &self.request.kernels {
                Some(_) => kernels::missing_option(&self.request.metric, &subject.folder),
                None => None,
            };
            let cause = cause.map(|cause| format!(": {cause}")).unwrap_or_default();
            bail!("the {end} end, {name}, cannot be measured: {why}{cause}");
        }
        Ok(values)
    }

    /// Whether two builds of the good end are equal: the inner value is absent if that is not known, the outer one if
    /// a signal asked knee to end.
    #[expect(clippy::option_option, reason = "two different absences, as named")]
    fn is_reproducible(&self) -> Result<Option<Option<bool>>> {
        let good = &self.built[&0];
        if self.request.build.is_none() || good.seconds > REBUILT_MAX_S {
            return Ok(Some(None));
        }
        Ok(match self.workshop.build_again(&self.range.commits[0])? {
            Built::Done(again) => Some(Some(again.key == good.key)),
            Built::Failed(_) => Some(None),
            Built::Interrupted => None,
        })
    }

    /// Builds a commit unless it is built. `None` if a signal asked knee to end; else whether it is built.
    fn build(
        &mut self,
        commit: usize,
        reads: Option<PathBuf>,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<bool>> {
        if self.unbuildable.contains_key(&commit) {
            return Ok(Some(false));
        }
        let is_new = !self.built.contains_key(&commit);
        if !is_new && self.workshop.has(&self.range.commits[commit]) {
            return Ok(Some(true));
        }
        let built = self.workshop.build(&self.range.commits[commit], reads.as_deref())?;
        let build = match built {
            Built::Interrupted => return Ok(None),
            Built::Failed(why) => {
                self.skip(commit, why, tell)?;
                return Ok(Some(false));
            }
            Built::Done(build) => build,
        };
        // A program of the build that is not there would fail every run.
        if let Some(program) = self.missing_program(&build) {
            self.skip(commit, format!("its build made no {program}"), tell)?;
            return Ok(Some(false));
        }
        let Build { key, seconds, .. } = build;
        tell(&Progress::Built { commit: &self.range.commits[commit], seconds });
        if is_new {
            self.log.append(&Event::Built { commit, key: key.clone(), seconds })?;
            self.take_build(commit, key, seconds);
        }
        Ok(Some(true))
    }

    /// The program of the command, if it is a path within the build that does not exist.
    fn missing_program(&self, build: &Build) -> Option<String> {
        let words = records::parse::words(&self.request.command).ok()?;
        let program = words.first().filter(|word| !self.request.shell && word.contains('/'))?;
        let is_missing = !program.contains('{') && !build.folder.join(program).exists();
        is_missing.then(|| program.clone())
    }

    fn skip(&mut self, commit: usize, why: String, tell: &mut dyn FnMut(&Progress)) -> Result<()> {
        // Without an end there is no bisection, and an error says why.
        if ![0, self.range.changes()].contains(&commit) {
            tell(&Progress::Skipped { commit: &self.range.commits[commit], why: &why });
        }
        self.log.append(&Event::Skipped { commit, why: why.clone() })?;
        self.take_skip(commit, why);
        Ok(())
    }

    /// Makes the forecast once the ends are apart, logs it and tells it. Returns it where it is beyond the budget, or any
    /// reason, and nothing was measured since.
    fn hopeless(&mut self, tell: &mut dyn FnMut(&Progress)) -> Result<Option<Foresight>> {
        let Some(search) = self.search.as_ref().filter(|search| search.are_ends_apart()) else {
            return Ok(None);
        };
        let runs = search.runs();
        let forecast = match self.forecast {
            Some(forecast) => forecast,
            None => {
                let (comparing, blocks, disturbed) =
                    (self.comparing(), self.blocks, self.disturbed);
                let means = Means { comparing, blocks, disturbed };
                let forecast = search.foresee(&means, FORECAST_SEED);
                tell(&Progress::Apart(forecast));
                self.log.append(&Event::Foreseen { forecast })?;
                self.forecast = Some(forecast);
                forecast
            }
        };
        let seconds = self.seconds_spent() + forecast.seconds_left.high;
        let is_too_long = self.request.budget_s.is_some_and(|budget| seconds > budget);
        let is_hopeless = is_too_long || forecast.search.runs.high > RUNS_HOPELESS;
        Ok((is_hopeless && forecast.runs_done == runs).then_some(forecast))
    }

    /// What is compared before a commit is blamed; `None` if nothing is.
    fn comparing(&self) -> Option<Comparing> {
        let Request { source, build, kernels, smallest_effect, .. } = &self.request;
        let is_plain = kernels.is_none();
        self.confirms.then(|| Comparing {
            margin: smallest_effect.ln_1p(),
            without: matches!(source, Source::Git { .. }),
            relinked: (is_plain
                && build.is_some()
                && self.workshop.has_linked(&self.range.commits[0]))
            .then_some(Relinked { layouts: LAYOUTS, runs: LAYOUT_RUNS }),
            // Without patience there is no quiet moment to compare again in.
            times: if self.patience_s() > 0.0 { COMPARED_MAX } else { 1 },
        })
    }

    /// Tells the bound on runs once it is known.
    fn tell_bound(&mut self, tell: &mut dyn FnMut(&Progress)) {
        let bound = self.search.as_ref().and_then(Search::bound).filter(|_| !self.is_bound_told);
        if let Some(runs) = bound {
            tell(&Progress::Bound { runs });
            self.is_bound_told = true;
        }
    }

    /// Builds what is to be measured, then measures it. Whether it came to its end.
    fn step(&mut self, wanted: &[(usize, u32)], tell: &mut dyn FnMut(&Progress)) -> Result<bool> {
        let mut ready = Vec::new();
        for &(commit, _) in wanted {
            let is_known = self.built.contains_key(&commit);
            match self.build(commit, None, tell)? {
                None => return Ok(false),
                Some(false) => continue,
                Some(true) => (),
            }
            if !is_known && self.tell_equal(commit, tell) {
                continue;
            }
            ready.push(commit);
        }
        let repeats = wanted.iter().map(|(_, runs)| *runs).max().unwrap_or(1);
        // An end alone would be measured beside a commit that turned out to be untestable, or equal to another.
        let is_end = |commit: &usize| [0, self.range.changes()].contains(commit);
        let is_of_ends = wanted.iter().all(|(commit, _)| is_end(commit));
        if !is_of_ends && ready.iter().all(is_end) {
            self.log.append(&Event::Step {
                record: None,
                runs: Vec::new(),
                seconds: 0.0,
                disturbed: 0,
                is_of_comparison: false,
            })?;
            self.take_step(&[], 0.0, 0);
            return Ok(true);
        }
        self.measure(&ready, repeats, tell)
    }

    /// Whether a new build is equal to an earlier one.
    fn tell_equal(&self, commit: usize, tell: &mut dyn FnMut(&Progress)) -> bool {
        let key = &self.built[&commit].key;
        let earlier = self.built.iter().find(|(other, b)| **other != commit && b.key == *key);
        if let Some((other, _)) = earlier {
            let [commit, to] = [commit, *other].map(|commit| &self.range.commits[commit]);
            tell(&Progress::Equal { commit, to });
        }
        earlier.is_some()
    }

    fn measure(
        &mut self,
        commits: &[usize],
        repeats: u32,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<bool> {
        let subjects: Vec<Subject> = commits.iter().map(|commit| self.subject(*commit)).collect();
        let name = format!("bisect step {}", self.steps + 1);
        let experiment =
            experiment(self.workshop.permitted()?, &subjects, Repeats::Times(repeats), &name)?;
        let since = host::job_control::RunningSince::now();
        let may_resume = std::mem::replace(&mut self.may_resume, false);
        let Measurement { end, record } =
            measure(experiment, &self.bisection.records(), may_resume)?;
        if end == End::Interrupted {
            return Ok(false);
        }
        let record = record.context("no run of the step was kept")?;
        if self.request.kernels.is_some() {
            kernels::check_record(&record.record, &self.request.metric)?;
        }
        let mut runs = Vec::new();
        let mut failed = BTreeSet::new();
        for (commit, subject) in commits.iter().zip(&subjects) {
            match self.values_of(&record, *commit, subject)? {
                Values::Logs(logs) => runs.push(StepRuns { commit: *commit, layout: 0, logs }),
                Values::Failed(why) => {
                    self.skip(*commit, why, tell)?;
                    failed.insert(*commit);
                }
            }
        }
        let (id, seconds) = (Some(record.record.id.clone()), since.elapsed().as_secs_f64());
        let disturbed = disturbed_blocks(&record);
        self.log.append(&Event::Step {
            record: id,
            runs: runs.clone(),
            seconds,
            disturbed,
            is_of_comparison: false,
        })?;
        self.take_step(&runs, seconds, disturbed);
        self.untold = Some(runs);
        Ok(true)
    }

    /// Says what a step measured, once the search knows whether it has its answer.
    fn tell_step(&self, runs: &[StepRuns], has_answer: bool, tell: &mut dyn FnMut(&Progress)) {
        let Some(search) = &self.search else { return };
        if self.forecast.is_none() {
            if let Some(ends) = search.ends() {
                tell(&Progress::Ends { ends });
            }
            return;
        }
        let posterior = search.posterior();
        let mean = |logs: &[f64]| (logs.iter().sum::<f64>() / logs.len() as f64).exp();
        let commits = runs
            .iter()
            .map(|step| (&self.range.commits[step.commit], step.logs.len(), mean(&step.logs)));
        let left = Left::new(search, &posterior, has_answer);
        tell(&Progress::Step { number: self.steps, commits: commits.collect(), left });
    }

    /// A built commit as the runner takes it.
    pub(crate) fn subject(&self, commit: usize) -> Subject {
        let Commit { id, .. } = &self.range.commits[commit];
        let folder = self.workshop.place(&self.range.commits[commit]);
        let step = match &self.request.source {
            Source::Steps { directory } if directory.join(id).is_file() => Some(folder.join(id)),
            _ => None,
        };
        Subject { step, ..Subject::new(self.range.commits[commit].short(), &folder) }
    }

    /// Builds a commit unless it is built. `None` if a signal asked knee to end; else whether it is built.
    pub(crate) fn build_for_comparison(
        &mut self,
        commit: usize,
        tell: &mut dyn FnMut(&Progress),
    ) -> Result<Option<bool>> {
        self.build(commit, None, tell)
    }

    /// What the build of a commit is, if it is built.
    pub(crate) fn key_of(&self, id: &str) -> Option<String> {
        let mut built = self.built.iter();
        built.find(|(commit, _)| self.range.commits[**commit].id == id).map(|(_, b)| b.key.clone())
    }

    /// Seconds that comparisons may still wait for a quiet host.
    pub(crate) fn patience_s(&self) -> f64 {
        let (allowed_s, spent_s) = (self.request.wait_s, self.seconds_spent());
        (patience_s(allowed_s, spent_s, self.blocks, self.disturbed) - self.waited_s).max(0.0)
    }

    /// What this session may build and run, from which further bisections may follow.
    pub fn permitted(&self) -> Result<&Permitted<Request>> {
        self.workshop.permitted()
    }

    pub(crate) fn workshop(&self) -> &Workshop {
        &self.workshop
    }

    pub(crate) fn append(&mut self, event: &Event) -> Result<()> {
        self.log.append(event)
    }

    /// The search, once both ends are built.
    pub fn search(&self) -> Option<&Search> {
        self.search.as_ref()
    }

    /// What the bisection was to take, once its ends were apart.
    pub fn forecasted(&self) -> Option<Foresight> {
        self.forecast
    }

    /// The runs of each step.
    pub fn steps(&self) -> &[Vec<StepRuns>] {
        &self.done
    }

    /// What comparisons of blamed commits with their parents said, a sentence each.
    pub fn compared(&self) -> &[String] {
        &self.compared
    }

    /// What the runs so far come to; `None` while more are wanted.
    pub fn answer(&self) -> Option<Answer> {
        match self.search.clone()?.next_step() {
            Next::Answer(answer) => Some(answer),
            Next::Measure(_) => None,
        }
    }

    /// Commits that could not be tested, and why.
    pub fn skipped(&self) -> &BTreeMap<usize, String> {
        &self.unbuildable
    }

    /// The number of builds done, and the seconds that they and the runs of the search took.
    pub fn spent(&self) -> (usize, f64, f64) {
        (self.build_seconds.len(), self.build_seconds.iter().sum(), self.step_seconds)
    }

    /// Runs that the search asked for.
    pub fn search_runs(&self) -> u32 {
        self.search.as_ref().map_or(0, Search::runs) - self.evidence_of_comparisons
    }

    /// Runs of comparisons before blame, and their seconds.
    pub fn comparison_runs(&self) -> (u32, f64) {
        (self.compared_runs, self.compared_seconds)
    }

    /// Seconds that comparisons waited for a quiet host.
    pub fn waited_s(&self) -> f64 {
        self.waited_s
    }

    /// Leaves out comparisons of blamed commits, in forecasts.
    pub fn without_comparisons(&mut self) {
        self.confirms = false;
    }

    /// Removes what only further builds need. What is built stays.
    pub fn close(&self) -> Result<()> {
        self.workshop.close()
    }

    /// Removes the builds.
    pub fn clean_up(&self) -> Result<()> {
        self.workshop.remove_all()
    }
}

fn end_name(end: usize) -> &'static str {
    if end == 0 { "good" } else { "bad" }
}
