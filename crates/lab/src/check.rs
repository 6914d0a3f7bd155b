//! `knee check`: model-checks algorithms, by searching all interleavings of their tasks, or
//! tests that the search catches their mutants.

mod accepted;
mod data;
mod litmus;
mod orderings;
mod page;
mod sarif;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use crate::c_files::{self, Checkable, CompilerFlags};
use algorithms::locks::LOCKS;
use algorithms::mechanisms::MECHANISMS;
use algorithms::mechanisms::file_locks::{DESIGNS, Deadlocks, Design};
use answers::{Checks, DesignAgainstKernel, FollowedSchedule, KernelComparisons, Mutants};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use engines::Unsupported;
use engines::checker::{
    Failure, Fault, Memory, Options, ReplayResult, Schedule, Setup, TASKS_MAX, replay, sample,
    search,
};
use host::terminal::{hint, talk};
use host::unknown;
use pages::ViewFlags;
use studies::checks::accepted::{Acceptance, Accepted, accept_all};
use studies::checks::against_kernel::{KernelComparison, compare};
use studies::checks::bypass::{Fairness, fairness};
use studies::checks::mutants::{self, Fate, JudgedMutant};
use studies::checks::{Besides, CheckResult, CheckSize, Mutation, Verdict, with_tasks};
use studies::{MechanismDesign, Subject};

/// Model-check algorithms: search all interleavings of their tasks
///
/// Each answer is *holds*, *WRONG* with a shortest way there and how to replay it, or *not checked* with the reason. A file
/// in C or C++ is compiled, and every access of the compiled code is searched. See `knee help own-lock`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Algorithms, `all` (see `knee list algorithms`), or files with a lock or a data structure in C or C++
    ///
    /// A file my_lock.c, or queue.cc, includes knee_lock.h (see `knee show knee_lock.h`).
    #[arg(required_unless_present = "litmus")]
    names: Vec<String>,
    #[command(flatten)]
    flags: CompilerFlags,
    /// Number of concurrent tasks
    #[arg(long, default_value_t = 3, value_name = "N")]
    threads: usize,
    /// Lock acquisitions per task; for mechanisms, operations per task
    #[arg(long, default_value_t = 1, value_name = "M")]
    acquires: u32,
    /// Locks that each task holds simultaneously, nested: 1 to 4
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=4))]
    locks: u8,
    /// Lock that guards a mechanism [default: ticket]
    #[arg(long, value_name = "LOCK")]
    over: Option<String>,
    /// Memory model: `rc11`, all that C11 and C++20 allow; `armv8`, that of Arm; `lkmm`, the kernel's (`lkmm-6.2`: until Linux
    /// 6.2); `x86`, its store buffers; `sc`, no reordering [default: this machine's and rc11]
    #[arg(long, value_parser = memory_model(), hide_possible_values = true, value_name = "MODEL")]
    memory: Option<Memory>,
    /// `--memory x86`, as it was called before
    #[arg(long, hide = true, conflicts_with = "memory")]
    tso: bool,
    /// Search litmus tests in C, a file or a folder of them: whether their outcomes are possible
    #[arg(long, value_name = "PATH", conflicts_with_all = ["names", "tso", "mutants", "sample", "replay", "against_kernel", "cflags", "include"])]
    litmus: Option<PathBuf>,
    /// Mutate one memory access after the other, and report which mutants the search catches
    #[arg(long, conflicts_with_all = ["tso", "sample", "replay", "threads", "acquires", "locks"])]
    mutants: bool,
    /// Weaken acquires, releases and fences: which are needed, by default under rc11
    #[arg(long, conflicts_with_all = ["tso", "mutants", "sample", "replay", "against_kernel", "litmus", "threads", "acquires", "locks", "over"])]
    orderings: bool,
    /// Run this many random schedules (PCT) instead of a full search, for larger setups
    #[arg(long, value_name = "SCHEDULES", conflicts_with = "replay")]
    sample: Option<u64>,
    /// Pairs of steps whose order makes the faults that random schedules look for
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=8), requires = "sample", hide_short_help = true)]
    depth: u8,
    /// Seed of random schedules and calls
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Make this many random calls to file_locks and to the running kernel, and compare results
    #[arg(long, value_name = "CALLS", conflicts_with_all = ["sample", "mutants", "replay", "memory", "tso"])]
    against_kernel: Option<u64>,
    /// Accept data races of the access on this line of a file in C; its accesses then count as relaxed atomics
    ///
    /// The verdict names the races that were accepted.
    #[arg(long, value_name = "FILE:LINE", hide_short_help = true, conflicts_with_all = ["mutants", "orderings", "against_kernel", "litmus"])]
    accept_race: Vec<String>,
    /// Also write faults to this file in SARIF 2.1.0, for editors and code review
    #[arg(long, value_name = "FILE", hide_short_help = true, conflicts_with_all = ["mutants", "orderings", "against_kernel", "litmus", "replay"])]
    sarif: Option<PathBuf>,
    /// Replay a schedule, as printed with a failure
    #[arg(long, value_name = "SCHEDULE")]
    replay: Option<String>,
    /// Disable symmetry reduction: distinguish states that differ only in task ids
    #[arg(long, hide_short_help = true)]
    no_symmetry: bool,
    /// Disable partial-order reduction: also reorder steps that commute with all others
    #[arg(long, hide_short_help = true)]
    no_reduction: bool,
    /// Give up after this many states
    #[arg(long, default_value_t = 100_000_000, value_name = "STATES", hide_short_help = true)]
    states: u64,
    /// Compile and run files that others wrote without asking (`knee help safety`)
    #[arg(long, hide_short_help = true)]
    yes: bool,
    #[command(flatten)]
    view: ViewFlags,
}

