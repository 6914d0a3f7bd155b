//! The report: what was measured, on what, and whether it keeps within the limits.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use records::{Directory, HostFacts};

/// One measured quantity, several times.
pub struct Figure {
    /// What it is.
    pub name: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// What its median must keep.
    pub limit: Limit,
    /// The values, in order of measurement.
    pub values: Vec<f64>,
}

/// What a median must keep.
#[derive(Clone, Copy)]
pub enum Limit {
    /// Not below this.
    AtLeast(f64),
    /// Not below this, nor may what chance leaves around the median be.
    SurelyAtLeast(f64),
    /// Not above this.
    AtMost(f64),
    /// None, but as wide as chance leaves it.
    Shown,
    /// Shown for orientation.
    None,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Met,
    /// The median keeps the limit, but by chance it could be on the other side.
    MetWithinNoise,
    /// On which side of the limit it is could be chance.
    Open,
    Missed,
}

impl Verdict {
    fn told(self) -> &'static str {
        match self {
            Verdict::Met => "met",
            Verdict::MetWithinNoise => "met within noise",
            Verdict::Open => "open",
            Verdict::Missed => "MISSED",
        }
    }
}

/// All figures of one run of the benchmarks.
pub struct Report {
    host: HostFacts,
    directory: Directory,
    seed: u64,
    started: jiff::Zoned,
    load_before: String,
    figures: Vec<Figure>,
}

impl Report {
    /// A report without figures, for benchmarks in this directory.
    pub fn new(directory: &Path, seed: u64) -> Report {
        Report {
            host: probes::host(Path::new("/")),
            directory: probes::directory(directory),
            seed,
            started: jiff::Zoned::now(),
            load_before: load(),
            figures: Vec::new(),
        }
    }

    /// Adds figures.
    pub fn add(&mut self, figures: Vec<Figure>) {
        self.figures.extend(figures);
    }

    /// The text, of 100 columns at most.
    pub fn finish(&self) -> String {
        let (limited, other): (Vec<_>, Vec<_>) =
            self.figures.iter().partition(|f| !matches!(f.limit, Limit::None | Limit::Shown));
        let mut text = self.head() + "\n## Limits\n\n" + &table(&limited);
        if !other.is_empty() {
            text += &format!("\n## Beside them\n\n{}", table(&other));
        }
        let told = |verdict| limited.iter().filter(|f| f.verdict() == verdict).count();
        text += &format!("\n{} of {} limits missed", told(Verdict::Missed), limited.len());
        if told(Verdict::MetWithinNoise) > 0 {
            let met = told(Verdict::MetWithinNoise);
            text += &format!(", {met} met within noise: chance alone could sink them");
        }
        if told(Verdict::Open) > 0 {
            text +=
                &format!(", {} open: chance alone could lift or sink them", told(Verdict::Open));
        }
        text + ".\n"
    }

    /// Keeps the text in `bench/reports`; returns where. Figures worth keeping go into `bench/results` by hand.
    pub fn save(&self, text: &str) -> Result<PathBuf> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("reports");
        let host = self.host.hostname.as_deref().unwrap_or("host");
        let path = folder.join(format!("{}-{host}.md", self.started.strftime("%Y-%m-%d")));
        fs::create_dir_all(&folder)
            .and_then(|()| fs::write(&path, text))
            .with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }

    fn head(&self) -> String {
        let unknown = || "?".to_string();
        let cpus = std::thread::available_parallelism().map_or(0, usize::from);
        let HostFacts { cpu_model, hypervisor, kernel_release, .. } = &self.host;
        let Directory { path, file_system, source, .. } = &self.directory;
        let lines = [
            ("date", self.started.strftime("%Y-%m-%d %H:%M:%S UTC%:z").to_string()),
            ("CPU", format!("{} × {cpus}", cpu_model.clone().unwrap_or_else(unknown))),
            ("hypervisor", hypervisor.clone().unwrap_or_else(|| "none seen".to_string())),
            ("kernel", kernel_release.clone().unwrap_or_else(unknown)),
            (
                "directory",
                format!(
                    "{}, {} on {}",
                    path.display(),
                    file_system.clone().unwrap_or_else(unknown),
                    source.clone().unwrap_or_else(unknown)
                ),
            ),
            ("load average", format!("{} before, {} after", self.load_before, load())),
            ("seed", self.seed.to_string()),
        ];
        let lines = lines.map(|(what, value)| format!("- {what}: {value}\n"));
        format!(
            "# Benchmarks of knee {}\n\n{}\nEach value is a median [first, third quartile] of n \
             measurements.\nA ratio is of two runs of one pair, in random order. With 95 %: what 95 of 100 such\n\
             samples would have around the median.\n",
            env!("CARGO_PKG_VERSION"),
            lines.concat()
        )
    }
}

