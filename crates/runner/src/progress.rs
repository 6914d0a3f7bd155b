//! Progress on standard error: a bar with the time left in a terminal, else a line now and then. While
//! tasks are measured, nothing is drawn except one tick a second in long runs.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use host::counted;
use host::terminal::{hint, is_foreground, is_quiet, shown, talk};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plan::schedule::Assignment;
use records::{Outcome, Point, Record, Run, Until};

/// Shows the progress of one `knee run`.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// How long the runs themselves will take, as far as their length is known.
    planned: Duration,
    /// The number of runs in all if no result ends them before.
    most: usize,
    /// "block 3 of at most 60, " if blocks go on until decided.
    stage: String,
    /// Seconds after which a gate begins no more runs.
    budget_s: Option<f64>,
    /// The number of runs of this session and the sum of their deciding values, by point.
    sums: BTreeMap<u32, (u32, f64)>,
    /// The blocks of this session that have a run, and those of them that the host disturbed.
    blocks: BTreeSet<u32>,
    disturbed: BTreeSet<u32>,
    since: Instant,
    spoken: Instant,
}

/// Blocks without one that counts, after which that is said.
const TELL_AFTER: usize = 3;

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Progress {
    /// Shows a bar if standard error is a terminal, else lines.
    pub fn start() -> Progress {
        let now = Instant::now();
        let bar = (stderr().is_terminal() && !is_quiet()).then(bar);
        Progress {
            bar,
            total: 0,
            done: 0,
            planned: Duration::ZERO,
            most: 0,
            stage: String::new(),
            budget_s: None,
            sums: BTreeMap::new(),
            blocks: BTreeSet::new(),
            disturbed: BTreeSet::new(),
            since: now,
            spoken: now,
        }
    }

    /// A block begins, with these runs left in it. Each later block is expected to have as many, or none
    /// if the results decide whether there is one.
    pub fn block(&mut self, record: &Record, block: u32, left: &[Assignment]) {
        let experiment = &record.experiment;
        let until_decided = experiment.compare.until_decided && record.variants.len() > 1;
        let decides = until_decided || experiment.adaptive.is_some();
        self.budget_s = experiment.compare.gate.map(|gate| gate.budget_s);
        let later_blocks = match &record.blocks {
            _ if decides => 0,
            // Those beyond the planned number are spares, which are seldom called for.
            Some(only) => {
                let is_later = |later: &&u32| **later > block && **later < experiment.blocks();
                only.iter().filter(is_later).count() as u32
            }
            None => experiment.blocks().saturating_sub(block + 1),
        };
        let later = later_blocks as usize * left.len();
        self.total = self.done + left.len() + later;
        let undecided =
            if until_decided { experiment.blocks().saturating_sub(block + 1) } else { 0 };
        self.most = self.total + undecided as usize * left.len();
        self.planned = left.iter().map(|run| measured(&record.points[run.point])).sum();
        self.planned += Duration::from_secs_f64(
            later as f64 * self.planned.as_secs_f64() / left.len().max(1) as f64,
        );
        let (number, cap) = (block + 1, experiment.blocks());
        self.stage = if experiment.adaptive.is_some() {
            format!("search, block {number}, ")
        } else if !until_decided {
            String::new()
        } else if number <= cap {
            format!("block {number} of at most {cap}, ")
        } else {
            let at_most = analysis::blocks_at_most(cap);
            format!("block {number} of at most {at_most}, ")
        };
        if until_decided && !self.disturbed.is_empty() {
            self.stage += &format!("{} left out, ", self.disturbed.len());
        }
        if let Some(bar) = &self.bar {
            bar.set_length(self.total as u64);
        }
    }

    /// The runs begin of which nothing is kept, for the time of this number.
    pub fn warm_up(&mut self, record: &Record, number: u32) {
        self.stage = format!("warm-up {} of {}, ", number + 1, record.experiment.warmup_runs);
    }

    /// A run of the point with this index starts.
    pub fn running(&self, record: &Record, index: u32) {
        if let (Some(bar), Some(point)) = (&self.bar, record.points.get(index as usize)) {
            if bar.is_hidden() == is_foreground() {
                bar.set_draw_target(draw_target());
            }
            let (stage, left, mean) = (&self.stage, self.left(), self.mean(record, index));
            bar.set_message(shown(&format!("{stage}{left} left  {}{mean}", describe(point))));
            bar.tick();
            if is_long(point) {
                bar.enable_steady_tick(Duration::from_secs(1));
            }
        }
    }

    /// A run is durable.
    pub fn finished(&mut self, record: &Record, run: &Run) {
        self.done += 1;
        let Some(point) = record.points.get(run.point as usize) else { return };
        if let Outcome::Failed { reason } = &run.outcome {
            self.say(&format!("failed: {}: {reason}", describe(point)));
        }
        self.notice_disturbance(record, point, run);
        if let Some(value) = run.value(&record.deciding(point)) {
            let (runs, sum) = self.sums.entry(run.point).or_default();
            (*runs, *sum) = (*runs + 1, *sum + value);
        }
        match &self.bar {
            Some(bar) => {
                bar.disable_steady_tick();
                bar.inc(1);
            }
            None if self.spoken.elapsed() > LINE_EVERY => {
                self.spoken = Instant::now();
                let (stage, done, total) = (&self.stage, self.done, self.total);
                let (last, mean) = (describe(point), self.mean(record, run.point));
                hint(format_args!(
                    "{stage}{done} of {}, {} left; {last}{mean}",
                    counted(total, "run"),
                    self.left()
                ));
            }
            None => (),
        }
    }

    /// Says once that no block counts so far, since comparisons leave out what the host disturbs.
    fn notice_disturbance(&mut self, record: &Record, point: &Point, run: &Run) {
        self.blocks.insert(run.block);
        let is_compared = record.variants.len() > 1 && run.finished();
        let Some(why) = analysis::disturbance(record, point, run).filter(|_| is_compared) else {
            return;
        };
        let is_news = self.disturbed.insert(run.block);
        if is_news && self.blocks.len() == TELL_AFTER && self.disturbed.len() == TELL_AFTER {
            self.say(&format!(
                "no block counts so far, since the host disturbed each (run {}: {why}); `knee doctor` says by what",
                run.run
            ));
        }
    }

    /// The mean so far of what decides about a point: ", mean wall_s 0.123 of 4 runs".
    fn mean(&self, record: &Record, index: u32) -> String {
        let Some((runs, sum)) = self.sums.get(&index) else { return String::new() };
        let metric = record.deciding(&record.points[index as usize]);
        let mean = analysis::rounded(sum / f64::from(*runs), 3);
        format!(", mean {metric} {mean} of {}", counted(*runs as usize, "run"))
    }

    /// A profile is durable.
    pub fn profiled(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.disable_steady_tick();
            bar.inc(1);
        }
    }

    /// The end of all runs.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    /// Says a line above the bar.
    pub fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| talk(line)),
            None => talk(line),
        }
    }

    /// The time left if the other runs take as long as those so far: at most, where a result may end them. Before the
    /// first run is over, the time that they measure.
    fn left(&self) -> String {
        let each = self.since.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let seconds = match self.done {
            0 => self.planned.as_secs_f64() * self.most as f64 / self.total.max(1) as f64,
            done => each * self.most.saturating_sub(done) as f64,
        };
        let of_budget = self.budget_s.map(|budget_s| budget_s - self.since.elapsed().as_secs_f64());
        let seconds = seconds.min(of_budget.unwrap_or(f64::INFINITY)).max(0.0).round() as u64;
        let at_most = if self.most > self.total { "at most " } else { "" };
        format!("{at_most}{}:{:02}", seconds / 60, seconds % 60)
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos} of {len} runs, {msg}");
    let bar = ProgressBar::with_draw_target(None, draw_target());
    bar.set_style(style.expect("the template is a constant that parses"));
    bar
}