/// Reads a memory model by its name.
fn memory_model() -> impl TypedValueParser<Value = Memory> {
    let names = Memory::ALL.into_iter().rev().map(Memory::name);
    PossibleValuesParser::new(names).map(|name| {
        let named = Memory::ALL.into_iter().find(|memory| memory.name() == name);
        named.expect("a name of the list")
    })
}

impl Arguments {
    fn memory(&self) -> Memory {
        match self.memory {
            _ if self.tso => Memory::TotalStoreOrder,
            Some(memory) => memory,
            None => Memory::of_this_machine(),
        }
    }

    fn over(&self) -> &str {
        self.over.as_deref().unwrap_or("ticket")
    }
}

/// Calls `act` with the tasks of what is checked at their start.
fn with_checkable<R>(file: &Checkable, size: CheckSize, act: impl FnMut(&Setup) -> R) -> Result<R> {
    with_tasks(subject(file)?, size, Mutation::None, act)
}

/// What is checked, or why it cannot be.
fn subject(file: &Checkable) -> Result<&Subject> {
    file.as_ref().map_err(|refused| refused.why.clone().into())
}

fn is_mechanism(file: &Checkable) -> bool {
    matches!(file, Ok(Subject::Mechanism(_)))
}

/// Status of a check in which nothing is wrong, and something could not be checked.
const NOT_CHECKED: u8 = 3;

