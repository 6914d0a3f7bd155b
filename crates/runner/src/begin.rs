//! The record of a new execution: what is known before the first run, and the partial record that it
//! resumes.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use host::terminal::talk;
use host::{counted, paths, random, topology};
use plan::{Usable, adaptive, commands, guest_config, pitfalls, variants};
use records::{
    ClientHost, Directory, Experiment, FORMAT, HERE, OwnLoad, Point, Record, RecordState, Session,
    Warning,
};
use setup::file_systems;
use store::{Growing, Id, Index, Store};
use workloads::Workload;

use crate::places::guest::allowed_cpus;
use crate::{clients, images, programs};

/// Everything about the record that is known before the first run. Refuses missing programs.
pub fn new_record(experiment: Experiment) -> Result<Record> {
    let mut record = planned_record(experiment)?;
    images::check_words(&record)?;
    clients::check(&record)?;
    record.programs = programs::find(&record)?;
    Ok(record)
}

/// The plan of the record, whether or not the programs that it needs are installed.
pub fn planned_record(experiment: Experiment) -> Result<Record> {
    let (usable, mut warnings) = usable_of_host()?;
    file_systems::check_experiment(&experiment)?;
    let variants = variants::combined(&experiment)?;
    guest_config::check(&experiment, &variants, &allowed_cpus()?)?;
    let points = plan::points(&experiment, &variants, &usable);
    let points = points.map_err(|why| does_not_fit(why, &experiment))?;
    ensure!(!points.is_empty(), "the experiment has no point: an axis is an empty list");
    let commands = commands::for_experiment(&experiment, &variants)?;
    let metrics = commands::described(&commands)?;
    let operations = operations(&points, &experiment);
    let dirs: BTreeSet<&Path> = points.iter().map(|point| point.dir.as_path()).collect();
    let directories: Vec<_> = dirs.into_iter().map(probes::directory).collect();
    warnings.extend(not_compiled(&experiment));
    warnings.extend(pitfalls::warnings(&points, &directories, &variants, &experiment.storage));
    let host = probes::host(Path::new("/"));
    let topology = plan::usable(&experiment, variants.first(), &usable)?.topology.clone();
    let seed = experiment.seed.unwrap_or_else(random);
    let session = Session {
        command: host::command_line(),
        knee: env!("CARGO_PKG_VERSION").to_string(),
        started: jiff::Timestamp::now(),
        finished: None,
        boot_id: host.boot_id.clone().unwrap_or_default(),
        node: None,
        first_run: 0,
        host_changes: None,
    };
    let record = Record {
        format: FORMAT,
        id: String::new(),
        state: RecordState::Growing,
        label: String::new(),
        note: String::new(),
        experiment,
        seed,
        points,
        blocks: None,
        variants,
        source: None,
        metrics,
        commands,
        operations,
        programs: Default::default(),
        image: None,
        hypervisor: None,
        sessions: vec![session],
        host,
        clients: BTreeMap::new(),
        topology,
        directories,
        warnings,
        runs_finished: 0,
        runs_failed: 0,
        files: Default::default(),
    };
    adaptive::check_budget(&record)?;
    Ok(record)
}

/// An error of planning; if the experiment has sizes, with the advice that another may fit this host.
fn does_not_fit(why: anyhow::Error, experiment: &Experiment) -> anyhow::Error {
    let Experiment { name, size, .. } = experiment;
    match size.as_str() {
        "" | HERE => why,
        size => why.context(format!(
            "{name} at the size {size} does not fit this host; --size {HERE} may, and flags such as \
             --cpus change it"
        )),
    }
}

/// What a plan does not know of a load that is a file, as it compiles nothing; `None` if it knows all.
fn not_compiled(experiment: &Experiment) -> Option<Warning> {
    let own = experiment.own_loads();
    let names: Vec<String> = own.filter(|own| own.compiled.is_none()).map(OwnLoad::name).collect();
    let text = format!(
        "not compiled yet: {}; a plan compiles nothing, so it shows only the parameters that are given",
        names.join(", ")
    );
    (!names.is_empty()).then(|| Warning::new(text, "knee run compiles it before it measures"))
}

