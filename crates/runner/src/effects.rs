//! What a record's experiment would start and change on the host, as it would be started, without doing
//! it: an experiment file may come from anywhere, and its lines run with the user's rights.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use guests::architecture::Architecture;
use plan::commands::{self, RunId, client_on, command_job, values, words};
use plan::guest_config;
use records::{
    Command, Effect, EffectKind, Guest, OperationCount, OutputSource, OwnLoad, Planned,
    PlannedWork, Point, Record, ServerJob, ServerProgram, StartedServer, Storage, Variant,
};
use setup::file_systems;
use setup::ownership::DIRECTORY_PREFIX;

use crate::places::guest::no_kvm;
use crate::programs;

/// Stands for the id in the name of a run's directory.
const SOME_ID: &str = "ID";

/// Everything that the record's runs would start and change besides knee's own workloads, each once, with
/// the values of the first run of each point.
pub fn effects(record: &Record) -> Result<Vec<Effect>> {
    let mut effects = Vec::new();
    effects.extend(guest_config::guests(record).iter().map(boot));
    let on_host = record.points.iter().filter_map(|point| record.metal(&point.variant));
    effects.extend(on_host.map(|kernel| boot(&kernel)));
    for variant in &record.variants {
        effects.extend(of_variant(variant)?);
    }
    effects.extend(of_image(record)?);
    for own in record.experiment.own_loads() {
        let words = [vec![own.file.display().to_string()], own.flags.clone()].concat();
        effects.push(effect(EffectKind::Compile, words, source(own)));
    }
    for point in &record.points {
        let planned = record.planned(point)?;
        if let Some(file_system) = planned.file_system {
            let storage = &record.experiment.storage;
            effects.extend(file_systems::effects(storage, &directory(point), file_system)?);
        }
        if let PlannedWork::Command(command) = planned.work {
            let of_command = || format!("in the command {}", command.name);
            effects.extend(of_point(record, &planned, command).with_context(of_command)?);
        }
    }
    let explain = record.experiment.explain.iter();
    let functions = explain.flat_map(|explain| explain.functions.clone());
    effects.extend(functions.map(|name| effect(EffectKind::Kprobe, vec![name], "")));
    let mut each_once: Vec<Effect> = Vec::new();
    for effect in effects {
        if !each_once.contains(&effect) {
            each_once.push(effect);
        }
    }
    Ok(each_once)
}

/// Where the code of a load comes from, and how long it is.
fn source(own: &OwnLoad) -> String {
    let kept = own.compiled.as_ref().map_or("", |compiled| compiled.text.as_str());
    let size = match fs::metadata(&own.file) {
        _ if !kept.is_empty() => format!("{} bytes that are kept with the experiment", kept.len()),
        Ok(found) => format!("{} bytes", found.len()),
        Err(_) => "of a size that is not known".to_string(),
    };
    format!("{size}, run as the load")
}

fn effect(kind: EffectKind, words: Vec<String>, note: impl Into<String>) -> Effect {
    Effect { kind, words, note: note.into() }
}

/// The directory of all runs in the measured directory.
fn directory(point: &Point) -> PathBuf {
    point.dir.join(format!("{DIRECTORY_PREFIX}{SOME_ID}"))
}

fn boot(guest: &Guest) -> Effect {
    let file = guest.kernel.iter().map(|path| path.display().to_string());
    let kernel = file.chain(guest.feature.iter().map(|name| format!("feature:{name}"))).collect();
    let is_said = |word: &String| !word.starts_with("kernel ") && !word.starts_with("metal ");
    let place = if guest.feature.is_some() {
        "by Slurm, on a node".to_string()
    } else if guest.metal == Some(true) {
        "on this host, which stops all that runs on it".to_string()
    } else if guest.accelerator.is_some() {
        "in a virtual machine of QEMU".to_string()
    } else {
        match no_kvm(Architecture::HOST) {
            Some(why) => format!("in a virtual machine of QEMU, emulated, so its times say nothing ({why})"),
            None => "in a virtual machine of QEMU, emulated if a boot with KVM fails: then its times say nothing".to_string(),
        }
    };
    let words = guest.words().into_iter().filter(is_said);
    let rest: Vec<String> = [place].into_iter().chain(words).collect();
    effect(EffectKind::Boot, kernel, rest.join(", "))
}

/// What a variant changes around its runs.
fn of_variant(variant: &Variant) -> Result<Vec<Effect>> {
    let note = format!("variant {}", variant.name);
    let mut effects = Vec::new();
    let mut add = |kind, words| effects.push(effect(kind, words, note.clone()));
    for (name, value) in &variant.sysctl {
        add(EffectKind::Sysctl, vec![format!("{name}={}", value.0)]);
    }
    for (name, value) in &variant.environment {
        add(EffectKind::Environment, vec![format!("{name}={}", value.0)]);
    }
    let binary = variant.binary.as_ref().map(|path| path.display().to_string());
    if !variant.under.is_empty() {
        let knee = binary.clone().unwrap_or("knee".to_string());
        add(EffectKind::Under, [&variant.under[..], &[knee, "worker".to_string()]].concat());
    }
    if let Some(binary) = binary {
        add(EffectKind::Binary, vec![binary, "worker".to_string()]);
    }
    if let Some(daemon) = programs::daemon_before_runs(variant)? {
        effects.extend(of_server(
            &daemon,
            EffectKind::Daemon,
            &format!("of the daemon of {note}"),
            &note,
        ));
    }
    Ok(effects)
}

