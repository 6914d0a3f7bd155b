//! `knee conflicts`: the cache lines that an operation's CPUs contend for, counted on emulated CPUs.

pub mod guest_flags;
mod matrix;
pub mod one_cpu;
mod operation;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::slice;
use std::time::Duration;

use answers::{ConflictAnswer, Conflicts, LineChange, PairObjects};
use anyhow::{Context, Result, ensure};
use conflicts::{KernelImage, Namer, Traced};
use described_hosts::DescribedHost;
use host::signals;
use host::terminal::hint;
use pages::ViewFlags;
use perf_data::KernelTypes;
use records::FileSystem;
use records::operations::RecordedOperations;
use runner::places::guest::traced::TracedGuest;
use store::Store;

use self::guest_flags::GuestFlags;
use self::one_cpu::OneCpu;
use self::operation::Operation;
use crate::flags::{BuildFlags, kernel};

/// Name the cache lines that an operation's CPUs contend for, counted on emulated CPUs
///
/// Each operation runs on emulated CPUs, one task on each, in a virtual machine with the kernel. Every access of the
/// operation to memory is seen, so the counts are exact and need no large machine: which lines more than one CPU needs,
/// how often an operation, by member of the kernel's structures. Nothing is timed. The rate that no number of CPUs
/// passes is computed from the transfer times of described hosts. See `knee help conflicts`.
///
/// Exit status: 0 success; 2 knee could not do it; 3 a line is new, with --fail-if new-conflict; 130 interrupted.
#[derive(clap::Args)]
pub struct Arguments {
    /// Workloads (`knee list workloads`), files in C (`knee new load`); with --user, a program and its arguments
    #[arg(required_unless_present_any = ["commands", "matrix"], value_name = "LOAD")]
    operations: Vec<String>,
    /// Trace a whole run of a program in the virtual machine
    ///
    /// {tasks} is the number of CPUs. The virtual machine gets the program and its libraries, and has no shell. Counts are
    /// those of the whole program, or an operation if --operations says how many it does.
    #[arg(long = "command", value_name = "LINE", conflicts_with_all = ["user", "matrix"])]
    commands: Vec<String>,
    /// Run each pair of workloads beside each other
    ///
    /// One task in two does the one, the others the other. One boot does all. `all` are the workloads of files, memory,
    /// locks, scheduling and IPC. Without workloads, calls on files are paired, on each of --objects.
    #[arg(long, conflicts_with_all = ["user", "fail_if"])]
    matrix: bool,
    /// Pair calls on files: own, directory, file
    ///
    /// What the calls have in common: nothing (own), the directory, or the path (file); several words are separated by
    /// commas. The calls are those of the workload path_call, such as open, rename and stat.
    #[arg(long, value_name = "WHAT", value_parser = objects, value_delimiter = ',', requires = "matrix")]
    objects: Vec<PairObjects>,
    /// Run a program in QEMU's user mode: no kernel
    ///
    /// Each of its threads is a CPU. Counts are then those of the whole program, or an operation if --operations says how many it does.
    #[arg(long, conflicts_with_all = ["kernels", "modules", "cmdline", "tasks", "threads", "settings", "file_system", "fail_if"])]
    user: bool,
    /// Kernel file, folder in which make was run, source tree or git revision [default: this host's]
    ///
    /// Several are compared with the first: base=v6.12 new=. A source tree, with its uncommitted changes, and a revision of
    /// --git are built first: in minutes, later in one. A folder with arch/x86/boot/bzImage is taken as its make left it.
    #[arg(long = "kernel", value_name = "[NAME=]WHAT", value_parser = kernel)]
    kernels: Vec<(String, PathBuf)>,
    #[command(flatten)]
    guest: GuestFlags,
    /// Described host whose transfer times bound the rate (`knee list hosts`)
    #[arg(long = "host", value_name = "HOST", default_value = "icelake-2s")]
    hosts: Vec<String>,
    /// One CPU's rate, to say how many CPUs meet the bound
    ///
    /// Such as 1.2M/s.
    #[arg(long, value_name = "RATE", value_parser = one_cpu::rate, conflicts_with_all = ["record", "matrix"])]
    rate: Option<f64>,
    /// Record that has the rates of one CPU
    ///
    /// `last`, a label, an id or its start, or a directory.
    #[arg(long, value_name = "RECORD", conflicts_with_all = ["matrix", "user", "commands"])]
    record: Option<String>,
    /// Add the first operations step by step to --json
    ///
    /// For `knee simulate --operation`, which repeats them on the CPUs of a described host.
    #[arg(long, hide_short_help = true, conflicts_with_all = ["matrix", "user", "commands"])]
    steps: bool,
    /// Exit with status 3 if a line is contended that was not on the first kernel
    #[arg(long, value_enum, value_name = "CHANGE")]
    fail_if: Option<FailIf>,
    #[command(flatten)]
    view: ViewFlags,
    #[command(flatten)]
    build: BuildFlags,
}