/// What one operation of each load is, other than commands, by the load's name.
fn operations(points: &[Point], experiment: &Experiment) -> BTreeMap<String, String> {
    let own_points = points.iter().filter(|point| point.command.is_none());
    let workloads = own_points.filter_map(|point| Workload::find(&point.workload));
    let native = workloads.map(|w| (w.name.to_string(), w.spec.operation.to_string()));
    let own_loads = experiment.own_loads();
    let compiled = |own: &OwnLoad| {
        let compiled = own.compiled.as_ref()?;
        let unverified = if compiled.verifies { "" } else { "; not verified" };
        Some((own.name(), format!("{}{unverified}", compiled.operation)))
    };
    native.chain(own_loads.filter_map(compiled)).collect()
}

/// What this process may use of the host, and warnings: a quota leaves some of it out, or the host does not say what CPUs
/// share.
fn usable_of_host() -> Result<(Usable, Vec<Warning>)> {
    let limits = probes::limits(Path::new("/"));
    let allowed = limits.cpus_allowed.map_err(anyhow::Error::msg)?;
    let (topology, unknown) = topology::of_process(Path::new("/sys"), &allowed);
    let cpus = topology.cpus.len();
    ensure!(cpus > 0, "this process may not use any online CPU: see taskset -p $$");
    let quota = limits.cpu_quota.ok().flatten().filter(|quota| *quota < cpus as f64);
    let unknown = unknown.map(|why| {
        Warning::new(
            format!(
                "each CPU counts as a core of its own, as the host hides which share one ({why})"
            ),
            "mount /sys, or choose CPUs with --host-cpus",
        )
    });
    let limited = quota.map(|quota| {
        Warning::new(
            format!(
                "the cgroup's quota is the time of {quota:.2} of {cpus} CPUs: runs use no more"
            ),
            "raise cpu.max to measure on all CPUs",
        )
    });
    let at_once = quota.map(|quota| quota.max(1.0) as u32);
    let without_history = directory_without_history();
    Ok((
        Usable { topology, at_once, directory: measured_directory, without_history },
        unknown.into_iter().chain(limited).collect(),
    ))
}

/// The shared memory's directory, if it is a tmpfs. Not if the user chose a temporary directory.
fn directory_without_history() -> Option<PathBuf> {
    let chosen = std::env::var_os("TMPDIR").is_some_and(|path| !path.is_empty());
    let memory = Path::new("/dev/shm");
    let is_tmpfs = probes::directory(memory).file_system.as_deref() == Some("tmpfs");
    (!chosen && is_tmpfs).then(|| memory.to_path_buf())
}

/// The canonical path of a directory to measure in.
fn measured_directory(dir: &Path) -> Result<PathBuf> {
    let path = dir
        .canonicalize()
        .with_context(|| format!("looking for the directory {} (--dir)", dir.display()))?;
    ensure!(path.is_dir(), "{} is not a directory (--dir)", path.display());
    // Records are JSON.
    ensure!(
        path.to_str().is_some(),
        "the name of {} is not UTF-8, which a record must be: choose another --dir",
        path.display()
    );
    Ok(path)
}

/// Refuses points with more tasks than the cgroup, the host or the user may have.
pub fn check_capacity(record: &Record) -> Result<()> {
    // Two more, for the worker and knee.
    let on_host = record.points.iter().filter(|point| record.guest(&point.variant).is_none());
    let needed = on_host.map(|p| p.tasks as u64 + 2).max().unwrap_or(0);
    let limits = probes::limits(Path::new("/"));
    let is_root = paths::user() == 0;
    let bounds = [
        ("the cgroup has room for", limits.tasks_of_group.ok().flatten(), "raise its pids.max"),
        ("this host has room for", limits.tasks_of_host, "raise kernel.threads-max and pid_max"),
        (
            "this user may have",
            limits.tasks_of_user.soft.filter(|_| !is_root),
            "raise the limit (ulimit -u)",
        ),
    ];
    for (holder, room, remedy) in bounds {
        let Some(room) = room else { continue };
        ensure!(
            needed <= room,
            "{needed} tasks are needed, {holder} {room}: use fewer, or {remedy}"
        );
    }
    Ok(())
}

/// Whether a record is resumed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resume {
    No,
    /// It is an error if there is none.
    Needed,
    /// The host was rebooted between two runs, perhaps before the first one finished.
    IfThere,
}