/// A shell whose user has put knee into the background has the terminal for itself.
fn draw_target() -> ProgressDrawTarget {
    if is_foreground() {
        ProgressDrawTarget::stderr_with_hz(1)
    } else {
        ProgressDrawTarget::hidden()
    }
}

/// How long a run measures, or zero if its length is unknown.
fn measured(point: &Point) -> Duration {
    match point.until {
        Until::Seconds(seconds) => Duration::from_secs_f64(seconds),
        Until::OperationsPerTask(_) | Until::End => Duration::ZERO,
    }
}

/// Whether a run is so long that a bar without motion would look stuck.
fn is_long(point: &Point) -> bool {
    match point.until {
        Until::Seconds(seconds) => seconds > 5.0,
        Until::OperationsPerTask(_) | Until::End => true,
    }
}

fn describe(point: &Point) -> String {
    let Point { workload, form, cpus, tasks, variant, .. } = point;
    let variant = if variant.is_empty() { String::new() } else { format!(" as {variant}") };
    let cpus = counted(*cpus as usize, "CPU");
    if point.command.is_some() {
        // Where a variant has its files, its name says.
        let is_said =
            |(_, value): &(&String, &String)| variant.is_empty() || !value.starts_with('/');
        let said = point.parameters.iter().filter(is_said);
        let parameters = said.map(|(name, value)| format!(" {name}={value}"));
        let parameters: String = parameters.collect();
        return format!("{workload}{parameters}{variant} on {cpus}");
    }
    format!("{workload}{variant}, {} on {cpus}", form.counted(*tasks))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_so_far_is_that_of_the_point() {
        let golden = "../store/tests/golden/v1/20261120-115530-7f3a9c";
        let golden = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        let opened = store::open(&golden).unwrap();
        let mut progress = Progress::start();
        let first = opened.runs[0].point;
        assert_eq!(progress.mean(&opened.record, first), "");
        for run in opened.runs.iter().filter(|run| run.point == first) {
            progress.finished(&opened.record, run);
        }
        expect_test::expect![", mean operations_per_s 1 190 000 of 2 runs"]
            .assert_eq(&progress.mean(&opened.record, first));
    }
}