/// A change that a script may act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum FailIf {
    /// A line is new, needs more transfers, or has come to share with others
    NewConflict,
}

/// Exit status of a change that `--fail-if` names.
const FAILED: u8 = 3;

/// How long the operations of one workload may take, in emulation.
const TIME: Duration = Duration::from_secs(600);

fn objects(text: &str) -> Result<PairObjects> {
    let named = PairObjects::ALL.into_iter().find(|objects| objects.name() == text);
    named.context("must be own, directory or file")
}

/// Boots each kernel once, traces each operation there, and prints what they contend for.
pub fn run(arguments: &Arguments, store: &Store) -> Result<ExitCode> {
    if arguments.user {
        return of_program(arguments);
    }
    if arguments.matrix {
        return matrix::run(arguments);
    }
    let operations =
        operation::of_words(&arguments.operations, &arguments.commands, &arguments.guest)?;
    let rates = OneCpu::find(arguments, &operations, store)?;
    let made = arguments.guest.made()?;
    let hosts = hosts(arguments)?;
    let kernels = kernels(arguments)?;
    signals::catch();
    let mut answer = ConflictAnswer::default();
    for (name, path) in &kernels {
        let name = (kernels.len() > 1).then_some(name.as_str());
        let asked = Asked {
            made: made.as_ref(),
            hosts: &hosts,
            flags: &arguments.guest,
            records: arguments.steps,
        };
        let traced = on_kernel((name, path), &operations, asked)?;
        answer.traced.extend(traced);
    }
    answer.traced.iter_mut().for_each(|traced| rates.meet(traced));
    let (first, others) = answer.traced.split_at(operations.len());
    let pairs =
        others.iter().enumerate().map(|(number, after)| (&first[number % operations.len()], after));
    answer.differences =
        pairs.map(|(before, after)| conflicts::difference(before, after)).collect();
    let has_new =
        answer.differences.iter().flat_map(|difference| &difference.changed).any(|line| {
            matches!(line.change, LineChange::New | LineChange::More | LineChange::Joined)
        });
    let page = pages::conflicts(&answer);
    arguments.view.print(|| Ok(answer), || Ok(page))?;
    let failed = has_new && arguments.fail_if == Some(FailIf::NewConflict);
    Ok(if failed { ExitCode::from(FAILED) } else { ExitCode::SUCCESS })
}

/// Runs a program under QEMU's user mode, and prints what its threads contend for.
fn of_program(arguments: &Arguments) -> Result<ExitCode> {
    let hosts = hosts(arguments)?;
    let program = guests::program::trace(&arguments.operations)?;
    ensure!(
        program.status.success(),
        "{} ended with {}: what it did until then is not shown",
        arguments.operations[0],
        program.status
    );
    let named = arguments.operations[0].rsplit('/').next().unwrap_or_default();
    let mut traced = conflicts::of_program(&program, named, arguments.guest.window, &hosts);
    OneCpu::given(arguments.rate).meet(&mut traced);
    let traced = vec![traced];
    let answer = ConflictAnswer { traced, ..ConflictAnswer::default() };
    let page = pages::conflicts(&answer);
    arguments.view.print(|| Ok(answer), || Ok(page))?;
    Ok(ExitCode::SUCCESS)
}

fn hosts(arguments: &Arguments) -> Result<Vec<DescribedHost>> {
    arguments.hosts.iter().map(|name| described_hosts::find(name)).collect()
}

/// The kernels to boot, with their names. Builds those that are sources.
fn kernels(arguments: &Arguments) -> Result<Vec<(String, PathBuf)>> {
    match &arguments.kernels[..] {
        [] => Ok(vec![this_hosts()?]),
        given => arguments.build.images(given, arguments.guest.yes),
    }
}

/// The kernel file of this host.
fn this_hosts() -> Result<(String, PathBuf)> {
    let release =
        probes::host(Path::new("/")).kernel_release.context("reading the kernel's release")?;
    let path = PathBuf::from(format!("/boot/vmlinuz-{release}"));
    ensure!(
        path.is_file(),
        "this host's kernel is not at {}: name one with --kernel, such as a vmlinuz of a package",
        path.display()
    );
    Ok((release, path))
}