/// A new record, or the one to resume.
pub fn open_record(resume: Resume, store: &Store, record: Record) -> Result<Growing> {
    let hostname = record.host.hostname.clone().unwrap_or_default();
    for recovered in store.recover(&hostname)? {
        talk(format_args!("recovered {}, whose knee died", recovered.display()));
    }
    let found = match resume {
        Resume::No => None,
        Resume::Needed => Some(resumable(store, &record)?),
        Resume::IfThere => resumable(store, &record).ok(),
    };
    let Some(folder) = found else {
        let now = jiff::Timestamp::now();
        return store.begin(record, Id::new(now, random() as u32));
    };
    let mut growing = store.resume(&folder)?;
    // What runs is what this command asks for, whatever the record says by now.
    let kept = &mut growing.record;
    (kept.experiment, kept.points) = (record.experiment, record.points);
    (kept.commands, kept.variants) = (record.commands, record.variants);
    kept.clients = record.clients;
    let mut session = record.sessions.into_iter().next().expect("new records have one session");
    session.first_run = growing.next_run();
    let id = &growing.record.id;
    talk(format_args!("resuming {id}, which has {}", counted(session.first_run as usize, "run")));
    growing.record.sessions.push(session);
    for (kept, given) in
        [(&mut growing.record.label, record.label), (&mut growing.record.note, record.note)]
    {
        *kept = if given.is_empty() { std::mem::take(kept) } else { given };
    }
    Ok(growing)
}

/// What of the host or its directories has changed, if anything: runs before and after the change do
/// not belong in one record.
fn changed(then: &Record, now: &Record) -> Option<String> {
    let (a, b) = (&then.host, &now.host);
    // The host boots another kernel between sessions.
    let boots = then.experiment.has_metal();
    let parts = [
        ("the host", a.hostname == b.hostname && a.cpu_model == b.cpu_model),
        (
            "the kernel",
            boots || a.kernel_release == b.kernel_release && a.kernel_version == b.kernel_version,
        ),
        ("the kernel's command line", boots || a.kernel_command_line == b.kernel_command_line),
        ("the set of CPUs", then.topology == now.topology),
    ];
    let program = now.programs.iter().find(|(path, program)| {
        let before = then.programs.get(*path);
        before.is_none_or(|before| before.file != program.file || before.version != program.version)
    });
    if let Some((path, _)) = program {
        return Some(format!("the program {path}"));
    }
    if then.commands != now.commands {
        return Some("a command that comes with knee".to_string());
    }
    let is_same = |(on, before): (&String, &ClientHost)| {
        now.clients.get(on).is_some_and(|later| before.is_same(later))
    };
    if !then.clients.iter().all(is_same) {
        return Some("the client's host".to_string());
    }
    if then.variants != now.variants {
        return Some("a variant".to_string());
    }
    let part = parts.iter().find(|(_, same)| !same).map(|(name, _)| name.to_string());
    let mut knobs = a.knobs.iter().filter(|_| !boots);
    let knob = knobs.find(|(name, value)| b.knobs.get(*name) != Some(value));
    let mount = |d: &Directory| {
        (d.path.clone(), d.file_system.clone(), d.source.clone(), d.mount_options.clone())
    };
    let mounts = |record: &Record| record.directories.iter().map(mount).collect::<Vec<_>>();
    part.or_else(|| knob.map(|(name, _)| format!("the setting {name}"))).or_else(|| {
        (mounts(then) != mounts(now)).then(|| "the file system of a directory".to_string())
    })
}

/// The newest partial record that the same command would have made, on the same host and
/// kernel.
fn resumable(store: &Store, wanted: &Record) -> Result<PathBuf> {
    let index = Index::open(store, &paths::cache()?)?;
    for listed in index.newest(1000).iter().filter(|l| l.state == "partial") {
        let Ok(found) = store::open(&listed.folder) else { continue };
        let found = found.record;
        if found.experiment != wanted.experiment || found.points != wanted.points {
            continue;
        }
        if let Some(what) = changed(&found, wanted) {
            talk(format_args!("{} is not resumed: {what} has changed since", found.id));
            continue;
        }
        return Ok(listed.folder.clone());
    }
    bail!("no partial record of this experiment on this host and kernel: run without --resume")
}
