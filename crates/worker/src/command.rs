//! A command as the load: prepared, run on its CPUs and measured from outside, its numbers
//! read, cleaned up after; and whatever it started is dead before the run is over.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::ExitStatus;
use std::time::Duration;

use host::clock::now_ns;
use host::descendants;
use probes::counters::Snapshot;
use records::{CommandJob, Event, Job, Measured, OutputSource, Warning};

use crate::output::Kept;
use crate::priority::{self, Policy};
use crate::program::{Beside, End, Ran, Wish, beside, described, measured, with_words};
use crate::watch::Watch;
use crate::{say, usage};

/// A file that a number is read from is read so far.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// How long each line of cleanup may take when we were asked to end.
const HURRY: Duration = Duration::from_secs(10);

const ASKED: &str = "the worker was asked to end";

/// Runs the command of a job and prints its events, from `ready` to `ended`.
pub fn run(job: &Job, command_job: &CommandJob, started_ns: u64) -> Result<(), String> {
    let wish = Wish::hear()?;
    descendants::adopt();
    let done =
        prepare(command_job, &wish).and_then(|()| conduct(job, command_job, &wish, started_ns));
    let hurry = done.as_ref().is_err_and(|why| why == ASKED);
    clean(command_job, hurry);
    let none = BTreeSet::new();
    let gone = descendants::kill(&none).map_err(|why| format!("after the command, {why}"));
    let events = done?;
    gone?;
    events.iter().for_each(say);
    Ok(())
}

fn patience(command_job: &CommandJob) -> Duration {
    Duration::from_secs_f64(command_job.timeout_s)
}

fn prepare(command_job: &CommandJob, wish: &Wish) -> Result<(), String> {
    for words in &command_job.prepare {
        beside(words, command_job, patience(command_job), Some(wish)).map_err(|why| match why {
            Beside::Failed(why) => format!("preparing the run: {why}"),
            Beside::Asked => ASKED.to_string(),
        })?;
    }
    Ok(())
}

/// Undoes what was prepared. A failure is told; the run has its numbers all the same.
fn clean(command_job: &CommandJob, hurry: bool) {
    let patience = if hurry { HURRY.min(patience(command_job)) } else { patience(command_job) };
    for words in &command_job.cleanup {
        if let Err(Beside::Failed(why)) = beside(words, command_job, patience, None) {
            let advice = "look at the cleanup of the command: later runs may not start alike";
            say(&Event::Warning(Warning::new(format!("cleaning up: {why}"), advice)));
        }
    }
}

/// Runs the command itself. Its events are said later, when all is quiet.
fn conduct(
    job: &Job,
    command_job: &CommandJob,
    wish: &Wish,
    started_ns: u64,
) -> Result<Vec<Event>, String> {
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
    let ran = measured(command_job, &job.cpus, policy, wish, &mut watch);
    watch.edge_of_command(ran.as_ref().map_or(0, |ran| ran.usage.user_us + ran.usage.system_us))?;
    let after = Snapshot::after(root, &job.cpus);
    let own = usage::between(&own_before, &usage::of_process());
    let _ = policy.apply();
    let gone = descendants::kill(&prepared);
    let ran = ran?;
    let status = ended(command_job, &ran)?;
    gone.map_err(|why| format!("after the command, {why}"))?;
    let counters = after.since(&before);
    let (values, warnings) = read_numbers(command_job, &ran);
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
    events.push(Event::Ended { exit_status: status.code().unwrap_or_default(), values });
    Ok(events)
}

/// The status that the command ended with, if it counts.
fn ended(command_job: &CommandJob, ran: &Ran) -> Result<ExitStatus, String> {
    let name = &command_job.run[0];
    let words = || match ran.stderr.last_words() {
        words if words.is_empty() => ran.stdout.last_words(),
        words => words,
    };
    let why = match ran.end {
        End::Ended(status) if status.code().is_some_and(|c| command_job.success.contains(&c)) => {
            return Ok(status);
        }
        End::Ended(status) => described(status),
        End::TimedOut => format!("took longer than {} s and was killed", command_job.timeout_s),
        End::Asked => return Err(ASKED.to_string()),
    };
    Err(with_words(&format!("{name} {why}"), &words()))
}

/// The numbers that were found, and what to say of those that were not.
fn read_numbers(command_job: &CommandJob, ran: &Ran) -> (BTreeMap<String, f64>, Vec<Warning>) {
    let (mut values, mut warnings) = (BTreeMap::new(), Vec::new());
    let mut texts: BTreeMap<&OutputSource, Result<String, String>> = BTreeMap::new();
    for how in &command_job.metrics {
        let text = texts.entry(&how.from).or_insert_with(|| match &how.from {
            OutputSource::Stdout => Ok(whole(&ran.stdout, "standard output", &mut warnings)),
            OutputSource::Stderr => Ok(whole(&ran.stderr, "standard error", &mut warnings)),
            OutputSource::File(path) => read_file(path),
        });
        let found = match text {
            Ok(text) => how.number(text),
            Err(why) => Err(format!("{why}, so {} is missing", how.name)),
        };
        match found {
            Ok(value) => drop(values.insert(how.name.clone(), value)),
            Err(why) => {
                let advice =
                    format!("look at what the command writes, and at its metric {}", how.name);
                warnings.push(Warning::new(why, advice));
            }
        }
    }
    (values, warnings)
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