/// Checks and prints. The status is 1 if a fault was found, else [`NOT_CHECKED`] if a search was not possible or not
/// complete.
pub fn run(arguments: &Arguments) -> Result<ExitCode> {
    if let Some(path) = &arguments.litmus {
        return litmus::run(path, arguments.memory, arguments.states, &arguments.view);
    }
    let files = c_files::checkable(&arguments.names, &arguments.flags, arguments.yes)?;
    arguments.flags.refuse_unused(files.len())?;
    let mut subjects = named(arguments, &files)?;
    if arguments.names.iter().any(|name| name == "all") {
        leave_out_mechanisms(arguments, &mut subjects);
    }
    ensure!(
        (1..=TASKS_MAX).contains(&arguments.threads),
        "--threads {}: must be 1 to {TASKS_MAX}",
        arguments.threads
    );
    ensure!(arguments.acquires <= 1000, "--acquires {}: must be at most 1000", arguments.acquires);
    let subjects = checkable(arguments, subjects)?;
    let has_mechanism = subjects.iter().any(is_mechanism);
    ensure!(
        arguments.over.is_none() || has_mechanism,
        "--over names the lock that guards a mechanism, and no mechanism is checked: leave it out"
    );
    accepted::refuse_unknown(&arguments.accept_race, &subjects)?;
    if arguments.mutants {
        return judge(arguments, &subjects);
    }
    if arguments.orderings {
        let memory = arguments.memory.unwrap_or(Memory::Rc11);
        return orderings::run(&subjects, memory, &arguments.flags, &arguments.view);
    }
    if let Some(calls) = arguments.against_kernel {
        return against_kernel(arguments, &subjects, calls);
    }
    if let Some(schedule) = &arguments.replay {
        let [subject] = &subjects[..] else { bail!("--replay: name a single algorithm") };
        return follow(arguments, subject, schedule);
    }
    let mut results = Vec::new();
    for subject in &subjects {
        hint(format_args!("checking {} …", c_files::name(subject)));
        results.push(check(arguments, subject)?);
    }
    if let Some(file) = &arguments.sarif {
        sarif::write(file, &results)?;
    }
    let again = || {
        let failed = results.iter().zip(&subjects).filter_map(|(checked, subject)| {
            let Verdict::Wrong(failure) = checked.verdict() else { return None };
            Some(replay_command(arguments, subject, checked, failure))
        });
        failed.collect()
    };
    arguments.view.print(
        || Ok(Checks(results.iter().map(data::checked).collect())),
        || Ok(page::results(&results, again())),
    )?;
    Ok(status(&results))
}

/// Leaves mechanisms out of all algorithms where their searches would take minutes; searches of locks take seconds.
fn leave_out_mechanisms(arguments: &Arguments, subjects: &mut Vec<Checkable>) {
    let is_large = arguments.threads as u32 * arguments.acquires > 2 && arguments.sample.is_none();
    if arguments.orderings || is_large && !arguments.mutants {
        subjects.retain(|subject| !is_mechanism(subject));
    }
    if is_large && !arguments.mutants && !arguments.orderings {
        talk(
            "mechanisms are skipped: `all` includes them with --threads 2 --acquires 1 or with \
             --sample",
        );
    }
}

fn status(results: &[CheckResult]) -> ExitCode {
    let is = |test: fn(&Verdict) -> bool| results.iter().any(|checked| test(&checked.verdict()));
    if is(|verdict| matches!(verdict, Verdict::Wrong(_))) {
        ExitCode::FAILURE
    } else if is(|verdict| matches!(verdict, Verdict::NotChecked(_))) {
        ExitCode::from(NOT_CHECKED)
    } else {
        ExitCode::SUCCESS
    }
}

/// The algorithms with these names, in the order given. A mechanism is checked in all its
/// designs, or in one: `file_locks:after`.
fn named(arguments: &Arguments, files: &[Checkable]) -> Result<Vec<Checkable>> {
    let mechanisms = MECHANISMS.iter().flat_map(|mechanism| {
        mechanism.designs().into_iter().map(move |design| {
            let (over, given) = (arguments.over().to_string(), Vec::new());
            Subject::Mechanism(MechanismDesign { mechanism, design, over, given })
        })
    });
    let all = LOCKS.iter().map(Subject::Lock).chain(mechanisms);
    let all: Vec<(String, Subject)> = all.map(|subject| (subject.name(), subject)).collect();
    let mut subjects = Vec::new();
    for name in &arguments.names {
        if let Some(file) = c_files::checkable_named(files, name) {
            subjects.push(file.clone());
            continue;
        }
        let before = subjects.len();
        let matches =
            |full: &str| name == "all" || full == *name || full.split(':').next() == Some(name);
        let matching = all.iter().filter(|(full, _)| matches(full));
        subjects.extend(matching.map(|(_, subject)| Ok(subject.clone())));
        if subjects.len() == before {
            let known = all.iter().map(|(full, _)| full.as_str());
            bail!("{}", unknown("algorithm", name, known, "knee list algorithms"));
        }
    }
    Ok(subjects)
}

