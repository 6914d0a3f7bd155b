//! The worker: reads one job, does one run with fresh tasks or of a command, prints events.
//!
//! It lives in a process of its own, so a crash, a hang or a full memory costs one run and
//! never the tool. Between the release of the tasks and their stop it sleeps, except to read
//! the operation counts once an interval; events of that time are printed afterwards.

mod allocations;
mod board;
mod client;
mod command;
mod cpu_users;
mod daemon;
mod durations;
mod guard;
mod marked_output;
mod measure;
mod output;
mod own;
mod pace;
mod priority;
mod profiler;
mod program;
mod remote_client;
mod scratch;
mod server;
mod task;
mod tasks;
mod usage;

use std::io::Write;
use std::path::PathBuf;

use host::clock::now_ns;
use records::{Event, Job, NativeJob, PROTOCOL, Warning, Work};
use workloads::{Forms, Load, Pace, Values, Workload};

use crate::measure::Subject;
use crate::scratch::Scratch;
use crate::task::Native;

/// Does the job and prints its events. The last one is `Finished`, or `Failed` with the reason.
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

/// Prints one event without delay.
fn say(event: &Event) {
    let line = format!("{}\n", event.line());
    // If the reader is gone, there is nobody to report the error to.
    let _ = std::io::stdout().lock().write_all(line.as_bytes());
}

fn attempt(job: &Job, started_ns: u64) -> Result<(), String> {
    match &job.work {
        Work::Workload(native) => attempt_workload(job, native, started_ns),
        Work::Daemon(server) => daemon::hold(job, server, started_ns),
        Work::Own(own) => {
            let scratch = Scratch::create(&job.scratch)?;
            measure::measure(job, &Subject::Own(own), &scratch, started_ns)?;
            if job.keep { scratch.keep() } else { scratch.remove() }
        }
        Work::Command(command_job) => {
            let scratch = Scratch::create(&job.scratch)?;
            command::run(job, command_job, started_ns)?;
            scratch.remove()
        }
    }
}

fn attempt_workload(job: &Job, native: &NativeJob, started_ns: u64) -> Result<(), String> {
    let scratch = Scratch::create(&job.scratch)?;
    let mut loads = vec![load(native, job, job.scratch.clone())?];
    if let Some(beside) = &job.beside {
        let directory = if job.together {
            job.scratch.clone()
        } else {
            // Where it finds nothing of the other's.
            let directory = job.scratch.join("beside");
            std::fs::create_dir(&directory).map_err(|e| format!("creating a directory: {e}"))?;
            directory
        };
        loads.push(load(beside, job, directory)?);
    }
    let prepared = loads.iter().map(|(workload, load)| {
        for need in workload.spec.needs {
            need.check(load)?;
        }
        (workload.spec.prepare)(load).map_err(|failure| failure.to_string())
    });
    let prepared = prepared.collect::<Result<Vec<_>, String>>()?;
    let natives = loads.iter().zip(&prepared);
    let natives = natives.map(|((_, load), prepared)| Native { load, prepared: &**prepared });
    let natives: Vec<Native> = natives.collect();
    measure::measure(job, &Subject::Native(&natives), &scratch, started_ns)?;
    drop(natives);
    drop(prepared);
    if job.keep { scratch.keep() } else { scratch.remove() }
}

fn find(native: &NativeJob) -> Result<&'static Workload, String> {
    let workload = Workload::find(&native.name)
        .ok_or_else(|| format!("this knee has no workload '{}'", native.name))?;
    if workload.spec.semantics != native.semantics {
        return Err(format!(
            "{} has semantic version {} here, the job was planned for {}",
            workload.name, workload.spec.semantics, native.semantics
        ));
    }
    Ok(workload)
}

fn check_form(workload: &Workload, job: &Job) -> Result<(), String> {
    let wanted = form(job.form);
    match workload.spec.forms {
        Forms::Only(only, why) if only != wanted => {
            Err(format!("{} does not run as {}: {why}", workload.name, job.form.name()))
        }
        Forms::Noted(noted, why) if noted == wanted => {
            say(&Event::Warning(Warning::new(format!("as {}: {why}", job.form.name()), "")));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn form(form: records::Form) -> workloads::TaskForm {
    match form {
        records::Form::Processes => workloads::TaskForm::Processes,
        records::Form::Threads => workloads::TaskForm::Threads,
    }
}

/// A workload, and what it has to do in a directory.
fn load(
    native: &NativeJob,
    job: &Job,
    directory: PathBuf,
) -> Result<(&'static Workload, Load), String> {
    let workload = find(native)?;
    check_form(workload, job)?;
    let values = Values::new(workload, &native.parameters)?;
    let pace = match values.work()[..] {
        [] => Pace::NOMINAL,
        _ => pace::measure(&job.cpus),
    };
    let load = Load {
        tasks: job.tasks as usize,
        form: form(job.form),
        values,
        directory,
        operations: match job.until {
            records::Until::OperationsPerTask(n) => Some(n),
            records::Until::Seconds(_) | records::Until::End => None,
        },
        pace,
    };
    Ok((workload, load))
}
