//! How a commit of the user's program is built, and how long it runs on which CPUs.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use bisector::{Request, Source};
use plan::commands;
use records::{Better, Extract, MetricKind};

/// How a commit is built.
#[derive(clap::Args)]
pub struct CommitBuildFlags {
    /// Build a commit with this line, in a shell in its directory
    #[arg(long, value_name = "LINE")]
    pub build: Option<String>,
    /// What the build makes [default: all programs and libraries]
    ///
    /// Builds whose products load equal code and data are one, measured once.
    #[arg(long = "product", value_name = "PATH", value_delimiter = ',', hide_short_help = true)]
    pub products: Vec<PathBuf>,
    /// Give a build up after this time, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = limit_s, default_value = "3600", hide_short_help = true)]
    pub build_timeout: f64,
}

/// Where and how long a build runs.
#[derive(clap::Args)]
pub struct BuildRunFlags {
    /// CPUs of a run: a number, cores or all
    #[arg(long, default_value = "all", hide_short_help = true)]
    pub cpus: String,
    /// Give a run up after this time, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = limit_s, default_value = "600", hide_short_help = true)]
    pub timeout: f64,
}

fn limit_s(text: &str) -> Result<f64> {
    let seconds = text.parse()?;
    ensure!(seconds > 0.0 && seconds < 1e6, "must be above 0 s");
    Ok(seconds)
}

/// What is judged in the output of a build: the metric, and how it is read if it is not one of knee's own.
pub type Judged = (String, Option<Extract>);

impl CommitBuildFlags {
    /// Builds and runs of these commits, which are judged by this metric.
    pub fn request(&self, runs: &BuildRunFlags, source: Source, judged: Judged) -> Request {
        let (metric, extract) = judged;
        Request {
            build: self.build.clone(),
            build_timeout_s: self.build_timeout,
            products: self.products.clone(),
            cpus: runs.cpus.clone(),
            timeout_s: runs.timeout,
            extract,
            ..Request::new(source, metric)
        }
    }
}

/// The metric to judge by: this one, unless `value` says where a number is in the output.
pub fn judged_by(
    value: Option<&str>,
    better: Better,
    kind: Option<MetricKind>,
    metric: &str,
) -> Result<Judged> {
    let Some(pattern) = value else { return Ok((metric.to_string(), None)) };
    let name = "value".to_string();
    let extract = commands::operations_from(pattern)?;
    Ok((name.clone(), Some(Extract { name, better, kind, ..extract })))
}