/// The subjects that can be checked with these arguments. Refuses arguments with which nothing,
/// or less than requested, would be checked.
fn checkable(arguments: &Arguments, mut subjects: Vec<Checkable>) -> Result<Vec<Checkable>> {
    let nothing = |flag, why| format!("{flag} 0: {why}, so there would be nothing to check");
    ensure!(arguments.acquires > 0, nothing("--acquires", "no task would take the lock"));
    ensure!(arguments.states > 0, nothing("--states", "the search would give up at its start"));
    ensure!(arguments.sample != Some(0), nothing("--sample", "no schedule would be tried"));
    ensure!(arguments.against_kernel != Some(0), nothing("--against-kernel", "no call is made"));
    let takes_one_lock = |subject: &Checkable| {
        subject.as_ref().is_ok_and(|it| !it.is_lock() || it.is_read_write_lock())
    };
    let all = arguments.names.iter().any(|name| name == "all");
    if arguments.locks > 1 && all {
        subjects.retain(|subject| !takes_one_lock(subject));
    }
    for subject in &subjects {
        let name = c_files::name(subject);
        ensure!(
            arguments.locks == 1 || !takes_one_lock(subject),
            "{name} --locks {}: its tasks take a single lock; try an exclusive lock",
            arguments.locks
        );
    }
    Ok(subjects)
}

fn size(arguments: &Arguments) -> CheckSize {
    let (threads, acquires) = (arguments.threads, arguments.acquires);
    CheckSize { threads, acquires, locks: arguments.locks.into() }
}

fn options(arguments: &Arguments) -> Options {
    let memory = arguments.memory();
    let (symmetry, reduction) = (!arguments.no_symmetry, !arguments.no_reduction);
    let (states_max, shortest) = (arguments.states, true);
    Options { memory, symmetry, reduction, states_max, shortest, ..Options::default() }
}

/// Checks under the memory model that is asked for; else under that of this machine, and what holds there by the
/// language's rules, too, but for files of the kernel, which has rules of its own.
fn check(arguments: &Arguments, subject: &Checkable) -> Result<CheckResult> {
    let options = options(arguments);
    let mut checked = check_under(arguments, subject, &options)?;
    if !matches!(checked.verdict(), Verdict::Holds) {
        return Ok(checked);
    }
    if checked.sleeps {
        // A futex call, and so a condition variable, may return without a wake-up.
        let again = Options { spurious_wakeups: true, ..options };
        match besides(arguments, subject, &again, &mut checked)? {
            Ok(too) => checked.by_itself = Some(too),
            Err(wrong) => return Ok(CheckResult { is_spurious: true, ..wrong }),
        }
    }
    let program = if let Ok(Subject::InC(program)) = subject { Some(program) } else { None };
    let is_of_kernel = program.is_some_and(|program| program.is_of_kernel);
    let asks_for_none = arguments.memory.is_none() && !arguments.tso;
    if asks_for_none && program.is_some_and(|program| program.is_for_x86()) {
        let why = "it has assembly of x86, or KNEE_X86_ORDER, whose orders C11 does not know";
        let unsupported = Unsupported::new(why, "check it with --memory rc11");
        checked.by_language = Some(Besides::NotChecked(unsupported));
    } else if asks_for_none && !is_of_kernel {
        let again = Options { memory: Memory::Rc11, ..options };
        match besides(arguments, subject, &again, &mut checked)? {
            Ok(too) => checked.by_language = Some(too),
            Err(wrong) => return Ok(wrong),
        }
    }
    let lock = subject.as_ref().ok().filter(|subject| subject.is_lock() && checked.size.locks == 1);
    if let Some(lock) = lock {
        checked.fairness = known_fairness(fairness(lock))?;
    }
    Ok(checked)
}