/// The first operations of each load step by step, on a kernel or this host's.
pub fn recorded(
    words: &[String],
    kernel: Option<&(String, PathBuf)>,
    flags: &GuestFlags,
    build: &BuildFlags,
) -> Result<Vec<RecordedOperations>> {
    let operations = operation::of_words(words, &[], flags)?;
    let made = flags.made()?;
    let kernels = match kernel {
        None => vec![this_hosts()?],
        Some(kernel) => build.images(slice::from_ref(kernel), flags.yes)?,
    };
    signals::catch();
    let asked = Asked { made: made.as_ref(), hosts: &[], flags, records: true };
    let mut recorded = Vec::new();
    for (_, path) in &kernels {
        recorded.extend(on_kernel((None, path), &operations, asked)?);
    }
    Ok(recorded.into_iter().filter_map(|traced| traced.recorded).collect())
}

/// How operations are traced.
#[derive(Clone, Copy)]
struct Asked<'a> {
    made: Option<&'a FileSystem>,
    hosts: &'a [DescribedHost],
    flags: &'a GuestFlags,
    /// Whether answers have operations step by step.
    records: bool,
}

/// Traces all operations on one kernel, in one boot.
fn on_kernel(
    (name, path): (Option<&str>, &Path),
    operations: &[Operation],
    asked: Asked,
) -> Result<Vec<Conflicts>> {
    let mut traced = boot(path, operations, asked.made, asked.flags)?;
    let release = traced.boot_facts().release.clone();
    let on = name.map_or(release.clone(), |name| format!("{name} ({release})"));
    let types = types(&traced)?;
    let namer = types.as_ref().map(|types| Namer::new(types, &traced.symbols));
    let tracing = Tracing { asked, namer: namer.as_ref() };
    let mut answers = Vec::new();
    for operation in operations {
        let answer = tracing.trace(&mut traced, operation, None);
        let answer = answer.with_context(|| format!("{} on {on}", operation.name))?;
        answers.push(Conflicts { on: on.clone(), ..answer });
        hint(format_args!("{}: traced", operation.name));
    }
    traced.end();
    Ok(answers)
}

/// Boots a kernel with what the operations need.
fn boot<'a>(
    path: &Path,
    operations: impl IntoIterator<Item = &'a Operation>,
    made: Option<&FileSystem>,
    flags: &GuestFlags,
) -> Result<TracedGuest> {
    let path = path.canonicalize().with_context(|| format!("looking for {}", path.display()))?;
    let guest = flags.guest(path);
    let mut files = BTreeMap::new();
    for operation in operations {
        files.extend(operation.files()?);
    }
    let traced = TracedGuest::boot(&guest, made, files.into_iter().collect())?;
    let boot = traced.boot_facts();
    hint(format_args!("Linux {} booted in {:.1} s", boot.release, boot.up_s));
    Ok(traced)
}

/// The types of a guest's kernel and of its modules; `None` without BTF.
pub fn types(traced: &TracedGuest) -> Result<Option<KernelTypes>> {
    let Some(mut types) = conflicts::kernel_types(traced.memory()?, &traced.symbols) else {
        return Ok(None);
    };
    for (module, of_module) in traced.module_types() {
        if let Err(why) = types.add_module(module, of_module) {
            hint(format_args!("the types of the module {module} are not used: {why}"));
        }
    }
    Ok(Some(types))
}

/// What all traces of a boot need.
struct Tracing<'a> {
    asked: Asked<'a>,
    /// What names the kernel's members.
    namer: Option<&'a Namer<'a>>,
}

impl Tracing<'_> {
    /// Traces an operation, or one beside another.
    fn trace(
        &self,
        traced: &mut TracedGuest,
        operation: &Operation,
        beside: Option<&Operation>,
    ) -> Result<Conflicts> {
        let tasks = self.asked.flags.tasks;
        let libraries = operation.libraries(traced)?;
        let trace = traced.run(&operation.job(beside, self.asked.flags)?, self.asked.made, TIME)?;
        let (memory, symbols) = (traced.memory()?, &traced.symbols);
        let mut image = KernelImage::new(memory, symbols, self.namer, tasks as usize)?;
        if let Some(program) = operation.program()? {
            image = image.with_program(&program, &libraries, &trace)?;
        }
        let traced = Traced {
            operation: operation.name.clone(),
            on: traced.boot_facts().release.clone(),
            tasks,
            counted: operation.counted(self.asked.flags),
            trace: &trace,
            records: self.asked.records,
        };
        Ok(conflicts::of_guest(&traced, &image, self.asked.hosts))
    }
}
