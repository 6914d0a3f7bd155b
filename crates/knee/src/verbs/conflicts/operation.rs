//! What `knee conflicts` traces: a workload, a load of the user's own, or a command, as a job for a guest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use answers::PairObjects;
use anyhow::{Context, Result, bail, ensure};
use conflicts::Counted;
use guests::libraries;
use host::executables::find_program;
use own_loads::Linkage;
use plan::commands::{self, Values, command_job};
use records::{
    Command, CommandJob, CommandLine, Experiment, Form, Guest, Job, Load, LoadWork, NativeJob,
    OwnJob, OwnLoad, PROTOCOL, Pass, Scalar, Until, Work,
};
use runner::places::guest::traced::TracedGuest;
use runner::places::guest::{directory_of_run, program_in_guest};
use setup::foreign::Foreign;
use workloads::{Family, ParameterKind, Workload};

use super::TIME;
use super::guest_flags::GuestFlags;
use crate::{experiment_file, named};

/// An operation to trace.
pub struct Operation {
    pub name: String,
    work: TracedWork,
    /// Whether an operation that runs beside this one works in the same directory.
    meets: bool,
}

enum TracedWork {
    Workload(NativeJob),
    Own(OwnLoad),
    /// A command, and the program that it starts.
    Command(Box<Command>, PathBuf),
}

/// The operations of these words, and the commands.
/// They are compiled where they are code.
pub fn of_words(
    words: &[String],
    commands: &[String],
    flags: &GuestFlags,
) -> Result<Vec<Operation>> {
    let mut loads: Vec<Load> = words.iter().map(|word| named::load(word)).collect::<Result<_>>()?;
    loads.extend(commands.iter().map(|line| {
        let run = CommandLine::Text(line.clone());
        Load::new(Command { run, ..Command::default() })
    }));
    ensure!(!loads.is_empty(), "nothing to trace: name a workload, a file in C, or a --command");
    // Where there are guests, loads are compiled for them, too; whichever kernel they will boot.
    let guest = Some(Guest { kernel: Some(PathBuf::from("any")), ..Guest::default() });
    let experiment = Experiment { loads, guest, ..Experiment::default() };
    let experiment = experiment_file::permitted(Foreign::typed(experiment), flags.yes)?;
    let experiment = own_loads::compile_all(experiment)?.into_inner();
    let operations: Vec<Operation> =
        experiment.loads.iter().map(|load| Operation::new(load, flags)).collect::<Result<_>>()?;
    operations.iter().try_for_each(|operation| operation.check_window(flags))?;
    Ok(operations)
}

impl Operation {
    fn new(load: &Load, flags: &GuestFlags) -> Result<Operation> {
        if let LoadWork::Own(own) = &load.work {
            return Ok(Operation {
                name: own.name(),
                work: TracedWork::Own((**own).clone()),
                meets: false,
            });
        }
        if let Some(command) = commands::for_load(load)? {
            ensure!(!command.shell, "{}: a virtual machine has no shell", command.name);
            let program = program_of(&command)?;
            let name = command.name.clone();
            let work = TracedWork::Command(Box::new(command), program);
            return Ok(Operation { name, work, meets: false });
        }
        let workload = plan::workload(&load.name())?;
        let given: BTreeMap<String, String> = flags.settings.iter().cloned().collect();
        let work = native_job(workload, &given)?;
        let name = name_with_settings(workload, &given);
        Ok(Operation { name, work: TracedWork::Workload(work), meets: false })
    }

    /// A call of the workload `path_call` on these objects.
    pub fn call(call: &str, objects: PairObjects, flags: &GuestFlags) -> Result<Operation> {
        let workload = plan::workload(PATH_CALL)?;
        let chosen = [("call", call), ("object", objects.name())];
        let chosen = chosen.map(|(name, value)| (name.to_string(), value.to_string()));
        let given = flags.settings.iter().cloned().chain(chosen).collect();
        let work = native_job(workload, &given)?;
        Ok(Operation { name: call.to_string(), work: TracedWork::Workload(work), meets: true })
    }

    /// Refuses a window that would not end in time: the shortest system call takes 30 to 60 µs where it is watched.
    fn check_window(&self, flags: &GuestFlags) -> Result<()> {
        const WINDOW_MAX: u64 = 1_000_000;
        let is_window = !matches!(self.work, TracedWork::Command(..));
        ensure!(
            !is_window || flags.window() <= WINDOW_MAX,
            "--operations {}: emulated CPUs that are watched do not get through more than {WINDOW_MAX} operations; some \
             hundreds show what each operation does, some thousands what happens once a batch",
            flags.window()
        );
        Ok(())
    }

    /// The files that it needs in the guest: their paths there, without the first slash, and here.
    pub fn files(&self) -> Result<BTreeMap<String, PathBuf>> {
        Ok(match &self.work {
            TracedWork::Workload(_) => BTreeMap::new(),
            TracedWork::Own(own) => {
                let program = own_loads::program(own, Linkage::Static)?;
                BTreeMap::from([(program_in_guest(&own.name()), program)])
            }
            TracedWork::Command(_, program) => libraries::with_libraries(program)?,
        })
    }

    /// The program that its tasks execute; none for workloads of knee.
    pub fn program(&self) -> Result<Option<PathBuf>> {
        Ok(match &self.work {
            TracedWork::Workload(_) => None,
            TracedWork::Own(own) => Some(own_loads::program(own, Linkage::Static)?),
            TracedWork::Command(_, program) => Some(program.clone()),
        })
    }

