//! The head of a report: what was measured, when, on what, and how to do it again.

use records::{
    Adaptive, ClientHost, Directory, Opened, Point, Policy, Record, RecordState, ReplicationUnit,
    Source, Storage, Until,
};
use text::Style;
use text::prose::{counted, wrapped};

/// The words on the left, and the room they have.
const LABEL: usize = 12;

/// What a reader must know before the numbers.
pub fn header(opened: &Opened, style: Style) -> String {
    lines(&facts(opened), style)
}

/// The lines of the header: labels with what stands behind them, which may be empty.
pub fn facts(opened: &Opened) -> Vec<(&'static str, String)> {
    let record = &opened.record;
    let state = format!("{}, {}", record.id, state(opened));
    let again = ("rerun", again(record));
    let named = [("label", record.label.clone()), ("note", record.note.clone())];
    let record_lines = [
        &[("record", state)],
        &named[..],
        &circumstances(record, opened.runs.len() as u32)[..],
        &[again],
    ];
    record_lines.concat()
}

/// The lines of the header that are known before anything is run.
pub fn planned(record: &Record) -> Vec<(&'static str, String)> {
    let circumstances = circumstances(record, 0).into_iter();
    circumstances.filter(|(label, text)| *label != "started" && !text.is_empty()).collect()
}

fn circumstances(record: &Record, runs: u32) -> Vec<(&'static str, String)> {
    let when = if record.source.is_some() { "imported" } else { "started" };
    let mut lines = vec![
        ("experiment", experiment(record)),
        (when, started(record)),
        ("host", host(record, runs)),
        ("kernel", kernel(record)),
    ];
    lines.extend(guests(record).map(|guests| ("guests", guests)));
    lines.extend(record.source.is_none().then(|| ("CPUs", cpus(record))));
    lines.extend(record.clients.iter().map(|(on, host)| ("client", client(on, host))));
    lines.extend(record.directories.iter().map(|directory| ("directory", place(directory))));
    lines.extend(storage(record).map(|storage| ("storage", storage)));
    lines.extend(image(record).map(|image| ("image", image)));
    match &record.source {
        None => lines.push(("runs", plan(record))),
        Some(source) => lines.extend(imported(source)),
    }
    lines
}

fn lines(lines: &[(&str, String)], style: Style) -> String {
    let said = lines.iter().filter(|(_, value)| !value.is_empty());
    said.map(|(label, value)| labelled(label, value, style)).collect()
}

/// A label with what stands behind it. A command stays in one line, however long: it is copied.
pub fn labelled(label: &str, value: &str, style: Style) -> String {
    let line = format!("{label:<LABEL$}{value}");
    if label == "rerun" { line + "\n" } else { wrapped(&line, style.width, LABEL) }
}

/// "whole: 40 runs", "partial: 37 of 40 runs".
fn state(opened: &Opened) -> String {
    let (done, planned) = (opened.runs.len(), opened.record.runs_planned());
    let unit = opened.record.source.as_ref().map(|source| source.unit);
    let what = if unit == Some(ReplicationUnit::Sample) { "sample" } else { "run" };
    let name = opened.record.state.name();
    let failed = opened.runs.iter().filter(|run| !run.finished()).count();
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    match opened.record.state {
        RecordState::Whole => format!("{name}: {}{failed}", counted(done, what)),
        RecordState::Partial | RecordState::Growing => {
            let of = planned.map_or(String::new(), |_| format!("{done} of "));
            let all = counted(planned.map_or(done, |planned| planned as usize), "run");
            format!("{name}: {of}{all}{failed}")
        }
    }
}

