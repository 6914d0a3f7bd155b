//! Whether a planted limit is one: the rate of requests with it and without.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Serialize;

use super::case::{Case, Kind};
use super::interrupt::pause;
use super::language::{Language, Program};
use super::running::{Running, Tools};

/// How much more a server must do without its limit.
const GAIN_MIN: f64 = 1.25;
/// Windows of each measurement. The best one counts: other programs only take from a rate.
const WINDOWS: usize = 4;
const WINDOW: Duration = Duration::from_millis(500);

/// Requests per second of one case.
#[derive(Clone, Copy, Serialize)]
pub struct Rates {
    pub with_limit: f64,
    pub without_limit: f64,
}

impl Rates {
    /// Measures the case with its limit and without: once where the limit shows at once, else so often that it shows in
    /// two of three measurements or fails to.
    pub fn measure(case: &Case, program: &Program, tools: &Tools) -> Result<Rates> {
        let measure = || Rates::measure_once(case, program, tools);
        let first = measure()?;
        if first.show_limit(case) {
            return Ok(first);
        }
        let second = measure()?;
        if second.show_limit(case) { measure() } else { Ok(second) }
    }

    fn measure_once(case: &Case, program: &Program, tools: &Tools) -> Result<Rates> {
        let rate = |is_limited| {
            let mut running = Running::start(case, program, tools, is_limited)?;
            warm_up(case, &mut running)?;
            let rates = (0..WINDOWS).map(|_| running.rate(WINDOW));
            let best =
                rates.into_iter().try_fold(0.0, |best, rate| anyhow::Ok(f64::max(best, rate?)))?;
            ensure!(best > 0.0, "it serves no requests");
            Ok(best)
        };
        Ok(Rates { with_limit: rate(true)?, without_limit: rate(false)? })
    }

    /// How many times as much the server does without its limit.
    pub fn gain(&self) -> f64 {
        self.without_limit / self.with_limit
    }

    /// Whether the planted limit is one.
    pub fn show_limit(&self, case: &Case) -> bool {
        case.kind == Kind::Healthy || self.gain() >= GAIN_MIN
    }
}

/// Lets a server reach its usual rate.
pub fn warm_up(case: &Case, running: &mut Running) -> Result<()> {
    // Methods of Java are compiled when they have been called often.
    let seconds = if case.language == Language::Java { 3.0 } else { 0.7 };
    running.wait_for_requests()?;
    pause(Duration::from_secs_f64(seconds))?;
    running.check_alive()
}