/// Making the experiment's image, if it has one.
fn of_image(record: &Record) -> Result<Vec<Effect>> {
    let Some(image) = &record.experiment.image else { return Ok(Vec::new()) };
    let storage = Storage { size: image.size.clone(), ..Storage::default() };
    let mut effects = Vec::new();
    for dir in commands::image_directories(record) {
        let directory = dir.join(format!("{DIRECTORY_PREFIX}{SOME_ID}"));
        effects.extend(file_systems::effects(&storage, &directory, &image.file_system)?);
    }
    Ok(effects)
}

/// The programs of one run of a command, in the order in which they start.
fn of_point(record: &Record, planned: &Planned, command: &Command) -> Result<Vec<Effect>> {
    let Planned { point, .. } = planned;
    let scratch = match planned.file_system {
        Some(_) => directory(point).join("mounted-0").join("0"),
        None => directory(point).join("0"),
    };
    let first = RunId { seed: record.seed, ..RunId::default() };
    let job = command_job(command, &values(point, &record.topology, &scratch, first), &scratch)?;
    let place = in_directory(&job.directory, &scratch);
    let mut effects = Vec::new();
    if let Some(line) = &command.version {
        let words = words(line, command.shell, &values(point, &record.topology, &scratch, first))?;
        effects.push(effect(EffectKind::Version, words, "once, before the first run"));
    }
    let environment = job.environment.iter().map(|(name, value)| format!("{name}={value}"));
    effects.extend(
        environment.map(|words| {
            effect(EffectKind::Environment, vec![words], format!("of {}", command.name))
        }),
    );
    let place = client_on(point).map_or(place, |on| format!("on another host, {on}"));
    let lines = |kind, lines: Vec<Vec<String>>| {
        let place = place.clone();
        lines.into_iter().map(move |words| effect(kind, words, place.clone()))
    };
    if let Some(ServerJob::Start(server)) = job.server {
        let user = server.user.as_ref();
        let user = user.map(|user| format!("as the user {user}, if knee runs as root"));
        let user = user.unwrap_or_default();
        effects.extend(of_server(&server, EffectKind::Server, "of the server", &user));
    }
    effects.extend(lines(EffectKind::Prepare, job.prepare));
    effects.extend(lines(EffectKind::Command, vec![job.run]));
    effects.extend(lines(EffectKind::Cleanup, job.cleanup));
    let files = job.metrics.into_iter().filter_map(|metric| match metric.from {
        OutputSource::File(path) => Some(effect(EffectKind::Reads, vec![path], "")),
        OutputSource::Stdout | OutputSource::Stderr => None,
    });
    effects.extend(files);
    if let Some(OperationCount::Passes { file, probe }) = &job.operations {
        let words = vec![probe.to_string()];
        effects.push(effect(EffectKind::Uprobe, words, format!("in {}", file.display())));
    }
    Ok(effects)
}

/// The programs of a server or a daemon, in the order in which they start, and what they find there. `owner` says whose the
/// environment is, and `note` how its programs run.
fn of_server(server: &StartedServer, kind: EffectKind, owner: &str, note: &str) -> Vec<Effect> {
    let template = server.template.iter().map(|path| {
        let words = vec![path.display().to_string()];
        effect(EffectKind::Reads, words, "copied for each run")
    });
    let environment = server.environment.iter().map(|(name, value)| {
        effect(EffectKind::Environment, vec![format!("{name}={value}")], owner)
    });
    let programs = server.programs().into_iter().map(|(program, words)| {
        let kind = match program {
            ServerProgram::Setup | ServerProgram::Ready => EffectKind::Prepare,
            ServerProgram::Serves => kind,
            ServerProgram::Stop => EffectKind::Cleanup,
        };
        effect(kind, words.to_vec(), note)
    });
    template.chain(environment).chain(programs).collect()
}

/// Where a command's programs run, unless that is the scratch directory.
fn in_directory(directory: &Path, scratch: &Path) -> String {
    if directory == scratch { String::new() } else { format!("in {}", directory.display()) }
}

#[cfg(test)]
mod tests {
    use expect_test::{Expect, expect};
    use records::Experiment;

    use super::*;

    fn check(daemon: &str, expected: Expect) {
        let text = format!(
            "[[load]]\nworkload = 'getppid'\n[[variant]]\nname = 'b'\n[variant.daemon]\n{daemon}\n"
        );
        let experiment = Experiment::read(&text).unwrap();
        let effects = of_variant(&experiment.variants[0]).unwrap();
        let line = |effect: &Effect| {
            format!("{}: {} # {}\n", effect.kind.name(), effect.words.join("|"), effect.note)
        };
        expected.assert_eq(&effects.iter().map(line).collect::<String>());
    }

    #[test]
    fn all_that_a_daemon_starts_and_is_given_is_listed() {
        check(
            "run = 'tuned -l'\nready = { command = 'ask up' }\nstop = 'ask \"the end\"'\n\
             environment = { LD_PRELOAD = '/tmp/x.so' }",
            expect![[r#"
                environment: LD_PRELOAD=/tmp/x.so # of the daemon of variant b
                daemon: tuned|-l # variant b
                prepare: ask|up # variant b
                cleanup: ask|the end # variant b
            "#]],
        );
        check(
            "run = ['tuned']\nready = { file = 'up' }\nstop = 'SIGINT'",
            expect![[r#"
            daemon: tuned # variant b
        "#]],
        );
    }
}
