//! How near `knee simulate operation` comes to this host itself: every workload that a guest can run is traced on a kernel,
//! simulated on this host's model with 1 and 2 CPUs, and measured here on as many.
//!
//! Rules, from before the first row was simulated:
//! - The host model is that of `knee doctor calibrate`, by the build under test: a debug build would time its own loops.
//! - A trace is of the workload's defaults, with two processes in a guest's tmpfs, on the kernel of `--kernel`. Where this
//!   host's kernel file is missing, that is the nearest release of a distribution, and differences of kernels are misses.
//! - The guest has huge pages where this host has them: else a page fault there is another operation.
//! - Where the answer says to trace again, since no task was seen to wait, that is done up to five times.
//! - A rate is the median of nine runs of 0.1 s in `--dir`, a tmpfs as in the guest, with one process on each CPU. It counts
//!   if a line moved between the CPUs as fast before and after them as the model says: a hypervisor moves virtual CPUs, and
//!   then the model is of another host.
//! - *Ratio*: the rate at 2 CPUs over that at 1, simulated over measured. Nothing is fitted.
//! - *Ratio with a rate*: the same where the measured rate of one CPU is given (`--rate`), as a user would.
//! - *Rate*: that at 1 CPU, simulated over measured. Nothing is fitted since `calibrate` times an instruction of the kernel;
//!   before it, one time of an instruction was fitted to half of the workloads.
//! - A factor from 1 / 1.3 to 1.3 is near. A workload that cannot be traced, simulated or measured is not near, and counts.
//!
//! Seen: the first run (shares 0.585, 0.427 with the rate, 0.256 of rates) already had copies and entries into the kernel, and
//! charged every line of a task's own. That only lines which the operation before did not use cost time came after it, so what
//! later runs say of rates on that host is no longer blind. That knee's own locks and mechanisms run from their source, what an
//! instruction and a page fault cost, and that hits are in the time of an instruction, came after the third run, with all of its
//! rows in sight. So did, after the fourth, how instructions and atomic ones of a source add, and when a
//! waiting CPU notices; and after the fifth, that the kernel executes an instruction in another time than user code, that
//! the instructions of a source are spread over its accesses, and that a task which waits in the kernel sleeps at once.
//!
//! With `--records DIR` the model, traces and rates are kept there, and used again by the next run.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::env::temp_dir;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use described_hosts::Draw;
use serde_json::{Value, json};

use crate::ceilings::answer;
use crate::report::{Figure, Limit};
use crate::{Bench, Options, fresh_directory, output};

const NEAR: f64 = 1.3;
/// How often a trace is made again where no task was seen to wait.
const TRIES: usize = 5;
/// Workloads that one boot traces.
const TRACED_AT_ONCE: usize = 8;
const BLOCKS: &str = "9";
const SECONDS: &str = "0.1";
const HOST: &str = "this-host.toml";

/// Traces, measures and simulates all workloads, and grades them.
pub fn measure(bench: &mut Bench, options: &Options) -> Result<Vec<Figure>> {
    let (_, kernel) = options.kernel.first().context("--kernel NAME=FILE is needed")?;
    let home = fresh_directory(&temp_dir())?;
    let kept = options.records.clone().unwrap_or_else(|| home.path().join("kept"));
    fs::create_dir_all(&kept).with_context(|| format!("making {}", kept.display()))?;
    let lab = Lab {
        bench,
        home: home.path(),
        kept: &kept,
        kernel,
        directory: &options.dir,
        is_as_described: Cell::new(false),
    };
    lab.describe_host()?;
    let mut names = lab.workloads()?;
    names.retain(|name| options.test.is_empty() || options.test.contains(name));
    let untraced = lab.trace(&names);
    let mut rows = Vec::new();
    let mut failed = 0;
    for name in &names {
        let row = match untraced.get(name) {
            Some(why) => Err(anyhow::anyhow!("not traced: {why}")),
            None => lab.row(name),
        };
        match row {
            Ok(row) => rows.push(row),
            Err(why) => {
                failed += 1;
                eprintln!("at-home, {name}: {why:#}");
            }
        }
    }
    Ok(figures(&rows, failed))
}

/// Where workloads are traced, measured and simulated.
struct Lab<'a> {
    bench: &'a Bench,
    home: &'a Path,
    /// The folder of the host model, traces and rates.
    kept: &'a Path,
    kernel: &'a Path,
    /// The folder of measured file operations.
    directory: &'a Path,
    /// Whether the host was as its model says when somebody last looked.
    is_as_described: Cell<bool>,
}