/// Searches what holds with other options besides; `Err` is what is wrong then. It does about as much work as was done before, so
/// that the answer does not keep its reader waiting.
fn besides(
    arguments: &Arguments,
    subject: &Checkable,
    options: &Options,
    checked: &mut CheckResult,
) -> Result<std::result::Result<Besides, CheckResult>> {
    let states_max = checked.states.unwrap_or_default().max(BESIDES_STATES_MAX);
    let states_max = states_max.min(options.states_max);
    let options = Options { states_max, ..*options };
    let mut other = check_under(arguments, subject, &options)?;
    checked.accepted.merge(std::mem::take(&mut other.accepted));
    Ok(match other.verdict() {
        Verdict::Wrong(_) => {
            other.accepted = std::mem::take(&mut checked.accepted);
            Err(other)
        }
        Verdict::NotChecked(why) => Ok(Besides::NotChecked(why)),
        Verdict::Holds | Verdict::NothingFound => {
            Ok(Besides::Holds(other.states.unwrap_or_default()))
        }
    })
}

/// States of a search that was not asked for, at least.
const BESIDES_STATES_MAX: u64 = 300_000;

fn check_under(
    arguments: &Arguments,
    subject: &Checkable,
    options: &Options,
) -> Result<CheckResult> {
    let size = size(arguments);
    let since = Instant::now();
    let mut checked = CheckResult {
        name: c_files::name(subject),
        size,
        memory: options.memory,
        states: None,
        schedules: None,
        coverage: None,
        steps: 0,
        seconds: 0.0,
        gave_up: false,
        failure: None,
        holds_on: Vec::new(),
        by_language: None,
        sleeps: false,
        by_itself: None,
        is_spurious: false,
        refused: None,
        fairness: None,
        accepted: Accepted::default(),
        counts_tries: false,
    };
    if let Err(error) = search_accepting(arguments, subject, options, &mut checked) {
        let refused = error.downcast_ref::<Unsupported>().cloned();
        checked.refused = Some(refused.ok_or(error)?);
    }
    checked.counts_tries = matches!(subject, Ok(Subject::InC(program)) if program.counts_tries());
    checked.seconds = since.elapsed().as_secs_f64();
    let is_wrong = matches!(checked.verdict(), Verdict::Wrong(_));
    if is_wrong && options.memory.reads_old() && arguments.sample.is_none() {
        checked.holds_on = stronger_models(subject, size, options)?;
    }
    Ok(checked)
}

/// The stronger memory models under which the same tasks hold.
fn stronger_models(subject: &Checkable, size: CheckSize, options: &Options) -> Result<Vec<Memory>> {
    let states_max = options.states_max.min(STRONGER_STATES_MAX);
    let mut holding = Vec::new();
    for memory in [Memory::TotalStoreOrder, Memory::SequentiallyConsistent] {
        let options = Options { memory, states_max, shortest: false, ..*options };
        let searched = with_checkable(subject, size, |setup| search(setup, &options))??;
        if searched.failure.is_none() && !searched.gave_up {
            holding.push(memory);
        }
    }
    Ok(holding)
}

/// States of the searches that say where a fault of weak memory is none.
const STRONGER_STATES_MAX: u64 = 2_000_000;

/// None if the lock cannot be brought into its first state for as few tasks as fairness is searched with.
fn known_fairness(fairness: Result<Fairness>) -> Result<Option<Fairness>> {
    fairness.map(Some).or_else(|error| error.is::<Unsupported>().then_some(None).ok_or(error))
}

