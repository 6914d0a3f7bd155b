//! The worker: reads one job, does one run with fresh tasks, prints events.
//!
//! It lives in a process of its own, so a crash, a hang or a full memory costs one run and
//! never the tool. Between the release of the tasks and their stop it sleeps, but for a
//! look at the counts each interval; what it has to say meanwhile is said afterwards.

mod board;
mod durations;
mod measure;
mod priority;
mod scratch;
mod task;
mod tasks;
mod usage;

use std::io::Write;

use records::{Event, Job, PROTOCOL, Warning};
use workloads::{Forms, Load, Values, Workload};

use crate::clock::now_ns;
use scratch::Scratch;

/// Does the job and prints its events; the last one says whether the run counts.
pub fn work(job: &Job) {
    let started_ns = now_ns();
    say(&Event::Hello {
        protocol: PROTOCOL,
        knee: env!("CARGO_PKG_VERSION").to_string(),
        pid: std::process::id(),
    });
    match attempt(job, started_ns) {
        Ok(()) => say(&Event::Finished),
        Err(reason) => say(&Event::Failed { reason }),
    }
}

/// Prints one event at once.
fn say(event: &Event) {
    let line = format!("{}\n", event.line());
    // Nobody left to read it is nobody left to tell.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

fn attempt(job: &Job, started_ns: u64) -> Result<(), String> {
    let workload = find(job)?;
    check_form(workload, job)?;
    let scratch = Scratch::make(&job.scratch)?;
    let load = load(workload, job)?;
    for need in workload.spec.needs {
        need.check(&load)?;
    }
    let prepared = (workload.spec.prepare)(&load).map_err(|failure| failure.to_string())?;
    measure::measure(job, &load, &*prepared, started_ns)?;
    drop(prepared);
    scratch.remove()
}

fn find(job: &Job) -> Result<&'static Workload, String> {
    let workload = Workload::find(&job.workload)
        .ok_or_else(|| format!("this knee has no workload '{}'", job.workload))?;
    if workload.spec.semantics != job.semantics {
        return Err(format!(
            "{} has semantic version {} here, the job was planned for {}",
            workload.name, workload.spec.semantics, job.semantics
        ));
    }
    Ok(workload)
}

fn check_form(workload: &Workload, job: &Job) -> Result<(), String> {
    let form = native(job.form);
    match workload.spec.forms {
        Forms::Only(only, why) if only != form => {
            Err(format!("{} does not run as {}: {why}", workload.name, job.form.name()))
        }
        Forms::Noted(noted, why) if noted == form => {
            say(&Event::Warning(Warning::new(format!("as {}: {why}", job.form.name()), "")));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn native(form: records::Form) -> workloads::Form {
    match form {
        records::Form::Processes => workloads::Form::Processes,
        records::Form::Threads => workloads::Form::Threads,
    }
}

fn load(workload: &Workload, job: &Job) -> Result<Load, String> {
    Ok(Load {
        tasks: job.tasks as usize,
        form: native(job.form),
        values: Values::new(workload, &job.parameters)?,
        directory: job.scratch.clone(),
        operations: match job.until {
            records::Until::OperationsPerTask(n) => Some(n),
            records::Until::Seconds(_) | records::Until::End => None,
        },
        turns_per_ns: measure::turns_per_ns(),
    })
}