impl Lab<'_> {
    fn file(&self, name: &str) -> PathBuf {
        self.kept.join(name)
    }

    fn describe_host(&self) -> Result<()> {
        let file = self.file(HOST);
        if !file.exists() {
            eprintln!("at-home: describing this host");
            fs::write(&file, self.calibrated()?)?;
        }
        Ok(())
    }

    /// This host's model, as it is now.
    fn calibrated(&self) -> Result<String> {
        let described = output(self.bench.knee(self.home).args(["doctor", "calibrate"]))?;
        Ok(String::from_utf8(described.stdout)?)
    }

    /// Looks whether a line now moves between CPUs about as fast as the model says.
    fn still_as_described(&self) -> Result<bool> {
        const NEAR: f64 = 1.5;
        let transfer = |text: &str| -> Result<f64> {
            let host = described_hosts::parse("this host", text)?.host(Draw::Middle);
            Ok(host.transfers.last().context("a host without distances")?.load_modified as f64)
        };
        let now = transfer(&self.calibrated()?)?;
        let described = transfer(&fs::read_to_string(self.file(HOST))?)?;
        self.is_as_described.set((1.0 / NEAR..=NEAR).contains(&(now / described)));
        Ok(self.is_as_described.get())
    }

    /// The names of all workloads, in their order.
    fn workloads(&self) -> Result<Vec<String>> {
        let listed = output(self.bench.knee(self.home).args(["list", "workloads", "--json"]))?;
        let listed: Vec<Value> = serde_json::from_slice(&listed.stdout)?;
        let mut names: Vec<String> =
            listed.iter().filter_map(|one| one["name"].as_str()).map(str::to_string).collect();
        names.sort();
        Ok(names)
    }

    /// Traces workloads that are not traced yet. Returns why some could not be.
    fn trace(&self, names: &[String]) -> BTreeMap<String, String> {
        let missing = |name: &&String| !self.file(&format!("{name}.json")).exists();
        let missing: Vec<&String> = names.iter().filter(missing).collect();
        let mut untraced = BTreeMap::new();
        for together in missing.chunks(TRACED_AT_ONCE) {
            let words = together.iter().map(|name| name.as_str());
            if self.trace_together(&words.collect::<Vec<_>>()).is_ok() {
                continue;
            }
            // One that fails ends the others.
            for name in together {
                if let Err(why) = self.trace_together(&[name]) {
                    untraced.insert(name.to_string(), format!("{why:#}"));
                }
            }
        }
        for name in names {
            for _ in 0..TRIES {
                if !self.nobody_waited(name) || self.trace_together(&[name]).is_err() {
                    break;
                }
            }
        }
        untraced
    }

    /// Whether a trace should be made again, since no task was seen to wait.
    fn nobody_waited(&self, name: &str) -> bool {
        let text = fs::read_to_string(self.file(&format!("{name}.json")));
        text.is_ok_and(|text| text.contains("trace them again"))
    }

    fn trace_together(&self, names: &[&str]) -> Result<()> {
        eprintln!("at-home: tracing {}", names.join(", "));
        let mut words = vec!["conflicts".to_string()];
        words.extend(names.iter().map(ToString::to_string));
        words.extend(["--steps", "--json", "--yes", "--kernel"].map(str::to_string));
        words.push(self.kernel.display().to_string());
        words.extend(huge_pages().map(|chosen| format!("--cmdline=transparent_hugepage={chosen}")));
        let mut answer = answer(self.bench, self.home, &words)?;
        let traced = answer["traced"].as_array().cloned().context("an answer without traces")?;
        for (name, traced) in names.iter().zip(traced) {
            answer["traced"] = json!([traced]);
            fs::write(self.file(&format!("{name}.json")), answer.to_string())?;
        }
        Ok(())
    }

    /// A workload's rates on 1 and 2 CPUs here, in operations a second.
    fn measured(&self, name: &str) -> Result<[f64; 2]> {
        // How often it may take until CPUs that moved apart, or together, are as before.
        const LOOKS: usize = 20;
        let file = self.file(&format!("{name}.rates"));
        for _ in 0..LOOKS {
            if file.exists() || !(self.is_as_described.get() || self.still_as_described()?) {
                continue;
            }
            let mut run = self.bench.knee(self.home);
            run.args(["run", name, "--cpus", "1-2", "--seconds", SECONDS, "--blocks", BLOCKS]);
            output(run.args(["--yes", "--dir"]).arg(self.directory)).context("measuring")?;
            let shown = output(self.bench.knee(self.home).args(["show", "--json"]))?;
            let shown: Value = serde_json::from_slice(&shown.stdout)?;
            let rate = |cell: usize| {
                let metrics = &shown["curves"][0]["cells"][cell]["metrics"];
                metrics["operations_per_s"]["median"].as_f64().context("no measured rate")
            };
            if self.still_as_described()? {
                fs::write(&file, json!([rate(0)?, rate(1)?]).to_string())?;
            }
        }
        let rates = fs::read_to_string(file).context("the distance of the CPUs kept changing")?;
        Ok(serde_json::from_str(&rates)?)
    }

    fn simulated(&self, name: &str, rate: Option<f64>) -> Result<Simulated> {
        let file = |name: &str| self.file(name).display().to_string();
        let mut words = ["simulate", "operation", "--json", "--draws", "0", "--cpus", "1-2"]
            .map(str::to_string)
            .to_vec();
        words.extend([file(&format!("{name}.json")), "--host".to_string(), file(HOST)]);
        words.extend(rate.into_iter().flat_map(|rate| ["--rate".to_string(), rate.to_string()]));
        let answer = output(self.bench.knee(self.home).args(words)).context("simulating")?;
        let answer: Value = serde_json::from_slice(&answer.stdout)?;
        let operation = &answer["operations"][0];
        let number = |value: &Value| value.as_f64().context("the answer lacks a number");
        let rate = |point: usize| number(&operation["points"][point]["operations_per_s"]);
        Ok(Simulated {
            rates: [rate(0)?, rate(1)?],
            instructions: number(&operation["instructions"])?,
            waits: operation["waits"].as_str().map(str::to_string),
            warnings: serde_json::from_value(operation["warnings"].clone()).unwrap_or_default(),
        })
    }

    fn row(&self, name: &str) -> Result<Row> {
        let measured = self.measured(name)?;
        let simulated = self.simulated(name, None)?;
        let with_rate = self.simulated(name, Some(measured[0]));
        let with_rate = with_rate.ok().map(|simulated| simulated.rates);
        Ok(Row { name: name.to_string(), measured, simulated, with_rate })
    }
}