/// Searches, or samples, again as long as the race that was found is an accepted one.
fn search_accepting(
    arguments: &Arguments,
    checkable: &Checkable,
    options: &Options,
    checked: &mut CheckResult,
) -> Result<()> {
    let subject = subject(checkable)?;
    let given = accepted::lines_of(subject, &arguments.accept_race)?;
    let Some(mut acceptance) = Acceptance::new(subject, &given) else {
        return search_or_sample(arguments, checkable, options, checked);
    };
    let searches_again = loop {
        search_or_sample(arguments, checkable, &acceptance.options(options), checked)?;
        match acceptance.searches_again(checked.failure.as_ref()) {
            Ok(true) => {}
            ended => break ended,
        }
    };
    checked.accepted = acceptance.end();
    searches_again.map(drop)
}

fn search_or_sample(
    arguments: &Arguments,
    subject: &Checkable,
    options: &Options,
    checked: &mut CheckResult,
) -> Result<()> {
    let size = checked.size;
    if let Some(schedules) = arguments.sample {
        let sampled = with_checkable(subject, size, |setup| {
            sample(setup, options, schedules, arguments.depth.into(), arguments.seed)
        })??;
        checked.schedules = Some(sampled.schedules);
        checked.coverage = Some(sampled.coverage);
        (checked.steps, checked.failure) = (sampled.steps, sampled.failure);
    } else {
        let searched = with_checkable(subject, size, |setup| search(setup, options))??;
        checked.states = Some(searched.states);
        (checked.steps, checked.failure) = (searched.steps, searched.failure);
        (checked.gave_up, checked.sleeps) = (searched.gave_up, searched.sleeps);
    }
    Ok(())
}

/// The command that replays a failure.
fn replay_command(
    arguments: &Arguments,
    subject: &Checkable,
    checked: &CheckResult,
    failure: &Failure,
) -> String {
    let CheckSize { threads, acquires, locks } = checked.size;
    let locks = if locks > 1 { format!(" --locks {locks}") } else { String::new() };
    let over = match arguments.over() {
        "ticket" => String::new(),
        over => format!(" --over {over}"),
    };
    let memory = match checked.memory {
        memory if memory == Memory::of_this_machine() => String::new(),
        memory => format!(" --memory {}", page::memory(memory)),
    };
    let name = c_files::as_argument(subject);
    let flags = arguments.flags.to_line();
    let accepted: String =
        checked.accepted.lines.iter().map(|line| format!(" --accept-race {line}")).collect();
    format!(
        "knee check {name} --threads {threads} --acquires {acquires}{locks}{over}{memory}{accepted}{flags} --replay {}",
        c_files::quoted(&failure.schedule.to_string())
    )
}

fn follow(arguments: &Arguments, subject: &Checkable, schedule: &str) -> Result<ExitCode> {
    let schedule: Schedule = schedule.parse().map_err(|why: String| anyhow!("--replay: {why}"))?;
    let mut options = options(arguments);
    if let Ok(subject) = subject {
        let given = accepted::lines_of(subject, &arguments.accept_race)?;
        accept_all(subject, &given, &mut options);
    }
    let replayed =
        with_checkable(subject, size(arguments), |setup| replay(setup, &options, &schedule))??;
    let ReplayResult { steps, fault } = replayed.map_err(|why| anyhow!("--replay: {why}"))?;
    arguments.view.print(
        || {
            Ok(FollowedSchedule {
                steps: steps.clone(),
                fault: fault.as_ref().map(Fault::to_string),
            })
        },
        || Ok(page::followed(&c_files::name(subject), &steps, fault.as_ref())),
    )?;
    Ok(match fault {
        None => ExitCode::SUCCESS,
        Some(Fault::Unsupported(_)) => ExitCode::from(NOT_CHECKED),
        Some(_) => ExitCode::FAILURE,
    })
}

