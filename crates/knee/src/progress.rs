//! Progress on standard error: a bar with the time left in a terminal, else a line now and
//! then. Nothing is drawn while tasks are measured, but for a tick a second in long runs.

use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use records::{Outcome, Point, Run, Until};

use crate::talk::talk;

/// Talks about the runs of one `knee run`.
pub struct Progress {
    bar: Option<ProgressBar>,
    total: usize,
    done: usize,
    /// What the runs alone will take, where their length is known.
    planned: Duration,
    since: Instant,
    spoken: Instant,
}

/// Time between two lines where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);

impl Progress {
    /// On standard error, in the form that suits it.
    pub fn new() -> Progress {
        let now = Instant::now();
        let bar = stderr().is_terminal().then(bar);
        Progress { bar, total: 0, done: 0, planned: Duration::ZERO, since: now, spoken: now }
    }

    /// Runs of these points are to come.
    pub fn begin<'a>(&mut self, runs: impl Iterator<Item = &'a Point>) {
        for point in runs {
            self.total += 1;
            if let Until::Seconds(seconds) = point.until {
                self.planned += Duration::from_secs_f64(seconds);
            }
        }
        if let Some(bar) = &self.bar {
            bar.set_length(self.total as u64);
        }
    }

    /// A run of this point starts.
    pub fn running(&self, point: &Point) {
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{} left  {}", self.left(), describe(point)));
            bar.tick();
            if is_long(point) {
                bar.enable_steady_tick(Duration::from_secs(1));
            }
        }
    }

    /// A run is durable.
    pub fn finished(&mut self, point: &Point, run: &Run) {
        self.done += 1;
        if let Outcome::Failed { reason } = &run.outcome {
            self.say(&format!("failed: {}: {reason}", describe(point)));
        }
        match &self.bar {
            Some(bar) => {
                bar.disable_steady_tick();
                bar.inc(1);
            }
            None if self.spoken.elapsed() > LINE_EVERY => {
                self.spoken = Instant::now();
                self.say(&format!("{} of {} runs, {} left", self.done, self.total, self.left()));
            }
            None => (),
        }
    }

    /// The end of all runs.
    pub fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }

    fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| talk(line)),
            None => talk(line),
        }
    }

    /// Time left if the other runs take as long as those so far; before there is one, the
    /// time that they measure.
    fn left(&self) -> String {
        let each = self.since.elapsed().as_secs_f64() / self.done.max(1) as f64;
        let seconds = match self.done {
            0 => self.planned.as_secs_f64(),
            done => each * (self.total - done) as f64,
        };
        let seconds = seconds.round() as u64;
        format!("{}:{:02}", seconds / 60, seconds % 60)
    }
}

fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:24} {pos} of {len} runs, {msg}");
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(1));
    bar.set_style(style.expect("the template is a constant that parses"));
    bar
}

/// Whether a run is so long that a standing bar would worry.
fn is_long(point: &Point) -> bool {
    match point.until {
        Until::Seconds(seconds) => seconds > 5.0,
        Until::OperationsPerTask(_) | Until::End => true,
    }
}

fn describe(point: &Point) -> String {
    let Point { workload, form, cpus, tasks, .. } = point;
    format!("{workload}, {tasks} {} on {cpus} CPUs", form.name())
}
