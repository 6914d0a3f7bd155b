//! Bisections with a log: commits of the user's repository are built in knee's own folders, measured by the runner,
//! and judged by crate `bisection`. Nothing is ever built while something is measured.
//!
//!     Request ──> Range ──> ends built ──> Session: next ─> build ─> measure ─> log ──> Answer ──> confirm
//!
//! A bisection is a folder with its log. What the log holds is never done again, so a killed bisection goes on
//! where it was.

mod build;
mod builds_lock;
mod confirm;
mod effects;
mod fingerprint;
mod folder;
mod gate;
mod git_log;
pub mod kernel_line;
mod kernels;
mod layouts;
mod lines;
mod log;
mod measurement;
mod patience;
mod range;
mod reads;
mod series;
mod session;
mod step_line;
mod tools;
mod watch;
mod workshop;

pub use build::Build;
pub use confirm::{Confirmation, Confirmed, Explained};
pub use effects::effects;
pub use folder::{Bisection, ids, open, to_go_on_with};
pub use gate::{
    Cases, CountChange, CountVerdict, CountedCase, CountedChange, GateAnswer, GateRequest,
    GateSide, GateVerdict, GatedCase, Nothing, gate,
};
pub use git_log::{GitLog, git_log};
pub use kernels::{KernelLoad, KernelRecipe, check_metric, check_record, parse_load};
pub use layouts::LayoutCheck;
pub use log::{Event, Limits, Log, StepRuns};
pub use patience::Wait;
pub use range::{Commit, Range, Source};
pub use series::{PATCHES_MAX, Patch, Series, series};
pub use session::{Finished, Progress, Session};
pub use watch::{
    Ack, Added, Between, Line, LineFile, LineMetric, MetricFile, Series as LineSeries, WatchAnswer,
    WatchBisected, WatchBisection, WatchChange, WatchCulprit, WatchPoint, WatchSeries, WatchSize,
    WatchValue, WatchedLine, add, commit, direction,
};

use std::path::PathBuf;

use bisection::Settings;
use records::Extract;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What to bisect, and how.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Where the commits come from.
    pub source: Source,
    /// The line that builds a commit, for a shell in its folder; nothing to build without it.
    pub build: Option<String>,
    /// Seconds after which a build is given up.
    pub build_timeout_s: f64,
    /// What the build makes, relative to its folder; without names, all programs and libraries.
    pub products: Vec<PathBuf>,
    /// The line that is measured, in the folder of the commit.
    pub command: String,
    /// Whether a shell interprets it.
    pub shell: bool,
    /// The CPUs of a run.
    pub cpus: String,
    /// The metric that decides.
    pub metric: String,
    /// How it is read from the output, if it is not one of knee's own.
    pub extract: Option<Extract>,
    /// Seconds after which a run fails.
    pub timeout_s: f64,
    /// How the search decides.
    pub settings: Settings,
    /// Seconds that the search may take, if limited.
    pub budget_s: Option<f64>,
    /// Seconds that comparisons may wait for a quiet host; as `patience` finds reasonable unless that is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// The size of a change that matters in the final comparison, as a share.
    pub smallest_effect: f64,
    /// Kernels to build and boot, in place of `build` and `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelLoad>,
}

impl Request {
    /// Runs of these commits as they are, judged by this metric, with all else as usual.
    pub fn new(source: Source, metric: String) -> Request {
        Request {
            source,
            build: None,
            build_timeout_s: 3600.0,
            products: Vec::new(),
            command: String::new(),
            shell: false,
            cpus: "all".to_string(),
            metric,
            extract: None,
            timeout_s: 600.0,
            settings: Settings::default(),
            budget_s: None,
            wait_s: None,
            smallest_effect: 0.02,
            kernels: None,
        }
    }
}