fn experiment(record: &Record) -> String {
    let experiment = &record.experiment;
    let size = Some(&experiment.size).filter(|size| !size.is_empty());
    let size = size.map(|size| format!(" at the size {size}")).unwrap_or_default();
    let name = format!("{}{size}", experiment.name.trim());
    let parts = [name.as_str(), experiment.description.trim()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(": ")
}

/// Its release, and in a guest which spinlocks it uses: there that is a choice.
fn kernel(record: &Record) -> String {
    let release = record.host.kernel_release.iter().cloned();
    let spinlocks = record.host.knobs.get("spinlocks").filter(|_| record.host.hypervisor.is_some());
    let spinlocks = spinlocks.map(|kind| format!("spinlocks {kind}"));
    release.chain(spinlocks).collect::<Vec<_>>().join("; ")
}

/// "virtual machines of QEMU 7.2.22 with tcg, emulated: their times say nothing about real hardware".
fn guests(record: &Record) -> Option<String> {
    let hypervisor = record.hypervisor.as_ref()?;
    let version = hypervisor.program.trim_start_matches("QEMU emulator version ");
    let version = version.split(' ').next().unwrap_or_default();
    let note = if hypervisor.emulates() {
        ", emulated: their times say nothing about real hardware"
    } else {
        ""
    };
    Some(format!("virtual machines of QEMU {version} with {}{note}", hypervisor.accelerator))
}

fn started(record: &Record) -> String {
    let Some(first) = record.sessions.first() else {
        return String::new();
    };
    let time = first.started.strftime("%Y-%m-%d %H:%M:%S UTC");
    let resumed = match record.sessions.len() - 1 {
        0 => String::new(),
        n => format!(", resumed {}", counted(n, "time")),
    };
    format!("{time}, by knee {}{resumed}", first.knee)
}

/// "lab1, a guest of KVM"; of a record that several hosts made, "gamma (122 of 165 runs), beta (43 of 165 runs)".
fn host(record: &Record, runs: u32) -> String {
    let host = &record.host;
    let several = record
        .hosts(runs)
        .into_iter()
        .map(|(name, made)| format!("{name} ({made} of {})", counted(runs as usize, "run")));
    let several: Vec<String> = several.collect();
    if several.len() > 1 {
        return several.join(", ");
    }
    let node = record.sessions.iter().find_map(|session| session.node.as_deref());
    let name = node.or(host.hostname.as_deref()).unwrap_or("-");
    let guest = host.hypervisor.as_ref().map(|of| format!(", a guest of {of}"));
    format!("{name}{}", guest.unwrap_or_default())
}

/// "8 (4 cores, 1 node), Some CPU model".
fn cpus(record: &Record) -> String {
    let cpus = &record.topology.cpus;
    let groups = |of: fn(&host::Cpu) -> u32| {
        let mut groups: Vec<u32> = cpus.iter().map(of).collect();
        groups.sort();
        groups.dedup();
        groups.len()
    };
    let cores = counted(groups(|cpu| cpu.core), "core");
    let nodes = counted(groups(|cpu| cpu.node), "node");
    let model = record.host.cpu_model.iter().map(|model| format!(", {model}"));
    format!("{} ({cores}, {nodes}){}", cpus.len(), model.collect::<String>())
}

/// "on ssh:b (lab2): 16 CPUs (Some CPU), Linux 6.1.0, round trip 0.21 ms, asks the server at 10.0.0.1".
fn client(on: &str, host: &ClientHost) -> String {
    format!("on {on} ({}): {}", host.hostname, host.in_words())
}

/// "/mnt/test: ext4 (rw,noatime) on /dev/vdb, disk QEMU HARDDISK".
fn place(directory: &Directory) -> String {
    let Directory { path, file_system, mount_options, source, device, .. } = directory;
    let file_system = file_system.as_deref().unwrap_or("unknown file system");
    let options = mount_options.iter().map(|options| format!(" ({options})"));
    let source = source.iter().filter(|s| *s != file_system).map(|s| format!(" on {s}"));
    let model = device.get("model").iter().map(|model| format!(", disk {model}")).collect();
    let parts: [String; 3] = [options.collect(), source.collect(), model];
    format!("{}: {file_system}{}", path.display(), parts.concat())
}

/// "file systems of 8G on loop, created anew for every run, for variants that define one".
fn storage(record: &Record) -> Option<String> {
    let of_point = |point: &Point| record.file_system(point).is_some();
    let made = record.points.iter().filter(|point| of_point(point)).count();
    let Storage { on, size, policy, age } = &record.experiment.storage;
    let lives = match policy {
        Policy::Fresh => "created anew for every run".to_string(),
        Policy::Kept => "each shared by the runs of its variant".to_string(),
        Policy::Aged => format!("a copy of an aged one for every run ({age})"),
    };
    let all = if made < record.points.len() { ", for variants that define one" } else { "" };
    (made > 0).then(|| format!("file systems of {} on {on}, {lives}{all}", size.0))
}

/// "xfs mkfs '-d agcount=64' of 4G, filled by 500032 operations of create_files (312 MiB of data)".
fn image(record: &Record) -> Option<String> {
    let image = record.experiment.image.as_ref()?;
    let Some(filled) = &record.image else {
        return Some(format!(
            "{} of {}, to be filled by {} tasks with {} operations of {} each; a copy for each run",
            image.file_system, image.size.0, image.tasks, image.operations_per_task, image.workload
        ));
    };
    Some(format!(
        "{} of {}, filled by {} operations of {} in {:.1} s ({} MiB of data); a copy for each run",
        image.file_system,
        image.size.0,
        filled.operations,
        image.workload,
        filled.seconds,
        filled.bytes_used >> 20
    ))
}

/// The source of imported runs, and what it lacks.
fn imported(source: &Source) -> Vec<(&'static str, String)> {
    let unit = match source.unit {
        ReplicationUnit::Sample => "values inside one run, so no replication",
        ReplicationUnit::Run => "one value per run",
        ReplicationUnit::Mount => "one value per mount",
        ReplicationUnit::Boot => "one value per boot",
    };
    let blocks = if source.blocks { ", paired in blocks" } else { "" };
    let mut lines = vec![("source", format!("{}, {unit}{blocks}", source.format))];
    lines.extend(source.files.keys().map(|file| ("file", file.clone())));
    lines.extend(source.lacks.iter().map(|lack| ("missing", lack.clone())));
    lines
}

/// "5 blocks of 8 points, 1 s a run, placement cores, seed 42", and warm-up runs if there are any.
fn plan(record: &Record) -> String {
    let blocks = match record.experiment.adaptive {
        Some(adaptive) => search(&adaptive),
        None => {
            let (own, all) = (record.blocks_planned(), record.experiment.blocks());
            let of = if own < all { format!("{own} of {all}") } else { all.to_string() };
            let blocks = if all == 1 { "block" } else { "blocks" };
            format!("{of} {blocks} of {}", counted(record.points.len(), "point"))
        }
    };
    if record.source.is_some() {
        return blocks;
    }
    let lengths = different(record, |point| length(point.until));
    let placements = different(record, |point| point.placement.to_string());
    let warmup = match record.experiment.warmup_runs {
        0 => String::new(),
        runs => format!(" after {} of each that are not kept", counted(runs as usize, "run")),
    };
    format!(
        "{blocks}{warmup}, {} a run, placement {}, seed {}",
        lengths.join(" or "),
        placements.join(" or "),
        record.seed
    )
}

/// "CPU counts that tell most about the knee, until it is known to 10 % or 600 s are spent".
pub fn search(adaptive: &Adaptive) -> String {
    let Adaptive { budget_s, knee_within } = adaptive;
    format!(
        "CPU counts that tell most about the knee, until it is known to {} % or {budget_s} s are spent",
        text::quantity::short(100.0 * knee_within)
    )
}

/// How long a run is, in words.
pub fn length(until: Until) -> String {
    match until {
        Until::Seconds(s) => format!("{s} s"),
        Until::OperationsPerTask(n) => format!("{n} operations per task"),
        Until::End => "to its end".to_string(),
    }
}

/// The values of all points, each once, in order of appearance.
pub fn different(record: &Record, value: impl Fn(&Point) -> String) -> Vec<String> {
    let mut values = Vec::new();
    for value in record.points.iter().map(value) {
        if !values.contains(&value) {
            values.push(value);
        }
    }
    values
}

/// The command of the first session, ready to paste, in the same random order.
fn again(record: &Record) -> String {
    let Some(session) = record.sessions.first() else {
        return String::new();
    };
    let mut words: Vec<String> = session.command.iter().map(|word| quoted(word)).collect();
    let random = record.source.is_none();
    if random && !words.iter().any(|word| word.starts_with("--seed")) {
        words.push(format!("--seed {}", record.seed));
    }
    words.join(" ")
}

/// An experiment as a file, for readers who have nothing else: its name, its text, and the command that runs it.
pub struct ExperimentFile {
    pub name: String,
    pub text: String,
    pub command: String,
}

/// The experiment of a record whose command names files, or other records, that a reader elsewhere lacks. `None` where
/// the command does alone.
pub fn experiment_file(record: &Record) -> Option<ExperimentFile> {
    let command = &record.sessions.first()?.command;
    let is_of_here = |word: &String| {
        let path = word.ends_with(".toml") || word.ends_with(".c") || word.ends_with(".cc");
        path || word == "--against" || word.starts_with("--against=") || word == "chunk"
    };
    if record.source.is_some() || !command.iter().any(is_of_here) {
        return None;
    }
    let text = record.experiment.to_toml().ok()?;
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_".contains(c) { c } else { '-' };
    let name: String = record.experiment.name.chars().take(40).map(plain).collect();
    let name = if name.is_empty() { "experiment".to_string() } else { name };
    let name = format!("{}.toml", name.trim_start_matches('-'));
    let command = format!("knee run {name} --seed {}", record.seed);
    Some(ExperimentFile { name, text, command })
}

/// A word as a shell reads it back.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use crate::header::quoted;

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted("--cpus=1..8"), "--cpus=1..8");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