fn against_kernel(arguments: &Arguments, subjects: &[Checkable], calls: u64) -> Result<ExitCode> {
    let mut all = Vec::new();
    for subject in subjects {
        let design = match subject {
            Ok(Subject::Mechanism(of)) if of.mechanism.name == "file_locks" => {
                DESIGNS.iter().find(|(name, _)| *name == of.design)
            }
            _ => bail!("--against-kernel: only file_locks can be compared with the kernel"),
        };
        let (_, design) = *design.context("a listed design")?;
        let name = c_files::name(subject);
        if design.deadlocks == Deadlocks::Ignored {
            // The kernel detects deadlocks, so this design differs from it on purpose.
            talk(format_args!("{name} is skipped: unlike the kernel, it ignores deadlocks"));
            continue;
        }
        hint(format_args!("comparing {name} with the kernel …"));
        all.push(one_against_kernel(name, design, calls, arguments.seed));
    }
    ensure!(
        !all.is_empty(),
        "--against-kernel: the kernel detects deadlocks and these designs do not: name another \
         design"
    );
    let same = all.iter().all(|one| one.difference.is_none());
    let page = page::against_kernel(&all, arguments.seed);
    arguments.view.print(|| Ok(KernelComparisons(all)), || Ok(page))?;
    Ok(if same { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Compares one design with the kernel.
fn one_against_kernel(name: String, design: Design, calls: u64, seed: u64) -> DesignAgainstKernel {
    let since = Instant::now();
    let compared = compare(calls, design, seed);
    let seconds = since.elapsed().as_secs_f64();
    let difference = compared.as_ref().err().map(|why| format!("{why:#}"));
    let KernelComparison {
        granted, refused, deadlocks, waited, asked, forks, exits, tables, ..
    } = compared.unwrap_or_default();
    DesignAgainstKernel {
        name,
        calls,
        granted,
        refused,
        deadlocks,
        waited,
        asked,
        forks,
        exits,
        tables,
        seconds,
        difference,
    }
}

fn judge(arguments: &Arguments, subjects: &[Checkable]) -> Result<ExitCode> {
    let mut all: Vec<(String, Judged)> = Vec::new();
    let memories = judged_models(arguments);
    for file in subjects {
        // Mechanisms are judged once for all designs: a mutant is caught if one of them catches it.
        let name = match file {
            Ok(Subject::Mechanism(design)) => design.mechanism.name.to_string(),
            _ => c_files::name(file),
        };
        if all.iter().any(|(judged, _)| *judged == name) {
            continue;
        }
        hint(format_args!("judging mutants of {name} …"));
        let judged = subject(file).and_then(|subject| mutants::judge_under(subject, &memories));
        all.push((name, not_checked_apart(judged)?));
    }
    let value = || Mutants(all.iter().map(|(name, judged)| data::mutated(name, judged)).collect());
    arguments.view.print(|| Ok(value()), || Ok(page::mutants(&all, &memories)))?;
    let survived = |judged: &JudgedMutant| matches!(judged.fate, Fate::Survived);
    let any_survived = |(_, judged): &(_, Judged)| judged.iter().flatten().any(survived);
    Ok(if all.iter().any(any_survived) {
        ExitCode::FAILURE
    } else if all.iter().any(|(_, judged)| judged.is_err()) {
        ExitCode::from(NOT_CHECKED)
    } else {
        ExitCode::SUCCESS
    })
}

/// The memory models under which mutants are judged: what fails already in a simple one need not be searched in others.
fn judged_models(arguments: &Arguments) -> Vec<Memory> {
    let most = match arguments.memory {
        None => Memory::TotalStoreOrder,
        Some(_) => arguments.memory(),
    };
    match most {
        Memory::SequentiallyConsistent => vec![most],
        _ => vec![Memory::SequentiallyConsistent, most],
    }
}

/// The mutants of an algorithm, or why it cannot be checked.
type Judged = std::result::Result<Vec<JudgedMutant>, Unsupported>;

/// Separates what cannot be checked from failures.
fn not_checked_apart(judged: Result<Vec<JudgedMutant>>) -> Result<Judged> {
    judged.map(Ok).or_else(|error| match error.downcast_ref::<Unsupported>() {
        Some(why) => Ok(Err(why.clone())),
        None => Err(error),
    })
}