/// Where this host uses huge pages, as its kernel says: `always [madvise] never`.
fn huge_pages() -> Option<String> {
    let chosen = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
    Some(chosen.split_once('[')?.1.split_once(']')?.0.to_string())
}

/// What the simulator says of a workload.
struct Simulated {
    /// On 1 and 2 CPUs, in operations a second.
    rates: [f64; 2],
    instructions: f64,
    /// What operations wait for that is not simulated.
    waits: Option<String>,
    warnings: Vec<String>,
}

/// A workload, measured and simulated.
struct Row {
    name: String,
    /// On 1 and 2 CPUs, in operations a second.
    measured: [f64; 2],
    simulated: Simulated,
    /// Simulated rates where that of one CPU was given; none if that leaves an instruction no time.
    with_rate: Option<[f64; 2]>,
}

impl Row {
    /// The ratio of 2 CPUs over 1, simulated over measured.
    fn ratio(&self, [one, two]: [f64; 2]) -> f64 {
        two / one / (self.measured[1] / self.measured[0])
    }

    /// One CPU's rate, simulated over measured.
    fn rate(&self) -> f64 {
        self.simulated.rates[0] / self.measured[0]
    }

    /// What the trace says that a simulation leaves out.
    fn left_out(&self) -> String {
        let all = self.simulated.warnings.iter().map(|warning| {
            warning.split_once(": ").map_or(warning.as_str(), |(what, _)| what).to_string()
        });
        self.simulated.waits.iter().cloned().chain(all).collect::<Vec<_>>().join("; ")
    }
}

fn is_near(factor: f64) -> bool {
    (1.0 / NEAR..=NEAR).contains(&factor)
}

/// Prints the rows, and grades them together with those that failed.
fn figures(rows: &[Row], failed: usize) -> Vec<Figure> {
    let (mut ratios, mut with_rate, mut rates) = (Vec::new(), Vec::new(), Vec::new());
    for row in rows {
        let ratio = row.ratio(row.simulated.rates);
        let given = row.with_rate.map_or(0.0, |rates| row.ratio(rates));
        let rate = row.rate();
        let [one, two] = row.measured;
        let [simulated_one, simulated_two] = row.simulated.rates;
        let off = |factor: f64| if is_near(factor) { "" } else { " OFF" };
        eprintln!(
            "at-home, {}: 2 CPUs over 1 {:.2}, simulated {:.2}: factor {ratio:.2}{}, with the rate {given:.2}{}; 1 CPU \
             {one:.0}/s: factor {rate:.2}{}, {:.0} instructions; {}",
            row.name,
            two / one,
            simulated_two / simulated_one,
            off(ratio),
            off(given),
            off(rate),
            row.simulated.instructions,
            row.left_out(),
        );
        ratios.push(ratio);
        with_rate.push(given);
        rates.push(rate);
    }
    let count = rows.len() + failed;
    let share = |factors: &[f64]| {
        let near = factors.iter().filter(|factor| is_near(**factor)).count();
        vec![near as f64 / count.max(1) as f64]
    };
    let figure = |what: &str, limit, values| Figure {
        name: format!("at home: {what}"),
        unit: "",
        limit,
        values,
    };
    const GOAL: Limit = Limit::AtLeast(70.0 / 80.0);
    vec![
        figure("2 CPUs over 1 within 1.3, share", GOAL, share(&ratios)),
        figure("2 CPUs over 1 within 1.3 with the rate given, share", GOAL, share(&with_rate)),
        figure("rate of 1 CPU within 1.3, share", GOAL, share(&rates)),
        figure("2 CPUs over 1, simulated / measured", Limit::None, ratios),
        figure("rate of 1 CPU, simulated / measured", Limit::None, rates),
        figure("workloads", Limit::None, vec![count as f64]),
    ]
}