    /// The libraries of a command's program, with where they are loaded in the guest.
    pub fn libraries(&self, guest: &mut TracedGuest) -> Result<Vec<(PathBuf, u64)>> {
        let TracedWork::Command(_, program) = &self.work else { return Ok(Vec::new()) };
        let files = libraries::with_libraries(program)?;
        if !libraries::has_linker(&files) {
            return Ok(Vec::new());
        }
        let loaded = guest.libraries_of(&libraries::path_in_guest(program))?.into_iter();
        let here = |path: &str| files.get(path.trim_start_matches('/')).cloned();
        Ok(loaded.filter_map(|(path, address)| Some((here(&path)?, address))).collect())
    }

    /// Which of its operations are counted.
    pub fn counted(&self, flags: &GuestFlags) -> Counted {
        match &self.work {
            TracedWork::Command(..) => Counted::Whole(flags.window),
            _ => Counted::Windows([flags.window(), 2 * flags.window()]),
        }
    }

    /// The job that traces it; beside another operation, tasks of odd numbers do that.
    pub fn job(&self, beside: Option<&Operation>, flags: &GuestFlags) -> Result<Job> {
        Ok(Job {
            protocol: PROTOCOL,
            work: self.work_in_guest(flags)?,
            beside: beside.map(Operation::native).transpose()?,
            together: self.meets,
            form: if flags.threads { Form::Threads } else { Form::Processes },
            tasks: flags.tasks,
            cpus: (0..flags.tasks).collect(),
            until: match self.work {
                TracedWork::Command(..) => Until::End,
                // A warm-up as long as the first window, and a second one of twice that.
                _ => Until::OperationsPerTask(4 * flags.window()),
            },
            pass: Pass::Rate,
            profile: None,
            scratch: scratch(flags),
            keep: false,
            allocations: false,
            traced: true,
            daemon: None,
            stop_grace_s: TIME.as_secs_f64(),
        })
    }

    fn work_in_guest(&self, flags: &GuestFlags) -> Result<Work> {
        Ok(match &self.work {
            TracedWork::Workload(native) => Work::Workload(native.clone()),
            TracedWork::Own(own) => Work::Own(OwnJob {
                name: own.name(),
                program: Path::new("/").join(program_in_guest(&own.name())),
                interface: own.compiled.as_ref().context("the load is not compiled")?.interface,
                parameters: flags.settings.iter().cloned().collect(),
            }),
            TracedWork::Command(command, program) => {
                Work::Command(command_in_guest(command, program, flags)?)
            }
        })
    }

    /// The workload of knee that it is.
    pub fn native(&self) -> Result<NativeJob> {
        match &self.work {
            TracedWork::Workload(native) => Ok(native.clone()),
            _ => bail!("{}: only workloads of knee run in pairs (knee list workloads)", self.name),
        }
    }
}

/// The workload whose parameters are the call and what tasks have in common.
const PATH_CALL: &str = "path_call";

/// The calls of that workload.
pub fn path_calls() -> Result<&'static [&'static str]> {
    let mut parameters = plan::workload(PATH_CALL)?.parameters();
    let call = parameters.find(|parameter| parameter.name == "call");
    match call.map(|parameter| parameter.kind) {
        Some(ParameterKind::Choice(calls)) => Ok(calls),
        _ => bail!("internal error: {PATH_CALL} has no choice of calls"),
    }
}

/// The name of a workload, of a lock or mechanism with its settings: of others, a simulation runs the source.
fn name_with_settings(workload: &Workload, given: &BTreeMap<String, String>) -> String {
    let has_source = matches!(workload.spec.family, Family::UserLocks | Family::UserMechanisms);
    let settings =
        given.iter().filter(|_| has_source).map(|(name, value)| format!("{name}={value}"));
    [workload.name.to_string()].into_iter().chain(settings).collect::<Vec<_>>().join(" ")
}

fn native_job(workload: &Workload, given: &BTreeMap<String, String>) -> Result<NativeJob> {
    let values = workloads::Values::new(workload, given).map_err(anyhow::Error::msg)?;
    Ok(NativeJob {
        name: workload.name.to_string(),
        semantics: workload.spec.semantics,
        parameters: values.as_map().clone(),
    })
}

/// Where the run has its directory in the guest.
fn scratch(flags: &GuestFlags) -> PathBuf {
    directory_of_run("traced", flags.file_system.is_some())
}

/// The program of this host that a command starts.
fn program_of(command: &Command) -> Result<PathBuf> {
    let line = commands::split(&command.run)?;
    let name = line.first().context("the command is empty")?;
    find_program(name)
        .with_context(|| format!("{name} is no file, and not in PATH: name a program"))
}

/// The command with its program and its libraries where the guest has them.
fn command_in_guest(command: &Command, program: &Path, flags: &GuestFlags) -> Result<CommandJob> {
    let environment = [("LD_LIBRARY_PATH", libraries::LIBRARIES), ("HOME", "/tmp")];
    let environment = environment.map(|(name, value)| (name.to_string(), Scalar(value.into())));
    let mut command = Command { directory: None, timeout_s: TIME.as_secs_f64(), ..command.clone() };
    command.environment.extend(environment);
    let scratch = scratch(flags);
    let cpus: Vec<String> = (0..flags.tasks).map(|cpu| cpu.to_string()).collect();
    let tasks = cpus.len().to_string();
    let known = [
        ("cpus", tasks.clone()),
        ("tasks", tasks),
        ("cpu_list", cpus.join(",")),
        ("scratch", scratch.display().to_string()),
    ];
    let known = known.map(|(name, value)| (name.to_string(), value)).into_iter();
    let values: Values = known.chain(flags.settings.iter().cloned()).collect();
    let mut job = command_job(&command, &values, &scratch)?;
    job.run[0] = libraries::path_in_guest(program);
    Ok(job)
}
