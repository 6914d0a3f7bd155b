//! A command as the load: prepared, run on its CPUs and measured from outside, its numbers
//! read, cleaned up after; and whatever it started is dead before the run is over.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use probes::counters::Snapshot;
use records::{Errand, Event, Job, Measured, Origin, Warning};

use super::extract::extract;
use super::output::Kept;
use super::priority::{self, Policy};
use super::program::{Beside, End, Ran, Wish, beside, described, measured, with_words};
use super::watch::Watch;
use super::{say, usage};
use crate::clock::now_ns;
use crate::descendants;

/// A file that a number is read from is read so far.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How long each line of cleanup may take when we were asked to end.
const HURRY: Duration = Duration::from_secs(10);

const ASKED: &str = "the worker was asked to end";

/// Does the errand of a job and says its events, from `ready` to `ended`.
pub fn run(job: &Job, errand: &Errand, started_ns: u64) -> Result<(), String> {
    let wish = Wish::hear()?;
    descendants::adopt();
    let done = prepare(errand, &wish).and_then(|()| conduct(job, errand, &wish, started_ns));
    let hurry = done.as_ref().is_err_and(|why| why == ASKED);
    clean(errand, hurry);
    let none = BTreeSet::new();
    let gone = descendants::kill(&none).map_err(|why| format!("after the command, {why}"));
    let events = done?;
    gone?;
    events.iter().for_each(say);
    Ok(())
}

fn patience(errand: &Errand) -> Duration {
    Duration::from_secs_f64(errand.timeout_s)
}

fn prepare(errand: &Errand, wish: &Wish) -> Result<(), String> {
    for words in &errand.prepare {
        beside(words, errand, patience(errand), Some(wish)).map_err(|why| match why {
            Beside::Failed(why) => format!("preparing the run: {why}"),
            Beside::Asked => ASKED.to_string(),
        })?;
    }
    Ok(())
}

/// Undoes what was prepared. A failure is told; the run has its numbers all the same.
fn clean(errand: &Errand, hurry: bool) {
    let patience = if hurry { HURRY.min(patience(errand)) } else { patience(errand) };
    for words in &errand.cleanup {
        if let Err(Beside::Failed(why)) = beside(words, errand, patience, None) {
            let advice = "look at the cleanup of the command: later runs may not start alike";
            say(&Event::Warning(Warning::new(format!("cleaning up: {why}"), advice)));
        }
    }
}

/// Runs the command itself. Its events are said later, when all is quiet.
fn conduct(job: &Job, errand: &Errand, wish: &Wish, started_ns: u64) -> Result<Vec<Event>, String> {
    // Servers that were prepared live until they are cleaned up.
    let prepared = descendants::living();
    let policy = Policy::current();
    priority::raise();
    say(&Event::Ready { tasks: 1, startup_s: (now_ns() - started_ns) as f64 / 1e9 });
    let root = Path::new("/");
    let mut watch = Watch::begin(job);
    let own_before = usage::of_process();
    let before = Snapshot::before(root, &job.cpus);
    watch.edge_of_command(0)?;
    let ran = measured(errand, &job.cpus, policy, wish, &mut watch);
    watch.edge_of_command(ran.as_ref().map_or(0, |ran| ran.usage.user_us + ran.usage.system_us))?;
    let after = Snapshot::after(root, &job.cpus);
    let own = usage::between(&own_before, &usage::of_process());
    let _ = policy.apply();
    let gone = descendants::kill(&prepared);
    let ran = ran?;
    let status = ended(errand, &ran)?;
    gone.map_err(|why| format!("after the command, {why}"))?;
    let counters = after.since(&before);
    let (values, missing, warnings) = read_numbers(errand, &ran);
    let mut events = vec![Event::Measured(Measured {
        wall_ns: ran.wall_ns,
        drain_ns: None,
        usage: ran.usage,
        worker_us: own.user_us + own.system_us,
        deltas: counters.deltas,
        gauges: counters.gauges,
        unavailable: counters.unavailable,
    })];
    events.extend(watch.end());
    events.extend(warnings.into_iter().map(Event::Warning));
    let exit_status = status.code().unwrap_or_default();
    events.push(Event::Ended { exit_status, values, missing });
    Ok(events)
}

/// The status that the command ended with, if it counts.
fn ended(errand: &Errand, ran: &Ran) -> Result<ExitStatus, String> {
    let name = &errand.run[0];
    let words = || match ran.stderr.last_words() {
        words if words.is_empty() => ran.stdout.last_words(),
        words => words,
    };
    let why = match ran.end {
        End::Ended(status) if status.code().is_some_and(|c| errand.success.contains(&c)) => {
            return Ok(status);
        }
        End::Ended(status) => described(status),
        End::TimedOut => format!("took longer than {} s and was killed", errand.timeout_s),
        End::Asked => return Err(ASKED.to_string()),
    };
    Err(with_words(&format!("{name} {why}"), &words()))
}

/// The numbers that were found, why others are missing, and warnings about the texts.
fn read_numbers(
    errand: &Errand,
    ran: &Ran,
) -> (BTreeMap<String, f64>, BTreeMap<String, String>, Vec<Warning>) {
    let (mut values, mut missing, mut warnings) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
    let mut texts: BTreeMap<&Origin, Result<String, String>> = BTreeMap::new();
    for how in &errand.metrics {
        let text = texts.entry(&how.from).or_insert_with(|| match &how.from {
            Origin::Stdout => Ok(whole(&ran.stdout, "standard output", &mut warnings)),
            Origin::Stderr => Ok(whole(&ran.stderr, "standard error", &mut warnings)),
            Origin::File(path) => read_file(path),
        });
        let found = match text {
            Ok(text) => extract(how, text),
            Err(why) => Err(format!("{why}, so {} is missing", how.name)),
        };
        match found {
            Ok(value) => drop(values.insert(how.name.clone(), value)),
            Err(why) => drop(missing.insert(how.name.clone(), why)),
        }
    }
    (values, missing, warnings)
}

fn whole(kept: &Kept, what: &str, warnings: &mut Vec<Warning>) -> String {
    if kept.lost() > 0 {
        warnings.push(Warning::new(
            format!(
                "the middle {} MiB of the command's {what} were not looked at",
                kept.lost() >> 20
            ),
            "let it write less, or write to a file",
        ));
    }
    kept.text()
}

fn read_file(path: &str) -> Result<String, String> {
    let mut bytes = Vec::new();
    // Not a pipe or a device, which might have no end or make us wait.
    let is_file = std::fs::metadata(path).map_err(|e| format!("reading {path}: {e}"))?.is_file();
    if !is_file {
        return Err(format!("{path} is no file"));
    }
    let read = File::open(path).and_then(|f| f.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|e| format!("reading {path}: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