/// Load averages over 1, 5 and 15 minutes.
fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn table(figures: &[&Figure]) -> String {
    let head = ["figure", "limit", "measured", "n", ""].map(str::to_string);
    let mut rows = vec![head];
    rows.extend(figures.iter().map(|figure| figure.row()));
    let width = |column: usize| rows.iter().map(|r| r[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..5).map(width).collect();
    let line = |row: &[String; 5]| {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!(" {cell:width$} |"));
        format!("|{}\n", cells.collect::<String>())
    };
    let rule: String = widths.iter().map(|width| "-".repeat(width + 2) + "|").collect();
    let body: String = rows[1..].iter().map(line).collect();
    format!("{}|{rule}\n{body}", line(&rows[0]))
}

impl Figure {
    fn verdict(&self) -> Verdict {
        let (low, high) = self.around_median();
        match self.limit {
            Limit::AtLeast(limit) if self.quantile(0.5) < limit => Verdict::Missed,
            Limit::AtMost(limit) if self.quantile(0.5) > limit => Verdict::Missed,
            Limit::SurelyAtLeast(limit) if high < limit => Verdict::Missed,
            Limit::SurelyAtLeast(limit) if low < limit => Verdict::Open,
            Limit::AtLeast(limit) if low < limit => Verdict::MetWithinNoise,
            Limit::AtMost(limit) if high > limit => Verdict::MetWithinNoise,
            _ => Verdict::Met,
        }
    }

    fn row(&self) -> [String; 5] {
        let number = |value: f64| match value.abs() {
            0.0..10.0 => format!("{value:.3}"),
            0.0..1000.0 => format!("{value:.1}"),
            _ => format!("{value:.0}"),
        };
        let [q1, median, q3] = [0.25, 0.5, 0.75].map(|q| number(self.quantile(q)));
        let (limit, verdict) = match self.limit {
            Limit::AtLeast(limit) | Limit::SurelyAtLeast(limit) => {
                (format!("≥ {limit} {}", self.unit), self.verdict().told())
            }
            Limit::AtMost(limit) => (format!("≤ {limit} {}", self.unit), self.verdict().told()),
            Limit::Shown | Limit::None => (String::new(), ""),
        };
        let spread = match self.limit {
            Limit::SurelyAtLeast(_) | Limit::Shown => {
                let (low, high) = self.around_median();
                format!("95 %: {} to {}", number(low), number(high))
            }
            _ => format!("[{q1}, {q3}] {}", self.unit),
        };
        [
            self.name.clone(),
            limit.trim_end().to_string(),
            format!("{median} {spread}").trim_end().to_string(),
            self.values.len().to_string(),
            verdict.to_string(),
        ]
    }

    /// Between which values the median lies but in one of twenty cases, whatever the distribution:
    /// those whose ranks are 1.96 deviations of a binomial from the middle.
    fn around_median(&self) -> (f64, f64) {
        let aside = 0.98 / (self.values.len() as f64).sqrt();
        (self.quantile((0.5 - aside).max(0.0)), self.quantile((0.5 + aside).min(1.0)))
    }

    /// By linear interpolation between the values beside it.
    fn quantile(&self, q: f64) -> f64 {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let place = q * (sorted.len() - 1) as f64;
        let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
        below + (above - below) * place.fract()
    }
}
